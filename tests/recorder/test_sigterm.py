"""SIGTERM, for services that ask to have it recorded and for those that do not."""

import signal
import subprocess
from pathlib import Path

import pytest

from tests.programs import REPOSITORY, read_entries, run_program, summarize_entries

TERMINATE_ITSELF = "os.kill(os.getpid(), signal.SIGTERM)"
STARTED = ["service start", "stage start wait"]


def run_terminated(directory: Path, arguments: str, before: str = "") -> subprocess.CompletedProcess[str]:
    return run_program(
        directory,
        f"""
        {before}
        with service_record.service({arguments}):
            with service_record.stage("wait"):
                {TERMINATE_ITSELF}
                signal.pause()
        """,
    )


def test_sigterm_is_untouched_by_default(tmp_path: Path) -> None:
    done = run_terminated(tmp_path, "")

    assert done.returncode == -signal.SIGTERM
    assert summarize_entries(read_entries(tmp_path)) == STARTED


def test_sigterm_is_recorded_and_kills(tmp_path: Path) -> None:
    done = run_terminated(tmp_path, "record_sigterm=True")
    stage_end, service_end = read_entries(tmp_path)[2:]

    assert done.returncode == -signal.SIGTERM
    assert summarize_entries([stage_end, service_end]) == ["stage end wait failure", "service end failure"]
    assert stage_end.signal == service_end.signal == "TERM"
    assert service_end.error_line == f"5 main {tmp_path / 'job.py'}"
    assert service_end.command == TERMINATE_ITSELF


@pytest.mark.parametrize(
    ("before", "status"),
    [
        ("signal.signal(signal.SIGTERM, lambda *_: os._exit(7))", 7),
        ("signal.signal(signal.SIGTERM, lambda *_: sys.exit(8))", 8),
    ],
    ids=["that-leaves-at-once", "that-raises"],
)
def test_handler_of_the_service_is_kept(tmp_path: Path, before: str, status: int) -> None:
    assert run_terminated(tmp_path, "record_sigterm=True", before).returncode == status


def test_ignored_sigterm_stays_ignored(tmp_path: Path) -> None:
    done = run_program(
        tmp_path,
        """
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        with service_record.service(record_sigterm=True):
            os.kill(os.getpid(), signal.SIGTERM)
        """,
    )

    assert done.returncode == 0
    assert summarize_entries(read_entries(tmp_path)) == ["service start", "service end success"]


def test_default_handler_is_restored_after_the_service(tmp_path: Path) -> None:
    done = run_program(
        tmp_path,
        """
        with service_record.service(record_sigterm=True):
            during = signal.getsignal(signal.SIGTERM)
        print(callable(during), signal.getsignal(signal.SIGTERM) is signal.SIG_DFL)
        """,
    )

    assert done.stdout == "True True\n"


def test_terminated_child_does_not_end_the_run(tmp_path: Path) -> None:
    done = run_program(
        tmp_path,
        """
        with service_record.service(record_sigterm=True):
            child = os.fork()
            if child == 0:
                os.kill(os.getpid(), signal.SIGTERM)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """,
    )

    assert done.stdout == f"{-signal.SIGTERM}\n"
    assert summarize_entries(read_entries(tmp_path)) == ["service start", "service end success"]


def test_record_sigterm_has_no_effect_in_a_thread(tmp_path: Path) -> None:
    done = run_program(
        tmp_path,
        """
        def serve():
            with service_record.service(record_sigterm=True):
                print(signal.getsignal(signal.SIGTERM) is signal.SIG_DFL)
        thread = threading.Thread(target=serve)
        thread.start()
        thread.join()
        """,
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")


def test_interrupted_library_leaves_line_of_service(tmp_path: Path) -> None:
    library = tmp_path / "site-packages" / "waiting.py"
    library.parent.mkdir()
    library.write_text("import os, signal\ndef wait():\n    os.kill(os.getpid(), 15)\n    signal.pause()\n")
    done = run_program(
        tmp_path,
        """
        import waiting
        def work():
            waiting.wait()
        with service_record.service(record_sigterm=True):
            work()
        """,
        PYTHONPATH=f"{REPOSITORY}:{library.parent}",
    )
    end = read_entries(tmp_path)[-1]

    assert done.returncode == -signal.SIGTERM
    assert end.error_line == f"4 work {tmp_path / 'job.py'}"
    assert end.stack[0].endswith(str(library))
