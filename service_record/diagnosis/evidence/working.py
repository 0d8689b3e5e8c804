"""Recognize lines that show that a device, an interface, a host name or a port works. Pure.

A cause that names one of them is not certain if a later line shows that the same one works.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from service_record.diagnosis.line_patterns import Pattern

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
    """Return one name for all spellings: `sda1` for `/dev/sda1` and `dev-sda1.device`."""
    if kind == "device":
        if name.endswith(".device"):
            name = name.removesuffix(".device").replace("-", "/").replace(r"\x2d", "-")
            name = name.removeprefix("/")
        return name.removeprefix("/").removeprefix("dev/")
    return re.sub(r":\d{1,5}$", "", name).rstrip(".").lower() if kind == "host" else name
