"""Read damaged records, through the reader and through every reading verb."""

from io import BytesIO

from hypothesis import assume, given
from hypothesis import strategies as st

from service_record.bundle import is_packed
from service_record.export import FORMS
from service_record.record.conformance import FormatFault, examine
from service_record.record.entry import Entry, Malformed
from service_record.record.layout import read_entries
from tests.fuzz.command import limit_time
from tests.fuzz.corpus import with_corpus
from tests.fuzz.hostile import RAW_NAMES, RECORDS, STREAMS
from tests.fuzz.places import KINDS, create_directory, read_files, write_all
from tests.fuzz.verbs import COMMANDS, TERMINALS, Terminal, run_command

FILE_NAMES = st.builds(
    "{}{}".format, RAW_NAMES, st.sampled_from([*[".json"] * 4, ".json.tmp", ".json.damaged"])
)


def parse_entries(content: bytes) -> list[Entry]:
    return [piece for piece in read_entries(BytesIO(content)) if isinstance(piece, Entry)]


@with_corpus("records", "content")
@given(RECORDS)
def test_pieces_have_lines_and_entries_round_trip(content: bytes) -> None:
    with limit_time("records: read"):
        pieces = list(read_entries(BytesIO(content)))
        numbers = [piece.line for piece in pieces if isinstance(piece, Malformed)]
        assert numbers == sorted(numbers)
        assert all(0 < number <= content.count(b"\n") + 1 for number in numbers)
        expected = [piece for piece in pieces if isinstance(piece, Entry)]
        for form, write in FORMS.items():
            exported = b"".join(write(expected))
            assert parse_entries(exported) == expected, form
            assert not expected or list(examine(BytesIO(exported))) == expected, form


@given(RECORDS | STREAMS, RECORDS, COMMANDS, TERMINALS, st.sampled_from(["job.json", "", "-"]))
def test_verb_answers_any_records(
    content: bytes, other: bytes, command: list[str], terminal: Terminal, place: str
) -> None:
    with limit_time("records: through the command line"), create_directory() as directory:
        records = write_all(directory / "records", {"job.json": content, "other.json": other})
        before = read_files(records)
        source = place if place == "-" else str(records / place)
        answer = run_command(command, source, directory / "out", terminal, stdin=content)
        assert read_files(records) == before
        expected = parse_entries(content)
        has_one_service = not is_packed(content) and not any("service" in each.extra for each in expected)
        if command[0] == "export" and command.count("--from") == 1 and place and answer.out:
            assert parse_entries(answer.out) == expected or not has_one_service


@with_corpus("records", "content")
@given(RECORDS)
def test_salvage_keeps_exactly_the_whole_entries(content: bytes) -> None:
    assume(not is_packed(content))
    with limit_time("records: saved"), create_directory() as directory:
        records = write_all(directory / "records", {"job.json": content})
        command = ["validate", "{place}", "--salvage", "{out}/saved.json"]
        answer = run_command(command, str(records / "job.json"), directory / "out")
        assert answer.status in {0, 4}
        saved = (directory / "out" / "saved.json").read_bytes()
        assert parse_entries(saved) == parse_entries(content)
        assert not parse_entries(content) or not [
            each for each in examine(BytesIO(saved)) if isinstance(each, FormatFault)
        ]
        assert run_command(command[:2], str(records), directory / "out").status == answer.status


@given(
    st.dictionaries(FILE_NAMES, RECORDS, min_size=1, max_size=4),
    st.dictionaries(FILE_NAMES, st.sampled_from(list(KINDS)), max_size=2),
    st.sampled_from(["", "bootstrap/services", "log-bundle-1/bootstrap/services", "a/var/log/openshift"]),
    COMMANDS,
    TERMINALS,
)
def test_verb_answers_any_directory(
    files: dict[str, bytes], odd: dict[str, str], folder: str, command: list[str], terminal: Terminal
) -> None:
    with limit_time("records: in directories"), create_directory() as directory:
        write_all(directory / "place" / folder, files, odd)
        before = read_files(directory / "place")
        run_command(command, str(directory / "place"), directory / "out", terminal)
        assert read_files(directory / "place") == before
