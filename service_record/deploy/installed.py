"""The list of what an installation put onto a host, which `install` writes and `uninstall` follows."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from service_record.deploy.delivered import Option
from service_record.deploy.root import Root

FILE: Final = "/var/lib/service-record/installed.json"
_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Mark:
    """The properties by which we recognise a file or link that we put there."""

    kind: str
    content: str
    """SHA-256 of a file; where a link points."""
    mode: int = 0


@dataclass(frozen=True, slots=True)
class Times:
    """The times at which an existing directory was modified: before us, and by us. Nanoseconds since 1970."""

    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Installed:
    """Everything of ours on a host. Paths are absolute, as the host sees them."""

    options: frozenset[Option] = frozenset()
    files: Mapping[str, Mark] = field(default_factory=dict)
    """The delivered files, links too."""
    beside: Mapping[str, Mark] = field(default_factory=dict)
    """The files delivered beside a file that somebody edited: `PATH.new`."""
    aside: Mapping[str, str] = field(default_factory=dict)
    """Replaced files: each path, and the place where the earlier file is kept until removal."""
    directories: frozenset[str] = frozenset()
    """The directories that were missing."""
    times: Mapping[str, Times] = field(default_factory=dict)
    """The times of the directories that were there before and now hold something of ours."""

    def to_json(self) -> dict[str, object]:
        return {
            "version": _VERSION,
            "options": sorted(option.value for option in self.options),
            "files": {path: _of_mark(mark) for path, mark in sorted(self.files.items())},
            "beside": {path: _of_mark(mark) for path, mark in sorted(self.beside.items())},
            "aside": dict(sorted(self.aside.items())),
            "directories": sorted(self.directories),
            "times": {path: [times.before, times.after] for path, times in sorted(self.times.items())},
        }


class DamagedError(ValueError):
    """A file that is not as we write it; the text names it, and says what to do."""


def read(root: Root) -> Installed | None:
    """Return what is installed there; None if nothing is. Raises DamagedError, OSError."""
    try:
        data = root.read(FILE)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        return _parsed(json.loads(data))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        advice = "move it away, and what is installed counts as somebody else's"
        raise DamagedError(f"{root.at(FILE)}: damaged, or of another version ({error!r}); {advice}") from None


def write(root: Root, installed: Installed) -> None:
    """Write it whole; its directory exists. Raises OSError."""
    data = json.dumps(installed.to_json(), indent=1).encode() + b"\n"
    root.write(FILE, data, 0o644, (0, 0))


def _parsed(document: dict[str, Any]) -> Installed:
    if document["version"] != _VERSION:
        raise ValueError(f"version {document['version']}")
    return Installed(
        options=frozenset(map(Option, document["options"])),
        files={_path(path): _mark(mark) for path, mark in document["files"].items()},
        beside={_path(path): _mark(mark) for path, mark in document["beside"].items()},
        aside={_path(path): _path(other) for path, other in document["aside"].items()},
        directories=frozenset(map(_path, document["directories"])),
        times={_path(path): Times(*map(int, both)) for path, both in document["times"].items()},
    )


def _of_mark(mark: Mark) -> dict[str, object]:
    if mark.kind == "link":
        return {"link": mark.content}
    return {"sha256": mark.content, "mode": f"{mark.mode:04o}"}


def _mark(document: Mapping[str, str]) -> Mark:
    if "link" in document:
        return Mark("link", str(document["link"]))
    return Mark("file", str(document["sha256"]), int(document["mode"], 8))


def _path(text: object) -> str:
    if not isinstance(text, str) or not text.startswith("/"):
        raise ValueError(f"no path: {text!r}")
    return text
