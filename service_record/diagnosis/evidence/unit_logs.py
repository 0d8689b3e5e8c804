"""Read the messages of systemd and journald about units, and lists of failed units. Pure."""

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import replace

from service_record.diagnosis.evidence.log_lines import LogLine
from service_record.history.unit_events import UNIT, UnitEvent, read_event


class Hindrance(StrEnum):
    """The reason why a unit has not started."""

    ABSENT = "absent"
    """The host has no such unit."""
    MASKED = "masked"
    UNLOADABLE = "unloadable"
    """systemd rejects its unit file: a setting is bad or missing."""
    CONDITION = "condition"
    """A condition of its unit is not met."""
    ASSERTION = "assertion"
    DEPENDENCY = "dependency"
    """A required unit failed, or could not start."""
    TIMED_OUT = "timed-out"
    """It did not appear in time: usually a device."""
    DAMAGE = "damage"
    """Its record is damaged: it may have started."""
    UNREACHED = "unreached"
    """A service that must precede it has not succeeded."""
    QUEUED = "queued"
    """Its start is in systemd's queue."""
    CYCLE = "cycle"
    """systemd dropped its start to break an ordering cycle."""
    UNKNOWN = "unknown"


FAULTS: Final = frozenset(
    {Hindrance.UNLOADABLE, Hindrance.ASSERTION, Hindrance.DEPENDENCY, Hindrance.TIMED_OUT, Hindrance.CYCLE}
)
"""Hindrances that make the host failed even if the unit was not expected to start.

An unmet condition, a mask and a missing unit are often intended.
"""


class UnitLog(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a unit according to systemd's log since the last start or start attempt."""

    hindrance: Hindrance | None = None
    """Why it did not start."""
    detail: str = ""
    """The setting or the reason in systemd's message: `ConditionPathExists=/srv/data`."""
    result: str | None = None
    """systemd's result if it failed: `exit-code`."""
    exit_code: int | None = None
    """The exit status of the command that caused systemd's result."""
    signal: str | None = None
    has_hit_start_limit: bool = False
    spawn_error: str = ""
    """Why systemd could not execute a command: `Failed to set up mount namespacing: …`."""
    suppressed: int = 0
    """Messages of the unit that the journal's rate limit dropped in this boot."""
    time: datetime | None = None
    """The time of the message about the failure or hindrance."""
    restarts: int = 0
    """The number of automatic restarts after a failure."""
    result_before: str | None = None
    """systemd's result before the latest restart."""


NOT_LOGGED: Final = UnitLog()


def unescape_path(name: str) -> str:
    """Return the path in the name of a unit, without its first slash (systemd.unit(5), `systemd-escape`)."""
    return re.sub(r"\\x([0-9a-f]{2})", lambda code: chr(int(code[1], 16)), name.replace("-", "/"))


def find_mount_point(mount: str) -> str:
    """Return the directory of a mount unit, `var-lib.mount`. A path is returned as it is."""
    return mount if mount.startswith("/") else "/" + unescape_path(mount.removesuffix(".mount"))


def read_failed_units(listing: str) -> Iterator[tuple[int, str]]:
    """Yield line number and name of each failed unit in the output of `systemctl list-units`."""
    for number, line in enumerate(listing.splitlines(), 1):
        words = line.replace("●", " ").replace("*", " ").split()
        if words[2:3] == ["failed"] and re.fullmatch(UNIT, words[0]):
            yield number, words[0]


LOGGED: Final = (
    rb"systemd\[1\]: [^\n]*(?:"
    rb"[Aa]sserts? failed|Assertion failed for|[Dd]ependency|unmet condition|trigger condition|being skipped"
    rb"|exec-condition|repeated too quickly|fatal error, unit|Refusing"
    rb"|\.(?:conf|service|mount|socket|timer|path):\d+: |entered failed state"
    rb"|timed out|with result|is inactive\.|Scheduled restart job|break ordering cycle|process exited"
    rb"|Deactivated successfully|: Succeeded\.|running in system mode)"
    # Scopes are left out: container hosts start thousands of them, and every line takes time.
    rb"|systemd\[1\]: (?:Start(?:ing|ed)|Finished|Reached target|Mount(?:ing|ed)|Listening on|Found device) "
    rb"\S+\.(?:service|socket|target|device|mount|automount|swap|timer|path|slice)\b"
    rb"|systemd\[1\]: Failed to (?:start|mount|activate swap) "
    rb"|systemd-journald\[\d+\]: Suppressed \d+ messages from "
    rb"|(?:\([^\s()]{1,20}\)|systemd)\[\d+\]: [^\s:]+\.(?:service|mount|socket|swap): [^\n]*[Ff]ailed"
    # Lines of `systemctl status` for a failed unit.
    rb"|(?m:^[^\w\n]{0,6}[\w:.\\@-]+\.(?:service|socket|mount|swap|timer|path)(?: - [^\n]*)?\n +Loaded: )"
    rb"|(?m:^ +Active: (?:failed|activating \(auto-restart\)|active \(exited\)) \(Result: )"
    rb"|(?m:^ +Main PID: \d+ \(code=)"
)
"""RE2 pattern of the lines that `read_logs` needs, in a journal as text."""
_START: Final = (
    rb"(?:systemd(?:\[1\])?|init\.scope\[1\]): "
    rb"(?:(?P<begin>Starting|Mounting|Activating swap)|Started|Mounted) %b(?=[\s.])"
)
_STATUS_UNIT: Final = rf"\W*(?P<unit>{UNIT})(?: - .*)?\n"
_STATUS: Final = r"Active: [a-z()\s-]+ \(Result: (?P<result>[a-z-]+)\)"
_STATUS_EXIT: Final = (
    r"Main PID: \d+ \(code=(?P<code>exited|killed|dumped),"
    r" (?:status=(?P<number>\d{1,9})|signal=(?P<name>\w+))"
)
_UNIT_GROUP: Final = rf"(?P<unit>{UNIT})"
_BOOT: Final = "running in system mode"
_MAX_COMPLAINTS: Final = 3
_FILE_LINE: Final = rf"(?P<place>/\S*?/{_UNIT_GROUP}(?:\.d/[^/\s]+\.conf)?:\d+): (?P<what>.*)"


_SUPPRESSED: Final = rf"Suppressed (?P<count>\d{{1,12}}) messages from (?:\S*/)?{_UNIT_GROUP}"
_SPAWN_ERROR: Final = rf"{_UNIT_GROUP}: (?P<reason>Failed to .*|Failed at step .*|.* failed: .*)"
_INACTIVE: Final = rf"(?:{_UNIT_GROUP}(?: - .*)?|(?P<description>\S.*)) is inactive\.$"
"""systemd logs this if a unit in `Requisite=` is inactive, just before it cancels the units that need it."""
_AFTER_REASON: Final = r"Failed at step |Failed to (?:run|spawn) '[a-z-]+' task"
"""Messages that follow the one with the reason. They may name the task of our drop-in, 'stop-post'."""


_UpdateLog: TypeAlias = Callable[[UnitLog, re.Match[str]], UnitLog]


def find_start(label: bytes, text: bytes) -> int | None:
    """Return where systemd logged the latest start of a unit in a journal as text; None if it is not found.

    `label` is the name of the unit, or its description. The start is the line `Starting …`: some services log
    before systemd considers them started. A simple service has only the line `Started …`.
    """
    starts = list(re.finditer(_START % re.escape(label), text))
    begins = [one for one in starts if one["begin"]]
    return (begins or starts)[-1].start() if starts else None


def _reset(_log: UnitLog, _match: re.Match[str]) -> UnitLog:
    return NOT_LOGGED


def _add_start(log: UnitLog, _match: re.Match[str]) -> UnitLog:
    """Forget all but the restarts, because a service that fails repeatedly starts between two failures."""
    before = log.result or log.result_before
    return UnitLog(restarts=log.restarts, result_before=before, time=log.time) if log.restarts else NOT_LOGGED


def _add_restart(log: UnitLog, match: re.Match[str]) -> UnitLog:
    counter = int(match["restarts"]) if match["restarts"] else log.restarts + 1
    return replace(log, restarts=counter)


def _add_exit(log: UnitLog, match: re.Match[str]) -> UnitLog:
    """Add the exit status or signal of a process. Only the first failure causes systemd's result."""
    if log.exit_code is not None or log.signal is not None:
        return log
    if match["code"] == "exited":
        return replace(log, exit_code=int(match["number"]))
    return replace(log, signal=match["name"] or "unknown")


def _set_hindrance(hindrance: Hindrance) -> _UpdateLog:
    def update(log: UnitLog, match: re.Match[str]) -> UnitLog:
        detail = match.groupdict().get("detail") or ""
        # systemd logs some refusals in two lines, only one of which has the setting.
        if log.hindrance is hindrance and not detail:
            detail = log.detail
        return UnitLog(hindrance=hindrance, detail=detail)

    return update


def _guess_result(log: UnitLog) -> str:
    """Return systemd's result of a failure, for versions of systemd that do not log it."""
    return "exit-code" if log.signal is None else "signal"


_UPDATES: Final[dict[UnitEvent, _UpdateLog]] = {
    UnitEvent.STARTING: _add_start,
    UnitEvent.STARTED: _add_start,
    UnitEvent.FINISHED: _add_start,
    UnitEvent.RESTARTED: _add_restart,
    UnitEvent.DEACTIVATED: _reset,
    UnitEvent.EXITED: _add_exit,
    UnitEvent.FAILED: lambda log, match: replace(log, result=match["result"]),
    UnitEvent.ENTERED_FAILED: lambda log, _match: replace(log, result=log.result or _guess_result(log)),
    UnitEvent.START_LIMIT: lambda log, _match: replace(log, has_hit_start_limit=True),
    UnitEvent.CYCLE: _set_hindrance(Hindrance.CYCLE),
    UnitEvent.ASSERTION: _set_hindrance(Hindrance.ASSERTION),
    UnitEvent.CONDITION: _set_hindrance(Hindrance.CONDITION),
    UnitEvent.DEPENDENCY: _set_hindrance(Hindrance.DEPENDENCY),
    UnitEvent.TIMED_OUT: _set_hindrance(Hindrance.TIMED_OUT),
    UnitEvent.UNLOADABLE: _set_hindrance(Hindrance.UNLOADABLE),
}
"""Event -> the function that updates the log of the unit. Other events do not change it."""


def read_logs(lines: Iterable[LogLine]) -> dict[str, UnitLog]:
    """Parse the lines of systemd and journald about units; give the earliest line first.

    Returns unit -> its log. A start or a successful end discards earlier messages of the unit, and a boot
    discards everything.
    """
    lines = list(lines)
    of_users = {line.pid for line in lines if _is_from_user_manager(line)}
    return _read_messages((line.text, line.time) for line in lines if line.pid not in of_users)


def _is_from_user_manager(line: LogLine) -> bool:
    """Return True if a user's systemd logged an event. Its services do not belong to the host.

    A child process of the host's systemd also has another pid, but it only logs why it cannot execute a
    command.
    """
    is_other = line.name == "systemd" and line.pid is not None and line.pid != 1
    return is_other and read_event(line.text.strip()) is not None


def read_messages(messages: Iterable[str]) -> dict[str, UnitLog]:
    """Parse messages without times; see `read_logs`."""
    return _read_messages((message, None) for message in messages)


def _read_messages(messages: Iterable[tuple[str, datetime | None]]) -> dict[str, UnitLog]:
    log = _SystemdLog()
    for message, time in messages:
        text = message.strip()
        if _BOOT in text:
            log = _SystemdLog()
        else:
            log.add(text, time)
    return log.units()


class _SystemdLog:
    """Collects the messages of systemd and journald in one boot."""

    def __init__(self) -> None:
        self._logs: dict[str, UnitLog] = {}
        # These are kept apart because a start must not discard them. A child process may log why it cannot
        # execute a command before systemd logs the start of the unit. journald logs the number of dropped
        # messages only when the unit logs again, perhaps after a restart.
        self._spawn_errors: dict[str, str] = {}
        self._suppressed: dict[str, int] = {}
        self._complaints: dict[str, list[str]] = {}
        self._last_time: datetime | None = None
        self._status_unit = ""
        self._inactive = ""  # the inactive unit of the message before this one

    def _add_status(self, text: str) -> bool:
        """Add a line of `systemctl status`; return False for any other line."""
        if (match := re.match(_STATUS_UNIT, text)) is not None:
            self._status_unit = match["unit"]
            return True
        log = self._logs.get(self._status_unit, NOT_LOGGED)
        if (match := re.match(_STATUS, text)) is not None:
            log = replace(log, result=match["result"])
        elif log.result is not None and (match := re.match(_STATUS_EXIT, text)) is not None:
            log = log if match["number"] == "0" else _add_exit(log, match)
        else:
            return False
        if self._status_unit:
            self._logs[self._status_unit] = log
        return True

    def add(self, text: str, time: datetime | None) -> None:
        """Add one message."""
        if self._add_status(text):
            return
        if (match := re.match(_SPAWN_ERROR, text)) is not None:
            is_reason = re.match(_AFTER_REASON, match["reason"]) is None
            if is_reason or match["unit"] not in self._spawn_errors:
                self._spawn_errors[match["unit"]] = match["reason"]
            return
        if (match := re.match(_SUPPRESSED, text)) is not None:
            before = self._suppressed.get(match["unit"], 0)
            self._suppressed[match["unit"]] = before + int(match["count"])
            return
        if (match := re.match(_FILE_LINE, text)) is not None:
            _add_complaint(self._complaints.setdefault(match["unit"], []), match)
            return
        if text.endswith(" is inactive.") and (match := re.match(_INACTIVE, text)) is not None:
            self._inactive = match["unit"] or match["description"]
            return
        self._add_event(text, time)

    def _add_event(self, text: str, time: datetime | None) -> None:
        # Only the first dependency that fails is certain to need the inactive unit. The next one may need
        # the first. The message may have a description in place of the unit; a second message names it.
        inactive = self._inactive
        if not text.startswith("Dependency failed for "):
            self._inactive = ""
        event, match = read_event(text) or (None, None)
        if match is None or event not in _UPDATES:
            return
        self._inactive = ""
        unit = match["unit"]
        log = _UPDATES[event](self._logs.get(unit, NOT_LOGGED), match)
        if event is UnitEvent.DEPENDENCY and inactive:
            log = replace(log, detail=inactive)
        if event is UnitEvent.FAILED or log.hindrance is not None:
            log = replace(log, time=time)
        self._logs[unit] = log
        self._last_time = time or self._last_time

    def units(self) -> dict[str, UnitLog]:
        """Return unit -> its log, without units that are in order."""
        logs = {unit: self._conclude(log) for unit, log in self._logs.items()}
        logs = {unit: log for unit, log in logs.items() if log != NOT_LOGGED}
        for unit, log in logs.items():
            if log.hindrance is Hindrance.UNLOADABLE:
                logs[unit] = replace(log, detail="; ".join([log.detail, *self._complaints.get(unit, ())]))
            else:
                logs[unit] = replace(log, spawn_error=self._spawn_errors.get(unit, ""))
        for unit, number in self._suppressed.items():
            logs[unit] = replace(logs.get(unit, NOT_LOGGED), suppressed=number)
        return logs

    def _conclude(self, log: UnitLog) -> UnitLog:
        """Complete the log of a unit. A recent start in a series of failures does not count as a recovery."""
        if log.result is not None or log.hindrance is not None:
            return log
        if log.exit_code or log.signal:
            # systemd logs only failed exits of processes. The journal may end right after it.
            return replace(log, result=_guess_result(log))
        if log.result_before is None:
            return log
        is_recent = log.time is None or self._last_time is None or self._last_time - log.time <= _RECENT
        if log.restarts >= _LEAST_RESTARTS and is_recent:
            return replace(log, result=log.result_before)
        return NOT_LOGGED


_LEAST_RESTARTS: Final = 3
_RECENT: Final = timedelta(minutes=2)
"""A unit that has restarted at least 3 times, and started less than 2 minutes before the end of the log, has
not recovered."""


def _add_complaint(complaints: list[str], match: re.Match[str]) -> None:
    """Add a complaint about a unit file. One that systemd does not ignore replaces all others."""
    complaint = f"{match['place']}: {match['what']}"
    if not match["what"].endswith("ignoring."):
        complaints[:] = [complaint]
    elif complaint not in complaints and len(complaints) < _MAX_COMPLAINTS:
        complaints.append(complaint)
