"""What is wrong with a host: the verdict, the root cause, and what follows from it."""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from service_record.diagnosis import Diagnosis, Verdict, diagnose
from service_record.diagnosis.budget import Basis, BudgetFile, Budgets
from service_record.diagnosis.causes import Causes
from service_record.diagnosis.comparison import find_moved
from service_record.diagnosis.diagnose import Explain
from service_record.diagnosis.evidence.unit_logs import Hindrance
from service_record.diagnosis.failures import RunStep, group_failures, new_failures
from service_record.diagnosis.findings import (
    BackwardBoot,
    FailedUnit,
    KnownCause,
    LocalTimes,
    LoopOf,
    NotStarted,
    Trouble,
    TroubleFacts,
    UnsetClock,
    commands_for_missing,
    host_commands,
    next_commands,
)
from service_record.diagnosis.judgement import judge
from service_record.diagnosis.matching import RuleBook
from service_record.diagnosis.services import find_running_spans
from service_record.diagnosis.units import Unit
from service_record.display.sentences import recovered_sentence
from service_record.history import History, build_history
from service_record.history.build import Now, with_anomalies
from service_record.history.outcome import Run, order
from service_record.history.results import ClockStep, Liveness
from service_record.record.entry import Entry, Malformed, Phase, Result, RunsLeftOut
from tests.builders import BOOT_ID, START, UPTIME, entry, failed_run, upstream_entry

FAILURE = {"result": Result.FAILURE}
BOOTS = ["a1" * 16, BOOT_ID, "c2" * 16, "d3" * 16, "e4" * 16]
HOUR = 3600.0


def attempt(number: int, entries: Iterable[Entry], **fields: object) -> list[Entry]:
    """The entries as those of a run of its own."""
    own = {"pid": number, "invocation_id": f"{number:032x}"} | fields
    return [replace(one, **own) for one in entries]


def attempts(count: int, stage: str = "pull", **fields: object) -> list[Entry]:
    """Runs that fail in a stage, one every 20 seconds, as restarts in one boot."""
    return [one for n in range(count) for one in attempt(n, failed_run(stage, n * 20, **fields))]


def succeeded(at: float = 0, end: float = 5) -> list[Entry]:
    return [entry(at=at), entry(Phase.SERVICE_END, at + end)]


def running(stage: str | None = "wait", at: float = 0) -> list[Entry]:
    return [entry(at=at), *([entry(Phase.STAGE_START, at + 1, stage=stage)] if stage else [])]


def history(**records: Sequence[Entry | Malformed]) -> History:
    named = ((name.replace("_", "-"), pieces) for name, pieces in records.items())
    return build_history(named, Liveness())


def at(seconds: float) -> Now:
    """The moment so many seconds after START, on the host itself."""
    return Now(time=START + timedelta(seconds=seconds), boot_id=BOOT_ID, uptime=UPTIME + seconds)


def diagnosis(
    seconds: float = 60,
    *,
    budgets: Budgets | None = None,
    explain: Explain | None = None,
    **records: Sequence[Entry | Malformed],
) -> Diagnosis:
    found = diagnose(history(**records), now=at(seconds), budgets=budgets, explain=explain)
    assert found is not None
    return found


def troubles_of(host: History) -> list[TroubleFacts]:
    """The troubles of which the causes are asked for."""
    asked: list[TroubleFacts] = []
    diagnose(host, now=at(60), explain=asked.append)
    return asked


def root(found: Diagnosis) -> Trouble:
    assert found.root is not None
    return found.root


def test_host_with_successful_services_succeeded() -> None:
    found = diagnosis(a=succeeded(), b=succeeded())
    assert (found.verdict, found.root, found.running) == (Verdict.SUCCEEDED, None, ())


def test_records_without_a_run_have_no_diagnosis() -> None:
    assert diagnose(history()) is None
    assert diagnose(history(a=[Malformed(1, "x", "not an entry")])) is None


def test_host_with_a_running_service_is_running() -> None:
    found = diagnosis(30, a=succeeded(), b=running("wait"))
    (now,) = found.running
    assert (found.verdict, now.run.service, now.stage, now.seconds) == (Verdict.RUNNING, "b", "wait", 29)
    assert now.budget is not None
    assert (now.budget.basis, now.before) == (Basis.DEFAULT, None)


def test_failure_has_its_run_stage_and_facts() -> None:
    trouble = root(diagnosis(a=failed_run("pull", exit_code=125, service_result="exit-code")))
    assert (trouble.kind, trouble.service, trouble.stage, trouble.count) == (Verdict.FAILED, "a", "pull", 1)
    assert (trouble.facts.exit_code, trouble.facts.service_result) == (125, "exit-code")
    assert trouble.since == START + timedelta(seconds=10)


def test_failure_before_a_successful_attempt_is_history() -> None:
    found = diagnosis(a=[*attempts(2), *attempt(9, succeeded(60))])
    assert (found.verdict, found.root) == (Verdict.SUCCEEDED, None)
    (past,) = found.recovered
    assert (past.service, past.count, past.last.in_stage) == ("a", 2, "pull")


def test_restarted_service_is_running_with_earlier_failure() -> None:
    found = diagnosis(90, a=[*attempts(2), *attempt(9, running("other", 60))])
    (now,) = found.running
    assert found.verdict is Verdict.RUNNING
    assert now.before is not None
    assert now.before.in_stage == "pull"


@pytest.mark.parametrize("later", [[], attempt(9, running("pull", 60))], ids=["between", "during"])
def test_three_restarts_that_end_alike_are_a_loop(later: list[Entry]) -> None:
    trouble = root(diagnosis(90, a=[*attempts(3, error_message="no image at 10.0.0.5:80"), *later]))
    assert trouble.kind is Verdict.LOOPING
    assert trouble.loop is not None
    assert (trouble.loop.of, trouble.loop.count, trouble.loop.messages) == (LoopOf.RESTARTS, 3, 1)
    assert trouble.since == START + timedelta(seconds=10)
    assert trouble.is_running is bool(later)


def test_messages_of_a_loop_are_counted_by_signature() -> None:
    messages = ["timed out after 5s", "timed out after 1m2s", "no space left"]
    runs = [
        one
        for n, text in enumerate(messages)
        for one in attempt(n, failed_run(at=n * 20, error_message=text))
    ]
    loop = root(diagnosis(a=runs)).loop
    assert loop is not None
    assert (loop.count, loop.messages) == (3, 2)


def test_attempts_that_each_get_further_are_no_loop() -> None:
    stages = ["first", "second", "third", "third"]
    runs = [one for n, stage in enumerate(stages) for one in attempt(n, failed_run(stage, n * 20))]
    trouble = root(diagnosis(a=runs))
    assert (trouble.kind, trouble.count, trouble.since) == (Verdict.FAILED, 2, START + timedelta(seconds=50))


def test_attempt_beyond_the_failing_stage_ends_the_loop() -> None:
    passed = [
        entry(at=100),
        entry(Phase.STAGE_START, 101, stage="pull"),
        entry(Phase.STAGE_END, 102, stage="pull"),
        entry(Phase.STAGE_START, 103, stage="next"),
    ]
    assert diagnosis(110, a=[*attempts(5), *attempt(9, passed)]).verdict is Verdict.RUNNING


def test_attempt_that_outlives_the_failed_ones_ends_the_loop() -> None:
    failing = [entry(), entry(Phase.SERVICE_END, 5, **FAILURE)]
    runs = [one for n in range(3) for one in attempt(n, [replace(e) for e in failing])]
    record = [*runs, *attempt(9, running(None, 10))]
    assert diagnosis(60, a=record).verdict is Verdict.LOOPING
    assert diagnosis(90, a=record).verdict is Verdict.RUNNING


def test_failures_in_other_boots_are_no_restart_loop() -> None:
    runs = [one for n in range(3) for one in attempt(n, failed_run(at=n * 99), boot_id=BOOTS[n % 2])]
    found = diagnosis(a=runs)
    assert root(found).kind is Verdict.FAILED


def retries(count: int, stage: str = "pull", every: float = 10) -> list[Entry]:
    """One run that tries a stage again and again, as upstream's release-image does."""
    entries = [entry()]
    for number in range(count):
        entries += [
            entry(Phase.STAGE_START, number * every, stage=stage),
            entry(
                Phase.STAGE_END, number * every + 1, stage=stage, error_message="no", exit_code=125, **FAILURE
            ),
        ]
    return entries


@pytest.mark.parametrize("open_stage", [[], [entry(Phase.STAGE_START, 99, stage="pull")]], ids=["no", "yes"])
def test_repeated_failure_of_a_stage_is_a_loop(open_stage: list[Entry]) -> None:
    trouble = root(diagnosis(100, a=[*retries(9), *open_stage]))
    assert trouble.loop is not None
    assert (trouble.kind, trouble.loop.of, trouble.loop.count) == (Verdict.LOOPING, LoopOf.STAGE, 9)
    assert (trouble.stage, trouble.facts.exit_code, trouble.facts.message) == ("pull", 125, "no")


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(retries(2), id="twice"),
        pytest.param(retries(20, every=1), id="for-some-seconds"),
        pytest.param(
            [
                *retries(9),
                entry(Phase.STAGE_START, 95, stage="pull"),
                entry(Phase.STAGE_END, 96, stage="pull"),
            ],
            id="success-at-last",
        ),
        pytest.param([*retries(9), entry(Phase.STAGE_START, 95, stage="next")], id="gone-on"),
    ],
)
def test_polling_is_not_a_loop(record: list[Entry]) -> None:
    assert diagnosis(100 if len(record) < 30 else 40, a=record).verdict is Verdict.RUNNING


@pytest.mark.parametrize(
    ("budgets", "seconds", "basis"),
    [
        pytest.param(Budgets(file=BudgetFile(stages={("a", "wait"): 20})), 20, Basis.FILE, id="file"),
        pytest.param(Budgets(file=BudgetFile(stage=20)), 20, Basis.FILE, id="file-for-all"),
        pytest.param(Budgets(), 30 * 60, Basis.DEFAULT, id="default"),
    ],
)
def test_stage_beyond_its_budget_is_stuck(budgets: Budgets, seconds: float, basis: Basis) -> None:
    assert diagnosis(seconds + 1, budgets=budgets, a=running("wait")).verdict is Verdict.RUNNING
    trouble = root(diagnosis(seconds + 2, budgets=budgets, a=running("wait")))
    assert trouble.overrun is not None
    assert (trouble.kind, trouble.stage, trouble.overrun.seconds) == (Verdict.STUCK, "wait", seconds + 1)
    assert (trouble.overrun.budget.seconds, trouble.overrun.budget.basis) == (seconds, basis)
    assert trouble.since == START + timedelta(seconds=1)


def test_budget_is_learned_from_successful_executions() -> None:
    good = [entry(Phase.STAGE_START, 1, stage="wait"), entry(Phase.STAGE_END, 201, stage="wait")]
    record = [*attempt(1, [entry(), *good, entry(Phase.SERVICE_END, 202)]), *attempt(2, running("wait", 300))]
    assert diagnosis(900, a=record).verdict is Verdict.RUNNING
    overrun = root(diagnosis(902, a=record)).overrun
    assert overrun is not None
    assert (overrun.budget.basis, overrun.budget.seconds, overrun.budget.longest) == (Basis.EARLIER, 600, 200)


def test_innermost_stage_beyond_its_budget_is_stuck() -> None:
    stages = [entry(Phase.STAGE_START, 1, stage="outer"), entry(Phase.STAGE_START, 2, stage="inner")]
    trouble = root(diagnosis(HOUR, a=[entry(), *stages]))
    assert trouble.stage == "inner"


def test_pre_command_or_budgeted_run_can_be_stuck() -> None:
    overrun = root(diagnosis(HOUR, a=[entry(Phase.PRE_COMMAND_START, pre_command="pause")])).overrun
    assert overrun is not None
    assert (overrun.what, overrun.name) == ("pre-command", "pause")
    daemon = running(None)
    assert diagnosis(100 * HOUR, a=daemon).verdict is Verdict.RUNNING
    limited = Budgets(file=BudgetFile(runs={"a": 60}))
    overrun = root(diagnosis(100, budgets=limited, a=daemon)).overrun
    assert overrun is not None
    assert (overrun.what, overrun.seconds) == ("run", 100)


def test_clock_step_makes_nothing_stuck() -> None:
    found = diagnose(history(a=running("wait")), now=replace(at(60), time=START + timedelta(hours=9)))
    assert found is not None
    assert found.verdict is Verdict.RUNNING


def test_latest_entry_bounds_a_running_stage_from_elsewhere() -> None:
    found = diagnose(history(a=running("wait"), b=succeeded(HOUR)))
    assert found is not None
    overrun = root(found).overrun
    assert overrun is not None
    assert (overrun.seconds, overrun.is_least) == (HOUR + 4, True)


def test_upstreams_entries_are_judged_by_the_clock() -> None:
    record = [upstream_entry(), upstream_entry(Phase.STAGE_START, 1, stage="wait")]
    assert diagnosis(600, a=record).verdict is Verdict.RUNNING
    assert diagnosis(HOUR, a=record).verdict is Verdict.STUCK
    local = history(a=record)
    local = replace(local, services=(replace(local.services[0], utc_offset=timedelta(hours=-5)),))
    found = diagnose(local, now=at(600 + 5 * HOUR))
    assert found is not None
    assert found.verdict is Verdict.RUNNING


def test_trouble_has_true_time_and_record_time() -> None:
    local = history(a=[upstream_entry(), upstream_entry(Phase.STAGE_START, 1, stage="wait")])
    local = replace(local, services=(replace(local.services[0], utc_offset=timedelta(hours=-5)),))
    found = diagnose(local, now=at(6 * HOUR))
    assert found is not None
    assert root(found).since == at(1 + 5 * HOUR).time
    assert root(found).recorded_since == at(1).time
    ended = history(a=failed_run())
    (service,) = ended.services
    (trouble,) = troubles_of(replace(ended, services=(replace(service, utc_offset=timedelta(hours=-5)),)))
    moments = (trouble.run_started, trouble.started, trouble.ended)
    assert moments == tuple(at(seconds + 5 * HOUR).time for seconds in (0, 0, 10))


def test_open_run_of_a_gone_process_is_interrupted() -> None:
    gone = Liveness(BOOT_ID, is_at_home=True, is_alive=lambda pid, uptime: False)
    found = diagnose(build_history([("a", running("wait"))], gone), now=at(60))
    assert found is not None
    trouble = root(found)
    assert (found.verdict, trouble.stage, trouble.is_rebooted) == (Verdict.INTERRUPTED, "wait", False)


def test_runs_with_unknown_end_are_no_loop() -> None:
    gone = Liveness(BOOT_ID, is_at_home=True, is_alive=lambda pid, uptime: False)
    runs = [one for n in range(5) for one in attempt(n, running(None, n * 20))]
    found = diagnose(build_history([("a", runs)], gone), now=at(200))
    assert found is not None
    assert (found.verdict, root(found).count, root(found).loop) == (Verdict.INTERRUPTED, 5, None)
    ended_well = diagnosis(200, a=[*runs, *attempt(9, succeeded(150))])
    assert [recovered_sentence(one) for one in ended_well.recovered] == [
        "a ended without recording how 5 times, last outside stages"
    ]


def test_interruption_counts_until_the_next_boot_works() -> None:
    before = attempt(1, running("wait"), boot_id=BOOTS[0])
    later = attempt(2, succeeded(100))
    trouble = root(diagnosis(200, a=before, b=later))
    assert (trouble.kind, trouble.is_rebooted) == (Verdict.INTERRUPTED, True)
    assert diagnosis(200, a=before, b=attempt(2, running(None, 100))).verdict is Verdict.RUNNING


def test_unrepeated_failure_of_an_earlier_boot_is_open_history() -> None:
    before = attempt(1, failed_run("join"), boot_id=BOOTS[0])
    found = diagnosis(200, a=before, b=attempt(2, running(None, 100)))
    assert (found.verdict, found.root) == (Verdict.RUNNING, None)
    (past,) = found.recovered
    assert (past.service, past.last.in_stage, past.is_open) == ("a", "join", True)


def program(pid: int, start: float, end: float | None, result: str = Result.SUCCESS) -> list[Entry]:
    """The run of one of the programs of an invocation."""
    entries = [entry(at=start, pid=pid)]
    return entries if end is None else [*entries, entry(Phase.SERVICE_END, end, pid=pid, result=result)]


def in_order(*entries: list[Entry]) -> list[Entry]:
    return sorted((one for each in entries for one in each), key=lambda one: one.timestamp or "")


@pytest.mark.parametrize(
    ("record", "verdict"),
    [
        pytest.param(
            in_order(program(1, 0, 9, Result.FAILURE), program(2, 1, 2)), Verdict.FAILED, id="around-failed"
        ),
        pytest.param(in_order(program(1, 0, None), program(2, 1, 2)), Verdict.RUNNING, id="around-runs"),
        pytest.param(
            in_order(program(1, 0, None), program(2, 1, 2, Result.FAILURE)),
            Verdict.RUNNING,
            id="inner-failed",
        ),
        pytest.param(
            in_order(program(1, 0, 9), program(2, 1, 2, Result.FAILURE)), Verdict.SUCCEEDED, id="handled"
        ),
        pytest.param(
            in_order(program(1, 0, 3), program(2, 4, 5, Result.FAILURE)),
            Verdict.FAILED,
            id="one-after-the-other",
        ),
    ],
)
def test_last_program_of_an_invocation_decides(record: list[Entry], verdict: Verdict) -> None:
    assert diagnosis(60, a=record).verdict is verdict
    outcome = history(a=record).services[0].outcome
    assert outcome is not None
    assert outcome.is_bad is (verdict is Verdict.FAILED)


def test_restarts_of_several_programs_are_a_loop() -> None:
    each = in_order(program(1, 0, 9, Result.FAILURE), program(2, 1, 2))
    record = [
        replace(one, invocation_id=f"{n:032x}", pid=(one.pid or 0) + n * 10) for n in range(3) for one in each
    ]
    loop = root(diagnosis(a=record)).loop
    assert loop is not None
    assert loop.count == 3


def in_boots(ends: Sequence[list[Entry]]) -> list[Entry]:
    """One run in each boot."""
    return [
        one
        for n, entries in enumerate(ends)
        for one in attempt(n, [replace(e, timestamp=e.timestamp) for e in entries], boot_id=BOOTS[n])
    ]


def test_boots_without_progress_are_a_boot_loop() -> None:
    trouble = root(diagnosis(a=in_boots([failed_run("join", n * 100) for n in range(4)])))
    assert trouble.loop is not None
    assert (trouble.kind, trouble.loop.of, trouble.loop.count) == (Verdict.LOOPING, LoopOf.BOOTS, 4)
    assert trouble.loop.boots == tuple(BOOTS[:4])
    assert (trouble.service, trouble.stage) == ("a", "join")


def test_boot_loop_has_true_times() -> None:
    loop = history(a=in_boots([failed_run("join", n * 100) for n in range(4)]))
    local = replace(loop, services=(replace(loop.services[0], utc_offset=timedelta(hours=-5)),))
    (of_utc,), (of_local,) = troubles_of(loop), troubles_of(local)
    found_utc, found_local = diagnose(loop, now=at(HOUR)), diagnose(local, now=at(HOUR))

    assert of_utc.run_started is not None
    assert of_local.run_started == of_utc.run_started + timedelta(hours=5)
    assert found_utc is not None
    assert found_local is not None
    assert root(found_local).since == root(found_utc).recorded_since + timedelta(hours=5)  # type: ignore[operator]
    assert root(found_local).recorded_since == root(found_utc).since


def test_power_losses_in_one_stage_are_a_boot_loop() -> None:
    lost = [running("join", n * 100) for n in range(3)]
    trouble = root(diagnosis(a=in_boots([*lost, running("join", 300)])))
    assert trouble.loop is not None
    assert (trouble.loop.of, trouble.loop.count, trouble.is_rebooted) == (LoopOf.BOOTS, 3, True)


def test_boots_with_progress_are_no_loop() -> None:
    def reaches(stages: int, at: float) -> list[Entry]:
        done = [
            entry(phase, at + n, stage=f"s{n}")
            for n in range(stages)
            for phase in (Phase.STAGE_START, Phase.STAGE_END)
        ]
        return [entry(at=at), *done, entry(Phase.STAGE_START, at + 50, stage="last")]

    found = diagnosis(450, a=in_boots([reaches(n, n * 100) for n in range(5)]))
    assert found.verdict is Verdict.RUNNING


def test_boots_that_fail_later_are_no_loop() -> None:
    def fails_after(stage: str, at: float) -> list[Entry]:
        done = [entry(Phase.STAGE_START, at, stage=stage), entry(Phase.STAGE_END, at + 1, stage=stage)]
        return [entry(at=at), *done, entry(Phase.SERVICE_END, at + 9, **FAILURE)]

    record = in_boots([fails_after(stage, n * 100) for n, stage in enumerate(["one", "two", "three"])])
    assert diagnosis(a=record).verdict is Verdict.FAILED
    record = in_boots([fails_after("one", n * 100) for n in range(3)])
    assert diagnosis(a=record).verdict is Verdict.LOOPING


def test_ordinary_reboots_are_no_loop() -> None:
    found = diagnosis(450, a=in_boots([running(None, n * 100) for n in range(5)]))
    assert found.verdict is Verdict.RUNNING


def test_earliest_failure_is_the_root_cause() -> None:
    found = diagnosis(
        400,
        a_later=attempts(1, "join", error_message="x") + attempt(9, failed_run("join", 300)),
        b_first=failed_run("pull", 100),
        c_stuck=running("wait"),
        budgets=Budgets(file=BudgetFile(stage=60)),
    )
    assert found.verdict is Verdict.FAILED
    assert root(found).service == "a-later"  # it began to fail the same way before
    assert [trouble.service for trouble in found.followers] == ["c-stuck", "b-first"]


@pytest.mark.parametrize("silent", ["Waiting", None, "Usage: x", "Retrying after an error"])
def test_later_failure_never_explains_an_earlier_one(silent: str | None) -> None:
    says = failed_run(at=20, error_message="no space left on device", invocation_id="2f" * 16)
    found = diagnosis(a=failed_run(error_message=silent), b=says)
    assert root(found).service == "a"
    assert "a" not in [trouble.service for trouble in found.followers]


def test_clock_set_back_does_not_change_the_order() -> None:
    ahead = failed_run("pull", 20 + 5 * HOUR, uptime=UPTIME + 30)
    later = failed_run("join", 40, uptime=UPTIME + 50)
    assert root(diagnosis(a=later, b=[replace(one, uptime=UPTIME + 30) for one in ahead])).service == "b"


def test_wait_is_a_symptom_of_a_later_failure() -> None:
    found = diagnosis(HOUR, a=running("wait"), b=failed_run("pull", 600))
    assert (found.verdict, root(found).service) == (Verdict.FAILED, "b")
    assert [trouble.kind for trouble in found.followers] == [Verdict.STUCK]


def known(evidence: TroubleFacts) -> KnownCause | None:
    """Causes named by the message, one beginning with `symptom` being one."""
    message = evidence.facts.message
    if not message:
        return None
    return KnownCause(
        name=message,
        says=message,
        rank="symptom" if message.startswith("symptom") else "cause",
        is_last=message.startswith("symptom: last"),
    )


def test_independent_cause_is_not_a_follower() -> None:
    found = diagnosis(
        a=failed_run(at=0, error_message="symptom: api"),
        b=failed_run(at=10, error_message="disk full"),
        c=failed_run(at=20, error_message="certificate"),
        d=failed_run(at=30, error_message="disk full"),
        e=failed_run(at=40),
        explain=known,
    )
    assert root(found).service == "b"
    assert [trouble.service for trouble in found.followers] == ["a", "d", "e"]
    assert [trouble.service for trouble in found.others] == ["c"]


def test_early_symptom_of_others_is_not_the_root() -> None:
    found = diagnosis(
        HOUR,
        a=failed_run(at=0, error_message="symptom: last"),
        b=running("wait", 600),
        c=failed_run(at=900, error_message="symptom"),
        explain=known,
    )
    assert root(found).service == "b"
    assert [trouble.service for trouble in found.followers] == ["a", "c"]


def test_causes_are_asked_with_what_is_known() -> None:
    asked: list[TroubleFacts] = []
    diagnosis(a=attempts(3), b=failed_run(), explain=asked.append)
    assert [(set(one.kinds), one.service, one.stage) for one in asked] == [
        ({"restart-loop"}, "a", "pull"),
        ({"failed"}, "b", "second"),
    ]


def test_causes_get_the_true_times_of_the_run() -> None:
    def times(*entries: Entry) -> list[float | None]:
        (one,) = troubles_of(history(a=entries))
        moments = (one.booted, one.run_started, one.started, one.ended)
        return [None if moment is None else (moment - START).total_seconds() for moment in moments]

    assert times(*failed_run(at=7)) == [-UPTIME, 7, 7, 17]
    assert times(*(replace(one, uptime=None) for one in failed_run(at=7))) == [None, 7, 7, 17]
    assert times(*failed_run(at=7)[1:]) == [None, 8, 8, 17]
    ends = [entry(Phase.SERVICE_END, 9, timestamp=None, **FAILURE)]
    assert times(*ends) == [None, None, None, None]


def test_boot_loop_of_power_losses_is_both() -> None:
    asked: list[TroubleFacts] = []
    record = in_boots([running("join", n * 100) for n in range(4)])
    diagnose(history(a=record), now=at(400), explain=asked.append)
    assert [set(one.kinds) for one in asked] == [{"boot-loop", "rebooted"}]
    failed = in_boots([failed_run("join", n * 100) for n in range(4)])
    diagnose(history(a=failed), now=at(400), explain=asked.append)
    assert set(asked[-1].kinds) == {"boot-loop"}


def test_stage_much_longer_than_good_run_is_slow() -> None:
    def pulled(seconds: float, end: float) -> list[Entry]:
        stage = [entry(Phase.STAGE_START, 1, stage="pull"), entry(Phase.STAGE_END, 1 + seconds, stage="pull")]
        return [entry(), *stage, entry(Phase.SERVICE_END, end)]

    good = Budgets(baseline=history(a=pulled(10, 12), b=pulled(1, 2)))
    found = diagnosis(200, budgets=good, a=pulled(90, 92), b=pulled(3, 4))
    assert [(s.service, s.stage, s.seconds, s.usual) for s in found.slow] == [
        ("a", "pull", 90, 10),
        ("a", None, 92, 12),
    ]
    assert diagnosis(200, budgets=good, a=pulled(11, 13)).slow == ()
    failing = Budgets(baseline=history(a=failed_run("pull")))
    assert diagnosis(200, budgets=failing, a=pulled(90, 92)).slow == ()
    (goes_on,) = diagnosis(100, budgets=good, a=running("pull")).slow
    assert (goes_on.seconds, goes_on.is_running) == (99, True)


def test_damage_is_reported_and_decides_nothing() -> None:
    piece = Malformed(7, "{", "a damaged entry")
    lost = [entry(), entry(Phase.SERVICE_END, 5, dropped=3)]
    found = diagnosis(a=[*succeeded(), piece], b=lost, d=succeeded())
    assert found.verdict is Verdict.SUCCEEDED
    assert [(d.service, d.pieces, d.line, d.lost, d.has_no_run) for d in found.damaged] == [
        ("a", 1, 7, 0, False),
        ("b", 0, None, 3, False),
    ]


@pytest.mark.parametrize("record", [[], [Malformed(1, "{}", "phase: missing")]], ids=["empty", "damaged"])
def test_unreadable_record_leaves_the_verdict_unknown(record: list[Malformed]) -> None:
    found = diagnosis(a=succeeded(), bootkube=record)
    assert found.verdict is Verdict.UNKNOWN
    assert [(d.service, d.is_empty) for d in found.unreadable] == [("bootkube", not record)]
    assert diagnosis(a=running(), bootkube=record).verdict is Verdict.RUNNING
    assert diagnosis(a=failed_run(), bootkube=record).verdict is Verdict.FAILED


def test_record_with_an_unfinished_write_is_damaged() -> None:
    found = diagnose(with_anomalies(history(a=succeeded(), b=succeeded()), {}, {"b"}))
    assert found is not None
    assert [(d.service, d.is_unfinished) for d in found.damaged] == [("b", True)]


def test_records_with_local_times_are_reported_together() -> None:
    runs = [upstream_entry(), upstream_entry(Phase.SERVICE_END, 5)]
    written = {name: order(runs[-1].time) + 5 * 3600 for name in "ab"}
    found = diagnose(with_anomalies(history(a=runs, b=runs, c=succeeded()), written, ()))
    assert found is not None
    assert found.clock == (LocalTimes(services=("a", "b"), utc_offset=timedelta(hours=-5)),)


def test_set_clock_is_reported() -> None:
    (step,) = diagnosis(a=[entry(uptime=10.0), entry(Phase.SERVICE_END, 5000, uptime=20.0)]).clock
    assert isinstance(step, ClockStep)
    assert step.seconds == 4990
    assert diagnosis(a=[entry(uptime=10.0), entry(Phase.SERVICE_END, 5, uptime=20.0)]).clock == ()


def test_clock_that_was_never_set_is_reported() -> None:
    (unset,) = diagnosis(a=[entry(timestamp="1970-01-01T00:00:09.000Z")]).clock
    assert isinstance(unset, UnsetClock)
    assert unset.service == "a"


def test_boot_earlier_than_the_previous_is_reported() -> None:
    record = [*attempt(1, succeeded(9000), boot_id=BOOTS[0]), *attempt(2, succeeded(0))]
    (back,) = diagnosis(a=record).clock
    assert isinstance(back, BackwardBoot)
    assert (back.boot_id, back.time, back.earlier) == (BOOT_ID, START, START + timedelta(seconds=9000))


def stopped(number: int, at: float, **facts: object) -> list[Entry]:
    """The entries of a run that was stopped in a stage after five seconds."""
    end = {"signal": "TERM", "service_result": "success"} | facts
    return attempt(
        number,
        [
            entry(at=at),
            entry(Phase.STAGE_START, at + 1, stage="serve"),
            entry(Phase.STAGE_END, at + 5, stage="serve", **FAILURE | end),
            entry(Phase.SERVICE_END, at + 5, **FAILURE | end),
        ],
    )


def test_orderly_stop_is_neither_trouble_nor_success() -> None:
    found = diagnosis(a=stopped(1, 0), b=succeeded())
    assert (found.verdict, found.verdict.is_bad, found.root) == (Verdict.STOPPED, False, None)
    assert [each.run.in_stage for each in found.stopped] == ["serve"]
    failed, well = attempt(7, failed_run()), attempt(8, succeeded(20))
    for earlier, before in (
        ([], None),
        (failed, "second"),
        ([*failed, *well], None),
        ([*well, *failed], "second"),
    ):
        (one,) = diagnosis(a=[*earlier, *stopped(1, 40)]).stopped
        assert (one.before and one.before.in_stage) == before


def test_restarts_are_no_loop() -> None:
    found = diagnosis(a=[*stopped(1, 0), *stopped(2, 10), *stopped(3, 20), *attempt(4, running(at=30))])
    assert (found.verdict, found.running[0].before) == (Verdict.RUNNING, None)


def test_stops_with_an_unknown_signal_are_no_loop() -> None:
    unknown = {"signal": "unknown", "service_result": None}
    cut = [one for number in range(4) for one in stopped(number, number * 10, **unknown)]
    found = diagnosis(a=cut)
    assert (found.verdict, root(found).loop, root(found).is_rebooted) == (Verdict.INTERRUPTED, None, False)
    assert diagnosis(a=[*cut, *attempt(9, succeeded(90))]).verdict is Verdict.SUCCEEDED


def test_boots_that_a_shutdown_ended_are_no_loop() -> None:
    unknown = {"signal": "unknown", "service_result": None}
    for facts in ({"stop_request": "shutdown"}, unknown):
        boots = [
            replace(one, boot_id=boot_id)
            for number, boot_id in enumerate(BOOTS[:3])
            for one in stopped(number, number * 100, **facts)
        ]
        found = diagnosis(a=boots)
        assert all(trouble.loop is None for trouble in (found.root, *found.others) if trouble)


def test_stopped_loop_stays_one_without_progress() -> None:
    assert diagnosis(a=[*attempts(3, "serve"), *stopped(7, 100)]).verdict is Verdict.LOOPING
    assert diagnosis(a=[*attempts(2, "serve"), *stopped(7, 100)]).verdict is Verdict.STOPPED
    further = attempt(
        8,
        [
            entry(at=200),
            entry(Phase.STAGE_START, 201, stage="serve"),
            entry(Phase.STAGE_END, 205, stage="serve"),
            entry(Phase.SERVICE_END, 210, signal="TERM", service_result="success", **FAILURE),
        ],
    )
    assert diagnosis(a=[*attempts(3, "serve"), *further]).verdict is Verdict.STOPPED


def test_open_run_is_interrupted_by_an_unrecorded_boot() -> None:
    now = Now(time=START + timedelta(seconds=60), boot_id=BOOTS[2], uptime=5)
    records = [("a", running("write-image"))]
    found = diagnose(build_history(records, Liveness(boot_id=BOOTS[2], is_at_home=True)), now=now)
    assert found is not None
    assert (found.verdict, root(found).is_rebooted) == (Verdict.INTERRUPTED, True)


def stage_end(at: float, stage: str, message: str | None = None, **fields: object) -> Entry:
    """The end of a stage: a failure where there is a message."""
    if message is None:
        return entry(Phase.STAGE_END, at, stage=stage, **fields)
    return entry(
        Phase.STAGE_END, at, stage=stage, result=Result.FAILURE, exit_code=1, error_message=message, **fields
    )


def executions(stage: str, *messages: str | None, at: float = 1) -> list[Entry]:
    """Executions of a stage, ten minutes each; those with a message fail."""
    found = []
    for number, message in enumerate(messages):
        begin = at + 600 * number
        found += [entry(Phase.STAGE_START, begin, stage=stage), stage_end(begin + 600, stage, message)]
    return found


def test_survived_failure_is_a_finding_while_running() -> None:
    record = [
        entry(),
        *executions("pull", "manifest unknown", "i/o timeout"),
        entry(Phase.STAGE_START, 1201, stage="pull"),
    ]
    found = diagnosis(job=record)
    assert found.verdict is Verdict.RUNNING
    assert [(one.run.service, one.stage.name, one.count) for one in found.handled] == [("job", "pull", 2)]
    assert found.handled[0].stage.facts.message == "i/o timeout"


def test_failure_before_a_hang_is_shown_with_it() -> None:
    record = [
        entry(),
        *executions("resolve-api-url", "no such host"),
        entry(Phase.STAGE_START, 700, stage="wait"),
    ]
    found = diagnosis(9000, job=record)
    assert found.verdict is Verdict.STUCK
    assert [one.stage.facts.message for one in found.handled] == ["no such host"]


def test_stage_that_finally_succeeded_is_not_a_finding() -> None:
    record = [entry(), *executions("pull", "i/o timeout", None), entry(Phase.STAGE_START, 1300, stage="wait")]
    assert diagnosis(job=record).handled == ()


def test_latest_survived_failure_stands_for_all() -> None:
    record = [
        entry(),
        *executions("first", "one"),
        *executions("second", "two", at=700),
        entry(Phase.SERVICE_END, 1400),
    ]
    found = diagnosis(job=record)
    assert found.verdict is Verdict.SUCCEEDED
    assert [(one.stage.name, one.stages) for one in found.handled] == [("second", 2)]


def test_failed_stage_is_reported_with_its_command() -> None:
    within: dict[str, object] = {"pre_command": "prepare"}
    record = [
        entry(Phase.PRE_COMMAND_START, 0, **within),
        entry(Phase.STAGE_START, 1, stage="probe", **within),
        stage_end(2, "probe", "refused", **within),
        entry(Phase.PRE_COMMAND_END, 3, **within),
        entry(Phase.SERVICE_START, 4),
    ]
    (handled,) = diagnosis(job=record).handled
    assert (handled.stage.name, handled.command and handled.command.name) == ("probe", "prepare")


def test_failure_or_loop_is_reported_once() -> None:
    assert diagnosis(job=[entry(), *retries(8), entry(Phase.STAGE_START, 200, stage="pull")]).handled == ()
    assert diagnosis(job=failed_run("pull")).handled == ()


def test_stage_exactly_at_its_budget_is_not_stuck() -> None:
    failing = [entry(), entry(Phase.SERVICE_END, 5, **FAILURE)]
    runs = [one for n in range(3) for one in attempt(n, failing)]
    record = [*runs, *attempt(9, running(None, 10))]
    assert diagnosis(75, a=record).verdict is Verdict.LOOPING  # 65 seconds: what failed lasted 5
    assert diagnosis(75.5, a=record).verdict is Verdict.RUNNING
    ended = entry(Phase.SERVICE_END, 75.5, signal="TERM", service_result="success", **FAILURE)
    assert diagnosis(99, a=[*record, *attempt(9, [ended])]).stopped
    assert diagnosis(99, a=[*record, *attempt(9, [replace(ended, uptime=UPTIME + 75)])]).root is not None
    stage = retries(3, every=20)  # from the start, so that the first ended 59 seconds before
    assert [diagnosis(seconds, a=stage).verdict for seconds in (59.9, 60)] == [
        Verdict.RUNNING,
        Verdict.LOOPING,
    ]
    assert diagnosis(200, a=retries(3)[:-2]).verdict is Verdict.RUNNING


def test_running_command_is_shown_after_its_stages() -> None:
    def names(*record: Entry) -> list[str]:
        (run,) = history(a=record).services[0].runs
        return [span.name for span in find_running_spans(run)]

    def stage(name: str, **fields: Any) -> Entry:
        return entry(Phase.STAGE_START, 2, stage=name, **fields)

    after = entry(Phase.POST_COMMAND_START, 6, post_command="last")
    assert names(entry(), stage("a"), stage("b"), after) == ["b", "a", "last"]
    before = [entry(Phase.PRE_COMMAND_START, 1, pre_command=name) for name in ("one", "two")]
    inner = [stage(name, pre_command="two") for name in ("c", "d")]
    assert names(*before, *inner) == ["d", "c", "two", "one"]
    assert names(*before, entry()) == []


def test_running_service_has_duration_and_earlier_failure() -> None:
    stage, commands = (
        attempt(2, running("wait", 20)),
        [entry(Phase.PRE_COMMAND_START, 20, pre_command="pause")],
    )
    (found,) = diagnosis(50, a=[*attempt(1, failed_run()), *stage]).running
    assert (found.stage, found.seconds, found.is_least) == ("wait", 29, False)
    assert found.before is not None
    assert found.budget is not None
    (found,) = diagnosis(50, a=[*attempt(1, succeeded()), *attempt(2, commands)]).running
    assert (found.stage, found.seconds, found.before) == (None, 30, None)
    (found,) = diagnosis(50, a=running(None)).running
    assert (found.stage, found.seconds, found.before, found.budget) == (None, 50, None, None)


def test_equal_failures_are_reported_since_the_first() -> None:
    one, two = attempt(1, failed_run("a")), attempt(2, failed_run("a", 20))
    trouble = root(diagnosis(a=[*one, *two]))
    assert (trouble.count, trouble.since, trouble.since_uptime) == (
        2,
        START + timedelta(seconds=10),
        UPTIME + 10,
    )
    assert (trouble.is_running, trouble.is_rebooted, trouble.loop) == (False, False, None)
    other = attempt(2, failed_run("b", 20))
    assert root(diagnosis(a=[*one, *other])).count == 1
    left = [
        replace(first, left_out=RunsLeftOut(failed=4, alike=3)) if first is two[0] else first for first in two
    ]
    assert root(diagnosis(a=[*one, *left])).count == 4
    left[0] = replace(two[0], left_out=RunsLeftOut(failed=3, alike=3))
    assert root(diagnosis(a=[*one, *left])).count == 5
    recovered = diagnosis(a=[*one, *left, *attempt(3, succeeded(50))]).recovered
    assert [(each.count, each.last.pid) for each in recovered] == [(5, 2)]


@pytest.mark.parametrize(
    ("seconds", "usual", "is_slow"),
    [(20, 10, False), (20.001, 10, True), (9, 4, False), (9.001, 4, True), (5, 0, False), (6, 0, True)],
)
def test_slow_means_twice_and_five_seconds_longer(seconds: float, usual: float, is_slow: bool) -> None:
    def lasting(end: float) -> list[Entry]:
        return [entry(), entry(Phase.SERVICE_END, end)]

    found = diagnosis(99, budgets=Budgets(baseline=history(a=lasting(usual))), a=lasting(seconds))
    assert bool(found.slow) is is_slow


def test_slow_stages_are_sorted_by_longest_execution() -> None:
    def pulled(*stages: tuple[str, float]) -> list[Entry]:
        return [
            entry(),
            *[
                one
                for name, seconds in stages
                for one in (
                    entry(Phase.STAGE_START, 1, stage=name),
                    entry(Phase.STAGE_END, 1 + seconds, stage=name),
                )
            ],
        ]

    good = Budgets(baseline=history(a=pulled(("a", 1), ("a", 3), ("b", 5))))
    found = diagnosis(1, budgets=good, a=pulled(("a", 20), ("a", 9), ("b", 40)))
    assert [(one.stage, one.seconds, one.usual) for one in found.slow] == [("b", 40, 5), ("a", 20, 3)]


def test_commands_look_where_the_trouble_is() -> None:
    def commands(found: Diagnosis) -> tuple[str, ...]:
        return next_commands(root(found))

    journal = f"journalctl _SYSTEMD_INVOCATION_ID={0:032x}"
    failed = attempt(0, failed_run())
    assert commands(diagnosis(a=failed)) == (journal,)
    plain = [replace(one, invocation_id=None) for one in failed]
    by_boot = f"journalctl --boot={BOOT_ID}"
    assert commands(diagnosis(a=plain)) == (f"{by_boot} _PID=0 + _SYSTEMD_UNIT=a.service",)
    from_upstream = [replace(one, pid=None) for one in plain]
    assert commands(diagnosis(a=from_upstream)) == (f"{by_boot} --unit=a.service",)
    stage = root(diagnosis(a=from_upstream)).stage
    assert stage
    assert commands(diagnosis(initramfs=from_upstream)) == (f"{by_boot} --unit={stage}",)
    nowhere = root(diagnosis(a=[replace(one, boot_id=None) for one in plain]))
    assert next_commands(replace(nowhere, service="a b")) == ("systemctl --failed",)  # a description
    assert commands(diagnosis(HOUR, a=attempt(0, running()))) == ("systemctl status a.service", journal)
    assert commands(diagnosis(HOUR, a=attempt(0, retries(9)))) == ("systemctl status a.service", journal)
    cause = KnownCause(name="x", says="x", commands=("look", journal))
    assert next_commands(replace(root(diagnosis(a=failed)), cause=cause)) == ("look", journal)


@pytest.mark.parametrize(
    ("hindrance", "commands"),
    [
        (Hindrance.ABSENT, ("systemctl list-unit-files 'a b*'",)),
        (Hindrance.DAMAGE, ("service-record validate '/var/log/openshift/a b.json'",)),
        (Hindrance.QUEUED, ("systemctl list-jobs",)),
        (Hindrance.UNREACHED, ("systemctl list-jobs",)),
        (
            Hindrance.CONDITION,
            ("systemctl status 'a b.service'", "journalctl --boot --unit='a b.service'"),
        ),
    ],
)
def test_commands_look_into_what_did_not_start(hindrance: Hindrance, commands: tuple[str, ...]) -> None:
    assert commands_for_missing(NotStarted(service="a b", hindrance=hindrance)) == commands


def test_commands_inspect_failed_units_of_unstarted_services() -> None:
    unit = FailedUnit(unit=Unit(name="a.mount"), recorded=None)
    known = replace(unit, cause=KnownCause(name="x", says="x", commands=("look",)))
    absent = NotStarted(service="a", hindrance=Hindrance.QUEUED)
    found = Diagnosis(verdict=Verdict.FAILED, failed_units=(unit, known), not_started=(absent, absent))
    status, journal = "systemctl status a.mount", "journalctl --boot --unit=a.mount"
    assert host_commands(found) == ("systemctl list-jobs", status, journal, "look")


def test_moved_steps_are_shown_with_their_predecessor() -> None:
    def order_of(good: str, bad: str) -> list[str]:
        steps = [[RunStep("stage", name) for name in names] for names in (good, bad)]
        return [
            f"{one.step.name} {one.after.name if one.after else '-'} "
            f"{one.good_after.name if one.good_after else '-'}"
            for one in find_moved(*steps)
        ]

    assert order_of("abc", "abc") == []
    assert order_of("abcd", "bcda") == ["a d -"]
    assert order_of("abcd", "dabc") == ["d - c"]


def test_equal_failures_in_one_step_are_one() -> None:
    def runs_of(*messages: str | None, exit_code: int = 1) -> list[Run]:
        failed = (failed_run(error_message=message, exit_code=exit_code) for message in messages)
        record = [one for number, entries in enumerate(failed) for one in attempt(number, entries)]
        return list(history(a=record).services[0].runs)

    found = group_failures(runs_of("no 1", None, "no 22", "other", None))
    assert [(one.signature, one.count, one.last.pid, one.facts.message) for one in found] == [
        ("no <number>", 2, 2, "no 22"),
        ("", 2, 4, None),
        ("other", 1, 3, "other"),
    ]
    assert {one.step for one in found} == {RunStep("stage", "second")}
    assert [one.signature for one in new_failures(runs_of("no 9", None), runs_of("no 1", "new", None))] == [
        "new"
    ]
    by_status = group_failures([*runs_of(None), *runs_of(None, exit_code=2)])
    assert [(one.facts.exit_code, one.count) for one in by_status] == [(1, 1), (2, 1)]
    killed = history(a=[*failed_run()[:-1], entry(Phase.SERVICE_END, 11, signal="KILL", **FAILURE)])
    assert [one.step is None for one in group_failures(killed.services[0].runs)] == [False, True]


def test_outer_stage_can_be_stuck_alone() -> None:
    stages = [entry(Phase.STAGE_START, 1, stage=name) for name in ("outer", "middle", "inner")]
    limits = {("a", "outer"): 20.0, ("a", "middle"): 900.0, ("a", "inner"): 900.0}
    trouble = root(diagnosis(100, budgets=Budgets(file=BudgetFile(stages=limits)), a=[entry(), *stages]))
    assert (trouble.stage, trouble.is_running) == ("outer", True)


def test_loop_continues_while_its_service_runs() -> None:
    again = attempt(9, running("pull", 100))
    assert [
        root(diagnosis(110, a=record)).is_running for record in (attempts(5), [*attempts(5), *again])
    ] == [
        False,
        True,
    ]
    assert root(diagnosis(100, a=retries(9))).is_running
    stopped = entry(Phase.SERVICE_END, 105, signal="TERM", service_result="success", **FAILURE)
    assert not root(diagnosis(110, a=[*attempts(5), *again, *attempt(9, [stopped])])).is_running


def test_new_boot_marks_open_runs_as_rebooted() -> None:
    now = Liveness(boot_id=BOOTS[2], is_at_home=True)
    for record, expected in ((running("a"), True), (failed_run(), False)):
        found = diagnose(build_history([("job", record)], now))
        assert found is not None
        assert root(found).is_rebooted is expected
    nowhere = [replace(one, boot_id=None) for one in running("a")]
    later = [*nowhere, *attempt(2, [entry(at=50)], boot_id=None)]
    assert diagnosis(60, a=later).verdict is Verdict.RUNNING


def test_rules_are_read_at_the_first_failure() -> None:
    reads: list[tuple[()]] = []

    def read_rules() -> tuple[()]:
        reads.append(())
        return ()

    causes = Causes(RuleBook(read_rules))
    for record, count in ((succeeded(), 0), (failed_run(), 1), (failed_run(), 1)):
        assert judge(history(a=record), causes).diagnosis is not None
        assert len(reads) == count
