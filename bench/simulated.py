"""Simulates a host, an assisted-service and the rounds between them, by calling the policy directly."""

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field, replace

from service_record.diagnosis import Verdict
from service_record.http.answers import Answered, Outcome
from service_record.reporter.due import is_due_at
from service_record.reporter.host_state import HostEvidence
from service_record.reporter.host_view import HostView, View
from service_record.reporter.policy.decisions import decide
from service_record.reporter.policy.round_context import (
    RoundContext,
    RoundPlan,
    Shipment,
    StageReport,
)
from service_record.reporter.policy.shipments import PROBE_BYTES, reads_view, spool_is_delivered
from service_record.reporter.policy.transitions import (
    apply_report,
    apply_shipment,
    apply_view,
    begin_round,
    count_report,
    count_shipment,
    has_moved,
    with_bundle,
    with_reported,
)
from service_record.reporter.settings import AssistedServiceSettings, Settings
from service_record.reporter.state import ReporterState

MINUTE = 60.0
DAY = 86400.0
FIRST_ROUND = 20.0
"""Uptime of the first round in each boot, in seconds."""
_MOST_PLANS = 10
ID = "01234567-89ab-cdef-0123-456789abcdef"


def settings(**others: object) -> Settings:
    """Return the settings of a host that was set up as documented, with the changes in `others`."""
    service = AssistedServiceSettings(
        url="https://assisted.example", cluster_id=ID, infra_env_id=ID, host_id=ID, token="token"
    )
    return replace(Settings(service=service), **others)  # type: ignore[arg-type]


@dataclass
class Answering:
    """Answers the reporter's calls as the assisted-service does, and counts them.

    It takes and returns the reporter's own types, without HTTP, because simulations make thousands of calls.
    A test compares its answers with those of `tests.assisted_rules`.
    """

    knows_stages: bool = False
    knows_host_boot: bool = False
    view: View = field(default_factory=lambda: HostView(stage="Rebooting", status="installing-in-progress"))
    faults: Callable[[str], Outcome | None] = lambda _call: None
    """Return the answer to a call, "GET", "PUT" or "POST". None lets the rules answer."""
    calls: Counter[str] = field(default_factory=Counter)
    accepted: list[StageReport] = field(default_factory=list)
    uploads: list[Shipment] = field(default_factory=list)
    bytes: int = 0

    def get(self) -> View:
        self.calls["GET"] += 1
        return self.faults("GET") or self.view

    def put(self, report: StageReport) -> Outcome:
        self.calls["PUT"] += 1
        fault = self.faults("PUT")
        if fault is not None:
            return fault
        if report.is_new_stage and not self.knows_stages:
            return Answered(400)
        assert isinstance(self.view, HostView)
        if report.stage != self.view.stage and not report.is_new_stage:
            return Answered(409)
        self.view = replace(self.view, stage=report.stage, info=report.words(""))
        self.accepted.append(report)
        return Answered(200)

    def upload(self, shipment: Shipment, size: int) -> Outcome:
        self.calls["POST"] += 1
        fault = self.faults("POST")
        if fault is not None:
            self.bytes += fault.sent
            if fault.sent > PROBE_BYTES:  # fewer bytes are a probe, not a bundle
                self.uploads.extend([shipment] * max(1, -(-fault.sent // size)))
            return fault
        if shipment.kind == "host_boot" and not self.knows_host_boot:
            self.bytes += 300
            return Answered(400, sent=300)
        self.uploads.append(shipment)
        self.bytes += size
        if shipment.kind == "host" and isinstance(self.view, HostView):
            self.view = replace(self.view, logs_info="collecting")
        return Answered(204, sent=size)


def steps(
    settings: Settings, state: ReporterState, evidence: HostEvidence, service: Answering, size: int
) -> Generator[ReporterState, None, RoundPlan]:
    """Yield each state that a round saves; return its last plan. Closing the generator kills the round."""
    state = begin_round(settings, state, evidence)
    yield state
    view = service.get() if reads_view(RoundContext(settings, state, evidence)) else None
    state = apply_view(state, view, evidence)
    yield state
    is_view_old = False
    for _ in range(_MOST_PLANS):
        context = RoundContext(settings, state, evidence, view)
        plan = decide(context)
        if plan.report and is_view_old:
            view, is_view_old = service.get(), False
            continue
        if plan.is_reported:
            state = with_reported(state, context.fact)
            yield state
        if plan.is_last:
            if spool_is_delivered(context):
                yield replace(state, bundle=None)
            return plan
        if plan.report:
            state = count_report(state, plan.report)
            yield state
            outcome = service.put(plan.report)
            is_view_old = is_view_old or (isinstance(outcome, Answered) and outcome.good)
            state = apply_report(state, plan.report, outcome, evidence)
            yield state
            if has_moved(state, plan.report, outcome):
                view, is_view_old = service.get(), False
            continue
        if plan.gather:
            is_view_old = True
            state = with_bundle(state, evidence)
            yield state
        for shipment in plan.ship:
            sent = min(size, shipment.most)
            state = count_shipment(state, shipment, evidence, sent)
            yield state
            outcome = service.upload(shipment, sent)
            state = apply_shipment(state, shipment, outcome, evidence, sent)
            yield state
    raise AssertionError(f"no end of plans: {plan}")


def whole_round(
    settings: Settings, state: ReporterState, evidence: HostEvidence, service: Answering, size: int
) -> tuple[ReporterState, RoundPlan]:
    """Complete a round without interruption. Return its last state and plan."""
    round_ = steps(settings, state, evidence, service, size)
    while True:
        try:
            state = next(round_)
        except StopIteration as end:
            return state, end.value


def wakes(boots: Iterable[float]) -> Iterator[tuple[int, float]]:
    """Yield the times at which the timer wakes the reporter: boot number and uptime, once a minute."""
    for boot, seconds in enumerate(boots, 1):
        uptime = FIRST_ROUND
        while uptime < seconds:
            yield boot, uptime
            uptime += MINUTE


def live(
    settings: Settings,
    boots: Iterable[float],
    service: Answering,
    evidence: Callable[[int, float], HostEvidence],
    size: int,
) -> tuple[ReporterState, RoundPlan | None]:
    """Simulate boots that last so many seconds, until the reporter stops.

    Return the last state, and the plan that stopped the reporter or None.
    """
    state = ReporterState()
    for boot, uptime in wakes(boots):
        observation = evidence(boot, uptime)
        if not is_due_at(settings, state, observation.boot_id, observation.uptime):
            continue
        state, plan = whole_round(settings, state, observation, service, size)
        if plan.stop is not None:
            return state, plan
    return state, None


def failing(boot: int, uptime: float, fingerprint: str = "the same") -> HostEvidence:
    """Return the evidence of a host with a failure."""
    return HostEvidence(
        boot_id=f"{boot:032x}",
        uptime=uptime,
        is_pending=True,
        verdict=Verdict.FAILED,
        fingerprint=fingerprint,
    )
