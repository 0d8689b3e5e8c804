"""Check a host's reports on its installation, and determine the state after each report. Pure.

The rules are those of the assisted-service's handlers, as observed. One difference is intended: a text that
the database cannot store is a bad request here. There it causes an internal error.
"""

import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Final, Self

import msgspec

from service_record.collector.assisted.host_states import (
    ALL_STAGES,
    DONE,
    FAILED_STAGE,
    INSTALLATION,
    REBOOTING,
    HostState,
    Move,
    Position,
    Signal,
    find_limit,
    find_move,
    find_percentage,
    list_stages,
)
from service_record.collector.domain.silence import Absence, find_limit_start

LONGEST_INFO: Final = 2048
"""Maximum number of characters of `progress_info`."""
LONGEST_MESSAGE: Final = 4096
"""Maximum number of characters of an event's message."""
ROLES: Final = frozenset({"master", "arbiter", "worker", "auto-assign"})
LOGS_STATES: Final = frozenset({"requested", "collecting", "completed", "timeout", ""})
HOST_LOGS: Final = frozenset({"host", "host_boot"})
CLUSTER_LOGS: Final = frozenset({"controller", "all"})
LOGS_TYPES: Final = HOST_LOGS | CLUSTER_LOGS
CSRS_APPROVED: Final = "csrs_approved"
"""The property of an event with the number of certificate requests approved so far."""
SILENCE_SECONDS: Final = 180.0
"""A host is disconnected if its agent has not called for this time."""
BOOTSTRAP_SILENCE_SECONDS: Final = 300.0
"""The same limit for the bootstrap host."""

_SEVERITIES: Final = ("info", "warning", "error", "critical")
_CATEGORIES: Final = ("user", "metrics")
_MAX_CSRS: Final = 1_000_000
_TIME_FORMAT: Final = re.compile(
    r"\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d+)?(Z|[+-]\d\d:?\d\d)?|Z)?| \d\d:\d\d:\d\d(\.\d+)?)?", re.ASCII
)
"""Time formats that the assisted-service accepts (go-openapi/strfmt): RFC 3339 and shorter forms."""


class CallRefused(Exception):  # noqa: N818  # an answer, not a fault
    """A call is refused. The message is the reason; `status` is the assisted-service's HTTP status for it."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapped:
    """The ids, the role and the status of a host at the assisted-service."""

    id: str
    """The id of the host."""
    cluster_id: str
    infra_env_id: str = ""
    """Empty until the host has made its first call."""
    role: str = "master"
    is_bootstrap: bool = False
    is_single_node: bool = False
    status: str = ""
    """The state of a new host, or the state to set. Empty: a new host is rebooting into its disk, and a known
    host keeps its state.
    """


def is_id(text: str) -> bool:
    """Return True if a text is a UUID with hyphens, in upper or lower case."""
    try:
        return str(uuid.UUID(text)) == text.lower()
    except ValueError:
        return False


def _parse_time(text: str) -> float | None:
    """Return a time in seconds since 1970, or None if the assisted-service would not accept the text."""
    if not _TIME_FORMAT.fullmatch(text):
        return None
    try:
        time = datetime.fromisoformat(text)
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


CLOCK_DIFFERENCE_SECONDS: Final = 300.0
"""Tolerated difference between the clocks of the assisted-service and of the collector."""


def is_outdated(event: "Event", event_at: float | None, reported_at: float | None) -> bool:
    """Return True if an event is older than the stored state.

    `event_at`: the time of the newest event, by the assisted-service's clock. `reported_at`: the time of the
    latest direct report, by the collector's clock. Each is None if there is no such event or report.
    """
    if event_at is not None and event.time < event_at:
        return True
    return reported_at is not None and event.time < reported_at - CLOCK_DIFFERENCE_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation(Mapped):
    """The latest known state of a host's installation. Times are seconds since 1970."""

    status: str = HostState.IN_PROGRESS.value
    status_info: str = ""
    """The reason for the state, in the assisted-service's words; empty for states without a reason."""
    stage: str = REBOOTING
    """Empty before the installation begins."""
    info: str = ""
    stage_started_at: float
    stage_updated_at: float
    checked_in_at: float | None = None
    """The time of the agent's last call. A host without any call (None) never counts as disconnected."""
    logs_state: str = ""
    event_at: float | None = None
    """The time of the newest event that reported a state, by the assisted-service's clock."""

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages of the host's role, in order."""
        return list_stages(self.role, is_bootstrap=self.is_bootstrap, is_single_node=self.is_single_node)

    @property
    def percentage(self) -> int:
        return find_percentage(self.stage, self.stages)

    @property
    def limit(self) -> float:
        """The time limit of the current stage: seconds without a report until the host is late."""
        return find_limit(self.stage, is_single_node=self.is_single_node)

    @property
    def position(self) -> Position:
        """The position of the current stage relative to the stage `Rebooting`."""
        if self.stage == REBOOTING:
            return Position.REBOOTING
        stages = self.stages
        is_after = self.stage in stages and stages.index(self.stage) > stages.index(REBOOTING)
        return Position.AFTER if is_after else Position.BEFORE

    @property
    def silent_after(self) -> float:
        """The seconds without a call of the agent after which the host is silent."""
        return BOOTSTRAP_SILENCE_SECONDS if self.is_bootstrap else SILENCE_SECONDS

    def is_late(self, now: float) -> bool:
        """Return True if an installing host has exceeded the time limit of its stage."""
        return self.status in INSTALLATION and now - self.stage_updated_at > self.limit

    def without_absences(self, absences: Sequence[Absence]) -> Self:
        """Return a copy with later times, so that a host is not late because the collector was down."""
        checked_in_at = self.checked_in_at
        if checked_in_at is not None:
            checked_in_at = find_limit_start(checked_in_at, self.silent_after, absences)
        stage_updated_at = find_limit_start(self.stage_updated_at, self.limit, absences)
        return replace(self, checked_in_at=checked_in_at, stage_updated_at=stage_updated_at)

    def status_at(self, now: float) -> str:
        """Return the state at the time `now`. Without reports, some states change after a time limit."""
        move = self.silence_at(now)
        return self.status if move is None else move.to.value

    def status_info_at(self, now: float) -> str:
        """Return the reason for the state at the time `now`."""
        move = self.silence_at(now)
        return self.status_info if move is None else move.info

    def changes_at(self, now: float) -> float | None:
        """Return the time at which the state changes if there are no more reports, or None."""
        return min((at for at, _ in self._silence_moves() if at >= now), default=None)

    def silence_at(self, now: float) -> Move | None:
        """Return the transition that silence has caused by the time `now`, or None."""
        return next((move for at, move in self._silence_moves() if now > at), None)

    def _silence_moves(self) -> list[tuple[float, Move]]:
        """Return the transitions that silence causes, each with its time. A silent agent comes first."""
        signals = [(Signal.REBOOT_IS_LATE, self.stage_updated_at + self.limit)]
        if self.checked_in_at is not None:
            signals.insert(0, (Signal.SILENT, self.checked_in_at + self.silent_after))
        moves = ((at, find_move(self.status, signal, self.position)) for signal, at in signals)
        return [(at, move) for at, move in moves if move is not None]


def apply_signal(host: Installation, signal: Signal, now: float) -> Installation:
    """Return the installation after a signal. If the signal has no effect, the same object is returned."""
    move = find_move(host.status, signal, host.position)
    if move is None:
        return host
    after = replace(host, status=move.to.value, status_info=move.info)
    if move.to is HostState.DISCOVERING:
        return replace(after, stage="", info="", stage_started_at=now, stage_updated_at=now)
    return after


def apply_registration(host: Installation, now: float) -> Installation:
    """Return the installation after a call of the agent to register. It registers when its image boots."""
    return replace(apply_signal(host, Signal.REGISTERED, now), checked_in_at=now)


def apply_progress(host: Installation, body: Mapping[str, object], now: float) -> Installation:
    """Return the installation after a `PUT .../progress`. If nothing changes, the same object is returned.

    Raises CallRefused: 400 if the body is invalid, 409 if the stage is not allowed now.
    """
    check_fields(body, {"current_stage", "progress_info"})
    stage, info = read_text_field(body, "current_stage"), read_text_field(body, "progress_info")
    if stage and stage not in ALL_STAGES:
        raise make_bad_request(f"current_stage in body should be one of [{' '.join(sorted(ALL_STAGES))}]")
    if len(info) > LONGEST_INFO:
        raise make_bad_request(f"progress_info in body should be at most {LONGEST_INFO} chars long")
    if "\0" in info:
        raise make_bad_request("progress_info in body may not have a NUL in it")
    if stage == host.stage:
        return host if info == host.info else replace(host, info=info, stage_updated_at=now)
    signal = {FAILED_STAGE: Signal.FAILED, DONE: Signal.DONE}.get(stage, Signal.STAGE)
    move = find_move(host.status, signal, host.position)
    if move is None:
        raise _conflict(f"Can't set progress <{stage}> to host in status <{host.status}>")
    after = replace(host, status=move.to.value, status_info="", info=info, stage_updated_at=now)
    if stage == FAILED_STAGE:
        return after
    _check_order(host, stage)
    return replace(after, stage=stage, stage_started_at=now)


def _check_order(host: Installation, stage: str) -> None:
    """Raise CallRefused if the host's role does not have the stage, or the host has passed the stage."""
    stages = host.stages
    if stage not in stages:
        which = f"role {host.role} bootstrap {str(host.is_bootstrap).lower()}"
        raise _conflict(f"Stages {stage} isn't available for host {which}")
    if host.stage in stages and stages.index(stage) < stages.index(host.stage):
        after = f'after host has been in stage "{host.stage}"'
        raise _conflict(f'Can\'t assign lower stage "{stage}" {after}')


def apply_logs_state(host: Installation, body: Mapping[str, object]) -> Installation:
    """Return the installation after a `PUT .../logs-progress`. Raises CallRefused."""
    return replace(host, logs_state=parse_logs_state(body))


def parse_logs_state(body: Mapping[str, object]) -> str:
    """Return the state in the body of a `PUT .../logs-progress`. Raises CallRefused."""
    check_fields(body, {"logs_state"})
    state = body.get("logs_state")
    if not isinstance(state, str) or state not in LOGS_STATES:
        raise make_bad_request("logs_state in body should be one of [requested collecting completed timeout]")
    return state


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An event of the assisted-service about a host or a cluster."""

    host_id: str
    """Empty for an event of the cluster itself."""
    cluster_id: str
    severity: str
    name: str
    message: str
    time: float
    """Seconds since 1970 by the assisted-service's clock. A time without a zone is read as UTC."""
    csrs_approved: int | None = None
    """The number of certificate requests approved so far; None if the event does not have it."""


def parse_event(body: Mapping[str, object]) -> Event:
    """Return the event in the body of a `POST .../events`. Raises CallRefused."""
    for name in ("severity", "message", "event_time"):
        if not body.get(name):
            raise make_bad_request(f"{name} in body is required")
    time = _parse_time(read_text_field(body, "event_time"))
    if time is None:
        raise make_bad_request("event_time in body must be of type date-time")
    severity = read_text_field(body, "severity")
    if severity not in _SEVERITIES:
        raise make_bad_request(f"severity in body should be one of [{' '.join(_SEVERITIES)}]")
    if (read_text_field(body, "category") or _CATEGORIES[0]) not in _CATEGORIES:
        raise make_bad_request(f"category in body should be one of [{' '.join(_CATEGORIES)}]")
    message = read_text_field(body, "message")
    if len(message) > LONGEST_MESSAGE:
        raise make_bad_request(f"message in body should be at most {LONGEST_MESSAGE} chars long")
    ids = {name: _parse_id(body, name) for name in ("host_id", "cluster_id")}
    if not any(ids.values()):
        raise make_bad_request(
            "host_id or cluster_id in body is required: an event is of a host or of a cluster"
        )
    return Event(
        **ids,
        severity=severity,
        name=read_text_field(body, "name")[:255].replace("\0", " "),
        message=message.replace("\0", " "),
        time=time,
        csrs_approved=_parse_csrs(read_text_field(body, "props")),
    )


def _parse_id(body: Mapping[str, object], name: str) -> str:
    text = read_text_field(body, name)
    if text and not is_id(text):
        raise make_bad_request(f"{name} in body must be of type uuid")
    return text.lower()


def _parse_csrs(props: str) -> int | None:
    """Return the number of approved certificate requests, or None if it is missing or invalid.

    `props`: the properties of an event, a JSON object as a text.
    """
    try:
        approved = msgspec.json.decode(props).get(CSRS_APPROVED) if props else None
    except (msgspec.DecodeError, UnicodeError, RecursionError, AttributeError):
        return None
    is_number = isinstance(approved, int) and not isinstance(approved, bool) and 0 <= approved <= _MAX_CSRS
    return approved if is_number else None


def check_fields(body: Mapping[str, object], allowed: set[str]) -> None:
    """Raise CallRefused if a body has an unknown field."""
    unknown = sorted(set(body) - allowed)
    if unknown:
        raise make_bad_request(f'json: unknown field "{unknown[0]}"')


def read_text_field(body: Mapping[str, object], name: str) -> str:
    """Return the text of a field, or an empty text without the field. Raises CallRefused for other types."""
    value = body.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise make_bad_request(f"{name} in body must be of type string")
    return value


def make_bad_request(reason: str) -> CallRefused:
    """Return a refusal with the status 400."""
    return CallRefused(HTTPStatus.BAD_REQUEST, reason)


def _conflict(reason: str) -> CallRefused:
    return CallRefused(HTTPStatus.CONFLICT, reason)
