"""Derive records from a journal: what systemd logged about units becomes entries of runs. Pure.

A unit's run begins when systemd starts it and ends when systemd says so. A journal cannot know the stages of
a service, nor the line of a script that failed. Everything else has the form of a record, so that all
readers of records take it. `Entry.recorder` marks the entries as derived.
"""

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any, Final

import msgspec

from service_record.history.unit_events import (
    MESSAGE_IDS,
    TARGET,
    UNIT,
    UnitEvent,
    read_described_event,
    read_event,
)
from service_record.record.entry import Entry, Phase, Piece, Result, RunsLeftOut

RECORDER: Final = "derived/journal"
YEARS_ASSUMED: Final = f"{RECORDER}, years assumed"
"""The recorder where the times in a journal have no year, and nothing else in it tells the year."""
STARTUP: Final = "startup_seconds"
"""The attribute of a run: seconds from the start of a unit until systemd called it started."""

_SERVICE: Final = ".service"
_IGNORED: Final = (".scope", ".slice", ".automount")
"""Units that are containers of others, or that wait for a first access: they are no runs."""
_MESSAGE_LINES: Final = 3
_MAX_MESSAGE_CHARACTERS: Final = 1000
_MAX_RUNS: Final = 1000
"""Runs of one unit that are kept: the latest. The others are counted."""
_MAX_UNITS: Final = 20_000
"""Units of one boot that are kept: the first."""
_BOOT: Final = "running in system mode"
_VERSION: Final = r"systemd v?(\d{2,4})\b.* running in system mode"
_NAMES_FINISHED: Final = 246
"""The systemd version that says `Finished` of oneshot services; earlier ones say `Started` of all."""
_GOING_DOWN: Final = (
    r"(?:multi-user|graphical|basic|sysinit)\.target$"
    r"|(?:Multi-User System|Graphical Interface|Basic System|System Initialization) \(target\)$"
)
"""Targets that stop only when the host goes down, by name or description."""
_LAST_SERVICES: Final = (
    r"(?:initrd-switch-root|systemd-(?:poweroff|reboot|halt|kexec|soft-reboot))\.service$"
    r"|(?:Switch Root|(?:System )?(?:Power[ -]Off|Reboot|Halt)|Reboot (?:via kexec|System Userspace))$"
)
"""Services that end the system or the initramfs, by name or description: none of them logs its own end."""
_SYSTEM_ENDS: Final = ("Switching root.", "Shutting down.")
_NOTE: Final = rf"(?P<unit>{UNIT}): (?P<note>.*)"
_TELLING_NOTE: Final = (
    r"(?i)\bfail|\btimed out\b|\btimeout\b|\bcannot\b|\bcould not\b|\bOOM killer\b|\bdenied\b|\binvalid\b"
)
"""Of what systemd says about a unit, the messages that give a reason."""
_JOB_RESULTS: Final = {
    "failed": UnitEvent.NOT_STARTED,
    "dependency": UnitEvent.DEPENDENCY,
    "timeout": UnitEvent.TIMED_OUT,
}
_REFUSALS: Final = {UnitEvent.DEPENDENCY: "dependency", UnitEvent.TIMED_OUT: "timeout"}
_ENDS: Final = frozenset({UnitEvent.FAILED, UnitEvent.ENTERED_FAILED, UnitEvent.DEACTIVATED})


class JournalMoment(msgspec.Struct, frozen=True, gc=False):
    """When a message was logged; None where the journal does not say."""

    time: float | None = None
    """Seconds since 1970."""
    uptime: float | None = None

    @property
    def timestamp(self) -> str | None:
        if self.time is None:
            return None
        stamp = datetime.fromtimestamp(self.time, UTC).isoformat(timespec="milliseconds")
        return f"{stamp[:-6]}Z"

    def since(self, earlier: "JournalMoment") -> float | None:
        """Return the seconds since an earlier moment of the same boot."""
        if self.uptime is not None and earlier.uptime is not None:
            seconds = self.uptime - earlier.uptime
        elif self.time is not None and earlier.time is not None:
            seconds = self.time - earlier.time
        else:
            return None
        return round(seconds, 6) if seconds >= 0 else None


NEVER: Final = JournalMoment()


class JournalMessage(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A message of systemd about a unit. `fields` has what the journal says beside the text."""

    at: JournalMoment = NEVER
    boot_id: str | None = None
    text: str
    unit: str = ""
    invocation_id: str | None = None
    fields: Mapping[str, str] = msgspec.field(default_factory=dict)


class _Exit(msgspec.Struct, frozen=True, gc=False):
    """How a process of a unit ended."""

    code: int | None
    signal: str | None


class _UnitRun(msgspec.Struct, kw_only=True):
    """One run of a unit, as far as the journal has told."""

    began: JournalMoment | None = None
    ready: JournalMoment | None = None
    ended: JournalMoment | None = None
    number: int
    """The number of its first message."""
    end_number: int = 0
    """The number of the message that ended it; 0 if there was none."""
    outcome: str = ""
    """Empty while it is not known: `success`, `failure`, `stopped` or `unknown`."""
    invocation_id: str | None = None
    exit: _Exit | None = None
    result: str | None = None
    is_service: bool = False
    is_oneshot: bool = False
    is_start_only: bool = False
    """True if its start is taken for all of it: its unit is no service, as far as its description tells."""
    is_stopping: bool = False
    is_shutdown: bool = False
    """True if it began or ended while the host went down."""
    message: str | None = None

    @property
    def is_open(self) -> bool:
        return not self.outcome


class _UnitRuns:
    """The runs of a unit in one boot, and the last lines that it logged."""

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
        """True from a refusal to start it until it starts."""
        self.is_restarting = False
        """True from an announced restart until it starts."""
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
    """Takes the messages of a journal in their order, and gives the records that they come to."""

    def __init__(self, read_line: Callable[[Any], str] = str) -> None:
        """`read_line` returns the text of a line that `add_line` took: of most lines it is not needed."""
        self._read_line = read_line
        self.is_kernel_log = False
        """True for the log of the kernel: systemd writes there only until journald runs."""
        self.is_boot_log = False
        """True for a log that ends when the host has booted: nothing tells how an earlier boot went on."""
        self.years_assumed = False
        """True if the years of the times are a guess."""
        self._boots: dict[str | None, _BootRuns] = {}
        self._boot = _BootRuns(None)
        self._number = 0
        """The number of the message that is taken."""
        self._has_finished = False
        """True once the journal tells oneshot services from others."""
        self._units_by_description: dict[str, str] = {}
        self._oneshots: set[str] = set()
        """Units that have finished, in any boot."""
        self._ambiguous: set[str] = set()
        """Descriptions that several units have."""
        self._before: tuple[UnitEvent | None, str] = (None, "")
        """The event of the message before, and its unit or description."""

    def add_line(self, unit: str, invocation_id: str | None, line: object, boot_id: str | None) -> None:
        """Take a line that a unit logged itself."""
        if not unit.endswith(_SERVICE):
            return
        one = self._unit(unit, boot_id)
        if one is None:
            return
        if invocation_id != one.invocation_id:
            one.invocation_id = invocation_id
            one.lines.clear()
        one.lines.append(line)

    def set_lines(self, unit: str, lines: Sequence[str], boot_id: str | None) -> None:
        """Set the last lines of a unit, right before the message that needs them."""
        one = self._unit(unit, boot_id)
        if one is not None:
            one.lines.clear()
            one.lines.extend(lines)

    def add_failure(self, name: str, message: str, at: JournalMoment, boot_id: str | None) -> None:
        """Take a failure of what is no unit: of the kernel, or of the boot as a whole."""
        one = self._unit(name, boot_id)
        if one is None or one.runs:
            return
        run = self._new_run(None)
        one.runs.append(run)
        run.message = message
        self._end(one, run, at, "failure")

    def add(self, message: JournalMessage) -> None:
        """Take a message of systemd."""
        boot = self._enter(message.boot_id)
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
        event, unit, facts = self._read(message)
        if event is None:
            self._before = (None, "")
            self._take_note(message)
            return
        before, self._before = self._before, (event, unit)
        if event is UnitEvent.FINISHED:
            self._has_finished = True
            self._oneshots.add(self._units_by_description.get(unit, unit))
        if self._are_of_one_unit(*before, event, unit):
            named, described = (before[1], unit) if "." in before[1] else (unit, before[1])
            self._learn(named, described, boot)
            is_taken = event is UnitEvent.NOT_STARTED or (
                event is UnitEvent.STOPPED and before[0] is not UnitEvent.DEACTIVATED
            )
            unit = "" if is_taken else named  # the failure was taken with the message before
        unit = self._units_by_description.get(unit, unit)
        one = self._unit(unit, message.boot_id) if unit and not unit.endswith(_IGNORED) else None
        if one is None:
            return
        is_named = bool(message.unit) or unit in message.text
        if event is UnitEvent.STARTED and not is_named and one.open is None and unit in self._oneshots:
            return  # the timer or the path of the service, with the same description
        if event in {UnitEvent.STOPPED, UnitEvent.STOPPING}:
            boot.is_going_down |= re.match(_GOING_DOWN, unit) is not None
        self._take(event, one, message, facts)

    def _take_note(self, message: JournalMessage) -> None:
        """Keep a reason that systemd gives for what happens to a unit."""
        match = re.match(_NOTE, message.text)
        unit = message.unit or (match["unit"] if match is not None else "")
        if not unit.endswith(_SERVICE) or re.search(_TELLING_NOTE, message.text) is None:
            return
        one = self._unit(unit, message.boot_id)
        if one is not None:
            one.note = match["note"] if match is not None else message.text

    def _are_of_one_unit(self, before: UnitEvent | None, other: str, event: UnitEvent, unit: str) -> bool:
        """Return True if two messages in a row are about one unit, which only one of them names.

        systemd logs `x.service: Failed with result …` and `Failed to start DESCRIPTION.` in one go. Version
        219 logs `Unit x.service entered failed state.` after it.
        """
        if event is UnitEvent.ENTERED_FAILED:
            return before is UnitEvent.NOT_STARTED and "." not in other
        if "." in unit or "." not in other or before not in _ENDS:
            return False
        if event is UnitEvent.NOT_STARTED:
            return True
        # A timer or a socket has no `Starting`, and may stop right after a service has ended by itself.
        described = self._boot.units.get(self._units_by_description.get(unit, unit))
        has_begun = described is not None and described.open is not None and described.open.began is not None
        return has_begun and other.endswith(_SERVICE) and event in {UnitEvent.STOPPED, UnitEvent.FINISHED}

    def _learn(self, unit: str, description: str, boot: _BootRuns) -> None:
        """Remember which unit a description is of."""
        if description in self._oneshots:
            self._oneshots.add(unit)
        known = self._units_by_description.get(description)
        if known not in {None, unit}:
            # Several units have it. The run that has begun is of this one.
            self._ambiguous.add(description)
            del self._units_by_description[description]
            other = boot.units.get(known or "")
            if other is not None and other.open is not None:
                boot.units.setdefault(description, _UnitRuns(description)).runs.append(other.runs.pop())
        elif description not in self._ambiguous:
            self._units_by_description[description] = unit
        self._join(boot, description, unit)

    def _end_last_services(self, boot: _BootRuns, at: JournalMoment) -> None:
        for unit in boot.units.values():
            if unit.open is not None and re.match(_LAST_SERVICES, unit.name) is not None:
                self._end(unit, unit.open, at, "success")

    def _enter(self, boot_id: str | None) -> _BootRuns:
        if boot_id not in self._boots:
            self._boots[boot_id] = _BootRuns(boot_id)
        self._boot = self._boots[boot_id]
        return self._boot

    def _unit(self, name: str, boot_id: str | None) -> _UnitRuns | None:
        units = self._enter(boot_id).units
        unit = units.get(name)
        if unit is None:
            if len(units) >= _MAX_UNITS:
                return None
            unit = units[name] = _UnitRuns(name)
        return unit

    def _read(self, message: JournalMessage) -> tuple[UnitEvent | None, str, Mapping[str, str | None]]:
        """Return the event of a message, its unit (or description) and what else its text says.

        The text decides where it is known: systemd gives a start that it skipped the MESSAGE_ID of a start.
        """
        fields = message.fields
        if (known := read_event(message.text)) is not None:
            # systemd names units beside their descriptions since it says `Finished`.
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
        # Never take it for the name of a unit.
        description = description.replace(".", "\N{ONE DOT LEADER}")
        return event, description, {}

    def _take(  # noqa: C901  # one branch for each event
        self, event: UnitEvent, unit: _UnitRuns, message: JournalMessage, facts: Mapping[str, str | None]
    ) -> None:
        at, run = message.at, unit.open
        if event is UnitEvent.STARTING:
            self._supersede(unit)
            self._begin(unit, self._new_run(at, message.invocation_id))
        elif event in {UnitEvent.STARTED, UnitEvent.FINISHED}:
            self._set_ready(unit, message, event)
        elif event is UnitEvent.EXITED:
            unit.exits.append(_exit(facts, message.fields))
        elif event is UnitEvent.DEACTIVATED and run is not None:
            self._end(unit, run, at, "stopped" if run.is_stopping else "success")
        elif event is UnitEvent.STOPPING and run is not None:
            run.is_stopping = True
        elif event is UnitEvent.STOPPED and run is not None:
            self._end(unit, run, at, "stopped")
        elif event in {UnitEvent.FAILED, UnitEvent.ENTERED_FAILED}:
            result = facts.get("result") or message.fields.get("UNIT_RESULT")
            latest = unit.latest
            if event is UnitEvent.ENTERED_FAILED and latest is not None and self._is_told_twice(latest):
                latest.outcome = ""
            self._fail(unit, message, result)
        elif event is UnitEvent.RESTARTED:
            unit.is_restarting = True
        elif event in {UnitEvent.START_LIMIT, UnitEvent.ASSERTION, UnitEvent.UNLOADABLE}:
            unit.has_refusal = True
        elif event in _REFUSALS:
            self._refuse(unit, message, _REFUSALS[event])
        elif event is UnitEvent.NOT_STARTED:
            self._fail(unit, message, None)

    def _is_told_twice(self, run: _UnitRun) -> bool:
        """Return True if the message before was of this failure: `Failed to start DESCRIPTION.`"""
        return run.outcome == "failure" and run.end_number == self._number - 1

    def _new_run(self, began: JournalMoment | None, invocation_id: str | None = None) -> _UnitRun:
        is_shutdown = self._boot.is_going_down
        return _UnitRun(
            began=began, number=self._number, invocation_id=invocation_id, is_shutdown=is_shutdown
        )

    def _begin(self, unit: _UnitRuns, run: _UnitRun) -> None:
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
        at, run, latest = message.at, unit.open, unit.latest
        is_finished = event is UnitEvent.FINISHED
        if is_finished and run is None and latest is not None and latest.ready is None and latest.began:
            latest.ready = at  # `Deactivated successfully` comes before `Finished`
            latest.is_oneshot = True
            return
        has_begun = run is not None and run.ready is None
        if run is None or run.ready is not None:
            self._supersede(unit)
            run = self._new_run(at)
            self._begin(unit, run)
        run.ready = at
        run.invocation_id = run.invocation_id or message.invocation_id
        # Only services have both `Starting` and `Started`.
        run.is_service = unit.name.endswith(_SERVICE) or (
            "." not in unit.name and has_begun and message.text.startswith("Started ")
        )
        # What is no service runs no program: its run is its start.
        run.is_oneshot = is_finished or not run.is_service
        if run.is_oneshot:
            run.is_start_only = not is_finished
            self._end(unit, run, at, "success")

    def _supersede(self, unit: _UnitRuns) -> None:
        """End an open run that another one follows: systemd would have logged a failure."""
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
        at, run = message.at, unit.open
        latest = unit.latest
        is_again = unit.exits or unit.is_restarting
        if run is None and (
            unit.has_refusal or (latest is not None and latest.outcome == "failure" and not is_again)
        ):
            # Only the start limit, or a second message about the same failure.
            if latest is not None and latest.result is None:
                latest.result = result
            return
        message_of_unit = _message([self._read_line(line) for line in unit.lines]) or unit.note
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
        run.message = message_of_unit
        self._end(unit, run, at, "failure")

    def _refuse(self, unit: _UnitRuns, message: JournalMessage, result: str) -> None:
        """Take a start that failed before the unit ran."""
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
        """Return the entries of each service, and of each other unit under its whole name."""
        records: dict[str, list[Entry]] = {}
        boots = [boot for boot in self._boots.values() if boot.units]
        if len(boots) > 1 and boots[0].boot_id is None:
            boots[0].boot_id = "first"  # what ran in it is over
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
                    entries = self._entries(name, run, boot, left_out, is_latest=boot is boots[-1])
                    records.setdefault(names.get(name, name.removesuffix(_SERVICE)), []).extend(entries)
                    left_out = None
        return {name: entries for name, entries in records.items() if entries}

    def _join(self, boot: _BootRuns, description: str, name: str) -> None:
        """Join the runs of a unit with those that only its description names."""
        described = boot.units.pop(description, None)
        if described is None:
            return
        unit = boot.units.setdefault(name, _UnitRuns(name))
        runs: list[_UnitRun] = []
        both = sorted([*described.runs, *unit.runs], key=attrgetter("number"))
        if name in self._oneshots or description in self._oneshots:
            # The other starts are those of its timer or path, with the same description.
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

    def _entries(
        self, name: str, run: _UnitRun, boot: _BootRuns, left_out: RunsLeftOut | None, *, is_latest: bool
    ) -> Iterator[Entry]:
        is_described = "." not in name
        if is_described and not run.outcome and run.ready is None and not is_latest:
            return  # its end may have been logged in another way, or lost
        has_no_end = self.is_kernel_log or (self.is_boot_log and not is_latest)
        if has_no_end and not run.outcome and run.ready is None:
            return
        recorder = YEARS_ASSUMED if self.years_assumed else RECORDER
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
            outcome = "success"  # the messages behind it are lost
        if not outcome and run.ready is not None:
            # Nothing tells when it ended, if it did.
            # A service that only its description names may have ended under its name.
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


def _exit(facts: Mapping[str, str | None], fields: Mapping[str, str]) -> _Exit:
    code, number = facts.get("code") or fields.get("EXIT_CODE", ""), facts.get("number")
    if code == "exited":
        status = number or fields.get("EXIT_STATUS", "")
        return _Exit(int(status) if status.isdecimal() else None, None)
    return _Exit(None, facts.get("name") or "unknown")


def _message(lines: Sequence[str]) -> str | None:
    text = "\n".join(line.strip("\n") for line in lines)
    return text[-_MAX_MESSAGE_CHARACTERS:].strip() or None


def merge(recorded: Iterable[Piece], derived: Sequence[Entry]) -> list[Piece]:
    """Return a record with the runs that only the journal knows, and with ends that the record lacks.

    Entries of one run share their invocation. A run without one may be recorded, and is left out.
    """
    pieces = list(recorded)
    entries = [piece for piece in pieces if isinstance(piece, Entry)]
    known = {entry.invocation_id for entry in entries}
    ended = {entry.invocation_id for entry in entries if entry.phase is Phase.SERVICE_END}
    for entry in derived:
        invocation = entry.invocation_id
        if invocation is None or (invocation in known and (entry.phase.is_start or invocation in ended)):
            continue
        if invocation in known:
            own = (place for place, piece in enumerate(pieces) if _is_of(piece, invocation))
            pieces.insert(max(own) + 1, entry)
        else:
            later = (place for place, piece in enumerate(pieces) if _is_after(piece, entry))
            pieces.insert(next(later, len(pieces)), entry)
    return pieces


def _is_of(piece: Piece, invocation: str) -> bool:
    return isinstance(piece, Entry) and piece.invocation_id == invocation


def _is_after(piece: Piece, entry: Entry) -> bool:
    """Return True if a run that began after an entry begins with this piece."""
    if not isinstance(piece, Entry) or piece.time is None or entry.time is None:
        return False
    is_begin = piece.phase in {Phase.SERVICE_START, Phase.PRE_COMMAND_START}
    return is_begin and piece.time > entry.time
