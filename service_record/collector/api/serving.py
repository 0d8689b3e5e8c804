"""The context of request handlers, and authentication before a handler runs."""

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
from service_record.collector.api.requests import parse_query, read_body, read_fields
from service_record.collector.assisted.installation_rules import CallRefused
from service_record.collector.assisted.installations import IdInUse, read_group
from service_record.collector.domain.access import Forbidden, Grant
from service_record.collector.domain.reports import UnreadableReport
from service_record.collector.domain.steps import readable
from service_record.collector.ingest.incoming import TooManyUploads
from service_record.collector.logs import describe_fault, log
from service_record.collector.process import Collector
from service_record.collector.serving_settings import CollectorSettings
from service_record.collector.store.objects import ObjectError
from service_record.collector.store.record_rows import TooManyRecords
from service_record.collector.store.reporting import ReusedKeyError
from service_record.collector.store.row_writer import Unavailable
from service_record.http.address import HOST_RULE, is_host_name

if TYPE_CHECKING:
    from collections.abc import Callable

    import msgspec
    from sqlalchemy import Connection

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Serving:
    """The application state: a collector and its guard."""

    collector: Collector
    guard: Guard

    @property
    def settings(self) -> CollectorSettings:
        return self.collector.settings

    @classmethod
    def of(cls, request: Request) -> "Serving":
        """Return the state of the application that handles a request."""
        serving: Serving = request.app.state.serving
        return serving

    async def ask(self, question: "Callable[[Connection], T]") -> T:
        """Run a query in a thread, so that the event loop is not blocked, and return its result."""

        def look_up() -> T:
            with self.collector.database.reading() as connection:
                return question(connection)

        return await run_in_threadpool(look_up)

    async def change(self, do: "Callable[[Connection], T]") -> T:
        """Run a change and return its result once it is on disk. Raises Unavailable if that fails."""
        return await asyncio.wrap_future(self.collector.writer.change(do))


def make_handler(operation: Operation) -> Handler:
    """Return a handler that checks the token and its rights before it calls the operation's handler.

    A reader that is confined to a group gets 404 for hosts outside that group.
    """
    if not operation.who.kinds:
        return operation.handler
    query, fields = operation.query, operation.fields
    names = frozenset(query.__struct_fields__ if query is not None else ())

    async def checked(request: Request) -> Response:
        serving = Serving.of(request)
        grant = await serving.guard.check_request(request, is_counted=not operation.has_host_in_body)
        if operation.has_closed_query and (odd := set(request.query_params) - names):
            known = f"; there are {', '.join(sorted(names))}" if names else ""
            reason = f"there is no parameter {readable(min(odd))[:64]}{known}"
            raise Refusal(HTTPStatus.BAD_REQUEST, reason)
        if grant.kind not in operation.who.kinds:
            raise Refusal(HTTPStatus.FORBIDDEN, operation.who.refusal(grant.kind))
        if operation.who is READERS and "host" in request.path_params:
            await check_readable(serving, grant, host_name(request.path_params["host"]))
        request.state.grant = grant
        arguments: dict[str, msgspec.Struct] = {}
        if query is not None:
            arguments["query"] = parse_query(request, query)
        if fields is not None:
            settings = serving.settings
            arguments["body"] = await read_fields(request, fields, settings.most_body, settings.seconds)
        return await operation.handler(request, **arguments)

    return checked


def caller(request: Request) -> tuple[Serving, Grant]:
    """Return the application state and the caller's rights. Only for handlers behind `make_handler`."""
    grant: Grant = request.state.grant
    return Serving.of(request), grant


async def check_readable(serving: Serving, grant: Grant, host: str) -> None:
    """Raise Refusal 404 if the grant is confined to a group and the host is not in it."""
    if not grant.confined_to:
        return
    group = await serving.ask(lambda connection: read_group(connection, host))
    if group is None or not grant.may_read_group(group):
        raise Refusal(HTTPStatus.NOT_FOUND, f"no host {host}")


def host_name(text: str) -> str:
    """Return a host name in lower case, as it is stored. Raises Refusal if it is not valid."""
    if not is_host_name(text):
        raise Refusal(HTTPStatus.BAD_REQUEST, HOST_RULE)
    return text.lower()


async def plain_body(request: Request) -> bytes:
    """Return the body of a request, within the limits for all calls but uploads. Raises Refusal."""
    settings = Serving.of(request).settings
    return await read_body(request, settings.most_body, settings.seconds)


_STATUSES: Final[Mapping[type[Exception], HTTPStatus]] = {
    Forbidden: HTTPStatus.FORBIDDEN,
    UnreadableReport: HTTPStatus.BAD_REQUEST,
    IdInUse: HTTPStatus.CONFLICT,
    ReusedKeyError: HTTPStatus.UNPROCESSABLE_ENTITY,
    TooManyRecords: HTTPStatus.INSUFFICIENT_STORAGE,
    TooManyUploads: HTTPStatus.SERVICE_UNAVAILABLE,
    Unavailable: HTTPStatus.SERVICE_UNAVAILABLE,
    ObjectError: HTTPStatus.SERVICE_UNAVAILABLE,
}
REFUSED: Final[tuple[type[Exception], ...]] = (Refusal, CallRefused, *_STATUSES)
"""Exceptions that a handler raises to answer with an error status."""


def make_refusal(error: Exception) -> Refusal:
    """Convert one of the `REFUSED` exceptions to a `Refusal`."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, CallRefused):
        return Refusal(error.status, str(error))
    reason = str(error)
    if isinstance(error, ObjectError):  # the message has the store's address, which clients must not see
        log().error("object store", said=reason, **describe_fault(error))
        reason = "the bundle store does not answer at the moment"
    status = next(status for kind, status in _STATUSES.items() if isinstance(error, kind))
    is_temporary = status == HTTPStatus.SERVICE_UNAVAILABLE
    return Refusal(status, reason, {"Retry-After": "5"} if is_temporary else None)
