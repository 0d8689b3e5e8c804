"""Versions of the Ignition specification."""

import re
from typing import Final

NEWEST: Final = 5
OLDEST: Final = 1
DEFAULT: Final = "3.4.0"
VERSIONS: Final = tuple(f"3.{minor}.0" for minor in range(OLDEST, NEWEST + 1))
"""Those we know the rules of."""
TAKEN_BY_ASSISTED_SERVICE: Final = VERSIONS[:2]
"""Of its overrides. It reads no newer version: `ParseToLatest` in its internal/common/ignition."""

DEFAULT_FOR_ASSISTED_SERVICE: Final = TAKEN_BY_ASSISTED_SERVICE[-1]

_SEMANTIC: Final = re.compile(r"\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?", re.ASCII)


def minor_of(version: object) -> int:
    """Which of the 3.x it is; ValueError says why it is none of those we know."""
    if not isinstance(version, str) or not version:
        raise ValueError("no version; write one such as 3.4.0")
    if not _SEMANTIC.fullmatch(version):
        raise ValueError(f"{version[:40]!a} is no version; write one such as 3.4.0")
    if version in VERSIONS:
        return VERSIONS.index(version) + OLDEST
    known = f"{VERSIONS[0]} to {VERSIONS[-1]} are known here"
    if version == "3.0.0":
        raise ValueError(f"3.0.0 is too old, {known}; it may be called 3.1.0, and nothing else changes")
    if version.startswith(("1.", "2.")):
        raise ValueError(f"{version} is of another specification than 3.x; {known}: convert the config first")
    if "-" in version:
        raise ValueError(f"{version} is no stable version; {known}")
    raise ValueError(f"{version} is not known; {known}")
