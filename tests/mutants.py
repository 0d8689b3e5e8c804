"""`make mutants`: change the rooms that judge in small ways, and count which changes the fast tests notice.

mutmut makes the mutants and runs for each the tests that call its function; pyproject.toml names the rooms
and the tests. All mutants would take hours, so a random sample is run. A mutant that does the same as the
code counts as one that survived: the share is a lower bound.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from bench.table import aligned, replace_between

REPOSITORY: Final = Path(__file__).resolve().parents[1]
PAGE: Final = REPOSITORY / "docs/promises.md"
TREE: Final = REPOSITORY / "mutants"
"""Where mutmut puts the changed code and what came of it."""
STATISTICS: Final = TREE / "mutmut-stats.json"
ROOMS: Final = ("record", "history", "diagnosis", "redaction", "reporter.policy", "collector.domain")
NO_TESTS: Final = frozenset({5, 33})
TIMEOUTS: Final = frozenset({24, 36, 152, 255, -24})
"""As mutmut has them; a mutant that never ends is noticed, but not by an assertion: it is counted apart."""
KILLED: Final = frozenset({1, 3})
HEAD: Final = ("room", "mutants", "sample", "killed", "timeouts", "survived", "no tests", "noticed")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a sample of the mutants and write the score into docs/promises.md."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--sample", type=int, default=200, help="how many mutants to run")
    parser.add_argument("--order", type=int, default=int(time.time()), help="the seed that picks them")
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    given = parser.parse_args(arguments)
    generate(given.processes)
    names = sorted(results())
    chosen = random.Random(given.order).sample(names, min(given.sample, len(names)))
    began = time.monotonic()
    mutmut(given.processes, *chosen, check=True)
    seconds = time.monotonic() - began
    outcomes = {name: code for name, code in results().items() if name in set(chosen)}
    for name, code in sorted(outcomes.items()):
        if code not in KILLED | TIMEOUTS:
            print(f"{'no test' if code in NO_TESTS else 'survived'}: {name}")
    text = f"{len(chosen):,} of {len(names):,} mutants, order {given.order}, {seconds:,.0f} seconds.\n\n"
    table = aligned([HEAD, *rows(names, outcomes)])
    print(f"\n{text}{table}")
    replace_between(PAGE, "mutants", text + table)
    return 0


def generate(processes: int) -> None:
    """Make the mutants of what has changed and find out anew which tests call which function.

    Raises `SystemExit` when mutmut could not.
    """
    STATISTICS.unlink(missing_ok=True)
    # mutmut has no command for this alone; it stops after it when no mutant has the name it is given.
    mutmut(processes, "none", check=False)
    if not STATISTICS.exists():
        raise SystemExit("Cannot make mutants: mutmut failed before it ran any; see its output above.")


def mutmut(processes: int, *names: str, check: bool) -> None:
    """Run mutmut on the mutants named; it prints what it does."""
    command = [str(Path(sys.executable).with_name("mutmut")), "run", "--max-children", str(processes), *names]
    subprocess.run(command, cwd=REPOSITORY, check=check)


def results() -> dict[str, int | None]:
    """Return the exit status of the tests for each mutant, None where they have not run."""
    found: dict[str, int | None] = {}
    for path in TREE.rglob("*.meta"):
        if (REPOSITORY / path.relative_to(TREE)).with_suffix("").exists():
            found |= json.loads(path.read_bytes())["exit_code_by_key"]
    return found


def rows(names: Sequence[str], outcomes: Mapping[str, int | None]) -> list[tuple[str, ...]]:
    """Return the table's rows: one for each room, and one for all."""
    shares = [row(f"`{room.replace('.', '/')}`", within(room, names), outcomes) for room in ROOMS]
    return [*shares, row("all", names, outcomes)]


def within(room: str, names: Sequence[str]) -> list[str]:
    return [name for name in names if name.startswith(f"service_record.{room}.")]


def row(label: str, names: Sequence[str], outcomes: Mapping[str, int | None]) -> tuple[str, ...]:
    """Return how many of some mutants were run, and what came of them."""
    codes = [outcomes[name] for name in names if name in outcomes]
    killed = sum(code in KILLED for code in codes)
    timeouts = sum(code in TIMEOUTS for code in codes)
    untested = sum(code in NO_TESTS for code in codes)
    counts = (len(names), len(codes), killed, timeouts, len(codes) - killed - timeouts - untested, untested)
    share = f"{(killed + timeouts) / len(codes):.0%}" if codes else ""
    return (label, *(f"{count:,}" for count in counts), share)


if __name__ == "__main__":
    sys.exit(main())
