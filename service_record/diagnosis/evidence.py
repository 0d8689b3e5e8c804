"""What speaks for a cause: the facts of one trouble, and the line of a message that tells most. Pure."""

from dataclasses import dataclass
from typing import Final

from service_record.history.facts import Facts

_TELLING: Final = (
    "error", "fatal", "fail", "denied", "refused", "cannot", "can't", "could not", "unable", "no such",
    "not found", "timed out", "timeout", "panic", "invalid", "unauthorized", "forbidden", "no space",
    "killed", "not permitted", "unreachable", "exception", "unknown", "expired",
)  # fmt: skip
"""Words, in lower case, that lines have which say what went wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
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
    line: str | None = None
    """The line of the message that the rule knows it by; None where it was no line."""


def telling_line(message: str | None) -> str | None:
    """The line of a message that most likely says what went wrong: the last that speaks of an error."""
    lines = [line.strip() for line in (message or "").splitlines() if line.strip()]
    telling = (line for line in reversed(lines) if any(word in line.lower() for word in _TELLING))
    return next(telling, lines[-1] if lines else None)
