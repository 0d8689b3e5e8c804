"""At which line of a TOML file a setting stands, for who has to mend it: tomllib does not tell. Pure."""

import re
import tomllib
from typing import Final

_SECTION: Final = re.compile(r"\s*\[{1,2}([^\]]*)\]")
_KEY: Final = re.compile(r"""\s*([\w."'-]+(?:\s*\.\s*[\w"'-]+)*)\s*=""")
_AT: Final = re.compile(r"\(at line (\d+),")
_BLANK: Final = re.compile(r"""[\s"']""")


def line_of(text: str, name: str) -> int:
    """The line of a key, given with its section and a dot; where it is not found, its section's, or 1."""
    section, nearest = "", 1
    for number, line in enumerate(text.splitlines(), 1):
        if found := _SECTION.match(line):
            section = _BLANK.sub("", found[1])
            here = section
        elif found := _KEY.match(line):
            key = _BLANK.sub("", found[1])
            here = f"{section}.{key}" if section else key
        else:
            continue
        if here == name:
            return number
        if name.startswith(f"{here}."):
            nearest = number
    return nearest


def line_of_error(error: tomllib.TOMLDecodeError, text: str) -> int:
    """The line that the parser stopped at; the last where it was the end of the file."""
    found = _AT.search(str(error))
    return int(found[1]) if found else max(1, len(text.splitlines()))
