"""The rules of the reporter: each row of the tables in `service_record.reporter.policy` has a case here."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from bench.simulated import Answering, whole_round
from service_record.diagnosis import Verdict
from service_record.http.answers import Answered, Outcome, Unreachable
from service_record.reporter.due import is_due_at
from service_record.reporter.host_state import HostEvidence
from service_record.reporter.host_view import HostView, NoHost, Refused, View
from service_record.reporter.policy.decisions import NO_REPORT_RULES, QUIET, STOP_RULES, decide
from service_record.reporter.policy.round_context import (
    MOST_TRIES,
    Fact,
    RoundContext,
    RoundPlan,
    Shipment,
    kind_of,
)
from service_record.reporter.policy.shipments import PROBE_BYTES, SHIP_RULES, reads_view
from service_record.reporter.policy.transitions import (
    ANSWERS,
    AnswerRule,
    Call,
    ResponseClass,
    apply_report,
    apply_shipment,
    apply_view,
    begin_round,
    classify,
    count_report,
    count_shipment,
    has_moved,
    mark_secret_in_bundle,
    with_bundle,
)
from service_record.reporter.settings import HostLogsPolicy, Send, Settings, Stages
from service_record.reporter.state import BootSeen, Denial, Pause, ReporterState, Usage
from tests.builders import require
from tests.reporter_builders import APPLIED, BOOT, NEXT_BOOT, begin_rounds, evidence, host_view, settings

DOCS = Path(__file__).parents[2] / "docs"
PAGES = (DOCS / "boot-reporter-rules.md", DOCS / "boot-reporter-requests.md")
FIRST = evidence()
SECOND = evidence(boot_id=NEXT_BOOT, **APPLIED)
LOST = Unreachable("no connection")
SMALL = 1 << 20
BASELINE_SENT = {"assisted-service": Usage(bundle_boot=BOOT)}
OLD_STATE = replace(begin_rounds(FIRST), stages_known=False, usage=BASELINE_SENT)


@dataclass(frozen=True)
class Case:
    """The input of a decision; `plan()` returns the result."""

    settings: Settings = field(default_factory=settings)
    state: ReporterState = OLD_STATE
    view: View | None = field(default_factory=host_view)
    evidence: HostEvidence = FIRST

    def plan(self) -> RoundPlan:
        return decide(RoundContext(self.settings, self.state, self.evidence, self.view))


def second_boot(**fields: object) -> ReporterState:
    return replace(begin_rounds(FIRST, SECOND), stages_known=False, **fields)  # type: ignore[arg-type]


def asks(state: ReporterState, found: HostEvidence, chosen: Settings | None = None) -> bool:
    """Return whether a round reads the service's view of the host."""
    return reads_view(RoundContext(chosen or settings(), state, found))


def rows(cases: Mapping[str, Case]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return pytest.mark.parametrize(("name", "case"), [pytest.param(*row, id=row[0]) for row in cases.items()])


def denied(rule: str, **fields: object) -> Denial:
    """Return the least number of denials, over the shortest time, that the reporter believes."""
    return replace(Denial(rule=rule, rounds=3, since=60.0, until=1860.0), **fields)  # type: ignore[arg-type]


STOPPING = {
    "not-ours": Case(view=Refused(401), state=replace(OLD_STATE, denial=denied("not-ours"))),
    "gone": Case(view=NoHost("deleted"), state=replace(OLD_STATE, denial=denied("gone"))),
    "installed": Case(view=host_view(status="installed", stage="Done")),
    "kubelet-up": Case(
        state=second_boot(reported=(str(Fact.CONTROL_PLANE),)), evidence=replace(SECOND, kubelet_healthy=True)
    ),
    "time-limit": Case(state=second_boot(), evidence=replace(SECOND, uptime=3600.0)),
    "lifetime": Case(
        state=replace(OLD_STATE, earlier_uptime=90000.0), evidence=evidence(uptime=100.0)
    ),
}  # fmt: skip


@rows(STOPPING)
def test_reporter_stops_permanently(name: str, case: Case) -> None:
    plan = case.plan()
    assert require(plan.stop).name == name
    assert plan.why[0].startswith(f"{name}: ")


def test_each_stop_rule_has_a_case() -> None:
    assert list(STOPPING) == [rule.name for rule in STOP_RULES]


def test_host_in_stage_done_is_installed() -> None:
    plan = Case(view=host_view(stage="Done")).plan()
    assert require(plan.stop).name == "installed"
    assert not plan.report


@pytest.mark.parametrize(
    "view",
    [
        pytest.param(host_view(status="added-to-existing-cluster", stage="Done"), id="status"),
        pytest.param(host_view(kind="AddToExistingClusterHost", stage="Done"), id="kind"),
    ],
)
def test_day_two_host_is_watched_until_kubelet_runs(view: HostView) -> None:
    failed = Case(view=view, evidence=replace(FIRST, verdict=Verdict.FAILED)).plan()
    assert failed.stop is None
    assert failed.ship
    up = Case(view=view, state=TOLD_ALL, evidence=replace(SECOND, kubelet_healthy=True)).plan()
    assert require(up.stop).name == "kubelet-up"


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(Case(), id="all is well"),
        pytest.param(Case(view=LOST), id="nobody answers"),
        pytest.param(Case(view=Answered(500)), id="an answer without a view"),
        pytest.param(Case(view=Answered(301)), id="a portal"),
        pytest.param(Case(view=Refused(401)), id="one denial"),
        pytest.param(
            Case(view=Refused(401), state=replace(OLD_STATE, denial=denied("not-ours", rounds=2))),
            id="two denials, far apart",
        ),
        pytest.param(
            Case(view=Refused(401), state=replace(OLD_STATE, denial=denied("not-ours", until=1859.0))),
            id="three denials, close together",
        ),
        pytest.param(
            Case(view=NoHost("x"), state=replace(OLD_STATE, denial=denied("not-ours"))),
            id="denials of another kind",
        ),
        pytest.param(Case(state=replace(OLD_STATE, denial=denied("gone"))), id="denied until now"),
        pytest.param(Case(view=host_view(status="error")), id="the installation failed"),
        pytest.param(Case(view=host_view(status="cancelled")), id="the installation was cancelled"),
        pytest.param(Case(evidence=replace(FIRST, kubelet_healthy=True)), id="a kubelet too early"),
        pytest.param(Case(evidence=replace(FIRST, uptime=9999.0)), id="a long first boot"),
        pytest.param(
            Case(state=second_boot(), evidence=replace(SECOND, kubelet_healthy=True), view=LOST),
            id="the kubelet is up, but the fact is not reported yet",
        ),
    ],
)
def test_reporter_continues(case: Case) -> None:
    assert case.plan().stop is None


def test_fact_is_reported_before_stopping_for_the_kubelet() -> None:
    service = Answering()
    up = replace(SECOND, kubelet_healthy=True)
    _, plan = whole_round(settings(), replace(begin_rounds(FIRST), stages_known=False), up, service, SMALL)
    assert [(found.stage, found.info) for found in service.accepted] == [("Rebooting", Fact.CONTROL_PLANE)]
    assert require(plan.stop).name == "kubelet-up"
    assert not service.uploads


def test_host_without_a_service_stops_without_a_report() -> None:
    up = replace(SECOND, kubelet_healthy=True)
    alone = Case(settings=Settings(ship_to=("/mnt",)), state=second_boot(), view=None, evidence=up)
    assert alone.plan().stop is not None


def test_undelivered_bundle_is_offered_less_and_less_often() -> None:
    service, state, asked = Answering(faults=lambda _: LOST), ReporterState(), []
    for uptime in range(60, 40_000, 600):
        before = service.calls.total()
        found = replace(WRONG, uptime=float(uptime), kubelet_healthy=False)
        state, _ = whole_round(settings(), state, found, service, SMALL)
        if service.calls.total() > before and uptime > 3600:
            asked.append(uptime // 3600)
    assert asked == [2, 4, 8]
    service.faults = lambda _: None
    for uptime in range(40_060, 60_000, 600):
        found = replace(WRONG, uptime=float(uptime), kubelet_healthy=False)
        state, _ = whole_round(settings(), state, found, service, SMALL)
    assert state.is_delivered(WRONG.fingerprint)


def test_first_boot_beyond_its_limit_waits_for_a_second() -> None:
    long = evidence(uptime=3700.0)
    case = Case(state=begin_rounds(FIRST, long), evidence=long)
    plan = case.plan()
    assert plan == RoundPlan(why=plan.why)
    assert not asks(case.state, long)
    later = replace(SECOND, uptime=30.0)
    assert asks(begin_rounds(later, state=case.state), later)


def test_new_failure_is_shipped_after_first_boot_limit() -> None:
    service, state = Answering(), ReporterState()
    for uptime in range(60, 20_000, 600):
        found = evidence(float(uptime), has_failed=uptime > 10_000)
        state, plan = whole_round(settings(), state, found, service, SMALL)
        assert plan.stop is None
    assert [shipment.fingerprint for shipment in service.uploads] == ["well", "well", "wrong"]
    assert service.accepted[-1].place
    assert service.calls["GET"] < 10, "rounds without news ask nothing"


def test_send_always_ships_after_first_boot_limit() -> None:
    service, state = Answering(), ReporterState()
    always = settings(send=Send.ALWAYS, uploads_per_boot=16, uploads=30)
    for uptime in range(60, 20_000, 600):
        state, _ = whole_round(always, state, evidence(float(uptime)), service, SMALL)
    assert 7 < len(service.uploads) <= 16, "seven rounds are in the first hour"


def test_first_round_beyond_the_limit_ships_a_last_bundle() -> None:
    long = evidence(uptime=3700.0, has_failed=True)
    plan = Case(state=begin_rounds(long), evidence=long).plan()
    assert [found.near_limit for found in plan.ship] == [BOOT]


@pytest.mark.parametrize("status", [401, 403])
def test_refused_token_stops_requests(status: int) -> None:
    bad = evidence(has_failed=True)
    plan = Case(view=Refused(status), evidence=bad, state=begin_rounds(bad)).plan()
    assert (plan.ship, plan.report, plan.gather, plan.stop) == ((), None, True, None)


def stops_after_views(*rounds: tuple[str, float, View | None]) -> list[bool]:
    """Return for each round whether the reporter stops. A round is a boot id, an uptime and a view."""
    state, stops = ReporterState(), []
    for boot_id, uptime, view in rounds:
        found = evidence(uptime, boot_id=boot_id)
        state = apply_view(begin_round(settings(), state, found), view, found)
        stops.append(Case(state=state, view=view, evidence=found).plan().stop is not None)
    return stops


NO = Refused(401, "infraEnv does not exist")
DELETED = NoHost("deleted")


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(Case(view=host_view(status="installed")), id="installed"),
        pytest.param(Case(state=replace(OLD_STATE, earlier_uptime=90000.0)), id="lifetime"),
    ],
)
def test_trouble_is_shipped_elsewhere_before_stopping_or_kept(case: Case) -> None:
    here = kind_of("/mnt")
    case = replace(case, settings=settings(ship_to=("/mnt",)), evidence=evidence(has_failed=True))
    full = replace(case.state, usage={here: Usage(uploads=7, boot_id=BOOT, boot_uploads=3)})
    for state in (case.state, full):
        plan = replace(case, state=state).plan()
        assert plan.stop is not None
        assert plan.gather
        assert here in [found.kind for found in plan.ship]
        assert plan.is_undelivered
    arrived = replace(case.state, usage={here: Usage(fingerprints=("wrong",))})
    plan = replace(case, state=arrived).plan()
    assert not plan.is_undelivered


UP = replace(SECOND, kubelet_healthy=True, verdict=Verdict.FAILED)
TOLD_ALL = second_boot(reported=(str(Fact.LOCAL), str(Fact.CONTROL_PLANE)))


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(Case(view=host_view(status="installed")), id="installed"),
        pytest.param(Case(state=TOLD_ALL, evidence=replace(UP, verdict=Verdict.SUCCEEDED)), id="kubelet up"),
        pytest.param(Case(state=replace(OLD_STATE, earlier_uptime=90000.0)), id="lifetime"),
    ],
)
def test_earlier_bundle_is_shipped_before_stopping_or_kept(case: Case) -> None:
    here = kind_of("/mnt")
    state = with_bundle(case.state, replace(WRONG, fingerprint="earlier"))
    case = replace(case, settings=settings(ship_to=("/mnt",)), state=state)
    plan = case.plan()
    assert plan.stop is not None
    assert here in [found.kind for found in plan.ship]
    assert plan.is_undelivered
    plan = replace(case, state=replace(state, usage={here: Usage(fingerprints=("earlier",))})).plan()
    assert not plan.is_undelivered


@pytest.mark.parametrize("view", [NO, host_view(status="installed")], ids=["not ours", "installed"])
def test_stopping_on_a_healthy_host_ships_and_keeps_nothing(view: View) -> None:
    state = replace(OLD_STATE, denial=denied("not-ours"))
    plan = Case(view=view, state=state, settings=settings(ship_to=("/mnt",))).plan()
    assert (plan.ship, plan.gather, plan.is_undelivered) == ((), False, False)


@pytest.mark.parametrize("stage", ["Configuring", "Joined"])
def test_kubelet_does_not_stop_a_failing_host(stage: str) -> None:
    plan = Case(state=TOLD_ALL, evidence=UP, view=host_view(stage=stage)).plan()
    assert plan.ship
    assert (plan.stop is not None) == (stage == "Joined")


@pytest.mark.parametrize("view", [NO, DELETED], ids=["not ours", "gone"])
def test_denial_needs_three_rounds_over_thirty_minutes(view: View) -> None:
    assert stops_after_views(*((BOOT, 60.0 + 600.0 * n, view) for n in range(4))) == [False] * 3 + [True]
    assert stops_after_views((BOOT, 60.0, view), (BOOT, 1900.0, view)) == [False, False]
    assert stops_after_views(*((BOOT, 60.0 * n, view) for n in range(20))) == [False] * 20


def test_denials_are_counted_across_reboots() -> None:
    assert stops_after_views(
        *((BOOT, 60.0, NO), (BOOT, 900.0, NO), (NEXT_BOOT, 30.0, NO), (NEXT_BOOT, 960.0, NO))
    ) == [False, False, False, True]


@pytest.mark.parametrize("other", [host_view(), Answered(403), Answered(500), DELETED], ids=repr)
def test_other_answer_resets_denials(other: View) -> None:
    assert not any(
        stops_after_views(
            *(
                (BOOT, 60.0, NO),
                (BOOT, 660.0, NO),
                (BOOT, 1260.0, other),
                (BOOT, 1860.0, NO),
                (BOOT, 2460.0, NO),
            )
        )
    )


@pytest.mark.parametrize("answer", [LOST, None], ids=["nobody answers", "not asked"])
def test_no_answer_neither_counts_nor_resets_denials(answer: View | None) -> None:
    assert stops_after_views(
        *((BOOT, 60.0, NO), (BOOT, 660.0, NO), (BOOT, 1860.0, answer), (BOOT, 1900.0, NO))
    ) == [False, False, False, True]


def test_second_denial_in_a_round_does_not_count() -> None:
    once = apply_view(ReporterState(), NO, FIRST)
    assert apply_view(once, NO, FIRST) == once


NOT_REPORTED = {
    "reported-before": Case(state=replace(OLD_STATE, reported=(str(Fact.LOCAL),))),
    "dropped": Case(state=replace(OLD_STATE, dropped=(str(Fact.LOCAL),))),
    "reports-refused": Case(state=replace(OLD_STATE, refused={"stage": 405})),
    "no-view": Case(view=LOST),
    "has-it": Case(view=host_view(info=str(Fact.LOCAL))),
    "not-installing": Case(view=host_view(status="error")),
    "no-stage": Case(view=host_view(stage="")),
    "over": Case(view=host_view(stage="Failed")),
    "stage-limit-near": Case(view=host_view(stage_age=35 * 60.0)),
    "no-such-stages": Case(settings=settings(stages=Stages.NEW)),
    "deferred": Case(state=replace(OLD_STATE, deferred=(str(Fact.LOCAL),))),
    "tries-spent": Case(state=replace(OLD_STATE, tries={str(Fact.LOCAL): MOST_TRIES})),
}


@rows(NOT_REPORTED)
def test_fact_is_not_reported(name: str, case: Case) -> None:
    plan = case.plan()
    assert plan.report is None
    assert any(line.startswith(f"not reported: {name}: ") for line in plan.why), plan.why


def test_each_no_report_rule_has_a_case() -> None:
    assert list(NOT_REPORTED) == [rule.name for rule in NO_REPORT_RULES]


@pytest.mark.parametrize("stages", Stages)
@pytest.mark.parametrize("known", [None, True, False])
def test_fact_is_reported_in_the_accepted_form(stages: Stages, known: bool | None) -> None:
    state = replace(OLD_STATE, stages_known=known)
    plan = Case(settings=settings(stages=stages), state=state).plan()
    as_stage = stages is Stages.NEW or (stages is Stages.AUTO and known is not False)
    if stages is Stages.NEW and known is False:
        assert plan.report is None
        return
    report = require(plan.report)
    expected = (Fact.LOCAL, "") if as_stage else ("Rebooting", Fact.LOCAL)
    assert (report.stage, report.info) == expected


@pytest.mark.parametrize(
    "stage", ["Rebooting", "Configuring", "Waiting for ignition", "Joined", "Writing image to disk"]
)
def test_information_is_sent_with_the_current_stage(stage: str) -> None:
    report = require(Case(view=host_view(stage=stage)).plan().report)
    assert report.stage == stage


@pytest.mark.parametrize("status", ["installing", "installing-in-progress", "installing-pending-user-action"])
def test_fact_of_a_host_in_installation_is_reported(status: str) -> None:
    assert Case(view=host_view(status=status)).plan().report


@pytest.mark.parametrize(
    ("rounds", "fact"),
    [
        pytest.param([FIRST], Fact.LOCAL, id="first boot"),
        pytest.param([evidence(is_pending=False)], Fact.LOCAL, id="first boot, no traces yet"),
        pytest.param([evidence(is_pending=False, is_applied=True)], Fact.LOCAL, id="about to reboot"),
        pytest.param([evidence(**APPLIED)], Fact.CONTROL_PLANE, id="only one boot from disk"),
        pytest.param(
            [FIRST, evidence(700.0, **APPLIED)], Fact.CONTROL_PLANE, id="one boot, both facts in it"
        ),
        pytest.param([FIRST, SECOND], Fact.CONTROL_PLANE, id="second boot"),
        pytest.param(
            [FIRST, replace(SECOND, is_applied=False, has_kubelet=False)],
            Fact.CONTROL_PLANE,
            id="second boot, no traces known",
        ),
        pytest.param(
            [FIRST, replace(FIRST, boot_id=NEXT_BOOT)], Fact.LOCAL, id="power loss in the first boot"
        ),
    ],
)  # fmt: skip
def test_files_on_the_disk_distinguish_boots(rounds: list[HostEvidence], fact: Fact) -> None:
    state = replace(begin_rounds(*rounds), stages_known=False)
    report = require(Case(state=state, evidence=rounds[-1]).plan().report)
    assert report.fact is fact


def test_joined_node_has_booted_with_control_plane_ignition() -> None:
    found = evidence(is_pending=False)
    report = require(Case(evidence=found, view=host_view(stage="Joined")).plan().report)
    assert report.fact is Fact.CONTROL_PLANE


def test_fact_is_never_taken_back() -> None:
    state = replace(OLD_STATE, reported=(str(Fact.CONTROL_PLANE),))
    assert Case(state=state).plan().report is None


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda row: row.name)
def test_answer_is_classified_as_documented(answer: AnswerRule) -> None:
    earlier = ANSWERS[: ANSWERS.index(answer)]
    statuses = [
        (call, status)
        for call in answer.calls
        for status in range(100, 600)
        if status in answer.statuses
        and not any(call in row.calls and status in row.statuses for row in earlier)
    ]
    assert statuses, "this row is never reached"
    assert {classify(call, Answered(status)) for call, status in statuses} == {answer.response}


@pytest.mark.parametrize(
    ("call", "status", "meaning"),
    [
        (Call.STAGE, 200, ResponseClass.DONE),
        (Call.UPLOAD, 204, ResponseClass.DONE),
        (Call.STAGE, 400, ResponseClass.OTHER_FORM),
        (Call.INFO, 400, ResponseClass.NEVER_AGAIN),
        (Call.INFO, 409, ResponseClass.MOVED),
        (Call.STAGE, 409, ResponseClass.MOVED),
        (Call.INFO, 500, ResponseClass.LATER),
        (Call.UPLOAD, 500, ResponseClass.LATER),
        *(
            (Call.UPLOAD, status, ResponseClass.LATER)
            for status in (408, 423, 425, 429, 502, 503, 504, 301, 302)
        ),
        *((Call.INFO, status, ResponseClass.LATER) for status in (408, 423, 425, 429, 502, 503, 504, 301)),
        *((Call.UPLOAD, status, ResponseClass.NEVER_AGAIN) for status in (400, 405, 409, 413)),
        *((Call.INFO, status, ResponseClass.NEVER_AGAIN) for status in (405, 413)),
        *((call, status, ResponseClass.LATER) for call in Call for status in (401, 403, 404)),
    ],
)
def test_answers_of_the_assisted_service_are_classified(
    call: Call, status: int, meaning: ResponseClass
) -> None:
    assert classify(call, Answered(status)) is meaning


def test_missing_answer_is_retried_later() -> None:
    assert {classify(call, LOST) for call in Call} == {ResponseClass.LATER}


def test_unknown_stage_is_reported_as_information_at_once() -> None:
    service = Answering()
    state, _ = whole_round(settings(), ReporterState(), FIRST, service, SMALL)
    assert [(found.stage, found.info) for found in service.accepted] == [("Rebooting", Fact.LOCAL)]
    assert service.calls["PUT"] == 2
    assert state.stages_known is False
    whole_round(settings(), state, evidence(660.0), service, SMALL)
    assert service.calls["PUT"] == 2


def test_known_stage_is_reported_as_a_stage() -> None:
    service = Answering(knows_stages=True)
    state, _ = whole_round(settings(), ReporterState(), FIRST, service, SMALL)
    assert [found.stage for found in service.accepted] == [Fact.LOCAL]
    assert (service.calls["PUT"], state.stages_known) == (1, True)


def test_moved_stage_is_read_once_more_then_dropped() -> None:
    service = Answering(faults=lambda call: Answered(409) if call == "PUT" else None)
    state, _ = whole_round(settings(), OLD_STATE, FIRST, service, SMALL)
    assert service.calls == {"GET": 2, "PUT": 2}
    assert state.dropped == (str(Fact.LOCAL),)


def test_fact_answered_500_is_tried_in_six_rounds() -> None:
    service = Answering(faults=lambda call: Answered(500) if call == "PUT" else None)
    state = OLD_STATE
    for number in range(1, 4):
        state, _ = whole_round(settings(), state, evidence(uptime=number * 60.0), service, SMALL)
    new_state, _ = whole_round(settings(), state, evidence(uptime=300.0), Answering(), SMALL)
    assert str(Fact.LOCAL) in new_state.reported
    for number in range(4, 12):
        state, _ = whole_round(settings(), state, evidence(uptime=number * 60.0), service, SMALL)
    assert service.calls["PUT"] == 6
    assert state.dropped == (str(Fact.LOCAL),)


def test_moved_stage_is_reported_on_the_new_stage() -> None:
    service = Answering()
    old = host_view()
    service.view = host_view(stage="Configuring")
    report = require(Case(view=old).plan().report)
    outcome = service.put(report)
    state = apply_report(count_report(OLD_STATE, report), report, outcome, FIRST)
    assert has_moved(state, report, outcome)
    again = require(Case(state=state, view=service.get()).plan().report)
    assert again.stage == "Configuring"


@pytest.mark.parametrize("status", [401, 403, 404, 503])
def test_error_answers_cost_no_tries_of_a_fact(status: int) -> None:
    service = Answering(faults=lambda call: Answered(status) if call == "PUT" else None)
    tried = replace(OLD_STATE, tries={FACT: 3})
    assert whole_round(settings(), tried, FIRST, service, SMALL)[0].tries == tried.tries
    service.calls.clear()
    state = OLD_STATE
    for number in range(1, 16):
        state, _ = whole_round(settings(), state, evidence(uptime=number * 60.0), service, SMALL)
        assert (service.calls["PUT"], state.tries) == (number, {FACT: 0})
    service.faults = lambda _call: None
    state, _ = whole_round(settings(), state, evidence(uptime=960.0), service, SMALL)
    assert state.reported == (str(Fact.LOCAL),)


def test_missing_answer_defers_a_fact_and_costs_a_try() -> None:
    """Each try counts, because the service may have accepted it."""
    service = Answering(faults=lambda call: LOST if call == "PUT" else None)
    state = OLD_STATE
    for number in range(1, MOST_TRIES + 3):
        state, _ = whole_round(settings(), state, evidence(uptime=number * 60.0), service, SMALL)
        assert service.calls["PUT"] == min(number, MOST_TRIES)
    assert state.dropped == (str(Fact.LOCAL),)


@pytest.mark.parametrize("status", [405, 413])
def test_refusal_ends_reports_permanently(status: int) -> None:
    service = Answering(faults=lambda call: Answered(status) if call == "PUT" else None)
    state, _ = whole_round(settings(), OLD_STATE, FIRST, service, SMALL)
    assert state.refused == {"stage": status}
    assert service.calls["PUT"] == 1


def test_fact_that_the_service_has_is_recorded() -> None:
    service = Answering(view=host_view(info=str(Fact.LOCAL)))
    state, _ = whole_round(settings(), ReporterState(), FIRST, service, SMALL)
    assert state.reported == (str(Fact.LOCAL),)
    assert service.calls["PUT"] == 0


WRONG = evidence(has_failed=True)
NO_BASELINE = replace(
    begin_rounds(WRONG), reported=(str(Fact.LOCAL),), refused={"host_boot": 400}, stages_known=False
)
TOLD = replace(NO_BASELINE, usage=BASELINE_SENT)


def used(**fields: object) -> dict[str, Usage]:
    return {"assisted-service": Usage(boot_id=BOOT, bundle_boot=BOOT, **fields)}  # type: ignore[arg-type]


WANTING = {
    "limit-near": Case(state=TOLD, evidence=evidence(uptime=3000.0)),
    "wrong": Case(state=TOLD, evidence=WRONG),
    "each-round": Case(state=TOLD, settings=settings(send=Send.ALWAYS)),
    "changed": Case(state=TOLD, settings=settings(send=Send.WHEN_CHANGED)),
    "spooled": Case(state=with_bundle(TOLD, WRONG)),
    "baseline": Case(state=NO_BASELINE),
}


@rows(WANTING)
def test_bundle_is_shipped(name: str, case: Case) -> None:
    plan = case.plan()
    assert [found.kind for found in plan.ship] == ["host"]
    assert plan.gather is (name != "spooled")
    assert any(line.startswith(f"host: {name}: ") for line in plan.why), plan.why


def test_each_reason_to_ship_has_a_case() -> None:
    assert list(WANTING) == [rule.name for rule in SHIP_RULES]


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(Case(state=TOLD), id="nothing is wrong"),
        pytest.param(Case(state=TOLD, evidence=replace(WRONG, verdict=None)), id="no records"),
        pytest.param(
            Case(state=replace(TOLD, usage=used(fingerprints=("wrong",))), evidence=WRONG), id="known"
        ),
        pytest.param(
            Case(
                state=replace(TOLD, usage=used(fingerprints=("wrong", "other"))),
                evidence=WRONG,
                settings=settings(send=Send.WHEN_CHANGED),
            ),
            id="known before the last",
        ),
        pytest.param(
            Case(state=replace(TOLD, usage=used(round=f"{BOOT} 60.00")), settings=settings(send=Send.ALWAYS)),
            id="shipped in this round",
        ),
        pytest.param(
            Case(
                state=replace(TOLD, usage=used(near_limit=BOOT, fingerprints=("well",))),
                evidence=evidence(3100.0),
            ),
            id="last bundle sent",
        ),
        pytest.param(
            Case(state=TOLD, evidence=WRONG, settings=settings(host_logs=HostLogsPolicy.NEVER)), id="never"
        ),
        pytest.param(Case(state=replace(TOLD, refused={"host_boot": 400, "host": 413})), id="refused"),
        pytest.param(
            Case(state=replace(TOLD, bundles_with_secrets=("wrong",)), evidence=WRONG), id="with a secret"
        ),
        pytest.param(Case(state=replace(TOLD, usage=used(uploads=7)), evidence=WRONG), id="budget"),
        pytest.param(
            Case(state=replace(TOLD, usage=used(boot_uploads=3)), evidence=WRONG), id="budget of a boot"
        ),
        pytest.param(
            Case(state=replace(TOLD, usage=used(bytes=96 << 20)), evidence=WRONG), id="budget of bytes"
        ),
        pytest.param(Case(state=replace(TOLD, is_careful=True), evidence=WRONG), id="lost state"),
    ],
)
def test_nothing_is_shipped_or_gathered(case: Case) -> None:
    plan = case.plan()
    assert (plan.ship, plan.gather) == ((), False)


NEAR = evidence(3000.0)
WITH_LOGS = host_view(logs_info="completed")


@pytest.mark.parametrize(
    ("case", "kinds"),
    [
        pytest.param(Case(state=TOLD, evidence=NEAR, view=WITH_LOGS), [], id="agent logs"),
        pytest.param(Case(state=TOLD, evidence=NEAR), ["host"], id="none there"),
        pytest.param(Case(state=with_bundle(TOLD, FIRST), view=WITH_LOGS), [], id="spooled"),
        pytest.param(
            Case(state=replace(TOLD, refused={}), evidence=NEAR, view=WITH_LOGS),
            ["host_boot"],
            id="its own slot",
        ),
    ],
)
def test_healthy_host_near_its_limit_keeps_the_agent_logs(case: Case, kinds: list[str]) -> None:
    assert [found.kind for found in case.plan().ship] == kinds


BOTH = settings(ship_to=("/mnt",))
OVERWRITING = settings(host_logs=HostLogsPolicy.OVERWRITE)


@pytest.mark.parametrize(
    ("case", "kinds"),
    [
        pytest.param(Case(state=TOLD, evidence=WRONG, view=WITH_LOGS), [], id="nowhere else"),
        pytest.param(
            Case(state=TOLD, evidence=WRONG, view=WITH_LOGS, settings=BOTH),
            ["directory:/mnt"],
            id="elsewhere",
        ),
        pytest.param(
            Case(state=replace(TOLD, host_uploads=1), evidence=WRONG, view=WITH_LOGS), ["host"], id="ours"
        ),
        pytest.param(
            Case(state=TOLD, evidence=WRONG, view=WITH_LOGS, settings=OVERWRITING), ["host"], id="overwrite"
        ),
        pytest.param(
            Case(state=replace(TOLD, refused={}), evidence=WRONG, view=WITH_LOGS),
            ["host_boot"],
            id="a slot for boots",
        ),
    ],
)
def test_agent_logs_are_kept_unless_settings_allow_overwriting(case: Case, kinds: list[str]) -> None:
    plan = case.plan()
    assert [found.kind for found in plan.ship] == kinds
    assert plan.gather, "it is kept on the host"
    left = "host: left: the agent's own logs are there; the bundle stays on the host"
    plan = replace(case, state=with_bundle(case.state, WRONG)).plan()
    assert plan.keeps is (left in plan.why) is not (kinds in (["host"], ["host_boot"]))


def test_only_an_upload_as_host_logs_makes_them_ours() -> None:
    (step,) = Case(state=TOLD, evidence=WRONG).plan().ship
    counted = count_shipment(TOLD, step, WRONG, SMALL)
    assert counted.host_uploads == step.tries
    for outcome, uploads in (
        (Answered(503), 0),
        (Unreachable("refused"), 0),
        (Unreachable("reset", sent=300), 1),
        (Unreachable("reset", sent=SMALL), 1),
    ):
        assert apply_shipment(counted, step, outcome, WRONG, SMALL).host_uploads == uploads


FACT, PLACE = str(Fact.LOCAL), "Boot logs kept on the host: /var/lib/service-record/spool"


def test_verdict_is_reported_once_after_the_fact() -> None:
    service = Answering(view=WITH_LOGS)
    state = ReporterState()
    for uptime in (60.0, 660.0, 1260.0):
        state, plan = whole_round(settings(), state, evidence(uptime, has_failed=True), service, SMALL)
        assert plan.keeps
    assert [report.words("why") for report in service.accepted] == [FACT, f"{FACT}. why. {PLACE}"]
    assert (service.uploads, state.bundle) == ([], with_bundle(ReporterState(), WRONG).bundle)
    later = evidence(60.0, has_failed=True, boot_id=NEXT_BOOT, **APPLIED)
    state, _ = whole_round(settings(), state, later, service, SMALL)
    assert service.accepted[-1].words("why") == f"{Fact.CONTROL_PLANE}. why. {PLACE}"
    assert len(service.accepted) == 3


def test_verdict_names_every_place_of_the_bundle() -> None:
    service = Answering()
    state, _ = whole_round(settings(ship_to=("/mnt/usb",)), ReporterState(), WRONG, service, SMALL)
    assert service.accepted[-1].words("why") == (
        f"{FACT}. why. Boot logs are among the logs of this host. "
        "Boot logs were shipped to directory:/mnt/usb"
    )
    reports = len(service.accepted)
    whole_round(settings(ship_to=("/mnt/usb",)), state, evidence(660.0, has_failed=True), service, SMALL)
    assert len(service.accepted) == reports


def test_verdict_is_reported_without_a_bundle() -> None:
    case = Case(state=TOLD, evidence=WRONG)
    assert not case.plan().report
    context = RoundContext(case.settings, TOLD, WRONG, case.view)
    report = require(decide(context, is_settled=True).report)
    assert report.words("why") == "why. No boot logs"


def test_at_most_four_verdicts_are_reported() -> None:
    service, state = Answering(view=WITH_LOGS), ReporterState()
    for number in range(9):
        found = evidence(60.0 + 300 * number, has_failed=True, fingerprint=f"{number}", trouble=f"{number}")
        state, _ = whole_round(settings(), state, found, service, SMALL)
    assert len([report for report in service.accepted if report.place]) == 4


def test_same_failure_after_progress_is_the_same_verdict() -> None:
    service, state = Answering(view=WITH_LOGS), ReporterState()
    for number in range(9):
        found = evidence(60.0 + 300 * number, has_failed=True, fingerprint=f"{number}", trouble="pull failed")
        state, _ = whole_round(settings(), state, found, service, SMALL)
    assert len([report for report in service.accepted if report.place]) == 1


def test_verdict_is_sent_with_the_current_stage() -> None:
    service = Answering(view=WITH_LOGS, knows_stages=True)
    whole_round(settings(), ReporterState(), WRONG, service, SMALL)
    reports = [(report.stage, report.words("")) for report in service.accepted]
    assert reports == [(FACT, ""), (FACT, PLACE)]


@pytest.mark.parametrize("status", ["error", "cancelled"])
def test_verdict_of_a_failed_host_is_reported(status: str) -> None:
    view = replace(WITH_LOGS, status=status)
    report = require(Case(state=with_bundle(TOLD, WRONG), evidence=WRONG, view=view).plan().report)
    assert (report.stage, report.words("")) == ("Rebooting", PLACE)


@pytest.mark.parametrize(
    ("stage", "minutes", "is_near"),
    [
        ("Rebooting", 29, False),
        ("Rebooting", 39, True),
        ("Rebooting", 45, False),
        ("Rebooting", 75, True),
        ("Configuring", 45, False),
        ("Configuring", 55, True),
        ("Waiting for ignition", 60, False),
    ],
)
def test_nothing_is_reported_shortly_before_stage_limit(stage: str, minutes: int, is_near: bool) -> None:
    view = replace(WITH_LOGS, stage=stage, stage_age=60.0 * minutes)
    case = Case(state=with_bundle(TOLD, WRONG), evidence=WRONG, view=view)
    assert bool(case.plan().report) is not is_near
    found_stuck = replace(view, status="installing-pending-user-action")
    assert replace(case, view=found_stuck).plan().report


def test_day_two_verdict_is_sent_with_stage_done() -> None:
    view = replace(WITH_LOGS, stage="Done", status="added-to-existing-cluster")
    report = require(Case(state=with_bundle(TOLD, WRONG), evidence=WRONG, view=view).plan().report)
    assert (report.stage, report.words("why")) == ("Done", f"why. {PLACE}")


@pytest.mark.parametrize(("status", "is_sent"), [("installed", True), ("installing-in-progress", False)])
def test_verdict_of_installed_host_has_stage_done(status: str, is_sent: bool) -> None:
    view = replace(WITH_LOGS, stage="Done", status=status)
    plan = Case(state=with_bundle(TOLD, WRONG), evidence=WRONG, view=view).plan()
    assert require(plan.stop).name == "installed"
    assert (plan.report is not None) is is_sent


VERDICT = f"verdict wrong: {PLACE}"


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(Case(view=replace(WITH_LOGS, stage="Failed")), id="the stage Failed"),
        pytest.param(Case(view=replace(WITH_LOGS, stage="")), id="no stage"),
        pytest.param(Case(view=LOST), id="nobody answers"),
        pytest.param(
            Case(view=WITH_LOGS, state=replace(TOLD, reported=(FACT, VERDICT))), id="reported before"
        ),
        pytest.param(Case(view=WITH_LOGS, state=replace(TOLD, refused={"stage": 405})), id="refused"),
        pytest.param(Case(view=WITH_LOGS, state=replace(TOLD, dropped=(VERDICT,))), id="dropped"),
        pytest.param(Case(view=WITH_LOGS, state=replace(TOLD, deferred=(VERDICT,))), id="deferred"),
        pytest.param(
            Case(view=WITH_LOGS, state=replace(TOLD, tries={VERDICT: MOST_TRIES})), id="tries spent"
        ),
    ],
)
def test_verdict_is_not_reported(case: Case) -> None:
    state = TOLD if case.state is OLD_STATE else case.state
    assert replace(case, state=with_bundle(state, WRONG), evidence=WRONG).plan().report is None


def baselines(boots: list[float], *, fingerprint: str = "well", **fields: object) -> list[tuple[str, float]]:
    """Simulate boots with these durations in seconds. Return the boot and the uptime of each upload."""
    service, state, uploads = Answering(**fields), ReporterState(), []  # type: ignore[arg-type]
    for number, seconds in enumerate(boots):
        for uptime in range(20, int(seconds), 600):
            found = evidence(float(uptime), boot_id=f"{number:032x}", fingerprint=fingerprint)
            before = len(service.uploads)
            state, _ = whole_round(settings(), state, found, service, SMALL)
            uploads += [(found.boot_id[-1], found.uptime)] * (len(service.uploads) - before)
    return uploads


@pytest.mark.parametrize("knows_host_boot", [True, False])
def test_healthy_host_ships_one_bundle_early_in_each_boot(knows_host_boot: bool) -> None:
    assert baselines([1500.0, 1500.0], knows_host_boot=knows_host_boot) == [("0", 20.0), ("1", 20.0)]


def test_baselines_leave_half_of_the_budget() -> None:
    assert len(baselines([300.0] * 30)) == settings().uploads // 2
    few = Case(state=NO_BASELINE, settings=settings(uploads_per_boot=1))
    assert few.plan().ship == (), "the only upload is for a trouble or a limit"


def test_baseline_waits_for_its_destination() -> None:
    for view in (LOST, None, Answered(503)):
        assert not Case(state=NO_BASELINE, view=view).plan().gather
    assert Case(state=NO_BASELINE, view=LOST, settings=settings(ship_to=("/mnt",))).plan().gather


def test_baseline_never_replaces_a_trouble_bundle() -> None:
    spooled = with_bundle(NO_BASELINE, replace(WRONG, boot_id=NEXT_BOOT))
    assert [found.fingerprint for found in Case(state=spooled).plan().ship] == ["wrong"]
    kept = replace(spooled, usage={"assisted-service": Usage(fingerprints=("wrong",))})
    assert Case(state=kept).plan().ship == ()


def test_kept_trouble_is_shipped_elsewhere_in_each_boot() -> None:
    """The service has the agent's logs, so the bundle for it stays in the spool."""
    service, state = Answering(view=WITH_LOGS), ReporterState()
    for boot_id in (BOOT, NEXT_BOOT):
        state, _ = whole_round(BOTH, state, replace(WRONG, boot_id=boot_id), service, SMALL)
        assert state.usage_at(kind_of("/mnt")).bundle_boot == boot_id
        assert state.bundle == with_bundle(state, replace(WRONG, boot_id=boot_id)).bundle


@pytest.mark.parametrize("is_wrong", [True, False])
def test_baseline_never_replaces_a_trouble_in_the_host_logs(is_wrong: bool) -> None:
    state = replace(NO_BASELINE, host_uploads=1, has_wrong_host_logs=is_wrong)
    assert bool(Case(state=state, view=WITH_LOGS).plan().ship) is not is_wrong


def test_trouble_is_reported_in_boot_after_database_outage() -> None:
    service, state = Answering(view=NO), ReporterState()
    for uptime in range(20, 3000, 600):
        state, plan = whole_round(settings(), state, evidence(float(uptime), has_failed=True), service, SMALL)
        assert plan.stop is None
    assert service.calls == {"GET": 4}, "a believed denial is not asked about in every round"
    for boot in range(1, 7):
        found = evidence(boot_id=f"{boot:032x}", has_failed=True)
        for seconds in (20.0, 620.0, 1220.0):
            state, plan = whole_round(settings(), state, replace(found, uptime=seconds), service, SMALL)
            assert plan.stop is None
    assert service.calls == {"GET": 6}, "once an hour at most"
    service.view = host_view()
    state, _ = whole_round(
        settings(), state, evidence(20.0, boot_id=NEXT_BOOT, has_failed=True), service, SMALL
    )
    assert state.is_delivered("wrong")
    assert service.accepted[-1].place


def test_last_boot_waits_for_an_unreachable_service() -> None:
    service, state = Answering(faults=lambda _: LOST), second_boot()
    failed = replace(SECOND, verdict=Verdict.FAILED, fingerprint="wrong")
    for uptime in range(20, 7000, 600):
        found = replace(failed, uptime=float(uptime))
        state, plan = whole_round(settings(), state, found, service, SMALL)
        assert plan.stop is None
    service.faults = lambda _: None
    state, plan = whole_round(settings(), state, replace(failed, uptime=7220.0), service, SMALL)
    assert state.is_delivered("wrong")
    assert service.accepted[-1].place
    assert require(plan.stop).name == "time-limit"


def test_send_always_makes_a_bundle_in_each_round() -> None:
    case = Case(settings=settings(send=Send.ALWAYS), state=with_bundle(TOLD, FIRST))
    made = [replace(case, evidence=evidence(uptime)).plan().gather for uptime in (60.0, 660.0)]
    assert made == [False, True]


def test_send_always_ships_each_round_within_the_budget() -> None:
    service = Answering()
    state, always = ReporterState(), settings(send=Send.ALWAYS, uploads_per_boot=7)
    for number in range(5):
        state, _ = whole_round(always, state, evidence(60.0 + 600.0 * number), service, SMALL)
        assert len(service.uploads) == number + 1
    service, state = Answering(), ReporterState()
    for number in range(7):
        found = evidence(60.0 + 540.0 * number)
        state, _ = whole_round(settings(send=Send.ALWAYS), state, found, service, SMALL)
    assert len(service.uploads) == settings().uploads_per_boot
    assert service.uploads[-1].near_limit == BOOT


@pytest.mark.parametrize(
    "state",
    [
        pytest.param(replace(TOLD, usage=used(uploads=7)), id="of all"),
        pytest.param(replace(TOLD, usage=used(boot_uploads=3)), id="of the boot"),
        pytest.param(replace(TOLD, is_careful=True), id="after a lost state"),
    ],
)
def test_last_upload_is_kept_for_the_limit(state: ReporterState) -> None:
    (found,) = Case(state=state, evidence=evidence(3000.0, has_failed=True)).plan().ship
    assert (found.near_limit, found.tries) == (BOOT, 1)
    over = replace(state, usage=used(uploads=8, boot_uploads=4))
    assert Case(state=over, evidence=evidence(3000.0, has_failed=True)).plan().ship == ()


@pytest.mark.parametrize(("uploads", "tries"), [(1, 1), (2, 1), (3, 2)])
def test_budget_of_one_upload_has_no_reserve(uploads: int, tries: int) -> None:
    for few in (settings(uploads=uploads), settings(uploads_per_boot=uploads)):
        assert [found.tries for found in Case(settings=few, state=TOLD, evidence=WRONG).plan().ship] == [
            tries
        ]


def test_plan_reports_a_spent_budget() -> None:
    reason = "host: wrong: the host has a trouble that the destination does not have yet"
    for uploads, most, line in ((0, 12 << 20, reason), (8, 0, f"{reason}, but its budget is spent")):
        plan = Case(state=replace(TOLD, usage=used(uploads=uploads)), evidence=WRONG).plan()
        assert plan.bundle_bytes == most
        assert line in plan.why


def test_limit_is_near_if_no_round_precedes_it() -> None:
    limits, ahead = settings(), settings().frequency + settings().jitter
    for uptime, earlier, near_limit in (
        (limits.time_limit - ahead, 0.0, BOOT),
        (60.0, limits.lifetime - ahead - 60.0, "lifetime"),
    ):
        case = Case(state=replace(TOLD, earlier_uptime=earlier), evidence=evidence(uptime))
        assert [found.near_limit for found in case.plan().ship] == [near_limit]
        assert replace(case, evidence=evidence(uptime - 0.5)).plan().ship == ()
    case = Case(state=replace(TOLD, earlier_uptime=limits.lifetime - 60.0))
    assert require(case.plan().stop).name == "lifetime"
    assert replace(case, evidence=evidence(59.5)).plan().stop is None


@pytest.mark.parametrize(
    ("outcome", "is_said"),
    [
        (Unreachable("refused"), False),
        (Unreachable("reset", sent=SMALL), True),
        (Answered(503, sent=2 * SMALL, tries=2), True),
        (Answered(204, sent=SMALL), True),
    ],
    ids=repr,
)
def test_partly_sent_last_bundle_counts_as_sent(outcome: Outcome, is_said: bool) -> None:
    (step,) = Case(state=TOLD, evidence=NEAR).plan().ship
    earlier = replace(TOLD, usage=used(near_limit="lifetime"))
    for own, expected in ((step, BOOT if is_said else None), (replace(step, near_limit=None), "lifetime")):
        state = apply_shipment(count_shipment(earlier, own, NEAR, SMALL), own, outcome, NEAR, SMALL)
        assert state.usage_at(own.destination).near_limit == expected


def test_bundle_fits_the_rest_of_the_budget() -> None:
    almost = replace(TOLD, usage=used(bytes=(96 << 20) - (1 << 20)))
    plan = Case(state=almost, evidence=WRONG).plan()
    assert plan.bundle_bytes == plan.ship[0].most < 1 << 20
    assert Case(state=TOLD, evidence=WRONG).plan().bundle_bytes == 12 << 20


ALL_BYTES = (96 << 20) - PROBE_BYTES


@pytest.mark.parametrize(
    ("before", "shipped"),
    [
        ({"uploads": 5}, (12 << 20, 2)),
        ({"uploads": 6}, (12 << 20, 1)),
        ({"boot_uploads": 1}, (12 << 20, 2)),
        ({"boot_uploads": 2}, (12 << 20, 1)),
        ({"bytes": ALL_BYTES - (24 << 20)}, (12 << 20, 2)),
        ({"bytes": ALL_BYTES - (24 << 20) + 1}, (12 << 20, 1)),
        ({"bytes": ALL_BYTES - (1 << 16)}, (1 << 16, 1)),
        ({"bytes": ALL_BYTES - (1 << 16) + 1}, None),
    ],
)
def test_bundle_is_tried_twice_if_the_budget_allows(
    before: dict[str, int], shipped: tuple[int, int] | None
) -> None:
    plan = Case(state=replace(TOLD, usage=used(**before)), evidence=WRONG).plan()
    assert [(found.most, found.tries) for found in plan.ship] == ([shipped] if shipped else [])


def test_healthy_host_ships_only_before_a_limit() -> None:
    for name, case in STOPPING.items():
        plan = replace(case, state=replace(case.state, refused={"host_boot": 400})).plan()
        assert plan.stop is not None
        assert bool(plan.ship) is (name in {"time-limit", "lifetime"}), name


@pytest.mark.parametrize("view", [LOST, Answered(503), None])
def test_bundle_is_made_once_and_waits_for_the_service(view: View | None) -> None:
    plan = Case(state=TOLD, evidence=WRONG, view=view).plan()
    assert (plan.gather, plan.ship) == (True, ())
    state = with_bundle(TOLD, WRONG)
    later = evidence(660.0, has_failed=True)
    assert not Case(state=state, evidence=later, view=view).plan().gather
    plan = Case(state=state, evidence=later).plan()
    assert ([found.fingerprint for found in plan.ship], plan.gather) == (["wrong"], False)


def test_newer_bundle_precedes_the_spooled_one() -> None:
    state = with_bundle(TOLD, replace(WRONG, fingerprint="older"))
    plan = Case(state=state, evidence=WRONG).plan()
    assert ([found.fingerprint for found in plan.ship], plan.gather) == (["wrong"], True)
    assert Case(state=replace(state, bundle=None)).plan().ship == ()


def test_bundle_with_a_secret_is_not_made_again() -> None:
    state = mark_secret_in_bundle(TOLD, WRONG)
    assert not Case(state=state, evidence=WRONG).plan().gather
    assert Case(state=state, evidence=replace(WRONG, fingerprint="new")).plan().gather


def test_interruption_by_a_reboot_counts_in_the_second_round() -> None:
    bad = replace(WRONG, verdict=Verdict.INTERRUPTED, is_only_reboot=True)
    base = replace(TOLD, boots=())
    assert Case(state=begin_rounds(bad, state=base), evidence=bad).plan().ship == ()
    later = replace(bad, uptime=660.0)
    assert Case(state=begin_rounds(bad, later, state=base), evidence=later).plan().ship


def test_refused_host_boot_logs_are_uploaded_as_host_logs() -> None:
    service = Answering()
    state, _ = whole_round(settings(), ReporterState(), WRONG, service, SMALL)
    assert [found.kind for found in service.uploads] == ["host"]
    assert service.calls["POST"] == 2
    assert state.refused == {"host_boot": 400}
    assert state.usage_at("assisted-service").uploads == 1
    state, _ = whole_round(
        settings(), state, replace(WRONG, uptime=660.0, fingerprint="new"), service, SMALL
    )  # fmt: skip
    assert service.calls["POST"] == 3


def test_each_destination_has_its_own_budget() -> None:
    more = settings(ship_to=("/mnt", "https://store.example/x?sig=geheim", "collector+http://c.example"))
    plan = Case(settings=more, state=TOLD, evidence=WRONG).plan()
    kinds = [found.kind for found in plan.ship]
    assert kinds[:2] == ["host", "directory:/mnt"]
    assert [kind.partition(":")[0] for kind in kinds[2:]] == ["put", "collector"]
    assert "geheim" not in repr(plan)
    full = replace(TOLD, usage=used(uploads=8))
    assert len(Case(settings=more, state=full, evidence=WRONG).plan().ship) == 3


def test_destination_names_are_unique_and_contain_no_secret() -> None:
    one, other = "https://me:pw123456@store.example/x?sig=1", "https://store.example/x?sig=2"
    targets = ["/srv/a", "/srv/b", one, other, f"collector+{other}"]
    names = [kind_of(target) for target in targets]
    assert len(set(names)) == len(names)
    assert names[0] == "directory:/srv/a"
    assert not [name for name in names if "sig" in name or "pw123456" in name]


@pytest.mark.parametrize("status", [400, 405, 413])
def test_refused_upload_ends_that_kind_permanently(status: int) -> None:
    service = Answering(faults=lambda call: Answered(status, sent=SMALL) if call == "POST" else None)
    state, _ = whole_round(settings(), TOLD, WRONG, service, SMALL)
    assert state.refused["host"] == status
    assert service.calls["POST"] == 1
    assert state.usage_at("assisted-service").bytes == SMALL


@pytest.mark.parametrize(
    ("outcome", "uploads", "sent"),
    [
        pytest.param(Unreachable("refused", sent=0), 0, 0, id="nothing was sent"),
        pytest.param(Answered(503, sent=PROBE_BYTES), 0, PROBE_BYTES, id="a probe was sent"),
        pytest.param(Unreachable("reset", sent=SMALL // 2), 1, SMALL // 2, id="half was sent"),
        pytest.param(Answered(503, sent=SMALL), 1, SMALL, id="all was sent, then refused"),
        pytest.param(Answered(503, sent=2 * SMALL, tries=2), 2, 2 * SMALL, id="twice"),
        pytest.param(Answered(204, sent=SMALL + 300), 1, SMALL + 300, id="a probe before it"),
        pytest.param(Answered(204, sent=2 * SMALL, tries=2), 2, 2 * SMALL, id="taken the second time"),
    ],
)
def test_budget_counts_sent_bytes(outcome: Outcome, uploads: int, sent: int) -> None:
    (step,) = Case(state=TOLD, evidence=WRONG).plan().ship
    state = count_shipment(TOLD, step, WRONG, SMALL)
    counted = state.usage_at(step.destination)
    assert (counted.uploads, counted.bytes) == (step.tries, step.tries * SMALL)
    found = apply_shipment(state, step, outcome, WRONG, SMALL).usage_at(step.destination)
    assert (found.uploads, found.boot_uploads, found.bytes) == (uploads, uploads, sent)


def test_failed_upload_is_retried_in_a_later_round() -> None:
    service = Answering(faults=lambda call: Answered(503, sent=SMALL) if call == "POST" else None)
    state, _ = whole_round(settings(), TOLD, WRONG, service, SMALL)
    assert service.calls["POST"] == 1
    service.faults = lambda _call: None
    state, _ = whole_round(settings(), state, evidence(660.0, has_failed=True), service, SMALL)
    assert service.calls["POST"] == 2
    assert state.usage_at("assisted-service").fingerprints == ("wrong",)


def test_retry_after_of_an_upload_pauses_the_destination() -> None:
    service = Answering(faults=lambda call: Answered(429, retry_after=900.0) if call == "PUT" else None)
    state, _ = whole_round(settings(), OLD_STATE, FIRST, service, SMALL)
    assert state.pauses == {"assisted-service": Pause(boot_id=BOOT, uptime=960.0)}
    assert not asks(state, evidence(900.0))
    assert asks(state, evidence(961.0))
    assert asks(state, SECOND)


def test_retry_after_of_a_view_pauses_the_service() -> None:
    state = apply_view(OLD_STATE, Answered(503, retry_after=900.0), FIRST)
    assert not asks(state, evidence(900.0))
    assert apply_view(OLD_STATE, host_view(), FIRST) == OLD_STATE


def test_retry_after_delays_no_other_destination() -> None:
    more = settings(ship_to=("/mnt", "/other"))
    state = replace(TOLD, pauses={"directory:/mnt": Pause(boot_id=BOOT, uptime=960.0)})
    plan = Case(settings=more, state=state, evidence=WRONG).plan()
    assert [found.kind for found in plan.ship] == ["host", "directory:/other"]
    assert asks(state, WRONG, more)
    later = evidence(961.0, has_failed=True)
    assert len(Case(settings=more, state=state, evidence=later).plan().ship) == 3


def test_no_service_is_queried_without_settings() -> None:
    assert not asks(begin_rounds(FIRST), FIRST, Settings())


@pytest.mark.parametrize(
    ("state", "uptime", "due"),
    [
        pytest.param(ReporterState(), 1.0, True, id="first"),
        pytest.param(begin_rounds(evidence(20.0)), 80.0, False, id="a minute later"),
        pytest.param(begin_rounds(evidence(20.0)), 680.0, True, id="with all jitter"),
        pytest.param(begin_rounds(evidence(20.0), evidence(640.0)), 1234.0, False, id="not again yet"),
        pytest.param(begin_rounds(evidence(20.0), evidence(640.0)), 1236.0, True, id="again, woken early"),
        pytest.param(begin_rounds(replace(SECOND, uptime=500.0)), 20.0, True, id="another boot"),
    ],
)
def test_rounds_are_due_at_boot_and_then_by_frequency(state: ReporterState, uptime: float, due: bool) -> None:
    assert is_due_at(settings(), state, BOOT, uptime) is due


def test_state_lists_the_last_sixteen_boots() -> None:
    boots = [f"{number:032x}" for number in range(20)]
    rounds = [evidence(uptime, boot_id=boot_id) for boot_id in boots for uptime in (0.5, 30.0, 20.0)]
    state = begin_rounds(*rounds, evidence(0.25, boot_id=NEXT_BOOT))
    earlier = tuple(BootSeen(boot_id=boot_id, rounds=3, uptime=30.0) for boot_id in boots[5:])
    latest = BootSeen(boot_id=NEXT_BOOT, rounds=1, uptime=0.25)
    assert state == ReporterState(boots=(*earlier, latest), earlier_boots=5, earlier_uptime=150.0)


def test_jitter_separates_hosts_that_boot_together() -> None:
    state = begin_rounds(evidence(20.0))
    service = require(settings().service)
    times = set()
    for number in range(8):
        own = settings(service=replace(service, host_id=f"{number:08}"))
        times.add(next(at for at in range(600, 700) if is_due_at(own, state, BOOT, float(at))))
    assert len(times) > 4


@pytest.mark.parametrize(
    "rule", [*STOP_RULES, QUIET, *NO_REPORT_RULES, *ANSWERS, *SHIP_RULES], ids=lambda rule: rule.name
)
def test_each_rule_is_documented_with_its_reason(rule: object) -> None:
    name, reason = rule.name, rule.reason  # type: ignore[attr-defined]
    lines = [line for page in PAGES for line in page.read_text().splitlines()]
    matching = [line for line in lines if line.startswith(f"| {name} |")]
    assert any(reason in line for line in matching), (name, reason)


def test_repr_of_a_shipment_has_no_secret() -> None:
    found = Shipment(kind="put:x", to="https://h/?geheim", most=1, fingerprint="f")
    assert "geheim" not in repr(found)
