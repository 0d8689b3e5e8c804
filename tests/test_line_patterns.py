"""Patterns of lines: the words that a match certainly has, and looking for many patterns at once."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from service_record.diagnosis.cause_rules import LineSet, Pattern, needles_of
from service_record.diagnosis.causes import built_in_rules
from tests.cause_cases import cause_cases

EXAMPLES = Path(__file__).parents[1] / "docs" / "examples"


def all_patterns() -> Iterator[Pattern]:
    for rule in built_in_rules():
        for test in rule.line_tests():
            yield from test.patterns


def texts() -> Iterator[str]:
    for case in cause_cases():
        yield from (value for value in case.values.values() if isinstance(value, str))
    for path in EXAMPLES.glob("*/*.json"):
        yield from path.read_text().splitlines()


def test_words_and_the_set_find_the_same_patterns_in_every_text() -> None:
    patterns = LineSet(enumerate(all_patterns()))
    found = {text: patterns.tests_by_set(text.encode()) for text in texts()}
    assert {text: patterns.tests_by_words(text.encode()) for text in found} == found
    assert sum(map(bool, found.values())) > len(built_in_rules())


def test_short_texts_are_searched_without_compiling_the_set_and_long_ones_with_it() -> None:
    patterns = LineSet([(1, Pattern.of("no space left")), (2, Pattern.of("[0-9]+ errors?"))])
    assert patterns.tests(b"write: No Space Left on device") == {1}
    assert "_set" not in patterns.__dict__
    assert patterns.tests(b"12 errors; " + b"." * 50_000 + b"no space left") == {1, 2}
    assert "_set" in patterns.__dict__
    assert patterns.tests(b"fine") == set()
    assert LineSet(()).tests(b"x" * 50_000) == set()


@pytest.mark.parametrize(
    ("pattern", "needles"),
    [
        (r"No space left\b on (?P<device>/\S+)", ("no space left on /",)),
        (r"exit(?:ed)? with status", (" with status",)),
        (r"(?:dial|lookup) tcp", ("dial", "lookup")),
        (r"x(?:refused|timed out)", ("refused", "timed out")),
        (r"(?:refused|timed out|\d+)", ()),
        (r"(?:word)?", ()),
        (r"(?:word){0,3}", ()),
        (r"(?:word)+", ("word",)),
        (r"[Ww]rong.*certificate", ("certificate",)),
        (r"[[:alpha:]] and more", ()),
        (r"\pL and more", ()),
        (r"\Qa.b\E", ()),
        (r"größer als", ("er als",)),
        (r"ab", ()),
        ("(", ()),
    ],
)
def test_a_needle_is_in_every_match(pattern: str, needles: tuple[str, ...]) -> None:
    assert needles_of(pattern) == needles


@pytest.mark.parametrize("text", ["\u212aernel", "di\u017fk full", "caf\udcff DISK FULL"])
def test_letters_that_fold_to_those_of_a_pattern_are_found_by_its_words(text: str) -> None:
    patterns = LineSet(enumerate([Pattern.of("kernel"), Pattern.of("disk full")]))
    raw = text.encode(errors="surrogateescape")
    assert patterns.tests_by_words(raw) == patterns.tests_by_set(raw) != set()
