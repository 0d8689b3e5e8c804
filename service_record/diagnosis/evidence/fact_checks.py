"""Checks of facts against each other: trouble that no line tells. Each has a test. Pure."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import msgspec

from service_record.diagnosis.evidence.known_facts import KnownFact, KnownFacts, lies_in
from service_record.diagnosis.evidence.log_lines import LinePlace
from service_record.history import History
from service_record.history.outcome import Outcome


class Finding(msgspec.Struct, frozen=True):
    """What a check found: values for the texts of a rule, and the fact that shows it."""

    values: Mapping[str, str] = msgspec.field(default_factory=dict)
    line: str | None = None
    place: LinePlace | None = None

    @classmethod
    def by(cls, fact: KnownFact, line: str, **values: str) -> "Finding":
        """Return a finding that a fact shows, told as this line."""
        return cls(values, line, fact.place)


class Check(msgspec.Struct, frozen=True):
    """A check, and the values that its findings may have."""

    find: Callable[[KnownFacts, History], Iterator[Finding]]
    values: tuple[str, ...] = ()


_OVERLAYS: Final = (
    "tun",
    "ovn-k8s",
    "cni",
    "flannel",
    "cilium",
    "br0",
    "genev",
    "vxlan",
    "cali",
    "podman",
    "docker",
)


def _is_overlay(device: str) -> bool:
    return device.startswith(_OVERLAYS)


def name_server_in_cluster_network(facts: KnownFacts, _: History) -> Iterator[Finding]:
    """Find a name server that lies in a network of the pods or services, which hides it."""
    networks = [fact.value for fact in facts.all("route") if _is_overlay(fact.of)]
    networks += [fact.value for name in ("cluster-network", "service-network") for fact in facts.all(name)]
    for server in facts.all("nameserver"):
        inside = next(
            (network for network in networks if "/" in network and lies_in(server.value, network)), None
        )
        if inside is not None:
            yield Finding.by(server, f"nameserver {server.value}", server=server.value, network=inside)


def wrong_boot_medium(facts: KnownFacts, history: History) -> Iterator[Finding]:
    """Find an installation to disk that succeeded in an earlier boot, while this boot runs from a medium."""
    medium = facts.first("live-medium")
    if medium is None or len(history.boots) < 2:  # noqa: PLR2004  # one before this one
        return
    for service in history.services:
        for run in service.runs:
            if run.boot_id != history.latest_boot and _has_installed(service.name, run.outcome):
                yield Finding.by(medium, medium.value, medium=medium.value, installer=service.name)
                return


_INSTALLERS: Final = ("install-to-disk", "coreos-installer", "start-cluster-installation", "install")


def _has_installed(service: str, outcome: Outcome) -> bool:
    return service in _INSTALLERS and outcome is Outcome.SUCCESS


def runs_from_target_disk(facts: KnownFacts, _: History) -> Iterator[Finding]:
    """Find the disk that this host runs from, where it did not boot from a medium."""
    if facts.first("live-medium") is not None or facts.first("cmdline") is None:
        return
    for mount in facts.all("mounted"):
        if mount.value in {"/sysroot", "/"} and mount.of:
            yield Finding.by(
                mount, f"{mount.value} is mounted from {mount.of}", disk=mount.of, mount=mount.value
            )


def one_default_route_of_two_families(facts: KnownFacts, _: History) -> Iterator[Finding]:
    """Find addresses of both families, and a default route of only one."""
    addresses = [fact for fact in facts.all("address") if not _is_overlay(fact.of)]
    routes = facts.all("default-route")
    if not routes or not (facts.all("route") or addresses):
        return
    has = {
        family: any((":" in route.value) == (family == "IPv6") for route in routes)
        for family in ("IPv4", "IPv6")
    }
    for family, other in (("IPv4", "IPv6"), ("IPv6", "IPv4")):
        evidence = [fact for fact in addresses if (":" in fact.value) == (family == "IPv6")]
        evidence += [
            fact for fact in facts.all("route") if _is_global(fact.value, family) and not _is_overlay(fact.of)
        ]
        if evidence and not has[family] and has[other]:
            yield Finding.by(
                evidence[0], f"{evidence[0].value} dev {evidence[0].of}", family=family, other=other
            )


def _is_global(route: str, family: str) -> bool:
    if family == "IPv4":
        return ":" not in route and not route.startswith(("127.", "169.254.", "224."))
    return ":" in route and not route.lower().startswith(("fe80", "ff", "::"))


def no_address(facts: KnownFacts, _: History) -> Iterator[Finding]:
    """Find a host of which no interface has an address beside the loopback's."""
    links = [link for link in facts.all("link") if link.of != "lo"]
    if links and not facts.all("address"):
        link = links[0]
        yield Finding.by(link, f"{link.of}: no address", interface=link.of)


def no_time_source(facts: KnownFacts, _: History) -> Iterator[Finding]:
    """Find a clock that is not synchronised, and no source that it could be synchronised with."""
    leap = facts.first("chrony-leap")
    if leap is not None and leap.value == "Not synchronised" and not facts.all("chrony-selected"):
        yield Finding.by(leap, f"Leap status: {leap.value}")


def overlay_mtu(facts: KnownFacts, _: History) -> Iterator[Finding]:
    """Find an overlay whose MTU is above that of every link it can run over."""
    over = [
        fact
        for fact in facts.all("mtu")
        if fact.of.startswith(("tun", "ovn-k8s", "flannel", "vxlan", "cilium"))
    ]
    names = {route.of for route in facts.all("default-route")}
    under = [int(fact.value) for fact in facts.all("mtu") if fact.of in names]
    for fact in over:
        if under and int(fact.value) > max(under):
            yield Finding.by(
                fact, f"{fact.of}: mtu {fact.value}", interface=fact.of, mtu=fact.value, link=str(max(under))
            )


def hostname_is_localhost(facts: KnownFacts, _: History) -> Iterator[Finding]:
    """Find a host that is called localhost."""
    name = facts.first("hostname")
    if name is not None and name.value.partition(".")[0] == "localhost":
        yield Finding.by(name, name.value, hostname=name.value)


def hostname_has_etcd(facts: KnownFacts, _: History) -> Iterator[Finding]:
    """Find a hostname with `etcd` in it, which the etcd operator takes for its own."""
    name = facts.first("hostname")
    if name is not None and "etcd" in name.value:
        yield Finding.by(name, name.value, hostname=name.value)


def two_deployments_of_other_systems(facts: KnownFacts, _: History) -> Iterator[Finding]:
    """Find more than one image reference among the deployments of ostree."""
    refs = {fact.value.rpartition("@")[0] or fact.value: fact for fact in facts.all("deployment")}
    if len(refs) > 1:
        fact = next(iter(refs.values()))
        yield Finding.by(fact, ", ".join(refs), refs=", ".join(refs))


_LEAST_MEMORY_KB: Final = 4_000_000
"""Below it no node of OpenShift comes up; a bootstrap host or control plane needs 16 GiB."""


def too_little_memory(facts: KnownFacts, _: History) -> Iterator[Finding]:
    """Find less memory than any node needs."""
    total, fact = facts.number("memory-kb"), facts.first("memory-kb")
    if fact is not None and total is not None and total < _LEAST_MEMORY_KB:
        yield Finding.by(fact, f"MemTotal: {total} kB", memory=f"{total // 1024} MiB")


def swap_is_on(facts: KnownFacts, _: History) -> Iterator[Finding]:
    """Find swap space in use."""
    for fact in facts.all("swap-kb"):
        if fact.value.isdecimal() and int(fact.value) > 0:
            yield Finding.by(fact, f"SwapTotal: {fact.value} kB", swap=f"{int(fact.value) // 1024} MiB")


def disk_is_full(facts: KnownFacts, _: History) -> Iterator[Finding]:
    """Find a file system without space."""
    for fact in facts.all("full"):
        yield Finding.by(fact, f"{fact.of}: {fact.value} used", directory=fact.of)


def no_memory_cgroup(facts: KnownFacts, _: History) -> Iterator[Finding]:
    """Find a kernel command line that disables the memory cgroup."""
    fact = facts.first("cmdline")
    if fact is not None and "cgroup_disable=memory" in fact.value.split():
        yield Finding.by(fact, "cgroup_disable=memory")


CHECKS: Final[Mapping[str, Check]] = {
    "name-server-in-cluster-network": Check(name_server_in_cluster_network, ("server", "network")),
    "wrong-boot-medium": Check(wrong_boot_medium, ("medium", "installer")),
    "runs-from-target-disk": Check(runs_from_target_disk, ("disk", "mount")),
    "one-default-route-of-two-families": Check(one_default_route_of_two_families, ("family", "other")),
    "no-address": Check(no_address, ("interface",)),
    "no-time-source": Check(no_time_source),
    "overlay-mtu": Check(overlay_mtu, ("interface", "mtu", "link")),
    "hostname-is-localhost": Check(hostname_is_localhost, ("hostname",)),
    "hostname-has-etcd": Check(hostname_has_etcd, ("hostname",)),
    "two-deployments": Check(two_deployments_of_other_systems, ("refs",)),
    "too-little-memory": Check(too_little_memory, ("memory",)),
    "swap-is-on": Check(swap_is_on, ("swap",)),
    "disk-is-full": Check(disk_is_full, ("directory",)),
    "no-memory-cgroup": Check(no_memory_cgroup),
}
"""Name, as rules call it -> check. What a check finds is a cause only where a rule says so."""
