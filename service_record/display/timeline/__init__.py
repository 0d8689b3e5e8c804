"""When everything ran: a history as charts of bars, and those as lines and documents. Pure."""

from service_record.display.timeline.charts import Bar, Chart, Row, RowKind, charts

__all__ = ["Bar", "Chart", "Row", "RowKind", "charts"]
