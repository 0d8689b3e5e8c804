"""Keep secrets out of NetworkManager's keyfiles, before redaction looks for what else is one. Pure.

The sections of a keyfile tell what may be a secret, which redaction cannot see line by line: a VPN plugin
names its secrets as it likes, and a PIN or a MACsec key looks like any number. So of sections that
authenticate, and of sections that this module does not list, only the names of settings are gathered.
See nm-settings-keyfile(5) and nm-settings(5).
"""

import re
from pathlib import Path
from typing import Final

WITHHELD: Final = b"<withheld>"
_HARMLESS_SECTIONS: Final = frozenset(
    {
        *(b"connection", b"ethernet", b"802-3-ethernet", b"ipv4", b"ipv6", b"match", b"link", b"hostname"),
        *(b"vlan", b"bond", b"bond-port", b"bridge", b"bridge-port", b"team", b"team-port"),
        *(b"ovs-bridge", b"ovs-port", b"ovs-interface", b"ovs-patch", b"ovs-dpdk", b"ovs-external-ids"),
        *(b"infiniband", b"ip-tunnel", b"macvlan", b"vxlan", b"vrf", b"veth", b"dummy", b"loopback", b"tun"),
        *(b"ethtool", b"sriov", b"tc", b"dcb", b"wifi", b"802-11-wireless", b".nmmeta"),
    }
)
"""Sections that have no secret; a wireless network's are in `wifi-security`."""
_SECTION: Final = re.compile(rb"\s*\[([^\]\r\n]*)\]\s*$")
_SETTING: Final = re.compile(rb"(\s*[^=\r\n#;]{1,200}=).*", re.DOTALL)
_PLAIN_SUFFIXES: Final = frozenset({".ini", ".yaml", ".yml"})
"""Of /etc/assisted/network: which MAC address has which interface, and nmstate's documents."""


def mask_keyfile(_path: Path, data: bytes) -> bytes:
    """Withhold every value but those of harmless sections; the number of lines stays as it is.

    A file whose beginning is cut off has no known section until the next one begins.
    """
    is_harmless = False
    lines: list[bytes] = []
    for line in data.split(b"\n"):
        section = _SECTION.match(line)
        if section:
            is_harmless = section[1] in _HARMLESS_SECTIONS
            lines.append(line)
        else:
            lines.append(line if is_harmless or not line.strip() else _masked(line))
    return b"\n".join(lines)


def _masked(line: bytes) -> bytes:
    setting = _SETTING.match(line)
    return setting[1] + WITHHELD if setting else WITHHELD


def mask_assisted(path: Path, data: bytes) -> bytes:
    """Withhold the secrets of a file below /etc/assisted/network; by its suffix it is plain or a keyfile."""
    return data if path.suffix in _PLAIN_SUFFIXES else mask_keyfile(path, data)
