"""The text of the shim: its contents, its second half, its variables, and the time of sourcing."""

import os
import re
import resource
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

SHIM = Path(__file__).parents[2] / "shell/bootstrap-service-record.sh"
LINES = SHIM.read_text().split("\n")


def test_contents_list_the_sections_in_order() -> None:
    sections = [found[1] for line in LINES if (found := re.fullmatch(r"# --- (.+?) -+", line)) is not None]
    listed = [line.removeprefix("#   ") for line in LINES if line.startswith("#   ")]
    assert [each for each in listed if each in sections] == sections
    assert sections[0] == "The public API"


def test_failure_half_is_found_by_its_first_line() -> None:
    """With a wrong distance, bash would parse the whole file at sourcing."""
    [(number, distance)] = [
        (number, int(found[1]))
        for number, line in enumerate(LINES, start=1)
        if (found := re.search(r"-s \"\$\(\(\$\{LINENO-0\} \+ (\d+)\)\)\"", line)) is not None
    ]
    half = number + distance
    assert LINES[half].startswith("# === Second half")
    [extents] = [rows for line in LINES if (rows := re.findall(r" (\w+)=(\d+),(\d+)", line))]
    parts = {name: (int(first), int(number)) for name, first, number in extents}
    firsts = {name: LINES[half + first] for name, (first, _) in parts.items()}
    assert firsts["traps"].startswith("# === Second half")
    assert firsts["failures"].startswith("# --- Misuse and failures")
    assert firsts["files"].startswith("# --- The array layout")
    ends = [first + number for first, number in parts.values()]
    assert ends[:-1] == [first for first, _ in parts.values()][1:]
    assert half + ends[-1] >= len(LINES)


def test_call_needs_only_first_lines_of_failure_file() -> None:
    [number] = [int(found[1]) for line in LINES if (found := re.search(r"__sr_printed 0 (\d+)", line))]
    failure = SHIM.with_name("service-record-failure.sh").read_text().split("\n")
    assert failure[number].startswith("# --- 1. exit")


def test_functions_are_defined_once() -> None:
    functions = sorted(found[1] for line in LINES if (found := re.match(r"(\w+)\(\) \{", line)) is not None)
    assert [one for one, other in pairwise(functions) if one == other] == []


def test_variables_expanded_without_default_are_declared() -> None:
    """Under `set -u`, another one would end the service."""
    text = "\n".join(line for line in LINES if not line.lstrip().startswith("#"))
    expanded = set(re.findall(r"\$\{?#?(__sr_\w+)(?![\w:+-])(?!\[\w+\][:+-])", text))
    declared = set(re.findall(r"(__sr_\w+)(?:\[\w*\])?=", text))
    for names in re.findall(r"builtin (?:local|declare|read|mapfile|printf -v)((?: -\w+| \S+)+)", text):
        declared |= set(re.findall(r"__sr_\w+", names))
    assert expanded - declared - set(re.findall(r"for (__sr_\w+) ", text)) == set()


@pytest.mark.parametrize("lines", [200, 500, 2_200])
def test_sourcing_a_long_script_is_fast(tmp_path: Path, lines: int) -> None:
    """Searching 12 KB for the words of traps once took a second, and 120 KB 330 ms."""
    short, long = tmp_path / "short.sh", tmp_path / "long.sh"
    short.write_text(f". {SHIM}\nexit\n")
    text = 'if [ "$1" = a ]; then name=$(first "$2"); fi # as any\n' * lines
    long.write_text(short.read_text() + text + "trap : EXIT\n")
    assert seconds_of(long, tmp_path) < 6 * seconds_of(short, tmp_path)


def seconds_of(script: Path, directory: Path) -> float:
    """Return the processor time of the fastest of five runs, in seconds."""
    taken = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        own = {"SERVICE_RECORDS_DIR": str(directory), "SERVICE_NAME": "service"}
        subprocess.run(["bash", script], env=os.environ | own, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(taken)
