"""Look up the thing that a cause names: does other evidence show that it works, or that it exists? Pure.

A cause is not certain if a later line shows that the device, interface, host name or port in it works, or if
the host has the file, device, module or unit that its line reports as missing.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from service_record.diagnosis.evidence.devices import device_name, follow_link
from service_record.diagnosis.line_patterns import Pattern
from service_record.diagnosis.trouble_facts import Evidence

_NAME: Final = r"[A-Za-z0-9._-]{2,200}"
_WORKING: Final = {
    "device": (
        r"(?:EXT[234]-fs|XFS) \((?P<device>[a-z0-9!-]+)\): (?:mounted filesystem|Ending clean mount)",
        r"systemd\[1\]: Found device (?P<device>dev-\S+\.device)",
        r"systemd\[1\]: Finished \S+ - File System Check on (?P<device>/dev/\S+?)\.?$",
        r"systemd\[1\]: Finished File System Check on (?P<device>/dev/\S+?)\.?$",
    ),
    "interface": (
        r"dhcp[46] \((?P<interface>\S+)\): +state changed (?:new lease|\S+ -> bound)",
        r"device \((?P<interface>\S+)\): Activation: successful, device activated",
        r"(?P<interface>\S+): DHCPv[46] address \S+(?: via |,)",
    ),
    "host": (
        rf"Connected to (?P<host>{_NAME}) \([0-9A-Fa-f.:]+\) port [0-9]+",
        rf"Connecting to (?P<host>{_NAME}) \({_NAME}\)\|[0-9A-Fa-f.:]+\|:[0-9]+\.\.\. connected",
        rf"PING (?P<host>{_NAME}) ?\([0-9A-Fa-f.:]+\)",
    ),
    "port": (r"(?:Serving (?:securely|insecurely) on|[Ll]istening on) \S*:(?P<port>[0-9]{1,5})\b",),
}
"""Kind of thing -> patterns of lines that show that one works. A group of the kind's name has its name."""
_KINDS: Final = {
    **{kind: kind for kind in _WORKING},
    "name": "host",
    "server": "host",
}
"""Named group of a rule -> the kind of the thing that it names."""
_FIRST_NUMBER: Final = -2
"""Numbers of the tests for these lines in a `LineSet`: this one for the first kind, and lower ones."""
PATTERNS: Final[Mapping[str, tuple[int, tuple[Pattern, ...]]]] = {
    kind: (_FIRST_NUMBER - order, tuple(map(Pattern.parse, texts)))
    for order, (kind, texts) in enumerate(_WORKING.items())
}
"""Kind of thing -> the number of its test, and its patterns."""


def working_patterns() -> Iterator[tuple[int, Pattern]]:
    """Yield each pattern with the number of its test."""
    for number, patterns in PATTERNS.values():
        yield from ((number, pattern) for pattern in patterns)


def named_things(values: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the kind and the comparable name of each thing that the named groups of a rule have."""
    for group, value in values.items():
        kind = _KINDS.get(group)
        if kind is not None:
            yield kind, comparable_name(kind, value)


def comparable_name(kind: str, name: str) -> str:
    """Return one name for all spellings of a thing; see `device_name`."""
    if kind == "device":
        return device_name(name)
    return re.sub(r":\d{1,5}$", "", name).rstrip(".").lower() if kind == "host" else name


_MISSING: Final = (
    r"(?i)no such (?:file|device)|does not exist|not found|can'?t find|cannot find|failed to find"
    r"|timed out waiting for device|/start timed out"
)
"""Words of a line which reports that something is missing."""


def find_existing(text: str, values: Mapping[str, str], evidence: Evidence, units: Collection[str]) -> str:
    """Return the name of the thing that a line reports as missing although the host has it; else "".

    `text` is the part of the line that the rule matched, and `values` are its named groups. `units` are the
    services that ran or logged.
    """
    if re.search(_MISSING, text) is None:
        return ""
    facts = evidence.facts
    for group, value in values.items():
        exists = False
        if group == "device":
            name = follow_link(value, facts)
            exists = any(fact.value.split()[0] == name for fact in facts.all("block"))
        elif group == "module":
            modules = {fact.value.replace("-", "_") for fact in facts.all("module")}
            exists = value.replace("-", "_") in modules
        elif value.startswith("/"):
            exists = value in evidence.paths
        elif value.endswith(".service"):
            exists = value.removesuffix(".service") in units
        if exists:
            return value
    return ""
