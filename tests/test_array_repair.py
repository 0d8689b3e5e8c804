"""The array layout: what a killed writer or a power loss tore is replaced, and a copy of it is kept."""

import json
import stat
from pathlib import Path

import pytest

from service_record.layout import read_entries
from tests.array_files import (
    CLOSED,
    INDENTED,
    JSON,
    LAST,
    ODD,
    OURS,
    ROOM,
    THREE,
    UPSTREAM,
    json_of,
)
from tests.array_writers import (
    ArrayWriter,
    Library,
    Shim,
    damaged_of,
    each_writer,
    elements,
    put,
)
from tests.builders import array, entry, upstream_entry
from tests.shell.scripts import bashes

each_bash = pytest.mark.parametrize("shim", [Shim(bash) for bash in bashes()], ids=str)


TORN = LAST[:-40]
HOLLOW = LAST[:-50] + b"\0" * 10 + LAST[-40:]
BEHIND_TORN = b"\n" + TORN + b"\n\n" + LAST + b"\n"


DAMAGED = {
    "a torn entry": (THREE + b",\n" + TORN, TORN),
    "a torn entry in its room": (THREE + b",\n" + TORN + ROOM, TORN),
    "a torn line behind the bracket": (THREE + b"\n]\n\n" + TORN, TORN),
    "NULs behind the newline": (THREE + b"\n]\n" + b"\0" * 700, b"\0" * 700),
    "NULs behind an open array": (THREE + b",\n" + b"\0" * 4096, b"\0" * 4096),
    "many NULs": (THREE + b"\n]\n" + b"\0" * 20_000, b"\0" * 20_000),
    "an entry with NULs in a text": (THREE + b"\n]\n\n" + HOLLOW + b"\n", HOLLOW),
    "an entry with NULs in a text, not closed": (THREE + b",\n" + HOLLOW + b"\n", HOLLOW),
    "NULs farther from the end than is looked at first": (
        THREE + b"\n]\n" + b"\0" * 700 + b"\n" + b" " * 9000 + b"\n",
        b"\0" * 700,
    ),
    "form feeds": (THREE + b"\n]\n" + b"\f" * 9 + b"\n", b"\f" * 9),
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
        pytest.param(THREE + b"\n]\n\n" + LAST + b"\0" * 512, b"\0", id="before NULs"),
        pytest.param(
            THREE + b",\n" + TORN + b"\n" + LAST + b"\0" * 512 + b"mmm" + b"\0" * 90 + b"\n",
            b"\0" * 512 + b"mmm",
            id="before NULs and what is left of another",
        ),
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
@pytest.mark.parametrize("cut", [1, 2, 3, 4, 40])
def test_an_entry_that_is_cut_over_the_bracket_takes_none_with_it(
    writer: ArrayWriter, cut: int, tmp_path: Path
) -> None:
    text, closed = b",\n" + LAST, b"\n]\n" + ROOM
    put(tmp_path, THREE + text[:cut] + closed[cut:])

    [state] = writer.append(tmp_path)

    assert elements(state)[:-1] == JSON[:3]


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
