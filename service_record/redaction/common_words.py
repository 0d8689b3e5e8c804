"""Know the words that many projects use. Pure.

A word beside a name says what the name means, as in `token authentication`, or is its value. A password of
letters is hardly ever one of these words. `packages/common_words.py` lists them.
"""

from functools import cache
from importlib.resources import files
from typing import Final

FILE: Final = "common_words.txt"
MIN_BYTES: Final = 8
"""The least size of the words in the list. Shorter words are too similar to names and abbreviations."""


@cache
def _read_list() -> frozenset[bytes]:
    return frozenset(files("service_record.redaction").joinpath(FILE).read_bytes().split())


def is_uncommon_word(value: bytes) -> bool:
    """Return True for a long word of letters that is not in the list. A name in camel case is none."""
    word = value.rstrip(b".,;:!?)")
    is_word = word.isalpha() and (word.islower() or word.istitle() or word.isupper())
    return is_word and len(word) >= MIN_BYTES and word.lower() not in _read_list()
