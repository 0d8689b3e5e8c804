"""The reader: every layout, every damage, nothing lost, nothing invented."""

import io
import json
import re
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service_record.record.entry import MAX_REGION_BYTES, Entry, Malformed
from service_record.record.layout import read_entries
from tests.builders import array, entry, our_array, require_type, upstream_entry
from tests.strategies import entries as written_entries

FOUR = [
    entry("service start", 0, recorder="bash/0.1.0"),
    entry("stage start", 1, stage='say "hi" \\ {a} [b], é'),
    entry(
        "stage end",
        2,
        stage='say "hi" \\ {a} [b], é',
        error_message='{"timestamp":"x"}\nlast',
        stack=("1 main /x",),
    ),
    entry("service end", 3, exit_code=0, extra={"nested": {"deep": [{}, {"a": "}"}]}}),
]
LINES = [written.to_line() for written in FOUR]
OBJECTS = [line.rstrip() for line in LINES]
UPSTREAM = [upstream_entry("service start"), upstream_entry("stage start", 1, stage="first")]


def read(content: bytes) -> list[Entry | Malformed]:
    return list(read_entries(io.BytesIO(content)))


def entries(content: bytes) -> list[Entry]:
    return [piece for piece in read(content) if isinstance(piece, Entry)]


def malformed(content: bytes) -> list[Malformed]:
    return [piece for piece in read(content) if isinstance(piece, Malformed)]


LAYOUTS = {
    "lines": b"".join(LINES),
    "lines-with-crlf": b"".join(LINES).replace(b"\n", b"\r\n"),
    "lines-with-blank-ones": b"\n" + b"\n \t\n".join(LINES),
    "lines-without-last-newline": b"".join(LINES).rstrip(),
    "lines-behind-a-byte-order-mark": b"\xef\xbb\xbf" + b"".join(LINES),
    "all-on-one-line": b"".join(OBJECTS),
    "indented-array": array(*FOUR),
    "indented-array-behind-a-byte-order-mark": b"\xef\xbb\xbf" + array(*FOUR),
    "compact-array": b"[" + b",".join(OBJECTS) + b"]",
    "array-of-lines": b"[\n" + b",\n".join(OBJECTS) + b"\n]\n",
    "array-with-leading-commas": b"[\n" + b"\n,".join(OBJECTS) + b"\n]\n",
    "array-with-a-trailing-comma": b"[" + b",".join(OBJECTS) + b",]",
    "unclosed-array": array(*FOUR).rstrip().removesuffix(b"]"),
    "pieces-behind-commas": b"".join(b"," + line for line in LINES),
    "an-array-for-each-entry": b"".join(b"[" + found + b"]\n" for found in OBJECTS),
    "several-indented-arrays": array(*FOUR[:2]) + array(*FOUR[2:]),
    "indented-objects": b"\n".join(json.dumps(written.to_json(), indent=4).encode() for written in FOUR),
    "array-then-lines": array(*FOUR[:2]) + b"".join(LINES[2:]),
    "our-array": our_array(*FOUR),
    "our-array-with-entries-behind": our_array(*FOUR[:2], appended=FOUR[2:]),
    "lines-then-array": b"".join(LINES[:2]) + array(*FOUR[2:]),
}


@pytest.mark.parametrize("content", LAYOUTS.values(), ids=LAYOUTS)
def test_every_layout_is_read_whole(content: bytes) -> None:
    assert read(content) == FOUR


@pytest.mark.parametrize("content", [b"", b"\n", b"\xef\xbb\xbf", b"[]\n", b"["], ids=repr)
def test_a_file_without_entries_yields_nothing(content: bytes) -> None:
    assert read(content) == []


def test_an_array_of_upstreams_is_read() -> None:
    assert read(array(*UPSTREAM)) == UPSTREAM


TORN = OBJECTS[1][:70]
DAMAGES = {
    "torn-tail": (b"".join(LINES[:3]) + TORN, [Malformed(4, TORN.decode(), "a damaged entry")], FOUR[:3]),
    "torn-then-glued": (TORN + b"".join(LINES), [Malformed(1, TORN.decode(), "a damaged entry")], FOUR),
    "torn-then-newline": (
        LINES[0] + TORN + b"\n\n" + LINES[2],
        [Malformed(2, TORN.decode(), "a damaged entry")],
        [FOUR[0], FOUR[2]],
    ),
    "text-in-front": (b"oops: " + LINES[0], [Malformed(1, "oops:", "not an entry")], FOUR[:1]),
    "text-behind": (OBJECTS[0] + b" oops\n" + LINES[1], [Malformed(1, "oops", "not an entry")], FOUR[:2]),
    "quotes-in-front": (
        b'a "b {c} \\" ' + LINES[0],
        [Malformed(1, 'a "b {c} \\"', "not an entry")],
        FOUR[:1],
    ),
    "adjacent-damage": (LINES[0] + b"a\nb\n" + LINES[1], [Malformed(2, "a\nb", "not an entry")], FOUR[:2]),
    "nul-bytes": (LINES[0] + b"\0" * 9 + b"\n" + LINES[1], [Malformed(2, "\0" * 9, "9 NUL bytes")], FOUR[:2]),
    "nul-bytes-in-front": (b"\0\0" + LINES[0], [Malformed(1, "\0\0", "2 NUL bytes")], FOUR[:1]),
    "bytes-not-utf-8": (LINES[0] + b"\xff\xe9\n", [Malformed(2, "\\xff\\xe9", "not an entry")], FOUR[:1]),
    "a-number": (LINES[0] + b"123\n", [Malformed(2, "123", "not an object: 123")], FOUR[:1]),
    "an-object": (LINES[0] + b'{"a":1}\n', [Malformed(2, '{"a":1}', "phase: missing")], FOUR[:1]),
    "an-unknown-phase": (
        LINES[0] + b'{"timestamp":"2026-11-21T01:05:10Z","phase":"x"}\n' + LINES[1],
        [Malformed(2, '{"timestamp":"2026-11-21T01:05:10Z","phase":"x"}', 'phase: unknown word "x"')],
        FOUR[:2],
    ),
    "a-torn-element": (
        b"[" + OBJECTS[0] + b"," + TORN + b"," + OBJECTS[2] + b"]",
        [Malformed(1, TORN.decode(), "a damaged entry")],
        [FOUR[0], FOUR[2]],
    ),
}


@pytest.mark.parametrize(("content", "damage", "whole"), DAMAGES.values(), ids=DAMAGES)
def test_damage_is_told_and_costs_nothing_around_it(
    content: bytes, damage: list[Malformed], whole: list[Entry]
) -> None:
    assert malformed(content) == damage
    assert entries(content) == whole


def test_damaged_indented_element_spoils_no_other() -> None:
    content = array(*FOUR).replace(b'"phase": "stage start"', b'"phase": "stage start', 1)
    [damage] = malformed(content)
    assert entries(content) == [FOUR[0], *FOUR[2:]]
    assert damage.line == array(FOUR[0]).count(b"\n")


def test_entry_inside_an_entry_is_not_one() -> None:
    outer = entry("service end", extra={"copyOf": FOUR[0].to_json()})
    for content in (outer.to_line(), array(outer), outer.to_line() + TORN + outer.to_line()):
        assert set(map(Entry.to_line, entries(content))) == {outer.to_line()}


@pytest.mark.parametrize(
    ("written", "stage"),
    [
        pytest.param(b"a\xffb", "a\\xffb", id="bytes-not-utf-8"),
        pytest.param(b"a\\udcffb\\ud800", "a\ufffdb\ufffd", id="lone-surrogates"),
        pytest.param(b"a\x1b\tb", "a\x1b\tb", id="raw-control-characters"),
    ],
)
def test_entry_with_lenient_json_is_accepted(written: bytes, stage: str) -> None:
    content = (
        LINES[0] + entry("stage start", 1, stage="STAGE").to_line().replace(b"STAGE", written) + LINES[3]
    )
    assert read(content) == [FOUR[0], entry("stage start", 1, stage=stage), FOUR[3]]


SMALL = [
    entry("stage start", 1.25, stage='a "{'),
    entry("stage end", 2.25, stage='a "{', error_message="}\n\\"),
    entry("service start", 3.25),
]
SMALL_FILES = {
    "lines": b"".join(written.to_line() for written in SMALL),
    "indented-array": array(*SMALL),
    "compact-array": b"[" + b",".join(written.to_line().rstrip() for written in SMALL) + b"]\n",
}
small_file = pytest.mark.parametrize("content", SMALL_FILES.values(), ids=SMALL_FILES)


def spans(content: bytes) -> list[range]:
    """Return the places of the three entries of a small file."""
    starts = [match.start() for match in re.finditer(rb'\{\s*"timestamp"', content)]
    decoder = json.JSONDecoder()
    return [range(start, decoder.raw_decode(content.decode(), start)[1]) for start in starts]


def text_of(pieces: list[Entry | Malformed]) -> bytes:
    """All that the pieces say, without white space and the structure of an array."""
    return unstructured(b"".join(p.to_line() if isinstance(p, Entry) else p.text.encode() for p in pieces))


def unstructured(content: bytes) -> bytes:
    return content.decode(errors="backslashreplace").encode().translate(None, b"[], \t\r\n")


@small_file
def test_cut_file_keeps_entries_before_the_cut(content: bytes) -> None:
    places = spans(content)
    for end in range(len(content)):
        pieces = read(content[:end])
        whole = [written for written, place in zip(SMALL, places, strict=True) if place.stop <= end]
        assert [piece for piece in pieces if isinstance(piece, Entry)] == whole, end
        assert text_of(pieces) == unstructured(content[:end]), end


def damaged_at(content: bytes, place: int) -> Iterator[bytes]:
    """The content without its byte at a place, and with each of the awkward bytes there instead."""
    for byte in (b"", *(bytes([code]) for code in b'\0\n"{}[],:\\x\xff')):
        yield content[:place] + byte + content[place + 1 :]


@pytest.mark.slow
@small_file
def test_wrong_byte_spoils_at_most_one_entry(content: bytes) -> None:
    places = spans(content)
    for place in range(len(content)):
        untouched = [written for written, span in zip(SMALL, places, strict=True) if place not in span]
        for damaged in damaged_at(content, place):
            pieces = read(damaged)
            found = [piece for piece in pieces if isinstance(piece, Entry)]
            changed = [piece for piece in found if piece not in SMALL]
            assert [piece for piece in found if piece in untouched] == untouched, damaged
            assert len(found) <= len(SMALL), damaged
            assert changed or text_of(pieces) == unstructured(damaged), damaged


FRAGMENTS = st.one_of(
    st.binary(max_size=20),
    st.text('{}[]",:\\\n\0 a', max_size=40).map(str.encode),
    st.sampled_from(OBJECTS).flatmap(lambda text: st.integers(0, len(text) - 1).map(lambda end: text[:end])),
)


@given(st.lists(FRAGMENTS, min_size=len(FOUR), max_size=len(FOUR)))
def test_entry_on_its_own_line_is_found(rubbish: list[bytes]) -> None:
    content = b"".join(piece + b"\n" + line for piece, line in zip(rubbish, LINES, strict=True))
    pieces = read(content)
    assert [piece for piece in pieces if isinstance(piece, Entry)] == FOUR
    assert text_of(pieces) == unstructured(content.removeprefix(b"\xef\xbb\xbf"))


@given(st.lists(FRAGMENTS | st.sampled_from(LINES)).map(b"".join))
def test_reader_never_raises_and_counts_lines(content: bytes) -> None:
    numbers = [piece.line for piece in read(content) if isinstance(piece, Malformed)]
    assert numbers == sorted(numbers)
    assert all(0 < number <= content.count(b"\n") + 1 for number in numbers)


@pytest.mark.slow
@given(st.lists(written_entries(), max_size=4))
def test_what_is_written_is_read_in_either_layout(written: list[Entry]) -> None:
    assert read(array(*written)) == written
    lines = b"".join(entry.to_line(1 << 20) for entry in written)
    assert [piece.to_line() for piece in entries(lines)] == [entry.to_line() for entry in written]


@pytest.mark.slow
@pytest.mark.parametrize("room", [1, 20, 40, 60, 200], ids=lambda room: f"{room}-bytes-left")
def test_large_file_is_read_like_a_small_one(room: int) -> None:
    """What is held ends behind the brace of an element, and in other places within one."""
    many = [entry("stage start", at, stage="s" * 150) for at in range(15_000)]
    content = array(*many)
    brace = content.rindex(b"  {\n", 0, MAX_REGION_BYTES - 1000) + len(b"  {\n")
    padding = MAX_REGION_BYTES - brace + len(b"[\n") - room
    assert read(b"[\n" + b" " * padding + content.removeprefix(b"[\n")) == many


def test_unended_object_does_not_hide_later_entries() -> None:
    many = [entry("stage start", at, stage="s" * 150) for at in range(15_000)]
    content = b'{"torn":\n' + array(*many)
    assert entries(content) == many
    assert malformed(content) == [Malformed(1, '{"torn":\n[', "a damaged entry")]


def test_very_long_line_is_malformed_in_pieces() -> None:
    content = LINES[0] + b'{"phase":"' + b"x" * (2 * MAX_REGION_BYTES) + b'"}\n' + LINES[1]
    assert entries(content) == FOUR[:2]
    assert text_of(read(content)) == unstructured(content)
    assert {damage.line for damage in malformed(content)} == {2}


UNITS = [
    *(b"{", b"}", b'{"', b"[", b'"', b'\\"', b'{\\"', b"{}", b'{"a":', b'{"a":{}', b'{"a":1}', b"{\n"),
    *(b"\0", b"a\n", b"{ ", b"\\n", b'"' + b"a" * 50 + b"\n", b'"' + b"\\n" * 60 + b'"'),
]
HOSTILE = {repr(unit): unit * ((4 << 20) // len(unit)) for unit in UNITS} | {
    "deep-object": b'{"a":' * 400_000 + b"}" * 400_000,
    "long-string": b'"' + b"\\n" * 2_000_000,
    "long-brace": b"{" + b" " * 4_000_000,
    "deep-list": b'{"phase":' + b"[" * 4_000_000 + b"}",
}


@pytest.mark.slow
@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
def test_hostile_content_takes_linear_time(content: bytes) -> None:
    """A reader that looks again at what it has seen takes hours for what takes a second or two here."""
    started = time.process_time()
    assert entries(content + b"\n" + LINES[0]) == FOUR[:1]
    assert time.process_time() - started < 20


CUT = FOUR[1].to_line().index(b"say") + 1
HALVES = [FOUR[1].to_line()[:CUT], FOUR[1].to_line()[CUT:]]
NUMBER = FOUR[1].to_line().index(b"61.0") + 2


@pytest.mark.parametrize(
    "content",
    [
        HALVES[0] + b"\0" * 512 + HALVES[1],
        HALVES[0] + b" " * 511 + b"\n" + HALVES[1],
        LINES[1][:NUMBER] + b" " * 511 + b"\n" + b" " * 511 + b"\n},\n",
    ],
    ids=["NULs in a text", "blanks in a text", "blanks behind a number"],
)
def test_halves_around_a_lost_sector_are_malformed(content: bytes) -> None:
    assert entries(LINES[0] + content + LINES[3]) == [FOUR[0], FOUR[3]]


def test_only_first_foreign_objects_are_own_pieces() -> None:
    content = b"".join(b'{"n":%d}\n' % number for number in range(1500)) + LINES[0]
    pieces = read(content)
    assert [piece.line for piece in pieces if isinstance(piece, Malformed)] == [*range(1, 1002)]
    rest = require_type(Malformed, pieces[-2])
    assert rest.text.splitlines() == [f'{{"n":{number}}}' for number in range(1000, 1500)]
    assert isinstance(pieces[-1], Entry)


@pytest.mark.parametrize("around", [b"%s%s\n", b"x %s\n%s\n", b"[\n%s %s]", b"{%s, 1}\n%s\n"], ids=repr)
def test_the_shortest_entry_is_one(around: bytes) -> None:
    shortest = b'{"phase":"stage end"}'
    assert entries(around % (shortest, shortest)) == [Entry.from_json(json.loads(shortest))] * 2
