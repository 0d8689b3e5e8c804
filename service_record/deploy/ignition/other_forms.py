"""Convert an Ignition config to a Butane config or a MachineConfig. Pure."""

import re
from collections.abc import Iterator
from typing import Any, Final

from service_record.deploy.ignition.checking import KINDS, read_contents
from service_record.deploy.ignition.reading import BadConfigError, Config, ConfigFault, at, items, quoted

POOLS: Final = {"master": "master", "worker": "worker", "single-node": "master"}
"""Role -> machine config pool. The bootstrap host belongs to no pool."""
LABEL: Final = "machineconfiguration.openshift.io/role"
MAX_MACHINE_CONFIG_BYTES: Final = 1 << 20
"""etcd limits a request to 1.5 MiB, and the operator merges all MachineConfigs of a pool into one."""
_PERMISSIONS: Final = 0o777
_FIELDS_OF_CORE: Final = ("name", "passwordHash", "sshAuthorizedKeys")


def make_machine_config(config: Config, role: str) -> dict[str, Any]:
    """Return the MachineConfig. Raises BadConfigError if the operator does not support the config."""
    faults = tuple(check_machine_config(config))
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


def check_machine_config(config: Config) -> Iterator[ConfigFault]:
    """Yield the parts of a valid Ignition config that the operator does not support."""
    for where, file in items(config, "storage.files"):
        source = (file.get("contents") or {}).get("source") or "data:,"
        if not source.lower().startswith("data:"):
            yield ConfigFault(
                f"{where}.contents.source", "is fetched; a MachineConfig has its contents in itself"
            )
        if file.get("append"):
            yield ConfigFault(f"{where}.append", "is nothing that a MachineConfig can have")
        if (file.get("mode") or 0) > _PERMISSIONS:
            yield ConfigFault(f"{where}.mode", f"{file['mode']} has special bits; a MachineConfig has none")
    for kind in KINDS[1:]:
        if at(config, f"storage.{kind}"):
            yield ConfigFault(f"storage.{kind}", "are nothing that a MachineConfig can have")
    yield from _check_accounts(config)
    for place in ("ignition.config.merge", "ignition.config.replace", "kernelArguments.shouldNotExist"):
        if at(config, place):
            yield ConfigFault(place, "is nothing that a MachineConfig can have")


def _check_accounts(config: Config) -> Iterator[ConfigFault]:
    if at(config, "passwd.groups"):
        yield ConfigFault("passwd.groups", "are nothing that a MachineConfig can have")
    for where, user in items(config, "passwd.users"):
        if user["name"] != "core":
            yield ConfigFault(
                f"{where}.name", f"{quoted(user['name'])}: a MachineConfig has no user but core"
            )
        more = [name for name, value in user.items() if name not in _FIELDS_OF_CORE and value is not None]
        if more:
            yield ConfigFault(
                where, f"has {', '.join(more)}; of core a MachineConfig sets password and keys only"
            )


VARIANTS: Final = {
    "fcos": {"3.1.0": "1.1.0", "3.2.0": "1.3.0", "3.3.0": "1.4.0", "3.4.0": "1.5.0", "3.5.0": "1.6.0"},
    "openshift": {"3.2.0": "4.13.0", "3.4.0": "4.14.0", "3.5.0": "4.19.0"},
}
"""Variant -> version of Ignition -> version of Butane that makes it."""
_WORD_START: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_MAX_INLINE_BYTES: Final = 1 << 20


def make_butane(config: Config, role: str, variant: str) -> dict[str, Any]:
    """Return the Butane config. Texts are inline and uncompressed.

    Raises BadConfigError if the variant does not support the config.
    """
    version = VARIANTS[variant].get(config["ignition"]["version"])
    if version is None:
        versions = ", ".join(VARIANTS[variant])
        what = f"{config['ignition']['version']}: Butane makes {versions} of its variant {variant}"
        raise BadConfigError((ConfigFault("ignition.version", what),))
    head: dict[str, Any] = {"variant": variant, "version": version}
    if variant == "openshift":
        head["metadata"] = make_machine_config(config, role)["metadata"]
    body = {name: _rename_fields(value) for name, value in config.items() if name != "ignition"}
    for file in body["storage"]["files"]:
        file["contents"] = _inline_text(file["contents"])
        if variant == "openshift":
            del file["overwrite"]  # the variant always overwrites, and refuses the field
    return head | body


def _inline_text(contents: dict[str, Any]) -> dict[str, Any]:
    """Return contents of text as `inline`, and other contents unchanged."""
    data = read_contents(contents)
    if data is None or len(data) > _MAX_INLINE_BYTES:
        return contents
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return contents
    return {"inline": text}


def _rename_fields(value: Any) -> Any:
    """Return a value with the field names of Butane, in snake case."""
    if isinstance(value, dict):
        return {_WORD_START.sub("_", name).lower(): _rename_fields(inner) for name, inner in value.items()}
    return [_rename_fields(inner) for inner in value] if isinstance(value, list) else value
