"""The axis of HTML charts: one long run does not squeeze the others, and the last grid line has a label."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service_record.display.charts import Chart, charts
from service_record.display.drawing import CUT_WIDTH, Axis, boot_drawing, labelled_ticks
from service_record.display.html.timeline_page import timeline_html
from service_record.display.text import View
from service_record.history import build_history
from service_record.history.build import latest_entry
from service_record.record.entry import Entry, Phase
from tests.builders import START, entry
from tests.pages import Page, parse_page
from tests.timelines import assign_run, host

DAYS = 3 * 24 * 3600


def long_and_short() -> dict[str, list[Entry]]:
    """One service that runs for three days, and two that take seconds at its start and its end."""
    return {
        "kubelet": assign_run(1, [entry(at=0), entry(Phase.SERVICE_END, DAYS)]),
        "release-image": assign_run(2, [entry(at=5), entry(Phase.SERVICE_END, 25)]),
        "rotate-logs": assign_run(3, [entry(at=DAYS - 40), entry(Phase.SERVICE_END, DAYS - 30)]),
    }


def chart_of(records: dict[str, list[Entry]]) -> Chart:
    found = build_history(records.items())
    (chart,) = charts(found, latest_entry(found))
    return chart


def axis_of(chart: Chart) -> Axis:
    return boot_drawing(chart, 1, {}, View(now=START)).axis


def page_of(records: dict[str, list[Entry]]) -> Page:
    found = build_history(records.items())
    return parse_page(timeline_html(found, "/x", charts(found, latest_entry(found)), View(now=START)))


def widths(page: Page) -> list[float]:
    """Return the width of each bar in percent."""
    bars = (node for node in page.all("rect") if node.path[-1] == "a")
    return [float(bar.attributes["width"].removesuffix("%")) for bar in bars]


def test_one_long_run_does_not_squeeze_the_others() -> None:
    kubelet, release_image, rotate_logs = widths(page_of(long_and_short()))
    assert kubelet > 60
    assert release_image > 10
    assert rotate_logs == pytest.approx(release_image / 2, rel=0.05)


def test_cut_is_drawn_across_every_row() -> None:
    page = page_of(long_and_short())
    assert "cut out of the axis: 1m 44s to 3d 1s, in which nothing began or ended" in page.texts("p")
    bands = [node for node in page.all("rect") if "cut" in node.classes]
    assert len(bands) == len(["axis", "kubelet", "release-image", "rotate-logs"])
    assert len({node.attributes["x"] for node in bands}) == 1


@pytest.mark.parametrize(
    "records",
    [
        pytest.param(dict(host()), id="no-long-quiet-time"),
        pytest.param({"job": [entry(at=0), entry(Phase.SERVICE_END, DAYS)]}, id="nothing-is-squeezed"),
    ],
)
def test_useless_cut_of_an_axis_is_not_made(records: dict[str, list[Entry]]) -> None:
    assert axis_of(chart_of(records)).cuts == ()


OFFSETS = st.floats(0, 1e7).map(lambda seconds: round(seconds, 3))


@given(st.lists(st.tuples(OFFSETS, OFFSETS), min_size=1, max_size=6))
def test_offsets_keep_their_order_on_any_axis(spans: list[tuple[float, float]]) -> None:
    records = {
        f"job{number}": assign_run(number, [entry(at=min(span)), entry(Phase.SERVICE_END, max(span))])
        for number, span in enumerate(spans)
    }
    chart = chart_of(records)
    axis = axis_of(chart)
    edges = sorted({chart.begin, chart.end, *(at for row in chart.rows for at in (row.bars[0].first,))})
    places = [axis.part(at) for at in edges]
    assert places == sorted(places)
    assert 0 <= places[0] <= places[-1] <= 1
    inside = [bar for row in chart.rows for bar in row.bars]
    for cut in axis.cuts:
        assert not [bar for bar in inside if cut[0] < bar.first < cut[1]]
        assert not [bar for bar in inside if cut[0] < (bar.end or 0) < cut[1]]


@pytest.mark.parametrize("end", [1, 7, 89, 95, 100, 3600, 86_399, DAYS])
def test_every_grid_line_has_a_label(end: float) -> None:
    ticks = labelled_ticks(Axis(0, end))
    assert all(tick.label for tick in ticks)
    assert not ticks[-1].is_minor
    assert [tick.part for tick in ticks] == sorted(tick.part for tick in ticks)
    majors = [tick for tick in ticks if not tick.is_minor]
    for earlier, later in pairwise(majors):
        room = (later.part - earlier.part) * 330
        labels = len(earlier.label) + (len(later.label) if later.is_left else 0)
        assert labels * 6 <= room


def test_grid_lines_surround_a_cut() -> None:
    axis = Axis(0, 1000, ((50, 950),))
    parts = [tick.part / 0.95 for tick in labelled_ticks(axis)]
    middle = (1 - CUT_WIDTH) / 2
    assert any(part < middle for part in parts)
    assert any(part >= middle + CUT_WIDTH for part in parts)


def test_a_page_labels_its_last_grid_line() -> None:
    page = page_of(dict(host()))
    axis = [node for node in page.all("text") if "axis" not in node.classes and "a" not in node.path]
    lines = [node for node in page.all("line") if node.attributes["y1"] == "8"]
    assert [node.attributes["x"] for node in axis] == [node.attributes["x1"] for node in lines]
    assert "major" in lines[-1].classes
