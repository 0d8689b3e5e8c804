"""Signing in with a token that may read, and out again."""

from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from service_record.collector.access import Grant, presented
from service_record.collector.api.answers import Refusal
from service_record.collector.api.bodies import body_of, pairs_of
from service_record.collector.api.serving import Serving
from service_record.collector.store import sessions
from service_record.collector.web.pages import page
from service_record.collector.web.sessions import check_origin, cookie_name, is_local, refused_page


async def get_login(request: Request) -> Response:
    """`GET /login?next=...`: the form."""
    return _form(request.query_params.get("next", "/"))


async def post_login(request: Request) -> Response:
    """`POST /login`: begins a session for a good token."""
    serving = Serving.of(request)
    try:
        check_origin(request)
        body = await body_of(request, serving.settings.most_body, serving.settings.seconds)
        fields = pairs_of(body.decode(errors="replace"))
    except Refusal as refusal:
        return refused_page(refusal)
    place = str(fields.get("next", "/"))
    try:
        grant = await _grant(request, str(fields.get("token", "")).strip())
    except Refusal as refusal:
        return _form(place, refusal)
    if not grant.may_read:
        reason = f"a token of kind {grant.kind} reads nothing: take one of kind reader or admin"
        return _form(place, Refusal(HTTPStatus.FORBIDDEN, reason))
    begun = serving.collector.writer.change(
        lambda connection: sessions.begin(connection, grant.token_id, serving.collector.now())
    )
    try:
        session = await serving.written(begun)
    except Refusal as refusal:
        return refused_page(refusal)
    answer = RedirectResponse(place if is_local(place) else "/", HTTPStatus.SEE_OTHER)
    answer.set_cookie(
        cookie_name(request),
        session,
        max_age=sessions.SECONDS,
        path="/",
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    return answer


async def post_logout(request: Request) -> Response:
    """`POST /logout`: ends the session."""
    serving = Serving.of(request)
    check_origin(request)
    session = request.cookies[cookie_name(request)]
    await serving.written(
        serving.collector.writer.change(lambda connection: sessions.end(connection, session))
    )
    answer = RedirectResponse("/login", HTTPStatus.SEE_OTHER)
    is_secure = request.url.scheme == "https"
    answer.delete_cookie(cookie_name(request), path="/", httponly=True, samesite="strict", secure=is_secure)
    return answer


async def _grant(request: Request, text: str) -> Grant:
    """What a token is good for. Raises Refusal where it is worth nothing, or too many of its kind came."""
    token = presented(text)
    if token is None:
        raise Refusal(HTTPStatus.UNAUTHORIZED, "this is no token: one begins with srt_")
    return await Serving.of(request).guard.grant_of(token, request)


def _form(place: str, problem: Refusal | None = None) -> Response:
    """The form, with what was wrong when it was sent before."""
    status = problem.status if problem else HTTPStatus.OK
    shown = place if is_local(place) else "/"
    return page("login.html", status, place=shown, problem=str(problem or ""), signed_in="")
