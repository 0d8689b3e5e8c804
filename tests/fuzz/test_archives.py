"""Archives that are damaged, or made to do harm: through the library, and through every verb that reads."""

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
from tests.archives import COMPRESSIONS, found, record, tar
from tests.builders import failed_run
from tests.fuzz.command import bounded
from tests.fuzz.corpus import with_seeds
from tests.fuzz.hostile import ARCHIVES, MEMBERS
from tests.fuzz.places import around, contents, write_all
from tests.fuzz.verbs import COMMANDS, TERMINALS, Terminal, answered

AT = datetime(2026, 11, 21, tzinfo=UTC)
SMALL: dict[str, Any] = {"read_bytes": 5000, "members": 2, "records": 1, "record_bytes": 9, "kept_bytes": 50}
SMALL |= {"layers": 1, "header_bytes": 20, "decoder_bytes": 1000}
LIMITS = st.sets(st.sampled_from(list(SMALL))).map(lambda few: Limits(**{name: SMALL[name] for name in few}))


def opened(archive: bytes, limits: Limits | None = None) -> Bundle:
    return open_bundle(BufferedReader(BytesIO(archive)), limits)


@with_seeds("archives", "archive", limits=Limits())
@given(ARCHIVES, LIMITS)
def test_archive_is_read_within_limits(archive: bytes, limits: Limits) -> None:
    with bounded("archives: read"):
        bundle = opened(archive, limits)
        kept = [len(one.data) for one in (*bundle.records.values(), *bundle.damaged.values())]
        assert len(kept) <= limits.records
        assert all(size <= limits.record_bytes for size in kept)
        assert sum(kept) <= limits.kept_bytes
        assert set(found(bundle)) == set(bundle.records)
        assert all(str(part) for part in bundle.left_out)


@given(st.sampled_from(list(COMPRESSIONS)), st.lists(MEMBERS, max_size=4))
def test_hostile_members_do_not_hide_earlier_ones(name: str, hostile: list[bytes]) -> None:
    with bounded("archives: with hostile members"):
        archive = tar(record("whole record", *failed_run()), *hostile)
        assert found(opened(COMPRESSIONS[name](archive)))["whole record"] == [
            one.phase for one in failed_run()
        ]


@with_seeds("archives", "archive")
@given(ARCHIVES)
def test_read_archive_can_be_repacked(archive: bytes) -> None:
    with bounded("archives: packed again"):
        bundle = opened(archive)
        again = BytesIO()
        records = {service: list(one.pieces()) for service, one in bundle.records.items()}
        copies = {service: BytesIO(one.data).getvalue for service, one in bundle.damaged.items()}
        pack(records.items(), again, AT, copies)
        packed = opened(again.getvalue())
        assert packed.left_out == ()
        assert len(packed.records) == len(records)
        kept = sorted(sum(isinstance(piece, Entry) for piece in pieces) for pieces in records.values())
        assert sorted(len(phases) for phases in found(packed).values()) == kept


@with_seeds("archives", "archive", limits=Limits())
@given(ARCHIVES, LIMITS)
def test_copy_is_complete_and_stays_inside(archive: bytes, limits: Limits) -> None:
    left_out: list[LeftOut] = []
    with bounded("archives: copied"), around() as directory:
        copy = directory / "copy"
        stream = archive_contents(BufferedReader(BytesIO(archive)), "alone", 0, left_out.append, limits)
        with BundleWriter(copy, top="", mtime=0) as bundle:
            for content in stream:
                with bundle.member(content.path, mtime=content.written, keep_empty=True) as member:
                    while data := content.read(999):
                        member.write(data)
        with tarfile.open(copy, "r:gz") as again:
            names = again.getnames()
        assert names == [member.path for member in bundle.members]
        assert len(set(names)) == len(names)
        assert not any(name.startswith("/") or ".." in name.split("/") for name in names)
        assert all(str(part) for part in left_out)


@given(ARCHIVES, COMMANDS, TERMINALS, st.sampled_from(["bundle", "-"]))
def test_verb_answers_any_archive(archive: bytes, command: list[str], terminal: Terminal, place: str) -> None:
    with bounded("archives: through the command line"), around() as directory:
        files = write_all(directory / "files", {"bundle": archive})
        there = place if place == "-" else str(files / place)
        answered(command, there, directory / "out", terminal, stdin=archive)
        assert contents(files) == {str(files / "bundle"): archive}
