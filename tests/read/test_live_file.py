"""A record that grows between looks: every piece once, in order, whole, whatever happens to the file."""

import io
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service_record.read.live_file import Following, ReadAt
from service_record.read.located_pieces import UNFINISHED_SECONDS, UNSETTLED_SECONDS
from service_record.record.appending import Writer
from service_record.record.entry import Entry, Malformed, Piece
from service_record.record.layout import read_entries
from tests.builders import array, entry, upstream_entry
from tests.strategies import RECORD_BYTES

TORN = b'{"timestamp":"2026-11-21T01:05:10.000Z","stage":"fir'
E1, E2, E3, E4 = (entry("stage start", at, stage=f"stage {at}") for at in range(4))


def of(content: bytes) -> ReadAt:
    return lambda start, length: content[start : start + length]


class Reader:
    """Looks at one content after the other, each written at the moment of the look unless told otherwise."""

    def __init__(self) -> None:
        self.following = Following()
        self.now = 0.0

    def look(
        self, content: bytes, *, after: float = 0.001, age: float = 0, final: bool = False
    ) -> list[Piece]:
        self.now += after
        return list(self.following.look(of(content), self.now, self.now - age, final=final))


def lines(*pieces: Entry | bytes) -> bytes:
    return b"".join(piece if isinstance(piece, bytes) else piece.to_line() for piece in pieces)


def closed(*entries: Entry, room: int = 100) -> bytes:
    body = b",\n".join(each.to_line().rstrip() for each in entries)
    return b"[\n" + body + b"\n]" + b" " * room + b"\n"


@pytest.fixture
def reader() -> Reader:
    return Reader()


def test_what_is_appended_is_new_once(reader: Reader) -> None:
    assert reader.look(lines(E1, E2)) == [E1, E2]
    assert reader.look(lines(E1, E2)) == []
    assert reader.look(lines(E1, E2, E3)) == [E3]


def test_array_with_added_room_has_no_new_entry(reader: Reader) -> None:
    assert reader.look(closed(E1)) == [E1]
    assert reader.look(closed(E1, room=2000)) == []
    assert reader.look(closed(E1, E2)) == [E2]
    assert reader.following.due is None


def test_the_same_entry_written_twice_is_shown_twice(reader: Reader) -> None:
    assert reader.look(lines(E1)) == [E1]
    assert reader.look(lines(E1, E1)) == [E1]
    assert reader.look(lines(E1, E1, E1, E2)) == [E1, E2]


def test_torn_tail_is_damage_after_the_next_write(reader: Reader) -> None:
    assert reader.look(lines(E1, TORN)) == [E1]
    assert reader.look(lines(E1, TORN, b"\n", E2)) == [Malformed(2, TORN.decode(), "a damaged entry"), E2]
    assert reader.look(lines(E1, TORN, b"\n", E2)) == []


def test_torn_tail_is_damage_after_a_while(reader: Reader) -> None:
    assert reader.look(lines(E1, TORN)) == [E1]
    assert reader.following.due == pytest.approx(reader.now + UNFINISHED_SECONDS)
    assert reader.look(lines(E1, TORN), after=UNFINISHED_SECONDS / 2) == []
    assert reader.look(lines(E1, TORN), after=UNFINISHED_SECONDS) == [
        Malformed(2, TORN.decode(), "a damaged entry")
    ]
    assert reader.look(lines(E1, TORN), after=UNFINISHED_SECONDS) == []
    assert reader.look(lines(E1, TORN, b"\n", E2)) == [E2]


def test_old_torn_tail_is_damage_at_once(reader: Reader) -> None:
    assert len(reader.look(lines(E1, TORN), age=60)) == 2


def test_entry_taken_for_damage_is_shown_when_whole(reader: Reader) -> None:
    line = E1.to_line()
    assert len(reader.look(line[:50], age=60)) == 1
    assert reader.look(line) == [E1]


@pytest.mark.parametrize("whole", range(3))
def test_an_entry_shows_only_when_it_is_whole(reader: Reader, whole: int) -> None:
    before = lines(*[E1] * whole)
    assert reader.look(before) == [E1] * whole
    line = E2.to_line()
    for end in range(len(line) - 1):
        assert reader.look(before + line[:end]) == []
    assert reader.look(before + line) == [E2]


def test_parked_line_moved_into_the_array_is_shown_once(reader: Reader) -> None:
    parked = closed(E1) + b"\n" + lines(E2, E3)
    assert reader.look(parked) == [E1]
    assert reader.look(parked, after=UNSETTLED_SECONDS) == [E2, E3]
    assert reader.look(closed(E1, E2, E3, E4, room=len(parked))) == [E4]


def test_new_parked_line_keeps_its_place(reader: Reader) -> None:
    assert reader.look(closed(E1) + b"\n" + lines(E2)) == [E1]
    assert reader.look(closed(E1, E2, E3)) == [E2, E3]


def test_parked_line_in_both_places_is_shown_once(reader: Reader) -> None:
    written = b",\n" + E2.to_line()
    parked = closed(E1, room=600) + b"\n" + lines(E2)
    assert reader.look(parked) == [E1]
    place = len(b"[\n" + E1.to_line().rstrip())
    half = parked[:place] + written + parked[place + len(written) :]
    shown = reader.look(half)
    assert shown + reader.look(closed(E1, E2)) == [E2]


def test_entry_inserted_before_a_parked_line_is_shown(reader: Reader) -> None:
    parked = closed(E1) + b"\n" + lines(E3)
    assert reader.look(parked, age=60) == [E1, E3]
    assert reader.look(closed(E1, E2, room=40) + b"\n" + lines(E3)) == [E2]
    assert reader.look(closed(E1, E2, E3, E4)) == [E4]


def test_mended_damage_hides_no_entry(reader: Reader) -> None:
    torn = closed(E1).replace(b"\n]", b",\n" + TORN)
    assert reader.look(torn) == [E1]
    assert reader.look(torn, after=UNFINISHED_SECONDS) == [Malformed(3, TORN.decode(), "a damaged entry")]
    assert reader.look(closed(E1, E2)) == [E2]


def test_new_or_truncated_file_is_read_from_its_start(reader: Reader) -> None:
    assert reader.look(lines(E1, E2)) == [E1, E2]
    assert reader.look(b"") == []
    assert reader.look(lines(E3)) == [E3]
    assert reader.look(lines(E4)) == [E4]


def test_rewritten_upstream_array_has_one_new_entry(reader: Reader) -> None:
    written = [upstream_entry("stage start", at, stage=f"stage {at}") for at in range(4)]
    for count in range(1, 5):
        assert reader.look(array(*written[:count]), age=1) == written[count - 1 : count]


def test_a_record_in_another_layout_has_nothing_new(reader: Reader) -> None:
    assert reader.look(lines(E1, E2)) == [E1, E2]
    assert reader.look(array(E1, E2), age=1) == []
    assert reader.look(closed(E1, E2, E3)) == [E3]


def test_lines_are_counted_from_the_start(reader: Reader) -> None:
    reader.look(lines(E1, b"\n\n", E2))
    (damage,) = reader.look(lines(E1, b"\n\n", E2, b"\n", b"oops\n"), age=60)
    assert damage == Malformed(6, "oops", "not an entry")


@pytest.mark.parametrize("content", [lines(E1, E2, E3, E4), closed(E1, E2, E3, E4)], ids=["lines", "array"])
def test_skipped_entries_count_as_lines(reader: Reader, content: bytes) -> None:
    reader.following.skip(of(content), content.index(E2.to_line().rstrip()) - 5)
    assert reader.look(content) == [E3, E4]
    (damage,) = reader.look(content + b"oops\n", age=60)
    assert damage == Malformed(content.count(b"\n") + 1, "oops", "not an entry")


def test_skipped_entries_are_not_new_in_another_layout(reader: Reader) -> None:
    reader.following.skip(of(lines(E1, E2, E3)), 1)
    assert reader.look(lines(E1, E2, E3)) == [E3]
    assert reader.look(array(E1, E2, E3, E4), age=60) == [E4]


def test_nothing_is_skipped_without_lines(reader: Reader) -> None:
    reader.following.skip(of(array(E1, E2)), 300)
    assert reader.look(array(E1, E2), age=60) == [E1, E2]


@given(RECORD_BYTES)
def test_first_look_finds_all_pieces_of_a_file(content: bytes) -> None:
    assert Reader().look(content, age=60) == list(read_entries(io.BytesIO(content)))


@settings(max_examples=10)
@given(st.lists(st.integers(1, 5000), max_size=30).map(sorted), st.integers(0, 10))
def test_large_file_is_read_in_chunks(damaged: list[int], long: int) -> None:
    pieces: list[Entry | bytes] = [entry(at=at, error_message="x" * 300) for at in range(5000)]
    for place in reversed(damaged):
        pieces.insert(place, b"oops\n" + b"y" * 500_000 * long + b"\n")
    content = lines(*pieces[:3000]) if long else lines(*pieces)
    assert Reader().look(content, age=60) == list(read_entries(io.BytesIO(content)))


OPERATIONS = st.lists(
    st.sampled_from(["append", "append", "append", "park", "tear", "look", "wait", "empty", "replace"]),
    max_size=25,
)


@pytest.mark.parametrize("layout", ["lines", "array"])
@settings(max_examples=300)
@given(operations=OPERATIONS, cut=st.floats(0, 1))
def test_each_entry_is_shown_once_and_in_order(layout: str, operations: list[str], cut: float) -> None:
    """After each write a look meets it half done: the first bytes new and the others old, or the reverse."""
    with TemporaryDirectory() as directory:
        path = Path(directory) / "job.json"
        reader, writer, written, shown = Reader(), Writer(path), [], []
        path.write_bytes(b"[\n]\n" if layout == "array" else b"")
        for number, operation in enumerate(operations):
            before = path.read_bytes()
            if operation in {"append", "park"}:
                written.append(entry("stage start", number, stage=f"stage {number}", pid=number))
            shown += _done(operation, path, writer, reader, written)
            after = path.read_bytes()
            place = round(cut * len(after))
            if operation == "append" and len(before) == len(after):
                shown += reader.look(before[:place] + after[place:])
                shown += reader.look(after[:place] + before[place:])
            elif operation in {"append", "park", "tear"}:
                shown += reader.look(after[: max(place, len(before))])
        shown += reader.look(path.read_bytes(), after=60, age=60)
    assert [piece for piece in shown if isinstance(piece, Entry)] == written


def _done(operation: str, path: Path, writer: Writer, reader: Reader, written: list[Entry]) -> list[Piece]:
    match operation:
        case "append":
            assert writer.append(written[-1])
        case "park":
            with path.open("ab") as stream:
                stream.write(b"\n" + written[-1].to_line())
        case "tear":
            with path.open("ab") as stream:
                stream.write(b"\n" + TORN)
        case "look":
            return reader.look(path.read_bytes())
        case "wait":
            return reader.look(path.read_bytes(), after=60)
        case "empty" | "replace":
            final = reader.look(path.read_bytes(), final=True)
            beginning = b"[\n]\n" if path.read_bytes().startswith(b"[") else b""
            path.write_bytes(beginning)
            return final + (reader.look(beginning) if operation == "empty" else [])
    return []
