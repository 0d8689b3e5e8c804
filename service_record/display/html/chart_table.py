"""A chart as a table: for those who do not see bars, or want the numbers."""

from collections.abc import Iterator
from typing import Final
from xml.etree.ElementTree import Element

from service_record.display.html.elements import element
from service_record.display.page import View
from service_record.display.phrases import VERBS, glyph
from service_record.display.timeline.axis import offset
from service_record.display.timeline.charts import Bar, Chart, Row
from service_record.display.timeline.page import row_name, took

_MAX_TOLD: Final = 20
"""Executions of one row."""
_HEADS: Final = ("What", "Attempt", "Outcome", "From", "To", "Took")
_NUMBERS: Final = {"Attempt", "From", "To", "Took"}


def chart_table(chart: Chart, view: View, identity: str) -> Element:
    """The table, folded; each row of the chart has its last executions."""
    heads = (element("th", head, scope="col", class_=_class(head)) for head in _HEADS)
    rows = [told for number, row in enumerate(chart.rows) for told in _rows(row, row_id(chart, number), view)]
    table = element("table", element("thead", element("tr", *heads)), element("tbody", *rows))
    summary = element("summary", "The same as a table")
    return element("details", summary, element("div", table, class_="scroll", tabindex="0"), id=identity)


def row_id(chart: Chart, number: int) -> str:
    """Where a page has the table's row for a row of the chart."""
    return f"boot-{chart.number}-row-{number}"


def _rows(row: Row, identity: str, view: View) -> Iterator[Element]:
    what = row_name(row, flat=True)
    hidden = len(row.bars) - _MAX_TOLD
    if hidden > 0:
        note = f"{what}: {hidden} earlier executions left out; --output json has them"
        yield element("tr", element("td", note, class_="faint", colspan=str(len(_HEADS))))
    for number, bar in enumerate(row.bars[-_MAX_TOLD:]):
        texts = dict(zip(_HEADS, _texts(bar, what, view), strict=True))
        cells = [element("td", text, class_=_class(head, bar)) for head, text in texts.items()]
        yield element("tr", *cells, **({"id": identity} if number == 0 else {}))


def _texts(bar: Bar, what: str, view: View) -> tuple[str, ...]:
    outcome = f"{glyph(bar.outcome, view.glyphs)} {VERBS[bar.outcome]}"
    return what, str(bar.run.attempt), outcome, _offset(bar.start), _offset(bar.end), took(bar)


def _offset(at: float | None) -> str:
    return offset(round(at, 3)) if at is not None else ""


def _class(head: str, bar: Bar | None = None) -> str:
    if bar is not None and head == "Outcome":
        return bar.outcome.value
    return "number" if head in _NUMBERS else "text"
