"""The array layout: one closed array after each entry, of either writer, whatever the file was before."""

import json
import stat
from itertools import pairwise
from pathlib import Path

import pytest

from service_record.entry import Entry, Malformed
from service_record.layout import read_entries
from tests.array_writers import (
    ARRAY,
    LINES,
    NO_LAYOUT,
    WRITERS,
    ArrayWriter,
    Json,
    Library,
    Shim,
    damaged_of,
    each_writer,
    elements,
    is_locked,
    put,
    record_of,
    spare,
)
from tests.builders import array, entry, failed_run, upstream_entry
from tests.shell.scripts import bashes

ODD = 'a ] b }] c }, d \n] e {"timestamp":"x"}, "f" \\" é … 😀 }]'
"""A text with all that looks like the end of an array, or of an entry."""

OURS = [*failed_run(error_message=ODD)]
UPSTREAM = [upstream_entry("service start"), upstream_entry("stage start", 1, stage=ODD)]
JSON = [each.to_json() for each in OURS]
FIRST, SECOND, THIRD, LAST = (each.to_line().rstrip() for each in OURS)
ALL = b",\n".join([FIRST, SECOND, THIRD, LAST])
CLOSED = b"[\n" + ALL + b"\n]\n"
COMPACT = json.dumps(JSON, ensure_ascii=False, separators=(",", ":")).encode()
INDENTED = array(*OURS)
ROOM = b" " * 1500 + b"\n"

each_bash = pytest.mark.parametrize("shim", [Shim(bash) for bash in bashes()], ids=str)


def json_of(entries: list[Entry]) -> list[Json]:
    return [each.to_json() for each in entries]


@each_writer
def test_a_new_file_is_a_closed_array_after_each_entry(writer: ArrayWriter, tmp_path: Path) -> None:
    states = writer.append(tmp_path, 9)

    assert [len(elements(state)) for state in states] == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    phases = [element["phase"] for element in elements(states[-1])]
    assert phases == ["service start", *["stage start", "stage end"] * 4]
    assert not damaged_of(tmp_path).exists()


@each_writer
def test_an_entry_changes_nothing_before_it(writer: ArrayWriter, tmp_path: Path) -> None:
    states = writer.append(tmp_path, 9)

    for before, after in pairwise(states):
        assert after.startswith(before.rstrip(b" \n").removesuffix(b"\n]"))


@each_writer
def test_an_entry_is_a_line_and_room_is_left_behind_the_bracket(writer: ArrayWriter, tmp_path: Path) -> None:
    for number, state in enumerate(writer.append(tmp_path, 9), start=1):
        assert len(state.rstrip(b" \n").split(b"\n")) == number + 2
        assert len(state) % 1024 == 0
        assert 1024 <= spare(state) < 1024 + 1024 + 512


@each_writer
def test_directory_and_file_are_for_owner_and_group(writer: ArrayWriter, tmp_path: Path) -> None:
    writer.append(tmp_path)

    assert stat.S_IMODE(record_of(tmp_path).stat().st_mode) == 0o644
    assert stat.S_IMODE(record_of(tmp_path).parent.stat().st_mode) == 0o755


@each_writer
def test_the_lock_is_free_after_an_entry(writer: ArrayWriter, tmp_path: Path) -> None:
    writer.append(tmp_path)

    assert not is_locked(record_of(tmp_path))


@each_writer
@pytest.mark.parametrize("layout", [LINES, NO_LAYOUT, {"SERVICE_RECORDS_LAYOUT": "pyramid"}], ids=str)
def test_a_new_file_has_lines_unless_the_environment_says_array(
    writer: ArrayWriter, layout: dict[str, str], tmp_path: Path
) -> None:
    written = writer.append(tmp_path, 2, layout=layout)[-1]

    assert [json.loads(line)["phase"] for line in written.splitlines()] == ["service start", "stage start"]


@each_writer
@pytest.mark.parametrize("layout", [LINES, NO_LAYOUT, ARRAY], ids=str)
def test_an_array_stays_one_whatever_the_environment_says(
    writer: ArrayWriter, layout: dict[str, str], tmp_path: Path
) -> None:
    put(tmp_path, CLOSED)

    states = writer.append(tmp_path, 3, layout=layout)

    assert [elements(state)[:4] for state in states] == [JSON] * 3
    assert [len(elements(state)) for state in states] == [5, 6, 7]


@each_writer
@pytest.mark.parametrize("before", [FIRST + b"\n", b"\n" + FIRST + b"\n", b"\0\0", b"foreign\n"])
def test_lines_stay_lines_whatever_the_environment_says(
    writer: ArrayWriter, before: bytes, tmp_path: Path
) -> None:
    put(tmp_path, before)

    added = writer.append(tmp_path, 2)[-1].removeprefix(before)

    assert added.startswith(b"\n{")
    assert [json.loads(line)["phase"] for line in added.splitlines()[1:]] == ["service start", "stage start"]


EMPTY = {
    "no byte": b"",
    "an array": b"[]",
    "an array and a newline": b"[]\n",
    "an array with room": b"[\n]" + ROOM,
    "an array with blanks": b"[ \r\n\t ]\r\n",
    "an array on two lines": b"[\n]\n",
    "an open array": b"[",
    "an open array and a newline": b"[\n",
    "white space": b"[ \n \n",
}


@each_writer
@pytest.mark.parametrize("content", EMPTY.values(), ids=EMPTY)
def test_an_empty_file_is_filled(writer: ArrayWriter, content: bytes, tmp_path: Path) -> None:
    put(tmp_path, content)

    states = writer.append(tmp_path, 2)

    assert [len(elements(state)) for state in states] == [1, 2]
    assert not damaged_of(tmp_path).exists()


WHOLE = {
    "ours": CLOSED,
    "ours with room": CLOSED.rstrip() + ROOM,
    "ours with much room": CLOSED.rstrip() + ROOM * 20,
    "ours without a last newline": CLOSED.rstrip(),
    "as upstream's jq prints it": INDENTED,
    "as upstream's jq prints it, without a last newline": INDENTED.rstrip(),
    "indented by four": json.dumps(JSON, indent=4).encode(),
    "indented by a tab": json.dumps(JSON, indent="\t").encode(),
    "on one line": COMPACT,
    "on one line with a newline": COMPACT + b"\n",
    "on one line with blanks": b"[ " + COMPACT[1:-1] + b" ]  \r\n",
    "on one line with spaces": json.dumps(JSON).encode(),
    "on one line in another order": json.dumps([dict(reversed(each.items())) for each in JSON]).encode(),
    "an entry a line, the bracket behind the last": CLOSED.replace(b"\n]", b"]"),
    "an entry a line, the bracket before the first": CLOSED.replace(b"[\n", b"["),
    "lines with CR LF": CLOSED.replace(b"\n", b"\r\n"),
    "indented lines with CR LF": INDENTED.replace(b"\n", b"\r\n"),
    "blanks around the bracket": CLOSED.replace(b"\n]", b" \t\n\n\r\n]\n\n \t\n\n"),
    "not closed": b"[\n" + ALL,
    "not closed, and a newline": b"[\n" + ALL + b"\n",
    "not closed, and room": b"[\n" + ALL + ROOM,
    "not closed, and a comma": b"[\n" + ALL + b",\n",
    "not closed, and a comma without a newline": b"[\n" + ALL + b",",
    "not closed, as upstream's jq prints it": INDENTED.removesuffix(b"]\n"),
    "not closed, as upstream's jq prints it, without a newline": INDENTED.removesuffix(b"\n]\n"),
    "a line behind the bracket": b"[\n" + b",\n".join([FIRST, SECOND, THIRD]) + b"\n]\n\n" + LAST + b"\n",
    "a line behind room": b"[\n" + b",\n".join([FIRST, SECOND, THIRD]) + b"\n]" + ROOM + b"\n" + LAST + b"\n",
    "a line behind the only entry": b"[\n" + FIRST + b"\n]\n" + b"\n".join([SECOND, THIRD, LAST]) + b"\n",
    "lines behind no entry": b"[\n]" + ROOM + b"\n\n".join([b"", FIRST, SECOND, THIRD, LAST]),
    "lines behind []": b"[]\n" + b"\n\n".join([b"", FIRST, SECOND, THIRD, LAST]),
    "lines with CR LF behind the bracket": b"[\r\n"
    + b"\r\n".join([FIRST, b"]", SECOND, THIRD, LAST])
    + b"\r\n",
    "a line behind upstream's": array(*OURS[:3]) + b"\n" + LAST + b"\n",
    "lines behind upstream's only entry": array(OURS[0]) + b"\n\n".join([b"", SECOND, THIRD, LAST, b""]),
    "a line behind four": json.dumps(JSON[:3], indent=4).encode() + b"\n" + LAST + b"\n",
    "a line behind one line": json.dumps(JSON[:3]).encode() + b"\n\n" + LAST + b"\n",
    "a line behind an array that is not closed": b"[\n"
    + b",\n".join([FIRST, SECOND, THIRD])
    + b"\n\n"
    + LAST
    + b"\n",
    "an array of lines with commas before them": b"[\n" + b"\n,".join([FIRST, SECOND, THIRD, LAST]) + b"\n",
}


@each_writer
@pytest.mark.parametrize("content", WHOLE.values(), ids=WHOLE)
def test_an_array_that_lacks_nothing_is_extended_and_no_copy_is_made(
    writer: ArrayWriter, content: bytes, tmp_path: Path
) -> None:
    put(tmp_path, content)

    states = writer.append(tmp_path, 2)

    assert [elements(state)[:-number] for number, state in enumerate(states, start=1)] == [JSON, JSON]
    assert not damaged_of(tmp_path).exists()


TORN = LAST[:-40]
BEHIND_TORN = b"\n" + TORN + b"\n\n" + LAST + b"\n"
THREE = b"[\n" + b",\n".join([FIRST, SECOND, THIRD])

DAMAGED = {
    "a torn entry": (THREE + b",\n" + TORN, TORN),
    "a torn entry in its room": (THREE + b",\n" + TORN + ROOM, TORN),
    "a torn line behind the bracket": (THREE + b"\n]\n\n" + TORN, TORN),
    "NULs behind the newline": (THREE + b"\n]\n" + b"\0" * 700, b"\0" * 700),
    "NULs behind an open array": (THREE + b",\n" + b"\0" * 4096, b"\0" * 4096),
    "many NULs": (THREE + b"\n]\n" + b"\0" * 20_000, b"\0" * 20_000),
    "foreign text": (THREE + b"\n]\nsegmentation fault\n", b"segmentation fault"),
    "two closing brackets": (THREE + b"\n]]\n", b"]]"),
    "a torn entry of upstream's": (array(*OURS[:3])[:-3] + b",\n" + INDENTED[-400:-60], INDENTED[-400:-60]),
    "a text torn behind what looks like the end": (
        THREE + b",\n" + b'{"timestamp":"2026","errorMessage":"no {}]',
        b'{"timestamp":"2026","errorMessage":"no {}]',
    ),
    "a text torn there in its room": (
        THREE + b",\n" + b'{"timestamp":"2026","errorMessage":"no {}]' + ROOM,
        b'{"timestamp":"2026","errorMessage":"no {}]',
    ),
    "a line torn behind what looks like the end of an entry": (
        THREE + b"\n]\n\n" + b'{"timestamp":"2026","errorMessage":"no {}',
        b'{"timestamp":"2026","errorMessage":"no {}',
    ),
}


@each_writer
@pytest.mark.parametrize(("content", "torn"), DAMAGED.values(), ids=DAMAGED)
def test_what_is_torn_is_replaced_and_a_copy_is_kept(
    writer: ArrayWriter, content: bytes, torn: bytes, tmp_path: Path
) -> None:
    put(tmp_path, content)

    states = writer.append(tmp_path, 2)

    assert [elements(state)[:-number] for number, state in enumerate(states, start=1)] == [JSON[:3]] * 2
    assert torn in damaged_of(tmp_path).read_bytes()
    assert stat.S_IMODE(damaged_of(tmp_path).stat().st_mode) == 0o644


@each_writer
@pytest.mark.parametrize(
    ("content", "torn"),
    [
        pytest.param(THREE + b",\n" + BEHIND_TORN, TORN, id="behind an array that is not closed"),
        pytest.param(THREE + b"\n]\n" + BEHIND_TORN, TORN, id="behind a closed array"),
        pytest.param(array(*OURS[:3]) + BEHIND_TORN, TORN, id="behind upstream's"),
        pytest.param(THREE + b"\n]\n" + b"\0" * 9000 + b"\n" + LAST + b"\n", b"\0", id="behind NULs"),
        pytest.param(
            THREE + b',\n{"timestamp":"2026","errorMessage":"no },\n' + LAST + b"\n",
            b'{"timestamp":"2026","errorMessage":"no },\n',
            id="behind a text torn after a comma",
        ),
    ],
)
def test_a_whole_line_behind_a_torn_one_is_taken_in(
    writer: ArrayWriter, content: bytes, torn: bytes, tmp_path: Path
) -> None:
    put(tmp_path, content)

    [state] = writer.append(tmp_path)

    assert elements(state)[:-1] == JSON
    assert torn in damaged_of(tmp_path).read_bytes()


@each_writer
def test_a_line_glued_to_a_torn_one_is_in_the_copy(writer: ArrayWriter, tmp_path: Path) -> None:
    put(tmp_path, THREE + b"\n]\n" + TORN + LAST + b"\n")

    [state] = writer.append(tmp_path)

    assert elements(state)[:-1] == JSON[:3]
    assert list(read_entries(damaged_of(tmp_path).open("rb")))[-1] == OURS[-1]


@each_writer
def test_a_second_copy_does_not_replace_the_first(writer: ArrayWriter, tmp_path: Path) -> None:
    for torn in (b"first torn\n", b"second torn\n"):
        with put(tmp_path, CLOSED).open("ab") as stream:
            stream.write(torn)
        writer.append(tmp_path)

    copy = damaged_of(tmp_path).read_bytes()
    assert copy.index(b"first torn") < copy.index(b"second torn")


def cuts(content: bytes) -> range:
    """Everywhere in the last entry of the content, its beginning and end included."""
    return range(content.rindex(b'{"timestamp":"2026'), len(content.rstrip(b" \n]")) + 1)


@pytest.mark.parametrize("behind", [b"", b"\n", ROOM], ids=["at-the-end", "before-a-newline", "in-its-room"])
def test_the_library_mends_an_entry_that_is_cut_at_any_byte(behind: bytes, tmp_path: Path) -> None:
    nested = entry("stage end", 20, error_message=ODD, extra={"nested": {"deep": [{}, {"a": "}"}]}, "no": []})
    content = CLOSED.rstrip(b"\n]") + b",\n" + nested.to_line().rstrip()
    for cut in cuts(content):
        put(tmp_path, content[:cut] + behind)
        damaged_of(tmp_path).unlink(missing_ok=True)

        [state] = Library().append(tmp_path)

        if cut == len(content):
            assert elements(state)[:-1] == [*JSON, nested.to_json()]
            return
        assert elements(state)[:-1] == JSON, content[:cut]
        torn = content[cuts(content).start : cut]
        assert not torn or torn in damaged_of(tmp_path).read_bytes()


@each_bash
def test_the_shim_mends_an_entry_that_is_cut_behind_what_looks_like_its_end(
    shim: Shim, tmp_path: Path
) -> None:
    content = CLOSED.rstrip(b"\n]")
    [first, *_, last] = places = cuts(content)
    looks = [cut for cut in places if content[cut - 1 : cut] in (b"}", b"]", b",", b'"')]
    for cut in {first, first + 1, *looks[:6], *looks[-12:], last - 1}:
        put(tmp_path, content[:cut] + ROOM)
        damaged_of(tmp_path).unlink(missing_ok=True)

        [state] = shim.append(tmp_path)

        assert elements(state)[:-1] == (JSON if cut == last else JSON[:3]), content[:cut]


@each_writer
@pytest.mark.parametrize("cut", [3, 4, 5, 10, 40, 400, 1300])
def test_upstreams_array_that_is_torn_keeps_its_whole_entries(
    writer: ArrayWriter, cut: int, tmp_path: Path
) -> None:
    """Cut so many bytes before its end, which has 3 bytes that are not in its last entry."""
    torn = array(*UPSTREAM, upstream_entry("stage end", 2, error_message=ODD * 20))[:-cut]
    put(tmp_path, torn)

    [state] = writer.append(tmp_path)

    [first, second, *others] = elements(state)[:-1]
    assert [first, second] == json_of(UPSTREAM)
    assert len(others) == (cut == 3)
    assert others or torn[-20:] in damaged_of(tmp_path).read_bytes()


@each_writer
@pytest.mark.parametrize(
    "garbage",
    [b"[garbage " * 200_000, b"[" + b"\n" * 1_500_000, b"[" + b"x},\n" * 500_000],
    ids=["a line", "blank lines", "lines"],
)
def test_foreign_text_without_an_end_stays_as_it_is_and_lines_follow(
    writer: ArrayWriter, garbage: bytes, tmp_path: Path
) -> None:
    put(tmp_path, garbage)

    written = writer.append(tmp_path, 2)[-1]

    assert written.startswith(garbage)
    lines = written.removeprefix(garbage).strip().split(b"\n\n")
    assert [json.loads(line)["phase"] for line in lines] == ["service start", "stage start"]


@each_writer
@pytest.mark.parametrize("parked", [1, 20, 2000])
def test_parked_lines_are_taken_in_order(writer: ArrayWriter, parked: int, tmp_path: Path) -> None:
    waiting = [entry("stage start", number, stage=f"parked {number}") for number in range(parked)]
    put(tmp_path, CLOSED.rstrip() + ROOM + b"".join(b"\n" + each.to_line() for each in waiting))

    [state] = writer.append(tmp_path)

    assert elements(state)[:-1] == JSON + json_of(waiting)
    assert not damaged_of(tmp_path).exists()


@each_writer
def test_texts_do_not_matter(writer: ArrayWriter, tmp_path: Path) -> None:
    states = writer.append(tmp_path, 5, stage=ODD, message=ODD.replace("\n", " "))

    assert [len(elements(state)) for state in states] == [1, 2, 3, 4, 5]
    assert [element["stage"] for element in elements(states[-1])[1:]] == [ODD] * 4
    assert elements(states[-1])[-1]["errorMessage"] == ODD.replace("\n", " ")


@each_writer
def test_the_longest_entries_go_in(writer: ArrayWriter, tmp_path: Path) -> None:
    states = writer.append(tmp_path, 7, message="é]}" * 2000)

    assert [len(elements(state)) for state in states] == [1, 2, 3, 4, 5, 6, 7]
    assert 4000 < max(len(line) for line in states[-1].split(b"\n")) <= 4096


def test_both_writers_go_on_with_what_the_other_has_written(tmp_path: Path) -> None:
    for _ in range(2):
        for writer in WRITERS:
            state = writer.append(tmp_path, 2)[-1]

    assert len(elements(state)) == 4 * (1 + len(bashes()))
    assert not damaged_of(tmp_path).exists()


def test_a_reader_of_the_file_while_lines_are_parked_gets_every_entry(tmp_path: Path) -> None:
    parked = put(tmp_path, THREE + b"\n]" + ROOM + b"\n" + LAST + b"\n")

    with parked.open("rb") as stream:
        pieces = list(read_entries(stream))
    assert not any(isinstance(piece, Malformed) for piece in pieces)
    assert pieces == OURS
