"""Context that every handler needs."""

import asyncio
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from service_record.client.address import HOST_RULE, is_host_name
from service_record.collector.api.answering import Refusal, agent_refused, answer
from service_record.collector.api.guard import Guard
from service_record.collector.api.operation import READERS, AgentError, Handler, Operation
from service_record.collector.domain.access import Forbidden, Grant
from service_record.collector.domain.installation_rules import CallRefused
from service_record.collector.process import Collector
from service_record.collector.serving_settings import CollectorSettings
from service_record.collector.store.installations import group_of
from service_record.collector.store.row_writer import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

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
        """Change the database; return the result once it is on disk. Raises Refusal 503 if it cannot be."""
        return await self.written(self.collector.writer.change(do))

    async def written(self, change: "Future[T]") -> T:
        """Return the result of a change once it is on disk. Raises Refusal 503 if it cannot be written."""
        try:
            return await asyncio.wrap_future(change)
        except Unavailable as error:
            raise unavailable(error) from None


def guarded(operation: Operation) -> Handler:
    """Return the handler of an operation behind its guard: the token is checked before anything else.

    A host outside of the group that a reader is confined to does not exist for that reader (404).
    """
    handler = (
        as_assisted(operation.handler) if operation.problem == AgentError.__name__ else operation.handler
    )
    if not operation.who.kinds:
        return handler

    async def checked(request: Request) -> Response:
        serving = Serving.of(request)
        grant = await serving.guard.grant(request)
        if grant.kind not in operation.who.kinds:
            raise Refusal(HTTPStatus.FORBIDDEN, operation.who.refusal(grant.kind))
        if operation.who is READERS and "host" in request.path_params:
            await check_readable(serving, grant, host_name(request.path_params["host"]))
        request.state.grant = grant
        return await handler(request)

    return checked


def as_assisted(handler: Handler) -> Handler:
    """Make a handler refuse as the assisted-service does, which has two forms of refusals.

    What its handlers refuse (404, 409) has a text for a code; what it refuses before them has a number.
    """

    async def refusing(request: Request) -> Response:
        try:
            return await handler(request)
        except CallRefused as refused:
            if refused.status == HTTPStatus.BAD_REQUEST:
                return agent_refused(refused.status, str(refused))
            code = int(refused.status)
            return answer(AgentError(str(code), "", code, "Error", str(refused)), refused.status)
        except Forbidden as forbidden:
            return agent_refused(HTTPStatus.FORBIDDEN, str(forbidden))

    return refusing


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


def unavailable(error: Unavailable) -> Refusal:
    """Build the refusal for times when nothing can be written: nothing was acknowledged, try again."""
    return Refusal(HTTPStatus.SERVICE_UNAVAILABLE, str(error), {"Retry-After": "5"})
