"""Records that are damaged in any way: through the reader, and through every verb that reads."""

from io import BytesIO

from hypothesis import assume, given
from hypothesis import strategies as st

from service_record.bundle import is_packed
from service_record.export import FORMS
from service_record.record.conformance import FormatFault, examine
from service_record.record.entry import Entry, Malformed
from service_record.record.layout import read_entries
from tests.fuzz.command import bounded
from tests.fuzz.corpus import with_seeds
from tests.fuzz.hostile import RAW_NAMES, RECORDS, STREAMS
from tests.fuzz.places import KINDS, around, contents, write_all
from tests.fuzz.verbs import COMMANDS, TERMINALS, Terminal, answered

FILE_NAMES = st.builds(
    "{}{}".format, RAW_NAMES, st.sampled_from([*[".json"] * 4, ".json.tmp", ".json.damaged"])
)


def entries(content: bytes) -> list[Entry]:
    return [piece for piece in read_entries(BytesIO(content)) if isinstance(piece, Entry)]


@with_seeds("records", "content")
@given(RECORDS)
def test_pieces_have_lines_and_entries_round_trip(content: bytes) -> None:
    with bounded("records: read"):
        pieces = list(read_entries(BytesIO(content)))
        numbers = [piece.line for piece in pieces if isinstance(piece, Malformed)]
        assert numbers == sorted(numbers)
        assert all(0 < number <= content.count(b"\n") + 1 for number in numbers)
        whole = [piece for piece in pieces if isinstance(piece, Entry)]
        for form, write in FORMS.items():
            kept = b"".join(write(whole))
            assert entries(kept) == whole, form
            assert not whole or list(examine(BytesIO(kept))) == whole, form


@given(RECORDS | STREAMS, RECORDS, COMMANDS, TERMINALS, st.sampled_from(["job.json", "", "-"]))
def test_verb_answers_any_records(
    content: bytes, other: bytes, command: list[str], terminal: Terminal, place: str
) -> None:
    with bounded("records: through the command line"), around() as directory:
        records = write_all(directory / "records", {"job.json": content, "other.json": other})
        before = contents(records)
        there = place if place == "-" else str(records / place)
        answer = answered(command, there, directory / "out", terminal, stdin=content)
        assert contents(records) == before
        whole = entries(content)
        is_of_one_service = not is_packed(content) and not any("service" in one.extra for one in whole)
        if command[0] == "export" and command.count("--from") == 1 and place and answer.out:
            assert entries(answer.out) == whole or not is_of_one_service


@with_seeds("records", "content")
@given(RECORDS)
def test_salvage_keeps_exactly_the_whole_entries(content: bytes) -> None:
    assume(not is_packed(content))
    with bounded("records: saved"), around() as directory:
        records = write_all(directory / "records", {"job.json": content})
        command = ["validate", "{place}", "--salvage", "{out}/saved.json"]
        answer = answered(command, str(records / "job.json"), directory / "out")
        assert answer.status in {0, 4}
        saved = (directory / "out" / "saved.json").read_bytes()
        assert entries(saved) == entries(content)
        assert not entries(content) or not [
            one for one in examine(BytesIO(saved)) if isinstance(one, FormatFault)
        ]
        assert answered(command[:2], str(records), directory / "out").status == answer.status


@given(
    st.dictionaries(FILE_NAMES, RECORDS, min_size=1, max_size=4),
    st.dictionaries(FILE_NAMES, st.sampled_from(list(KINDS)), max_size=2),
    st.sampled_from(["", "bootstrap/services", "log-bundle-1/bootstrap/services", "a/var/log/openshift"]),
    COMMANDS,
    TERMINALS,
)
def test_verb_answers_any_directory(
    files: dict[str, bytes], odd: dict[str, str], below: str, command: list[str], terminal: Terminal
) -> None:
    with bounded("records: in directories"), around() as directory:
        write_all(directory / "place" / below, files, odd)
        before = contents(directory / "place")
        answered(command, str(directory / "place"), directory / "out", terminal)
        assert contents(directory / "place") == before
