"""Runs, commands and stages as they are recorded, and a service that recording does not change."""

import asyncio
import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

import service_record
from service_record import Result
from service_record.history import build_history
from service_record.history.outcome import Outcome, end_outcome
from service_record.record.entry import Entry, Phase
from tests.programs import read_entries, run_program, summarize_entries
from tests.waiting import run_in_threads

FAILED_STAGE = ["service start", "stage start first", "stage end first failure", "service end failure"]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Return where services of this very process record."""
    return tmp_path / "records"


def test_nested_stages_are_recorded_in_order(tmp_path: Path) -> None:
    run_program(
        tmp_path,
        """
        with service_record.service():
            with service_record.stage("first"):
                with service_record.stage("inner"):
                    pass
            with service_record.stage("second"):
                pass
        """,
    )

    assert summarize_entries(read_entries(tmp_path)) == [
        *("service start", "stage start first", "stage start inner", "stage end inner success"),
        *("stage end first success", "stage start second"),
        *("stage end second success", "service end success"),
    ]


def test_entries_have_identity_and_time(tmp_path: Path) -> None:
    invocation = "c0ffee" * 5 + "00"
    run_program(
        tmp_path,
        """
        with service_record.service(), service_record.stage("first"):
            pass
        """,
        INVOCATION_ID=invocation,
    )
    entries = read_entries(tmp_path)

    assert {entry.invocation_id for entry in entries} == {invocation}
    assert len({(entry.pid, entry.boot_id) for entry in entries}) == 1
    assert all(entry.pid and entry.uptime and (entry.timestamp or "").endswith("Z") for entry in entries)
    assert [bool(entry.recorder) for entry in entries] == [True, False, False, False]


def test_exception_fails_stage_and_service_with_its_line(tmp_path: Path) -> None:
    done = run_program(
        tmp_path,
        """
        def pull():
            raise RuntimeError("no such image")
        with service_record.service(), service_record.stage("first"):
            pull()
        """,
    )
    entries = read_entries(tmp_path)
    file = tmp_path / "job.py"

    assert done.returncode == 1
    assert summarize_entries(entries) == FAILED_STAGE
    for end in entries[2:]:
        assert end.error_line == f"3 pull {file}"
        assert end.stack == (f"3 pull {file}", f"5 main {file}")
        assert end.command == 'raise RuntimeError("no such image")'
        assert end.error_message == "RuntimeError: no such image"


def test_caught_exception_fails_only_its_stage(tmp_path: Path) -> None:
    run_program(
        tmp_path,
        """
        with service_record.service():
            try:
                with service_record.stage("first"):
                    1 / 0
            except ZeroDivisionError:
                pass
        """,
    )

    assert summarize_entries(read_entries(tmp_path)) == [*FAILED_STAGE[:3], "service end success"]


@pytest.mark.parametrize(
    ("ending", "status", "end"),
    [
        ("pass", 0, (Result.SUCCESS, None, None)),
        ("sys.exit()", 0, (Result.SUCCESS, None, None)),
        ("sys.exit(3)", 3, (Result.FAILURE, 3, None)),
        ("sys.exit('no disk')", 1, (Result.FAILURE, 1, None)),
        ("1 / 0", 1, (Result.FAILURE, None, None)),
        ("raise KeyboardInterrupt", -2, (Result.FAILURE, None, "INT")),
        ("os.kill(os.getpid(), signal.SIGINT); signal.pause()", -2, (Result.FAILURE, None, "INT")),
    ],
    ids=["plain", "exit", "exit-3", "exit-text", "exception", "interrupt", "sigint"],
)
def test_end_of_the_program_is_recorded_and_unchanged(
    tmp_path: Path, ending: str, status: int, end: tuple[Result, int | None, str | None]
) -> None:
    done = run_program(tmp_path, f"\nwith service_record.service():\n    {ending}\n")
    entry = read_entries(tmp_path)[-1]

    assert done.returncode == status
    assert (entry.result, entry.exit_code, entry.signal) == end


@pytest.mark.parametrize(
    "ending", ["os._exit(5)", "os.kill(os.getpid(), signal.SIGKILL)", "os.execlp('true', 'true')"]
)
def test_unnoticed_end_leaves_the_run_open(tmp_path: Path, ending: str) -> None:
    run_program(tmp_path, f"\nwith service_record.service():\n    {ending}\n")

    assert summarize_entries(read_entries(tmp_path)) == ["service start"]


def test_exception_passes_unchanged(directory: Path) -> None:
    error = ValueError("mine")
    with (
        pytest.raises(ValueError, match="mine") as caught,
        service_record.service("job", directory=directory),
    ):
        raise error

    files = [Path(frame.path).name for frame in caught.traceback]
    assert caught.value is error
    assert error.__context__ is None
    assert error.__cause__ is None
    assert files == [Path(__file__).name]


def test_output_is_the_same_with_recording(tmp_path: Path) -> None:
    source = """
        with {service}, {stage}:
            print("working")
            raise RuntimeError("no such image")
        """
    plain = source.format(service="threading.Lock()", stage="threading.Lock()")
    with_record = source.format(service="service_record.service()", stage="service_record.stage('first')")
    expected = run_program(tmp_path, plain)
    done = run_program(tmp_path, with_record)

    assert (done.returncode, done.stdout, done.stderr) == (
        expected.returncode,
        expected.stdout,
        expected.stderr,
    )


DIRECTORY = "os.environ['SERVICE_RECORDS_DIR']"
TROUBLES = {
    "a-fifo": f"os.mkdir({DIRECTORY}); os.mkfifo({DIRECTORY} + '/job.json')",
    "a-file-for-a-directory": f"open({DIRECTORY}, 'w').close()",
    "no-directory": f"{DIRECTORY} = '/proc/no/such'",
    "no-working-directory": f"os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone'); {DIRECTORY} = 'here'",
    "no-path-and-no-name": "arguments = {'name': 3, 'directory': object()}",
    "no-program": "sys.argv.clear(); del os.environ['SERVICE_NAME']",
    "no-file-size": "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))",
    "no-descriptors": "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))",
    "closed-streams": "sys.stderr.close(); os.close(0); os.close(2)",
    "no-standard-error": "sys.stderr = None",
    "no-children": "os.environ['INVOCATION_ID'] = 32 * 'a'; signal.signal(signal.SIGCHLD, signal.SIG_IGN)",
}


@pytest.mark.parametrize("trouble", TROUBLES.values(), ids=TROUBLES)
def test_errors_of_recording_do_not_reach_the_service(tmp_path: Path, trouble: str) -> None:
    done = run_program(
        tmp_path,
        f"""
        os.chdir({str(tmp_path)!r})
        service, arguments = service_record.service, {{}}
        {trouble}
        try:
            with service(**arguments):
                service_record.end_stage()
                with service_record.stage(""), service_record.pre_command(object()):
                    raise KeyError("mine")
        except KeyError as error:
            os.write(1, str(error).encode())
            os._exit(7)
        """,
    )

    assert (done.returncode, done.stdout) == (7, "'mine'")
    assert "Traceback" not in done.stderr


def test_exception_without_text_is_recorded_and_passes(tmp_path: Path) -> None:
    done = run_program(
        tmp_path,
        """
        class Mute(Exception):
            def __str__(self):
                raise self
            __repr__ = __str__
        try:
            with service_record.service(), service_record.stage("first"):
                raise Mute
        except Mute:
            sys.exit(7)
        """,
    )

    assert done.returncode == 7
    assert summarize_entries(read_entries(tmp_path)) == FAILED_STAGE


def test_journal_lines_precede_the_exception(tmp_path: Path) -> None:
    journalctl = tmp_path / "journalctl"
    journalctl.write_text(f'#!/bin/sh\necho "$*" >>{tmp_path}/asked\necho older\necho newer\n')
    journalctl.chmod(0o755)
    invocation = "ab" * 16
    run_program(
        tmp_path,
        """
        with service_record.service(), service_record.stage("first"):
            raise RuntimeError("no such image")
        """,
        PATH=f"{tmp_path}:{os.environ['PATH']}",
        INVOCATION_ID=invocation,
    )
    asked = (tmp_path / "asked").read_text().splitlines()

    assert {end.error_message for end in read_entries(tmp_path)[2:]} == {
        "older\nnewer\nRuntimeError: no such image"
    }
    assert [line.split()[0] for line in asked] == ["--sync", "--quiet"]
    assert f"_SYSTEMD_INVOCATION_ID={invocation}" in asked[1]


def test_threads_record_in_the_service_of_their_process(directory: Path, tmp_path: Path) -> None:
    def work(name: str) -> None:
        for _ in range(10):
            with service_record.stage(name):
                pass

    with service_record.service("job", directory=directory):
        run_in_threads(*(partial(work, f"worker {number}") for number in range(8)))
    entries = read_entries(tmp_path)

    assert len(entries) == 2 + 8 * 10 * 2
    assert {entry.stage for entry in entries[1:-1]} == {f"worker {number}" for number in range(8)}
    assert summarize_entries(entries)[-1] == "service end success"


def places(entries: list[Entry]) -> dict[str, str | None]:
    """Stage -> the stage that it says it is in; each start and end has the same id."""
    starts = {e.stage_id: e.stage for e in entries if e.phase is Phase.STAGE_START}
    assert starts == {e.stage_id: e.stage for e in entries if e.phase is Phase.STAGE_END}
    found = [e for e in entries if e.phase is Phase.STAGE_START]
    return {e.stage or "": starts[e.parent] if e.parent else None for e in found}


def test_concurrent_stages_name_their_parent(directory: Path, tmp_path: Path) -> None:
    async def work(name: str) -> None:
        with service_record.stage(name):
            await asyncio.sleep(0.001)
            with service_record.stage(f"{name} inner"):
                await asyncio.sleep(0.001)

    async def serve() -> None:
        with service_record.service("job", directory=directory) as job, service_record.stage("outer"):
            await asyncio.gather(work("first"), work("second"))
            with job.stage("behind"):
                pass

    asyncio.run(serve())

    assert places(read_entries(tmp_path)) == {
        "outer": None,
        "first": "outer",
        "second": "outer",
        "first inner": "first",
        "second inner": "second",
        "behind": "outer",
    }


def test_stages_of_threads_are_siblings(directory: Path, tmp_path: Path) -> None:
    both = threading.Barrier(2)

    def work(name: str) -> None:
        with service_record.stage(name):
            both.wait()

    with service_record.service("job", directory=directory):
        run_in_threads(*(partial(work, name) for name in ("first", "second")))

    assert places(read_entries(tmp_path)) == {"first": None, "second": None}


def test_stage_in_an_unidentified_stage_has_no_id(directory: Path, tmp_path: Path) -> None:
    with service_record.service("job", directory=directory):
        service_record.start_stage("started")
        with service_record.stage("within"), service_record.stage("innermost"):
            pass
        service_record.end_stage()
        with service_record.stage("behind") as behind:
            pass
        behind.start().end()
    named = [(entry.stage, bool(entry.stage_id)) for entry in read_entries(tmp_path) if entry.stage]

    assert dict(named[:6]) == {"started": False, "within": False, "innermost": False}
    assert named[6:] == [("behind", True), ("behind", True), ("behind", False), ("behind", False)]


def test_tasks_record_in_the_service_that_created_them(directory: Path, tmp_path: Path) -> None:
    async def serve(name: str) -> None:
        with service_record.service(name, directory=directory):
            await asyncio.gather(work("first"), work("second"))

    async def work(stage: str) -> None:
        with service_record.stage(stage):
            await asyncio.sleep(0.001)

    async def both() -> None:
        await asyncio.gather(serve("one"), serve("two"))

    asyncio.run(both())

    for service in ("one", "two"):
        assert sorted(summarize_entries(read_entries(tmp_path, service))[1:-1]) == [
            "stage end first success",
            "stage end second success",
            "stage start first",
            "stage start second",
        ]


def test_cancelled_stage_is_stopped(directory: Path, tmp_path: Path) -> None:
    async def wait() -> None:
        with service_record.stage("wait"):
            await asyncio.sleep(60)

    async def give_up() -> None:
        with service_record.service("job", directory=directory), suppress(TimeoutError):
            await asyncio.wait_for(wait(), timeout=0.01)

    asyncio.run(give_up())
    stage_end, service_end = read_entries(tmp_path)[2:]

    assert stage_end.result is Result.FAILURE
    assert stage_end.stop_request == "cancel"
    assert end_outcome(stage_end) is Outcome.STOPPED
    assert service_end.result is Result.SUCCESS


def test_orderly_stop_of_asyncio_is_stopped(tmp_path: Path) -> None:
    done = run_program(
        tmp_path,
        """
        import asyncio
        async def main():
            task = asyncio.current_task()
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
            with service_record.service(), service_record.stage("serve"):
                os.kill(os.getpid(), signal.SIGTERM)
                await asyncio.sleep(60)
        try:
            asyncio.run(main())
        except asyncio.CancelledError:
            sys.exit(0)
        """,
    )
    (service,) = build_history([("job", read_entries(tmp_path))]).services

    assert done.returncode == 0
    assert service.runs[0].outcome is Outcome.STOPPED
    assert service.runs[0].stages[0].outcome is Outcome.STOPPED


def test_generator_closed_early_is_stopped(directory: Path, tmp_path: Path) -> None:
    @service_record.stage("lines")
    def read_lines() -> Iterator[str]:
        yield from ("first", "second")

    with service_record.service("job", directory=directory):
        lines = read_lines()
        next(lines)
        lines.close()  # type: ignore[attr-defined]  # a generator

    assert [entry.stop_request for entry in read_entries(tmp_path)] == [None, None, "cancel", None]


def test_forked_child_records_only_its_own_stages(tmp_path: Path) -> None:
    run_program(
        tmp_path,
        """
        with service_record.service(), service_record.stage("parent"):
            child = os.fork()
            if child == 0:
                with service_record.stage("child"):
                    pass
                sys.exit(9)
            os.waitpid(child, 0)
        """,
    )
    entries = read_entries(tmp_path)

    assert summarize_entries(entries) == [
        *("service start", "stage start parent", "stage start child", "stage end child success"),
        *("stage end parent success", "service end success"),
    ]
    assert len({entry.pid for entry in entries}) == 1
