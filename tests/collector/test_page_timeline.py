"""The timeline of a build, for any steps."""

import re
from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from service_record.collector.domain.progress import group_rounds
from service_record.collector.domain.records_page import Analysis, ServiceSpan, analyse
from service_record.collector.domain.silence import FEWEST, SilenceBudgets, StepDuration
from service_record.collector.domain.summary_of_records import RecordsSummary, judge_records, summarise
from service_record.collector.store.host_rows import Boot
from service_record.collector.web.build_chart import Pace, build_drawing, service_rows
from service_record.display.charts import Row
from service_record.display.drawing import Drawing
from service_record.history.outcome import Outcome
from service_record.http.collector_answers import BuildSummary, ShownStep
from service_record.record.entry import Entry
from tests.builders import START, entry, failed_run

BEGAN = 1_800_000_000.0


def build(verdict: str = "progressing", ended: float | None = None) -> BuildSummary:
    return BuildSummary(
        number=1,
        key="",
        action="install",
        release="",
        started_at=BEGAN,
        updated_at=BEGAN + 60,
        ended_at=None if ended is None else BEGAN + ended,
        verdict=verdict,
        reason="",
    )


def step(number: int, name: str, status: str, at: float, priority: int = 0) -> ShownStep:
    return ShownStep(
        id=number,
        label=name,
        name=name,
        status=status,
        priority=priority,
        percentage=None,
        action="",
        logs="",
        logs_length=0,
        notes="",
        boot_id="",
        host_time=None,
        received_at=BEGAN + at,
        is_known=True,
    )


def drawn(
    *steps: tuple[str, str, float], of: BuildSummary | None = None, now: float = 100, pace: Pace | None = None
) -> Drawing:
    shown = [step(number, *fields) for number, fields in enumerate(steps)]
    folded = group_rounds(shown, lambda each: (each.label, each.status))
    return build_drawing(of or build(), folded, (), (), BEGAN + now, pace=pace)


def row_of(found: Drawing, name: str) -> Row:
    (row,) = [row for row in found.rows if row.name == name]
    return row


def bars(found: Drawing, name: str) -> list[tuple[float | None, float | None, str]]:
    return [(bar.start, bar.end, bar.look) for bar in row_of(found, name).bars]


def test_step_bar_spans_begin_to_end() -> None:
    found = drawn(
        ("disk", "init", 10), ("disk", "done", 30), ("packages", "init", 31), ("packages", "failed", 40)
    )

    assert bars(found, "disk") == [(10, 30, "success")]
    assert bars(found, "packages") == [(31, 40, "failure")]


def test_unfinished_step_is_running_or_interrupted() -> None:
    assert bars(drawn(("disk", "init", 10)), "disk") == [(10, None, "running")]
    over = drawn(("disk", "init", 10), of=build("failed"))
    assert bars(over, "disk") == [(10, 60, "interrupted")]


def test_steps_are_ordered_by_priority_and_time() -> None:
    priorities = [("net", 2), ("disk", 1), ("packages", 2), ("agent", -1)]
    shown = [
        step(number, name, "done", number, priority) for number, (name, priority) in enumerate(priorities)
    ]

    found = build_drawing(build(), group_rounds(shown, lambda each: each.id), (), (), BEGAN + 100)

    assert [row.name for row in found.rows[1:]] == ["agent", "disk", "net", "packages"]


def test_restarted_step_was_interrupted() -> None:
    found = drawn(("disk", "init", 10), ("net", "done", 12), ("disk", "init", 20), ("disk", "done", 30))

    assert bars(found, "disk") == [(10, 20, "interrupted"), (20, 30, "success")]
    assert bars(found, "net") == [(12, 12, "success")]


def test_update_of_running_step_adds_no_bar() -> None:
    reports = [("packages", "reported", 10.0 + at) for at in range(4)]

    found = drawn(("packages", "init", 5), *reports, ("packages", "done", 30), ("note", "reported", 40))

    assert bars(found, "packages") == [(5, 30, "success")]
    assert bars(found, "note") == [(40, 40, "told")]
    assert row_of(found, "note").latest.took == ""


def test_every_try_of_a_loop_is_drawn() -> None:
    rounds = [
        (name, status, 10.0 * number + at)
        for number in range(14)
        for name, status, at in (("pxe", "init", 0), ("pxe", "done", 2), ("ks", "init", 5))
    ]

    found = drawn(*rounds, now=200)

    assert bars(found, "pxe") == [(10 * number, 10 * number + 2, "success") for number in range(14)]
    tries = bars(found, "ks")
    assert tries[:13] == [(10 * number + 5, 10 * number + 15, "interrupted") for number in range(13)]
    assert tries[13:] == [(135, None, "running")]
    assert len(found.bars(row_of(found, "ks"))) == 14


def test_long_loop_shows_its_count() -> None:
    rounds = [("pxe", status, 10.0 * number) for number in range(200) for status in ("init", "done")]

    found = drawn(*rounds, of=replace(build(), updated_at=BEGAN + 2000), now=2100)

    (bar,) = found.bars(row_of(found, "pxe"))
    assert bar.text == "pxe: 200 executions done, from 0s to 33m 10s"


def paced(seconds: float, budget: float | None = None) -> Pace:
    took = tuple(StepDuration(seconds, "", "") for _ in range(FEWEST))
    given = {} if budget is None else {"disk": budget}
    return Pace(SilenceBudgets(default=900.0, given=given, took={"disk": took}))


def marks(found: Drawing, name: str) -> list[tuple[str, float]]:
    """Return kind and seconds since the beginning of each mark on the last bar of a row."""
    *_, last = found.bars(row_of(found, name))
    return [(kind, round(at / 95 * found.axis.end, 1)) for kind, at in last.marks]


def test_running_step_has_typical_time_and_budget() -> None:
    found = drawn(("net", "done", 5), ("disk", "init", 60), now=100, pace=paced(20, 70))

    assert marks(found, "disk") == [("typical", 80), ("budget", 130)]
    assert (found.reached, found.axis.end) == (100, 130)
    assert found.marks == {"typical", "budget"}
    (bar,) = found.bars(row_of(found, "disk"))
    assert bar.text == "disk: not done yet, which typically takes 20.0s, overdue at 2m 10s, from 1m on"
    assert bar.begin + bar.width + bar.silence < 95 * 101 / 130


def test_finished_steps_and_distant_times_are_unmarked() -> None:
    ended = drawn(("disk", "init", 10), ("disk", "done", 60), pace=paced(20, 70))
    assert (ended.marks, ended.axis.end) == (set(), 100)
    ahead = drawn(("disk", "init", 60), now=100, pace=paced(600, 7200))
    assert (ahead.marks, ahead.axis.end) == (set(), 100)
    unknown = drawn(("disk", "init", 60), now=100)
    assert marks(unknown, "disk") == []


@pytest.mark.parametrize("verdict", ["stuck", "silent", "looping", "progressing"])
def test_axis_of_overdue_host_ends_at_last_report(verdict: str) -> None:
    reports = [("net", "done", 5.0), ("disk", "init", 40.0)]
    found = drawn(*reports, of=build(verdict), now=90_000, pace=paced(10, 30))

    assert (found.reached, found.axis.end, found.is_overdue) == (60, 90, True)
    assert bars(found, "disk") == [(40, None, "running")]
    row = row_of(found, "disk")
    assert row.longest.took == "20.0s+"
    (bar,) = found.bars(row)
    silence = (bar.begin + bar.width, bar.silence)
    assert silence == pytest.approx((95 * 60 / 90, 95 * 30 / 90), abs=0.01)
    in_time = drawn(*reports, of=build(verdict), now=89, pace=paced(10, 30))
    assert (in_time.reached, in_time.is_overdue) == (89, False)


def test_long_silence_does_not_squeeze_steps() -> None:
    reports = [
        ("disk", "init", 10.0),
        ("disk", "done", 30.0),
        ("net", "init", 36_000.0),
        ("net", "done", 36_020.0),
    ]
    found = drawn(*reports, of=replace(build("done", 36_030), updated_at=BEGAN + 36_030))

    assert found.notes == ["cut out of the axis: 39s to 9h 59m 51s, in which nothing began or ended"]
    assert [bar.width > 20 for name in ("disk", "net") for bar in found.bars(row_of(found, name))] == [
        True
    ] * 2


@pytest.mark.parametrize("outcome", list(Outcome))
def test_service_is_drawn_by_outcome(outcome: Outcome) -> None:
    ran = (ServiceSpan("crio", ((BEGAN + 22, None, outcome.value),)),)
    found = build_drawing(build(), (), (), service_rows(ran, BEGAN, BEGAN + 100), BEGAN + 100)
    (bar,) = row_of(found, "crio").bars
    assert bar.look == outcome.value
    assert bar.sign
    assert bar.word in bar.text


def test_boots_and_services_have_rows() -> None:
    boots = (Boot("a", BEGAN, BEGAN + 10), Boot("b", BEGAN + 20, BEGAN + 30))
    ran = (
        ServiceSpan("crio", ((BEGAN + 22, BEGAN + 25, "success"), (BEGAN - 900, BEGAN - 800, "failure"))),
        ServiceSpan("old", ((BEGAN - 900, BEGAN - 800, "failure"),)),
    )

    found = build_drawing(build(), (), boots, service_rows(ran, BEGAN, BEGAN + 100), BEGAN + 100)

    assert [row.name for row in found.rows] == ["build 1", "boots", "crio"]
    assert bars(found, "boots") == [(0, 20, "boot"), (20, None, "boot")]
    assert bars(found, "crio") == [(22, 25, "success")]


@pytest.mark.parametrize(
    ("verdict", "sign"), [("looping", "↻"), ("failed", "✗"), ("done", "✓"), ("stuck", "▲")]
)
def test_build_is_drawn_by_verdict(verdict: str, sign: str) -> None:
    found = drawn(of=build(verdict, 50 if verdict == "done" else None))

    assert (found.rows[0].latest.sign, found.rows[0].latest.word) == (sign, verdict)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b", "c"]),
            st.sampled_from(["init", "done", "failed", "reported"]),
            st.floats(-1e6, 1e9, allow_nan=False),
        ),
        max_size=90,
    ),
    st.sampled_from([build(), build("failed"), build("done", 0.0), build("done", 1e6)]),
    st.floats(-1e6, 1e9),
)
def test_bars_stay_within_their_chart(
    steps: list[tuple[str, str, float]], of: BuildSummary, now: float
) -> None:
    found = drawn(*steps, of=of, now=now)

    assert all(earlier.part < later.part for earlier, later in pairwise(found.ticks))
    for row in found.rows:
        for bar in found.bars(row):
            assert 0 <= bar.begin <= 95
            assert 0 < bar.width <= 96
            assert bar.text


def test_replaced_build_is_not_running() -> None:
    found = build_drawing(build(verdict="abandoned"), (), (), (), BEGAN + 3600, is_latest=False)

    assert (found.axis.end, found.rows[0].latest.sign) == (60, "▲")


def look_at(
    *records: tuple[str, list[Entry]], left_out: tuple[str, ...] = (), silence: float | None = None
) -> tuple[RecordsSummary, Analysis]:
    judged = judge_records(records, left_out, silence)
    return summarise(judged), analyse(judged, "web1", datetime(2026, 11, 25, tzinfo=UTC))


def sections(text: str) -> list[str]:
    return re.findall('<section id="([^"]+)"', text)


def test_records_are_summarized_for_a_page() -> None:
    running = [entry(at=5)]
    look, page = look_at(("crio", failed_run()), ("kubelet", running), left_out=("why" * 999, *"x" * 40))
    began = START.timestamp()
    assert page.services == (
        ServiceSpan("crio", ((began, began + 10, "failure"),)),
        ServiceSpan("kubelet", ((began + 5, None, "running"),)),
    )
    assert page.verdict.startswith('<p class="verdict failure">✗ failed: crio in stage second: exit 1 at ')
    assert page.lead.startswith('<p><span class="strong">2 services</span>: ')
    assert page.is_explained
    assert sections(page.cause) == ["cause", "running"]
    assert sections(page.rest)[:2] == ["cause", "running"]
    assert len(sections(page.rest)) > 2
    assert "style=" not in page.rest
    assert page.left_out == (("why" * 999)[:2000], *["x"] * 31)
    assert (look.verdict, look.service, look.stage, look.left_out) == (
        "failed",
        "crio",
        "second",
        page.left_out,
    )
    assert [(each.service, each.entries, each.outcome, each.stage) for each in look.services] == [
        ("crio", 4, "failure", "second"),
        ("kubelet", 1, "running", ""),
    ]


def test_records_without_runs_give_no_page() -> None:
    assert look_at(left_out=("x",)) == (RecordsSummary(left_out=("x",)), Analysis(left_out=("x",)))
    look, page = look_at(("crio", []))
    assert page == Analysis()
    assert [(each.service, each.entries, each.outcome, each.stage) for each in look.services] == [
        ("crio", 0, "", "")
    ]


def test_page_is_limited_to_latest_runs() -> None:
    runs = [
        each
        for at in range(0, 610, 10)
        for each in (entry(at=at, invocation_id=f"{at:032x}"), entry("service end", at + 5))
    ]
    _, page = look_at(("crio", runs))
    assert len(page.services[0].runs) == 60
    assert page.services[0].runs[-1][0] == START.timestamp() + 600
    boots = [f"{number:032x}" for number in range(201)]
    look, page = look_at(*((boot, [entry(at=int(boot, 16), boot_id=boot)]) for boot in boots))
    assert [each.name for each in page.services] == boots[:200]
    assert len(look.services) == 201
    assert look.boots == tuple(boots[-64:])


@pytest.mark.parametrize(
    ("silence", "reason"),
    [(None, "crio; "), (0.0, "crio for 0.00s; "), (3600.0, "crio for 1h 0m; ")],
)
def test_service_running_at_last_entry_is_still_running(silence: float | None, reason: str) -> None:
    look, _ = look_at(("crio", [entry()]), silence=silence)
    assert (look.verdict, look.reason[: len(reason)]) == ("running", reason)
