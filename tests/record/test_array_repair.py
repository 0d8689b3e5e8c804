"""The array layout: the exit helper replaces what a kill or a power loss tore, and keeps a copy of it."""

import stat
from pathlib import Path

import pytest

from service_record.record.layout import read_entries
from tests.array_files import CLOSED, INDENTED, JSON, LAST, ODD, OURS, PADDING, UNCLOSED, UPSTREAM, to_json
from tests.array_writers import (
    ArrayWriter,
    damaged_path,
    each_writer,
    read_after_exit_helper,
    read_appended_entries,
    write_record,
)
from tests.builders import array, entry, upstream_entry
from tests.shell.scripts import Bash, bashes

each_bash = pytest.mark.parametrize("bash", bashes(), ids=str)
PARKED = entry("stage start", 30, stage=ODD)


TORN = LAST[:-40]
HOLLOW = LAST[:-50] + b"\0" * 10 + LAST[-40:]
BEHIND_TORN = b"\n" + TORN + b"\n\n" + LAST + b"\n"


DAMAGED = {
    "a torn entry": (UNCLOSED + b",\n" + TORN, TORN),
    "a torn entry in its room": (UNCLOSED + b",\n" + TORN + PADDING, TORN),
    "a torn line behind the bracket": (UNCLOSED + b"\n]\n\n" + TORN, TORN),
    "NULs behind the newline": (UNCLOSED + b"\n]\n" + b"\0" * 700, b"\0" * 700),
    "NULs behind an open array": (UNCLOSED + b",\n" + b"\0" * 4096, b"\0" * 4096),
    "many NULs": (UNCLOSED + b"\n]\n" + b"\0" * 20_000, b"\0" * 20_000),
    "an entry with NULs in a text": (UNCLOSED + b"\n]\n\n" + HOLLOW + b"\n", HOLLOW),
    "an entry with NULs in a text, not closed": (UNCLOSED + b",\n" + HOLLOW + b"\n", HOLLOW),
    "NULs farther from the end than is looked at first": (
        UNCLOSED + b"\n]\n" + b"\0" * 700 + b"\n" + b" " * 9000 + b"\n",
        b"\0" * 700,
    ),
    "form feeds": (UNCLOSED + b"\n]\n" + b"\f" * 9 + b"\n", b"\f" * 9),
    "foreign text": (UNCLOSED + b"\n]\nsegmentation fault\n", b"segmentation fault"),
    "two closing brackets": (UNCLOSED + b"\n]]\n", b"]]"),
    "a torn entry of upstream's": (array(*OURS[:3])[:-3] + b",\n" + INDENTED[-400:-60], INDENTED[-400:-60]),
    "a text torn behind what looks like the end": (
        UNCLOSED + b",\n" + b'{"timestamp":"2026","errorMessage":"no {}]',
        b'{"timestamp":"2026","errorMessage":"no {}]',
    ),
    "a text torn there in its room": (
        UNCLOSED + b",\n" + b'{"timestamp":"2026","errorMessage":"no {}]' + PADDING,
        b'{"timestamp":"2026","errorMessage":"no {}]',
    ),
    "a line torn behind what looks like the end of an entry": (
        UNCLOSED + b"\n]\n\n" + b'{"timestamp":"2026","errorMessage":"no {}',
        b'{"timestamp":"2026","errorMessage":"no {}',
    ),
}


@each_writer
@pytest.mark.parametrize("damage", ["a torn entry", "NULs behind the newline", "foreign text"])
def test_writer_parks_entries_behind_a_torn_array(writer: ArrayWriter, damage: str, tmp_path: Path) -> None:
    before = DAMAGED[damage][0]
    write_record(tmp_path, before)

    [*_, content] = writer.append(tmp_path, 3)

    parked = read_appended_entries(before, content)
    assert [each["phase"] for each in parked] == ["service start", "stage start", "stage end"]
    assert not damaged_path(tmp_path).exists()
    assert read_after_exit_helper(tmp_path) == [*JSON[:3], *parked]


@each_bash
@pytest.mark.parametrize(("content", "torn"), DAMAGED.values(), ids=DAMAGED)
def test_torn_array_is_replaced_with_a_copy_kept(
    bash: Bash, content: bytes, torn: bytes, tmp_path: Path
) -> None:
    write_record(tmp_path, content + b"\n" + PARKED.to_line())

    assert read_after_exit_helper(tmp_path, bash) == [*JSON[:3], PARKED.to_json()]
    assert torn in damaged_path(tmp_path).read_bytes()
    assert stat.S_IMODE(damaged_path(tmp_path).stat().st_mode) == 0o644


@each_bash
@pytest.mark.parametrize(
    ("content", "torn"),
    [
        pytest.param(UNCLOSED + b",\n" + BEHIND_TORN, TORN, id="behind an array that is not closed"),
        pytest.param(UNCLOSED + b"\n]\n" + BEHIND_TORN, TORN, id="behind a closed array"),
        pytest.param(array(*OURS[:3]) + BEHIND_TORN, TORN, id="behind upstream's"),
        pytest.param(UNCLOSED + b"\n]\n" + b"\0" * 9000 + b"\n" + LAST + b"\n", b"\0", id="behind NULs"),
        pytest.param(UNCLOSED + b"\n]\n\n" + LAST + b"\0" * 512, b"\0", id="before NULs"),
        pytest.param(
            UNCLOSED + b",\n" + TORN + b"\n" + LAST + b"\0" * 512 + b"mmm" + b"\0" * 90 + b"\n",
            b"\0" * 512 + b"mmm",
            id="before NULs and what is left of another",
        ),
        pytest.param(
            UNCLOSED + b',\n{"timestamp":"2026","errorMessage":"no },\n' + LAST + b"\n",
            b'{"timestamp":"2026","errorMessage":"no },\n',
            id="behind a text torn after a comma",
        ),
    ],
)
def test_whole_line_after_a_torn_one_is_kept(bash: Bash, content: bytes, torn: bytes, tmp_path: Path) -> None:
    write_record(tmp_path, content)

    assert read_after_exit_helper(tmp_path, bash) == JSON
    assert torn in damaged_path(tmp_path).read_bytes()


@each_bash
def test_line_joined_to_torn_one_is_copied(bash: Bash, tmp_path: Path) -> None:
    write_record(tmp_path, UNCLOSED + b"\n]\n" + TORN + LAST + b"\n")

    assert read_after_exit_helper(tmp_path, bash) == JSON[:3]
    assert OURS[-1] in read_entries(damaged_path(tmp_path).open("rb"))


@each_bash
def test_a_second_copy_does_not_replace_the_first(bash: Bash, tmp_path: Path) -> None:
    for torn in (b"first torn\n", b"second torn\n"):
        with write_record(tmp_path, CLOSED).open("ab") as stream:
            stream.write(torn)
        read_after_exit_helper(tmp_path, bash)

    copy = damaged_path(tmp_path).read_bytes()
    assert copy.index(b"first torn") < copy.index(b"second torn")


def cuts(content: bytes) -> range:
    """Everywhere in the last entry of the content, its beginning and end included."""
    return range(content.rindex(b'{"timestamp":"2026'), len(content.rstrip(b" \n]")) + 1)


@pytest.mark.slow
@each_bash
def test_entry_cut_at_a_likely_end_is_copied(bash: Bash, tmp_path: Path) -> None:
    nested = entry("stage end", 20, error_message=ODD, extra={"nested": {"deep": [{}, {"a": "}"}]}, "no": []})
    content = CLOSED.rstrip(b"\n]") + b",\n" + nested.to_line().rstrip()
    [first, *_, last] = places = cuts(content)
    looks = [cut for cut in places if content[cut - 1 : cut] in (b"}", b"]", b",", b'"')]
    for cut in {first, first + 1, *looks[:6], *looks[-12:], last - 1, last}:
        write_record(tmp_path, content[:cut] + PADDING)
        damaged_path(tmp_path).unlink(missing_ok=True)

        found = read_after_exit_helper(tmp_path, bash)

        assert found == ([*JSON, nested.to_json()] if cut == last else JSON), content[:cut]
        torn = content[first:cut]
        assert cut == last or not torn or torn in damaged_path(tmp_path).read_bytes()


@each_bash
@pytest.mark.parametrize("cut", [1, 2, 3, 4, 40])
def test_entry_cut_over_bracket_spoils_no_other(bash: Bash, cut: int, tmp_path: Path) -> None:
    text, closed = b",\n" + LAST, b"\n]\n" + PADDING
    write_record(tmp_path, UNCLOSED + text[:cut] + closed[cut:])

    assert read_after_exit_helper(tmp_path, bash) == JSON[:3]


@each_bash
@pytest.mark.parametrize("cut", [3, 4, 5, 10, 40, 400, 1300])
def test_torn_upstream_array_keeps_whole_entries(bash: Bash, cut: int, tmp_path: Path) -> None:
    """Cut so many bytes before its end, which has 3 bytes that are not in its last entry."""
    torn = array(*UPSTREAM, upstream_entry("stage end", 2, error_message=ODD * 20))[:-cut]
    write_record(tmp_path, torn)

    [first, second, *others] = read_after_exit_helper(tmp_path, bash)

    assert [first, second] == to_json(UPSTREAM)
    assert len(others) == (cut == 3)
    assert others or torn[-20:] in damaged_path(tmp_path).read_bytes()


@each_writer
@pytest.mark.parametrize(
    "garbage",
    [b"[garbage " * 200_000, b"[" + b"\n" * 1_500_000, b"[" + b"x},\n" * 500_000],
    ids=["a line", "blank lines", "lines"],
)
def test_unended_foreign_text_stays_before_lines(writer: ArrayWriter, garbage: bytes, tmp_path: Path) -> None:
    write_record(tmp_path, garbage)

    written = writer.append(tmp_path, 2)[-1]

    assert written.startswith(garbage)
    assert [line["phase"] for line in read_appended_entries(garbage, written)] == [
        "service start",
        "stage start",
    ]
