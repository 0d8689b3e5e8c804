"""Make the Ignition config that installs the shim and the boot reporter on a host. Pure."""

import json
import posixpath
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from service_record.deploy.delivered import HOST, Item, Option, closing_drop_ins, contents
from service_record.deploy.ignition import urls
from service_record.deploy.ignition.checking import UNITS, is_unit_name
from service_record.deploy.ignition.reading import Config

_ENABLING_SUFFIXES: Final = (".wants", ".requires")


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file that Ignition fetches at the host's first boot."""

    path: str
    url: str
    hash: str


def make(items: Iterable[Item], version: str, remotes: Iterable[RemoteFile] = ()) -> Config:
    """Return a config in this version of Ignition's format. The same items always make the same config.

    Units go into its `systemd` section. A unit is enabled if an item links to it from a `.wants` or
    `.requires` directory. All other items become files and links, which replace those of the host.
    """
    ordered = sorted(items, key=lambda item: item.path)
    enabled = {posixpath.basename(item.path) for item in ordered if _enables_unit(item)}
    units = [item for item in ordered if _is_unit(item)]
    links = [
        {"path": item.path, "target": item.target, "overwrite": True}
        for item in ordered
        if item.target is not None and not _enables_unit(item)
    ]
    files = [_make_file(item) for item in ordered if item.target is None and not _is_unit(item)]
    files += [_make_remote_file(remote) for remote in remotes]
    storage: dict[str, Any] = {"files": sorted(files, key=lambda file: str(file["path"]))}
    if links:
        storage["links"] = links
    config: Config = {"ignition": {"version": version}, "storage": storage}
    if units:
        config["systemd"] = {"units": [_make_unit(item, enabled) for item in units]}
    return config


def add_file(config: Config, item: Item) -> Config:
    """Return a config of `make` with one more file. The result is not checked."""
    storage = config["storage"]
    return {**config, "storage": {**storage, "files": [*storage["files"], _make_file(item)]}}


def _is_unit(item: Item) -> bool:
    directory, name = posixpath.split(item.path)
    return item.target is None and directory == UNITS and is_unit_name(name)


def _enables_unit(item: Item) -> bool:
    """Return True for a link that enables a unit. `enabled: true` replaces it in the config."""
    directory = posixpath.dirname(item.path)
    return (
        item.target is not None
        and posixpath.dirname(directory) == UNITS
        and directory.endswith(_ENABLING_SUFFIXES)
        and posixpath.basename(item.path) == posixpath.basename(item.target)
    )


def _make_unit(item: Item, enabled: set[str]) -> dict[str, Any]:
    name = posixpath.basename(item.path)
    unit: dict[str, Any] = {"name": name, "contents": item.data.decode()}
    return unit | {"enabled": True} if name in enabled else unit


def _make_file(item: Item) -> dict[str, Any]:
    contents = {"source": urls.encode_data_url(urls.compress(item.data)), "compression": "gzip"}
    return {"path": item.path, "mode": item.mode, "overwrite": True, "contents": contents}


def _make_remote_file(remote: RemoteFile) -> dict[str, Any]:
    contents = {"source": remote.url, "verification": {"hash": remote.hash}}
    return {"path": remote.path, "mode": 0o755, "overwrite": True, "contents": contents}


ROLES: Final = ("master", "worker", "bootstrap", "single-node")
PROGRAM: Final = f"{HOST.programs}/service-record"
"""The program that the reporter's units start."""
CA_BUNDLE: Final = "/etc/service-record/ca.crt"
SETTINGS: Final = "/etc/service-record/reporter.toml"
TOKEN: Final = "/etc/service-record/token"  # noqa: S105  # the path, not the token
CLOSED_ON_BOOTSTRAP: Final = (
    *("node-image-pull", "node-image-overlay"),  # the first that can fail in present releases
    *("release-image", "crio-configure", "kubelet"),
    *("bootkube", "approve-csr", "progress"),
)
"""The services of OpenShift's bootstrap host that source the shim (docs/openshift.md)."""
_FOR_ROOT: Final = 0o600


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryRequest:
    """The parts to deliver, besides the shim."""

    role: str
    closes: tuple[str, ...] = ()
    """Services whose records systemd closes. Their own code does not have to change."""
    all_services: bool = False
    array: bool = False
    settings: str | None = None
    """The reporter's settings as TOML. None leaves out the reporter."""
    token: bytes | None = field(default=None, repr=False)
    ca_bundle: bytes | None = None
    program: bytes | None = field(default=None, repr=False)
    """The reporter as one executable file."""


def items_to_deliver(request: DeliveryRequest) -> tuple[Item, ...]:
    """Return all items, sorted by path.

    On the bootstrap host, records are arrays, and systemd closes the records of its services.
    """
    options = {
        Option.SHIM: True,
        Option.ALL_SERVICES: request.all_services,
        Option.ARRAY: request.array or request.role == "bootstrap",
        Option.REPORTER: request.settings is not None,
    }
    items = contents(option for option, is_wanted in options.items() if is_wanted)
    return tuple(sorted([*items, *_drop_ins(request), *_reporter_files(request)], key=lambda item: item.path))


def _drop_ins(request: DeliveryRequest) -> Iterator[Item]:
    """Yield the drop-ins of single services. With `all_services` one drop-in closes every record."""
    if request.all_services:
        return
    yield from closing_drop_ins(
        request.closes or (CLOSED_ON_BOOTSTRAP if request.role == "bootstrap" else ())
    )


def _reporter_files(request: DeliveryRequest) -> Iterator[Item]:
    settings = None if request.settings is None else request.settings.encode()
    files: Mapping[str, tuple[bytes | None, int]] = {
        SETTINGS: (settings, _FOR_ROOT),
        TOKEN: (request.token, _FOR_ROOT),
        CA_BUNDLE: (request.ca_bundle, 0o644),
        PROGRAM: (request.program, 0o755),
    }
    for path, (data, mode) in files.items():
        if data is not None:
            yield Item(path, Option.REPORTER, data, mode)


def settings_text(values: str, changes: Mapping[str, object]) -> str:
    """Return a TOML text with some settings changed. Their names are like `assisted_service.url`.

    The items of a list are added to an existing list. Raises ValueError if `values` is not valid TOML.
    """
    settings: dict[str, Any] = tomllib.loads(values)
    for name, value in changes.items():
        section, _, key = name.rpartition(".")
        table = settings.setdefault(section, {}) if section else settings
        if not isinstance(table, dict):
            raise ValueError(  # noqa: TRY004  # a mistake in the user's text
                f"{section} is a section; write [{section}] and its settings below"
            )
        table[key] = _merge_values(table.get(key), value)
    plain = {name: value for name, value in settings.items() if not isinstance(value, dict)}
    sections = {name: value for name, value in settings.items() if isinstance(value, dict)}
    tables = (f"[{_format_key(name)}]\n{_format_table(table)}" for name, table in sections.items())
    parts = [_format_table(plain), *tables]
    return "\n".join(part for part in parts if part)


def _merge_values(before: object, value: object) -> object:
    if isinstance(before, list) and isinstance(value, list):
        return [*before, *(each for each in value if each not in before)]
    return value


def _format_table(table: Mapping[str, object]) -> str:
    return "".join(f"{_format_key(name)} = {_format_value(value)}\n" for name, value in table.items())


def _format_key(name: str) -> str:
    return name if name.isascii() and name.isidentifier() else _format_value(name)


def _format_value(value: object) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return f"[{', '.join(map(_format_value, value))}]"
    if isinstance(value, dict):
        pairs = (f"{_format_key(name)} = {_format_value(inner)}" for name, inner in value.items())
        return f"{{{', '.join(pairs)}}}"
    return str(value)
