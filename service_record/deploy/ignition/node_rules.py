"""The rules of files, directories and links, and of what is fetched for them."""

import posixpath
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from service_record.deploy.ignition import urls
from service_record.deploy.ignition.reading import ConfigFault, Item, at, faults_of_path, items, quoted, twice

UNITS: Final = "/etc/systemd/system"
"""Where Ignition writes units."""
KINDS: Final = ("files", "directories", "links")
_MOST: Final = 0o7777
_PLAIN: Final = 0o777
_DIGITS_OF_OCTAL: Final = 3


def faults_of_nodes(config: dict[str, Any], minor: int) -> Iterator[ConfigFault]:
    nodes = [item for kind in KINDS for item in items(config, f"storage.{kind}")]
    for where, node in nodes:
        yield from faults_of_path(f"{where}.path", node["path"])
        yield from _faults_of_mode(f"{where}.mode", node.get("mode"), minor)
        yield from _faults_of_owner(where, node)
    yield from twice([(f"{where}.path", node["path"]) for where, node in nodes], "path")
    for where, file in items(config, "storage.files"):
        if file.get("overwrite") and not (file.get("contents") or {}).get("source") is not None:
            yield ConfigFault(
                f"{where}.overwrite", "is true, but there is nothing to write: contents.source is missing"
            )
    yield from _faults_of_ways(config, nodes)
    yield from _faults_of_hard_links(config)
    yield from _faults_of_unit_paths(config, nodes)


def unit_paths(config: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What Ignition writes for units: path, and where in the config the unit stands."""
    for where, unit in items(config, "systemd.units"):
        if unit.get("contents"):
            yield f"{UNITS}/{unit['name']}", where
        for place, drop_in in items(unit, "dropins"):
            if drop_in.get("contents"):
                yield f"{UNITS}/{unit['name']}.d/{drop_in['name']}", f"{where}.{place}"


def _faults_of_mode(where: str, mode: int | None, minor: int) -> Iterator[ConfigFault]:
    if mode is None:
        return
    if not 0 <= mode <= _MOST:
        yield ConfigFault(where, f"{mode} is no mode; modes are decimal, from 0 to {_MOST}: 0644 is 420")
    elif mode > _PLAIN:
        text = str(mode)
        octal = len(text) == _DIGITS_OF_OCTAL and not set(text) - set("01234567")
        hint = f"; perhaps 0{mode} is meant, which is {int(text, 8)} in decimal" if octal else ""
        if minor < 4:  # noqa: PLR2004  # 3.4.0 has set-user-ID, set-group-ID and sticky bits first
            hint = f", which 3.{minor}.0 passes over{hint}"
        if hint:
            yield ConfigFault(where, f"{mode} is 0{mode:o}, with special bits{hint}", is_warning=True)


def _faults_of_owner(where: str, node: dict[str, Any]) -> Iterator[ConfigFault]:
    for who in ("user", "group"):
        owner = node.get(who) or {}
        number, name = owner.get("id"), owner.get("name")
        if number is not None and name:
            yield ConfigFault(f"{where}.{who}", "has both id and name; one of them is enough")
        if number is not None and number < 0:
            yield ConfigFault(f"{where}.{who}.id", f"{number} is no id")


def _faults_of_ways(config: dict[str, Any], nodes: list[Item]) -> Iterator[ConfigFault]:
    """Below a file there is nothing, and below a link Ignition writes nothing."""
    ends = {
        node["path"]: (kind, where)
        for kind, place in (("file", "files"), ("link", "links"))
        for where, node in items(config, f"storage.{place}")
    }
    for where, node in nodes:
        above = posixpath.dirname(node["path"])
        while len(above) > 1:
            if above in ends:
                kind, place = ends[above]
                yield ConfigFault(f"{where}.path", f"{quoted(node['path'])} is below a {kind}, {place}")
                break
            above = posixpath.dirname(above)


def _faults_of_hard_links(config: dict[str, Any]) -> Iterator[ConfigFault]:
    directories = {node["path"] for _, node in items(config, "storage.directories")}
    for where, link in items(config, "storage.links"):
        if not link["target"]:
            yield ConfigFault(f"{where}.target", "is empty")
        elif link.get("hard") and posixpath.join(link["path"], link["target"]) in directories:
            yield ConfigFault(
                f"{where}.target", f"{quoted(link['target'])} is a directory; no hard link leads there"
            )


def _faults_of_unit_paths(config: dict[str, Any], nodes: list[Item]) -> Iterator[ConfigFault]:
    written = dict(unit_paths(config))
    for where, node in nodes:
        if node["path"] in written:
            yield ConfigFault(
                f"{where}.path", f"{quoted(node['path'])} is written by {written[node['path']]}, too"
            )


_HEADER: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)


def faults_of_resources(config: dict[str, Any], _minor: int) -> Iterator[ConfigFault]:
    for place in ("ignition.config.merge", "ignition.security.tls.certificateAuthorities"):
        needed = items(config, place)
        for where, resource in needed:
            yield from _faults(where, resource, is_needed=True)
        yield from twice([(where, resource.get("source")) for where, resource in needed], "source")
    replace = at(config, "ignition.config.replace")
    if replace:
        yield from _faults("ignition.config.replace", replace, is_needed=True)
    for where, file in items(config, "storage.files"):
        yield from _faults(f"{where}.contents", file.get("contents") or {})
        for number, each in enumerate(file.get("append") or []):
            yield from _faults(f"{where}.append[{number}]", each or {}, is_needed=True)
    for where, device in items(config, "storage.luks"):
        yield from _faults(f"{where}.keyFile", device.get("keyFile") or {})


def content_of(resource: dict[str, Any]) -> bytes | None:
    """The bytes of a resource that has them in itself, unpacked; ValueError says what is wrong with them."""
    source = resource.get("source") or ""
    if source[:5].lower() != "data:":
        return None
    data = urls.data_of(source)
    return urls.decompressed(data) if resource.get("compression") else data


def _faults(where: str, resource: dict[str, Any], *, is_needed: bool = False) -> Iterator[ConfigFault]:
    source = resource.get("source")
    if is_needed and not source:
        yield ConfigFault(f"{where}.source", "is missing")
        return
    compression = resource.get("compression")
    if compression not in {None, "", "gzip"}:
        yield ConfigFault(f"{where}.compression", f"{quoted(compression)} is not known; only gzip is")
        return
    if source:
        yield from _refused(f"{where}.source", urls.check_url, source)
        if compression and source.startswith("s3:"):
            yield ConfigFault(f"{where}.compression", "is not for sources in S3")
    yield from _faults_of_hash(where, resource)
    yield from _faults_of_headers(where, resource)


def _faults_of_hash(where: str, resource: dict[str, Any]) -> Iterator[ConfigFault]:
    place = f"{where}.verification.hash"
    wanted = (resource.get("verification") or {}).get("hash")
    if wanted is not None and resource.get("source") is None:
        yield ConfigFault(place, "verifies nothing: there is no source")
        return
    bad = list(_refused(place, urls.check_hash, wanted)) if wanted is not None else []
    yield from bad
    try:
        data = content_of(resource)
    except ValueError as error:
        if resource.get("compression") and not list(_refused("", urls.check_url, resource["source"])):
            yield ConfigFault(f"{where}.source", str(error))
        return
    if data is not None and wanted is not None and not bad:
        yield from _refused(place, lambda text: urls.check_verified(data, text), wanted)


def _faults_of_headers(where: str, resource: dict[str, Any]) -> Iterator[ConfigFault]:
    headers: list[Item] = items(resource, "httpHeaders")
    if headers and not str(resource.get("source")).lower().startswith(("http://", "https://")):
        yield ConfigFault(f"{where}.httpHeaders", "are for sources of http and https only")
    for place, header in headers:
        if not _HEADER.fullmatch(header["name"]):
            yield ConfigFault(f"{where}.{place}.name", f"{quoted(header['name'])} is no name of a header")
    names: list[tuple[str, object]] = [(f"{where}.{place}", header["name"]) for place, header in headers]
    yield from twice(names, "header")


def _refused(where: str, check: Callable[[str], None], text: str) -> Iterator[ConfigFault]:
    try:
        check(text)
    except ValueError as error:
        yield ConfigFault(where, str(error))
