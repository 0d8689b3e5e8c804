"""What an assisted-controller may report of a cluster. Pure. The rules are those of the assisted-service."""

from collections.abc import Mapping
from typing import Final

from service_record.collector.assisted.cluster_states import Operator
from service_record.collector.assisted.rules import bad_request, check_fields, text_in

FINALIZING_STAGES: Final = (
    "Waiting for cluster operators",
    "Adding router ca",
    "Applying olm manifests",
    "Waiting for olm operators csv initialization",
    "Waiting for olm operators csv",
    "Waiting for OLM operator setup jobs",
    "Done",
)
OPERATOR_STATES: Final = ("failed", "progressing", "available")
_LONGEST_NAME: Final = 255
_LONGEST_INFO: Final = 4096


def finalizing_stage_of(body: Mapping[str, object]) -> str:
    """Return the stage in the body of a `PUT .../progress`. Raises Refused."""
    check_fields(body, {"finalizing_stage"})
    stage = text_in(body, "finalizing_stage")
    if stage not in FINALIZING_STAGES:
        raise bad_request(f"finalizing_stage in body should be one of [{' '.join(FINALIZING_STAGES)}]")
    return stage


def operator_of(body: Mapping[str, object]) -> Operator:
    """Return the operator in the body of a `PUT .../monitored-operators`. Raises Refused."""
    check_fields(body, {"name", "version", "status", "status_info"})
    name, status = text_in(body, "name"), text_in(body, "status")
    if not name:
        raise bad_request("name in body is required")
    if status and status not in OPERATOR_STATES:
        raise bad_request(f"status in body should be one of [{' '.join(OPERATOR_STATES)}]")
    return Operator(
        name=_stored(name)[:_LONGEST_NAME],
        status=status or "progressing",
        version=_stored(text_in(body, "version"))[:_LONGEST_NAME],
        info=_stored(text_in(body, "status_info"))[:_LONGEST_INFO],
    )


def completion_of(body: Mapping[str, object]) -> tuple[bool, str]:
    """Return whether it was a success, and why not, of a `POST .../complete-installation`. Raises Refused."""
    check_fields(body, {"is_success", "error_info", "data"})
    is_success = body.get("is_success")
    if not isinstance(is_success, bool):
        raise bad_request("is_success in body is required, true or false")
    return is_success, _stored(text_in(body, "error_info"))[:_LONGEST_INFO]


def _stored(text: str) -> str:
    """Return a text without NUL, which no database takes."""
    return text.replace("\0", " ")
