"""Render HTML pages: the Jinja environment, and the frame around the sections of a page.

Texts are escaped for HTML, and their invisible characters are shown as escape sequences. The collector makes
its environment here as well: it has templates of its own, and uses these too.
"""

import base64
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from itertools import islice
from typing import Any, Final, TypeVar

import msgspec
from jinja2 import BaseLoader, ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from service_record.display.charts import Chart
from service_record.display.drawing import MAX_EXECUTIONS, boot_drawing
from service_record.display.phrases import exit_text, location_text, rank_label
from service_record.display.text import Ink, Line, View, count, render_lines, utc
from service_record.history import History
from service_record.record.visible import visible
from service_record.version import __version__

T = TypeVar("T")

_CLASSES: Final = {
    Ink.PLAIN: "",
    Ink.STRONG: "strong",
    Ink.FAINT: "faint",
    Ink.GOOD: "success",
    Ink.BUSY: "running",
    Ink.CALM: "stopped",
    Ink.WORRYING: "interrupted",
    Ink.BAD: "failure",
}
UNWRAPPED: Final = 1 << 16
"""The width in columns of texts on a page: browsers wrap lines themselves."""
MAX_BOOTS: Final = 50
"""The limit of charts on a page. A host that reboots in a loop has thousands of boots that look alike."""
MAX_ITEMS: Final = 500
"""The limit of cards or lines of one kind on a page."""
MAX_SUMMARY_LINES: Final = 100
SUMMARY_COLUMNS: Final = 100


def limit_items(items: Sequence[T]) -> tuple[Sequence[T], str]:
    """Return the first `MAX_ITEMS` items, and a note about the others, which is empty if there are none."""
    hidden = len(items) - MAX_ITEMS
    return items[:MAX_ITEMS], f"and {hidden} more: --output json has them" if hidden > 0 else ""


def make_environment(*loaders: BaseLoader) -> Environment:
    """Return an environment that searches these loaders for a template, and then this package."""
    environment = Environment(
        loader=ChoiceLoader([*loaders, PackageLoader("service_record.display.html")]),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_escape_invisible,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "anchor": _anchor,
        "ending": exit_text,
        "percent": "{:.3f}%".format,
        "place": location_text,
        "rank_label": rank_label,
    }
    environment.globals |= {"inks": _CLASSES, "max_executions": MAX_EXECUTIONS}
    return environment


def _escape_invisible(value: object) -> object:
    """Escape the invisible characters of a text, except newlines. Other values and markup are unchanged."""
    if not isinstance(value, str) or isinstance(value, Markup) or (value.isascii() and value.isprintable()):
        return value
    return "\n".join(map(visible, value.split("\n")))


def _anchor(place: str) -> str:
    """Return the HTML id of the element that quotes the line at a place."""
    return f"at-{re.sub('[^A-Za-z0-9]+', '-', place)}"


@cache
def _environment() -> Environment:
    return make_environment()


def stylesheet() -> str:
    return _environment().get_template("style.css").render()


@cache
def script() -> Markup:
    """Return the script of all pages. A page is complete without it."""
    return Markup(_environment().get_template("page.js").render())  # noqa: S704  # our own file


@cache
def _script_digest() -> str:
    """Return the digest of the script. The Content-Security-Policy of a page allows only this script."""
    return "sha256-" + base64.b64encode(hashlib.sha256(script().encode()).digest()).decode()


def draw(template: str, macro: str, /, **values: Any) -> Markup:
    """Render a macro of a template with these values."""
    return Markup(getattr(_environment().get_template(template).module, macro)(**values))  # noqa: S704  # the template escapes


class Section(msgspec.Struct, frozen=True):
    """A part of a page, with a link in the table of contents."""

    id: str
    heading: str
    content: Markup


def section(id_: str, heading: str, template: str, macro: str, /, **values: Any) -> Section:
    """Return a section whose content is a rendered macro."""
    return Section(id_, heading, draw(template, macro, **values))


def damage_sections(lines: Iterable[Line]) -> Iterator[Section]:
    """Yield the section about damaged records, if there are any."""
    damaged, more = limit_items(list(lines))
    if damaged:
        shown = [*damaged, ((more, Ink.FAINT),)] if more else damaged
        yield section("damage", "Damaged records", "parts.html", "preformatted", lines=shown)


def chart_sections(
    history: History,
    charts: Sequence[Chart],
    targets: Mapping[str, str],
    view: View,
    *,
    flat: bool = False,
    has_styles: bool = True,
) -> Iterator[Section]:
    """Yield a section for each of the newest boots.

    `targets` maps a service to the id of its failures on the page. `has_styles` is false for a page whose
    policy forbids style attributes.
    """
    newest = charts[-MAX_BOOTS:]
    if left_out := len(charts) - len(newest):
        note = f"{count(left_out, 'earlier boot')} left out: `timeline --boot N` shows one of them"
        yield section("earlier-boots", "Earlier boots", "parts.html", "items", texts=[note])
    for number, chart in enumerate(newest):
        drawing = boot_drawing(chart, len(history.boots), targets, view, flat=flat)
        values = {"chart": drawing, "is_first": number == 0, "has_styles": has_styles}
        yield section(drawing.id, drawing.title, "chart.html", "chart", **values)


def page(
    title: str,
    lead: Iterable[Line],
    sections: Iterable[Section],
    made_at: datetime,
    *,
    summary: Iterable[Line],
    heading: Markup | None = None,
) -> str:
    """Render a page that needs no other file: a head with the lead and the time, then the sections.

    The first lines of `summary` are in the page as plain text, which people can copy into a ticket. `heading`
    replaces the title as the largest heading. The page's Content-Security-Policy allows our script, and no
    other script or resource, whatever the texts contain.
    """
    plain = [line.rstrip() for line in islice(render_lines(summary, color=False), MAX_SUMMARY_LINES + 1)]
    if len(plain) > MAX_SUMMARY_LINES:
        plain[-1] = "..."
    return (
        _environment()
        .get_template("page.html")
        .render(
            title=title,
            lead=list(lead),
            sections=list(sections),
            made_at=utc(made_at, "seconds"),
            heading=heading,
            summary=plain,
            script=script(),
            script_digest=_script_digest(),
            version=__version__,
        )
    )
