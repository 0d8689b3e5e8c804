"""Who looks at pages: a session in a cookie, begun with a token that may read."""

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Final
from urllib.parse import quote, urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from service_record.collector.access import Grant
from service_record.collector.api.answers import Refusal, refused
from service_record.collector.api.serving import Serving, check_readable, host_name
from service_record.collector.store import sessions
from service_record.collector.web.pages import page

Handler = Callable[[Request], Awaitable[Response]]
_COOKIE: Final = "service-record"


def for_readers(handler: Handler) -> Handler:
    """The page for whoever is signed in; others are asked to. Refusals are pages, too."""

    async def answer(request: Request) -> Response:
        try:
            grant = await grant_of(request)
            if grant is None:
                return _sign_in(request)
            request.state.grant = grant
            serving = Serving.of(request)
            serving.guard.admit(grant, request)
            if "host" in request.path_params:
                await check_readable(serving, grant, host_name(request.path_params["host"]))
            return await handler(request)
        except Refusal as refusal:
            return refused_page(refusal)

    return answer


def viewer_of(request: Request) -> Grant:
    """Return what the session of a page's request is good for."""
    grant: Grant = request.state.grant
    return grant


def _sign_in(request: Request) -> Response:
    """To the form for people; programs are told."""
    if "text/html" in request.headers.get("accept", ""):
        place = _place(request) if request.method == "GET" else "/"
        return RedirectResponse(f"/login?next={quote(place, safe='')}", HTTPStatus.SEE_OTHER)
    return refused(Refusal(HTTPStatus.UNAUTHORIZED, "this needs a session: sign in at /login"))


def refused_page(refusal: Refusal) -> Response:
    """What was refused and why, for people."""
    answer = page(
        "refused.html", refusal.status, title=refusal.status.phrase, reason=str(refusal), signed_in=""
    )
    answer.headers.update(refusal.headers)
    return answer


async def grant_of(request: Request) -> Grant | None:
    """What the session of a request is good for; None without one that is good."""
    session = request.cookies.get(cookie_name(request), "")
    if not session:
        return None
    serving = Serving.of(request)

    def found() -> Grant | None:
        with serving.collector.database.reading() as connection:
            return sessions.grant_of(connection, session, serving.collector.now())

    grant = await run_in_threadpool(found)
    return grant if grant is not None and grant.may_read else None


def cookie_name(request: Request) -> str:
    """Under TLS one that no other host and no plain HTTP can set; RFC 6265bis, 4.1.3.2."""
    return f"__Host-{_COOKIE}" if request.url.scheme == "https" else _COOKIE


def is_local(place: str) -> bool:
    """Whether a redirect there stays here: `//host` is another host, and a backslash is taken for `/`."""
    return (
        place.startswith("/") and place[1:2] not in {"/", "\\"} and place.isprintable() and "\\" not in place
    )


def check_origin(request: Request) -> None:
    """Refuse a form that another site sent. Raises Refusal."""
    if request.headers.get("sec-fetch-site") == "same-origin":  # the browser's word, no page can set it
        return
    host = _host(request.headers.get("origin", ""))
    if not host or host != request.headers.get("host"):
        raise Refusal(HTTPStatus.FORBIDDEN, "this form was sent by another site; open the page here again")


def _host(origin: str) -> str:
    """With its port; nothing where that is no origin, such as `http://[`."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""


def _place(request: Request) -> str:
    return f"{request.url.path}?{request.url.query}" if request.url.query else request.url.path
