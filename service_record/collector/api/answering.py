"""JSON responses, error responses, and the security headers of every response.

The headers follow https://cheatsheetseries.owasp.org/cheatsheets/HTTP_Headers_Cheat_Sheet.html. The strict
CSP allows only resources of the collector itself, and no inline script or style. So text in a step's name
cannot run as a script, even if a template forgets to escape it.
"""

from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import ClassVar, Final, Generic, TypeVar

import msgspec
from starlette.responses import Response, StreamingResponse
from starlette.types import ASGIApp, Receive, Scope, Send

T = TypeVar("T")
PROBLEM: Final = "application/problem+json"
"""The media type of refusals (RFC 9457)."""
ASSISTED: Final = "/api/assisted-install/"
"""Path prefix of the assisted-service's calls."""
BASE: Final = f"{ASSISTED}v2"


class AgentProblem(msgspec.Struct):
    """A refusal by the assisted-service's authentication, routing or validation; the code is a number."""

    code: int
    message: str


class AgentError(msgspec.Struct):
    """A refusal in the form of the assisted-service's handlers; the code is a text."""

    code: str
    href: str
    id: int
    kind: str
    reason: str


class Refusal(Exception):  # noqa: N818  # an answer, not a fault
    """A request is refused, with a status and a reason."""

    def __init__(self, status: HTTPStatus, reason: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.headers = headers or {}


class Problem(msgspec.Struct):
    """The form of a refusal; RFC 9457."""

    title: str
    status: int
    detail: str


class JsonAnswer(Response, Generic[T]):
    """A document as JSON. Handlers declare its type, which the OpenAPI document describes."""

    status: ClassVar = HTTPStatus.OK
    media_type = "application/json"

    def __init__(self, document: T, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(msgspec.json.encode(document), self.status, headers)


class Created(JsonAnswer[T]):
    """A document about something that the request created."""

    status = HTTPStatus.CREATED


class AcceptedAnswer(JsonAnswer[T]):
    """A document about work that continues after the answer."""

    status = HTTPStatus.ACCEPTED


class Conflict(JsonAnswer[T]):
    """A refusal (RFC 9457) with what the client needs to continue."""

    status = HTTPStatus.CONFLICT
    media_type = PROBLEM


class Empty(Response):
    """An answer without a body."""

    status: ClassVar = HTTPStatus.OK

    def __init__(self) -> None:
        super().__init__(status_code=self.status)


class CreatedEmpty(Empty):
    """An answer without a body: the request created something."""

    status = HTTPStatus.CREATED


class NoContent(Empty):
    """An answer with the status for answers without a body."""

    status = HTTPStatus.NO_CONTENT


class PlainText(Response):
    """A plain text."""

    status: ClassVar = HTTPStatus.OK
    media_type = "text/plain"

    def __init__(self, text: str | bytes, media_type: str = "text/plain") -> None:
        super().__init__(text, self.status, media_type=media_type)


class CreatedText(PlainText):
    """A plain text about something that the request created."""

    status = HTTPStatus.CREATED


class UnavailableText(PlainText):
    """A plain text: the process cannot work at the moment."""

    status = HTTPStatus.SERVICE_UNAVAILABLE


class Download(StreamingResponse):
    """A file, which browsers save and never display."""

    status: ClassVar = HTTPStatus.OK
    media_type = "application/octet-stream"

    def __init__(self, pieces: Iterator[bytes], headers: Mapping[str, str] | None = None) -> None:
        super().__init__(pieces, self.status, {"X-Content-Type-Options": "nosniff", **(headers or {})})


def render_refusal(refusal: Refusal, path: str = "") -> Response:
    """Return an error response: RFC 9457, or the assisted-service's form if `path` is one of its calls."""
    if path.startswith(ASSISTED):
        document = msgspec.json.encode(AgentProblem(int(refusal.status), str(refusal)))
        return Response(document, refusal.status, refusal.headers, media_type="application/json")
    document = msgspec.json.encode(Problem(refusal.status.phrase, refusal.status, str(refusal)))
    return Response(document, refusal.status, refusal.headers, media_type=PROBLEM)


POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
ALWAYS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",  # for browsers without frame-ancestors
    # Not no-referrer: browsers would then send `Origin: null` with our own forms, as other sites may do.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
_YEAR: Final = 365 * 24 * 3600


class EitherSlash:
    """Middleware that removes a trailing slash from paths below a prefix.

    The assisted-service accepts both. Starlette would redirect, and clients do not send a body again.
    """

    def __init__(self, app: ASGIApp, prefix: str) -> None:
        self._app = app
        self._prefix = prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith(self._prefix):
            scope["path"] = scope["path"].rstrip("/")  # no copy: the router writes the route into it
        await self._app(scope, receive, send)


def _raw(headers: Mapping[str, str]) -> tuple[tuple[bytes, bytes], ...]:
    return tuple((name.lower().encode(), value.encode()) for name, value in headers.items())


_PLAIN: Final = _raw({**ALWAYS, "Cache-Control": "no-store"})
_DATA: Final = _raw(
    {
        "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-store",
    }
)
"""For JSON, which browsers never render as a page. The server checks each header of each report's answer, so
they are few; https://cheatsheetseries.owasp.org/cheatsheets/REST_Security_Cheat_Sheet.html lists them.
"""
_STRICT: Final = _raw({"Strict-Transport-Security": f"max-age={_YEAR}"})
_JSON: Final = {b"application/json", b"application/problem+json"}


def add_safe_headers(headers: list[tuple[bytes, bytes]], *, is_tls: bool) -> None:
    """Add the security headers that the handler did not set. This runs for every report: keep it fast."""
    there = dict(headers)
    safe = _DATA if there.get(b"content-type") in _JSON else _PLAIN
    headers.extend(pair for pair in (safe + _STRICT if is_tls else safe) if pair[0] not in there)
