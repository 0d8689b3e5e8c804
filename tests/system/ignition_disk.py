"""Write the files and units of an Ignition config onto a disk, as Ignition does."""

import base64
import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

Config = dict[str, Any]


def apply_config(document: Config, root: Path) -> set[str]:
    """Write files and units below `root`; return their paths. Raises AssertionError for anything else in the
    config.
    """
    assert set(document) <= {"ignition", "storage", "systemd"}
    assert set(document["storage"]) == {"files"}
    assert set(document["systemd"]) == {"units"}
    written = {str(file["path"]) for file in document["storage"]["files"]}
    for file in document["storage"]["files"]:
        assert set(file) <= {"path", "mode", "overwrite", "contents", "user", "group"}
        write_file(root, file["path"], decode_contents(file["contents"]), file["mode"])
    for unit in document["systemd"]["units"]:
        assert set(unit) <= {"name", "contents", "enabled"}
        path = f"/etc/systemd/system/{unit['name']}"
        write_file(root, path, unit["contents"].encode(), 0o644)
        written |= {path, *(enable_unit(root, path) if unit.get("enabled") else ())}
    return written


def write_file(root: Path, path: str, data: bytes, mode: int) -> None:
    target = root / path.lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)
    target.chmod(mode)


def enable_unit(root: Path, path: str) -> Iterator[str]:
    """Enable a unit: create the links of its WantedBy= and yield their paths."""
    unit = root / path.lstrip("/")
    for line in unit.read_text().splitlines():
        if line.startswith("WantedBy="):
            link = unit.parent / f"{line.removeprefix('WantedBy=')}.wants" / unit.name
            link.parent.mkdir(exist_ok=True)
            link.symlink_to(f"../{unit.name}")
            yield f"/{link.relative_to(root)}"


def decode_contents(contents: dict[str, str]) -> bytes:
    kind, _, text = contents["source"].partition(",")
    assert kind.startswith("data:"), "only data URLs are supported"
    data = base64.b64decode(text) if kind.endswith(";base64") else unquote_to_bytes(text)
    return gzip.decompress(data) if contents.get("compression") == "gzip" else data
