"""Answers that several verbs give: the results of checks, and rows of a table."""

from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal

from service_record.cli.terminal import Answer, align_columns
from service_record.display.machine import ProgramDocument
from service_record.display.show_document import VERSION
from service_record.display.text import Ink, Line, View, wrap_lines
from service_record.preflight.checks import CheckResult, CheckState, format_result, is_failed, summarize
from service_record.record.visible import visible

_INKS: Final = {
    CheckState.PASSED: Ink.PLAIN,
    CheckState.FAILED: Ink.BAD,
    CheckState.NOT_CHECKED: Ink.FAINT,
}
_INDENT: Final = 2


class CheckDocument(ProgramDocument, frozen=True, kw_only=True):
    """A check, and a line of --output jsonl."""

    check: str
    """The name of the check."""
    state: CheckState
    detail: str
    """What was found, for people."""
    advice: str | None
    """What to do, for people."""


class ChecksDocument(ProgramDocument, frozen=True, kw_only=True):
    version: Literal[1]
    role: str = ""
    """The role of the host; preflight only."""
    failed: bool
    """Whether a check failed."""
    checks: tuple[CheckDocument, ...]


class ChecksAnswer(Answer, frozen=True):
    """The answer of `doctor` and `preflight`."""

    title: str
    results: Sequence[CheckResult]
    role: str = ""
    """The role of the host, if the checks depend on it."""

    def lines(self, view: View, *, is_wide: bool) -> Iterable[Line]:
        """Yield each result, wrapped unless `is_wide`, and then how many there are of each state."""
        for result in self.results:
            ink, text = _INKS[result.state], " ".join(visible(format_result(result)).split())
            if is_wide or len(text) <= view.width:
                yield ((text, ink),)
                continue
            first, *_ = wrap_lines(text, ink, view)
            yield first
            yield from wrap_lines(text[len(first[0][0]) :].lstrip(), ink, view, _INDENT)
        yield ((summarize(self.results), Ink.STRONG),)

    def page(self, view: View) -> str:
        from service_record.display.html.rendering import page, section

        *lines, summary = self.lines(view, is_wide=True)
        checks = section("checks", "Checks", "parts.html", "paragraphs", lines=lines)
        return page(self.title, [summary], [checks], view.now, summary=[*lines, summary])

    def document(self) -> ChecksDocument:
        return ChecksDocument(
            version=VERSION, role=self.role, failed=is_failed(self.results), checks=tuple(self.documents())
        )

    def documents(self) -> Iterable[CheckDocument]:
        for each in self.results:
            yield CheckDocument(
                check=each.check, state=each.state, detail=each.detail, advice=each.advice or None
            )


class RowsAnswer(Answer, frozen=True):
    """Rows with the same columns. Its document is a list with an object for each row."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    """The values for programs."""
    cells: Sequence[Sequence[str]] = ()
    """The values for people; by default the same."""

    def _texts(self) -> list[list[str]]:
        rows = self.cells or self.rows
        return [["" if value is None else visible(str(value)) for value in row] for row in rows]

    def lines(self, view: View, *, is_wide: bool) -> Iterable[Line]:  # noqa: ARG002  # a column is never cut
        heads = [name.replace("_", " ") for name in self.columns]
        for text in align_columns([heads, *self._texts()]).splitlines():
            yield ((text, Ink.PLAIN),)

    def page(self, view: View) -> str:
        from service_record.display.html.rendering import limit_items, page, section

        rows, more = limit_items(self._texts())
        heads = [name.replace("_", " ") for name in self.columns]
        table = section("rows", "Rows", "parts.html", "text_table", heads=heads, rows=rows, more=more)
        return page(self.title, [], [table], view.now, summary=self.lines(view, is_wide=True))

    def document(self) -> list[dict[str, Any]]:
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def documents(self) -> Iterable[dict[str, Any]]:
        return self.document()
