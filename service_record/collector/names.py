"""Check the names of groups. Pure."""

import re
from typing import Final

GROUP_RULE: Final = "a group's name has letters, digits and . _ : - only, and / before a group below it"

_GROUP: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]*(?:/[A-Za-z0-9][A-Za-z0-9._:-]*)*")
_LONGEST_GROUP: Final = 255


def is_group(name: str) -> bool:
    """Whether an administrator may call a group that; what a report says of its group is any text."""
    return len(name) <= _LONGEST_GROUP and _GROUP.fullmatch(name) is not None
