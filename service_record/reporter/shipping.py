"""The destinations of bundles. All have the same interface, and even a directory answers with an HTTP status.

`Clients` makes the clients of a round: the assisted-service and these destinations.
"""

import filecmp
import io
import itertools
import platform
import tarfile
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from service_record.http.answers import Answered, Outcome, RetryPolicy, Unreachable, printable
from service_record.http.attempt import Request
from service_record.http.transport import Transport, acknowledged
from service_record.record.atomic_write import place_copy, remove_torn
from service_record.reporter.assisted_service import AssistedService, not_sendable, succeeded
from service_record.reporter.host_view import View
from service_record.reporter.policy.round_context import HOST, HOST_BOOT, Shipment, kind_of
from service_record.reporter.settings import COLLECTOR, Settings

_STORED_STATUSES: Final = frozenset({HTTPStatus.OK, HTTPStatus.CREATED, HTTPStatus.NO_CONTENT})
"""The statuses with which object stores accept a PUT. A 200 without a body counts only with an ETag."""
_MIN_SECRET_CHARACTERS: Final = 8
"""The least number of characters of a secret in a query. Masking shorter values, such as `1`, would make
answers unreadable.
"""


@dataclass(frozen=True, slots=True)
class HostBootLogs:
    """Uploads of the log type `host_boot`, which collectors and some assisted-services have for each host."""

    service: AssistedService
    is_known: bool = False
    """True if the service accepted this log type before. Otherwise a small archive is uploaded first, because
    a service that refuses the type may leave a large upload on its disk forever.
    """

    kind: str = HOST_BOOT

    def ship(self, bundle: Path, tries: int | None = None) -> Outcome:
        if refused := not_sendable(bundle):
            return refused
        if self.is_known:
            return self.service.upload(bundle, HOST_BOOT, tries)
        answer = self.service.upload(make_probe(), HOST_BOOT)
        if not succeeded(answer):
            return answer
        shipped = self.service.upload(bundle, HOST_BOOT, tries)
        return replace(shipped, tries=answer.tries + shipped.tries, sent=answer.sent + shipped.sent)


@dataclass(frozen=True, slots=True)
class HostLogsSlot:
    """Uploads of the log type `host`. Each upload replaces the logs that the host's agent uploaded."""

    service: AssistedService

    kind: str = field(default=HOST, init=False)

    def ship(self, bundle: Path, tries: int | None = None) -> Outcome:
        """Upload, then report `completed`. Without it the logs stay in the state `collecting`."""
        shipped = self.service.upload(bundle, HOST, tries)
        if not isinstance(shipped, Answered) or not shipped.good:
            return shipped
        progress = self.service.complete_logs()
        if succeeded(progress):
            return shipped
        why = f"{progress.status} {progress.text}" if isinstance(progress, Answered) else progress.reason
        return replace(shipped, text=printable(f"{shipped.text} (not marked as completed: {why})"))


@dataclass(frozen=True, slots=True)
class PutUrl:
    """A URL to PUT the bundle to, such as a presigned one of an object store. Its query is a secret."""

    url: str = field(repr=False)
    transport: Transport = field(repr=False)
    kind: str

    def ship(self, bundle: Path, tries: int | None = None) -> Outcome:
        # No Content-Type: some stores include it in the signature, and would refuse any other.
        request = Request(method="PUT", url=self.url, file=bundle)
        if refused := not_sendable(bundle):
            return refused
        reply = self.transport.call(request, tries=tries)
        is_confirmed = bool(reply.body) or "etag" in reply.headers
        return acknowledged(reply, _STORED_STATUSES if is_confirmed else _STORED_STATUSES - {HTTPStatus.OK})


@dataclass(frozen=True, slots=True)
class Directory:
    """An existing directory, for example of a USB stick or a share. File names begin with the host's name."""

    path: Path
    host: str

    @property
    def kind(self) -> str:
        return kind_of(str(self.path))

    def ship(self, bundle: Path, tries: int | None = None) -> Outcome:  # noqa: ARG002 - copied once
        """Copy the bundle. Return 201, or 200 if an equal file exists.

        A missing directory is not created: it may be the mount point of a stick that is not there yet.
        """
        try:
            beginning = f"{self.host}-"
            remove_torn(self.path, beginning)
            for target in _candidate_paths(self.path / f"{beginning}{bundle.name}"):
                if not target.exists():
                    place_copy(bundle, target)
                    return Answered(HTTPStatus.CREATED, printable(str(target)))
                if filecmp.cmp(bundle, target, shallow=False):
                    return Answered(HTTPStatus.OK, printable(str(target)))
        except OSError as fault:
            return Unreachable(printable(f"{self.path}: {fault.strerror or fault}"))
        raise AssertionError("there is always another name")


Destination: TypeAlias = HostBootLogs | HostLogsSlot | PutUrl | Directory
"""Ships one bundle at a time, whole or not at all, in at most `tries` attempts.

Errors of the network, the server or the disk are returned, not raised. `kind` is the name of the destination
in the state and the log: it is the same in each round, unique for the host, and contains no secret.
"""


def make_destination(target: str, settings: Settings, retry_policy: RetryPolicy) -> Destination:
    """Return the destination for a value of `ship_to`: a directory, an http(s) URL, or a collector.

    Collectors get the collector token, never that of the assisted-service. Raises ValueError for any other
    value; the message does not repeat it, because it may be a secret.
    """
    service = settings.service
    if target.startswith("/"):
        host = service.host_id if service else platform.node() or "host"
        return Directory(Path(target), host.replace("/", "_"))
    if not target.removeprefix(COLLECTOR).startswith(("http://", "https://")):
        raise ValueError("ship_to takes /DIRECTORY, http(s)://…, collector+http(s)://…")
    if not target.startswith(COLLECTOR):
        transport = Transport(
            target,
            ca_bundle=service.ca_bundle if service else None,
            proxies=settings.proxies,
            retry_policy=retry_policy,
            secrets=_secrets_in_url(target),
        )
        return PutUrl(target, transport, kind_of(target))
    if service is None:
        raise ValueError("a collector knows a host by its ids: set cluster_id, infra_env_id and host_id")
    elsewhere = replace(service, url=target.removeprefix(COLLECTOR), token=settings.collector_token)
    collector = AssistedService(elsewhere, proxies=settings.proxies, retry_policy=retry_policy)
    return HostBootLogs(collector, is_known=True, kind=kind_of(target))


def _secrets_in_url(url: str) -> tuple[str, ...]:
    parts = urlsplit(url)
    values = (parts.query, parts.password or "", *(row.partition("=")[2] for row in parts.query.split("&")))
    return tuple(value for value in values if len(value) >= _MIN_SECRET_CHARACTERS)


def _candidate_paths(first: Path) -> Iterable[Path]:
    """Yield the path, then copies of it with a number before the suffixes, without end."""
    yield first
    stem, dot, suffixes = first.name.partition(".")
    yield from (first.with_name(f"{stem}-{number}{dot}{suffixes}") for number in itertools.count(2))


def make_probe() -> bytes:
    """Return a small archive that tests whether a service accepts `host_boot` logs."""
    content = b"Asked whether this service takes logs of the type host_boot. The logs follow.\n"
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        member = tarfile.TarInfo("README")
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


ASKING: Final = RetryPolicy(read=60.0, total=60.0, tries=3, budget=60.0)
"""For requests of a few hundred bytes. A service under load was measured to answer after 25 s."""
SHIPPING: Final = RetryPolicy(upload_total=180.0, total=60.0, budget=200.0)
"""For a bundle at one destination. 12 MiB in 180 s are 70 kB/s, a slow line."""


@dataclass(frozen=True, slots=True)
class Clients:
    """Makes the clients of one round. All calls to the assisted-service carry the same request id."""

    settings: Settings
    request_id: str = field(default_factory=lambda: str(uuid.uuid4()))

    @contextmanager
    def service(self) -> Iterator[AssistedService | None]:
        """Yield the assisted-service, with time limits for small requests; None if the settings have none."""
        if self.settings.service is None:
            yield None
            return
        with self._service(ASKING) as service:
            yield service

    def view(self) -> View | None:
        """Return the assisted-service's view of this host; None if the settings have no service."""
        with self.service() as service:
            return None if service is None else service.host()

    @contextmanager
    def destination(self, shipment: Shipment, remaining: float, *, is_known: bool) -> Iterator[Destination]:
        """Yield the destination of this shipment, limited to `remaining` seconds.

        `is_known` is true if it accepted a bundle before. Raises ValueError if the setting is invalid.
        """
        retry_policy = replace(
            SHIPPING,
            upload_total=min(SHIPPING.upload_total, remaining),
            budget=min(SHIPPING.budget, remaining),
        )
        if shipment.to:
            yield make_destination(shipment.to, self.settings, retry_policy)
            return
        with self._service(retry_policy) as service:
            yield HostBootLogs(service, is_known) if shipment.kind == HOST_BOOT else HostLogsSlot(service)

    def _service(self, retry_policy: RetryPolicy) -> AssistedService:
        if self.settings.service is None:
            raise ValueError("the settings name no assisted-service; set url")
        return AssistedService(
            self.settings.service,
            proxies=self.settings.proxies,
            retry_policy=retry_policy,
            request_id=self.request_id,
        )
