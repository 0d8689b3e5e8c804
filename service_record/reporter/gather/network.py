"""Resolves the names that every host of a cluster needs; gathers NetworkManager's keyfiles without secrets.

The sections of a keyfile tell what may be a secret, which redaction cannot see line by line: a VPN plugin
names its secrets as it likes, and a PIN or a MACsec key looks like any number. So of sections that
authenticate, and of sections that this module does not list, only the names of settings are gathered.
See nm-settings-keyfile(5) and nm-settings(5).
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
"""Sections that have no secret; a wireless network's are in `wifi-security`."""
_SECTION: Final = re.compile(rb"\s*\[([^\]\r\n]*)\]\s*$")
_SETTING: Final = re.compile(rb"(\s*[^=\r\n#;]{1,200}=).*", re.DOTALL)
_PLAIN_SUFFIXES: Final = frozenset({".ini", ".yaml", ".yml"})
"""Suffixes of files in /etc/assisted/network: the interfaces of MAC addresses, and nmstate's documents."""


_CERTIFICATE: Final = re.compile(
    rb"-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----\n?", re.ASCII
)


def only_certificates(_path: Path, data: bytes) -> bytes:
    """Return the certificates in a file, which are public; keys beside them are left out."""
    return b"".join(_CERTIFICATE.findall(data))


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


_Value = TypeVar("_Value")


class Question(Generic[_Value]):
    """A question that is asked in a thread of its own, which is left behind when no answer comes in time.

    The resolver has no time limit, nor has a dead disk, and a slow peer has none of ours.
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
        except Exception as error:  # noqa: BLE001  # raised where it is waited for
            self._error = error

    def answer(self, seconds: float) -> _Value:
        """Return the answer within so many seconds. Raises TimeoutError, and what asking raises."""
        self._thread.join(max(seconds, 0))
        if self._error is not None:
            raise self._error
        if not self._answers:
            raise TimeoutError("no answer in time")
        return self._answers[0]


NAMES_SECONDS: Final = 1.0
"""The time limit of all names together: they are asked at the same time, and nobody waits for the rest."""
_KUBECONFIGS: Final = (
    "/etc/kubernetes/kubeconfig",
    "/var/lib/kubelet/kubeconfig",
    "/opt/openshift/auth/kubeconfig",
    "/etc/ignition-machine-config-encapsulated.json",
)
"""Files that name the API's URL. The last is the pointer ignition, which has the port 22623."""
_MOST_READ: Final = 1 << 20
_DOMAIN: Final = r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,250}[A-Za-z0-9])?"
_API: Final = re.compile(rf"https://api(?:-int)?\.({_DOMAIN}):(?:6443|22623)(?![0-9])")
"""An API server or a machine-config server, by its port: api.openshift.com is neither."""


@dataclass(frozen=True, slots=True)
class Resolution:
    """The resolver's answer for one name."""

    name: str
    addresses: tuple[str, ...] = ()
    problem: str | None = None
    """The reason why there is no address; None if there is one."""
    is_answered: bool = True
    """False when no answer came in time: the name may exist."""
    seconds: float = 0.0


def names_of_cluster(domain: str) -> tuple[str, str, str]:
    """Return the names that a cluster of this domain needs; the last stands for `*.apps`."""
    return f"api.{domain}", f"api-int.{domain}", f"console-openshift-console.apps.{domain}"


def resolve(names: Iterable[str], seconds: float = NAMES_SECONDS) -> tuple[Resolution, ...]:
    """Ask the system's resolver for all names at once, once each, and wait at most so many seconds."""
    until = time.monotonic() + seconds
    questions = [(name, Question(partial(_resolution, name))) for name in names]
    return tuple(_in_time(name, question, until, seconds) for name, question in questions)


def _in_time(name: str, question: "Question[Resolution]", until: float, seconds: float) -> Resolution:
    try:
        return question.answer(until - time.monotonic())
    except TimeoutError:
        late = f"no answer within {seconds:g} s"
        return Resolution(name, problem=late, is_answered=False, seconds=seconds)


def _resolution(name: str) -> Resolution:
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
    """Yield for each domain of an API on this host what api, api-int and a name below apps resolve to.

    Raises GatherError, absent when the host knows no API.
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
    """Return the domains of the APIs that the settings, the kubelet or the pointer ignition name."""
    texts = [*context.urls, *(_beginning(context, path) for path in _KUBECONFIGS)]
    return tuple(dict.fromkeys(domain.lower() for text in texts for domain in _API.findall(text)))[:2]


def _beginning(context: Context, path: str) -> str:
    try:
        descriptor = files.opened(files.below(context.root, path))
    except GatherError:
        return ""
    with os.fdopen(descriptor, "rb") as stream:
        return stream.read(_MOST_READ).decode(errors="replace")
