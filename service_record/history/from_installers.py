"""Derive records from the logs of installers: the steps of an installation become stages. Pure.

Each installer has an adapter: a generator that takes lines and yields events. docs/installers.md explains how
to write one.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final

import msgspec

from service_record.record.entry import Entry, Phase, Result

_MAX_MESSAGE_CHARACTERS: Final = 1000
_MESSAGE_LINES: Final = 3
SUCCESS: Final = Result.SUCCESS
FAILURE: Final = Result.FAILURE


class InstallerLine(msgspec.Struct, frozen=True):
    """A line of a log, without the prefix before the message."""

    text: str
    time: datetime | None = None
    """None if the times of the log have no date."""
    program: str = ""


class StepEvent(msgspec.Struct, frozen=True, kw_only=True):
    """The start or the end of a run or a stage of an installer."""

    service: str
    phase: Phase
    name: str = ""
    """The name of the stage; empty for a run."""
    at: datetime | None = None
    seconds: float | None = None
    """Seconds since the first line, for a log whose times have no date."""
    result: Result | None = None
    message: str | None = None
    error_line: str | None = None
    """`LINE FUNCTION FILE`, if the log has a traceback."""


Adapter = Callable[[Iterable[InstallerLine]], Iterator[StepEvent]]


def entries(recorder: str, events: Iterable[StepEvent]) -> dict[str, list[Entry]]:
    """Convert events to entries, grouped by service. A stage outside of a run starts a run."""
    records: dict[str, list[Entry]] = {}
    running: set[str] = set()
    for event in events:
        record = records.setdefault(event.service, [])
        if event.service not in running and event.phase is not Phase.SERVICE_START:
            start = StepEvent(service="", phase=Phase.SERVICE_START, at=event.at, seconds=event.seconds)
            record.append(_make_entry(recorder, start))
        # curtin and subiquity report the start of a run several times. cloud-init reports it once in a boot,
        # so if its run is still open, the host has rebooted.
        is_repeated = event.phase is Phase.SERVICE_START and event.service in running
        if is_repeated and event.service not in CLOUD_INIT_UNITS:
            continue
        (running.discard if event.phase is Phase.SERVICE_END else running.add)(event.service)
        record.append(_make_entry(recorder, event))
    return records


def _make_entry(recorder: str, event: StepEvent) -> Entry:
    stamp = None
    if event.at is not None:
        stamp = event.at.astimezone(UTC).isoformat(timespec="milliseconds")[:-6] + "Z"
    return Entry(
        timestamp=stamp,
        stage=event.name or None,
        phase=event.phase,
        result=event.result,
        uptime=event.seconds,
        error_line=event.error_line,
        error_message=(event.message or "")[-_MAX_MESSAGE_CHARACTERS:] or None,
        recorder=f"derived/{recorder}" if event.phase is Phase.SERVICE_START else None,
    )


_REPORTED: Final = (
    r"(?:^|\]: |:\d+ )(?P<way>start|finish): (?P<path>(?:init-|modules-|subiquity/|cmd-)[\w./-]*)"
    r"(?:: (?:(?P<result>SUCCESS|WARN|FAIL)\b(?:: )?)?(?P<text>.*))?$"
)
"""An event in the logs of cloud-init, curtin and subiquity: `finish: init-network/config-ssh: SUCCESS: …`.

The pattern matches only at the beginning of a message, because error messages quote events of the failed
command.
"""
_QUOTED: Final = r"\b(?:start|finish): (?:init-|modules-|subiquity/|cmd-)"
_FRAME: Final = r'  File "(?P<file>[^"]+)", line (?P<line>\d{1,9}), in (?P<function>\S+)'
_NO_FAILURE: Final = r"\b(?:DEBUG|INFO|DBG|INF)\b"
"""Log levels of lines that are never the reason of a failure."""
_EXCEPTION: Final = r"[A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt|Warning)\b.*"
_CLOUD_INIT_SERVICES: Final = {
    "init-local": "cloud-init-local",
    "init-network": "cloud-init",
    "modules-config": "cloud-config",
    "modules-final": "cloud-final",
}


CLOUD_INIT_UNITS: Final = frozenset(_CLOUD_INIT_SERVICES.values())
_WRAPPED: Final = r"^(?:.*/)?stage-([^/]+)/builtin/cmd-\1(?=/|$)"
"""A prefix in the paths of curtin's steps, as in `stage-curthooks/builtin/cmd-curthooks/install-grub`."""
_WHOLE: Final = frozenset({"subiquity/Install/install"})
"""Steps that cover the whole installation. They become the run, not a stage."""


class _HeldFailures:
    """Holds back the ends of failed steps until the traceback that follows them has been read."""

    def __init__(self) -> None:
        self._ends: list[StepEvent] = []
        self._by_service: dict[str, tuple[str | None, str | None]] = {}
        """Service -> message and error line of the first failed stage of its run."""
        self._frame: str | None = None
        self._is_in_traceback = False
        self._lines: list[str] = []
        self._last: tuple[str | None, str | None] = (None, None)
        """Message and error line of the latest failure. Its parent steps fail for the same reason."""

    def read(self, text: str) -> None:
        """Read a line without an event."""
        line = re.sub(r"^.*?(?=Traceback \(most recent|  File \")", "", text)
        if line.startswith("Traceback (most recent call last)"):
            self._is_in_traceback = True
        elif self._is_in_traceback and (frame := re.match(_FRAME, line)) is not None:
            self._frame = f"{frame['line']} {frame['function']} {frame['file']}"
        elif self._is_in_traceback and re.match(_EXCEPTION, line) is not None:
            self._is_in_traceback = False
            self._lines = [line]
        elif not self._is_in_traceback and line.strip() and not re.search(_NO_FAILURE, line):
            self._lines = [*self._lines[1 - _MESSAGE_LINES :], line.strip()]

    def hold(self, end: StepEvent) -> None:
        self._ends.append(end)

    def release(self) -> Iterator[StepEvent]:
        """Yield the held ends with their message, innermost first, and forget them."""
        if self._ends:
            message = "\n".join(self._lines) or self._last[0]
            self._last = message, self._frame or (self._last[1] if not self._lines else None)
        for end in self._ends:
            message, frame = self._last
            if end.phase is Phase.STAGE_END:
                self._by_service.setdefault(end.service, self._last)
            else:
                message, frame = self._by_service.pop(end.service, self._last)
            yield msgspec.structs.replace(end, message=message or end.message, error_line=frame)
        self._ends, self._lines, self._frame, self._is_in_traceback = [], [], None, False


class _EventFilter:
    """Drops duplicate events, and steps of curtin that have the same path as their parent step."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, ...], dict[str, int]] = {}
        """Event -> program -> number of times that the program has logged the event."""
        self._open: dict[str, str] = {}
        """Path of each running step -> its description."""
        self._inner: set[tuple[str, str]] = set()
        """Path and description of running steps whose parent step has the same path."""

    def is_new(self, program: str, event: re.Match[str]) -> bool:
        """Return True if this event starts or ends a step and is not a copy of an earlier event."""
        way, path, text = event["way"], event["path"], event["text"] or ""
        # In the journal of an installation, both curtin and subiquity log each event, in any order.
        seen = self._seen.setdefault((way, path, event["result"] or "", text), {})
        most = max(seen.values(), default=0)
        seen[program] = seen.get(program, 0) + 1
        if seen[program] <= most:
            return False
        if way == "start":
            if self._open.get(path, text) != text:
                self._inner.add((path, text))
                return False
            # Steps that an earlier run left open have ended: that run was killed.
            self._inner = {each for each in self._inner if not f"{each[0]}/".startswith(f"{path}/")}
            self._open = {each: own for each, own in self._open.items() if not each.startswith(f"{path}/")}
            self._open[path] = text
            return True
        if (path, text) in self._inner:
            self._inner.discard((path, text))
            return False
        self._open.pop(path, None)
        return True


def read_reported_events(lines: Iterable[InstallerLine]) -> Iterator[StepEvent]:
    """Read the log of cloud-init, curtin or subiquity.

    Each of cloud-init's four units is a service, and its modules are stages. For curtin and subiquity, the
    outermost step is a run, and the steps within it are stages.
    """
    failure = _HeldFailures()
    events = _EventFilter()
    banners = _BannerRun()
    for line in lines:
        match = re.search(_REPORTED, line.text)
        if match is None:
            if re.search(_QUOTED, line.text) is None:
                failure.read(line.text)
            yield from banners.read(line)
            continue
        banners.drop()
        if not events.is_new(line.program, match):
            continue
        if match["way"] == "start" or match["result"] != "FAIL":
            yield from failure.release()
        top, _, stage = match["path"].partition("/")
        stage = re.sub(_WRAPPED, r"\1", stage)
        service = _CLOUD_INIT_SERVICES.get(top) or ("subiquity" if top == "subiquity" else "curtin")
        if match["way"] == "start":
            if stage and match["path"] not in _WHOLE:
                yield StepEvent(service=service, phase=Phase.STAGE_START, name=stage, at=line.time)
            else:
                yield StepEvent(service=service, phase=Phase.SERVICE_START, at=line.time)
            continue
        result = FAILURE if match["result"] == "FAIL" else SUCCESS
        phase = Phase.STAGE_END if stage and match["path"] not in _WHOLE else Phase.SERVICE_END
        stage = stage if phase is Phase.STAGE_END else ""
        end = StepEvent(
            service=service,
            phase=phase,
            name=stage,
            at=line.time,
            result=result,
            message=match["text"] or None,
        )
        if result is FAILURE:
            failure.hold(end)
        else:
            yield msgspec.structs.replace(end, message=None)
    yield from failure.release()
    yield from banners.finish()


_BANNER: Final = (
    r"Cloud-init v\. \S+ (?:running '(?P<mode>[\w:-]+)'|finished) at"
    r" (?P<date>\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d \+0000)\..*\bUp (?P<uptime>\d{1,9}(?:\.\d+)?) seconds"
)
_MODES: Final = {
    "init-local": "cloud-init-local",
    "init": "cloud-init",
    "modules:config": "cloud-config",
    "modules:final": "cloud-final",
}
_MODULE_FAILED: Final = (
    r"(?:Running module |Failed to run module |Running )(?P<name>[\w-]+) \(.*\)(?: failed)?$"
)


class _BannerRun:
    """Reads the banners of a run without events: cloud-init's console output, and versions before 0.7.7.

    The run succeeded if the next one starts and no module has failed.
    """

    def __init__(self) -> None:
        self._service = ""
        self._events: list[StepEvent] = []
        self._has_failed = False
        self._unplaced: list[StepEvent] = []
        """Failed modules before the first banner. A log that is only an excerpt may lack the banner."""
        self._has_run = False

    def drop(self) -> None:
        """Forget the run, because it has events."""
        self._service, self._events, self._has_run = "", [], True

    def read(self, line: InstallerLine) -> Iterator[StepEvent]:
        """Read a line without an event. Yield the events of a run when the next run starts."""
        if (banner := re.search(_BANNER, line.text)) is not None:
            at = None
            with suppress(ValueError):  # a date that does not exist
                at = datetime.strptime(banner["date"], "%a, %d %b %Y %H:%M:%S %z")
            # Keep the uptime too, because many hosts set their clock between two of these lines.
            seconds = float(banner["uptime"])
            if self._service:
                result = FAILURE if self._has_failed else SUCCESS
                yield from self.finish()
                yield StepEvent(
                    service=self._service, phase=Phase.SERVICE_END, at=at, seconds=seconds, result=result
                )
            self._service, self._has_failed = _MODES.get(banner["mode"] or "", ""), False
            if self._service:
                start = StepEvent(service=self._service, phase=Phase.SERVICE_START, at=at, seconds=seconds)
                self._events = [start]
                self._has_run = True
            return
        failed = re.search(_MODULE_FAILED, line.text) if self._service or not self._has_run else None
        if failed is not None and ("[WARNING]" in line.text or "[ERROR]" in line.text):
            self._has_failed = True
            service = self._service or "cloud-init"
            start = StepEvent(service=service, phase=Phase.STAGE_START, name=f"config-{failed['name']}")
            message = line.text.partition("]: ")[2] or line.text
            end = msgspec.structs.replace(start, phase=Phase.STAGE_END, result=FAILURE, message=message)
            (self._events if self._service else self._unplaced).extend((start, end))

    def finish(self) -> Iterator[StepEvent]:
        """Yield the known events of an unfinished run, or the failed modules in an excerpt of a log."""
        yield from self._events
        if self._unplaced and not self._has_run:
            yield StepEvent(service="cloud-init", phase=Phase.SERVICE_START)
            yield from self._unplaced
            yield msgspec.structs.replace(
                self._unplaced[-1], phase=Phase.SERVICE_END, name="", result=FAILURE
            )
        self._events, self._unplaced = [], []


class _StatusStage(msgspec.Struct):
    """A stage in cloud-init's status.json. Times are seconds since 1970."""

    start: float | None = None
    finished: float | None = None
    errors: tuple[str, ...] = ()


_STATUS_STAGES: Final = {**_CLOUD_INIT_SERVICES, "init": "cloud-init"}


def read_cloud_init_status(document: bytes) -> Iterator[StepEvent]:
    """Read cloud-init's status.json, which has the times of each unit and the errors of its modules."""
    try:
        stages = msgspec.json.decode(document, type=dict[str, dict[str, object]]).get("v1", {})
    except msgspec.DecodeError:
        return
    for name, value in stages.items():
        try:
            stage = msgspec.convert(value, _StatusStage)
        except msgspec.ValidationError:
            continue
        service = _STATUS_STAGES.get(name)
        began, ended = _convert_seconds(stage.start), _convert_seconds(stage.finished)
        if service is None or began is None:
            continue
        yield StepEvent(service=service, phase=Phase.SERVICE_START, at=began)
        if stage.finished:
            yield StepEvent(
                service=service,
                phase=Phase.SERVICE_END,
                at=ended,
                result=FAILURE if stage.errors else SUCCESS,
                message="\n".join(stage.errors[-_MESSAGE_LINES:]) or None,
            )


def _convert_seconds(seconds: float | None) -> datetime | None:
    """Return the time for seconds since 1970; None if it is missing, 0 or out of range."""
    try:
        return datetime.fromtimestamp(seconds, UTC) if seconds else None
    except (ValueError, OverflowError, OSError):
        return None


CLOUD_INIT_RESULT: Final = "cloud-init-result"
"""Service name for result.json, which does not name the unit in which a module failed."""


def read_cloud_init_result(document: bytes) -> Iterator[StepEvent]:
    """Read cloud-init's result.json. cloud-init writes it at the end, with the errors of all modules."""
    try:
        result = msgspec.json.decode(document, type=dict[str, _StatusStage]).get("v1")
    except msgspec.DecodeError:
        return
    if result is not None:
        yield StepEvent(
            service=CLOUD_INIT_RESULT,
            phase=Phase.SERVICE_END,
            result=FAILURE if result.errors else SUCCESS,
            message="\n".join(result.errors[-_MESSAGE_LINES:]) or None,
        )


_SELECTED: Final = r"Menu item '(?P<item>[\w.-]+)' selected"
_ITEM_FAILED: Final = (
    r"(?:Configuring '(?P<item>[\w.-]+)' failed with error code (?P<code>\d+)"
    r"|Menu item '(?P<failed>[\w.-]+)' failed)"
)


_LOG_SAVED: Final = r"\bRunning /usr/lib/finish-install\.d/\d+save-logs$"
"""The last line in the new system's copy of the log. Only the unmounting and the reboot follow."""


def read_debian_installer(lines: Iterable[InstallerLine]) -> Iterator[StepEvent]:
    """Read the syslog of debian-installer. The items of its main menu become stages."""
    service, item = "debian-installer", ""
    end: StepEvent | None = None
    for line in lines:
        if (selected := re.search(_SELECTED, line.text)) is not None:
            if item:
                yield StepEvent(
                    service=service, phase=Phase.STAGE_END, name=item, at=line.time, result=SUCCESS
                )
            item, end = selected["item"], None
            yield StepEvent(service=service, phase=Phase.STAGE_START, name=item, at=line.time)
            continue
        failed = re.search(_ITEM_FAILED, line.text)
        if failed is not None and item == (failed["item"] or failed["failed"]):
            end = StepEvent(
                service=service,
                phase=Phase.SERVICE_END,
                at=line.time,
                result=FAILURE,
                message=line.text.strip(),
            )
            yield msgspec.structs.replace(end, phase=Phase.STAGE_END, name=item)
            item = ""
        elif item == "finish-install" and re.search(_LOG_SAVED, line.text) is not None:
            end = StepEvent(service=service, phase=Phase.SERVICE_END, at=line.time, result=SUCCESS)
            yield msgspec.structs.replace(end, phase=Phase.STAGE_END, name=item)
            item = ""
    if end is not None:  # no other item was selected after it
        yield end


_THREAD: Final = r"\b(?P<what>Running Thread|Thread Done|Thread Failed): (?P<name>[\w-]+)"
_TASK: Final = r"\binstallation: Task (?P<what>started|completed): (?P<name>.+?) \(\d+/\d+\)"
_SCRIPT_FAILED: Final = (
    r"(?P<message>Error code \S+ (?:running|encountered running) (?:the|a) (?:kickstart|%\w+) script.*)"
)
_STARTS: Final = frozenset({"Running Thread", "started"})
_CLOCK: Final = r"(?P<hours>\d\d):(?P<minutes>\d\d):(?P<seconds>\d\d),(?P<milliseconds>\d{3}) (?P<text>.*)"
_DAY_SECONDS: Final = 86_400


class _Clock:
    """Reads the times of Anaconda's logs, which have no date."""

    def __init__(self) -> None:
        self._first: float | None = None
        self._days = 0
        self._latest = 0.0
        self.seconds: float | None = None
        """Seconds since the first line. Never decreases: installers correct the clock of a host."""

    def read(self, text: str) -> str:
        """Read the time at the start of a line, and return the rest of the line."""
        match = re.match(_CLOCK, text)
        if match is None:
            return text
        hours, minutes, seconds = int(match["hours"]), int(match["minutes"]), int(match["seconds"])
        now = hours * 3600 + minutes * 60 + seconds + int(match["milliseconds"]) / 1000
        if now < self._latest - _DAY_SECONDS / 2:  # past midnight
            self._days += 1
        self._latest = now
        self._first = now if self._first is None else self._first
        self.seconds = max(round(now + self._days * _DAY_SECONDS - self._first, 3), self.seconds or 0.0)
        return match["text"]


_ANACONDA_SUCCEEDED: Final = (
    r"\bInstallation successfully finished\b|\bThread Done: AnaConfigurationThread\b"
    # Only setting the file contexts follows it, so the copy in the installed system ends here.
    r"|\bCopying logs from the installation environment\b|\bTask started: Copy installation logs\b"
)
_POST_SCRIPTS: Final = r"\bRunning kickstart %%post script\(s\)$"
"""The last line of anaconda.log in a system that versions before 34 installed: the last script copies it."""
_MAIN_THREAD: Final = r"Ana(?:Install|Configuration)Thread$|AnaTaskThread-RunInstallationTask-"
"""Threads whose failure ends the installation."""


def read_anaconda(
    lines: Iterable[InstallerLine], *, is_installed: bool = False, is_live: bool = False
) -> Iterator[StepEvent]:
    """Read anaconda.log. Anaconda's threads and tasks become stages.

    A log without an end was copied before the installation ended, so the result is unknown. In an installed
    system (`is_installed`), the last script made the copy, so the installation succeeded. A journal may be
    read during the installation (`is_live`), so the run may still be open.
    """
    service, failure, clock = "anaconda", _HeldFailures(), _Clock()
    has_succeeded = has_failed = is_begun = False
    last = ""
    for line in lines:
        text = clock.read(line.text)
        last = text.strip() or last
        has_succeeded = has_succeeded or re.search(_ANACONDA_SUCCEEDED, text) is not None
        match = re.search(_THREAD, text) or re.search(_TASK, text)
        failed = re.search(_SCRIPT_FAILED, text)
        if match is None and failed is None:
            failure.read(text)
            continue
        yield from failure.release()
        is_begun = True
        name = match["name"] if match is not None else "kickstart script"
        step = StepEvent(service=service, phase=Phase.STAGE_START, name=name, seconds=clock.seconds)
        end = msgspec.structs.replace(step, phase=Phase.STAGE_END, result=SUCCESS)
        if failed is not None:
            yield step
            yield msgspec.structs.replace(end, result=FAILURE, message=failed["message"])
        elif match is not None and match["what"] in _STARTS:
            yield step
        elif match is not None and match["what"] == "Thread Failed":
            failure.hold(msgspec.structs.replace(end, result=FAILURE))
            has_failed = has_failed or re.match(_MAIN_THREAD, name) is not None
        else:
            yield end
    if is_begun and (has_succeeded or has_failed or not is_live):
        has_succeeded = has_succeeded or (is_installed and re.search(_POST_SCRIPTS, last) is not None)
        known = FAILURE if has_failed else SUCCESS if has_succeeded else None
        over = StepEvent(service=service, phase=Phase.SERVICE_END, seconds=clock.seconds, result=known)
        if known is FAILURE:
            failure.hold(over)
            yield from failure.release()
        else:
            yield from failure.release()
            yield over
    else:
        yield from failure.release()


_PROGRAM: Final = r"\w+ program: Running(?: in chroot '\S+')?\.\.\. (?P<command>.+)"
_RETURN: Final = r"\w+ program: Return code: (?P<code>-?\d+)"
_KICKSTART_SCRIPT: Final = "/ks-script-"
_DAEMONS: Final = r"(?:\S*/)?(?:auditd|Xorg|Xvnc|metacity|gnome-kiosk|dbus-daemon)\b"
"""Daemons, which Anaconda starts and does not wait for."""
_MAX_COMMAND_CHARACTERS: Final = 80


def read_anaconda_programs(lines: Iterable[InstallerLine]) -> Iterator[StepEvent]:
    """Read Anaconda's program.log. Kickstart scripts and failed programs become stages.

    Threads run programs at the same time, and the log does not show which program a return code belongs to.
    So a return code is used only while a single program runs.
    """
    clock = _Clock()
    running: list[StepEvent] = []
    output: list[str] = []
    has_stages = False
    for line in lines:
        text = clock.read(line.text)
        if (begun := re.match(_PROGRAM, text)) is not None:
            name = begun["command"][:_MAX_COMMAND_CHARACTERS]
            if re.match(_DAEMONS, name) is not None:
                continue
            running.append(
                StepEvent(
                    service="anaconda-program", phase=Phase.STAGE_START, name=name, seconds=clock.seconds
                )
            )
            output = []
        elif (ended := re.match(_RETURN, text)) is not None:
            alone, running = running if len(running) == 1 else [], running[1:]
            for start in alone:
                if ended["code"] == "0" and _KICKSTART_SCRIPT not in start.name:
                    continue
                has_stages = True
                yield start
                is_failure = ended["code"] != "0"
                message = "\n".join([*output, f"Return code: {ended['code']}"])
                yield msgspec.structs.replace(
                    start,
                    phase=Phase.STAGE_END,
                    seconds=clock.seconds,
                    result=FAILURE if is_failure else SUCCESS,
                    message=message if is_failure else None,
                )
        else:
            output = [*output[1 - _MESSAGE_LINES :], re.sub(r"^\w+ program: ", "", text)]
    if len(running) == 1:
        has_stages = True
        yield running[0]
    if has_stages:
        # The log does not say when the installation is over.
        yield StepEvent(service="anaconda-program", phase=Phase.SERVICE_END, seconds=clock.seconds)


_PACKAGE_STAGES: Final = (
    ("metadata", r"gathering repo metadata|setting DNF platform id|checking software selection"),
    ("install", r"(?:Installing|Installed:|Upgraded:|Configuring \(running) "),
    ("verify", r"Verifying:? "),
)
_PACKAGES_DONE: Final = (
    r"recreating initrd|The downloaded packages were saved in cache|All done|end rpm scriptlet logs"
)


def read_anaconda_packaging(lines: Iterable[InstallerLine]) -> Iterator[StepEvent]:
    """Read Anaconda's packaging.log. Its stages are the metadata, installation and verification of packages.

    Some errors are harmless. An error counts only if no package is installed after it.
    """
    service, clock, stage = "anaconda-packaging", _Clock(), -1
    errors: list[str] = []
    is_done = False
    for line in lines:
        text = clock.read(line.text)
        if re.match(r"(?:ERR|ERROR|CRT|CRITICAL) (?:packaging|dnf)\b", text):
            errors = [*errors[1 - _MESSAGE_LINES :], text.partition(": ")[2]]
            continue
        is_done = is_done or re.search(_PACKAGES_DONE, text) is not None
        found = next((n for n, (_, pattern) in enumerate(_PACKAGE_STAGES) if re.search(pattern, text)), -1)
        if found < 0:
            continue
        errors = []
        if found > stage:
            if stage >= 0:
                yield StepEvent(
                    service=service,
                    phase=Phase.STAGE_END,
                    name=_PACKAGE_STAGES[stage][0],
                    seconds=clock.seconds,
                    result=SUCCESS,
                )
            stage = found
            name = _PACKAGE_STAGES[stage][0]
            yield StepEvent(service=service, phase=Phase.STAGE_START, name=name, seconds=clock.seconds)
    if stage >= 0:
        result = SUCCESS if is_done else FAILURE if errors else None
        end = StepEvent(
            service=service,
            phase=Phase.STAGE_END,
            name=_PACKAGE_STAGES[stage][0],
            seconds=clock.seconds,
            result=result,
            message=None if is_done else "\n".join(errors) or None,
        )
        yield end
        yield msgspec.structs.replace(end, phase=Phase.SERVICE_END, name="")


_IGNITION_STAGES: Final = r"(?:fetch-offline|fetch|kargs|disks|mount|files|umount)"


def read_ignition(lines: Iterable[InstallerLine]) -> Iterator[StepEvent]:
    """Read the log of Ignition. All its stages belong to one run."""
    service, stage = "ignition", ""
    errors: list[str] = []
    for line in lines:
        if line.program != "ignition" and " ignition[" not in line.text:
            continue
        text = re.sub(r"^.*? ignition\[\d+\]: ", "", line.text).strip()
        if (begun := re.match(rf"Stage: ({_IGNITION_STAGES})$", text)) is not None:
            if stage:  # the line about the end of this stage is missing
                yield StepEvent(service=service, phase=Phase.STAGE_END, name=stage, at=line.time)
            stage, errors = begun[1], []
            yield StepEvent(service=service, phase=Phase.STAGE_START, name=stage, at=line.time)
        elif "Ignition failed: " in text or "Ignition finished successfully" in text:
            if not stage:
                continue
            result = FAILURE if "failed" in text else SUCCESS
            message = "\n".join([*errors, text][-_MESSAGE_LINES:]) if result is FAILURE else None
            yield StepEvent(
                service=service,
                phase=Phase.STAGE_END,
                name=stage,
                at=line.time,
                result=result,
                message=message,
            )
            if result is FAILURE:
                yield StepEvent(
                    service=service, phase=Phase.SERVICE_END, at=line.time, result=FAILURE, message=message
                )
            elif stage == "files":
                yield StepEvent(service=service, phase=Phase.SERVICE_END, at=line.time, result=SUCCESS)
            stage = ""
        elif re.search(r"\b(?:failed|error|CRITICAL|couldn't)\b", text):
            errors.append(text)


_KUBEADM_PHASE: Final = r"^(?:\S+ +)?\[(?P<phase>[a-z][a-z0-9-]+)\] "
_KUBEADM_ERROR: Final = (
    r"(?m)error execution phase (?P<phase>[\w/-]+): ?"
    r"|^\[preflight\] Some fatal errors occurred:"  # versions before 1.13
)
_KUBEADM_CHECK: Final = r"\s+\[ERROR [\w-]+\]: "
_KUBEADM_HINT: Final = (
    r"^\[kubelet-check\] .*(?:isn't running|not healthy|failed with error|timed out|connection refused)"
)
_KUBEADM_BEGINS: Final = r"\[init\] Using Kubernetes version|\[preflight\] Running pre-flight checks"
_KUBEADM_DONE: Final = (
    r"control-plane has initialized successfully|This node has joined the cluster|initialized successfully!"
)
_KUBEADM_PHASES: Final = frozenset(
    {
        *("preflight", "certs", "kubeconfig", "kubelet-start", "control-plane", "etcd", "wait-control-plane"),
        *(
            "upload-config",
            "upload-certs",
            "mark-control-plane",
            "bootstrap-token",
            "kubelet-finalize",
            "addons",
        ),
        *("control-plane-prepare", "control-plane-join", "kubelet-check", "apiclient", "discovery", "init"),
    }
)


def _join_failures(lines: Iterable[InstallerLine]) -> Iterator[InstallerLine]:
    """Join the line of an error with the lines that explain it, and drop the advice that follows."""
    hints: list[str] = []
    error: InstallerLine | None = None
    is_over = False
    for line in lines:
        if error is not None and re.match(_KUBEADM_CHECK, line.text) is not None:
            error = msgspec.structs.replace(error, text=f"{error.text}\n{line.text.strip()}")
            continue
        if error is not None:
            yield error
            error, is_over = None, True
        # Lines of advice also begin with the name of a phase. Only another start begins another run.
        is_over = is_over and re.search(_KUBEADM_BEGINS, line.text) is None
        if is_over:
            continue
        if re.search(_KUBEADM_HINT, line.text) is not None:
            hints = [*hints[2 - _MESSAGE_LINES :], line.text.strip()]
        if re.search(_KUBEADM_ERROR, line.text) is not None:
            error = msgspec.structs.replace(line, text="\n".join([*hints, line.text]))
            hints = []
        else:
            yield line
    if error is not None:
        yield error


def read_kubeadm(lines: Iterable[InstallerLine]) -> Iterator[StepEvent]:
    """Read the output of `kubeadm init` or `kubeadm join`. Its phases become stages, mostly without times."""
    service, phase = "kubeadm", ""
    for line in _join_failures(lines):
        if (error := re.search(_KUBEADM_ERROR, line.text)) is not None:
            name = (error["phase"] or "preflight").partition("/")[0]
            if phase and phase != name:
                yield StepEvent(
                    service=service, phase=Phase.STAGE_END, name=phase, at=line.time, result=SUCCESS
                )
            if phase != name:
                yield StepEvent(service=service, phase=Phase.STAGE_START, name=name, at=line.time)
            for kind, own in ((Phase.STAGE_END, name), (Phase.SERVICE_END, "")):
                yield StepEvent(
                    service=service,
                    phase=kind,
                    name=own,
                    at=line.time,
                    result=FAILURE,
                    message=line.text.strip(),
                )
            phase = ""
            continue
        is_done = re.search(_KUBEADM_DONE, line.text) is not None
        match = re.match(_KUBEADM_PHASE, line.text)
        name = match["phase"] if match is not None and match["phase"] in _KUBEADM_PHASES else ""
        if name in {"kubelet-check", "apiclient"}:
            name = "wait-control-plane"
        if not is_done and (not name or name == phase):
            continue
        if phase:
            yield StepEvent(service=service, phase=Phase.STAGE_END, name=phase, at=line.time, result=SUCCESS)
        if is_done and (phase or not name):
            yield StepEvent(service=service, phase=Phase.SERVICE_END, at=line.time, result=SUCCESS)
            phase = ""
            continue
        phase = name
        yield StepEvent(service=service, phase=Phase.STAGE_START, name=phase, at=line.time)


JOURNAL_PROGRAMS: Final = r"(?:subiquity_|curtin_|cloud-init|anaconda)[\w.-]*"
"""Programs of installers that also log their steps to the journal."""


def read_journal_lines(lines: Sequence[InstallerLine]) -> dict[str, list[Entry]]:
    """Return the entries by service from the lines that installers logged to a journal."""
    anaconda = [line for line in lines if line.program.startswith("anaconda")]
    others = [line for line in lines if not line.program.startswith("anaconda")]
    return entries("subiquity", read_reported_events(others)) | entries(
        "anaconda", read_anaconda(anaconda, is_live=True)
    )


class InstallerLog(msgspec.Struct, frozen=True):
    """A kind of log, with its adapter. A file is recognized by its path or by its first lines."""

    name: str
    path: str
    """Regular expression for the path."""
    head: str
    """Regular expression for the first lines of a file with any other path."""
    read: Adapter
    reads_journals: bool = False
    """True if the lines of this log look like the lines of a journal."""


INSTALLERS: Final = (
    InstallerLog(
        "cloud-init",
        r"(?:^|/)cloud-init[^/]*\.log[^/]*$",
        r"\[DEBUG\]: start: init-(?:local|network)|Cloud-init v\. \S+ running '"
        r"|(?:^|\n)(?:[^\n]{0,60} )?(?:util|subp|stages|handlers|cc_\w+)\.py\[[A-Z]+\]: ",
        read_reported_events,
    ),
    InstallerLog(
        "subiquity",
        r"(?:^|/)(?:subiquity|curtin)[^/]*\.log[^/]*$",
        r"(?:^|[\s:])start: (?:subiquity/|cmd-install)",
        read_reported_events,
    ),
    InstallerLog(
        "debian-installer",
        r"(?:^|/)installer/syslog$",
        r"main-menu(?:\[\d+\])?: .*Menu item '|klogd started: BusyBox v\S+ \((?:Debian|Ubuntu) ",
        read_debian_installer,
        reads_journals=True,
    ),
    InstallerLog(
        "anaconda",
        r"(?:^|/)var/log/anaconda/anaconda\.log$",
        r"(?!)",
        partial(read_anaconda, is_installed=True),
    ),
    InstallerLog("anaconda", r"(?:^|/)anaconda\.log$", r"INFO? \w+: Running Thread: Ana", read_anaconda),
    InstallerLog(
        "anaconda",
        r"(?:^|/)packaging\.log$",
        r"(?m)^[\d:,]+ (?:INFO?|DBG|DEBUG) packaging: ",
        read_anaconda_packaging,
    ),
    InstallerLog(
        "anaconda",
        r"(?:^|/)program\.log$",
        r"(?m)^[\d:,]+ INFO? program: Running\.\.\. ",
        read_anaconda_programs,
    ),
    InstallerLog("ignition", r"(?:^|/)ignition[^/]*\.log[^/]*$", r"ignition\[\d+\]: Stage: ", read_ignition),
    InstallerLog(
        "kubeadm",
        r"(?:^|/)kubeadm[^/]*\.(?:log|txt)$",
        r"(?m)^\[(?:init\] Using Kubernetes version|preflight\] Running pre-flight checks)",
        read_kubeadm,
    ),
)


def find_installer(path: str, head: str) -> InstallerLog | None:
    """Return the kind of an installer log; None for any other file."""
    by_path = (one for one in INSTALLERS if re.search(one.path, path))
    by_head = (one for one in INSTALLERS if re.search(one.head, head))
    return next(by_path, None) or next(by_head, None)


def end_with_anaconda(records: dict[str, Sequence[Entry]]) -> None:
    """Set the unknown results of Anaconda's other logs to success if the installation succeeded."""
    end = next(iter(records.get("anaconda", ())[-1:]), None)
    if end is None or end.phase is not Phase.SERVICE_END or end.result is not SUCCESS:
        return
    for service in ("anaconda-packaging", "anaconda-program"):
        entries = records.get(service, ())
        if entries and entries[-1].phase is Phase.SERVICE_END and entries[-1].result is None:
            records[service] = [*entries[:-1], msgspec.structs.replace(entries[-1], result=SUCCESS)]


_TOLERANCE: Final = timedelta(seconds=1)
"""Tolerance between the times of a unit's own log and those of the journal."""


def insert_stages(runs: Sequence[Entry], steps: Iterable[Entry]) -> list[Entry] | None:
    """Return the runs of a unit from a journal, with the stages from the unit's own log inserted.

    Returns None if a stage has no time, or is not within any run.
    """
    found = list(runs)
    for step in steps:
        if step.phase is Phase.SERVICE_START:
            continue
        place = _find_insert_position(found, step)
        if place is None:
            return None
        if step.phase is Phase.SERVICE_END:
            end = found[place] if place < len(found) else None  # None if the run has no end in the journal
            if end is not None and end.result is FAILURE and not end.error_message:
                why = {"error_message": step.error_message, "error_line": step.error_line}
                found[place] = msgspec.structs.replace(end, **why)
            continue
        around = found[place - 1]
        own = {"boot_id": around.boot_id, "invocation_id": around.invocation_id, "recorder": None}
        found.insert(place, msgspec.structs.replace(step, **own))
    return found


def _find_insert_position(entries: Sequence[Entry], step: Entry) -> int | None:
    """Return the index at which to insert a stage's entry: before the end of the run around its time."""
    if step.time is None:
        return None
    place = None
    for number, entry in enumerate(entries):
        if entry.time is None:
            continue
        if entry.phase is Phase.SERVICE_START and entry.time <= step.time + _TOLERANCE:
            place = number + 1
        elif place is not None and entry.phase is Phase.SERVICE_END:
            if step.time <= entry.time + _TOLERANCE:
                return number
            place = None
    return None if place is None else len(entries)
