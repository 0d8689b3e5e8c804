"""Facts of a host, such as names, addresses, disks and memory, and the readers of the files with them. Pure.

`stated_facts` reads the same facts from log lines. Patterns are plain strings: `re` compiles each on first
use, and `analyze` of records alone reads no facts.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any, Final

import msgspec

from service_record.diagnosis.evidence.log_lines import LinePlace
from service_record.diagnosis.evidence.unit_logs import find_mount_point, read_failed_units

_NUMBER: Final = r"\d{1,18}"


class KnownFact(msgspec.Struct, frozen=True):
    """One value, its subject and its place."""

    value: str
    place: LinePlace
    of: str = ""
    """The interface, disk or mount point that the value belongs to."""

    @property
    def number(self) -> int | None:
        """Return the value as a number; None if it is not a whole number of at most 18 digits."""
        return int(self.value) if re.fullmatch(_NUMBER, self.value) else None


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


NamedFact = tuple[str, str, int, str]
"""Name, value, line number and subject; see KnownFact."""
MAX_FACTS: Final = 2_000  # of one name
MAX_FACT_BYTES: Final = 1 << 18  # of one file


def read_facts(texts: Iterable[tuple[str, str, str]]) -> KnownFacts:
    """Return the facts in files. Each file is its path, its name as in `classify_file`, and its text."""
    by_name: dict[str, list[KnownFact]] = {}
    for path, file_name, text in texts:
        read = next((read for pattern, read in _READERS if re.match(pattern, file_name)), None)
        for name, value, line, of in read(text) if read is not None else ():
            facts = by_name.setdefault(name, [])
            if len(facts) < MAX_FACTS:
                facts.append(KnownFact(value, LinePlace(path, line), of))
    return KnownFacts({name: tuple(facts) for name, facts in by_name.items()})


def _number_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the number of each line that is not blank, and the line."""
    return ((number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip())


def _read_lines(fact: str, text: str) -> Iterator[NamedFact]:
    """Yield every line as a value of one fact."""
    return ((fact, line.strip(), number, "") for number, line in _number_lines(text))


def _read_labels(names: Mapping[str, str], text: str) -> Iterator[NamedFact]:
    """Yield the values of lines like `LABEL: VALUE`. `names` maps a label to the name of its fact."""
    for number, line in _number_lines(text):
        label, _, value = map(str.strip, line.partition(":"))
        if label in names and value:
            yield names[label], value, number, ""


def _read_resolver(text: str) -> Iterator[NamedFact]:
    for number, line in _number_lines(text):
        word, *rest = line.split()
        if word == "nameserver" and rest:
            yield "nameserver", rest[0].partition("%")[0], number, ""
        elif word in {"search", "domain"}:
            yield from (("search", one, number, "") for one in rest)


def _read_hostname(text: str) -> Iterator[NamedFact]:
    yield from (("hostname", line.strip(), number, "") for number, line in list(_number_lines(text))[:1])


_LINK: Final = (
    r"\d+: (?P<name>[^:@\s]+)(?:@\S+)?: <(?P<flags>[^>]*)>"
    r"(?:.*? mtu (?P<mtu>\d{1,9})\b)?(?:.*? state (?P<state>\w+))?"
)
_ADDRESS: Final = r"(?:\d+: (?P<name>\S+))?\s+inet6? (?P<address>\S+)(?P<rest>.*)"


def _read_addresses(text: str) -> Iterator[NamedFact]:
    """Yield links and addresses from the output of `ip addr`, with or without `-o` or `-j`."""
    if text.lstrip().startswith("["):
        yield from _read_json_addresses(text)
        return
    name = ""
    for number, line in _number_lines(text):
        if (link := re.match(_LINK, line)) is not None:
            name = link["name"]
            yield "link", link["flags"] + (f",state-{link['state']}" if link["state"] else ""), number, name
            if link["mtu"]:
                yield "mtu", link["mtu"], number, name
        elif (address := re.match(_ADDRESS, line)) is not None:
            name = address["name"] or name
            if "dadfailed" in address["rest"]:
                yield "duplicate-address", address["address"], number, name
            if "scope global" in address["rest"]:
                yield "address", address["address"], number, name


def _read_json_addresses(text: str) -> Iterator[NamedFact]:
    for link in _parse_json_list(text):
        name = str(link.get("ifname", ""))
        flags = [str(flag) for flag in _as_list(link.get("flags"))]
        yield "link", ",".join([*flags, f"state-{link.get('operstate')}"]), _find_line(text, name), name
        if re.fullmatch(r"\d{1,9}", str(link.get("mtu"))):
            yield "mtu", str(link["mtu"]), _find_line(text, name), name
        for one in _only_objects(link.get("addr_info")):
            local = str(one.get("local"))
            address, number = f"{local}/{one.get('prefixlen')}", _find_line(text, local)
            if one.get("dadfailed"):
                yield "duplicate-address", address, number, name
            if one.get("scope") == "global":
                yield "address", address, number, name


def _parse_json_list(text: str) -> list[dict[str, Any]]:
    """Return the objects in a JSON list; empty if the text is something else."""
    try:
        return _only_objects(msgspec.json.decode(text))
    except (msgspec.DecodeError, RecursionError):
        return []


def _only_objects(value: object) -> list[dict[str, Any]]:
    return [one for one in _as_list(value) if isinstance(one, dict)]


def _as_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _find_line(text: str, word: str) -> int:
    """Return the number of the first line that has a word in double quotes; 1 if there is none."""
    return text.count("\n", 0, max(text.find(f'"{word}"'), 0)) + 1


_ROUTE: Final = r"(?:unicast )?(?P<to>default|[0-9a-fA-F.:]+(?:/\d+)?)(?P<rest>\s.*)"


_DEFAULT_DESTINATIONS: Final = frozenset({"default", "0.0.0.0/0", "::/0"})


def _read_routes(text: str) -> Iterator[NamedFact]:
    """Yield routes from the output of `ip route`, with or without `-j`."""
    if text.lstrip().startswith("["):
        yield from _read_json_routes(text)
        return
    for number, line in _number_lines(text):
        route = re.match(_ROUTE, line.strip())
        if route is None or re.search(r"\b(?:local|broadcast|multicast)\b", line.split()[0]):
            continue
        device = re.search(r"\bdev (\S+)", route["rest"])
        via = re.search(r"\bvia (inet6 )?(\S+)", route["rest"])
        # Only IPv4 routes have `inet6` before the address of a gateway (RFC 5549).
        gateway = "" if via is None else "0.0.0.0/0" if via[1] else via[2]
        yield _make_route(route["to"], gateway, number, device[1] if device else "")


def _read_json_routes(text: str) -> Iterator[NamedFact]:
    for one in _parse_json_list(text):
        to = str(one.get("dst", ""))
        if one.get("type", "unicast") == "unicast":
            yield _make_route(to, str(one.get("gateway", "")), _find_line(text, to), str(one.get("dev", "")))


def _make_route(to: str, via: str, number: int, device: str) -> NamedFact:
    return (
        ("default-route", via or to, number, device)
        if to in _DEFAULT_DESTINATIONS
        else ("route", to, number, device)
    )


def read_command_line(text: str) -> Iterator[NamedFact]:
    """Yield the command line of the kernel and, from it, the installation medium of a live system."""
    line = text.strip()
    if line:
        yield "cmdline", line, 1, ""
        medium = re.search(
            r"\b(?:coreos\.liveiso=\S+|coreos\.live\.rootfs_url=\S+|rd\.live\.image|inst\.stage2=\S+|boot=casper|boot=live)",
            line,
        )
        if medium:
            yield "live-medium", medium[0], 1, ""


_AMOUNTS: Final = {"MemTotal": "memory-kb", "MemAvailable": "available-kb", "SwapTotal": "swap-kb"}


def _read_memory(text: str) -> Iterator[NamedFact]:
    return ((fact, value.split()[0], number, "") for fact, value, number, _ in _read_labels(_AMOUNTS, text))


def _read_swaps(text: str) -> Iterator[NamedFact]:
    for number, line in _number_lines(text):
        words = line.split()
        if len(words) >= 3 and words[2].isdecimal():  # noqa: PLR2004  # /proc/swaps: Filename Type Size
            yield "swap-kb", words[2], number, words[0]


def _read_modules(text: str) -> Iterator[NamedFact]:
    yield from (("module", line.split()[0], number, "") for number, line in _number_lines(text))


_TREE: Final = r"[\s│├└─`|-]*(?P<name>[^\s│├└─`|]\S*)\s*(?P<rest>.*)"


def _read_block_devices(text: str) -> Iterator[NamedFact]:
    """Yield block devices and mount points from the output of `lsblk`. The subject of each is its disk."""
    disk = ""
    for number, line in list(_number_lines(text))[1:]:
        match = re.match(_TREE, line)
        if match is None:
            continue
        if line[:1] not in " │├└─`|-":
            disk = match["name"]
        yield "block", f"{match['name']} {' '.join(match['rest'].split())}".strip(), number, disk
        for mount in re.findall(r"(?:^|\s)(/\S*|\[SWAP\])", match["rest"]):
            yield "mounted", mount, number, disk


def _read_mounts(text: str) -> Iterator[NamedFact]:
    for number, line in _number_lines(text):
        first, second, *_ = (*filter(None, re.split(r"[\s│├└─`|]+", line)), "", "")
        target, source = (second, first) if line.startswith("/dev/") else (first, second)
        if target.startswith("/"):
            yield "mounted", target, number, source.removeprefix("/dev/").partition("[")[0]


def _read_fstab(text: str) -> Iterator[NamedFact]:
    """Yield the device of each mount point, as fstab(5) names it."""
    for number, line in _number_lines(text):
        device, point, *rest = (*line.split(), "")
        if rest and not device.startswith("#") and point.startswith("/"):
            yield "mount-device", device, number, point


_BLKID: Final = r"/dev/(?P<name>[^\s:]+): (?P<tags>.*)"


def _read_blkid(text: str) -> Iterator[NamedFact]:
    """Yield block devices with their tags, such as UUID and LABEL, from the output of `blkid`."""
    for number, line in _number_lines(text):
        if (match := re.match(_BLKID, line)) is not None:
            values = " ".join(re.findall(r'"([^"\s]*)"', match["tags"]))
            yield "block", f"{match['name']} {values}".strip(), number, match["name"]


_FULL_PERCENT: Final = 100


def _read_disk_space(text: str) -> Iterator[NamedFact]:
    for number, line in _number_lines(text):
        words = line.split()
        used = next((word for word in words if re.fullmatch(r"\d{1,9}%", word)), "")
        where = words[-1]
        # Read-only images and installation media are always full.
        is_real = not re.match(
            r"(?:/dev/loop|/dev/sr|tmpfs|devtmpfs|overlay|squashfs|none|udev|efivarfs)", words[0]
        )
        is_written = where.startswith("/") and not re.match(
            r"/(?:run/media|media|mnt|boot/efi|etc/coreos)", where
        )
        read_only = {"iso9660", "squashfs", "erofs", "composefs"} & set(words)
        if used and int(used[:-1]) >= _FULL_PERCENT and is_real and is_written and not read_only:
            yield "full", used, number, where


def _read_chrony(text: str) -> Iterator[NamedFact]:
    yield from _read_labels({"Leap status": "chrony-leap"}, text)
    for number, line in _number_lines(text):
        if re.match(r"[\^=#][*+?x~-]", line):
            source = next(iter(line.split()[1:]), "")
            yield "chrony-source", source, number, line[1]
            if line[1] == "*":
                yield "chrony-selected", source, number, ""


def _read_deployments(text: str) -> Iterator[NamedFact]:
    for number, line in _number_lines(text):
        match = re.match(
            r"\s*(?P<booted>[*●])?\s*(?P<ref>(?:pivot://|ostree-[a-z-]+:|containers?://)\S+)", line
        )
        if match is not None:
            yield "deployment", match["ref"], number, "booted" if match["booted"] else ""


def _read_release(text: str) -> Iterator[NamedFact]:
    for number, line in _number_lines(text):
        word, _, rest = line.partition("=")
        if word in {"ID", "ID_LIKE", "VARIANT_ID", "VERSION_ID"}:
            yield "os", rest.strip("\"' "), number, word


_RPM: Final = r"(?P<name>[\w.+-]+)-\d[^-\s]*-[^-\s]+(?:\s|$)"
_DEB: Final = r"ii\s+(?P<name>[^\s:]+)"


def _read_packages(text: str) -> Iterator[NamedFact]:
    """Yield installed packages as rpm and dpkg list them. A list that may be incomplete yields nothing."""
    if len(text) >= MAX_FACT_BYTES:
        return
    for number, line in _number_lines(text):
        if (package := re.match(_RPM, line) or re.match(_DEB, line)) is not None:
            yield "package", package["name"], number, ""


_BOOT: Final = (
    r"\s*(?P<index>-?\d+)\s+(?P<id>[0-9a-f]{32})\s+\S{1,20} (?P<begun>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)"
)


def _read_boots(text: str) -> Iterator[NamedFact]:
    """Yield the start of each boot from the output of `journalctl --list-boots`, oldest first."""
    boots = ((number, re.match(_BOOT, line)) for number, line in _number_lines(text))
    yield from (("boots", boot["begun"], number, boot["id"]) for number, boot in boots if boot is not None)


_MAX_CERTIFICATES: Final = 8
"""A file with more certificates is a list of authorities, some of which are always expired."""


def _read_certificates(text: str) -> Iterator[NamedFact]:
    from service_record.diagnosis.evidence.certificates import certificates  # few bundles have certificates

    read = list(islice(certificates(text), _MAX_CERTIFICATES + 1))
    if len(read) > _MAX_CERTIFICATES:
        return
    for one in read:
        of = str(one.line)
        yield "certificate-start", one.start.isoformat(), one.line, of
        yield "certificate-end", one.end.isoformat(), one.line, of
        yield from (("certificate-name", name, one.line, of) for name in one.names)


_TO_MS: Final = {"nsec": 1e-6, "usec": 1e-3, "msec": 1.0}


def _read_sync_times(text: str) -> Iterator[NamedFact]:
    """Yield the 99th percentile of sync times in ms from the output of fio."""
    unit = ""
    for number, line in _number_lines(text):
        begun = re.search(r"sync percentiles \((\wsec)\)", line)
        unit = begun[1] if begun is not None else unit
        percentile = re.search(r"99\.00th=\[\s*(\d{1,18})\]", line)
        if unit in _TO_MS and percentile is not None:
            yield "sync-ms", f"{int(percentile[1]) * _TO_MS[unit]:.1f}", number, ""
            unit = ""


def _read_failed_units(text: str) -> Iterator[NamedFact]:
    for number, name in read_failed_units(text):
        yield "failed-unit", name, number, ""
        if name.endswith(".mount"):
            yield "unmounted", find_mount_point(name), number, ""


def _read_cluster_names(text: str) -> Iterator[NamedFact]:
    for number, line in _number_lines(text):
        name = line.split()[0]
        if name.startswith(("api.", "api-int.")):
            yield "api-name", name, number, ""
        for word in re.findall(r"[0-9a-fA-F.:]+/\d+", line):
            of = line.split()[0].rstrip(":")
            yield "service-network" if "service" in of.lower() else "cluster-network", word, number, of


def _read_boot_manager(text: str) -> Iterator[NamedFact]:
    yield from _read_labels({"BootCurrent": "boot-current", "BootOrder": "boot-order"}, text)
    for number, line in _number_lines(text):
        if (match := re.match(r"Boot([0-9A-F]{4})[* ] *(.*)", line)) is not None:
            yield "boot-entry", match[2], number, match[1]


_TIME_SETTINGS: Final = {
    **dict.fromkeys(("System clock synchronized", "NTP synchronized"), "clock-synchronized"),
    **dict.fromkeys(("NTP service", "NTP enabled", "Network time on"), "ntp"),
}
_HOST_SETTINGS: Final = {
    **dict.fromkeys(("Hardware Vendor", "Hardware Model"), "hardware"),
    "Static hostname": "hostname",
}


_READERS: Final[tuple[tuple[str, Callable[[str], Iterator[NamedFact]]], ...]] = (
    (r".*\.(?:crt|pem)$", _read_certificates),
    (r"resolv\.conf", _read_resolver),
    (r"nsswitch\.conf", partial(_read_labels, {"hosts": "nsswitch-hosts"})),
    (r"hostnamectl", partial(_read_labels, _HOST_SETTINGS)),
    (r"hostname", _read_hostname),
    (r"hardware-(?:vendor|model)", partial(_read_lines, "hardware")),
    (r"ip[-_]?.*addr", _read_addresses),
    (r"ip[-_]?.*route", _read_routes),
    (r"kernel-command-line|(?:proc_)?cmdline", read_command_line),
    (r"memory|meminfo", _read_memory),
    (r"swaps", _read_swaps),
    (r"modules|lsmod", _read_modules),
    (r"lsblk", _read_block_devices),
    (r"findmnt|mounts|mtab", _read_mounts),
    (r"fstab", _read_fstab),
    (r"blkid", _read_blkid),
    (r"df", _read_disk_space),
    (r"chrony", _read_chrony),
    (r"timedatectl", partial(_read_labels, _TIME_SETTINGS)),
    (r"rpm-ostree", _read_deployments),
    (r"os-release", _read_release),
    (r"programs-on-path", partial(_read_lines, "program")),
    (r"packages|rpm-qa|installed-|dpkg", _read_packages),
    (r"boots|journalctl_", _read_boots),
    (r"secure-boot|mokutil", partial(_read_lines, "secure-boot")),
    (r"cgroup", partial(_read_lines, "cgroup")),
    (r"selinux|sestatus", partial(_read_lines, "selinux")),
    (r"failed-units|list_units|systemctl_list-units", _read_failed_units),
    (r"cluster-names", _read_cluster_names),
    (r"efibootmgr", _read_boot_manager),
    (r"crictl[-_]images", partial(_read_lines, "image")),
    (r"cleanfsynctest", _read_sync_times),
)
"""A pattern for the beginning of a file's name -> its reader. The first match counts."""
