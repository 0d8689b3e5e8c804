"""Log in with a token, check session cookies, and log out."""

from http import HTTPStatus
from typing import Final
from urllib.parse import quote, urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from service_record.collector.api.answering import Refusal, render_refusal
from service_record.collector.api.operation import Handler
from service_record.collector.api.requests import parse_form
from service_record.collector.api.serving import (
    REFUSED,
    Serving,
    caller,
    check_readable,
    host_name,
    make_refusal,
    plain_body,
)
from service_record.collector.domain.access import Grant, parse_token
from service_record.collector.store import tokens
from service_record.collector.web.pages import page

_COOKIE: Final = "service-record"


def for_anybody(handler: Handler) -> Handler:
    """Wrap a handler that needs no session. Refusals are shown as pages."""

    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except REFUSED as error:
            return refused_page(make_refusal(error))

    return answer


def for_readers(handler: Handler) -> Handler:
    """Wrap a handler that needs a session. Requests without one are redirected to the login form."""

    async def answer(request: Request) -> Response:
        grant = await read_session(request)
        if grant is None:
            return _sign_in(request)
        request.state.grant = grant
        serving = Serving.of(request)
        serving.guard.admit(grant, request)
        if "host" in request.path_params:
            await check_readable(serving, grant, host_name(request.path_params["host"]))
        return await handler(request)

    return for_anybody(answer)


def _sign_in(request: Request) -> Response:
    """Redirect browsers to the login form, and refuse other clients."""
    if "text/html" in request.headers.get("accept", ""):
        url, place = request.url, "/"
        if request.method == "GET":
            place = f"{url.path}?{url.query}" if url.query else url.path
        return RedirectResponse(f"/login?next={quote(place, safe='')}", HTTPStatus.SEE_OTHER)
    return render_refusal(Refusal(HTTPStatus.UNAUTHORIZED, "this needs a session: sign in at /login"))


def refused_page(refusal: Refusal) -> Response:
    """Return an error page with the reason of a refusal."""
    answer = page(
        "refused.html", refusal.status, title=refusal.status.phrase, reason=str(refusal), signed_in=""
    )
    answer.headers.update(refusal.headers)
    return answer


async def read_session(request: Request) -> Grant | None:
    """Return the rights of a request's session, or None without a valid session."""
    session = request.cookies.get(cookie_name(request), "")
    if not session:
        return None
    serving = Serving.of(request)
    now = serving.collector.now()
    grant = await serving.ask(lambda connection: tokens.read_session_grant(connection, session, now))
    return grant if grant is not None and grant.may_read else None


def cookie_name(request: Request) -> str:
    """Return the name of the cookie. With TLS, it has the prefix `__Host-`, so that neither another host nor
    plain HTTP can set it (RFC 6265bis, 4.1.3.2).
    """
    return f"__Host-{_COOKIE}" if request.url.scheme == "https" else _COOKIE


def is_local(place: str) -> bool:
    """Return True if a redirect stays on this host. `//host` does not; browsers read a backslash as `/`."""
    return (
        place.startswith("/") and place[1:2] not in {"/", "\\"} and place.isprintable() and "\\" not in place
    )


def administrator(request: Request) -> tuple[Serving, Grant]:
    """Return the application state and the rights of an administrator. Raises Refusal for other readers."""
    serving, grant = caller(request)
    if not grant.may_administer:
        raise Refusal(HTTPStatus.FORBIDDEN, "this needs a token of kind admin: sign in with one")
    return serving, grant


async def read_form(request: Request) -> dict[str, str]:
    """Return the fields of a form of our own pages. Raises Refusal if another site sent it."""
    _check_origin(request)
    return parse_form((await plain_body(request)).decode(errors="replace"))


def _check_origin(request: Request) -> None:
    """Raise Refusal if another site sent the form."""
    if request.headers.get("sec-fetch-site") == "same-origin":  # set by the browser, never by a page
        return
    host = _host(request.headers.get("origin", ""))
    if not host or host != request.headers.get("host"):
        raise Refusal(HTTPStatus.FORBIDDEN, "this form was sent by another site; open the page here again")


def _host(origin: str) -> str:
    """Return host and port of an origin; empty if it is invalid, such as `http://[`."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""


async def get_login(request: Request) -> Response:
    """`GET /login?next=...`: the login form."""
    return _form(request.query_params.get("next", "/"))


async def post_login(request: Request) -> Response:
    """`POST /login`: start a session with a valid token."""
    serving = Serving.of(request)
    fields = await read_form(request)
    place = fields.get("next", "/")
    try:
        grant = await _grant(request, fields.get("token", "").strip())
    except Refusal as refusal:
        return _form(place, refusal)
    if not grant.may_read:
        reason = f"a token of kind {grant.kind} reads nothing: take one of kind reader or admin"
        return _form(place, Refusal(HTTPStatus.FORBIDDEN, reason))
    now = serving.collector.now()
    session = await serving.change(lambda connection: tokens.begin(connection, grant.token_id, now))
    answer = RedirectResponse(place if is_local(place) else "/", HTTPStatus.SEE_OTHER)
    answer.set_cookie(
        cookie_name(request),
        session,
        max_age=tokens.SECONDS,
        path="/",
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    return answer


async def post_logout(request: Request) -> Response:
    """`POST /logout`: end the session."""
    serving = Serving.of(request)
    _check_origin(request)
    session = request.cookies[cookie_name(request)]
    await serving.change(lambda connection: tokens.end(connection, session))
    answer = RedirectResponse("/login", HTTPStatus.SEE_OTHER)
    is_secure = request.url.scheme == "https"
    answer.delete_cookie(cookie_name(request), path="/", httponly=True, samesite="strict", secure=is_secure)
    return answer


async def _grant(request: Request, text: str) -> Grant:
    """Return the rights of a token.

    Raises Refusal if it is invalid or exceeds its rate limit.
    """
    token = parse_token(text)
    if token is None:
        raise Refusal(HTTPStatus.UNAUTHORIZED, "this is not a token: tokens begin with srt_")
    return await Serving.of(request).guard.check_token(token, request)


def _form(place: str, problem: Refusal | None = None) -> Response:
    """Return the login form, with the error of the previous attempt."""
    status = problem.status if problem else HTTPStatus.OK
    target = place if is_local(place) else "/"
    return page("login.html", status, place=target, problem=str(problem or ""), signed_in="")
