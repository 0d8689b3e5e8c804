"""The assisted-service's view of this host, and how it is parsed. Pure.

This is apart from the client, because `report --stop`, and `show` on a host whose reporter has stopped, work
without a library for HTTP.

Only the status of an answer is dependable: bodies come in two shapes of JSON from the assisted-service
itself, and as HTML, plain text or nothing from proxies and gateways.
"""

import json
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Final, TypeAlias

import msgspec

from service_record.http.answers import REASONS, Answered, Unreachable

MAX_INFO_CHARACTERS: Final = 2048
"""The longest `progress_info`. The service answers 500 to a longer one."""
_MAX_ROW_BYTES: Final = 1 << 20
"""The size limit of one host in a list. A host takes some kilobytes, or some more with its inventory."""


@dataclass(frozen=True, slots=True)
class HostView:
    """This host as the assisted-service sees it: a row of `GET /v2/clusters/{cluster_id}/hosts`."""

    stage: str = ""
    """`progress.current_stage`; empty before the installation started."""
    info: str = ""
    status: str = ""
    role: str = ""
    kind: str = ""
    """`AddToExistingClusterHost` of a host that is added on day two."""
    logs_info: str = ""
    stage_age: float | None = None
    """Seconds since the latest report of the stage, by the service's own clock. None if unknown."""


@dataclass(frozen=True, slots=True)
class NoHost:
    """The service answered that it has no such host: the host is deleted, or was never registered."""

    reason: str


@dataclass(frozen=True, slots=True)
class Refused:
    """The service itself refuses the reporter's key (401, 403)."""

    status: int
    text: str = ""


View: TypeAlias = HostView | NoHost | Refused | Answered | Unreachable
"""The outcome of reading the host. `Answered` has no information about the host: 301, 500 and others."""


def is_own_error(status: int, body: bytes | bytearray) -> bool:
    """Return whether an error has one of the assisted-service's own forms, with this status.

    Proxies, portals and gateways answer 401, 403 and 404 of their own. The service's handlers say
    `{"code":"404","kind":"Error","reason":...}`; its authentication says `{"code":401,"message":...}`.
    """
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return False
    if not isinstance(document, dict) or str(document.get("code")) != str(status):
        return False
    return any(isinstance(document.get(name), str) for name in REASONS)


class _ListedHost(msgspec.Struct, gc=False):
    id: str
    """Required of every row: a list of something else, without our id, must not count as a denial."""


def find_host(body: bytes | bytearray, host_id: str, date: str = "") -> HostView | NoHost | None:
    """Return this host's row in a JSON list of hosts, or None if the body is not such a list.

    `date` is the answer's header: the host's own clock may be wrong.
    Only this host's row is decoded as a whole, so that a list of millions of rows takes little memory.
    """
    ours: msgspec.Raw | None = None
    try:
        rows = msgspec.json.decode(body, type=list[msgspec.Raw])
        for row in rows:
            if msgspec.json.decode(row, type=_ListedHost).id.lower() == host_id.lower():
                ours = ours or row
        if ours is not None:
            return None if len(ours) > _MAX_ROW_BYTES else _parse_row(msgspec.json.decode(ours), date)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if not rows:
        return NoHost("the cluster has no hosts, or is deleted")
    return NoHost(f"{host_id} is not one of the cluster's {len(rows)} hosts")


def _parse_row(host: dict[str, object], date: str) -> HostView:
    found = host.get("progress")
    progress = found if isinstance(found, dict) else {}

    def text(row: dict[str, object], name: str) -> str:
        value = row.get(name)
        return value if isinstance(value, str) else ""

    return HostView(
        stage=text(progress, "current_stage"),
        info=text(progress, "progress_info"),
        status=text(host, "status"),
        role=text(host, "role"),
        kind=text(host, "kind"),
        logs_info=text(host, "logs_info"),
        stage_age=_seconds_between(text(progress, "stage_updated_at"), date),
    )


def _seconds_between(updated: str, date: str) -> float | None:
    """Return the seconds from a time of the API to the time of an HTTP header; None if either is missing."""
    try:
        return (parsedate_to_datetime(date) - datetime.fromisoformat(updated)).total_seconds()
    except (ValueError, TypeError, OverflowError):  # a header without a zone has no distance to the other
        return None
