"""The stages of a run on a few lines: each once, however often it ran."""

from collections.abc import Iterator, Sequence
from typing import Final

from rich.cells import cell_len

from service_record.display.details import LABEL_WIDTH
from service_record.display.page import Ink, Line, View
from service_record.display.phrases import glyph, ink, lasted, name
from service_record.display.text import cut
from service_record.history.outcome import Stage

_MAX_SHOWN: Final = 6
_GAP: Final = "  "


def stage_lines(stages: Sequence[Stage], view: View, indent: int) -> Iterator[Line]:
    """`stages   ✓ first 1.2s  ✗ second 9.5s`, with how often each ran; of many, the last ones."""
    by_name: dict[str, list[Stage]] = {}
    for stage in stages:
        by_name.setdefault(stage.name, []).append(stage)
    kinds = sorted(by_name.values(), key=_last_time)
    hidden = kinds[:-_MAX_SHOWN]
    items = [_before(hidden)] if hidden else []
    items += [_item(same, view) for same in kinds[-_MAX_SHOWN:]]
    label = "stages"
    for row in _rows(items, view.width - indent - LABEL_WIDTH):
        yield (" " * indent, Ink.PLAIN), (label.ljust(LABEL_WIDTH), Ink.FAINT), *row
        label = ""


def _last_time(same: Sequence[Stage]) -> float:
    known = same[-1].started or same[-1].ended
    return known.timestamp() if known else 0.0


def _before(hidden: Sequence[Sequence[Stage]]) -> Line:
    failed = sum(same[-1].outcome.is_bad for same in hidden)
    text = f"{len(hidden)} before" + (f" ({failed} failed)" if failed else "")
    return ((text, Ink.FAINT),)


def _item(same: Sequence[Stage], view: View) -> Line:
    last = same[-1]
    mark = (f"{glyph(last.outcome, view.glyphs)} ", ink(last.outcome))
    label = cut(name(last.name), view.width // 2, view.glyphs.cut)
    took = f" {lasted(last)}".rstrip()
    times = f" {view.glyphs.times}{len(same)}" if len(same) > 1 else ""
    return mark, (label, Ink.PLAIN), (took + times, Ink.FAINT)


def _rows(items: Sequence[Line], width: int) -> Iterator[Line]:
    """The items, side by side as long as there is room."""
    row: list[tuple[str, Ink]] = []
    used = 0
    for item in items:
        needed = sum(cell_len(text) for text, _ in item)
        if row and used + len(_GAP) + needed > width:
            yield tuple(row)
            row, used = [], 0
        if row:
            row.append((_GAP, Ink.PLAIN))
            used += len(_GAP)
        row += item
        used += needed
    if row:
        yield tuple(row)
