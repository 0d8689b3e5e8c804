"""Bodies of requests, read within limits of size and time."""

import asyncio
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import ClientDisconnect, Request

from service_record.collector.api.answers import Refusal

_MOST_FIELDS: Final = 64


async def body_of(request: Request, most: int, seconds: float) -> bytes:
    """The whole body. Raises Refusal when it is longer than `most` bytes, or takes too long to come."""
    if int(request.headers.get("content-length", "0") or "0") > most:
        raise _too_long(most)
    try:
        async with asyncio.timeout(seconds):
            return await _read(request, most)
    except TimeoutError:
        raise Refusal(HTTPStatus.REQUEST_TIMEOUT, f"the body did not come within {seconds:g} s") from None
    except ClientDisconnect:
        raise Refusal(HTTPStatus.BAD_REQUEST, "the body ended early") from None


async def _read(request: Request, most: int) -> bytes:
    pieces = bytearray()
    async for piece in request.stream():
        pieces += piece
        if len(pieces) > most:
            raise _too_long(most)
    return bytes(pieces)


def fields_of(body: bytes) -> dict[str, Any]:
    """The members of a body, JSON or a form, whatever a client calls it: many call everything a form.

    Raises Refusal.
    """
    if body.lstrip()[:1] == b"{":
        try:
            fields = msgspec.json.decode(body.decode(errors="replace"))
        except msgspec.DecodeError as error:
            raise Refusal(HTTPStatus.BAD_REQUEST, f"the body is not JSON: {error}") from None
        except RecursionError:
            raise Refusal(HTTPStatus.BAD_REQUEST, "the body is nested too deep") from None
        return dict(fields)
    return pairs_of(body.decode(errors="replace"))


def pairs_of(text: str) -> dict[str, Any]:
    """The fields of a form or of a query; of those that are repeated the last. Raises Refusal."""
    try:
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=_MOST_FIELDS, errors="replace"))
    except ValueError:
        raise Refusal(HTTPStatus.BAD_REQUEST, f"more than {_MOST_FIELDS} fields") from None


def _too_long(most: int) -> Refusal:
    return Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body is longer than {most} bytes")
