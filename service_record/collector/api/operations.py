"""The table of all operations of the HTTP interface, including those of the assisted-service.

Routes, access rights, metrics and the OpenAPI document are made from it.
"""

from functools import cache
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from service_record.collector.api import (
    admin_calls,
    assisted_calls,
    bundle_calls,
    cluster_calls,
    host_calls,
    last_words_calls,
    metrics,
    mute_calls,
    record_calls,
    step_calls,
)
from service_record.collector.api.answering import answer
from service_record.collector.api.assisted_calls import BASE
from service_record.collector.api.openapi import document
from service_record.collector.api.operation import (
    ADMINISTRATORS,
    ANYBODY,
    BOOTING,
    BYTES,
    CLOUD_INIT,
    ENROLLING,
    HOSTS,
    HOSTS_AND_READERS,
    OBJECT,
    READERS,
    STRING,
    TEXT,
    CloudInitEvent,
    ClusterFields,
    Enrolment,
    Handler,
    HostFields,
    NewBuild,
    NewMute,
    NewToken,
    Operation,
    Reports,
    StepReport,
    Update,
)
from service_record.collector.domain.build_days import MOST_DAYS
from service_record.collector.domain.steps import LONGEST_NAME
from service_record.collector.domain.verdicts import FleetVerdict
from service_record.collector.ingest.baselines import Statistics
from service_record.collector.store.cluster_rows import ClusterDetail
from service_record.collector.store.fleet import Sort
from service_record.http import collector_answers
from service_record.http.collector_answers import HostDetail, LastWords


@cache
def openapi_document() -> dict[str, Any]:
    """Return the OpenAPI document of all operations."""
    return document(OPERATIONS)


async def get_document(_: Request) -> Response:
    """`GET /api/v1/openapi.json`: the OpenAPI document, for readers."""
    return answer(openapi_document())


_BY: Final = {"type": "array", "items": {"type": "string", "enum": ["group", "release"]}}
_LIMIT: Final = {"type": "integer", "minimum": 1, "maximum": 1000}
_HOST: Final = "/api/v1/hosts/{host}"
_CLUSTER: Final = "/api/v1/clusters/{cluster}"
_ASSISTED_CLUSTER: Final = f"{BASE}/clusters/{{cluster_id}}"
_ASSISTED_HOSTS: Final = f"{BASE}/infra-envs/{{infra_env_id}}/hosts"
_REPEATED: Final = {"type": "array", "items": STRING}
_STEP_QUERY: Final = dict.fromkeys(StepReport.__struct_fields__, STRING)


def _assisted(call: str, handler: Handler, summary: str, **fields: Any) -> Operation:
    """Return an operation of the assisted-service: for hosts by default, with its form of errors."""
    values: dict[str, Any] = {"who": HOSTS, "problem": "AgentError", **fields}
    return Operation(call, handler, f"As the assisted-service: {summary}", **values)


OPERATIONS: Final = (
    Operation(
        "GET /healthz", metrics.healthy, "Check that the process runs.", who=ANYBODY, answers={200: TEXT}
    ),
    Operation(
        "GET /readyz",
        metrics.ready,
        "Check that the process runs and the database accepts writes.",
        who=ANYBODY,
        answers={200: TEXT, 503: TEXT},
    ),
    Operation("GET /metrics", metrics.metrics, "Metrics for Prometheus.", who=READERS, answers={200: TEXT}),
    Operation(
        "GET /api/v1/openapi.json",
        get_document,
        "The OpenAPI document of the interface.",
        who=READERS,
        answers={200: OBJECT},
    ),
    Operation(
        f"POST {_HOST}/steps",
        step_calls.post_step,
        "Report a step. It is acknowledged once it is on disk.",
        who=HOSTS,
        body=StepReport,
        is_form=True,
        answers={201: step_calls.StepsAccepted},
        refusals=(422,),
        counted="step",
    ),
    Operation(
        f"GET {_HOST}/steps",
        step_calls.get_step,
        "Report a step in the query, for a wget that can only GET.",
        who=HOSTS,
        query=_STEP_QUERY,
        answers={201: step_calls.StepsAccepted},
        refusals=(422,),
        counted="step",
    ),
    Operation(
        "POST /api/v1/steps",
        step_calls.post_reports,
        "Report up to 1,000 steps of one or more hosts. Each has its own answer.",
        who=HOSTS,
        has_host_in_body=True,
        body=Reports,
        answers={200: step_calls.ReportAnswers},
        counted="step",
    ),
    Operation(
        "GET /api/v1/boot/{secret}",
        step_calls.get_boot,
        "Report from an iPXE script that the image was downloaded.",
        who=BOOTING,
        answers={200: TEXT},
        refusals=(422,),
    ),
    Operation(
        "POST /api/v1/cloud-init/{secret}",
        step_calls.post_event,
        "Report an event of cloud-init's reporting webhook.",
        who=CLOUD_INIT,
        body=CloudInitEvent,
        answers={201: step_calls.StepsAccepted},
        refusals=(422,),
        counted="step",
    ),
    Operation(
        "POST /api/update",
        step_calls.post_update,
        "Report a step in the form of the thread of Foreman's RFC.",
        who=HOSTS,
        has_host_in_body=True,
        body=Update,
        is_form=True,
        answers={201: step_calls.StepsAccepted},
        refusals=(422,),
        counted="step",
    ),
    Operation(
        "GET /api/v1/hosts",
        host_calls.list_hosts,
        "List hosts, those in trouble first.",
        who=READERS,
        query={
            "group": _REPEATED,
            "machine": _REPEATED,
            "verdict": {"type": "array", "items": {"type": "string", "enum": list(FleetVerdict)}},
            "cause": _REPEATED,
            "cluster": _REPEATED,
            "release": _REPEATED,
            "hardware": _REPEATED,
            "all": {"type": "boolean"},
            "earlier": {"type": "boolean"},
            "sort": {"type": "string", "enum": list(Sort)},
            "limit": _LIMIT,
            "after": STRING,
        },
        answers={200: collector_answers.Hosts},
    ),
    Operation(
        f"GET {_HOST}",
        host_calls.show_host,
        "Show a host with the steps of its latest build.",
        who=READERS,
        answers={200: HostDetail},
        refusals=(404,),
    ),
    Operation(
        f"PUT {_HOST}",
        admin_calls.put_host,
        "Create a host before it reports, or change its properties.",
        who=ADMINISTRATORS,
        body=HostFields,
        is_form=True,
        answers={200: admin_calls.HostPut, 201: admin_calls.HostPut},
        refusals=(409,),
    ),
    Operation(
        f"DELETE {_HOST}",
        admin_calls.delete_host,
        "Delete a host, all of its reports, and its tokens.",
        who=ADMINISTRATORS,
        answers={204: None},
        refusals=(404,),
    ),
    Operation(
        f"POST {_HOST}/builds",
        admin_calls.begin_build,
        "Begin a new build of a host.",
        who=ADMINISTRATORS,
        body=NewBuild,
        is_form=True,
        answers={201: admin_calls.BuildBegun},
        refusals=(404,),
    ),
    Operation(
        f"GET {_HOST}/builds/{{n:number}}",
        host_calls.show_build,
        "Show a host with the steps of a build.",
        who=READERS,
        answers={200: HostDetail},
        refusals=(404,),
    ),
    Operation(
        "GET /api/v1/clusters",
        cluster_calls.list_clusters,
        "List clusters with their states, those that need action first.",
        who=READERS,
        query={"cluster": _REPEATED, "all": {"type": "boolean"}},
        answers={200: collector_answers.Clusters},
    ),
    Operation(
        f"GET {_CLUSTER}",
        cluster_calls.show_cluster,
        "Show a cluster by its id or name: hosts, operators, logs and events.",
        who=READERS,
        answers={200: ClusterDetail},
        refusals=(404,),
    ),
    Operation(
        f"PUT {_CLUSTER}",
        cluster_calls.put_cluster,
        "Set the name of a cluster and its planned number of hosts.",
        who=ADMINISTRATORS,
        body=ClusterFields,
        is_form=True,
        answers={200: cluster_calls.ClusterPut, 201: cluster_calls.ClusterPut},
    ),
    Operation(
        f"GET {_CLUSTER}/logs/{{kind}}",
        bundle_calls.get_cluster_logs,
        "Download the logs of a cluster, unchanged. The kind is controller or all.",
        who=READERS,
        answers={200: BYTES},
        refusals=(404,),
    ),
    Operation(
        "GET /api/v1/statistics",
        host_calls.show_statistics,
        "Show statistics of steps and of the builds of each day: durations and failures.",
        who=READERS,
        query={
            "group": _REPEATED,
            "release": _REPEATED,
            "by": _BY,
            "days": {"type": "integer", "minimum": 1, "maximum": MOST_DAYS},
        },
        answers={200: Statistics},
    ),
    Operation(
        f"POST {_HOST}/records",
        record_calls.post_records,
        "Send new pieces of service records.",
        who=HOSTS,
        body=collector_answers.Batch,
        answers={200: collector_answers.StoredBatch},
        refusals=(409, 507),
        counted="records",
    ),
    Operation(
        f"GET {_HOST}/records",
        record_calls.get_records,
        "List the services with records, and the stored lengths. A host may read its own.",
        who=HOSTS_AND_READERS,
        answers={200: collector_answers.StoredRecords},
        refusals=(404,),
    ),
    Operation(
        f"GET {_HOST}/records/{{service}}",
        record_calls.get_record,
        "Download the record of a service, byte for byte.",
        who=READERS,
        answers={200: BYTES},
        refusals=(404,),
    ),
    Operation(
        f"PUT {_HOST}/last-words",
        last_words_calls.put_last_words,
        "Send the last lines that a service printed. They replace its earlier ones.",
        who=HOSTS,
        body=LastWords,
        answers={204: None},
        counted="last words",
    ),
    Operation(
        f"POST {_HOST}/last-words",
        last_words_calls.post_last_words,
        "Send the last lines that a service printed, as text.",
        who=HOSTS,
        body=TEXT,
        query={
            "service": {"type": "string", "minLength": 1, "maxLength": LONGEST_NAME},
            "stage": {"type": "string", "maxLength": LONGEST_NAME},
        },
        answers={204: None},
        counted="last words",
    ),
    Operation(
        f"GET {_HOST}/bundles",
        bundle_calls.list_bundles,
        "List the bundles of a host.",
        who=READERS,
        answers={200: bundle_calls.Bundles},
        refusals=(404,),
    ),
    Operation(
        f"GET {_HOST}/bundles/{{bundle:number}}",
        bundle_calls.get_bundle,
        "Download a bundle, unchanged.",
        who=READERS,
        answers={200: BYTES},
        refusals=(404,),
    ),
    Operation(
        f"POST {_HOST}/templates",
        bundle_calls.post_template,
        "Attach a rendered template, as text without secrets, to the host's build.",
        who=HOSTS,
        body=TEXT,
        query={"name": STRING},
        answers={201: bundle_calls.TemplateKept},
        refusals=(422, 507),
    ),
    Operation(
        "POST /api/v1/enrol",
        admin_calls.enrol,
        "Exchange a one-time token for the token of a host.",
        who=ENROLLING,
        body=Enrolment,
        is_form=True,
        answers={201: (TEXT, admin_calls.Enrolled)},
    ),
    Operation(
        "POST /api/v1/tokens",
        admin_calls.create_token,
        "Create a token.",
        who=ADMINISTRATORS,
        body=NewToken,
        is_form=True,
        answers={201: admin_calls.TokenMade},
    ),
    Operation(
        "GET /api/v1/tokens",
        admin_calls.list_tokens,
        "List all tokens, without their secrets.",
        who=ADMINISTRATORS,
        answers={200: admin_calls.Tokens},
    ),
    Operation(
        "DELETE /api/v1/tokens/{token:number}",
        admin_calls.revoke_token,
        "Revoke a token.",
        who=ADMINISTRATORS,
        answers={204: None},
        refusals=(404,),
    ),
    Operation(
        "GET /api/v1/mutes",
        mute_calls.list_mutes,
        "List acknowledgements, mutes and maintenance.",
        who=ADMINISTRATORS,
        answers={200: mute_calls.Mutes},
    ),
    Operation(
        "POST /api/v1/mutes",
        mute_calls.create_mute,
        "Acknowledge or mute a host, a group or a cause, or put it into maintenance.",
        who=ADMINISTRATORS,
        body=NewMute,
        is_form=True,
        answers={201: mute_calls.MuteMade},
    ),
    Operation(
        "DELETE /api/v1/mutes/{mute:number}",
        mute_calls.delete_mute,
        "End a mute before its time.",
        who=ADMINISTRATORS,
        answers={204: None},
        refusals=(404,),
    ),
    Operation(
        "GET /api/v1/audit",
        admin_calls.list_audit,
        "List the entries of the audit log, latest first.",
        who=ADMINISTRATORS,
        query={"limit": _LIMIT, "before": {"type": "integer", "minimum": 1, "maximum": 2**53}},
        answers={200: admin_calls.Audit},
    ),
    _assisted(
        f"GET {_ASSISTED_CLUSTER}/hosts",
        assisted_calls.get_hosts,
        "the hosts of a cluster.",
        who=HOSTS_AND_READERS,
        query={"role": STRING, "status": STRING},
        answers={200: {"type": "array", "items": OBJECT}},
    ),
    _assisted(
        f"PUT {_ASSISTED_HOSTS}/{{host_id}}/progress",
        assisted_calls.put_progress,
        "the stage of a host.",
        body=OBJECT,
        answers={200: None},
        refusals=(404, 409),
        counted="stage",
    ),
    _assisted(
        f"PUT {_ASSISTED_HOSTS}/{{host_id}}/logs-progress",
        assisted_calls.put_logs_progress,
        "how far the logs of a host have come.",
        body=OBJECT,
        answers={204: None},
        refusals=(404, 409),
    ),
    _assisted(
        f"POST {_ASSISTED_HOSTS}",
        assisted_calls.register_host,
        "an agent registers its host, which booted the discovery image.",
        body=OBJECT,
        answers={201: OBJECT},
        refusals=(404,),
        counted="registration",
    ),
    _assisted(
        f"GET {_ASSISTED_HOSTS}/{{host_id}}/instructions",
        assisted_calls.get_instructions,
        "the call of an agent once a minute; it gets nothing to do.",
        answers={200: OBJECT},
        refusals=(404,),
    ),
    _assisted(
        f"PUT {_ASSISTED_CLUSTER}/progress",
        cluster_calls.put_progress,
        "the stage in which the controller finalizes.",
        body=OBJECT,
        answers={200: None},
        refusals=(404,),
        counted="cluster",
    ),
    _assisted(
        f"PUT {_ASSISTED_CLUSTER}/monitored-operators",
        cluster_calls.put_operator,
        "the status of an operator.",
        body=OBJECT,
        answers={200: None},
        refusals=(404,),
        counted="cluster",
    ),
    _assisted(
        f"POST {_ASSISTED_CLUSTER}/actions/complete-installation",
        cluster_calls.complete,
        "what the installation of a cluster came to.",
        body=OBJECT,
        answers={202: OBJECT},
        refusals=(404,),
        counted="cluster",
    ),
    _assisted(
        f"PUT {_ASSISTED_CLUSTER}/logs-progress",
        cluster_calls.put_logs_progress,
        "how far the logs of a cluster have come.",
        body=OBJECT,
        answers={204: None},
        refusals=(404,),
    ),
    _assisted(
        f"POST {BASE}/events",
        assisted_calls.post_event,
        "an event of a host or of a cluster.",
        body=OBJECT,
        answers={201: None},
        refusals=(404, 409),
        counted="event",
    ),
    _assisted(
        f"POST {_ASSISTED_CLUSTER}/logs",
        bundle_calls.post_logs,
        "the logs of a host, a bundle; or those of a cluster.",
        body="multipart/form-data",
        query={"logs_type": STRING, "host_id": STRING},
        answers={204: None},
        refusals=(404, 409, 507),
        counted="bundle",
    ),
)
