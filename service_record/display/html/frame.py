"""The frame of every page, how it looks, and the elements it is built of: no text becomes markup.

In the light and in the dark, texts have a contrast of 4.5 or more to their ground.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final, TypeAlias
from xml.etree.ElementTree import Element, tostring

import msgspec

from service_record.display.phrases import ending, place
from service_record.display.text import Ink, Line, utc
from service_record.history.outcome import Facts
from service_record.record.visible import visible
from service_record.version import __version__

LIGHT: Final = {
    "ground": "#ffffff",
    "panel": "#f5f6f8",
    "text": "#1c2026",
    "faint": "#59626d",
    "line": "#d5d9de",
    "link": "#0b5cad",
    "success": "#1b7737",
    "failure": "#c01f2b",
    "interrupted": "#8a5a00",
    "running": "#0b6a8f",
    "stopped": "#6b4fa0",
}
DARK: Final = {
    "ground": "#14171b",
    "panel": "#1d2126",
    "text": "#e4e7eb",
    "faint": "#9aa4af",
    "line": "#363c44",
    "link": "#7fb8f5",
    "success": "#4fbf6b",
    "failure": "#ff7f78",
    "interrupted": "#dba53a",
    "running": "#56bbdf",
    "stopped": "#b9a1ee",
}
INKS: Final = ("text", "faint", "link", "success", "failure", "interrupted", "running", "stopped")

_RULES: Final = """
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem 1.25rem 3rem; max-width: 90rem; font: 15px/1.5 system-ui, sans-serif;
  background: var(--ground); color: var(--text); }
h1 { font-size: 1.5rem; line-height: 1.25; margin: .5rem 0; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2rem 0 .5rem; overflow-wrap: anywhere; }
h3, h4 { font-size: 1rem; margin: .5rem 0 .25rem; overflow-wrap: anywhere; }
.card h4 { margin-top: 0; }
p { margin: .25rem 0; overflow-wrap: anywhere; }
.verdict { font-size: 1.2rem; font-weight: 600; }
h1.verdict { font-size: 1.6rem; }
.stages { margin: 0; padding: 0; display: flex; flex-wrap: wrap; gap: 0 1.25rem; list-style: none; }
a { color: var(--link); }
pre, code, .mono { font: 13px/1.5 ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; }
pre { margin: .25rem 0; white-space: pre-wrap; overflow-wrap: anywhere; }
.strong { font-weight: 600; }
.faint { color: var(--faint); }
.success { color: var(--success); }
.failure { color: var(--failure); }
.interrupted { color: var(--interrupted); }
.running { color: var(--running); }
.stopped { color: var(--stopped); }
tr:target, section:target > h3 { background: var(--panel); outline: 2px solid var(--link); }
:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
.skip { position: absolute; left: -100vw; }
.skip:focus { left: 1rem; top: 1rem; padding: .5rem; background: var(--ground); }
nav ul { margin: .75rem 0; padding: 0; display: flex; flex-wrap: wrap; gap: 0 1.25rem; list-style: none; }
.card { margin: .5rem 0; padding: .75rem 1rem; border-left: 4px solid var(--line); background: var(--panel); }
.card.failure { color: inherit; border-color: var(--failure); }
.card.interrupted { color: inherit; border-color: var(--interrupted); }
dl { display: grid; grid-template-columns: minmax(5rem, max-content) minmax(0, 1fr); gap: .15rem 1rem;
  margin: .5rem 0 0; }
dt { color: var(--faint); }
dd { margin: 0; min-width: 0; overflow-wrap: anywhere; }
details { margin: .75rem 0; }
summary { cursor: pointer; color: var(--link); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; margin: .5rem 0; }
th, td { padding: .2rem .75rem .2rem 0; border-bottom: 1px solid var(--line); text-align: left;
  vertical-align: top; }
td { overflow-wrap: anywhere; min-width: 6rem; }
td.number { min-width: 0; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.chart { list-style: none; margin: .75rem 0; padding: 0; }
.chart li { display: grid; grid-template-columns: min(var(--label), 30%) 5.5rem minmax(0, 1fr);
  column-gap: .75rem; align-items: center; }
.chart li:not(.axis):hover { background: var(--panel); }
.chart .label { overflow-wrap: anywhere; line-height: 1.25; padding: .1rem 0; }
.chart .took { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.chart svg { display: block; width: 100%; height: 24px; overflow: hidden; }
.chart svg text { font-size: 11px; fill: var(--faint); }
.chart svg line { stroke: var(--line); }
.chart svg a text { font-size: 12px; font-weight: 600; stroke: none !important; }
.chart svg rect { stroke-width: 1.5px; rx: 1px; }
.chart svg .success { fill: var(--success); stroke: var(--success); }
.chart svg .failure { fill: var(--failure); stroke: var(--failure); }
.chart svg .interrupted { fill: var(--interrupted); stroke: var(--interrupted); }
.chart svg .running { fill: var(--running); stroke: var(--running); }
.chart svg .stopped { fill: var(--stopped); stroke: var(--stopped); }
.chart svg rect.failure { fill: url(#hatched); }
.chart svg rect.interrupted { fill: var(--ground); stroke-dasharray: 3 2; }
.chart svg rect.running { fill-opacity: .45; }
.chart svg rect.stopped { fill: var(--ground); }
.chart svg a:focus-visible { outline: none; }
.chart svg a:focus-visible rect, .chart svg a:hover rect { stroke: var(--text); stroke-width: 3px; }
.chart svg rect.cut { fill: url(#broken); stroke: none; pointer-events: none; }
#broken rect { fill: var(--ground); }
#broken path { stroke: var(--faint); stroke-width: 1; }
#hatched rect { fill: var(--failure); fill-opacity: .35; }
#hatched path { stroke: var(--failure); stroke-width: 3; }
.depth-1 .label { padding-left: 1.25rem; }
.depth-2 .label { padding-left: 2.5rem; }
.depth-3 .label { padding-left: 3.75rem; }
.depth-4 .label { padding-left: 5rem; }
@media (max-width: 44rem) {
  body { padding: .5rem .75rem 2rem; }
  .chart li { grid-template-columns: minmax(0, 1fr) max-content; }
  .chart li svg { grid-column: 1 / -1; }
  .chart .axis span { display: none; }
  .chart .minor { display: none; }
  dl { grid-template-columns: minmax(0, 1fr); gap: 0; }
  dt { margin-top: .35rem; }
}
svg[aria-hidden] { position: absolute; }
@media print { .skip, nav { display: none; } }
"""


def stylesheet() -> str:
    """Return the style of every page."""
    dark = f"@media (prefers-color-scheme: dark) {{ {_colors(DARK)} }}"
    return f"\n:root {{ color-scheme: light dark; }}\n{_colors(LIGHT)}\n{dark}{_RULES}"


def _colors(palette: Mapping[str, str]) -> str:
    return ":root { " + " ".join(f"--{name}: {color};" for name, color in palette.items()) + " }"


Content: TypeAlias = Element | str

_CLASSES: Final = {
    Ink.STRONG: "strong",
    Ink.FAINT: "faint",
    Ink.GOOD: "success",
    Ink.BUSY: "running",
    Ink.CALM: "stopped",
    Ink.WORRYING: "interrupted",
    Ink.BAD: "failure",
}


def element(tag: str, *content: Content, **attributes: str) -> Element:
    """Return an element; its attribute `class_` is `class`, and `aria_label` is `aria-label`."""
    named = {name.removesuffix("_").replace("_", "-"): visible(value) for name, value in attributes.items()}
    new = Element(tag, named)
    append(new, content)
    return new


def append(around: Element, content: Iterable[Content]) -> None:
    """Put elements and texts at the end of an element."""
    for one in content:
        if isinstance(one, Element):
            around.append(one)
        elif len(around):
            around[-1].tail = (around[-1].tail or "") + _text(one)
        else:
            around.text = (around.text or "") + _text(one)


def inked(line: Line) -> list[Content]:
    """Return a line as terminals have it, with classes for its inks."""
    return [element("span", text, class_=_CLASSES[ink]) if ink in _CLASSES else text for text, ink in line]


def preformatted(lines: Iterable[Line]) -> Element:
    """Return lines as terminals have them, in the letters of terminals."""
    block = element("pre")
    for line in lines:
        append(block, [*inked(line), "\n"])
    return block


def as_html(root: Element) -> str:
    """Return the document of an `html` element."""
    return "<!DOCTYPE html>\n" + tostring(root, encoding="unicode", method="html") + "\n"


def _text(text: str) -> str:
    return "\n".join(map(visible, text.split("\n")))


_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
"""A browser loads nothing and runs nothing for such a page, whatever is in it."""


class Section(msgspec.Struct, frozen=True):
    """A part of a page, that its contents link to."""

    id: str
    heading: str
    content: Sequence[Content]


def page(
    title: str,
    lead: Iterable[Content],
    sections: Sequence[Section],
    made_at: datetime,
    heading: Element | None = None,
) -> str:
    """Return a page in one file: its head with what matters most and when it was made, then its sections.

    The largest heading is the title, unless there is another.
    """
    origin = element(
        "p", f"page made {utc(made_at, 'seconds')} by service-record {__version__}", class_="faint"
    )
    head = element(
        "head",
        element("meta", charset="utf-8"),
        _http_equiv("Content-Security-Policy", _POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="generator", content=f"service-record {__version__}"),
        element("title", title),
        _style(),
    )
    body = element(
        "body",
        element("a", "Skip to the contents", class_="skip", href="#contents"),
        element(
            "header", element("h1", title) if heading is None else heading, *lead, origin, _contents(sections)
        ),
        element("main", *map(section_element, sections), id="contents"),
    )
    return as_html(element("html", head, body, lang="en"))


def _http_equiv(name: str, content: str) -> Element:
    return Element("meta", {"http-equiv": name, "content": content})


def _style() -> Element:
    style = Element("style")
    style.text = stylesheet()
    return style


def _contents(sections: Iterable[Section]) -> Element:
    items = (element("li", element("a", each.heading, href=f"#{each.id}")) for each in sections)
    return element("nav", element("ul", *items), aria_label="Contents")


def section_element(section: Section) -> Element:
    """Return a section with its heading."""
    heading = element("h2", section.heading, id=f"{section.id}-heading")
    return element(
        "section", heading, *section.content, id=section.id, aria_labelledby=f"{section.id}-heading"
    )


def facts_list(facts: Facts) -> Element:
    """Return where it happened, called from where, how it ended, and what the journal said: a `dl`."""
    terms = element("dl")
    for term, value in _terms(facts):
        terms.extend([element("dt", term), element("dd", value)])
    return terms


def _terms(facts: Facts) -> Iterator[tuple[str, Content]]:
    if facts.location is not None:
        near = "near " if facts.is_approximate else ""
        yield "at", element("code", near + place(facts.location))
    if facts.command is not None:
        yield "command", element("code", facts.command)
    inner, callers = facts.frames_around
    for term, frames in (("into", inner), ("from", callers)):
        if frames:
            yield term, element("pre", "\n".join(map(place, frames)))
    if ending(facts):
        yield "ended", ending(facts)
    if facts.message:
        yield "message", element("pre", facts.message)
