"""`make torture`: break everything for so many seconds, print what was found, and write it into
docs/project/promises.md.
"""

import argparse
import sys
import time
from datetime import UTC, datetime

from bench.machine import machine
from bench.table import replace_between, text_between
from tests.programs import REPOSITORY
from tests.torture.plan import PARTS, tortured
from tests.torture.tally import ORDER, Tally, runs, targets

PAGE = REPOSITORY / "docs" / "project" / "promises.md"


def main() -> int:
    """The exit status: 1 when something was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1200, help="for how long [%(default)s]")
    parser.add_argument(
        "--only", default="", help="only the parts with this in their names; the page stays as it is"
    )
    asked = parser.parse_args()
    parts = tuple(part for part in PARTS if asked.only in part.name)
    began, tallies = time.monotonic(), list[Tally]()
    for part, found in tortured(asked.seconds, parts):
        if not found:
            print(f"{part.name}: cannot be had here: {part.cannot()}", flush=True)
        for tally in found:
            print(*tally.findings, sep="\n", end="\n" if tally.findings else "", file=sys.stderr)
            print(f"{tally.target}: {tally.cells()[3]} cases, found: {tally.cells()[4]}", flush=True)
        tallies += found
    seconds = time.monotonic() - began
    text = f"{machine()} {seconds:,.0f} seconds, order {ORDER or 'of the tests'}.\n\n{targets(tallies)}"
    print(f"\n{text}")
    if not asked.only:
        replace_between(PAGE, "torture", text)
        today = datetime.now(UTC).date()
        replace_between(PAGE, "runs", runs(text_between(PAGE, "runs"), tallies, today, seconds))
    return int(any(tally.findings for tally in tallies))


if __name__ == "__main__":
    sys.exit(main())
