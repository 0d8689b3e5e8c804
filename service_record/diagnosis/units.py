"""The state of systemd units, from `systemctl show`, the files of a bundle, and systemd's log. Pure.

`Unit` combines three sources. `systemctl show` has the present state of a loaded unit. systemd unloads a unit
that is neither active nor failed, and forgets why it did not start: only the journal still has the reason. A
bundle has the journal and a list of the failed units.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import replace

from service_record.diagnosis.evidence.log_lines import LogLine
from service_record.history.outcome import NOTHING, Facts
from service_record.history.unit_events import UNIT, UnitEvent, read_event

PROPERTIES: Final = (
    *("Id", "Names", "LoadState", "ActiveState", "SubState", "Result", "NRestarts", "Job"),
    *("ConditionResult", "ConditionTimestampMonotonic", "AssertResult", "AssertTimestampMonotonic"),
    *("InactiveExitTimestampMonotonic", "StateChangeTimestampMonotonic", "SuccessExitStatus"),
    *("Requires", "Requisite", "BindsTo", "RequiredBy", "RequisiteOf", "BoundBy"),
    *("ExecCondition", "ExecStartPre", "ExecStart", "ExecStartPost", "ExecReload", "ExecStop"),
    *("ExecStopPost", "ExecMount", "ExecUnmount", "ExecActivate", "ExecDeactivate"),
)
"""The properties to query; see systemd.directives(7), org.freedesktop.systemd1(5). No unit has all of
them."""
LISTING: Final = "failed-units.txt"
"""The file of a bundle that lists the failed units: `systemctl list-units --state=failed`."""
_LISTINGS: Final = (LISTING, "systemctl_list-units_--failed")
"""Names of this file in our bundles and in sos reports."""
PROPERTY_TEXT: Final = "unit-properties.txt"
"""The file of our bundles with the result of `properties_text`."""
STATUSES: Final = "unit-status/"
"""The directory of a bundle with `systemctl status` of each failed unit, as UNIT.txt."""
START_LIMIT: Final = "start-limit-hit"
"""systemd's result for a unit that it refused to start again."""

_SERVICE: Final = ".service"
OTHER_SUFFIXES: Final = (
    *(".socket", ".target", ".device", ".mount", ".automount"),
    *(".swap", ".timer", ".path", ".slice", ".scope"),
)
"""Suffixes of units that are not services."""


def unit_name(label: str) -> str:
    """Return the name of the unit with this label: `kubelet.service`, `data.mount`."""
    return label if label.endswith(OTHER_SUFFIXES) else f"{label}.service"


_BLOCKS: Final = rf"\n\n(?=(?:{'|'.join(PROPERTIES)})=)"
_EXEC: Final = (
    r"\{ path=(?P<path>.*?) ; argv\[\]=.* ; ignore_errors=no ;.*"
    r" ; code=(?P<code>exited|killed|dumped) ; status=(?P<number>\d{1,9})(?:/(?P<name>\w+))? \}"
)
_ACTIVE: Final = r"(?m)^ *Active: failed \(Result: ([a-z-]+)\)"
_PROCESS: Final = (
    r"(?m)^ *Process: \d+ (?P<kind>Exec\w+)=(?P<path>\S+).*\(code=(?P<code>exited|killed|dumped),"
    r" (?:status=(?P<number>\d{1,9})(?:/\w+)?|signal=(?P<name>\w+))\)$"
)
_CODES: Final = {"exit-code": "exited", "signal": "killed", "core-dump": "dumped"}
"""$SERVICE_RESULT, see systemd.exec(5) -> the `code=` of the command that caused it."""


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
_STOPS_DEPENDENTS: Final = FAULTS | {Hindrance.ABSENT, Hindrance.MASKED}
"""Hindrances that also prevent units from starting that require this one. A condition does not."""


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


class Unit(msgspec.Struct, frozen=True, kw_only=True):
    """A unit as systemd describes it."""

    name: str
    """The name with its suffix: `bootkube.service`."""
    aliases: frozenset[str] = frozenset()
    """All its names."""
    load_state: str = ""
    """`loaded`, `not-found`, `masked`, `bad-setting` or `error`; empty if systemd was not queried."""
    is_active: bool = False
    """True if it is running, starting or stopping."""
    is_failed: bool = False
    """True if it is in the failed state, or failed and waits for its automatic restart."""
    restarts: int = 0
    """The number of automatic restarts since the last manual start."""
    facts: Facts = NOTHING
    """The facts of its failure: systemd's result, and exit status or signal of the command that failed."""
    command: str | None = None
    """The command that failed, if certain: `ExecStartPre=/usr/bin/mount`."""
    since: datetime | None = None
    """The time of its last change of state."""
    has_unmet_condition: bool = False
    has_unmet_assertion: bool = False
    is_queued: bool = False
    """True if systemd has an unfinished job for it."""
    has_started: bool = False
    """True if systemd has started it in this boot. An unloaded unit loses this information."""
    requires: frozenset[str] = frozenset()
    """Units without which it does not start."""
    bound_to: frozenset[str] = frozenset()
    """Units whose end also stops this one: BindsTo=."""
    required_by: tuple[str, ...] = ()
    """Services that do not start without it."""
    assertions: tuple[str, ...] = ()
    """The `Assert…=` settings of its unit file, if the file was read."""
    log: UnitLog = NOT_LOGGED

    @property
    def service(self) -> str | None:
        """Return the service name in records; None for another kind of unit."""
        return self.name.removesuffix(_SERVICE) if self.name.endswith(_SERVICE) else None

    @property
    def label(self) -> str:
        """Return the name by which people and lines of logs are matched: `kubelet`, `data.mount`."""
        return self.name.removesuffix(_SERVICE)

    @property
    def services(self) -> frozenset[str]:
        """Return all possible service names in records, including aliases."""
        names = {self.name, *self.aliases}
        return frozenset(name.removesuffix(_SERVICE) for name in names if name.endswith(_SERVICE))

    @property
    def is_absent(self) -> bool:
        """Return True if the host has no such unit."""
        return self.load_state == "not-found"

    @property
    def has_hit_start_limit(self) -> bool:
        """Return True if systemd refuses to start it again.

        systemd's result shows this only if the limit stopped a manual start. If it stopped an automatic
        restart, the result is still that of the last run, and only the log has the refusal.
        """
        return self.facts.service_result == START_LIMIT or (self.is_failed and self.log.has_hit_start_limit)

    @property
    def detail(self) -> str:
        """Return the setting or the reason behind `hindrance`; empty if unknown."""
        if self.log.hindrance is self.hindrance and self.log.detail:
            return self.log.detail
        if self.hindrance is Hindrance.ASSERTION:
            # systemd does not log which of several assertions failed.
            return ("one of " if len(self.assertions) > 1 else "") + ", ".join(self.assertions)
        return ""

    @property
    def is_asserted(self) -> bool:
        """Return True if an assertion in its unit file prevented the start."""
        return self.hindrance is Hindrance.ASSERTION

    @property
    def hindrance(self) -> Hindrance | None:
        """Return why systemd has not started it; None if it has, or if no reason is known."""
        if self.is_failed or self.is_active:
            return None
        by_load_state = {
            "not-found": Hindrance.ABSENT,
            "masked": Hindrance.MASKED,
            "bad-setting": Hindrance.UNLOADABLE,
            "error": Hindrance.UNLOADABLE,
        }
        if self.load_state in by_load_state:
            return by_load_state[self.load_state]
        # The unit file may have been corrected after systemd rejected it.
        if self.log.hindrance is not None and not (
            self.log.hindrance is Hindrance.UNLOADABLE and self.load_state == "loaded"
        ):
            return self.log.hindrance
        if self.has_unmet_condition:
            return Hindrance.CONDITION
        if self.has_unmet_assertion:
            return Hindrance.ASSERTION
        return Hindrance.QUEUED if self.is_queued else None


def find_unit(units: Iterable[Unit], service: str) -> Unit | None:
    """Return the unit of a service, by any of its names."""
    return next((unit for unit in units if service in unit.services), None)


def chain_to_root(unit: Unit, units: Mapping[str, Unit]) -> tuple[Unit, ...]:
    """Return the required unit that prevents a start, the unit that prevents that one, and so on to the root.

    Empty if no required unit is known to have failed.
    """
    chain: list[Unit] = []
    seen = {unit.name}
    while True:
        required = [units[name] for name in sorted(unit.requires) if name in units and name not in seen]
        failed = [one for one in required if one.is_failed]
        hindered = [one for one in required if one.hindrance in _STOPS_DEPENDENTS]
        if not failed and not hindered:
            return tuple(chain)
        unit = (failed or hindered)[0]
        seen.add(unit.name)
        chain.append(unit)
        if unit.is_failed:
            return tuple(chain)


def with_logs(
    units: Iterable[Unit],
    logs: Mapping[str, UnitLog],
    named: Iterable[str] = (),
    *,
    adds_failed: bool = False,
) -> tuple[Unit, ...]:
    """Add systemd's log to units, and add units that only the log has.

    Two kinds of units are added: those that did not start because of a fault, and the services in `named`.
    `adds_failed` also adds units whose last logged state is a failure. Use it if there is no list of the
    failed units.
    """
    known = {unit.name: unit for unit in units}
    if adds_failed:
        logs = {name: log for name, log in logs.items() if not _is_optional(name, logs)}
    for name, unit in known.items():
        if name in logs:
            known[name] = replace(unit, log=logs[name])
    asked = {f"{service}{_SERVICE}" for service in named}
    for name, log in logs.items():
        if name in known:
            continue
        if name in asked or (adds_failed and log.result is not None):
            facts = Facts(exit_code=log.exit_code, signal=log.signal, service_result=log.result)
            is_failed = log.result is not None
            known[name] = Unit(
                name=name, is_failed=is_failed, facts=facts, log=log, since=log.time, restarts=log.restarts
            )
        elif log.hindrance in FAULTS:
            known[name] = Unit(name=name, log=log)
    return tuple(known.values())


_OFTEN_FAILS: Final = (
    r"(?:mcelog|(?:systemd-networkd|NetworkManager)-wait-online|plymouth-\S*|apt-daily\S*|fwupd\S*|kdump|motd-news"
    r"|man-db|dev-hugepages|systemd-udev-settle|snapd\.\S*)\.(?:service|mount)"
)
"""Units that often fail on healthy hosts. By themselves they do not make a host failed."""


def often_fails(unit: str) -> bool:
    """Return True if a unit is known to fail on many healthy hosts."""
    return re.fullmatch(_OFTEN_FAILS, unit) is not None


def _is_optional(name: str, logs: Mapping[str, UnitLog]) -> bool:
    """Return True if, according to the journal, the host works without a unit.

    A device that did not appear, and a mount that needs it, are optional (nofail) if no service or target
    failed because of a dependency.
    """
    if often_fails(name):
        return True
    log = logs[name]
    if log.hindrance not in {Hindrance.TIMED_OUT, Hindrance.DEPENDENCY} or name.endswith(
        (_SERVICE, ".target")
    ):
        return False
    return not any(
        other.hindrance is Hindrance.DEPENDENCY and unit.endswith((_SERVICE, ".target"))
        for unit, other in logs.items()
    )


def read_properties(text: str, booted: float) -> tuple[Unit, ...]:
    """Parse the output of `systemctl show` with PROPERTIES. Each unit is returned once.

    `booted` is the Unix time of systemd's monotonic zero.
    """
    units: dict[str, Unit] = {}
    for block in re.split(_BLOCKS, text.strip("\n")):
        values: dict[str, list[str]] = {}
        for line in block.splitlines():
            name, _, value = line.partition("=")
            values.setdefault(name, []).append(value)
        unit = _parse_unit(values, booted)
        if unit is not None:
            units.setdefault(unit.name, unit)
    return tuple(units.values())


_ASSERTION: Final = r"(?m)^(Assert\w+) *= *(.*)$"


def read_assertions(unit_file: str) -> tuple[str, ...]:
    """Return the assertions in a unit file and its drop-ins, as `systemctl cat` prints them."""
    found: list[str] = []
    for name, value in re.findall(_ASSERTION, unit_file):
        if value.strip():
            found.append(f"{name}={value.strip()}")
        else:  # an empty value removes all earlier ones, systemd.unit(5)
            found.clear()
    return tuple(found)


def read_texts(texts: Mapping[str, str]) -> tuple[Unit, ...]:
    """Parse the units in the files of a bundle (path -> text). PROPERTY_TEXT takes precedence."""
    units: dict[str, Unit] = {}
    for path, text in texts.items():
        if path.endswith(PROPERTY_TEXT):
            units |= {unit.name: unit for unit in _read_properties_text(text)}
    for path, listing in texts.items():
        if not path.endswith(_LISTINGS):
            continue
        for _, name in failed_units(listing):
            status = texts.get(f"{path.removesuffix(LISTING)}{STATUSES}{name}.txt", "")
            units.setdefault(name, _read_status(name, status))
    return tuple(units.values())


_BOOTED_MARK: Final = "# booted="
_ASSERTION_MARK: Final = "# assertion of "
MAX_UNIT_FILES: Final = 20
"""The most unit files that are read for their assertions."""


def properties_text(
    shown: Iterable[str], booted: float, assertions: Mapping[str, Sequence[str]] | None = None
) -> str:
    """Join outputs of `systemctl show` into the text of PROPERTY_TEXT.

    Its first line has `booted`, the Unix time of systemd's monotonic zero. A line for each of the
    `assertions` (unit -> settings) follows.
    """
    asserted = [
        f"{_ASSERTION_MARK}{unit}: {one}" for unit, each in (assertions or {}).items() for one in each
    ]
    head = "\n".join((f"{_BOOTED_MARK}{booted:.3f}", *asserted))
    return "\n\n".join((head, *(text.strip("\n") for text in shown))) + "\n"


def _read_properties_text(text: str) -> tuple[Unit, ...]:
    first, _, blocks = text.partition("\n")
    # At most 11 digits, the year 5138: with one more, times would be out of the range of `datetime`.
    booted = re.fullmatch(rf"{_BOOTED_MARK}(\d{{1,11}}\.\d{{3}})", first)
    if booted is None:
        return ()
    assertions: dict[str, tuple[str, ...]] = {}
    for unit, one in re.findall(
        rf"(?m)^{_ASSERTION_MARK}({UNIT}): (Assert\w+=.*)$", blocks.partition("\n\n")[0]
    ):
        assertions[unit] = (*assertions.get(unit, ()), one)
    found = read_properties(blocks, float(booted[1]))
    known = tuple(replace(unit, assertions=assertions.get(unit.name, ())) for unit in found)
    unloaded = assertions.keys() - {unit.name for unit in found}
    return (*known, *(Unit(name=name, assertions=assertions[name]) for name in sorted(unloaded)))


def with_required_units(
    units: Sequence[Unit], logs: Mapping[str, UnitLog], show: Callable[[Sequence[str]], Iterable[Unit] | None]
) -> tuple[Unit, ...]:
    """Add the units that explain others: units with a logged fault, and required units up to the root.

    `show` returns the units with these names, or None if it cannot query them any more. Units that are still
    unknown then are left out.
    """
    known = {unit.name: unit for unit in units}
    asked: set[str] = set()
    while True:
        wanted = {name for name, log in logs.items() if log.hindrance in FAULTS}
        for unit in known.values():
            wanted |= unit.bound_to
            if not unit.is_active and not unit.is_failed:
                wanted |= unit.requires
        wanted -= {*known, *asked}
        if not wanted or len(asked) > _MAX_REQUIRED or (found := show(sorted(wanted))) is None:
            return tuple(known.values())
        asked |= wanted
        for unit in found:
            known.setdefault(unit.name, unit)


_MAX_REQUIRED: Final = 200
"""`with_required_units` stops after it has queried more units than this."""


def asserted_units(units: Iterable[Unit], logs: Mapping[str, UnitLog]) -> tuple[str, ...]:
    """Return the units that an assertion prevented from starting, at most MAX_UNIT_FILES.

    Their unit files show the assertions; systemd does not log which assertion failed.
    """
    names = [unit.name for unit in units if replace(unit, log=logs.get(unit.name, unit.log)).is_asserted]
    return tuple(names[:MAX_UNIT_FILES])


def failed_units(listing: str) -> Iterator[tuple[int, str]]:
    """Yield line number and name of each failed unit in the output of `systemctl list-units`."""
    for number, line in enumerate(listing.splitlines(), 1):
        words = line.replace("●", " ").replace("*", " ").split()
        if words[2:3] == ["failed"] and re.fullmatch(UNIT, words[0]):
            yield number, words[0]


def _read_status(name: str, status: str) -> Unit:
    result = re.search(_ACTIVE, status)
    ends = [
        (f"{match['kind']}={match['path']}", match["code"], match["number"], match["name"])
        for match in re.finditer(_PROCESS, status)
    ]
    command, facts = _find_failure(result[1] if result else None, ends, is_first_certain=False)
    return Unit(name=name, is_failed=True, facts=facts, command=command)


def _parse_unit(values: Mapping[str, list[str]], booted: float) -> Unit | None:
    def first(name: str) -> str:
        return values.get(name, [""])[0]

    def names(*properties: str) -> Iterator[str]:
        return (name for one in properties for name in first(one).split())

    if not re.fullmatch(UNIT, first("Id")):
        return None
    state = first("ActiveState")
    is_restarted = first("SubState").startswith("auto-restart") and first("Result") not in {"", "success"}
    is_failed = state == "failed" or is_restarted
    command, facts = None, NOTHING
    if is_failed:
        is_certain = not first("SuccessExitStatus")
        command, facts = _find_failure(
            first("Result") or None, list(_parse_command_ends(values)), is_first_certain=is_certain
        )
    return Unit(
        name=first("Id"),
        aliases=frozenset(names("Names")),
        load_state=first("LoadState"),
        is_active=state in {"active", "activating", "reloading", "deactivating"} and not is_failed,
        is_failed=is_failed,
        restarts=_parse_number(first("NRestarts")),
        facts=facts,
        command=command,
        since=_parse_time(first("StateChangeTimestampMonotonic"), booted),
        has_unmet_condition=_is_unmet(first("ConditionResult"), first("ConditionTimestampMonotonic")),
        has_unmet_assertion=_is_unmet(first("AssertResult"), first("AssertTimestampMonotonic")),
        is_queued=bool(first("Job")),
        has_started=_parse_number(first("InactiveExitTimestampMonotonic")) > 0,
        requires=frozenset(names("Requires", "Requisite", "BindsTo")),
        bound_to=frozenset(names("BindsTo")),
        required_by=_filter_services(names("RequiredBy", "RequisiteOf", "BoundBy")),
    )


def _parse_command_ends(values: Mapping[str, list[str]]) -> Iterator[tuple[str, str, str, str | None]]:
    """Yield how the commands of a unit ended, in the order in which they run, except ignored failures."""
    for name in PROPERTIES:
        for value in values.get(name, ()) if name.startswith("Exec") else ():
            match = re.fullmatch(_EXEC, value)
            if match is not None:
                yield f"{name}={match['path']}", match["code"], match["number"], match["name"]


def _find_failure(
    result: str | None, ends: Iterable[tuple[str, str, str | None, str | None]], *, is_first_certain: bool
) -> tuple[str | None, Facts]:
    """Return the command that caused systemd's result, if certain, and how it failed.

    Each of the `ends` has a command, its `code=`, its exit status or signal number, and the signal's name. If
    several commands failed, the first one is the cause only if `is_first_certain`.
    """
    code = _CODES.get(result or "")
    bad = [end for end in ends if end[1] == code and (code != "exited" or end[2] != "0")]
    if not bad or (len(bad) > 1 and not is_first_certain):
        return None, Facts(service_result=result)
    command, _, number, name = bad[0]
    if code == "exited":
        return command, Facts(exit_code=int(number or 0), service_result=result)
    return command, Facts(signal=name or "unknown", service_result=result)


def _is_unmet(result: str, checked: str) -> bool:
    """Return True if a check has failed. Before the first check the result is `no` as well."""
    return result == "no" and _parse_number(checked) > 0


def _parse_time(microseconds: str, booted: float) -> datetime | None:
    """Return the time of a `…TimestampMonotonic` property; None if it is 0 or invalid."""
    seconds = _parse_number(microseconds) / 1e6
    return datetime.fromtimestamp(booted + seconds, UTC) if seconds > 0 else None


_MAX_DIGITS: Final = 15  # microseconds of thirty years


def _parse_number(text: str) -> int:
    """Return the number in a property; 0 if it is not a number, such as `[not set]`."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS else 0


def _filter_services(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in names if name.endswith(_SERVICE)))


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
