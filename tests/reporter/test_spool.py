"""The spool keeps the newest bundle that nobody took, whole, whatever becomes of disk and power."""

import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from service_record.record.atomic_write import place_by_moving, place_copy
from service_record.reporter.spool import Spool
from tests.builders import require
from tests.full_disk import limit_file_size

SHARED_MEMORY = Path("/dev/shm")
"""Another file system than that of tests' files, on most machines."""

needs_strace = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(tmp_path / "state" / "spool")


def bundle(tmp_path: Path, name: str = "log-bundle-1.tar.gz", content: bytes = b"bundle") -> Path:
    work = tmp_path / "work"
    work.mkdir(exist_ok=True)
    path = work / name
    path.write_bytes(content)
    return path


def held(spool: Spool) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in spool.directory.iterdir()}


def test_unused_spool_is_empty(spool: Spool) -> None:
    assert spool.newest() is None
    spool.drop()
    assert not spool.directory.exists()


def test_bundle_is_moved_into_the_spool(spool: Spool, tmp_path: Path) -> None:
    path = bundle(tmp_path)
    kept = spool.directory / path.name
    assert spool.keep(path) == kept
    assert spool.newest() == kept
    assert held(spool) == {path.name: b"bundle"}
    assert not path.exists()
    assert stat.S_IMODE(spool.directory.stat().st_mode) == 0o700


def test_newer_bundle_replaces_the_previous_one(spool: Spool, tmp_path: Path) -> None:
    spool.keep(bundle(tmp_path, "log-bundle-2.tar.gz", b"old"))
    newer = spool.keep(bundle(tmp_path, "log-bundle-1.tar.gz", b"new"))
    assert spool.newest() == newer
    assert held(spool) == {"log-bundle-1.tar.gz": b"new"}


def test_bundle_of_the_same_name_is_replaced(spool: Spool, tmp_path: Path) -> None:
    spool.keep(bundle(tmp_path, content=b"old"))
    spool.keep(bundle(tmp_path, content=b"new"))
    assert list(held(spool).values()) == [b"new"]


def test_missing_bundle_is_not_kept(spool: Spool, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        spool.keep(tmp_path / "gone.tar.gz")


def test_last_kept_bundle_is_newest_despite_clock_changes(spool: Spool, tmp_path: Path) -> None:
    spool.keep(bundle(tmp_path, "a.tar.gz", b"old"))
    os.utime(spool.directory / "a.tar.gz", (4e9, 4e9))
    newer = bundle(tmp_path, "b.tar.gz", b"new")
    os.utime(newer, (0, 0))
    older = bundle(tmp_path, "copy of a.tar.gz", b"old")
    os.utime(older, (4e9, 4e9))
    spool.keep(newer)
    shutil.move(older, spool.directory)  # as if the power went before the older one was removed
    assert require(spool.newest()).name == "b.tar.gz"
    assert list(held(spool)) == ["b.tar.gz"]


def test_torn_files_of_a_power_loss_are_removed(spool: Spool, tmp_path: Path) -> None:
    kept = spool.keep(bundle(tmp_path))
    torn = spool.directory / ".log-bundle-2.tar.gz.part"
    torn.write_bytes(b"to")
    assert spool.newest() == kept
    assert not torn.exists()
    torn.write_bytes(b"to")
    spool.keep(bundle(tmp_path, "log-bundle-3.tar.gz"))
    assert list(held(spool)) == ["log-bundle-3.tar.gz"]


def test_dropped_spool_is_empty(spool: Spool, tmp_path: Path) -> None:
    spool.keep(bundle(tmp_path))
    (spool.directory / ".torn.part").write_bytes(b"to")
    spool.drop()
    assert held(spool) == {}


def test_impossible_spool_directory_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    spool = Spool(tmp_path / "file" / "spool")
    with pytest.raises(NotADirectoryError):
        spool.keep(bundle(tmp_path))
    assert spool.newest() is None


def test_bundle_from_another_file_system_survives_a_full_disk(
    tmp_path: Path,
) -> None:
    if not SHARED_MEMORY.is_dir() or SHARED_MEMORY.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("a second file system that everybody may write to cannot be had here")
    elsewhere = SHARED_MEMORY / f"service-record-{os.getpid()}.tar.gz"
    elsewhere.write_bytes(b"x" * 100_000)
    try:
        spool = Spool(tmp_path / "spool")
        before = spool.keep(bundle(tmp_path))
        with limit_file_size(50_000), pytest.raises(OSError, match="File too large"):
            spool.keep(elsewhere)
        assert spool.newest() == before
        assert list(held(spool).values()) == [b"bundle"]
        assert spool.keep(elsewhere) == spool.directory / elsewhere.name
        assert not elsewhere.exists()
    finally:
        elsewhere.unlink(missing_ok=True)


def test_copy_to_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    source, target = bundle(tmp_path, content=b"x" * 100_000), tmp_path / "target.tar.gz"
    with limit_file_size(50_000), pytest.raises(OSError, match="File too large"):
        place_copy(source, target)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["work"]


def test_copy_follows_no_link(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    (tmp_path / ".target.part").symlink_to(victim)
    with pytest.raises(OSError, match="symbolic links"):
        place_copy(bundle(tmp_path), tmp_path / "target")
    assert victim.read_bytes() == b"precious"


@needs_strace
@pytest.mark.parametrize("function", [place_copy, place_by_moving], ids=["copied", "moved"])
def test_content_is_synced_before_the_file_is_named(tmp_path: Path, function: object) -> None:
    source, log = bundle(tmp_path), tmp_path / "calls"
    name = getattr(function, "__name__", "")
    program = f"""
from pathlib import Path
from service_record.record.atomic_write import {name}
{name}(Path({str(source)!r}), Path({str(tmp_path / "target")!r}))
"""
    traced = ["strace", "-f", "-y", "-o", str(log), "-e", "trace=fsync,rename,renameat,renameat2"]
    subprocess.run([*traced, sys.executable, "-c", program], check=True)
    calls = re.findall(r"\b(fsync|rename)\w*\((.*)\) = 0", log.read_text())
    assert [call for call, _ in calls] == ["fsync", "rename", "fsync"]
    assert "target" in calls[1][1]
    assert calls[2][1].endswith(f"<{tmp_path}>")


@needs_strace
@pytest.mark.parametrize(
    "step", ["fsync:when=1", "rename:when=1", "fsync:when=2", "unlink:when=1", "fsync:when=3"]
)
def test_bundle_survives_a_kill_at_any_step(spool: Spool, tmp_path: Path, step: str) -> None:
    spool.keep(bundle(tmp_path, "log-bundle-1.tar.gz", b"old"))
    newer = bundle(tmp_path, "log-bundle-2.tar.gz", b"new")
    program = f"""
from pathlib import Path
from service_record.reporter.spool import Spool
Spool(Path({str(spool.directory)!r})).keep(Path({str(newer)!r}))
"""
    call, when = step.split(":")
    deadly = f"inject={call}:signal=KILL:{when}"
    traced = ["strace", "-f", "-o", str(tmp_path / "calls"), "-e", f"trace={call}", "-e", deadly]
    done = subprocess.run([*traced, sys.executable, "-c", program], check=False)
    assert done.returncode != 0
    found = require(spool.newest()).read_bytes()
    assert found == (b"old" if newer.exists() else b"new")
    assert list(held(spool).values()) == [found]
