"""Rotation: a record stays within its limit, every distinct failure stays in it, no entry is lost."""

import json
import multiprocessing
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from io import BytesIO
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest
from msgspec.structs import replace

from service_record.diagnosis import Diagnosis, Verdict, diagnose
from service_record.history import ServiceHistory, build_history
from service_record.history.outcome import Outcome
from service_record.read.live_file import Following
from service_record.record.appending import Writer
from service_record.record.directory import Records
from service_record.record.entry import Entry, Malformed, Result, RunsLeftOut
from service_record.record.layout import read_entries
from service_record.rotation import RotationError, find_long_records, rotate
from tests.builders import entry, failed_run, our_array, require, upstream_entry, write_lines

SHIM = Path(__file__).parents[2] / "shell/bootstrap-service-record.sh"
COMMAND = Path(sys.executable).with_name("service-record")
LIMIT = 64 << 10
OTHER_BOOT = "b1" * 16


def of_run(number: int, entries: Iterable[Entry], **fields: object) -> list[Entry]:
    own = {"invocation_id": f"{number:032x}", "pid": 1000 + number}
    return [replace(each, **(own | fields)) for each in entries]


def good(number: int, **fields: object) -> list[Entry]:
    at = number * 20
    stages = [entry("stage start", at + 1, stage="pull"), entry("stage end", at + 2, stage="pull")]
    return of_run(number, [entry(at=at), *stages, entry("service end", at + 3)], **fields)


def bad(number: int, stage: str = "pull", message: str = "no such image", **fields: object) -> list[Entry]:
    return of_run(number, failed_run(stage, number * 20, error_message=message), **fields)


def handled(number: int) -> list[Entry]:
    ends = [entry("stage end", number * 20 + 2, stage="probe", result=Result.FAILURE, exit_code=7)]
    return of_run(number, [*good(number)[:1], entry("stage start", stage="probe"), *ends, good(number)[-1]])


def history(content: bytes) -> ServiceHistory:
    (service,) = build_history([("job", read_entries(BytesIO(content)))]).services
    return service


def judged(content: bytes) -> Diagnosis:
    return require(diagnose(build_history([("job", read_entries(BytesIO(content)))])))


def entries_in(path: Path) -> list[Entry]:
    pieces = list(read_entries(BytesIO(path.read_bytes())))
    assert not [piece for piece in pieces if isinstance(piece, Malformed)]
    return [replace(piece, left_out=None) for piece in pieces if isinstance(piece, Entry)]


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def runs_left_out(service: ServiceHistory) -> int:
    return sum(run.left_out.runs for run in service.runs if run.left_out is not None)


@pytest.fixture(params=["lines", "array"])
def put(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Iterable[Entry]], Path]:
    def write(entries: Iterable[Entry]) -> Path:
        path = tmp_path / "job.json"
        if request.param == "array":
            path.write_bytes(our_array(*entries))
            return path
        return write_lines(path, *entries)

    return write


def test_short_record_is_not_rotated(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "job.json", *good(0))
    before = path.stat()
    assert rotate(path, LIMIT) is None
    assert path.stat().st_ino == before.st_ino
    assert names(tmp_path) == ["job.json"]


def test_long_and_unfinished_records_are_found(tmp_path: Path) -> None:
    paths = {name: tmp_path / f"{name}.json" for name in ("short", "long", "replaced", "begun", "missing")}
    for name in ("short", "replaced", "begun"):
        paths[name].touch()
    paths["long"].write_bytes(bytes(LIMIT + 1))
    (tmp_path / ".replaced.json.0-4-2-0.old").touch()
    (tmp_path / ".begun.json.new").touch()
    found = find_long_records(list(paths.values()), LIMIT)
    assert [path.stem for path in found] == ["long", "replaced", "begun", "missing"]
    assert [path.stem for path in find_long_records(list(paths.values()), 0)] == [
        *("replaced", "begun", "missing"),
    ]


def test_successful_runs_in_the_middle_are_counted(put: Callable[..., Path]) -> None:
    runs = [handled(n) if n == 70 else bad(n) if n in {50, 90} else good(n) for n in range(200)]
    path = put(each for run in runs for each in run)
    require(rotate(path, LIMIT))
    assert path.stat().st_size <= LIMIT
    service = history(path.read_bytes())
    kept = [run.invocation_id for run in service.runs]
    assert {f"{n:032x}" for n in (0, 50, 70, 90, 199)} <= set(kept)
    assert len(kept) + runs_left_out(service) == 200
    assert service.runs[-1].attempt == 200
    gap = next(run.left_out for run in service.runs if run.left_out and run.left_out.runs)
    assert (gap.reason, gap.failed) == ("size", 0)
    assert sum(run.outcome is Outcome.FAILURE for run in service.runs) == 2


def test_loop_count_includes_removed_runs(put: Callable[..., Path]) -> None:
    path = put(each for n in range(400) for each in bad(n, message=f"pid {n}: no such image"))
    whole = judged(path.read_bytes())
    rotate(path, LIMIT)
    short = judged(path.read_bytes())
    assert short.verdict is whole.verdict is Verdict.LOOPING
    assert short.root is not None
    assert require(short.root.loop).count == short.root.count == 400
    assert short.root.since == (whole.root and whole.root.since)
    assert len(history(path.read_bytes()).runs) < 200


def test_repeated_rotations_count_all_runs(put: Callable[..., Path]) -> None:
    path = put(bad(0))
    for number in range(1, 600):
        writer = Writer(path)
        for each in bad(number):
            assert writer.append(each)
        if number % 40 == 0:
            rotate(path, 16 << 10)
    service = history(path.read_bytes())
    assert path.stat().st_size <= (16 << 10) + 40 * 1200
    assert len(service.runs) + runs_left_out(service) == service.runs[-1].attempt == 600
    assert require(require(judged(path.read_bytes()).root).loop).count == 600


def test_each_distinct_failure_stays(put: Callable[..., Path]) -> None:
    path = put(
        each
        for n in range(600)
        for each in bad(n, stage="once" if n == 300 else "pull", message="disk full" if n == 301 else "away")
    )
    rotate(path, LIMIT)
    service = history(path.read_bytes())
    assert path.stat().st_size <= LIMIT
    assert {f"{n:032x}" for n in (0, 300, 301, 599)} <= {run.invocation_id for run in service.runs}
    assert len(service.runs) + runs_left_out(service) == 600


def test_streak_ends_at_removed_runs_of_another_kind(tmp_path: Path) -> None:
    runs = [good(n) if n == 200 else bad(n) for n in range(400)]
    path = write_lines(tmp_path / "job.json", *(each for run in runs for each in run))
    rotate(path, 8 << 10)
    assert require(require(judged(path.read_bytes()).root).loop).count <= 199


def test_each_boot_keeps_its_first_and_latest_run(tmp_path: Path) -> None:
    runs = [bad(n) if n % 3 else good(n) for n in range(200)]
    path = write_lines(
        tmp_path / "job.json",
        *(each for n in range(200) for each in (replace(one, boot_id=f"{n // 20:032x}") for one in runs[n])),
    )
    rotate(path, LIMIT)
    kept = {run.invocation_id for run in history(path.read_bytes()).runs}
    assert {f"{n:032x}" for n in range(200) if n % 20 in {0, 19}} <= kept
    assert len(kept) < 200


def test_runs_without_an_end_are_kept(tmp_path: Path) -> None:
    runs = [bad(n)[:1] if n in {150, 151, 152} else bad(n) for n in range(300)]
    path = write_lines(tmp_path / "job.json", *(each for run in runs for each in run))
    rotate(path, 8 << 10)
    kept = {run.invocation_id for run in history(path.read_bytes()).runs}
    assert {f"{n:032x}" for n in (150, 151, 152)} <= kept


def test_boots_in_the_middle_are_counted(tmp_path: Path) -> None:
    boots = [f"{n:032x}" for n in range(500)]
    path = write_lines(
        tmp_path / "job.json", *(each for n, boot in enumerate(boots) for each in good(n, boot_id=boot))
    )
    rotate(path, LIMIT)
    assert path.stat().st_size <= LIMIT / 2
    service = history(path.read_bytes())
    left = {run.boot_id for run in service.runs}
    assert {*boots[:10], *boots[-10:]} <= left
    gaps = [run.left_out for run in service.runs if run.left_out is not None]
    assert sum(gap.boots for gap in gaps) + len(left) == 500
    assert {run.attempt for run in service.runs} == {1}


def test_damage_is_copied_beside_the_record(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "job.json", *(e for n in range(100) for e in good(n)), b'{"torn":\n')
    with path.open("ab") as stream:
        stream.writelines(each.to_line() for n in range(100, 300) for each in good(n))
    rotate(path, LIMIT)
    assert entries_in(path)
    assert path.with_name("job.json.damaged").read_bytes() == b'{"torn":\n'


def test_torn_last_line_is_kept(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "job.json", *(e for n in range(300) for e in good(n)), b'{"timestamp":"20')
    rotate(path, LIMIT)
    Writer(path).append(entry("service end", 9000))
    assert entries_in(path)[-1] == entry("service end", 9000)
    assert path.with_name("job.json.damaged").read_bytes() == b'{"timestamp":"20\n'


def test_record_of_openshifts_script_is_not_rotated(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "job.json", *(upstream_entry(at=n) for n in range(2000)))
    before = path.read_bytes()
    with pytest.raises(RotationError, match="name no run"):
        rotate(path, LIMIT)
    assert path.read_bytes() == before
    assert names(tmp_path) == ["job.json"]


def test_mode_and_layout_stay(put: Callable[..., Path]) -> None:
    path = put(each for n in range(300) for each in good(n))
    path.chmod(0o604)
    first = path.read_bytes()[:1]
    rotate(path, LIMIT)
    assert (path.stat().st_mode & 0o777, path.read_bytes()[:1]) == (0o604, first)
    if first == b"[":
        assert isinstance(json.loads(path.read_bytes()), list)


def test_follow_shows_no_entry_twice(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "job.json", *(e for n in range(300) for e in good(n)))
    following = Following()

    def shown() -> list[object]:
        data = path.read_bytes()
        return list(following.look(lambda at, size: data[at : at + size], 9.0, 0.0, final=True))

    assert len(shown()) == 1200
    rotate(path, LIMIT)
    Writer(path).append(entry(at=9000))
    assert shown() == [entry(at=9000)]


def test_collector_with_both_files_counts_each_run_once(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "job.json", *(e for n in range(400) for e in bad(n)))
    earlier = path.read_bytes()
    rotate(path, LIMIT)
    both = history(earlier + b"\n" + path.read_bytes())
    assert both.runs[-1].attempt == 400
    assert len(both.runs) == len(history(path.read_bytes()).runs)


def _append(path: Path, writer: int, stop: Event, log_path: Path) -> None:
    own = Writer(path)
    with log_path.open("ab", buffering=0) as log:
        number = 0
        while not stop.is_set():
            number += 1
            time.sleep(0.002)
            if own.append(entry("stage end", number, stage=f"{writer}-{number}", pid=writer)):
                log.write(f"{writer}-{number}\n".encode())


SHELL_WRITER = """
SERVICE_NAME=job
. "$1"
exec 9<>"$4"
n=0
while [[ -e $2 ]]; do
  n=$((n + 1))
  read -rt 0.004 <&9
  record_service_stage_start "shell-$n"
  record_service_stage_success
  ((__sr[dropped])) || printf '%s\\n' "shell-$n" >>"$3"
done
"""


@pytest.mark.parametrize("layout", ["lines", "array"])
def test_no_entry_of_python_or_the_shim_is_lost(layout: str, tmp_path: Path) -> None:
    """Rotations one after the other, some of them killed, under writers that never pause for long."""
    records = tmp_path / "records"
    records.mkdir()
    path = records / "job.json"
    old = [each for n in range(40) for each in good(n)]
    path.write_bytes(our_array(*old) if layout == "array" else b"".join(each.to_line() for each in old))
    log_path, flag = tmp_path / "told", tmp_path / "go"
    flag.touch()
    quiet = tmp_path / "quiet"
    os.mkfifo(quiet)
    stop = multiprocessing.Event()
    # Every run stays: those of the writers never end, so whatever is missing was lost.
    writers = [multiprocessing.Process(target=_append, args=(path, n, stop, log_path)) for n in (1, 2)]
    for writer in writers:
        writer.start()
    shell = subprocess.Popen(
        ["bash", "-c", SHELL_WRITER, "job", SHIM, flag, log_path, quiet],
        env={
            "PATH": os.environ["PATH"],
            "SERVICE_RECORDS_DIR": str(records),
            "SERVICE_RECORDS_LAYOUT": layout,
        },
    )
    chance = random.Random(7)
    until = time.monotonic() + 6
    rotations = 0
    while time.monotonic() < until:
        rotation = _rotate_apart(path)
        if chance.random() < 0.5:
            time.sleep(chance.random() * 0.3)
            rotation.send_signal(signal.SIGKILL)
        rotations += rotation.wait() == 0
    stop.set()
    flag.unlink()
    for writer in writers:
        writer.join()
    assert shell.wait(30) == 0
    assert _rotate_apart(path).wait() == 0
    stages = [each.stage for each in entries_in(path) if each.phase == "stage end"]
    written = log_path.read_text().split()
    assert set(written) - set(stages) == set()
    assert len(stages) == len(set(stages)) + stages.count("pull") - ("pull" in stages)
    assert rotations
    assert names(records) == ["job.json"]
    # In an array, who waits for its lock without a pause may overtake itself in the last turn of a rotation.
    ours = [stage for stage in stages if stage and stage.startswith("1-")]
    assert layout == "array" or ours == sorted(ours, key=lambda stage: int(stage[2:]))


ROTATE = """
import sys
from pathlib import Path
from service_record.rotation import rotate
rotate(Path(sys.argv[1]), 1 << 12)
"""


def _rotate_apart(path: Path) -> "subprocess.Popen[bytes]":
    # One good run less each time: there has to be something to leave out.
    writer = Writer(path)
    number = time.monotonic_ns() % 10**9
    for n in range(12):
        for each in good(number + n):
            writer.append(each)
    return subprocess.Popen([sys.executable, "-c", ROTATE, path])


def test_entries_written_during_each_sync_keep_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk so slow, or a service so busy, that something is recorded whenever the rotation waits for it."""
    path = write_lines(tmp_path / "job.json", *(e for n in range(300) for e in good(n)))
    writer, sync = Writer(path), os.fsync
    written: list[Entry] = []

    def slow_sync(descriptor: int) -> None:
        sync(descriptor)
        written.append(entry(at=9000 + len(written)))
        assert writer.append(written[-1])

    monkeypatch.setattr(os, "fsync", slow_sync)
    assert rotate(path, LIMIT) is not None
    assert entries_in(path)[-len(written) :] == written
    assert names(tmp_path) == ["job.json"]


def test_next_rotation_adds_late_entry_of_a_slow_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_lines(tmp_path / "job.json", *(e for n in range(300) for e in good(n)))
    monkeypatch.setattr("service_record.rotation.replacement._WRITERS_SECONDS", 0.1)
    held = os.open(path, os.O_WRONLY | os.O_APPEND)
    assert require(rotate(path, LIMIT)).is_waiting
    late, later = entry(at=9000), entry("service end", 9001)
    os.write(held, late.to_line())
    Writer(path).append(later)
    assert rotate(path, LIMIT) is None
    assert late not in entries_in(path)
    os.close(held)
    assert rotate(path, LIMIT) is None
    assert entries_in(path)[-2:] == [late, later]
    assert names(tmp_path) == ["job.json"]
    assert rotate(path, LIMIT) is None
    assert entries_in(path)[-2:] == [late, later]


@pytest.mark.parametrize("layout", ["lines", "array"])
def test_late_entry_is_kept_beside_an_equal_one(
    layout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two threads that do the same in one millisecond record the same bytes."""
    path = tmp_path / "job.json"
    runs = [each for n in range(300) for each in good(n)]
    path.write_bytes(our_array(*runs)) if layout == "array" else write_lines(path, *runs)
    monkeypatch.setattr("service_record.rotation.replacement._WRITERS_SECONDS", 0.1)
    monkeypatch.setattr("service_record.rotation.replacement._ARRAY_WRITERS_SECONDS", 0.1)
    held = os.open(path, os.O_RDWR | os.O_APPEND)
    assert require(rotate(path, LIMIT)).is_waiting
    equal = entry(at=9000)
    os.write(held, equal.to_line())
    assert Writer(path).append(equal)
    os.close(held)
    rotate(path, LIMIT)
    assert entries_in(path)[-2:] == [equal, equal]
    assert names(tmp_path) == ["job.json"]


@pytest.mark.parametrize("moment", ["before-the-rename", "before-the-removal"])
def test_killed_insertion_of_late_entries_is_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    path = write_lines(tmp_path / "job.json", *(e for n in range(300) for e in good(n)))
    monkeypatch.setattr("service_record.rotation.replacement._WRITERS_SECONDS", 0.1)
    held = os.open(path, os.O_WRONLY | os.O_APPEND)
    assert require(rotate(path, LIMIT)).is_waiting
    late = [entry(at=9000), entry(at=9000), entry("service end", 9001)]
    os.write(held, b"".join(each.to_line() for each in late))
    os.close(held)
    expected = [*entries_in(path), *late]

    function = {"before-the-rename": "replace", "before-the-removal": "unlink"}[moment]
    original = getattr(Path, function)

    def be_killed(self: Path, *arguments: object, **options: object) -> object:
        if function == "replace" or self.name.endswith(".old"):
            raise KeyboardInterrupt
        return original(self, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Path, function, be_killed)
        with pytest.raises(KeyboardInterrupt):
            rotate(path, LIMIT)
    assert rotate(path, LIMIT) is None
    assert entries_in(path) == expected
    assert names(tmp_path) == ["job.json"]


@pytest.mark.parametrize("field", [[], {"failed": "3"}, {"failed": -1}, {"reason": 3}], ids=str)
def test_invalid_counts_make_an_entry_malformed(field: object) -> None:
    line = json.dumps(entry().to_json() | {"leftOut": field}).encode()
    (piece,) = read_entries(BytesIO(line))
    assert isinstance(piece, Malformed)


def test_counts_survive_a_copy() -> None:
    first = entry(left_out=RunsLeftOut(succeeded=3, failed=2, alike=2, boots=1, boot_runs=4, rotations=5))
    assert list(read_entries(BytesIO(first.to_line()))) == [first]


def test_verb_rotates_and_prints_the_result(tmp_path: Path) -> None:
    write_lines(tmp_path / "job.json", *(e for n in range(300) for e in good(n)))
    write_lines(tmp_path / "other.json", *good(0))
    done = subprocess.run(
        [COMMAND, "rotate", "--from", tmp_path, "--max-size", "64K"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r"job: \d+ entries left out, \d+ bytes became \d+\n", done.stdout)
    assert Records(tmp_path).path("job").stat().st_size <= 64 << 10


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
def test_short_record_on_a_read_only_mount_is_accepted(tmp_path: Path) -> None:
    write_lines(tmp_path / "job.json", *good(0))
    mounted = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", mounted, tmp_path, COMMAND, "rotate", "--from", tmp_path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


RUNS = """
import sys, service_record
for number in range(int(sys.argv[2])):
    try:
        with service_record.service("job", directory=sys.argv[1]), service_record.stage("pull"):
            if number % 17 == 0:
                raise ValueError(f"failure {number}")
    except ValueError:
        pass
"""


@pytest.mark.parametrize("layout", ["lines", "array"])
def test_verdict_stays_when_rotated_under_writers(layout: str, tmp_path: Path) -> None:
    """The entries of one writer must keep their order, or a run seems to have no end."""
    environment = os.environ | {"SERVICE_RECORDS_LAYOUT": layout, "INVOCATION_ID": ""}
    runs, path = 250, tmp_path / "job.json"
    command = [sys.executable, "-c", RUNS, str(tmp_path), str(runs)]
    writers = [subprocess.Popen(command, env=environment) for _ in range(3)]
    rotations = 0
    while any(writer.poll() is None for writer in writers):
        if path.exists() and rotate(path, 24 << 10):
            rotations += 1
    rotate(path, 24 << 10)

    assert rotations
    service = history(path.read_bytes())
    assert {run.outcome for run in service.runs} == {Outcome.SUCCESS, Outcome.FAILURE}
    assert len(service.runs) + runs_left_out(service) == 3 * runs
    failed = sum(run.outcome is Outcome.FAILURE for run in service.runs)
    left_out = sum(run.left_out.failed for run in service.runs if run.left_out is not None)
    assert failed + left_out == sum(number % 17 == 0 for number in range(runs)) * 3
    assert judged(path.read_bytes()).verdict is Verdict.SUCCEEDED
