"""Damaged and malicious archives: intact parts are read, and the others are reported."""

import gzip
import io
import lzma
import tarfile
import time
from collections.abc import Callable
from zipfile import ZIP_BZIP2, ZIP_DEFLATED, ZIP_LZMA, ZipFile

import pytest

from service_record.bundle import Bundle
from service_record.bundle.layers import Limits
from tests.archives import (
    COMPRESSIONS,
    SERVICES,
    header,
    list_left_out,
    list_phases,
    member,
    open_archive,
    record,
    tar,
)
from tests.builders import array, entry, failed_run

JOB = f"{SERVICES}/job.json"
WHOLE = record("whole", entry())
KEPT = {"whole": ["service start"]}

compressions = pytest.mark.parametrize("compress", COMPRESSIONS.values(), ids=COMPRESSIONS)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (tarfile.SYMTYPE, "a symbolic link"),
        (tarfile.LNKTYPE, "a hard link"),
        (tarfile.CHRTYPE, "a device"),
        (tarfile.BLKTYPE, "a device"),
        (tarfile.FIFOTYPE, "a FIFO"),
        (tarfile.DIRTYPE, "a directory"),
        (tarfile.GNUTYPE_SPARSE, "a sparse file"),
        (b"?", "of an unknown type"),
    ],
    ids=["symlink", "hardlink", "character", "block", "fifo", "directory", "sparse", "unknown"],
)
def test_irregular_record_is_refused(kind: bytes, reason: str) -> None:
    bundle = open_archive(tar(header(JOB, type=kind, linkname="/etc/shadow"), WHOLE))
    assert list_phases(bundle) == KEPT
    assert list_left_out(bundle) == [(JOB, f"refused: {reason}, not a plain file")]


def test_link_with_a_size_has_no_data() -> None:
    assert list_phases(open_archive(tar(header("link", 10**9, type=tarfile.SYMTYPE), WHOLE))) == KEPT


@pytest.mark.parametrize("name", [f"/{JOB}", f"../{JOB}", f"a/../{JOB}", "/var/log/openshift/job.json"])
def test_name_outside_the_archive_is_refused(name: str) -> None:
    bundle = open_archive(tar(member(name, array(entry())), WHOLE))
    assert list_phases(bundle) == KEPT
    assert list_left_out(bundle) == [(name, "refused: its name leads out of the archive")]


def test_pax_sparse_file_is_refused_by_its_name() -> None:
    headers = {"GNU.sparse.major": "1", "GNU.sparse.name": JOB, "GNU.sparse.realsize": str(2**60)}
    sparse = member("GNUSparseFile.1/job.json", b"0\n", layout=tarfile.PAX_FORMAT, pax_headers=headers)
    assert list_left_out(open_archive(tar(sparse, WHOLE))) == [
        (JOB, "refused: a sparse file, not a plain file")
    ]


def test_map_of_an_old_sparse_file_is_skipped() -> None:
    block = bytearray(header("holes", 512, type=tarfile.GNUTYPE_SPARSE))
    block[482] = 1
    block[148:156] = b"%06o\0 " % (sum(block[:148]) + sum(block[156:]) + 8 * ord(" "))
    more, last = bytes(504) + b"\1" + bytes(7), bytes(512)
    assert list_phases(open_archive(tar(bytes(block) + more + last + bytes(512), WHOLE))) == KEPT


@pytest.mark.parametrize("name", ["a\nb", "\x1b[31mred", "\u202egnp", "\udcff"])
def test_service_name_may_have_any_characters(name: str) -> None:
    raw = tarfile.TarInfo(f"{SERVICES}/{name}.json").tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")
    shown = name.replace("\udcff", "\\xff")
    assert list(open_archive(tar(raw)).records) == [shown]


@compressions
@pytest.mark.parametrize("share", [0.5, 0.9, 0.99])
def test_truncated_archive_keeps_its_complete_records(
    compress: Callable[[bytes], bytes], share: float
) -> None:
    runs = [
        one for at in range(300) for one in failed_run(at=20 * at, error_message=f"{hash((at, share)):x}")
    ]
    archive = compress(tar(WHOLE, record("job", *runs)))
    bundle = open_archive(archive[: int(len(archive) * share)])
    assert list_left_out(bundle)
    *_, damage = list_phases(bundle).get("job", [""])
    assert damage == "" or damage == list_left_out(bundle)[0][1]
    if compress is bytes or compress is gzip.compress:
        assert list_phases(bundle)["whole"] == ["service start"]
        assert list_phases(bundle)["job"].count("service start") > 100 * share


def test_truncated_record_is_marked_at_its_end() -> None:
    archive = tar(record("job", *failed_run()))
    *read, torn, cut = list_phases(open_archive(archive[:800]))["job"]
    assert (read, torn) == (["service start"], "a damaged entry")
    assert cut == "the archive has no end: the rest is missing"


def test_damaged_header_ends_the_archive() -> None:
    archive = bytearray(tar(WHOLE, record("job", entry())))
    archive[len(WHOLE) + 5] ^= 1
    bundle = open_archive(bytes(archive))
    assert (list_phases(bundle), list_left_out(bundle)) == (KEPT, [("", "a damaged header: bad checksum")])


def test_wrong_gzip_checksum_is_reported() -> None:
    archive = bytearray(gzip.compress(tar(WHOLE)))
    archive[-8] ^= 1
    bundle = open_archive(bytes(archive))
    assert list_phases(bundle) == KEPT
    assert len(bundle.left_out) == 1
    assert "incorrect data check" in bundle.left_out[0].reason


@pytest.mark.parametrize(
    "extended", [b"12 path=", b"999999 path=a\n", b"x", b"3 =", b"20 size=-12345678901\n", b"9 size=a\n"]
)
def test_damaged_extended_header_ends_the_archive(extended: bytes) -> None:
    bundle = open_archive(tar(WHOLE, member("pax", extended, type=tarfile.XHDTYPE), member(JOB)))
    assert list_phases(bundle) == KEPT
    assert "a damaged extended header" in bundle.left_out[0].reason


@pytest.mark.parametrize("compression", [ZIP_DEFLATED, ZIP_BZIP2, ZIP_LZMA], ids=["deflate", "bzip2", "lzma"])
def test_damaged_zip_archive_raises_nothing(compression: int) -> None:
    packed = io.BytesIO()
    with ZipFile(packed, "w", compression) as archive:
        archive.writestr(JOB, array(*failed_run()))
    whole = packed.getvalue()
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 0xFF
        assert isinstance(open_archive(bytes(damaged)), Bundle), place


def test_damaged_inner_archive_does_not_affect_the_outer() -> None:
    inner = gzip.compress(tar(record("job", *failed_run()), member("noise", bytes(range(256)) * 40)))
    bundle = open_archive(tar(member("inner.tar.gz", inner[:-40]), WHOLE))
    assert set(list_phases(bundle)) == {"job", "whole"}
    assert [path for path, _ in list_left_out(bundle)] == ["inner.tar.gz"]


@pytest.mark.parametrize(
    ("archive", "limit", "reason"),
    [
        (
            gzip.compress(tar(WHOLE, member("zeros", bytes(1 << 20)))),
            {"read_bytes": 1 << 18},
            "256 KiB to read",
        ),
        (
            gzip.compress(tar(WHOLE, member("zeros", bytes(1 << 20)))),
            {"free_bytes": 1 << 17, "growth": 20},
            "20 times its size to read, and 128 KiB",
        ),
        (tar(WHOLE, *[member("m")] * 20), {"members": 10}, "10 members"),
        (tar(WHOLE, *[member(f"l{n}", b"a", type=b"L") for n in range(20)]), {"members": 10}, "10 members"),
        (tar(WHOLE, *[record(f"r{n}") for n in range(20)]), {"records": 1}, "1 records"),
        (tar(WHOLE, record("job", *failed_run())), {"kept_bytes": 700}, "700 bytes of records"),
    ],
    ids=["bytes", "growth", "members", "headers", "records", "kept bytes"],
)
def test_reading_stops_at_each_limit(archive: bytes, limit: dict[str, int], reason: str) -> None:
    bundle = open_archive(archive, **limit)
    assert list_phases(bundle) == KEPT
    assert list_left_out(bundle)[-1] == ("", f"more than {reason}; the rest was not read")


def test_beginning_of_a_too_long_record_is_read() -> None:
    bundle = open_archive(tar(record("job", *failed_run()), WHOLE), record_bytes=300)
    assert list_phases(bundle)["whole"] == ["service start"]
    assert list_phases(bundle)["job"] == [
        *["service start", "a damaged entry"],
        "only the first 300 bytes of a record are read",
    ]


def test_limits_apply_to_damaged_copies() -> None:
    path = f"{JOB}.damaged"
    link = header(path, type=tarfile.SYMTYPE, linkname="/etc/shadow")
    assert list_left_out(open_archive(tar(link, WHOLE))) == [
        (path, "refused: a symbolic link, not a plain file")
    ]
    bundle = open_archive(tar(member(path, b"x" * 900), WHOLE), record_bytes=300)
    assert (bundle.damaged["job"].data, list_phases(bundle)) == (b"x" * 300, KEPT)
    assert list_left_out(bundle) == [(path, "only the first 300 bytes of a record are read")]
    cut = open_archive(tar(WHOLE, member(path, b"x" * 900))[: len(WHOLE) + 512 + 100])
    assert (cut.damaged["job"].data, list_phases(cut)) == (b"x" * 100, KEPT)
    assert {reason for _, reason in list_left_out(cut)} == {"the archive has no end: the rest is missing"}


def test_nested_archives_are_limited() -> None:
    archive = tar(record("deep", entry()))
    for _ in range(Limits().layers):
        archive = tar(member("inner", archive))
    bundle = open_archive(tar(member("outer", archive), WHOLE))
    assert list_phases(bundle) == KEPT
    assert "more than 8 archives and compressions in one another" in bundle.left_out[0].reason


def test_repeated_compression_is_limited() -> None:
    archive = tar(WHOLE)
    for _ in range(20):
        archive = gzip.compress(archive)
    assert list_left_out(open_archive(archive)) == [
        ("", "not read: more than 8 archives and compressions in one another")
    ]


def test_xz_archive_that_needs_too_much_memory_is_refused() -> None:
    filters = [{"id": lzma.FILTER_LZMA2, "dict_size": 16 << 20}]
    bundle = open_archive(lzma.compress(tar(WHOLE), filters=filters), decoder_bytes=1 << 20)
    assert list_left_out(bundle) == [("", "Memory usage limit exceeded")]


@pytest.mark.parametrize("size", [65537, 2**40])
def test_huge_extended_header_is_not_read(size: int) -> None:
    bundle = open_archive(tar(WHOLE, header("x", size, type=tarfile.XHDTYPE), member(JOB)))
    assert list_phases(bundle) == KEPT
    assert f"an extended header of {size} bytes" in bundle.left_out[0].reason


def test_negative_size_is_a_damaged_header() -> None:
    bundle = open_archive(tar(WHOLE, header(JOB, -512)))
    assert list_left_out(bundle) == [("", "a damaged header: negative size")]


def test_first_refusals_are_reported_and_others_counted() -> None:
    links = [header(f"{SERVICES}/{n}.json", type=tarfile.SYMTYPE) for n in range(50)]
    lines = list_left_out(open_archive(tar(*links)))
    assert (len(lines), lines[-1]) == (21, ("", "and 30 more"))


def test_damage_is_reported_after_many_refusals() -> None:
    links = [header(f"{SERVICES}/{n}.json", type=tarfile.SYMTYPE) for n in range(50)]
    *_, ended, rest = list_left_out(open_archive(b"".join(links)))
    assert (ended, rest) == (("", "the archive has no end: the rest is missing"), ("", "and 30 more"))


def test_million_members_are_read_up_to_the_limit() -> None:
    some = header("f") * 1000
    archive = gzip.compress(some * 1000, compresslevel=1)
    before = time.monotonic()
    bundle = open_archive(archive)
    assert time.monotonic() - before < 200
    assert list_left_out(bundle) == [("", "more than 200000 members; the rest was not read")]
