"""The frame of every page, and the elements it is built of: texts are texts, none becomes markup."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final, TypeAlias
from xml.etree.ElementTree import Element, tostring

import msgspec

from service_record.display.html.style import stylesheet
from service_record.display.phrases import ending, place
from service_record.display.text import Ink, Line, utc
from service_record.history.outcome import Facts
from service_record.record.visible import visible
from service_record.version import __version__

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
    made: datetime,
    heading: Element | None = None,
) -> str:
    """Return a page in one file: its head with what matters most and when it was made, then its sections.

    The largest heading is the title, unless there is another.
    """
    origin = element("p", f"page made {utc(made, 'seconds')} by service-record {__version__}", class_="faint")
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
