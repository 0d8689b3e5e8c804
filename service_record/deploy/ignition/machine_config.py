"""A MachineConfig: what OpenShift's Machine Config Operator has the hosts of a role made with. Pure."""

from collections.abc import Iterator
from typing import Any, Final

from service_record.deploy.ignition.fault import BadConfigError, Fault, quoted
from service_record.deploy.ignition.nodes import KINDS
from service_record.deploy.ignition.places import at, items
from service_record.deploy.ignition.reading import Config

POOLS: Final = {"master": "master", "worker": "worker", "single-node": "master"}
"""Role -> the pool whose hosts have it. The bootstrap host belongs to none."""
LABEL: Final = "machineconfiguration.openshift.io/role"
MOST: Final = 1 << 20
"""Bytes of a MachineConfig. etcd takes 1.5 MiB at a time, and the operator makes one of all of a pool."""
_PLAIN: Final = 0o777
_OF_A_USER: Final = ("name", "passwordHash", "sshAuthorizedKeys")


def machine_config(config: Config, role: str) -> dict[str, Any]:
    """The object; BadConfigError where the operator would not take the config."""
    faults = tuple(faults_of_machine_config(config))
    if faults:
        raise BadConfigError(faults)
    arguments = at(config, "kernelArguments.shouldExist")
    kernel = {"kernelArguments": arguments} if arguments else {}
    inner = {name: value for name, value in config.items() if name != "kernelArguments"}
    return {
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "MachineConfig",
        "metadata": {"labels": {LABEL: POOLS[role]}, "name": f"99-{POOLS[role]}-service-record"},
        "spec": {"config": inner, **kernel},
    }


def faults_of_machine_config(config: Config) -> Iterator[Fault]:
    """What the operator has no support for, beyond what Ignition refuses."""
    for where, file in items(config, "storage.files"):
        source = (file.get("contents") or {}).get("source") or "data:,"
        if not source.lower().startswith("data:"):
            yield Fault(f"{where}.contents.source", "is fetched; a MachineConfig has its contents in itself")
        if file.get("append"):
            yield Fault(f"{where}.append", "is nothing that a MachineConfig can have")
        if (file.get("mode") or 0) > _PLAIN:
            yield Fault(f"{where}.mode", f"{file['mode']} has special bits; a MachineConfig has none")
    for kind in KINDS[1:]:
        if at(config, f"storage.{kind}"):
            yield Fault(f"storage.{kind}", "are nothing that a MachineConfig can have")
    yield from _faults_of_people(config)
    for place in ("ignition.config.merge", "ignition.config.replace", "kernelArguments.shouldNotExist"):
        if at(config, place):
            yield Fault(place, "is nothing that a MachineConfig can have")


def _faults_of_people(config: Config) -> Iterator[Fault]:
    if at(config, "passwd.groups"):
        yield Fault("passwd.groups", "are nothing that a MachineConfig can have")
    for where, user in items(config, "passwd.users"):
        if user["name"] != "core":
            yield Fault(f"{where}.name", f"{quoted(user['name'])}: a MachineConfig has no user but core")
        more = [name for name, value in user.items() if name not in _OF_A_USER and value is not None]
        if more:
            yield Fault(where, f"has {', '.join(more)}; of core a MachineConfig sets password and keys only")
