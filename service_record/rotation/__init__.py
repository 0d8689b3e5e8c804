"""Keep records within a size: leave out runs in the middle, count them, and lose no entry meanwhile."""

from collections.abc import Mapping
from typing import Final

from service_record.rotation.replacing import Rotation, RotationError, rotate

__all__ = ["DEFAULT_MAX_BYTES", "Rotation", "RotationError", "max_bytes", "rotate"]

VARIABLE: Final = "SERVICE_RECORDS_MAX_BYTES"
DEFAULT_MAX_BYTES: Final = 2 << 20


def max_bytes(environ: Mapping[str, str]) -> int:
    """Return the limit that $SERVICE_RECORDS_MAX_BYTES sets, else the default; 0 is no limit."""
    text = environ.get(VARIABLE, "")
    return int(text) if text.isdecimal() and len(text) < len("1000000000000000") else DEFAULT_MAX_BYTES
