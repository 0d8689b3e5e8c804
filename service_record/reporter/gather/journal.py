"""Gather the journal, failed units and failed runs with journalctl(1) and systemctl(1)."""

import re
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from service_record.record import systemd
from service_record.record.appending import record_name
from service_record.record.directory import Records
from service_record.record.entry import Entry, Phase, Result
from service_record.record.programs import Deadline
from service_record.reporter.gather.model import (
    Begin,
    Context,
    GatherError,
    GatherStatus,
    Pieces,
    Task,
)
from service_record.reporter.gather.record_pieces import records_directory, until_deadline
from service_record.reporter.gather.take import GatheredProgram, ProgramSource, run_program

_JOURNALCTL: Final = ("journalctl", "--quiet", "--no-pager")
_LINES: Final = ("--all", "--utc", "--output=short-iso-precise")
_NO_JOURNAL: Final = ("No journal files", "is not available", "No data available")
_BAD_CURSOR: Final = "to cursor"
_SHARE_OF_TIME: Final = 0.75
"""The share of the time limit for all lines. If it is too short, the rest is for the last lines."""
_LAST_LINES: Final = 2000
_GAP: Final = b"\n[service-record: lines are missing here, or are repeated; the latest lines follow]\n"
_CURSOR_MARK: Final = b"-- cursor: "
_CURSOR_SECONDS: Final = 10.0
_CURSOR_BYTES: Final = 64 << 10


@dataclass(frozen=True, slots=True)
class Journal:
    """Lines of the journal: those after the context's cursor if it has one, else the last lines of a boot.

    Lines are in order of time. If reading them takes too long, lines in the middle are missing; the latest
    2000 lines are always read.
    """

    units: tuple[str, ...] = ()
    """Names or patterns of units. Empty for the whole journal."""
    lines: int = 20_000
    boot: int = 0
    """As for `--boot`: 0 is this boot, -1 the previous one. With a cursor, earlier boots give nothing."""
    kernel: bool = False
    invocation: str = ""
    """The invocation id of one run of a service, in any boot. Selects the lines of its processes, and
    systemd's lines about it. Empty for all runs.
    """

    def __call__(self, task: Task) -> Pieces:
        """Yield the lines. Raises GatherError; absent means that there is no journal or no such boot.

        A cursor that the journal does not know is ignored.
        """
        if self.boot and task.context.cursor is not None:
            return
        most = Deadline(task.deadline.seconds_left() * _SHARE_OF_TIME, task.deadline)
        try:
            yield from self._read_in_order(replace(task, deadline=most))
        except GatherError as stopped:
            if stopped.status in {GatherStatus.TIMED_OUT, GatherStatus.CUT} and task.deadline.seconds_left():
                yield _GAP
                yield from self._last_lines(_LAST_LINES)(task)
            raise

    def _read_in_order(self, task: Task) -> Pieces:
        if task.context.cursor is not None:
            try:
                yield from self._read(f"--after-cursor={task.context.cursor}")(task)
            except GatherError as error:
                if _BAD_CURSOR not in str(error):
                    raise
            else:
                return
        yield from self._last_lines(self.lines)(task)

    def _last_lines(self, lines: int) -> ProgramSource:
        boot = () if self.invocation else (f"--boot={self.boot}",)
        return self._read(*boot, f"--lines={lines}")

    def _read(self, *span: str) -> ProgramSource:
        matches = [f"--unit={unit}" for unit in self.units]
        if self.kernel:
            matches.append("_TRANSPORT=kernel")
        if self.invocation:
            matches += [f"_SYSTEMD_INVOCATION_ID={self.invocation}", "+", f"INVOCATION_ID={self.invocation}"]
        return ProgramSource((*_JOURNALCTL, *_LINES, *matches, *span), absent=(*_NO_JOURNAL, _BAD_CURSOR))


def newest_cursor(context: Context) -> str | None:
    """Return the cursor of the journal's last entry, or None if there is no journal.

    Read it before gathering, so that the next bundle has every entry that this one may have missed.
    """
    try:
        program = GatheredProgram((*_JOURNALCTL, "--lines=0", "--show-cursor"), context.environ)
        printed = b"".join(program.chunks(Deadline(_CURSOR_SECONDS), _CURSOR_BYTES))
    except GatherError:
        return None
    marked = [line for line in printed.splitlines() if line.startswith(_CURSOR_MARK)]
    return marked[-1].removeprefix(_CURSOR_MARK).decode(errors="replace") if marked else None


_LIST: Final = ("systemctl", "list-units", "--state=failed", "--plain", "--no-legend", "--full", "--no-pager")
_SHOW_STATUS: Final = ("systemctl", "status", "--full", "--no-pager", "--lines=0", "--")
_STATUS_OF_FAILED: Final = 3  # the exit status of `systemctl status` for a unit that is not active
_JOURNAL_LINES: Final = 1000


@dataclass(frozen=True, slots=True)
class FailedUnits:
    """The status (`<unit>.txt`) and the journal (`<unit>.log`) of each failed unit."""

    most: int = 20

    def __call__(self, task: Task) -> Pieces:
        """Yield the files. Raises GatherError if systemd does not answer, and if units are left out."""
        printed = run_program(_LIST, task)
        units = [line.split()[0] for line in printed.decode(errors="replace").splitlines() if line.split()]
        trouble: list[GatherError] = []
        for unit in units[: self.most]:
            yield from _describe_unit(unit, task, trouble)
        if trouble:
            raise trouble[0]
        if len(units) > self.most:
            raise GatherError(GatherStatus.CUT, f"{self.most} of {len(units)} failed units")


def _describe_unit(unit: str, task: Task, trouble: list[GatherError]) -> Pieces:
    path = task.collector.member + unit.replace("/", "_")
    status = ProgramSource((*_SHOW_STATUS, unit), success_statuses=(0, _STATUS_OF_FAILED))
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

    systemd unloads a unit that did not start, so such units are found by its messages in the journal.
    """

    most_bytes: int = 200 << 10

    def __call__(self, task: Task) -> Pieces:
        """Yield the text. Raises GatherError if systemd does not answer; absent if no unit failed."""
        from service_record.diagnosis.units import (  # most rounds make no bundle
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
            shown.append(run_program((*ask, *arguments), task).decode(errors="replace"))
            return read_properties(shown[-1], booted)

        failed = show("--state=failed", "--", "*") or ()
        messages = b""
        with suppress(GatherError):  # the list of failed units does not need the journal
            messages = run_program((*_JOURNALCTL, "--boot", "--output=cat", "--lines=4000", "_PID=1"), task)
        logs = read_messages(messages.decode(errors="replace").splitlines())
        units = with_required_units(failed, logs, lambda names: show("--", *names))
        if not units:
            raise GatherError(GatherStatus.ABSENT, "no unit failed")
        assertions: dict[str, tuple[str, ...]] = {}
        for name in asserted_units(units, logs):
            with suppress(GatherError):  # the unit file may have been removed
                file = run_program(("systemctl", "cat", "--no-pager", "--", name), task)
                assertions[name] = read_assertions(file.decode(errors="replace"))
        yield properties_text(shown, booted, assertions).encode()


_INVOCATION: Final = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class FailedRuns:
    """`<service>-<invocation>.log`: the lines of the latest failed run of each recorded service.

    In the other journals a line has no invocation id, and a line of a child process may lack its unit.
    """

    most: int = 20

    def __call__(self, task: Task) -> Pieces:
        """Yield the files. Raises GatherError: absent without a failed run, cut if runs are left out."""
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
    """Return the invocation id of the latest failed run, or None if a later run of the service succeeded.

    Also None for an unreadable record: the row `service-records` reports that.
    """
    latest = None
    with suppress(OSError):
        for piece in until_deadline(records.read(service), task):
            if not isinstance(piece, Entry):
                continue
            if piece.result is Result.FAILURE and _INVOCATION.fullmatch(piece.invocation_id or ""):
                latest = piece.invocation_id
            elif piece.phase is Phase.SERVICE_END and piece.result is Result.SUCCESS:
                latest = None
    return latest
