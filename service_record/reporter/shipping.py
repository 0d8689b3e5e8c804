"""The destinations of a bundle. All destinations have the same interface, and answer as a server would.

`Clients` are the services that a round talks to: the assisted-service and these destinations.
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
from service_record.reporter.setting_table import COLLECTOR
from service_record.reporter.settings import Settings

_STORED: Final = frozenset({HTTPStatus.OK, HTTPStatus.CREATED, HTTPStatus.NO_CONTENT})
"""Answers of object stores to a PUT that they have taken; a 200 without a body has an ETag then."""
_SHORTEST_SECRET: Final = 8
"""Characters: a shorter value of a query is no signature, and masking it would garble every answer."""


@dataclass(frozen=True, slots=True)
class HostBootLogs:
    """The logs of their own for boots of an assisted-service, where it has them, or of a collector."""

    service: AssistedService
    is_known: bool = False
    """True if it took such logs before. A service that does not know them may keep a large upload on its
    disk for ever, so it is asked with a small one first.
    """

    kind: str = HOST_BOOT

    def ship(self, bundle: Path, tries: int | None = None) -> Outcome:
        if refused := not_sendable(bundle):
            return refused
        if self.is_known:
            return self.service.upload(bundle, HOST_BOOT, tries)
        answer = self.service.upload(probe(), HOST_BOOT)
        if not succeeded(answer):
            return answer
        shipped = self.service.upload(bundle, HOST_BOOT, tries)
        return replace(shipped, tries=answer.tries + shipped.tries, sent=answer.sent + shipped.sent)


@dataclass(frozen=True, slots=True)
class HostLogsSlot:
    """The assisted-service's one slot of logs for each host: an upload takes the place of the agent's own
    logs.
    """

    service: AssistedService

    kind: str = field(default=HOST, init=False)

    def ship(self, bundle: Path, tries: int | None = None) -> Outcome:
        """Upload, then say that this was all: the upload alone leaves the host in `collecting`."""
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
    """A URL that takes a body, as presigned ones of object stores do. Its query is a secret."""

    url: str = field(repr=False)
    transport: Transport = field(repr=False)
    kind: str

    def ship(self, bundle: Path, tries: int | None = None) -> Outcome:
        # No Content-Type: some stores sign it, and then only the one they expect is right.
        request = Request(method="PUT", url=self.url, file=bundle)
        if refused := not_sendable(bundle):
            return refused
        reply = self.transport.call(request, tries=tries)
        is_told = bool(reply.body) or "etag" in reply.headers
        return acknowledged(reply, _STORED if is_told else _STORED - {HTTPStatus.OK})


@dataclass(frozen=True, slots=True)
class Directory:
    """A directory that is there: of a stick, of a share, of the host. Names begin with the host's."""

    path: Path
    host: str

    @property
    def kind(self) -> str:
        return kind_of(str(self.path))

    def ship(self, bundle: Path, tries: int | None = None) -> Outcome:  # noqa: ARG002 - copied once
        """201: copied; 200: it was there already. A directory that is missing is not made: a mount may be."""
        try:
            beginning = f"{self.host}-"
            remove_torn(self.path, beginning)
            for target in _names(self.path / f"{beginning}{bundle.name}"):
                if not target.exists():
                    place_copy(bundle, target)
                    return Answered(HTTPStatus.CREATED, printable(str(target)))
                if filecmp.cmp(bundle, target, shallow=False):
                    return Answered(HTTPStatus.OK, printable(str(target)))
        except OSError as fault:
            return Unreachable(printable(f"{self.path}: {fault.strerror or fault}"))
        raise AssertionError("there is always another name")


Destination: TypeAlias = HostBootLogs | HostLogsSlot | PutUrl | Directory
"""Takes bundles, one at a time, whole or not at all, each in at most so many tries if that is given.

It raises nothing on account of a network, a server or a disk. Its `kind` is a name that stays the same over
rounds, is unique among a host's destinations, and no secret.
"""


def destination(target: str, settings: Settings, retry_policy: RetryPolicy) -> Destination:
    """Return the destination that a setting names: a directory, an http(s) URL, or a collector.

    Collectors get a token of their own, never that of the assisted-service. Raises ValueError, without the
    setting, for anything else.
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
            secrets=_secrets(target),
        )
        return PutUrl(target, transport, kind_of(target))
    if service is None:
        raise ValueError("a collector knows a host by its ids: set cluster_id, infra_env_id and host_id")
    elsewhere = replace(service, url=target.removeprefix(COLLECTOR), token=settings.collector_token)
    collector = AssistedService(elsewhere, proxies=settings.proxies, retry_policy=retry_policy)
    return HostBootLogs(collector, is_known=True, kind=kind_of(target))


def _secrets(url: str) -> tuple[str, ...]:
    parts = urlsplit(url)
    values = (parts.query, parts.password or "", *(row.partition("=")[2] for row in parts.query.split("&")))
    return tuple(value for value in values if len(value) >= _SHORTEST_SECRET)


def _names(first: Path) -> Iterable[Path]:
    """Return the path, and the same with a number before its suffixes, for ever."""
    yield first
    stem, dot, suffixes = first.name.partition(".")
    yield from (first.with_name(f"{stem}-{number}{dot}{suffixes}") for number in itertools.count(2))


def probe() -> bytes:
    """Return an archive of some hundred bytes that says what it is."""
    content = b"Asked whether this service takes logs of the type host_boot. The logs follow.\n"
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        member = tarfile.TarInfo("README")
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


ASKING: Final = RetryPolicy(read=60.0, total=60.0, tries=3, budget=60.0)
"""For a few hundred bytes. A service under load was seen to need 25 s for them."""
SHIPPING: Final = RetryPolicy(upload_total=180.0, total=60.0, budget=200.0)
"""For a bundle at one destination: a slow line takes 12 MiB in three minutes at 70 kB/s."""


@dataclass(frozen=True, slots=True)
class Clients:
    """The services to talk to in one round. Its requests carry one id."""

    settings: Settings
    request_id: str = field(default_factory=lambda: str(uuid.uuid4()))

    @contextmanager
    def service(self) -> Iterator[AssistedService | None]:
        """Yield the assisted-service, to ask and to tell; None when the settings name none."""
        if self.settings.service is None:
            yield None
            return
        with self._service(ASKING) as service:
            yield service

    def view(self) -> View | None:
        """Return this host as the assisted-service sees it; None when the settings name none."""
        with self.service() as service:
            return None if service is None else service.host()

    @contextmanager
    def destination(self, shipment: Shipment, remaining: float, *, is_known: bool) -> Iterator[Destination]:
        """Yield the destination of this shipment for so many seconds; `is_known` when it took one before.

        Raises ValueError where it is no destination.
        """
        retry_policy = replace(
            SHIPPING,
            upload_total=min(SHIPPING.upload_total, remaining),
            budget=min(SHIPPING.budget, remaining),
        )
        if shipment.to:
            yield destination(shipment.to, self.settings, retry_policy)
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
