"""Writes out of a text what would act on a terminal, or would not be seen: anybody may have said it. Pure."""

import re
from typing import Final

UNSEEN: Final = re.compile("[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
"""C1 controls, on which terminals act, bidirectional overrides, and marks that nobody sees."""

_UNSAFE: Final = re.compile(f"{UNSEEN.pattern}|[\x00-\x1f\ud800-\udfff\U000e0000-\U000e007f]")


def visible(text: str) -> str:
    r"""Return the text with what would act on a terminal written out: `\x1b`, `\u202e`.

    A tab is four blanks.
    """
    if text.isascii() and text.isprintable():
        return text
    return text.replace("\t", "    ").translate(_ESCAPES)


class _Escapes(dict[int, str]):
    """Number of a character -> what is shown for it; made as they come."""

    def __missing__(self, code: int) -> str:
        self[code] = escape = _UNSAFE.sub(_written_out, chr(code))
        return escape


_ESCAPES: Final = _Escapes()


def _written_out(match: re.Match[str]) -> str:
    if match[0].isascii():
        return f"\\x{ord(match[0]):02x}"
    return match[0].encode("ascii", "backslashreplace").decode()
