"""The journal, as far as it is new, and of failed units and runs its end; journalctl(1)."""

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from service_record.read.programs import Deadline
from service_record.record import systemd
from service_record.record.appending import record_name
from service_record.record.directory import Records
from service_record.record.entry import Entry, Phase, Result
from service_record.reporter.gather.model import (
    Begin,
    Context,
    GatherError,
    GatherStatus,
    Pieces,
    Task,
)
from service_record.reporter.gather.record_pieces import in_time, records_directory
from service_record.reporter.gather.running import GatheredProgram
from service_record.reporter.gather.take import ProgramSource, output_of

_ASK: Final = ("journalctl", "--quiet", "--no-pager")
_LINES: Final = ("--all", "--utc", "--output=short-iso-precise")
_NO_JOURNAL: Final = ("No journal files", "is not available", "No data available")
_BAD_CURSOR: Final = "to cursor"
_SHARE_OF_TIME: Final = 0.75
"""The share for all lines in their order; the rest is for the last of them, if that was not enough."""
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
    invocation: str = ""
    """The id of one life of a service, in whichever boot: all that its processes said, and systemd of it.
    Empty for any.
    """

    def __call__(self, task: Task) -> Pieces:
        """Raises GatherError, absent where there is no journal, no such boot, or no such unit in it.

        A cursor that this journal does not know is no cursor.
        """
        if self.boot and task.context.cursor is not None:
            return
        most = Deadline(task.deadline.seconds_left() * _SHARE_OF_TIME, task.deadline)
        try:
            yield from self._in_order(replace(task, deadline=most))
        except GatherError as stopped:
            if stopped.status in {GatherStatus.TIMED_OUT, GatherStatus.CUT} and task.deadline.seconds_left():
                yield _GAP
                yield from self._last(_LAST_LINES)(task)
            raise

    def _in_order(self, task: Task) -> Pieces:
        if task.context.cursor is None:
            yield from self._last(self.lines)(task)
            return
        try:
            yield from self._news(task.context.cursor)(task)
        except GatherError as error:
            if _BAD_CURSOR not in str(error):
                raise
            yield from self._last(self.lines)(task)

    def _last(self, lines: int) -> ProgramSource:
        boot = () if self.invocation else (f"--boot={self.boot}",)
        span = (*boot, f"--lines={lines}")
        return ProgramSource((*_ASK, *_LINES, *self._matches(), *span), absent=_NO_JOURNAL)

    def _news(self, cursor: str) -> ProgramSource:
        span = f"--after-cursor={cursor}"
        return ProgramSource((*_ASK, *_LINES, *self._matches(), span), absent=(*_NO_JOURNAL, _BAD_CURSOR))

    def _matches(self) -> Iterator[str]:
        yield from (f"--unit={unit}" for unit in self.units)
        if self.kernel:
            yield "_TRANSPORT=kernel"
        if self.invocation:
            yield from (f"_SYSTEMD_INVOCATION_ID={self.invocation}", "+", f"INVOCATION_ID={self.invocation}")


def newest_cursor(context: Context) -> str | None:
    """Return where the journal ends now; None where there is none to ask.

    What is to be the cursor of the next round is asked for before this one gathers: so nothing is left out.
    """
    try:
        program = GatheredProgram((*_ASK, "--lines=0", "--show-cursor"), context.environ)
        printed = b"".join(program.chunks(Deadline(_CURSOR_SECONDS), _CURSOR_BYTES))
    except GatherError:
        return None
    marked = [line for line in printed.splitlines() if line.startswith(_CURSOR_MARK)]
    return marked[-1].removeprefix(_CURSOR_MARK).decode(errors="replace") if marked else None


_LIST: Final = ("systemctl", "list-units", "--state=failed", "--plain", "--no-legend", "--full", "--no-pager")
_STATUS: Final = ("systemctl", "status", "--full", "--no-pager", "--lines=0", "--")
_STATUS_OF_FAILED: Final = 3  # of systemctl, for a unit that is not active
_JOURNAL_LINES: Final = 1000


@dataclass(frozen=True, slots=True)
class FailedUnits:
    """`<unit>.txt` with the status of each, `<unit>.log` with its journal, in the collector's directory."""

    most: int = 20

    def __call__(self, task: Task) -> Pieces:
        """Raises GatherError when systemd does not answer, and when units are left out."""
        printed = output_of(_LIST, task)
        units = [line.split()[0] for line in printed.decode(errors="replace").splitlines() if line.split()]
        trouble: list[GatherError] = []
        for unit in units[: self.most]:
            yield from _about(unit, task, trouble)
        if trouble:
            raise trouble[0]
        if len(units) > self.most:
            raise GatherError(GatherStatus.CUT, f"{self.most} of {len(units)} failed units")


def _about(unit: str, task: Task, trouble: list[GatherError]) -> Pieces:
    path = task.collector.member + unit.replace("/", "_")
    status = ProgramSource((*_STATUS, unit), fine=(0, _STATUS_OF_FAILED))
    for member, take in ((f"{path}.txt", status), (f"{path}.log", Journal((unit,), lines=_JOURNAL_LINES))):
        yield Begin(member)
        try:
            yield from take(task)
        except GatherError as error:
            if error.status is GatherStatus.FAILED:
                trouble.append(GatherError(GatherStatus.FAILED, f"{unit}: {error}"))
            elif error.status is not GatherStatus.ABSENT:
                raise


@dataclass(frozen=True, slots=True)
class UnitProperties:
    """Properties of the units that failed or did not start, and of the units that they require.

    systemd unloads a unit that did not start, so its own log in the journal has the names of these.
    """

    most_bytes: int = 200 << 10

    def __call__(self, task: Task) -> Pieces:
        """Raises GatherError when systemd does not answer, absent where there is no such unit."""
        from service_record.diagnosis.units import (  # only for a bundle
            PROPERTIES,
            Unit,
            asserted_units,
            properties_text,
            read_assertions,
            read_messages,
            read_properties,
            with_required_units,
        )

        booted = systemd.booted()
        ask = ("systemctl", "show", "--no-pager", f"--property={','.join(PROPERTIES)}")
        shown: list[str] = []

        def show(*arguments: str) -> tuple[Unit, ...] | None:
            if sum(map(len, shown)) > self.most_bytes:
                return None
            shown.append(output_of((*ask, *arguments), task).decode(errors="replace"))
            return read_properties(shown[-1], booted)

        failed = show("--state=failed", "--", "*") or ()
        messages = b""
        with suppress(GatherError):  # without a journal the failed units are known nevertheless
            messages = output_of((*_ASK, "--boot", "--output=cat", "--lines=4000", "_PID=1"), task)
        logs = read_messages(messages.decode(errors="replace").splitlines())
        units = with_required_units(failed, logs, lambda names: show("--", *names))
        if not units:
            raise GatherError(GatherStatus.ABSENT, "no unit failed")
        assertions: dict[str, tuple[str, ...]] = {}
        for name in asserted_units(units, logs):
            with suppress(GatherError):  # its file may be gone
                file = output_of(("systemctl", "cat", "--no-pager", "--", name), task)
                assertions[name] = read_assertions(file.decode(errors="replace"))
        yield properties_text(shown, booted, assertions).encode()


_INVOCATION: Final = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class FailedRuns:
    """`<service>-<invocation>.log`: the lines of the latest failed run of each recorded service.

    Lines of the other journals do not tell their invocation; those of child processes not even the service.
    """

    most: int = 20

    def __call__(self, task: Task) -> Pieces:
        """Raises GatherError, absent where no record tells of a failed run, cut when runs are left out."""
        records = Records(records_directory(task.context))
        try:
            services = records.services(with_inbox=True)
        except OSError as error:
            raise GatherError(GatherStatus.FAILED, f"{records.directory}: {error.strerror}") from error
        runs = {name: run for name in services if (run := _latest_failed(records, name, task))}
        if not runs:
            raise GatherError(GatherStatus.ABSENT, "no record of a failed run")
        for service, invocation in list(runs.items())[: self.most]:
            yield Begin(f"{task.collector.member}{record_name(service)}-{invocation}.log")
            yield from Journal(invocation=invocation, lines=_JOURNAL_LINES)(task)
        if len(runs) > self.most:
            raise GatherError(GatherStatus.CUT, f"{self.most} of {len(runs)} failed runs")


def _latest_failed(records: Records, service: str, task: Task) -> str | None:
    """Return the invocation of the latest run with a failure after which no run of the service ended well.

    None, too, for a record that cannot be read: that is told where records are gathered.
    """
    latest = None
    with suppress(OSError):
        for piece in in_time(records.read(service), task):
            if not isinstance(piece, Entry):
                continue
            if piece.result is Result.FAILURE and _INVOCATION.fullmatch(piece.invocation_id or ""):
                latest = piece.invocation_id
            elif piece.phase is Phase.SERVICE_END and piece.result is Result.SUCCESS:
                latest = None
    return latest
