"""`make bench-first-answer`: how long `service-record` without a verb takes on a host with a long journal; it
goes into docs/project/performance.md.

Boots a machine with systemd in which one service has failed, fills its journal, and runs the command five
times for each length of the journal. It needs root and systemd-nspawn.
"""

import re
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Final

from bench.journal import journal_text
from bench.machine import machine as this_machine
from bench.table import aligned, duration, replace_between
from testing.machine import Machine, why_not

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "project" / "performance.md"
LINES: Final = (0, 20_000, 80_000)
"""Lines of other programs in the journal."""
RUNS: Final = 5

# bash prints real, user and system seconds as `TIMEFORMAT` says.
SCENARIO: Final = """
command() { /venv/bin/python -B /venv/bin/service-record "$@" >/dev/null 2>&1; }
TIMEFORMAT='%R %U %S'
systemd-cat --identifier=talker </lent/lines
journalctl --sync
command
for run in {1..RUNS}; do time command; done 2>&1
time command analyze 2>&1
"""


def measure(lines: int) -> list[list[float]]:
    """Return real, user and system seconds of each run; the last is of `service-record analyze`."""
    with tempfile.TemporaryDirectory(prefix="service-record-answer-") as directory:
        lent = Path(directory, "lent")
        lent.mkdir()
        text = re.sub(rb"(?m)^\S+ \S+ \S+: ", b"", journal_text())
        (lent / "lines").write_bytes(b"".join(text.splitlines(keepends=True)[:lines]))
        machine = Machine(Path(directory), wants=("bad.service",))
        machine.bind(lent, "/lent")
        machine.unit(
            "bad", "Type=oneshot", "ExecStart=/bin/sh -c 'echo /data: No space left on device; exit 4'"
        )
        output = machine.boot(SCENARIO.replace("RUNS", str(RUNS)))
    times = re.findall(r"(?m)^([0-9.]+) ([0-9.]+) ([0-9.]+)$", output)
    if len(times) != RUNS + 1:
        raise ValueError(f"not every run has ended: {output}")
    return [[float(second) for second in one] for one in times]


def table() -> str:
    """Measure, and return the table."""
    rows = [("lines of other programs", "without a verb", "processor time", "analyze")]
    for lines in LINES:
        *runs, full = measure(lines)
        real, used = (
            median(figures) for figures in zip(*((run[0], run[1] + run[2]) for run in runs), strict=True)
        )
        rows.append((f"{lines:,}", duration(real), duration(used), duration(full[0])))
    return aligned(rows)


def main() -> int:
    obstacle = why_not()
    if obstacle is not None:
        print(f"bench-first-answer: {obstacle}", file=sys.stderr)
        return 1
    text = f"{this_machine()}\n\n{table()}"
    print(text)
    replace_between(PAGE, "first-answer", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
