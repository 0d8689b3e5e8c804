"""List the words that many projects use, for `redaction.common_words`.

    python -m packages.common_words DIRECTORY...

Each directory has the source code and documentation of one project.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from service_record.redaction import common_words

_WORD = re.compile(rb"(?<![A-Za-z0-9_])[A-Za-z][a-z]{%d,29}(?![A-Za-z0-9_])" % (common_words.MIN_BYTES - 1))
_MAX_FILE_BYTES = 4 << 20
_MIN_PROJECTS = 10
"""Fewer projects also share names, words of other languages, and misspelt words."""


def words_in(project: Path) -> set[bytes]:
    """Return the long words in the text files of a directory, in small letters."""
    words: set[bytes] = set()
    for path in project.rglob("*"):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                data = file.read(_MAX_FILE_BYTES)
            if b"\0" not in data:
                words.update(word.lower() for word in _WORD.findall(data))
    return words


def main(projects: Iterable[str]) -> None:
    counts = Counter(word for project in projects for word in words_in(Path(project)))
    common = sorted(word for word, number in counts.items() if number >= _MIN_PROJECTS)
    Path(common_words.__file__).with_name(common_words.FILE).write_bytes(b"\n".join(common) + b"\n")


if __name__ == "__main__":
    main(sys.argv[1:])
