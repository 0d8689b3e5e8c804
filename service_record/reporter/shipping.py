"""Ship a bundle to a destination: the assisted-service, a collector, a URL or a directory.

Errors of the network, the server or the disk are returned, not raised; even a directory answers with an HTTP
status. A bundle is shipped whole or not at all, in at most `tries` attempts.
"""

import filecmp
import io
import itertools
import platform
import tarfile
import uuid
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from service_record.http.answers import Answered, Outcome, RetryPolicy, Unreachable, printable
from service_record.http.attempt import Request
from service_record.http.transport import Transport, acknowledged
from service_record.record.atomic_write import place_copy, remove_torn
from service_record.reporter.assisted_service import AssistedService, check_sendable, succeeded
from service_record.reporter.host_view import View
from service_record.reporter.policy.round_context import HOST, HOST_BOOT, Shipment
from service_record.reporter.settings import COLLECTOR, Settings

ASKING: Final = RetryPolicy(read=60.0, total=60.0, tries=3, budget=60.0)
"""For requests of a few hundred bytes. A service under load was measured to answer after 25 s."""
SHIPPING: Final = RetryPolicy(upload_total=180.0, total=60.0, budget=200.0)
"""For a bundle at one destination. 12 MiB in 180 s are 70 kB/s, a slow line."""
_STORED_STATUSES: Final = frozenset({HTTPStatus.OK, HTTPStatus.CREATED, HTTPStatus.NO_CONTENT})
"""The statuses with which object stores accept a PUT. A 200 without a body counts only with an ETag."""
_MIN_SECRET_CHARACTERS: Final = 8
"""The least number of characters of a secret in a query. Masking shorter values, such as `1`, would make
answers unreadable.
"""


@dataclass(frozen=True, slots=True)
class Clients:
    """Makes the clients of one round. All calls to the assisted-service carry the same request id."""

    settings: Settings
    request_id: str = field(default_factory=lambda: str(uuid.uuid4()))

    @contextmanager
    def service(self, retry_policy: RetryPolicy = ASKING) -> Iterator[AssistedService]:
        """Yield the assisted-service. Raises ValueError if the settings have none."""
        if self.settings.service is None:
            raise ValueError("the settings name no assisted-service; set url")
        with AssistedService(
            self.settings.service,
            proxies=self.settings.proxies,
            retry_policy=retry_policy,
            request_id=self.request_id,
        ) as service:
            yield service

    def view(self) -> View:
        """Return the assisted-service's view of this host."""
        with self.service() as service:
            return service.host()

    def ship(self, shipment: Shipment, bundle: Path, remaining: float, *, is_known: bool) -> Outcome:
        """Ship a bundle within `remaining` seconds.

        `is_known` is true if the destination accepted a bundle before.
        """
        retry_policy = replace(
            SHIPPING,
            upload_total=min(SHIPPING.upload_total, remaining),
            budget=min(SHIPPING.budget, remaining),
        )
        if shipment.to:
            return ship_to(shipment.to, bundle, self.settings, retry_policy, shipment.tries)
        with self.service(retry_policy) as service:
            if shipment.kind == HOST_BOOT:
                return upload_boot_logs(service, bundle, shipment.tries, is_known=is_known)
            return upload_host_logs(service, bundle, shipment.tries)


def upload_boot_logs(
    service: AssistedService, bundle: Path, tries: int | None = None, *, is_known: bool = False
) -> Outcome:
    """Upload as the log type `host_boot`, which collectors and some assisted-services have for each host.

    Unless `is_known` (the service accepted this type before), a small archive is uploaded first, because a
    service that refuses the type may leave a large upload on its disk forever.
    """
    if refused := check_sendable(bundle):
        return refused
    if is_known:
        return service.upload(bundle, HOST_BOOT, tries)
    answer = service.upload(make_probe(), HOST_BOOT)
    if not succeeded(answer):
        return answer
    shipped = service.upload(bundle, HOST_BOOT, tries)
    return replace(shipped, tries=answer.tries + shipped.tries, sent=answer.sent + shipped.sent)


def make_probe() -> bytes:
    """Return a small archive that tests whether a service accepts `host_boot` logs."""
    content = b"Asked whether this service takes logs of the type host_boot. The logs follow.\n"
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        member = tarfile.TarInfo("README")
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def upload_host_logs(service: AssistedService, bundle: Path, tries: int | None = None) -> Outcome:
    """Upload as the log type `host`, which replaces the logs that the host's agent uploaded.

    Then report `completed`. Without that the logs stay in the state `collecting`.
    """
    shipped = service.upload(bundle, HOST, tries)
    if not isinstance(shipped, Answered) or not shipped.good:
        return shipped
    progress = service.complete_logs()
    if succeeded(progress):
        return shipped
    why = f"{progress.status} {progress.text}" if isinstance(progress, Answered) else progress.reason
    return replace(shipped, text=printable(f"{shipped.text} (not marked as completed: {why})"))


def ship_to(
    target: str, bundle: Path, settings: Settings, retry_policy: RetryPolicy, tries: int | None = None
) -> Outcome:
    """Ship a bundle to a value of `ship_to`: a directory, an http(s) URL, or a collector.

    Collectors get the collector token, never that of the assisted-service.
    """
    service = settings.service
    if target.startswith("/"):
        host = service.host_id if service else platform.node() or "host"
        return copy_into(Path(target), host.replace("/", "_"), bundle)
    if not target.startswith(COLLECTOR):
        return _put(target, bundle, settings, retry_policy, tries)
    if service is None:
        return Unreachable(
            "a collector knows a host by its ids: set cluster_id, infra_env_id and host_id", tries=0
        )
    elsewhere = replace(service, url=target.removeprefix(COLLECTOR), token=settings.collector_token)
    with AssistedService(elsewhere, proxies=settings.proxies, retry_policy=retry_policy) as collector:
        return upload_boot_logs(collector, bundle, tries, is_known=True)


def _put(url: str, bundle: Path, settings: Settings, retry_policy: RetryPolicy, tries: int | None) -> Outcome:
    """Send the bundle to a URL, such as a presigned one of an object store. Its query is a secret."""
    parts = urlsplit(url)
    values = (parts.query, parts.password or "", *(row.partition("=")[2] for row in parts.query.split("&")))
    with closing(
        Transport(
            url,
            ca_bundle=settings.service.ca_bundle if settings.service else None,
            proxies=settings.proxies,
            retry_policy=retry_policy,
            secrets=[value for value in values if len(value) >= _MIN_SECRET_CHARACTERS],
        )
    ) as transport:
        if refused := check_sendable(bundle):
            return refused
        # No Content-Type: some stores include it in the signature, and would refuse any other.
        reply = transport.call(Request(method="PUT", url=url, file=bundle), tries=tries)
    is_confirmed = bool(reply.body) or "etag" in reply.headers
    return acknowledged(reply, _STORED_STATUSES if is_confirmed else _STORED_STATUSES - {HTTPStatus.OK})


def copy_into(directory: Path, host: str, bundle: Path) -> Outcome:
    """Copy the bundle to a name that begins with the host's. Return 201, or 200 if an equal file exists.

    A missing directory is not created: it may be the mount point of a stick that is not there yet.
    """
    try:
        remove_torn(directory, f"{host}-")
        for target in _candidate_paths(directory / f"{host}-{bundle.name}"):
            if not target.exists():
                place_copy(bundle, target)
                return Answered(HTTPStatus.CREATED, printable(str(target)))
            if filecmp.cmp(bundle, target, shallow=False):
                return Answered(HTTPStatus.OK, printable(str(target)))
    except (OSError, ValueError) as fault:  # ValueError: the locale's encoding cannot express the path
        reason = fault.strerror if isinstance(fault, OSError) else None
        return Unreachable(printable(f"{directory}: {reason or fault}"))
    raise AssertionError("there is always another name")


def _candidate_paths(first: Path) -> Iterable[Path]:
    """Yield the path, then copies of it with a number before the suffixes, without end."""
    yield first
    stem, dot, suffixes = first.name.partition(".")
    yield from (first.with_name(f"{stem}-{number}{dot}{suffixes}") for number in itertools.count(2))
