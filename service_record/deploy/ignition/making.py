"""An Ignition config of what is delivered to a host. Pure."""

import posixpath
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from service_record.deploy.contents import Item
from service_record.deploy.ignition import urls
from service_record.deploy.ignition.nodes import UNITS
from service_record.deploy.ignition.reading import Config
from service_record.deploy.ignition.units import is_unit_name

_PULLING_IN: Final = (".wants", ".requires")


@dataclass(frozen=True, slots=True)
class Remote:
    """A file that Ignition fetches when the host boots first."""

    path: str
    url: str
    hash: str
    mode: int = 0o755


def make(items: Iterable[Item], version: str, remotes: Iterable[Remote] = ()) -> Config:
    """The config of this version, always the same for the same items.

    Units go into its systemd section, enabled where the items have a link that pulls them in; everything
    else are files and links, which replace what a host may have at their paths.
    """
    ordered = sorted(items, key=lambda item: item.path)
    enabled = {posixpath.basename(item.path) for item in ordered if _pulls_in(item)}
    units = [item for item in ordered if _is_unit(item)]
    links = [_link(item) for item in ordered if item.target is not None and not _pulls_in(item)]
    files = [_file(item) for item in ordered if item.target is None and not _is_unit(item)]
    files += [_remote(remote) for remote in remotes]
    storage: dict[str, Any] = {"files": sorted(files, key=lambda file: str(file["path"]))}
    if links:
        storage["links"] = links
    config: Config = {"ignition": {"version": version}, "storage": storage}
    if units:
        config["systemd"] = {"units": [_unit(item, enabled) for item in units]}
    return config


def with_file(config: Config, item: Item) -> Config:
    """Return a config that was made here with one more file. Nothing is judged."""
    storage = config["storage"]
    return {**config, "storage": {**storage, "files": [*storage["files"], _file(item)]}}


def _is_unit(item: Item) -> bool:
    directory, name = posixpath.split(item.path)
    return item.target is None and directory == UNITS and is_unit_name(name)


def _pulls_in(item: Item) -> bool:
    """Whether it is the link that enabling a unit makes; Ignition has systemd make it."""
    directory = posixpath.dirname(item.path)
    return (
        item.target is not None
        and posixpath.dirname(directory) == UNITS
        and directory.endswith(_PULLING_IN)
        and posixpath.basename(item.path) == posixpath.basename(item.target)
    )


def _unit(item: Item, enabled: set[str]) -> dict[str, Any]:
    name = posixpath.basename(item.path)
    unit: dict[str, Any] = {"name": name, "contents": item.data.decode()}
    return unit | {"enabled": True} if name in enabled else unit


def _owner(item: Item) -> dict[str, Any]:
    return {"user": {"id": item.user}, "group": {"id": item.group}} if item.user or item.group else {}


def _link(item: Item) -> dict[str, Any]:
    return {"path": item.path, "target": item.target, "overwrite": True} | _owner(item)


def _file(item: Item) -> dict[str, Any]:
    contents = {"source": urls.data_url(urls.compressed(item.data)), "compression": "gzip"}
    return {"path": item.path, "mode": item.mode, "overwrite": True, "contents": contents} | _owner(item)


def _remote(remote: Remote) -> dict[str, Any]:
    contents = {"source": remote.url, "verification": {"hash": remote.hash}}
    return {"path": remote.path, "mode": remote.mode, "overwrite": True, "contents": contents}
