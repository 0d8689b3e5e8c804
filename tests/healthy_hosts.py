"""Healthy hosts, and the same with a service that waited in vain, as bundles; tests/hosts/healthy.yaml."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import yaml

from service_record.diagnosis import Diagnosis, diagnose
from service_record.diagnosis.causes import Causes
from service_record.diagnosis.judgement import judge_evidence, make_scanner
from service_record.history import build_history
from service_record.record.entry import Entry, Phase, Result
from tests.builders import entry, timestamp

FILE: Final = Path(__file__).parent / "hosts" / "healthy.yaml"
TOP: Final = "log-bundle-1/bootstrap/"
FACTS: Final[Mapping[str, str]] = {
    "network/hostname.txt": "host.lab.example.net",
    "network/resolv.conf": "search example.net\nnameserver 192.0.2.53",
    "network/nsswitch.conf": "passwd: files sss\nhosts: files dns myhostname",
    "network/ip-addr.txt": "1: lo: <LOOPBACK,UP> mtu 65536\n    inet 127.0.0.1/8 scope host lo\n"
    "2: ens3: <BROADCAST,UP> mtu 1500 state UP\n    inet 192.0.2.20/24 scope global dynamic ens3",
    "network/ip-route.txt": "default via 192.0.2.1 dev ens3 proto dhcp\n192.0.2.0/24 dev ens3 proto kernel",
    "storage/lsblk.txt": "NAME   FSTYPE MOUNTPOINTS\nvda\n├─vda3 ext4   /boot\n└─vda4 xfs    /",
    "storage/df.txt": "Filesystem Type Size Used Avail Use% Mounted on\n/dev/vda4 xfs 98G 12G 87G 12% /",
    "system/memory.txt": "MemTotal:       16384000 kB\nMemAvailable:   11222000 kB",
    "system/chrony-tracking.txt": "Reference ID    : C000027B (192.0.2.123)\nLeap status     : Normal",
    "system/kernel-command-line.txt": "BOOT_IMAGE=(hd0,gpt3)/ostree/fedora-coreos root=UUID=abc rw",
}
"""Files of a host for which its own entry has none."""
WAITED: Final = "Error: error while checking pod status: timed out waiting for the condition"
ENDED: Final = 600.0
"""Seconds after the start at which the service that waited failed."""


@dataclass(frozen=True, slots=True)
class Host:
    """One host of the file."""

    values: Mapping[str, Any]

    @property
    def name(self) -> str:
        return str(self.values["name"])

    @property
    def files(self) -> dict[str, str]:
        """Path in its bundle -> text. Lines of the journal are of the minute before ENDED."""
        values = self.values
        files = {f"{TOP}{path}": text for path, text in {**FACTS, **values.get("files", {})}.items()}
        kernel = _dated(f"kernel: {line}" for line in values.get("kernel", "").splitlines())
        files[f"{TOP}journals/kernel.log"] = kernel
        files[f"{TOP}journals/journal.log"] = kernel + _dated(values.get("journal", "").splitlines())
        for name, text in values.get("containers", {}).items():
            files[f"{TOP}containers/{name}-1f2e.log"] = text
        if "agent" in values:
            files[f"{TOP}agent/agent.log"] = values["agent"]
        if "installer" in values:
            files["var/log/cloud-init.log"] = values["installer"]
        return files

    def records(self) -> Iterator[tuple[str, list[Entry]]]:
        """Yield its services, of which none has failed."""
        for number, (service, does) in enumerate(self.values["services"].items()):
            identity = {"invocation_id": f"{number:032x}", "pid": 7000 + number}
            run = [entry(Phase.SERVICE_START, number, **identity)]
            if does == "runs":
                run.append(entry(Phase.SERVICE_END, ENDED, **identity))
            yield service, run

    def diagnosis(
        self, rules: Causes, *failed: tuple[str, list[Entry]], logs: Mapping[str, str] = {}
    ) -> Diagnosis:
        """Return the diagnosis of its bundle by these rules, with these services and logs besides."""
        history = build_history([*self.records(), *failed])
        reading = make_scanner(rules, history)
        for path, text in {**self.files, **logs}.items():
            reading.read(path, BytesIO(text.encode()).read)
        causes = rules.with_evidence(reading.evidence(), history)
        found = judge_evidence(diagnose(history, explain=causes.explain), causes)
        assert found is not None
        return found


def _dated(lines: Any) -> str:
    return "".join(f"{timestamp(ENDED - 60 + number)} host {line}\n" for number, line in enumerate(lines))


def waited(message: str = WAITED) -> tuple[str, list[Entry]]:
    """Return a service that failed with this message, its own lines being nowhere else."""
    failure = {"result": Result.FAILURE, "error_message": message, "exit_code": 1}
    identity = {"invocation_id": "ee" * 16, "pid": 6999}
    return "waiting", [
        entry(Phase.SERVICE_START, 1, **identity),
        entry(Phase.SERVICE_END, ENDED, **identity, **failure),
    ]


def healthy_hosts() -> list[Host]:
    return [Host(values) for values in yaml.safe_load(FILE.read_text(encoding="utf-8"))]
