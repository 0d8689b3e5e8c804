"""The list of installed files. `install` writes it, `uninstall` reads it."""

from collections.abc import Mapping
from typing import Annotated, Final, Literal, TypeAlias

import msgspec

from service_record.deploy.delivered import Option
from service_record.deploy.root import Root

FILE: Final = "/var/lib/service-record/installed.json"

_Path: TypeAlias = Annotated[str, msgspec.Meta(pattern="^/")]
"""Absolute, as the host sees it."""


class Mark(msgspec.Struct, frozen=True, omit_defaults=True):
    """The properties by which an installed file or link is recognized."""

    link: str = ""
    """The target of a link."""
    sha256: str = ""
    """The digest of a file."""
    mode: str = ""
    """The mode of a file, in octal digits."""


class Installed(msgspec.Struct, frozen=True, kw_only=True):
    """All installed files and directories of a host."""

    version: Literal[1]
    options: frozenset[Option]
    files: Mapping[_Path, Mark]
    """The delivered files and links."""
    beside: Mapping[_Path, Mark]
    """Files that were written as `PATH.new`, because the file at PATH is not ours or was edited."""
    aside: Mapping[_Path, _Path]
    """Path of each replaced file -> the path where the earlier file is kept."""
    directories: frozenset[_Path]
    """The directories that the installation made."""


NOTHING_INSTALLED: Final = Installed(
    version=1, options=frozenset(), files={}, beside={}, aside={}, directories=frozenset()
)


class DamagedError(ValueError):
    """The list is invalid. The message names the file and says what to do."""


def read(root: Root) -> Installed | None:
    """Return the list; None if nothing is installed. Raises DamagedError, OSError."""
    try:
        return msgspec.json.decode(root.read(FILE), type=Installed)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError as error:
        advice = "move it away, and what is installed counts as somebody else's"
        raise DamagedError(f"{root.at(FILE)}: damaged, or of another version ({error!r}); {advice}") from None


def write(root: Root, installed: Installed) -> None:
    """Write the list atomically. Its directory must exist. Raises OSError."""
    data = msgspec.json.format(msgspec.json.encode(installed, order="sorted"), indent=1) + b"\n"
    root.write(FILE, data, 0o644)
