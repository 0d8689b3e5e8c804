"""Verdicts on hosts, and the times at which they change."""

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from service_record.collector.assisted.host_states import find_limit
from service_record.collector.domain.progress import (
    Progress,
    advance,
    begin_progress,
    begins_build,
    list_finished_steps,
)
from service_record.collector.domain.reports import parse_step
from service_record.collector.domain.silence import SilenceBasis, SilenceBudgets, StepDuration
from service_record.collector.domain.steps import ReportedStep
from service_record.collector.domain.verdicts import (
    FleetVerdict,
    HostFacts,
    HostVerdict,
    InstallationFacts,
    RecordsVerdict,
    judge,
)
from tests.builders import require

MINUTE = 60.0
HOUR = 60 * MINUTE
START = 1_000_000.0


@dataclass
class Host:
    """A host that reports steps, by default one minute apart."""

    now: float = START
    known: HostFacts = field(default_factory=lambda: HostFacts(heard_at=START))
    budgets: SilenceBudgets = field(default_factory=SilenceBudgets)

    def says(self, name: str, status: str = "", after: float = MINUTE, **fields: object) -> "Host":
        return self.reports(parse_step({"name": name, "status": status, **fields}), after)

    def reports(self, step: ReportedStep, after: float = MINUTE) -> "Host":
        self.now += after
        self.known = replace(
            self.known, progress=_with(self.known.progress, step, self.now), heard_at=self.now
        )
        return self

    def boots(self, boot: str, *names: str) -> "Host":
        for name in names:
            self.says(name, "init", boot=boot)
        return self

    def verdict(self, after: float = 0.0) -> HostVerdict:
        return judge(self.known, self.budgets, self.now + after)


def _with(progress: Progress | None, step: ReportedStep, now: float) -> Progress:
    if progress is None or begins_build(progress, step, now):
        progress = begin_progress(step, progress.number + 1 if progress else 1, now)
    return advance(progress, step, now)


def summary(verdict: HostVerdict) -> tuple[str, str]:
    return verdict.verdict.value, verdict.reason


def test_host_is_progressing_within_its_budget() -> None:
    host = Host().says("Disk setup", "init")

    assert summary(host.verdict()) == (
        "progressing",
        'The next report is due within 15 min (default limit) after "Disk setup" started.',
    )
    assert host.verdict().due_at == host.now + 15 * MINUTE
    assert host.verdict(15 * MINUTE - 1).verdict == "progressing"
    assert summary(host.verdict(15 * MINUTE)) == (
        "stuck",
        'No report for 15 min (default limit) since "Disk setup" started.',
    )
    assert host.verdict(15 * MINUTE).since == host.now


def test_stuck_host_is_silent_after_a_day() -> None:
    host = Host().says("Disk setup", "init")
    stuck = host.verdict(HOUR)

    assert stuck.due_at == host.now + 24 * HOUR
    assert host.verdict(24 * HOUR - 1).verdict == "stuck"
    assert host.verdict(24 * HOUR).verdict == "silent"
    assert host.verdict(24 * HOUR).due_at is None


def test_registered_host_without_reports_becomes_silent() -> None:
    host = Host()

    assert host.verdict().verdict == "progressing"
    assert summary(host.verdict(15 * MINUTE)) == (
        "silent",
        "No report within 15 min. Check whether the host boots, and from which device.",
    )


def test_host_without_reports_in_a_new_build_becomes_silent() -> None:
    host = recorded(Host(), "succeeded")
    host.now += MINUTE
    begun = Progress(number=2, started_at=host.now, updated_at=host.now)
    host.known = replace(host.known, progress=begun, heard_at=host.now)

    assert host.verdict().verdict == "progressing"
    assert summary(host.verdict(15 * MINUTE)) == (
        "silent",
        "No report within 15 min. Check whether the host boots, and from which device.",
    )


def test_record_entries_extend_a_long_step() -> None:
    host = Host().says("Disk setup", "init")
    host.known = replace(host.known, heard_at=host.now + 10 * MINUTE)

    assert host.verdict(20 * MINUTE).verdict == "progressing"


def test_defined_budget_takes_precedence() -> None:
    took = tuple(StepDuration(600.0, "", "") for _ in range(50))
    host = Host(budgets=SilenceBudgets(given={"disk_setup": 30.0}, took={"disk_setup": took}))
    host.says("Disk setup", "init")

    assert summary(host.verdict(30)) == (
        "stuck",
        'No report for 30 s (the limit of this step) since "Disk setup" started.',
    )


@pytest.mark.parametrize(
    ("group", "release", "seconds", "builds"),
    [
        ("dc1", "9.4", 400.0, 10),
        ("dc2", "9.4", 2000.0, 20),  # of the same release
        ("dc1", "9.5", 400.0, 10),  # of the same group
        ("dc3", "9.6", 2000.0, 20),  # of all
    ],
)
def test_budget_is_learnt_from_most_similar_builds(
    group: str, release: str, seconds: float, builds: int
) -> None:
    took = [StepDuration(200.0, "dc1", "9.4")] * 10 + [StepDuration(1000.0, "dc4", "9.4")] * 10

    budget = SilenceBudgets(took={"disk": tuple(took)}).of_step("disk", group, release)

    assert (budget.seconds, budget.basis, budget.builds) == (seconds, SilenceBasis.LEARNT, builds)


def test_learning_needs_builds_and_has_a_minimum() -> None:
    quick = StepDuration(0.5, "", "")

    assert SilenceBudgets(took={"disk": (quick,) * 9}).of_step("disk", "", "").basis is SilenceBasis.DEFAULT
    assert SilenceBudgets(took={"disk": (quick,) * 10}).of_step("disk", "", "").seconds == 120


def test_third_start_without_progress_is_a_loop() -> None:
    host = Host().says("Disk setup", "init").says("Disk setup", "done").says("Bootloader", "init")
    host.says("Disk setup", "init").says("Disk setup", "done").says("Bootloader", "init")
    assert host.verdict().verdict == "progressing"

    host.says("Disk setup", "init")

    assert summary(host.verdict()) == (
        "looping",
        "Disk setup started 3 times without progress.",
    )
    assert host.verdict().since == START + 3 * MINUTE
    assert host.says("First login", "init").verdict().verdict == "progressing"


def test_three_boots_without_progress_are_a_loop() -> None:
    host = Host().boots("a", "Network boot", "Disk setup").boots("b", "Network boot")
    assert host.verdict().verdict == "progressing"

    host.boots("c", "Network boot")

    assert summary(host.verdict()) == ("looping", "Rebooted 3 times during Disk setup.")


def test_boots_with_progress_are_no_loop() -> None:
    host = Host()
    for number, boot in enumerate("abcdef"):
        host.boots(boot, "Network boot", f"Part {number}")

    assert host.verdict().verdict == "progressing"


def test_repeated_plain_reports_are_no_loop() -> None:
    host = Host()
    for _ in range(10):
        host.says("Installing packages")

    assert host.verdict().verdict == "progressing"


def test_failure_reason_has_end_of_logs() -> None:
    host = (
        Host().says("Bootloader", "init").says("Bootloader", "failed", logs="installing\nno space left.\n\n")
    )

    assert summary(host.verdict()) == ("failed", "Bootloader failed: no space left.")
    assert (host.verdict().since, host.verdict().due_at) == (host.now, None)


def test_silence_after_a_failure_is_failed() -> None:
    host = Host().says("Bootloader", "failed", logs="no space left").says("Upload of logs", "done")

    assert host.verdict().verdict == "progressing"
    assert summary(host.verdict(HOUR)) == (
        "failed",
        (
            "Bootloader failed: no space left; no report for 15 min (default limit) since "
            '"Upload of logs" finished.'
        ),
    )


def test_repeated_failure_is_a_loop_with_cause() -> None:
    host = Host()
    for _ in range(3):
        host.says("Bootloader", "init").says("Bootloader", "failed", logs="no space left")

    assert summary(host.verdict()) == (
        "looping",
        (
            "Bootloader started 3 times without progress; "
            "Bootloader failed 3 times, the last time: no space left."
        ),
    )


def test_repaired_failure_does_not_count() -> None:
    host = Host().says("Bootloader", "failed").says("Bootloader", "done")

    assert host.verdict(HOUR).verdict == "stuck"


def test_complete_build_is_done_until_the_next() -> None:
    host = Host().says("Disk setup", "done").says("Finish", "done", percentage=100)
    assert summary(host.verdict(99 * HOUR)) == ("done", 'Finished with "Finish".')

    host.says("First login", "done")
    assert (host.verdict(99 * HOUR).verdict, host.known.progress.number) == ("done", 1)  # type: ignore[union-attr]

    host.says("Disk setup", "init")
    assert (host.verdict().verdict, host.known.progress.number) == ("progressing", 2)  # type: ignore[union-attr]


def installed(
    stage: str, status: str = "installing-in-progress", *, limit: float = 60 * MINUTE, info: str = ""
) -> Host:
    host = Host()
    installation = InstallationFacts(stage=stage, status=status, info=info, updated_at=START, limit=limit)
    host.known = replace(host.known, installation=installation)
    return host


@pytest.mark.parametrize(
    ("stage", "is_single_node", "minutes"),
    [
        ("Rebooting", False, 40),
        ("Rebooting", True, 80),
        ("Starting installation", False, 30),
        ("Writing image to disk", False, 30),
        ("Copying registry data to disk", True, 90),
        ("Waiting for ignition", False, 1440),
        ("Configuring", False, 60),
        ("A stage of tomorrow", False, 60),
    ],
)
def test_installation_stage_has_assisted_service_limit(
    stage: str, is_single_node: bool, minutes: int
) -> None:
    host = installed(stage, limit=find_limit(stage, is_single_node=is_single_node))

    assert host.verdict(minutes * MINUTE - 1).verdict == "progressing"
    assert host.verdict(minutes * MINUTE).verdict == "stuck"


@pytest.mark.parametrize(
    ("stage", "status", "verdict", "reason"),
    [
        ("Done", "installed", "done", "Installed, as the assisted-service reports."),
        ("Joined", "error", "failed", "The installation failed in stage Joined: no etcd."),
        (
            "Rebooting",
            "installing-pending-user-action",
            "stuck",
            "Somebody has to act in stage Rebooting: no etcd.",
        ),
    ],
)
def test_installation_status_decides_the_verdict(stage: str, status: str, verdict: str, reason: str) -> None:
    assert summary(installed(stage, status, info="no etcd").verdict()) == (verdict, reason)


def recorded(host: Host, verdict: str, after: float = MINUTE) -> Host:
    host.now += after
    verdict_of_records = RecordsVerdict(verdict, "no such image", "bootkube", "pull", host.now)
    host.known = replace(host.known, records=verdict_of_records, heard_at=host.now)
    return host


@pytest.mark.parametrize(
    ("word", "verdict"),
    [("failed", "failed"), ("interrupted", "failed"), ("looping", "looping"), ("stuck", "stuck")],
)
def test_bad_records_decide_the_verdict(word: str, verdict: str) -> None:
    host = recorded(Host().says("Disk setup", "done"), word)

    assert summary(host.verdict()) == (verdict, f"stage pull of bootkube {word}: no such image.")
    assert host.says("Next step").verdict().verdict == "progressing"


@pytest.mark.parametrize("word", ["stopped", "running", "succeeded"])
def test_good_records_cause_no_trouble(word: str) -> None:
    host = recorded(Host().says("Disk setup", "done"), word)

    assert host.verdict().verdict == "progressing"
    if word == "stopped":
        assert recorded(Host(), word).verdict().verdict == "progressing"


def test_records_alone_decide_done_or_stuck() -> None:
    assert recorded(Host(), "succeeded").verdict().verdict == "done"
    running = recorded(Host(), "running")
    assert running.verdict(29 * MINUTE).verdict == "progressing"
    assert running.verdict(30 * MINUTE).verdict == "stuck"


def test_records_before_a_build_are_ignored() -> None:
    host = recorded(installed("Done", "installed"), "failed")

    assert host.says("Disk setup", "init").verdict().verdict == "progressing"


NAMES = st.sampled_from(["Disk setup", "Bootloader", "First login", "Finish"])
STATUSES = st.sampled_from(["", "init", "done", "failed"])
FIELDS = st.fixed_dictionaries(
    {"name": NAMES, "status": STATUSES},
    optional={
        "percentage": st.sampled_from([10, 50, 100]),
        "boot": st.sampled_from("abcd"),
        "build": st.sampled_from(["one", "two"]),
        "logs": st.text(max_size=20),
    },
)


class Judged(RuleBasedStateMachine):
    """A host with random reports that is judged at random times."""

    @initialize()
    def begin(self) -> None:
        self.host = Host()

    @rule(fields=FIELDS, after=st.sampled_from([0.0, 1.0, 60.0, 3600.0]))
    def report(self, fields: dict[str, object], after: float) -> None:
        before, judged = self.host.known.progress, self.host.verdict()

        self.host.reports(parse_step(fields), after)

        progress = require(self.host.known.progress)
        if judged.verdict is FleetVerdict.DONE and before is not None and progress.number == before.number:
            assert self.host.verdict().verdict is FleetVerdict.DONE
        assert progress.ended_at is None or self.host.verdict().verdict is FleetVerdict.DONE
        assert progress.started_at <= progress.fresh_at <= progress.updated_at == self.host.now
        assert set(progress.repeats) <= {report.rpartition(":")[0] for report in progress.seen}

    @rule(
        word=st.sampled_from(["failed", "looping", "stuck", "interrupted", "running", "stopped", "succeeded"])
    )
    def judge_records(self, word: str) -> None:
        recorded(self.host, word)

    @rule(stage=st.sampled_from(["Rebooting", "Joined", "Done"]))
    def install(self, stage: str) -> None:
        self.host.now += 1
        at, status = self.host.now, "installing-in-progress"
        found = InstallationFacts(stage=stage, status=status, updated_at=at, limit=find_limit(stage))
        self.host.known = replace(self.host.known, installation=found, heard_at=self.host.now)

    @rule(after=st.sampled_from([1.0, 900.0, 86_400.0]))
    def wait(self, after: float) -> None:
        self.host.now += after

    @invariant()
    def is_one_sentence(self) -> None:
        judged = self.host.verdict()
        assert judged.reason.endswith(".")
        assert not judged.reason.endswith("..")

    @invariant()
    def changes_when_it_is_due_and_not_before(self) -> None:
        judged = self.host.verdict()
        if judged.due_at is None:
            assert self.host.verdict(10 * 365 * 86_400.0) == judged
            return
        wait = judged.due_at - self.host.now
        assert wait > 0
        assert self.host.verdict(wait / 2) == judged
        assert judge(self.host.known, self.host.budgets, judged.due_at).verdict != judged.verdict

    @invariant()
    def is_not_since_later_than_now(self) -> None:
        assert self.host.verdict().since <= self.host.now


TestJudged = Judged.TestCase
TestJudged.settings = settings(
    max_examples=60, stateful_step_count=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


def test_step_with_percentage_is_still_running() -> None:
    host = Host().says("Packages", "init").says("Packages", percentage=40)
    assert host.known.progress is not None

    (found,) = list_finished_steps(
        host.known.progress, parse_step({"name": "Packages", "status": "done"}), host.now + MINUTE
    )

    assert found.seconds == 2 * MINUTE
