"""Links in a directory of records or in an unpacked bundle are not followed by any reader."""

import gzip
import os
from pathlib import Path
from typing import Final

import pytest

from service_record.cli import mcp
from service_record.record.directory import Records, open_inside
from service_record.record.entry import Entry
from service_record.triage.references import find_references
from tests.builders import entry, failed_run
from tests.builders import write_lines as _write_lines
from tests.command_line import service_record

PRIVATE: Final = "of-root-alone"


def write_lines(path: Path, *entries: Entry) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    _write_lines(path, *entries)


@pytest.fixture
def private(tmp_path: Path) -> Path:
    """Return a directory outside of the source; each of its files has something that nobody may see."""
    place = tmp_path / "private"
    write_lines(place / "secret.json", *failed_run(error_message=PRIVATE))
    place.joinpath("failed-units.txt").write_text(f"  {PRIVATE}.service loaded failed failed It\n")
    place.joinpath("bootkube.log").write_text(f"2026-03-02T09:00:00+00:00 host kernel: {PRIVATE}\n")
    return place


@pytest.fixture
def unpacked(tmp_path: Path, private: Path) -> Path:
    """Return an unpacked bundle with one record, in which all else is a link."""
    top = tmp_path / "bundle" / "log-bundle-1"
    services = top / "bootstrap/services"
    write_lines(services / "good.json", *failed_run())
    services.joinpath("linked.json").symlink_to(private / "secret.json")
    services.joinpath("good.json.damaged").symlink_to(private / "secret.json")
    services.joinpath("good.json.tmp").symlink_to(private / "secret.json")
    top.joinpath("failed-units.txt").symlink_to(private / "failed-units.txt")
    top.joinpath("unit-status").symlink_to(private)
    top.joinpath("bootstrap/journals").symlink_to(private)
    top.joinpath("bootstrap/kernel.log").symlink_to(private / "bootkube.log")
    return top.parent


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("show", "--from"),
        ("show", "--output", "jsonl", "--from"),
        ("show", "--output", "json", "--from"),
        ("analyze", "--from"),
        ("analyze", "--output", "html", "--from"),
        ("analyze", "--explain", "--from"),
        ("timeline", "--from"),
        ("validate",),
        ("export", "--to", "jsonl", "--from"),
        ("export", "--to", "otlp", "--from"),
        ("triage",),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("is_flat", [False, True], ids=["unpacked bundle", "directory of records"])
def test_verb_prints_nothing_behind_a_link(
    unpacked: Path, arguments: tuple[str, ...], *, is_flat: bool
) -> None:
    place = unpacked / "log-bundle-1/bootstrap/services" if is_flat else unpacked
    answer = service_record(*arguments, place)
    assert answer.status in {0, 1, 4}
    assert arguments[0] == "validate" or answer.out
    assert PRIVATE not in answer.out + answer.err


@pytest.mark.parametrize("verb", ["show --from", "validate"])
def test_link_among_records_is_reported(unpacked: Path, verb: str) -> None:
    services = unpacked / "log-bundle-1/bootstrap/services"
    warning = f"Warning: {services}/linked.json: a symbolic link, which is not followed\n"
    assert warning in service_record(*verb.split(), services).err


def test_redacted_copy_has_nothing_behind_a_link(unpacked: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.tar.gz"
    assert service_record("bundle", "--redact", unpacked, "-o", copy).status == 0
    content = gzip.decompress(copy.read_bytes())
    assert b"good.json" in content
    assert PRIVATE.encode() not in content


@pytest.mark.parametrize("link", ["bootstrap", "bootstrap/services"])
def test_linked_directory_of_records_is_not_read(private: Path, tmp_path: Path, link: str) -> None:
    target = tmp_path / "elsewhere"
    write_lines(target / "services/secret.json", *failed_run(error_message=PRIVATE))
    write_lines(target / "secret.json", *failed_run(error_message=PRIVATE))
    place = tmp_path / "bundle" / link
    place.parent.mkdir(parents=True)
    place.symlink_to(target)
    for arguments in (("show", "--from"), ("analyze", "--from"), ("validate",), ("triage",)):
        answer = service_record(*arguments, tmp_path / "bundle")
        assert PRIVATE not in answer.out + answer.err
        assert answer.status != 0 or "1 unreadable" in answer.out


def test_directory_may_be_a_link_itself(unpacked: Path, tmp_path: Path) -> None:
    """A person who names a link means its target."""
    link = tmp_path / "link"
    link.symlink_to(unpacked)
    assert "good" in service_record("show", "--from", link).out
    link = tmp_path / "record.json"
    link.symlink_to(unpacked / "log-bundle-1/bootstrap/services/good.json")
    assert "second" in service_record("show", "--from", link).out
    assert service_record("validate", link).status == 0


def test_folder_of_bundles_is_listed_without_links(unpacked: Path, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    folder.joinpath("host.tar.gz").write_bytes(gzip.compress(b"{}"))
    folder.joinpath("linked.tar.gz").symlink_to(folder / "host.tar.gz")
    folder.joinpath("linked").symlink_to(unpacked)
    names = [Path(one.uri).name for one in find_references(str(folder))]
    assert names == ["host.tar.gz"]
    assert [Path(name).name for name in mcp.Questions([str(folder)]).names()[1:]] == ["host.tar.gz"]


def test_file_that_becomes_a_link_is_not_opened(tmp_path: Path, private: Path) -> None:
    """Between listing and opening another user may put a link in the place of a record."""
    records = Records(tmp_path)
    write_lines(tmp_path / "job.json", entry())
    assert records.services() == ["job"]
    pieces = records.read("job")
    tmp_path.joinpath("job.json").unlink()
    tmp_path.joinpath("job.json").symlink_to(private / "secret.json")
    with pytest.raises(OSError, match=r"symbolic link|No such file"):
        list(pieces)


def test_open_inside_refuses_links_and_irregular_files(tmp_path: Path, private: Path) -> None:
    tmp_path.joinpath("way").symlink_to(private)
    tmp_path.joinpath("end").symlink_to(private / "secret.json")
    os.mkfifo(tmp_path / "pipe")
    for path in ("way/secret.json", "end", "pipe", "private"):
        with pytest.raises(OSError, match=r"symbolic links?|not a regular file|Is a directory"):
            open_inside(tmp_path, tmp_path / path)
    with open_inside(tmp_path, private / "secret.json") as stream:
        assert PRIVATE.encode() in stream.read()
