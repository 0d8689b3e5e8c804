"""Derive records from a journal: turn systemd's messages about units into the entries of runs. Pure.

A run of a unit starts and ends with a message of systemd. A journal contains neither the stages of a service
nor the failed line of a script. Apart from that, derived entries have the same form as recorded ones, so all
readers of records can use them. `Entry.recorder` marks them as derived.
"""

import re
from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import accumulate, chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from service_record.history.outcome import JOURNAL_RECORDER, STARTUP
from service_record.history.unit_events import (
    MESSAGE_IDS,
    TARGET,
    UNIT,
    UnitEvent,
    read_described_event,
    read_event,
)
from service_record.record.entry import Entry, Phase, Piece, Result, RunsLeftOut

if TYPE_CHECKING:
    from service_record.history.from_installers import InstallerLine

YEARS_ASSUMED: Final = f"{JOURNAL_RECORDER}, years assumed"
"""Recorder of entries whose year is a guess: neither the times nor other lines of the journal have it."""

_SERVICE: Final = ".service"
_IGNORED: Final = (".scope", ".slice", ".automount")
"""Types of units that group processes or wait for a first access. Their messages describe no run."""
_MESSAGE_LINES: Final = 3
_MAX_MESSAGE_CHARACTERS: Final = 1000
_MAX_RUNS: Final = 1000
"""Only the latest runs of a unit are kept. Older ones are counted in `RunsLeftOut`."""
_MAX_UNITS: Final = 20_000
"""Units beyond this number in a boot are ignored."""
_BOOT: Final = "running in system mode"
_VERSION: Final = r"systemd v?(\d{2,4})\b.* running in system mode"
_NAMES_FINISHED: Final = 246
"""Since this version, systemd logs `Finished` for oneshot services. Older ones log `Started` for all."""
_GOING_DOWN: Final = (
    r"(?:multi-user|graphical|basic|sysinit)\.target$"
    r"|(?:Multi-User System|Graphical Interface|Basic System|System Initialization) \(target\)$"
)
"""Targets that stop only when the host shuts down, by name or description."""
_LAST_SERVICES: Final = (
    r"(?:initrd-switch-root|systemd-(?:poweroff|reboot|halt|kexec|soft-reboot))\.service$"
    r"|(?:Switch Root|(?:System )?(?:Power[ -]Off|Reboot|Halt)|Reboot (?:via kexec|System Userspace))$"
)
"""Services that end the system or the initramfs, by name or description. Their own end is never logged."""
_SYSTEM_ENDS: Final = ("Switching root.", "Shutting down.")
_NOTE: Final = rf"(?P<unit>{UNIT}): (?P<note>.*)"
_FAILURE_NOTE: Final = (
    r"(?i)\bfail|\btimed out\b|\btimeout\b|\bcannot\b|\bcould not\b|\bOOM killer\b|\bdenied\b|\binvalid\b"
)
"""Messages of systemd about a unit that give the reason of a failure."""
_JOB_RESULTS: Final = {
    "failed": UnitEvent.NOT_STARTED,
    "dependency": UnitEvent.DEPENDENCY,
    "timeout": UnitEvent.TIMED_OUT,
}
_REFUSALS: Final = {UnitEvent.DEPENDENCY: "dependency", UnitEvent.TIMED_OUT: "timeout"}
_MAX_STATUS_DIGITS: Final = 9
"""Longest exit status that is parsed. In a damaged journal, it may be longer than `int` accepts."""
_ENDS: Final = frozenset({UnitEvent.FAILED, UnitEvent.ENTERED_FAILED, UnitEvent.DEACTIVATED})


def move_years(time: datetime, years: int) -> datetime | None:
    """Return the same time in another year; None if that year lacks the day."""
    try:
        return time.replace(year=time.year + years)
    except ValueError:  # February 29
        return None


class JournalMoment(msgspec.Struct, frozen=True, gc=False):
    """The time of a message. A value is None if the journal does not have it."""

    time: float | None = None
    """Seconds since 1970."""
    uptime: float | None = None
    """Seconds since the boot."""

    @property
    def timestamp(self) -> str | None:
        if self.time is None:
            return None
        stamp = datetime.fromtimestamp(self.time, UTC).isoformat(timespec="milliseconds")
        return f"{stamp[:-6]}Z"

    def move_years(self, years: int) -> "JournalMoment":
        """Return the same time in another year; without a time if that year lacks the day."""
        if self.time is None:
            return self
        time = move_years(datetime.fromtimestamp(self.time, UTC), years)
        return JournalMoment(None if time is None else time.timestamp(), self.uptime)

    def since(self, earlier: "JournalMoment") -> float | None:
        """Return the seconds since an earlier moment of the same boot; None if unknown or negative."""
        if self.uptime is not None and earlier.uptime is not None:
            seconds = self.uptime - earlier.uptime
        elif self.time is not None and earlier.time is not None:
            seconds = self.time - earlier.time
        else:
            return None
        return round(seconds, 6) if seconds >= 0 else None


NEVER: Final = JournalMoment()


class JournalMessage(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A message of systemd about a unit."""

    at: JournalMoment = NEVER
    boot_id: str | None = None
    text: str
    unit: str = ""
    """Empty if the journal names the unit only in the text, or only its description."""
    invocation_id: str | None = None
    fields: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Other journal fields: `MESSAGE_ID`, `JOB_RESULT`, `UNIT_RESULT`, `EXIT_CODE`, `EXIT_STATUS`."""


_EMERGENCY_SHELL: Final = r"(?:dracut-)?emergency\.service|(?:Dracut )?Emergency Shell"
"""The units, or their descriptions, of the shells that systemd and dracut start when a boot fails."""


class _Exit(msgspec.Struct, frozen=True, gc=False):
    """The exit status or the signal that ended a process of a unit."""

    code: int | None
    signal: str | None


class _UnitRun(msgspec.Struct, kw_only=True):
    """One run of a unit, as far as the messages read until now describe it."""

    began: JournalMoment | None = None
    ready: JournalMoment | None = None
    ended: JournalMoment | None = None
    number: int
    """The number of its first message."""
    end_number: int = 0
    """The number of the message that ended it; 0 without such a message."""
    outcome: str = ""
    """`success`, `failure`, `stopped` or `unknown`; empty while the run is open."""
    invocation_id: str | None = None
    exit: _Exit | None = None
    result: str | None = None
    is_service: bool = False
    is_oneshot: bool = False
    is_start_only: bool = False
    """True if the run ended with its start, because the unit does not seem to be a service."""
    is_stopping: bool = False
    is_shutdown: bool = False
    """True if it began or ended during a shutdown."""
    message: str | None = None

    @property
    def is_open(self) -> bool:
        return not self.outcome


class _UnitRuns:
    """The runs of a unit in one boot, and the last lines that the unit logged."""

    __slots__ = (
        "exits",
        "has_refusal",
        "invocation_id",
        "is_restarting",
        "left_out",
        "lines",
        "name",
        "note",
        "runs",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.runs: list[_UnitRun] = []
        self.exits: list[_Exit] = []
        self.lines: deque[object] = deque(maxlen=_MESSAGE_LINES)
        self.invocation_id: str | None = None
        """The invocation that logged `lines`."""
        self.note: str | None = None
        """The reason that systemd gave since the start of the latest run."""
        self.has_refusal = False
        """True after systemd refused to start the unit, until it starts."""
        self.is_restarting = False
        """True after systemd announced a restart, until the unit starts."""
        self.left_out = {"success": 0, "stopped": 0, "failure": 0}

    @property
    def latest(self) -> _UnitRun | None:
        return self.runs[-1] if self.runs else None

    @property
    def open(self) -> _UnitRun | None:
        latest = self.latest
        return latest if latest is not None and latest.is_open else None


class _BootRuns:
    """One boot of a journal."""

    def __init__(self, boot_id: str | None) -> None:
        self.boot_id = boot_id
        self.units: dict[str, _UnitRuns] = {}
        self.is_going_down = False
        self.last = NEVER


class JournalRuns:
    """Builds records from the messages of a journal. Pass the messages in their order."""

    def __init__(self, read_line: Callable[[Any], str] = str) -> None:
        """`read_line` converts an object passed to `add_line` to text. It is called only for failed units."""
        self._read_line = read_line
        self.is_kernel_log = False
        """True for the kernel log. systemd writes to it only until journald runs."""
        self.is_boot_log = False
        """True for a log that ends when the host has booted, so that the rest of each boot is unknown."""
        self.years_assumed = False
        """True if the years of the times are a guess."""
        self.installer_lines: list[InstallerLine] = []
        """Lines of installers, which also log their steps to the journal."""
        self._boots: dict[str | None, _BootRuns] = {}
        self._boot = _BootRuns(None)
        self._number = 0
        """The number of the current message."""
        self._has_finished = False
        """True if this systemd logs `Finished` for oneshot services, so `Started` means a daemon."""
        self._units_by_description: dict[str, str] = {}
        self._oneshots: set[str] = set()
        """Units, or descriptions, with a `Finished` message in any boot."""
        self._ambiguous: set[str] = set()
        """Descriptions shared by several units."""
        self._before: tuple[UnitEvent | None, str] = (None, "")
        """The event of the previous message, and its unit or description."""

    def add_line(self, unit: str, invocation_id: str | None, line: object, boot_id: str | None) -> None:
        """Keep a line logged by a unit itself. The last lines become the error message of a later failure."""
        if not unit.endswith(_SERVICE):
            return
        unit_runs = self._get_unit(unit, boot_id)
        if unit_runs is None:
            return
        if invocation_id != unit_runs.invocation_id:
            unit_runs.invocation_id = invocation_id
            unit_runs.lines.clear()
        unit_runs.lines.append(line)

    def set_lines(self, unit: str, lines: Sequence[str], boot_id: str | None) -> None:
        """Replace the last lines of a unit. Call this before adding the message of its failure."""
        unit_runs = self._get_unit(unit, boot_id)
        if unit_runs is not None:
            unit_runs.lines.clear()
            unit_runs.lines.extend(lines)

    def add_failure(self, name: str, message: str, at: JournalMoment, boot_id: str | None) -> None:
        """Add a failure without a unit, such as a kernel panic. Only the first of each name is kept."""
        unit_runs = self._get_unit(name, boot_id)
        if unit_runs is None or unit_runs.runs:
            return
        run = self._new_run(None)
        unit_runs.runs.append(run)
        run.message = message
        self._end(unit_runs, run, at, "failure")

    def move_years(self, years: int) -> None:
        """Move all times by a number of years, because their years were a guess."""
        if not years:
            return
        for boot in self._boots.values():
            boot.last = boot.last.move_years(years)
            for run in chain.from_iterable(unit.runs for unit in boot.units.values()):
                run.began = run.began and run.began.move_years(years)
                run.ready = run.ready and run.ready.move_years(years)
                run.ended = run.ended and run.ended.move_years(years)
        self.installer_lines = [
            replace(line, time=line.time and move_years(line.time, years)) for line in self.installer_lines
        ]

    def add(self, message: JournalMessage) -> None:
        """Add a message of systemd."""
        boot = self._enter_boot(message.boot_id)
        boot.last = message.at
        if _BOOT in message.text:
            version = re.match(_VERSION, message.text)
            self._has_finished |= version is not None and int(version[1]) >= _NAMES_FINISHED
            boot.is_going_down = False  # in the initramfs, targets stop before the real root is entered
            return
        if message.text in _SYSTEM_ENDS:
            self._end_last_services(boot, message.at)
            return
        self._number += 1
        event, unit, facts = self._parse_event(message)
        if event is None:
            self._before = (None, "")
            self._keep_failure_note(message)
            return
        before, self._before = self._before, (event, unit)
        if event is UnitEvent.FINISHED:
            self._has_finished = True
            self._oneshots.add(self._units_by_description.get(unit, unit))
        if self._are_about_one_unit(*before, event, unit):
            named, described = (before[1], unit) if "." in before[1] else (unit, before[1])
            self._learn_description(named, described, boot)
            is_duplicate = event is UnitEvent.NOT_STARTED or (
                event is UnitEvent.STOPPED and before[0] is not UnitEvent.DEACTIVATED
            )
            unit = "" if is_duplicate else named  # the previous message was about the same failure
        unit = self._units_by_description.get(unit, unit)
        unit_runs = self._get_unit(unit, message.boot_id) if unit and not unit.endswith(_IGNORED) else None
        if unit_runs is None:
            return
        is_named = bool(message.unit) or unit in message.text
        if event is UnitEvent.STARTED and not is_named and unit_runs.open is None and unit in self._oneshots:
            return  # the timer or path unit of the service, which has the same description
        if event in {UnitEvent.STOPPED, UnitEvent.STOPPING}:
            boot.is_going_down |= re.match(_GOING_DOWN, unit) is not None
        self._apply_event(event, unit_runs, message, facts)

    def _keep_failure_note(self, message: JournalMessage) -> None:
        """Keep systemd's own reason for the failure of a unit."""
        match = re.match(_NOTE, message.text)
        unit = message.unit or (match["unit"] if match is not None else "")
        if not unit.endswith(_SERVICE) or re.search(_FAILURE_NOTE, message.text) is None:
            return
        unit_runs = self._get_unit(unit, message.boot_id)
        if unit_runs is not None:
            unit_runs.note = match["note"] if match is not None else message.text

    def _are_about_one_unit(self, before: UnitEvent | None, other: str, event: UnitEvent, unit: str) -> bool:
        """Return True if two consecutive messages describe one unit, once by name, once by description.

        systemd logs `x.service: Failed with result …` directly before `Failed to start DESCRIPTION.`.
        Version 219 logs `Unit x.service entered failed state.` after it instead.
        """
        if event is UnitEvent.ENTERED_FAILED:
            return before is UnitEvent.NOT_STARTED and "." not in other
        if "." in unit or "." not in other or before not in _ENDS:
            return False
        if event is UnitEvent.NOT_STARTED:
            return True
        # `Stopped` may belong to a timer or socket, right after a service ended. These log no `Starting`.
        described = self._boot.units.get(self._units_by_description.get(unit, unit))
        has_begun = described is not None and described.open is not None and described.open.began is not None
        return has_begun and other.endswith(_SERVICE) and event in {UnitEvent.STOPPED, UnitEvent.FINISHED}

    def _learn_description(self, unit: str, description: str, boot: _BootRuns) -> None:
        """Remember the unit that has a description, and merge the runs found under either."""
        if description in self._oneshots:
            self._oneshots.add(unit)
        known = self._units_by_description.get(description)
        if known not in {None, unit}:
            # Two units share the description. The open run belongs to `unit`, not to the one known before.
            self._ambiguous.add(description)
            del self._units_by_description[description]
            other = boot.units.get(known or "")
            if other is not None and other.open is not None:
                boot.units.setdefault(description, _UnitRuns(description)).runs.append(other.runs.pop())
        elif description not in self._ambiguous:
            self._units_by_description[description] = unit
        self._join(boot, description, unit)

    def _end_last_services(self, boot: _BootRuns, at: JournalMoment) -> None:
        """End the services whose own end is never logged. They succeeded: the system has ended."""
        for unit in boot.units.values():
            if unit.open is not None and re.match(_LAST_SERVICES, unit.name) is not None:
                self._end(unit, unit.open, at, "success")

    def _enter_boot(self, boot_id: str | None) -> _BootRuns:
        """Make a boot the current one, and return it."""
        if boot_id not in self._boots:
            self._boots[boot_id] = _BootRuns(boot_id)
        self._boot = self._boots[boot_id]
        return self._boot

    def _get_unit(self, name: str, boot_id: str | None) -> _UnitRuns | None:
        """Return the runs of a unit in a boot; None if the boot has too many units."""
        units = self._enter_boot(boot_id).units
        unit = units.get(name)
        if unit is None:
            if len(units) >= _MAX_UNITS:
                return None
            unit = units[name] = _UnitRuns(name)
        return unit

    def _parse_event(self, message: JournalMessage) -> tuple[UnitEvent | None, str, Mapping[str, str | None]]:
        """Return the event of a message, its unit or description, and the other values in its text.

        A known text has priority over MESSAGE_ID, because systemd logs a skipped start with the MESSAGE_ID
        of a start.
        """
        fields = message.fields
        if (known := read_event(message.text)) is not None:
            # systemd 246 began to log both `UNIT - DESCRIPTION` and `Finished`.
            self._has_finished |= bool(known[1].groupdict().get("description"))
            return known[0], message.unit or known[1]["unit"], known[1].groupdict()
        described = read_described_event(message.text)
        event: UnitEvent | None
        if message.unit:
            event = MESSAGE_IDS.get(fields.get("MESSAGE_ID", "")) if described is None else described[0]
            if event is UnitEvent.NOT_STARTED:
                event = _JOB_RESULTS.get(fields.get("JOB_RESULT", "failed"))
            return event, message.unit, {}
        if described is None:
            return None, "", {}
        event, description = described
        # In this module, only names of units contain a ".", so replace it in descriptions.
        description = description.replace(".", "\N{ONE DOT LEADER}")
        return event, description, {}

    def _apply_event(  # noqa: C901  # one branch for each event
        self, event: UnitEvent, unit: _UnitRuns, message: JournalMessage, facts: Mapping[str, str | None]
    ) -> None:
        at, run = message.at, unit.open
        if event is UnitEvent.STARTING:
            self._supersede(unit)
            self._begin(unit, self._new_run(at, message.invocation_id))
        elif event in {UnitEvent.STARTED, UnitEvent.FINISHED}:
            self._set_ready(unit, message, event)
        elif event is UnitEvent.EXITED:
            unit.exits.append(_parse_exit(facts, message.fields))
        elif event is UnitEvent.DEACTIVATED and run is not None:
            self._end(unit, run, at, "stopped" if run.is_stopping else "success")
        elif event is UnitEvent.STOPPING and run is not None:
            run.is_stopping = True
        elif event is UnitEvent.STOPPED and run is not None:
            self._end(unit, run, at, "stopped")
        elif event in {UnitEvent.FAILED, UnitEvent.ENTERED_FAILED}:
            result = facts.get("result") or message.fields.get("UNIT_RESULT")
            latest = unit.latest
            if event is UnitEvent.ENTERED_FAILED and latest is not None and self._has_just_failed(latest):
                latest.outcome = ""
            self._fail(unit, message, result)
        elif event is UnitEvent.RESTARTED:
            unit.is_restarting = True
        elif event in {UnitEvent.START_LIMIT, UnitEvent.ASSERTION, UnitEvent.UNLOADABLE}:
            unit.has_refusal = True
        elif event in _REFUSALS:
            self._add_refusal(unit, message, _REFUSALS[event])
        elif event is UnitEvent.NOT_STARTED:
            self._fail(unit, message, None)

    def _has_just_failed(self, run: _UnitRun) -> bool:
        """Return True if the previous message ended this run: `Failed to start DESCRIPTION.`."""
        return run.outcome == "failure" and run.end_number == self._number - 1

    def _new_run(self, began: JournalMoment | None, invocation_id: str | None = None) -> _UnitRun:
        is_shutdown = self._boot.is_going_down
        return _UnitRun(
            began=began, number=self._number, invocation_id=invocation_id, is_shutdown=is_shutdown
        )

    def _begin(self, unit: _UnitRuns, run: _UnitRun) -> None:
        """Add a run to a unit, and forget the exits and notes of the run before it."""
        unit.runs.append(run)
        unit.exits.clear()
        unit.note = None
        unit.has_refusal = unit.is_restarting = False
        if unit.invocation_id is None or unit.invocation_id != run.invocation_id:
            unit.lines.clear()
        if len(unit.runs) > 2 * _MAX_RUNS:
            for old in unit.runs[:-_MAX_RUNS]:
                unit.left_out[old.outcome if old.outcome in unit.left_out else "failure"] += 1
            unit.runs = unit.runs[-_MAX_RUNS:]

    def _set_ready(self, unit: _UnitRuns, message: JournalMessage, event: UnitEvent) -> None:
        """Add a `Started` or `Finished` message, which ends the start of a run or begins a new run."""
        at, run, latest = message.at, unit.open, unit.latest
        is_finished = event is UnitEvent.FINISHED
        if is_finished and run is None and latest is not None and latest.ready is None and latest.began:
            latest.ready = at  # systemd logs `Deactivated successfully` before `Finished`
            latest.is_oneshot = True
            return
        has_begun = run is not None and run.ready is None
        if run is None or run.ready is not None:
            self._supersede(unit)
            run = self._new_run(at, message.invocation_id)
            self._begin(unit, run)
        run.ready = at
        run.invocation_id = run.invocation_id or message.invocation_id
        # Only services have both `Starting` and `Started`.
        run.is_service = unit.name.endswith(_SERVICE) or (
            "." not in unit.name and has_begun and message.text.startswith("Started ")
        )
        # Other units run no program, so their run ends when they have started.
        run.is_oneshot = is_finished or not run.is_service
        if run.is_oneshot:
            run.is_start_only = not is_finished
            self._end(unit, run, at, "success")

    def _supersede(self, unit: _UnitRuns) -> None:
        """Close an open run because the next one starts. It did not fail: systemd would have logged that."""
        run = unit.open
        if run is not None:
            run.outcome = "success" if run.ready is not None else "unknown"

    def _end(self, unit: _UnitRuns, run: _UnitRun, at: JournalMoment, outcome: str) -> None:
        run.outcome = outcome
        run.ended = at
        run.end_number = self._number
        run.is_shutdown |= self._boot.is_going_down
        unit.exits.clear()

    def _fail(self, unit: _UnitRuns, message: JournalMessage, result: str | None) -> None:
        """Add a failure. It ends the open run or, if none is open, a new run whose start is unknown."""
        at, run = message.at, unit.open
        latest = unit.latest
        is_again = unit.exits or unit.is_restarting
        if run is None and (
            unit.has_refusal or (latest is not None and latest.outcome == "failure" and not is_again)
        ):
            # Not a new run: the unit hit its start limit, or this is a second message about the same failure.
            if latest is not None and latest.result is None:
                latest.result = result
            return
        unit_message = _join_lines([self._read_line(line) for line in unit.lines]) or unit.note
        if run is None and latest is not None and latest.is_oneshot and not unit.exits:
            run = latest
        if run is None:
            run = self._new_run(None)
            exits = list(unit.exits)
            self._begin(unit, run)
            unit.exits = exits
        run.invocation_id = run.invocation_id or message.invocation_id
        run.result = result
        run.exit = next((each for each in unit.exits if each.signal or each.code), None)
        run.message = unit_message
        self._end(unit, run, at, "failure")

    def _add_refusal(self, unit: _UnitRuns, message: JournalMessage, result: str) -> None:
        """Add a start that systemd refused, so that no program ran."""
        if unit.has_refusal:
            return
        run = unit.open
        if run is None:
            run = self._new_run(None)
            self._begin(unit, run)
        run.result = result
        run.message = message.text
        self._end(unit, run, message.at, "failure")
        unit.has_refusal = True

    def records(self) -> dict[str, list[Entry]]:
        """Return the entries by service name. Other units keep their suffix: `data.mount`."""
        records: dict[str, list[Entry]] = {}
        boots = [boot for boot in self._boots.values() if boot.units]
        for boot in boots:
            self._add_emergency(boot)
        if len(boots) > 1 and boots[0].boot_id is None:
            boots[0].boot_id = "first"  # without an id, its open runs would count as running now
        described = {name for boot in boots for name in boot.units}
        names = {
            name: name.removesuffix(TARGET)
            for name in described
            if name.endswith(TARGET) and name.removesuffix(TARGET) not in described
        }
        for boot in boots:
            for description, name in self._units_by_description.items():
                self._join(boot, description, name)
            for name, unit in boot.units.items():
                left_out = None
                if any(unit.left_out.values()):
                    counts = unit.left_out
                    left_out = RunsLeftOut(
                        succeeded=counts["success"], stopped=counts["stopped"], failed=counts["failure"]
                    )
                for run in unit.runs:
                    entries = self._make_entries(name, run, boot, left_out, is_latest=boot is boots[-1])
                    records.setdefault(names.get(name, name.removesuffix(_SERVICE)), []).extend(entries)
                    left_out = None
        return {name: entries for name, entries in records.items() if entries}

    def _add_emergency(self, boot: _BootRuns) -> None:
        """Add a failure of `boot` if the boot ended in the emergency shell and no unit failed before.

        dracut starts the shell when it does not find the root device, which is no failure of a unit.
        """
        runs = [run for unit in boot.units.values() for run in unit.runs]
        if any(run.outcome == "failure" for run in runs):
            return
        shells = [unit for name, unit in boot.units.items() if re.fullmatch(_EMERGENCY_SHELL, name)]
        for shell in shells:
            if shell.open is not None:
                at = shell.open.began or shell.open.ready or boot.last
                self.add_failure("boot", f"systemd started {shell.name}.", at, boot.boot_id)
                return

    def _join(self, boot: _BootRuns, description: str, name: str) -> None:
        """Merge the runs found under the description of a unit into those found under its name."""
        described = boot.units.pop(description, None)
        if described is None:
            return
        unit = boot.units.setdefault(name, _UnitRuns(name))
        for outcome, number in described.left_out.items():
            unit.left_out[outcome] += number
        runs: list[_UnitRun] = []
        both = sorted([*described.runs, *unit.runs], key=attrgetter("number"))
        if name in self._oneshots or description in self._oneshots:
            # A run that is only a start belongs to its timer or path unit, which has the same description.
            both = [run for run in both if not run.is_start_only]
        for run in both:
            before = runs[-1] if runs else None
            if (
                before is not None
                and run.began is None
                and before.result is None
                and (before.is_start_only or not before.end_number or before.end_number > run.number)
            ):
                run.began, run.ready = before.began, before.ready
                runs[-1] = run
            else:
                runs.append(run)
        unit.runs = runs

    def _make_entries(
        self, name: str, run: _UnitRun, boot: _BootRuns, left_out: RunsLeftOut | None, *, is_latest: bool
    ) -> Iterator[Entry]:
        """Yield the entries for the start and the end of a run, as far as they are known."""
        is_described = "." not in name
        if is_described and not run.outcome and run.ready is None and not is_latest:
            return  # the boot has ended: the run's end is missing, or was logged in an unknown form
        has_no_end = self.is_kernel_log or (self.is_boot_log and not is_latest)
        if has_no_end and not run.outcome and run.ready is None:
            return
        recorder = YEARS_ASSUMED if self.years_assumed else JOURNAL_RECORDER
        startup = run.ready.since(run.began) if run.ready is not None and run.began is not None else None
        if run.began is not None:
            yield Entry(
                timestamp=run.began.timestamp,
                phase=Phase.SERVICE_START,
                boot_id=boot.boot_id,
                invocation_id=run.invocation_id,
                uptime=run.began.uptime,
                recorder=recorder,
                attributes=None if startup is None else {STARTUP: round(startup, 3)},
                left_out=left_out,
            )
        outcome, ended = run.outcome, run.ended
        if not outcome and re.match(_LAST_SERVICES, name) is not None:
            outcome = "success"  # its end is never logged, because journald stops earlier
        if not outcome and run.ready is not None:
            # The unit has started; no end was logged. It counts as running only if it is a service that was
            # logged by name: the end of a unit logged by description may have been logged under its name.
            if is_described or not run.is_service or not self._has_finished or has_no_end:
                outcome, ended = "success", run.ready
            elif boot.is_going_down and not is_latest:
                outcome, ended, run.is_shutdown = "stopped", boot.last, True
        elif not outcome and boot.is_going_down and (run.is_shutdown or not is_latest):
            outcome, ended, run.is_shutdown = "stopped", boot.last, True
        if not outcome or (outcome == "unknown" and run.began is not None):
            return
        stop = "shutdown" if run.is_shutdown else "stop"
        results = {"success": Result.SUCCESS, "failure": Result.FAILURE}
        moment = ended or NEVER
        yield Entry(
            timestamp=moment.timestamp,
            phase=Phase.SERVICE_END,
            result=results.get(outcome),
            error_message=run.message if outcome == "failure" else None,
            exit_code=run.exit.code if run.exit is not None and outcome == "failure" else None,
            signal=run.exit.signal if run.exit is not None and outcome == "failure" else None,
            boot_id=boot.boot_id,
            invocation_id=run.invocation_id,
            uptime=moment.uptime,
            service_result=run.result if outcome == "failure" else None,
            stop_request=stop if outcome == "stopped" else None,
            recorder=recorder if run.began is None else None,
            left_out=left_out if run.began is None else None,
        )


def _parse_exit(facts: Mapping[str, str | None], fields: Mapping[str, str]) -> _Exit:
    """Return the exit status or signal in a message's text or, if the text has none, in its fields."""
    code, number = facts.get("code") or fields.get("EXIT_CODE", ""), facts.get("number")
    if code == "exited":
        status = number or fields.get("EXIT_STATUS", "")
        is_number = status.isdecimal() and len(status) <= _MAX_STATUS_DIGITS
        return _Exit(int(status) if is_number else None, None)
    return _Exit(None, facts.get("name") or "unknown")


def _join_lines(lines: Sequence[str]) -> str | None:
    text = "\n".join(line.strip("\n") for line in lines)
    return text[-_MAX_MESSAGE_CHARACTERS:].strip() or None


def merge(recorded: Iterable[Piece], derived: Sequence[Entry]) -> list[Piece]:
    """Return a record with the runs, and the ends of runs, that only the journal has.

    Runs are matched by their invocation id. Derived runs without an id are left out, because they may already
    be in the record. A missing run is inserted before the first recorded run that started later, a missing
    end behind the last entry of its run. Entries inserted in one place keep the order of the journal.
    """
    pieces = list(recorded)
    entries = [(index, piece) for index, piece in enumerate(pieces) if isinstance(piece, Entry)]
    last_index = {entry.invocation_id: index for index, entry in entries}
    ended = {entry.invocation_id for _, entry in entries if entry.phase is Phase.SERVICE_END}
    latest_starts = list(accumulate(map(_start_time, pieces), max))
    # Index of a recorded piece -> the entries to insert before and behind it.
    before: defaultdict[int, list[Entry]] = defaultdict(list)
    behind: defaultdict[int, list[Entry]] = defaultdict(list)
    for entry in derived:
        invocation = entry.invocation_id
        if invocation is None:
            continue
        if invocation not in last_index:
            time = entry.time
            # The running maximum first exceeds the time where the first run starts that is later.
            before[len(pieces) if time is None else bisect_right(latest_starts, time)].append(entry)
        elif not entry.phase.is_start and invocation not in ended:
            behind[last_index[invocation]].append(entry)
    merged: list[Piece] = []
    for index, piece in enumerate(pieces):
        merged += [*before[index], piece, *behind[index]]
    return merged + before[len(pieces)]


_NO_START: Final = datetime.min.replace(tzinfo=UTC)


def _start_time(piece: Piece) -> datetime:
    """Return the time at which a run starts with this piece; a time before all others if none does."""
    if not isinstance(piece, Entry) or piece.phase not in {Phase.SERVICE_START, Phase.PRE_COMMAND_START}:
        return _NO_START
    return piece.time or _NO_START
