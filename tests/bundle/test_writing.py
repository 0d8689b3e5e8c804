"""Writing bundles: their contents, their limits, and full disks."""

import gzip
import itertools
import json
import os
import random
import shutil
import stat
import subprocess
import sys
import tarfile
import textwrap
import zlib
from collections import Counter
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service_record.bundle import open_bundle
from service_record.bundle.archive import Cut
from service_record.bundle.writing import SERVER_BYTES, BundleWriter
from service_record.export import FORMS
from tests.builders import failed_run
from tests.programs import REPOSITORY
from tests.upstream_reader import UpstreamReader

TOP = "log-bundle-20261121020000"
MTIME = 1795226400
HERE = os.environ | {"PYTHONPATH": f"{REPOSITORY}:{os.environ.get('PYTHONPATH', '')}"}
"""The environment of programs that import these tests."""
KIB = 1 << 10
MIB = 1 << 20


def writer(path: Path, **options: object) -> BundleWriter:
    return BundleWriter(path, **({"top": TOP, "mtime": MTIME} | options))  # type: ignore[arg-type]


def content(path: Path) -> dict[str, bytes]:
    """Return the members as Python reads them, by their paths below the top directory."""
    with tarfile.open(path, "r:gz") as archive:
        files = {info.name.removeprefix(f"{TOP}/"): archive.extractfile(info) for info in archive}
        return {name: file.read() for name, file in files.items() if file is not None}


@cache
def noise(size: int, seed: int = 1) -> bytes:
    """Return lines that compress badly."""
    chance = random.Random(seed)
    return b"\n".join(chance.randbytes(40).hex().encode() for _ in range(size // 81 + 1))[:size]


def lines(count: int) -> bytes:
    return b"".join(b"this is line %d\n" % number for number in range(count))


def names_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


class Masking:
    """Masks `secret`. Like a real redactor, it holds back bytes that might begin a secret."""

    leak = None

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        whole, line, self._held = (self._held + data).rpartition(b"\n")
        return self._masked(whole + line)

    def finish(self) -> bytes:
        return self._masked(self._held)

    def _masked(self, data: bytes) -> bytes:
        self.counts["word"] += data.count(b"secret")
        return data.replace(b"secret", b"<redacted:word>")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "bundle.tar.gz"


def test_bundle_is_read_by_other_tar_readers(path: Path) -> None:
    members = {
        "verdict.txt": b"failed\n",
        "bootstrap/journals/bootkube.log": noise(3 * MIB),
        "empty": b"",
        "a/path/" + "of more than a hundred characters/" * 9 + "ü": lines(1000),
    }
    with writer(path) as bundle:
        for name, data in members.items():
            with bundle.member(name, keep_empty=True) as member:
                member.write(data)
    assert content(path) == members
    listed = subprocess.run(["tar", "-tzf", path], capture_output=True, check=True, env={"LC_ALL": "C.UTF-8"})
    assert listed.stderr == b""
    assert len(listed.stdout.splitlines()) == len(members)
    log = f"{TOP}/bootstrap/journals/bootkube.log"
    extracted = subprocess.run(["tar", "-xzOf", path, log], capture_output=True, check=True)
    assert extracted.stdout == members["bootstrap/journals/bootkube.log"]


def test_gzip_members_are_read_separately(path: Path) -> None:
    """Go's gzip.Reader reads a header, a stream and its checksum, and then the next header."""
    with writer(path) as bundle, bundle.member("log") as member:
        member.write(noise(4 * MIB))
    data, parts = path.read_bytes(), []
    while data:
        assert data[:4] == b"\x1f\x8b\x08\0"  # no name, no comment, no extra field
        assert data[4:8] == bytes(4)  # no time
        reader = zlib.decompressobj(wbits=31)
        parts.append(reader.decompress(data))
        assert reader.eof
        data = reader.unused_data
    assert len(parts) > 4
    assert b"".join(parts) == gzip.decompress(path.read_bytes())


def test_records_are_found_by_our_reader_and_upstreams(path: Path) -> None:
    with writer(path) as bundle:
        bundle.add("verdict.txt", b"bootkube failed\n")
        with bundle.member("bootstrap/services/bootkube.json", essential=True) as member:
            for chunk in FORMS["array"](failed_run()):
                member.write(chunk)
        bundle.add("manifest.json", b"{}")
    assert UpstreamReader.from_bundle(path.read_bytes()).judge("bootkube").failing_stage == "second"
    with path.open("rb") as stream:
        read = open_bundle(stream)
    assert list(read.records) == ["bootkube"]
    assert read.left_out == ()


def test_members_keep_their_order(path: Path) -> None:
    with writer(path) as bundle:
        bundle.add("verdict.txt", b"failed\n")
        bundle.add("manifest.json", b"{}")
    with tarfile.open(path) as archive:
        assert archive.getnames() == [f"{TOP}/verdict.txt", f"{TOP}/manifest.json"]
        first = archive.getmembers()[0]
        assert (first.mtime, first.mode, first.uid, first.uname) == (MTIME, 0o640, 0, "")


@settings(deadline=None)
@given(
    lengths=st.lists(st.integers(0, 3000), max_size=30),
    steps=st.lists(st.integers(1, 9000), min_size=1, max_size=9),
    limit=st.integers(1, 9000),
)
def test_cut_does_not_depend_on_the_size_of_writes(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[int], steps: list[int], limit: int
) -> None:
    data = b"\n".join(b"%d" % number * length for number, length in enumerate(lengths))
    directory = tmp_path_factory.mktemp("bundles")
    with writer(directory / "whole") as bundle, bundle.member("log", limit=limit) as member:
        member.write(data)
    with writer(directory / "parts") as bundle, bundle.member("log", limit=limit) as member:
        start = 0
        for step in itertools.cycle(steps):
            if start >= len(data):
                break
            member.write(data[start : start + step])
            start += step
    assert (directory / "whole").read_bytes() == (directory / "parts").read_bytes()
    shutil.rmtree(directory)


@pytest.mark.parametrize("limit", [None, 2 * MIB, 300_000, 5000])
def test_bytes_do_not_depend_on_the_size_of_writes(tmp_path: Path, limit: int | None) -> None:
    data, made = noise(3 * MIB), []
    for number, step in enumerate((3 * MIB, 100_000, 4097)):
        path = tmp_path / f"{number}"
        with writer(path) as bundle, bundle.member("log", limit=limit) as member:
            for start in range(0, len(data), step):
                member.write(data[start : start + step])
        made.append(path.read_bytes())
    assert made[0] == made[1] == made[2]


def test_bundle_has_mode_0600_and_overwrites_nothing(path: Path) -> None:
    with writer(path) as bundle:
        bundle.add("a", b"")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(FileExistsError):
        writer(path)
    (path.parent / "link").symlink_to(path.parent / "elsewhere")
    with pytest.raises(FileExistsError):
        writer(path.parent / "link")
    assert names_in(path.parent) == ["bundle.tar.gz", "link"]


def test_unfinished_bundle_is_removed(path: Path) -> None:
    def interrupted() -> None:
        with writer(path) as bundle, bundle.member("log") as member:
            member.write(noise(MIB))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert names_in(path.parent) == []


def test_content_before_an_exception_is_kept(path: Path) -> None:
    def failing(bundle: BundleWriter) -> None:
        with bundle.member("log") as member:
            member.write(b"before")
            raise ZeroDivisionError

    with writer(path) as bundle:
        with pytest.raises(ZeroDivisionError):
            failing(bundle)
        bundle.add("manifest.json", b"{}")
    assert content(path) == {"log": b"before", "manifest.json": b"{}"}


def test_empty_member_is_left_out_unless_keep_empty(path: Path) -> None:
    with writer(path) as bundle:
        with bundle.member("unasked"):
            pass
        with bundle.member("wanted", keep_empty=True):
            pass
    assert content(path) == {"wanted": b""}
    assert [member.path for member in bundle.members] == ["wanted"]


@pytest.mark.parametrize("name", ["", "/etc/passwd", "../x", "a/../../x", "a//b", ".", "a/.", "a\0b"])
def test_member_path_outside_the_bundle_is_refused(path: Path, name: str) -> None:
    with writer(path) as bundle, pytest.raises(ValueError, match="below the top"), bundle.member(name):
        pass
    assert content(path) == {}


def test_second_member_of_a_name_is_renamed(path: Path) -> None:
    with writer(path) as bundle:
        for data in (b"1", b"2", b"3"):
            bundle.add("bootstrap/services/job.json", data)
    assert content(path) == {
        "bootstrap/services/job.json": b"1",
        "bootstrap/services/job_.json": b"2",
        "bootstrap/services/job_2.json": b"3",
    }


def test_second_open_member_is_refused(path: Path) -> None:
    with writer(path) as bundle, bundle.member("a") as member:
        with pytest.raises(RuntimeError, match="another"), bundle.member("b"):
            pass
        member.write(b"still here")
    assert content(path) == {"a": b"still here"}


def test_contents_and_names_are_redacted(path: Path) -> None:
    with writer(path, redact=Masking) as bundle:
        with bundle.member("pods/secret.log") as member:
            for part in (b"a sec", b"ret word\nand a sec", b"ret"):
                member.write(part)
        bundle.add("facts", b"secret")
    assert content(path) == {
        "pods/<redacted:word>.log": b"a <redacted:word> word\nand a <redacted:word>",
        "facts": b"<redacted:word>",
    }
    assert bundle.masked == {"word": 4}
    assert b"secret" not in gzip.decompress(path.read_bytes())


# Limits.


def cut_content(data: bytes) -> tuple[int, bytes]:
    """Return the number of missing bytes in the first line, and the content after that line."""
    first, _, rest = data.partition(b"\n")
    assert first.startswith(b"[service-record: ")
    assert first.endswith(b" bytes before this line were cut; the manifest says why]")
    return int(first.split()[1]), rest


def test_member_beyond_its_limit_keeps_its_end(path: Path) -> None:
    data = lines(200_000)
    with writer(path) as bundle, bundle.member("log", limit=MIB) as member:
        member.write(data)
    dropped, rest = cut_content(content(path)["log"])
    assert data.endswith(rest)
    assert rest.startswith(b"this is line ")
    assert MIB * 15 // 16 <= len(rest) <= MIB
    assert dropped == member.cut == len(data) - len(rest)
    assert member.written_bytes == len(data)
    (packed,) = bundle.members
    assert (packed.cut, packed.dropped_bytes) == (Cut.LIMIT, dropped)


@pytest.mark.slow
@settings(deadline=None, max_examples=150)
@given(
    chunks=st.lists(
        st.one_of(
            st.binary(max_size=300),
            st.integers(0, 60_000).map(lines),
            st.tuples(st.integers(0, 100_000), st.integers(0, 9)).map(lambda what: noise(*what)),
        ),
        max_size=6,
    ),
    limit=st.one_of(st.none(), st.integers(1, 300_000)),
    disk_bytes=st.one_of(st.just(64 * MIB), st.integers(64 * KIB, MIB)),
)
def test_kept_content_is_the_end_of_the_written(
    tmp_path_factory: pytest.TempPathFactory, chunks: list[bytes], limit: int | None, disk_bytes: int
) -> None:
    path = tmp_path_factory.mktemp("bundle") / "b"
    written = b"".join(chunks)
    with writer(path, disk_bytes=disk_bytes) as bundle:
        with bundle.member("log", limit=limit, keep_empty=True) as member:
            for chunk in chunks:
                member.write(chunk)
        bundle.add("manifest.json", b"{}")
    assert path.stat().st_size <= disk_bytes
    found = content(path)
    assert found["manifest.json"] == b"{}"
    log = found["log"]
    if not member.cut:
        assert log == written
        return
    dropped, rest = cut_content(log)
    assert dropped + len(rest) == len(written)
    assert written.endswith(rest)
    assert rest
    assert limit is None or len(rest) <= limit
    assert bundle.members[0].bytes == len(log)
    shutil.rmtree(path.parent)


def test_cut_record_is_a_valid_array(path: Path) -> None:
    run = failed_run(error_message="x" * 500) * 500
    name = "bootstrap/services/bootkube.json"
    with (
        writer(path, disk_bytes=64 * KIB) as bundle,
        bundle.member(name, limit=50 * KIB, opening=lambda _dropped: b"[\n") as member,
    ):
        for chunk in FORMS["array"](run):
            member.write(chunk)
    kept = json.loads(content(path)["bootstrap/services/bootkube.json"])
    assert 0 < len(kept) < len(run)
    assert kept[-1] == run[-1].to_json()
    assert UpstreamReader.from_bundle(path.read_bytes()).judge("bootkube").failing_stage == "second"


def test_other_json_is_complete_or_left_out(path: Path) -> None:
    with writer(path) as bundle:
        with bundle.member("network/addresses.json", limit=KIB) as member:
            member.write(json.dumps(list(range(5000))).encode())
        bundle.add("manifest.json", b"{}")
    assert content(path) == {"manifest.json": b"{}"}
    assert (bundle.members[0].bytes, bundle.members[0].cut) == (None, Cut.LIMIT)


# The disk.


def disk_use(directory: Path) -> int:
    """Return the used bytes of the file system, including unlinked files."""
    found: dict[int, int] = {}
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            if str(descriptor.readlink()).startswith(f"{directory}/"):
                status = descriptor.stat()
                found[status.st_ino] = max(status.st_size, status.st_blocks * 512)
        except OSError:
            continue
    return sum(found.values())


def test_writing_never_exceeds_the_disk_limit(path: Path) -> None:
    most, chunk = 0, noise(64 * KIB)
    with writer(path, disk_bytes=4 * MIB, redact=Masking) as bundle:
        bundle.add("facts", noise(300 * KIB))
        for number in range(6):
            with bundle.member(f"log-{number}") as member:
                for _ in range(64):
                    member.write(chunk)
                    most = max(most, disk_use(path.parent))
            most = max(most, disk_use(path.parent))
        with bundle.member("bootstrap/services/all.json", opening=lambda _dropped: b"[\n") as member:
            for _ in range(64):
                member.write(chunk)
                most = max(most, disk_use(path.parent))
        most = max(most, disk_use(path.parent))
        bundle.add("manifest.json", b"{}")
    assert 3 * MIB < most <= 4 * MIB
    _, *logs, record, _ = bundle.members
    kept = [log.bytes or 0 for log in logs]
    assert kept == sorted(kept, reverse=True)  # those behind leave more out, and all have something
    assert min(kept) > 0
    assert {log.cut for log in logs} == {Cut.ROOM} == {record.cut}
    assert (record.bytes or 0) > kept[-1]  # no share of it is for others
    assert content(path)["manifest.json"] == b"{}"


def test_last_member_may_use_all_of_the_room(path: Path) -> None:
    for shares, least in ((True, MIB // 2), (False, 2 * MIB)):
        with writer(path, disk_bytes=4 * MIB, shares=shares) as bundle, bundle.member("log") as member:
            member.write(noise(8 * MIB))
        assert path.stat().st_size > least
        path.unlink()


def test_bundle_is_limited_to_the_size_of_the_service(path: Path) -> None:
    with writer(path, disk_bytes=1 << 40) as bundle:
        assert bundle.disk_bytes == SERVER_BYTES


def test_essential_members_fit_after_greedy_ones(path: Path) -> None:
    with writer(path, disk_bytes=256 * KIB) as bundle:
        for number in range(40):
            with bundle.member(f"log-{number}") as member:
                member.write(noise(MIB))
        bundle.add("manifest.json", noise(20 * KIB))
        bundle.add("redaction.json", b"{}")
    found = content(path)
    assert len(found["manifest.json"]) == 20 * KIB
    assert found["redaction.json"] == b"{}"
    assert path.stat().st_size <= 256 * KIB


FILLING = """
import json, sys, tarfile
from pathlib import Path
from tests.bundle.test_writing import *

path = Path(sys.argv[1]) / "b"
with writer(path, shares=False) as bundle:
    bundle.add("verdict.txt", b"failed")
    with bundle.member("bootstrap/services/job.json", essential=True) as member:
        for chunk in FORMS["array"](failed_run()):
            member.write(chunk)
    for number in range(3):
        with bundle.member(f"log-{number}") as member:
            for step in range(40):
                member.write(noise(64 * KIB, step))
                if sys.argv[2:] and number == 1 and step == 20:
                    fill(Path(sys.argv[1]) / "another program", int(sys.argv[2]))
    bundle.add("manifest.json", b"{}")
found = content(path)
print(json.dumps([
    sorted(found),
    {member.path: member.cut for member in bundle.members if member.cut},
    path.stat().st_size,
    [found[name].endswith(noise(64 * KIB, 39)[-40:]) for name in found if name.startswith("log")],
]))
"""


def fill(path: Path, left: int) -> None:
    """Fill the disk except for that many bytes."""
    status = os.statvfs(path.parent)
    free = status.f_bavail * status.f_frsize - left
    with path.open("wb") as stream:
        for _ in range(max(free, 0) // 4096):
            stream.write(bytes(4096))


class Filled(NamedTuple):
    """The result of writing a bundle with too little disk."""

    names: list[str]
    cut: dict[str, str]
    size: int
    tails: list[bool]
    """Path of each log in the bundle, and whether its end is there."""


def filled(directory: Path, *arguments: object, before: str = "", program: str = FILLING) -> Filled:
    """Write a bundle in a directory, in a new mount namespace, after a shell command."""
    command = [sys.executable, "-c", program, directory, *arguments]
    if before:
        command = ["unshare", "-m", "sh", "-c", f'{before} && exec "$@"', "-", *command]
    done = subprocess.run(
        list(map(str, command)), cwd=REPOSITORY, capture_output=True, text=True, check=False, env=HERE
    )
    assert done.returncode == 0, done.stderr
    return Filled(*json.loads(done.stdout))


as_root = pytest.mark.skipif(os.geteuid() != 0, reason="a small disk of one's own takes root")


@pytest.mark.slow
@as_root
@pytest.mark.parametrize("left", [0, 4096, 40_000, 400_000])
def test_disk_filling_up_does_not_shrink_the_bundle(tmp_path: Path, left: int) -> None:
    """Another program takes the rest of the disk while the second log is written."""
    done = filled(tmp_path, left, before=f"mount -t tmpfs -o size=12m tmpfs {tmp_path}")
    alone = filled(tmp_path, before=f"mount -t tmpfs -o size=12m tmpfs {tmp_path}")
    assert done == alone
    assert all(done.tails)


@as_root
def test_bundle_takes_a_quarter_of_free_space(tmp_path: Path) -> None:
    done = filled(tmp_path, before=f"mount -t tmpfs -o size=8m tmpfs {tmp_path}")
    assert MIB < done.size <= 2 * MIB
    assert done.names == [
        "bootstrap/services/job.json",
        "log-0",
        "log-1",
        "log-2",
        "manifest.json",
        "verdict.txt",
    ]


def test_bundle_that_cannot_grow_is_complete(tmp_path: Path) -> None:
    """`ulimit -f` limits the size of files, like a full disk, and needs no root."""
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (716800, 716800))"
    done = filled(tmp_path, program=limit + FILLING)
    assert done.size <= 700 * KIB
    assert {"verdict.txt", "bootstrap/services/job.json", "log-0"} <= set(done.names)
    assert all(done.tails)


@pytest.mark.parametrize("compressor", ["isal", "zlib"])
def test_content_does_not_depend_on_the_compressor(path: Path, compressor: str) -> None:
    if compressor == "isal":
        pytest.importorskip("isal")
    program = f"""
    import sys
    {"import isal" if compressor == "isal" else "sys.modules['isal'] = None"}
    from tests.bundle.test_writing import *
    with writer(Path(sys.argv[1])) as bundle, bundle.member("log") as member:
        member.write(noise(3 * MIB) + lines(99_999))
    """
    subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), path], cwd=REPOSITORY, check=True, env=HERE
    )
    assert content(path) == {"log": noise(3 * MIB) + lines(99_999)}


@pytest.mark.slow
def test_memory_use_does_not_grow_with_the_content(tmp_path: Path) -> None:
    program = """
    import resource, sys
    from pathlib import Path
    from tests.bundle.test_writing import *
    chunk = noise(MIB)
    with writer(Path(sys.argv[1]), shares=False) as bundle, bundle.member("log", limit=80 * MIB) as member:
        for _ in range(int(sys.argv[2])):
            member.write(chunk)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    """
    peaks = [
        int(
            subprocess.run(
                [sys.executable, "-c", textwrap.dedent(program), tmp_path / mebibytes, mebibytes],
                cwd=REPOSITORY,
                stdout=subprocess.PIPE,
                check=True,
                env=HERE,
            ).stdout
        )
        for mebibytes in ("8", "80")
    ]
    assert peaks[1] - peaks[0] < 8 * KIB  # ru_maxrss is in KiB
