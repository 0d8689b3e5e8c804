"""The files and links that are delivered to a host, with mode, owner and the option that selects each.

`service-record install`, the Ignition config, `make install` and the packages use this list. A wheel has the
files in `service_record/host`, a checkout in `shell`, `units` and `packages`. Imports only the standard
library.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from importlib.resources import files
from pathlib import Path
from posixpath import relpath
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

CLOSING: Final = "10-service-record.conf"
"""The drop-in by which systemd closes the record of a service."""
_CLOSING_FOR_USERS: Final = "10-service-record-user-manager.conf"
"""The drop-in for the service managers of users. In `user@.service.d` it is named like `CLOSING`."""
_PROGRAM: Final = 0o755
_FILE: Final = 0o644
_ARRAY: Final = "20-service-record-array.conf"
_WRITTEN_FOR: Final = "/usr/local/bin"
"""The directory of our programs in the units of the repository; see `_unit`."""
SCRIPTS: Final = ("bootstrap-service-record.sh", "service-record-exit.sh")
"""The shim, which is sourced, and the exit helper, which is executed."""
_PARTS: Final = ("service-record-failure.sh", "service-record-close.sh")
"""The files in `templates` that these scripts read or run when a service has failed."""

MODULE_FILES: Final = (
    "service-record-initramfs.sh",
    "module-setup.sh",
    "failure-hook.sh",
    "handover-hook.sh",
)
"""The scripts of dracut's module `service-record`, in `shell/initramfs`."""
MODULE_UNITS: Final = tuple(
    f"service-record-initramfs-{name}.service" for name in ("failure", "handover", "retry")
)

_ANSIBLE: Final = (
    "callback_plugins/service_record.py",
    *(f"roles/service_record/{part}/main.yml" for part in ("defaults", "handlers", "meta", "tasks")),
)
"""The callback plugin and the role of Ansible."""


class Option(StrEnum):
    """The parts that can be installed; the values are the options of the command line."""

    SHIM = "shim"
    """The shim, the exit helper, drop-ins to copy, and the records directory."""
    ALL_SERVICES = "all-services"
    """systemd closes the record of every service, with the exit helper. Needs SHIM."""
    ARRAY = "array"
    """Every service records a closed JSON array, which OpenShift's tools can read."""
    REPORTER = "reporter"
    """The units of the boot reporter, enabled."""
    COLLECTOR = "collector"
    """The unit of the collector. It is not enabled."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The directories for each kind of file."""

    prefix: str
    units: str
    tmpfiles: str
    is_package: bool
    """True for a package, which enables no unit: that is the administrator's decision. Its scripts are in
    `templates`, with links in `programs`: distributions allow no file extension there, and no script without
    an interpreter."""

    @property
    def programs(self) -> str:
        return f"{self.prefix}/bin"

    @property
    def templates(self) -> str:
        """Return the directory of drop-ins to copy or link, and of files that the shim reads."""
        return f"{self.prefix}/share/service-record"


HOST: Final = Layout("/usr/local", "/etc/systemd/system", "/etc/tmpfiles.d", is_package=False)
"""The layout of `service-record install`: the directories that belong to the administrator."""


def choose_layout(prefix: str) -> Layout:
    """Return HOST for the prefix `/usr/local`, else the layout of a package below the prefix."""
    if prefix == HOST.prefix:
        return HOST
    return Layout(prefix, f"{prefix}/lib/systemd/system", f"{prefix}/lib/tmpfiles.d", is_package=True)


@dataclass(frozen=True, slots=True)
class Item:
    """One file or link on a host. It belongs to root. Missing directories get mode 0755."""

    path: str
    """Absolute, as the host sees it."""
    option: Option
    data: bytes = b""
    mode: int = _FILE
    target: str | None = None
    """The target of a symbolic link, which has neither data nor mode. In a package it is relative."""


def contents(
    options: Iterable[Option], layout: Layout = HOST, pages: Iterable[tuple[str, str]] = ()
) -> tuple[Item, ...]:
    """Return the items that these options select, by path.

    `pages` are man pages and completions: path below `PREFIX/share`, and text. SHIM selects them.
    Raises FileNotFoundError if this installation of service-record lacks one of its files.
    """
    chosen = set(options)
    items = [item for item in _everything(layout, pages) if item.option in chosen]
    return tuple(sorted(items, key=lambda item: item.path))


def pages() -> Iterator[tuple[str, str]]:
    """Yield path and text of the man pages and completions; nothing if this installation has none.

    A wheel and an executable contain them. In a checkout, `make man` makes them.
    """
    installed = Path(str(files("service_record"))) / "host/share"
    directory = installed if installed.is_dir() else Path(__file__).resolve().parents[2] / "build/share"
    for path in sorted(directory.rglob("*")):
        if path.is_file():
            yield path.relative_to(directory).as_posix(), path.read_text(encoding="utf-8")


def closing_drop_ins(services: Iterable[str]) -> Iterator[Item]:
    """Yield a drop-in for each service, by which systemd closes its record. SHIM selects it."""
    for name in dict.fromkeys(name.removesuffix(".service") for name in services):
        path = f"{HOST.units}/{name}.service.d/{CLOSING}"
        yield Item(path, Option.SHIM, _unit(CLOSING, HOST))


def _everything(layout: Layout, pages: Iterable[tuple[str, str]]) -> Iterator[Item]:
    yield from _scripts(layout)
    for name in _PARTS:
        yield _script(f"{layout.templates}/{name}", name, layout)
    drop_ins = {
        CLOSING: (Option.ALL_SERVICES, f"service.d/{CLOSING}"),
        _CLOSING_FOR_USERS: (Option.ALL_SERVICES, f"user@.service.d/{CLOSING}"),
        _ARRAY: (Option.ARRAY, f"service.d/{_ARRAY}"),
    }
    for name, (option, place) in drop_ins.items():
        yield Item(f"{layout.templates}/{name}", Option.SHIM, _unit(name, layout))
        yield Item(f"{layout.units}/{place}", option, _unit(name, layout))
    for name, option in {"service-record": Option.SHIM, "service-record-array": Option.ARRAY}.items():
        yield Item(f"{layout.tmpfiles}/{name}.conf", option, source(f"units/tmpfiles.d/{name}.conf"))
    for path, text in pages:
        yield Item(f"{layout.prefix}/share/{path}", Option.SHIM, text.encode())
    yield from _reporter(layout)
    if layout.is_package:
        for name in ("service-record-metrics.service", "service-record-metrics.timer"):
            yield Item(f"{layout.units}/{name}", Option.REPORTER, _unit(name, layout))
        catalog = "service-record.catalog"
        path = f"{layout.prefix}/lib/systemd/catalog/{catalog}"
        yield Item(path, Option.SHIM, source(f"units/{catalog}"))
        yield from _dracut_module(layout)
        plugin = source("packages/sos_plugin.py")
        yield Item(f"{layout.templates}/sos/service_record.py", Option.REPORTER, plugin)
        yield from _cluster_api(layout)
        for name in _ANSIBLE:
            path = f"{layout.templates}/ansible/{name}"
            yield Item(path, Option.REPORTER, source(f"packages/ansible/{name}"))
    yield Item(f"{layout.units}/collector.service", Option.COLLECTOR, _unit("collector.service", layout))


def _scripts(layout: Layout) -> Iterator[Item]:
    for name in SCRIPTS:
        on_path, place = f"{layout.programs}/{name}", f"{layout.templates}/{name}"
        if layout.is_package:
            yield _script(place, name, layout)
            yield Item(on_path, Option.SHIM, target=relpath(place, layout.programs))
        else:
            yield Item(on_path, Option.SHIM, source(f"shell/{name}"), _PROGRAM)


def _script(path: str, name: str, layout: Layout) -> Item:
    """Return a script. In a package its interpreter is `/bin/bash`, as distributions demand."""
    data = source(f"shell/{name}")
    if layout.is_package:
        data = data.replace(b"#!/usr/bin/env bash", b"#!/bin/bash", 1)
    return Item(path, Option.SHIM, data, _PROGRAM if data.startswith(b"#!") else _FILE)


def _dracut_module(layout: Layout) -> Iterator[Item]:
    """Yield dracut's module. Only packages have it: dracut reads modules only from `/usr/lib`."""
    directory = f"{layout.prefix}/lib/dracut/modules.d/95service-record"
    for name in MODULE_FILES:
        yield Item(f"{directory}/{name}", Option.SHIM, source(f"shell/initramfs/{name}"), _PROGRAM)
    for name in MODULE_UNITS:
        yield Item(f"{directory}/{name}", Option.SHIM, source(f"units/initramfs/{name}"))


def _cluster_api(layout: Layout) -> Iterator[Item]:
    """Yield the unit that writes the sentinel file of Cluster API, and its script."""
    name = "service-record-cluster-api"
    script = _script(f"{layout.templates}/{name}.sh", f"{name}.sh", layout)
    yield replace(script, option=Option.REPORTER)
    unit = source(f"units/{name}@.service").replace(HOST.templates.encode(), layout.templates.encode())
    yield Item(f"{layout.units}/{name}@.service", Option.REPORTER, unit)


def _reporter(layout: Layout) -> Iterator[Item]:
    for name in ("boot-reporter.service", "boot-reporter.timer"):
        yield Item(f"{layout.units}/{name}", Option.REPORTER, _unit(name, layout))
    if not layout.is_package:
        timer = f"{layout.units}/boot-reporter.timer"
        link = f"{layout.units}/timers.target.wants/boot-reporter.timer"
        yield Item(link, Option.REPORTER, target=timer)


def _unit(name: str, layout: Layout) -> bytes:
    """Return a unit or drop-in with the layout's directory of programs."""
    return source(f"units/{name}").replace(_WRITTEN_FOR.encode(), layout.programs.encode())


def source(name: str) -> bytes:
    """Return a file of ours by its name in the repository, such as `shell/service-record-exit.sh`.

    Raises FileNotFoundError.
    """
    installed = files("service_record").joinpath("host")
    places: tuple[Traversable, ...] = (installed, Path(__file__).resolve().parents[2])
    for place in places:
        resource = place.joinpath(*name.split("/"))
        if resource.is_file():
            return resource.read_bytes()
    raise FileNotFoundError(2, "missing from this installation of service-record; install it anew", name)
