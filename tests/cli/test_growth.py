"""Every verb takes time in proportion to what it reads, and its pages stay small enough for a browser."""

import resource
import subprocess
from collections.abc import Callable
from pathlib import Path
from shutil import copytree
from tempfile import mkdtemp
from typing import Final

import pytest
from msgspec.structs import replace

from service_record.record.entry import Entry
from tests.builders import failed_run, write_lines
from tests.command_line import PROGRAM, environment

SMALL: Final = 400
LARGE: Final = 8 * SMALL
LEAST_SECONDS: Final = 0.1
"""What a small source takes, beside the start of the program, is not measured more exactly than this."""
BUSY: Final = 2
"""The factor that other work on the machine may add."""
PAGE_BYTES: Final = 2 << 20

VERBS: Final = {
    "show": ["show", "--from", "PLACE"],
    "show-json": ["show", "--output", "json", "--from", "PLACE"],
    "analyze": ["analyze", "--from", "PLACE"],
    "analyze-html": ["analyze", "--output", "html", "--from", "PLACE"],
    "timeline": ["timeline", "--from", "PLACE"],
    "timeline-html": ["timeline", "--output", "html", "--from", "PLACE"],
    "diff": ["diff", "PLACE", "PLACE"],
    "validate": ["validate", "PLACE"],
    "triage": ["triage", "PLACE"],
    "bundle": ["bundle", "--redact", "PLACE", "--output", "NEW"],
    "rotate": ["rotate", "--from", "COPY", "--max-size", "64K"],
    "lines": ["export", "--to", "jsonl", "--from", "PLACE", "--directory", "NEW"],
    "chart": ["export", "--to", "chrome-trace", "--from", "PLACE"],
    "traces": ["export", "--to", "otlp", "--from", "PLACE"],
    "junit": ["export", "--to", "junit", "--from", "PLACE"],
    "metrics": ["export", "--to", "prometheus", "--from", "PLACE"],
}
"""Verbs that read records. PLACE has them, COPY is a copy, NEW is a new file or directory."""


def run(number: int, boot: int) -> list[Entry]:
    """Return the entries of a failed run, with its own ids, a minute after the run before it."""
    identity = {"boot_id": f"{boot:032x}", "invocation_id": f"{number + 1:032x}", "pid": number + 2}
    return [replace(entry, **identity) for entry in failed_run(at=60 * number)]


def write_services(directory: Path, size: int) -> None:
    for number in range(size):
        write_lines(directory / f"job-{number}.json", *run(number, boot=1))


def write_runs(directory: Path, size: int) -> None:
    write_lines(directory / "job.json", *(entry for number in range(size) for entry in run(number, boot=1)))


def write_boots(directory: Path, size: int) -> None:
    entries = (entry for number in range(size) for entry in run(number, boot=number + 1))
    write_lines(directory / "job.json", *entries)


SOURCES: Final[dict[str, Callable[[Path, int], None]]] = {
    "services": write_services,
    "runs": write_runs,
    "boots": write_boots,
}


@pytest.fixture(scope="module", params=SOURCES)
def sources(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ...]:
    """Return directories with the records of one, of a few hundred, and of eight times as many."""
    directories = []
    for size in (1, SMALL, LARGE):
        directory = tmp_path_factory.mktemp(f"{request.param}-{size}-")
        SOURCES[request.param](directory, size)
        directories.append(directory)
    return tuple(directories)


def seconds_and_bytes(verb: str, directory: Path) -> tuple[float, int]:
    """Return the processor time of a verb, and the length of what it writes."""
    scratch = Path(mkdtemp(dir=directory.parent))
    arguments = {"PLACE": directory, "COPY": scratch / "copy", "NEW": scratch / "new.tar.gz"}
    if "COPY" in VERBS[verb]:
        copytree(directory, arguments["COPY"])
    command = [*PROGRAM, *(str(arguments.get(part, part)) for part in VERBS[verb])]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, env=environment(), check=False, stdout=subprocess.PIPE)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode in {0, 1}
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, len(done.stdout)


@pytest.mark.parametrize("verb", VERBS)
def test_time_grows_no_faster_than_the_source(sources: tuple[Path, ...], verb: str) -> None:
    one, small, large = (seconds_and_bytes(verb, directory)[0] for directory in sources)
    allowed = BUSY * LARGE / SMALL * max(small - one, LEAST_SECONDS)
    if large - one > allowed:  # other work may have begun between the measurements; a true growth stays
        large = seconds_and_bytes(verb, sources[-1])[0]
    assert large - one <= allowed


@pytest.mark.parametrize("verb", ["analyze-html", "timeline-html"])
def test_page_of_a_large_source_stays_small(sources: tuple[Path, ...], verb: str) -> None:
    assert seconds_and_bytes(verb, sources[-1])[1] <= PAGE_BYTES
