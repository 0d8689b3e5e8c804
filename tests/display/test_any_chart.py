"""Whatever is in records, it is drawn and compared: nothing raises, hangs, or is wider than the screen."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from service_record.diagnosis.comparison import Tolerance, compare
from service_record.display.charts import charts
from service_record.display.comparison_document import comparison_document, difference_documents
from service_record.display.difference import comparison_page
from service_record.display.html.timeline_page import timeline_html
from service_record.display.machine import encode_document, format_json, format_yaml
from service_record.display.text import View, cell_len, render_lines
from service_record.display.timeline import timeline_page
from service_record.display.timeline_document import row_lines, timeline_document
from service_record.history import History, build_history
from service_record.history.build import latest_entry
from service_record.record.entry import Entry, Phase, Result
from tests.builders import START, entry, timestamp
from tests.pages import parse_page

EXTREMES = ["1000-01-01T00:00:00Z", "8999-12-31T23:59:59Z"]
VIEW = View(width=80, now=START + timedelta(hours=1))
NAMES = st.sampled_from(["a", "b", "", "an-extremely-long-name-" * 9, "<b>\u202e\x1b[31m", "日本語"])
UPTIMES = st.none() | st.integers(0, 1000).map(float) | st.sampled_from([1e308, -1e308, 1e11, -5.0, 0.001])


@st.composite
def _entries(draw: st.DrawFn) -> Entry:
    phase = draw(st.sampled_from(Phase))
    return Entry(
        timestamp=draw(st.integers(0, 3000).map(timestamp) | st.sampled_from(EXTREMES)),
        phase=phase,
        stage=draw(NAMES) if "stage" in phase.value else None,
        pre_command=draw(NAMES) if "pre" in phase.value else None,
        post_command=draw(NAMES) if "post" in phase.value else None,
        result=draw(st.sampled_from(Result)) if phase.is_end else None,
        error_message=draw(st.none() | NAMES) if phase.is_end else None,
        boot_id=draw(st.sampled_from([None, "b0" * 16, "c1" * 16])),
        pid=draw(st.sampled_from([None, 1, 2])),
        uptime=draw(UPTIMES),
    )


HISTORIES = st.dictionaries(NAMES.filter(bool), st.lists(_entries(), min_size=1, max_size=8), max_size=3).map(
    lambda records: build_history(records.items())
)


@given(HISTORIES, st.booleans(), st.booleans())
def test_any_history_is_drawn(found: History, apart: bool, by_duration: bool) -> None:
    shown = charts(found, latest_entry(found), apart=apart, by_duration=by_duration)
    page = "".join(
        render_lines(timeline_page(found, "/x", shown, VIEW, wide=apart, flat=by_duration), color=False)
    )
    assert all(cell_len(line) <= 80 for line in page.splitlines())
    executions = sum(len(row.bars) for chart in shown for row in chart.rows if row.depth == 0)
    assert executions == sum(len(service.runs) for service in found.services)
    assert parse_page(timeline_html(found, "/x", shown, VIEW, flat=by_duration)).texts("h1") == [
        "Timeline of /x"
    ]
    document = timeline_document(shown, "/x")
    for text in (format_json(document), format_yaml(document), *map(encode_document, row_lines(shown))):
        assert "NaN" not in text


@given(HISTORIES, HISTORIES)
def test_any_two_histories_are_compared(good: History, bad: History) -> None:
    tolerance = Tolerance()
    found = compare(good, bad, latest_entry(bad), tolerance)
    page = "".join(render_lines(comparison_page(found, ("/good", good), ("/bad", bad), VIEW), color=False))
    assert all(cell_len(line) <= 80 for line in page.splitlines())
    document = comparison_document(found, "/good", "/bad", tolerance)
    for text in (
        format_json(document),
        format_yaml(document),
        *map(encode_document, difference_documents(found)),
    ):
        assert "NaN" not in text


@given(HISTORIES)
def test_no_history_differs_from_itself(found: History) -> None:
    assert not any(one.differs for one in compare(found, found, latest_entry(found), Tolerance()))


def test_unfinished_history_equals_itself() -> None:
    once = [entry(at=0), entry(Phase.STAGE_START, at=1, stage="a")]
    ended = entry(Phase.STAGE_END, at=2, stage="a", result=Result.SUCCESS)
    again = [entry(Phase.STAGE_START, at=3, stage="a"), entry(Phase.STAGE_START, at=900, stage="b")]
    found = build_history([("service", [*once, ended, *again])])
    assert not any(one.differs for one in compare(found, found, latest_entry(found), Tolerance()))
