"""What hosts, groups and keys may be called. Pure."""

import re
from typing import Final

HOST_RULE: Final = "a host's name has letters, digits and . _ : - only, at most 253"
GROUP_RULE: Final = "a group's name has letters, digits and . _ : - only, and / before a group below it"

_HOST: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._:-]{0,251}[A-Za-z0-9])?")
_GROUP: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]*(?:/[A-Za-z0-9][A-Za-z0-9._:-]*)*")
_LONGEST_GROUP: Final = 255


def is_host(name: str) -> bool:
    """Whether a host may be called that."""
    return _HOST.fullmatch(name) is not None


def is_group(name: str) -> bool:
    """Whether an administrator may call a group that; what a report says of its group is any text."""
    return len(name) <= _LONGEST_GROUP and _GROUP.fullmatch(name) is not None
