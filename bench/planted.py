"""Bundles with planted truth, and a table of how much of it `triage` finds.

`python -m bench.planted` makes 300 hosts' bundles, as `bench.bundles` does but with small logs: 200 of three
weeks, and 100 of the last week. Known and unknown failures are planted, and what support meets beside them:
hosts that sent ten bundles, copies, wrong clocks, cut files, odd names. It exits with 1 if anything differs.
"""

import gzip
import io
import json
import os
import random
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import yaml

from bench.bundles import Failure, failures, members_of

_RULES: Final = Path(__file__).resolve().parents[1] / "service_record" / "diagnosis" / "rules"
_START: Final = datetime(2025, 10, 1, tzinfo=UTC)
_BEFORE: Final = 200
_NOW: Final = 100
_STEADY: Final = 6
_RISING: Final = 3
_NEW: Final = 3
_UNKNOWN: Final = (
    "the gauge of the sprocket shows 17, not 12",
    "frobnicate: lost contact with the mothership",
)
_LOG: Final = b"2025-10-01T09:00:00.000000+00:00 host systemd[1]: Started crio.service.\n" * 20
_PROGRAM: Final = (sys.executable, "-c", "from service_record.cli import main; main()")


@dataclass
class Truth:
    """What was planted."""

    hosts: dict[str, int] = field(default_factory=dict)
    """Cause, or words of an unknown line -> the hosts with it."""
    new: set[str] = field(default_factory=set)
    rising: set[str] = field(default_factory=set)
    not_judged: set[str] = field(default_factory=set)
    """File names, as triage prints them."""
    wrong_clocks: set[str] = field(default_factory=set)
    bundles: int = 0


def plant(directory: Path, order: int = 1) -> Truth:
    """Write the bundles, and return what they hold."""
    chance = random.Random(order)
    truth = Truth()
    # A symptom that is alone in a bundle is not named: its line is.
    causes = {
        rule["name"] for rule in _rules() if rule.get("rank", "cause") == "cause" and not rule.get("symptom")
    }
    known = [failure for failure in failures() if failure.rule in causes]
    chance.shuffle(known)
    steady, rest = known[:_STEADY], known[_STEADY:]
    rising, new = rest[:_RISING], rest[_RISING : _RISING + _NEW]
    unknown = [Failure("", text) for text in _UNKNOWN]
    before: list[Failure | None] = [*steady * 12, *rising * 4, *unknown * 4]
    now: list[Failure | None] = [*steady * 6, *rising * 9, *unknown * 2, *new * 2]
    before += [None] * (_BEFORE - len(before))
    now += [None] * (_NOW - len(now))
    for planted in filter(None, (*before, *now)):
        name = planted.rule or planted.message
        truth.hosts[name] = truth.hosts.get(name, 0) + 1
    truth.rising = {failure.rule for failure in rising}
    truth.new = {failure.rule for failure in new}
    for part in (before, now):
        chance.shuffle(part)
    for n, failure in enumerate((*before, *now)):
        days = 21 * n / _BEFORE if n < _BEFORE else 21 + 7 * (n - _BEFORE) / _NOW
        write(directory / f"host{n:03}.tar.gz", n, _START + timedelta(days=days), failure)
    truth.bundles = _BEFORE + _NOW
    _add_oddities(directory, steady, truth)
    return truth


def _rules() -> list[Any]:
    return [rule for path in sorted(_RULES.glob("*.yaml")) for rule in yaml.safe_load(path.read_text())]


def _add_oddities(directory: Path, steady: Sequence[Failure], truth: Truth) -> None:
    """Add bundles that must change none of the counts of hosts, but for those that are named here."""
    last = _START + timedelta(days=27)
    for n in range(10):  # one host that sends a bundle every hour
        write(directory / f"repeated{n}.tar.gz", 900, last + timedelta(hours=n), steady[0])
    truth.hosts[steady[0].rule] += 1
    write(directory / "future.tar.gz", 901, datetime(2036, 10, 24, tzinfo=UTC), steady[1])
    truth.hosts[steady[1].rule] += 1
    truth.wrong_clocks = {"future.tar.gz"}
    write(directory / "odd", 902, _START, steady[2])
    (directory / "odd").rename(directory / os.fsdecode(b"caf\xe9 \xff.tar.gz"))
    truth.hosts[steady[2].rule] += 1
    truth.bundles += 12
    whole = gzip.decompress((directory / "host000.tar.gz").read_bytes())
    (directory / "copy.tar").write_bytes(whole)
    with tarfile.open(fileobj=io.BytesIO(whole)) as archive:
        archive.extractall(directory / "unpacked", filter="data")
    write(directory / "cut.tar.gz", 903, last, None)
    data = (directory / "cut.tar.gz").read_bytes()
    (directory / "cut.tar.gz").write_bytes(data[: len(data) * 6 // 10])
    (directory / "empty.tar.gz").write_bytes(b"")
    (directory / "portal.tar.gz").write_bytes(b"<html><title>502 Bad Gateway</title></html>")
    truth.not_judged = {"cut.tar.gz", "empty.tar.gz", "portal.tar.gz"}
    truth.bundles += 3


def write(path: Path, n: int, at: datetime, failure: Failure | None) -> None:
    """Write the bundle of a host whose hardware and release depend on its number."""
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = random.Random(n).randbytes(3000).hex().encode()  # a log that does not compress to nothing
    hardware = (b"Dell Inc.\n", b"HPE\n", b"Supermicro\n")[n % 3]
    more: Iterator[tuple[str, bytes]] = iter(
        [("bootstrap/system/hardware-vendor.txt", hardware), ("bootstrap/other/noise.txt", noise)]
    )
    with gzip.open(path, "wb", compresslevel=1) as packed, tarfile.open(fileobj=packed, mode="w") as archive:
        for members in (members_of(n, at, failure, _LOG), more):
            for name, data in members:
                info = tarfile.TarInfo(name)
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))


def triaged(directory: Path) -> Any:
    """Return the answer of `triage` to a folder."""
    done = subprocess.run(
        [*_PROGRAM, "triage", str(directory), "-o", "json"], stdout=subprocess.PIPE, check=False
    )
    return json.loads(done.stdout)


def table(truth: Truth, answer: Any) -> list[tuple[str, object, object]]:
    """Return rows: what, as planted, as found."""
    found = {cause["cause"]: cause for cause in answer["causes"]}
    unknown = dict.fromkeys(_UNKNOWN, 0)
    for cause in answer["unknown"]:
        text = next((text for text in _UNKNOWN if text == cause["line"]), cause["line"])
        unknown[text] = unknown.get(text, 0) + cause["hosts"]
    everything = [*answer["causes"], *answer["unknown"]]

    def names(mark: str) -> list[str]:
        return sorted(cause["cause"] or cause["says"] for cause in everything if cause[mark])

    def files(items: str) -> list[str]:
        return sorted(Path(item["bundle"]).name for item in answer[items])

    rows: list[tuple[str, object, object]] = [
        ("bundles", truth.bundles, answer["bundles"]),
        ("new", sorted(truth.new), names("new")),
        ("rising", sorted(truth.rising), names("rising")),
        ("not judged", sorted(truth.not_judged), files("unreadable")),
        ("wrong clocks", sorted(truth.wrong_clocks), files("wrongClocks")),
    ]
    causes = sorted({*truth.hosts, *found} - set(_UNKNOWN))
    rows += [
        (f"hosts: {each}", truth.hosts.get(each, 0), found.get(each, {"hosts": 0})["hosts"])
        for each in causes
    ]
    rows += [(f"no rule knows: {each}", truth.hosts.get(each, 0), unknown[each]) for each in sorted(unknown)]
    return rows


def main() -> None:
    """Plant, judge, and print the table."""
    with tempfile.TemporaryDirectory(prefix="service-record-planted-") as place:
        truth = plant(Path(place), int(sys.argv[1]) if len(sys.argv) > 1 else 1)
        rows = table(truth, triaged(Path(place)))
    wrong = 0
    for what, planted, found in rows:
        wrong += planted != found
        print(f"{'✓' if planted == found else '✗'} {what}: planted {planted}, found {found}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
