"""What is answered: JSON, and a refusal of one line that says what to do."""

from http import HTTPStatus
from typing import Any

import msgspec
from starlette.responses import Response


class Refusal(Exception):  # noqa: N818  # an answer, not a fault
    """A request that is refused, and why."""

    def __init__(self, status: HTTPStatus, reason: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.headers = headers or {}


class Problem(msgspec.Struct):
    """What a refusal looks like; RFC 9457."""

    title: str
    status: int
    detail: str


def answer(value: Any, status: HTTPStatus = HTTPStatus.OK) -> Response:
    """A value of ours as JSON."""
    return Response(msgspec.json.encode(value), status, media_type="application/json")


def refused(refusal: Refusal) -> Response:
    """A refusal as RFC 9457 has it."""
    problem = Problem(refusal.status.phrase, refusal.status, str(refusal))
    return Response(
        msgspec.json.encode(problem), refusal.status, refusal.headers, media_type="application/problem+json"
    )
