"""The files of archives and directories, including compressed and damaged ones."""

import gzip
import io
import os
import stat
import tarfile
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import pytest

from service_record.bundle import LeftOut, Limits
from service_record.bundle.contents import archive_contents, directory_contents
from tests.archives import COMPRESSIONS, header, member, tar


def read(archive: bytes, **limits: Any) -> tuple[dict[str, bytes], list[tuple[str, str]]]:
    """Return the files in an archive, and path and reason of each part that is left out."""
    left_out: list[LeftOut] = []
    found = {}
    contents = archive_contents(
        io.BufferedReader(io.BytesIO(archive)), "x", 0, left_out.append, Limits(**limits)
    )
    for content in contents:
        parts = []
        while data := content.read(1000):
            parts.append(data)
        found[content.path] = b"".join(parts)
    return found, [(part.path, part.reason) for part in left_out]


@pytest.mark.parametrize("packing", COMPRESSIONS)
def test_files_are_yielded_for_each_compression(packing: str) -> None:
    archive = tar(member("./a/1", b"one" * 5000), member("a/2", b""), member("3", b"three"))
    assert read(COMPRESSIONS[packing](archive)) == ({"a/1": b"one" * 5000, "a/2": b"", "3": b"three"}, [])


def test_compressed_files_and_archives_are_unpacked_in_place() -> None:
    inner = gzip.compress(tar(member("logs/a", b"a"), member("b.zst", COMPRESSIONS[".tar.zst"](b"b"))))
    archive = tar(member("top/inner.tar.gz", inner), member("top/c.log.xz", COMPRESSIONS[".tar.xz"](b"c")))
    found = {"top/inner.tar.gz/logs/a": b"a", "top/inner.tar.gz/b": b"b", "top/c.log": b"c"}
    assert read(archive) == (found, [])


def test_unpacked_file_loses_its_suffix() -> None:
    names = ["a.log.gz", "b.gz.gz", "....gz", "c/.gz", "c/...gz", "d.tgz"]
    archive = tar(*(member(name, gzip.compress(b"x")) for name in names))
    assert list(read(archive)[0]) == ["a.log", "b", "....gz", "c/.gz", "c/...gz", "d.tgz"]


@pytest.mark.parametrize("name", ["/etc/passwd", "../x", "a/../../x", "./"])
def test_name_outside_the_archive_is_left_out(name: str) -> None:
    found, left_out = read(tar(member(name, b"x"), member("after", b"y")))
    assert found == {"after": b"y"}
    assert [reason for _, reason in left_out] == ["refused: its name leads out of the archive"]


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (tarfile.SYMTYPE, "left out: a symbolic link, not a plain file"),
        (tarfile.LNKTYPE, "left out: a hard link, not a plain file"),
        (tarfile.CHRTYPE, "left out: a device, not a plain file"),
        (tarfile.FIFOTYPE, "left out: a FIFO, not a plain file"),
    ],
)
def test_irregular_member_is_left_out(kind: bytes, reason: str) -> None:
    archive = tar(header("special", type=kind, linkname="/etc/passwd"), member("after", b"y"))
    assert read(archive) == ({"after": b"y"}, [("special", reason)])


def test_too_deep_archive_is_left_out() -> None:
    reason = "left out: an archive that is not read, and might have secrets in it"
    damaged = [("a.zip", "a damaged zip archive: File is not a zip file")]
    assert read(tar(member("a.zip", b"PK\x03\x04..."))) == ({}, damaged)
    deep = b"secret"
    for _ in range(9):
        deep = gzip.compress(deep)
    assert read(tar(member("a.gz", deep))) == ({}, [("a.gz", reason)])


def zipped(*files: tuple[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with ZipFile(packed, "w", ZIP_DEFLATED) as archive:
        for name, content in files:
            archive.writestr(name, content)
    return packed.getvalue()


def test_members_of_zip_archive_are_yielded() -> None:
    link = ZipInfo("link")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    packed = io.BytesIO()
    with ZipFile(packed, "w") as archive:
        archive.writestr("a/b", b"x")
        archive.writestr("../up", b"y")
        archive.writestr(link, b"/etc/passwd")
        archive.writestr("in.tar", tar(member("c", b"z")))
    assert read(tar(member("d.zip", packed.getvalue()))) == (
        {"d.zip/a/b": b"x", "d.zip/in.tar/c": b"z"},
        [
            ("d.zip/../up", "refused: its name leads out of the archive"),
            ("d.zip/link", "left out: a symbolic link, not a plain file"),
        ],
    )


def test_zip_bomb_is_read_up_to_the_limit() -> None:
    bomb = zipped(("zeros", bytes(1 << 20)))
    contents, left = read(bomb, read_bytes=1 << 17)
    assert len(contents["zeros"]) < 1 << 17
    assert left == [("", "more than 128 KiB to read: the rest was not read")]


def test_zip_member_without_a_time_is_read() -> None:
    archive = bytearray(zipped(("a", b"x")))
    for signature, place in ((b"PK\x03\x04", 10), (b"PK\x01\x02", 12)):
        start = archive.index(signature) + place
        archive[start : start + 4] = bytes(4)
    assert read(bytes(archive)) == ({"a": b"x"}, [])


def test_cut_zip_archive_is_left_out() -> None:
    whole = zipped(("a", b"a" * 1000), ("b", b"b" * 1000))
    for length in range(4, len(whole), 7):
        contents, left = read(whole[:length])
        assert contents == {}
        assert left


def test_gzip_bomb_is_read_up_to_the_limit() -> None:
    bomb = gzip.compress(tar(member("a", b"a"), member("zeros", bytes(1 << 20))))
    found, left_out = read(bomb, read_bytes=1 << 18)
    assert found["a"] == b"a"
    assert left_out == [("", "more than 256 KiB to read: the rest was not read")]


def test_files_of_a_directory_are_yielded_without_links(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b/1.log").write_bytes(b"one")
    (tmp_path / "a.tar.gz").write_bytes(gzip.compress(tar(member("in/side", b"x"))))
    (tmp_path / "c.gz").write_bytes(gzip.compress(b"c"))
    (tmp_path / "link").symlink_to("/etc/passwd")
    (tmp_path / "directory").symlink_to("/etc")
    (tmp_path / "made").write_bytes(b"not to be read")
    os.mkfifo(tmp_path / "pipe")
    left_out: list[LeftOut] = []
    contents = directory_contents(tmp_path, left_out.append, without=tmp_path / "made")
    assert {content.path: content.read(99) for content in contents} == {
        "a.tar.gz/in/side": b"x",
        "b/1.log": b"one",
        "c": b"c",
    }
    assert [str(part) for part in left_out] == [
        "directory: a symbolic link",
        "link: a symbolic link",
        "pipe: not a plain file",
    ]


def test_missing_directory_is_reported(tmp_path: Path) -> None:
    left_out: list[LeftOut] = []
    assert list(directory_contents(tmp_path / "nowhere", left_out.append)) == []
    assert [part.reason for part in left_out] == ["No such file or directory"]
