"""What the collector can be asked over HTTP: the one table of which its OpenAPI document is made."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from service_record.collector.access import Kind
from service_record.collector.api import administration, bundles, enrolment, hosts, records, steps
from service_record.collector.api.assisted import BASE
from service_record.collector.learnt import Statistics
from service_record.collector.store.hosts import HostDetail

TEXT: Final = "text/plain"
BYTES: Final = "application/octet-stream"
ANYBODY: Final = "anybody"
HOSTS: Final = "host, group, admin"
READERS: Final = "reader, admin"
ADMINISTRATORS: Final = "admin"

Schema = Mapping[str, Any]
_TEXT: Final = {"type": "string"}
_NUMBER: Final = {"type": "integer"}


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

    kind: Kind
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


class NewBuild(msgspec.Struct, omit_defaults=True):
    """A build to begin."""

    build: str = ""
    action: str = ""


class Enrolment(msgspec.Struct, omit_defaults=True):
    """Who wants a token."""

    host: str
    group: str = ""


class AgentError(msgspec.Struct):
    """A refusal in the form of the assisted-service's handlers."""

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


_HOST: Final = "/api/v1/hosts/{host}"
_REPEATED: Final = {"type": "array", "items": _TEXT}
_JSON_OBJECT: Final = {"type": "object"}
_STEP_QUERY: Final = dict.fromkeys(StepReport.__struct_fields__, _TEXT)

OPERATIONS: Final = (
    Operation(
        method="GET", path="/healthz", summary="The process answers.", who=ANYBODY, answers={200: TEXT}
    ),
    Operation(
        method="GET",
        path="/readyz",
        summary="The database answers, too.",
        who=ANYBODY,
        answers={200: TEXT, 503: TEXT},
    ),
    Operation(method="GET", path="/metrics", summary="For Prometheus.", who=READERS, answers={200: TEXT}),
    Operation(
        method="GET",
        path="/api/v1/openapi.json",
        summary="This document.",
        who=READERS,
        answers={200: _JSON_OBJECT},
    ),
    Operation(
        method="POST",
        path=f"{_HOST}/steps",
        summary="Report a step; acknowledged when it is on disk.",
        who=HOSTS,
        body=StepReport,
        is_form=True,
        answers={201: steps.Taken},
        refusals=(422,),
    ),
    Operation(
        method="GET",
        path=f"{_HOST}/steps",
        summary="Report a step by a query, for a wget that can only GET.",
        who=HOSTS,
        query=_STEP_QUERY,
        answers={201: steps.Taken},
        refusals=(422,),
    ),
    Operation(
        method="POST",
        path="/api/update",
        summary="Report a step as the RFC's thread does.",
        who=HOSTS,
        body=Update,
        is_form=True,
        answers={201: steps.Taken},
        refusals=(422,),
    ),
    Operation(
        method="GET",
        path="/api/v1/hosts",
        summary="The fleet, those with trouble first.",
        who=READERS,
        query={
            "group": _REPEATED,
            "machine": _REPEATED,
            "verdict": _REPEATED,
            "all": {"type": "boolean"},
            "limit": _NUMBER,
            "offset": _NUMBER,
        },
        answers={200: hosts.Hosts},
    ),
    Operation(
        method="GET",
        path=_HOST,
        summary="All that is known of a host, with the steps of its latest build.",
        who=READERS,
        answers={200: HostDetail},
        refusals=(404,),
    ),
    Operation(
        method="PUT",
        path=_HOST,
        summary="Make a host before it reports, or change what is known of it.",
        who=ADMINISTRATORS,
        body=HostFields,
        is_form=True,
        answers={200: administration.HostPut, 201: administration.HostPut},
        refusals=(409,),
    ),
    Operation(
        method="DELETE",
        path=_HOST,
        summary="Forget a host, all that it reported, and its tokens.",
        who=ADMINISTRATORS,
        answers={204: None},
        refusals=(404,),
    ),
    Operation(
        method="POST",
        path=f"{_HOST}/builds",
        summary="Begin a new build of a host.",
        who=ADMINISTRATORS,
        body=NewBuild,
        is_form=True,
        answers={201: administration.BuildBegun},
        refusals=(404,),
    ),
    Operation(
        method="GET",
        path=f"{_HOST}/builds/{{n}}",
        summary="The same as of the host, with the steps of that build.",
        who=READERS,
        answers={200: HostDetail},
        refusals=(404,),
    ),
    Operation(
        method="GET",
        path="/api/v1/statistics",
        summary="What is learnt of steps.",
        who=READERS,
        query={"group": _REPEATED, "release": _REPEATED, "by": _REPEATED},
        answers={200: Statistics},
    ),
    Operation(
        method="POST",
        path=f"{_HOST}/records",
        summary="Send pieces of service records as they are written.",
        who=HOSTS,
        body=records.Batch,
        answers={200: records.Kept},
        refusals=(409, 507),
    ),
    Operation(
        method="GET",
        path=f"{_HOST}/records",
        summary="Of which services there are records, and how much; a host may ask it of itself.",
        who=f"{READERS}; of itself {HOSTS}",
        answers={200: records.Records},
        refusals=(404,),
    ),
    Operation(
        method="GET",
        path=f"{_HOST}/records/{{service}}",
        summary="A record, byte for byte.",
        who=READERS,
        answers={200: BYTES},
        refusals=(404,),
    ),
    Operation(
        method="GET",
        path=f"{_HOST}/bundles",
        summary="The bundles of a host.",
        who=READERS,
        answers={200: bundles.Bundles},
        refusals=(404,),
    ),
    Operation(
        method="GET",
        path=f"{_HOST}/bundles/{{bundle}}",
        summary="A bundle as it came.",
        who=READERS,
        answers={200: BYTES},
        refusals=(404,),
    ),
    Operation(
        method="POST",
        path="/api/v1/enrol",
        summary="Get the token of a host for a one-time token.",
        who="enrolment",
        body=Enrolment,
        is_form=True,
        answers={201: (TEXT, enrolment.Enrolled)},
    ),
    Operation(
        method="POST",
        path="/api/v1/tokens",
        summary="Make a token.",
        who=ADMINISTRATORS,
        body=NewToken,
        is_form=True,
        answers={201: administration.TokenMade},
    ),
    Operation(
        method="GET",
        path="/api/v1/tokens",
        summary="All tokens, without their secrets.",
        who=ADMINISTRATORS,
        answers={200: administration.Tokens},
    ),
    Operation(
        method="DELETE",
        path="/api/v1/tokens/{token}",
        summary="Make a token worthless.",
        who=ADMINISTRATORS,
        answers={204: None},
        refusals=(404,),
    ),
    Operation(
        method="GET",
        path="/api/v1/audit",
        summary="What was administered, latest first.",
        who=ADMINISTRATORS,
        query={"limit": _NUMBER, "before": _NUMBER},
        answers={200: administration.Audit},
    ),
    Operation(
        method="GET",
        path=f"{BASE}/clusters/{{cluster_id}}/hosts",
        summary="As the assisted-service: the hosts of a cluster.",
        who=f"{HOSTS}, reader",
        query={"role": _TEXT, "status": _TEXT},
        answers={200: {"type": "array", "items": _JSON_OBJECT}},
        problem="AgentError",
    ),
    Operation(
        method="PUT",
        path=f"{BASE}/infra-envs/{{infra_env_id}}/hosts/{{host_id}}/progress",
        summary="As the assisted-service: the stage of a host.",
        who=HOSTS,
        body=_JSON_OBJECT,
        answers={200: None},
        refusals=(404, 409),
        problem="AgentError",
    ),
    Operation(
        method="PUT",
        path=f"{BASE}/infra-envs/{{infra_env_id}}/hosts/{{host_id}}/logs-progress",
        summary="As the assisted-service: how far the logs of a host have come.",
        who=HOSTS,
        body=_JSON_OBJECT,
        answers={204: None},
        refusals=(404, 409),
        problem="AgentError",
    ),
    Operation(
        method="POST",
        path=f"{BASE}/events",
        summary="As the assisted-service: an event of a host.",
        who=HOSTS,
        body=_JSON_OBJECT,
        answers={201: None},
        refusals=(404, 409),
        problem="AgentError",
    ),
    Operation(
        method="POST",
        path=f"{BASE}/clusters/{{cluster_id}}/logs",
        summary="As the assisted-service: the logs of a host, a bundle.",
        who=HOSTS,
        body="multipart/form-data",
        query={"logs_type": _TEXT, "host_id": _TEXT},
        answers={204: None},
        refusals=(404, 409, 507),
        problem="AgentError",
    ),
)
