"""Moments as traces count them."""

from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_NANOSECONDS: Final = (1 << 63) - 1


def nanoseconds(time: datetime) -> int:
    """Nanoseconds since 1970, as 63 bits hold them: what is earlier or later is moved to where they end."""
    passed = (time - _EPOCH) // timedelta(microseconds=1) * 1000
    return min(max(passed, 0), _MAX_NANOSECONDS)
