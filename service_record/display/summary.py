"""What stands above and below the services: how many came to what, and what could not be read."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from itertools import chain
from typing import Final

from service_record.display.phrases import VERBS, ink, name
from service_record.display.text import BLANK, Ink, Line, View, count, cut, wrap, zone
from service_record.history import History, ServiceHistory
from service_record.record.entry import Malformed
from service_record.record.visible import visible

_MAX_PIECES: Final = 3
_INDENT: Final = 2


def summary(history: History, source: str, view: View) -> Iterator[Line]:
    """`3 services: 1 failed, 2 succeeded`, and where that was read."""
    if history.services:
        yield (count(len(history.services), "service"), Ink.STRONG), *_counts(history)
    else:
        yield (("no run matches", Ink.STRONG),)
    parts = [visible(source)]
    if history.boots:
        parts.append(count(len(history.boots), "boot"))
    damaged = sum(service.damaged_pieces for service in history.services)
    if damaged:
        parts.append(f"{count(damaged, 'damaged piece')}")
    for row in wrap(", ".join(parts), view.width):
        yield ((row, Ink.FAINT),)


def _counts(history: History) -> Line:
    """`: 1 failed, 2 succeeded`, worst first."""
    outcomes = Counter(service.outcome for service in history.services)
    counts = [
        (f"{outcomes[outcome]} {verb}", ink(outcome)) for outcome, verb in VERBS.items() if outcomes[outcome]
    ]
    if outcomes[None]:
        counts.append((f"{outcomes[None]} without a run", Ink.FAINT))
    separators = [(": ", Ink.PLAIN), *[(", ", Ink.PLAIN)] * len(counts)]
    return tuple(chain.from_iterable(zip(separators, counts, strict=False)))


def left_out_sentences(service: ServiceHistory) -> Iterator[str]:
    """Say what rotations left out: `37 successful runs left out: the record had grown too long`."""
    marks = [run.left_out for run in service.runs if run.left_out is not None]
    kinds = {
        "successful run": sum(mark.succeeded for mark in marks),
        "stopped run": sum(mark.stopped for mark in marks),
        "failed run": sum(mark.failed for mark in marks),
        "run of boots that are gone": sum(mark.boot_runs for mark in marks),
    }
    counts = [count(number, what, what.replace("run", "runs", 1)) for what, number in kinds.items() if number]
    if counts:
        yield f"{', '.join(counts)} left out: the record had grown too long"


def damages(history: History, view: View, *, whole: bool = False) -> Iterator[Line]:
    """Yield each record's damage, and its pieces that are not entries: the first few, or all of them."""
    local = [service for service in history.services if service.utc_offset is not None]
    if len(local) > 1:
        yield BLANK
        yield from _all_local(local, view)
    for service in history.services:
        doubts = list(_anomalies(service, is_zone_told=len(local) > 1))
        if not doubts and not service.malformed:
            continue
        yield BLANK
        yield _damage_title(service, view)
        for doubt in doubts:
            yield from _indented(doubt, Ink.PLAIN, view)
        yield from _pieces(service, view, whole=whole)


def local_times(services: Iterable[ServiceHistory]) -> Iterator[str]:
    """Yield which services have local times labelled UTC; they are of one host, which has one zone."""
    local = [service for service in services if service.utc_offset is not None]
    if local:
        yield f"{_local(local[0].utc_offset)}: {', '.join(name(service.name) for service in local)}"


def _all_local(services: Sequence[ServiceHistory], view: View) -> Iterator[Line]:
    """Yield the sentence for several records with local times."""
    yield ((f"{view.glyphs.damaged} {count(len(services), 'record')}", Ink.WORRYING),)
    for sentence in local_times(services):
        yield from _indented(sentence, Ink.PLAIN, view)


def _local(offset: timedelta | None) -> str:
    return f"times seem to be those of {zone(offset or timedelta())}, although labelled UTC"


def _anomalies(service: ServiceHistory, *, is_zone_told: bool) -> Iterator[str]:
    if not service.runs and not service.malformed:
        yield "no entry in it"
    if service.utc_offset is not None and not is_zone_told:
        yield _local(service.utc_offset)
    if service.is_unfinished:
        yield f"{visible(service.name)}.json.tmp lies beside it, from a write that did not end"
    if service.has_damaged_copy:
        yield f"{visible(service.name)}.json.damaged lies beside it, with what was damaged in it"


def _pieces(service: ServiceHistory, view: View, *, whole: bool) -> Iterator[Line]:
    pieces = service.malformed if whole else service.malformed[:_MAX_PIECES]
    for piece in pieces:
        yield from _indented(_damage_line(piece, view, whole=whole), Ink.PLAIN, view)
    rest = service.damaged_pieces - len(pieces)
    if rest > 0:
        where = "named by `validate`" if whole else "shown by --output wide"
        yield from _indented(f"and {rest} more, {where}", Ink.FAINT, view)


def _damage_line(piece: Malformed, view: View, *, whole: bool) -> str:
    text = visible(piece.text) if whole else cut(visible(piece.text), view.width // 2, view.glyphs.cut)
    return f"line {piece.line}: {visible(piece.reason)}: {text}"


def _indented(text: str, color: Ink, view: View) -> Iterator[Line]:
    for row in wrap(text, view.width - _INDENT):
        yield ((" " * _INDENT + row, color),)


def _damage_title(service: ServiceHistory, view: View) -> Line:
    lead, text = f"{view.glyphs.damaged} ", " record"
    if service.malformed:
        text += f": {count(service.damaged_pieces, 'damaged piece')}"
    label = cut(name(service.name), view.width - len(lead) - len(text), view.glyphs.cut)
    return (lead, Ink.WORRYING), (label, Ink.STRONG), (text, Ink.WORRYING)
