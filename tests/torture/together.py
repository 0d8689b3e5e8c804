"""Run everything at once on one records directory: writers in bash and Python, readers, followers, bundles
and the reporter's cleanup.

Each round uses both layouts at the same time; in every other round, writers are killed. Each acknowledged
entry must be in the record once and whole. A reader must find all entries that were acknowledged before it
read, and a follower must print all entries. A bundle must hold the record as it was at some time, and the
reporter's cleanup must not touch a record.
"""

import contextlib
import random
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from typing import Final

import orjson

from service_record.record.entry import Entry
from service_record.record.layout import read_entries
from tests.command_line import PROGRAM, environment
from tests.programs import REPOSITORY
from tests.shell.writers import acknowledged, prepare, writers
from tests.torture.tally import Deadline, Tally

LAYOUTS: Final = ("lines", "array")
_WRITERS: Final = 4
_TIMEOUT_SECONDS: Final = 60
_MAX_STAGE_LENGTH: Final = 800
_CLEANUP: Final = """
import sys
from pathlib import Path
from service_record.reporter.stopping import stop
from service_record.reporter.paths import Places
from service_record.reporter.settings import Settings
sys.exit("\\n".join(stop(Places(Path(sys.argv[1])), Settings(), "torture")) or 0)
"""


@dataclass(slots=True)
class Site:
    """A records directory in one layout, with the programs that use it and the findings."""

    layout: str
    directory: Path
    bundles: list[Path] = field(default_factory=list)
    reads: int = 0
    findings: list[str] = field(default_factory=list)

    @property
    def record(self) -> Path:
        return self.directory / "records" / "service.json"

    def read_once(self) -> None:
        """Check that a reader finds all entries that were acknowledged before it read."""
        before = acknowledged(self.directory)
        found = self.read_record()
        self.reads += 1
        missing = before - set(map(label, found))
        if missing:
            self.findings.append(f"a reader missed {len(missing)} of {len(before)} acknowledged entries")

    def read_record(self) -> list[Entry]:
        if not self.record.exists():
            return []
        return [
            piece for piece in read_entries(BytesIO(self.record.read_bytes())) if isinstance(piece, Entry)
        ]

    def start_bundle(self) -> Popen[bytes]:
        """Start to pack the records as they are now."""
        target = self.directory / f"bundle-{len(self.bundles)}.tar.gz"
        self.bundles.append(target)
        arguments = ["bundle", "--redact", str(self.directory / "records"), "-o", str(target)]
        return _start_program(*PROGRAM, *arguments)

    def start_cleanup(self) -> Popen[bytes]:
        """Start the reporter's cleanup, with these records below its root."""
        root = self.directory / "host"
        log = root / "var/log"
        log.mkdir(parents=True, exist_ok=True)
        if not (log / "openshift").is_symlink():
            (log / "openshift").symlink_to(self.directory / "records")
        return _start_program(sys.executable, "-c", _CLEANUP, str(root))

    def check(self, follower: "Follower") -> None:
        """Check the record, the follower and the bundles after all writers have ended."""
        entries = self.read_record()
        names = [label(each) for each in entries if each.stage]
        if len(names) != len(set(names)):
            self.findings.append("an entry is there twice")
        lost = acknowledged(self.directory) - set(names)
        if lost:
            self.findings.append(f"{len(lost)} acknowledged entries are missing: {sorted(lost)[:3]}")
        seen = follower.wait_for_entries(len(entries))
        if [label(each) for each in entries] != seen:
            self.findings.append(f"a follower printed {len(seen)} of {len(entries)} entries")
        for bundle in self.bundles:
            self._check_bundle(bundle, [each.to_line() for each in entries])

    def _check_bundle(self, bundle: Path, lines: list[bytes]) -> None:
        if not bundle.exists():
            self.findings.append("a bundle could not be made")
            return
        with tarfile.open(bundle) as archive:
            packed = [member for member in archive.getmembers() if member.name.endswith("/service.json")]
            streams = [archive.extractfile(member) for member in packed]
            content = b"".join(stream.read() for stream in streams if stream is not None)
        found = [piece.to_line() for piece in read_entries(BytesIO(content)) if isinstance(piece, Entry)]
        rest = iter(lines)
        if any(all(line != each for line in rest) for each in found):
            self.findings.append("a bundle has an unwritten or reordered entry")


class Follower:
    """`service-record follow`, started before the first entry."""

    def __init__(self, directory: Path) -> None:
        self._out = directory / "followed"
        with self._out.open("wb") as out:
            follow = ["follow", "--from", str(directory / "records"), "-n", "all", "-o", "jsonl"]
            self._process = Popen(
                [*PROGRAM, *follow],
                env=environment(),
                stdin=DEVNULL,
                stdout=out,
                stderr=DEVNULL,
                cwd=REPOSITORY,
            )

    def wait_for_entries(self, count: int) -> list[str]:
        """Return the labels of the printed entries once there are `count` of them, or after a timeout."""
        deadline = time.monotonic() + _TIMEOUT_SECONDS
        while self._count_entries() < count and time.monotonic() < deadline:
            time.sleep(0.05)
        printed = [orjson.loads(line) for line in self._read_lines()]
        return [f"{each.get('stage')} {each['phase'].split()[1]}" for each in printed if "phase" in each]

    def _count_entries(self) -> int:
        return sum(b'"phase"' in line for line in self._read_lines())

    def _read_lines(self) -> list[bytes]:
        """Return the complete lines of its output: the last one may be incomplete."""
        return self._out.read_bytes().rpartition(b"\n")[0].splitlines()

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


def label(entry: Entry) -> str:
    """Return an entry's label as the writers print it: `STAGE start` or `STAGE end`."""
    return f"{entry.stage} {entry.phase.split()[1]}"


def _start_program(*command: str) -> Popen[bytes]:
    return Popen(command, env=environment(), cwd=REPOSITORY, stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE)


def run_round(place: Path, entries: int, chance: random.Random, *, kill: bool) -> list[Site]:
    """Run both layouts at the same time until all entries are written or the writers are killed."""
    sites = [Site(layout, place / layout) for layout in LAYOUTS]
    names = [f"w{number}" for number in range(_WRITERS)]
    with ExitStack() as stack:
        followers, running = [], []
        for site in sites:
            site.directory.mkdir()
            prepare(site.directory)
            followers.append(Follower(site.directory))
            stack.callback(followers[-1].end)
            running += stack.enter_context(
                writers(site.directory, names, entries, site.layout, _MAX_STAGE_LENGTH)
            )
        _disturb_writers(sites, running, stack, chance, kill=kill)
        for process in running:
            process.wait()
        for site, follower in zip(sites, followers, strict=True):
            site.check(follower)
    return sites


def _disturb_writers(
    sites: list[Site], running: list[Popen[bytes]], stack: ExitStack, chance: random.Random, *, kill: bool
) -> None:
    """Read, pack and clean up until the writers have ended; kill some of them if `kill`."""
    helpers: list[Popen[bytes]] = []
    while any(process.poll() is None for process in running):
        site = chance.choice(sites)
        site.read_once()
        helpers = [helper for helper in helpers if helper.poll() is None]
        if len(helpers) < 2 and site.record.exists():
            helpers.append(chance.choice([site.start_bundle, site.start_cleanup])())
            stack.callback(_end_helper, helpers[-1])
        if kill and chance.random() < 0.15:
            victim = chance.choice(running)
            with contextlib.suppress(ProcessLookupError):
                victim.kill()
        time.sleep(0.02)  # leave the processor to the writers
    for helper in helpers:
        helper.wait(_TIMEOUT_SECONDS)


def _end_helper(helper: Popen[bytes]) -> None:
    if helper.poll() is None:
        helper.kill()
    helper.communicate()


def _run_rounds(deadline: Deadline, entries: int) -> Iterator[Site]:
    chance = random.Random(20261121)
    for number in range(1_000_000):
        with tempfile.TemporaryDirectory() as place:
            yield from run_round(Path(place), entries, chance, kill=number % 2 == 1)
            if deadline.is_over:
                return


def torture(seconds: float, entries: int = 400) -> Tally:
    """Run rounds for a number of seconds; the last one is completed."""
    written, findings = 0, list[str]()
    for site in _run_rounds(Deadline.from_now(seconds), entries):
        written += len(acknowledged(site.directory))
        findings += [f"all at once, {site.layout}: {each}" for each in site.findings]
    return Tally(
        target="all at once: entries",
        cases=written,
        all_cases=written,
        findings=tuple(findings),
    )
