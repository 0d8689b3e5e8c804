"""The corpus: valid inputs of each kind, and inputs that once made a test fail."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar

from hypothesis import example
from hypothesis import strategies as st

from tests.fuzz.damage import draw_damaged

FOLDER: Final = Path(__file__).parent / "corpus"
"""One folder for each kind, one file for each input. The names of inputs that made a test fail begin with
`found-`.
"""

Test = TypeVar("Test", bound=Callable[..., Any])


@cache
def read_corpus(kind: str) -> tuple[bytes, ...]:
    """Return the inputs of a kind, sorted by name."""
    return tuple(path.read_bytes() for path in sorted((FOLDER / kind).iterdir()))


def with_corpus(kind: str, name: str, **others: object) -> Callable[[Test], Test]:
    """Decorate a test: in every run, try each input of a kind as the argument `name`."""

    def add_examples(test: Test) -> Test:
        for seed in read_corpus(kind):
            test = example(**{name: seed}, **others)(test)
        return test

    return add_examples


def draw_from_corpus(kind: str, *others: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """Draw inputs of a kind from the corpus or from `others`, undamaged or damaged."""
    return draw_damaged(st.one_of(st.sampled_from(read_corpus(kind)), *others))
