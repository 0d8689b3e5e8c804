"""The assisted-service's states of a host, the transitions between them, and its stages with time limits.

Names and transitions follow the service's API, meanings its documentation. The stages are those of its
releases of 2026, and the two of the enhancement "boot-status-reporter": booted with local ignition, and with
control plane ignition. The limits are those of its internal/host/config.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class HostState(StrEnum):
    """The states of a host in the assisted-service that a collector shows."""

    DISCOVERING = "discovering"
    PENDING_FOR_INPUT = "pending-for-input"
    KNOWN = "known"
    INSUFFICIENT = "insufficient"
    DISCONNECTED = "disconnected"
    DISABLED = "disabled"
    PREPARING = "preparing-for-installation"
    PREPARED = "preparing-successful"
    PREPARING_FAILED = "preparing-failed"
    INSTALLING = "installing"
    IN_PROGRESS = "installing-in-progress"
    PENDING_ACTION = "installing-pending-user-action"
    RESETTING = "resetting"
    RESETTING_PENDING_ACTION = "resetting-pending-user-action"
    INSTALLED = "installed"
    ADDED = "added-to-existing-cluster"
    ERROR = "error"
    CANCELLED = "cancelled"


class Signal(StrEnum):
    """A signal from or about a host that can change its state."""

    REGISTERED = "its agent registers"
    SILENT = "its agent has not called for three minutes"
    STAGE = "a stage is reported"
    DONE = "the stage Done is reported"
    FAILED = "the stage Failed is reported"
    REBOOT_IS_LATE = "nothing is reported after Rebooting"
    CANCELLED = "event host_installation_cancelled"
    RESET = "event host_installation_reset"
    RESET_WAITS = "event user_required_complete_installation_reset"


class Position(StrEnum):
    """The position of a host relative to its reboot into its disk."""

    BEFORE = "before its reboot"
    REBOOTING = "rebooting"
    AFTER = "after its reboot"


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A row of the transition table."""

    signal: Signal
    sources: frozenset[HostState]
    to: HostState
    at: frozenset[Position] = frozenset(Position)
    info: str = ""
    """The reason, in the service's words; empty if the report gives the reason."""


MEANINGS: Final = {
    HostState.DISCOVERING: "The host agent sends hardware and connectivity information.",
    HostState.PENDING_FOR_INPUT: "The user should input some configuration information.",
    HostState.KNOWN: "Hardware and link information is known and sufficient.",
    HostState.INSUFFICIENT: "One or more host validations is failing.",
    HostState.DISCONNECTED: "The host has not sent a ping to the service for some time (3 minutes).",
    HostState.DISABLED: "The user has selected to disable this host.",
    HostState.PREPARING: "The service creates the ignition configs.",
    HostState.PREPARED: "The preparation for the installation was successful.",
    HostState.PREPARING_FAILED: "The preparation for the installation failed.",
    HostState.INSTALLING: "The service is ready to begin the installation.",
    HostState.IN_PROGRESS: "The host is currently installing.",
    HostState.PENDING_ACTION: "The service expected the host to boot from disk: fix the boot order.",
    HostState.RESETTING: "The user requested to reset the installation; the service resets.",
    HostState.RESETTING_PENDING_ACTION: "To reset the installation, boot the host from the live image.",
    HostState.INSTALLED: "The installation has successfully completed on the host.",
    HostState.ADDED: "The host was added to an installed cluster.",
    HostState.ERROR: "The installation has failed.",
    HostState.CANCELLED: "The installation was cancelled.",
}

DISCOVERY: Final = frozenset(
    {HostState.DISCOVERING, HostState.PENDING_FOR_INPUT, HostState.KNOWN, HostState.INSUFFICIENT}
)
"""The states before the installation, while the agent calls."""
PREPARATION: Final = frozenset({HostState.PREPARING, HostState.PREPARED, HostState.PREPARING_FAILED})
INSTALLATION: Final = frozenset({HostState.INSTALLING, HostState.IN_PROGRESS, HostState.PENDING_ACTION})
RESET: Final = frozenset({HostState.RESETTING, HostState.RESETTING_PENDING_ACTION})
INSTALLED: Final = frozenset({HostState.INSTALLED, HostState.ADDED})
FAILED: Final = frozenset({HostState.ERROR, HostState.CANCELLED})
WAITING: Final = frozenset(
    {HostState.DISCONNECTED, HostState.PENDING_ACTION, HostState.RESETTING_PENDING_ACTION}
)
"""States that need user action."""

_BEGUN: Final = frozenset({HostState.INSTALLING, HostState.IN_PROGRESS})
_BEFORE: Final = frozenset({Position.BEFORE})
_REBOOTING: Final = frozenset({Position.REBOOTING})
_BOOTED: Final = frozenset({Position.REBOOTING, Position.AFTER})
MOVES: Final = (
    Move(
        signal=Signal.REGISTERED,
        sources=DISCOVERY | PREPARATION | RESET | {HostState.DISCONNECTED},
        to=HostState.DISCOVERING,
    ),
    Move(
        signal=Signal.REGISTERED,
        sources=frozenset({HostState.IN_PROGRESS, HostState.PENDING_ACTION}),
        to=HostState.PENDING_ACTION,
        at=_REBOOTING,
        info="Expected the host to boot from disk, but it booted the installation image - please reboot and "
        "fix boot order to boot from disk",
    ),
    Move(
        signal=Signal.REGISTERED,
        sources=_BEGUN,
        to=HostState.ERROR,
        at=_BEFORE,
        info="The host unexpectedly restarted during the installation",
    ),
    Move(
        signal=Signal.SILENT,
        sources=DISCOVERY | {HostState.PREPARING, HostState.PREPARED},
        to=HostState.DISCONNECTED,
        info="The host has not called for three minutes; fix or disable it to continue the installation",
    ),
    Move(
        signal=Signal.SILENT,
        sources=_BEGUN,
        to=HostState.ERROR,
        at=_BEFORE,
        info="Host failed to install due to timeout while connecting to host",
    ),
    Move(
        signal=Signal.REBOOT_IS_LATE,
        sources=frozenset({HostState.IN_PROGRESS}),
        to=HostState.PENDING_ACTION,
        at=_REBOOTING,
        info="Host timed out when pulling the configuration files. Verify in the host console that the host "
        "boots from the OpenShift installation disk",
    ),
    Move(signal=Signal.STAGE, sources=INSTALLATION, to=HostState.IN_PROGRESS),
    Move(signal=Signal.DONE, sources=INSTALLATION, to=HostState.INSTALLED),
    Move(signal=Signal.FAILED, sources=INSTALLATION, to=HostState.ERROR),
    Move(
        signal=Signal.CANCELLED,
        sources=PREPARATION | INSTALLATION | {HostState.ERROR},
        to=HostState.CANCELLED,
        info="Installation was cancelled by user",
    ),
    Move(
        signal=Signal.RESET,
        sources=frozenset(HostState) - DISCOVERY - RESET - {HostState.DISABLED},
        to=HostState.RESETTING,
        at=_BEFORE,
        info="Installation was reset by user",
    ),
    Move(
        signal=Signal.RESET,
        sources=frozenset(HostState) - DISCOVERY - RESET - {HostState.DISABLED},
        to=HostState.RESETTING_PENDING_ACTION,
        at=_BOOTED,
        info="Reset the host by booting it from the live image",
    ),
    Move(
        signal=Signal.RESET_WAITS,
        sources=frozenset(HostState) - DISCOVERY - {HostState.DISABLED},
        to=HostState.RESETTING_PENDING_ACTION,
        info="Reset the host by booting it from the live image",
    ),
)
"""The first matching row is used. Without a matching row, the state does not change."""


def find_move(state: str, signal: Signal, position: Position) -> Move | None:
    """Return the transition that a signal causes in a state, or None."""
    rows = (row for row in MOVES if row.signal is signal and position in row.at)
    return next((row for row in rows if state in row.sources), None)


def describe_state(state: str) -> str:
    """Return the meaning of a state in one sentence, or empty for an unknown state."""
    return MEANINGS.get(HostState(state), "") if state in set(HostState) else ""


FAILED_STAGE: Final = "Failed"
DONE: Final = "Done"
REBOOTING: Final = "Rebooting"
JOINED: Final = "Joined"
LOCAL_IGNITION: Final = "Booted with local ignition"
CONTROL_PLANE_IGNITION: Final = "Booted with control plane ignition"

_STARTING: Final = "Starting installation"
_INSTALLING: Final = "Installing"
_WRITING: Final = "Writing image to disk"
_COPYING: Final = "Copying registry data to disk"
_FOR_CONTROL_PLANE: Final = "Waiting for control plane"
_FOR_BOOTKUBE: Final = "Waiting for bootkube"
_FOR_CONTROLLER: Final = "Waiting for controller"
_FOR_IGNITION: Final = "Waiting for ignition"
_CONFIGURING: Final = "Configuring"

_TO_DISK: Final = (_STARTING, _INSTALLING, _WRITING, _COPYING)
_MASTER: Final = (*_TO_DISK, REBOOTING, LOCAL_IGNITION, _CONFIGURING, CONTROL_PLANE_IGNITION, JOINED, DONE)
_WORKER: Final = (
    *(_STARTING, _INSTALLING, _WRITING, _FOR_CONTROL_PLANE, REBOOTING, LOCAL_IGNITION),
    *(_FOR_IGNITION, _CONFIGURING, CONTROL_PLANE_IGNITION, JOINED, DONE),
)
_BOOTSTRAP: Final = (
    *(*_TO_DISK, _FOR_CONTROL_PLANE, _FOR_BOOTKUBE, _FOR_CONTROLLER, REBOOTING, LOCAL_IGNITION),
    *(_CONFIGURING, CONTROL_PLANE_IGNITION, JOINED, DONE),
)
_SINGLE_NODE: Final = (
    *(_STARTING, _INSTALLING, _FOR_BOOTKUBE, _WRITING, _COPYING, REBOOTING),
    *(LOCAL_IGNITION, CONTROL_PLANE_IGNITION, JOINED, DONE),
)
_MINUTE: Final = 60.0
_USUAL: Final = 60 * _MINUTE
_LIMITS: Final = {
    _STARTING: 30 * _MINUTE,
    _WRITING: 30 * _MINUTE,
    _COPYING: 90 * _MINUTE,
    REBOOTING: 40 * _MINUTE,
    _FOR_IGNITION: 1440 * _MINUTE,
}
_REBOOTING_SINGLE_NODE: Final = 80 * _MINUTE

ALL_STAGES: Final = frozenset({*_MASTER, *_WORKER, *_BOOTSTRAP, *_SINGLE_NODE, FAILED_STAGE})
"""Every stage that may be reported."""


def list_stages(role: str, *, is_bootstrap: bool = False, is_single_node: bool = False) -> tuple[str, ...]:
    """Return the stages of a role in order; empty while no role is assigned."""
    if is_single_node:
        return _SINGLE_NODE
    if is_bootstrap:
        return _BOOTSTRAP
    return {"worker": _WORKER, "master": _MASTER, "arbiter": _MASTER}.get(role, ())


def find_percentage(stage: str, stages: tuple[str, ...]) -> int:
    """Return the progress in per cent of a host in a stage; 0 if the role does not have the stage."""
    return (stages.index(stage) + 1) * 100 // len(stages) if stage in stages else 0


def find_limit(stage: str, *, is_single_node: bool = False) -> float:
    """Return the seconds since the last report of a stage after which the host is late."""
    if stage == REBOOTING and is_single_node:
        return _REBOOTING_SINGLE_NODE
    return _LIMITS.get(stage, _USUAL)
