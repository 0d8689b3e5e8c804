"""A timeline as one plain document for programs; docs/timeline.md describes it field by field."""

from collections.abc import Iterable, Iterator
from typing import Final

from service_record.display.document import Document
from service_record.display.text import utc
from service_record.display.timeline.charts import Bar, Chart, Row

_SCHEMA_VERSION: Final = 1


def timeline_document(found: Iterable[Chart], source: str) -> Document:
    """The document of `timeline --output json` and `yaml`."""
    return {"version": _SCHEMA_VERSION, "source": source, "boots": [_chart(chart) for chart in found]}


def row_documents(found: Iterable[Chart]) -> Iterator[Document]:
    """The lines of `timeline --output jsonl`: each row, with its boot."""
    for chart in found:
        for row in chart.rows:
            yield {**_boot(chart), **_row(row)}


def _chart(chart: Chart) -> Document:
    return {
        **_boot(chart),
        "number": chart.number,
        "zero": utc(chart.clock.zero),
        "byUptime": chart.clock.is_by_uptime,
        "begin": round(chart.begin, 3),
        "end": round(chart.end, 3),
        "clockSteps": [{"at": round(step.uptime, 3), "seconds": step.seconds} for step in chart.clock_steps],
        "rows": [_row(row) for row in chart.rows],
    }


def _boot(chart: Chart) -> Document:
    return {"bootId": chart.boot_id} if chart.boot_id is not None else {}


def _row(row: Row) -> Document:
    document: Document = {"service": row.service, "kind": row.kind.value}
    if row.command is not None:
        document["command"] = row.command
    document |= {"name": row.name, "depth": row.depth, "outcome": row.outcome.value}
    if row.longest.seconds is not None:
        document["longest"] = row.longest.seconds
    return {**document, "bars": [_bar(bar) for bar in row.bars]}


def _bar(bar: Bar) -> Document:
    known = {"start": bar.start, "end": bar.end, "duration": bar.seconds}
    document: Document = {"attempt": bar.run.attempt, "outcome": bar.outcome.value}
    return document | {field: round(value, 3) for field, value in known.items() if value is not None}
