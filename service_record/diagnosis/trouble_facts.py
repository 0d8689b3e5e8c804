"""What speaks for a cause: the facts of one trouble, and the line of a message that tells most. Pure."""

import re
from dataclasses import dataclass
from typing import Final

from service_record.history.facts import Facts

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


@dataclass(frozen=True, slots=True, kw_only=True)
class TroubleFacts:
    """What a rule of known causes is held against."""

    kinds: frozenset[str]
    """Which of `KINDS` it is."""
    service: str
    stage: str | None = None
    invocation_id: str | None = None
    facts: Facts


KINDS: Final = frozenset(
    {"failed", "stuck", "restart-loop", "stage-loop", "boot-loop", "interrupted", "rebooted"}
)
"""What a trouble is to the rules: `rebooted` is interrupted by a boot of the host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownCause:
    """A cause that a rule knows, as it applies to one trouble."""

    name: str
    says: str
    """The cause in a few words, which end a sentence that names the service."""
    explains: str | None = None
    """What that means and where it usually comes from."""
    commands: tuple[str, ...] = ()
    """What to run next, filled in and safe to paste."""
    is_symptom: bool = False
    """True where something else has usually gone wrong before."""
    is_last: bool = False
    """True of a symptom that comes of other symptoms, too, whenever it began."""
    line: str | None = None
    """The line of the message that the rule knows it by; None where it was no line."""


def telling_line(message: str | None) -> str | None:
    """Return the line of a message that most likely says what went wrong.

    That is the last that a program labels as an error, else the last that speaks of one, else the last. Lines
    about what is done after a failure come behind all others.
    """
    lines = [line.strip() for line in (message or "").splitlines() if line.strip()]
    return max(reversed(lines), key=_weight, default=None)


def _weight(line: str) -> int:
    """Return how much a line says of what went wrong."""
    if _LABELLED.search(line):
        return 3
    if _AFTERMATH.match(line):
        return 0
    return 2 if any(word in line.lower() for word in _TELLING) else 1
