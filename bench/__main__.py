"""`make bench`: print what recording costs as one table, and write it into docs/performance.md."""

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from bench import follow, python, redaction, shell
from bench.table import Row, markdown, replace_between

PAGE = Path(__file__).resolve().parents[1] / "docs" / "performance.md"


def machine() -> str:
    """What it was measured on; jq's absence takes rows out of the table."""
    bash = subprocess.run(
        ["bash", "-c", "printf %s $BASH_VERSION"], check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    words = [
        f"Python {platform.python_version()}",
        f"bash {bash}",
        f"Linux {platform.release()}",
        f"{os.cpu_count()} processors",
    ]
    if shutil.which("jq") is None:
        words.append("no jq: nothing to compare the shim with")
    return "Measured on: " + ", ".join(words) + "."


def measured() -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="service-record-bench-") as directory:
        root = Path(directory)
        return [*shell.rows(root), *python.rows(root), *follow.rows(root), *redaction.rows(root)]


def main() -> int:
    """The exit status: 1 when a promise does not hold."""
    rows = measured()
    text = f"{machine()}\n\n{markdown(rows)}"
    print(text)
    replace_between(PAGE, "bench", text)
    return int(any(row.holds is False for row in rows))


if __name__ == "__main__":
    sys.exit(main())
