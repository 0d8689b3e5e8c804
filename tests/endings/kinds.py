"""The kinds of ending, read from the text files in table/ and the doubtful ones in table/doubtful/.

In a doubtful kind, another command appears to have failed: bash does not report the failing one, or the same
text occurs twice. Its recorded line may be approximate or absent, but never wrong.

A kind begins with `=== TITLE`. Lines that begin with `@` are settings: `@run -c` or `@run stdin` (the script
is not in a file), `@name` (the file name), `@last` (nothing follows the failing line), `@unrecorded` (bash
runs no EXIT trap). The script follows, and after each `--- NAME` another file. `# HERE function` marks the
failing line; `# HERE on the next line` marks a line that cannot have a comment. A kind without a mark has no
line.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

TABLE = Path(__file__).with_name("table")
KIND = re.compile(r"^=== ", re.MULTILINE)
FILE = re.compile(r"^--- (.+)\n", re.MULTILINE)
SETTING = re.compile(r"^@(\w+) ?(.*)\n", re.MULTILINE)
HERE = re.compile(r"# HERE(?: on the next (line))? ?(\w*)$", re.MULTILINE)
OPTIONS = {"euoE": "set -euoE pipefail", "euo": "set -euo pipefail", "none": ":"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The place where a script fails, as in `errorLine`."""

    line: int
    function: str
    file: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Kind:
    """One kind of ending. Instances compare by identity."""

    title: str
    script: str
    others: dict[str, str] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    doubtful: bool = False
    fails_at: tuple[int, str, str] | None = None
    """Line of the script, function and file, for a script that has no mark."""

    @property
    def name(self) -> str:
        """The script's file name."""
        return self.settings.get("name", "service.sh")

    def get_text(self, options: str) -> str:
        """Return the whole script, with the options set and the shim sourced before it."""
        after = "" if "last" in self.settings else "echo reached the end\n"
        return f'{OPTIONS[options]}\n. "$SHIM"\n{self.script}{after}'

    def find_place(self, options: str) -> Place | None:
        """Return the marked place; None if bash has no line for this kind."""
        if self.fails_at is not None:
            line, function, file = self.fails_at
            if file == self.name:
                return Place(line=line + 2, function=function, file=file)
            return Place(line=line, function=function, file=f"./{file}")
        for file, text in ({self.name: self.get_text(options)} | self.others).items():
            if found := HERE.search(text):
                line = text.count("\n", 0, found.start()) + 1 + bool(found[1])
                path = file if file == self.name else f"./{file}"
                return Place(line=line, function=found[2] or "main", file=path)
        return None


@cache
def read_kinds() -> tuple[Kind, ...]:
    """Return every kind of the table, the doubtful ones last."""
    paths = [*sorted(TABLE.glob("*.txt")), *sorted(TABLE.glob("doubtful/*.txt"))]
    return tuple(kind for path in paths for kind in parse(path))


def parse(path: Path) -> Iterator[Kind]:
    """Yield the kinds of one file of the table."""
    for block in KIND.split(path.read_text())[1:]:
        title, _, rest = block.rstrip("\n").partition("\n")
        script, *others = FILE.split(rest + "\n")
        yield Kind(
            title=title,
            script=SETTING.sub("", script),
            others=dict(zip(others[::2], others[1::2], strict=True)),
            settings=dict(SETTING.findall(script)),
            doubtful=path.parent != TABLE,
        )
