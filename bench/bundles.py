"""Bundles as support gets them, in any number: hosts that failed of a cause, and hosts that did not.

`python -m bench.bundles DIRECTORY NUMBER [--days 28] [--order 1]`. What a host says of its cause, and what
its kernel, journal, containers and files say, comes from the cases of the rules (tests/causes); its logs are
those of an ordinary boot. One host in twenty fails of what no rule knows. One cause begins in the last week,
and another becomes more frequent then. One order makes the same bundles.
"""

import argparse
import gzip
import io
import json
import random
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import yaml

_CASES: Final = Path(__file__).resolve().parents[1] / "tests" / "causes"
_LOG_BYTES: Final = 1 << 20
_FIRST_DAY: Final = datetime(2026, 10, 1, tzinfo=UTC)
_HEALTHY: Final = 0.2
"""The share of hosts with no trouble."""
_UNKNOWN: Final = 0.05
"""The share of hosts that fail of what no rule knows."""
_NEW: Final = 0.05
"""The share of hosts that fail of the new cause in the last week."""
_READ: Final = {"own", "says", "kernel", "journal", "units", "containers", "files"}
"""Documents of a case that go into its bundle."""
_JOURNAL: Final = "journals/journal.log"
_WORDS: Final = (
    "Started",
    "Finished",
    "Reached target",
    "Listening on",
    "Mounting",
    "Created slice",
    "Starting",
)
_THINGS: Final = (
    "crio.service",
    "kubelet.service",
    "var-lib-etcd.mount",
    "NetworkManager.service",
    "sshd.service",
)


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure of a host, in the host's own words."""

    rule: str
    message: str
    """The last words of the service."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Path below the top of a bundle -> text, or lines of a log."""


def failures() -> list[Failure]:
    """Return the first case of each rule in which a service fails with last words."""
    cases = [
        Failure(rule["rule"], case["own"], _files(case))
        for path in sorted(_CASES.glob("*.yaml"))
        for rule in yaml.safe_load(path.read_text())
        for case in [each for each in rule["fires"] if "own" in each and set(each) <= _READ][:1]
    ]
    return list({case.rule: case for case in cases}.values())


def _files(case: Mapping[str, Any]) -> dict[str, str]:
    journal = _journal(case.get("journal", ""))
    journal += "".join(_journal(text, f"{name}[7]: ") for name, text in case.get("units", {}).items())
    containers = case.get("containers", {})
    return {
        **({"journals/kernel.log": _journal(case["kernel"], "kernel: ")} if "kernel" in case else {}),
        **({_JOURNAL: journal} if journal else {}),
        **{f"containers/{name}-1f2e.log": f"{text}\n" for name, text in containers.items()},
        **case.get("files", {}),
    }


def _journal(lines: str, program: str = "") -> str:
    return "".join(f"2026-10-01T09:00:00.000000+00:00 host {program}{line}\n" for line in lines.splitlines())


def make_bundles(directory: Path, number: int, days: int = 28, order: int = 1) -> None:
    """Write so many bundles of about 1 MiB of logs each into a directory."""
    chance = random.Random(order)
    causes = failures()
    chance.shuffle(causes)
    new, rising, *others = causes
    weights = [1 / place for place in range(1, len(others) + 1)]  # few causes are most of the failures
    log = _log(chance)
    for n in range(number):
        at = _FIRST_DAY + timedelta(days=days * n / number)
        failure: Failure | None = chance.choices(others, weights)[0]
        is_last_week = n / number > 1 - 7 / days
        kind = chance.random()
        if kind < _HEALTHY:
            failure = None
        elif kind < _HEALTHY + _UNKNOWN:
            failure = Failure(
                "", f"sprocket {n} of {chance.choice(_THINGS)}: the gauge shows {n % 97}, not 12"
            )
        elif is_last_week and kind > 1 - _NEW:
            failure = new
        elif kind > (1 - 3 * _NEW if is_last_week else 1 - _NEW / 2):
            failure = rising
        _write(directory / f"{n // 1000:03d}/host{n:06d}.tar.gz", members_of(n, at, failure, log))


def _log(chance: random.Random) -> bytes:
    lines: list[str] = []
    size = 0
    while size < _LOG_BYTES:
        second = len(lines) // 20
        line = (
            f"2026-10-01T09:{second // 60 % 60:02d}:{second % 60:02d}.{chance.randrange(10**6):06d}+00:00 "
            "host "
            f"systemd[1]: {chance.choice(_WORDS)} {chance.choice(_THINGS)} - {chance.getrandbits(64):016x}."
        )
        lines.append(line)
        size += len(line) + 1
    return "".join(f"{line}\n" for line in lines).encode()


def members_of(n: int, at: datetime, failure: Failure | None, log: bytes) -> Iterator[tuple[str, bytes]]:
    files = {
        "network/hostname.txt": f"host{n}.example.net\n",
        "system/os-release.txt": f"ID=rhcos\nVERSION_ID=4.{18 + n % 3}\n",
        "system/kernel-command-line.txt": "ignition.platform.id=metal\n",
        **(failure.files if failure else {}),
    }
    top = f"log-bundle-{at:%Y%m%d%H%M%S}/bootstrap"
    yield f"{top}/services/bootkube.json", _record(n, at, failure.message if failure else None)
    yield f"{top}/{_JOURNAL}", log + files.pop(_JOURNAL, "").encode()
    for path, text in files.items():
        yield f"{top}/{path}", text.encode()


def _record(n: int, at: datetime, message: str | None) -> bytes:
    common = {"bootId": f"{n:032x}", "invocationId": f"{n + 1:032x}", "pid": 4711}
    end: dict[str, Any] = {"result": "success"}
    if message is not None:
        end = {
            "result": "failure",
            "errorMessage": message,
            "errorLine": "12 main /usr/local/bin/bootkube.sh",
        }
    phases: Sequence[tuple[str, int, dict[str, Any]]] = (
        ("service start", 0, {}),
        ("stage start", 1, {"stage": "cvo-bootstrap"}),
        ("stage end", 61, {"stage": "cvo-bootstrap"} | end),
        ("service end", 61, end),
    )
    entries = (
        {"timestamp": f"{at + timedelta(seconds=s):%Y-%m-%dT%H:%M:%S}.000Z", "phase": phase, **more, **common}
        for phase, s, more in phases
    )
    return b"".join(json.dumps(each).encode() + b"\n" for each in entries)


def _write(path: Path, members: Iterator[tuple[str, bytes]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wb", compresslevel=1) as packed, tarfile.open(fileobj=packed, mode="w") as archive:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("number", type=int)
    parser.add_argument("--days", type=int, default=28)
    parser.add_argument("--order", type=int, default=1)
    arguments = parser.parse_args()
    make_bundles(arguments.directory, arguments.number, arguments.days, arguments.order)


if __name__ == "__main__":
    main()
