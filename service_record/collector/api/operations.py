"""The one table of all calls of the HTTP interface: routes, guard, counts and the OpenAPI document.

Those in the place of an assisted-service are among them.
"""

from functools import cache
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from service_record.collector.api import (
    admin_calls,
    bundle_calls,
    cluster_calls,
    host_calls,
    metrics,
    record_calls,
    step_calls,
)
from service_record.collector.api.answering import answer
from service_record.collector.api.assisted_operations import ASSISTED_OPERATIONS
from service_record.collector.api.openapi import document
from service_record.collector.api.operation import (
    ADMINISTRATORS,
    ANYBODY,
    BOOTING,
    BYTES,
    ENROLLING,
    HOSTS,
    HOSTS_AND_READERS,
    OBJECT,
    READERS,
    STRING,
    TEXT,
    ClusterFields,
    Enrolment,
    HostFields,
    NewBuild,
    NewToken,
    Operation,
    StepReport,
    Update,
)
from service_record.collector.ingest.baselines import Statistics
from service_record.collector.store.cluster_rows import ClusterDetail
from service_record.collector.store.host_rows import StoredHostDetail


@cache
def openapi_document() -> dict[str, Any]:
    """Return the OpenAPI document of this table."""
    return document(OPERATIONS)


async def get_document(_: Request) -> Response:
    """`GET /api/v1/openapi.json`: this table, for whoever may read."""
    return answer(openapi_document())


_NUMBER: Final = {"type": "integer"}
_HOST: Final = "/api/v1/hosts/{host}"
_CLUSTER: Final = "/api/v1/clusters/{cluster}"
_REPEATED: Final = {"type": "array", "items": STRING}
_STEP_QUERY: Final = dict.fromkeys(StepReport.__struct_fields__, STRING)

OPERATIONS: Final = (
    Operation(
        method="GET",
        path="/healthz",
        handler=metrics.healthy,
        summary="The process answers.",
        who=ANYBODY,
        answers={200: TEXT},
    ),
    Operation(
        method="GET",
        path="/readyz",
        handler=metrics.ready,
        summary="The database answers, too.",
        who=ANYBODY,
        answers={200: TEXT, 503: TEXT},
    ),
    Operation(
        method="GET",
        path="/metrics",
        handler=metrics.metrics,
        summary="For Prometheus.",
        who=READERS,
        answers={200: TEXT},
    ),
    Operation(
        method="GET",
        path="/api/v1/openapi.json",
        handler=get_document,
        summary="This document.",
        who=READERS,
        answers={200: OBJECT},
    ),
    Operation(
        method="POST",
        path=f"{_HOST}/steps",
        handler=step_calls.post_step,
        summary="Report a step; acknowledged when it is on disk.",
        who=HOSTS,
        body=StepReport,
        is_form=True,
        answers={201: step_calls.Taken},
        refusals=(422,),
        counted="step",
    ),
    Operation(
        method="GET",
        path=f"{_HOST}/steps",
        handler=step_calls.get_step,
        summary="Report a step by a query, for a wget that can only GET.",
        who=HOSTS,
        query=_STEP_QUERY,
        answers={201: step_calls.Taken},
        refusals=(422,),
        counted="step",
    ),
    Operation(
        method="GET",
        path="/api/v1/boot/{secret}",
        handler=step_calls.get_boot,
        summary="Report from an iPXE script that the image was downloaded.",
        who=BOOTING,
        answers={200: TEXT},
        refusals=(422,),
    ),
    Operation(
        method="POST",
        path="/api/update",
        handler=step_calls.post_update,
        summary="Report a step as the RFC's thread does.",
        who=HOSTS,
        body=Update,
        is_form=True,
        answers={201: step_calls.Taken},
        refusals=(422,),
        counted="step",
    ),
    Operation(
        method="GET",
        path="/api/v1/hosts",
        handler=host_calls.list_hosts,
        summary="The fleet, those with trouble first.",
        who=READERS,
        query={
            "group": _REPEATED,
            "machine": _REPEATED,
            "verdict": _REPEATED,
            "cause": _REPEATED,
            "cluster": _REPEATED,
            "all": {"type": "boolean"},
            "earlier": {"type": "boolean"},
            "limit": _NUMBER,
            "after": STRING,
        },
        answers={200: host_calls.Hosts},
    ),
    Operation(
        method="GET",
        path=_HOST,
        handler=host_calls.show_host,
        summary="All that is known of a host, with the steps of its latest build.",
        who=READERS,
        answers={200: StoredHostDetail},
        refusals=(404,),
    ),
    Operation(
        method="PUT",
        path=_HOST,
        handler=admin_calls.put_host,
        summary="Make a host before it reports, or change what is known of it.",
        who=ADMINISTRATORS,
        body=HostFields,
        is_form=True,
        answers={200: admin_calls.HostPut, 201: admin_calls.HostPut},
        refusals=(409,),
    ),
    Operation(
        method="DELETE",
        path=_HOST,
        handler=admin_calls.delete_host,
        summary="Forget a host, all that it reported, and its tokens.",
        who=ADMINISTRATORS,
        answers={204: None},
        refusals=(404,),
    ),
    Operation(
        method="POST",
        path=f"{_HOST}/builds",
        handler=admin_calls.begin_build,
        summary="Begin a new build of a host.",
        who=ADMINISTRATORS,
        body=NewBuild,
        is_form=True,
        answers={201: admin_calls.BuildBegun},
        refusals=(404,),
    ),
    Operation(
        method="GET",
        path=f"{_HOST}/builds/{{n:number}}",
        handler=host_calls.show_build,
        summary="The same as of the host, with the steps of that build.",
        who=READERS,
        answers={200: StoredHostDetail},
        refusals=(404,),
    ),
    Operation(
        method="GET",
        path="/api/v1/clusters",
        handler=cluster_calls.list_clusters,
        summary="Clusters and their states, those that need somebody first.",
        who=READERS,
        query={"cluster": _REPEATED, "all": {"type": "boolean"}},
        answers={200: cluster_calls.Clusters},
    ),
    Operation(
        method="GET",
        path=_CLUSTER,
        handler=cluster_calls.show_cluster,
        summary="A cluster by its id or name: hosts, operators, logs and events.",
        who=READERS,
        answers={200: ClusterDetail},
        refusals=(404,),
    ),
    Operation(
        method="PUT",
        path=_CLUSTER,
        handler=cluster_calls.put_cluster,
        summary="Say how a cluster is called, and how many hosts it is to have.",
        who=ADMINISTRATORS,
        body=ClusterFields,
        is_form=True,
        answers={200: cluster_calls.ClusterPut, 201: cluster_calls.ClusterPut},
    ),
    Operation(
        method="GET",
        path=f"{_CLUSTER}/logs/{{kind}}",
        handler=bundle_calls.get_cluster_logs,
        summary="Logs of a cluster as they came; kind is controller or all.",
        who=READERS,
        answers={200: BYTES},
        refusals=(404,),
    ),
    Operation(
        method="GET",
        path="/api/v1/statistics",
        handler=host_calls.show_statistics,
        summary="What is learnt of steps.",
        who=READERS,
        query={"group": _REPEATED, "release": _REPEATED, "by": _REPEATED},
        answers={200: Statistics},
    ),
    Operation(
        method="POST",
        path=f"{_HOST}/records",
        handler=record_calls.post_records,
        summary="Send pieces of service records as they are written.",
        who=HOSTS,
        body=record_calls.Batch,
        answers={200: record_calls.StoredBatch},
        refusals=(409, 507),
        counted="records",
    ),
    Operation(
        method="GET",
        path=f"{_HOST}/records",
        handler=record_calls.get_records,
        summary="Of which services there are records, and how much; a host may ask it of itself.",
        who=HOSTS_AND_READERS,
        answers={200: record_calls.SentRecords},
        refusals=(404,),
    ),
    Operation(
        method="GET",
        path=f"{_HOST}/records/{{service}}",
        handler=record_calls.get_record,
        summary="A record, byte for byte.",
        who=READERS,
        answers={200: BYTES},
        refusals=(404,),
    ),
    Operation(
        method="GET",
        path=f"{_HOST}/bundles",
        handler=bundle_calls.list_bundles,
        summary="The bundles of a host.",
        who=READERS,
        answers={200: bundle_calls.Bundles},
        refusals=(404,),
    ),
    Operation(
        method="GET",
        path=f"{_HOST}/bundles/{{bundle}}",
        handler=bundle_calls.get_bundle,
        summary="A bundle as it came.",
        who=READERS,
        answers={200: BYTES},
        refusals=(404,),
    ),
    Operation(
        method="POST",
        path=f"{_HOST}/templates",
        handler=bundle_calls.post_template,
        summary="Attach a rendered template to the host's build, as text without secrets.",
        who=HOSTS,
        body=TEXT,
        query={"name": STRING},
        answers={201: bundle_calls.TemplateKept},
        refusals=(422, 507),
    ),
    Operation(
        method="POST",
        path="/api/v1/enrol",
        handler=admin_calls.enrol,
        summary="Get the token of a host for a one-time token.",
        who=ENROLLING,
        body=Enrolment,
        is_form=True,
        answers={201: (TEXT, admin_calls.Enrolled)},
    ),
    Operation(
        method="POST",
        path="/api/v1/tokens",
        handler=admin_calls.create_token,
        summary="Make a token.",
        who=ADMINISTRATORS,
        body=NewToken,
        is_form=True,
        answers={201: admin_calls.TokenMade},
    ),
    Operation(
        method="GET",
        path="/api/v1/tokens",
        handler=admin_calls.list_tokens,
        summary="All tokens, without their secrets.",
        who=ADMINISTRATORS,
        answers={200: admin_calls.Tokens},
    ),
    Operation(
        method="DELETE",
        path="/api/v1/tokens/{token}",
        handler=admin_calls.revoke_token,
        summary="Make a token worthless.",
        who=ADMINISTRATORS,
        answers={204: None},
        refusals=(404,),
    ),
    Operation(
        method="GET",
        path="/api/v1/audit",
        handler=admin_calls.list_audit,
        summary="What was administered, latest first.",
        who=ADMINISTRATORS,
        query={"limit": _NUMBER, "before": _NUMBER},
        answers={200: admin_calls.Audit},
    ),
    *ASSISTED_OPERATIONS,
)
