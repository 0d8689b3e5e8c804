"""The functions of the library: the run, command or stage that each of them records."""

import subprocess
import sys
from pathlib import Path

import pytest

import service_record
from service_record import Failure
from service_record.history import build_history
from service_record.history.outcome import Outcome
from tests.programs import REPOSITORY, environment, read_entries, run_program, summarize_entries


def test_child_program_records_stages_of_its_service(tmp_path: Path) -> None:
    done = run_program(tmp_path, "\nwith service_record.stage('helper'):\n    pass\n")

    assert done.stderr == ""
    assert summarize_entries(read_entries(tmp_path)) == ["stage start helper", "stage end helper success"]


def test_stage_outside_a_service_is_recorded_with_a_complaint(tmp_path: Path) -> None:
    done = run_program(tmp_path, "\nwith service_record.stage('alone'):\n    pass\n", SERVICE_NAME="")

    assert done.stderr.count("\n") == 1
    assert "stage 'alone' is outside any service" in done.stderr
    assert len(read_entries(tmp_path)) == 2


@pytest.mark.parametrize(
    ("variable", "kind"), [("PRE_COMMAND", "pre-command"), ("POST_COMMAND", "post-command")]
)
def test_service_with_a_command_variable_is_that_command(tmp_path: Path, variable: str, kind: str) -> None:
    run_program(
        tmp_path,
        "\nwith service_record.service(), service_record.stage('first'):\n    pass\n",
        **{variable: "pull"},
    )

    assert summarize_entries(read_entries(tmp_path)) == [
        f"{kind} start pull",
        "stage start pull first",
        "stage end pull first success",
        f"{kind} end pull success",
    ]


def test_commands_are_recorded_in_a_service_and_alone(tmp_path: Path) -> None:
    run_program(
        tmp_path,
        """
        with service_record.service(), service_record.pre_command("pull"), service_record.stage("layers"):
            pass
        with service_record.post_command("tidy"):
            pass
        """,
    )

    assert summarize_entries(read_entries(tmp_path)) == [
        *("service start", "pre-command start pull", "stage start pull layers"),
        *("stage end pull layers success", "pre-command end pull success", "service end success"),
        *("post-command start tidy", "post-command end tidy success"),
    ]


def test_plain_functions_record_entries(tmp_path: Path) -> None:
    run_program(
        tmp_path,
        """
        service_record.start_service()
        service_record.start_stage("first")
        service_record.end_stage()
        service_record.start_stage("second")
        service_record.end_stage("the API does not answer")
        service_record.end_service()
        """,
    )
    entries = read_entries(tmp_path)

    assert summarize_entries(entries) == [
        *("service start", "stage start first", "stage end first success", "stage start second"),
        *("stage end second failure", "service end success"),
    ]
    assert entries[4].error_message == "the API does not answer"
    assert entries[4].error_line == f"6 main {tmp_path / 'job.py'}"


def test_failure_with_details_is_recorded(tmp_path: Path) -> None:
    run = service_record.start_service("job", directory=tmp_path / "records")
    run.stage("first").start()
    run.end(Failure(message="podman failed", exit_code=125))
    entries = read_entries(tmp_path)

    assert summarize_entries(entries)[2:] == ["stage end first failure", "service end failure"]
    assert [(end.error_message, end.exit_code) for end in entries[2:]] == [("podman failed", 125)] * 2


@pytest.mark.parametrize(
    ("cause", "result", "exit_code", "message"),
    [
        ("5", "failure", 5, None),
        ("0", "success", None, None),
        ("2**70", "failure", 255, None),
        ("ValueError", "failure", None, "ValueError"),
        ("ValueError('no disk')", "failure", None, "ValueError: no disk"),
        ("object()", "failure", None, "object"),
        ("True", "failure", None, "bool"),
        ("sys.exc_info", "failure", None, "builtin_function_or_method"),
    ],
)
def test_end_is_recorded_whatever_the_cause(
    tmp_path: Path, cause: str, result: str, exit_code: int | None, message: str | None
) -> None:
    done = run_program(tmp_path, f"\nservice_record.start_service()\nservice_record.end_service({cause})\n")
    end = read_entries(tmp_path)[-1]

    assert done.returncode == 0
    assert (end.phase, end.result) == ("service end", result)
    assert (end.exit_code, end.error_message) == (exit_code, message)
    if result == "failure" and "'" not in cause:
        assert end.error_line == f"3 main {tmp_path / 'job.py'}"


def test_uncaught_exception_fails_the_started_service(tmp_path: Path) -> None:
    done = run_program(
        tmp_path, "\nservice_record.start_service()\nservice_record.start_stage('first')\n1 / 0\n"
    )

    assert summarize_entries(read_entries(tmp_path))[2:] == ["stage end first failure", "service end failure"]
    assert "ZeroDivisionError" in done.stderr.splitlines()[-1]
    assert "service-record" not in done.stderr


@pytest.mark.parametrize(
    ("last", "status"),
    [
        ("pass", 0),
        ("sys.exit()", 0),
        ("sys.exit(3)", 3),
        ("raise SystemExit('no disk')", 1),
        ("try: sys.exit(3)\nexcept SystemExit as error: sys.exit(error.code + 1)", 4),
        ("threading.Thread(target=sys.exit, args=(3,)).start()", 0),
        ("code.InteractiveInterpreter().runsource('1 / 0')", 0),
    ],
)
def test_end_without_end_service_has_no_result(tmp_path: Path, last: str, status: int) -> None:
    done = run_program(
        tmp_path,
        f"\nimport code\nservice_record.start_service()\nservice_record.start_stage('first')\n{last}\n",
    )
    (run,) = build_history([("job", read_entries(tmp_path))]).services[0].runs

    assert done.returncode == status
    assert done.stderr.splitlines()[-1].startswith("service-record: the service was started and never ended")
    assert summarize_entries(read_entries(tmp_path))[2:] == ["service end"]
    assert (run.outcome, run.in_stage) == (Outcome.INTERRUPTED, "first")


@pytest.mark.parametrize(
    ("status", "systemd", "outcome"),
    [("0", "success", Outcome.SUCCESS), ("3", "exit-code", Outcome.FAILURE)],
    ids=["success", "failure"],
)
def test_exit_helper_adds_the_unknown_result(
    tmp_path: Path, status: str, systemd: str, outcome: Outcome
) -> None:
    source = f"\nservice_record.start_service()\nservice_record.start_stage('first')\nsys.exit({status})\n"
    run_program(tmp_path, source, INVOCATION_ID="ab" * 16)
    ended = {"SERVICE_RESULT": systemd, "EXIT_CODE": "exited", "EXIT_STATUS": status}
    subprocess.run(
        [REPOSITORY / "shell" / "service-record-exit.sh"],
        env=environment(tmp_path, INVOCATION_ID="ab" * 16, **ended),
        check=True,
    )
    (run,) = build_history([("job", read_entries(tmp_path))]).services[0].runs

    assert (run.outcome, run.facts.exit_code) == (outcome, int(status))
    assert [stage.outcome for stage in run.stages] == [outcome]


def test_exit_helper_does_not_take_attributes_for_members(tmp_path: Path) -> None:
    run_program(
        tmp_path,
        """
        import os, signal
        with service_record.service():
            with service_record.stage("pull", layers=1, exitCode=3):
                pass
            with service_record.stage("push", layers=1, parent="x", stageId="y", preCommand="z"):
                os.kill(os.getpid(), signal.SIGKILL)
        """,
        INVOCATION_ID="ab" * 16,
    )
    ended = {"SERVICE_RESULT": "signal", "EXIT_CODE": "killed", "EXIT_STATUS": "KILL"}
    subprocess.run(
        [REPOSITORY / "shell" / "service-record-exit.sh"],
        env=environment(tmp_path, INVOCATION_ID="ab" * 16, **ended),
        check=True,
    )

    entries = [entry.to_json() for entry in read_entries(tmp_path)]
    start = next(entry for entry in entries if entry["phase"] == "stage start" and entry["stage"] == "push")
    end = next(entry for entry in entries if entry["phase"] == "stage end" and entry["stage"] == "push")
    assert (end["stageId"], end.get("parent")) == (start["stageId"], None)


def test_started_service_leaves_exits_alone(tmp_path: Path) -> None:
    done = run_program(
        tmp_path,
        """
        before = sys.exit, sys.excepthook, sys.unraisablehook, threading.excepthook
        service_record.start_service()
        print(before == (sys.exit, sys.excepthook, sys.unraisablehook, threading.excepthook))
        try:
            sys.exit(3)
        except SystemExit as error:
            print(type(error) is SystemExit)
        service_record.end_service()
        """,
    )

    assert done.stdout == "True\nTrue\n", done.stderr
    assert summarize_entries(read_entries(tmp_path)) == ["service start", "service end success"]


@pytest.mark.parametrize(
    ("misuse", "message"),
    [
        ("service_record.end_stage()", "no stage is started, so none can end"),
        ("service_record.stage('first').end()", "stage 'first' is not started, or has ended already"),
        ("with run: pass", "the service is started already"),
        (
            "with run, run: pass\nrun = service_record.start_service('job')\nrun.stage('first').start()",
            "the service is started already",
        ),
        ("with run, run: pass", "the service is started already"),
        ("run.stage(object()).start().end()", "a stage needs a name; this one is recorded as 'unnamed'"),
        ("service_record.stage('').start().end()", "a stage needs a name; this one is recorded as 'unnamed'"),
        ("run.end(); service_record.end_service(); run.start()", "no service is started, so none can end"),
    ],
    ids=[
        *("end-without-stage", "end-without-start", "start-twice", "start-again", "start-three-times"),
        *("a-thing-for-a-name", "no-name", "end-without-service"),
    ],
)
def test_misuse_prints_one_line(tmp_path: Path, misuse: str, message: str) -> None:
    done = run_program(
        tmp_path, f"\nrun = service_record.start_service()\n{misuse}\nif run.is_open: run.end()\n"
    )

    assert (done.returncode, done.stderr) == (0, f"service-record: {message}\n")
    assert summarize_entries(read_entries(tmp_path))[-1] == "service end success"


@pytest.mark.parametrize(
    ("file", "arguments", "name"),
    [
        ("bootkube.py", ["bootkube.py"], "bootkube"),
        ("bootkube", ["./bootkube"], "bootkube"),
        ("package/__main__.py", ["-m", "package"], "package"),
        ("job.py", ["-c", "import job"], "python"),
    ],
    ids=["script", "without-suffix", "package", "command"],
)
def test_default_name_is_the_program(tmp_path: Path, file: str, arguments: list[str], name: str) -> None:
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text("import service_record\nwith service_record.service():\n    pass\n")
    subprocess.run(
        [sys.executable, *arguments], cwd=tmp_path, env=environment(tmp_path, SERVICE_NAME=""), check=True
    )

    assert summarize_entries(read_entries(tmp_path, name)) == ["service start", "service end success"]


def test_import_loads_all_that_recording_needs(tmp_path: Path) -> None:
    program = """
import sys, service_record
before = set(sys.modules)
with service_record.service("job", directory=sys.argv[1]), service_record.stage("first"):
    pass
try:
    with service_record.service("job", directory=sys.argv[1]):
        raise ValueError
except ValueError:
    pass
print(*sorted(set(sys.modules) - before))
"""
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "records"], capture_output=True, text=True, check=True
    )

    assert done.stdout == "\n"
    assert set(service_record.__all__) <= set(dir(service_record))
