"""Facts of a host: names, addresses, disks, memory, time; each with its place. Pure."""

import re
from collections.abc import Mapping
from ipaddress import ip_interface, ip_network
from typing import Final

import msgspec

from service_record.diagnosis.evidence.log_lines import LinePlace

_NUMBER: Final = re.compile(r"\d{1,18}")


class KnownFact(msgspec.Struct, frozen=True):
    """One value, what it is of, and where it stands."""

    value: str
    place: LinePlace
    of: str = ""
    """The interface, disk or mount point that it is of."""

    @property
    def number(self) -> int | None:
        """Return the value as a number; None where it is none that a host can have."""
        return int(self.value) if _NUMBER.fullmatch(self.value) else None


class KnownFacts(msgspec.Struct, frozen=True):
    """Name -> facts of that name, in the order of the files. docs/analyze.md lists the names."""

    values: Mapping[str, tuple[KnownFact, ...]] = msgspec.field(default_factory=dict)

    def all(self, name: str) -> tuple[KnownFact, ...]:
        """Return every fact of that name; empty where nothing is known."""
        return self.values.get(name, ())

    def first(self, name: str) -> KnownFact | None:
        """Return the first fact of that name."""
        return next(iter(self.all(name)), None)

    def having(self, name: str, facts: tuple[KnownFact, ...]) -> "KnownFacts":
        """Return the same with these facts of that name."""
        return KnownFacts({**self.values, name: facts}) if facts else self


FACT_NAMES: Final = frozenset(
    {
        *("hostname", "nameserver", "search", "nsswitch-hosts", "api-name", "link", "mtu"),
        *("address", "duplicate-address", "route", "default-route", "cluster-network", "service-network"),
        *("cmdline", "live-medium", "module", "memory-kb", "available-kb", "swap-kb"),
        *("block", "mounted", "full", "sync-ms"),
        *("chrony-leap", "chrony-source", "chrony-selected", "clock-synchronized", "ntp"),
        *("deployment", "os", "secure-boot", "cgroup", "selinux", "boot-entry", "boot-current", "boot-order"),
        *("boots", "failed-unit", "container", "image", "hardware", "package", "program", "kernel"),
        *("certificate-start", "certificate-end", "certificate-name"),
    }
)


def lies_in(address: str, network: str) -> bool:
    """Return whether an address is in a network; False for what is neither."""
    try:
        return ip_interface(address).ip in ip_network(network, strict=False)
    except ValueError:
        return False
