"""The operations of the HTTP interface, and types of fields that several requests have.

A decorator makes a handler an operation. Routes, access rights, metrics and the OpenAPI document are made
from the decorators and the types of the handlers.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import Meta
from starlette.responses import Response

from service_record.collector.api.answering import ASSISTED
from service_record.collector.domain.access import GROUP_PATTERN, GROUP_RULE, TokenKind
from service_record.collector.domain.steps import LONGEST_NAME
from service_record.http.address import HOST_PATTERN, HOST_RULE

TEXT: Final = "text/plain"
Schema = Mapping[str, Any]
Handler = Callable[..., Awaitable[Response]]
"""A function that answers a request.

Its return type declares the statuses and documents of its answers. Parameters named `query` and `body` get
the decoded query and fields of the request; their types declare them.
"""
H = TypeVar("H", bound=Handler)
_CONVERTOR: Final = re.compile(r":\w+}")


class Callers:
    """The kinds of tokens that may call an operation, and their description."""

    def __init__(self, *kinds: TokenKind, sentence: str = "") -> None:
        self.kinds: Final = frozenset(kinds)
        """Empty if no token is needed, or if the handler itself checks a token in the path."""
        self.sentence: Final = sentence or ", ".join(kinds)

    def refusal(self, kind: TokenKind) -> str:
        """Return the error message for a token of another kind."""
        return f"this needs a token of kind {self.sentence.replace(', ', ' or ')}, and not {kind}"


ANYBODY: Final = Callers(sentence="anybody")
HOSTS: Final = Callers(TokenKind.HOST, TokenKind.GROUP, TokenKind.ADMIN)
READERS: Final = Callers(TokenKind.READER, TokenKind.ADMIN)
"""If the path has a host, `make_handler` also checks that a confined reader may read that host."""
HOSTS_AND_READERS: Final = Callers(TokenKind.HOST, TokenKind.GROUP, TokenKind.READER, TokenKind.ADMIN)
ADMINISTRATORS: Final = Callers(TokenKind.ADMIN)
ENROLLING: Final = Callers(TokenKind.ENROLMENT)
BOOTING: Final = Callers(sentence="boot, whose token is the last part of the path")
CLOUD_INIT: Final = Callers(sentence="cloud-init, whose token is the last part of the path")


_DURATION: Final = r"[0-9]{1,9}(?:\.[0-9]{1,3})?(?:[smhd](?: ?[0-9]{1,9}[smhd])?)?"
Short = Annotated[str, Meta(max_length=LONGEST_NAME)]
HostName = Annotated[
    str, Meta(pattern=f"^(?:{HOST_PATTERN})$", description=HOST_RULE, examples=["web1.example.com"])
]
GroupName = Annotated[
    str,
    Meta(
        pattern=f"^(?:{GROUP_PATTERN})?$",
        max_length=LONGEST_NAME,
        description=GROUP_RULE,
        examples=["dc1/rack2"],
    ),
]
Duration = Annotated[
    str,
    Meta(
        pattern=f"^(?:{_DURATION})$",
        max_length=LONGEST_NAME,
        description="a duration is a number with a unit: 90s, 30m, 4h or 7d",
        examples=["4h"],
    ),
]
Lifetime = Annotated[
    str,
    Meta(
        pattern=f"^(?:never|{_DURATION})?$",
        max_length=LONGEST_NAME,
        description="a lifetime is a duration such as 30d, or never",
    ),
]
Uuid = Annotated[
    str,
    Meta(
        pattern="^(?:[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12})?$", description="an id is a UUID"
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A method of a path: its route, its OpenAPI description, its callers and its metric."""

    call: str
    """Method and path in Starlette's notation, such as `GET /builds/{n:number}`."""
    handler: Handler
    who: Callers
    body: Any = None
    """A body that the handler reads itself: a type that is sent as JSON, or a media type."""
    parameters: Mapping[str, Schema] = field(default_factory=dict)
    """Parameters of the query that the handler reads itself, with their schemas."""
    is_form: bool = False
    """True if the body that the handler reads may also be a form, as a decoded body may."""
    refusals: tuple[int, ...] = ()
    """Error statuses besides the common ones."""
    counted: str = ""
    """The label `kind` of accepted calls in the metric `service_record_ingested`; empty if not counted."""
    has_host_in_body: bool = False
    """True if only the body names the host. The handler then counts the request for the rate limit."""

    @property
    def summary(self) -> str:
        """Return the first line of the handler's docstring."""
        return (self.handler.__doc__ or "").partition("\n")[0]

    @property
    def is_assisted(self) -> bool:
        """True for a call of the assisted-service, whose errors have another form."""
        return self.path.startswith(ASSISTED)

    @property
    def query(self) -> type[msgspec.Struct] | None:
        """Return the type of the query's parameters, or None without any."""
        return self.handler.__annotations__.get("query")

    @property
    def fields(self) -> type[msgspec.Struct] | None:
        """Return the type of the body if it is decoded before the handler is called."""
        return self.handler.__annotations__.get("body")

    @property
    def documented_body(self) -> Any:
        """Return the type or the media type of the body, or None."""
        return self.fields or self.body

    @property
    def method(self) -> str:
        return self.call.partition(" ")[0]

    @property
    def path(self) -> str:
        return self.call.partition(" ")[2]

    @property
    def has_closed_query(self) -> bool:
        """True if unknown query parameters are refused: a misspelt filter would show all hosts.

        Reports of hosts may have any parameters.
        """
        return self.path.startswith("/api/v1/") and not self.who.kinds & {TokenKind.HOST, TokenKind.GROUP}

    @property
    def template(self) -> str:
        """Return the path in OpenAPI's notation."""
        return _CONVERTOR.sub("}", self.path)


OPERATIONS: Final[list[Operation]] = []
"""All operations, once `collector/app` has imported the modules with handlers."""


def operation(call: str, *, who: Callers, **fields: Any) -> Callable[[H], H]:
    """Make a handler an operation. The first line of its docstring is the summary in the documents."""

    def add(handler: H) -> H:
        OPERATIONS.append(Operation(call=call, handler=handler, who=who, **fields))
        return handler

    return add
