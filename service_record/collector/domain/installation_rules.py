"""Rules of what a host may report of its installation, in which order, and what becomes of it. Pure.

The rules are those of the assisted-service's handlers as they behave. Where these answer by accident, a fault
is told as one: words that their database cannot store are a bad request, not a failure of the server.
"""

import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Final, Self

import msgspec

from service_record.collector.domain.host_states import (
    ALL_STAGES,
    DONE,
    FAILED_STAGE,
    INSTALLATION,
    REBOOTING,
    HostState,
    Move,
    Position,
    Signal,
    limit_of,
    move_of,
    percentage_of,
    stages_of,
)
from service_record.collector.domain.silence import Absence, count_from

LONGEST_INFO: Final = 2048
"""Characters of what is said of a stage."""
LONGEST_MESSAGE: Final = 4096
"""Characters of an event."""
ROLES: Final = frozenset({"master", "arbiter", "worker", "auto-assign"})
LOGS_STATES: Final = frozenset({"requested", "collecting", "completed", "timeout", ""})
HOST_LOGS: Final = frozenset({"host", "host_boot"})
CLUSTER_LOGS: Final = frozenset({"controller", "all"})
LOGS_TYPES: Final = HOST_LOGS | CLUSTER_LOGS
CSRS_APPROVED: Final = "csrs_approved"
"""The property of an event that counts the certificate requests approved so far."""
SILENCE_SECONDS: Final = 180.0
"""The time without a call of its agent after which a host is disconnected."""
BOOTSTRAP_SILENCE_SECONDS: Final = 300.0

_SEVERITIES: Final = ("info", "warning", "error", "critical")
_CATEGORIES: Final = ("user", "metrics")
_MOST_CSRS: Final = 1_000_000
_TIME: Final = re.compile(
    r"\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d+)?(Z|[+-]\d\d:?\d\d)?|Z)?| \d\d:\d\d:\d\d(\.\d+)?)?", re.ASCII
)
"""Forms of times that the assisted-service takes (go-openapi/strfmt): RFC 3339, and shorter ones."""


class CallRefused(Exception):  # noqa: N818  # an answer, not a fault
    """The reason why a call is refused, with the assisted-service's status for it."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapped:
    """The ids of a host at an assisted-service."""

    id: str
    """The host's."""
    cluster_id: str
    infra_env_id: str = ""
    """Empty until the host names it."""
    role: str = "master"
    is_bootstrap: bool = False
    is_single_node: bool = False
    status: str = ""
    """The state that the stage leads to; empty for a host that reboots into its disk, or that stays in its
    state.
    """


def is_id(text: str) -> bool:
    """Return whether a text is a UUID in its usual form."""
    try:
        return str(uuid.UUID(text)) == text.lower()
    except ValueError:
        return False


def _time_in(text: str) -> float | None:
    """Return a time in one of the forms that the assisted-service accepts; None for any other text."""
    if not _TIME.fullmatch(text):
        return None
    try:
        time = datetime.fromisoformat(text)
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


CLOCK_DIFFERENCE_SECONDS: Final = 300.0
"""Tolerated difference between the clocks of the assisted-service and of the collector."""


def is_outdated(event: "Event", event_at: float | None, reported_at: float | None) -> bool:
    """Return whether an event is older than the state that is known.

    `event_at` is the time of the newest event, by the same clock. `reported_at` is the time of the latest
    direct report, by the collector's clock.
    """
    if event_at is not None and event.time < event_at:
        return True
    return reported_at is not None and event.time < reported_at - CLOCK_DIFFERENCE_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation(Mapped):
    """The known state of a host's installation. Times are seconds since 1970."""

    status: str = HostState.IN_PROGRESS.value
    status_info: str = ""
    """The reason for that state, if the state says too little."""
    stage: str = REBOOTING
    """Empty before its installation."""
    info: str = ""
    stage_started_at: float
    stage_updated_at: float
    checked_in_at: float | None = None
    """The time of its agent's last call; None without one: then it never counts as disconnected."""
    logs_state: str = ""
    event_at: float | None = None
    """The time of the newest event that reported a state, by the assisted-service's clock."""

    @property
    def stages(self) -> tuple[str, ...]:
        """Return the stages of its way, in order."""
        return stages_of(self.role, is_bootstrap=self.is_bootstrap, is_single_node=self.is_single_node)

    @property
    def percentage(self) -> int:
        return percentage_of(self.stage, self.stages)

    @property
    def limit(self) -> float:
        """Return the seconds from the last news until it is late in its stage."""
        return limit_of(self.stage, is_single_node=self.is_single_node)

    @property
    def position(self) -> Position:
        """Return its position on its way, relative to its reboot."""
        if self.stage == REBOOTING:
            return Position.REBOOTING
        stages = self.stages
        is_after = self.stage in stages and stages.index(self.stage) > stages.index(REBOOTING)
        return Position.AFTER if is_after else Position.BEFORE

    @property
    def silent_after(self) -> float:
        """Return the seconds without a call of its agent after which it is silent."""
        return BOOTSTRAP_SILENCE_SECONDS if self.is_bootstrap else SILENCE_SECONDS

    def is_late(self, now: float) -> bool:
        """Return whether it takes longer in its stage than the limit."""
        return self.status in INSTALLATION and now - self.stage_updated_at > self.limit

    def without_absences(self, absences: Sequence[Absence]) -> Self:
        """Return a copy in which no silence counts during which the collector was away."""
        checked_in_at = self.checked_in_at
        if checked_in_at is not None:
            checked_in_at = count_from(checked_in_at, self.silent_after, absences)
        stage_updated_at = count_from(self.stage_updated_at, self.limit, absences)
        return replace(self, checked_in_at=checked_in_at, stage_updated_at=stage_updated_at)

    def status_at(self, now: float) -> str:
        """Return its state at that time: some states change when nothing is received."""
        move = self.silence_at(now)
        return self.status if move is None else move.to.value

    def status_info_at(self, now: float) -> str:
        """Return the reason for its state at that time."""
        move = self.silence_at(now)
        return self.status_info if move is None else move.info

    def changes_at(self, now: float) -> float | None:
        """Return the time of its next change of state if nothing is received; None if there is none."""
        return min((at for at, _ in self._silences() if at >= now), default=None)

    def silence_at(self, now: float) -> Move | None:
        """Return the state that silence has put it in at that time; None if silence has not."""
        return next((move for at, move in self._silences() if now > at), None)

    def _silences(self) -> list[tuple[float, Move]]:
        """Return the times from which silence counts, each with its state."""
        signals = [(Signal.REBOOT_IS_LATE, self.stage_updated_at + self.limit)]
        if self.checked_in_at is not None:
            signals.insert(0, (Signal.SILENT, self.checked_in_at + self.silent_after))
        moves = ((at, move_of(self.status, signal, self.position)) for signal, at in signals)
        return [(at, move) for at, move in moves if move is not None]


def signalled(host: Installation, signal: Signal, now: float) -> Installation:
    """Return the installation after a signal; the same object if the signal has no effect in its state."""
    move = move_of(host.status, signal, host.position)
    if move is None:
        return host
    after = replace(host, status=move.to.value, status_info=move.info)
    if move.to is HostState.DISCOVERING:
        return replace(after, stage="", info="", stage_started_at=now, stage_updated_at=now)
    return after


def registered(host: Installation, now: float) -> Installation:
    """Return the installation after its agent registered: it booted the discovery image."""
    return replace(signalled(host, Signal.REGISTERED, now), checked_in_at=now)


def progressed(host: Installation, body: Mapping[str, object], now: float) -> Installation:
    """Return the installation after a `PUT .../progress` with that body; the same object if nothing is new.

    Raises Refused.
    """
    check_fields(body, {"current_stage", "progress_info"})
    stage, info = text_in(body, "current_stage"), text_in(body, "progress_info")
    if stage and stage not in ALL_STAGES:
        raise bad_request(f"current_stage in body should be one of [{' '.join(sorted(ALL_STAGES))}]")
    if len(info) > LONGEST_INFO:
        raise bad_request(f"progress_info in body should be at most {LONGEST_INFO} chars long")
    if "\0" in info:
        raise bad_request("progress_info in body may not have a NUL in it")
    if stage == host.stage:
        return host if info == host.info else replace(host, info=info, stage_updated_at=now)
    signal = {FAILED_STAGE: Signal.FAILED, DONE: Signal.DONE}.get(stage, Signal.STAGE)
    move = move_of(host.status, signal, host.position)
    if move is None:
        raise _conflict(f"Can't set progress <{stage}> to host in status <{host.status}>")
    after = replace(host, status=move.to.value, status_info="", info=info, stage_updated_at=now)
    if stage == FAILED_STAGE:
        return after
    _in_order(host, stage)
    return replace(after, stage=stage, stage_started_at=now)


def _in_order(host: Installation, stage: str) -> None:
    stages = host.stages
    if stage not in stages:
        which = f"role {host.role} bootstrap {str(host.is_bootstrap).lower()}"
        raise _conflict(f"Stages {stage} isn't available for host {which}")
    if host.stage in stages and stages.index(stage) < stages.index(host.stage):
        after = f'after host has been in stage "{host.stage}"'
        raise _conflict(f'Can\'t assign lower stage "{stage}" {after}')


def with_logs_state(host: Installation, body: Mapping[str, object]) -> Installation:
    """Return the installation after a `PUT .../logs-progress`. Raises Refused."""
    return replace(host, logs_state=logs_state_of(body))


def logs_state_of(body: Mapping[str, object]) -> str:
    """Return the state in the body of a `PUT .../logs-progress`. Raises Refused."""
    check_fields(body, {"logs_state"})
    state = body.get("logs_state")
    if not isinstance(state, str) or state not in LOGS_STATES:
        raise bad_request("logs_state in body should be one of [requested collecting completed timeout]")
    return state


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A message on a host, or on a cluster, in free words."""

    host_id: str
    """Empty for an event of the cluster itself."""
    cluster_id: str
    severity: str
    name: str
    message: str
    time: float
    """Seconds since 1970 by the assisted-service's clock. A time without a zone is in UTC."""
    csrs_approved: int | None = None
    """The number of certificate requests that the controller has approved, if `props` name it."""


def event_of(body: Mapping[str, object]) -> Event:
    """Return the event in the body of a `POST .../events`. Raises Refused."""
    for name in ("severity", "message", "event_time"):
        if not body.get(name):
            raise bad_request(f"{name} in body is required")
    time = _time_in(text_in(body, "event_time"))
    if time is None:
        raise bad_request("event_time in body must be of type date-time")
    severity = text_in(body, "severity")
    if severity not in _SEVERITIES:
        raise bad_request(f"severity in body should be one of [{' '.join(_SEVERITIES)}]")
    if (text_in(body, "category") or _CATEGORIES[0]) not in _CATEGORIES:
        raise bad_request(f"category in body should be one of [{' '.join(_CATEGORIES)}]")
    message = text_in(body, "message")
    if len(message) > LONGEST_MESSAGE:
        raise bad_request(f"message in body should be at most {LONGEST_MESSAGE} chars long")
    ids = {name: _id(body, name) for name in ("host_id", "cluster_id")}
    if not any(ids.values()):
        raise bad_request("host_id or cluster_id in body is required: an event is of a host or of a cluster")
    return Event(
        **ids,
        severity=severity,
        name=text_in(body, "name")[:255],
        message=message.replace("\0", " "),
        time=time,
        csrs_approved=_csrs(text_in(body, "props")),
    )


def _id(body: Mapping[str, object], name: str) -> str:
    text = text_in(body, name)
    if text and not is_id(text):
        raise bad_request(f"{name} in body must be of type uuid")
    return text.lower()


def _csrs(props: str) -> int | None:
    """Return the number of approved requests in the properties of an event, a JSON object as a text."""
    try:
        approved = msgspec.json.decode(props).get(CSRS_APPROVED) if props else None
    except (msgspec.DecodeError, UnicodeError, RecursionError, AttributeError):
        return None
    is_number = isinstance(approved, int) and not isinstance(approved, bool) and 0 <= approved <= _MOST_CSRS
    return approved if is_number else None


def check_fields(body: Mapping[str, object], allowed: set[str]) -> None:
    """Raise Refused if a body has a field that is not known."""
    unknown = sorted(set(body) - allowed)
    if unknown:
        raise bad_request(f'json: unknown field "{unknown[0]}"')


def text_in(body: Mapping[str, object], name: str) -> str:
    """Return the text of a field; empty if it is missing. Raises Refused if it is not a text."""
    value = body.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise bad_request(f"{name} in body must be of type string")
    return value


def bad_request(reason: str) -> CallRefused:
    """Return the refusal of an unsuitable request."""
    return CallRefused(HTTPStatus.BAD_REQUEST, reason)


def _conflict(reason: str) -> CallRefused:
    return CallRefused(HTTPStatus.CONFLICT, reason)
