"""What is answered: JSON, and a refusal of one line that says what to do."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

import msgspec
from starlette.responses import Response

ASSISTED: Final = "/api/assisted-install/"
"""Where the calls of an assisted-service are."""


class AgentProblem(msgspec.Struct):
    """A refusal by the assisted-service's authentication, routing or validation; the code is a number."""

    code: int
    message: str


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


def agent_refused(status: HTTPStatus, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return a refusal as the assisted-service's authentication, routing and validation have it."""
    return answer(AgentProblem(int(status), message), status, headers)


def answer(
    value: Any, status: HTTPStatus = HTTPStatus.OK, headers: Mapping[str, str] | None = None
) -> Response:
    """A value of ours as JSON."""
    return Response(msgspec.json.encode(value), status, headers, media_type="application/json")


def refused(refusal: Refusal, path: str = "") -> Response:
    """Return a refusal of a request for that path: RFC 9457, or the assisted-service's form for its calls."""
    if path.startswith(ASSISTED):
        return agent_refused(refusal.status, str(refusal), refusal.headers)
    problem = Problem(refusal.status.phrase, refusal.status, str(refusal))
    return Response(
        msgspec.json.encode(problem), refusal.status, refusal.headers, media_type="application/problem+json"
    )
