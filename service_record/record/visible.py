"""Escape characters that act on a terminal or are invisible. Texts in records may come from anybody. Pure."""

import re
from typing import Final

UNSEEN: Final = "[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]"
"""C1 controls, which act on terminals; bidirectional overrides; and invisible marks."""

_UNSAFE: Final = f"{UNSEEN}|[\x00-\x1f\ud800-\udfff\U000e0000-\U000e007f]"


def visible(text: str) -> str:
    r"""Return the text with such characters as escapes, `\x1b` or `\u202e`. A tab becomes four blanks."""
    if text.isascii() and text.isprintable():
        return text
    return text.replace("\t", "    ").translate(_ESCAPES)


class _Escapes(dict[int, str]):
    """Code point -> the text to show for it. An item is added when its character first appears."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        if not re.match(_UNSAFE, character):
            escape = character
        elif character.isascii():
            escape = f"\\x{code:02x}"
        else:
            escape = character.encode("ascii", "backslashreplace").decode()
        self[code] = escape
        return escape


_ESCAPES: Final = _Escapes()
