"""`service-record validate`: what is wrong, where, and what can be saved."""

import gzip
import io
import json
import os
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service_record.export import to_array
from service_record.record.conformance import FormatFault, examine
from service_record.record.entry import Entry, Malformed
from service_record.record.layout import read_entries
from tests.archives import extract_all
from tests.builders import array, failed_run, our_array, upstream_entry, write_array
from tests.command_line import service_record
from tests.strategies import RECORD_BYTES

UPSTREAM = [upstream_entry(at=at) for at in range(3)]
LINES = b"".join(written.to_line() for written in failed_run())
ARRAY = array(*UPSTREAM)
TORN = LINES[: len(LINES) // 2]
UNCLOSED = ARRAY.rstrip().removesuffix(b"]")


def faults(content: bytes) -> list[FormatFault]:
    return [piece for piece in examine(io.BytesIO(content)) if isinstance(piece, FormatFault)]


def entries(content: bytes) -> list[Entry]:
    return [piece for piece in read_entries(io.BytesIO(content)) if isinstance(piece, Entry)]


WHOLE = {
    "lines": LINES,
    "blank-lines": b"\n" + LINES + b"\n\n" + LINES,
    "no-last-newline": LINES.rstrip(),
    "crlf": LINES.replace(b"\n", b"\r\n"),
    "array": ARRAY,
    "array-behind-blanks": b" \n" + ARRAY,
    "array-on-one-line": ARRAY.replace(b"\n", b""),
    "our-array": our_array(*UPSTREAM),
    "our-array-with-more-blanks": our_array(*UPSTREAM) + b"\n" * 99 + b" " * 2000,
    "empty-array": b"[]\n",
}


@pytest.mark.parametrize("content", WHOLE.values(), ids=WHOLE)
def test_whole_record_has_no_fault_in_either_layout(content: bytes) -> None:
    assert faults(content) == []


@pytest.mark.parametrize(
    ("content", "line", "reason"),
    [
        pytest.param(b"", 1, "empty: nothing was ever written, or all of it is lost", id="zero-bytes"),
        pytest.param(b"\n \n", 1, "empty: nothing was ever written, or all of it is lost", id="blank"),
        pytest.param(b"[", 1, "not one closed JSON array: unexpected end of data", id="bracket"),
        pytest.param(
            UNCLOSED,
            ARRAY.count(b"\n"),
            "not one closed JSON array: unexpected end of data",
            id="array-cut-between-entries",
        ),
        pytest.param(
            ARRAY + ARRAY,
            ARRAY.count(b"\n") + 1,
            "not one closed JSON array: unexpected content after document",
            id="two-arrays",
        ),
        pytest.param(
            ARRAY + LINES[:-1] + ARRAY,
            ARRAY.count(b"\n") + 1,
            "not one closed JSON array: unexpected content after document",
            id="lines-and-an-array-behind-an-array",
        ),
        pytest.param(
            ARRAY + b"\n" + LINES + b"\n" + LINES,
            ARRAY.count(b"\n") + 2,
            "8 entries behind the array, which other readers do not see: "
            "the exit helper folds them in, or --salvage does",
            id="lines-behind-an-array",
        ),
        pytest.param(
            our_array(*UPSTREAM, appended=[upstream_entry(stage="a\x85b\u2028c")]),
            7,
            "1 entry behind the array, which other readers do not see: "
            "the exit helper folds it in, or --salvage does",
            id="an-entry-behind-our-array",
        ),
        pytest.param(
            our_array(*UPSTREAM, appended=UPSTREAM) + TORN.splitlines()[-1],
            12,
            "a damaged entry",
            id="a-torn-entry-behind-entries-behind-our-array",
        ),
        pytest.param(
            LINES + b"[" + LINES, 5, "not JSON Lines: unexpected end of data", id="array-behind-lines"
        ),
        pytest.param(LINES + b"[]\n", 5, "not JSON Lines: an array", id="compact-array-behind-lines"),
        pytest.param(LINES[:-1] + LINES, 4, "not JSON Lines: unexpected content after document", id="glued"),
        pytest.param(b"\xef\xbb\xbf" + LINES, 1, "a byte order mark, which JSON has not", id="bom-lines"),
        pytest.param(b"\xef\xbb\xbf" + ARRAY, 1, "a byte order mark, which JSON has not", id="bom-array"),
        pytest.param(LINES + TORN.splitlines()[-1], 5, "a damaged entry", id="torn-tail"),
        pytest.param(LINES + b"\0" * 7, 5, "7 NUL bytes", id="nul-bytes"),
        pytest.param(b"[[]]", 1, "not an object: a list", id="array-in-an-array"),
        pytest.param(b"\n[[]]", 2, "not an object: a list", id="the-same-behind-a-blank-line"),
        pytest.param(
            ARRAY[:-3] + b"\n,[ ]\n]\n", ARRAY.count(b"\n") + 0, "not an object: a list", id="nested"
        ),
        pytest.param(
            LINES + b'{"phase":"service start","STAGE":5}\n',
            5,
            "STAGE: expected a text, found 5",
            id="upstreams-field-in-another-case",
        ),
        pytest.param(
            b'[\n{"phase":"service start"},\n{"phase":"service start","ErrorLine":\n{}}]',
            3,
            "ErrorLine: expected a text, found an object",
            id="the-same-in-an-array",
        ),
        pytest.param(LINES + b'{"phase":"x"}', 5, 'phase: unknown word "x"', id="not-an-entry"),
    ],
)
def test_fault_is_reported_with_its_line(content: bytes, line: int, reason: str) -> None:
    assert faults(content) == [FormatFault(line, reason)]


@given(RECORD_BYTES)
def test_examine_yields_all_entries_and_damage(content: bytes) -> None:
    pieces = list(read_entries(io.BytesIO(content)))
    examined = list(examine(io.BytesIO(content)))
    damage = [piece for piece in pieces if isinstance(piece, Malformed)]
    expected_pieces = [
        FormatFault(piece.line, piece.reason) if isinstance(piece, Malformed) else piece for piece in pieces
    ]
    assert examined[: len(expected_pieces)] == expected_pieces
    assert len(examined) == len(expected_pieces) or (not damage and isinstance(examined[-1], FormatFault))
    assert all(
        0 < piece.line <= content.count(b"\n") + 1 for piece in examined if isinstance(piece, FormatFault)
    )


@pytest.mark.parametrize(
    "verb",
    ["validate {records}", "export --to array --from {records} --directory {out}", "show --from {records}"],
)
@settings(max_examples=5)
@given(contents=st.lists(RECORD_BYTES, min_size=1, max_size=20))
def test_no_content_is_more_than_damage(verb: str, contents: list[bytes]) -> None:
    with TemporaryDirectory() as directory:
        records, out = Path(directory, "records"), Path(directory, "out")
        records.mkdir()
        for number, content in enumerate(contents):
            (records / f"{number}.json").write_bytes(content)
        answer = service_record(*verb.format(records=records, out=out).split())
        assert answer.status in {0, 4}, answer.err
        assert "Error" not in answer.err


@pytest.fixture
def live(tmp_path: Path) -> Path:
    """A directory of upstream's: a whole record, a damaged one, and what a killed shim left."""
    directory = tmp_path / "live"
    directory.mkdir()
    write_array(directory / "whole.json", *UPSTREAM)
    (directory / "bad.json").write_bytes(b"oops\x1b[2J\n" + LINES + b"{torn\n")
    (directory / "bad.json.tmp").write_bytes(UNCLOSED)
    return directory


def test_valid_record_prints_nothing(live: Path) -> None:
    answer = service_record("validate", live / "whole.json")
    assert (answer.status, answer.out, answer.err) == (0, "", "")


def test_each_fault_is_one_line_with_its_place(live: Path) -> None:
    answer = service_record("validate", live / "whole.json", live / "bad.json")
    assert (answer.status, answer.err) == (4, "")
    assert answer.out.splitlines() == [
        f"{live}/bad.json:1: not an entry",
        f"{live}/bad.json:6: a damaged entry",
        f"{live}/bad.json.tmp:1: left by a write that did not end; it may have a newer entry",
    ]


def test_every_record_of_a_directory_is_checked(live: Path) -> None:
    (live / "empty.json").touch()
    (live / "lost.json.tmp").touch()
    places = [line.split(": ")[0] for line in service_record("validate", live).out.splitlines()]
    names = ["bad.json:1", "bad.json:6", "empty.json:1", "bad.json.tmp:1", "lost.json.tmp:1"]
    assert places == [f"{live}/{name}" for name in names]


def test_damaged_copy_beside_a_record_is_not_a_fault(tmp_path: Path) -> None:
    directory = tmp_path / "log-bundle-1" / "bootstrap" / "services"
    directory.mkdir(parents=True)
    write_array(directory / "job.json", *UPSTREAM)
    (directory / "job.json.damaged").write_bytes(TORN)
    with tarfile.open(tmp_path / "bundle", "w:gz") as tar:
        tar.add(directory, "bootstrap/services")
    places = {
        directory: f"{directory}/job.json.damaged",
        directory / "job.json": f"{directory}/job.json.damaged",
        tmp_path / "log-bundle-1": f"{directory}/job.json.damaged",
        tmp_path / "bundle": f"{tmp_path}/bundle:bootstrap/services/job.json.damaged",
    }
    for place, copy in places.items():
        answer = service_record("validate", place)
        assert (answer.status, answer.out) == (0, "")
        assert answer.err == f"Note: {copy}: what was damaged in the record beside it\n"


@pytest.mark.parametrize(("content", "status"), [(LINES, 0), (ARRAY, 0), (ARRAY + ARRAY, 4), (b"", 4)])
def test_standard_input_is_checked_like_a_file(content: bytes, status: int) -> None:
    answer = service_record("validate", "-", stdin=content)
    assert (answer.status, answer.err) == (status, "")
    assert [line.partition(":")[0] for line in answer.out.splitlines()] == (["-"] if status else [])


def test_every_record_of_a_bundle_is_checked(live: Path, tmp_path: Path) -> None:
    services = "log-bundle-1/bootstrap/services"
    with tarfile.open(tmp_path / "bundle.tar.gz", "w:gz") as tar:
        tar.add(live, services)
    with tarfile.open(tmp_path / "bundle.tar.gz") as tar:
        extract_all(tar, tmp_path)
    expected = service_record("validate", live).out
    packed = service_record("validate", tmp_path / "bundle.tar.gz")
    assert (packed.status, packed.err) == (4, "")
    assert packed.out == expected.replace(str(live), f"{tmp_path}/bundle.tar.gz:{services}")
    unpacked = service_record("validate", tmp_path / "log-bundle-1")
    assert unpacked.out == expected.replace(str(live), f"{tmp_path}/{services}")


def test_truncated_bundle_is_an_error(live: Path, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "bundle.tar", "w") as tar:
        tar.add(live / "whole.json", "bootstrap/services/whole.json")
        tar.add(live / "bad.json", "bootstrap/services/bad.json")
    cut = (tmp_path / "bundle.tar").read_bytes()[: 3 * 512 + 100]
    answer = service_record("validate", "-", stdin=cut)
    assert answer.status == 3
    assert answer.err.startswith("Error: -: ")


def test_compressed_record_is_checked_and_saved(tmp_path: Path) -> None:
    (tmp_path / "job.json.gz").write_bytes(gzip.compress(UNCLOSED))
    answer = service_record("validate", tmp_path / "job.json.gz", "--salvage", tmp_path / "saved")
    assert (answer.status, answer.err) == (4, "")
    assert answer.out.endswith(": not one closed JSON array: unexpected end of data\n")
    assert entries((tmp_path / "saved").read_bytes()) == UPSTREAM


def test_bundle_cannot_be_saved_as_one_record(live: Path, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "bundle.tar", "w") as tar:
        tar.add(live / "bad.json", "bootstrap/services/bad.json")
    answer = service_record("validate", tmp_path / "bundle.tar", "--salvage", tmp_path / "saved")
    assert (answer.status, answer.out, (tmp_path / "saved").exists()) == (2, "", False)


def test_unreadable_record_does_not_stop_the_check(live: Path) -> None:
    answer = service_record("validate", live / "absent.json", live / "bad.json")
    assert (answer.status, len(answer.out.splitlines())) == (3, 3)
    assert answer.err == f"Error: {live}/absent.json: No such file or directory; check the path\n"


def test_directory_without_records_exits_with_3(tmp_path: Path) -> None:
    answer = service_record("validate", tmp_path)
    advice = "give a record, a directory of records or a bundle"
    problem = f"Error: no records in {tmp_path}: no *.json file there; {advice}\n"
    assert (answer.status, answer.err) == (3, problem)


def test_longest_possible_name_is_accepted(tmp_path: Path) -> None:
    record = tmp_path / f"{'n' * 250}.json"
    record.write_bytes(LINES)
    for verb in (["validate"], ["show", "--from"]):
        assert service_record(*verb, tmp_path).status == service_record(*verb, record).status == 0


def test_one_of_several_bundles_must_be_named(tmp_path: Path) -> None:
    for bundle in ("one", "two"):
        (tmp_path / bundle / "bootstrap" / "services").mkdir(parents=True)
    answer = service_record("validate", tmp_path)
    assert (answer.status, answer.err.count("\n")) == (3, 1)
    assert f"{tmp_path}/one/bootstrap/services" in answer.err


def test_names_do_not_control_the_terminal(tmp_path: Path) -> None:
    name = os.fsencode(tmp_path) + b"/a\n\x1b[2J\xff.json"
    Path(os.fsdecode(name)).touch()
    answer = service_record("validate", tmp_path, "absent\n\x1b", PYTHONIOENCODING="ascii")
    assert answer.out.startswith(f"{tmp_path}/a\\x0a\\x1b[2J\\udcff.json:1: empty")
    assert answer.err == "Error: absent\\x0a\\x1b: No such file or directory; check the path\n"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (LINES + b"{torn\n" + LINES, LINES + LINES),
        (LINES + ARRAY, None),
        (UNCLOSED, None),
        (ARRAY + TORN, None),
        (our_array(*UPSTREAM, appended=UPSTREAM), b"".join(to_array(UPSTREAM + UPSTREAM))),
    ],
    ids=[
        "lines",
        "array-behind-lines",
        "unclosed-array",
        "torn-lines-behind-an-array",
        "entries-behind-our-array",
    ],
)
def test_whole_entries_are_saved_in_the_same_layout(
    tmp_path: Path, content: bytes, expected: bytes | None
) -> None:
    record, out = tmp_path / "job.json", tmp_path / "out" / "saved.json"
    out.parent.mkdir()
    record.write_bytes(content)
    assert service_record("validate", record, "--salvage", out).status == 4
    assert record.read_bytes() == content
    assert entries(out.read_bytes()) == entries(content)
    assert faults(out.read_bytes()) == []
    assert expected is None or out.read_bytes() == expected
    assert out.read_bytes()[:1] == content[:1]


def test_whole_record_can_be_saved(live: Path, tmp_path: Path) -> None:
    answer = service_record("validate", live / "whole.json", "--salvage", tmp_path / "saved")
    assert answer.status == 0
    assert json.loads((tmp_path / "saved").read_bytes()) == [written.to_json() for written in UPSTREAM]


@pytest.mark.parametrize("out", ["bad.json", "whole.json", "link", "new.json"])
def test_save_overwrites_nothing_and_avoids_the_records(live: Path, out: str) -> None:
    (live / "link").symlink_to(live / "absent")
    before = {path.name: path.read_bytes() for path in live.glob("*.json*")}
    arguments = "validate", live / "bad.json", "--salvage", live / out
    answer = service_record(*arguments, SERVICE_RECORDS_DIR=str(live))
    assert (answer.status, answer.out) == (2, "")
    assert {path.name: path.read_bytes() for path in live.glob("*.json*")} == before
    assert not (live / "absent").exists()


def test_nothing_is_left_of_what_cannot_be_saved(live: Path, tmp_path: Path) -> None:
    assert service_record("validate", live / "absent.json", "--salvage", tmp_path / "out").status == 3
    assert not (tmp_path / "out").exists()
    assert service_record("validate", live / "bad.json", "--salvage", tmp_path / "none" / "out").status == 3


@pytest.mark.parametrize("places", [["."], ["a.json", "b.json"]], ids=["directory", "two-files"])
def test_only_one_record_is_saved_at_a_time(places: list[str]) -> None:
    answer = service_record("validate", *places, "--salvage", "out")
    assert answer.status == 2
    assert "--salvage takes one record" in answer.err
