"""Units of systemd: their state by `systemctl show`, by a bundle's texts and by systemd's own log. Pure.

`Unit` joins what three sources say. `systemctl show` has the present state of a loaded unit. systemd unloads
a unit that is neither active nor failed, and then forgets why it did not start: only the journal still has
the reason. A bundle has the journal, and a listing of the failed units.
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
"""The properties to ask for; systemd.directives(7), org.freedesktop.systemd1(5). A unit has some of them."""
LISTING: Final = "failed-units.txt"
"""The file of a bundle that lists the failed units: `systemctl list-units --state=failed`."""
_LISTINGS: Final = (LISTING, "systemctl_list-units_--failed")
"""The listing's names in our bundles and in sos reports."""
PROPERTY_TEXT: Final = "unit-properties.txt"
"""The file of our bundles with `properties_text`."""
STATUSES: Final = "unit-status/"
"""The directory of a bundle with `systemctl status` of each failed unit, as UNIT.txt."""
START_LIMIT: Final = "start-limit-hit"
"""systemd's result of a unit that it refused to start again."""

_SERVICE: Final = ".service"
OTHER_SUFFIXES: Final = (
    *(
        ".socket",
        ".target",
        ".device",
        ".mount",
        ".automount",
        ".swap",
        ".timer",
        ".path",
        ".slice",
        ".scope",
    ),
)
"""Endings of the names of units that are not services."""
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
"""$SERVICE_RESULT, see systemd.exec(5) -> how the command ended that it is about."""


class Hindrance(StrEnum):
    """The reason why a unit has not started."""

    ABSENT = "absent"
    """The host has no such unit."""
    MASKED = "masked"
    UNLOADABLE = "unloadable"
    """systemd refuses its unit file: a bad setting, or a setting that is missing."""
    CONDITION = "condition"
    """A condition of its unit is not met."""
    ASSERTION = "assertion"
    DEPENDENCY = "dependency"
    """A unit that it requires failed, or could not start either."""
    TIMED_OUT = "timed-out"
    """systemd waited for it, and it did not appear in time: a device, mostly."""
    DAMAGE = "damage"
    """Its record is damaged: it may have started."""
    UNREACHED = "unreached"
    """A service that comes before it has not ended well."""
    QUEUED = "queued"
    """systemd has a job for it."""
    CYCLE = "cycle"
    """systemd left out its start, because units wait for each other in a circle."""
    UNKNOWN = "unknown"


FAULTS: Final = frozenset(
    {Hindrance.UNLOADABLE, Hindrance.ASSERTION, Hindrance.DEPENDENCY, Hindrance.TIMED_OUT, Hindrance.CYCLE}
)
"""Hindrances that are a failure of the host even when nobody expected the unit to start.

A condition that is not met, a mask and a missing unit are often intended.
"""
_STOPS_DEPENDENTS: Final = FAULTS | {Hindrance.ABSENT, Hindrance.MASKED}
"""Hindrances of a unit that keep the units from starting that require it. A condition does not."""


class UnitLog(msgspec.Struct, frozen=True, kw_only=True):
    """What systemd logged about a unit since it last started, or was last asked to."""

    hindrance: Hindrance | None = None
    """Why it did not start."""
    detail: str = ""
    """The setting or the reason that systemd names: `ConditionPathExists=/srv/data`."""
    result: str | None = None
    """systemd's result, where it failed: `exit-code`."""
    exit_code: int | None = None
    """The exit status of the command that systemd's result is about."""
    signal: str | None = None
    has_hit_start_limit: bool = False
    spawn_error: str = ""
    """Why systemd could not execute a command of it: `Failed to set up mount namespacing: …`."""
    suppressed: int = 0
    """Messages of the unit that the journal's rate limit dropped in this boot."""
    time: datetime | None = None
    """When that was logged."""
    restarts: int = 0
    """How often systemd has restarted it after a failure, and its result then."""
    result_before: str | None = None


NOT_LOGGED: Final = UnitLog()


class Unit(msgspec.Struct, frozen=True, kw_only=True):
    """A unit as systemd describes it."""

    name: str
    """With its suffix: `bootkube.service`."""
    aliases: frozenset[str] = frozenset()
    """All its names."""
    load_state: str = ""
    """`loaded`, `not-found`, `masked`, `bad-setting`, `error`; empty where systemd was not asked."""
    is_active: bool = False
    """True when it runs, or is being started or stopped."""
    is_failed: bool = False
    """True when systemd calls it failed, and when it failed and systemd waits to restart it."""
    restarts: int = 0
    """How often systemd has restarted it by itself since somebody last started it."""
    facts: Facts = NOTHING
    """The facts of its failure: systemd's result, and exit status or signal of the command that failed."""
    command: str | None = None
    """The command that failed, where it is certain: `ExecStartPre=/usr/bin/mount`."""
    since: datetime | None = None
    """The time of its last change of state."""
    has_unmet_condition: bool = False
    has_unmet_assertion: bool = False
    is_queued: bool = False
    """True when systemd has a job for it that is not done."""
    has_started: bool = False
    """True when it has been started in this boot, as far as systemd remembers."""
    requires: frozenset[str] = frozenset()
    """Units without which it does not start."""
    bound_to: frozenset[str] = frozenset()
    """Units with which systemd stops it: BindsTo=."""
    required_by: tuple[str, ...] = ()
    """Services that do not start without it."""
    assertions: tuple[str, ...] = ()
    """The `Assert…=` settings in its unit file, where those were read."""
    log: UnitLog = NOT_LOGGED

    @property
    def service(self) -> str | None:
        """Return the name under which its service records; None for another kind of unit."""
        return self.name.removesuffix(_SERVICE) if self.name.endswith(_SERVICE) else None

    @property
    def services(self) -> frozenset[str]:
        """Return the names under which its service may record: it may have several."""
        names = {self.name, *self.aliases}
        return frozenset(name.removesuffix(_SERVICE) for name in names if name.endswith(_SERVICE))

    @property
    def is_absent(self) -> bool:
        """Return True when the host has no such unit."""
        return self.load_state == "not-found"

    @property
    def has_hit_start_limit(self) -> bool:
        """Return True when systemd refuses to start it again.

        systemd's result says so only if the limit stopped a start that somebody asked for. Where it stopped a
        restart, the result stays that of the last run, and the log has the refusal.
        """
        return self.facts.service_result == START_LIMIT or (self.is_failed and self.log.has_hit_start_limit)

    @property
    def detail(self) -> str:
        """Return the setting or the reason behind `hindrance`, where that is known."""
        if self.log.hindrance is self.hindrance and self.log.detail:
            return self.log.detail
        if self.hindrance is Hindrance.ASSERTION:
            # systemd does not log which one failed.
            return ("one of " if len(self.assertions) > 1 else "") + ", ".join(self.assertions)
        return ""

    @property
    def is_asserted(self) -> bool:
        """Return True when an assertion in its unit file kept it from starting."""
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
        # A unit file may have been corrected since systemd refused it.
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
    """Return the required unit that keeps a unit from starting, the unit that keeps that one, and so on.

    The last is the root. Empty where no required unit is known to have failed.
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
    """Add what systemd logged to units; add units that only the log has.

    Those are units that did not start because of a fault, and the `named` services. With `adds_failed`, where
    nothing else lists the failed units, also those that failed last.
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
"""Units that often fail on healthy hosts: alone, they do not make a host failed."""


def often_fails(unit: str) -> bool:
    """Return True if a unit is known to fail on many healthy hosts."""
    return re.fullmatch(_OFTEN_FAILS, unit) is not None


def _is_optional(name: str, logs: Mapping[str, UnitLog]) -> bool:
    """Return whether a host works without a unit, as far as its journal tells.

    A device that did not appear, and what is mounted from it, is optional (nofail) if no service or target
    depends on it.
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
    """Read what `systemctl show` prints of PROPERTIES, each unit once.

    `booted` is the time, in seconds since 1970, from which systemd counts.
    """
    units: dict[str, Unit] = {}
    for block in re.split(_BLOCKS, text.strip("\n")):
        values: dict[str, list[str]] = {}
        for line in block.splitlines():
            name, _, value = line.partition("=")
            values.setdefault(name, []).append(value)
        unit = _unit(values, booted)
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
    """Read the units of a bundle: path of a member -> its text. PROPERTY_TEXT says more than the others."""
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


_BOOTED: Final = "# booted="
_ASSERTED: Final = "# assertion of "
MAX_UNIT_FILES: Final = 20
"""How many unit files are read for their assertions."""


def properties_text(
    shown: Iterable[str], booted: float, assertions: Mapping[str, Sequence[str]] | None = None
) -> str:
    """Join outputs of `systemctl show` into PROPERTY_TEXT, with the time from which systemd counts.

    `assertions` has those in the files of units that these kept from starting. Each is one more line behind
    the first.
    """
    asserted = [f"{_ASSERTED}{unit}: {one}" for unit, each in (assertions or {}).items() for one in each]
    head = "\n".join((f"{_BOOTED}{booted:.3f}", *asserted))
    return "\n\n".join((head, *(text.strip("\n") for text in shown))) + "\n"


def _read_properties_text(text: str) -> tuple[Unit, ...]:
    first, _, blocks = text.partition("\n")
    booted = re.fullmatch(rf"{_BOOTED}(\d{{1,12}}\.\d{{3}})", first)
    if booted is None:
        return ()
    assertions: dict[str, tuple[str, ...]] = {}
    for unit, one in re.findall(rf"(?m)^{_ASSERTED}({UNIT}): (Assert\w+=.*)$", blocks.partition("\n\n")[0]):
        assertions[unit] = (*assertions.get(unit, ()), one)
    found = read_properties(blocks, float(booted[1]))
    known = tuple(replace(unit, assertions=assertions.get(unit.name, ())) for unit in found)
    unloaded = assertions.keys() - {unit.name for unit in found}
    return (*known, *(Unit(name=name, assertions=assertions[name]) for name in sorted(unloaded)))


def with_required_units(
    units: Sequence[Unit], logs: Mapping[str, UnitLog], show: Callable[[Sequence[str]], Iterable[Unit] | None]
) -> tuple[Unit, ...]:
    """Add the units that explain others: those of faults in systemd's log, and required ones up to the root.

    `show` describes units; None where it no longer can. What is not known by then is left out.
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


def asserted_units(units: Iterable[Unit], logs: Mapping[str, UnitLog]) -> tuple[str, ...]:
    """Return the units that an assertion kept from starting and whose unit file is worth reading.

    systemd logs that an assertion failed, and not which one.
    """
    names = [unit.name for unit in units if replace(unit, log=logs.get(unit.name, unit.log)).is_asserted]
    return tuple(names[:MAX_UNIT_FILES])


def failed_units(listing: str) -> Iterator[tuple[int, str]]:
    """Yield the failed units in what `systemctl list-units` prints: line and name."""
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
    command, facts = _failure(result[1] if result else None, ends, is_first_certain=False)
    return Unit(name=name, is_failed=True, facts=facts, command=command)


def _unit(values: Mapping[str, list[str]], booted: float) -> Unit | None:
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
        command, facts = _failure(first("Result") or None, list(_ends(values)), is_first_certain=is_certain)
    return Unit(
        name=first("Id"),
        aliases=frozenset(names("Names")),
        load_state=first("LoadState"),
        is_active=state in {"active", "activating", "reloading", "deactivating"} and not is_failed,
        is_failed=is_failed,
        restarts=_number(first("NRestarts")),
        facts=facts,
        command=command,
        since=_time(first("StateChangeTimestampMonotonic"), booted),
        has_unmet_condition=_is_unmet(first("ConditionResult"), first("ConditionTimestampMonotonic")),
        has_unmet_assertion=_is_unmet(first("AssertResult"), first("AssertTimestampMonotonic")),
        is_queued=bool(first("Job")),
        has_started=_number(first("InactiveExitTimestampMonotonic")) > 0,
        requires=frozenset(names("Requires", "Requisite", "BindsTo")),
        bound_to=frozenset(names("BindsTo")),
        required_by=_services(names("RequiredBy", "RequisiteOf", "BoundBy")),
    )


def _ends(values: Mapping[str, list[str]]) -> Iterator[tuple[str, str, str, str | None]]:
    """Yield how the commands of a unit ended, in the order in which they run; not those that are ignored."""
    for name in PROPERTIES:
        for value in values.get(name, ()) if name.startswith("Exec") else ():
            match = re.fullmatch(_EXEC, value)
            if match is not None:
                yield f"{name}={match['path']}", match["code"], match["number"], match["name"]


def _failure(
    result: str | None, ends: Iterable[tuple[str, str, str | None, str | None]], *, is_first_certain: bool
) -> tuple[str | None, Facts]:
    """Return which command systemd's result is about, where that is certain, and how it failed."""
    code = _CODES.get(result or "")
    bad = [end for end in ends if end[1] == code and (code != "exited" or end[2] != "0")]
    if not bad or (len(bad) > 1 and not is_first_certain):
        return None, Facts(service_result=result)
    command, _, number, name = bad[0]
    if code == "exited":
        return command, Facts(exit_code=int(number or 0), service_result=result)
    return command, Facts(signal=name or "unknown", service_result=result)


def _is_unmet(result: str, checked: str) -> bool:
    """Return True if systemd has checked, and the check failed. Before the first check the result is `no`."""
    return result == "no" and _number(checked) > 0


def _time(microseconds: str, booted: float) -> datetime | None:
    seconds = _number(microseconds) / 1e6
    return datetime.fromtimestamp(booted + seconds, UTC) if seconds > 0 else None


_MAX_DIGITS: Final = 15  # microseconds of thirty years


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS else 0


def _services(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in names if name.endswith(_SERVICE)))


LOGGED: Final = (
    rb"systemd\[1\]: [^\n]*(?:"
    rb"[Aa]sserts? failed|Assertion failed for|[Dd]ependency|unmet condition|trigger condition|being skipped"
    rb"|exec-condition|repeated too quickly|fatal error, unit|Refusing"
    rb"|\.(?:conf|service|mount|socket|timer|path):\d+: |entered failed state"
    rb"|timed out|with result|Scheduled restart job|break ordering cycle|process exited"
    rb"|Deactivated successfully|: Succeeded\.|running in system mode)"
    # Scopes are left out: hosts of containers start thousands, and each line costs as much as all else of it.
    rb"|systemd\[1\]: (?:Start(?:ing|ed)|Finished|Reached target|Mount(?:ing|ed)|Listening on|Found device) "
    rb"\S+\.(?:service|socket|target|device|mount|automount|swap|timer|path|slice)\b"
    rb"|systemd-journald\[\d+\]: Suppressed \d+ messages from "
    rb"|(?:\([^\s()]{1,20}\)|systemd)\[\d+\]: [^\s:]+\.(?:service|mount|socket|swap): [^\n]*[Ff]ailed"
    # What `systemctl status` prints of a unit that failed.
    rb"|(?m:^[^\w\n]{0,6}[\w:.\\@-]+\.(?:service|socket|mount|swap|timer|path)(?: - [^\n]*)?\n +Loaded: )"
    rb"|(?m:^ +Active: (?:failed|activating \(auto-restart\)|active \(exited\)) \(Result: )"
    rb"|(?m:^ +Main PID: \d+ \(code=)"
)
"""Pattern of RE2 for the lines that `read_logs` uses, in the text form of a journal."""
_STATUS_OF: Final = rf"\W*(?P<unit>{UNIT})(?: - .*)?\n"
_STATUS: Final = r"Active: [a-z()\s-]+ \(Result: (?P<result>[a-z-]+)\)"
_STATUS_EXIT: Final = (
    r"Main PID: \d+ \(code=(?P<code>exited|killed|dumped),"
    r" (?:status=(?P<number>\d{1,9})|signal=(?P<name>\w+))"
)
_OF: Final = rf"(?P<unit>{UNIT})"
_BOOT: Final = "running in system mode"
_MAX_COMPLAINTS: Final = 3
_FILE_LINE: Final = rf"(?P<place>/\S*?/{_OF}(?:\.d/[^/\s]+\.conf)?:\d+): (?P<what>.*)"

_SUPPRESSED: Final = rf"Suppressed (?P<count>\d{{1,12}}) messages from (?:\S*/)?{_OF}"
_SPAWN_ERROR: Final = rf"{_OF}: (?P<reason>Failed to .*|Failed at step .*|.* failed: .*)"
_AT_STEP: Final = "Failed at step"

_UpdateLog: TypeAlias = Callable[[UnitLog, re.Match[str]], UnitLog]


def _forget(_log: UnitLog, _match: re.Match[str]) -> UnitLog:
    return NOT_LOGGED


def _with_start(log: UnitLog, _match: re.Match[str]) -> UnitLog:
    """Forget all but the restarts: a service that fails again and again is between two failures here."""
    before = log.result or log.result_before
    return UnitLog(restarts=log.restarts, result_before=before, time=log.time) if log.restarts else NOT_LOGGED


def _with_restart(log: UnitLog, match: re.Match[str]) -> UnitLog:
    counter = int(match["restarts"]) if match["restarts"] else log.restarts + 1
    return replace(log, restarts=counter)


def _with_exit(log: UnitLog, match: re.Match[str]) -> UnitLog:
    """Add how a process of the unit ended; the first failure is the one that systemd's result is about."""
    if log.exit_code is not None or log.signal is not None:
        return log
    if match["code"] == "exited":
        return replace(log, exit_code=int(match["number"]))
    return replace(log, signal=match["name"] or "unknown")


def _hindered_by(hindrance: Hindrance) -> _UpdateLog:
    def update(log: UnitLog, match: re.Match[str]) -> UnitLog:
        detail = match.groupdict().get("detail") or ""
        # systemd logs some refusals twice, and only one of the two lines has the setting.
        if log.hindrance is hindrance and not detail:
            detail = log.detail
        return UnitLog(hindrance=hindrance, detail=detail)

    return update


def _result_of(log: UnitLog) -> str:
    """Return systemd's result of a failure, for versions that do not log it."""
    return "exit-code" if log.signal is None else "signal"


_UPDATES: Final[dict[UnitEvent, _UpdateLog]] = {
    UnitEvent.STARTING: _with_start,
    UnitEvent.STARTED: _with_start,
    UnitEvent.FINISHED: _with_start,
    UnitEvent.RESTARTED: _with_restart,
    UnitEvent.DEACTIVATED: _forget,
    UnitEvent.EXITED: _with_exit,
    UnitEvent.FAILED: lambda log, match: replace(log, result=match["result"]),
    UnitEvent.ENTERED_FAILED: lambda log, _match: replace(log, result=log.result or _result_of(log)),
    UnitEvent.START_LIMIT: lambda log, _match: replace(log, has_hit_start_limit=True),
    UnitEvent.CYCLE: _hindered_by(Hindrance.CYCLE),
    UnitEvent.ASSERTION: _hindered_by(Hindrance.ASSERTION),
    UnitEvent.CONDITION: _hindered_by(Hindrance.CONDITION),
    UnitEvent.DEPENDENCY: _hindered_by(Hindrance.DEPENDENCY),
    UnitEvent.TIMED_OUT: _hindered_by(Hindrance.TIMED_OUT),
    UnitEvent.UNLOADABLE: _hindered_by(Hindrance.UNLOADABLE),
}
"""How each event changes a unit's log; the others do not."""


def read_logs(lines: Iterable[LogLine]) -> dict[str, UnitLog]:
    """Read the lines that systemd and journald logged about units, the earliest first.

    Unit -> what still holds: a start or a good end forgets what was logged before it, and a boot forgets all.
    """
    lines = list(lines)
    of_users = {line.pid for line in lines if _is_of_user_manager(line)}
    return _read_messages((line.text, line.time) for line in lines if line.pid not in of_users)


def _is_of_user_manager(line: LogLine) -> bool:
    """Return whether a user's systemd logged an event: its services are not the host's.

    A child of the host's systemd has a pid too, but logs only why it cannot execute a command.
    """
    is_other = line.name == "systemd" and line.pid is not None and line.pid != 1
    return is_other and read_event(line.text.strip()) is not None


def read_messages(messages: Iterable[str]) -> dict[str, UnitLog]:
    """Do the same for messages without a time."""
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
    """What systemd and journald logged in one boot."""

    def __init__(self) -> None:
        self._logs: dict[str, UnitLog] = {}
        # The others are kept apart, because a start does not forget them. A child may log why it cannot
        # execute a command before systemd logs that the unit has started. journald logs how many messages it
        # dropped only when the unit logs again, maybe after a restart.
        self._spawn_errors: dict[str, str] = {}
        self._suppressed: dict[str, int] = {}
        self._complaints: dict[str, list[str]] = {}
        self._last_time: datetime | None = None
        self._unit_of_status = ""

    def _take_status(self, text: str) -> bool:
        """Take a line of `systemctl status`; return False for any other line."""
        if (match := re.match(_STATUS_OF, text)) is not None:
            self._unit_of_status = match["unit"]
            return True
        log = self._logs.get(self._unit_of_status, NOT_LOGGED)
        if (match := re.match(_STATUS, text)) is not None:
            log = replace(log, result=match["result"])
        elif log.result is not None and (match := re.match(_STATUS_EXIT, text)) is not None:
            log = log if match["number"] == "0" else _with_exit(log, match)
        else:
            return False
        if self._unit_of_status:
            self._logs[self._unit_of_status] = log
        return True

    def add(self, text: str, time: datetime | None) -> None:
        """Take one message."""
        if self._take_status(text):
            return
        if (match := re.match(_SPAWN_ERROR, text)) is not None:
            # The line before `Failed at step EXEC` says more.
            if _AT_STEP not in text or match["unit"] not in self._spawn_errors:
                self._spawn_errors[match["unit"]] = match["reason"]
            return
        if (match := re.match(_SUPPRESSED, text)) is not None:
            before = self._suppressed.get(match["unit"], 0)
            self._suppressed[match["unit"]] = before + int(match["count"])
            return
        if (match := re.match(_FILE_LINE, text)) is not None:
            _add_complaint(self._complaints.setdefault(match["unit"], []), match)
            return
        event, match = read_event(text) or (None, None)
        if match is None or event not in _UPDATES:
            return
        unit = match["unit"]
        log = _UPDATES[event](self._logs.get(unit, NOT_LOGGED), match)
        if event is UnitEvent.FAILED or log.hindrance is not None:
            log = replace(log, time=time)
        self._logs[unit] = log
        self._last_time = time or self._last_time

    def units(self) -> dict[str, UnitLog]:
        """Return the log of each unit of which something holds."""
        logs = {unit: self._judged(log) for unit, log in self._logs.items()}
        logs = {unit: log for unit, log in logs.items() if log != NOT_LOGGED}
        for unit, log in logs.items():
            if log.hindrance is Hindrance.UNLOADABLE:
                logs[unit] = replace(log, detail="; ".join([log.detail, *self._complaints.get(unit, ())]))
            else:
                logs[unit] = replace(log, spawn_error=self._spawn_errors.get(unit, ""))
        for unit, number in self._suppressed.items():
            logs[unit] = replace(logs.get(unit, NOT_LOGGED), suppressed=number)
        return logs

    def _judged(self, log: UnitLog) -> UnitLog:
        """Return the log of a unit; one that failed again and again, and just now, has not recovered."""
        if log.result is not None or log.hindrance is not None:
            return log
        if log.exit_code or log.signal:
            # systemd logs the exit of a process only if it is a failure. A journal may end right there.
            return replace(log, result=_result_of(log))
        if log.result_before is None:
            return log
        is_recent = log.time is None or self._last_time is None or self._last_time - log.time <= _JUST_NOW
        if log.restarts >= _LOOP and is_recent:
            return replace(log, result=log.result_before)
        return NOT_LOGGED


_LOOP: Final = 3
_JUST_NOW: Final = timedelta(minutes=2)


def _add_complaint(complaints: list[str], match: re.Match[str]) -> None:
    """Add what systemd says of a line of a unit file. A line that it does not ignore is the reason alone."""
    complaint = f"{match['place']}: {match['what']}"
    if not match["what"].endswith("ignoring."):
        complaints[:] = [complaint]
    elif complaint not in complaints and len(complaints) < _MAX_COMPLAINTS:
        complaints.append(complaint)
