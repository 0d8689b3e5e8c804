"""Resolve the names that every host of a cluster needs; mask secrets in NetworkManager's keyfiles.

Redaction works line by line, and cannot recognise every secret of a keyfile: VPN plugins choose the names of
their secrets, and a PIN or a MACsec key looks like any number. Only the section shows what a value may be. So
values are gathered from the sections listed here only; elsewhere just the names of settings are gathered. See
nm-settings-keyfile(5) and nm-settings(5).
"""

import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Generic, TypeVar

from service_record.reporter.gather import files
from service_record.reporter.gather.model import Context, GatherError, GatherStatus, Pieces, Task

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
        else:
            lines.append(line if is_harmless or not line.strip() else _mask_line(line))
    return b"\n".join(lines)


def _mask_line(line: bytes) -> bytes:
    setting = _SETTING.match(line)
    return setting[1] + WITHHELD if setting else WITHHELD


def mask_assisted(path: Path, data: bytes) -> bytes:
    """Mask a file below /etc/assisted/network. Unless its suffix shows otherwise, it is a keyfile."""
    return data if path.suffix in _PLAIN_SUFFIXES else mask_keyfile(path, data)


_Value = TypeVar("_Value")


class Question(Generic[_Value]):
    """A function call in a thread of its own, with a time limit. A thread that is late is abandoned.

    The resolver, a dead disk and TLS with a slow peer have no usable time limit of their own.
    """

    def __init__(self, ask: Callable[[], _Value]) -> None:
        self._ask = ask
        self._answers: list[_Value] = []
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        try:
            self._answers.append(self._ask())
        except Exception as error:  # noqa: BLE001  # raised again by answer()
            self._error = error

    def answer(self, seconds: float) -> _Value:
        """Return the result of the call. Raises its exception, or TimeoutError after `seconds`."""
        self._thread.join(max(seconds, 0))
        if self._error is not None:
            raise self._error
        if not self._answers:
            raise TimeoutError("no answer in time")
        return self._answers[0]


NAMES_SECONDS: Final = 1.0
"""The time limit of all names together. They are resolved in parallel."""
_KUBECONFIGS: Final = (
    "/etc/kubernetes/kubeconfig",
    "/var/lib/kubelet/kubeconfig",
    "/opt/openshift/auth/kubeconfig",
    "/etc/ignition-machine-config-encapsulated.json",
)
"""Files with the URL of the API. The last is the pointer ignition, whose URL has the port 22623."""
_MAX_FILE_BYTES: Final = 1 << 20
_DOMAIN_PATTERN: Final = r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,250}[A-Za-z0-9])?"
_API_URL: Final = re.compile(rf"https://api(?:-int)?\.({_DOMAIN_PATTERN}):(?:6443|22623)(?![0-9])")
"""The URL of an API server or a machine-config server. The port excludes public ones: api.openshift.com."""


@dataclass(frozen=True, slots=True)
class Resolution:
    """The result of resolving one name."""

    name: str
    addresses: tuple[str, ...] = ()
    problem: str | None = None
    """The reason why there is no address, or None."""
    is_answered: bool = True
    """False if the resolver gave no answer in time. The name may exist."""
    seconds: float = 0.0


def names_of_cluster(domain: str) -> tuple[str, str, str]:
    """Return the host names that a cluster of this domain needs. The last one tests `*.apps`."""
    return f"api.{domain}", f"api-int.{domain}", f"console-openshift-console.apps.{domain}"


def resolve(names: Iterable[str], seconds: float = NAMES_SECONDS) -> tuple[Resolution, ...]:
    """Resolve all names in parallel with the system's resolver, within `seconds`. Nothing is retried."""
    until = time.monotonic() + seconds
    questions = [(name, Question(partial(_resolve_name, name))) for name in names]
    return tuple(_await_resolution(name, question, until, seconds) for name, question in questions)


def _await_resolution(
    name: str, question: "Question[Resolution]", until: float, seconds: float
) -> Resolution:
    try:
        return question.answer(until - time.monotonic())
    except TimeoutError:
        late = f"no answer within {seconds:g} s"
        return Resolution(name, problem=late, is_answered=False, seconds=seconds)


def _resolve_name(name: str) -> Resolution:
    began = time.monotonic()
    try:
        rows = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        problem = str(getattr(error, "strerror", None) or error)
        is_answered = getattr(error, "errno", None) != socket.EAI_AGAIN
        return Resolution(name, (), problem, is_answered, time.monotonic() - began)
    addresses = tuple(dict.fromkeys(str(address[0]) for *_, address in rows))
    return Resolution(name, addresses, seconds=time.monotonic() - began)


def cluster_names(task: Task) -> Pieces:
    """Yield the addresses of the api, api-int and apps names, for each cluster domain in this host's files.

    Raises GatherError with the status absent if there is no cluster domain.
    """
    domains = cluster_domains(task.context)
    if not domains:
        raise GatherError(
            GatherStatus.ABSENT, "no cluster domain is known: no API in the settings or a kubeconfig"
        )
    names = [name for domain in domains for name in names_of_cluster(domain)]
    for answer in resolve(names):
        outcome = answer.problem or ", ".join(answer.addresses)
        yield f"{answer.name}  {outcome} ({answer.seconds:.3f} s)\n".encode(errors="backslashreplace")


def cluster_domains(context: Context) -> tuple[str, ...]:
    """Return at most two cluster domains, from URLs in the settings, kubeconfigs and the pointer ignition."""
    texts = [*context.urls, *(_read_beginning(context, path) for path in _KUBECONFIGS)]
    return tuple(dict.fromkeys(domain.lower() for text in texts for domain in _API_URL.findall(text)))[:2]


def _read_beginning(context: Context, path: str) -> str:
    try:
        descriptor = files.open_file(files.resolve_in_root(context.root, path))
    except GatherError:
        return ""
    with os.fdopen(descriptor, "rb") as stream:
        return stream.read(_MAX_FILE_BYTES).decode(errors="replace")
