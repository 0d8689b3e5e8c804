"""What the collector can be asked in the place of an assisted-service, for the table of all operations."""

from typing import Final

from service_record.collector.api.assisted import BASE
from service_record.collector.api.operation import HOSTS, OBJECT, STRING, Operation

ASSISTED: Final = (
    Operation(
        method="GET",
        path=f"{BASE}/clusters/{{cluster_id}}/hosts",
        summary="As the assisted-service: the hosts of a cluster.",
        who=f"{HOSTS}, reader",
        query={"role": STRING, "status": STRING},
        answers={200: {"type": "array", "items": OBJECT}},
        problem="AgentError",
    ),
    Operation(
        method="PUT",
        path=f"{BASE}/infra-envs/{{infra_env_id}}/hosts/{{host_id}}/progress",
        summary="As the assisted-service: the stage of a host.",
        who=HOSTS,
        body=OBJECT,
        answers={200: None},
        refusals=(404, 409),
        problem="AgentError",
    ),
    Operation(
        method="PUT",
        path=f"{BASE}/infra-envs/{{infra_env_id}}/hosts/{{host_id}}/logs-progress",
        summary="As the assisted-service: how far the logs of a host have come.",
        who=HOSTS,
        body=OBJECT,
        answers={204: None},
        refusals=(404, 409),
        problem="AgentError",
    ),
    Operation(
        method="POST",
        path=f"{BASE}/events",
        summary="As the assisted-service: an event of a host.",
        who=HOSTS,
        body=OBJECT,
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
        query={"logs_type": STRING, "host_id": STRING},
        answers={204: None},
        refusals=(404, 409, 507),
        problem="AgentError",
    ),
)
