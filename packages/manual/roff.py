"""Markdown as our documents use it, and texts, as troff with the macros of man(7) takes them."""

import re
from collections.abc import Iterable, Iterator, Sequence

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

from service_record.version import RELEASED

_SPECIAL = {"\\": r"\e", "-": r"\-", "'": r"\(aq", "`": r"\(ga", "^": r"\(ha", "~": r"\(ti"}
_PATTERN = re.compile(r"[\\\-'`^~]")


def escaped(text: str) -> str:
    """Escape a text: nothing in it is a command, and every character can be copied and typed."""
    return _PATTERN.sub(lambda match: _SPECIAL[match[0]], text)


def line(text: str) -> str:
    """Escaped text as a line of its own, which no control character begins."""
    return f"\\&{text}" if text.startswith(".") else text


def bold(text: str) -> str:
    return f"\\fB{escaped(text)}\\fR"


def page(name: str, section: int, version: str, lines: Iterable[str]) -> str:
    """Return a whole page, ragged and without hyphens: readers search for options and names, and
    copy them.
    """
    head = [f'.TH {escaped(name.upper())} {section} {RELEASED} "{escaped(version)}"', ".nh", ".ad l"]
    return "\n".join([*head, *_without_idle_paragraphs(lines)]) + "\n"


def _without_idle_paragraphs(lines: Iterable[str]) -> Iterator[str]:
    before = ""
    for row in lines:
        if row != ".PP" or not before.startswith((".SH", ".SS")):
            yield row
        before = row


def verbatim(text: str) -> Iterable[str]:
    yield from (".PP", ".RS 4", ".nf")
    yield from (line(escaped(row)) if row else r"\&" for row in text.splitlines())
    yield from (".fi", ".RE")


_PARSER = MarkdownIt("commonmark").enable("table")


def page_of_markdown(document: str, name: str, section_number: int, version: str) -> str:
    """Return a whole document as a man page. Its first heading describes the page after the name."""
    heading, *rest = _nodes(document)
    name_and_heading = f"{escaped(name)} \\- {_inline(heading.children[0]).lower()}"
    lines = [".SH NAME", name_and_heading, ".SH DESCRIPTION", *_blocks(rest)]
    return page(name, section_number, version, lines)


def section(document: str, heading: str) -> Iterator[str]:
    """Yield the text below a heading of the second level, without its own headings."""
    nodes = iter(_nodes(document))
    for node in nodes:
        if _is_heading(node, "h2") and _inline(node.children[0]) == heading:
            break
    else:
        raise LookupError(f"no section {heading}")
    for node in nodes:
        if _is_heading(node, "h2"):
            return
        yield from _blocks([node])


def _nodes(document: str) -> Sequence[SyntaxTreeNode]:
    """Return all nodes but comments."""
    nodes = SyntaxTreeNode(_PARSER.parse(document)).children
    return [node for node in nodes if not (node.type == "html_block" and node.content.startswith("<!--"))]


def _is_heading(node: SyntaxTreeNode, tag: str) -> bool:
    return node.type == "heading" and node.tag == tag


def _blocks(nodes: Sequence[SyntaxTreeNode]) -> Iterator[str]:
    for node in nodes:
        match node.type:
            case "heading":
                text = _inline(node.children[0])
                yield f".SH {text.upper()}" if node.tag in {"h1", "h2"} else f".SS {text}"
            case "paragraph":
                yield from (".PP", line(_inline(node.children[0])))
            case "fence" | "code_block":
                yield from verbatim(node.content)
            case "bullet_list":
                for item in node.children:
                    yield from _item(item, r"\(bu")
            case "ordered_list":
                for number, item in enumerate(node.children, 1):
                    yield from _item(item, f"{number}.")
            case "table":
                yield from _table(node)
            case other:
                raise ValueError(f"nothing is known of a {other}")


def _item(item: SyntaxTreeNode, mark: str) -> Iterator[str]:
    first, *rest = item.children
    yield from (f".IP {mark} 3", line(_inline(first.children[0])))
    if rest:
        yield from (".RS 3", *_blocks(rest), ".RE")


def _table(table: SyntaxTreeNode) -> Iterator[str]:
    """Yield a list with an item for each row: first cell, middle ones in parentheses, last cell."""
    for row in (row for part in table.children for row in part.children):
        first, *middle, last = (_inline(cell.children[0]) for cell in row.children)
        between = f"({', '.join(middle)}) " if middle else ""
        yield from (".TP", line(first) or r"\&", line(between + last))


def _inline(node: SyntaxTreeNode) -> str:
    """Return the text of a node. A link is only its text, since a page has no other to go to."""
    match node.type:
        case "text":
            return escaped(node.content)
        case "code_inline":
            return bold(node.content)
        case "softbreak" | "hardbreak":
            return " "
        case "em" | "strong":
            return "\\fI" + "".join(map(_inline, node.children)) + "\\fR"
        case _:
            return "".join(map(_inline, node.children))
