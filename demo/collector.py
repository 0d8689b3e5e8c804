"""`make demo-collector`: run a collector, thirty simulated hosts, and a cluster of five more hosts.

A host takes a minute instead of an hour, and is stuck after ten seconds without a report.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from demo import cluster
from demo.cluster import Cluster
from demo.fleet import Machine, Provisioning, fleet
from service_record.collector.serving_settings import CollectorSettings
from service_record.http.collector_answers import Hosts
from service_record.http.collector_client import CollectorClient
from testing.collector import PROGRAM, process

_GROUPS: Final = ("dc1", "dc2")


@dataclass(frozen=True, slots=True)
class Running:
    """A running collector, with tokens for readers and groups."""

    url: str
    data: Path
    reader: Path
    tokens: Mapping[str, str]

    def hosts(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run `service-record hosts` and return its result."""
        command = [*PROGRAM, "hosts", "--from", self.url, "--token-file", str(self.reader), *arguments]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)

    def verdicts(self) -> dict[str, str]:
        """Return {host: verdict}."""
        with self.asking() as client:
            return {host.name: host.verdict for host in client.get("/api/v1/hosts", Hosts).hosts}

    def asking(self) -> CollectorClient:
        """Return a client with an admin token."""
        return CollectorClient(self.url, self.reader.read_text().strip())


@contextmanager
def collector(folder: Path, budget: float) -> Iterator[Running]:
    """Run a collector on loopback, with an admin token and a token for each data centre."""
    data, reader = folder / "data", folder / "reader-token"
    create = [*PROGRAM, "collector", "token", "create", "--data", str(data)]
    subprocess.run([*create, "admin", "--output", str(reader)], check=True)
    tokens = {
        group: subprocess.run([*create, "group", group], check=True, capture_output=True, text=True).stdout
        for group in _GROUPS
    }
    with process(CollectorSettings(data=data), "--budget", f"{budget:.3f}s") as serving:
        yield Running(serving.url, data, reader, {group: token.strip() for group, token in tokens.items()})


@dataclass(frozen=True, slots=True)
class Demonstration:
    """The simulated hosts. Some of them run until `stop`."""

    hosts: Provisioning
    cluster: Cluster

    def stop(self) -> None:
        """Stop all hosts that still run."""
        self.cluster.stop()
        self.hosts.stop()


def provisioned(
    running: Running,
    machines: tuple[Machine, ...],
    seconds: float,
    patience: float,
    show: Callable[[Running, str], None] = lambda _running, _title: None,
) -> tuple[Demonstration, dict[str, str]]:
    """Run the hosts until each has its expected verdict, but at most for `patience` seconds.

    `seconds`: the duration of the demonstration. `show` is called once before the end, to print the hosts.
    Returns the hosts, some of which still run, and the latest verdicts.
    """
    with running.asking() as client:
        for machine in machines:
            if machine.fate == "never":  # an administrator creates it, and it never boots
                client.send("PUT", f"/api/v1/hosts/{machine.name}", body=b'{"group": "dc2/rack1"}')
    hosts = Provisioning(running.url, running.tokens, seconds)
    demonstration = Demonstration(hosts, Cluster(running.url, running.reader.read_text().strip(), seconds))
    hosts.start(machines)
    demonstration.cluster.start()
    expected = {machine.name: machine.expected for machine in machines} | dict(cluster.EXPECTED)
    began = time.monotonic()
    is_early = False
    while (verdicts := running.verdicts()) != expected and time.monotonic() < began + patience:
        if not is_early and time.monotonic() > began + seconds / 6:
            is_early = True
            show(running, f"After {seconds / 6:g} s:")
        time.sleep(seconds / 30)
    return demonstration, verdicts


def main() -> None:
    """Print the verdicts of the collector, and serve its pages until Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m demo.collector", description=__doc__)
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="approximate duration of the demonstration"
    )
    parser.add_argument("--once", action="store_true", help="exit when all hosts have their verdicts")
    chosen = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="service-record-demo-") as directory,
        collector(Path(directory), chosen.seconds / 6) as running,
    ):
        _note(f"Thirty hosts provision, and five form a cluster, for {chosen.seconds:g} s: {running.url}")
        _note(f"To look at it meanwhile, sign in there with the token in {running.reader}")
        hosts, _ = provisioned(running, fleet(), chosen.seconds, 3 * chosen.seconds, _print_hosts)
        try:
            _print_hosts(running, "At the end:")
            if not chosen.once:
                _note(f"\nThe page: {running.url}, with the token in {running.reader}. Ctrl-C ends it.")
                with suppress(KeyboardInterrupt):
                    while True:
                        time.sleep(3600)
        finally:
            hosts.stop()


def _print_hosts(running: Running, title: str) -> None:
    is_terminal = sys.stdout.isatty()
    if is_terminal:
        os.environ["COLUMNS"] = str(os.get_terminal_size().columns)
    hosts = running.hosts("--color", "always" if is_terminal else "never").stdout
    sys.stdout.write(f"\n{title}\n{hosts}")
    sys.stdout.flush()


def _note(text: str) -> None:
    sys.stderr.write(f"{text}\n")


if __name__ == "__main__":
    main()
