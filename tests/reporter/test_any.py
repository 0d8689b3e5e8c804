"""Random answers of the service, kills of rounds and reboots: budgets and other promises hold."""

from collections import Counter
from dataclasses import dataclass, replace
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from bench.simulated import Answering, failing, steps, wakes, whole_round
from bench.simulated import settings as reporter_settings
from bench.traffic import CASES, PAGE, spent, table
from service_record.diagnosis import Verdict
from service_record.http.answers import Answered, Outcome, Unreachable
from service_record.reporter.due import is_due_at
from service_record.reporter.host_state import HostEvidence
from service_record.reporter.host_view import HostView, NoHost, Refused, View
from service_record.reporter.policy.round_context import Fact, RoundPlan
from service_record.reporter.settings import HostLogsPolicy, Send, Settings, Stages
from service_record.reporter.state import ReporterState
from tests.reporter_builders import evidence

MIB = 1 << 20
STATUSES = (200, 204, 301, 400, 401, 404, 408, 409, 413, 429, 500, 502, 503)
STAGES = ("", "Rebooting", "Configuring", "Waiting for ignition", "Joined", "Failed")
HOUR = 3600.0


@dataclass
class Chance:
    """Random failures and their places, drawn by hypothesis; no more failures after `left` draws."""

    data: st.DataObject
    left: int = 120

    def one_in(self, number: int) -> bool:
        if self.left <= 0:
            return False
        self.left -= 1
        return self.data.draw(st.integers(0, number - 1)) == 0

    def fault(self, call: str, size: int) -> Outcome | None:
        """Return a failure for a PUT or POST call, or None. A failed upload has sent 0 to `size` bytes."""
        if call == "GET" or not self.one_in(3):
            return None
        sent = self.data.draw(st.sampled_from([0, 300, size // 2, size])) if call == "POST" else 0
        status = self.data.draw(st.sampled_from((0, *STATUSES)))
        retry = self.data.draw(st.sampled_from([None, 0.0, 1800.0]))
        return Answered(status, sent=sent, retry_after=retry) if status else Unreachable("no", sent=sent)

    def view(self, view: View) -> View:
        if not self.one_in(4):
            return view
        stage = self.data.draw(st.sampled_from(STAGES))
        status = self.data.draw(st.sampled_from(["installing-in-progress", "error"]))
        other = HostView(stage=stage, status=status, info="somebody else's")
        views: list[View] = [Unreachable("no"), Answered(500), Answered(301), other]
        return self.data.draw(st.sampled_from(views))

    def evidence(self, boot: int, uptime: float) -> HostEvidence:
        plain = failing(boot, uptime)
        if not self.one_in(2):
            return plain
        verdict = self.data.draw(st.sampled_from([None, *Verdict]))
        is_pending, is_applied = self.data.draw(
            st.sampled_from([(False, False), (True, False), (False, True)])
        )
        number = self.data.draw(st.integers(0, 30))
        return replace(
            plain,
            verdict=verdict,
            is_pending=is_pending,
            is_applied=is_applied,
            fingerprint=f"{verdict} {number}",
        )


class Unsteady(Answering):
    """A service whose view changes between requests."""

    chance: Chance

    def get(self) -> View:
        self.calls["GET"] += 1
        seen = self.chance.view(self.view)
        if isinstance(seen, HostView):
            self.view = seen
        return seen


def killed_round(
    chosen: Settings, disk: ReporterState, evidence: HostEvidence, service: Answering, chance: Chance
) -> tuple[ReporterState, RoundPlan | None]:
    """Run a round that may be killed before or after any save.

    Return the saved state, and the last plan; None if the round was killed.
    """
    round_ = steps(chosen, disk, evidence, service, MIB)
    while True:
        try:
            state = next(round_)
        except StopIteration as end:
            return disk, end.value
        if chance.one_in(12):  # before the save
            return disk, None
        disk = state
        if chance.one_in(12):  # after the save
            return disk, None


CHOSEN = st.builds(
    lambda send, logs, stages, uploads, boot: reporter_settings(
        send=send, host_logs=logs, stages=stages, uploads=uploads, uploads_per_boot=boot, upload_bytes=MIB,
        total_bytes=8 * MIB, lifetime=12 * HOUR,
    ),
    st.sampled_from(Send), st.sampled_from(HostLogsPolicy), st.sampled_from(Stages),
    st.integers(0, 8), st.integers(0, 4),
)  # fmt: skip


@settings(max_examples=60)
@given(CHOSEN, st.lists(st.sampled_from([90.0, 1200.0, 5000.0]), min_size=1, max_size=8), st.data())
def test_budgets_hold_and_the_reporter_stops(
    chosen: Settings, boots: list[float], data: st.DataObject
) -> None:
    chance = Chance(data)
    service = Unsteady(knows_stages=chance.one_in(2), knows_host_boot=chance.one_in(2))
    service.chance = chance
    service.faults = lambda call: chance.fault(call, MIB)
    disk, plan, lived, lost = ReporterState(), None, Counter[int](), 0
    for boot, uptime in wakes([*boots, 13 * HOUR]):
        before = len(service.accepted)
        if lost < 2 and chance.one_in(12):  # the used budget is not known any more
            disk, lost = ReporterState(is_careful=True), lost + 1
        if is_due_at(chosen, disk, failing(boot, uptime).boot_id, uptime):
            seen = chance.evidence(boot, uptime)
            disk, plan = killed_round(chosen, disk, seen, service, chance)
        lived[boot] = len(service.uploads)
        accepted = service.accepted[before:]
        assert all(report.stage != "Failed" for report in accepted)
        if plan is not None and plan.stop is not None:
            break
    assert plan is not None
    assert plan.stop is not None, "the reporter does not stop"
    assert len(service.uploads) <= chosen.uploads + lost
    assert service.bytes <= chosen.total_bytes + lost * MIB
    totals = [0, *lived.values()]
    per_boot = [now - earlier for earlier, now in pairwise(totals)]
    assert max(per_boot) <= chosen.uploads_per_boot + lost
    assert all(number <= 6 for number in disk.tries.values())
    facts = {
        report.stage if report.is_new_stage else report.info
        for report in service.accepted
        if not report.place
    }
    assert facts <= set(Fact)


@settings(max_examples=60)
@given(st.data())
def test_accepted_fact_is_not_reported_again_after_kills(data: st.DataObject) -> None:
    chance = Chance(data)
    service = Answering(knows_stages=chance.one_in(2))
    disk = ReporterState()
    for boot, uptime in wakes([1200.0, 1200.0, 7200.0]):
        seen = replace(failing(boot, uptime), is_pending=boot == 1, is_applied=boot > 1)
        if is_due_at(reporter_settings(), disk, seen.boot_id, uptime):
            disk, _ = killed_round(reporter_settings(), disk, seen, service, chance)
    facts = Counter(report.fact for report in service.accepted)
    # A verdict has no stage by which the service shows that it has it: a round that was killed after the
    # answer and before the state was saved reports it once more.
    assert all(number == 1 or fact.startswith("verdict ") for fact, number in facts.items()), facts
    assert service.calls["PUT"] <= 12


def test_failing_host_uploads_at_most_96_mib() -> None:
    for case in CASES:
        service = spent(case)
        assert 1 <= len(service.uploads) <= 8, case.what
        assert service.bytes <= 96 * MIB, case.what


def test_traffic_table_is_current() -> None:
    assert table() in PAGE.read_text()


def test_denials_stop_the_reporter_after_thirty_minutes() -> None:
    for view in (Refused(401), Refused(403), NoHost("deleted")):
        service, state = Answering(view=view), ReporterState()
        for uptime in (20.0, 620.0, 1220.0):
            state, plan = whole_round(reporter_settings(), state, evidence(uptime), service, MIB)
            assert plan.stop is None
        _, plan = whole_round(reporter_settings(), state, evidence(1830.0), service, MIB)
        assert plan.stop is not None
        assert service.calls == {"GET": 4}
