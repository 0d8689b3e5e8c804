"""The page of acknowledgements, mutes and maintenance: the list, and the forms to begin and end one."""

from http import HTTPStatus
from typing import Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from service_record.collector.api.answering import Refusal
from service_record.collector.api.mute_calls import finish_mute, make_mute, read_mutes
from service_record.collector.api.requests import body_of, pairs_of
from service_record.collector.api.serving import Serving
from service_record.collector.domain.access import Grant
from service_record.collector.domain.mutes import MuteKind, MuteScope
from service_record.collector.domain.steps import readable
from service_record.collector.web.login import check_origin, viewer_of
from service_record.collector.web.pages import page

_DURATIONS: Final = ("1h", "4h", "8h", "1d", "3d", "7d", "30d")
_LONGEST: Final = 255
_MOST_DIGITS: Final = 18


async def get_mutes(request: Request) -> Response:
    """`GET /mutes?scope=...&subject=...`: the list, and a form that is filled in with these."""
    serving, grant = Serving.of(request), _administrator(request)
    return page(
        "mutes.html",
        mutes=await run_in_threadpool(read_mutes, serving),
        kinds=tuple(MuteKind),
        scopes=tuple(MuteScope),
        durations=_DURATIONS,
        scope=request.query_params.get("scope", ""),
        subject=request.query_params.get("subject", "")[:_LONGEST],
        now=serving.collector.now(),
        here="mutes",
        signed_in=grant.name or "session",
    )


async def post_mute(request: Request) -> Response:
    """`POST /mutes`: begin a mute; with `end`, the number of a mute, end that."""
    serving, grant = Serving.of(request), _administrator(request)
    check_origin(request)
    body = await body_of(request, serving.settings.most_body, serving.settings.seconds)
    sent = pairs_of(body.decode(errors="replace"))
    fields = {name: readable(str(value)).strip()[:_LONGEST] for name, value in sent.items()}
    if "end" in fields:
        number = fields["end"]
        if not (number.isascii() and number.isdecimal() and len(number) <= _MOST_DIGITS):
            raise Refusal(HTTPStatus.BAD_REQUEST, "name a mute by its number")
        await finish_mute(serving, grant, int(number))
    else:
        await make_mute(serving, grant, fields)
    return RedirectResponse("/mutes", HTTPStatus.SEE_OTHER)


def _administrator(request: Request) -> Grant:
    grant = viewer_of(request)
    if not grant.may_administer:
        raise Refusal(HTTPStatus.FORBIDDEN, "this needs a token of kind admin: sign in with one")
    return grant
