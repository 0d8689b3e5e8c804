"""Context that every handler needs."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from service_record.collector.api.answering import Refusal
from service_record.collector.api.guard import Guard
from service_record.collector.api.operation import READERS, Handler, Operation
from service_record.collector.api.requests import body_of
from service_record.collector.domain.access import Forbidden, Grant
from service_record.collector.domain.installation_rules import CallRefused
from service_record.collector.domain.reports import UnreadableReport
from service_record.collector.domain.steps import readable
from service_record.collector.ingest.incoming import TooMany
from service_record.collector.logs import fault_of, log
from service_record.collector.process import Collector
from service_record.collector.serving_settings import CollectorSettings
from service_record.collector.store.installations import TakenId, group_of
from service_record.collector.store.objects import ObjectError
from service_record.collector.store.record_rows import TooMuch
from service_record.collector.store.reporting import ReusedKeyError
from service_record.collector.store.row_writer import Unavailable
from service_record.http.address import HOST_RULE, is_host_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Serving:
    """A collector and its guard; the application's state."""

    collector: Collector
    guard: Guard

    @property
    def settings(self) -> CollectorSettings:
        return self.collector.settings

    @classmethod
    def of(cls, request: Request) -> "Serving":
        """Return the `Serving` of the application that a request came to."""
        serving: Serving = request.app.state.serving
        return serving

    async def ask(self, question: "Callable[[Connection], T]") -> T:
        """Ask the database, off the event loop."""

        def look_up() -> T:
            with self.collector.database.reading() as connection:
                return question(connection)

        return await run_in_threadpool(look_up)

    async def change(self, do: "Callable[[Connection], T]") -> T:
        """Change the database; return the result once it is on disk. Raises Unavailable if it cannot be."""
        return await asyncio.wrap_future(self.collector.writer.change(do))


def guarded(operation: Operation) -> Handler:
    """Return the handler of an operation behind its guard: the token is checked before anything else.

    A host outside of the group that a reader is confined to does not exist for that reader (404).
    """
    if not operation.who.kinds:
        return operation.handler

    async def checked(request: Request) -> Response:
        serving = Serving.of(request)
        grant = await serving.guard.grant(request, is_counted=not operation.has_host_in_body)
        if operation.has_closed_query and (odd := set(request.query_params) - operation.query.keys()):
            known = f"; there are {', '.join(sorted(operation.query))}" if operation.query else ""
            reason = f"there is no parameter {readable(min(odd))[:64]}{known}"
            raise Refusal(HTTPStatus.BAD_REQUEST, reason)
        if grant.kind not in operation.who.kinds:
            raise Refusal(HTTPStatus.FORBIDDEN, operation.who.refusal(grant.kind))
        if operation.who is READERS and "host" in request.path_params:
            await check_readable(serving, grant, host_name(request.path_params["host"]))
        request.state.grant = grant
        return await operation.handler(request)

    return checked


def caller(request: Request) -> tuple[Serving, Grant]:
    """Return the result of a guarded request, and the rights of its token or session."""
    grant: Grant = request.state.grant
    return Serving.of(request), grant


async def check_readable(serving: Serving, grant: Grant, host: str) -> None:
    """Raise Refusal 404 when a reader that is confined to a group asks for a host outside of it."""
    if not grant.confined_to:
        return
    group = await serving.ask(lambda connection: group_of(connection, host))
    if group is None or not grant.may_read_group(group):
        raise Refusal(HTTPStatus.NOT_FOUND, f"no host {host}")


def host_name(text: str) -> str:
    """Return a host's name in its stored form: names of hosts do not differ by case. Raises Refusal."""
    if not is_host_name(text):
        raise Refusal(HTTPStatus.BAD_REQUEST, HOST_RULE)
    return text.lower()


async def plain_body(request: Request) -> bytes:
    """Return a body without a bundle in it. Raises Refusal."""
    settings = Serving.of(request).settings
    return await body_of(request, settings.most_body, settings.seconds)


_STATUSES: Final[Mapping[type[Exception], HTTPStatus]] = {
    Forbidden: HTTPStatus.FORBIDDEN,
    UnreadableReport: HTTPStatus.BAD_REQUEST,
    TakenId: HTTPStatus.CONFLICT,
    ReusedKeyError: HTTPStatus.UNPROCESSABLE_ENTITY,
    TooMuch: HTTPStatus.INSUFFICIENT_STORAGE,
    TooMany: HTTPStatus.SERVICE_UNAVAILABLE,
    Unavailable: HTTPStatus.SERVICE_UNAVAILABLE,
    ObjectError: HTTPStatus.SERVICE_UNAVAILABLE,
}
REFUSED: Final[tuple[type[Exception], ...]] = (Refusal, CallRefused, *_STATUSES)
"""Exceptions of handlers that are answers."""


def refusal_of(error: Exception) -> Refusal:
    """Return the answer to a request whose handler raised one of `REFUSED`."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, CallRefused):
        return Refusal(error.status, str(error))
    reason = str(error)
    if isinstance(error, ObjectError):  # the store's address is for the log alone
        log().error("object store", said=reason, **fault_of(error))
        reason = "the bundle store does not answer at the moment"
    status = next(status for kind, status in _STATUSES.items() if isinstance(error, kind))
    is_passing = status == HTTPStatus.SERVICE_UNAVAILABLE
    return Refusal(status, reason, {"Retry-After": "5"} if is_passing else None)
