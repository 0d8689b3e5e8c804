"""The calls that prepare a cluster: read hosts and infra-envs, and set ignition overrides.

They need the token of a user, not that of an agent.
"""

import base64
import json
import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from service_record.http.answers import ASK_AGAIN, Answered, RetryPolicy, Unreachable, mask_secrets
from service_record.http.attempt import Request
from service_record.http.proxies import Proxies
from service_record.http.transport import Connections, Transport, acknowledged
from service_record.reporter.assisted_service import base_url

_RETRY_POLICY: Final = RetryPolicy(total=300.0, tries=3, budget=120.0)
_MAX_LIST_BYTES: Final = 1 << 29
"""A list has the override of each host, which may contain the executable."""
_EMPTY_CONFIG: Final = '{"ignition":{"version":"3.1.0"}}'
"""The override that removes the one of a discovery image: the service ignores an empty text."""
_HINTS: Final[Mapping[int, str]] = {
    HTTPStatus.UNAUTHORIZED: "; give a token of a user that has not expired: --token-file",
    HTTPStatus.FORBIDDEN: "; give the token of a user who may change the cluster",
}
_TOO_LATE: Final = frozenset(
    {
        *("preparing-for-installation", "preparing-successful"),
        *("installing", "installing-in-progress", "installing-pending-user-action"),
        *("installed", "added-to-existing-cluster"),
    }
)


_Rows = TypeVar("_Rows")


class ServiceError(Exception):
    """A failed request. The message is one line. `is_for_later` is true if it may succeed later."""

    def __init__(self, reason: str, *, is_for_later: bool) -> None:
        super().__init__(reason)
        self.is_for_later = is_for_later


class _HostRow(msgspec.Struct, frozen=True):
    id: uuid.UUID
    infra_env_id: uuid.UUID
    role: str = ""
    status: str = ""
    requested_hostname: str = ""
    ignition_config_overrides: str = ""


class _InfraEnvRow(msgspec.Struct, frozen=True):
    id: uuid.UUID
    name: str = ""
    ignition_config_override: str = ""


@dataclass(frozen=True, slots=True)
class Recipient:
    """The target of an override: a host, or an infra-env for its discovery image."""

    infra_env_id: str
    override: str = field(repr=False)
    host_id: str = ""
    name: str = ""
    role: str = ""
    status: str = ""

    @property
    def is_host(self) -> bool:
        return bool(self.host_id)

    @property
    def is_too_late(self) -> bool:
        """Return whether the service has generated the host's ignition already."""
        return self.status in _TOO_LATE

    @property
    def path(self) -> str:
        """Return the path of the call that sets the override, below the service's base path."""
        infra_env = f"/v2/infra-envs/{self.infra_env_id}"
        return f"{infra_env}/hosts/{self.host_id}/ignition" if self.is_host else infra_env

    def __str__(self) -> str:
        kind, name = ("host", self.host_id) if self.is_host else ("discovery image", self.infra_env_id)
        more = ", ".join(filter(None, (self.name, self.role)))
        return f"{kind} {name} ({more})" if more else f"{kind} {name}"


class Installer(Connections):
    """A client of an assisted-service with a user's rights. Close it, or use it as a context manager."""

    def __init__(
        self,
        url: str,
        token: str | None,
        *,
        ca_bundle: Path | None = None,
        proxies: Proxies | None = None,
        retry_policy: RetryPolicy = _RETRY_POLICY,
    ) -> None:
        self._base = base_url(url)
        headers = {"Accept": "application/json"}
        self._transport = Transport(
            url,
            ca_bundle=ca_bundle,
            proxies=proxies,
            retry_policy=retry_policy,
            headers=headers | ({"Authorization": authorization_header(token)} if token else {}),
            secrets=(token or "",),
        )

    def hosts(self, cluster_id: str) -> tuple[Recipient, ...]:
        """Return the hosts of the cluster. Raises ServiceError."""
        rows = self._list(f"/v2/clusters/{cluster_id}/hosts", list[_HostRow])
        return tuple(
            Recipient(
                str(row.infra_env_id),
                row.ignition_config_overrides,
                str(row.id),
                row.requested_hostname,
                row.role,
                row.status,
            )
            for row in rows
        )

    def infra_envs(self, cluster_id: str) -> tuple[Recipient, ...]:
        """Return the infra-envs of the cluster. Raises ServiceError."""
        rows = self._list("/v2/infra-envs", list[_InfraEnvRow], {"cluster_id": cluster_id})
        return tuple(Recipient(str(row.id), row.ignition_config_override, name=row.name) for row in rows)

    def events(self, cluster_id: str) -> tuple[dict[str, Any], ...]:
        """Return the events of the cluster and of its hosts, oldest first. Raises ServiceError.

        The order is made here: older services do not sort events.
        """
        rows = self._list("/v2/events", list[dict[str, Any]], {"cluster_id": cluster_id})
        return tuple(sorted(rows, key=_event_time))

    def set_override(self, recipient: Recipient, text: str, secrets: Collection[str] = ()) -> None:
        """Set the override of a recipient. Raises ServiceError; its message has none of the secrets."""
        body = {"config": text} if recipient.is_host else {"ignition_config_override": text or _EMPTY_CONFIG}
        request = Request(method="PATCH", url=f"{self._base}{recipient.path}", json=body)
        reply = self._transport.call(request)
        outcome = acknowledged(reply, {HTTPStatus.CREATED})
        if isinstance(outcome, Unreachable):
            raise ServiceError(f"{recipient}: {outcome.reason}", is_for_later=True)
        if not outcome.good:
            message = mask_secrets(outcome.text, secrets)
            raise _make_refusal(f"{recipient}: ", replace(outcome, text=message))

    def _list(self, path: str, kind: type[_Rows], params: Mapping[str, str] | None = None) -> _Rows:
        request = Request(
            method="GET", url=f"{self._base}{path}", params=params or {}, most_body=_MAX_LIST_BYTES
        )
        reply = self._transport.call(request)
        outcome = reply.outcome
        if isinstance(outcome, Unreachable):
            raise ServiceError(outcome.reason, is_for_later=True)
        if outcome.status != HTTPStatus.OK:
            raise _make_refusal("", outcome)
        try:
            return msgspec.json.decode(reply.body, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            reason = "200, but not an assisted-service's list, perhaps of a portal; correct the URL"
            raise ServiceError(reason, is_for_later=False) from None


def _event_time(event: Mapping[str, object]) -> datetime:
    """Return the time of an event, or the earliest time if it is invalid: the collector refuses the event."""
    try:
        time = datetime.fromisoformat(str(event.get("event_time")))
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def authorization_header(token: str) -> str:
    """Return the Authorization header for a user's token.

    The service of the agent-based installer expects its tokens without `Bearer`.
    """
    parts = token.split(".")
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=="))
    except (ValueError, IndexError, RecursionError):
        claims = None
    return token if isinstance(claims, dict) and "auth_scheme" in claims else f"Bearer {token}"


def _make_refusal(where: str, answer: Answered) -> ServiceError:
    reason = f"{where}{answer.status}: {answer.text}{_HINTS.get(answer.status, '')}"
    return ServiceError(reason, is_for_later=answer.status in ASK_AGAIN)
