"""What entries come to: which belong together, and what each run, stage and command ended as."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from msgspec.structs import replace

from service_record.history import build_history
from service_record.history.build import History, Now, ServiceHistory, boot_times, latest_entry, with_running
from service_record.history.outcome import (
    Facts,
    Location,
    Outcome,
    Run,
    Stage,
    is_stop_or_kill,
    nested,
    order,
    repeats,
)
from service_record.history.pairing import seconds_between
from service_record.history.results import Liveness, boots_in_order, handled_failure
from service_record.record.entry import Entry, Malformed, Phase, Result, RunsLeftOut
from tests.builders import BOOT_ID, INVOCATION_ID, PID, START, UPTIME, entry, failed_run, upstream_entry

FAILURE = {"result": Result.FAILURE}
OTHER_BOOT = "c1" * 16
OTHER_INVOCATION = "2e" * 16


def runs(*entries: Entry, liveness: Liveness | None = None) -> list[Run]:
    return list(build_history([("job", entries)], liveness).services[0].runs)


def run(*entries: Entry, liveness: Liveness | None = None) -> Run:
    (only,) = runs(*entries, liveness=liveness)
    return only


def as_started_by(entries: list[Entry], pid: int, **fields: object) -> list[Entry]:
    return [replace(one, pid=pid, **fields) for one in entries]


def test_failed_run_has_stage_line_and_exit_status() -> None:
    failed = run(*failed_run("second", stack=("12 main /usr/local/bin/job.sh",)))
    assert (failed.outcome, failed.in_stage, failed.duration) == (Outcome.FAILURE, "second", 10)
    assert failed.facts.location == Location(12, "main", "/usr/local/bin/job.sh")
    assert failed.facts.stack == (failed.facts.location,)
    assert failed.facts.exit_code == 1
    assert (failed.recorder, failed.attempt, failed.pid, failed.boot_id) == ("bash/0.1.0", 1, PID, BOOT_ID)


def test_a_file_name_with_blanks_is_one_file() -> None:
    failed = run(entry(), entry(Phase.SERVICE_END, 1, error_line="7 f /opt/my script.sh", **FAILURE))
    assert failed.facts.location == Location(7, "f", "/opt/my script.sh")


def test_handled_failure_is_not_blamed() -> None:
    failed = run(
        entry(),
        entry(Phase.STAGE_START, 1, stage="check"),
        entry(Phase.STAGE_END, 2, stage="check", **FAILURE),
        entry(Phase.STAGE_START, 3, stage="pull"),
        entry(Phase.STAGE_END, 4, stage="pull"),
        entry(Phase.SERVICE_END, 5, **FAILURE),
    )
    assert failed.in_stage is None
    assert [stage.outcome for stage in failed.stages] == [Outcome.FAILURE, Outcome.SUCCESS]


def test_failure_inside_a_successful_stage_is_not_blamed() -> None:
    failed = run(
        entry(),
        entry(Phase.STAGE_START, 1, stage="outer"),
        entry(Phase.STAGE_START, 2, stage="inner"),
        entry(Phase.STAGE_END, 3, stage="inner", **FAILURE),
        entry(Phase.STAGE_END, 4, stage="outer"),
        entry(Phase.SERVICE_END, 5, **FAILURE),
    )
    assert failed.in_stage is None


def test_last_of_consecutive_failed_stages_is_blamed() -> None:
    stages = [
        entry(phase, at, stage=name, result=result)
        for at, name in enumerate(["check", "pull"])
        for phase, result in [(Phase.STAGE_START, None), (Phase.STAGE_END, Result.FAILURE)]
    ]
    assert run(entry(), *stages, entry(Phase.SERVICE_END, 5, **FAILURE)).in_stage == "pull"


def test_line_of_failed_stage_does_not_explain_signal() -> None:
    *start, _ = failed_run("pull")
    assert run(*start, entry(Phase.SERVICE_END, 11, **FAILURE)).facts.location is not None
    assert run(*start, entry(Phase.SERVICE_END, 11, signal="KILL", **FAILURE)).facts.location is None


def test_innermost_of_failed_stages_is_blamed() -> None:
    line = {"error_line": "3 inner job.py"}
    failed = run(
        entry(),
        entry(Phase.STAGE_START, 1, stage="outer"),
        entry(Phase.STAGE_START, 2, stage="inner"),
        entry(Phase.STAGE_END, 3, stage="inner", **FAILURE, **line),
        entry(Phase.STAGE_END, 3, stage="outer", **FAILURE, **line),
        entry(Phase.SERVICE_END, 3, **FAILURE, **line),
    )
    assert failed.in_stage == "inner"
    assert [(stage.name, stage.depth) for stage in failed.stages] == [("outer", 0), ("inner", 1)]


@pytest.mark.parametrize(
    ("result", "expected"), [(Result.SUCCESS, Outcome.SUCCESS), (Result.FAILURE, Outcome.FAILURE)], ids=str
)
def test_open_stage_has_the_outcome_of_its_run(result: Result, expected: Outcome) -> None:
    (stage,) = run(
        entry(), entry(Phase.STAGE_START, 1, stage="a"), entry(Phase.SERVICE_END, 4, result=result)
    ).stages
    assert (stage.outcome, stage.ended, stage.duration) == (expected, None, 3)


def test_overlapping_stages_of_one_name_each_end_once() -> None:
    stages = run(
        entry(),
        entry(Phase.STAGE_START, 1, stage="pull"),
        entry(Phase.STAGE_START, 2, stage="pull"),
        entry(Phase.STAGE_END, 3, stage="pull"),
        entry(Phase.STAGE_END, 9, stage="pull"),
        entry(Phase.SERVICE_END, 10),
    ).stages
    assert [stage.duration for stage in stages] == [8, 1]


def test_runs_that_interleave_are_kept_apart() -> None:
    one = as_started_by(failed_run("one"), 1, invocation_id=OTHER_INVOCATION)
    two = as_started_by(failed_run("two"), 2)
    mixed = [piece for pair in zip(one, two, strict=True) for piece in pair]
    assert [(r.pid, r.in_stage, r.outcome) for r in runs(*mixed)] == [
        (1, "one", Outcome.FAILURE),
        (2, "two", Outcome.FAILURE),
    ]


def test_programs_within_one_invocation_share_their_attempt() -> None:
    child = [entry(at=1, pid=2), entry(Phase.SERVICE_END, 2, pid=2)]
    parent, inner = runs(entry(pid=1), *child, entry(Phase.SERVICE_END, 3, pid=1))
    assert (parent.attempt, inner.attempt, parent.duration, inner.duration) == (1, 1, 3, 1)


def test_attempts_count_from_one_in_each_boot() -> None:
    pids = enumerate([BOOT_ID, BOOT_ID, OTHER_BOOT])
    starts = [entry(at=n, pid=n, boot_id=boot, invocation_id=None) for n, boot in pids]
    assert [r.attempt for r in runs(*starts)] == [1, 2, 1]


def test_stage_of_another_process_belongs_to_the_invocation() -> None:
    stage = [entry(Phase.STAGE_START, 1, stage="a", pid=9), entry(Phase.STAGE_END, 2, stage="a", pid=9)]
    assert [s.name for s in run(entry(), *stage, entry(Phase.SERVICE_END, 3)).stages] == ["a"]


def test_what_the_exit_helper_adds_amends_the_run() -> None:
    unknown = entry(Phase.SERVICE_END, 5, signal="unknown", error_line="3 main f.sh", **FAILURE)
    known = entry(Phase.SERVICE_END, 6, signal="TERM", service_result="signal", **FAILURE)
    ended = run(entry(), unknown, known)
    assert (ended.facts.signal, ended.facts.service_result) == ("TERM", "signal")
    assert ended.facts.location == Location(3, "main", "f.sh")
    assert ended.duration == 5


def test_signal_from_systemd_overrides_recorded_success() -> None:
    wrong = entry(Phase.SERVICE_END, 5, exit_code=0)
    right = entry(Phase.SERVICE_END, 6, signal="TERM", service_result="timeout", **FAILURE)
    ended = run(entry(), entry(Phase.STAGE_START, 1, stage="wait"), wrong, right)
    (stage,) = ended.stages
    assert (ended.outcome, ended.in_stage, stage.outcome) == (Outcome.FAILURE, "wait", Outcome.FAILURE)
    assert (ended.facts.signal, ended.facts.service_result) == ("TERM", "timeout")
    assert ended.facts.exit_code is None


PLACE = {"error_line": "3 main f.sh", "command": "pull", "stack": ("3 main f.sh",), "exit_code": 1}


@pytest.mark.parametrize(
    ("later", "explained"),
    [({"exit_code": 9}, True), ({"service_result": "oom-kill"}, True), ({"signal": "KILL"}, False)],
    ids=["status", "systemd's result", "signal"],
)
def test_amended_end_keeps_its_facts_except_after_signals(later: dict[str, object], explained: bool) -> None:
    ends = [entry(Phase.SERVICE_END, at, **FAILURE, **more) for at, more in ((5, PLACE), (6, later))]
    facts = run(entry(), *ends).facts
    assert (facts.location is not None, facts.command is not None, bool(facts.stack)) == (explained,) * 3
    assert facts.exit_code == (later.get("exit_code", 1) if explained else None)


def test_survived_signal_is_not_the_end() -> None:
    interrupted = entry(Phase.STAGE_END, 2, stage="ask", signal="INT", **FAILURE)
    ended = entry(Phase.SERVICE_END, 3, exit_code=1, **FAILURE)
    facts = run(entry(), entry(Phase.STAGE_START, 1, stage="ask"), interrupted, ended).facts
    assert (facts.signal, facts.exit_code) == (None, 1)


def test_unknown_signal_does_not_hide_a_known_one() -> None:
    ends = [entry(Phase.SERVICE_END, 5, signal=signal, **FAILURE) for signal in ("TERM", "unknown")]
    assert run(entry(), *ends).facts.signal == "TERM"


def test_systemd_contradicts_a_success() -> None:
    contradiction = entry(Phase.SERVICE_END, 2, service_result="oom-kill", **FAILURE)
    assert run(entry(), entry(Phase.SERVICE_END, 1), contradiction).outcome is Outcome.FAILURE


def test_end_without_start_is_a_run() -> None:
    lost = run(entry(Phase.SERVICE_END, 3, **FAILURE))
    assert (lost.started, lost.outcome, lost.duration) == (None, Outcome.FAILURE, None)


def test_lost_entries_are_counted() -> None:
    assert run(entry(), entry(Phase.STAGE_START, 1, stage="a", dropped=2), entry(dropped=1)).dropped == 3


def test_damaged_pieces_are_kept_beside_the_runs() -> None:
    damage = Malformed(2, "{", "torn")
    service = build_history([("job", [entry(), damage, entry(Phase.SERVICE_END, 1)])]).services[0]
    assert (len(service.runs), service.malformed) == (1, (damage,))


def test_durations_survive_a_clock_step() -> None:
    end = replace(entry(Phase.SERVICE_END, 7), timestamp="1999-01-01T00:00:00Z")
    assert run(entry(), end).duration == 7
    assert run(replace(entry(), uptime=None), end).duration is None


@pytest.mark.parametrize(
    ("alive", "expected"),
    [(True, Outcome.RUNNING), (False, Outcome.INTERRUPTED), (None, Outcome.RUNNING)],
    ids=["alive", "gone", "unknown"],
)
def test_the_process_tells_running_from_interrupted(alive: bool | None, expected: Outcome) -> None:
    asked = []

    def is_alive(pid: int, uptime: float | None) -> bool | None:
        asked.append((pid, uptime))
        return alive

    assert run(entry(), liveness=Liveness(BOOT_ID, is_alive=is_alive)).outcome is expected
    assert asked == [(PID, 60)]


def test_pid_is_of_the_service_not_its_pre_command() -> None:
    entries = [
        entry("pre-command start", pid=7, pre_command="prepare"),
        entry("pre-command end", 1, pid=7, pre_command="prepare", result="success"),
        entry("service start", 2, pid=8),
    ]

    live = run(*entries, liveness=Liveness(BOOT_ID, is_alive=lambda pid, _uptime: pid == 8))
    gone = run(*entries, liveness=Liveness(BOOT_ID, is_alive=lambda _pid, _uptime: False))

    assert (live.outcome, gone.outcome) == (Outcome.RUNNING, Outcome.INTERRUPTED)


def test_liveness_ignores_processes_of_other_boots() -> None:
    def is_alive(_pid: int, _uptime: float | None) -> bool | None:
        raise AssertionError

    assert run(entry(), liveness=Liveness(OTHER_BOOT, is_alive=is_alive)).outcome is Outcome.RUNNING


def test_open_run_of_an_earlier_boot_is_interrupted() -> None:
    liveness = Liveness(OTHER_BOOT, is_at_home=True)
    assert run(entry(), liveness=liveness).outcome is Outcome.INTERRUPTED


def test_later_boot_interrupts_all_services() -> None:
    later = [entry(at=500, boot_id=OTHER_BOOT)]
    history = build_history([("early", [entry()]), ("late", later)])
    assert [s.outcome for s in history.services] == [Outcome.INTERRUPTED, Outcome.RUNNING]
    assert history.boots == (BOOT_ID, OTHER_BOOT)


def test_later_run_interrupts_open_run_and_stage() -> None:
    first, second = runs(
        entry(), entry(Phase.STAGE_START, 1, stage="a"), entry(at=9, pid=2, invocation_id=OTHER_INVOCATION)
    )
    assert (first.outcome, first.in_stage, first.stages[0].outcome) == (
        Outcome.INTERRUPTED,
        "a",
        Outcome.INTERRUPTED,
    )
    assert second.outcome is Outcome.RUNNING


def test_run_beside_a_later_one_is_running() -> None:
    beside = entry(at=5, pid=2, invocation_id=OTHER_INVOCATION)
    first, _ = runs(entry(), beside, entry(Phase.STAGE_START, 6, stage="a"))
    assert first.outcome is Outcome.RUNNING


def command(phase: Phase, at: float, name: str = "prepare", **fields: object) -> Entry:
    field = "pre_command" if phase.startswith("pre") else "post_command"
    return entry(phase, at, pid=99, **{field: name}, **fields)


def test_pre_command_belongs_to_the_next_run() -> None:
    whole = run(
        command(Phase.PRE_COMMAND_START, 0),
        entry(Phase.STAGE_START, 1, stage="unpack", pre_command="prepare", pid=99),
        entry(Phase.STAGE_END, 2, stage="unpack", pre_command="prepare", pid=99),
        command(Phase.PRE_COMMAND_END, 3),
        *[entry(at=4), entry(Phase.SERVICE_END, 9)],
    )
    (before,) = whole.commands
    assert (before.name, before.is_before, before.duration) == ("prepare", True, 3)
    assert [stage.name for stage in before.stages] == ["unpack"]
    assert (whole.outcome, whole.duration, whole.stages) == (Outcome.SUCCESS, 5, ())


def test_failed_pre_command_fails_the_service() -> None:
    line = {"error_line": "4 main prepare.sh"}
    failed = run(command(Phase.PRE_COMMAND_START, 0), command(Phase.PRE_COMMAND_END, 1, **FAILURE, **line))
    assert (failed.outcome, failed.in_command, failed.started) == (Outcome.FAILURE, "prepare", None)
    assert failed.facts.location == Location(4, "main", "prepare.sh")


@pytest.mark.parametrize("result", Result)
@pytest.mark.parametrize(
    ("before", "outcome"),
    [([command(Phase.PRE_COMMAND_END, 1, **FAILURE)], Outcome.FAILURE), ([], Outcome.INTERRUPTED)],
    ids=["failed", "interrupted"],
)
def test_pre_command_decides_despite_later_post_command(
    before: list[Entry], outcome: Outcome, result: Result
) -> None:
    after = [
        command(Phase.POST_COMMAND_START, 2, "sweep"),
        command(Phase.POST_COMMAND_END, 3, "sweep", result=result),
    ]
    whole = run(command(Phase.PRE_COMMAND_START, 0), *before, *after)
    assert (whole.outcome, whole.in_command) == (outcome, "prepare")


def test_failed_post_command_fails_a_run_of_commands() -> None:
    commands = [
        *(command(Phase.PRE_COMMAND_START, 0), command(Phase.PRE_COMMAND_END, 1)),
        *(
            command(Phase.POST_COMMAND_START, 2, "sweep"),
            command(Phase.POST_COMMAND_END, 3, "sweep", **FAILURE),
        ),
        *(command(Phase.POST_COMMAND_START, 4, "log"), command(Phase.POST_COMMAND_END, 5, "log")),
    ]
    whole = run(*commands)
    assert (whole.outcome, whole.in_command) == (Outcome.FAILURE, "sweep")


def test_first_failed_post_command_is_the_failure() -> None:
    first, last = (
        [
            command(Phase.POST_COMMAND_START, at, name),
            command(Phase.POST_COMMAND_END, at + 1, name, **FAILURE),
        ]
        for at, name in ((0, "sweep"), (2, "log"))
    )
    assert run(*first, *last).in_command == "sweep"


def test_ignored_pre_command_failure_leaves_success() -> None:
    commands = command(Phase.PRE_COMMAND_START, 0), command(Phase.PRE_COMMAND_END, 1, **FAILURE)
    assert run(*commands, entry(at=2), entry(Phase.SERVICE_END, 3)).outcome is Outcome.SUCCESS


def test_failed_pre_command_explains_only_services_not_started() -> None:
    commands = command(Phase.PRE_COMMAND_START, 0), command(Phase.PRE_COMMAND_END, 1, **FAILURE)
    end = entry(Phase.SERVICE_END, 3, **FAILURE)
    assert run(*commands, entry(at=2), end).in_command is None
    assert run(*commands, end).in_command == "prepare"


def test_failed_post_command_fails_the_run() -> None:
    failed = run(
        *[entry(), entry(Phase.SERVICE_END, 1, exit_code=0)],
        *[
            command(Phase.POST_COMMAND_START, 2, "sweep"),
            command(Phase.POST_COMMAND_END, 3, "sweep", exit_code=4, **FAILURE),
        ],
    )
    assert (failed.outcome, failed.in_command, failed.duration) == (Outcome.FAILURE, "sweep", 1)
    assert failed.facts.exit_code == 4


def test_next_run_interrupts_an_open_post_command() -> None:
    sweep = command(Phase.POST_COMMAND_START, 2, "sweep")
    first, _ = runs(entry(), entry(Phase.SERVICE_END, 1), sweep, entry(at=9, invocation_id=OTHER_INVOCATION))
    assert [c.outcome for c in first.commands] == [Outcome.INTERRUPTED]
    assert first.outcome is Outcome.SUCCESS


def test_each_failing_pre_command_is_a_run() -> None:
    one = [
        upstream_entry(Phase.PRE_COMMAND_START, 0, pre_command="pause"),
        upstream_entry(Phase.PRE_COMMAND_END, 1, pre_command="pause", **FAILURE),
    ]
    assert [r.outcome for r in runs(*one, *one)] == [Outcome.FAILURE, Outcome.FAILURE]


def upstream_run(at: float, **end: object) -> list[Entry]:
    return [upstream_entry(at=at), upstream_entry(Phase.SERVICE_END, at + 5, **end)]


def test_upstreams_runs_pair_in_order() -> None:
    found = runs(*upstream_run(0, **FAILURE), *upstream_run(10))
    assert [(r.outcome, r.attempt, r.duration) for r in found] == [
        (Outcome.FAILURE, 1, 5),
        (Outcome.SUCCESS, 2, 5),
    ]


def test_upstream_entries_after_an_end_start_another_run() -> None:
    ended, other = runs(*upstream_run(0), upstream_entry(Phase.SERVICE_END, 9, **FAILURE))
    assert (ended.outcome, other.outcome, other.has_no_start) == (Outcome.SUCCESS, Outcome.FAILURE, True)


@pytest.mark.parametrize("later", [0, 1], ids=["in one second", "as the second changes"])
def test_upstream_script_sourced_twice_starts_one_run(later: int) -> None:
    assert len(runs(upstream_entry(), *upstream_run(later))) == 1


def test_upstream_start_two_seconds_later_is_another_run() -> None:
    assert len(runs(upstream_entry(), *upstream_run(2))) == 2


def test_next_upstream_run_interrupts_an_open_one() -> None:
    assert [r.outcome for r in runs(upstream_entry(), *upstream_run(10))] == [
        Outcome.INTERRUPTED,
        Outcome.SUCCESS,
    ]


@pytest.mark.parametrize(
    ("make", "line"), [(upstream_entry, None), (entry, 1)], ids=["upstream's guess", "ours"]
)
def test_line_1_of_upstream_is_unknown(make: Callable[..., Entry], line: int | None) -> None:
    failed = run(make(), make(Phase.SERVICE_END, 5, error_line="1 inner job.sh", **FAILURE))
    assert failed.facts.location == Location(line, "inner", "job.sh")


def test_boot_order_follows_records_despite_wrong_clock() -> None:
    one = {"a": "2026-01-01T00:00:00Z", "b": "1970-01-01T00:00:09Z"}
    other = {"b": "1970-01-01T00:00:10Z", "c": "2026-01-03T00:00:00Z"}
    assert boots_in_order([other, one]) == ("a", "b", "c")


def test_contradicting_boot_orders_fall_back_to_clock() -> None:
    assert boots_in_order([{"b": "2", "a": "1"}, {"a": "1", "b": "2"}]) == ("a", "b")


def stopped_run(end: dict[str, object]) -> list[Entry]:
    """A run that a signal ends in a stage, as the shim records it, with what the exit helper adds to it."""
    run = [
        entry(),
        entry(Phase.STAGE_START, 1, stage="serve"),
        entry(Phase.STAGE_END, 5, stage="serve", signal="unknown", **FAILURE),
        entry(Phase.SERVICE_END, 5, signal="unknown", **FAILURE),
    ]
    if end:
        run.append(entry(Phase.SERVICE_END, 5, stage="serve", **FAILURE | end))
    return run


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        ({"signal": "TERM", "service_result": "success"}, Outcome.STOPPED),
        ({"signal": "TERM", "service_result": "signal", "stop_request": "stop"}, Outcome.STOPPED),
        ({"exit_code": 143, "service_result": "exit-code", "stop_request": "restart"}, Outcome.STOPPED),
        ({"signal": "HUP", "service_result": "success"}, Outcome.STOPPED),
        ({"signal": "PIPE", "service_result": "success"}, Outcome.STOPPED),
        ({"signal": "TERM", "service_result": "signal"}, Outcome.FAILURE),
        ({"signal": "TERM", "service_result": "timeout"}, Outcome.FAILURE),
        ({"signal": "KILL", "service_result": "oom-kill"}, Outcome.FAILURE),
        ({"signal": "ABRT", "service_result": "watchdog"}, Outcome.FAILURE),
        ({"exit_code": 0, "result": Result.SUCCESS, "service_result": "success"}, Outcome.SUCCESS),
        ({}, Outcome.INTERRUPTED),
    ],
    ids=lambda value: " ".join(map(str, value.values())) if isinstance(value, dict) else str(value),
)
def test_stop_and_death_differ_for_run_and_stage(end: dict[str, object], expected: Outcome) -> None:
    found = run(*stopped_run(end))
    assert found.outcome is expected
    assert [stage.outcome for stage in found.stages] == [expected]
    assert found.in_stage == (None if expected is Outcome.SUCCESS else "serve")
    *entries, last = stopped_run(end)
    found = run(*entries, replace(last, stage=None))
    assert found.outcome is expected
    own = Outcome.INTERRUPTED if expected is Outcome.SUCCESS else expected
    assert [stage.outcome for stage in found.stages] == [own]


@pytest.mark.parametrize("signal", ["KILL", "SEGV"])
def test_signal_named_by_recorder_is_a_failure(signal: str) -> None:
    found = run(entry(), entry(Phase.SERVICE_END, 5, signal=signal, **FAILURE))
    assert found.outcome is Outcome.FAILURE


def test_open_stage_of_stopped_run_is_stopped() -> None:
    facts = {"signal": "TERM", "service_result": "success"}
    found = run(
        entry(), entry(Phase.STAGE_START, 1, stage="serve"), entry(Phase.SERVICE_END, 5, **FAILURE, **facts)
    )
    assert (found.outcome, found.in_stage, found.stages[0].outcome) == (
        Outcome.STOPPED,
        "serve",
        Outcome.STOPPED,
    )


def test_handled_failure_is_not_the_place_of_a_stop() -> None:
    found = run(
        entry(),
        entry(Phase.STAGE_START, 1, stage="check"),
        entry(Phase.STAGE_END, 2, stage="check", exit_code=1, **FAILURE),
        entry(Phase.SERVICE_END, 5, signal="TERM", service_result="success", **FAILURE),
    )
    assert (found.outcome, found.in_stage) == (Outcome.STOPPED, None)
    assert [stage.outcome for stage in found.stages] == [Outcome.FAILURE]


def test_stage_fails_with_its_contradicted_success() -> None:
    found = run(
        entry(),
        entry(Phase.STAGE_START, 1, stage="first"),
        entry(Phase.STAGE_END, 2, stage="first"),
        entry(Phase.STAGE_START, 3, stage="second"),
        entry(Phase.STAGE_END, 4, stage="second", exit_code=0),
        entry(Phase.SERVICE_END, 4, exit_code=0),
        entry(Phase.SERVICE_END, 4, stage="second", exit_code=6, service_result="exit-code", **FAILURE),
    )
    assert (found.outcome, found.in_stage, found.facts.exit_code) == (Outcome.FAILURE, "second", 6)
    assert [stage.outcome for stage in found.stages] == [Outcome.SUCCESS, Outcome.FAILURE]
    assert found.stages[1].facts.exit_code == 6


def test_stopped_pre_command_decides_the_run() -> None:
    cut = {"signal": "unknown", **FAILURE}
    found = run(
        command(Phase.PRE_COMMAND_START, 0),
        command(Phase.PRE_COMMAND_END, 5, **cut),
        command(Phase.PRE_COMMAND_END, 5, service_result="signal", stop_request="shutdown", **cut),
    )
    assert (found.outcome, found.in_command, len(found.commands)) == (Outcome.STOPPED, "prepare", 1)


def test_failed_post_command_fails_a_stopped_run() -> None:
    found = run(
        entry(),
        entry(Phase.SERVICE_END, 5, signal="TERM", service_result="success", **FAILURE),
        entry(Phase.POST_COMMAND_START, 6, post_command="tidy-up", pid=PID + 1),
        entry(Phase.POST_COMMAND_END, 7, post_command="tidy-up", pid=PID + 1, exit_code=1, **FAILURE),
    )
    assert (found.outcome, found.in_command) == (Outcome.FAILURE, "tidy-up")


def test_running_boot_is_latest_without_entries() -> None:
    at_home = Liveness(boot_id=OTHER_BOOT, is_at_home=True)
    elsewhere = Liveness(boot_id=OTHER_BOOT)
    assert build_history([("job", [entry()])], at_home).latest_boot == OTHER_BOOT
    assert build_history([("job", [entry()])], elsewhere).latest_boot == BOOT_ID


def seen_running(**fields: object) -> Run:
    """A run that systemd knows of and nothing has recorded."""
    known: dict[str, object] = {
        "service": "job",
        "attempt": 1,
        "outcome": Outcome.RUNNING,
        "started": entry(at=50).time,
        "ended": None,
        "duration": None,
        "first_entry": entry(at=50).time,
        "last_entry": entry(at=50).time,
        "boot_id": BOOT_ID,
        "invocation_id": OTHER_INVOCATION,
        "pid": 77,
    }
    return Run(**known | fields)  # type: ignore[arg-type]


def test_run_known_only_to_systemd_is_latest() -> None:
    recorded = build_history([("job", failed_run()), ("other", failed_run())])
    known = with_running(recorded, [seen_running(), seen_running(service="new", invocation_id="3f" * 16)])
    assert [(service.name, service.runs[-1].attempt) for service in known.services] == [
        *(("job", 2), ("new", 1), ("other", 1))
    ]
    assert [(one.attempt, one.outcome) for one in known.services[0].runs] == [
        (1, Outcome.FAILURE),
        (2, Outcome.RUNNING),
    ]


def test_recorded_run_is_not_repeated_from_systemd() -> None:
    recorded = build_history([("job", failed_run())])
    invocation = recorded.services[0].runs[0].invocation_id
    assert with_running(recorded, [seen_running(invocation_id=invocation)]) == recorded
    assert with_running(recorded, [seen_running(service="renamed", invocation_id=invocation)]) == recorded


def test_service_with_only_a_pre_command_runs_per_systemd() -> None:
    commands = [command(Phase.PRE_COMMAND_START, 0), command(Phase.PRE_COMMAND_END, 1)]
    recorded = build_history([("job", commands)])
    invocation = recorded.services[0].runs[0].invocation_id
    (only,) = with_running(recorded, [seen_running(invocation_id=invocation)]).services[0].runs
    assert (only.outcome, only.pid, len(only.commands)) == (Outcome.RUNNING, 77, 1)


def test_entries_without_times_are_read_in_their_order() -> None:
    record = [replace(one, timestamp=None, uptime=None) for one in failed_run("pull", error_message="no")]
    (run,) = build_history([("job", record)]).services[0].runs
    assert (run.outcome, run.in_stage, run.facts.message) == (Outcome.FAILURE, "pull", "no")
    assert (run.first_entry, run.last_entry, run.started, run.ended, run.duration) == (None,) * 5
    assert not run.has_no_start


def test_run_has_the_times_of_its_entries() -> None:
    first, *middle, last = failed_run("pull")
    record = [replace(first, timestamp=None), *middle, replace(last, timestamp=None, uptime=None)]
    (run,) = build_history([("job", record)]).services[0].runs
    assert (run.started, run.ended, run.duration) == (None, None, None)
    assert (run.first_entry, run.last_entry) == (middle[0].time, middle[-1].time)


def parallel(phase: str, at: float, stage: str, parent: str | None = None) -> Entry:
    """An entry of a stage whose name is its id, too."""
    return entry(phase, at, stage=stage, stage_id=stage, parent=parent)


PARALLEL = [
    entry(),
    parallel(Phase.STAGE_START, 1, "a"),
    parallel(Phase.STAGE_START, 2, "b"),
    parallel(Phase.STAGE_START, 3, "a1", "a"),
    parallel(Phase.STAGE_END, 4, "b"),
    parallel(Phase.STAGE_END, 5, "a1", "a"),
    parallel(Phase.STAGE_END, 6, "a"),
    entry(Phase.SERVICE_END, 7),
]


def test_stages_are_nested_by_their_parent() -> None:
    (run,) = build_history([("job", PARALLEL)]).services[0].runs
    assert [(stage.name, stage.depth) for stage in run.stages] == [("a", 0), ("b", 0), ("a1", 1)]
    assert [stage.name for stage in nested(run.stages)] == ["a", "a1", "b"]


def test_concurrent_stages_are_distinguished_by_id() -> None:
    def of(phase: str, at: float, stage_id: str, **fields: object) -> Entry:
        return entry(phase, at, stage="pull", stage_id=stage_id, **fields)

    record = [
        entry(),
        of(Phase.STAGE_START, 1, "1"),
        of(Phase.STAGE_START, 2, "2"),
        of(Phase.STAGE_END, 3, "1", result=Result.FAILURE),
        of(Phase.STAGE_END, 7, "2"),
        entry(Phase.SERVICE_END, 8),
    ]
    (run,) = build_history([("job", record)]).services[0].runs
    assert [(stage.outcome, stage.duration) for stage in run.stages] == [
        (Outcome.FAILURE, 2),
        (Outcome.SUCCESS, 5),
    ]


def test_only_first_damaged_pieces_are_kept() -> None:
    long = Malformed(1, "a" * 3072 + "b" * 50_000 + "c" * 1024, "not an entry")
    others = [Malformed(line, "x", "not an entry") for line in range(2, 1502)]
    (service,) = build_history([("job", [long, *others])]).services
    assert (service.damaged_pieces, len(service.malformed), service.unlisted) == (1501, 1000, 501)
    text = service.malformed[0].text
    assert text == "a" * 3072 + "\u2026[50000 characters left out]\u2026" + "c" * 1024


def of_program(number: int) -> list[Entry]:
    """A run that ended well, of an invocation of its own."""
    run = [
        entry(),
        entry(Phase.STAGE_START, 1, stage="render"),
        entry(Phase.STAGE_END, 2, stage="render"),
        entry(Phase.SERVICE_END, 3, exit_code=0),
    ]
    return [replace(one, invocation_id=f"{number:032x}") for one in run]


def test_late_entries_amend_an_earlier_run() -> None:
    late = entry(Phase.SERVICE_END, 9, signal="KILL", invocation_id=f"{0:032x}", **FAILURE)
    first, second = runs(*of_program(0), *of_program(1), late)
    assert (first.outcome, first.facts.signal) == (Outcome.FAILURE, "KILL")
    assert (second.outcome, second.facts.signal) == (Outcome.SUCCESS, None)


def test_open_run_is_over_when_another_follows() -> None:
    first = f"{9:032x}"
    again = entry(Phase.STAGE_START, 9, stage="wait", invocation_id=first)
    record = [entry(invocation_id=first), *of_program(0), again, *of_program(1)]
    assert [run.outcome for run in runs(*record)] == [Outcome.INTERRUPTED, Outcome.SUCCESS, Outcome.SUCCESS]


def test_late_command_is_not_running_after_another_run() -> None:
    late = entry(Phase.POST_COMMAND_START, 9, post_command="clean", invocation_id=f"{0:032x}")
    first, _ = runs(*of_program(0), *of_program(1), late)
    assert first.commands[0].outcome is Outcome.INTERRUPTED


@pytest.mark.parametrize(
    ("uptime", "boot_id", "clock", "seconds"),
    [
        (UPTIME, BOOT_ID, 0, 7),
        (UPTIME + 7, BOOT_ID, 0, 0),  # nothing passed
        (UPTIME + 8, BOOT_ID, 0, None),  # it ended before it began
        (UPTIME + 0.0004, BOOT_ID, 0, 7),
        (UPTIME, OTHER_BOOT, 1, 6),
        (None, BOOT_ID, 1, 6),
        (None, BOOT_ID, 7, 0),
        (None, BOOT_ID, 8, None),
        (None, BOOT_ID, None, None),
    ],
)
def test_seconds_use_uptime_within_a_boot(
    uptime: float | None, boot_id: str, clock: int | None, seconds: float | None
) -> None:
    end = entry(Phase.SERVICE_END, 7)
    started = None if clock is None else START + timedelta(seconds=clock)
    assert seconds_between(started, uptime, boot_id, end) == seconds


def test_now_knows_how_long_ago_something_began() -> None:
    service = ServiceHistory("job", utc_offset=timedelta(hours=2))
    (one,) = runs(entry())
    now = Now(time=START + timedelta(seconds=9), boot_id=BOOT_ID, uptime=UPTIME + 5)
    assert now.since(one, one, ServiceHistory("job")) == 5
    assert now.since(replace(one, uptime=UPTIME + 5), one, service) == 0
    assert now.since(replace(one, uptime=UPTIME + 6), one, service) is None
    for unsure in (replace(now, boot_id=OTHER_BOOT), replace(now, uptime=None)):
        assert unsure.since(one, one, ServiceHistory("job")) == 9
        assert unsure.since(one, one, service) == 9 + 2 * 3600
        assert unsure.since(replace(one, started=None), one, service) is None
    assert now.since(replace(one, uptime=None, started=now.time), one, ServiceHistory("job")) == 0


def several(**records: list[Entry]) -> History:
    return build_history(records.items())


def test_latest_moment_is_of_the_latest_boot() -> None:
    boots = several(
        a=[entry(at=900), entry(at=1000, uptime=9.0, boot_id=OTHER_BOOT, pid=2)],
        b=[entry(at=1005, uptime=7.0, boot_id=OTHER_BOOT)],
        c=upstream_run(2000),
    )
    assert latest_entry(boots) == Now(
        time=START + timedelta(seconds=2005), boot_id=OTHER_BOOT, uptime=9.0, is_latest_entry=True
    )
    assert latest_entry(several(a=boots_of_none())).uptime is None
    assert boot_times(boots) == {
        BOOT_ID: START.timestamp() - UPTIME,
        OTHER_BOOT: (START + timedelta(seconds=991)).timestamp(),
    }


def boots_of_none() -> list[Entry]:
    return [replace(one, timestamp=None, uptime=None, boot_id=None) for one in failed_run()]


def test_last_reading_of_an_uptime_dates_the_boot() -> None:
    found = several(a=[entry(at=3, uptime=5.0)], b=[entry(at=4, uptime=5.0)], c=[entry(at=1, uptime=4.0)])
    assert boot_times(found) == {BOOT_ID: (START - timedelta(seconds=1)).timestamp()}
    assert boot_times(several(a=[entry(uptime=0.5)])) == {BOOT_ID: START.timestamp() - 0.5}


def test_running_or_last_program_of_invocation_decides() -> None:
    def deciding(*entries: Entry) -> int | None:
        (service,) = build_history([("job", entries)]).services
        (one,) = service.attempts
        assert one.outcome is service.outcome
        return one.pid

    first, second = [entry(pid=1), entry(Phase.SERVICE_END, 9, pid=1)], [entry(at=1, pid=2)]
    assert deciding(*first, *second) == 2
    for at, expected in ((3, 1), (9, 2), (10, 2)):
        assert deciding(*first, *second, entry(Phase.SERVICE_END, at, pid=2)) == expected


def test_rotation_counts_are_kept_for_every_program() -> None:
    gone = RunsLeftOut(failed=3, alike=2)
    record = [
        *[entry(pid=1, left_out=gone), entry(Phase.SERVICE_END, 1, pid=1, **FAILURE)],
        *[entry(at=2, pid=2), entry(Phase.SERVICE_END, 3, pid=2, **FAILURE)],
    ]
    (service,) = build_history([("job", record)]).services
    (one,) = service.attempts
    assert (one.pid, one.attempt, one.left_out) == (2, 4, gone)
    assert [(each.count, each.first.pid, each.last.pid) for each in repeats(service.runs)] == [(4, 1, 2)]


def test_systemd_adds_a_run_beside_more_than_commands() -> None:
    before = [command(Phase.PRE_COMMAND_START, 0), command(Phase.PRE_COMMAND_END, 1)]
    recorded = build_history([("job", before)])
    running = seen_running(invocation_id=INVOCATION_ID, uptime=5.0)
    (only,) = with_running(recorded, [running]).services[0].runs
    assert (only.started, only.uptime, only.attempt) == (running.started, 5.0, 1)
    assert with_running(recorded, [replace(running, pid=None)]) == recorded
    with_stage = build_history([("job", [*before, entry(Phase.STAGE_START, 2, stage="a")])])
    assert with_running(with_stage, [running]) == with_stage
    elsewhere = with_running(recorded, [seen_running(boot_id=OTHER_BOOT)])
    assert elsewhere.boots == (BOOT_ID, OTHER_BOOT)
    assert [one.attempt for one in elsewhere.services[0].runs] == [1, 1]
    assert with_running(recorded, [seen_running(boot_id=None)]).boots == (BOOT_ID,)


def staged(name: str, identity: str | None = None, parent: str | None = None) -> Stage:
    return Stage(
        outcome=Outcome.SUCCESS,
        started=None,
        ended=None,
        duration=None,
        name=name,
        id=identity,
        parent=parent,
    )


@pytest.mark.parametrize(
    ("stages", "expected"),
    [
        ("a b c", "a b c"),
        ("a=1 b=2 c=3<1 d=4<2 e=5<1 f=6<3", "a c f e b d"),
        ("a=1 b=2<9 c=3<1", "a c b"),  # in one that is not there
        ("a=1<1 b", "a b"),  # in itself
        ("a=1<2 b=2<1 c=3", "c a b"),  # in each other: behind all others
        ("a=1<2 x b=2", "x b a"),
    ],
)
def test_stages_stand_behind_the_one_they_are_in(stages: str, expected: str) -> None:
    def of(text: str) -> Stage:
        name, _, rest = text.partition("=")
        identity, _, parent = rest.partition("<")
        return staged(name, identity or None, parent or None)

    assert [one.name for one in nested([of(text) for text in stages.split()])] == expected.split()


FRAMES = tuple(Location(line, "f", "f.sh") for line in range(5))


@pytest.mark.parametrize(
    ("location", "inner", "callers"),
    [
        (FRAMES[0], FRAMES[:0], FRAMES[1:]),
        (FRAMES[2], FRAMES[:2], FRAMES[3:]),
        (FRAMES[4], FRAMES[:4], FRAMES[:0]),
        (None, FRAMES[:0], FRAMES),
    ],
)
def test_frames_around_a_location_are_split(
    location: Location | None, inner: tuple[Location, ...], callers: tuple[Location, ...]
) -> None:
    assert Facts(location=location, stack=FRAMES).frames_around == (inner, callers)


@pytest.mark.parametrize(
    ("frame", "place"),
    [
        ("3 f job.sh", Location(3, "f", "job.sh")),
        ("3 f", Location(None, "", "3 f")),
        ("x f job.sh", Location(None, "", "x f job.sh")),
        ("3", Location(None, "", "3")),
        ("9" * 9 + " f job.sh", Location(999_999_999, "f", "job.sh")),
        ("9" * 5000 + " f job.sh", Location(None, "", "9" * 5000 + " f job.sh")),
    ],
)
def test_frame_of_unknown_form_is_shown_unchanged(frame: str, place: Location) -> None:
    assert run(entry(), entry(Phase.SERVICE_END, 1, error_line=frame, **FAILURE)).facts.location == place


def test_what_has_no_time_comes_last() -> None:
    assert max([None, START + timedelta(days=9000), START], key=order) is None


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        ({"signal": "TERM"}, True),
        ({"signal": "unknown"}, True),
        ({"signal": "KILL"}, False),
        ({}, False),
        ({"signal": "TERM", "service_result": "signal"}, False),
        ({"signal": "TERM", "stop_request": "stop"}, False),
    ],
    ids=str,
)
def test_stop_is_uncertain_only_without_systemd(end: dict[str, str], expected: bool) -> None:
    assert is_stop_or_kill(entry(Phase.SERVICE_END, 1, **FAILURE, **end)) is expected
    found = run(entry(), entry(Phase.SERVICE_END, 1, **FAILURE, **end))
    assert found.has_unclear_end is expected
    assert not run(entry()).has_unclear_end


def test_end_without_result_is_unknown() -> None:
    found = run(entry(), entry(Phase.STAGE_START, 1, stage="first"), entry(Phase.SERVICE_END, 5, result=None))

    assert (found.outcome, found.has_unclear_end) == (Outcome.INTERRUPTED, True)
    assert (found.in_stage, found.stages[0].outcome, found.stages[0].duration) == (
        "first",
        Outcome.INTERRUPTED,
        4,
    )


def test_handled_failures_are_counted_until_a_success() -> None:
    def ended(at: int, name: str, result: Result, **fields: object) -> list[Entry]:
        return [
            entry(Phase.STAGE_START, at, stage=name, **fields),
            entry(Phase.STAGE_END, at, stage=name, result=result, **fields),
        ]

    good, bad = Result.SUCCESS, Result.FAILURE
    before = {"pre_command": "prepare"}
    found = run(
        command(Phase.PRE_COMMAND_START, 0),
        *ended(1, "pull", bad, **before),
        command(Phase.PRE_COMMAND_END, 2),
        entry(at=3),
        *[one for at, result in enumerate([bad, good, bad, bad]) for one in ended(at + 4, "pull", result)],
        *ended(8, "ask", bad),
        *ended(9, "pull", bad),
    )
    handled = handled_failure(found)
    assert handled is not None
    assert (handled.stage, handled.count, handled.stages, handled.command) == (found.stages[-1], 3, 3, None)
    assert handled_failure(run(entry(), *ended(1, "a", bad), *ended(2, "a", good))) is None
    another = replace(found.commands[0], stages=found.stages[1:2])
    of_one = handled_failure(replace(found, commands=(found.commands[0], another), stages=()))
    assert of_one is not None
    assert of_one.command == found.commands[0]
    after = replace(found.commands[0], is_before=False)
    last = handled_failure(replace(found, commands=(after,)))
    assert last is not None
    assert (last.command, last.stage, last.count, last.stages) == (after, after.stages[0], 1, 3)
    first = handled_failure(replace(found, stages=()))
    assert first is not None
    assert (first.command, first.count, first.stages) == (found.commands[0], 1, 1)


def test_stage_end_without_start_is_a_nested_stage() -> None:
    found = run(
        entry(),
        entry(Phase.STAGE_START, 1, stage="outer"),
        entry(Phase.STAGE_END, 2, stage="lost", **FAILURE),
        entry(Phase.STAGE_END, 3, stage="outer", stage_id="7"),
        entry(Phase.STAGE_END, 4, stage="outer"),
    )
    assert [(s.name, s.depth, s.outcome, s.started, s.duration, s.id) for s in found.stages] == [
        ("outer", 0, Outcome.SUCCESS, START + timedelta(seconds=1), 3, None),
        ("lost", 1, Outcome.FAILURE, None, None, None),
        ("outer", 0, Outcome.SUCCESS, None, None, "7"),
    ]
    assert found.stages[1].ended == START + timedelta(seconds=2)


def test_unrelated_boots_are_ordered_by_clock() -> None:
    later = several(
        a=[entry(at=9, boot_id=OTHER_BOOT)], b=[replace(entry(at=5), timestamp=None)], c=[entry(at=7)]
    )
    assert later.boots == (BOOT_ID, OTHER_BOOT)
    earlier = several(a=[entry(at=9, boot_id=OTHER_BOOT)], b=[entry(at=11), entry(at=1, pid=2)])
    assert earlier.boots == (OTHER_BOOT, BOOT_ID)
    assert boots_in_order([{"z": ""}, {"b": "2"}, {"a": "2"}, {"z": ""}]) == ("a", "b", "z")


def test_end_of_another_process_joins_run_of_commands() -> None:
    end = entry(Phase.SERVICE_END, 5, pid=2)
    first, second = runs(entry(pid=1), end)
    assert (first.outcome, second.outcome, second.has_no_start) == (Outcome.RUNNING, Outcome.SUCCESS, True)
    (only,) = runs(entry(pid=1), replace(end, pid=None))
    assert only.outcome is Outcome.SUCCESS
    (whole,) = runs(command(Phase.PRE_COMMAND_START, 0), command(Phase.PRE_COMMAND_END, 1), end)
    assert (whole.outcome, len(whole.commands)) == (Outcome.SUCCESS, 1)


def test_stage_outside_systemd_joins_the_open_run() -> None:
    def of(phase: str, at: float, pid: int, **fields: object) -> Entry:
        return entry(phase, at, pid=pid, invocation_id=None, **fields)

    stage = of(Phase.STAGE_START, 3, 9, stage="a")
    start, end = of(Phase.SERVICE_START, 0, 1), of(Phase.SERVICE_END, 2, 1)
    assert [len(one.stages) for one in runs(start, stage)] == [1]
    assert [len(one.stages) for one in runs(start, end, stage)] == [0, 1]
    assert [len(one.stages) for one in runs(start, replace(stage, boot_id=OTHER_BOOT))] == [0, 1]
    assert [one.outcome for one in runs(start, replace(end, pid=2))] == [Outcome.INTERRUPTED, Outcome.SUCCESS]


def test_amended_command_stays_in_its_run() -> None:
    ends = [command(Phase.PRE_COMMAND_END, at, exit_code=at, dropped=1, **FAILURE) for at in (1, 2)]
    found = run(command(Phase.PRE_COMMAND_START, 0), *ends)
    assert (len(found.commands), found.last_entry, found.dropped) == (1, START + timedelta(seconds=2), 2)
    assert (found.commands[0].ended, found.commands[0].facts.exit_code) == (START + timedelta(seconds=1), 2)
    others = run(command(Phase.PRE_COMMAND_START, 0), ends[0], replace(ends[1], pid=98))
    assert [(one.outcome, one.started is None) for one in others.commands] == [
        (Outcome.FAILURE, False),
        (Outcome.FAILURE, True),
    ]
