"""Files that are put in their place whole, and what stands in their way."""

import os
import stat
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from service_record.record.atomic_write import (
    clear_the_way,
    clear_the_way_of_all,
    place_by_moving,
    place_copy,
    put_in_place,
    remove_torn,
    set_aside,
    sync_directory,
    sync_names,
    write_whole,
)

SHARED_MEMORY = Path("/dev/shm")


def put_file(path: Path) -> None:
    path.write_bytes(b"found")


def put_link_to_directory(path: Path) -> None:
    path.symlink_to(path.parent)


def put_dangling_link(path: Path) -> None:
    path.symlink_to(path.with_name("nowhere"))


def put_circle(path: Path) -> None:
    path.symlink_to(path)


PUT = (put_file, Path.mkdir, put_link_to_directory, put_dangling_link, put_circle, os.mkfifo)
CLEARING: list[tuple[Callable[[Path], Path | None], list[Callable[[Path], None]]]] = [
    (clear_the_way, [put_file]),
    (lambda path: clear_the_way(path, is_directory=True), [Path.mkdir]),
    (clear_the_way_of_all, [Path.mkdir, put_link_to_directory]),
]
"""Each function that clears the way, with all that it leaves there."""


@pytest.mark.parametrize("put", PUT)
def test_obstacle_is_moved_aside(tmp_path: Path, put: Callable[[Path], None]) -> None:
    for kind, (clear, stays) in enumerate(CLEARING):
        path = tmp_path / str(kind) / "place"
        path.parent.mkdir()
        assert clear(path) is None
        put(path)
        before = path.lstat().st_ino
        moved = clear(path)
        assert moved == (None if put in stays else path.with_name("place.damaged"))
        assert (moved or path).lstat().st_ino == before
        assert os.path.lexists(path) is (moved is None)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file away")
def test_file_of_another_user_is_an_obstacle(tmp_path: Path) -> None:
    path = tmp_path / "place"
    put_file(path)
    os.chown(path, 1234, 1234)
    assert clear_the_way(path) == tmp_path / "place.damaged"


def test_unreadable_directory_is_an_error(tmp_path: Path) -> None:
    put_file(tmp_path / "file")
    with pytest.raises(NotADirectoryError):
        clear_the_way_of_all(tmp_path / "file" / "place")


def test_of_what_is_set_aside_sixteen_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "place"
    names = []
    for number in range(18):
        path.write_text(str(number))
        names.append(set_aside(path).name)
    numbered = [f"place.damaged-{number}" for number in range(1, 16)]
    assert names == ["place.damaged", *numbered, "place.damaged", "place.damaged"]
    assert (tmp_path / "place.damaged").read_text() == "17"
    for put in (put_file, Path.mkdir):
        (tmp_path / "place.damaged").unlink()
        (tmp_path / "place.damaged").symlink_to(tmp_path)
        put(path)
        assert not set_aside(path).is_symlink()
    (tmp_path / "place.damaged").rmdir()
    (tmp_path / "place.damaged").mkdir()
    path.mkdir()
    assert set_aside(path) == tmp_path / "place.damaged"


def test_file_is_written_whole_with_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "place"
    (tmp_path / "victim").write_text("precious")
    before = os.umask(0)
    write_whole(path, b"none")
    os.umask(before)
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o755
    for data, mode in ((b"one", 0o600), (b"two", 0o644)):
        write_whole(path, data, mode)
        assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (data, mode)
        path.with_name(".place.new").symlink_to(tmp_path / "victim")
    write_whole(path, b"three")
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"three", 0o600)
    assert (tmp_path / "victim").read_text() == "precious"
    assert {file.name for file in path.parent.iterdir()} == {
        "place",
        ".place.new.damaged",
        ".place.new.damaged-1",
    }
    path.with_name(".place.new").write_bytes(b"of one that was killed, and longer")
    write_whole(path, b"four")
    assert path.read_bytes() == b"four"


def test_a_file_that_is_not_whole_is_nowhere(tmp_path: Path) -> None:
    new, path = tmp_path / "new", tmp_path / "place"
    put_file(path)

    def fail() -> None:
        new.write_bytes(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), put_in_place(new, path):
        fail()
    assert (path.read_bytes(), new.exists()) == (b"found", False)


def test_copy_is_whole_and_private(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(b"x" * 3_000_000)
    source.chmod(0o644)
    place_copy(source, target)
    assert target.read_bytes() == source.read_bytes()
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    place_by_moving(source, target)
    assert not source.exists()
    with pytest.raises(FileNotFoundError):
        place_by_moving(source, target)
    put_file(source)
    with pytest.raises(NotADirectoryError):
        place_by_moving(source, target / "below")
    assert source.read_bytes() == b"found"


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Keep the names of the files that are synced, and those of the files that others replace, in order."""
    made: list[str] = []
    fsync, replace = os.fsync, os.replace

    def noted_fsync(descriptor: int) -> None:
        made.append(f"sync {Path(f'/proc/self/fd/{descriptor}').readlink().name}")
        fsync(descriptor)

    def noted_replace(source: Path, target: Path) -> None:
        made.append(f"move {source.name} to {target.name}")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "replace", noted_replace)
    return made


def test_file_is_synced_before_and_after_rename(tmp_path: Path, calls: list[str]) -> None:
    source, target = tmp_path / "source", tmp_path / "place" / "target"
    write_whole(target, b"x")
    assert calls == ["sync .target.new", "move .target.new to target", "sync place"]
    put_file(source)
    calls.clear()
    place_copy(source, target)
    copied = ["sync .target.part", "move .target.part to target", "sync place"]
    assert calls == copied
    calls.clear()
    place_by_moving(source, target)
    assert calls == ["sync source", "move source to target", "sync place"]


def test_move_to_another_file_system_copies(tmp_path: Path, calls: list[str]) -> None:
    if SHARED_MEMORY.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no other file system")
    with TemporaryDirectory(dir=SHARED_MEMORY) as directory:
        source, target = Path(directory) / "source", tmp_path / "target"
        put_file(source)
        place_by_moving(source, target)
        assert (target.read_bytes(), source.exists()) == (b"found", False)
    place = f"sync {tmp_path.name}"
    moved = ["sync .target.part", "move .target.part to target", place]
    assert calls == ["sync source", "move source to target", *moved, place]


def test_sync_accepts_directories_without_support(tmp_path: Path) -> None:
    put_file(tmp_path / "file")
    with pytest.raises(NotADirectoryError):
        sync_directory(tmp_path / "file")
    with pytest.raises(OSError, match="Invalid argument"):
        sync_directory(Path("/proc"))
    sync_names(Path("/proc"))


def test_unfinished_copy_is_removed_by_name(tmp_path: Path) -> None:
    for name in (".a1.part", ".b1.part", ".a2", "a3.part"):
        put_file(tmp_path / name)
    (tmp_path / ".a4.part").mkdir()
    (tmp_path / ".a5.part").symlink_to(tmp_path)
    remove_torn(tmp_path, "a")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".a2", ".a4.part", ".b1.part", "a3.part"]
    remove_torn(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".a2", ".a4.part", "a3.part"]
