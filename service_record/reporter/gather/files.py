"""Read files of a host safely, and mask the secrets of NetworkManager's keyfiles.

Files may be links, pipes, huge, growing or unreadable.

Redaction works line by line, and cannot recognise every secret of a keyfile: VPN plugins choose the names of
their secrets, and a PIN or a MACsec key looks like any number. Only the section shows what a value may be. So
values are gathered from the sections listed here only; elsewhere just the names of settings are gathered. See
nm-settings-keyfile(5) and nm-settings(5).
"""

import errno
import os
import re
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final

from service_record.record.appending import open_regular
from service_record.record.programs import Deadline
from service_record.reporter.gather.model import GatherError, GatherStatus

_OPEN_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
_MAX_LINKS: Final = 40  # the limit of the kernel; see path_resolution(7)
_MAX_MATCHES: Final = 10_000
"""The limit of examined matches for one pattern."""


def resolve_in_root(root: Path, path: str) -> Path:
    """Return the real path, below `root`, of an absolute path of the host.

    Links are resolved as on the host itself, so none leads outside `root`. Raises GatherError after 40 links.
    """
    rest = _components(path)
    place, links = root, 0
    while rest:
        step = rest.pop()
        if step == "..":
            place = place if place == root else place.parent
            continue
        target = _read_link(place / step)
        if target is None:
            place /= step
            continue
        links += 1
        if links > _MAX_LINKS:
            raise GatherError(GatherStatus.FAILED, f"{path}: too many links, or links in a circle")
        place = root if target.startswith("/") else place
        rest += _components(target)
    return place


def _components(path: str) -> list[str]:
    """Return the components of a path, the last one first."""
    return [step for step in reversed(path.split("/")) if step not in ("", ".")]


def real_path(path: Path) -> Path:
    """Return the real path. Path.resolve() raises for a loop of links in some versions of Python."""
    return Path(os.path.realpath(path))


def _read_link(path: Path) -> str | None:
    try:
        return os.readlink(path)  # noqa: PTH115  # Path.readlink() would normalise slashes
    except OSError:
        return None


def open_file(path: Path) -> int:
    """Return the descriptor of a regular file; the caller closes it.

    A link is not followed: resolve the path with `resolve_in_root` first. Raises GatherError: absent if the
    file is missing, failed if it is a link, not a regular file or unreadable.
    """
    try:
        return open_regular(path, _OPEN_FLAGS)
    except FileNotFoundError:
        raise GatherError(GatherStatus.ABSENT, f"no file {path}") from None
    except OSError as error:
        why = "a link" if error.errno == errno.ELOOP else error.strerror or "not a regular file"
        raise GatherError(GatherStatus.FAILED, f"{path}: {why}") from error


def find_files(root: Path, patterns: tuple[str, ...], deadline: Deadline) -> dict[Path, str]:
    """Return the files that match absolute patterns of the host, newest first.

    Each real path is mapped to the path on the host that begins like its pattern. They differ if there is a
    link before the first wildcard of the pattern: it is resolved. Matches that are links, or are below a
    link, are left out. Returns the matches found so far when the deadline expires.
    """
    times: dict[Path, float] = {}
    names: dict[Path, str] = {}
    for pattern in patterns:
        fixed = re.split(r"[*?\[]", pattern, maxsplit=1)[0].rpartition("/")[0]
        try:
            base = real_path(resolve_in_root(root, fixed or "/"))
        except GatherError:  # links in a circle lead to no file
            continue
        for match in islice(base.glob(pattern[len(fixed) + 1 :]), _MAX_MATCHES):
            if deadline.seconds_left() == 0:
                break
            with suppress(OSError):
                if real_path(match) == match:
                    times[match] = match.stat().st_mtime
                    names.setdefault(match, f"{fixed}/{match.relative_to(base)}")
    return {path: names[path] for path in sorted(times, key=lambda path: (-times[path], path))}


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
"""Sections without secrets. Those of a wireless network are in `wifi-security`."""
_SECTION: Final = re.compile(rb"\s*\[([^\]\r\n]*)\]\s*$")
_SETTING: Final = re.compile(rb"(\s*[^=\r\n#;]{1,200}=).*", re.DOTALL)
_PLAIN_SUFFIXES: Final = frozenset({".ini", ".yaml", ".yml"})
"""Suffixes of files without secrets in /etc/assisted/network: MAC addresses, and documents of nmstate."""


_CERTIFICATE: Final = re.compile(
    rb"-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----\n?", re.ASCII
)


def extract_certificates(_path: Path, data: bytes) -> bytes:
    """Return only the certificates of a PEM file, which are public. Keys are left out."""
    return b"".join(_CERTIFICATE.findall(data))


def mask_keyfile(_path: Path, data: bytes) -> bytes:
    """Replace the values of all sections that may have secrets. The number of lines does not change.

    Values before the first section are replaced, too: the beginning of the file may be cut off.
    """
    is_harmless = False
    lines: list[bytes] = []
    for line in data.split(b"\n"):
        section = _SECTION.match(line)
        if section:
            is_harmless = section[1] in _HARMLESS_SECTIONS
            lines.append(line)
        elif is_harmless or not line.strip():
            lines.append(line)
        else:
            setting = _SETTING.match(line)
            lines.append(setting[1] + WITHHELD if setting else WITHHELD)
    return b"\n".join(lines)


def mask_assisted(path: Path, data: bytes) -> bytes:
    """Mask a file below /etc/assisted/network. Unless its suffix shows otherwise, it is a keyfile."""
    return data if path.suffix in _PLAIN_SUFFIXES else mask_keyfile(path, data)
