"""Count the pairs of characters in ordinary words, and write them as the model of `redaction.randomness`.

    python -m packages.word_model DIRECTORY...

The directories have public texts: logs, documentation and source code. Each word counts by the logarithm of
its frequency, so that a few common words do not outweigh all names. Words that look encoded do not count.
"""

import math
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from string import ascii_lowercase, punctuation

from service_record.redaction import randomness

_WORD = re.compile(rb"[!-~]{3,48}(?![!-~])")
_AROUND = b".,:;?!\"'`()[]{}<>="
_ENCODED = re.compile(rb"[0-9a-f]{8,}|[0-9A-F]{8,}|.*[A-Za-z0-9+/]{32}.*")
_MAX_FILE_BYTES = 4 << 20
_PRIOR = 50
"""Is added to each count, so that no pair is impossible."""


def count_words(directories: Iterable[Path]) -> Counter[str]:
    """Return how often each word occurs in the text files of some directories."""
    words: Counter[bytes] = Counter()
    for path in (path for directory in directories for path in directory.rglob("*") if path.is_file()):
        with path.open("rb") as file:
            data = file.read(_MAX_FILE_BYTES)
        if b"\0" not in data:
            words.update(word.strip(_AROUND) for word in _WORD.findall(data))
    return Counter({word.decode(): count for word, count in words.items() if not _ENCODED.fullmatch(word)})


def costs(words: Mapping[str, int]) -> dict[str, dict[str, dict[str, float]]]:
    """Return the cost of each class, letter and sign in bits, by what precedes it."""
    classes: dict[tuple[str, str], float] = defaultdict(float)
    letters: dict[tuple[str, str], float] = defaultdict(float)
    signs: dict[tuple[str, str], float] = defaultdict(float)
    for word, count in words.items():
        weight = math.log2(1 + count)
        for before, character in zip(" " + word, word, strict=False):
            kind = randomness.character_class(character)
            classes[randomness.character_class(before), kind] += weight
            if character.isalpha():
                letters[randomness.find_letter_before(before, character), character.lower()] += weight
            elif kind == randomness.SIGN:
                signs["", character] += weight
    return {
        "classes": _costs(classes, [*randomness.CLASSES, randomness.START], randomness.CLASSES),
        "letters": _costs(letters, [*ascii_lowercase, randomness.START], ascii_lowercase),
        "signs": _costs(signs, [""], punctuation),
    }


def _costs(
    counts: Mapping[tuple[str, str], float], rows: Iterable[str], columns: str
) -> dict[str, dict[str, float]]:
    table = {}
    for row in rows:
        total = sum(counts.get((row, column), 0) + _PRIOR for column in columns)
        table[row] = {
            column: round(-math.log2((counts.get((row, column), 0) + _PRIOR) / total), 1)
            for column in columns
        }
    return table


def main(directories: Iterable[str]) -> None:
    model = costs(count_words(map(Path, directories)))
    lines = ["# Made by packages/word_model.py: costs in bits, by the character before."]
    for name, table in model.items():
        lines += [f"\n[{name}]"]
        lines += [f'"{row}" = "{" ".join(map(str, costs.values()))}"' for row, costs in table.items()]
    Path(randomness.__file__).with_name(randomness.MODEL).write_text(
        "\n".join(lines) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
