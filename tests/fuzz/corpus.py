"""Inputs that were worth keeping: what each kind looks like when it is good, and all that was found bad."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar

from hypothesis import example
from hypothesis import strategies as st

from tests.fuzz.damage import damaged

FOLDER: Final = Path(__file__).parent / "corpus"
"""A folder for each kind, a file for each input. What was found begins with `found-`."""

Test = TypeVar("Test", bound=Callable[..., Any])


@cache
def seeds(kind: str) -> tuple[bytes, ...]:
    """The inputs of a kind, in the order of their names."""
    return tuple(path.read_bytes() for path in sorted((FOLDER / kind).iterdir()))


def with_seeds(kind: str, name: str, **others: object) -> Callable[[Test], Test]:
    """Have a test tried with each input of a kind as its argument of that name, in every run."""

    def seeded(test: Test) -> Test:
        for seed in seeds(kind):
            test = example(**{name: seed}, **others)(test)
        return test

    return seeded


def grown(kind: str, *more: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """The inputs of a kind, and more that are drawn, whole or damaged."""
    return damaged(st.one_of(st.sampled_from(seeds(kind)), *more))
