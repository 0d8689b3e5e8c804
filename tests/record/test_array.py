"""The array layout: one closed array after each entry, of either writer, whatever the file was before."""

import json
import stat
from io import BytesIO
from itertools import pairwise
from pathlib import Path

import pytest

from service_record.record.entry import Entry, Malformed
from service_record.record.layout import read_entries
from tests.array_files import (
    ALL,
    CLOSED,
    COMPACT,
    FIRST,
    INDENTED,
    JSON,
    LAST,
    ODD,
    OURS,
    PADDING,
    SECOND,
    THIRD,
    UNCLOSED,
    to_json,
)
from tests.array_writers import (
    ARRAY,
    LINES,
    NO_LAYOUT,
    WRITERS,
    ArrayWriter,
    count_trailing_blanks,
    damaged_path,
    each_writer,
    is_locked,
    read_after_exit_helper,
    read_appended_entries,
    read_elements,
    record_path,
    write_record,
)
from tests.builders import array, entry
from tests.shell.scripts import Bash, bashes

PARKED = entry("stage start", 30, stage=ODD)
each_bash = pytest.mark.parametrize("bash", bashes(), ids=str)


@each_writer
def test_array_is_closed_after_each_entry(writer: ArrayWriter, tmp_path: Path) -> None:
    states = writer.append(tmp_path, 9)

    assert [len(read_elements(state)) for state in states] == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    phases = [element["phase"] for element in read_elements(states[-1])]
    assert phases == ["service start", *["stage start", "stage end"] * 4]
    assert not damaged_path(tmp_path).exists()


@each_writer
def test_an_entry_changes_nothing_before_it(writer: ArrayWriter, tmp_path: Path) -> None:
    states = writer.append(tmp_path, 9)

    for before, after in pairwise(states):
        assert after.startswith(before.rstrip(b" \n").removesuffix(b"\n]"))


@each_writer
def test_array_has_entry_lines_and_spare_room(writer: ArrayWriter, tmp_path: Path) -> None:
    for number, state in enumerate(writer.append(tmp_path, 9), start=1):
        assert len(state.rstrip(b" \n").split(b"\n")) == number + 2
        assert len(state) % 1024 == 0
        assert 1024 <= count_trailing_blanks(state) < 1024 + 1024 + 512


@each_writer
def test_each_sector_of_room_has_a_newline(writer: ArrayWriter, tmp_path: Path) -> None:
    """Between the halves of two entries, after a loss of power, it would else be part of a text."""
    for state in writer.append(tmp_path, 9):
        behind = range(-(-len(state.rstrip(b" \n")) // 512) * 512, len(state), 512)
        sectors = {state[begin : begin + 512] for begin in behind}
        assert {sector.rstrip(b" \n") for sector in sectors} == {b""}
        assert {sector[-1:] for sector in sectors} == {b"\n"}


@each_writer
def test_everybody_may_read_a_new_array(writer: ArrayWriter, tmp_path: Path) -> None:
    writer.append(tmp_path)

    assert stat.S_IMODE(record_path(tmp_path).stat().st_mode) == 0o644
    assert stat.S_IMODE(record_path(tmp_path).parent.stat().st_mode) == 0o755


@each_writer
def test_the_lock_is_free_after_an_entry(writer: ArrayWriter, tmp_path: Path) -> None:
    writer.append(tmp_path)

    assert not is_locked(record_path(tmp_path))


@each_writer
@pytest.mark.parametrize("layout", [LINES, NO_LAYOUT, {"SERVICE_RECORDS_LAYOUT": "pyramid"}], ids=str)
def test_new_file_has_lines_by_default(writer: ArrayWriter, layout: dict[str, str], tmp_path: Path) -> None:
    written = writer.append(tmp_path, 2, layout=layout)[-1]

    assert [json.loads(line)["phase"] for line in written.splitlines()] == ["service start", "stage start"]


@each_writer
@pytest.mark.parametrize("layout", [LINES, NO_LAYOUT, ARRAY], ids=str)
def test_an_array_stays_one_whatever_the_environment_says(
    writer: ArrayWriter, layout: dict[str, str], tmp_path: Path
) -> None:
    write_record(tmp_path, CLOSED)

    states = writer.append(tmp_path, 3, layout=layout)

    assert [read_elements(state)[:4] for state in states] == [JSON] * 3
    assert [len(read_elements(state)) for state in states] == [5, 6, 7]


@each_writer
@pytest.mark.parametrize("before", [FIRST + b"\n", b"\n" + FIRST + b"\n", b"\0\0", b"foreign\n"])
def test_lines_stay_lines_whatever_the_environment_says(
    writer: ArrayWriter, before: bytes, tmp_path: Path
) -> None:
    write_record(tmp_path, before)

    added = writer.append(tmp_path, 2)[-1].removeprefix(before)

    assert added.startswith(b"\n{")
    assert [json.loads(line)["phase"] for line in added.splitlines()[1:]] == ["service start", "stage start"]


EMPTY = {
    "no byte": b"",
    "an array": b"[]",
    "an array and a newline": b"[]\n",
    "an array with room": b"[\n]" + PADDING,
    "an array with blanks": b"[ \r\n\t ]\r\n",
    "an array on two lines": b"[\n]\n",
}


@each_writer
@pytest.mark.parametrize("content", EMPTY.values(), ids=EMPTY)
def test_an_empty_file_is_filled(writer: ArrayWriter, content: bytes, tmp_path: Path) -> None:
    write_record(tmp_path, content)

    states = writer.append(tmp_path, 2)

    assert [len(read_elements(state)) for state in states] == [1, 2]
    assert not damaged_path(tmp_path).exists()


CLOSED_FORMS = {
    "ours": CLOSED,
    "ours with room": CLOSED.rstrip() + PADDING,
    "ours without a last newline": CLOSED.rstrip(),
    "as upstream's jq prints it": INDENTED,
    "as upstream's jq prints it, without a last newline": INDENTED.rstrip(),
    "indented by four": json.dumps(JSON, indent=4).encode(),
    "indented by a tab": json.dumps(JSON, indent="\t").encode(),
    "an entry a line, the bracket before the first": CLOSED.replace(b"[\n", b"["),
    "lines with CR LF": CLOSED.replace(b"\n", b"\r\n"),
    "indented lines with CR LF": INDENTED.replace(b"\n", b"\r\n"),
    "blanks around the bracket": CLOSED.replace(b"\n]", b" \t\n\n\r\n]\n\n \t\n\n"),
}


@each_writer
@pytest.mark.parametrize("content", CLOSED_FORMS.values(), ids=CLOSED_FORMS)
def test_a_closed_array_is_extended(writer: ArrayWriter, content: bytes, tmp_path: Path) -> None:
    write_record(tmp_path, content)

    states = writer.append(tmp_path, 2)

    assert [read_elements(state)[:-number] for number, state in enumerate(states, start=1)] == [JSON, JSON]
    assert not damaged_path(tmp_path).exists()


OPEN_FORMS = {
    "ours with much room": CLOSED.rstrip() + PADDING * 20,
    "on one line": COMPACT,
    "on one line with a newline": COMPACT + b"\n",
    "on one line with blanks": b"[ " + COMPACT[1:-1] + b" ]  \r\n",
    "on one line with spaces": json.dumps(JSON).encode(),
    "on one line in another order": json.dumps([dict(reversed(each.items())) for each in JSON]).encode(),
    "an entry a line, the bracket behind the last": CLOSED.replace(b"\n]", b"]"),
    "not closed": b"[\n" + ALL,
    "not closed, and a newline": b"[\n" + ALL + b"\n",
    "not closed, and room": b"[\n" + ALL + PADDING,
    "not closed, and a comma": b"[\n" + ALL + b",\n",
    "not closed, and a comma without a newline": b"[\n" + ALL + b",",
    "not closed, as upstream's jq prints it": INDENTED.removesuffix(b"]\n"),
    "not closed, as upstream's jq prints it, without a newline": INDENTED.removesuffix(b"\n]\n"),
    "a line behind the bracket": b"[\n" + b",\n".join([FIRST, SECOND, THIRD]) + b"\n]\n\n" + LAST + b"\n",
    "a line behind room": b"[\n"
    + b",\n".join([FIRST, SECOND, THIRD])
    + b"\n]"
    + PADDING
    + b"\n"
    + LAST
    + b"\n",
    "a line behind the only entry": b"[\n" + FIRST + b"\n]\n" + b"\n".join([SECOND, THIRD, LAST]) + b"\n",
    "lines behind no entry": b"[\n]" + PADDING + b"\n\n".join([b"", FIRST, SECOND, THIRD, LAST]),
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
EMPTY_OPEN_FORMS = {"an open array": b"[", "an open array and a newline": b"[\n", "white space": b"[ \n \n"}


@each_bash
@pytest.mark.parametrize("content", OPEN_FORMS.values(), ids=OPEN_FORMS)
def test_exit_helper_makes_one_closed_array(bash: Bash, content: bytes, tmp_path: Path) -> None:
    write_record(tmp_path, content + b"\n" + PARKED.to_line())

    assert read_after_exit_helper(tmp_path, bash) == [*JSON, PARKED.to_json()]
    assert not damaged_path(tmp_path).exists()


@each_bash
@pytest.mark.parametrize("content", EMPTY_OPEN_FORMS.values(), ids=EMPTY_OPEN_FORMS)
def test_exit_helper_closes_array_of_parked_lines(bash: Bash, content: bytes, tmp_path: Path) -> None:
    write_record(tmp_path, content + b"\n" + PARKED.to_line())

    assert read_after_exit_helper(tmp_path, bash) == [PARKED.to_json()]
    assert not damaged_path(tmp_path).exists()


@each_writer
@pytest.mark.parametrize("form", ["not closed", "on one line", "a line behind upstream's", "lines behind []"])
def test_entries_are_parked_in_order(writer: ArrayWriter, form: str, tmp_path: Path) -> None:
    before = OPEN_FORMS[form]
    write_record(tmp_path, before)

    [*_, content] = writer.append(tmp_path, 3)

    parked = read_appended_entries(before, content)
    assert [each["phase"] for each in parked] == ["service start", "stage start", "stage end"]
    assert list(map(Entry.from_json, [*JSON, *parked])) == list(read_entries(BytesIO(content)))
    assert read_after_exit_helper(tmp_path) == [*JSON, *parked]
    assert not damaged_path(tmp_path).exists()


@each_writer
def test_array_is_extended_after_exit_helper(writer: ArrayWriter, tmp_path: Path) -> None:
    write_record(tmp_path, OPEN_FORMS["not closed"])
    writer.append(tmp_path)
    before = read_after_exit_helper(tmp_path)

    [state] = writer.append(tmp_path)

    assert read_elements(state)[: len(before)] == before
    assert len(read_elements(state)) == len(before) + 3


@each_bash
@pytest.mark.parametrize("parked", [1, 20, pytest.param(2000, marks=pytest.mark.slow)])
def test_parked_lines_are_taken_in_order(bash: Bash, parked: int, tmp_path: Path) -> None:
    waiting = [entry("stage start", number, stage=f"parked {number}") for number in range(parked)]
    write_record(tmp_path, CLOSED.rstrip() + PADDING + b"".join(b"\n" + each.to_line() for each in waiting))

    assert read_after_exit_helper(tmp_path, bash) == JSON + to_json(waiting)
    assert not damaged_path(tmp_path).exists()


@each_writer
def test_texts_do_not_matter(writer: ArrayWriter, tmp_path: Path) -> None:
    states = writer.append(tmp_path, 5, stage=ODD, message=ODD.replace("\n", " "))

    assert [len(read_elements(state)) for state in states] == [1, 2, 3, 4, 5]
    assert [element["stage"] for element in read_elements(states[-1])[1:]] == [ODD] * 4
    assert read_elements(states[-1])[-1]["errorMessage"] == ODD.replace("\n", " ")


@each_writer
def test_the_longest_entries_go_in(writer: ArrayWriter, tmp_path: Path) -> None:
    states = writer.append(tmp_path, 7, message="é]}" * 2000)

    assert [len(read_elements(state)) for state in states] == [1, 2, 3, 4, 5, 6, 7]
    assert 4000 < max(len(line) for line in states[-1].split(b"\n")) <= 4096


def test_writers_continue_each_others_array(tmp_path: Path) -> None:
    for _ in range(2):
        for writer in WRITERS:
            state = writer.append(tmp_path, 2)[-1]

    assert len(read_elements(state)) == 4 * len(WRITERS)
    assert not damaged_path(tmp_path).exists()


def test_reader_gets_parked_entries(tmp_path: Path) -> None:
    parked = write_record(tmp_path, UNCLOSED + b"\n]" + PADDING + b"\n" + LAST + b"\n")

    with parked.open("rb") as stream:
        pieces = list(read_entries(stream))
    assert not any(isinstance(piece, Malformed) for piece in pieces)
    assert pieces == OURS
