"""A Butane config and a MachineConfig, for people who keep theirs in those forms. Pure."""

import re
from collections.abc import Iterator
from typing import Any, Final

from service_record.deploy.ignition.checking import KINDS, content_of
from service_record.deploy.ignition.reading import BadConfigError, Config, ConfigFault, at, items, quoted

POOLS: Final = {"master": "master", "worker": "worker", "single-node": "master"}
"""Role -> the pool whose hosts have it. The bootstrap host belongs to none."""
LABEL: Final = "machineconfiguration.openshift.io/role"
MOST: Final = 1 << 20
"""Bytes of a MachineConfig. etcd takes 1.5 MiB at a time, and the operator makes one of all of a pool."""
_PLAIN: Final = 0o777
_OF_A_USER: Final = ("name", "passwordHash", "sshAuthorizedKeys")


def machine_config(config: Config, role: str) -> dict[str, Any]:
    """Return the object; BadConfigError if the operator would not take the config."""
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


def faults_of_machine_config(config: Config) -> Iterator[ConfigFault]:
    """Yield what the operator does not support, beyond what Ignition refuses."""
    for where, file in items(config, "storage.files"):
        source = (file.get("contents") or {}).get("source") or "data:,"
        if not source.lower().startswith("data:"):
            yield ConfigFault(
                f"{where}.contents.source", "is fetched; a MachineConfig has its contents in itself"
            )
        if file.get("append"):
            yield ConfigFault(f"{where}.append", "is nothing that a MachineConfig can have")
        if (file.get("mode") or 0) > _PLAIN:
            yield ConfigFault(f"{where}.mode", f"{file['mode']} has special bits; a MachineConfig has none")
    for kind in KINDS[1:]:
        if at(config, f"storage.{kind}"):
            yield ConfigFault(f"storage.{kind}", "are nothing that a MachineConfig can have")
    yield from _faults_of_people(config)
    for place in ("ignition.config.merge", "ignition.config.replace", "kernelArguments.shouldNotExist"):
        if at(config, place):
            yield ConfigFault(place, "is nothing that a MachineConfig can have")


def _faults_of_people(config: Config) -> Iterator[ConfigFault]:
    if at(config, "passwd.groups"):
        yield ConfigFault("passwd.groups", "are nothing that a MachineConfig can have")
    for where, user in items(config, "passwd.users"):
        if user["name"] != "core":
            yield ConfigFault(
                f"{where}.name", f"{quoted(user['name'])}: a MachineConfig has no user but core"
            )
        more = [name for name, value in user.items() if name not in _OF_A_USER and value is not None]
        if more:
            yield ConfigFault(
                where, f"has {', '.join(more)}; of core a MachineConfig sets password and keys only"
            )


VARIANTS: Final = {
    "fcos": {"3.1.0": "1.1.0", "3.2.0": "1.3.0", "3.3.0": "1.4.0", "3.4.0": "1.5.0", "3.5.0": "1.6.0"},
    "openshift": {"3.2.0": "4.13.0", "3.4.0": "4.14.0", "3.5.0": "4.19.0"},
}
"""Variant -> version of Ignition -> the Butane version that becomes it."""
_BREAK: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_LONGEST_INLINE: Final = 1 << 20


def butane(config: Config, role: str, variant: str) -> dict[str, Any]:
    """Return the document, with texts unchanged.

    Raises BadConfigError if this variant has no place for one.
    """
    version = VARIANTS[variant].get(config["ignition"]["version"])
    if version is None:
        versions = ", ".join(VARIANTS[variant])
        what = f"{config['ignition']['version']}: Butane makes {versions} of its variant {variant}"
        raise BadConfigError((ConfigFault("ignition.version", what),))
    head: dict[str, Any] = {"variant": variant, "version": version}
    if variant == "openshift":
        head["metadata"] = machine_config(config, role)["metadata"]
    body = {name: _snake(value) for name, value in config.items() if name != "ignition"}
    for file in body["storage"]["files"]:
        file["contents"] = _contents(file["contents"])
        if variant == "openshift":
            del file["overwrite"]  # which it always is there
    return head | body


def _contents(contents: dict[str, Any]) -> dict[str, Any]:
    """Return text as text, and everything else unchanged."""
    data = content_of(contents)
    if data is None or len(data) > _LONGEST_INLINE:
        return contents
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return contents
    return {"inline": text}


def _snake(value: Any) -> Any:
    """Return Butane's name for a field of Ignition."""
    if isinstance(value, dict):
        return {_BREAK.sub("_", name).lower(): _snake(inner) for name, inner in value.items()}
    return [_snake(inner) for inner in value] if isinstance(value, list) else value
