"""What every page has around its sections."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final
from xml.etree.ElementTree import Element

from service_record.display.html.elements import Content, as_html, element
from service_record.display.html.style import stylesheet
from service_record.version import __version__

_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
"""A browser loads nothing and runs nothing for such a page, whatever is in it."""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page, that its contents link to."""

    id: str
    heading: str
    content: Sequence[Content]


def page(title: str, lead: Iterable[Content], sections: Sequence[Section]) -> str:
    """A page in one file: a title, what is most important of all, and sections."""
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
        element("header", element("h1", title), *lead, _contents(sections)),
        element("main", *map(section_element, sections), id="contents"),
    )
    return as_html(element("html", head, body, lang="en"))


def _http_equiv(name: str, content: str) -> Element:
    return Element("meta", {"http-equiv": name, "content": content})


def _style() -> Element:
    made = Element("style")
    made.text = stylesheet()
    return made


def _contents(sections: Iterable[Section]) -> Element:
    items = (element("li", element("a", each.heading, href=f"#{each.id}")) for each in sections)
    return element("nav", element("ul", *items), aria_label="Contents")


def section_element(section: Section) -> Element:
    """A section with its heading."""
    heading = element("h2", section.heading, id=f"{section.id}-heading")
    return element(
        "section", heading, *section.content, id=section.id, aria_labelledby=f"{section.id}-heading"
    )
