"""The state of systemd units, from `systemctl show`, the files of a bundle, and systemd's log. Pure.

`Unit` combines three sources. `systemctl show` has the present state of a loaded unit. systemd unloads a unit
that is neither active nor failed, and forgets why it did not start: only the journal still has the reason
(`evidence.unit_logs`). A bundle has the journal and a list of the failed units.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec
from msgspec.structs import replace

from service_record.diagnosis.evidence.unit_logs import (
    FAULTS,
    NOT_LOGGED,
    Hindrance,
    UnitLog,
    read_failed_units,
)
from service_record.history.outcome import NOTHING, Facts
from service_record.history.unit_events import UNIT

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
"""The file of our bundles with the result of `join_properties`."""
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


_STOPS_DEPENDENTS: Final = FAULTS | {Hindrance.ABSENT, Hindrance.MASKED}
"""Hindrances that also prevent units from starting that require this one. A condition does not."""


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


def find_chain_to_root(unit: Unit, units: Mapping[str, Unit]) -> tuple[Unit, ...]:
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


def add_logs(
    units: Iterable[Unit],
    logs: Mapping[str, UnitLog],
    named: Iterable[str] = (),
    *,
    adds_failed: bool = False,
    latest_start: datetime | None = None,
) -> tuple[Unit, ...]:
    """Add systemd's log to units, and add units that only the log has.

    Two kinds of units are added: those that did not start because of a fault, and the services in `named`.
    `adds_failed` also adds units whose last logged state is a failure. Use it if there is no list of the
    failed units; `latest_start`, the time of the latest start of a service, then shows which units the host
    does without.
    """
    known = {unit.name: unit for unit in units}
    if adds_failed:
        logs = {name: log for name, log in logs.items() if not _is_optional(name, logs, latest_start)}
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


def _is_optional(name: str, logs: Mapping[str, UnitLog], latest_start: datetime | None) -> bool:
    """Return True if, according to the journal, the host works without a unit.

    A device that did not appear, and a mount that needs it, are optional (nofail) if no service or target
    failed because of a dependency, and if a service started later: otherwise the journal may end too early.
    """
    if often_fails(name):
        return True
    log = logs[name]
    if log.hindrance not in {Hindrance.TIMED_OUT, Hindrance.DEPENDENCY} or name.endswith(
        (_SERVICE, ".target")
    ):
        return False
    if log.time is not None and (latest_start is None or latest_start < log.time):
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
        for _, name in read_failed_units(listing):
            status = texts.get(f"{path.removesuffix(LISTING)}{STATUSES}{name}.txt", "")
            units.setdefault(name, _read_status(name, status))
    return tuple(units.values())


_BOOTED_MARK: Final = "# booted="
_ASSERTION_MARK: Final = "# assertion of "
MAX_UNIT_FILES: Final = 20
"""The most unit files that are read for their assertions."""


def join_properties(
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


def add_required_units(
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
"""`add_required_units` stops after it has queried more units than this."""


def find_asserted_units(units: Iterable[Unit], logs: Mapping[str, UnitLog]) -> tuple[str, ...]:
    """Return the units that an assertion prevented from starting, at most MAX_UNIT_FILES.

    Their unit files show the assertions; systemd does not log which assertion failed.
    """
    logged = (replace(unit, log=logs.get(unit.name, unit.log)) for unit in units)
    names = [unit.name for unit in logged if unit.hindrance is Hindrance.ASSERTION]
    return tuple(names[:MAX_UNIT_FILES])


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
    dependents = names("RequiredBy", "RequisiteOf", "BoundBy")
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
        required_by=tuple(dict.fromkeys(name for name in dependents if name.endswith(_SERVICE))),
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
