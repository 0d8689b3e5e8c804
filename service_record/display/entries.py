"""The lines of `follow`: one for each entry."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final

from service_record.display.phrases import VERBS, details, exit_text, glyph, ink, name
from service_record.display.text import Clock, Ink, Line, View, cell_len, cut, set_cell_size, utc, zone
from service_record.history.outcome import end_outcome, gather_facts
from service_record.record.entry import Entry, Malformed, Phase, Result
from service_record.record.visible import visible

_MAX_NAME_WIDTH: Final = 24
_NO_TIME: Final = " " * len("01:05:10.123")
_DETAIL_INDENT: Final = len(_NO_TIME) + 1


class EntryPrinter:
    """Makes a line for each entry. It remembers the day, the boots and the longest name of a service."""

    def __init__(self, view: View, services: Iterable[str] = (), *, whole: bool = False) -> None:
        """With `whole`, the facts of a failure follow its line, and nothing is cut.

        The column of names is wide enough for `services` from the first line on.
        """
        self._view = view
        self._whole = whole
        self._day = ""
        self._boots: set[str] = set()
        self._name_width = max((cell_len(self._label(service)) for service in services), default=0)

    def lines(self, service: str, piece: Entry | Malformed) -> Iterator[Line]:
        """Yield the line of a piece, preceded by a line for a new day and one for a new boot."""
        if isinstance(piece, Malformed):
            text = f"line {piece.line}: {visible(piece.reason)}: {visible(piece.abridge().text)}"
            yield self._line(_NO_TIME, service, (self._view.glyphs.damaged, Ink.WORRYING), text)
            return
        day, time = (self._day, _NO_TIME) if piece.time is None else self._day_and_time(piece.time)
        if day != self._day:
            self._day = day
            yield ((day, Ink.FAINT),)
        if piece.boot_id is not None and piece.boot_id not in self._boots:
            if self._boots:
                yield ((f"boot {name(piece.boot_id)[:8]}", Ink.FAINT),)
            self._boots.add(piece.boot_id)
        yield self._line(time, service, self._mark(piece), entry_text(piece))
        if self._whole and piece.result is Result.FAILURE:
            yield from details(gather_facts([piece]), self._view, _DETAIL_INDENT, whole=True)

    def _line(self, time: str, service: str, mark: tuple[str, Ink], content: str) -> Line:
        sign, color = mark
        label = self._label(service)
        self._name_width = max(self._name_width, cell_len(label))
        room = self._view.width - len(f"{time} {sign}   ") - self._name_width
        text = content if self._whole else cut(content, room, self._view.glyphs.cut)
        return (
            (f"{time} ", Ink.FAINT),
            (f"{sign} ", color),
            (f"{set_cell_size(label, self._name_width)}  ", Ink.STRONG),
            (text, color if color in {Ink.BAD, Ink.WORRYING} else Ink.PLAIN),
        )

    def _label(self, service: str) -> str:
        return cut(name(service), _MAX_NAME_WIDTH, self._view.glyphs.cut)

    def _mark(self, entry: Entry) -> tuple[str, Ink]:
        glyphs = self._view.glyphs
        if entry.phase.is_start:
            return glyphs.running, Ink.BUSY
        outcome = end_outcome(entry)
        return glyph(outcome, glyphs), ink(outcome)

    def _day_and_time(self, time: datetime) -> tuple[str, str]:
        if self._view.clock is Clock.UTC:
            day, _, of_day = utc(time).removesuffix("Z").partition("T")
            return f"{day} UTC", of_day
        here = time.astimezone()
        offset = here.utcoffset()
        day, _, of_day = here.replace(tzinfo=None).isoformat(timespec="milliseconds").partition("T")
        return f"{day} {zone(offset) if offset is not None else ''}", of_day


def entry_text(entry: Entry) -> str:
    """Return an entry in words: `stage render started`, `failed: exit 1: no such image`."""
    text = " ".join(filter(None, (_subject(entry), _verb(entry))))
    if entry.result is not Result.FAILURE:
        return text
    last_line = (entry.error_message or entry.command or "").strip().split("\n")[-1]
    return ": ".join(filter(None, (text, exit_text(gather_facts([entry])), visible(last_line.strip()))))


def _subject(entry: Entry) -> str:
    """Return the stage or command that started or ended, with the command around a stage.

    Empty for the service itself.
    """
    stage = f"stage {name(entry.stage)}" if entry.stage is not None else ""
    before, after = entry.pre_command, entry.post_command
    command = f"pre-command {name(before)}" if before is not None else ""
    command = f"post-command {name(after)}" if after is not None else command
    if entry.phase in {Phase.STAGE_START, Phase.STAGE_END}:
        return " of ".join(filter(None, (stage or "stage", command)))
    if entry.phase in {Phase.SERVICE_START, Phase.SERVICE_END}:
        return ""
    return command or entry.phase.split()[0]


def _verb(entry: Entry) -> str:
    if entry.phase.is_start:
        return "started"
    if entry.result is None:
        return "ended without a result"
    verb = VERBS[end_outcome(entry)]
    is_within = entry.stage is not None and entry.phase not in {Phase.STAGE_START, Phase.STAGE_END}
    return f"{verb} in stage {name(entry.stage or '')}" if is_within else verb
