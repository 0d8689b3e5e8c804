"""What every handler needs."""

import asyncio
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from service_record.client.address import HOST_RULE, is_host_name
from service_record.collector.api.answering import Refusal
from service_record.collector.api.guard import Guard
from service_record.collector.process import Collector
from service_record.collector.serving_settings import CollectorSettings
from service_record.collector.store.installations import group_of
from service_record.collector.store.row_writer import Unavailable

if TYPE_CHECKING:
    from concurrent.futures import Future

    from service_record.collector.api.metrics import Metrics
    from service_record.collector.domain.access import Grant

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Serving:
    """A collector and who may use it; the application's state."""

    collector: Collector
    guard: Guard
    metrics: "Metrics"

    @property
    def settings(self) -> CollectorSettings:
        return self.collector.settings

    @classmethod
    def of(cls, request: Request) -> "Serving":
        """That of the application which a request came to."""
        serving: Serving = request.app.state.serving
        return serving

    async def written(self, change: "Future[T]") -> T:
        """What a change came to, once it is on disk. Raises Refusal 503 where it could not get there."""
        try:
            return await asyncio.wrap_future(change)
        except Unavailable as error:
            raise unavailable(error) from None


async def reader(request: Request) -> "tuple[Serving, Grant]":
    """Who reads. Raises Refusal where the token is good for writing only, or for nothing."""
    serving = Serving.of(request)
    grant = await serving.guard.grant(request)
    if not grant.may_read:
        raise Refusal(HTTPStatus.FORBIDDEN, f"a token of kind {grant.kind} reads nothing")
    return serving, grant


async def host_reader(request: Request) -> "tuple[Serving, Grant, str]":
    """Return who reads of the host in the path, and the host's name.

    Raises Refusal: a host outside of the group that the token is confined to does not exist for it (404).
    """
    serving, grant = await reader(request)
    host = host_name(request.path_params["host"])
    await check_readable(serving, grant, host)
    return serving, grant, host


async def check_readable(serving: Serving, grant: "Grant", host: str) -> None:
    """Raise Refusal 404 when a reader that is confined to a group asks for a host outside of it."""
    if not grant.confined_to:
        return

    def read_group() -> str | None:
        with serving.collector.database.reading() as connection:
            return group_of(connection, host)

    group = await run_in_threadpool(read_group)
    if group is None or not grant.may_read_group(group):
        raise Refusal(HTTPStatus.NOT_FOUND, f"no host {host}")


def host_name(text: str) -> str:
    """Return a host's name as it is kept: names of hosts do not differ by case. Raises Refusal."""
    if not is_host_name(text):
        raise Refusal(HTTPStatus.BAD_REQUEST, HOST_RULE)
    return text.lower()


async def administrator(request: Request) -> "tuple[Serving, Grant]":
    """Who administers. Raises Refusal where the token is none of an administrator's."""
    serving = Serving.of(request)
    grant = await serving.guard.grant(request)
    if not grant.may_administer:
        raise Refusal(HTTPStatus.FORBIDDEN, f"this needs a token of kind admin, and not {grant.kind}")
    return serving, grant


def unavailable(error: Unavailable) -> Refusal:
    """What is told when nothing can be written: nothing was acknowledged, come again."""
    return Refusal(HTTPStatus.SERVICE_UNAVAILABLE, str(error), {"Retry-After": "5"})
