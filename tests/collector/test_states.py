"""The transition tables of hosts and clusters. Names are those of the service's OpenAPI file."""

from dataclasses import replace
from itertools import product

import pytest

from service_record.collector.assisted.assisted_reports import (
    apply_event,
    parse_cluster_state,
    parse_operator_event,
)
from service_record.collector.assisted.cluster_states import (
    CLUSTER_MOVES,
    STATES_BY_WORD,
    ClusterHost,
    ClusterSnapshot,
    ClusterState,
    Operator,
    explain_state,
    is_successful,
    next_state,
)
from service_record.collector.assisted.host_states import MEANINGS, HostState, Position, Signal, find_move
from service_record.collector.assisted.installation_rules import (
    Event,
    Installation,
    apply_registration,
    apply_signal,
)
from tests.assisted_contract import find_openapi_file, load

START = 1_800_000_000.0
MINUTE = 60.0
D, K = HostState.DISCOVERING, HostState.KNOWN
IN_PROGRESS, PENDING_ACTION = HostState.IN_PROGRESS, HostState.PENDING_ACTION
BEFORE, REBOOTING, AFTER = Position


def host(status: str = "installing-in-progress", stage: str = "Rebooting", **facts: object) -> Installation:
    known = {"id": "h", "cluster_id": "c", "stage_started_at": START, "stage_updated_at": START}
    return Installation(status=status, stage=stage, **{**known, **facts})  # type: ignore[arg-type]


def names_of(definition: str) -> set[str]:
    path = find_openapi_file()
    if path is None:
        pytest.skip("the OpenAPI file of the assisted-service cannot be had here")
    return set(load(path)["definitions"][definition]["properties"]["status"]["enum"])


# Hosts


def test_host_states_match_the_contract() -> None:
    assert set(HostState) <= names_of("host")
    assert set(MEANINGS) == set(HostState)


@pytest.mark.parametrize(
    ("state", "signal", "position", "after"),
    [
        (D, Signal.REGISTERED, BEFORE, D),
        (HostState.DISCONNECTED, Signal.REGISTERED, BEFORE, D),
        (HostState.RESETTING, Signal.REGISTERED, BEFORE, D),
        (HostState.RESETTING_PENDING_ACTION, Signal.REGISTERED, REBOOTING, D),
        (IN_PROGRESS, Signal.REGISTERED, REBOOTING, PENDING_ACTION),
        (PENDING_ACTION, Signal.REGISTERED, REBOOTING, PENDING_ACTION),
        (IN_PROGRESS, Signal.REGISTERED, BEFORE, HostState.ERROR),
        (HostState.DISABLED, Signal.REGISTERED, BEFORE, None),
        (HostState.ERROR, Signal.REGISTERED, REBOOTING, None),
        (K, Signal.SILENT, BEFORE, HostState.DISCONNECTED),
        (HostState.PREPARING, Signal.SILENT, BEFORE, HostState.DISCONNECTED),
        (HostState.DISABLED, Signal.SILENT, BEFORE, None),
        (IN_PROGRESS, Signal.SILENT, BEFORE, HostState.ERROR),
        (IN_PROGRESS, Signal.SILENT, REBOOTING, None),
        (IN_PROGRESS, Signal.SILENT, AFTER, None),
        (IN_PROGRESS, Signal.REBOOT_IS_LATE, REBOOTING, PENDING_ACTION),
        (PENDING_ACTION, Signal.STAGE, REBOOTING, IN_PROGRESS),
        (HostState.INSTALLING, Signal.STAGE, BEFORE, IN_PROGRESS),
        (K, Signal.STAGE, BEFORE, None),
        (IN_PROGRESS, Signal.DONE, AFTER, HostState.INSTALLED),
        (IN_PROGRESS, Signal.FAILED, AFTER, HostState.ERROR),
        (IN_PROGRESS, Signal.CANCELLED, AFTER, HostState.CANCELLED),
        (HostState.INSTALLED, Signal.CANCELLED, AFTER, None),
        (HostState.CANCELLED, Signal.RESET, BEFORE, HostState.RESETTING),
        (HostState.ERROR, Signal.RESET, AFTER, HostState.RESETTING_PENDING_ACTION),
        (HostState.RESETTING, Signal.RESET_WAITS, BEFORE, HostState.RESETTING_PENDING_ACTION),
        (D, Signal.RESET, BEFORE, None),
    ],
)
def test_signals_follow_the_transition_table(
    state: HostState, signal: Signal, position: Position, after: HostState | None
) -> None:
    row = find_move(state, signal, position)

    assert (None if row is None else row.to) == after


def test_host_is_disconnected_after_three_silent_minutes() -> None:
    known = host("known", "", checked_in_at=START)

    assert known.status_at(START + 3 * MINUTE) == "known"
    assert known.status_at(START + 3 * MINUTE + 1) == "disconnected"
    assert "three minutes" in known.status_info_at(START + 3 * MINUTE + 1)
    assert known.changes_at(START) == START + 3 * MINUTE
    assert replace(known, checked_in_at=START + 240).status_at(START + 300) == "known"


def test_bootstrap_host_has_two_more_minutes() -> None:
    known = host("known", "", checked_in_at=START, is_bootstrap=True)

    assert known.status_at(START + 5 * MINUTE) == "known"
    assert known.status_at(START + 5 * MINUTE + 1) == "disconnected"


def test_host_without_agent_is_never_disconnected() -> None:
    assert host("known", "").status_at(START + 86_400) == "known"


@pytest.mark.parametrize("stage", ["Rebooting", "Configuring", "Joined"])
def test_rebooted_host_is_never_disconnected(stage: str) -> None:
    assert host(stage=stage, checked_in_at=START).status_at(START + 4 * MINUTE) == "installing-in-progress"


def test_silent_agent_before_reboot_is_an_error() -> None:
    writing = host(stage="Writing image to disk", checked_in_at=START)

    assert writing.status_at(START + 4 * MINUTE) == "error"
    assert writing.status_info_at(START + 4 * MINUTE).startswith("Host failed to install due to timeout")


def test_booting_the_image_again_means_wrong_boot_order() -> None:
    after = apply_registration(host(), START + 60)

    assert (after.status, after.stage) == ("installing-pending-user-action", "Rebooting")
    assert "boot order" in after.status_info


def test_reset_host_starts_over_on_registration() -> None:
    failed = host("error", "Writing image to disk", info="no space")

    reset = apply_signal(failed, Signal.RESET, START + 60)
    found = apply_registration(reset, START + 120)

    assert reset.status == "resetting"
    assert (found.status, found.stage, found.info) == ("discovering", "", "")


MESSAGE = "Host m1: updated status from {} to {} {}"


@pytest.mark.parametrize(
    ("name", "message", "status", "info"),
    [
        ("host_status_updated", MESSAGE.format("known", "disabled", ""), "disabled", ""),
        ("host_status_updated", MESSAGE.format('"known"', '"disabled"', "(by user)"), "disabled", "by user"),
        (
            "host_status_updated",
            MESSAGE.format("installing-in-progress", "installing-pending-user-action", "(boot disk sda (x))"),
            "installing-pending-user-action",
            "boot disk sda (x)",
        ),
        ("host_status_updated", MESSAGE.format("known", "on fire", ""), "installing-in-progress", ""),
        ("host_status_updated", "something else", "installing-in-progress", ""),
        ("my_event", MESSAGE.format("known", "disabled", ""), "installing-in-progress", ""),
    ],
)
def test_service_event_sets_host_state(name: str, message: str, status: str, info: str) -> None:
    event = Event(host_id="h", cluster_id="", severity="info", time=START, name=name, message=message)

    after = apply_event(host(), event, START)

    assert (after.status, after.status_info) == (status, info)


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("host_installation_cancelled", "cancelled"),
        ("host_installation_reset", "resetting-pending-user-action"),
        ("user_required_complete_installation_reset", "resetting-pending-user-action"),
        ("host_registration_succeeded", "installing-pending-user-action"),
    ],
)
def test_event_name_sets_host_state(name: str, status: str) -> None:
    event = Event(host_id="h", cluster_id="", severity="info", time=START, name=name, message="m")

    assert apply_event(host(), event, START).status == status


@pytest.mark.parametrize(
    ("before", "after", "stage"),
    [
        ("installing-in-progress", "known", ""),
        ("disconnected", "known", "Rebooting"),
        ("insufficient", "known", "Rebooting"),
        ("installing-in-progress", "error", "Rebooting"),
    ],
)
def test_rediscovered_host_has_no_stage(before: str, after: str, stage: str) -> None:
    message = MESSAGE.format(before, after, "")
    event = Event(
        host_id="h", cluster_id="", severity="info", time=START, name="host_status_updated", message=message
    )

    assert apply_event(host(before), event, START).stage == stage


# Clusters


def of(status: str, name: str = "m1", role: str = "master", stage: str = "") -> ClusterHost:
    return ClusterHost(name=name, role=role, status=status, stage=stage)


def five(masters: str = "installed", workers: str = "installed", **facts: object) -> ClusterSnapshot:
    """Return a snapshot of three control-plane hosts and two workers.

    `masters` and `workers` are states, separated by spaces. The last one is used for the remaining hosts.
    """

    def hosts(words: str, number: int, letter: str, role: str) -> list[ClusterHost]:
        states = words.split()
        states += states[-1:] * (number - len(states))
        return [of(state, f"{letter}{at}", role) for at, state in enumerate(states, 1)]

    found = [*hosts(masters, 3, "m", "master"), *hosts(workers, 2, "w", "worker")]
    return ClusterSnapshot(hosts=found, **facts)  # type: ignore[arg-type]


def test_cluster_states_match_the_contract() -> None:
    assert set(ClusterState) <= names_of("cluster")
    assert set(STATES_BY_WORD) <= names_of("cluster")


BUSY = "installing-in-progress"
S = ClusterState


@pytest.mark.parametrize(
    ("before", "snapshot", "after"),
    [
        (S.PENDING, ClusterSnapshot(), S.PENDING),
        (S.PENDING, five("known", "known pending-for-input"), S.PENDING),
        (S.PENDING, five("discovering known", "known"), S.INSUFFICIENT),
        (S.PENDING, five("known", "known"), S.READY),
        (S.READY, five("known disconnected known", "known"), S.INSUFFICIENT),
        (S.READY, five("known", "known disabled"), S.READY),
        (S.READY, ClusterSnapshot(hosts=[of("known")]), S.INSUFFICIENT),
        (S.READY, five("preparing-for-installation", "known"), S.PREPARING),
        (S.PREPARING, five("installing", "preparing-successful"), S.INSTALLING),
        (S.PENDING, five(BUSY, BUSY), S.INSTALLING),
        (S.INSTALLING, five("installed installed " + BUSY), S.INSTALLING),
        (S.INSTALLING, five("installed", "installed " + BUSY), S.INSTALLING),
        (S.INSTALLING, five(), S.INSTALLED),
        (S.INSTALLING, five(operators=[Operator(name="console", status="progressing")]), S.FINALIZING),
        (S.FINALIZING, five(operators=[Operator(name="console", status="available")]), S.INSTALLED),
        (S.INSTALLED, five(operators=[Operator(name="console", status="progressing")]), S.FINALIZING),
        (S.INSTALLED, five(finalizing_stage="Adding router ca"), S.FINALIZING),
        (S.INSTALLED, five(completion="failure"), S.ERROR),
        (S.INSTALLED, five(is_told=True, operators=[Operator(name="olm", status="failed")]), S.INSTALLED),
        (
            S.INSTALLED,
            five(completion="success", operators=[Operator(name="olm", status="failed")]),
            S.INSTALLED,
        ),
        (S.INSTALLED, five("installed", "installed error"), S.INSTALLED),
        (S.INSTALLING, five(finalizing_stage="Adding router ca"), S.FINALIZING),
        (S.FINALIZING, five(finalizing_stage="Done"), S.INSTALLED),
        (S.FINALIZING, five(BUSY, completion="success"), S.INSTALLED),
        (S.FINALIZING, five(completion="failure"), S.ERROR),
        (S.INSTALLING, five("error " + BUSY, BUSY), S.ERROR),
        (S.INSTALLING, five("installed", "error " + BUSY), S.ERROR),
        (S.INSTALLING, five(BUSY, f"{BUSY} installing-pending-user-action"), S.INSTALLING),
        (S.INSTALLING, five("cancelled", "cancelled"), S.CANCELLED),
        (S.CANCELLED, five("resetting", "cancelled"), S.INSUFFICIENT),
        (S.CANCELLED, five("discovering", "known"), S.INSUFFICIENT),
        (S.ERROR, five("known", "known"), S.READY),
        (S.INSTALLED, five("installed", "error"), S.INSTALLED),
        (S.READY, five("disconnected", "known", is_told=True), S.READY),
    ],
)
def test_cluster_state_follows_hosts_and_controller(
    before: ClusterState, snapshot: ClusterSnapshot, after: ClusterState
) -> None:
    assert next_state(before, snapshot) == after
    assert next_state(after, snapshot) == after


def test_joined_nodes_are_installed_or_reported() -> None:
    stages = [of(BUSY, "m2", stage="Joined"), of(BUSY, "m3", stage="Done"), of(BUSY, "w1", stage="Rebooting")]

    assert ClusterSnapshot(hosts=[of("installed"), *stages]).joined == 3


@pytest.mark.parametrize(
    ("snapshot", "is_success"),
    [
        (five(), True),
        (five("installed installed " + BUSY), False),
        (five(workers="installed " + BUSY), False),
        (ClusterSnapshot(hosts=[of("installed", f"m{n}") for n in range(3)]), True),
        (ClusterSnapshot(hosts=[of("installed", f"m{n}") for n in range(3)], workers=2), False),
        (ClusterSnapshot(hosts=[*five().hosts, of(BUSY, "w3", "worker")]), True),
        (ClusterSnapshot(hosts=[*five().hosts, of("error", "w3", "worker")]), True),
        (
            ClusterSnapshot(
                hosts=[*(of("installed", f"m{n}") for n in range(3)), of("installed", "w1", "worker")]
            ),
            True,
        ),
        (ClusterSnapshot(hosts=[of("installed")]), False),
        (ClusterSnapshot(hosts=[replace(of("installed"), is_single_node=True)]), True),
        (ClusterSnapshot(hosts=[of("installed")], control_planes=1), True),
        (
            ClusterSnapshot(hosts=[of("installed"), of("installed", "m2"), of("installed", "a1", "arbiter")]),
            True,
        ),
        (ClusterSnapshot(), False),
    ],
)
def test_success_needs_control_planes_and_two_workers(snapshot: ClusterSnapshot, is_success: bool) -> None:
    assert is_successful(snapshot) is is_success


REPORTS: list[dict[str, object]] = [
    {},
    {"is_told": True},
    {"finalizing_stage": "Adding router ca"},
    {"operators": [Operator(name="console", status="progressing")]},
    {"completion": "success", "operators": [Operator(name="olm", status="failed")]},
    {"completion": "failure"},
]


@pytest.mark.parametrize("reported", REPORTS, ids=str)
def test_cluster_transitions_have_no_cycle(reported: dict[str, object]) -> None:
    for before, masters, workers in product(ClusterState, HostState, HostState):
        snapshot = five(masters, workers, **reported)
        after = next_state(before, snapshot)
        row = next((row for row in CLUSTER_MOVES if after in row.sources and row.when(snapshot)), None)
        assert row is None or row.to is after, (before, masters, workers)


def test_reason_counts_installed_and_names_trouble() -> None:
    snapshot = five("installed " + BUSY, f"{BUSY} installing-pending-user-action")

    assert explain_state(S.INSTALLING, snapshot) == (
        "1 of 3 control-plane hosts and 0 of 2 workers are installed. w2: installing-pending-user-action."
    )
    assert explain_state(S.INSUFFICIENT, ClusterSnapshot(hosts=[of("known")])) == (
        "1 of 3 control-plane hosts are discovered."
    )
    assert explain_state(S.INSUFFICIENT, five("known disconnected known", "known")) == (
        "4 of 5 hosts are known and sufficient. m2: disconnected."
    )


def test_service_events_set_cluster_and_operator_states() -> None:
    def event(name: str, message: str) -> Event:
        return Event(host_id="", cluster_id="c", severity="info", time=START, name=name, message=message)

    updated = "Updated status of the cluster to {}"
    assert parse_cluster_state(event("cluster_status_updated", updated.format("finalizing"))) == S.FINALIZING
    assert (
        parse_cluster_state(event("cluster_status_updated", updated.format("installing-pending-user-action")))
        == S.INSTALLING
    )
    assert parse_cluster_state(event("cluster_status_updated", updated.format("on-fire"))) is None
    assert (
        parse_cluster_state(event("cluster_installation_canceled", "Canceled cluster installation"))
        == S.CANCELLED
    )
    assert parse_cluster_state(event("my_event", "m")) is None
    event_text = "Operator console status: failed message: degraded"
    assert parse_operator_event(event("cluster_operator_status", event_text)) == Operator(
        name="console", status="failed", info="degraded"
    )
    assert parse_operator_event(event("my_event", event_text)) is None
