"""Keep records within a size: remove runs from the middle and count them, while services write."""

from collections.abc import Mapping
from typing import Final

from service_record.rotation.replacement import Rotation, RotationError, find_long_records, rotate

__all__ = ["DEFAULT_MAX_BYTES", "Rotation", "RotationError", "find_long_records", "max_bytes", "rotate"]

VARIABLE: Final = "SERVICE_RECORDS_MAX_BYTES"
DEFAULT_MAX_BYTES: Final = 2 << 20
_MAX_DIGITS: Final = 15  # up to a petabyte; `int` raises for thousands of digits


def max_bytes(environ: Mapping[str, str]) -> int:
    """Return the value of $SERVICE_RECORDS_MAX_BYTES, or the default. 0 means no limit."""
    text = environ.get(VARIABLE, "")
    return int(text) if text.isdecimal() and len(text) <= _MAX_DIGITS else DEFAULT_MAX_BYTES
