"""Adds our config to an assisted-service's ignition overrides, and removes it. Pure.

The earlier override is kept in the new one, in a marker file. So any machine can undo the change.
"""

import copy
import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

import msgspec

from service_record.deploy.assisted.service import Recipient
from service_record.deploy.delivered import Item, Option
from service_record.deploy.ignition.checking import (
    read_contents,
    require_assisted_service_version,
    require_valid,
)
from service_record.deploy.ignition.making import add_file
from service_record.deploy.ignition.merging import LISTS, merge
from service_record.deploy.ignition.reading import (
    DEFAULT_FOR_ASSISTED_SERVICE,
    BadConfigError,
    Config,
    ConfigFault,
    at,
    items,
    read_config,
)

MARKER: Final = "/etc/service-record/prepared.json"
"""The marker: a file with the earlier override, and a digest of each object of ours."""
SPEC: Final = DEFAULT_FOR_ASSISTED_SERVICE


@dataclass(frozen=True, slots=True)
class Override:
    """The new content of an override.

    After removal it equals the earlier override byte for byte, unless somebody has changed it since.
    """

    text: str
    kept: tuple[str, ...] = ()
    """Our objects that were not removed, because somebody has changed them."""


class _Marker(msgspec.Struct, frozen=True):
    form: Literal[1]
    earlier: str
    ours: dict[str, dict[str, str]]
    """List of the config, such as `storage.files` -> path or name -> digest."""


def add_to_override(text: str, ours: Config, replacing: Collection[str] = ()) -> str:
    """Return the override with our config; the same text if nothing would change.

    The result of an earlier call is replaced. Our files replace others whose paths are in `replacing`. Raises
    BadConfigError if the override is invalid or conflicts with ours.
    """
    earlier = remove_from_override(text).text
    base = _read(earlier)
    there = {node["path"] for _, node in items(base, "storage.files")}
    merged = merge(base, _add_marker(ours, earlier), [path for path in replacing if path in there])
    require_assisted_service_version(merged)
    return text if text.strip() and _read(text) == merged else _encode(merged)


def remove_from_override(text: str) -> Override:
    """Return the override without our objects. Raises BadConfigError if it is invalid."""
    config = _read(text)
    marker = _read_marker(config)
    if marker is None:
        return Override(text)
    names = {place: set(digests) for place, digests in marker.ours.items()}
    rest = _remove_objects(config, lambda place, name, each: _is_ours(marker, place, name, each))
    unremoved = tuple(name for place, name, _ in _objects(rest) if name in names.get(place, set()))
    earlier = _read(marker.earlier)
    others = _remove_objects(earlier, lambda place, name, _: name in names.get(place, set()))
    if _normalize(rest) == _normalize(others):
        return Override(marker.earlier)
    for place, name, each in _objects(earlier):
        if name in names.get(place, set()) and name not in unremoved:
            _append_object(rest, place, each)
    return Override(_encode(rest), unremoved)


def _read(text: str) -> Config:
    if not text.strip():
        return {"ignition": {"version": SPEC}}
    config = read_config(text.encode())
    require_valid(config)
    return config


def _add_marker(ours: Config, earlier: str) -> Config:
    """Return our config with the marker file."""
    digests: dict[str, dict[str, str]] = {}
    for place, name, each in _objects(ours):
        digests.setdefault(place, {})[name] = _digest(each)
    data = msgspec.json.encode(_Marker(1, earlier, digests), order="sorted")
    return add_file(ours, Item(MARKER, Option.REPORTER, data, 0o600))


def _read_marker(config: Config) -> _Marker | None:
    markers = [(where, node) for where, node in items(config, "storage.files") if node["path"] == MARKER]
    if not markers:
        return None
    where, node = markers[0]
    try:
        marker = msgspec.json.decode(read_contents(node.get("contents") or {}) or b"", type=_Marker)
        _read(marker.earlier)
    except (ValueError, msgspec.DecodeError):
        what = f"{MARKER} is damaged, or of another version; take what is ours out of the override by hand"
        raise BadConfigError((ConfigFault(where, what),)) from None
    return marker


def _is_ours(marker: _Marker, place: str, name: str, each: dict[str, Any]) -> bool:
    if (place, name) == ("storage.files", MARKER):
        return True
    return marker.ours.get(place, {}).get(name) == _digest(each)


def _objects(config: Config) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield the objects of a config: its list, its path or name, and the object."""
    for place, key in LISTS:
        yield from ((place, each[key], each) for _, each in items(config, place))


def _remove_objects(config: Config, is_dropped: Callable[[str, str, dict[str, Any]], bool]) -> Config:
    rest = copy.deepcopy(config)
    for place, key in LISTS:
        nodes = at(rest, place)
        if nodes:
            section, name = place.split(".")
            remaining = [each for each in nodes if not each or not is_dropped(place, each[key], each)]
            rest[section][name] = remaining
            if not remaining:
                del rest[section][name]
            if not rest[section]:
                del rest[section]
    return rest


def _append_object(config: Config, place: str, each: dict[str, Any]) -> None:
    section, name = place.split(".")
    config.setdefault(section, {}).setdefault(name, []).append(each)


def _normalize(config: Config) -> Config:
    """Return a config for a comparison: without version and empty parts, which merging may change."""
    ignition = {name: value for name, value in config["ignition"].items() if name != "version"}
    sections = {**config, "ignition": ignition}
    return {
        name: {key: inner for key, inner in value.items() if inner} if isinstance(value, dict) else value
        for name, value in sections.items()
        if value and (not isinstance(value, dict) or any(value.values()))
    }


def _digest(each: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(each, sort_keys=True).encode()).hexdigest()


def _encode(config: Config) -> str:
    return json.dumps(config, ensure_ascii=False, separators=(",", ":"))


class PlanError(Exception):
    """An override cannot be changed. The message is one line and names its recipient."""


@dataclass(frozen=True, slots=True)
class OverrideChange:
    """The planned content of one override."""

    recipient: Recipient
    text: str
    kept: tuple[str, ...] = ()
    """Our objects that stay, because somebody has changed them."""

    @property
    def is_needed(self) -> bool:
        return self.text != self.recipient.override

    @property
    def size(self) -> int:
        """Return the bytes of the planned content."""
        return len(self.text.encode())


def plan(
    recipients: Iterable[Recipient], change: Callable[[Recipient], Override]
) -> tuple[OverrideChange, ...]:
    """Return the change of each override. Raises PlanError, which names the recipient."""
    changes = []
    for recipient in recipients:
        try:
            after = change(recipient)
        except BadConfigError as error:
            raise PlanError(f"{recipient}: override: {error}") from None
        changes.append(OverrideChange(recipient, after.text, after.kept))
    return tuple(changes)
