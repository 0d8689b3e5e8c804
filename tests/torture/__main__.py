"""Run the torture (`make torture`), print the findings and update docs/project/promises.md."""

import argparse
import sys
import time
from datetime import UTC, datetime

from bench.machine import machine
from bench.table import replace_between, text_between
from tests.programs import REPOSITORY
from tests.torture.plan import PARTS, run_parts
from tests.torture.tally import ORDER, Tally, format_runs, format_targets

PAGE = REPOSITORY / "docs" / "project" / "promises.md"


def main() -> int:
    """Return the exit status: 1 when a promise was broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1200, help="duration in seconds [%(default)s]")
    parser.add_argument(
        "--only", default="", help="run only parts whose name contains ONLY; do not update the page"
    )
    options = parser.parse_args()
    parts = tuple(part for part in PARTS if options.only in part.name)
    start, tallies = time.monotonic(), list[Tally]()
    for part, part_tallies in run_parts(options.seconds, parts):
        if not part_tallies:
            print(f"{part.name}: not available here: {part.find_obstacle()}", flush=True)
        for tally in part_tallies:
            print(*tally.findings, sep="\n", end="\n" if tally.findings else "", file=sys.stderr)
            print(
                f"{tally.target}: {tally.format_cells()[3]} cases, found: {tally.format_cells()[4]}",
                flush=True,
            )
        tallies += part_tallies
    seconds = time.monotonic() - start
    text = (
        f"{machine()} {seconds:,.0f} seconds, order {ORDER or 'of the tests'}.\n\n{format_targets(tallies)}"
    )
    print(f"\n{text}")
    if not options.only:
        replace_between(PAGE, "torture", text)
        today = datetime.now(UTC).date()
        replace_between(PAGE, "runs", format_runs(text_between(PAGE, "runs"), tallies, today, seconds))
    return int(any(tally.findings for tally in tallies))


if __name__ == "__main__":
    sys.exit(main())
