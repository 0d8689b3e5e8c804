"""The description of an operation of the HTTP interface, and the request bodies for the OpenAPI document."""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Annotated, Any, ClassVar, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from service_record.collector.domain.access import GROUP_PATTERN, TokenKind
from service_record.collector.domain.host_states import HostState
from service_record.collector.domain.installation_rules import ROLES
from service_record.collector.domain.mutes import CAUSE_PATTERN, MuteKind, MuteScope
from service_record.collector.domain.steps import LONGEST_NAME
from service_record.http.address import HOST_PATTERN

TEXT: Final = "text/plain"
BYTES: Final = "application/octet-stream"
Schema = Mapping[str, Any]
Handler = Callable[[Request], Awaitable[Response]]
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
"""If the path has a host, `guarded` also checks that a confined reader may read that host."""
HOSTS_AND_READERS: Final = Callers(TokenKind.HOST, TokenKind.GROUP, TokenKind.READER, TokenKind.ADMIN)
ADMINISTRATORS: Final = Callers(TokenKind.ADMIN)
ENROLLING: Final = Callers(TokenKind.ENROLMENT)
BOOTING: Final = Callers(sentence="boot, whose token is the last part of the path")
CLOUD_INIT: Final = Callers(sentence="cloud-init, whose token is the last part of the path")
STRING: Final = {"type": "string"}
OBJECT: Final = {"type": "object"}


# The limits that the handlers enforce, for the document. Handlers read fields one by one, so that a report
# with an invalid field is stored without it.
_DURATION: Final = r"[0-9]{1,9}(?:\.[0-9]{1,3})?(?:[smhd](?: ?[0-9]{1,9}[smhd])?)?"
Short = Annotated[str, msgspec.Meta(max_length=LONGEST_NAME)]
HostName = Annotated[str, msgspec.Meta(pattern=f"^(?:{HOST_PATTERN})$", examples=["web1.example.com"])]
GroupName = Annotated[
    str, msgspec.Meta(pattern=f"^(?:{GROUP_PATTERN})?$", max_length=LONGEST_NAME, examples=["dc1/rack2"])
]
Duration = Annotated[
    str, msgspec.Meta(pattern=f"^(?:{_DURATION})$", max_length=LONGEST_NAME, examples=["4h"])
]
Uuid = Annotated[str, msgspec.Meta(pattern="^(?:[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12})?$")]
Some = Annotated[str, msgspec.Meta(pattern="[!-~\u00a1-\u167f\u3040-\ud7ff]", examples=["Disk setup"])]
"""A text with at least one visible character."""


class StepReport(msgspec.Struct, omit_defaults=True):
    """A step as a template reports it. All but `name` or `label` may be left out, and more may be there."""

    name: Some
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
    hardware: str = ""
    """Vendor and model of the machine."""


class HostReport(StepReport, kw_only=True, omit_defaults=True):
    """A step in a batch of reports."""

    host: HostName
    key: str = ""
    """The sender's id of this report, as `Idempotency-Key` is for a report by itself."""


class Reports(msgspec.Struct):
    """Reports of one or more hosts, in the order in which they happened."""

    reports: Annotated[list[HostReport], msgspec.Meta(min_length=1, max_length=1000)]


class CloudInitEvent(msgspec.Struct, omit_defaults=True):
    """An event as cloud-init's webhook sends it."""

    name: Some
    event_type: Annotated[str, msgspec.Meta(extra_json_schema={"enum": ["start", "finish"]})]
    description: str = ""
    origin: str = ""
    timestamp: float = 0.0
    result: str = ""
    """The result that a `finish` reports: `SUCCESS`, `WARN` or `FAIL`."""


class Update(msgspec.Struct, omit_defaults=True):
    """The request body in use in the RFC's thread; `name` is the host's."""

    name: HostName
    status: str = ""
    percentage: str = ""
    action: str = ""
    datacenter_name: str = ""


def _scopes(kinds: Sequence[str], pattern: str, *, required: bool) -> dict[str, Any]:
    """Return the schema of tokens of these kinds, whose scope matches a pattern."""
    kind, scope = {"enum": list(kinds)}, {"type": "string", "pattern": f"^(?:{pattern})$"}
    schema = {"properties": {"kind": kind, "scope": scope}}
    return {**schema, "required": ["scope"]} if required else schema


class NewToken(msgspec.Struct, omit_defaults=True):
    """A token to make."""

    json_rules: ClassVar[Schema] = {
        "anyOf": [
            _scopes(("host", "boot", "cloud-init"), HOST_PATTERN, required=True),
            _scopes(("group",), GROUP_PATTERN, required=True),
            _scopes(("reader",), f"(?:{GROUP_PATTERN})?", required=False),
            _scopes(("enrolment",), f"(?:host:{HOST_PATTERN}|group:{GROUP_PATTERN})?", required=False),
            _scopes(("admin",), "", required=False),
        ]
    }

    kind: TokenKind
    scope: Short = ""
    """A host's name for `host`, `boot` and `cloud-init`; a group for `group` and `reader`; nothing,
    `host:NAME` or `group:NAME` for `enrolment`; nothing for `admin`.
    """
    name: Short = ""
    expires: Annotated[str, msgspec.Meta(pattern=f"^(?:never|{_DURATION})?$", max_length=LONGEST_NAME)] = ""
    """The lifetime, such as `30d`, or `never`."""


class HostFields(msgspec.Struct, omit_defaults=True):
    """An administrator's fields of a host; `id` and `cluster_id` are those of an assisted-service."""

    group: GroupName = ""
    release: Short = ""
    hardware: Short = ""
    """Vendor and model of the machine."""
    id: Uuid = ""
    cluster_id: Uuid = ""
    infra_env_id: Uuid = ""
    role: Annotated[str, msgspec.Meta(extra_json_schema={"enum": ["", *sorted(ROLES)]})] = ""
    bootstrap: bool = False
    single_node: bool = False
    status: Annotated[str, msgspec.Meta(extra_json_schema={"enum": ["", *HostState]})] = ""
    """A state of the assisted-service, as `discovering`; nothing for a host that reboots into its disk."""


class ClusterFields(msgspec.Struct, omit_defaults=True):
    """An administrator's fields of a cluster."""

    name: Short = ""
    control_planes: Annotated[int, msgspec.Meta(ge=1, le=10_000)] | None = None
    workers: Annotated[int, msgspec.Meta(ge=0, le=10_000)] | None = None


class NewBuild(msgspec.Struct, omit_defaults=True):
    """A build to begin."""

    build: Short = ""
    action: Short = ""


class NewMute(msgspec.Struct, omit_defaults=True):
    """Trouble that somebody handles already, or of which nobody wants news."""

    json_rules: ClassVar[Schema] = {
        "anyOf": [
            {
                "properties": {
                    "scope": {"const": scope},
                    "subject": {"type": "string", "pattern": f"^(?:{pattern})$"},
                }
            }
            for scope, pattern in (("host", HOST_PATTERN), ("group", GROUP_PATTERN), ("cause", CAUSE_PATTERN))
        ]
    }

    kind: MuteKind
    scope: MuteScope
    subject: Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_NAME)]
    """The name of the host or group, or the 16 digits of the cause."""
    duration: Duration
    """At most 366 days."""
    note: Short = ""


class Enrolment(msgspec.Struct, omit_defaults=True):
    """A request for a token."""

    host: HostName
    group: GroupName = ""


class AgentError(msgspec.Struct):
    """A refusal in the form of the assisted-service's handlers; the code is a text."""

    code: str
    href: str
    id: int
    kind: str
    reason: str


@dataclass(frozen=True, slots=True)
class Operation:
    """A method of a path: its route, its OpenAPI description, its callers and its metric."""

    call: str
    """Method and path in Starlette's notation, such as `GET /builds/{n:number}`."""
    handler: Handler
    summary: str
    _: KW_ONLY
    who: Callers
    answers: Mapping[int, Any]
    """Status -> the body: a type that is sent as JSON, a media type, a tuple of these, or None."""
    body: Any = None
    """The request body: a type that is sent as JSON, a media type, or None."""
    is_form: bool = False
    """True if the body may be JSON or a form."""
    query: Mapping[str, Schema] = field(default_factory=dict)
    refusals: tuple[int, ...] = ()
    """Error statuses besides the common ones."""
    problem: str = "Problem"
    """The OpenAPI component of errors: `Problem`, or `AgentError` for calls of the assisted-service."""
    counted: str = ""
    """The label `kind` of accepted calls in the metric `service_record_ingested`; empty if not counted."""
    has_host_in_body: bool = False
    """True if only the body names the host. The handler then counts the request for the rate limit."""

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
