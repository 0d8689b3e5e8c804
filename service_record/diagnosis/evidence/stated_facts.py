"""Read facts of a host from lines of its journal or kernel log, for hosts without fact files. Pure.

Programs log what they learn about the host: addresses, routes, name servers, file systems, loaded modules.
"""

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from service_record.diagnosis.evidence.facts import KnownFact, KnownFacts, read_command_line
from service_record.diagnosis.evidence.line_patterns import Pattern
from service_record.diagnosis.evidence.log_lines import KERNEL, LinePlace, LogLine
from service_record.diagnosis.evidence.unit_logs import find_mount_point

_ADDRESS: Final = r"[0-9A-Fa-f.:]+"
_DHCP: Final = r".*dhcp[46] \((?P<of>\S+)\): +"
_MOUNT: Final = r"/\S*?|\S+\.mount"
"""systemd names a unit of a mount by its directory or, since version 250, by its own name as well."""
_LISTS: Final = frozenset({"nameserver"})
"""Facts of which a line may state several values."""


class _Statement(msgspec.Struct, frozen=True):
    """A kind of line that states a fact."""

    fact: str
    word: str
    """Words that every such line has."""
    program: str
    """The program that logs it; empty for several programs."""
    pattern: str
    """Its groups: `of` is the subject of the fact, and `value` its value or values.

    A match without a value means that the subject has lost its values."""
    value: str = ""
    """The value, if the line does not contain it."""
    is_replaced: bool = False
    """True if a new value of a subject replaces the earlier ones."""


_STATEMENTS: Final = (
    # Hardware, memory and modules
    _Statement("cmdline", "Command line: ", KERNEL, r"Command line: (?P<value>.+)", is_replaced=True),
    _Statement("memory-kb", "K available", KERNEL, r"Memory: \d+K/(?P<value>\d{1,18})K available"),
    _Statement("hardware", "DMI: ", KERNEL, r"DMI: (?P<value>[^\n]{1,100}?)(?:/[^/\n]*)?, BIOS "),
    _Statement("swap-kb", "k swap on ", KERNEL, r"Adding (?P<value>\d{1,18})k swap on "),
    _Statement("swap-kb", "Deactivated swap ", "systemd", r"Deactivated swap "),
    _Statement("module", "Inserted module ", "systemd-modules-load", r"Inserted module '(?P<value>[^']+)'"),
    # Disks and mounts
    _Statement(
        "block",
        ": mounted filesystem ",
        KERNEL,
        r"EXT[234]-fs \((?P<of>[a-z0-9!-]+)\): mounted filesystem (?P<value>[0-9a-f-]{36}) ",
    ),
    _Statement(
        "block",
        ": Mounting V",
        KERNEL,
        r"XFS \((?P<of>[a-z0-9!-]+)\): Mounting V\d Filesystem (?P<value>[0-9a-f-]{36})",
    ),
    _Statement(
        "mount-device",
        "mount: /",
        "",
        r".*mount: (?P<of>/[^\s:]*): (?:wrong fs type, [^\n]*? on|can't (?:find|read superblock on)"
        r"|special device|unknown filesystem type [^\n]* on) (?P<value>[^\s,]+?)(?:[,.]|\s|$)",
        is_replaced=True,
    ),
    _Statement(
        "unmounted",
        "ailed ",  # Failed to mount, Dependency failed
        "systemd",
        rf"(?:Failed to mount|Dependency failed for) (?P<value>(?P<of>{_MOUNT}))(?:\.?$| - )",
        is_replaced=True,
    ),
    _Statement("unmounted", "Mounted ", "systemd", rf"Mounted (?P<of>{_MOUNT})(?:\.?$| - )"),
    # Names and addresses
    _Statement(
        "hostname",
        "ostname ",
        "systemd",
        r"(?:Set h|H)ostname (?:set )?to <(?!localhost)(?P<value>[^>\s]+)>",
        is_replaced=True,
    ),
    _Statement("address", "): state changed ", "", rf"{_DHCP}state changed .*address=(?P<value>{_ADDRESS})"),
    _Statement(
        "address",
        "): state changed ",
        "",
        rf"{_DHCP}state changed (?:.* -> )?(?:expire|timeout|fail|done|terminated|no lease)",
    ),
    _Statement(
        "address",
        "): state change: activated -> ",
        "",
        r".*device \((?P<of>\S+)\): state change: activated -> ",
    ),
    _Statement("address", ": DHCPv", "", rf"(?P<of>\S+): DHCPv[46] address (?P<value>{_ADDRESS})/"),
    _Statement("address", " lease lost", "", r"(?P<of>\S+): DHCP(?:v[46])? lease lost"),
    _Statement("address", ": leased ", "dhcpcd", rf"(?P<of>\S+): leased (?P<value>{_ADDRESS}) for "),
    _Statement("address", "bound to ", "dhclient", rf"bound to (?P<value>{_ADDRESS}) -- renewal in "),
    _Statement("address", ", ipaddr=", KERNEL, rf" *device=(?P<of>[^,\s]+), .*ipaddr=(?P<value>{_ADDRESS}),"),
    _Statement(
        "address",
        "ci-info: |",
        "",
        rf".*ci-info: \| +(?P<of>\S+) +\| +True +\| +(?P<value>{_ADDRESS})[ /].*\| +global +\|",
    ),
    # Routes and name servers
    _Statement(
        "default-route",
        "ci-info: |",
        "",
        rf".*ci-info: \| +\d+ +\| +(?:0\.0\.0\.0|::/0) +\| +(?P<value>{_ADDRESS}) +\|"
        r"(?: +0\.0\.0\.0 +\|)? +(?P<of>[A-Za-z]\S*) +\|",
    ),
    _Statement(
        "default-route",
        " as default for IPv4 routing",
        "NetworkManager",
        r".*policy: set '.*' \((?P<of>\S+)\) as default for IPv4 routing",
        "0.0.0.0/0",
    ),
    _Statement(
        "default-route",
        " as default for IPv6 routing",
        "NetworkManager",
        r".*policy: set '.*' \((?P<of>\S+)\) as default for IPv6 routing",
        "::/0",
    ),
    _Statement(
        "nameserver",
        " domain_name_servers",
        "",
        rf"{_DHCP}option domain_name_servers +=> '(?P<value>[0-9A-Fa-f.:, ]+)'",
        is_replaced=True,
    ),
    _Statement("nameserver", " nameserver '", "", rf"{_DHCP}nameserver '(?P<value>{_ADDRESS})'"),
    _Statement("nameserver", " for DNS server ", "", rf".* for DNS server (?P<value>{_ADDRESS}?)\.?$"),
    _Statement("cluster-network", "--cluster-cidr=", "", rf".*--cluster-cidr=(?P<value>{_ADDRESS}/\d+)"),
    _Statement(
        "service-network",
        "--service-cluster-ip-range=",
        "",
        rf".*--service-cluster-ip-range=(?P<value>{_ADDRESS}/\d+)",
    ),
    # Time
    _Statement(
        "chrony-selected", "Selected source ", "chronyd", r"Selected source (?P<value>\S+)", is_replaced=True
    ),
    _Statement("chrony-selected", "Can't synchronise: ", "chronyd", r"Can't synchronise: "),
    _Statement("chrony-leap", "Selected source ", "chronyd", r"Selected source "),
    _Statement("chrony-leap", "Can't synchronise: ", "chronyd", r"Can't synchronise: ", "Not synchronised"),
)
_FIRST_NUMBER: Final = -100
"""Numbers of the tests for these lines in a `LineSet`: this one for the first word, and lower ones."""


def list_stated_patterns() -> Iterator[tuple[int, Pattern]]:
    """Yield a pattern for each word of these lines, with the number of its test."""
    for order, word in enumerate(dict.fromkeys(one.word for one in _STATEMENTS)):
        yield _FIRST_NUMBER - order, Pattern(re.escape(word), needles=(word.lower(),), is_word=True)


def is_stated(test: int) -> bool:
    """Return True if this is the number of a test for lines that state a fact."""
    return test <= _FIRST_NUMBER


_KERNEL_TIME: Final = r"\[ *\d+\.\d+\] "


class StatedFacts:
    """The latest values of facts that lines state. Add the lines in the order of their times."""

    def __init__(self) -> None:
        self._values: dict[str, dict[tuple[str, str], KnownFact]] = {}

    def add(self, line: LogLine) -> None:
        """Add the facts that a line states."""
        text = line.text.strip()
        if line.kind == KERNEL:
            text = re.sub(_KERNEL_TIME, "", text, count=1)
        for one in _STATEMENTS:
            if one.word not in text or one.program not in {"", line.name}:
                continue
            if (match := re.match(one.pattern, text)) is not None:
                self._apply(one, match.groupdict(), line.place)

    def _apply(self, statement: _Statement, groups: dict[str, str | None], place: LinePlace) -> None:
        of, value = groups.get("of") or "", groups.get("value") or statement.value
        found = self._values.setdefault(statement.fact, {})
        if statement.is_replaced or not value:
            found = self._values[statement.fact] = {key: fact for key, fact in found.items() if fact.of != of}
        if statement.fact == "cmdline":
            for name, one, _, _ in read_command_line(value):
                self._values[name] = {(one, ""): KnownFact(one, place)}
            return
        if statement.fact == "block":
            value = f"{of} {value}"
        if statement.fact == "unmounted":
            value = find_mount_point(value)
        for one in [value] if statement.fact not in _LISTS else re.split(r"[ ,]+", value):
            found.pop((one, of), None)  # the latest is the last
            if one:
                found[one, of] = KnownFact(one, place, of)

    def facts(self) -> KnownFacts:
        """Return the facts, latest first."""
        return KnownFacts(
            {name: tuple(reversed(found.values())) for name, found in self._values.items() if found}
        )
