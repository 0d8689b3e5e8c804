"""`make bench`: print what everything costs as one table, and write it into docs/project/performance.md.

The rows of the collector also go into docs/project/collector.md.
"""

import sys
import tempfile
from pathlib import Path

from bench import bundle, collecting, evidence, follow, python, reading, redaction, shell
from bench.table import Row, publish
from packages.causes import write_rules

PAGE = Path(__file__).resolve().parents[1] / "docs" / "project" / "performance.md"


def measured() -> list[Row]:
    """Return every row but those of the collector."""
    with tempfile.TemporaryDirectory(prefix="service-record-bench-") as directory:
        root = Path(directory)
        everything = (shell, python, reading, evidence, follow, redaction, bundle)
        return [row for part in everything for row in part.rows(root)]


def main() -> int:
    """Run the benchmarks. Return the exit status: 1 when a promise does not hold."""
    write_rules()  # otherwise `analyze` would also parse them
    of_collector = collecting.measured()
    publish(of_collector, collecting.PAGE)
    is_too_slow = redaction.publish_speed()
    return publish([*measured(), *of_collector], PAGE) or is_too_slow


if __name__ == "__main__":
    sys.exit(main())
