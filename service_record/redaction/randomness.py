"""Measure how random a word is. Pure.

Some pairs of characters are common in ordinary words, names and numbers: `er`, a capital before small
letters, a digit after a digit. The model (word_model.toml) has the cost of each pair in bits.
`packages/word_model.py` makes it from public logs, documentation and source code.
"""

import math
import re
import tomllib
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib.resources import files
from itertools import pairwise
from string import ascii_lowercase, punctuation
from typing import Final

MODEL: Final = "word_model.toml"
LOWER, UPPER, DIGIT, SIGN, START = "aA0- "
CLASSES: Final = LOWER + UPPER + DIGIT + SIGN
"""The classes of characters: small letters, capitals, digits and signs."""
_ALPHABETS: Final = tuple(
    (re.compile(pattern), size)
    for pattern, size in ((rb"[a-z]", 26), (rb"[A-Z]", 26), (rb"[0-9]", 10), (rb"[^A-Za-z0-9]", 32))
)
_HEX: Final = re.compile(rb"[0-9a-f]+|[0-9A-F]+")
_HEX_BITS: Final = 4
_MAX_BYTES: Final = 256
"""The beginning of a long word shows its order; a log may have megabytes without a blank."""


def character_class(character: str) -> str:
    """Return one of `CLASSES`, or `START` for a blank."""
    if character == START:
        return START
    if character.isalpha():
        return LOWER if character.islower() else UPPER
    return DIGIT if character.isdigit() else SIGN


def find_letter_before(before: str, letter: str) -> str:
    """Return the letter before a letter in the same part of a word, in lower case, or `START`.

    A capital after a small letter begins a part, as in `startTime`.
    """
    is_same_part = before.isalpha() and not (before.islower() and letter.isupper())
    return before.lower() if is_same_part else START


@cache
def _costs() -> Mapping[tuple[int, int], float]:
    """Return the cost in bits of each pair of printable characters."""
    model = tomllib.loads(files("service_record.redaction").joinpath(MODEL).read_text(encoding="utf-8"))

    def read(name: str, columns: str) -> dict[tuple[str, str], float]:
        return {
            (row, column): float(cost)
            for row, costs in model[name].items()
            for column, cost in zip(columns, costs.split(), strict=True)
        }

    classes, letters = read("classes", CLASSES), read("letters", ascii_lowercase)
    signs = read("signs", punctuation)
    printable = [chr(byte) for byte in range(ord("!"), ord("~") + 1)]
    costs: dict[tuple[int, int], float] = {}
    for before in (START, *printable):
        for character in printable:
            kind = character_class(character)
            cost = classes[character_class(before), kind]
            if character.isalpha():
                cost += letters[find_letter_before(before, character), character.lower()]
            else:
                cost += math.log2(10) if kind == DIGIT else signs["", character]
            costs[ord(before), ord(character)] = cost
    return costs


@lru_cache(maxsize=1 << 12)
def random_bits(word: bytes) -> float:
    """Return how much more likely a word is among random texts than among ordinary words, in bits.

    Random texts have the same classes of characters. A word of 10 bits is a thousand times as likely there.
    """
    word = word[:_MAX_BYTES]
    costs = _costs()
    surprise = sum(costs.get(pair, 0) for pair in pairwise(b" " + word))
    if _HEX.fullmatch(word):
        return surprise - _HEX_BITS * len(word)
    return surprise - len(word) * math.log2(sum(size for each, size in _ALPHABETS if each.search(word)) or 1)
