"""Determine the state of a cluster from the reports of its hosts and its controller. Pure.

The states and their meanings are those of the assisted-service. Its events may also set a state directly; see
`ClusterSnapshot.is_told`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from service_record.collector.assisted import host_states
from service_record.collector.assisted.host_states import DONE, JOINED, HostState

CONTROL_PLANE: Final = frozenset({"master", "arbiter"})
_DEFAULT_CONTROL_PLANES: Final = 3
_REQUIRED_WORKERS: Final = 2
_MAX_NAMED_HOSTS: Final = 5
"""Maximum number of host names in each sentence of a reason."""


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
"""States before an installation begins."""
_IN_PROGRESS: Final = frozenset({ClusterState.PREPARING, ClusterState.INSTALLING, ClusterState.FINALIZING})
_FINISHED: Final = frozenset({ClusterState.INSTALLED, ClusterState.ERROR, ClusterState.CANCELLED})

STATES_BY_WORD: Final = {state.value: state for state in ClusterState} | {
    "installing-pending-user-action": ClusterState.INSTALLING,
    "adding-hosts": ClusterState.INSTALLED,
}
"""Status in an event of the assisted-service -> state. Two of its statuses are not states here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterHost:
    """The fields of a host that the state of its cluster depends on."""

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
        """True if the host's node has joined the cluster."""
        return self.is_installed or self.stage in {JOINED, DONE}


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """The status of a cluster operator, as the controller or an event reported it."""

    name: str
    status: str = ""
    version: str = ""
    info: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSnapshot:
    """The known state of a cluster at one moment."""

    hosts: Sequence[ClusterHost] = ()
    control_planes: int | None = None
    """The number of control-plane hosts in the cluster's definition; None if it has no such number."""
    workers: int | None = None
    """The number of workers in the cluster's definition; None if it has no such number."""
    operators: Sequence[Operator] = ()
    finalizing_stage: str = ""
    completion: str = ""
    """The result that the controller reported: `success`, `failure`, or empty if it has not finished."""
    is_told: bool = False
    """True if an event of the assisted-service set the current state.

    Hosts and the controller then change it neither to a state before the installation, nor from `installed`
    back to `finalizing`.
    """

    @property
    def active(self) -> tuple[ClusterHost, ...]:
        """The hosts that take part in the installation: all except disabled hosts.

        The assisted-service's documentation says about `disabled`: "Hosts in this state will not participate
        in the installation."
        """
        return tuple(host for host in self.hosts if host.status != HostState.DISABLED)

    @property
    def needed_control_planes(self) -> int:
        """The number of control-plane hosts to install.

        Without a definition: all known control-plane hosts, but at least three, or one on a single node.
        """
        if self.control_planes is not None:
            return self.control_planes
        control_planes = sum(host.is_control_plane for host in self.active)
        is_single = any(host.is_single_node for host in self.active)
        return max(control_planes, 1 if is_single else _DEFAULT_CONTROL_PLANES)

    @property
    def defined_workers(self) -> int:
        """The number of workers in the definition, or the number of known workers without one."""
        if self.workers is not None:
            return self.workers
        return sum(host.role == "worker" for host in self.active)

    @property
    def needed_workers(self) -> int:
        """The number of workers that must be installed: two, or fewer if fewer are defined."""
        return min(self.defined_workers, _REQUIRED_WORKERS)

    @property
    def installed_control_planes(self) -> int:
        return sum(host.is_control_plane and host.is_installed for host in self.active)

    @property
    def installed_workers(self) -> int:
        return sum(host.role == "worker" and host.is_installed for host in self.active)

    @property
    def joined(self) -> int:
        """The number of hosts that have joined the cluster."""
        return sum(host.has_joined for host in self.active)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMove:
    """A transition: a cluster in one of the states `sources` changes to `to` if `when` returns True."""

    sources: frozenset[ClusterState]
    to: ClusterState
    when: Callable[[ClusterSnapshot], bool]


def is_successful(snapshot: ClusterSnapshot) -> bool:
    """Return True if the installation is successful. The rule is in the assisted-service's documentation:

    "The installation will be marked successful if all control plane nodes were deployed successfully, and if
    at least 2 worker nodes were deployed successfully (in case the cluster definition specified worker
    nodes)."
    """
    return (
        bool(snapshot.active)
        and snapshot.installed_control_planes >= snapshot.needed_control_planes
        and snapshot.installed_workers >= snapshot.needed_workers
    )


def _all_in_discovery(snapshot: ClusterSnapshot) -> bool:
    early = host_states.DISCOVERY | {HostState.DISCONNECTED}
    return bool(snapshot.active) and all(host.status in early for host in snapshot.active)


def _is_reset(snapshot: ClusterSnapshot) -> bool:
    """Return True if a host is being reset, or all hosts are back in discovery."""
    return any(host.status in host_states.RESET for host in snapshot.active) or _all_in_discovery(snapshot)


def _needs_input(snapshot: ClusterSnapshot) -> bool:
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


def _is_insufficient(snapshot: ClusterSnapshot) -> bool:
    return not snapshot.is_told and not _needs_input(snapshot) and not _is_ready(snapshot)


def _is_preparing(snapshot: ClusterSnapshot) -> bool:
    return any(host.status in host_states.PREPARATION for host in snapshot.active) and not _is_reset(snapshot)


def _has_begun(snapshot: ClusterSnapshot) -> bool:
    begun = host_states.INSTALLATION | host_states.INSTALLED | host_states.FAILED
    return any(host.status in begun for host in snapshot.active) and not _is_reset(snapshot)


def _is_cancelled(snapshot: ClusterSnapshot) -> bool:
    return any(host.status == HostState.CANCELLED for host in snapshot.active)


def _cannot_succeed(snapshot: ClusterSnapshot) -> bool:
    """Return True if the controller reported a failure, or too few hosts are left after failures."""
    if snapshot.completion == "failure":
        return True
    failed = [host for host in snapshot.active if host.status == HostState.ERROR]
    remaining = snapshot.defined_workers - sum(host.role == "worker" for host in failed)
    return any(host.is_control_plane for host in failed) or remaining < snapshot.needed_workers


def _is_formed(snapshot: ClusterSnapshot) -> bool:
    """Return True if enough hosts are installed, or the controller reported finalizing or success."""
    return is_successful(snapshot) or bool(snapshot.finalizing_stage) or snapshot.completion == "success"


def _is_complete(snapshot: ClusterSnapshot) -> bool:
    """Return True if the installation is complete.

    The result that the controller reported decides. Without one, enough hosts must be installed and the
    controller must have no unfinished work.
    """
    if snapshot.completion:
        return snapshot.completion == "success"
    return is_successful(snapshot) and not _has_unfinished_work(snapshot)


def _has_unfinished_work(snapshot: ClusterSnapshot) -> bool:
    """Return True if the controller's latest finalizing stage is not the last, or an operator is unavailable.

    Returns False if the controller has reported neither.
    """
    has_stage = snapshot.finalizing_stage not in {"", DONE}
    return has_stage or any(each.status != "available" for each in snapshot.operators)


def _is_finalizing_again(snapshot: ClusterSnapshot) -> bool:
    """Return True if an installed cluster is finalizing again.

    It counted as installed by its hosts alone, and then the controller's first reports arrived.
    """
    if snapshot.is_told:
        return False
    return snapshot.completion == "failure" or (not snapshot.completion and _has_unfinished_work(snapshot))


CLUSTER_MOVES: Final = (
    ClusterMove(sources=_IN_PROGRESS, to=ClusterState.CANCELLED, when=_is_cancelled),
    ClusterMove(
        sources=frozenset({ClusterState.INSTALLING, ClusterState.FINALIZING}),
        to=ClusterState.ERROR,
        when=_cannot_succeed,
    ),
    ClusterMove(sources=frozenset({ClusterState.FINALIZING}), to=ClusterState.INSTALLED, when=_is_complete),
    ClusterMove(
        sources=frozenset({ClusterState.INSTALLED}), to=ClusterState.FINALIZING, when=_is_finalizing_again
    ),
    ClusterMove(sources=frozenset({ClusterState.INSTALLING}), to=ClusterState.FINALIZING, when=_is_formed),
    ClusterMove(sources=BEFORE | {ClusterState.PREPARING}, to=ClusterState.INSTALLING, when=_has_begun),
    ClusterMove(sources=BEFORE, to=ClusterState.PREPARING, when=_is_preparing),
    ClusterMove(
        sources=_IN_PROGRESS | _FINISHED,
        to=ClusterState.INSUFFICIENT,
        when=lambda snapshot: not snapshot.is_told and _is_reset(snapshot),
    ),
    ClusterMove(sources=BEFORE, to=ClusterState.PENDING, when=_needs_input),
    ClusterMove(sources=BEFORE, to=ClusterState.READY, when=_is_ready),
    ClusterMove(sources=BEFORE, to=ClusterState.INSUFFICIENT, when=_is_insufficient),
)
"""The state changes by the first matching row. This is repeated until no row changes the state."""


def next_state(state: ClusterState, snapshot: ClusterSnapshot) -> ClusterState:
    """Return the state of a cluster after this snapshot; it may change several times."""
    for _ in CLUSTER_MOVES:  # a limit, in case that two rows undo each other
        rows = (row for row in CLUSTER_MOVES if state in row.sources and row.when(snapshot))
        row = next(rows, None)
        if row is None or row.to is state:
            return state
        state = row.to
    return state


def explain_state(state: ClusterState, snapshot: ClusterSnapshot) -> str:
    """Return sentences for users: how many hosts are ready or installed, and which hosts have problems."""
    reason = _describe_missing_hosts(snapshot) if state in BEFORE else _describe_installed_hosts(snapshot)
    return " ".join(
        [
            *(["The assisted-service says so."] if snapshot.is_told else []),
            reason,
            *_describe_problems(snapshot),
        ]
    )


def _describe_missing_hosts(snapshot: ClusterSnapshot) -> str:
    """Return a sentence on the hosts that are missing before the installation."""
    ready = sum(host.status == HostState.KNOWN for host in snapshot.active)
    control = sum(host.is_control_plane for host in snapshot.active)
    if control < snapshot.needed_control_planes:
        return f"{control} of {snapshot.needed_control_planes} control-plane hosts are discovered."
    return f"{ready} of {len(snapshot.active)} hosts are known and sufficient."


def _describe_installed_hosts(snapshot: ClusterSnapshot) -> str:
    """Return a sentence on the number of installed hosts."""
    control = f"{snapshot.installed_control_planes} of {snapshot.needed_control_planes} control-plane hosts"
    if not snapshot.defined_workers:
        return f"{control} are installed."
    return f"{control} and {snapshot.installed_workers} of {snapshot.defined_workers} workers are installed."


def _describe_problems(snapshot: ClusterSnapshot) -> list[str]:
    """Return a sentence for each state that needs an action, with the names of the hosts in it."""
    sentences = []
    bad = {*host_states.WAITING, *host_states.FAILED, HostState.INSUFFICIENT, HostState.PREPARING_FAILED}
    for state in sorted(bad):
        names = [host.name for host in snapshot.active if host.status == state]
        if names:
            more = f" and {len(names) - _MAX_NAMED_HOSTS} more" if len(names) > _MAX_NAMED_HOSTS else ""
            sentences.append(f"{', '.join(names[:_MAX_NAMED_HOSTS])}{more}: {state}.")
    return sentences
