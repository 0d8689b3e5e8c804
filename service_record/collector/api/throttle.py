"""How often something may happen: a bucket that each time takes from, and that time fills again."""

import ipaddress
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from service_record.collector.settings import Rates

_MOST: Final = 20_000
"""Whom is remembered: of more those are forgotten that came longest ago."""


@dataclass(slots=True)
class Bucket:
    """What is left, and since when. Times are of one monotonic clock, in seconds."""

    left: float
    at: float

    def fill(self, rates: Rates, now: float) -> None:
        """What time has brought since it was last looked at."""
        self.left = min(self.left + (now - self.at) * rates.per_second, float(rates.burst))
        self.at = now

    def take(self, rates: Rates, now: float) -> float:
        """Take one; 0, or the seconds after which there is one again, where there is none."""
        self.fill(rates, now)
        if self.left < 1:
            return (1 - self.left) / rates.per_second
        self.left -= 1
        return 0.0


class Failures:
    """How often an address presented a token that is worth nothing."""

    def __init__(self, rates: Rates) -> None:
        self._rates = rates
        self._buckets: OrderedDict[str, Bucket] = OrderedDict()

    def wait(self, address: str, now: float) -> float:
        """The seconds for which that address is not to be heard; 0 where it is."""
        bucket = self._buckets.get(address)
        if bucket is None:
            return 0.0
        bucket.fill(self._rates, now)
        return 0.0 if bucket.left >= 1 else (1 - bucket.left) / self._rates.per_second

    def count(self, address: str, now: float) -> None:
        """It failed once more."""
        bucket = self._buckets.setdefault(address, Bucket(float(self._rates.burst), now))
        bucket.take(self._rates, now)
        self._buckets.move_to_end(address)
        while len(self._buckets) > _MOST:
            self._buckets.popitem(last=False)


def address_of(host: str) -> str:
    """What failures of an address count for: with IPv6 for its /64, which one machine has for itself."""
    if ":" not in host:
        return host
    try:
        return str(ipaddress.IPv6Network((host.partition("%")[0], 64), strict=False))
    except ValueError:
        return host
