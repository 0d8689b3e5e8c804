"""The live directory: what is appended is there, whole, whoever else writes and whatever goes wrong."""

import fcntl
import os
import resource
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from service_record.read.source import open_source
from service_record.record import appending, array_file, inbox
from service_record.record.appending import Writer, record_name, writing_path
from service_record.record.directory import Records
from service_record.record.entry import Entry, Malformed
from service_record.record.inbox import Inbox
from service_record.record.line import MAX_LINE_BYTES
from tests.builders import entry, write_lines
from tests.waiting import run_in_threads

TORN = b'{"timestamp":"2026-11-21T01:05:10.000Z","stage":"fir'

WRITE_FOR_EVER = """
import itertools, sys
from service_record.record.directory import Records
from tests.builders import entry
writer = Records().writer("job")
for number in itertools.count():
    message = "x" * (number % 3000)
    assert writer.append(entry("stage start", stage=sys.argv[1], exit_code=number, error_message=message))
    if str(number) == sys.argv[2]:
        break
"""


@pytest.fixture
def records(tmp_path: Path) -> Records:
    return Records(tmp_path / "records")


def started_writer(records: Records, stage: str, last: str) -> subprocess.Popen[bytes]:
    environment = os.environ | {"SERVICE_RECORDS_DIR": str(records.directory)}
    command = [sys.executable, "-c", WRITE_FOR_EVER, stage, last]
    return subprocess.Popen(command, env=environment, cwd=Path(__file__).parents[2])


def whole(records: Records, service: str = "job") -> list[Entry]:
    pieces = list(records.read(service))
    assert [piece for piece in pieces if isinstance(piece, Malformed)] == []
    return [piece for piece in pieces if isinstance(piece, Entry)]


@pytest.mark.parametrize("umask", [0, 0o022, 0o077], ids=oct)
def test_first_entry_makes_directory_and_file(tmp_path: Path, umask: int) -> None:
    records = Records(tmp_path / "new" / "records")
    before = os.umask(umask)
    try:
        assert records.writer("job").append(entry())
    finally:
        os.umask(before)
    assert stat.S_IMODE(records.directory.stat().st_mode) == 0o750
    assert stat.S_IMODE(records.path("job").stat().st_mode) == 0o640


def test_array_is_readable_for_everybody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVICE_RECORDS_LAYOUT", "array")
    records = Records(tmp_path / "new")

    assert records.writer("job").append(entry())

    assert stat.S_IMODE(records.directory.stat().st_mode) == 0o755
    assert stat.S_IMODE(records.path("job").stat().st_mode) == 0o644


def test_entries_are_read_in_appended_order(records: Records) -> None:
    written = [entry("stage start", at, stage=f"stage {at}") for at in range(5)]
    writer = records.writer("job")
    assert all(writer.append(each) for each in written)
    assert whole(records) == written
    assert records.path("job").read_bytes().count(b"\n") == 5


def test_second_writer_does_not_join_torn_tail(records: Records) -> None:
    records.directory.mkdir()
    write_lines(records.path("job"), entry(), TORN)
    records.writer("job").append(entry(at=1))
    assert list(records.read("job")) == [entry(), Malformed(2, TORN.decode(), "a damaged entry"), entry(at=1)]


@pytest.mark.parametrize("before", [b"", b"\n"], ids=["empty-file", "file-with-something"])
def test_no_write_exceeds_the_atomic_size(records: Records, before: bytes) -> None:
    records.directory.mkdir()
    write_lines(records.path("job"), before)
    records.writer("job").append(entry("stage end", error_message="x" * 9000))
    assert records.path("job").stat().st_size - len(before) == MAX_LINE_BYTES


def put_directory(path: Path) -> None:
    path.mkdir()


def put_link(path: Path) -> None:
    path.symlink_to(path.parent.parent / "elsewhere")


def put_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


def put_read_fifo(path: Path) -> None:
    os.mkfifo(path)
    os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a reader that stays: only then can a writer open it


@pytest.mark.parametrize("put", [put_directory, put_link, os.mkfifo, put_read_fifo, put_socket])
def test_irregular_file_is_neither_written_nor_blocks(records: Records, put: Callable[[Path], None]) -> None:
    records.directory.mkdir()
    put(records.path("job"))
    assert not records.writer("job").append(entry())
    assert not (records.directory.parent / "elsewhere").exists()


def test_next_entry_counts_lost_entries(records: Records) -> None:
    writer = records.writer("job")
    writer.append(entry())
    records.path("job").rename(records.directory / "kept")
    records.path("job").mkdir()
    assert [writer.append(entry(at=at)) for at in (1, 2)] == [False, False]
    records.path("job").rmdir()
    (records.directory / "kept").rename(records.path("job"))
    assert [writer.append(entry(at=at)) for at in (3, 4)] == [True, True]
    assert whole(records) == [entry(), entry(at=3, dropped=2), entry(at=4)]


def test_full_disk_spoils_only_one_entry(records: Records) -> None:
    """RLIMIT_FSIZE stands in for the disk: the kernel writes what fits, then nothing."""
    writer = records.writer("job")
    writer.append(entry())
    size = records.path("job").stat().st_size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20, hard))
    try:
        assert [writer.append(entry(at=at)) for at in (1, 2)] == [False, False]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert writer.append(entry(at=3))
    first, damage, last = records.read("job")
    assert (first, last) == (entry(), entry(at=3, dropped=2))
    assert isinstance(damage, Malformed)


def test_unencodable_entry_is_lost_without_error(records: Records) -> None:
    writer = records.writer("job")
    assert not writer.append(entry("stage start", stage=object()))
    assert writer.append(entry())
    assert whole(records) == [entry(dropped=1)]


def test_moved_file_is_created_again(records: Records) -> None:
    writer = records.writer("job")
    writer.append(entry())
    records.path("job").unlink()
    records.directory.rmdir()
    assert writer.append(entry(at=1))
    assert records.path("job").read_bytes() == entry(at=1).to_line()


def test_processes_writing_at_once_lose_nothing(records: Records) -> None:
    writers = [started_writer(records, f"writer {number}", "199") for number in range(8)]
    assert [writer.wait(60) for writer in writers] == [0] * 8
    written = sorted((found.stage, found.exit_code) for found in whole(records))
    assert written == [(f"writer {number}", count) for number in range(8) for count in range(200)]


def test_lock_of_a_writer_is_that_of_threading() -> None:
    assert vars(appending)["RLock"] is type(threading.RLock())


def test_threads_sharing_a_writer_lose_nothing(records: Records) -> None:
    writer = records.writer("job")

    def write(stage: str) -> None:
        for count in range(100):
            writer.append(entry("stage start", stage=stage, exit_code=count))

    run_in_threads(*(partial(write, f"thread {number}") for number in range(4)))
    assert len({(found.stage, found.exit_code) for found in whole(records)}) == 400


@contextmanager
def written_to_by_a_thread(writer: Writer) -> Iterator[None]:
    """Have another thread take the writer's lock again and again."""
    done = threading.Event()

    def write() -> None:
        while not done.is_set():
            writer.append(entry("stage start", stage="busy"))

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


@pytest.mark.slow
def test_forked_child_writes_despite_parent_threads(records: Records) -> None:
    writer = records.writer("job")
    with written_to_by_a_thread(writer):
        for number in range(50):
            child = os.fork()
            if child == 0:
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
                signal.alarm(60)  # a child that waits for ever must not outlive its test
                os._exit(0 if writer.append(entry("stage start", stage="child", exit_code=number)) else 1)
            assert os.waitpid(child, 0)[1] == 0
    assert [found.exit_code for found in whole(records) if found.stage == "child"] == list(range(50))


def test_forked_child_does_not_count_parent_losses(records: Records) -> None:
    writer = records.writer("job")
    assert not writer.append(entry("stage start", stage=object()))
    child = os.fork()
    if child == 0:
        writer.append(entry())
        os._exit(0)
    os.waitpid(child, 0)
    assert whole(records) == [entry()]


def test_signal_handler_may_append_during_append(records: Records) -> None:
    writer = records.writer("job")
    handled = list[bool]()  # a sum would lose what a handler adds within another

    def append_too(_number: int, _frame: object) -> None:
        handled.append(writer.append(entry("stage start", stage="handler")))

    before = signal.signal(signal.SIGVTALRM, append_too)
    signal.setitimer(signal.ITIMER_VIRTUAL, 0.001, 0.001)
    try:
        count = 0
        while len(handled) < 20:
            count += writer.append(entry("stage start", stage="main"))
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
    assert len(whole(records)) == sum(handled) + count


@pytest.mark.slow
def test_killed_writer_leaves_at_most_one_torn_line(
    records: Records,
) -> None:
    for kill in range(10):
        writer = started_writer(records, f"writer {kill}", "never")
        while not any(found.stage == f"writer {kill}" for found in read_so_far(records)):
            pass
        writer.kill()
        writer.wait()
    pieces = list(records.read("job"))
    for kill in range(10):
        counts = [
            found.exit_code
            for found in pieces
            if isinstance(found, Entry) and found.stage == f"writer {kill}"
        ]
        assert counts == list(range(len(counts)))
    assert sum(isinstance(piece, Malformed) for piece in pieces) <= 10


def read_so_far(records: Records) -> list[Entry]:
    if not records.path("job").exists():
        return []
    return [piece for piece in records.read("job") if isinstance(piece, Entry)]


def test_services_are_all_the_files_whoever_named_them(records: Records) -> None:
    for service in ("kubelet", "bootkube", "foo@bar"):
        records.writer(service).append(entry())
    for file in ("bootkube.json.tmp", "kube.let.json", "-.json", ".json", ".hidden.json"):
        (records.directory / file).touch()
    (records.directory / "folder.json").mkdir()
    os.mkfifo(records.directory / "fifo.json")
    assert records.services() == ["-", "bootkube", "foo@bar", "kube.let", "kubelet"]


@pytest.mark.parametrize("service", ["kube.let", "-", "x.service", "a\nb", "x" * 250, "\udcff"])
def test_record_named_by_another_recorder_is_read(records: Records, service: str) -> None:
    records.directory.mkdir()
    write_lines(records.directory / f"{service}.json", entry(stage="theirs"))
    records.writer(service).append(entry(stage="ours"))
    assert [found.stage for found in whole(records, service)] == ["theirs"]
    assert len(list(records.directory.iterdir())) == 2


@pytest.mark.parametrize("service", ["../secret", "/secret", "records/../../secret", "..", "", "a\0b"])
def test_no_name_leads_out_of_the_directory(records: Records, service: str) -> None:
    records.directory.mkdir()
    for secret in (records.directory.parent / "secret.json", records.directory / ".json"):
        write_lines(secret, entry())
    with pytest.raises(FileNotFoundError):
        next(records.read(service))
    records.writer(service).append(entry())
    assert len(list(records.directory.iterdir())) == 2


def test_missing_directory_has_no_services(records: Records) -> None:
    assert records.services() == []
    with pytest.raises(FileNotFoundError):
        next(records.read("job"))


def test_irregular_file_is_an_error_and_never_blocks(records: Records) -> None:
    records.directory.mkdir()
    os.mkfifo(records.path("job"))
    with pytest.raises(OSError, match=r"job\.json: not a regular file"):
        next(records.read("job"))


@pytest.mark.parametrize(
    ("name", "recorded"),
    [
        ("bootkube", "bootkube"),
        ("bootkube.service", "bootkube"),
        ("foo@bar.service", "foo@bar"),
        ("kube.let", "kube_let"),
        ("/usr/local/bin/job.py", "job_py"),
        ("../../etc/passwd", "passwd"),
        ("..", "__"),
        ("-rf", "_rf"),
        ("a\nb\x7f", "a_b_"),
        ("a b", "a b"),
        ("", "unknown"),
        ("/", "unknown"),
        (".service", "unknown"),
        ("é" * 150, "é" * 100),
        ("a\udcffb", "a?b"),
    ],
)
def test_any_service_name_gets_a_plain_file(name: str, recorded: str) -> None:
    assert record_name(name) == recorded
    assert record_name(recorded) == recorded


def test_the_directory_is_the_environments_or_upstreams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVICE_RECORDS_DIR", "/somewhere/else")
    assert Records().directory == Path("/somewhere/else")
    monkeypatch.setenv("SERVICE_RECORDS_DIR", "")
    assert Records().directory == Path("/var/log/openshift")


@pytest.mark.parametrize(("missing", "is_written"), [(0, True), (1, True), (2, False)])
def test_entry_lacking_only_its_newline_counts(records: Records, missing: int, is_written: bool) -> None:
    writer = records.writer("job")
    writer.append(entry())
    size = records.path("job").stat().st_size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + len(entry(at=1).to_line()) - missing, hard))
    try:
        assert writer.append(entry(at=1)) is is_written
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert writer.append(entry(at=2))
    found = [piece for piece in records.read("job") if isinstance(piece, Entry)]
    between = [entry(at=1)] if is_written else []
    assert found == [entry(), *between, entry("service start", 2, dropped=1 - len(between))]


@pytest.mark.parametrize("sync", ["ends", "", "all"])
@pytest.mark.parametrize("is_link", [False, True], ids=["directory", "link"])
def test_only_run_ends_and_failures_are_synced(
    records: Records, monkeypatch: pytest.MonkeyPatch, sync: str, is_link: bool
) -> None:
    synced = []
    monkeypatch.setenv("SERVICE_RECORDS_SYNC", sync)
    monkeypatch.setattr(
        os, "fsync", lambda descriptor: synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
    )
    directory = records.directory.with_name("elsewhere") if is_link else records.directory
    directory.mkdir()
    if is_link:
        records.directory.symlink_to(directory)
    places = [f"{directory}/job.json", str(directory)] if sync == "ends" else []
    for phase, result, expected in [
        ("service start", None, []),
        ("stage start", None, []),
        ("stage end", "success", []),
        ("stage end", "failure", places),
        ("pre-command end", "success", places),
        ("service end", "success", places),
    ]:
        synced.clear()
        assert records.writer("job").append({"phase": phase, "result": result})
        assert synced == expected


def test_unwritable_record_goes_to_the_inbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only whom a directory's mode binds, not root, needs the inbox."""
    directory, inbox = tmp_path / "records", tmp_path / "inbox"
    monkeypatch.setenv("SERVICE_RECORDS_DIR", str(directory))
    monkeypatch.setenv("INVOCATION_ID", "1f")
    record, parked = f"{directory}/job.json", f"{inbox}/job.1f.json"
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    allowed = {str(inbox)}
    monkeypatch.setattr(os, "access", lambda path, mode: mode == os.W_OK and str(path) in allowed)
    assert writing_path("job.service") == record
    monkeypatch.setenv("SERVICE_RECORDS_INBOX", str(inbox))
    assert writing_path("job.service") == parked
    assert writing_path("job", tmp_path) == f"{tmp_path}/job.json"
    for place in (record, str(directory)):
        allowed.add(place)
        assert writing_path("job") == record
        allowed.remove(place)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert writing_path("job") == parked  # root cannot make the directory
    allowed.add(str(tmp_path))
    assert writing_path("job") == record
    directory.mkdir()
    assert writing_path("job") == parked  # of a sandbox
    allowed.clear()
    assert writing_path("job") == record


def test_inbox_file_counts_only_with_service_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    me, nobody, service = os.getpid(), 2**22 + 1, "job-of-this-test"
    (tmp_path / "cgroup").write_text(f"0::/system.slice/{service}.service\n")
    parked, open_file = tmp_path / "inbox", os.open

    def open_with_cgroup(path: str, *arguments: int) -> int:
        return open_file(tmp_path / "cgroup" if path == f"/proc/{me}/cgroup" else path, *arguments)

    parked.mkdir()
    for name, pids in {f"{service}.1": [nobody, me], f"{service}.2": [nobody], "other-job.1": [me]}.items():
        write_lines(parked / f"{name}.json", *(entry(at=at, pid=pid) for at, pid in enumerate(pids)))
    (parked / f"{service}.3.json").symlink_to(f"{service}.1.json")
    os.mkfifo(parked / f"{service}.4.json")
    monkeypatch.setattr(os, "open", open_with_cgroup)
    monkeypatch.setenv("SERVICE_RECORDS_INBOX", str(parked))
    monkeypatch.delenv("SERVICE_RECORDS_DIR", raising=False)
    records = Records()
    assert {service, "other-job"}.intersection(records.services(with_inbox=True)) == {service}
    assert service not in records.services()
    assert whole(records, service) == [entry(pid=nobody), entry(at=1, pid=me)]
    assert Records(tmp_path / "elsewhere").services(with_inbox=True) == []


@pytest.fixture
def inbox_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty inbox, to which every process of this user is a writer of the service `job`."""
    monkeypatch.setenv("SERVICE_RECORDS_INBOX", str(tmp_path / "inbox"))
    monkeypatch.delenv("SERVICE_RECORDS_DIR", raising=False)
    monkeypatch.setattr(inbox, "unit_of_process", lambda pid, _: "job.service" if pid == 1 else None)
    (tmp_path / "inbox").mkdir()
    return tmp_path / "inbox"


def test_inbox_is_limited_for_each_user(inbox_directory: Path) -> None:
    size = inbox.MAX_BYTES_OF_USER // 2
    line = entry(pid=1).to_line() + b"\n"
    for number in range(4):
        data = line * (size // len(line)) + b"\n" * (size % len(line))
        (inbox_directory / f"job.{number}.json").write_bytes(data)
    read = list(Inbox(inbox_directory).read("job"))
    assert [len(data) for data in read] == [size, size]
    assert Inbox(inbox_directory).left_out == (
        f"files were left out, or their ends: 2 of user {os.getuid()}; "
        "each user may have 64 files and 16 MiB there"
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of other users")
def test_full_inbox_of_one_user_hides_no_other(inbox_directory: Path) -> None:
    for number in range(inbox.MAX_FILES_OF_USER + 9):
        file = inbox_directory / f"a-job.{number:03}.json"
        write_lines(file, entry(pid=7))
        os.chown(file, 65534, 65534)
    write_lines(inbox_directory / "job.1.json", entry(pid=1))
    assert Inbox(inbox_directory).services() == {"job"}
    assert "9 of user 65534;" in Inbox(inbox_directory).left_out


def test_few_of_many_writers_are_looked_at(inbox_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that names a million processes costs as much as one that names a few."""
    looked_at = []
    monkeypatch.setattr(inbox, "unit_of_process", lambda pid, _: looked_at.append(pid))  # finds none
    pids = b"".join(b'{"pid":%d}\n' % pid for pid in range(100_000))
    (inbox_directory / "job.1.json").write_bytes(pids)
    assert Inbox(inbox_directory).services() == set()
    assert 0 < len(looked_at) <= inbox.MAX_PIDS
    assert {0, 99_999} <= set(looked_at)


def test_rest_of_the_inbox_is_reported_once(inbox_directory: Path) -> None:
    for number in range(inbox.MAX_FILES_OF_USER + 1):
        write_lines(inbox_directory / f"job.{number}.json", entry(pid=1))
    reasons = [part.reason for part in open_source().left_out if part.path == "inbox"]
    assert reasons == [Inbox(inbox_directory).left_out]


@pytest.mark.parametrize("behind", [b"", b"x"], ids=["empty", "torn"])
def test_write_only_writer_begins_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, behind: bytes
) -> None:
    path = write_lines(tmp_path / "job.json", behind)
    real = os.open

    def unreadable(path: str, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_ACCMODE == os.O_RDONLY:
            raise PermissionError
        return real(path, flags, mode)

    monkeypatch.setattr(os, "open", unreadable)
    writer = Writer(path)
    assert [writer.append(entry(at=at)) for at in (1, 2)] == [True, True]
    monkeypatch.undo()
    assert path.read_bytes() == behind + b"\n" + entry(at=1).to_line() + entry(at=2).to_line()


ARRAY = b'[\n{"a":1}\n]\n'


@pytest.mark.parametrize(
    ("before", "begins"),
    [
        (b"", b"[\nX\n]"),
        (b" \n", b"[\nX\n]"),
        (b"[]", b"[\nX\n]"),
        (b"[\n]\n", b"[\nX\n]"),
        (ARRAY, b'[\n{"a":1},\nX\n]'),
        (ARRAY + b" " * 9000, None),
        (b"[" + b" " * 9000 + ARRAY[1:], b"[" + b" " * 9000 + b'\n{"a":1},\nX\n]'),
        (b'[\n{"a":1}]\n', None),
        (b"[", None),
        (b"]", None),
        (b'{"a":1}\n', None),
        (ARRAY + b'{"a":2}\n', None),
        (b"[\n1\n]\n", None),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_only_closed_array_is_extended(tmp_path: Path, before: bytes, begins: bytes | None) -> None:
    path = tmp_path / "job.json"
    path.write_bytes(before)
    with path.open("r+b") as file:
        if begins is None:
            with pytest.raises(array_file.ArrayError, match="does not end as a closed array"):
                array_file.append(file.fileno(), b"X", lock_seconds=0)
            assert path.read_bytes() == before
            return
        array_file.append(file.fileno(), b"X", lock_seconds=0)
    after = path.read_bytes()
    room = after.removeprefix(begins)
    assert after.startswith(begins)
    assert len(after) % 1024 == 0
    assert 1024 <= len(room) <= 2048 + 512
    assert [at for at in range(len(begins), len(after)) if after[at : at + 1] == b"\n"] == [
        at - 1 for at in range(512, len(after) + 1, 512) if at > len(begins)
    ]


def test_room_behind_array_is_used_first(tmp_path: Path) -> None:
    path = tmp_path / "job.json"
    path.write_bytes(b"")
    sizes = []
    with path.open("r+b") as file:
        for _ in range(40):
            array_file.append(file.fileno(), b"x" * 97 + b"{}", lock_seconds=0)
            sizes.append(path.stat().st_size)
    expected, room = [], 0
    for number in range(1, 41):  # a bracket, each line with its comma, the end, and a blank
        needed = 1 + 101 * number + 2 + 1 + 1024
        room = room if needed <= room else -(-needed // 1024) * 1024
        expected.append(room)
    assert sizes == expected


def test_array_lock_is_awaited_and_released(tmp_path: Path) -> None:
    path = tmp_path / "job.json"
    path.write_bytes(ARRAY)
    with path.open("r+b") as file, path.open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        began = time.monotonic()
        with pytest.raises(array_file.ArrayError, match="another writer kept the lock"):
            array_file.append(file.fileno(), b"X", lock_seconds=0.05)
        assert 0.05 <= time.monotonic() - began < 5
        threading.Timer(0.05, fcntl.flock, (other, fcntl.LOCK_UN)).start()
        array_file.append(file.fileno(), b"X", lock_seconds=60)
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
