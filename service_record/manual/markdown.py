"""Markdown as our documents use it, as troff."""

from collections.abc import Iterator, Sequence

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

from service_record.manual import roff

_PARSER = MarkdownIt("commonmark").enable("table")


def page(document: str, name: str, section_number: int, date: str, version: str) -> str:
    """A whole document as a page of the manual: its heading is what the page is about."""
    heading, *rest = _nodes(document)
    name_and_heading = f"{roff.escaped(name)} \\- {_inline(heading.children[0]).lower()}"
    lines = [".SH NAME", name_and_heading, ".SH DESCRIPTION", *_blocks(rest)]
    return roff.page(name, section_number, date, version, lines)


def section(document: str, heading: str) -> Iterator[str]:
    """What stands under a heading of the second level, without its own headings."""
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
    """All but comments."""
    nodes = SyntaxTreeNode(_PARSER.parse(document)).children
    return [node for node in nodes if not (node.type == "html_block" and node.content.startswith("<!--"))]


def _is_heading(node: SyntaxTreeNode, tag: str) -> bool:
    return node.type == "heading" and node.tag == tag


def _blocks(nodes: Sequence[SyntaxTreeNode]) -> Iterator[str]:
    for node in nodes:
        match node.type:
            case "heading":
                text = _inline(node.children[0])
                yield f".SH {text.upper()}" if node.tag == "h2" else f".SS {text}"
            case "paragraph":
                yield from (".PP", roff.line(_inline(node.children[0])))
            case "fence" | "code_block":
                yield from roff.verbatim(node.content)
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
    yield from (f".IP {mark} 3", roff.line(_inline(first.children[0])))
    if rest:
        yield from (".RS 3", *_blocks(rest), ".RE")


def _table(table: SyntaxTreeNode) -> Iterator[str]:
    """A list with an item for each row: its first cell, those in the middle in parentheses, its last cell."""
    for row in (row for part in table.children for row in part.children):
        first, *middle, last = (_inline(cell.children[0]) for cell in row.children)
        between = f"({', '.join(middle)}) " if middle else ""
        yield from (".TP", roff.line(first) or r"\&", roff.line(between + last))


def _inline(node: SyntaxTreeNode) -> str:
    """The text of a node; of a link only what it says, since a page has no other to go to."""
    match node.type:
        case "text":
            return roff.escaped(node.content)
        case "code_inline":
            return roff.bold(node.content)
        case "softbreak" | "hardbreak":
            return " "
        case "em" | "strong":
            return "\\fI" + "".join(map(_inline, node.children)) + "\\fR"
        case _:
            return "".join(map(_inline, node.children))
