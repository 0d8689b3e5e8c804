"""The text of `hosts show`."""

from service_record.collector.domain.progress import group_rounds
from service_record.display.host_detail import host_detail
from service_record.display.text import View
from service_record.http.collector_answers import HostDetail, HostSummary, ShownStep

HOST = HostSummary(
    name="web1",
    group="",
    release="",
    hardware="",
    build=1,
    action="install",
    percentage=None,
    message="",
    started_at=0.0,
    updated_at=0.0,
    ended_at=None,
    verdict="looping",
    reason="",
    verdict_since=None,
    cause="",
    revision=1,
)


def reported_step(number: int, status: str) -> ShownStep:
    return ShownStep(
        id=number,
        label="packages",
        name="Packages",
        status=status,
        priority=1,
        percentage=None,
        action="install",
        logs="",
        logs_length=0,
        notes="",
        boot_id="",
        host_time=None,
        received_at=10.0 * number,
        is_known=True,
    )


def step_line(*statuses: str) -> str:
    """Return the line of a step with these reports, ten seconds apart."""
    reports = [reported_step(number, status) for number, status in enumerate(statuses)]
    detail = HostDetail(
        now=100.0,
        summary=HOST,
        first_seen=0.0,
        last_seen=0.0,
        builds=(),
        shown_build=1,
        steps=group_rounds(reports, lambda step: (step.label, step.status)),
        last_words=(),
        bundles=(),
        events=(),
        installation=None,
    )
    lines = ["".join(text for text, _ in line) for line in host_detail(detail, "https://collector", View())]
    return lines[lines.index("Steps of build 1") + 1]


def test_repeated_status_is_counted() -> None:
    times = View().glyphs.times
    assert step_line("failed", "failed", "failed", "failed").endswith(f"  {times}4")
    assert step_line("init", "failed", "failed").endswith(f"  {times}2")
    assert times not in step_line("failed", "failed", "init").rpartition("00:00")[2]


def test_repeated_failures_of_a_step_are_counted() -> None:
    line = step_line(*["init", "failed"] * 4)
    assert line.endswith(f"  {View().glyphs.times}4")
    assert "10.0s" in line
