"""Facts of a host, such as names, addresses, disks and memory, each with its place. Pure."""

import re
from collections.abc import Mapping
from ipaddress import ip_interface, ip_network
from typing import Final

import msgspec

from service_record.diagnosis.evidence.log_lines import LinePlace

MAX_FACTS: Final = 2_000  # of one name
_NUMBER: Final = re.compile(r"\d{1,18}")


class KnownFact(msgspec.Struct, frozen=True):
    """One value, its subject and its place."""

    value: str
    place: LinePlace
    of: str = ""
    """The interface, disk or mount point that the value belongs to."""

    @property
    def number(self) -> int | None:
        """Return the value as a number; None if it is not a whole number of at most 18 digits."""
        return int(self.value) if _NUMBER.fullmatch(self.value) else None


class KnownFacts(msgspec.Struct, frozen=True):
    """Name -> facts of that name, in the order of the files. docs/cause-rules.md lists the names."""

    values: Mapping[str, tuple[KnownFact, ...]] = msgspec.field(default_factory=dict)

    def all(self, name: str) -> tuple[KnownFact, ...]:
        """Return all facts with that name; empty if there are none."""
        return self.values.get(name, ())

    def first(self, name: str) -> KnownFact | None:
        """Return the first fact with that name, or None."""
        return next(iter(self.all(name)), None)

    def with_facts(self, name: str, facts: tuple[KnownFact, ...]) -> "KnownFacts":
        """Return a copy in which `facts` replace the facts with that name. No facts: no change."""
        return KnownFacts({**self.values, name: facts}) if facts else self


FACT_NAMES: Final = frozenset(
    {
        *("hostname", "nameserver", "search", "nsswitch-hosts", "api-name", "link", "mtu"),
        *("address", "duplicate-address", "route", "default-route", "cluster-network", "service-network"),
        *("cmdline", "live-medium", "module", "memory-kb", "available-kb", "swap-kb"),
        *("block", "mounted", "unmounted", "mount-device", "full", "sync-ms"),
        *("chrony-leap", "chrony-source", "chrony-selected", "clock-synchronized", "ntp"),
        *("deployment", "os", "secure-boot", "cgroup", "selinux", "boot-entry", "boot-current", "boot-order"),
        *("boots", "failed-unit", "container", "image", "hardware", "package", "program", "kernel"),
        *("certificate-start", "certificate-end", "certificate-name"),
    }
)


def is_address_in(address: str, network: str) -> bool:
    """Return True if an address is in a network; False if either text is invalid."""
    try:
        return ip_interface(address).ip in ip_network(network, strict=False)
    except ValueError:
        return False
