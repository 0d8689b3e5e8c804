"""Keep records within a size: leave out runs in the middle, count them, and lose no entry meanwhile."""

from service_record.rotation.limit import DEFAULT_MAX_BYTES, max_bytes
from service_record.rotation.replacing import Rotation, RotationError, rotate

__all__ = ["DEFAULT_MAX_BYTES", "Rotation", "RotationError", "max_bytes", "rotate"]
