"""The facts of a trouble: what rules match, the line that tells most, and what systemd says of units. Pure.

Of units, `systemctl show` tells, or the texts in a bundle.

Patterns are texts here: `re` compiles each when it is first searched for, and most hosts need few of them.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from enum import IntEnum
from typing import Final

import msgspec

from service_record.diagnosis.evidence.known_facts import KnownFacts
from service_record.diagnosis.evidence.log_lines import OTHER, LogLine
from service_record.history.outcome import NOTHING, Facts

_TELLING: Final = (
    "error", "fatal", "fail", "denied", "refused", "cannot", "can't", "could not", "unable", "no such",
    "not found", "timed out", "timeout", "panic", "invalid", "unauthorized", "forbidden", "no space",
    "killed", "not permitted", "unreachable", "exception", "unknown", "expired",
)  # fmt: skip
"""Words, in lower case, that lines have which say what went wrong."""


_LABELLED: Final = r"""(?xia)
      (?:^|[\s"'\]:]) (?:error|fatal|panic) (?:\[[^\]]{0,40}\]|\([^)]{0,40}\))? :   # Error: ..., fatal: ...
    | \b (?:level|lvl|severity) [=:] \s? "? (?:error|fatal|panic|crit)             # logfmt, JSON
    | ^ [EF] \d{4} \s \d\d:\d\d:\d\d                                              # klog
    | ^ (?:ERROR|FATAL|CRITICAL|PANIC) \b
    """
"""Labels with which programs mark the line of an error."""

_AFTERMATH: Final = r"""(?xia)(?:[^\s:]{1,40}:\s)? (?:re-?try(?:ing)?|will\s(?:re-?)?try|try(?:ing)?\sagain
        |waiting|sleeping|backing\soff|log\sbundle|gathering|collecting|cleaning|exiting|see\s|for\smore|use\s|hint\b|note\b)"""
"""The beginnings of lines about a program's work after a failure."""

_ASIDE: Final = r"""(?xia)
      ^ goroutine \s \d+ | ^ \S+\.go:\d+ \s \+0x | ^ (?:main|runtime)\.[\w.*()]+\(      # frames of Go
    | ^ File \s "[^"]*", \s line \s \d+ | ^ Traceback \s \( | ^ at \s [\w.$<>]+\( | ^ \#\d+ \s+ 0x
    | ^ \d+: \s+ 0x[0-9a-f]+ \s - | ^ stack \s backtrace: | ^ note: \s run \s with
    | ^ Usage: | ^ -{1,2} \w [\w-]* ,? \s | ^ (?:Available\sCommands|Flags|Options|Examples): | --help\b
    | stack \s trace \s of \s this \s error | execute \s with \s --v= | make \s a \s check \s non-fatal
    | ^ [,:]? \s? (?:error: \s)? exit \s (?:status|code) \s \d+ \.? $
    """
"""Usage texts, frames of a stack, hints, and bare exit statuses: they never say what went wrong."""


_SYSTEMDS: Final = r"""(?xa)
      ^ (?:systemd\[\d+\]: \s)? [\w:.\\@-]{1,200}
        \.(?:service|socket|mount|swap|device|timer|path|slice|scope|target): \s
        (?: (?:Main|Control) \s process \s exited | Failed \s with \s result | Consumed \s
          | Scheduled \s restart | Start \s request \s repeated | Unit \s entered \s failed
          | Deactivated | Succeeded | Service \s \S+ \s expired )
    | ^ (?:systemd\[\d+\]: \s)?
        (?: Failed \s to \s start | Dependency \s failed \s for | Start(?:ed|ing) | Stopp(?:ed|ing)
          | Finished ) \s [^:]{1,200} \. $
    | ^ (?:systemd\[\d+\]: \s)? Unit \s \S{1,200} \s entered \s failed \s state
    """
"""Lines of systemd on how a unit ended: what its program said, says more."""

_WRAPPER: Final = r"""(?xia)
      unexpected \s error \s while \s running \s command | ^ finish: \s .{1,200} : \s FAIL: \s   # curtin
    | ^ E: \s Sub-process \s \S+ \s returned \s an \s error                                    # apt
    | ^ E: \s Some \s index \s files \s failed
    | subprocess \s returned \s error \s exit \s status | ^ Errors \s were \s encountered \s while  # dpkg
    | returned \s non-zero \s exit \s status
    | (?: exited | failed ) \s with \s (?:an \s)? (?:error|exit|status|code|return) (?:\s(?:code|status))?
        [:=]? \s? \d+ \W* $
    """
"""Lines that say only that something within failed: another line says what."""

_OF_COMMAND: Final = r"(?xia)stderr: \s* [^\s'\"-]"
"""The line in which curtin and cloud-init hand on what a command said of its failure."""


class TroubleFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The facts that rules of known causes are matched against."""

    kinds: frozenset[str]
    """The `KINDS` that it is of."""
    service: str
    stage: str | None = None
    invocation_id: str | None = None
    facts: Facts
    booted: datetime | None = None
    """The time when the boot of its run began, as far as that is known."""
    started: datetime | None = None
    """The time when the first of the runs that are alike began, or failed."""
    run_started: datetime | None = None
    ended: datetime | None = None
    """None while it runs, and where nobody knows."""


KINDS: Final = frozenset(
    {"failed", "stuck", "restart-loop", "stage-loop", "boot-loop", "interrupted", "rebooted", "ended-well"}
)
"""The kinds of trouble that rules know: `rebooted` is interrupted by a boot of the host.

`ended-well` is a unit that failed although its latest recorded run ended well.
"""


class KnownCause(msgspec.Struct, frozen=True, kw_only=True):
    """A cause that a rule knows, as it applies to one trouble."""

    name: str
    says: str
    """The cause in a few words, which end a sentence that names the service."""
    explains: str | None = None
    """The meaning of that, and its usual source."""
    commands: tuple[str, ...] = ()
    """The commands to run next, filled in and safe to paste."""
    rank: str = "cause"
    """`cause`, `contributing`, `symptom` or `form of death`."""
    is_last: bool = False
    """True of a symptom that comes of other symptoms, too, whenever it began."""
    line: str | None = None
    """The line or fact that the rule knows it by; None where it was neither."""
    place: str | None = None
    """The file of the source, and the line in it; None where the service's record tells."""
    of: str | None = None
    """The program or container that wrote the line, where that is known."""

    @property
    def is_cause(self) -> bool:
        """Return True where the headline may name it."""
        return self.rank == "cause"

    @property
    def is_symptom(self) -> bool:
        """Return True where something else has gone wrong before, or only the end is known."""
        return not self.is_cause


class Weighed(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that fits or nearly does, and what came of it."""

    rule: str
    rank: str
    line: str | None = None
    place: str | None = None
    lost: str | None = None
    """The reason why it is not shown as the cause."""

    @property
    def is_named(self) -> bool:
        return self.lost is None


class LineWeight(IntEnum):
    """The amount that a line says of what went wrong."""

    ASIDE = -1
    AFTERMATH = 0
    PLAIN = 1
    WRAPPER = 2
    """It says that something within failed, and not what."""
    ERROR = 3
    LABELLED = 4


_MAX_END: Final = 4096
"""Characters of a line that are read from either end."""


class Looked(msgspec.Struct, frozen=True):
    """The amount read beside the records."""

    files: int = 0
    lines: int = 0
    kinds: frozenset[str] = frozenset()


def telling_line(message: str | None) -> str | None:
    """Return the line of a message that most likely says what went wrong.

    That is the last that a program labels as an error, else the last that speaks of one, else the last that
    says only that something within failed, else the last. Lines about what is done after a failure, and those
    of systemd on how the unit ended, come behind all others. None where there are only usage texts, frames
    and hints.
    """
    lines = [line.strip() for line in (message or "").splitlines() if line.strip()]
    best = max(reversed(lines), key=weight, default=None)
    return None if best is None or weight(best) < 0 else best


def is_labelled(line: str) -> bool:
    """Return whether a program marks a line as an error that says more than an exit status or a hint."""
    return weight(line.strip()) is LineWeight.LABELLED


def weight(line: str) -> LineWeight:
    """Return how much a line says of what went wrong. Of a very long line only its ends are read."""
    line = _ends_of(line)
    if re.search(_ASIDE, line):
        return LineWeight.ASIDE
    if re.search(_WRAPPER, line):
        return LineWeight.WRAPPER
    if re.search(_LABELLED, line):
        return LineWeight.LABELLED
    if re.match(_AFTERMATH, line) or re.match(_SYSTEMDS, line):
        return LineWeight.AFTERMATH
    lowered = line.lower()
    is_error = any(word in lowered for word in _TELLING) or re.match(_OF_COMMAND, line) is not None
    return LineWeight.ERROR if is_error else LineWeight.PLAIN


def _ends_of(line: str) -> str:
    return line if len(line) <= 2 * _MAX_END else f"{line[:_MAX_END]} {line[-_MAX_END:]}"


_NEAR_END_LINES: Final = 50


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """All that was found in the files of a host beside its records."""

    lines: Mapping[int, tuple[LogLine, ...]] = msgspec.field(default_factory=dict)
    """Number of a test of lines -> the lines that fit it, the earliest first."""
    own: Mapping[str, tuple[LogLine, ...]] = msgspec.field(default_factory=dict)
    """Service -> its own lines in the journal, the earliest first."""
    ends: Mapping[str, tuple[int, LogLine | None]] = msgspec.field(default_factory=dict)
    """File -> how many lines it has, and the last."""
    facts: KnownFacts = msgspec.field(default_factory=KnownFacts)
    looked: Looked = msgspec.field(default_factory=Looked)

    @property
    def is_of_host(self) -> bool:
        """Return whether anything was read that only a host has: not merely files of unknown kinds."""
        return bool(self.facts.values) or bool(self.looked.kinds - {OTHER})

    def is_current(self, line: LogLine) -> bool:
        """Return whether a line stands near the end of its file, so that nothing shows it to be over."""
        count, _ = self.ends.get(line.place.path, (0, None))
        return count - (line.place.line or 0) <= _NEAR_END_LINES

    def last_time(self, line: LogLine) -> datetime | None:
        """Return the time of the last line of the file that a line is in."""
        _, last = self.ends.get(line.place.path, (0, None))
        return last.time if last is not None else None


NO_EVIDENCE: Final = Evidence()


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
_UNIT: Final = (
    r"(?a)[\w:.\\@-]+\.(?:service|socket|target|device|mount|automount|swap|timer|path|slice|scope)"
)
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


class Unit(msgspec.Struct, frozen=True, kw_only=True):
    """A unit as systemd describes it."""

    name: str
    """With its suffix: `bootkube.service`."""
    aliases: frozenset[str] = frozenset()
    """All its names."""
    is_failed: bool = False
    facts: Facts = NOTHING
    """The facts of its failure: systemd's result, and exit status or signal of the command that failed."""
    command: str | None = None
    """The command that failed, where it is certain: `ExecStartPre=/usr/bin/mount`."""
    since: datetime | None = None
    """The time of its last change of state."""
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
    for block in re.split(_BLOCKS, text.strip("\n")):
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
        for _, name in failed_units(listing):
            status = texts.get(f"{path.removesuffix(LISTING)}{STATUSES}{name}.txt", "")
            units.setdefault(name, _unit_of_status(name, status))
    return tuple(units.values())


def failed_units(listing: str) -> Iterator[tuple[int, str]]:
    """Yield the failed units in what `systemctl list-units` prints: line and name."""
    for number, line in enumerate(listing.splitlines(), 1):
        words = line.replace("●", " ").replace("*", " ").split()
        if words[2:3] == ["failed"] and re.fullmatch(_UNIT, words[0]):
            yield number, words[0]


def _unit_of_status(name: str, status: str) -> Unit:
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

    if not re.fullmatch(_UNIT, first("Id")):
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
    """Return whether systemd has checked, and was not content: before the first check it says no, too."""
    return result == "no" and _number(checked) > 0


def _time(microseconds: str, booted: float) -> datetime | None:
    seconds = _number(microseconds) / 1e6
    return datetime.fromtimestamp(booted + seconds, UTC) if seconds > 0 else None


_MAX_DIGITS: Final = 15  # microseconds of thirty years


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS else 0


def _services(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in names if name.endswith(_SERVICE)))
