"""Bundles as support gets them, in any number: hosts that failed of a cause, and hosts that did not.

`python -m bench.bundles DIRECTORY NUMBER [--days 28] [--order 1]`. What a host says of its cause comes from
the cases of the rules (tests/causes), and its logs are those of an ordinary boot. One order makes the same
bundles.
"""

import argparse
import gzip
import io
import json
import random
import tarfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import yaml

_CASES: Final = Path(__file__).resolve().parents[1] / "tests" / "causes"
_LOG_BYTES: Final = 1 << 20
_FIRST_DAY: Final = datetime(2026, 10, 1, tzinfo=UTC)
_HEALTHY: Final = 0.2
"""The share of hosts with no trouble."""
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


def messages() -> list[tuple[str, str]]:
    """Return what services say of each cause that their own last lines tell: rule and message."""
    found = []
    for path in sorted(_CASES.glob("*.yaml")):
        for rule in yaml.safe_load(path.read_text()):
            own = [case["own"] for case in rule["fires"] if set(case) <= {"own", "says"} and case.get("own")]
            found += [(rule["rule"], message) for message in own[:1]]
    return found


def make_bundles(directory: Path, number: int, days: int = 28, order: int = 1) -> None:
    """Write so many bundles of about 1 MiB of logs each into a directory."""
    chance = random.Random(order)
    causes = messages()
    weights = [1 / place for place in range(1, len(causes) + 1)]  # few causes are most of the failures
    chance.shuffle(causes)
    log = _log(chance)
    for n in range(number):
        at = _FIRST_DAY + timedelta(days=days * n / number)
        (_, message), *_ = chance.choices(causes, weights)
        said = None if chance.random() < _HEALTHY else message
        _write(directory / f"{n // 1000:03d}/host{n:06d}.tar.gz", _members(n, at, said, log))


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
    return "\n".join(lines).encode()


def _members(n: int, at: datetime, message: str | None, log: bytes) -> Iterator[tuple[str, bytes]]:
    top = f"log-bundle-{at:%Y%m%d%H%M%S}/bootstrap"
    yield f"{top}/services/bootkube.json", _record(n, at, message)
    yield f"{top}/network/hostname.txt", f"host{n}.example.net\n".encode()
    release = f"ID=rhcos\nVERSION_ID=4.{18 + n % 3}\n"
    yield f"{top}/system/os-release.txt", release.encode()
    yield f"{top}/system/kernel-command-line.txt", b"ignition.platform.id=metal\n"
    yield f"{top}/journals/journal.log", log


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
    """Write bundles as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("number", type=int)
    parser.add_argument("--days", type=int, default=28)
    parser.add_argument("--order", type=int, default=1)
    arguments = parser.parse_args()
    make_bundles(arguments.directory, arguments.number, arguments.days, arguments.order)


if __name__ == "__main__":
    main()
