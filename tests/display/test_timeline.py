"""The timeline: charts of a history, drawn in cells and told in documents."""

import json
import re
import textwrap
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from service_record.display.charts import Chart, Row, charts, offset, round_begin, ticks
from service_record.display.text import ASCII, Clock, View, cell_len, render_lines
from service_record.display.timeline import timeline_page
from service_record.history import History, build_history
from service_record.history.build import Now, latest_entry
from service_record.record.entry import Entry, Phase, Result
from tests.builders import BOOT_ID, START, entry, failed_run, timestamp, upstream_entry, write_lines
from tests.command_line import service_record
from tests.timelines import assign_run, host, stage, write_host

GOLDEN = Path(__file__).parents[1] / "golden"
OTHER_BOOT = "c1" * 16
VIEW = View(width=80, now=START + timedelta(hours=1))


def history(**records: list[Entry]) -> History:
    return build_history(records.items())


def drawn(found: History, view: View = VIEW, *, apart: bool = False, by_duration: bool = False) -> str:
    shown = charts(found, latest_entry(found), apart=apart, by_duration=by_duration)
    lines = timeline_page(found, "/var/log/openshift", shown, view, wide=apart, flat=by_duration)
    return "".join(render_lines(lines, color=False))


def only(found: History, **options: bool) -> Chart:
    (chart,) = charts(found, latest_entry(found), **options)
    return chart


def bars(row: Row) -> list[tuple[str, float | None, float | None]]:
    return [(bar.look, bar.start, bar.end) for bar in row.bars]


@pytest.mark.parametrize(
    ("name", "width", "options"),
    [
        ("timeline-80", 80, {}),
        ("timeline-200", 200, {}),
        ("timeline-wide-120", 120, {"apart": True}),
        ("timeline-by-duration-80", 80, {"by_duration": True}),
    ],
)
def test_the_page_is_as_it_was_looked_at(name: str, width: int, options: dict[str, bool]) -> None:
    expected = (GOLDEN / f"{name}.txt").read_text()
    assert drawn(build_history(host().items()), replace(VIEW, width=width), **options) == expected


@given(st.integers(60, 240), st.booleans(), st.booleans())
def test_no_line_is_wider_than_the_screen(width: int, apart: bool, by_duration: bool) -> None:
    page = drawn(
        build_history({"s" * 90: host()["bootkube"], **host()}.items()),
        replace(VIEW, width=width),
        apart=apart,
        by_duration=by_duration,
    )
    assert max(map(cell_len, page.splitlines())) <= width


def test_outcomes_have_signs_in_any_encoding() -> None:
    page = drawn(build_history(host().items()), replace(VIEW, glyphs=ASCII))
    assert page.isascii()
    assert re.search(r"x bootkube x3 .*=x .*=x .*=x$", page, re.MULTILINE)
    assert re.search(r"\* approve-csr .*=>$", page, re.MULTILINE)
    assert re.search(r"\+ crio-configure .*=\+", page)


def test_worst_outcome_of_a_cell_is_shown() -> None:
    runs = [one for n in range(100) for one in assign_run(n, failed_run(at=20.0 * n))[::3]]
    good = assign_run(999, [entry(at=2000), entry(Phase.SERVICE_END, 2001)])
    row = next(line for line in drawn(history(job=[*runs, *good])).splitlines() if "job" in line)
    assert re.fullmatch(r"✓ job .101 +10\.0s  │[━✗]✗+", row)


def test_services_are_sorted_by_start() -> None:
    rows = only(build_history(host().items())).rows
    assert [(row.depth, row.name) for row in rows] == [
        (0, "crio-configure"),
        (1, "pull"),
        (1, "configure"),
        (2, "write"),
        (0, "kubelet"),
        (1, "start"),
        (0, "bootkube"),
        (1, "wait-online"),
        (1, "api-bootstrap"),
        (1, "cvo-bootstrap"),
        (0, "approve-csr"),
        (1, "wait-for-api"),
    ]


def test_simultaneous_stages_have_rows_of_equal_depth() -> None:
    record = [
        entry(),
        entry(Phase.STAGE_START, 1, stage="a", stage_id="1"),
        entry(Phase.STAGE_START, 2, stage="b", stage_id="2"),
        entry(Phase.STAGE_START, 3, stage="inner", stage_id="3", parent="1"),
        entry(Phase.STAGE_END, 4, stage="inner", stage_id="3", parent="1"),
        entry(Phase.STAGE_END, 8, stage="b", stage_id="2"),
        entry(Phase.STAGE_END, 9, stage="a", stage_id="1"),
        entry(Phase.SERVICE_END, 10),
    ]
    rows = only(history(job=record)).rows
    assert [(row.depth, row.name) for row in rows] == [(0, "job"), (1, "a"), (2, "inner"), (1, "b")]


def test_stage_is_below_its_parent() -> None:
    record = [
        entry(),
        *(entry(Phase.STAGE_START, 1, stage=name, stage_id=name) for name in "abc"),
        *(
            entry(Phase.STAGE_START, 2, stage=f"in-{name}", stage_id=f"i{name}", parent=name)
            for name in "cba"
        ),
        entry(Phase.SERVICE_END, 10),
    ]
    rows = only(history(job=record)).rows
    assert [row.name for row in rows] == ["job", "a", "in-a", "b", "in-b", "c", "in-c"]


def test_stage_of_a_command_is_below_it() -> None:
    before = [
        entry(Phase.PRE_COMMAND_START, 1, pre_command="prepare"),
        entry(Phase.STAGE_START, 2, stage="mount", pre_command="prepare"),
        entry(Phase.STAGE_END, 3, stage="mount", pre_command="prepare"),
        entry(Phase.PRE_COMMAND_END, 4, pre_command="prepare"),
    ]
    after = [
        entry(Phase.POST_COMMAND_START, 11, post_command="tidy"),
        entry(Phase.POST_COMMAND_END, 12, post_command="tidy"),
    ]
    rows = only(history(job=[*before, entry(at=5), entry(Phase.SERVICE_END, 10), *after])).rows
    assert [(row.kind, row.depth, row.command, row.name) for row in rows] == [
        ("service", 0, None, "job"),
        ("pre-command", 1, None, "prepare"),
        ("stage", 2, "prepare", "mount"),
        ("post-command", 1, None, "tidy"),
    ]


def test_runs_that_ended_differently_are_apart_when_wanted() -> None:
    runs = [
        *assign_run(1, failed_run()),
        *assign_run(2, failed_run(at=20)),
        *assign_run(3, failed_run("third", 40)),
    ]
    rows = only(history(job=runs), apart=True).rows
    assert [(row.name, len(row.bars)) for row in rows] == [
        ("job", 2),
        ("second", 2),
        ("job", 1),
        ("third", 1),
    ]


def test_what_took_longest_comes_first_by_duration() -> None:
    rows = only(build_history(host().items()), by_duration=True).rows
    seconds = [row.longest.seconds for row in rows]
    assert seconds[:4] == [140, 135, 70, 30]
    assert seconds == sorted(seconds, key=lambda known: -1 if known is None else known, reverse=True)


def test_what_runs_is_open_and_lasts_until_now() -> None:
    found = history(job=[entry(at=10), *stage("wait", 20)])
    now = Now(time=START + timedelta(seconds=500), boot_id=BOOT_ID, uptime=560)
    (chart,) = charts(found, now)
    assert [bars(row) for row in chart.rows] == [[("running", 70, None)], [("running", 80, None)]]
    assert [row.longest.seconds for row in chart.rows] == [490, 480]
    assert chart.end == 560


def test_interrupted_bar_ends_at_the_last_entry() -> None:
    cut_off = [entry(at=10), *stage("wait", 20), *stage("other", 25, 30)]
    found = history(job=[*cut_off, entry(at=100, boot_id=OTHER_BOOT)])
    rows = charts(found, latest_entry(found))[0].rows
    assert [bars(row) for row in rows] == [
        [("interrupted", 70, 90)],
        [("interrupted", 80, 90)],
        [("success", 85, 90)],
    ]
    assert [row.longest.is_whole for row in rows] == [False, False, True]


def test_a_lost_start_is_not_made_up() -> None:
    rows = only(
        history(job=[entry(), entry(Phase.STAGE_END, 5, stage="lost"), entry(Phase.SERVICE_END, 9)])
    ).rows
    assert bars(rows[1]) == [("success", None, 65)]
    assert rows[1].longest.seconds is None


def test_times_within_a_boot_are_by_uptime() -> None:
    set_back = timedelta(hours=3)
    late = [entry(Phase.STAGE_START, 50, stage="late"), entry(Phase.SERVICE_END, 60)]
    late = [
        replace(one, timestamp=f"{datetime.fromisoformat(one.timestamp or '') - set_back:%Y-%m-%dT%H:%M:%S}Z")
        for one in late
    ]
    chart = only(history(job=[entry(at=10), *stage("early", 20, 30), *late]))
    assert [bars(row) for row in chart.rows] == [
        [("success", 70, 120)],
        [("success", 80, 90)],
        [("success", 110, 120)],
    ]
    assert [step.seconds for step in chart.clock_steps] == [-10800]
    assert "clock set 3h 0m back, before 2m" in drawn(history(job=[entry(at=10), *late]))


def test_each_boot_has_its_own_chart() -> None:
    second = [replace(one, boot_id=OTHER_BOOT) for one in failed_run(at=1000)]
    found = charts(both := history(job=[*failed_run(), *second]), latest_entry(both))
    assert [(chart.number, chart.boot_id, len(chart.rows)) for chart in found] == [
        (1, BOOT_ID, 2),
        (2, OTHER_BOOT, 2),
    ]


def test_only_the_latest_boots_are_on_one_page() -> None:
    boots = [replace(one, boot_id=f"{n:032x}") for n in range(1, 6) for one in failed_run(at=1000.0 * n)]
    page = drawn(history(job=boots))
    assert "2 earlier boots left out" in page
    assert "1 earlier boot left out" in drawn(history(job=boots[4:]))
    assert re.findall(r"^boot \d of 5", page, re.MULTILINE) == ["boot 3 of 5", "boot 4 of 5", "boot 5 of 5"]
    assert len(re.findall(r"^boot \d of 5", drawn(history(job=boots), apart=True), re.MULTILINE)) == 5


def undated(entries: list[Entry], recorder: str, boot_id: str | None = None) -> list[Entry]:
    """The entries as those of a log without dates."""
    return [replace(one, timestamp=None, boot_id=boot_id, recorder=recorder) for one in entries]


def test_entries_without_dates_are_drawn_by_uptime() -> None:
    run = [entry(at=10), entry(Phase.SERVICE_END, 40, result=Result.FAILURE)]
    found = history(job=undated(run, "derived/journal"), open=undated([entry(at=20)], "derived/journal"))
    chart = only(found)
    assert [bars(row) for row in chart.rows] == [[("failure", 70, 100)], [("running", 80, None)]]
    page = drawn(found)
    assert "without dates; times since the boot" in page
    assert "not drawn" not in page


def test_undated_entries_join_their_boot() -> None:
    ours = [entry(at=5), entry(Phase.SERVICE_END, 90)]
    found = history(job=ours, other=undated([entry(at=20)], "derived/journal", BOOT_ID))
    assert [bars(row)[0][:2] for row in only(found).rows] == [("success", 65), ("running", 80)]


def test_logs_of_installers_without_dates_share_no_clock() -> None:
    run = [entry(uptime=0.0), entry(Phase.SERVICE_END, uptime=30.0)]
    found = history(
        anaconda=undated(run, "derived/anaconda"),
        packaging=undated([entry(uptime=0.0), entry(Phase.SERVICE_END, uptime=9.0)], "derived/anaconda"),
        job=failed_run(),
    )
    both = charts(found, latest_entry(found))
    assert [(chart.log, chart.end) for chart in both][:2] == [("anaconda", 30), ("packaging", 9)]
    assert "all runs of packaging, without dates; times since the first line of its log" in drawn(found)


def test_upstreams_entries_are_placed_by_the_clock() -> None:
    run = [upstream_entry(at=10), upstream_entry(Phase.SERVICE_END, 40, result=Result.FAILURE)]
    chart = only(history(job=run))
    assert (chart.boot_id, chart.clock.zero, bars(chart.rows[0])) == (
        None,
        START + timedelta(seconds=10),
        [("failure", 0, 30)],
    )


def test_upstream_run_begins_with_its_start_entry() -> None:
    before = {"pre_command": "pause"}
    commands = [
        upstream_entry(Phase.PRE_COMMAND_START, 10, **before),
        upstream_entry(Phase.PRE_COMMAND_END, 14, **before),
    ]
    run = [*commands, upstream_entry(at=15), upstream_entry(Phase.SERVICE_END, 40)]
    assert [bars(row) for row in only(history(job=run)).rows] == [[("success", 5, 30)], [("success", 0, 4)]]


def test_run_without_boot_id_is_placed_by_time() -> None:
    ours = [*failed_run(), *(replace(one, boot_id=OTHER_BOOT) for one in failed_run(at=1000))]
    theirs = [upstream_entry(at=1003), upstream_entry(Phase.SERVICE_END, 1005)]
    found = history(job=ours, theirs=theirs)
    first, second = charts(found, latest_entry(found))
    assert [row.name for row in first.rows] == ["job", "second"]
    assert bars(second.rows[-1]) == [("success", 1063, 1065)]


@pytest.mark.parametrize(
    ("begin", "end", "most", "expected"),
    [
        (0, 10, 5, [0, 2, 4, 6, 8, 10][:5]),
        (0, 9.9, 5, [0, 2, 4, 6, 8]),
        (61, 230, 5, [120, 180]),
        (61, 230, 10, [80, 100, 120, 140, 160, 180, 200, 220]),
        (3, 7 * 86400, 4, [172800, 345600, 518400]),
        (5, 5, 4, [5]),
    ],
)
def test_ticks_are_round(begin: float, end: float, most: int, expected: list[float]) -> None:
    assert ticks(begin, end, most) == expected


@given(st.floats(0, 1e8), st.floats(0.01, 1e8) | st.just(1e15), st.integers(1, 30))
def test_ticks_are_on_the_axis_and_even(begin: float, span: float, most: int) -> None:
    found = ticks(begin, begin + span, most)
    steps = {round(later - earlier, 3) for earlier, later in pairwise(found)}
    assert len(found) <= most
    assert len(steps) <= 1
    assert all(begin - 0.001 <= tick <= begin + span + 0.001 for tick in found)


@given(st.floats(0, 1e8), st.floats(0.01, 1e8))
def test_axis_begins_just_before_its_first_bar(begin: float, span: float) -> None:
    assert begin - 0.31 * span <= round_begin(begin, begin + span) <= begin


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        *((0, "0s"), (0.25, "0.25s"), (70, "1m 10s"), (120, "2m"), (7200, "2h")),
        *((3605, "1h 5s"), (129600, "1d 12h"), (59.9999, "1m"), (-20, "-20s")),
    ],
)
def test_round_times_are_short(seconds: float, text: str) -> None:
    assert offset(seconds) == text


def test_heads_follow_the_clock_that_is_wanted() -> None:
    assert "from 1h 1m ago; times since then" in drawn(
        history(job=failed_run()), replace(VIEW, clock=Clock.RELATIVE)
    )


HOURS = timedelta(hours=-5)
FROM_UPSTREAM = [upstream_entry(at=0), upstream_entry(Phase.SERVICE_END, 9)]


def in_another_zone(found: History, *services: str) -> History:
    """The history, in which times of these services are known to be local ones."""
    zoned = (
        replace(service, utc_offset=HOURS if service.name in services else None) for service in found.services
    )
    return replace(found, services=tuple(zoned))


def test_local_times_are_shown_as_recorded() -> None:
    page = drawn(in_another_zone(history(a=FROM_UPSTREAM, b=FROM_UPSTREAM), "a", "b"), apart=True)
    assert "from 2026-11-21 01:05:10Z as recorded; times since then, by the clock" in page
    assert re.findall(r"✓ \w .*(2026-11-21 .*Z)", page) == ["2026-11-21 01:05:10Z"] * 2


def test_local_times_beside_true_ones_are_corrected() -> None:
    own = [replace(one, timestamp=timestamp(5 * 3600 + 5)) for one in (entry(), entry(Phase.SERVICE_END, 1))]
    page = drawn(in_another_zone(history(a=FROM_UPSTREAM, b=own), "a"), apart=True)
    assert "as recorded" not in page
    assert "times recorded in UTC-05:00, although labelled UTC, are put right here" in page
    assert re.findall(r"✓ \w .*(2026-11-21 .*Z)", page) == ["2026-11-21 06:05:10Z", "2026-11-21 06:05:15Z"]


def test_programs_get_the_same_bars(tmp_path: Path) -> None:
    answer = service_record("timeline", "--output", "json", "--from", write_host(tmp_path), "bootkube")
    (boot,) = json.loads(answer.out)["boots"]
    assert {key: boot[key] for key in boot if key != "rows"} == {
        "bootId": BOOT_ID,
        "number": 1,
        "zero": "2026-11-21T01:04:10.000Z",
        "byUptime": True,
        "begin": 60.0,
        "end": 230.0,
        "clockSteps": [],
    }
    assert boot["rows"][2] == {
        "service": "bootkube",
        "kind": "stage",
        "name": "api-bootstrap",
        "depth": 1,
        "outcome": "success",
        "longest": 19.0,
        "bars": [
            {"attempt": 1, "outcome": "success", "start": 81.0, "end": 100.0, "duration": 19.0},
            {"attempt": 2, "outcome": "success", "start": 141.0, "end": 160.0, "duration": 19.0},
            {"attempt": 3, "outcome": "success", "start": 201.0, "end": 220.0, "duration": 19.0},
        ],
    }


def test_each_row_is_a_line_of_json_lines(tmp_path: Path) -> None:
    answer = service_record(
        "timeline", "--output", "jsonl", "--by-duration", "--from", write_host(tmp_path), "kubelet"
    )
    rows = [json.loads(line) for line in answer.out.splitlines()]
    assert [(row["bootId"], row["name"], row.get("longest")) for row in rows] == [
        (BOOT_ID, "kubelet", 70.0),
        (BOOT_ID, "start", None),
    ]


def test_colour_in_a_pipe_only_when_asked(tmp_path: Path) -> None:
    write_host(tmp_path)
    plain = service_record("timeline", "--from", tmp_path, COLUMNS="80")
    colored = service_record("timeline", "--from", tmp_path, "--color", "always", COLUMNS="80")
    assert "\x1b" not in plain.out
    assert "\x1b[1;31m━" in colored.out
    assert re.sub(r"\x1b\[[\d;]*m", "", colored.out).split() == plain.out.split()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("", ["✗ job", "✗ second", "✓ other"]),
        ("other", ["✓ other"]),
        ("--failed", ["✗ job", "✗ second"]),
        ("--stage absent", []),
        ("--boot 0 --since 2026-11-21T01:00:00Z", ["✗ job", "✗ second", "✓ other"]),
        ("--until 2026-11-20T00:00:00Z", []),
    ],
)
def test_what_is_asked_for_is_drawn(tmp_path: Path, arguments: str, expected: list[str]) -> None:
    write_lines(tmp_path / "job.json", *failed_run())
    write_lines(tmp_path / "other.json", entry(at=1), entry(Phase.SERVICE_END, 2))
    answer = service_record("timeline", "--from", tmp_path, *arguments.split())
    assert answer.status == 0
    assert re.findall(r"^ *([✓✗] \w+)", answer.out, re.MULTILINE) == expected


def test_missing_boot_is_refused_in_one_line(tmp_path: Path) -> None:
    write_lines(tmp_path / "job.json", *failed_run())
    answer = service_record("timeline", "--from", tmp_path, "--boot", "7")
    assert (answer.status, answer.err) == (3, "Error: no boot 7: the records have 1; 0 is the latest\n")


@pytest.mark.parametrize(("document", "golden"), [("timeline", "timeline-80"), ("diff", "diff-80")])
def test_the_documents_show_the_pages_as_they_are(document: str, golden: str) -> None:
    docs = Path(__file__).parents[2] / "docs"
    page = textwrap.indent((GOLDEN / f"{golden}.txt").read_text(), "    ")
    assert page in (docs / f"{document}.md").read_text()
