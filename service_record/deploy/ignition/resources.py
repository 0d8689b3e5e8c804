"""The rules of what is fetched: contents, configs, certificates and key files."""

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from service_record.deploy.ignition import urls
from service_record.deploy.ignition.fault import Fault, quoted
from service_record.deploy.ignition.places import Item, at, items, twice

_HEADER: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)


def faults_of_resources(config: dict[str, Any], _minor: int) -> Iterator[Fault]:
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


def _faults(where: str, resource: dict[str, Any], *, is_needed: bool = False) -> Iterator[Fault]:
    source = resource.get("source")
    if is_needed and not source:
        yield Fault(f"{where}.source", "is missing")
        return
    compression = resource.get("compression")
    if compression not in {None, "", "gzip"}:
        yield Fault(f"{where}.compression", f"{quoted(compression)} is not known; only gzip is")
        return
    if source:
        yield from _refused(f"{where}.source", urls.check_url, source)
        if compression and source.startswith("s3:"):
            yield Fault(f"{where}.compression", "is not for sources in S3")
    yield from _faults_of_hash(where, resource)
    yield from _faults_of_headers(where, resource)


def _faults_of_hash(where: str, resource: dict[str, Any]) -> Iterator[Fault]:
    place = f"{where}.verification.hash"
    wanted = (resource.get("verification") or {}).get("hash")
    if wanted is not None and resource.get("source") is None:
        yield Fault(place, "verifies nothing: there is no source")
        return
    bad = list(_refused(place, urls.check_hash, wanted)) if wanted is not None else []
    yield from bad
    try:
        data = content_of(resource)
    except ValueError as error:
        if resource.get("compression") and not list(_refused("", urls.check_url, resource["source"])):
            yield Fault(f"{where}.source", str(error))
        return
    if data is not None and wanted is not None and not bad:
        yield from _refused(place, lambda text: urls.check_verified(data, text), wanted)


def _faults_of_headers(where: str, resource: dict[str, Any]) -> Iterator[Fault]:
    headers: list[Item] = items(resource, "httpHeaders")
    if headers and not str(resource.get("source")).lower().startswith(("http://", "https://")):
        yield Fault(f"{where}.httpHeaders", "are for sources of http and https only")
    for place, header in headers:
        if not _HEADER.fullmatch(header["name"]):
            yield Fault(f"{where}.{place}.name", f"{quoted(header['name'])} is no name of a header")
    names: list[tuple[str, object]] = [(f"{where}.{place}", header["name"]) for place, header in headers]
    yield from twice(names, "header")


def _refused(where: str, check: Callable[[str], None], text: str) -> Iterator[Fault]:
    try:
        check(text)
    except ValueError as error:
        yield Fault(where, str(error))
