"""Ignition configs written onto a disk: files and units, as Ignition would write them."""

import base64
import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

Config = dict[str, Any]


def apply(document: Config, root: Path) -> set[str]:
    """Write files and units as Ignition would, and refuse what only Ignition could; return their paths."""
    assert set(document) <= {"ignition", "storage", "systemd"}
    assert set(document["storage"]) == {"files"}
    assert set(document["systemd"]) == {"units"}
    written = {str(file["path"]) for file in document["storage"]["files"]}
    for file in document["storage"]["files"]:
        assert set(file) <= {"path", "mode", "overwrite", "contents", "user", "group"}
        place(root, file["path"], decoded(file["contents"]), file["mode"])
    for unit in document["systemd"]["units"]:
        assert set(unit) <= {"name", "contents", "enabled"}
        path = f"/etc/systemd/system/{unit['name']}"
        place(root, path, unit["contents"].encode(), 0o644)
        written |= {path, *(enabled(root, path) if unit.get("enabled") else ())}
    return written


def place(root: Path, path: str, data: bytes, mode: int) -> None:
    target = root / path.lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)
    target.chmod(mode)


def enabled(root: Path, path: str) -> Iterator[str]:
    """Link the unit to what wants it."""
    unit = root / path.lstrip("/")
    for line in unit.read_text().splitlines():
        if line.startswith("WantedBy="):
            link = unit.parent / f"{line.removeprefix('WantedBy=')}.wants" / unit.name
            link.parent.mkdir(exist_ok=True)
            link.symlink_to(f"../{unit.name}")
            yield f"/{link.relative_to(root)}"


def decoded(contents: dict[str, str]) -> bytes:
    kind, _, text = contents["source"].partition(",")
    assert kind.startswith("data:"), "nothing is fetched"
    data = base64.b64decode(text) if kind.endswith(";base64") else unquote_to_bytes(text)
    return gzip.decompress(data) if contents.get("compression") == "gzip" else data
