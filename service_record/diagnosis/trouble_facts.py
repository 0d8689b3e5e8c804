"""The facts of a trouble that rules match, and the choice of the line that says most about it. Pure.

Patterns are texts here: `re` compiles each when it is first searched for, and most hosts need few of them.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from enum import IntEnum
from typing import Final

import msgspec

from service_record.diagnosis.evidence.known_facts import KnownFacts
from service_record.diagnosis.evidence.log_lines import LogLine
from service_record.diagnosis.evidence.notable import NotableLine
from service_record.diagnosis.units import UnitLog
from service_record.history.outcome import Facts

_TELLING: Final = (
    "error", "fatal", "fail", "denied", "refused", "cannot", "can't", "could not", "unable", "no such",
    "not found", "timed out", "timeout", "panic", "invalid", "unauthorized", "forbidden", "no space",
    "killed", "not permitted", "unreachable", "exception", "unknown", "expired", "unsupported",
    "not supported", "does not exist", "not enough", "rejected", "mismatch", "corrupt", "in use", "held by",
    "substitution", "not allowed", "not valid", "must not", "duplicate", "abort",
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

_OTHER_ERRORS: Final = r"""(?xia)
      ^ stderr: \s* [^\s'\"-]                     # curtin and cloud-init pass on the output of a command
    | \b no \s (?:\S+ \s){1,3} (?:available|found)
    """


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


POINTS_TO: Final = "points to"
"""The certainty of a likely cause that its line does not prove."""


OWN_ERROR: Final = "own-error"
"""The name of a likely cause that no rule knows: the service's own error line."""
OTHER_ERROR: Final = "error-elsewhere"
"""The same for a line of another program."""


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
    """`cause`, `points to`, `contributing`, `symptom` or `form of death`."""
    doubt: str | None = None
    """Why the evidence only points to the cause."""
    is_last: bool = False
    """True of a symptom that comes of other symptoms, too, whenever it began."""
    line: str | None = None
    """The line or fact that the rule knows it by; None where it was neither."""
    found: str | None = None
    """The part of the line that the rule's pattern matched: it stays when the line is cut."""
    place: str | None = None
    """The file of the source, and the line in it; None where the service's record tells."""
    of: str | None = None
    """The program or container that wrote the line, where that is known."""

    @property
    def is_cause(self) -> bool:
        """Return True where the headline may name it."""
        return self.rank == "cause"

    @property
    def is_of_rule(self) -> bool:
        """Return False for a line that no rule knows: two such causes may have nothing in common."""
        return self.name not in {OWN_ERROR, OTHER_ERROR}

    @property
    def is_pointer(self) -> bool:
        """Return True for the likely cause, which is not proven."""
        return self.rank == POINTS_TO

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
    is_error = any(word in lowered for word in _TELLING) or re.search(_OTHER_ERRORS, line) is not None
    return LineWeight.ERROR if is_error else LineWeight.PLAIN


def _ends_of(line: str) -> str:
    return line if len(line) <= 2 * _MAX_END else f"{line[:_MAX_END]} {line[-_MAX_END:]}"


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """All that was found in the files of a host beside its records."""

    lines: Mapping[int, tuple[LogLine, ...]] = msgspec.field(default_factory=dict)
    """Number of a test of lines -> the lines that fit it, the earliest first."""
    own: Mapping[str, tuple[LogLine, ...]] = msgspec.field(default_factory=dict)
    """Service -> its own lines in the journal, the earliest first."""
    ends: Mapping[str, tuple[int, LogLine | None]] = msgspec.field(default_factory=dict)
    """File -> how many lines it has, and the last."""
    facts: KnownFacts = msgspec.field(default_factory=KnownFacts)
    programs: frozenset[str] = frozenset()
    """The programs that log, and the units with a journal of their own."""
    unit_logs: Mapping[str, UnitLog] = msgspec.field(default_factory=dict)
    """Unit -> what systemd logged about it."""
    looked: Looked = msgspec.field(default_factory=Looked)
    has_systemd: bool = False
    """True if systemd's own lines about units were read: they tell which failed."""
    has_unit_listing: bool = False
    """True if a file lists the failed units."""
    notable: tuple[NotableLine, ...] = ()
    """Lines that speak of an error, one of each kind."""

    @property
    def is_of_host(self) -> bool:
        """Return whether any line or fact was read."""
        return bool(self.facts.values) or bool(self.looked.kinds)

    def lines_behind(self, line: LogLine) -> tuple[int, int]:
        """Return how many lines follow a line in its file, and how many lines the file has."""
        count, _ = self.ends.get(line.place.path, (0, None))
        return count - (line.place.line or 0), count

    def last_time(self, line: LogLine) -> datetime | None:
        """Return the time of the last line of the file that a line is in."""
        _, last = self.ends.get(line.place.path, (0, None))
        return last.time if last is not None else None


NO_EVIDENCE: Final = Evidence()
