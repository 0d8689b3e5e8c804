"""The stages that a host goes through on its way into a cluster, and how long it may be in each. Pure.

Those of the assisted-service, as its releases of 2026 have them, and the two that the enhancement
"boot-status-reporter" adds: booted with local ignition, and with that of the control plane.
"""

from typing import Final

FAILED: Final = "Failed"
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

KNOWN: Final = frozenset({*_MASTER, *_WORKER, *_BOOTSTRAP, *_SINGLE_NODE, FAILED})
"""Every stage that may be reported."""


def stages_of(role: str, *, is_bootstrap: bool = False, is_single_node: bool = False) -> tuple[str, ...]:
    """Return the stages of a host of that role, in order; none while the role is yet to be assigned."""
    if is_single_node:
        return _SINGLE_NODE
    if is_bootstrap:
        return _BOOTSTRAP
    return {"worker": _WORKER, "master": _MASTER, "arbiter": _MASTER}.get(role, ())


def percentage_of(stage: str, stages: tuple[str, ...]) -> int:
    """How far a host is that has reached a stage, in per cent; 0 where that is none of its own."""
    return (stages.index(stage) + 1) * 100 // len(stages) if stage in stages else 0


def limit_of(stage: str, *, is_single_node: bool = False) -> float:
    """Seconds from the last news of a stage after which the host takes too long in it."""
    if stage == REBOOTING and is_single_node:
        return _REBOOTING_SINGLE_NODE
    return _LIMITS.get(stage, _USUAL)
