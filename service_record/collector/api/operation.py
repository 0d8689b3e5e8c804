"""Operations of the HTTP interface and the bodies that they take, as the OpenAPI document describes them."""

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Annotated, Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from service_record.collector.domain.access import TokenKind
from service_record.collector.domain.mutes import MuteKind, MuteScope

TEXT: Final = "text/plain"
BYTES: Final = "application/octet-stream"
Schema = Mapping[str, Any]
Handler = Callable[[Request], Awaitable[Response]]
_CONVERTOR: Final = re.compile(r":\w+}")


class Callers:
    """The kinds of tokens that an operation takes, and their description for people."""

    def __init__(self, *kinds: TokenKind, sentence: str = "") -> None:
        self.kinds: Final = frozenset(kinds)
        """The kinds of tokens that may call; none if no token is needed, or if the handler checks a token
        in the path.
        """
        self.sentence: Final = sentence or ", ".join(kinds)

    def refusal(self, kind: TokenKind) -> str:
        """Return the reason why a token of another kind is refused."""
        return f"this needs a token of kind {self.sentence.replace(', ', ' or ')}, and not {kind}"


ANYBODY: Final = Callers(sentence="anybody")
HOSTS: Final = Callers(TokenKind.HOST, TokenKind.GROUP, TokenKind.ADMIN)
READERS: Final = Callers(TokenKind.READER, TokenKind.ADMIN)
"""Callers for reading. In a path with a host, a reader who is confined to a group sees only its hosts."""
HOSTS_AND_READERS: Final = Callers(TokenKind.HOST, TokenKind.GROUP, TokenKind.READER, TokenKind.ADMIN)
ADMINISTRATORS: Final = Callers(TokenKind.ADMIN)
ENROLLING: Final = Callers(TokenKind.ENROLMENT)
BOOTING: Final = Callers(sentence="boot, whose token is the last part of the path")
CLOUD_INIT: Final = Callers(sentence="cloud-init, whose token is the last part of the path")
STRING: Final = {"type": "string"}
OBJECT: Final = {"type": "object"}


class StepReport(msgspec.Struct, omit_defaults=True):
    """A step as a template reports it. All but `name` or `label` may be left out, and more may be there."""

    name: str
    label: str = ""
    priority: int = 0
    status: str = ""
    """`init`, `done`, `failed`; nothing, or anything else, is that it happened."""
    logs: str = ""
    percentage: float | None = None
    action: str = ""
    time: str = ""
    """RFC 3339, or seconds since 1970."""
    boot: str = ""
    sequence: int | None = None
    """The number of this report in its boot. With `boot` it identifies a report that is sent again."""
    build: str = ""
    group: str = ""
    release: str = ""


class HostReport(StepReport, kw_only=True, omit_defaults=True):
    """A step in a batch of reports."""

    host: str
    key: str = ""
    """The sender's id of this report, as `Idempotency-Key` is for a report by itself."""


class Reports(msgspec.Struct):
    """Reports of one or more hosts, in the order in which they happened."""

    reports: Annotated[list[HostReport], msgspec.Meta(min_length=1, max_length=1000)]


class CloudInitEvent(msgspec.Struct, omit_defaults=True):
    """An event as cloud-init's webhook sends it."""

    name: str
    event_type: str
    """`start` or `finish`."""
    description: str = ""
    origin: str = ""
    timestamp: float = 0.0
    result: str = ""
    """The result that a `finish` reports: `SUCCESS`, `WARN` or `FAIL`."""


class Update(msgspec.Struct, omit_defaults=True):
    """The request body in use in the RFC's thread; `name` is the host's."""

    name: str
    status: str = ""
    percentage: str = ""
    action: str = ""
    datacenter_name: str = ""


class NewToken(msgspec.Struct, omit_defaults=True):
    """A token to make."""

    kind: TokenKind
    scope: str = ""
    name: str = ""
    expires: str = ""
    """The lifetime, such as `30d`, or `never`."""


class HostFields(msgspec.Struct, omit_defaults=True):
    """An administrator's fields of a host; `id` and `cluster_id` are those of an assisted-service."""

    group: str = ""
    release: str = ""
    id: str = ""
    cluster_id: str = ""
    infra_env_id: str = ""
    role: str = ""
    bootstrap: bool = False
    single_node: bool = False
    status: str = ""
    """A state of the assisted-service, as `discovering`; nothing for a host that reboots into its disk."""


class ClusterFields(msgspec.Struct, omit_defaults=True):
    """An administrator's fields of a cluster."""

    name: str = ""
    control_planes: int | None = None
    workers: int | None = None


class NewBuild(msgspec.Struct, omit_defaults=True):
    """A build to begin."""

    build: str = ""
    action: str = ""


class NewMute(msgspec.Struct, omit_defaults=True):
    """Trouble that somebody handles already, or of which nobody wants news."""

    kind: MuteKind
    scope: MuteScope
    subject: str
    duration: str
    """The duration, such as `4h`."""
    note: str = ""


class Enrolment(msgspec.Struct, omit_defaults=True):
    """A request for a token."""

    host: str
    group: str = ""


class AgentError(msgspec.Struct):
    """A refusal in the form of the assisted-service's handlers; the code is a text."""

    code: str
    href: str
    id: int
    kind: str
    reason: str


@dataclass(frozen=True, slots=True)
class Operation:
    """A method of a path: its route, its part of the OpenAPI document, who may call it, how it is counted."""

    call: str
    """The method and the path in Starlette's notation, where a number is `{n:number}`."""
    handler: Handler
    summary: str
    _: KW_ONLY
    who: Callers
    answers: Mapping[int, Any]
    """Status -> the type of the JSON, a media type, several of them, or None where there is no body."""
    body: Any = None
    """The type of the JSON, or a media type."""
    is_form: bool = False
    """True if the body may be a form, too."""
    query: Mapping[str, Schema] = field(default_factory=dict)
    refusals: tuple[int, ...] = ()
    """Statuses besides those that all have."""
    problem: str = "Problem"
    """The component that a refusal is; AgentError: refused as the assisted-service does."""
    counted: str = ""
    """The thing that is counted as ingested when a call is accepted."""
    has_host_in_body: bool = False
    """True if the handler, which reads the body, counts the request towards the limit of a host."""

    @property
    def method(self) -> str:
        return self.call.partition(" ")[0]

    @property
    def path(self) -> str:
        return self.call.partition(" ")[2]

    @property
    def has_closed_query(self) -> bool:
        """Return whether unknown parameters are refused: a reader's misspelt filter would show all hosts.

        Reports of hosts are taken with whatever they bring.
        """
        return self.path.startswith("/api/v1/") and not self.who.kinds & {TokenKind.HOST, TokenKind.GROUP}

    @property
    def template(self) -> str:
        """Return the path in OpenAPI's notation."""
        return _CONVERTOR.sub("}", self.path)
