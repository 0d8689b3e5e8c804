"""What systemd logs about units: read from a journal, joined with their properties, and told."""

from datetime import timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from service_record.diagnosis.causes import Causes
from service_record.diagnosis.evidence.error_lines import telling_line
from service_record.diagnosis.evidence.log_lines import Era, LogStream, log_line
from service_record.diagnosis.evidence.unit_logs import Hindrance, UnitLog, read_logs
from service_record.diagnosis.findings import Stopped
from service_record.diagnosis.judgement import judge
from service_record.diagnosis.units import Unit, add_logs, find_chain_to_root
from service_record.display.sentences import stopped_sentence, trouble_sentence
from service_record.history import History
from service_record.history.outcome import Facts
from service_record.record.entry import Phase, Result
from tests.builders import START, entry, require, write_lines
from tests.command_line import service_record
from tests.diagnosis.test_diagnosis import history

JOURNAL = LogStream("journals/journal.log", "journal")


def read(*messages: str) -> dict[str, UnitLog]:
    """Read messages: of systemd, or with the name of their program in front."""
    lines = [line if line.startswith("(") else f"systemd[1]: {line}" for line in messages]
    raw = [f"2026-11-28T09:00:{number:02}+00:00 host {line}" for number, line in enumerate(lines)]
    return read_logs(log_line(JOURNAL, number, line.encode(), Era()) for number, line in enumerate(raw, 1))


def test_unit_of_a_user_is_not_the_hosts() -> None:
    texts = (
        "systemd[900]: a.service: Failed to execute command: No such file or directory",
        "systemd[900]: a.service: Failed with result 'exit-code'.",
        "systemd[77]: b.service: Failed to execute command: No such file or directory",
        "systemd[1]: b.service: Failed with result 'exit-code'.",
    )
    raw = (f"2026-11-28T09:00:{number:02}+00:00 host {text}" for number, text in enumerate(texts))
    logs = read_logs(log_line(JOURNAL, number, line.encode(), Era()) for number, line in enumerate(raw, 1))
    assert logs.keys() == {"b.service"}
    assert logs["b.service"].spawn_error


@pytest.mark.parametrize(
    ("message", "hindrance", "detail"),
    [
        ("Dependency failed for a.service.", Hindrance.DEPENDENCY, ""),
        ("Dependency failed for a.service - The job.", Hindrance.DEPENDENCY, ""),
        ("a.service: Job a.service/start failed with result 'dependency'.", Hindrance.DEPENDENCY, ""),
        ("Assertion failed for a.service - The job.", Hindrance.ASSERTION, ""),
        ("a.service: Starting requested but asserts failed.", Hindrance.ASSERTION, ""),
        (
            "a.service - A job was skipped because of an unmet condition check (ConditionHost=!x (y)).",
            Hindrance.CONDITION,
            "ConditionHost=!x (y)",
        ),
        ("Condition check resulted in a.service - A job being skipped.", Hindrance.CONDITION, ""),
        ("a.service: Skipped due to 'exec-condition'.", Hindrance.CONDITION, "exec-condition"),
        (
            "a.service: Service lacks both ExecStart= and ExecStop= setting. Refusing.",
            Hindrance.UNLOADABLE,
            None,
        ),
        ("a.service: Job a.service/start timed out.", Hindrance.TIMED_OUT, ""),
    ],
)
def test_message_of_systemd_is_read(message: str, hindrance: Hindrance, detail: str | None) -> None:
    log = read(message)["a.service"]
    assert log.hindrance is hindrance
    assert detail is None or log.detail == detail


@pytest.mark.parametrize(
    ("inactive", "detail"),
    [
        ("idle.service is inactive.", "idle.service"),
        ("idle.service - The idle job is inactive.", "idle.service"),
        ("The idle job is inactive.", "The idle job"),
    ],
)
def test_inactive_requisite_is_named_for_the_next_unit(inactive: str, detail: str) -> None:
    logs = read(
        "Dependency failed for earlier.service.",
        inactive,
        "Dependency failed for The job.",
        "a.service: Job a.service/start failed with result 'dependency'.",
        "Dependency failed for b.service.",  # it may require a.service
        "b.service: Job b.service/start failed with result 'dependency'.",
    )
    assert {unit: log.detail for unit, log in logs.items()} == {
        "earlier.service": "",
        "a.service": detail,
        "b.service": "",
    }


def test_inactive_unit_is_no_reason_after_another_message() -> None:
    logs = read(
        "idle.service is inactive.",
        "Starting other.service - Another job...",
        "Dependency failed for a.service.",
    )
    assert logs["a.service"].detail == ""


@pytest.mark.parametrize(
    "later",
    [
        "Starting a.service - The job...",
        "Started a.service.",
        "a.service: Deactivated successfully.",
        "a.service: Succeeded.",
        "systemd 252.39 running in system mode (+PAM)",
    ],
)
def test_later_start_or_boot_forgets_a_fault(later: str) -> None:
    assert read("Dependency failed for a.service.", later) == {}
    if "a.service" in later:
        other = later.replace("a.service", "b.service")
        assert "a.service" in read("Dependency failed for a.service.", other)


def test_line_of_the_unit_file_is_the_reason() -> None:
    lines = (
        "/etc/systemd/system/a.service:2: Unknown key 'Bogus' in section [Service], ignoring.",
        "/etc/systemd/system/a.service:3: Neither a valid executable name nor an absolute path: bin/x",
        "a.service: Unit configuration has fatal error, unit will not be started.",
    )
    assert read(*lines)["a.service"].detail == (
        "Unit configuration has fatal error; "
        "/etc/systemd/system/a.service:3: Neither a valid executable name nor an absolute path: bin/x"
    )


def test_spawn_error_is_kept_over_a_start() -> None:
    log = read(
        "(job)[7]: a.service: Changing to the requested working directory failed: No such file or directory",
        "(job)[7]: a.service: Failed at step CHDIR spawning /bin/job: No such file or directory",
        "Started a.service.",
        "a.service: Main process exited, code=exited, status=200/CHDIR",
        "a.service: Failed with result 'exit-code'.",
    )["a.service"]
    assert (log.exit_code, log.result) == (200, "exit-code")
    assert log.spawn_error.startswith("Changing to the requested working directory failed")


def test_failed_task_after_the_end_is_no_reason() -> None:
    reason = "Failed to load environment files: No such file or directory"
    lines = ("start", "stop-post")
    messages = [
        message
        for task in lines
        for message in (f"a.service: {reason}", f"a.service: Failed to run '{task}' task: No such file")
    ]
    log = read(*messages, "a.service: Failed with result 'resources'.")["a.service"]
    assert (log.spawn_error, telling_line("\n".join(messages))) == (reason, f"a.service: {reason}")
    assert telling_line(messages[-1]) is None


def test_first_failure_of_a_unit_is_its_exit() -> None:
    log = read(
        "a.service: Main process exited, code=killed, status=9/KILL",
        "a.service: Control process exited, code=exited, status=1/FAILURE",
    )["a.service"]
    assert (log.signal, log.exit_code) == ("KILL", None)


def test_dependency_is_followed_to_its_root() -> None:
    third = Unit(name="third.service", requires=frozenset({"second.service", "fine.service"}))
    units = {
        "second.service": Unit(
            name="second.service",
            requires=frozenset({"first.mount", "third.service"}),
            log=UnitLog(hindrance=Hindrance.DEPENDENCY),
        ),
        "first.mount": Unit(name="first.mount", is_failed=True),
        "fine.service": Unit(name="fine.service", is_active=True),
    }
    assert [unit.name for unit in find_chain_to_root(third, units)] == ["second.service", "first.mount"]
    circle = units | {"first.mount": Unit(name="first.mount"), "third.service": third}
    assert [unit.name for unit in find_chain_to_root(third, circle)] == ["second.service"]


def test_corrected_unit_file_is_not_a_fault() -> None:
    logs = {"a.service": UnitLog(hindrance=Hindrance.UNLOADABLE)}
    assert add_logs((), logs)[0].hindrance is Hindrance.UNLOADABLE
    assert add_logs([Unit(name="a.service", load_state="loaded")], logs)[0].hindrance is None


def test_only_faults_add_an_unnamed_unit() -> None:
    logs = {
        "a.service": UnitLog(hindrance=Hindrance.CONDITION),
        "b.service": UnitLog(result="exit-code", exit_code=3),
        "c.mount": UnitLog(hindrance=Hindrance.DEPENDENCY),
    }
    assert [unit.name for unit in add_logs((), logs)] == ["c.mount"]
    named = {unit.name: unit for unit in add_logs((), logs, named=["a", "b"])}
    assert set(named) == {"a.service", "b.service", "c.mount"}
    assert (named["b.service"].is_failed, named["b.service"].facts.exit_code) == (True, 3)


def stopped(ended: float) -> History:
    end = entry(Phase.SERVICE_END, ended, result=Result.FAILURE, signal="TERM", service_result="success")
    return history(app=[entry(), end])


@pytest.mark.parametrize(("partner_ended", "is_reason"), [(9.9, True), (-5.0, False), (20.0, False)])
def test_stop_names_the_partner_that_ended_before(partner_ended: float, is_reason: bool) -> None:
    app = Unit(name="app.service", bound_to=frozenset({"disk.mount"}))
    disk = Unit(
        name="disk.mount",
        is_failed=True,
        facts=Facts(exit_code=4, service_result="exit-code"),
        since=START + timedelta(seconds=partner_ended),
    )
    diagnosis = require(judge(stopped(10), Causes(()), [app, disk]).diagnosis)
    (one,) = diagnosis.stopped
    assert isinstance(one, Stopped)
    assert ("because it is bound to disk.mount, which failed: exit 4" in stopped_sentence(one)) is is_reason


@pytest.mark.parametrize(
    ("message", "journal", "says"),
    [
        ("flood 65", "Suppressed 235 messages from app.service", "exit 3; the journal dropped 235 messages"),
        ("flood 65", "Suppressed 235 messages from /system.slice/app.service", "exit 3; the journal dropped"),
        ("flood 65", "Suppressed 235 messages from other.service", "flood 65"),
        ("Error: no such disk", "Suppressed 235 messages from app.service", "Error: no such disk"),
    ],
)
def test_headline_is_not_from_a_suppressed_flood(message: str, journal: str, says: str) -> None:
    failure: dict[str, Any] = {"result": Result.FAILURE, "exit_code": 3, "service_result": "exit-code"}
    end = entry(Phase.SERVICE_END, 5, error_message=message, **failure)
    line = f"2026-11-21T01:05:04+00:00 host systemd-journald[5]: {journal}\n".encode()
    files = [("journals/journal.log", BytesIO(line).read)]
    diagnosis = require(judge(history(app=[entry(), end]), Causes(()), files=files).diagnosis)
    assert trouble_sentence(require(diagnosis.root)).startswith(f"failed: app: {says}")


MESSAGES = """\
0 systemd[1]: disk.mount: Mount process exited, code=exited, status=32/n/a
0 systemd[1]: disk.mount: Failed with result 'exit-code'.
0 systemd[1]: Dependency failed for app.service - The application.
0 systemd[1]: app.service: Job app.service/start failed with result 'dependency'.
1 systemd[1]: quiet.service was skipped because of an unmet condition check (ConditionPathExists=/x).
2 systemd[1]: Started worker.service.
3 worker[9]: Error: the queue is gone
3 systemd[1]: worker.service: Main process exited, code=exited, status=3/NOTIMPLEMENTED
3 systemd[1]: worker.service: Failed with result 'exit-code'.
"""


@pytest.mark.parametrize(
    ("names", "first_line", "status"),
    [
        ((), "✗ failed: app did not start: a unit that it requires is not active", 1),
        (("app",), "✗ failed: app did not start: a unit that it requires is not active", 1),
        (
            ("quiet",),
            "■ stopped: quiet did not start: a condition of its unit is not met (ConditionPathExists=/x)",
            0,
        ),
        (
            ("worker",),
            "✗ failed: worker.service: exit 3: Error: the queue is gone; nothing is recorded of it",
            1,
        ),
    ],
)
def test_bundle_answers_from_its_journal(
    tmp_path: Path, names: tuple[str, ...], first_line: str, status: int
) -> None:
    for folder in ("services", "journals"):
        (tmp_path / "b/bootstrap" / folder).mkdir(parents=True)
    write_lines(tmp_path / "b/bootstrap/services/web.json", entry(), entry(Phase.SERVICE_END, 5))
    lines = (line.partition(" ")[::2] for line in MESSAGES.splitlines())
    journal = "".join(f"2026-11-21T01:05:0{second}+00:00 host {text}\n" for second, text in lines)
    (tmp_path / "b/bootstrap/journals/journal.log").write_text(journal)
    answer = service_record("analyze", *names, "--from", tmp_path / "b", COLUMNS="300")
    assert (answer.out.splitlines()[0], answer.status) == (first_line, status)
    if names:
        shown = service_record("show", *names, "--from", tmp_path / "b", COLUMNS="300")
        assert first_line.partition(": ")[2] in shown.out
    unknown = service_record("analyze", "other", "--from", tmp_path / "b")
    assert (unknown.status, "no record of other" in unknown.err) == (3, True)


def test_fault_is_not_listed_for_another_boot_or_period(tmp_path: Path) -> None:
    for folder in ("services", "journals"):
        (tmp_path / "b/bootstrap" / folder).mkdir(parents=True)
    runs = [
        each
        for boot in ("a" * 32, "b" * 32)
        for each in (entry(boot_id=boot), entry(Phase.SERVICE_END, 5, boot_id=boot))
    ]
    write_lines(tmp_path / "b/bootstrap/services/web.json", *runs)
    journal = "2026-11-21T01:05:00+00:00 host systemd[1]: Dependency failed for app.service.\n"
    (tmp_path / "b/bootstrap/journals/journal.log").write_text(journal)
    for options, is_listed in (((), True), (("--boot", "0"), True), (("--boot", "-1"), False)):
        answer = service_record("analyze", *options, "--from", tmp_path / "b")
        assert ("app did not start" in answer.out) is is_listed, options
    for period in (("--since", "2026-11-21T01:00:00Z"), ("--until", "2027-01-01T00:00:00Z")):
        assert "app did not start" not in service_record("analyze", *period, "--from", tmp_path / "b").out
