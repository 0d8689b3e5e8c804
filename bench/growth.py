"""`make bench-growth`: how what recording and reading cost grows.

Tables go into docs/project/performance.md, plots into docs/project/performance/*.svg.
It takes some minutes and 1 GB of the temporary directory.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from bench.machine import machine
from bench.plot import Line, Plot
from bench.python import COMMAND, append
from bench.reading import BARE_CODE, record
from bench.rounds import medians, wall
from bench.shell import BENCH, ENTRY, REWRITE, Shim
from bench.table import aligned, duration, replace_between
from service_record.record.directory import Records

PAGE: Final = BENCH.parent / "docs/project/performance.md"
PLOTS: Final = BENCH.parent / "docs/project/performance"
ROUNDS: Final = 3
SIZES: Final = (0, 10, 100, 1_000, 10_000, 100_000, 1_000_000)
LONGEST_REWRITE: Final = 100_000
"""Entries: to write a million anew takes seconds each time."""
WRITERS: Final = (1, 2, 4, 8, 16, 32, 64)
ENTRIES: Final = {"shim": 6_400, "shim, array": 256, "python": 12_800, "python, array": 12_800}
"""By all writers together."""

PYTHON_WRITER: Final = """
import sys
from service_record.record.entry import Entry
from service_record.record.directory import Records

writer = Records(sys.argv[1]).writer(sys.argv[2])
entry = Entry.from_json(eval(sys.argv[4]))
print("ready", flush=True)
sys.stdin.read()
for _ in range(int(sys.argv[3])):
    writer.append(entry)
"""

Measured = dict[str, dict[int, float]]
"""Seconds, by what was measured and by how much of it there was."""


def appending(root: Path) -> Measured:
    """Time one entry, by number of entries in the file."""
    shim, result = Shim(root), dict[str, dict[int, float]]()
    for size in SIZES:
        shim.fill(size)
        measures: dict[str, Callable[[], float]] = {
            "shim": partial(shim.entry, size),
            "shim, array": partial(shim.array, size),
            "python": partial(append, Records(root).writer(f"lines-{size}")),
            "python, array": partial(append, Records(root).writer(f"ours-{size}")),
        }
        if shutil.which("jq") and size <= LONGEST_REWRITE:
            measures[REWRITE] = partial(shim.rewrite, size)
        _note(result, size, medians(measures, ROUNDS))
        for layout in ("lines", "array", "ours"):
            (root / f"{layout}-{size}.json").unlink()
    return result


def reading(root: Path) -> Measured:
    """Time the whole command, by number of entries in the record."""
    result: Measured = {}
    for size in SIZES:
        path = record(root / f"read-{size}", size)
        measures = {
            verb: partial(wall, COMMAND, *verb.split(), "--from", path.parent, is_checked=False)
            for verb in ("show", "show --output jsonl", "analyze")
        } | {"bare orjson.loads": partial(wall, sys.executable, "-c", BARE_CODE, path)}
        _note(result, size, medians(measures, ROUNDS if size < max(SIZES) else 1))
        path.unlink()
    return result


def writing(root: Path) -> Measured:
    """Time one entry when several writers share a record, from the first start to the last end."""
    result: Measured = {}
    for writers in WRITERS:
        measures = {what: partial(_at_once, root, what, writers) for what in ENTRIES}
        _note(result, writers, medians(measures, ROUNDS))
    return result


def _at_once(root: Path, what: str, writers: int) -> float:
    """Seconds for each entry when so many record at once into a new file."""
    path = root / "together.json"
    path.write_text("[]\n" if "array" in what else "")
    each = ENTRIES[what] // writers
    if what.startswith("shim"):
        command = ["bash", str(BENCH / "writers.bash"), str(each // 2)]
    else:
        command = [sys.executable, "-c", PYTHON_WRITER, str(root), "together", str(each), repr(ENTRY)]
    environment = os.environ | {
        "SERVICE_RECORDS_DIR": str(root),
        "SERVICE_NAME": "together",
        "PATH": f"{BENCH.parent / 'shell'}:{os.environ['PATH']}",
    }
    read, write = os.pipe()
    running = [
        subprocess.Popen(command, env=environment, stdin=read, stdout=subprocess.PIPE) for _ in range(writers)
    ]
    os.close(read)
    for process in running:
        assert process.stdout is not None
        process.stdout.readline()
    begun = time.perf_counter()
    os.close(write)
    for process in running:
        process.communicate()
    return (time.perf_counter() - begun) / (each * writers)


def _note(result: Measured, amount: int, seconds: Mapping[str, float]) -> None:
    for what, value in seconds.items():
        result.setdefault(what, {})[amount] = value


def table(measured: Measured, amounts: Sequence[int], head: str) -> str:
    """Return a table with a row for each thing and a column for each amount."""
    rows = [
        [what, *(duration(seconds[each]) if each in seconds else "" for each in amounts)]
        for what, seconds in measured.items()
    ]
    return aligned([[head, *(f"{amount:,}" for amount in amounts)], *rows])


def plots(measured: Mapping[str, Measured]) -> Iterator[tuple[str, Plot]]:
    """Yield each plot with the name of its file."""
    pictures = {
        "append": ("One entry, after so many", "entries in the record before it", 10),
        "read": ("Reading a record, the start of the command included", "entries in the record", 10),
        "writers": ("One entry, of all that are written at once", "writers of one record", 2),
    }
    for name, (title, amount, base) in pictures.items():
        lines = [Line(name=what, points=list(seconds.items())) for what, seconds in measured[name].items()]
        yield name, Plot(title=title, amount=amount, lines=lines, base=base)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="service-record-bench-") as directory:
        root = Path(directory)
        measured = {"append": appending(root), "read": reading(root), "writers": writing(root)}
    PLOTS.mkdir(exist_ok=True)
    for name, plot in plots(measured):
        (PLOTS / f"{name}.svg").write_text(plot.svg())
    tables = [
        table(measured["append"], SIZES, "one entry after"),
        table(measured["read"], SIZES, "reading"),
        table(measured["writers"], WRITERS, "one entry, writers"),
    ]
    text = "\n\n".join([machine(), *tables])
    print(text)
    replace_between(PAGE, "growth", text)


if __name__ == "__main__":
    main()
