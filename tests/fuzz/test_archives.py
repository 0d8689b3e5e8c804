"""Read damaged and malicious archives, through the library and through every reading verb."""

import tarfile
from datetime import UTC, datetime
from io import BufferedReader, BytesIO
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from service_record.bundle import Bundle, LeftOut, Limits, open_bundle, pack
from service_record.bundle.contents import archive_contents
from service_record.bundle.writing import BundleWriter
from service_record.record.entry import Entry
from tests.archives import COMPRESSIONS, list_phases, record, tar
from tests.builders import failed_run
from tests.fuzz.command import limit_time
from tests.fuzz.corpus import with_corpus
from tests.fuzz.hostile import ARCHIVES, MEMBERS
from tests.fuzz.places import create_directory, read_files, write_all
from tests.fuzz.verbs import COMMANDS, TERMINALS, Terminal, run_command

CREATED_AT = datetime(2026, 11, 21, tzinfo=UTC)
SMALL: dict[str, Any] = {"read_bytes": 5000, "members": 2, "records": 1, "record_bytes": 9, "kept_bytes": 50}
SMALL |= {"layers": 1, "header_bytes": 20, "decoder_bytes": 1000}
LIMITS = st.sets(st.sampled_from(list(SMALL))).map(
    lambda names: Limits(**{name: SMALL[name] for name in names})
)


def open_archive(archive: bytes, limits: Limits | None = None) -> Bundle:
    return open_bundle(BufferedReader(BytesIO(archive)), limits)


@with_corpus("archives", "archive", limits=Limits())
@given(ARCHIVES, LIMITS)
def test_archive_is_read_within_limits(archive: bytes, limits: Limits) -> None:
    with limit_time("archives: read"):
        bundle = open_archive(archive, limits)
        kept = [len(each.data) for each in (*bundle.records.values(), *bundle.damaged.values())]
        assert len(kept) <= limits.records
        assert all(size <= limits.record_bytes for size in kept)
        assert sum(kept) <= limits.kept_bytes
        assert set(list_phases(bundle)) == set(bundle.records)
        assert all(str(part) for part in bundle.left_out)


@given(st.sampled_from(list(COMPRESSIONS)), st.lists(MEMBERS, max_size=4))
def test_hostile_members_do_not_hide_earlier_ones(name: str, hostile: list[bytes]) -> None:
    with limit_time("archives: with hostile members"):
        archive = tar(record("whole record", *failed_run()), *hostile)
        assert list_phases(open_archive(COMPRESSIONS[name](archive)))["whole record"] == [
            each.phase for each in failed_run()
        ]


@with_corpus("archives", "archive")
@given(ARCHIVES)
def test_read_archive_can_be_repacked(archive: bytes) -> None:
    with limit_time("archives: packed again"):
        bundle = open_archive(archive)
        copy_of_archive = BytesIO()
        records = {service: list(each.pieces()) for service, each in bundle.records.items()}
        copies = {service: BytesIO(each.data).getvalue for service, each in bundle.damaged.items()}
        pack(records.items(), copy_of_archive, CREATED_AT, copies)
        packed = open_archive(copy_of_archive.getvalue())
        assert packed.left_out == ()
        assert len(packed.records) == len(records)
        kept = sorted(sum(isinstance(piece, Entry) for piece in pieces) for pieces in records.values())
        assert sorted(len(phases) for phases in list_phases(packed).values()) == kept


@with_corpus("archives", "archive", limits=Limits())
@given(ARCHIVES, LIMITS)
def test_copy_is_complete_and_stays_inside(archive: bytes, limits: Limits) -> None:
    left_out: list[LeftOut] = []
    with limit_time("archives: copied"), create_directory() as directory:
        copy = directory / "copy"
        stream = archive_contents(BufferedReader(BytesIO(archive)), "alone", 0, left_out.append, limits)
        with BundleWriter(copy, top="", mtime=0) as bundle:
            for content in stream:
                with bundle.member(content.path, mtime=content.written, keep_empty=True) as member:
                    while data := content.read(999):
                        member.write(data)
        with tarfile.open(copy, "r:gz") as copy_of_archive:
            names = copy_of_archive.getnames()
        assert names == [member.path for member in bundle.members]
        assert len(set(names)) == len(names)
        assert not any(name.startswith("/") or ".." in name.split("/") for name in names)
        assert all(str(part) for part in left_out)


@given(ARCHIVES, COMMANDS, TERMINALS, st.sampled_from(["bundle", "-"]))
def test_verb_answers_any_archive(archive: bytes, command: list[str], terminal: Terminal, place: str) -> None:
    with limit_time("archives: through the command line"), create_directory() as directory:
        files = write_all(directory / "files", {"bundle": archive})
        source = place if place == "-" else str(files / place)
        run_command(command, source, directory / "out", terminal, stdin=archive)
        assert read_files(files) == {str(files / "bundle"): archive}
