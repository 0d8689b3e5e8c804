"""Read what systemd says of units, from `systemctl show` or from the texts in a bundle. Pure."""

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Final

import msgspec

from service_record.history.outcome import NOTHING, Facts

PROPERTIES: Final = (
    *("Id", "Names", "LoadState", "ActiveState", "Result", "Job"),
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
"""The same in bundles, and as sos calls it."""
STATUSES: Final = "unit-status/"
"""The directory of a bundle with `systemctl status` of each failed unit, as UNIT.txt."""

_SERVICE: Final = ".service"
_UNIT: Final = re.compile(
    r"[\w:.\\@-]+\.(?:service|socket|target|device|mount|automount|swap|timer|path|slice|scope)", re.ASCII
)
_BLOCKS: Final = re.compile(rf"\n\n(?=(?:{'|'.join(PROPERTIES)})=)")
_EXEC: Final = re.compile(
    r"\{ path=(?P<path>.*?) ; argv\[\]=.* ; ignore_errors=no ;.*"
    r" ; code=(?P<code>exited|killed|dumped) ; status=(?P<number>\d+)(?:/(?P<name>\w+))? \}"
)
_ACTIVE: Final = re.compile(r"^ *Active: failed \(Result: ([a-z-]+)\)", re.MULTILINE)
_PROCESS: Final = re.compile(
    r"^ *Process: \d+ (?P<kind>Exec\w+)=(?P<path>\S+).*\(code=(?P<code>exited|killed|dumped),"
    r" (?:status=(?P<number>\d+)(?:/\w+)?|signal=(?P<name>\w+))\)$",
    re.MULTILINE,
)
_CODES: Final = {"exit-code": "exited", "signal": "killed", "core-dump": "dumped"}
"""$SERVICE_RESULT, see systemd.exec(5) -> how the command ended that it is about."""


class Unit(msgspec.Struct, frozen=True, kw_only=True):
    """A unit as systemd describes it."""

    name: str
    """With its suffix: `bootkube.service`."""
    aliases: frozenset[str] = frozenset()
    """All its names."""
    is_failed: bool = False
    facts: Facts = NOTHING
    """How it failed: systemd's result, and exit status or signal of the command that failed."""
    command: str | None = None
    """The command that failed, where it is certain: `ExecStartPre=/usr/bin/mount`."""
    since: datetime | None = None
    """When its state last changed."""
    is_absent: bool = False
    """True when the host has no such unit."""
    has_unmet_condition: bool = False
    has_unmet_assertion: bool = False
    is_queued: bool = False
    """True when systemd has a job for it that is not done."""
    has_started: bool = False
    """True when it has been started in this boot."""
    requires: frozenset[str] = frozenset()
    """Units without which it does not start."""
    required_by: tuple[str, ...] = ()
    """Services that do not start without it."""

    @property
    def service(self) -> str | None:
        """Return the name under which its service records; None for another kind of unit."""
        return self.name.removesuffix(_SERVICE) if self.name.endswith(_SERVICE) else None


def read_properties(text: str, booted: float) -> tuple[Unit, ...]:
    """Read what `systemctl show` prints of PROPERTIES, each unit once.

    `booted` is the time, in seconds since 1970, from which systemd counts.
    """
    units: dict[str, Unit] = {}
    for block in _BLOCKS.split(text.strip("\n")):
        values: dict[str, list[str]] = {}
        for line in block.splitlines():
            name, _, value = line.partition("=")
            values.setdefault(name, []).append(value)
        unit = _unit(values, booted)
        if unit is not None:
            units.setdefault(unit.name, unit)
    return tuple(units.values())


def read_texts(texts: Mapping[str, str]) -> tuple[Unit, ...]:
    """Read the failed units of bundles: path of a member -> its text, of a listing and below STATUSES."""
    units: dict[str, Unit] = {}
    for path, listing in texts.items():
        if not path.endswith(_LISTINGS):
            continue
        for name in _names_in(listing):
            status = texts.get(f"{path.removesuffix(LISTING)}{STATUSES}{name}.txt", "")
            units.setdefault(name, _unit_of_status(name, status))
    return tuple(units.values())


def _names_in(listing: str) -> Iterator[str]:
    for line in listing.splitlines():
        words = line.replace("●", " ").replace("*", " ").split()
        if len(words) >= 4 and words[2] == "failed" and _UNIT.fullmatch(words[0]):  # noqa: PLR2004  # its columns
            yield words[0]


def _unit_of_status(name: str, status: str) -> Unit:
    result = _ACTIVE.search(status)
    ends = [
        (f"{match['kind']}={match['path']}", match["code"], match["number"], match["name"])
        for match in _PROCESS.finditer(status)
    ]
    command, facts = _failure(result[1] if result else None, ends, is_first_certain=False)
    return Unit(name=name, is_failed=True, facts=facts, command=command)


def _unit(values: Mapping[str, list[str]], booted: float) -> Unit | None:
    def first(name: str) -> str:
        return values.get(name, [""])[0]

    def names(*properties: str) -> Iterator[str]:
        return (name for one in properties for name in first(one).split())

    if not _UNIT.fullmatch(first("Id")):
        return None
    is_failed = first("ActiveState") == "failed"
    command, facts = None, NOTHING
    if is_failed:
        is_certain = not first("SuccessExitStatus")
        command, facts = _failure(first("Result") or None, list(_ends(values)), is_first_certain=is_certain)
    return Unit(
        name=first("Id"),
        aliases=frozenset(names("Names")),
        is_failed=is_failed,
        facts=facts,
        command=command,
        since=_time(first("StateChangeTimestampMonotonic"), booted),
        is_absent=first("LoadState") == "not-found",
        has_unmet_condition=_is_unmet(first("ConditionResult"), first("ConditionTimestampMonotonic")),
        has_unmet_assertion=_is_unmet(first("AssertResult"), first("AssertTimestampMonotonic")),
        is_queued=bool(first("Job")),
        has_started=_number(first("InactiveExitTimestampMonotonic")) > 0,
        requires=frozenset(names("Requires", "Requisite", "BindsTo")),
        required_by=_services(names("RequiredBy", "RequisiteOf", "BoundBy")),
    )


def _ends(values: Mapping[str, list[str]]) -> Iterator[tuple[str, str, str, str | None]]:
    """Yield how the commands of a unit ended, in the order in which they run; not those that are ignored."""
    for name in PROPERTIES:
        for value in values.get(name, ()) if name.startswith("Exec") else ():
            match = _EXEC.fullmatch(value)
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
    """Return whether systemd has checked, and was not content: before the first check it says no, too."""
    return result == "no" and _number(checked) > 0


def _time(microseconds: str, booted: float) -> datetime | None:
    seconds = _number(microseconds) / 1e6
    return datetime.fromtimestamp(booted + seconds, UTC) if seconds > 0 else None


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() else 0


def _services(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in names if name.endswith(_SERVICE)))
