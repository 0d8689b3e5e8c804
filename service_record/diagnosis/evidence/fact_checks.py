"""Checks of facts against each other, and of numbers in lines: trouble that no words tell. Pure."""

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final

import msgspec

from service_record.diagnosis.evidence.known_facts import KnownFact, KnownFacts, lies_in
from service_record.diagnosis.evidence.log_lines import LinePlace
from service_record.history import History
from service_record.history.outcome import Outcome


class Finding(msgspec.Struct, frozen=True):
    """A check's finding: values for the texts of a rule, and the fact that shows it."""

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
    """Find a network device of a host that has no address but those of loopback devices and links."""
    links = [fact for fact in facts.all("link") if "LOOPBACK" not in fact.value and not _is_overlay(fact.of)]
    if links and not facts.all("address"):
        yield Finding.by(links[0], f"{links[0].of}: <{links[0].value}>", interface=links[0].of)


def name_servers_without_route(facts: KnownFacts, _: History) -> Iterator[Finding]:
    """Find the name servers of a host, if its routes lead to none of them."""
    routes = [fact.value for fact in facts.all("route")]
    if not routes or not facts.all("address"):
        return  # its routes were not read
    networks = routes + [fact.value for fact in facts.all("address")]
    has_default = {":" in fact.value for fact in facts.all("default-route")}
    servers = facts.all("nameserver")
    is_reachable = (
        (":" in server.value) in has_default
        or server.value.startswith("127.")
        or any("/" in network and lies_in(server.value, network) for network in networks)
        for server in servers
    )
    if servers and not any(is_reachable):
        server = servers[0]
        yield Finding.by(server, f"nameserver {server.value}", server=server.value)


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


ROLES: Final = ("bootstrap", "control-plane", "node", "live")
"""The roles of hosts: `live` runs from an installation medium, `node` has a kubelet and is no bootstrap
host.
"""
_BOOTSTRAPPING: Final = frozenset({"approve-csr", "bootkube", "crio-configure", "release-image"})
_OF_CONTROL_PLANES: Final = frozenset({"etcd", "kube-apiserver", "kube-controller-manager"})
_CONTROL_PLANES: Final = frozenset({"k3s", "k3s-server", "kubeadm-init", "rke2-server"})
_KUBELETS: Final = frozenset({"k3s-agent", "kubeadm-join", "kubelet", "rke2-agent"})


def roles_of(facts: KnownFacts, history: History) -> frozenset[str]:
    """Return which of ROLES a host has, by what it runs; none where that is not known."""
    services = {service.name for service in history.services}
    containers = {fact.value for fact in facts.all("container")}
    is_bootstrap = bool(services & _BOOTSTRAPPING)
    is_control_plane = bool(services & _CONTROL_PLANES or containers & _OF_CONTROL_PLANES)
    has = {
        "bootstrap": is_bootstrap,
        "control-plane": is_control_plane and not is_bootstrap,
        "node": bool(services & (_CONTROL_PLANES | _KUBELETS)) and not is_bootstrap,
        "live": facts.first("live-medium") is not None,
    }
    return frozenset(role for role, holds in has.items() if holds)


_LEAST_MEMORY_KB: Final = {"bootstrap": 7_500_000, "control-plane": 7_500_000, "": 4_000_000}
"""Role -> below it such a host does not get far. OpenShift asks for 16 GiB, half of which can do."""


def too_little_memory(facts: KnownFacts, history: History) -> Iterator[Finding]:
    """Find less memory than the role of a host of OpenShift needs, or than any node of it does."""
    fact = facts.first("memory-kb")
    total = fact.number if fact is not None else None
    if fact is None or total is None:
        return
    roles = roles_of(facts, history)
    is_small = any(service.name.startswith(("k3s", "kubeadm", "rke2")) for service in history.services)
    role = "" if is_small else next((role for role in ("bootstrap", "control-plane") if role in roles), "")
    if total < _LEAST_MEMORY_KB[role] and not is_small:
        yield Finding.by(
            fact,
            f"MemTotal: {total} kB",
            memory=f"{total // 1024} MiB",
            role=f"a {role} host" if role else "a node",
        )


_LEAST_IN_ROW: Final = 4
"""Lengths of boots. A healthy installation boots four times: the medium, and up to three systems."""
_SHORT_BOOT: Final = timedelta(minutes=20)


def boots_repeat(facts: KnownFacts, _: History) -> Iterator[Finding]:
    """Find boots that each lasted no longer than twenty minutes: the latest ones, five or more in a row."""
    boots = facts.all("boots")
    times = [datetime.fromisoformat(fact.value) for fact in boots]
    row = 0
    for before, after in reversed(list(pairwise(times))):
        if not timedelta() <= after - before <= _SHORT_BOOT:
            break
        row += 1
    if row >= _LEAST_IN_ROW:
        span = times[-1] - times[-1 - row]
        minutes = f"{max(round(span.total_seconds() / 60), 1)} minutes"
        yield Finding.by(boots[-1], f"{row + 1} boots in {minutes}", count=str(row + 1), span=minutes)


_SLOW_SYNC_MS: Final = 20.0


def disk_syncs_slowly(facts: KnownFacts, _: History) -> Iterator[Finding]:
    """Find a disk of which fio says that one sync in a hundred takes twice as long as etcd can bear."""
    for fact in facts.all("sync-ms"):
        if float(fact.value) > _SLOW_SYNC_MS:
            yield Finding.by(fact, f"99th percentile of a sync: {fact.value} ms", took=f"{fact.value} ms")


def _now(history: History) -> datetime | None:
    """Return the time of the latest entry, by the clock of the host."""
    times = (run.last_entry for service in history.services for run in service.runs)
    return max((time for time in times if time is not None), default=None)


def _latest_certificates(facts: KnownFacts) -> dict[str, dict[str, KnownFact]]:
    """Return the dates of certificates by their file; of some that replace each other, of the latest."""
    dates: dict[tuple[str, str], dict[str, KnownFact]] = {}
    for name in ("certificate-start", "certificate-end"):
        for fact in facts.all(name):
            dates.setdefault((fact.place.path, fact.of), {})[name] = fact
    latest: dict[str, dict[str, KnownFact]] = {}
    for (path, _), both in sorted(dates.items(), key=lambda item: item[1]["certificate-start"].value):
        latest[re.sub(r"[0-9]+(?:[-_][0-9]+)+|current", "", path)] = both
    return latest


def certificate_ended(facts: KnownFacts, history: History) -> Iterator[Finding]:
    """Find a certificate that was no longer good when the host last said something."""
    certificates = _latest_certificates(facts)
    now = _now(history) if certificates else None  # looks at every run
    for both in certificates.values():
        end = both["certificate-end"]
        if now is not None and datetime.fromisoformat(end.value) < now:
            yield _of_certificate(end, "notAfter")


def certificate_not_yet_good(facts: KnownFacts, history: History) -> Iterator[Finding]:
    """Find a certificate that was not good yet when the host last said something: its clock is behind."""
    certificates = _latest_certificates(facts)
    now = _now(history) if certificates else None  # looks at every run
    for both in certificates.values():
        start = both["certificate-start"]
        if now is not None and datetime.fromisoformat(start.value) > now:
            yield _of_certificate(start, "notBefore")


def _of_certificate(fact: KnownFact, what: str) -> Finding:
    file = fact.place.path.rpartition("/")[2]
    date = fact.value.replace("+00:00", "Z")
    return Finding.by(fact, f"{what}: {date}", certificate=file, date=date)


def certificate_without_api_name(facts: KnownFacts, _: History) -> Iterator[Finding]:
    """Find a name of the API for which none of the certificates is that are for such a name."""
    for name in {fact.value: fact for fact in facts.all("api-name")}.values():
        kind = name.value.partition(".")[0]
        others = [fact for fact in facts.all("certificate-name") if fact.value.partition(".")[0] == kind]
        is_for_it = any(_is_for(fact.value, name.value) for fact in facts.all("certificate-name"))
        if others and not is_for_it:
            names = ", ".join(dict.fromkeys(fact.value for fact in others))
            yield Finding.by(others[0], f"DNS:{names}", api=name.value, names=names)


def _is_for(pattern: str, name: str) -> bool:
    if pattern.startswith("*."):
        return pattern[1:].lower() == f".{name.partition('.')[2]}".lower()
    return pattern.lower() == name.lower()


def swap_is_on(facts: KnownFacts, _: History) -> Iterator[Finding]:
    """Find swap space in use."""
    for fact in facts.all("swap-kb"):
        if kilobytes := fact.number:
            yield Finding.by(fact, f"SwapTotal: {fact.value} kB", swap=f"{kilobytes // 1024} MiB")


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
"""Name, as rules call it -> check. What a check finds is a cause only where a rule says so."""


Values = Mapping[str, str]
_LEAST_IMAGE_BYTES: Final = 5_000_000
"""Smaller images say more of how long a request takes than of how fast bytes come."""
_LEAST_RATE: Final = 1.0
"""MB/s."""
_PART_OF_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(h|ms|m|s)")
_SECONDS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


def seconds_in(duration: str) -> float:
    """Return the seconds of a duration as Go prints it: `2m3.5s`, `812ms`."""
    return sum(float(number) * _SECONDS[unit] for number, unit in _PART_OF_DURATION.findall(duration))


def slow_pull(values: Values) -> Values | None:
    """Return the rate at which an image came, from `bytes` and what it `took`; None where that will do."""
    size, seconds = float(values.get("bytes", 0)), seconds_in(values.get("took", ""))
    if size < _LEAST_IMAGE_BYTES or not seconds or size / seconds / 1e6 >= _LEAST_RATE:
        return None
    return {"rate": f"{size / seconds / 1e6:.1f}"}


def slow_probe(values: Values) -> Values | None:
    """Return nothing more where a sync took longer than 20 `ms`, as the installer measures it; else None."""
    return {} if float(values.get("ms", 0)) > _SLOW_SYNC_MS else None


class Measure(msgspec.Struct, frozen=True):
    """A test of the numbers that the named groups of a pattern found."""

    of: Callable[[Values], Values | None]
    groups: tuple[str, ...]
    values: tuple[str, ...] = ()
    """Further values to fill in."""


MEASURES: Final[Mapping[str, Measure]] = {
    "slow-pull": Measure(slow_pull, ("bytes", "took"), ("rate",)),
    "slow-probe": Measure(slow_probe, ("ms",)),
}
"""Name, as rules call it -> measure."""
