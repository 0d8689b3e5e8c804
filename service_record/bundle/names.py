"""Names of the files of a host's records, in their directory and in an archive of it."""

import re
from typing import Final, NamedTuple

from service_record.record.appending import DAMAGED_SUFFIX
from service_record.record.directory import RECORD_DIRECTORIES, UNFINISHED_SUFFIX

MANIFEST: Final = "manifest.json"
"""The file in a bundle of this project that lists the gathered files and names the boot."""

_FILE: Final = re.compile(
    rf"(?:.*/)?(?:{'|'.join(RECORD_DIRECTORIES)})/(?P<service>[^/.][^/]*)\.json"
    rf"(?P<suffix>{re.escape(UNFINISHED_SUFFIX)}|{re.escape(DAMAGED_SUFFIX)}|)",
    re.DOTALL,
)

_UNIT_TEXT: Final = re.compile(
    r"(?:.*/)?(?:(?:failed-units|unit-properties|unit-status/[^/]+)\.txt|systemctl_list-units_--failed)",
    re.DOTALL,
)


class Named(NamedTuple):
    """The service and kind of a file, by its path in an archive."""

    service: str
    suffix: str
    """`.tmp` or `.damaged`; empty for the record itself."""


def named(path: str) -> Named | None:
    """Parse a path. Returns None for a file that does not belong to a record."""
    match = _FILE.fullmatch(path)
    return Named(match["service"], match["suffix"]) if match else None


def is_unit_text(path: str) -> bool:
    """Return True for a file with text about units of systemd, such as the list of failed ones."""
    return _UNIT_TEXT.fullmatch(path) is not None
