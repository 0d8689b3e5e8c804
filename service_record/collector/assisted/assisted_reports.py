"""Parse the reports of an assisted-controller, and events with states of hosts and clusters. Pure.

The rules are those of the assisted-service; names and messages of events are those of its docs/events.yaml.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from service_record.collector.assisted.cluster_states import STATES_BY_WORD, ClusterState, Operator
from service_record.collector.assisted.host_states import DISCOVERY, HostState, Signal
from service_record.collector.assisted.installation_rules import (
    Event,
    Installation,
    apply_registration,
    apply_signal,
    check_fields,
    is_outdated,
    make_bad_request,
    read_text_field,
)

FINALIZING_STAGES: Final = (
    *("Waiting for cluster operators", "Adding router ca", "Applying olm manifests"),
    *("Waiting for olm operators csv initialization", "Waiting for olm operators csv"),
    *("Waiting for OLM operator setup jobs", "Done"),
)
OPERATOR_STATES: Final = ("failed", "progressing", "available")
_LONGEST_NAME: Final = 255
_LONGEST_INFO: Final = 4096


def parse_finalizing_stage(body: Mapping[str, object]) -> str:
    """Return the stage in the body of a `PUT .../progress`. Raises CallRefused."""
    check_fields(body, {"finalizing_stage"})
    stage = read_text_field(body, "finalizing_stage")
    if stage not in FINALIZING_STAGES:
        raise make_bad_request(f"finalizing_stage in body should be one of [{' '.join(FINALIZING_STAGES)}]")
    return stage


def parse_operator(body: Mapping[str, object]) -> Operator:
    """Return the operator in the body of a `PUT .../monitored-operators`. Raises CallRefused."""
    check_fields(body, {"name", "version", "status", "status_info"})
    name, status = read_text_field(body, "name"), read_text_field(body, "status")
    if not name:
        raise make_bad_request("name in body is required")
    if status and status not in OPERATOR_STATES:
        raise make_bad_request(f"status in body should be one of [{' '.join(OPERATOR_STATES)}]")
    return Operator(
        name=_without_nul(name)[:_LONGEST_NAME],
        status=status or "progressing",
        version=_without_nul(read_text_field(body, "version"))[:_LONGEST_NAME],
        info=_without_nul(read_text_field(body, "status_info"))[:_LONGEST_INFO],
    )


def parse_completion(body: Mapping[str, object]) -> tuple[bool, str]:
    """Return the result and the error text in the body of a `POST .../complete-installation`.

    Raises CallRefused.
    """
    check_fields(body, {"is_success", "error_info", "data"})
    is_success = body.get("is_success")
    if not isinstance(is_success, bool):
        raise make_bad_request("is_success in body is required, true or false")
    return is_success, _without_nul(read_text_field(body, "error_info"))[:_LONGEST_INFO]


def _without_nul(text: str) -> str:
    """Return a text without NUL, which databases cannot store."""
    return text.replace("\0", " ")


_STATUS: Final = re.compile(
    r"updated status from \"?[\w-]+\"? to \"?(?P<status>[\w-]+)\"?(?: \((?P<info>.*)\))?", re.DOTALL
)
_CLUSTER_STATUS: Final = re.compile(r"Updated status of the cluster to (?P<status>[\w-]+)")
_OPERATOR: Final = re.compile(
    r"Operator (?P<name>\S{1,255}) status: (?P<status>failed|progressing|available)"
    r"(?: message: (?P<info>.*))?",
    re.DOTALL,
)
_SIGNALS: Final = {
    "host_installation_cancelled": Signal.CANCELLED,
    "host_installation_reset": Signal.RESET,
    "user_required_complete_installation_reset": Signal.RESET_WAITS,
}
_CLUSTER: Final = {
    "cluster_prepare_installation_started": ClusterState.PREPARING,
    "cluster_installation_completed": ClusterState.INSTALLED,
    "cluster_installation_failed": ClusterState.ERROR,
    "cluster_installation_canceled": ClusterState.CANCELLED,
    "cluster_installation_reset": ClusterState.INSUFFICIENT,
}


def apply_event(host: Installation, event: Event, now: float) -> Installation:
    """Return the installation of a host after an event, or the same object if the event changes no state.

    An event that is older than the known state changes nothing.
    """
    if is_outdated(event, host.event_at, host.stage_updated_at):
        return host
    # Apply it at its own time. With the time of its arrival, the later events of a forwarded list would seem
    # outdated.
    after = _apply_to_state(host, event, min(event.time, now))
    return host if after is host else replace(after, event_at=event.time)


def _apply_to_state(host: Installation, event: Event, now: float) -> Installation:
    if event.name == "host_registration_succeeded":
        return apply_registration(host, now)
    if (signal := _SIGNALS.get(event.name)) is not None:
        return apply_signal(host, signal, now)
    match = _STATUS.search(event.message) if event.name == "host_status_updated" else None
    if match is None or match["status"] not in set(HostState):
        return host
    status, info = match["status"], match["info"] or ""
    if status in DISCOVERY and host.status not in DISCOVERY | {HostState.DISCONNECTED}:
        host = replace(host, stage="", info="", stage_started_at=now, stage_updated_at=now)
    return replace(host, status=status, status_info=info)


def parse_cluster_state(event: Event) -> ClusterState | None:
    """Return the state of the cluster that an event reports, or None."""
    if event.name == "cluster_status_updated":
        match = _CLUSTER_STATUS.search(event.message)
        return STATES_BY_WORD.get(match["status"]) if match else None
    return _CLUSTER.get(event.name)


def parse_operator_event(event: Event) -> Operator | None:
    """Return the operator and its status that an event reports, or None."""
    match = _OPERATOR.match(event.message) if event.name == "cluster_operator_status" else None
    return Operator(name=match["name"], status=match["status"], info=match["info"] or "") if match else None
