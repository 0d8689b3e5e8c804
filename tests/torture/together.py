"""Everything at once on one directory: writers in bash and Python, readers, followers, bundles, the
reporter's end.

In both layouts side by side, round after round; in every other the writers are killed in the midst of it.
What was acknowledged is there once and whole; a reader never sees less than was acknowledged before it
looked; a follower has shown all of it; a bundle holds what the record held at some moment; and when the
reporter removes what is its own, no record is touched.
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
from tests.torture.tally import Tally, Until

LAYOUTS: Final = ("lines", "array")
_WRITERS: Final = 4
_PATIENCE_SECONDS: Final = 60
_LONGEST: Final = 800
_STOP: Final = """
import sys
from pathlib import Path
from service_record.reporter.stopping import stop
from service_record.reporter.paths import Places
from service_record.reporter.settings import Settings
sys.exit("\\n".join(stop(Places(Path(sys.argv[1])), Settings(), "torture")) or 0)
"""


@dataclass(slots=True)
class Site:
    """A directory of records in one layout, and all that goes on there."""

    layout: str
    directory: Path
    bundles: list[Path] = field(default_factory=list)
    reads: int = 0
    findings: list[str] = field(default_factory=list)

    @property
    def record(self) -> Path:
        return self.directory / "records" / "service.json"

    def look(self) -> None:
        """As a reader that comes by: it finds all that was acknowledged before."""
        before = acknowledged(self.directory)
        found = self.entries()
        self.reads += 1
        missing = before - set(map(named, found))
        if missing:
            self.findings.append(f"a reader missed {len(missing)} of {len(before)} acknowledged entries")

    def entries(self) -> list[Entry]:
        if not self.record.exists():
            return []
        return [
            piece for piece in read_entries(BytesIO(self.record.read_bytes())) if isinstance(piece, Entry)
        ]

    def bundle(self) -> Popen[bytes]:
        """Pack the records, as they are just now."""
        target = self.directory / f"bundle-{len(self.bundles)}.tar.gz"
        self.bundles.append(target)
        arguments = ["bundle", "--redact", str(self.directory / "records"), "-o", str(target)]
        return _program(*PROGRAM, *arguments)

    def stop_reporting(self) -> Popen[bytes]:
        """Do the reporter's last work, with these records below its root."""
        root = self.directory / "host"
        log = root / "var/log"
        log.mkdir(parents=True, exist_ok=True)
        if not (log / "openshift").is_symlink():
            (log / "openshift").symlink_to(self.directory / "records")
        return _program(sys.executable, "-c", _STOP, str(root))

    def judge(self, follower: "Follower") -> None:
        """Judge the result, once nobody writes any more."""
        entries = self.entries()
        names = [named(each) for each in entries if each.stage]
        if len(names) != len(set(names)):
            self.findings.append("an entry is there twice")
        lost = acknowledged(self.directory) - set(names)
        if lost:
            self.findings.append(f"{len(lost)} acknowledged entries are gone: {sorted(lost)[:3]}")
        seen = follower.shown(len(entries))
        if [named(each) for each in entries] != seen:
            self.findings.append(f"a follower has shown {len(seen)} of {len(entries)} entries")
        for bundle in self.bundles:
            self._judge_bundle(bundle, [each.to_line() for each in entries])

    def _judge_bundle(self, bundle: Path, lines: list[bytes]) -> None:
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
            self.findings.append("a bundle has an entry that nobody wrote, or in another order")


class Follower:
    """`service-record follow`, from the first entry on."""

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

    def shown(self, number: int) -> list[str]:
        """Return its output, once that has so many entries, or nothing more comes."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while self._entries() < number and time.monotonic() < deadline:
            time.sleep(0.05)
        shown = [orjson.loads(line) for line in self._whole_lines()]
        return [f"{each.get('stage')} {each['phase'].split()[1]}" for each in shown if "phase" in each]

    def _entries(self) -> int:
        return sum(b'"phase"' in line for line in self._whole_lines())

    def _whole_lines(self) -> list[bytes]:
        """It may be writing one."""
        return self._out.read_bytes().rpartition(b"\n")[0].splitlines()

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


def named(entry: Entry) -> str:
    """An entry as the writers say it: `STAGE start`, `STAGE end`."""
    return f"{entry.stage} {entry.phase.split()[1]}"


def _program(*command: str) -> Popen[bytes]:
    return Popen(command, env=environment(), cwd=REPOSITORY, stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE)


def one_round(place: Path, entries: int, chance: random.Random, *, kill: bool) -> list[Site]:
    """Both layouts at once, until all has been written, or its writers are killed."""
    sites = [Site(layout, place / layout) for layout in LAYOUTS]
    names = [f"w{number}" for number in range(_WRITERS)]
    with ExitStack() as stack:
        followers, running = [], []
        for site in sites:
            site.directory.mkdir()
            prepare(site.directory)
            followers.append(Follower(site.directory))
            stack.callback(followers[-1].end)
            running += stack.enter_context(writers(site.directory, names, entries, site.layout, _LONGEST))
        _meddle(sites, running, stack, chance, kill=kill)
        for process in running:
            process.wait()
        for site, follower in zip(sites, followers, strict=True):
            site.judge(follower)
    return sites


def _meddle(
    sites: list[Site], running: list[Popen[bytes]], stack: ExitStack, chance: random.Random, *, kill: bool
) -> None:
    """Read, pack and clean up while they write."""
    helpers: list[Popen[bytes]] = []
    while any(process.poll() is None for process in running):
        site = chance.choice(sites)
        site.look()
        helpers = [helper for helper in helpers if helper.poll() is None]
        if len(helpers) < 2 and site.record.exists():
            helpers.append(chance.choice([site.bundle, site.stop_reporting])())
            stack.callback(_over, helpers[-1])
        if kill and chance.random() < 0.15:
            victim = chance.choice(running)
            with contextlib.suppress(ProcessLookupError):
                victim.kill()
        time.sleep(0.02)  # leave the processor to the writers
    for helper in helpers:
        helper.wait(_PATIENCE_SECONDS)


def _over(helper: Popen[bytes]) -> None:
    if helper.poll() is None:
        helper.kill()
    helper.communicate()


def _rounds(until: Until, entries: int) -> Iterator[Site]:
    chance = random.Random(20261121)
    for number in range(1_000_000):
        with tempfile.TemporaryDirectory() as place:
            yield from one_round(Path(place), entries, chance, kill=number % 2 == 1)
            if until.is_over:
                return


def tortured(seconds: float, entries: int = 400) -> Tally:
    """Rounds for so many seconds; the last is ended."""
    written, findings = 0, list[str]()
    for site in _rounds(Until.after(seconds), entries):
        written += len(acknowledged(site.directory))
        findings += [f"all at once, {site.layout}: {each}" for each in site.findings]
    return Tally(
        target="all at once: entries",
        cases=written,
        all_cases=written,
        findings=tuple(findings),
    )
