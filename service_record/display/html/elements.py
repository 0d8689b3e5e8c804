"""Elements of a page. Texts are texts: none becomes markup, and what nobody would see is written out."""

from collections.abc import Iterable
from typing import Final, TypeAlias
from xml.etree.ElementTree import Element, tostring

from service_record.display.page import Ink, Line
from service_record.display.text import visible

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
    """An element; its attribute `class_` is `class`, and `aria_label` is `aria-label`."""
    named = {name.removesuffix("_").replace("_", "-"): visible(value) for name, value in attributes.items()}
    made = Element(tag, named)
    append(made, content)
    return made


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
    """A line as terminals have it, with classes for its inks."""
    return [element("span", text, class_=_CLASSES[ink]) if ink in _CLASSES else text for text, ink in line]


def preformatted(lines: Iterable[Line]) -> Element:
    """Lines as terminals have them, in the letters of terminals."""
    made = element("pre")
    for line in lines:
        append(made, [*inked(line), "\n"])
    return made


def as_html(root: Element) -> str:
    """The document of an `html` element."""
    return "<!DOCTYPE html>\n" + tostring(root, encoding="unicode", method="html") + "\n"


def _text(text: str) -> str:
    return "\n".join(map(visible, text.split("\n")))
