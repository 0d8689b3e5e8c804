"""What a host may report of its installation, and what becomes of it. Pure.

The rules are those of the assisted-service's handlers as they behave. Where these answer by accident, a fault
is told as one: words that their database cannot store are a bad request, not a failure of the server.
"""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from http import HTTPStatus
from typing import Final

from service_record.collector.assisted.stages import (
    DONE,
    FAILED,
    KNOWN,
    REBOOTING,
    limit_of,
    percentage_of,
    stages_of,
)

LONGEST_INFO: Final = 2048
"""Characters of what is said of a stage."""
LONGEST_MESSAGE: Final = 4096
"""Characters of an event."""
ROLES: Final = frozenset({"master", "arbiter", "worker", "auto-assign"})
LOGS_STATES: Final = frozenset({"requested", "collecting", "completed", "timeout", ""})
LOGS_TYPES: Final = frozenset({"host", "host_boot"})

_INSTALLING: Final = "installing-in-progress"
_PENDING: Final = "installing-pending-user-action"
_INSTALLED: Final = "installed"
_ERROR: Final = "error"
_MOVABLE: Final = frozenset({"installing", _INSTALLING, _PENDING})
_SEVERITIES: Final = ("info", "warning", "error", "critical")
_CATEGORIES: Final = ("user", "metrics")


class Refused(Exception):  # noqa: N818  # an answer, not a fault
    """Why a call is refused, with the status that the assisted-service has for it."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapped:
    """Which host of an assisted-service a host is."""

    id: str
    cluster_id: str
    infra_env_id: str = ""
    role: str = "master"
    is_bootstrap: bool = False
    is_single_node: bool = False


def mapped_of(said: Mapping[str, object]) -> Mapped | None:
    """What an administrator says of a host; None where that names no host of an assisted-service.

    Raises Refused.
    """
    ids = {name: _text(said, name).lower() for name in ("id", "cluster_id", "infra_env_id")}
    if not ids["id"] and not ids["cluster_id"]:
        return None
    for name, value in ids.items():
        if not is_id(value) and (value or name != "infra_env_id"):
            raise _bad(f"{name} must be of type uuid; id and cluster_id go together")
    role = _text(said, "role") or "master"
    if role not in ROLES:
        raise _bad(f"role should be one of {sorted(ROLES)}")
    return Mapped(
        **ids,
        role=role,
        is_bootstrap=_is_true(said, "bootstrap"),
        is_single_node=_is_true(said, "single_node"),
    )


def is_id(text: str) -> bool:
    """Whether a text is a UUID in its usual form."""
    try:
        return str(uuid.UUID(text)) == text.lower()
    except ValueError:
        return False


def _is_time(text: str) -> bool:
    """Return whether a text is a time of RFC 3339, with its zone."""
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


def _is_true(said: Mapping[str, object], name: str) -> bool:
    """A form has only texts."""
    return str(said.get(name)).lower() in {"true", "1", "yes"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """What is known of the installation of a host. Times are seconds since 1970."""

    id: str
    """The host's."""
    cluster_id: str
    infra_env_id: str = ""
    """Empty until the host names it."""
    role: str = "master"
    is_bootstrap: bool = False
    is_single_node: bool = False
    status: str = _INSTALLING
    stage: str = REBOOTING
    info: str = ""
    stage_started_at: float
    stage_updated_at: float
    logs_state: str = ""

    @property
    def stages(self) -> tuple[str, ...]:
        """Those that it goes through, in order."""
        return stages_of(self.role, is_bootstrap=self.is_bootstrap, is_single_node=self.is_single_node)

    @property
    def percentage(self) -> int:
        return percentage_of(self.stage, self.stages)

    @property
    def limit(self) -> float:
        """Seconds from the last news until it takes too long in its stage."""
        return limit_of(self.stage, is_single_node=self.is_single_node)

    def is_late(self, now: float) -> bool:
        """Whether it takes longer in its stage than it may."""
        return self.status in _MOVABLE and now - self.stage_updated_at > self.limit

    def status_at(self, now: float) -> str:
        """Its status as it is told: a host that does not come back from its reboot needs somebody."""
        return _PENDING if self.stage == REBOOTING and self.is_late(now) else self.status


def progressed(host: Installation, body: Mapping[str, object], now: float) -> Installation:
    """The installation after a `PUT .../progress` with that body; the same object where nothing is new.

    Raises Refused.
    """
    _only(body, {"current_stage", "progress_info"})
    stage, info = _text(body, "current_stage"), _text(body, "progress_info")
    if stage and stage not in KNOWN:
        raise _bad(f"current_stage in body should be one of [{' '.join(sorted(KNOWN))}]")
    if len(info) > LONGEST_INFO:
        raise _bad(f"progress_info in body should be at most {LONGEST_INFO} chars long")
    if "\0" in info:
        raise _bad("progress_info in body may not have a NUL in it")
    if stage == host.stage:
        return host if info == host.info else replace(host, info=info, stage_updated_at=now)
    if host.status not in _MOVABLE:
        raise _conflict(f"Can't set progress <{stage}> to host in status <{host.status}>")
    if stage == FAILED:
        return replace(host, status=_ERROR, info=info, stage_updated_at=now)
    _in_order(host, stage)
    status = _INSTALLED if stage == DONE else _INSTALLING
    return replace(host, stage=stage, info=info, status=status, stage_started_at=now, stage_updated_at=now)


def _in_order(host: Installation, stage: str) -> None:
    stages = host.stages
    if stage not in stages:
        which = f"role {host.role} bootstrap {str(host.is_bootstrap).lower()}"
        raise _conflict(f"Stages {stage} isn't available for host {which}")
    if host.stage in stages and stages.index(stage) < stages.index(host.stage):
        after = f'after host has been in stage "{host.stage}"'
        raise _conflict(f'Can\'t assign lower stage "{stage}" {after}')


def with_logs_state(host: Installation, body: Mapping[str, object]) -> Installation:
    """The installation after a `PUT .../logs-progress`. Raises Refused."""
    _only(body, {"logs_state"})
    state = body.get("logs_state")
    if not isinstance(state, str) or state not in LOGS_STATES:
        raise _bad("logs_state in body should be one of [requested collecting completed timeout]")
    return replace(host, logs_state=state)


@dataclass(frozen=True, slots=True)
class Event:
    """What somebody tells of a host in free words."""

    host_id: str
    severity: str
    name: str
    message: str


def event_of(body: Mapping[str, object]) -> Event:
    """The event in the body of a `POST .../events`. Raises Refused."""
    for name in ("severity", "message", "event_time"):
        if not body.get(name):
            raise _bad(f"{name} in body is required")
    if not _is_time(_text(body, "event_time")):
        raise _bad("event_time in body must be of type date-time")
    severity = _text(body, "severity")
    if severity not in _SEVERITIES:
        raise _bad(f"severity in body should be one of [{' '.join(_SEVERITIES)}]")
    if (_text(body, "category") or _CATEGORIES[0]) not in _CATEGORIES:
        raise _bad(f"category in body should be one of [{' '.join(_CATEGORIES)}]")
    message = _text(body, "message")
    if len(message) > LONGEST_MESSAGE:
        raise _bad(f"message in body should be at most {LONGEST_MESSAGE} chars long")
    host_id = _text(body, "host_id")
    if not host_id:
        raise _bad("host_id in body is required: the collector keeps events of hosts")
    return Event(host_id, severity, _text(body, "name")[:255], message.replace("\0", " "))


def _only(body: Mapping[str, object], known: set[str]) -> None:
    unknown = sorted(set(body) - known)
    if unknown:
        raise _bad(f'json: unknown field "{unknown[0]}"')


def _text(body: Mapping[str, object], name: str) -> str:
    value = body.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _bad(f"{name} in body must be of type string")
    return value


def _bad(reason: str) -> Refused:
    return Refused(HTTPStatus.BAD_REQUEST, reason)


def _conflict(reason: str) -> Refused:
    return Refused(HTTPStatus.CONFLICT, reason)
