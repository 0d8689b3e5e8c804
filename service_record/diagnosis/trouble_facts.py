"""The facts of a trouble that rules match, the weight of log lines, and the evidence of a host. Pure.

Patterns are plain strings: `re` compiles each on first use, and most hosts need only a few of them.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import IntEnum
from functools import lru_cache
from operator import itemgetter
from typing import Final

import msgspec

from service_record.diagnosis.evidence.known_facts import KnownFacts
from service_record.diagnosis.evidence.log_lines import LogLine
from service_record.diagnosis.evidence.notable import NotableLine
from service_record.diagnosis.units import UnitLog
from service_record.history.outcome import Facts

_ERROR_WORDS: Final = (
    "error", "fatal", "fail", "denied", "refused", "cannot", "can't", "could not", "couldn't", "unable",
    "no such",
    "not found", "timed out", "timeout", "panic", "invalid", "unauthorized", "forbidden", "no space",
    "killed", "not permitted", "unreachable", "exception", "unknown", "expired", "unsupported",
    "not supported", "does not exist", "not enough", "rejected", "mismatch", "corrupt", "in use", "held by",
    "substitution", "not allowed", "not valid", "must not", "duplicate", "abort",
    "segmentation fault",
)  # fmt: skip
"""Lower-case words that mark an error line."""

_ERROR_LABELS: Final = r"""(?xia)
      (?:^|[\s"'\]:]) (?:error|fatal|panic) (?:\[[^\]]{0,40}\]|\([^)]{0,40}\))? :   # Error: ..., fatal: ...
    | \b (?:level|lvl|severity) [=:] \s? "? (?:error|fatal|panic|crit)             # logfmt, JSON
    | ^ [EF] \d{4} \s \d\d:\d\d:\d\d                                              # klog
    | ^ (?:ERROR|FATAL|CRITICAL|PANIC) \b | ^ \[ (?:alert|emerg|crit|critical|error|fatal) \]
    | ^ [\d:,\s-]{8,24} (?:ERR|ERROR|CRT|CRITICAL) \s                              # Anaconda, subiquity
    | (?:^|[\s:]) [a-z_][\w.]{0,100} (?:Error|Exception) : \s                       # the end of a traceback
    | (?-i: ^ E: \s \S)                                                            # apt
    | ^ @ERROR : \s                                                               # rsync
    """
"""Labels by which programs mark an error line."""

_EMPTY_LABEL: Final = r"(?i)(?:[\w.-]{1,40}: )?(?:error|fatal|panic):?"
"""A label without a reason: the line after it has it."""

_AFTERMATH: Final = r"""(?xia)(?:[^\s:]{1,40}:\s)? (?:re-?try(?:ing)?|will\s(?:re-?)?try|try(?:ing)?\sagain
        |waiting|sleeping|backing\soff|log\sbundle|gathering|collecting|cleaning|exiting|see\s|for\smore|use\s|hint\b|note\b)"""
"""The beginnings of lines about retries and clean-up after a failure."""

_ASIDES: Final = r"""(?xia)
      ^ goroutine \s \d+ | ^ \S+\.go:\d+ \s \+0x | ^ (?:main|runtime)\.[\w.*()]+\(      # frames of Go
    | ^ File \s "[^"]*", \s line \s \d+ | \b Traceback \s \(most \s recent
    | (?:^|:\s{2,}) raise \s [\w.]+\( | ^ at \s [\w.$<>]+\( | ^ \#\d+ \s+ 0x
    | ^ \d+: \s+ 0x[0-9a-f]+ \s - | ^ stack \s backtrace: | ^ note: \s run \s with
    | ^ Usage: | ^ -{1,2} \w [\w-]* ,? \s | ^ (?:Available\sCommands|Flags|Options|Examples): | --help\b
    | stack \s trace \s of \s this \s error | execute \s with \s --v= | make \s a \s check \s non-fatal
    | ^ [,:]? \s? (?:error: \s)? exit \s (?:status|code) \s \d+ \.? $
    | Failed \s to \s (?:run|spawn) \s 'stop-post' \s task
    """
"""Usage texts, stack frames, hints and bare exit statuses: they never name a problem.

Nor does the failure of a task that runs after the end of a service. Our own drop-in adds such a task to each.
"""

_SYSTEMD_LINES: Final = r"""(?xa)
      ^ (?:systemd\[\d+\]: \s)? [\w:.\\@-]{1,200}
        \.(?:service|socket|mount|swap|device|timer|path|slice|scope|target): \s
        (?: (?:Main|Control) \s process \s exited | Failed \s with \s result | Consumed \s
          | Scheduled \s restart | Unit \s entered \s failed
          | Deactivated | Succeeded | Service \s \S+ \s expired )
    | ^ (?:systemd\[\d+\]: \s)?
        (?: Failed \s to \s start | Dependency \s failed \s for | Start(?:ed|ing) | Stopp(?:ed|ing)
          | Finished ) \s [^:]{1,200} \. $
    | ^ (?:systemd\[\d+\]: \s)? Unit \s \S{1,200} \s entered \s failed \s state
    """
"""Lines of systemd about the end of a unit. Lines of its program say more."""

_WRAPPERS: Final = r"""(?xia)
      Start \s request \s repeated \s too \s quickly                                        # systemd
    | \b Failed \s to \s (?:run|spawn) \s '[a-z-]+' \s task
    | \b (?:Failed \s to \s run | Running) \s (?:module \s)? [\w-]+ \s \( .{0,400} \) (?:\s failed)? $
    | \b Failed \s running \s /\S+ \s \[-?\d+\] $                                        # cloud-init
    | unexpected \s error \s while \s running \s command | ^ finish: \s .{1,200} : \s FAIL: \s   # curtin
    | ^ E: \s Sub-process \s \S+ \s returned \s an \s error                                    # apt
    | ^ E: \s Some \s index \s files \s failed
    | subprocess \s returned \s error \s exit \s status | ^ Errors \s were \s encountered \s while  # dpkg
    | returned \s non-zero \s exit \s status
    | \[ \s{0,3} FAILED \s{0,3} \] $                                                # scripts of SysV init
    | (?: exited | failed ) \s with \s (?:an \s)? (?:error|exit|status|code|return) (?:\s(?:code|status))?
        [:=]? \s? \d+ \W* $
    """
"""Lines of a caller that only report a failed part. The line of the part itself says more."""

_OTHER_ERRORS: Final = r"""(?xia)
      ^ (?:stdout|stderr): \s* (?!['\"]{2}) [^\s-]  # curtin and cloud-init pass on the output of a command
    | ^ command: \s \[
    | \b can'?t \s find \s | \b no \s (?:\S+ \s){1,3} (?:available|found)
    """


class TroubleFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The facts of one trouble that rules are tested against."""

    kinds: frozenset[str]
    """Kinds from `KINDS`."""
    service: str
    stage: str | None = None
    invocation_id: str | None = None
    facts: Facts
    booted: datetime | None = None
    """The start of the boot; None if unknown."""
    started: datetime | None = None
    """The start of the trouble: of the first of several equal failures."""
    run_started: datetime | None = None
    """The start of the latest of these runs."""
    ended: datetime | None = None
    """The end of the run; None while it runs, or if unknown."""


KINDS: Final = frozenset(
    {"failed", "stuck", "restart-loop", "stage-loop", "boot-loop", "interrupted", "rebooted", "ended-well"}
)
"""The kinds of trouble in rules. `rebooted`: interrupted by a boot of the host. `ended-well`: a unit failed
although its latest recorded run succeeded.
"""

POINTS_TO: Final = "points to"
"""The rank of a likely cause that the evidence does not prove."""

OWN_ERROR: Final = "own-error"
"""The cause name for an error line of the service that no rule knows."""
OTHER_ERROR: Final = "error-elsewhere"
"""The cause name for an error line of another program that no rule knows."""


class KnownCause(msgspec.Struct, frozen=True, kw_only=True):
    """The cause of one trouble: a rule with its texts filled in, or an error line that no rule knows."""

    name: str
    says: str
    """The cause in a few words. They end a sentence that names the service."""
    explains: str | None = None
    """What this means, and how it usually happens."""
    commands: tuple[str, ...] = ()
    """Commands to run next, filled in and safe to paste."""
    rank: str = "cause"
    """`cause`, `points to`, `contributing`, `symptom` or `form of death`."""
    doubt: str | None = None
    """Why the evidence only points to the cause."""
    is_last: bool = False
    """True for a symptom that can follow from other symptoms. It is considered last as the root cause."""
    line: str | None = None
    """The line or fact that matched; None if the rule tests neither."""
    found: str | None = None
    """The part of the line that the rule's pattern matched. It stays visible when the line is cut."""
    place: str | None = None
    """FILE:LINE in the source; None if the line is in the service's record."""
    of: str | None = None
    """The program or container that wrote the line; None if unknown."""

    @property
    def is_cause(self) -> bool:
        """Return True for a certain cause, which the headline may name."""
        return self.rank == "cause"

    @property
    def is_of_rule(self) -> bool:
        """Return False for a line that no rule knows. Two such causes may have nothing in common."""
        return self.name not in {OWN_ERROR, OTHER_ERROR}

    @property
    def is_pointer(self) -> bool:
        """Return True for a likely cause, which is not proven."""
        return self.rank == POINTS_TO

    @property
    def is_symptom(self) -> bool:
        """Return True for every rank but `cause`: the real cause is something else, or not certain."""
        return not self.is_cause


class Weighed(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that matched or nearly did, and why it was or was not chosen."""

    rule: str
    rank: str
    line: str | None = None
    place: str | None = None
    lost: str | None = None
    """Why the rule is not shown as the cause; None for the chosen rule."""

    @property
    def is_named(self) -> bool:
        return self.lost is None


class LineWeight(IntEnum):
    """How much a line says about a problem, in rising order."""

    ASIDE = -1
    AFTERMATH = 0
    PLAIN = 1
    WRAPPER = 2
    """Reports a failed part without the reason."""
    ERROR = 3
    LABELLED = 4


_MAX_END_CHARACTERS: Final = 4096
"""Only this much of the beginning and of the end of a line is searched."""


class Looked(msgspec.Struct, frozen=True):
    """How much was read besides the records."""

    files: int = 0
    lines: int = 0
    kinds: frozenset[str] = frozenset()


def telling_line(message: str | None) -> str | None:
    """Return the line of a message that most likely names the problem.

    This is the last line with the highest weight; see LineWeight. Returns None if the message has only
    asides, such as usage texts, stack frames and hints.
    """
    lines = [line.strip() for line in (message or "").splitlines() if line.strip()]
    best, line = max(weigh_lines(lines)[::-1], key=itemgetter(0), default=(LineWeight.ASIDE, None))
    return None if best is LineWeight.ASIDE else line


def weigh_lines(lines: Iterable[str]) -> list[tuple[LineWeight, str]]:
    """Return the lines of a program with their weights. A label on its own marks the line after it."""
    weighed = []
    is_marked = False
    for line in lines:
        own = weight(line)
        is_text = own is not LineWeight.ASIDE
        weighed.append((LineWeight.LABELLED if is_marked and is_text else own, line))
        is_marked = re.fullmatch(_EMPTY_LABEL, line) is not None
    return weighed


def is_labelled(line: str) -> bool:
    """Return True if a program labels the line as an error, and it is more than an exit status or a hint."""
    return weight(line.strip()) is LineWeight.LABELLED


@lru_cache(1024)  # the same lines are weighed for each failure of a host
def weight(line: str) -> LineWeight:
    """Return how much a line says about a problem. Only both ends of a very long line are searched."""
    line = _cut_middle(line)
    if re.search(_ASIDES, line):
        return LineWeight.ASIDE
    if re.fullmatch(_EMPTY_LABEL, line):
        return LineWeight.AFTERMATH
    if re.search(_WRAPPERS, line):
        return LineWeight.WRAPPER
    if re.search(_ERROR_LABELS, line):
        return LineWeight.LABELLED
    if re.match(_AFTERMATH, line) or re.match(_SYSTEMD_LINES, line):
        return LineWeight.AFTERMATH
    lowered = line.lower()
    is_error = any(word in lowered for word in _ERROR_WORDS) or re.search(_OTHER_ERRORS, line) is not None
    return LineWeight.ERROR if is_error else LineWeight.PLAIN


def _cut_middle(line: str) -> str:
    return (
        line
        if len(line) <= 2 * _MAX_END_CHARACTERS
        else f"{line[:_MAX_END_CHARACTERS]} {line[-_MAX_END_CHARACTERS:]}"
    )


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that was found in the files of a host besides its records."""

    lines: Mapping[int, tuple[LogLine, ...]] = msgspec.field(default_factory=dict)
    """Number of a line test -> the lines that match it, earliest first."""
    own: Mapping[str, tuple[LogLine, ...]] = msgspec.field(default_factory=dict)
    """Service -> the lines that it logged itself, earliest first."""
    meanwhile: Mapping[str, tuple[LogLine, ...]] = msgspec.field(default_factory=dict)
    """Service -> the lines of other programs during its failed runs, in a journal without units. The service
    probably ran these programs."""
    started: frozenset[str] = frozenset()
    """The services that systemd logged as starting or started, if it names units: since version 249."""
    ends: Mapping[str, tuple[int, LogLine | None]] = msgspec.field(default_factory=dict)
    """File -> its number of lines, and its last line."""
    facts: KnownFacts = msgspec.field(default_factory=KnownFacts)
    paths: frozenset[str] = frozenset()
    """The files of the host that a copy of its directories has: `/etc/fstab`."""
    programs: frozenset[str] = frozenset()
    """The programs that log, and the units with their own journal file."""
    unit_logs: Mapping[str, UnitLog] = msgspec.field(default_factory=dict)
    """Unit -> what systemd logged about it."""
    looked: Looked = msgspec.field(default_factory=Looked)
    has_systemd: bool = False
    """True if lines of systemd about units were read, which show the failed units."""
    has_unit_listing: bool = False
    """True if a file lists the failed units."""
    notable: tuple[NotableLine, ...] = ()
    """Error lines, one of each kind."""

    @property
    def is_of_host(self) -> bool:
        """Return True if any line or fact was read."""
        return bool(self.facts.values) or bool(self.looked.kinds)

    def lines_behind(self, line: LogLine) -> tuple[int, int]:
        """Return the number of lines after a line in its file, and the number of lines in the file."""
        count, _ = self.ends.get(line.place.path, (0, None))
        return count - (line.place.line or 0), count

    def last_time(self, line: LogLine) -> datetime | None:
        """Return the time of the last line in the file of a line; None if it has no time."""
        _, last = self.ends.get(line.place.path, (0, None))
        return last.time if last is not None else None


NO_EVIDENCE: Final = Evidence()
