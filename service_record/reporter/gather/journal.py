"""The journal, as far as it is new; journalctl(1)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from service_record.reporter.gather.deadline import Deadline
from service_record.reporter.gather.model import Context, GatherError, Pieces, Task
from service_record.reporter.gather.running import Program
from service_record.reporter.gather.take import Command

_ASK: Final = ("journalctl", "--quiet", "--no-pager")
_LINES: Final = ("--all", "--utc", "--output=short-iso-precise")
_NO_JOURNAL: Final = ("No journal files", "is not available", "No data available")
_BAD_CURSOR: Final = "to cursor"
_CURSOR_MARK: Final = b"-- cursor: "
_CURSOR_SECONDS: Final = 10.0
_CURSOR_BYTES: Final = 64 << 10


@dataclass(frozen=True, slots=True)
class Journal:
    """Lines of the journal: those after the cursor where there is one, else the last of a boot.

    The last lines of a boot are asked for by their number, so that a time limit costs the oldest of all. What
    is after a cursor comes oldest first, from whatever boot.
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
        if task.context.cursor is None:
            yield from self._boot().pieces(task)
            return
        if self.boot:
            return
        try:
            yield from self._news(task.context.cursor).pieces(task)
        except GatherError as error:
            if _BAD_CURSOR not in str(error):
                raise
            yield from self._boot().pieces(task)

    def _boot(self) -> Command:
        span = (f"--boot={self.boot}", f"--lines={self.lines}")
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
