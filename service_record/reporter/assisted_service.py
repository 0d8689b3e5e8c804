"""The only calls that the reporter makes to an assisted-service: read and report the stage, upload logs.

It never registers a host, never gets `instructions` and never reports the stage `Failed`: each would change
how the service treats the host. Where the service differs from its OpenAPI document, these calls follow the
service.
"""

import uuid
from http import HTTPStatus
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlsplit, urlunsplit

from service_record.http.answers import (
    ASK_AGAIN,
    Answered,
    Outcome,
    RetryPolicy,
    Unreachable,
    printable,
)
from service_record.http.attempt import Request
from service_record.http.proxies import Proxies
from service_record.http.transport import Connections, Transport, acknowledged
from service_record.reporter.host_view import (
    MAX_INFO_CHARACTERS,
    NoHost,
    Refused,
    View,
    find_host,
    is_own_error,
)
from service_record.reporter.settings import SERVICE_LIMIT, AssistedServiceSettings

BASE_PATH: Final = "/api/assisted-install"
MAX_LIST_BYTES: Final = 8 << 20
"""The limit for the list of a cluster's hosts, without long strings: a host takes some kilobytes.

With an agent's key, the API lists only all hosts together. The limit fits the unit's `MemoryMax=`.
"""
_MAX_STRING_BYTES: Final = 1 << 16
"""The longest string, in bytes, that is read from the list. An Ignition override may have 20 MB."""
_ASK_AGAIN_FOR_PROGRESS: Final = ASK_AGAIN - {HTTPStatus.INTERNAL_SERVER_ERROR}
"""Without 500: the assisted-service answers 500 to a stage that it cannot store and to one that has changed.
Trying again would not help.
"""
_GOOD: Final = range(200, 300)
_ACCEPTED: Final = frozenset({HTTPStatus.NO_CONTENT})
"""The statuses that accept logs and their state."""


class AssistedService(Connections):
    """A client of the service for one round. All calls carry the same `X-Request-ID`. Close it after use."""

    def __init__(
        self,
        service: AssistedServiceSettings,
        *,
        proxies: Proxies | None = None,
        retry_policy: RetryPolicy | None = None,
        request_id: str | None = None,
    ) -> None:
        self._service = service
        self._base = base_url(service.url)
        token = (service.token or "").strip()
        headers = {"X-Request-ID": request_id or str(uuid.uuid4()), "Accept": "application/json"}
        self._transport = Transport(
            service.url,
            ca_bundle=service.ca_bundle,
            proxies=proxies,
            retry_policy=retry_policy,
            headers=headers | ({"X-Secret-Key": token} if token else {}),
            secrets=(token,),
        )

    def host(self) -> View:
        """Return the service's view of this host."""
        request = Request(
            method="GET",
            url=self._cluster_url("hosts"),
            most_body=MAX_LIST_BYTES,
            longest_string=_MAX_STRING_BYTES,
        )
        reply = self._transport.call(request)
        outcome = reply.outcome
        if isinstance(outcome, Unreachable):
            return outcome
        if is_own_error(outcome.status, reply.body):
            if outcome.status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
                return Refused(outcome.status, outcome.text)
            if outcome.status == HTTPStatus.NOT_FOUND:
                return NoHost(outcome.text or "the service knows no such cluster")
        if outcome.status != HTTPStatus.OK:
            return outcome
        view = find_host(reply.body, self._service.host_id, reply.headers.get("date", ""))
        # A hotspot or a load balancer may answer 200 with a page of its own.
        return view or Unreachable(f"200, but no list of hosts: {outcome.text[:200]}", tries=outcome.tries)

    def report_stage(self, stage: str, info: str) -> Outcome:
        """Report a stage, with information that is cut to the length that the service can store.

        Raises ValueError for the stage `Failed`, which would fail the installation of the cluster.
        """
        if stage.strip().lower() == "failed":
            raise ValueError(
                "the stage Failed ends the installation of the whole cluster: it is never reported"
            )
        text = info.replace("\0", "")[:MAX_INFO_CHARACTERS]
        body = {"current_stage": stage, "progress_info": text}
        url = self._host_url("progress")
        request = Request(method="PUT", url=url, json=body, again=_ASK_AGAIN_FOR_PROGRESS)
        return acknowledged(self._transport.call(request), _GOOD)

    def upload(self, file: Path | bytes, logs_type: str, tries: int | None = None) -> Outcome:
        """Upload a file, or a small archive in memory, as the host's logs of this type.

        `sent` of the result counts the bytes of all tries.
        """
        if isinstance(file, Path) and (refused := check_sendable(file, SERVICE_LIMIT)):
            return refused
        name = file.name if isinstance(file, Path) else "probe.tar.gz"
        params = {"logs_type": logs_type, "host_id": self._service.host_id}
        if self._service.infra_env_id:
            params["infra_env_id"] = self._service.infra_env_id
        url = self._cluster_url("logs")
        request = Request(method="POST", url=url, params=params, file=file, part="upfile", name=name)
        return acknowledged(self._transport.call(request, tries=tries), _ACCEPTED)

    def complete_logs(self) -> Outcome:
        """Report that all logs of this host are uploaded."""
        body = {"logs_state": "completed"}
        request = Request(method="PUT", url=self._host_url("logs-progress"), json=body)
        return acknowledged(self._transport.call(request), _ACCEPTED)

    def _cluster_url(self, what: str) -> str:
        return f"{self._base}/v2/clusters/{quote(self._service.cluster_id, safe='')}/{what}"

    def _host_url(self, what: str) -> str:
        infra_env, host = quote(self._service.infra_env_id, safe=""), quote(self._service.host_id, safe="")
        return f"{self._base}/v2/infra-envs/{infra_env}/hosts/{host}/{what}"


def base_url(url: str) -> str:
    """Return the URL with the API's base path appended, unless it has that, and without a query."""
    try:
        parts = urlsplit(url.strip())
    except ValueError:  # the first call reports it
        return url
    path = parts.path.rstrip("/").removesuffix(BASE_PATH)
    return urlunsplit((parts.scheme, parts.netloc, path + BASE_PATH, "", ""))


def check_sendable(path: Path, most: int | None = None) -> Unreachable | None:
    """Return an outcome with the reason if the file is unreadable or too large, else None."""
    try:
        size = path.stat().st_size
    except OSError as fault:
        return Unreachable(printable(f"nothing was sent: {path}: {fault.strerror}"), tries=0)
    if most is not None and size > most:
        return Unreachable(
            f"nothing was sent: {size} bytes are more than the {most} that the server takes", tries=0
        )
    return None


def succeeded(outcome: Outcome) -> bool:
    return isinstance(outcome, Answered) and outcome.good
