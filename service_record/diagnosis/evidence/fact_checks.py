"""Checks that compare facts with each other, and tests of numbers in lines. Pure.

They find problems for which no program logs an error.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from ipaddress import ip_interface, ip_network
from itertools import pairwise
from typing import Final

import msgspec

from service_record.diagnosis.evidence.facts import KnownFact, KnownFacts
from service_record.diagnosis.evidence.log_lines import LinePlace
from service_record.history import History
from service_record.history.outcome import Outcome


class Finding(msgspec.Struct, frozen=True):
    """The result of a check: values for the texts of a rule, and the line and place of the proof."""

    values: Mapping[str, str] = msgspec.field(default_factory=dict)
    line: str | None = None
    place: LinePlace | None = None

    @classmethod
    def from_fact(cls, fact: KnownFact, line: str, **values: str) -> "Finding":
        """Return a finding that is proven by a fact and shown as `line`."""
        return cls(values, line, fact.place)


class Check(msgspec.Struct, frozen=True):
    """A check, and the names of the values in its findings."""

    find: Callable[[KnownFacts, History], Iterator[Finding]]
    values: tuple[str, ...] = ()


_OVERLAY_DEVICES: Final = (
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
    """Return True for a device of a pod network, a container engine or a tunnel."""
    return device.startswith(_OVERLAY_DEVICES)


def is_address_in(address: str, network: str) -> bool:
    """Return True if an address is in a network; False if either text is invalid."""
    try:
        return ip_interface(address).ip in ip_network(network, strict=False)
    except ValueError:
        return False


def name_server_in_cluster_network(facts: KnownFacts, _: History) -> Iterator[Finding]:
    """Find a name server with an address in the pod or service network, which makes it unreachable."""
    networks = [fact.value for fact in facts.all("route") if _is_overlay(fact.of)]
    networks += [fact.value for name in ("cluster-network", "service-network") for fact in facts.all(name)]
    for server in facts.all("nameserver"):
        inside = next(
            (network for network in networks if "/" in network and is_address_in(server.value, network)),
            None,
        )
        if inside is not None:
            yield Finding.from_fact(server, f"nameserver {server.value}", server=server.value, network=inside)


def wrong_boot_medium(facts: KnownFacts, history: History) -> Iterator[Finding]:
    """Find a host that boots the installation medium again after it was installed in an earlier boot."""
    medium = facts.first("live-medium")
    if medium is None or len(history.boots) < 2:  # noqa: PLR2004  # an earlier boot and this one
        return
    for service in history.services:
        for run in service.runs:
            if run.boot_id != history.latest_boot and _has_installed(service.name, run.outcome):
                yield Finding.from_fact(medium, medium.value, medium=medium.value, installer=service.name)
                return


_INSTALL_SERVICES: Final = ("install-to-disk", "coreos-installer", "start-cluster-installation", "install")


def _has_installed(service: str, outcome: Outcome) -> bool:
    return service in _INSTALL_SERVICES and outcome is Outcome.SUCCESS


def runs_from_target_disk(facts: KnownFacts, _: History) -> Iterator[Finding]:
    """Find the disk that this host runs from, if it did not boot from an installation medium."""
    if facts.first("live-medium") is not None or facts.first("cmdline") is None:
        return
    for mount in facts.all("mounted"):
        if mount.value in {"/sysroot", "/"} and mount.of:
            yield Finding.from_fact(
                mount, f"{mount.value} is mounted from {mount.of}", disk=mount.of, mount=mount.value
            )


def one_default_route_of_two_families(facts: KnownFacts, _: History) -> Iterator[Finding]:
    """Find addresses of both IP families, but a default route for only one."""
    addresses = [fact for fact in facts.all("address") if not _is_overlay(fact.of)]
    routes = facts.all("default-route")
    has = {family: any(_may_be_of(route, family) for route in routes) for family in ("IPv4", "IPv6")}
    for family, other in (("IPv4", "IPv6"), ("IPv6", "IPv4")):
        evidence = [fact for fact in addresses if (":" in fact.value) == (family == "IPv6")]
        evidence += [
            fact for fact in facts.all("route") if _is_global(fact.value, family) and not _is_overlay(fact.of)
        ]
        if evidence and not has[family] and has[other]:
            yield Finding.from_fact(
                evidence[0], f"{evidence[0].value} dev {evidence[0].of}", family=family, other=other
            )


def _may_be_of(route: KnownFact, family: str) -> bool:
    """Return True if a default route may be of the family. Without a gateway, its family is unknown."""
    return route.value == "default" or (":" in route.value) == (family == "IPv6")


def _is_global(route: str, family: str) -> bool:
    """Return True for a route of the family that is not loopback, link-local or multicast."""
    if family == "IPv4":
        return ":" not in route and not route.startswith(("127.", "169.254.", "224."))
    return ":" in route and not route.lower().startswith(("fe80", "ff", "::"))


def no_address(facts: KnownFacts, _: History) -> Iterator[Finding]:
    """Find a host without any global address. The finding names its first network device."""
    links = [fact for fact in facts.all("link") if "LOOPBACK" not in fact.value and not _is_overlay(fact.of)]
    if links and not facts.all("address"):
        yield Finding.from_fact(links[0], f"{links[0].of}: <{links[0].value}>", interface=links[0].of)


def name_servers_without_route(facts: KnownFacts, _: History) -> Iterator[Finding]:
    """Find a host without a route to any of its name servers. The finding names the first one."""
    routes = [fact.value for fact in facts.all("route")]
    if not routes or not facts.all("address"):
        return  # routes or addresses were not collected
    networks = routes + [fact.value for fact in facts.all("address")]
    defaults = facts.all("default-route")
    servers = facts.all("nameserver")
    is_reachable = (
        any(_may_be_of(route, "IPv6" if ":" in server.value else "IPv4") for route in defaults)
        or server.value.startswith("127.")
        or server.value == "::1"
        or server.value in networks  # `ip route` prints a route to one host without a prefix
        or any("/" in network and is_address_in(server.value, network) for network in networks)
        for server in servers
    )
    if servers and not any(is_reachable):
        server = servers[0]
        yield Finding.from_fact(server, f"nameserver {server.value}", server=server.value)


def no_time_source(facts: KnownFacts, _: History) -> Iterator[Finding]:
    """Find a chrony that is not synchronised and has not selected a source."""
    leap = facts.first("chrony-leap")
    if leap is not None and leap.value == "Not synchronised" and not facts.all("chrony-selected"):
        yield Finding.from_fact(leap, f"Leap status: {leap.value}")


def overlay_mtu(facts: KnownFacts, _: History) -> Iterator[Finding]:
    """Find an overlay device with a larger MTU than every device with a default route."""
    over = [
        fact
        for fact in facts.all("mtu")
        if fact.of.startswith(("tun", "ovn-k8s", "flannel", "vxlan", "cilium"))
    ]
    names = {route.of for route in facts.all("default-route")}
    under = [int(fact.value) for fact in facts.all("mtu") if fact.of in names]
    for fact in over:
        if under and int(fact.value) > max(under):
            yield Finding.from_fact(
                fact, f"{fact.of}: mtu {fact.value}", interface=fact.of, mtu=fact.value, link=str(max(under))
            )


def hostname_is_localhost(facts: KnownFacts, _: History) -> Iterator[Finding]:
    """Find a host with the name localhost."""
    name = facts.first("hostname")
    if name is not None and name.value.partition(".")[0] == "localhost":
        yield Finding.from_fact(name, name.value, hostname=name.value)


def hostname_has_etcd(facts: KnownFacts, _: History) -> Iterator[Finding]:
    """Find a hostname that contains `etcd`: the etcd operator mistakes it for one of its own names."""
    name = facts.first("hostname")
    if name is not None and "etcd" in name.value:
        yield Finding.from_fact(name, name.value, hostname=name.value)


def two_deployments_of_other_systems(facts: KnownFacts, _: History) -> Iterator[Finding]:
    """Find ostree deployments of different images."""
    refs = {fact.value.rpartition("@")[0] or fact.value: fact for fact in facts.all("deployment")}
    if len(refs) > 1:
        fact = next(iter(refs.values()))
        yield Finding.from_fact(fact, ", ".join(refs), refs=", ".join(refs))


ROLES: Final = ("bootstrap", "control-plane", "node", "live")
"""`live`: runs from an installation medium. `node`: has a kubelet and is not a bootstrap host."""
_BOOTSTRAP_SERVICES: Final = frozenset({"approve-csr", "bootkube", "crio-configure", "release-image"})
_CONTROL_PLANE_CONTAINERS: Final = frozenset({"etcd", "kube-apiserver", "kube-controller-manager"})
_CONTROL_PLANE_SERVICES: Final = frozenset({"k3s", "k3s-server", "kubeadm-init", "rke2-server"})
_NODE_SERVICES: Final = frozenset({"k3s-agent", "kubeadm-join", "kubelet", "rke2-agent"})


def find_roles(facts: KnownFacts, history: History) -> frozenset[str]:
    """Return the ROLES of a host, judged by its services and containers; empty if they are unknown."""
    services = {service.name for service in history.services}
    containers = {fact.value for fact in facts.all("container")}
    is_bootstrap = bool(services & _BOOTSTRAP_SERVICES)
    is_control_plane = bool(services & _CONTROL_PLANE_SERVICES or containers & _CONTROL_PLANE_CONTAINERS)
    has = {
        "bootstrap": is_bootstrap,
        "control-plane": is_control_plane and not is_bootstrap,
        "node": bool(services & (_CONTROL_PLANE_SERVICES | _NODE_SERVICES)) and not is_bootstrap,
        "live": facts.first("live-medium") is not None,
    }
    return frozenset(role for role, holds in has.items() if holds)


_LEAST_MEMORY_KB: Final = {"bootstrap": 7_500_000, "control-plane": 7_500_000, "": 4_000_000}
"""Role -> the memory below which an installation fails. OpenShift requires 16 GiB, but half can suffice."""


def too_little_memory(facts: KnownFacts, history: History) -> Iterator[Finding]:
    """Find a host with too little memory for its role in OpenShift or, without a known role, for any node."""
    fact = facts.first("memory-kb")
    total = fact.number if fact is not None else None
    if fact is None or total is None:
        return
    roles = find_roles(facts, history)
    is_small = any(service.name.startswith(("k3s", "kubeadm", "rke2")) for service in history.services)
    role = "" if is_small else next((role for role in ("bootstrap", "control-plane") if role in roles), "")
    if total < _LEAST_MEMORY_KB[role] and not is_small:
        yield Finding.from_fact(
            fact,
            f"MemTotal: {total} kB",
            memory=f"{total // 1024} MiB",
            role=f"a {role} host" if role else "a node",
        )


_LEAST_SHORT_INTERVALS: Final = 4
"""Four intervals are five boots. A healthy installation has four: the medium, and up to three systems."""
_SHORT_BOOT: Final = timedelta(minutes=20)


def boots_repeat(facts: KnownFacts, _: History) -> Iterator[Finding]:
    """Find a host whose latest boots, five or more, each began at most 20 minutes after the one before."""
    boots = facts.all("boots")
    times = [datetime.fromisoformat(fact.value) for fact in boots]
    row = 0
    for before, after in reversed(list(pairwise(times))):
        if not timedelta() <= after - before <= _SHORT_BOOT:
            break
        row += 1
    if row >= _LEAST_SHORT_INTERVALS:
        span = times[-1] - times[-1 - row]
        minutes = f"{max(round(span.total_seconds() / 60), 1)} minutes"
        yield Finding.from_fact(boots[-1], f"{row + 1} boots in {minutes}", count=str(row + 1), span=minutes)


_SLOW_SYNC_MS: Final = 20.0
"""Twice the 10 ms that etcd recommends for the 99th percentile."""


def disk_syncs_slowly(facts: KnownFacts, _: History) -> Iterator[Finding]:
    """Find a disk whose 99th percentile of sync times, measured by fio, is above `_SLOW_SYNC_MS`."""
    for fact in facts.all("sync-ms"):
        if float(fact.value) > _SLOW_SYNC_MS:
            yield Finding.from_fact(
                fact, f"99th percentile of a sync: {fact.value} ms", took=f"{fact.value} ms"
            )


def _latest_entry_time(history: History) -> datetime | None:
    """Return the time of the latest entry in the records: the present of the host."""
    times = (run.last_entry for service in history.services for run in service.runs)
    return max((time for time in times if time is not None), default=None)


def _latest_certificates(facts: KnownFacts) -> dict[str, dict[str, KnownFact]]:
    """Return the start and end of each certificate. Of rotated files, only the latest one counts.

    The paths of rotated files differ only in a date or the word `current`.
    """
    dates: dict[tuple[str, str], dict[str, KnownFact]] = {}
    for name in ("certificate-start", "certificate-end"):
        for fact in facts.all(name):
            dates.setdefault((fact.place.path, fact.of), {})[name] = fact
    latest: dict[str, dict[str, KnownFact]] = {}
    for (path, _), both in sorted(dates.items(), key=lambda item: item[1]["certificate-start"].value):
        latest[re.sub(r"[0-9]+(?:[-_][0-9]+)+|current", "", path)] = both
    return latest


def certificate_ended(facts: KnownFacts, history: History) -> Iterator[Finding]:
    """Find a certificate that had expired at the time of the latest entry."""
    certificates = _latest_certificates(facts)
    now = _latest_entry_time(history) if certificates else None  # slow: reads every run
    for both in certificates.values():
        end = both["certificate-end"]
        if now is not None and datetime.fromisoformat(end.value) < now:
            yield _certificate_finding(end, "notAfter")


def certificate_not_yet_good(facts: KnownFacts, history: History) -> Iterator[Finding]:
    """Find a certificate that was not valid yet at the time of the latest entry: the clock is behind."""
    certificates = _latest_certificates(facts)
    now = _latest_entry_time(history) if certificates else None  # slow: reads every run
    for both in certificates.values():
        start = both["certificate-start"]
        if now is not None and datetime.fromisoformat(start.value) > now:
            yield _certificate_finding(start, "notBefore")


def _certificate_finding(fact: KnownFact, what: str) -> Finding:
    file = fact.place.path.rpartition("/")[2]
    date = fact.value.replace("+00:00", "Z")
    return Finding.from_fact(fact, f"{what}: {date}", certificate=file, date=date)


def certificate_without_api_name(facts: KnownFacts, _: History) -> Iterator[Finding]:
    """Find the name of an API that no certificate covers, although some certificate is for such a name."""
    for name in {fact.value: fact for fact in facts.all("api-name")}.values():
        kind = name.value.partition(".")[0]
        others = [fact for fact in facts.all("certificate-name") if fact.value.partition(".")[0] == kind]
        is_for_it = any(_covers(fact.value, name.value) for fact in facts.all("certificate-name"))
        if others and not is_for_it:
            names = ", ".join(dict.fromkeys(fact.value for fact in others))
            yield Finding.from_fact(others[0], f"DNS:{names}", api=name.value, names=names)


def _covers(pattern: str, name: str) -> bool:
    """Return True if a name in a certificate, perhaps with a wildcard, covers a DNS name."""
    if pattern.startswith("*."):
        return pattern[1:].lower() == f".{name.partition('.')[2]}".lower()
    return pattern.lower() == name.lower()


def swap_is_on(facts: KnownFacts, _: History) -> Iterator[Finding]:
    """Find swap space in use."""
    for fact in facts.all("swap-kb"):
        if kilobytes := fact.number:
            yield Finding.from_fact(fact, f"SwapTotal: {fact.value} kB", swap=f"{kilobytes // 1024} MiB")


def disk_is_full(facts: KnownFacts, _: History) -> Iterator[Finding]:
    """Find a file system without space."""
    for fact in facts.all("full"):
        yield Finding.from_fact(fact, f"{fact.of}: {fact.value} used", directory=fact.of)


def no_memory_cgroup(facts: KnownFacts, _: History) -> Iterator[Finding]:
    """Find a kernel command line that disables the memory cgroup."""
    fact = facts.first("cmdline")
    if fact is not None and "cgroup_disable=memory" in fact.value.split():
        yield Finding.from_fact(fact, "cgroup_disable=memory")


CHECKS: Final[Mapping[str, Check]] = {
    "name-server-in-cluster-network": Check(name_server_in_cluster_network, ("server", "network")),
    "wrong-boot-medium": Check(wrong_boot_medium, ("medium", "installer")),
    "runs-from-target-disk": Check(runs_from_target_disk, ("disk", "mount")),
    "one-default-route-of-two-families": Check(one_default_route_of_two_families, ("family", "other")),
    "no-address": Check(no_address, ("interface",)),
    "name-servers-without-route": Check(name_servers_without_route, ("server",)),
    "no-time-source": Check(no_time_source),
    "overlay-mtu": Check(overlay_mtu, ("interface", "mtu", "link")),
    "hostname-is-localhost": Check(hostname_is_localhost, ("hostname",)),
    "hostname-has-etcd": Check(hostname_has_etcd, ("hostname",)),
    "two-deployments": Check(two_deployments_of_other_systems, ("refs",)),
    "too-little-memory": Check(too_little_memory, ("memory", "role")),
    "boots-repeat": Check(boots_repeat, ("count", "span")),
    "disk-syncs-slowly": Check(disk_syncs_slowly, ("took",)),
    "certificate-ended": Check(certificate_ended, ("certificate", "date")),
    "certificate-not-yet-good": Check(certificate_not_yet_good, ("certificate", "date")),
    "certificate-without-api-name": Check(certificate_without_api_name, ("api", "names")),
    "swap-is-on": Check(swap_is_on, ("swap",)),
    "disk-is-full": Check(disk_is_full, ("directory",)),
    "no-memory-cgroup": Check(no_memory_cgroup),
}
"""Name in rules -> check. A finding becomes a cause only through a rule."""


Values = Mapping[str, str]
_LEAST_IMAGE_BYTES: Final = 5_000_000
"""Pulls of smaller images measure the latency of requests, not the bandwidth."""
_LEAST_MB_PER_SECOND: Final = 1.0
_DURATION_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(h|ms|m|s)")
_SECONDS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


def parse_go_duration(duration: str) -> float:
    """Return the seconds of a duration as Go prints it: `2m3.5s`, `812ms`."""
    return sum(float(number) * _SECONDS[unit] for number, unit in _DURATION_PART.findall(duration))


def slow_pull(values: Values) -> Values | None:
    """Return the `rate` of a pull in MB/s, from `bytes` and `took`; None if it is fast enough."""
    size, seconds = _parse_number(values.get("bytes", "")), parse_go_duration(values.get("took", ""))
    if size < _LEAST_IMAGE_BYTES or not seconds or size / seconds / 1e6 >= _LEAST_MB_PER_SECOND:
        return None
    return {"rate": f"{size / seconds / 1e6:.1f}"}


def slow_probe(values: Values) -> Values | None:
    """Return {} if a sync, as the installer measures it, took longer than `_SLOW_SYNC_MS`; else None."""
    return {} if _parse_number(values.get("ms", "")) > _SLOW_SYNC_MS else None


def _parse_number(text: str) -> float:
    """Return the number in a text, or 0: a pattern in a user's rule may match any text."""
    return float(text) if re.fullmatch(r"[0-9]{1,15}(\.[0-9]{1,15})?", text) else 0.0


class Measure(msgspec.Struct, frozen=True):
    """A test of the numbers in the named groups of a rule's pattern."""

    compute: Callable[[Values], Values | None]
    """Returns more values for the texts of the rule, or None if the test fails."""
    groups: tuple[str, ...]
    """The groups that the pattern must have."""
    values: tuple[str, ...] = ()
    """The names of these values."""


MEASURES: Final[Mapping[str, Measure]] = {
    "slow-pull": Measure(slow_pull, ("bytes", "took"), ("rate",)),
    "slow-probe": Measure(slow_probe, ("ms",)),
}
"""Name in rules -> measure."""
