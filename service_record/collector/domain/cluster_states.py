"""The states of a cluster, from what its hosts, its controller and the service's events report. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from service_record.collector.domain import host_states
from service_record.collector.domain.host_states import DONE, JOINED, HostState

CONTROL_PLANE: Final = frozenset({"master", "arbiter"})
_USUAL_CONTROL_PLANES: Final = 3
_ENOUGH_WORKERS: Final = 2
_MOST_NAMED: Final = 5
"""Hosts that a reason names."""


class ClusterState(StrEnum):
    """The states of a cluster in the assisted-service."""

    PENDING = "pending-for-input"
    INSUFFICIENT = "insufficient"
    READY = "ready"
    PREPARING = "preparing-for-installation"
    INSTALLING = "installing"
    FINALIZING = "finalizing"
    INSTALLED = "installed"
    ERROR = "error"
    CANCELLED = "cancelled"


BEFORE: Final = frozenset({ClusterState.PENDING, ClusterState.INSUFFICIENT, ClusterState.READY})
_AT_WORK: Final = frozenset({ClusterState.PREPARING, ClusterState.INSTALLING, ClusterState.FINALIZING})
_OVER: Final = frozenset({ClusterState.INSTALLED, ClusterState.ERROR, ClusterState.CANCELLED})

STATES_BY_WORD: Final = {state.value: state for state in ClusterState} | {
    "installing-pending-user-action": ClusterState.INSTALLING,
    "adding-hosts": ClusterState.INSTALLED,
}
"""Status in an event of the service -> the state that it is here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterHost:
    """A host of a cluster, as far as the cluster's state depends on it."""

    name: str
    role: str = "master"
    status: str = HostState.IN_PROGRESS.value
    stage: str = ""
    is_single_node: bool = False

    @property
    def is_control_plane(self) -> bool:
        return self.role in CONTROL_PLANE

    @property
    def is_installed(self) -> bool:
        return self.status in host_states.INSTALLED

    @property
    def has_joined(self) -> bool:
        """Return whether its node is in the cluster."""
        return self.is_installed or self.stage in {JOINED, DONE}


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """An operator of the cluster, as its controller reports it."""

    name: str
    status: str = ""
    version: str = ""
    info: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSnapshot:
    """The known state of a cluster at one moment."""

    hosts: Sequence[ClusterHost] = ()
    control_planes: int | None = None
    """The number of control-plane hosts in the cluster's definition; None if nobody reported it."""
    workers: int | None = None
    operators: Sequence[Operator] = ()
    finalizing_stage: str = ""
    completion: str = ""
    """`success` or `failure`, as the controller reports at the end."""
    is_told: bool = False
    """The service itself told the present state."""

    @property
    def active(self) -> tuple[ClusterHost, ...]:
        """Hosts that take part: "Hosts in this state [disabled] will not participate in the installation."""
        return tuple(host for host in self.hosts if host.status != HostState.DISABLED)

    @property
    def needed_control_planes(self) -> int:
        """Return the number of control-plane hosts to install: that of the definition, or all there are."""
        if self.control_planes is not None:
            return self.control_planes
        control_planes = sum(host.is_control_plane for host in self.active)
        is_single = any(host.is_single_node for host in self.active)
        return max(control_planes, 1 if is_single else _USUAL_CONTROL_PLANES)

    @property
    def defined_workers(self) -> int:
        """Return the number of workers in the definition; without one, of known workers."""
        if self.workers is not None:
            return self.workers
        return sum(host.role == "worker" for host in self.active)

    @property
    def needed_workers(self) -> int:
        """Return the number of workers to install: two, or one if only one is defined."""
        return min(self.defined_workers, _ENOUGH_WORKERS)

    @property
    def installed_control_planes(self) -> int:
        return sum(host.is_control_plane and host.is_installed for host in self.active)

    @property
    def installed_workers(self) -> int:
        return sum(host.role == "worker" and host.is_installed for host in self.active)

    @property
    def joined(self) -> int:
        """Return the nodes that have joined the cluster."""
        return sum(host.has_joined for host in self.active)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMove:
    """A row of the table: a cluster in one of these states moves on when the condition holds."""

    sources: frozenset[ClusterState]
    to: ClusterState
    when: Callable[[ClusterSnapshot], bool]


def is_successful(snapshot: ClusterSnapshot) -> bool:
    """Return whether the installation is successful, by the rule of the assisted-service's documentation.

    "The installation will be marked successful if all control plane nodes were deployed successfully, and if
    at least 2 worker nodes were deployed successfully (in case the cluster definition specified worker
    nodes)."
    """
    return (
        bool(snapshot.active)
        and snapshot.installed_control_planes >= snapshot.needed_control_planes
        and snapshot.installed_workers >= snapshot.needed_workers
    )


def _all_before(snapshot: ClusterSnapshot) -> bool:
    early = host_states.DISCOVERY | {HostState.DISCONNECTED}
    return bool(snapshot.active) and all(host.status in early for host in snapshot.active)


def _is_reset(snapshot: ClusterSnapshot) -> bool:
    return any(host.status in host_states.RESET for host in snapshot.active) or _all_before(snapshot)


def _wants_input(snapshot: ClusterSnapshot) -> bool:
    asks = any(host.status == HostState.PENDING_FOR_INPUT for host in snapshot.active)
    return not snapshot.is_told and (asks or not snapshot.active)


def _is_ready(snapshot: ClusterSnapshot) -> bool:
    control_planes = sum(host.is_control_plane for host in snapshot.active)
    all_known = all(host.status == HostState.KNOWN for host in snapshot.active)
    return (
        not snapshot.is_told
        and bool(snapshot.active)
        and all_known
        and control_planes >= snapshot.needed_control_planes
    )


def _lacks_something(snapshot: ClusterSnapshot) -> bool:
    return not snapshot.is_told and not _wants_input(snapshot) and not _is_ready(snapshot)


def _is_preparing(snapshot: ClusterSnapshot) -> bool:
    return any(host.status in host_states.PREPARATION for host in snapshot.active) and not _is_reset(snapshot)


def _has_begun(snapshot: ClusterSnapshot) -> bool:
    begun = host_states.INSTALLATION | host_states.INSTALLED | host_states.FAILED
    return any(host.status in begun for host in snapshot.active) and not _is_reset(snapshot)


def _is_cancelled(snapshot: ClusterSnapshot) -> bool:
    return any(host.status == HostState.CANCELLED for host in snapshot.active)


def _cannot_succeed(snapshot: ClusterSnapshot) -> bool:
    if snapshot.completion == "failure":
        return True
    failed = [host for host in snapshot.active if host.status == HostState.ERROR]
    remaining = snapshot.defined_workers - sum(host.role == "worker" for host in failed)
    return any(host.is_control_plane for host in failed) or remaining < snapshot.needed_workers


def _is_formed(snapshot: ClusterSnapshot) -> bool:
    """Return whether enough hosts are installed, or the controller has reported that stage."""
    return is_successful(snapshot) or bool(snapshot.finalizing_stage) or snapshot.completion == "success"


def _is_complete(snapshot: ClusterSnapshot) -> bool:
    """Return whether the controller reported completion, or all its operators are available; without one,
    the hosts decide.
    """
    if snapshot.completion:
        return snapshot.completion == "success"
    return is_successful(snapshot) and not _waits(snapshot)


def _waits(snapshot: ClusterSnapshot) -> bool:
    """Return whether the controller reports a stage before its last, or an operator that is not available."""
    has_stage = snapshot.finalizing_stage not in {"", DONE}
    return has_stage or any(each.status != "available" for each in snapshot.operators)


def _is_complete_no_more(snapshot: ClusterSnapshot) -> bool:
    """Return whether the cluster counts as installing again because its controller reported only now."""
    if snapshot.is_told:
        return False
    return snapshot.completion == "failure" or (not snapshot.completion and _waits(snapshot))


CLUSTER_MOVES: Final = (
    ClusterMove(sources=_AT_WORK, to=ClusterState.CANCELLED, when=_is_cancelled),
    ClusterMove(
        sources=frozenset({ClusterState.INSTALLING, ClusterState.FINALIZING}),
        to=ClusterState.ERROR,
        when=_cannot_succeed,
    ),
    ClusterMove(sources=frozenset({ClusterState.FINALIZING}), to=ClusterState.INSTALLED, when=_is_complete),
    ClusterMove(
        sources=frozenset({ClusterState.INSTALLED}), to=ClusterState.FINALIZING, when=_is_complete_no_more
    ),
    ClusterMove(sources=frozenset({ClusterState.INSTALLING}), to=ClusterState.FINALIZING, when=_is_formed),
    ClusterMove(sources=BEFORE | {ClusterState.PREPARING}, to=ClusterState.INSTALLING, when=_has_begun),
    ClusterMove(sources=BEFORE, to=ClusterState.PREPARING, when=_is_preparing),
    ClusterMove(
        sources=_AT_WORK | _OVER,
        to=ClusterState.INSUFFICIENT,
        when=lambda snapshot: not snapshot.is_told and _is_reset(snapshot),
    ),
    ClusterMove(sources=BEFORE, to=ClusterState.PENDING, when=_wants_input),
    ClusterMove(sources=BEFORE, to=ClusterState.READY, when=_is_ready),
    ClusterMove(sources=BEFORE, to=ClusterState.INSUFFICIENT, when=_lacks_something),
)
"""The first row that fits counts, again and again until none leads anywhere else."""


def next_state(state: ClusterState, snapshot: ClusterSnapshot) -> ClusterState:
    """Return the next state of a cluster after this snapshot."""
    for _ in CLUSTER_MOVES:
        rows = (row for row in CLUSTER_MOVES if state in row.sources and row.when(snapshot))
        row = next(rows, None)
        if row is None or row.to is state:
            return state
        state = row.to
    return state


def reason_of(state: ClusterState, snapshot: ClusterSnapshot) -> str:
    """Describe in one or two sentences what a cluster in a state waits for, and which hosts are in
    trouble.
    """
    reason = _lacking(snapshot) if state in BEFORE else _installed(snapshot)
    return " ".join(
        [*(["The assisted-service says so."] if snapshot.is_told else []), reason, *_troubles(snapshot)]
    )


def _lacking(snapshot: ClusterSnapshot) -> str:
    ready = sum(host.status == HostState.KNOWN for host in snapshot.active)
    control = sum(host.is_control_plane for host in snapshot.active)
    if control < snapshot.needed_control_planes:
        return f"{control} of {snapshot.needed_control_planes} control-plane hosts are discovered."
    return f"{ready} of {len(snapshot.active)} hosts are known and sufficient."


def _installed(snapshot: ClusterSnapshot) -> str:
    control = f"{snapshot.installed_control_planes} of {snapshot.needed_control_planes} control-plane hosts"
    if not snapshot.defined_workers:
        return f"{control} are installed."
    return f"{control} and {snapshot.installed_workers} of {snapshot.defined_workers} workers are installed."


def _troubles(snapshot: ClusterSnapshot) -> list[str]:
    troubles = []
    bad = {*host_states.WAITING, *host_states.FAILED, HostState.INSUFFICIENT, HostState.PREPARING_FAILED}
    for state in sorted(bad):
        names = [host.name for host in snapshot.active if host.status == state]
        if names:
            more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
            troubles.append(f"{', '.join(names[:_MOST_NAMED])}{more}: {state}.")
    return troubles
