"""Sources that are made to take long are read in bounded time, and what is left out has its true reason."""

import gzip
import tarfile
import time
from io import BytesIO
from pathlib import Path

import pytest
from click.testing import CliRunner

from service_record.bundle import Limits, open_bundle
from service_record.cli import bundle as bundle_verb
from service_record.record.directory import open_inside
from service_record.record.entry import Entry
from service_record.record.layout import read_entries
from service_record.redaction import Rules, find_leak
from tests.builders import entry, failed_run, write_lines
from tests.command_line import service_record

HUGE = 200 << 30


@pytest.fixture
def sparse(tmp_path: Path) -> Path:
    """Return a record of 200 GiB with entries before and behind a hole, on a disk that has no room for it."""
    tmp_path.joinpath("records").mkdir()
    path = write_lines(tmp_path / "records/job.json", *failed_run())
    with path.open("r+b") as file:
        file.seek(HUGE)
        file.write(b"\n" + entry(at=99).to_line() + b"\n")
        file.truncate(HUGE * 2)
    return path


@pytest.mark.parametrize(
    "verb", ["show --from", "analyze --from", "timeline --from", "validate", "export --to jsonl --from"]
)
@pytest.mark.parametrize("is_file", [True, False], ids=["file", "directory"])
def test_sparse_record_is_read_without_its_holes(sparse: Path, verb: str, *, is_file: bool) -> None:
    begun = time.monotonic()
    answer = service_record(*verb.split(), sparse if is_file else sparse.parent)
    assert answer.status in {0, 1, 4}
    assert time.monotonic() - begun < 30


def test_entries_behind_a_hole_are_read(sparse: Path) -> None:
    with open_inside(sparse.parent, sparse) as stream:
        pieces = list(read_entries(stream))
    assert [piece for piece in pieces if isinstance(piece, Entry)] == [*failed_run(), entry(at=99)]
    assert any("\0" in piece.text for piece in pieces if not isinstance(piece, Entry))


def test_stream_without_holes_equals_the_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with path.open("wb") as file:
        for at in (0, 3 << 20, 9 << 20):
            file.seek(at)
            file.write(b"x" * 5000)
    with open_inside(tmp_path, path) as stream:
        assert stream.read().replace(b"\0", b"") == b"x" * 15000


def archive(*members: tuple[str, bytes]) -> bytes:
    packed = BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as file:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            file.addfile(info, BytesIO(data))
    return packed.getvalue()


def test_inflated_record_is_read_to_the_limit() -> None:
    line = entry().to_line() + b"\n"
    data = archive(("b/bootstrap/services/job.json", line * ((40 << 20) // len(line))))
    record = open_bundle(BytesIO(data)).records["job"]  # type: ignore[arg-type]  # has read1
    assert 16 << 20 <= len(record.data) < 40 << 20
    assert record.damage == (
        "records of more than 40 times its size, and 16 MiB; the rest of the record was not read"
    )
    whole = open_bundle(BytesIO(data), Limits(kept_growth=1 << 20))  # type: ignore[arg-type]  # has read1
    assert whole.records["job"].damage == ""


def many_members(count: int) -> bytes:
    packed = BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb") as file:
        for number in range(count):
            file.write(tarfile.TarInfo(f"b/{number}.txt").tobuf(tarfile.USTAR_FORMAT))
        file.write(bytes(1024))
    return packed.getvalue()


@pytest.mark.parametrize("is_directory", [False, True], ids=["archive", "directory"])
def test_copy_of_too_many_files_has_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_directory: bool
) -> None:
    monkeypatch.setattr(bundle_verb, "_MAX_FILES", 20)
    monkeypatch.setattr(bundle_verb, "_LIMITS", Limits(members=20))
    place = tmp_path / "many"
    if is_directory:
        place.mkdir()
        for number in range(25):
            place.joinpath(f"{number}.txt").write_text("x")
    else:
        place.write_bytes(many_members(25))
    copy = tmp_path / "copy.tar.gz"
    answer = CliRunner().invoke(bundle_verb.command, ["--redact", str(place), "-o", str(copy)])
    assert answer.exit_code == 0
    assert "the rest was not read" in answer.output
    with tarfile.open(copy) as archive:
        assert len([name for name in archive.getnames() if name.endswith(".txt")]) == 20


@pytest.mark.slow
def test_number_of_members_is_no_leak() -> None:
    assert find_leak(Rules(), BytesIO(many_members(Limits().members + 5))) is None
