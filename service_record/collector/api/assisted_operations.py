"""The calls of the HTTP interface in the place of an assisted-service, for the one table of `operations`."""

from typing import Any, Final

from service_record.collector.api import assisted_calls, bundle_calls, cluster_calls
from service_record.collector.api.assisted_calls import BASE
from service_record.collector.api.operation import HOSTS, HOSTS_AND_READERS, OBJECT, STRING, Operation

_ASSISTED_CLUSTER: Final = f"{BASE}/clusters/{{cluster_id}}"


def _operation(summary: str, **fields: Any) -> Operation:
    """Return a call that hosts alone make, unless others are given, and that is refused as there."""
    values: dict[str, Any] = {"who": HOSTS, "problem": "AgentError", **fields}
    return Operation(summary=f"As the assisted-service: {summary}", **values)


ASSISTED_OPERATIONS: Final = (
    _operation(
        method="GET",
        path=f"{BASE}/clusters/{{cluster_id}}/hosts",
        handler=assisted_calls.get_hosts,
        summary="the hosts of a cluster.",
        who=HOSTS_AND_READERS,
        query={"role": STRING, "status": STRING},
        answers={200: {"type": "array", "items": OBJECT}},
    ),
    _operation(
        method="PUT",
        path=f"{BASE}/infra-envs/{{infra_env_id}}/hosts/{{host_id}}/progress",
        handler=assisted_calls.put_progress,
        summary="the stage of a host.",
        body=OBJECT,
        answers={200: None},
        refusals=(404, 409),
        counted="stage",
    ),
    _operation(
        method="PUT",
        path=f"{BASE}/infra-envs/{{infra_env_id}}/hosts/{{host_id}}/logs-progress",
        handler=assisted_calls.put_logs_progress,
        summary="how far the logs of a host have come.",
        body=OBJECT,
        answers={204: None},
        refusals=(404, 409),
    ),
    _operation(
        method="POST",
        path=f"{BASE}/infra-envs/{{infra_env_id}}/hosts",
        handler=assisted_calls.register_host,
        summary="an agent registers its host, which booted the discovery image.",
        body=OBJECT,
        answers={201: OBJECT},
        refusals=(404,),
        counted="registration",
    ),
    _operation(
        method="GET",
        path=f"{BASE}/infra-envs/{{infra_env_id}}/hosts/{{host_id}}/instructions",
        handler=assisted_calls.get_instructions,
        summary="the call of an agent once a minute; it gets nothing to do.",
        answers={200: OBJECT},
        refusals=(404,),
    ),
    _operation(
        method="PUT",
        path=f"{_ASSISTED_CLUSTER}/progress",
        handler=cluster_calls.put_progress,
        summary="the stage in which the controller finalizes.",
        body=OBJECT,
        answers={200: None},
        refusals=(404,),
        counted="cluster",
    ),
    _operation(
        method="PUT",
        path=f"{_ASSISTED_CLUSTER}/monitored-operators",
        handler=cluster_calls.put_operator,
        summary="the status of an operator.",
        body=OBJECT,
        answers={200: None},
        refusals=(404,),
        counted="cluster",
    ),
    _operation(
        method="POST",
        path=f"{_ASSISTED_CLUSTER}/actions/complete-installation",
        handler=cluster_calls.complete,
        summary="what the installation of a cluster came to.",
        body=OBJECT,
        answers={202: OBJECT},
        refusals=(404,),
        counted="cluster",
    ),
    _operation(
        method="PUT",
        path=f"{_ASSISTED_CLUSTER}/logs-progress",
        handler=cluster_calls.put_logs_progress,
        summary="how far the logs of a cluster have come.",
        body=OBJECT,
        answers={204: None},
        refusals=(404,),
    ),
    _operation(
        method="POST",
        path=f"{BASE}/events",
        handler=assisted_calls.post_event,
        summary="an event of a host or of a cluster.",
        body=OBJECT,
        answers={201: None},
        refusals=(404, 409),
        counted="event",
    ),
    _operation(
        method="POST",
        path=f"{BASE}/clusters/{{cluster_id}}/logs",
        handler=bundle_calls.post_logs,
        summary="the logs of a host, a bundle; or those of a cluster.",
        body="multipart/form-data",
        query={"logs_type": STRING, "host_id": STRING},
        answers={204: None},
        refusals=(404, 409, 507),
        counted="bundle",
    ),
)
