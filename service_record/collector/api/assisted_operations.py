"""The calls of the HTTP interface in the place of an assisted-service, for the one table of `operations`."""

from typing import Any, Final

from service_record.collector.api import assisted_calls, bundle_calls, cluster_calls
from service_record.collector.api.assisted_calls import BASE
from service_record.collector.api.operation import (
    HOSTS,
    HOSTS_AND_READERS,
    OBJECT,
    STRING,
    Handler,
    Operation,
)

_ASSISTED_CLUSTER: Final = f"{BASE}/clusters/{{cluster_id}}"


def _operation(call: str, handler: Handler, summary: str, **fields: Any) -> Operation:
    """Return a call that hosts alone make, unless others are given, and that is refused as there."""
    values: dict[str, Any] = {"who": HOSTS, "problem": "AgentError", **fields}
    return Operation(call, handler, f"As the assisted-service: {summary}", **values)


ASSISTED_OPERATIONS: Final = (
    _operation(
        f"GET {BASE}/clusters/{{cluster_id}}/hosts",
        assisted_calls.get_hosts,
        "the hosts of a cluster.",
        who=HOSTS_AND_READERS,
        query={"role": STRING, "status": STRING},
        answers={200: {"type": "array", "items": OBJECT}},
    ),
    _operation(
        f"PUT {BASE}/infra-envs/{{infra_env_id}}/hosts/{{host_id}}/progress",
        assisted_calls.put_progress,
        "the stage of a host.",
        body=OBJECT,
        answers={200: None},
        refusals=(404, 409),
        counted="stage",
    ),
    _operation(
        f"PUT {BASE}/infra-envs/{{infra_env_id}}/hosts/{{host_id}}/logs-progress",
        assisted_calls.put_logs_progress,
        "how far the logs of a host have come.",
        body=OBJECT,
        answers={204: None},
        refusals=(404, 409),
    ),
    _operation(
        f"POST {BASE}/infra-envs/{{infra_env_id}}/hosts",
        assisted_calls.register_host,
        "an agent registers its host, which booted the discovery image.",
        body=OBJECT,
        answers={201: OBJECT},
        refusals=(404,),
        counted="registration",
    ),
    _operation(
        f"GET {BASE}/infra-envs/{{infra_env_id}}/hosts/{{host_id}}/instructions",
        assisted_calls.get_instructions,
        "the call of an agent once a minute; it gets nothing to do.",
        answers={200: OBJECT},
        refusals=(404,),
    ),
    _operation(
        f"PUT {_ASSISTED_CLUSTER}/progress",
        cluster_calls.put_progress,
        "the stage in which the controller finalizes.",
        body=OBJECT,
        answers={200: None},
        refusals=(404,),
        counted="cluster",
    ),
    _operation(
        f"PUT {_ASSISTED_CLUSTER}/monitored-operators",
        cluster_calls.put_operator,
        "the status of an operator.",
        body=OBJECT,
        answers={200: None},
        refusals=(404,),
        counted="cluster",
    ),
    _operation(
        f"POST {_ASSISTED_CLUSTER}/actions/complete-installation",
        cluster_calls.complete,
        "what the installation of a cluster came to.",
        body=OBJECT,
        answers={202: OBJECT},
        refusals=(404,),
        counted="cluster",
    ),
    _operation(
        f"PUT {_ASSISTED_CLUSTER}/logs-progress",
        cluster_calls.put_logs_progress,
        "how far the logs of a cluster have come.",
        body=OBJECT,
        answers={204: None},
        refusals=(404,),
    ),
    _operation(
        f"POST {BASE}/events",
        assisted_calls.post_event,
        "an event of a host or of a cluster.",
        body=OBJECT,
        answers={201: None},
        refusals=(404, 409),
        counted="event",
    ),
    _operation(
        f"POST {BASE}/clusters/{{cluster_id}}/logs",
        bundle_calls.post_logs,
        "the logs of a host, a bundle; or those of a cluster.",
        body="multipart/form-data",
        query={"logs_type": STRING, "host_id": STRING},
        answers={204: None},
        refusals=(404, 409, 507),
        counted="bundle",
    ),
)
