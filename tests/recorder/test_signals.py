"""Exceptions that signal handlers of the service raise in the middle of the recorder."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from service_record import Entry, Records
from tests.programs import REPOSITORY, environment, read_entries, run_program, summarize_entries


def test_each_alarm_reaches_the_service(tmp_path: Path) -> None:
    done = run_program(
        tmp_path,
        """
        has_fired, swallowed = False, 0
        def on_alarm(*_):
            global has_fired
            has_fired = True
            raise TimeoutError
        signal.signal(signal.SIGALRM, on_alarm)
        with service_record.service():
            for number in range(100):
                has_fired = False
                try:
                    signal.setitimer(signal.ITIMER_REAL, 0.001 + number / 1e6)
                    while not has_fired:
                        with service_record.stage("work"):
                            pass
                    swallowed += 1
                except TimeoutError:
                    pass
        print(swallowed)
        """,
    )

    assert (done.stdout, done.stderr) == ("0\n", "")
    assert summarize_entries(read_entries(tmp_path))[-1] == "service end success"


def test_deadline_ends_the_wait_for_the_journal(tmp_path: Path) -> None:
    journalctl = tmp_path / "journalctl"
    journalctl.write_text("#!/bin/sh\nexec sleep 60\n")
    journalctl.chmod(0o755)
    begun = time.monotonic()
    done = run_program(
        tmp_path,
        """
        def on_alarm(number, frame):
            raise TimeoutError("the service's own deadline")
        signal.signal(signal.SIGALRM, on_alarm)
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with service_record.service():
            try:
                with service_record.stage("first"):
                    raise ValueError("first attempt")
            except ValueError:
                threading.Event().wait(60)
        """,
        PATH=f"{tmp_path}:{os.environ['PATH']}",
        INVOCATION_ID="ab" * 16,
    )

    assert done.stderr.splitlines()[-1] == "TimeoutError: the service's own deadline"
    assert time.monotonic() - begun < 30
    assert summarize_entries(read_entries(tmp_path)) == [
        *("service start", "stage start first", "stage end first failure", "service end failure")
    ]
    assert read_entries(tmp_path)[2].error_line == f"9 main {tmp_path / 'job.py'}"


@pytest.mark.parametrize("layout", ["lines", pytest.param("array", marks=pytest.mark.slow)])
@pytest.mark.parametrize("fails", ["fails", pytest.param("succeeds", marks=pytest.mark.slow)])
@pytest.mark.parametrize("place", ["stage", pytest.param("service", marks=pytest.mark.slow)])
def test_interruption_at_any_point_leaves_the_recorder_whole(
    tmp_path: Path, layout: str, fails: str, place: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.interruptions", place, fails, str(tmp_path)],
        env=environment(tmp_path, SERVICE_RECORDS_LAYOUT=layout),
        cwd=REPOSITORY,
        check=True,
        capture_output=True,
        text=True,
    )
    results = [json.loads(line) for line in done.stdout.splitlines()]
    if not results:
        pytest.skip("this Python traces no instructions")  # 3.12 does so only from 3.12.4 on

    for number, result in enumerate(results):
        assert (result["reached"], result["leaks"]) == (1, False), result
        if result["where"].startswith("begin of __exit__"):
            # A handler that raises at the first instruction of `__exit__`, before its `try`, skips the rest
            # of it (CPython issue 74174). The part stays open then, until its run or the process ends.
            continue
        assert result["current"] == "None", result
        assert result["exported"] is False, result
        read_record_of_interrupted(tmp_path / str(number), place, str(result))


def read_record_of_interrupted(directory: Path, place: str, context: str) -> None:
    """Check that what is recorded is true: all that started has ended, once, and nothing is lost."""
    if "job" not in Records(directory).services():
        assert place == "service", context
        return
    entries = [piece for piece in Records(directory).read("job") if isinstance(piece, Entry)]
    summary = summarize_entries(entries)
    if not summary and place == "service":
        return
    assert [each for each in summary if each.startswith("service")][1:] in (
        ["service end success"],
        ["service end failure"],
    ), context
    starts = sorted(each.removeprefix("stage start ") for each in summary if each.startswith("stage start"))
    ends = sorted(each.split()[2] for each in summary if each.startswith("stage end"))
    assert starts == ends, context
    assert not any(entry.dropped for entry in entries), context
    if place == "stage":
        assert summary[-3:] == ["stage start after", "stage end after success", "service end success"], (
            context
        )
        assert entries[-3].parent is None, context


def test_interrupt_key_is_not_swallowed(tmp_path: Path) -> None:
    done = run_program(
        tmp_path,
        """
        class Slow(Exception):
            def __str__(self):
                raise KeyboardInterrupt
        try:
            with service_record.service(), service_record.stage("first"):
                raise Slow
        except Slow:
            os.kill(os.getpid(), signal.SIGINT)
        """,
    )

    assert done.returncode == -signal.SIGINT
    assert len(read_entries(tmp_path)) == 4


@pytest.mark.parametrize("error", ["SystemExit(3)", "KeyboardInterrupt", "ValueError"])
def test_text_of_an_exception_may_raise_anything(tmp_path: Path, error: str) -> None:
    done = run_program(
        tmp_path,
        f"""
        class Mute(Exception):
            def __str__(self):
                raise {error}
        try:
            with service_record.service(), service_record.stage("first"):
                raise Mute
        except Mute:
            sys.exit(7)
        """,
    )

    assert done.returncode == 7
    entries = read_entries(tmp_path)
    assert summarize_entries(entries)[2:] == ["stage end first failure", "service end failure"]
    assert entries[-1].error_line == f"7 main {tmp_path / 'job.py'}"


def test_replaced_open_that_fails_is_not_the_services_trouble(tmp_path: Path) -> None:
    """As when a library for green threads replaces functions of `os`."""
    done = run_program(
        tmp_path,
        """
        def refuse(path, *_):
            raise PermissionError(path)
        os.open = refuse
        with service_record.service(), service_record.stage("first"):
            pass
        print("done")
        """,
    )

    assert (done.returncode, done.stdout) == (0, "done\n")


@pytest.mark.slow
def test_complaint_at_shutdown_does_not_abort(tmp_path: Path) -> None:
    """A daemon thread that writes to `sys.stderr` while the interpreter shuts down would."""
    source = """
        def beat():
            while True:
                with service_record.stage("tick"):
                    pass
        with service_record.service():
            for _ in range(20):
                threading.Thread(target=beat, daemon=True).start()
            threading.Event().wait(0.02)
        """
    assert {run_program(tmp_path, source).returncode for _ in range(15)} == {0}


def test_complaint_does_not_use_a_stream_of_the_service(tmp_path: Path) -> None:
    done = run_program(
        tmp_path,
        """
        class Stream:
            def write(self, text):
                os._exit(9)
            def flush(self):
                pass
        sys.stderr = Stream()
        service_record.end_stage()
        """,
    )

    assert (done.returncode, done.stderr) == (0, "service-record: no stage is started, so none can end\n")
