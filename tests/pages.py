"""Parse an HTML page, strictly: every element must be closed."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

_VOID = {"meta", "link", "input", "img"}


@dataclass
class Node:
    """An element with its attributes and its own text, without that of its children."""

    tag: str
    attributes: dict[str, str]
    path: tuple[str, ...]
    text: str = ""

    @property
    def classes(self) -> list[str]:
        return self.attributes.get("class", "").split()


@dataclass
class Page:
    """All elements of a page, in order."""

    nodes: list[Node] = field(default_factory=list)

    def all(self, tag: str, class_: str = "") -> list[Node]:
        return [node for node in self.nodes if node.tag == tag and (not class_ or class_ in node.classes)]

    def texts(self, tag: str, class_: str = "") -> list[str]:
        return [node.text for node in self.all(tag, class_)]

    @property
    def text(self) -> str:
        return "\n".join(node.text for node in self.nodes)


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.page = Page()
        self.open: list[Node] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        node = Node(tag, {name: value or "" for name, value in attrs}, tuple(one.tag for one in self.open))
        self.page.nodes.append(node)
        if tag not in _VOID:
            self.open.append(node)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop().tag == tag, f"</{tag}> closes nothing"

    def handle_data(self, data: str) -> None:
        if self.open:
            self.open[-1].text += data


def parse_page(text: str) -> Page:
    """Parse a page. Fails if an element is not closed."""
    parser = _Parser()
    parser.feed(text)
    parser.close()
    assert not parser.open
    return parser.page
