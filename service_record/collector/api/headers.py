"""Headers that every answer has, refusals and faults among them: what a browser may make of it.

After https://cheatsheetseries.owasp.org/cheatsheets/HTTP_Headers_Cheat_Sheet.html. Nothing is loaded, framed
or sent but by and to the collector itself, and no page has script or style within it: what somebody wrote
into a step's name stays text even where a page of ours had a fault.
"""

from collections.abc import Mapping
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
ALWAYS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",  # for browsers that know no frame-ancestors
    # Not no-referrer: with it browsers say `Origin: null` of our own forms, and nobody could tell them.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
_YEAR: Final = 365 * 24 * 3600


class SafeHeaders:
    """Middleware that adds them. A handler may set a policy of its own, and what may be cached."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                _add(message["headers"], is_tls=scope["scheme"] == "https")
            await send(message)

        await self._app(scope, receive, send_safely)


def _raw(headers: Mapping[str, str]) -> tuple[tuple[bytes, bytes], ...]:
    return tuple((name.lower().encode(), value.encode()) for name, value in headers.items())


_PLAIN: Final = _raw({**ALWAYS, "Cache-Control": "no-store"})
_TLS: Final = (*_PLAIN, *_raw({"Strict-Transport-Security": f"max-age={_YEAR}"}))


def _add(headers: list[tuple[bytes, bytes]], *, is_tls: bool) -> None:
    """Those that the handler did not set; every step that is reported pays for this."""
    there = {name for name, _ in headers}
    headers.extend(pair for pair in (_TLS if is_tls else _PLAIN) if pair[0] not in there)
