"""`make bench`: print what recording costs as one table, and write it into docs/performance.md."""

import sys
import tempfile
from pathlib import Path

from bench import bundle, follow, python, redaction, shell
from bench.machine import machine
from bench.table import Row, markdown, replace_between

PAGE = Path(__file__).resolve().parents[1] / "docs" / "performance.md"


def measured() -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="service-record-bench-") as directory:
        root = Path(directory)
        everything = (shell, python, follow, redaction, bundle)
        return [row for part in everything for row in part.rows(root)]


def main() -> int:
    """The exit status: 1 when a promise does not hold."""
    rows = measured()
    text = f"{machine()}\n\n{markdown(rows)}"
    print(text)
    replace_between(PAGE, "bench", text)
    return int(any(row.holds is False for row in rows))


if __name__ == "__main__":
    sys.exit(main())
