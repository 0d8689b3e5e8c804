"""Journals become the runs of their units, in every form of journalctl."""

import json
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path

import pytest

from service_record.diagnosis.evidence import journal_runs
from service_record.diagnosis.evidence.journal_runs import read_runs
from service_record.diagnosis.evidence.log_lines import Era
from service_record.history import History, build_history
from service_record.history.critical_chain import critical_chain
from service_record.history.from_journal import merge
from service_record.history.outcome import Outcome, Run
from service_record.read.derived import read_log
from service_record.record.entry import Entry, Phase, Result
from service_record.record.recognition import FileForm, recognise
from tests.command_line import service_record

BOOT = "b" * 32
STARTING = "7d4958e842da4a758f6c1cdc7b36dcc5"
STARTED = "39f53479d3a045ac8e11786248231fbf"
NOT_STARTED = "be02cf6855d2428ba40df7e9d022f03d"
EXITED = "98e322203f7a4ed290d09fe03c09fe15"
FAILED = "d9b373ed55a64feb8242e02dbe79a49c"
TEXT = """\
Nov 21 10:00:00 node kernel: Linux version 6.1.0
Nov 21 10:00:01 node systemd[1]: systemd 252 running in system mode (+PAM)
Nov 21 10:00:02 node systemd[1]: Starting pull.service - Pull the image...
Nov 21 10:00:02 node pull.sh[40]: pulling
Nov 21 10:00:05 node pull.sh[40]: registry: connection refused
Nov 21 10:00:05 node systemd[1]: pull.service: Main process exited, code=exited, status=3/NOTIMPLEMENTED
Nov 21 10:00:05 node systemd[1]: pull.service: Failed with result 'exit-code'.
Nov 21 10:00:05 node systemd[1]: Failed to start pull.service - Pull the image.
Nov 21 10:00:06 node systemd[1]: Started agent.service - The agent.
Nov 21 10:00:06 node systemd[1]: Starting once.service - Once...
Nov 21 10:00:07 node systemd[1]: once.service: Deactivated successfully.
Nov 21 10:00:07 node systemd[1]: Finished once.service - Once.
Nov 21 10:00:08 node systemd[1]: Reached target multi-user.target - Multi-User System.
"""


def read(text: str) -> History:
    """Read a journal as it is in a file."""
    data = text.encode()
    era = Era(last=datetime(2026, 11, 28, tzinfo=UTC))
    records = read_runs(recognise(data[:8192]), BytesIO(data).read, era).records()
    return build_history(records.items())


def runs(history: History, name: str) -> tuple[Run, ...]:
    return next((service.runs for service in history.services if service.name == name), ())


def exported(*entries: dict[str, str]) -> str:
    """Return entries as `journalctl -o export` prints them, each a second after the one before."""
    texts = []
    for number, fields in enumerate(entries):
        whole = {
            "__CURSOR": f"s={number}",
            "__REALTIME_TIMESTAMP": str(1_795_255_200_000_000 + number * 1_000_000),
            "__MONOTONIC_TIMESTAMP": str(1_000_000 + number * 1_000_500),
            "_BOOT_ID": BOOT,
            "SYSLOG_IDENTIFIER": "systemd",
            "_PID": "1",
        } | fields
        texts.append("".join(f"{name}={value}\n" for name, value in whole.items()) + "\n")
    return "".join(texts)


def about(unit: str, text: str, message_id: str = "", **fields: str) -> dict[str, str]:
    return {"MESSAGE": text, "UNIT": unit, "INVOCATION_ID": "1" * 32, "MESSAGE_ID": message_id, **fields}


def own(unit: str, text: str) -> dict[str, str]:
    return {
        "MESSAGE": text,
        "_PID": "70",
        "SYSLOG_IDENTIFIER": "program",
        "_SYSTEMD_UNIT": unit,
        "_SYSTEMD_INVOCATION_ID": "1" * 32,
    }


def test_text_gives_outcomes_and_times() -> None:
    history = read(TEXT)
    (pull,), (agent,), (once,) = (runs(history, name) for name in ("pull", "agent", "once"))
    assert (pull.outcome, pull.duration, pull.facts.exit_code) == (Outcome.FAILURE, 3.0, 3)
    assert pull.facts.service_result == "exit-code"
    assert pull.facts.message == "pulling\nregistry: connection refused"
    assert (pull.facts.location, pull.in_stage) == (None, None)
    assert agent.outcome is Outcome.RUNNING
    assert (once.outcome, once.duration) == (Outcome.SUCCESS, 1.0)
    assert all(run.is_derived for service in history.services for run in service.runs)


def test_description_without_name_is_joined_to_its_unit() -> None:
    text = TEXT.replace("pull.service - Pull the image", "Pull the image")
    (pull,) = runs(read(text), "pull")
    assert (pull.outcome, pull.duration) == (Outcome.FAILURE, 3.0)
    assert pull.facts.message == "pulling\nregistry: connection refused"
    assert not runs(read(text), "Pull the image")


def old_text(*messages: str) -> str:
    """Return messages of systemd 245, which names no unit where it starts or stops, a second apart."""
    lines = ["systemd 245 running in system mode (+PAM)", *messages]
    return "".join(
        f"Nov 21 10:00:{second:02} node systemd[1]: {line}\n" for second, line in enumerate(lines, 1)
    )


def test_impossible_time_is_ignored() -> None:
    (run,) = runs(read("0001-01-01T00:00:00+1400 node systemd[1]: Starting a.service - A...\n" * 3), "a")[-1:]
    assert run.started is None


def test_huge_entry_is_shortened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_runs, "_BLOCK_BYTES", 1 << 10)
    monkeypatch.setattr(journal_runs, "_MAX_ENTRY_BYTES", 1 << 14)
    monkeypatch.setattr(journal_runs, "_SHORTENED_ENTRY_BYTES", 1 << 11)
    parsed: list[int] = []
    monkeypatch.setattr(
        journal_runs, "_read_entries", lambda form, entries, marks: parsed.extend(map(len, entries))
    )
    for length in range(1 << 16, (1 << 16) + 40):
        parsed.clear()
        text = exported(own("a.service", "x" * length), about("a.service", "Starting A...", STARTING))
        read_runs(FileForm.JOURNAL_EXPORT, BytesIO(text.encode()).read, Era())
        assert len(parsed) == 2
        assert max(parsed) <= (1 << 14) + (1 << 10) + 10


def test_impossible_exit_status_is_ignored() -> None:
    text = exported(
        about("a.service", "Starting A...", STARTING),
        about("a.service", "A ended.", EXITED, EXIT_CODE="exited", EXIT_STATUS="9" * 5000),
        about("a.service", "A failed.", FAILED, UNIT_RESULT="exit-code"),
    )
    (run,) = runs(read(text), "a")
    assert (run.outcome, run.facts.exit_code) == (Outcome.FAILURE, None)


def test_failed_stop_ends_the_described_run() -> None:
    text = old_text(
        "Starting The agent...",
        "Started The agent.",
        "Stopping The agent...",
        "agent.service: State 'stop-sigterm' timed out. Killing.",
        "agent.service: Main process exited, code=killed, status=9/KILL",
        "agent.service: Failed with result 'timeout'.",
        "Stopped The agent.",
    )
    (agent,) = runs(read(text), "agent")
    assert (agent.outcome, agent.duration, agent.facts.signal) == (Outcome.FAILURE, 5.0, "KILL")
    assert agent.facts.message == "State 'stop-sigterm' timed out. Killing."
    assert not runs(read(text), "The agent")


def test_systemd_219_names_the_unit_after_its_description() -> None:
    text = old_text(
        "Starting Crash kernel...",
        "kdump.service: main process exited, code=exited, status=1/FAILURE",
        "Failed to start Crash kernel.",
        "Unit kdump.service entered failed state.",
    )
    history = read(text)
    (kdump,) = runs(history, "kdump")
    assert (kdump.outcome, kdump.duration, kdump.facts.exit_code) == (Outcome.FAILURE, 3.0, 1)
    assert len(history.services) == 1


def test_timer_sharing_a_description_is_no_run() -> None:
    text = old_text(
        "Started Daily clean-up.",
        "Starting Daily clean-up...",
        "clean.service: Succeeded.",
        "Finished Daily clean-up.",
        "Started Daily clean-up.",
    )
    (clean,) = runs(read(text), "clean")
    assert (clean.outcome, clean.duration) == (Outcome.SUCCESS, 2.0)


def test_description_of_two_units_names_neither() -> None:
    text = old_text(
        "Starting Worker...",
        "a.service: Failed with result 'exit-code'.",
        "Failed to start Worker.",
        "Starting Worker...",
        "b.service: Failed with result 'exit-code'.",
        "Failed to start Worker.",
        "Starting Worker...",
        "Started Worker.",
    )
    assert [run.outcome for run in runs(read(text), "Worker")] == [Outcome.SUCCESS]


def test_service_that_ends_the_system_succeeds() -> None:
    text = old_text("Reached target Reboot.", "Starting Reboot...", "Shutting down.") + TEXT
    (reboot,) = runs(read(text), "Reboot")
    (target,) = runs(read(text), "Reboot (target)")
    assert (reboot.outcome, reboot.duration, target.outcome) == (Outcome.SUCCESS, 1.0, Outcome.SUCCESS)


def test_systemd_reason_replaces_missing_unit_lines() -> None:
    text = TEXT.replace("pull.sh[40]: pulling", "(pull)[40]: pull.service: Failed at step EXEC: No such file")
    text = text.replace("pull.sh[40]: registry: connection refused", "systemd[1]: a.service: Failed to fork")
    (pull,) = runs(read(text), "pull")
    assert pull.facts.message == "Failed at step EXEC: No such file"


@pytest.mark.parametrize(
    ("line", "year", "recorder"),
    [
        ("kernel: rtc_cmos: setting system clock to 2021-11-21T10:00:00 UTC (1637488800)", 2021, "journal"),
        ("kernel: no clock", 2026, "journal, years assumed"),
        ("kernel: rtc: setting system clock to 2021-13-45T10:00:00 UTC (1)", 2026, "journal, years assumed"),
        ("kernel: rtc: setting system clock to 1970-01-01T00:00:10 UTC (10)", 2026, "journal, years assumed"),
        ("kernel: rtc: setting system clock to 9999-12-31T10:00:00 UTC (1)", 2026, "journal, years assumed"),
    ],
)
def test_year_is_that_of_the_clock(line: str, year: int, recorder: str) -> None:
    text = TEXT.replace("systemd[1]: systemd 252", f"{line}\nNov 21 10:00:01 node systemd[1]: systemd 252", 1)
    era = Era(last=datetime(2026, 11, 28, tzinfo=UTC))
    read_bytes = BytesIO(text.encode()).read
    records = read_runs(recognise(text.encode()), read_bytes, era, is_year_known=False).records()
    first = records["pull"][0]
    assert first.time is not None
    assert (first.time.year, first.recorder) == (year, f"derived/{recorder}")


def failures(*days: str) -> str:
    """Return a journal in which a unit fails on each of these days."""
    return "".join(
        f"{day} 10:00:00 node systemd[1]: job.service: Main process exited, code=exited, status=1/FAILURE\n"
        f"{day} 10:00:00 node systemd[1]: job.service: Failed with result 'exit-code'.\n"
        for day in days
    )


@pytest.mark.parametrize(
    ("days", "expected"),
    [
        (("Dec 10", "Feb 10"), ["2025-12-10", "2026-02-10"]),
        (
            ("Oct 10", "Feb 10", "Jun 10", "Nov 10", "Jan 10", "Jun 10", "Nov 28"),
            [
                "2024-10-10",
                "2025-02-10",
                "2025-06-10",
                "2025-11-10",
                "2026-01-10",
                "2026-06-10",
                "2026-11-28",
            ],
        ),
        (("Mar  1", "Feb 28", "Mar  1"), ["2026-03-01", "2026-02-28", "2026-03-01"]),
        (("Nov 20", "Jan  1", "Nov 21"), ["2026-11-20", "2027-01-01", "2026-11-21"]),
        (("Sep 10", "Feb 28", "Jun 10", "Sep 10", "Feb 28"), ["2024-09-10", "2025-02-28"]),
    ],
    ids=["almost a year", "two years", "clock set back", "clock reset at a boot", "ends in February"],
)
def test_years_count_from_the_end_of_a_journal(days: Sequence[str], expected: list[str]) -> None:
    history = read(failures(*days))
    found = [str(run.ended)[:10] for run in runs(history, "job")]
    assert found[: len(expected)] == expected


@pytest.mark.parametrize(
    ("clock", "day", "expected"),
    [
        ("2020-01-05T10:00:00", "Jun 10", "2020-06-10"),
        ("2020-12-30T10:00:00", "Jan 02", "2021-01-02"),
        ("2020-01-01T02:00:00", "Dec 31", "2019-12-31"),
    ],
)
def test_year_of_a_long_boot_follows_its_clock(clock: str, day: str, expected: str) -> None:
    begin = datetime.fromisoformat(clock).strftime("%b %d %H:%M:%S")
    text = (
        f"{begin} node kernel: rtc: setting system clock to {clock} UTC (1)\n"
        f"{day} 21:00:00 node systemd[1]: Starting a.service - A...\n"
    )
    (run,) = runs(read(text), "a")
    assert run.started is not None
    assert run.started.date().isoformat() == expected


def test_text_without_a_host_is_read() -> None:
    text = TEXT.replace(" node ", " ")
    (pull,) = runs(read(text), "pull")
    assert pull.outcome is Outcome.FAILURE


def test_start_of_old_systemd_is_never_running() -> None:
    """systemd before 246 says `Started` of oneshot services, too."""
    old = TEXT.replace("systemd 252", "systemd 239").replace(" - ", "").split("\n")
    lines = [line.replace("agent.serviceThe agent", "The agent") for line in old if "Finished" not in line]
    (agent,) = runs(read("\n".join(lines)), "The agent")
    assert agent.outcome is Outcome.SUCCESS


@pytest.mark.parametrize("form", ["export", "json"])
def test_fields_decide_where_text_has_no_name(form: str) -> None:
    text = exported(
        about("a.service", "Starting Job...", STARTING),
        own("a.service", "cannot go on"),
        about("a.service", "a.service: Failed with result 'timeout'.", FAILED, UNIT_RESULT="timeout"),
        about("a.service", "Failed to start Job.", NOT_STARTED, JOB_RESULT="failed"),
        about("b.service", "Dependency failed for Other.", NOT_STARTED, JOB_RESULT="dependency"),
    )
    if form == "json":
        entries = [
            dict(line.split("=", 1) for line in each.split("\n")) for each in text.strip().split("\n\n")
        ]
        text = "".join(json.dumps(entry, separators=(",", ":")) + "\n" for entry in entries)
    history = read(text)
    ((a,), (b,)) = runs(history, "a"), runs(history, "b")
    assert (a.outcome, a.facts.service_result, a.facts.message) == (
        Outcome.FAILURE,
        "timeout",
        "cannot go on",
    )
    assert (a.invocation_id, a.boot_id, a.duration) == ("1" * 32, BOOT, 2.001)
    assert (b.facts.service_result, b.started) == ("dependency", None)


def test_line_before_start_message_belongs_to_run() -> None:
    """A process can log before systemd logs that it was started."""
    history = read(
        exported(
            own("a.service", "no space left"),
            about("a.service", "Started a.service.", STARTED),
            about("a.service", "a.service: Failed with result 'exit-code'.", FAILED, UNIT_RESULT="exit-code"),
        )
    )
    (run,) = runs(history, "a")
    assert run.facts.message == "no space left"


def test_time_is_when_the_message_was_sent() -> None:
    text = exported(
        about("a.service", "Starting a.service - A...", STARTING),
        about(
            "a.service",
            "Finished a.service - A.",
            STARTED,
            _SOURCE_REALTIME_TIMESTAMP=str(1_795_255_200_000_000 + 400_000),
        ),
    )
    (run,) = runs(read(text), "a")
    assert run.duration == pytest.approx(0.4, abs=0.01)


def test_empty_line_inside_a_message_ends_no_entry() -> None:
    message = "first\n\n_PID=1\nlast"
    data = b"MESSAGE\n" + len(message).to_bytes(8, "little") + message.encode()
    before, after = (
        exported(about("a.service", "Starting a.service - A...", STARTING), own("a.service", "INSERT"))
        .encode()
        .split(b"MESSAGE=INSERT")
    )
    end = exported(about("a.service", "a.service: Failed with result 'timeout'.", FAILED)).encode()
    whole = before + data + after + end
    records = read_runs(recognise(whole), BytesIO(whole).read, Era()).records()
    (run,) = runs(build_history(records.items()), "a")
    assert run.facts.message == message


def test_skipped_unit_has_no_run() -> None:
    text = "a.service - A was skipped because of an unmet condition check (ConditionPathExists=/x)."
    assert read(exported(about("a.service", text, STARTED))).services == ()


def test_restarts_are_attempts_and_start_limit_is_none() -> None:
    failure = """\
Nov 21 10:00:0{0} node systemd[1]: Started loop.service - Loop.
Nov 21 10:00:0{0} node systemd[1]: loop.service: Main process exited, code=exited, status=1/FAILURE
Nov 21 10:00:0{0} node systemd[1]: loop.service: Failed with result 'exit-code'.
Nov 21 10:00:0{0} node systemd[1]: loop.service: Scheduled restart job, restart counter is at {0}.
"""
    end = """\
Nov 21 10:00:09 node systemd[1]: loop.service: Start request repeated too quickly.
Nov 21 10:00:09 node systemd[1]: loop.service: Failed with result 'exit-code'.
Nov 21 10:00:09 node systemd[1]: Failed to start loop.service - Loop.
"""
    found = runs(read("".join(failure.format(number) for number in range(1, 4)) + end), "loop")
    assert [(run.attempt, run.outcome) for run in found] == [(n, Outcome.FAILURE) for n in (1, 2, 3)]


@pytest.mark.parametrize(("goes_down", "outcome"), [(True, Outcome.STOPPED), (False, Outcome.INTERRUPTED)])
def test_end_of_boot_ends_what_ran(goes_down: bool, outcome: Outcome) -> None:
    stop = "Nov 21 11:00:00 node systemd[1]: Stopped target multi-user.target - Multi-User System.\n"
    later = TEXT.replace("Nov 21", "Nov 22").replace("agent", "other")
    (agent,) = runs(read(TEXT + (stop if goes_down else "") + later), "agent")
    assert agent.outcome is outcome


def test_run_of_another_boot_is_in_that_boot() -> None:
    first, second = "1" * 32, "2" * 32
    later = TEXT.replace("Nov 21", "Nov 22")
    history = read(f"-- Boot {first} --\n{TEXT}-- Boot {second} --\n{later}")
    assert history.boots == (first, second)
    assert [(run.boot_id, run.attempt) for run in runs(history, "pull")] == [(first, 1), (second, 1)]


def test_last_line_without_an_end_is_read() -> None:
    text = TEXT[: TEXT.index("Failed with result 'exit-code'.") + len("Failed with result 'exit-code'.")]
    assert runs(read(text), "pull")[0].outcome is Outcome.FAILURE


def test_runs_beyond_the_limit_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service_record.history.from_journal._MAX_RUNS", 3)
    line = "Nov 21 10:00:{:02} node systemd[1]: {}\n"
    text = "".join(
        line.format(number, "Starting a.service - A...")
        + line.format(number, "a.service: Failed with result 'timeout'.") * (number % 2)
        for number in range(1, 12)
    )
    found = runs(read(text), "a")
    assert found[-1].attempt == 11
    assert len(found) + sum(run.left_out.runs for run in found if run.left_out) == 11
    assert any(run.left_out for run in found)


def test_left_out_runs_are_counted_with_late_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("service_record.history.from_journal._MAX_RUNS", 3)
    lines = ["Starting The job...", "Finished The job."] * 11
    lines += ["Starting The job...", "a.service: Failed with result 'exit-code'.", "Failed to start The job."]
    text = "".join(f"Nov 21 10:00:{number:02} node systemd[1]: {line}\n" for number, line in enumerate(lines))
    found = runs(read(text), "a")
    assert [run.left_out.runs for run in found if run.left_out] == [12 - len(found)]
    assert len(found) < 12


def test_user_manager_is_not_systemd() -> None:
    assert read("Nov 21 10:00:00 node systemd[900]: Started a.service - A.\n" * 3).services == ()


def entry(phase: Phase, invocation: str, second: int, result: Result | None = None) -> Entry:
    return Entry(
        timestamp=f"2026-11-21T10:00:{second:02}.000Z",
        phase=phase,
        invocation_id=invocation,
        result=result,
        boot_id=BOOT,
        pid=7,
    )


def derived(phase: Phase, invocation: str, second: int, result: Result | None = None) -> Entry:
    import msgspec

    return msgspec.structs.replace(
        entry(phase, invocation, second, result), pid=None, recorder="derived/journal"
    )


def test_record_of_an_invocation_wins_over_the_journal() -> None:
    record = [
        entry(Phase.SERVICE_START, "a", 10),
        entry(Phase.SERVICE_END, "a", 20, Result.SUCCESS),
        entry(Phase.SERVICE_START, "b", 30),
    ]
    journal = [
        derived(Phase.SERVICE_START, "first", 1),
        derived(Phase.SERVICE_END, "first", 2, Result.FAILURE),
        derived(Phase.SERVICE_START, "a", 9),
        derived(Phase.SERVICE_END, "a", 21, Result.FAILURE),
        derived(Phase.SERVICE_START, "b", 29),
        derived(Phase.SERVICE_END, "b", 40, Result.FAILURE),
    ]
    found = runs(build_history([("x", merge(record, journal))]), "x")
    assert [(run.invocation_id, run.outcome) for run in found] == [
        ("first", Outcome.FAILURE),
        ("a", Outcome.SUCCESS),
        ("b", Outcome.FAILURE),
    ]


def test_missing_runs_are_merged_in_order_of_time() -> None:
    record = [entry(Phase.SERVICE_START, name, second) for name, second in (("c", 30), ("f", 50), ("e", 40))]
    journal = [
        derived(phase, name, second)
        for name, second in (("a", 10), ("b", 20), ("d", 35), ("g", 59))
        for phase in (Phase.SERVICE_START, Phase.SERVICE_END)
    ]
    merged = merge(record, journal)
    assert [one.invocation_id for one in merged if isinstance(one, Entry)] == [*"aabbcddfegg"]


def test_merge_takes_linear_time() -> None:
    def seconds(count: int) -> float:
        record = [entry(Phase.SERVICE_START, f"open-{n}", n % 60) for n in range(count)]
        missing = [derived(Phase.SERVICE_START, f"missing-{n}", n % 60) for n in range(count)]
        ends = [derived(Phase.SERVICE_END, f"open-{n}", n % 60) for n in range(count)]
        begun = time.process_time()
        merge(record, [*missing, *ends])
        return time.process_time() - begun

    # 10 times as many entries take 100 times as long if the time grows with the square.
    assert seconds(10_000) <= 30 * max(seconds(1_000), 0.002)


def test_chain_goes_back_from_the_target() -> None:
    text = exported(
        about("early.service", "Starting early.service - A...", STARTING),
        about("side.service", "Starting side.service - B...", STARTING),
        about("early.service", "Finished early.service - A.", STARTED),
        about("slow.service", "Starting slow.service - C...", STARTING),
        about("side.service", "Finished side.service - B.", STARTED),
        about("slow.service", "Finished slow.service - C.", STARTED),
        about("multi-user.target", "Reached target multi-user.target - M.", STARTED),
    )
    chain = critical_chain(run for service in read(text).services for run in service.runs)
    assert [link.service for link in chain] == ["early", "slow", "multi-user.target"]


def test_journal_in_whole_seconds_has_no_chain() -> None:
    assert critical_chain(run for service in read(TEXT).services for run in service.runs) == ()


def test_show_and_timeline_read_a_journal(tmp_path: Path) -> None:
    journal = tmp_path / "journal.txt"
    journal.write_text(TEXT)
    shown = service_record("show", "--from", str(journal), "--output", "json")
    document = json.loads(shown.out)
    assert {one["service"]: one["outcome"] for one in document["services"]} == {
        "pull": "failure",
        "agent": "running",
        "once": "success",
        "multi-user.target": "success",
    }
    assert document["services"][0]["runs"][0]["derived"] is True
    drawn = service_record("timeline", "--from", str(journal), "--output", "json")
    assert {row["service"] for row in json.loads(drawn.out)["boots"][0]["rows"]} == {
        one["service"] for one in document["services"]
    }


def test_diff_compares_two_journals(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.txt", tmp_path / "bad.txt"
    failure = ("Main process exited", "Failed with result", "Failed to start")
    lines = [line for line in TEXT.splitlines() if not any(each in line for each in failure)]
    lines.insert(5, "Nov 21 10:00:05 node systemd[1]: Finished pull.service - Pull the image.")
    good.write_text("\n".join(lines) + "\n")
    bad.write_text(TEXT)
    answer = service_record("diff", str(good), str(bad), "--output", "json")
    differing = [one["service"] for one in json.loads(answer.out)["services"] if one.get("differs", True)]
    assert "pull" in differing


def test_text_without_a_unit_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("nothing of systemd\n")
    refused = service_record("show", "--from", str(file))
    assert refused.status == 3


CONSOLE = """\
[    0.000000] Linux version 6.1.0 (builder@host)\r
\x1b[0;1;39m         Starting \x1b[0;1;39mpull.service\x1b[0m - Pull the image...\r
[\x1b[0;32m  OK  \x1b[0m] Started \x1b[0;1;39magent.service\x1b[0m - A.[    2.1000] audit: type=1130\r
[\x1b[0;1;31mFAILED\x1b[0m] Failed to start \x1b[0;1;39mpull.service\x1b[0m - Pull.\r
See 'systemctl status pull.service' for details.\r
[\x1b[0;1;33mDEPEND\x1b[0m] Dependency failed for \x1b[0;1;39mnext.service\x1b[0m - Next.\r
[    9.000000] systemd[1]: Finished once.service - Once.\r
"""


@pytest.mark.parametrize(
    ("end", "name"),
    [
        ("[   12.500000] Kernel panic - not syncing: VFS: Unable to mount root fs\r\n", "kernel"),
        ('You are in emergency mode. After logging in, type "journalctl -xb"\r\n', "boot"),
    ],
)
@pytest.mark.parametrize("escape", ["\x1b", "", "^["], ids=["raw", "lost escapes", "shown escapes"])
def test_console_gives_outcomes(tmp_path: Path, end: str, name: str, escape: str) -> None:
    file = tmp_path / "serial.log"
    file.write_bytes((CONSOLE + end).replace("\x1b", escape).encode())
    answer = service_record("show", "--from", file, "--output", "json")
    found = {one["service"]: one["runs"][-1] for one in json.loads(answer.out)["services"]}
    assert {service: run["outcome"] for service, run in found.items()} == {
        "pull": "failure",
        "agent": "running",
        "next": "failure",
        "once": "success",
        name: "failure",
    }
    assert found[name]["facts"]["message"] in end
    assert found["next"]["facts"]["serviceResult"] == "dependency"
    assert "started" not in found["pull"]


def test_second_boot_of_a_console_is_another_boot(tmp_path: Path) -> None:
    file = tmp_path / "console.txt"
    file.write_text(CONSOLE * 2)
    answer = service_record("show", "--from", file, "--output", "json")
    (pull,) = [one["runs"] for one in json.loads(answer.out)["services"] if one["service"] == "pull"]
    assert len({run["bootId"] for run in pull}) == 2


@pytest.mark.parametrize(
    ("path", "message"),
    [("x/bootstrap/journals/pull.log", "no space left"), ("x/messages.log", None)],
)
def test_lines_of_a_unit_journal_are_its_own(path: str, message: str | None) -> None:
    text = """\
Nov 21 10:00:01 node systemd[1]: Starting pull.service - Pull...
Nov 21 10:00:02 node sh[7]: no space left
Nov 21 10:00:02 node systemd[1]: pull.service: Main process exited, code=exited, status=1/FAILURE
Nov 21 10:00:02 node systemd[1]: pull.service: Failed with result 'exit-code'.
"""
    history = build_history(read_log(path, BytesIO(text.encode()).read).items())
    assert history.services[0].runs[0].facts.message == message
