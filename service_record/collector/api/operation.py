"""What an operation of the HTTP interface is, and what is sent to one, as the OpenAPI document tells it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from service_record.collector.domain.access import TokenKind

TEXT: Final = "text/plain"
BYTES: Final = "application/octet-stream"
ANYBODY: Final = "anybody"
HOSTS: Final = "host, group, admin"
READERS: Final = "reader, admin"
ADMINISTRATORS: Final = "admin"
BOOTING: Final = "boot, whose token is the last part of the path"

Schema = Mapping[str, Any]
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
    build: str = ""
    group: str = ""
    release: str = ""


class Update(msgspec.Struct, omit_defaults=True):
    """The body that the RFC's thread has in use; `name` is the host's."""

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
    """As `30d`, or `never`."""


class HostFields(msgspec.Struct, omit_defaults=True):
    """What an administrator says of a host; `id`, `cluster_id`: which of an assisted-service it is."""

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
    """What an administrator says of a cluster."""

    name: str = ""
    control_planes: int | None = None
    workers: int | None = None


class NewBuild(msgspec.Struct, omit_defaults=True):
    """A build to begin."""

    build: str = ""
    action: str = ""


class Enrolment(msgspec.Struct, omit_defaults=True):
    """Who wants a token."""

    host: str
    group: str = ""


class AgentError(msgspec.Struct):
    """A refusal in the form of the assisted-service's handlers; the code is a text."""

    code: str
    href: str
    id: int
    kind: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A method of a path."""

    method: str
    path: str
    summary: str
    who: str
    """The kinds of tokens that it is for, or ANYBODY."""
    answers: Mapping[int, Any]
    """Status -> the type of the JSON, a media type, several of them, or None where there is no body."""
    body: Any = None
    """The type of the JSON, or a media type."""
    is_form: bool = False
    """Whether the body may be a form, too."""
    query: Mapping[str, Schema] = field(default_factory=dict)
    refusals: tuple[int, ...] = ()
    """Statuses besides those that all have."""
    problem: str = "Problem"
    """The component that a refusal is."""
