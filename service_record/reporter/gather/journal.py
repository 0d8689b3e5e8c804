"""Sources about services: their records, the journal, failed units and failed runs."""

import os
import re
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from service_record.bundle.packing import as_text, free_name, unambiguous
from service_record.export import FORMS
from service_record.record import systemd
from service_record.record.appending import DAMAGED_SUFFIX, DEFAULT_DIRECTORY, SUFFIX, record_name
from service_record.record.directory import Records
from service_record.record.entry import Entry, Malformed, Phase, Result
from service_record.record.file_end import read_tail
from service_record.record.programs import Deadline, ProgramError, run
from service_record.reporter.gather.gathering import (
    Begin,
    Context,
    GatherError,
    GatherStatus,
    Pieces,
    Task,
    resolve_in_root,
)
from service_record.reporter.gather.sources import (
    ProgramSource,
    open_file,
    run_program,
    take_each,
)

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
    command = (*_JOURNALCTL, "--lines=0", "--show-cursor")
    try:
        _, printed, _ = run(command, context.environ, Deadline(_CURSOR_SECONDS), _CURSOR_BYTES)
    except ProgramError:
        return None
    marked = [line for line in printed.splitlines() if line.startswith(_CURSOR_MARK)]
    return marked[-1].removeprefix(_CURSOR_MARK).decode(errors="replace") if marked else None


_LIST: Final = ("systemctl", "list-units", "--state=failed", "--plain", "--no-legend", "--full", "--no-pager")
_SHOW_STATUS: Final = ("systemctl", "status", "--full", "--no-pager", "--lines=0", "--")
_STATUS_OF_FAILED: Final = 3  # the exit status of `systemctl status` for a unit that is not active
_JOURNAL_LINES: Final = 1000
_MAX_UNITS: Final = 20
_MAX_PROPERTIES_BYTES: Final = 200 << 10


def failed_units(task: Task) -> Pieces:
    """Yield the status (`<unit>.txt`) and the journal (`<unit>.log`) of each failed unit.

    Raises GatherError if systemd does not answer, and if units are left out.
    """
    printed = run_program(_LIST, task)
    units = [line.split()[0] for line in printed.decode(errors="replace").splitlines() if line.split()]

    def read(unit: str) -> Pieces:
        path = task.row.member + unit.replace("/", "_")
        status = ProgramSource((*_SHOW_STATUS, unit), success_statuses=(0, _STATUS_OF_FAILED))
        journal = Journal((unit,), lines=_JOURNAL_LINES)
        failure: GatherError | None = None
        for member, source in ((f"{path}.txt", status), (f"{path}.log", journal)):
            yield Begin(member)
            try:
                yield from source(task)
            except GatherError as error:
                if error.status is GatherStatus.FAILED:
                    failure = failure or GatherError(GatherStatus.FAILED, f"{unit}: {error}")
                elif error.status is not GatherStatus.ABSENT:
                    raise
        if failure is not None:
            raise failure

    yield from take_each(units, _MAX_UNITS, "failed units", read, task)


def unit_properties(task: Task) -> Pieces:
    """Yield properties of the units that failed or did not start, and of the units that they require.

    systemd unloads a unit that did not start, so such units are found by its messages in the journal. Raises
    GatherError if systemd does not answer; absent if no unit failed.
    """
    from service_record.diagnosis.evidence.unit_logs import read_messages
    from service_record.diagnosis.units import (
        PROPERTIES,
        Unit,
        add_required_units,
        find_asserted_units,
        join_properties,
        read_assertions,
        read_properties,
    )

    booted = systemd.booted()
    ask = ("systemctl", "show", "--no-pager", f"--property={','.join(PROPERTIES)}")
    shown: list[str] = []

    def show(*arguments: str) -> tuple[Unit, ...] | None:
        if sum(map(len, shown)) > _MAX_PROPERTIES_BYTES:
            return None
        shown.append(run_program((*ask, *arguments), task).decode(errors="replace"))
        return read_properties(shown[-1], booted)

    failed = show("--state=failed", "--", "*") or ()
    messages = b""
    with suppress(GatherError):  # the list of failed units does not need the journal
        messages = run_program((*_JOURNALCTL, "--boot", "--output=cat", "--lines=4000", "_PID=1"), task)
    logs = read_messages(messages.decode(errors="replace").splitlines())
    units = add_required_units(failed, logs, lambda names: show("--", *names))
    if not units:
        raise GatherError(GatherStatus.ABSENT, "no unit failed")
    assertions: dict[str, tuple[str, ...]] = {}
    for name in find_asserted_units(units, logs):
        with suppress(GatherError):  # the unit file may have been removed
            file = run_program(("systemctl", "cat", "--no-pager", "--", name), task)
            assertions[name] = read_assertions(file.decode(errors="replace"))
    yield join_properties(shown, booted, assertions).encode()


_INVOCATION: Final = re.compile(r"[0-9a-f]{32}")


def failed_runs(task: Task) -> Pieces:
    """Yield `<service>-<invocation>.log`: the lines of the latest failed run of each recorded service.

    In the other journals a line has no invocation id, and a line of a child process may lack its unit. Raises
    GatherError: absent without a failed run, cut if runs are left out.
    """
    records, services = _list_services(task)
    runs = {name: run for name in services if (run := _latest_failed(records, name, task))}
    if not runs:
        raise GatherError(GatherStatus.ABSENT, "no record of a failed run")

    def read(service: str) -> Pieces:
        yield Begin(f"{task.row.member}{record_name(service)}-{runs[service]}.log")
        yield from Journal(invocation=runs[service], lines=_JOURNAL_LINES)(task)

    yield from take_each(list(runs), _MAX_UNITS, "failed runs", read, task)


def _latest_failed(records: Records, service: str, task: Task) -> str | None:
    """Return the invocation id of the latest failed run, or None if a later run of the service succeeded.

    Also None for an unreadable record: the row `service-records` reports that.
    """
    latest = None
    with suppress(OSError):
        for piece in records.read(service):
            if task.is_late:
                break
            if not isinstance(piece, Entry):
                continue
            if piece.result is Result.FAILURE and _INVOCATION.fullmatch(piece.invocation_id or ""):
                latest = piece.invocation_id
            elif piece.phase is Phase.SERVICE_END and piece.result is Result.SUCCESS:
                latest = None
    return latest


_BLOCK_BYTES: Final = 64 << 10


def service_records(task: Task) -> Pieces:
    """Yield each record as a JSON array, `<service>.json`; its damaged parts are in `<service>.json.damaged`.

    The format is that of `service-record pack`. Raises GatherError: absent if there is no record, failed if
    one cannot be read.
    """
    records, services = _list_services(task)
    if not services:
        raise GatherError(GatherStatus.ABSENT, f"no *{SUFFIX} in {records.directory}")
    used_names: set[str] = set()

    def read(service: str) -> Pieces:
        try:
            yield from _read_record(records, service, task, used_names)
        except OSError as error:
            raise GatherError(GatherStatus.FAILED, f"{service}: {error.strerror or error}") from error
        except GatherError as error:
            raise GatherError(GatherStatus.FAILED, str(error)) from error
        if task.is_late:
            raise GatherError(
                GatherStatus.TIMED_OUT, f"{service} and the services after it were not read in time"
            )

    yield from take_each(services, len(services), "records", read, task)


def _list_services(task: Task) -> tuple[Records, list[str]]:
    """Return the records of the host, and the names of the services. Raises GatherError."""
    directory = task.context.environ.get("SERVICE_RECORDS_DIR") or DEFAULT_DIRECTORY
    records = Records(resolve_in_root(task.context.root, directory))
    try:
        return records, list(records.services(with_inbox=True))
    except OSError as error:
        raise GatherError(GatherStatus.FAILED, f"{records.directory}: {error.strerror}") from error


def _read_record(records: Records, service: str, task: Task, used_names: set[str]) -> Pieces:
    member = f"{task.row.member}{free_name(service, used_names)}{SUFFIX}"
    path, most = records.directory / f"{service}{SUFFIX}", task.row.bytes
    damaged: deque[Malformed] = deque()
    size = skipped = 0

    def read_entries() -> Iterator[Entry]:
        nonlocal size, skipped
        for piece in records.read(service):
            if task.is_late:
                return  # without an error, so that the JSON array is closed
            if isinstance(piece, Entry):
                yield unambiguous(piece)
                continue
            damaged.append(piece)
            size += len(piece.text)
            while size > most:
                dropped = len(damaged.popleft().text)
                size -= dropped
                skipped += dropped

    written = path.stat().st_mtime if path.exists() else time.time()
    # Each entry is one line, and cuts are between lines: so a cut array begins with a bracket again.
    yield Begin(member, written, opening=lambda _dropped: b"[\n")
    yield from _join_into_blocks(FORMS["array"](read_entries()))
    copy = path.with_name(path.name + DAMAGED_SUFFIX)
    if not damaged and not copy.exists():
        return
    yield Begin(f"{member}{DAMAGED_SUFFIX}", written, skipped)
    try:
        if copy.exists():
            with os.fdopen(open_file(copy), "rb") as stream:
                yield from read_tail(stream.fileno(), most)[1]
            yield b"\n"
    except (GatherError, OSError):
        yield as_text(damaged)
        raise
    yield as_text(damaged)


def _join_into_blocks(chunks: Iterable[bytes]) -> Iterator[bytes]:
    block = bytearray()
    for chunk in chunks:
        block += chunk
        if len(block) >= _BLOCK_BYTES:
            yield bytes(block)
            block.clear()
    yield bytes(block)
