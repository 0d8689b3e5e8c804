"""Patterns of lines: the words that a match certainly has, and looking for many patterns at once."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service_record.diagnosis.causes import built_in_rules
from service_record.diagnosis.evidence.line_patterns import LineSet, Pattern, find_needles
from tests.cause_cases import cause_cases

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"


def all_patterns() -> Iterator[Pattern]:
    for rule in built_in_rules():
        for test in rule.list_line_tests():
            yield from test.patterns


def texts() -> Iterator[str]:
    for case in cause_cases():
        yield from (value for value in case.values.values() if isinstance(value, str))
    for path in EXAMPLES.glob("*/*.json"):
        yield from path.read_text().splitlines()


def lines_by_set(patterns: LineSet, block: bytes, longest: int) -> list[tuple[int, int, set[int]]]:
    """Return what `lines` has to, each line looked at by itself."""
    found = []
    start = 0
    for raw in block.split(b"\n"):
        if tests := patterns.tests_by_set(raw[:longest]):
            found.append((start, start + len(raw), tests))
        start += len(raw) + 1
    return found


@pytest.mark.slow
def test_all_strategies_find_the_same_patterns() -> None:
    reference = LineSet(enumerate(all_patterns()))
    compiled = LineSet(enumerate(all_patterns()))
    found = {text: reference.tests_by_set(text.encode()) for text in texts()}
    assert sum(map(bool, found.values())) > len(built_in_rules())
    assert {text: compiled.tests(text.encode()) for text in found} == found

    filler = "\n".join(f"systemd[1]: Started run-{n:032x}.scope." for n in range(40))
    block = f"\n{filler}\n".join(found).encode()
    lines = list(compiled.lines(block, 1 << 14))
    assert "_set" not in vars(compiled)
    assert lines == lines_by_set(reference, block, 1 << 14)
    assert len(lines) > len(built_in_rules())


def test_text_with_many_words_uses_one_set() -> None:
    words = [f"word{number:02}" for number in range(70)]
    patterns = LineSet(enumerate([Pattern.parse(f"{word}$") for word in words]))
    assert patterns.tests(" ".join(words[:60]).encode()) == {59}
    assert "_set" not in vars(patterns)
    assert patterns.tests(" ".join(words).encode()) == {69}
    assert "_set" in vars(patterns)


def test_line_is_searched_up_to_the_limit() -> None:
    patterns = LineSet([(1, Pattern.parse("disk full"))])
    block = b"disk full, disk full\nthe disk full\nthe disk full of it\na disk full"
    assert list(patterns.lines(block, 11)) == [(0, 20, {1}), (55, 66, {1})]


def test_words_that_overlap_are_all_found() -> None:
    patterns = LineSet(enumerate(map(Pattern.parse, ["disk", "iskra", "skra[bp]", "dis[ck]", "disk full"])))
    assert list(patterns.lines(b"diskrap of\nx\n", 1 << 14)) == [(0, 10, {0, 1, 2, 3})]


def test_patterns_without_words_are_tested_everywhere() -> None:
    for more in ([], [(3, Pattern.parse("[[:digit:]]{3}$"))]):
        patterns = LineSet([(1, Pattern.parse("^MemoryError$")), (2, Pattern.parse("disk full")), *more])
        found = list(patterns.lines(b"fine\nMemoryError\ndisk full 100\nno MemoryError", 1 << 14))
        assert found == [(5, 16, {1}), (17, 30, {2, 3} if more else {2})]


def test_empty_set_finds_nothing() -> None:
    assert LineSet(()).tests(b"x" * 50_000) == set()
    assert list(LineSet(()).lines(b"x" * 50_000, 1 << 14)) == []
    LineSet(()).prepare()


def test_short_texts_are_searched_like_any_other() -> None:
    """The first short texts are searched without the automaton, which takes long to make."""
    rules = [
        *map(Pattern.parse, ["disk", "dis[ck]", "ÄRGER", "disk full$"]),
        Pattern.parse("[[:digit:]]{3}$"),
    ]
    text = b"DISK \xff full\n\xc3\x84rger 100"
    early, late = LineSet(enumerate(rules)), LineSet(enumerate(rules))
    late.prepare()
    assert early.tests(text) == late.tests(text) == early.tests_by_set(text)
    assert "_automaton" not in vars(early)
    for _ in range(100):
        assert early.tests(text) == late.tests(text)
    assert "_automaton" in vars(early)
    assert LineSet(enumerate(rules)).tests(text * 1000) == late.tests(text * 1000)


TWELVE = tuple(f"{letter}of" for letter in "abcdefghijkl")


@pytest.mark.parametrize(
    ("pattern", "needles"),
    [
        (r"No space left\b on (?P<device>/\S+)", ("no space left on /",)),
        (r"exit(?:ed)? with status", (" with status",)),
        (r"(?:dial|lookup) tcp", ("dial", "lookup")),
        (r"x(?:refused|timed out)", ("refused", "timed out")),
        (r"(?:refused|timed out|\d+)", ()),
        (f"(?:{'|'.join(TWELVE)})", TWELVE),
        (f"(?:{'|'.join(TWELVE)}|one more)", ()),
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
        (r"(?i)permission denied", ("permission denied",)),
        (r"(?:^|[:\]] )out of memory", ("out of memory",)),
        (r"[0-9]+: \[\[: not found", (": [[: not found",)),
        (r"first line\nsecond", ("first line",)),
        (r"a[]x]b*cde+fgh", ("cde",)),
        (r"(?P<name>abc|(?:def|g(?:hij|klm)))n", ("abc", "def", "hij", "klm")),
    ],
)
def test_needle_is_in_every_match(pattern: str, needles: tuple[str, ...]) -> None:
    assert find_needles(pattern) == needles


_WORDS = st.text("abcX.", min_size=1, max_size=4).map(re.escape)
_PATTERNS = st.recursive(
    _WORDS | st.sampled_from(["[abc]", r"\w", "."]),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: f"(?:{'|'.join(parts)})"),
        st.tuples(inner, st.sampled_from(["?", "*", "+", "{0,2}", "{2}"])).map(
            lambda part: f"(?:{part[0]}){part[1]}"
        ),
    ),
    max_leaves=8,
)


@settings(max_examples=60)
@given(pattern=_PATTERNS, data=st.data())
def test_every_match_of_any_pattern_contains_a_needle(pattern: str, data: st.DataObject) -> None:
    text = data.draw(st.from_regex(re.compile(pattern, re.ASCII | re.IGNORECASE), fullmatch=True))
    needles = find_needles(pattern)
    assert not needles or any(needle in text.lower() for needle in needles)


def test_bytes_that_are_no_text_hide_no_pattern() -> None:
    numbered = tuple(enumerate([Pattern.parse("kernel"), Pattern.parse("disk full")]))
    assert list(LineSet(numbered).lines(b"caf\xff DISK FULL", 1 << 14)) == [(0, 14, {1})]
