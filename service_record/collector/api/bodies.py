"""Bodies of requests, read within limits of size and time."""

import asyncio
from http import HTTPStatus

from starlette.requests import ClientDisconnect, Request

from service_record.collector.api.answers import Refusal


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


def _too_long(most: int) -> Refusal:
    return Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body is longer than {most} bytes")
