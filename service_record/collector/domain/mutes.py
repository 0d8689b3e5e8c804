"""Acknowledgements, mutes and maintenance of a host, a group or a cause, until a given time."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from service_record.collector.domain.access import GROUP_RULE, is_group, is_within
from service_record.collector.domain.verdicts import FleetVerdict
from service_record.http.address import HOST_RULE, is_host_name
from service_record.record.quantities import parse_duration

CAUSE_PATTERN: Final = "[0-9a-f]{16}"
_CAUSE: Final = re.compile(CAUSE_PATTERN)
_LONGEST_SECONDS: Final = 366 * 86_400.0


class MuteKind(StrEnum):
    """The kind of a mute."""

    ACKNOWLEDGED = "acknowledged"
    """Somebody works on the trouble, so only its end is announced."""
    MUTED = "muted"
    """Nothing is announced."""
    MAINTENANCE = "maintenance"
    """Nothing is announced, because the trouble is expected."""


class MuteScope(StrEnum):
    """The scope of a mute."""

    HOST = "host"
    GROUP = "group"
    CAUSE = "cause"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mute:
    """A mute of a host, a group with its subgroups, or a cause. Times are in seconds since 1970."""

    id: int
    kind: MuteKind
    scope: MuteScope
    subject: str
    """The name of the host or group, or the id of the cause."""
    until: float
    by: str
    note: str
    made_at: float

    def covers(self, host: str, group: str, cause: str) -> bool:
        """Return True if the mute covers a host of a group in trouble with a cause."""
        match self.scope:
            case MuteScope.HOST:
                return host == self.subject
            case MuteScope.GROUP:
                return is_within(group, self.subject)
            case MuteScope.CAUSE:
                return cause == self.subject


def find_mute(mutes: Iterable[Mute], host: str, group: str, cause: str) -> Mute | None:
    """Return the mute with the latest end that covers a host; None if there is none."""
    covering = (mute for mute in mutes if mute.covers(host, group, cause))
    return max(covering, key=lambda mute: mute.until, default=None)


def has_news(
    mutes: Iterable[Mute], host: str, group: str, *, before: str, cause: str, verdict: FleetVerdict
) -> bool:
    """Return True if the change to a verdict is announced.

    `cause` is the cause of the new trouble, and `before` that of the trouble that ended. The end of a muted
    cause is not announced, but new trouble with another cause is.
    """
    if verdict.is_bad:
        return not any(mute.covers(host, group, cause) for mute in mutes)
    return not any(
        mute.covers(host, group, before) for mute in mutes if mute.kind is not MuteKind.ACKNOWLEDGED
    )


def parse_subject(scope: MuteScope, text: str) -> str:
    """Check and return the subject of a new mute. Raises ValueError, which names the valid forms."""
    match scope:
        case MuteScope.HOST if not is_host_name(text):
            raise ValueError(HOST_RULE)
        case MuteScope.GROUP if not is_group(text):
            raise ValueError(GROUP_RULE)
        case MuteScope.CAUSE if _CAUSE.fullmatch(text) is None:
            raise ValueError("name a cause by its mark of 16 digits, as GET /api/v1/hosts has it")
    return text.lower() if scope is MuteScope.HOST else text


def parse_mute_duration(text: str) -> float:
    """Parse the duration of a mute, such as `4h`, to seconds. Raises ValueError."""
    seconds = parse_duration(text)
    if not 0 < seconds <= _LONGEST_SECONDS:
        raise ValueError(f"{text!r} is not a duration of at most 366 days, such as 4h")
    return seconds
