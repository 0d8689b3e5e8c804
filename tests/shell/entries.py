"""Prints the entries of a record for a .bats file: `entries.py FILE [FIELD...]`, one line per entry."""

import json
import sys

IDENTITY = ("phase", "preCommand", "postCommand", "stage", "result")


def words(entry: dict[str, object], fields: list[str]) -> list[str]:
    """Return the values of the fields, "-" for an absent one; without fields, what identifies the entry."""
    if not fields:
        return [str(entry[name]) for name in IDENTITY if name in entry]
    return [shown(entry[name]) if name in entry else "-" for name in fields]


def shown(value: object) -> str:
    """Return a string as it is, so that a test compares it as it is; anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value)


path, *wanted = sys.argv[1:]
sys.stdout.reconfigure(encoding="utf-8", newline="\n")  # type: ignore[union-attr]
with open(path, encoding="utf-8", newline="\n") as record:  # noqa: PTH123 - pathlib would double the start time
    for line in record:
        if line != "\n":
            print(*words(json.loads(line), wanted))
