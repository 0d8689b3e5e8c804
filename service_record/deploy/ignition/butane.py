"""A Butane config, for people who keep theirs in that form. Pure."""

import re
from typing import Any, Final

from service_record.deploy.ignition import machine_config, resources
from service_record.deploy.ignition.fault import BadConfigError, Fault
from service_record.deploy.ignition.reading import Config

VARIANTS: Final = {
    "fcos": {"3.1.0": "1.1.0", "3.2.0": "1.3.0", "3.3.0": "1.4.0", "3.4.0": "1.5.0", "3.5.0": "1.6.0"},
    "openshift": {"3.2.0": "4.13.0", "3.4.0": "4.14.0", "3.5.0": "4.19.0"},
}
"""Variant -> version of Ignition -> the Butane version that becomes it."""
_BREAK: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_LONGEST_INLINE: Final = 1 << 20


def butane(config: Config, role: str, variant: str) -> dict[str, Any]:
    """The document, texts in it as they are; BadConfigError where this variant has no place for one."""
    version = VARIANTS[variant].get(config["ignition"]["version"])
    if version is None:
        known = ", ".join(VARIANTS[variant])
        what = f"{config['ignition']['version']}: Butane makes {known} of its variant {variant}"
        raise BadConfigError((Fault("ignition.version", what),))
    head: dict[str, Any] = {"variant": variant, "version": version}
    if variant == "openshift":
        head["metadata"] = machine_config.machine_config(config, role)["metadata"]
    body = {name: _snake(value) for name, value in config.items() if name != "ignition"}
    for file in body["storage"]["files"]:
        file["contents"] = _contents(file["contents"])
        if variant == "openshift":
            del file["overwrite"]  # which it always is there
    return head | body


def _contents(contents: dict[str, Any]) -> dict[str, Any]:
    """Text as text, everything else as it is."""
    data = resources.content_of(contents)
    if data is None or len(data) > _LONGEST_INLINE:
        return contents
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return contents
    return {"inline": text}


def _snake(value: Any) -> Any:
    """Butane's names for the fields of Ignition."""
    if isinstance(value, dict):
        return {_BREAK.sub("_", name).lower(): _snake(inner) for name, inner in value.items()}
    return [_snake(inner) for inner in value] if isinstance(value, list) else value
