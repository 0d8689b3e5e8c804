"""Whom a round talks to, by the settings: the assisted-service, and the destinations of bundles."""

import platform
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

from service_record.reporter.answers import View
from service_record.reporter.assisted_service import AssistedService
from service_record.reporter.patience import Patience
from service_record.reporter.policy.plan import HOST_BOOT, Shipment
from service_record.reporter.settings import Settings
from service_record.reporter.shipping import (
    Destination,
    HostBootLogs,
    HostLogs,
    Sender,
    destination,
)

ASKING: Final = Patience(read=20.0, total=30.0, tries=3, budget=60.0)
"""For a few hundred bytes. What takes longer is for the next round."""
SHIPPING: Final = Patience(upload_total=180.0, total=60.0, budget=200.0)
"""For a bundle at one destination: a slow line takes 12 MiB in three minutes at 70 kB/s."""


@dataclass(frozen=True, slots=True)
class Peers:
    """Who is there to be talked to in one round. Its requests carry one id."""

    settings: Settings
    request_id: str = field(default_factory=lambda: str(uuid.uuid4()))

    @contextmanager
    def service(self) -> Iterator[AssistedService | None]:
        """The assisted-service, to ask and to tell; None when the settings name none."""
        if self.settings.service is None:
            yield None
            return
        with self._service(ASKING) as service:
            yield service

    def view(self) -> View | None:
        """This host as the assisted-service sees it; None when the settings name none."""
        with self.service() as service:
            return None if service is None else service.host()

    @contextmanager
    def destination(self, shipment: Shipment, left: float, *, is_known: bool) -> Iterator[Destination]:
        """Where this shipment goes, within so many seconds; `is_known` when it took one before.

        Raises ValueError where it is no destination.
        """
        patience = replace(
            SHIPPING,
            upload_total=min(SHIPPING.upload_total, left),
            budget=min(SHIPPING.budget, left),
        )
        if shipment.to:
            yield destination(shipment.to, self._sender(patience))
            return
        with self._service(patience) as service:
            yield HostBootLogs(service, is_known) if shipment.kind == HOST_BOOT else HostLogs(service)

    def _service(self, patience: Patience) -> AssistedService:
        if self.settings.service is None:
            raise ValueError("the settings name no assisted-service")
        return AssistedService(
            self.settings.service,
            proxies=self.settings.proxies,
            patience=patience,
            request_id=self.request_id,
        )

    def _sender(self, patience: Patience) -> Sender:
        service = self.settings.service
        host = service.host_id if service else platform.node() or "host"
        return Sender(
            host=host,
            service=service,
            collector_token=self.settings.collector_token,
            proxies=self.settings.proxies,
            patience=patience,
        )
