"""The journal, as far as it is new; journalctl(1)."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from service_record.reporter.gather.deadline import Deadline
from service_record.reporter.gather.model import Context, GatherError, Pieces, Status, Task
from service_record.reporter.gather.running import Program
from service_record.reporter.gather.take import Command

_ASK: Final = ("journalctl", "--quiet", "--no-pager")
_LINES: Final = ("--all", "--utc", "--output=short-iso-precise")
_NO_JOURNAL: Final = ("No journal files", "is not available", "No data available")
_BAD_CURSOR: Final = "to cursor"
_SHARE_OF_TIME: Final = 0.75
"""For all lines in their order; the rest for the last of them, if that was not enough."""
_LAST_LINES: Final = 2000
_GAP: Final = b"\n[service-record: here lines are missing, or some are told twice; the last are these]\n"
_CURSOR_MARK: Final = b"-- cursor: "
_CURSOR_SECONDS: Final = 10.0
_CURSOR_BYTES: Final = 64 << 10


@dataclass(frozen=True, slots=True)
class Journal:
    """Lines of the journal: those after the cursor where there is one, else the last of a boot.

    They come oldest first. Where they are too many for the time, some in the middle are missing: what came
    last is given in any case.
    """

    units: tuple[str, ...] = ()
    """Names or patterns; none for all."""
    lines: int = 20_000
    boot: int = 0
    """Counted back from the present one, -1 being the previous. Before a cursor all of them are known."""
    kernel: bool = False

    def pieces(self, task: Task) -> Pieces:
        """Raises GatherError, absent where there is no journal, no such boot, or no such unit in it.

        A cursor that this journal does not know is no cursor.
        """
        if self.boot and task.context.cursor is not None:
            return
        most = Deadline(task.deadline.left() * _SHARE_OF_TIME, task.deadline)
        try:
            yield from self._in_order(replace(task, deadline=most))
        except GatherError as stopped:
            if stopped.status in {Status.TIMED_OUT, Status.CUT} and task.deadline.left():
                yield _GAP
                yield from self._last(_LAST_LINES).pieces(task)
            raise

    def _in_order(self, task: Task) -> Pieces:
        if task.context.cursor is None:
            yield from self._last(self.lines).pieces(task)
            return
        try:
            yield from self._news(task.context.cursor).pieces(task)
        except GatherError as error:
            if _BAD_CURSOR not in str(error):
                raise
            yield from self._last(self.lines).pieces(task)

    def _last(self, lines: int) -> Command:
        span = (f"--boot={self.boot}", f"--lines={lines}")
        return Command((*_ASK, *_LINES, *self._matches(), *span), absent=_NO_JOURNAL)

    def _news(self, cursor: str) -> Command:
        span = f"--after-cursor={cursor}"
        return Command((*_ASK, *_LINES, *self._matches(), span), absent=(*_NO_JOURNAL, _BAD_CURSOR))

    def _matches(self) -> Iterator[str]:
        yield from (f"--unit={unit}" for unit in self.units)
        if self.kernel:
            yield "_TRANSPORT=kernel"


def newest_cursor(context: Context) -> str | None:
    """Where the journal ends now; None where there is none to ask.

    What is to be the cursor of the next round is asked for before this one gathers: so nothing is left out.
    """
    try:
        program = Program((*_ASK, "--lines=0", "--show-cursor"), context.environ)
        printed = b"".join(program.chunks(Deadline(_CURSOR_SECONDS), _CURSOR_BYTES))
    except GatherError:
        return None
    marked = [line for line in printed.splitlines() if line.startswith(_CURSOR_MARK)]
    return marked[-1].removeprefix(_CURSOR_MARK).decode(errors="replace") if marked else None
