"""The calls of a boot reporter on an assisted-service: read the own stage, report it, ship logs, and no
others.

Never a registration, never `instructions`, never the stage `Failed`: each would change what the service does
with the host. Rules are those of the service's handlers as they behave, not only of its OpenAPI document.
"""

import uuid
from http import HTTPStatus
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlsplit, urlunsplit

from service_record.http.answers import Answered, Outcome, RetryPolicy, Unreachable, printable
from service_record.http.attempt import Request
from service_record.http.proxies import Proxies
from service_record.http.transport import Connections, Transport, acknowledged
from service_record.reporter.host_view import (
    ASK_AGAIN_FOR_PROGRESS,
    NoHost,
    Refused,
    View,
    is_own_error,
    view_of,
)
from service_record.reporter.setting_table import SERVICE_LIMIT
from service_record.reporter.settings import AssistedServiceSettings

BASE_PATH: Final = "/api/assisted-install"
LONGEST_INFO: Final = 2048
"""Characters of `progress_info`; the service fails on a longer one."""
_MOST_HOSTS: Final = 8 << 20
"""Bytes of the list of a cluster's hosts without its long strings: some kilobytes for each of them.

No call that takes an agent's key lists one host alone. Whatever fits in here is read within the unit's
`MemoryMax=`.
"""
_LONGEST_STRING: Final = 1 << 16
"""Bytes. The list repeats the Ignition override of each host: 20 MB where it brings this program itself."""

_GOOD: Final = range(200, 300)
_ACCEPTED: Final = frozenset({HTTPStatus.NO_CONTENT})
"""The answers to logs and to their state that accept them."""


class AssistedService(Connections):
    """One service, for one round: all its calls carry one `X-Request-ID`. Close it, or use it as a context
    manager.
    """

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
        """Return this host as the service sees it."""
        request = Request(
            method="GET",
            url=self._cluster("hosts"),
            most_body=_MOST_HOSTS,
            longest_string=_LONGEST_STRING,
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
        view = view_of(reply.body, self._service.host_id, reply.headers.get("date", ""))
        # A page of a hotspot or of a balancer is 200, too.
        return view or Unreachable(f"200, but no list of hosts: {outcome.text[:200]}", tries=outcome.tries)

    def report_stage(self, stage: str, info: str) -> Outcome:
        """Say that the host is in this stage, with these words.

        Words are cut to what the service can store. ValueError: the stage `Failed`, which would fail the
        cluster.
        """
        if stage.strip().lower() == "failed":
            raise ValueError(
                "the stage Failed ends the installation of the whole cluster: it is never reported"
            )
        words = info.replace("\0", "")[:LONGEST_INFO]
        body = {"current_stage": stage, "progress_info": words}
        request = Request(method="PUT", url=self._host("progress"), json=body, again=ASK_AGAIN_FOR_PROGRESS)
        return acknowledged(self._transport.call(request), _GOOD)

    def upload(self, file: Path | bytes, logs_type: str, tries: int | None = None) -> Outcome:
        """Ship a file, or a probe in memory, as the host's logs of that type.

        Each try sends it anew; `sent` counts them all.
        """
        if isinstance(file, Path) and (refused := not_sendable(file, SERVICE_LIMIT)):
            return refused
        name = file.name if isinstance(file, Path) else "probe.tar.gz"
        service = self._service
        params = {
            "logs_type": logs_type,
            "host_id": service.host_id,
            **({"infra_env_id": service.infra_env_id} if service.infra_env_id else {}),
        }
        url = self._cluster("logs")
        request = Request(method="POST", url=url, params=params, file=file, part="upfile", name=name)
        return acknowledged(self._transport.call(request, tries=tries), _ACCEPTED)

    def complete_logs(self) -> Outcome:
        """Say that all of this host's logs are there."""
        body = {"logs_state": "completed"}
        request = Request(method="PUT", url=self._host("logs-progress"), json=body)
        return acknowledged(self._transport.call(request), _ACCEPTED)

    def _cluster(self, what: str) -> str:
        return f"{self._base}/v2/clusters/{_segment(self._service.cluster_id)}/{what}"

    def _host(self, what: str) -> str:
        service = self._service
        infra_env, host = _segment(service.infra_env_id), _segment(service.host_id)
        return f"{self._base}/v2/infra-envs/{infra_env}/hosts/{host}/{what}"


def base_url(url: str) -> str:
    """Return the URL with the base path after any path it has, unless it ends with that already, and without
    a query.
    """
    try:
        parts = urlsplit(url.strip())
    except ValueError:  # told by the first call
        return url
    path = parts.path.rstrip("/").removesuffix(BASE_PATH)
    return urlunsplit((parts.scheme, parts.netloc, path + BASE_PATH, "", ""))


def not_sendable(path: Path, most: int | None = None) -> Unreachable | None:
    """Return why the file cannot be sent at all; None when it can."""
    try:
        size = path.stat().st_size
    except OSError as fault:
        return Unreachable(printable(f"nothing was sent: {path}: {fault.strerror}"), tries=0)
    if most is not None and size > most:
        return Unreachable(
            f"nothing was sent: {size} bytes are more than the {most} that the server takes", tries=0
        )
    return None


def _segment(value: str) -> str:
    return quote(value, safe="")


def succeeded(outcome: Outcome) -> bool:
    return isinstance(outcome, Answered) and outcome.good
