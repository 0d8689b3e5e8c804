"""The list of what an installation put onto a host, which `install` writes and `uninstall` follows."""

from collections.abc import Mapping
from typing import Annotated, Final, Literal, TypeAlias

import msgspec

from service_record.deploy.delivered import Option
from service_record.deploy.root import Root

FILE: Final = "/var/lib/service-record/installed.json"

_Path: TypeAlias = Annotated[str, msgspec.Meta(pattern="^/")]
"""Absolute, as the host sees it."""


class Mark(msgspec.Struct, frozen=True, omit_defaults=True):
    """The properties by which we recognise a file or link that we put there."""

    link: str = ""
    """The target of a link."""
    sha256: str = ""
    """The digest of a file."""
    mode: str = ""
    """The mode of a file, in octal digits."""


class Installed(msgspec.Struct, frozen=True, kw_only=True):
    """Everything of ours on a host."""

    version: Literal[1]
    options: frozenset[Option]
    files: Mapping[_Path, Mark]
    """The delivered files, links too."""
    beside: Mapping[_Path, Mark]
    """The files delivered beside a file that somebody edited: `PATH.new`."""
    aside: Mapping[_Path, _Path]
    """Replaced files: each path, and the place where the earlier file is kept until removal."""
    directories: frozenset[_Path]
    """The directories that were missing."""


NOTHING_INSTALLED: Final = Installed(
    version=1, options=frozenset(), files={}, beside={}, aside={}, directories=frozenset()
)


class DamagedError(ValueError):
    """A file that is not as we write it; the text names it, and says what to do."""


def read(root: Root) -> Installed | None:
    """Return what is installed there; None if nothing is. Raises DamagedError, OSError."""
    try:
        return msgspec.json.decode(root.read(FILE), type=Installed)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError as error:
        advice = "move it away, and what is installed counts as somebody else's"
        raise DamagedError(f"{root.at(FILE)}: damaged, or of another version ({error!r}); {advice}") from None


def write(root: Root, installed: Installed) -> None:
    """Write it whole; its directory exists. Raises OSError."""
    data = msgspec.json.format(msgspec.json.encode(installed, order="sorted"), indent=1) + b"\n"
    root.write(FILE, data, 0o644)
