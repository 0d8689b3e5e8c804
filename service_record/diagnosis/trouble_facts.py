"""What speaks for a cause: the facts of one trouble, and the line of a message that tells most. Pure."""

import re
from datetime import datetime
from typing import Final

import msgspec

from service_record.history.outcome import Facts

_TELLING: Final = (
    "error", "fatal", "fail", "denied", "refused", "cannot", "can't", "could not", "unable", "no such",
    "not found", "timed out", "timeout", "panic", "invalid", "unauthorized", "forbidden", "no space",
    "killed", "not permitted", "unreachable", "exception", "unknown", "expired",
)  # fmt: skip
"""Words, in lower case, that lines have which say what went wrong."""


_LABELLED: Final = re.compile(
    r"""
      (?:^|[\s"'\]:]) (?:error|fatal|panic) (?:\[[^\]]{0,40}\]|\([^)]{0,40}\))? :   # Error: ..., fatal: ...
    | \b (?:level|lvl|severity) [=:] \s? "? (?:error|fatal|panic|crit)             # logfmt, JSON
    | ^ [EF] \d{4} \s \d\d:\d\d:\d\d                                              # klog
    | ^ (?:ERROR|FATAL|CRITICAL|PANIC) \b
    """,
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
"""Labels with which programs mark the line of an error."""

_AFTERMATH: Final = re.compile(
    r"""(?:[^\s:]{1,40}:\s)? (?:re-?try(?:ing)?|will\s(?:re-?)?try|try(?:ing)?\sagain
        |waiting|sleeping|backing\soff|log\sbundle|gathering|collecting|cleaning|exiting|see\s|for\smore|use\s|hint\b|note\b)""",
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
"""How lines begin that tell what a program does after a failure."""

_ASIDE: Final = re.compile(
    r"""
      ^ goroutine \s \d+ | ^ \S+\.go:\d+ \s \+0x | ^ (?:main|runtime)\.[\w.*()]+\(      # frames of Go
    | ^ File \s "[^"]*", \s line \s \d+ | ^ Traceback \s \( | ^ at \s [\w.$<>]+\( | ^ \#\d+ \s+ 0x
    | ^ \d+: \s+ 0x[0-9a-f]+ \s - | ^ stack \s backtrace: | ^ note: \s run \s with
    | ^ Usage: | ^ -{1,2} \w [\w-]* ,? \s | ^ (?:Available\sCommands|Flags|Options|Examples): | --help\b
    | stack \s trace \s of \s this \s error | execute \s with \s --v= | make \s a \s check \s non-fatal
    | ^ [,:]? \s? (?:error: \s)? exit \s (?:status|code) \s \d+ \.? $
    """,
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
"""Usage texts, frames of a stack, hints, and bare exit statuses: they never say what went wrong."""


class TroubleFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The facts that rules of known causes are matched against."""

    kinds: frozenset[str]
    """Which of `KINDS` it is."""
    service: str
    stage: str | None = None
    invocation_id: str | None = None
    facts: Facts
    booted: datetime | None = None
    """When the boot of its run began, as far as that is known."""
    started: datetime | None = None
    """When the first of the runs that are alike began, or failed."""
    run_started: datetime | None = None
    ended: datetime | None = None
    """None while it runs, and where nobody knows."""


KINDS: Final = frozenset(
    {"failed", "stuck", "restart-loop", "stage-loop", "boot-loop", "interrupted", "rebooted", "ended-well"}
)
"""What a trouble is to the rules: `rebooted` is interrupted by a boot of the host.

`ended-well` is a unit that failed although its latest recorded run ended well.
"""


class KnownCause(msgspec.Struct, frozen=True, kw_only=True):
    """A cause that a rule knows, as it applies to one trouble."""

    name: str
    says: str
    """The cause in a few words, which end a sentence that names the service."""
    explains: str | None = None
    """What that means and where it usually comes from."""
    commands: tuple[str, ...] = ()
    """What to run next, filled in and safe to paste."""
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
    is_named: bool = False
    lost: str | None = None
    """Why it is not the cause that is told."""


_LABELLED_WEIGHT: Final = 3
_MAX_END: Final = 4096
"""Characters of a line that are read from either end."""


class Looked(msgspec.Struct, frozen=True):
    """The amount read beside the records."""

    files: int = 0
    lines: int = 0
    kinds: frozenset[str] = frozenset()


def telling_line(message: str | None) -> str | None:
    """Return the line of a message that most likely says what went wrong.

    That is the last that a program labels as an error, else the last that speaks of one, else the last. Lines
    about what is done after a failure come behind all others. None where there are only usage texts, frames
    and hints.
    """
    lines = [line.strip() for line in (message or "").splitlines() if line.strip()]
    best = max(reversed(lines), key=weight, default=None)
    return None if best is None or weight(best) < 0 else best


def is_labelled(line: str) -> bool:
    """Return whether a program marks a line as an error that says more than an exit status or a hint."""
    return weight(line.strip()) >= _LABELLED_WEIGHT


def weight(line: str) -> int:
    """Return how much a line says of what went wrong. Of a very long line only its ends are read."""
    line = _ends_of(line)
    if _ASIDE.search(line):
        return -1
    if _LABELLED.search(line):
        return _LABELLED_WEIGHT
    if _AFTERMATH.match(line):
        return 0
    lowered = line.lower()
    return 2 if any(word in lowered for word in _TELLING) else 1


def _ends_of(line: str) -> str:
    return line if len(line) <= 2 * _MAX_END else f"{line[:_MAX_END]} {line[-_MAX_END:]}"
