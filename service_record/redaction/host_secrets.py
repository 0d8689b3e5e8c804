"""The exact secrets of a host, from where its programs keep them and files known to hold some; their mask.

Only this part of redaction reads files of the host.
"""

import contextlib
import json
import os
import urllib.parse
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Final

from service_record.redaction import types
from service_record.redaction.rules import Rules
from service_record.redaction.secrets import PEM_BEGIN, is_taken
from service_record.redaction.types import Secret, from_base64

_MOST_LAYERS: Final = 4
"""A MachineConfig holds data URLs, of manifests, that hold Secrets, whose values are base64."""
_UNPACKED_BYTES: Final = 8 << 20
_MOST_PRINTED: Final = 4096
_PEM: Final = types.compiled(
    rb"(?s)(" + PEM_BEGIN + rb".*?-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----)"
)
_DATA_URL: Final = "data-url"
"""Masked wherever it stands, but no secret by itself: it may hold the name of the host."""
_CREDENTIALS: Final = frozenset({"registry-auth", "authorization"})
"""Kinds of what is base64 of `user:password`."""
_GZIP: Final = b"\x1f\x8b"


class Contents:
    """Reads secrets out of files; makes its patterns once."""

    def __init__(self) -> None:
        self._rules = Rules()

    def secrets(self, text: bytes, layers: int = _MOST_LAYERS) -> Iterator[Secret]:
        """Yield every secret in a text: as it stands there, and decoded. Some may come several times."""
        for match in _PEM.finditer(text):
            yield Secret("private-key", match.group(1))
        for secret in self._rules.values(text):
            if secret.kind != _DATA_URL:
                yield secret
                yield from (Secret(secret.kind, bare) for bare in _bare(secret.value))
            if layers:
                yield from self._decoded(secret, layers - 1)
        if layers:
            for inner in _inner_texts(text):
                yield from self.secrets(inner, layers - 1)

    def _decoded(self, secret: Secret, layers: int) -> Iterator[Secret]:
        decoded = _from_base64(secret.value)
        if not decoded:
            return
        if _is_line(decoded) and secret.kind != _DATA_URL:
            yield Secret(secret.kind, decoded.strip())
        if _is_line(decoded) and secret.kind in _CREDENTIALS:
            yield Secret(secret.kind, decoded.strip().partition(b":")[2])
        yield from self.secrets(decoded, layers)


def _bare(value: bytes) -> Iterator[bytes]:
    """Yield a value without the escapes of JSON or of a URL, in which it may stand in its file."""
    if b"\\" in value:
        with contextlib.suppress(ValueError):
            yield str(json.loads(b'"' + value + b'"')).encode(errors="surrogatepass")
    if b"%" in value:
        yield urllib.parse.unquote_to_bytes(value)


def _inner_texts(text: bytes) -> Iterator[bytes]:
    """Yield texts written in a text in another way: JSON strings that hold more than a word, and
    data URLs.
    """
    if text.lstrip()[:1] in {b"{", b"["}:
        yield from _strings(text)
    if b"data:," in text or b"%22auths%22" in text:
        yield urllib.parse.unquote_to_bytes(text)


def inline_files(text: bytes) -> Iterator[tuple[str, bytes]]:
    """Path and content of the files in an Ignition config, or in a MachineConfig with one in it."""
    for value in _values(text):
        contents = value.get("contents") if isinstance(value, dict) else None
        source = contents.get("source") if isinstance(contents, dict) else None
        if isinstance(source, str) and source.startswith("data:") and isinstance(value.get("path"), str):
            head, _, data = source.partition(",")
            plain = urllib.parse.unquote_to_bytes(data)
            yield value["path"], _from_base64(plain) if head.endswith(";base64") else plain


def _strings(text: bytes) -> Iterator[bytes]:
    for value in _values(text):
        if isinstance(value, str) and any(character in value for character in '\n"%'):
            yield value.encode(errors="surrogatepass")


def _values(text: bytes) -> Iterator[Any]:
    """Yield every value in a JSON document, however deep; none of what is not valid JSON."""
    try:
        waiting = [json.loads(text)]
    except (ValueError, RecursionError):
        return
    while waiting:
        value = waiting.pop()
        yield value
        if isinstance(value, dict):
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)


def _from_base64(value: bytes) -> bytes:
    """Decode a value that is base64, and unpack it; return nothing if it is not."""
    packed = value.replace(b"%2B", b"+").replace(b"%2F", b"/").replace(b"%3D", b"=").replace(b"\\n", b"")
    decoded = from_base64(packed, is_strict=True)
    if not decoded.startswith(_GZIP):
        return decoded
    try:
        return zlib.decompressobj(wbits=16 + zlib.MAX_WBITS).decompress(decoded, _UNPACKED_BYTES)
    except zlib.error:
        return b""


def _is_line(decoded: bytes) -> bool:
    """Text of one line: what was a secret in base64 is a secret without it."""
    return (
        len(decoded) <= _MOST_PRINTED and decoded.isascii() and decoded.strip().decode("ascii").isprintable()
    )


_FILE_BYTES: Final = 8 << 20
_ALL_BYTES: Final = 64 << 20
_MOST_FILES: Final = 4000
_MOST_SECRETS: Final = 4000
_WHOLE_BYTES: Final = 16 << 10


@dataclass(frozen=True, slots=True)
class Place:
    """Files of one sort, by their path below the root, and what they hold."""

    pattern: str
    """The pattern, in the syntax of `Path.glob`."""
    whole: str = ""
    """The kind of the secret that such a file is as a whole; empty when secrets are merely in it."""


PLACES: Final[tuple[Place, ...]] = (
    Place("etc/service-record/token", "reporter-token"),
    Place("etc/service-record/collector-token", "collector-token"),
    Place("root/.docker/config.json", "pull-secret"),
    Place("home/*/.docker/config.json", "pull-secret"),
    Place("var/lib/kubelet/config.json", "pull-secret"),
    Place("run/containers/*/auth.json", "registry-auth"),
    Place("run/user/*/containers/auth.json", "registry-auth"),
    Place("root/.config/containers/auth.json", "registry-auth"),
    Place("etc/containers/auth.json", "registry-auth"),
    Place("etc/containers/auth.d/*", "registry-auth"),
    Place("etc/mco/internal-registry-pull-secret.json", "registry-auth"),
    Place("etc/assisted/**/*"),
    Place("etc/assisted-service/*"),
    Place("usr/local/share/assisted-service/*.env"),
    Place("opt/openshift/auth/kubeadmin-password*", "kubeadmin-password"),
    Place("var/opt/openshift/auth/kubeadmin-password*", "kubeadmin-password"),
    Place("root/kubeadmin-password*", "kubeadmin-password"),
    Place("opt/openshift/auth/kubeconfig*"),
    Place("opt/openshift/tls/*"),
    Place("opt/openshift/*.ign"),
    Place("opt/openshift/manifests/*secret*"),
    Place("opt/openshift/openshift/*secret*"),
    Place("etc/kubernetes/kubeconfig"),
    Place("etc/kubernetes/*kubeconfig*"),
    Place("etc/kubernetes/bootstrap-secrets/*"),
    Place("etc/kubernetes/bootstrap-configs/*"),
    Place("etc/kubernetes/cloud.conf"),
    Place("etc/kubernetes/static-pod-resources/*/secrets/*/*"),
    Place("var/lib/kubelet/*kubeconfig*"),
    Place("var/lib/kubelet/pki/*"),
    Place("var/lib/kubelet/pods/*/volumes/kubernetes.io~secret/*/*"),
    Place("var/lib/kubelet/pods/*/volumes/kubernetes.io~projected/*/token", "token"),
    Place("root/.kube/config"),
    Place("home/*/.kube/config"),
    Place("root/.ssh/id_*"),
    Place("home/*/.ssh/id_*"),
    Place("etc/ssh/ssh_host_*_key"),
    Place("etc/pki/tls/private/*"),
    Place("root/.aws/credentials"),
    Place("etc/shadow"),
    Place("etc/gshadow"),
    Place("etc/luks/*", "luks-passphrase"),
    Place("etc/NetworkManager/system-connections/*"),
    Place("run/NetworkManager/system-connections/*"),
    Place("etc/nmstate/**/*"),
    Place("etc/wpa_supplicant/*.conf"),
    Place("etc/wireguard/*.conf"),
    Place("etc/ipsec.d/*.secrets"),
    Place("etc/iscsi/iscsid.conf"),
    Place("etc/ignition-machine-config-encapsulated.json*"),
    Place("etc/ignition/*"),
    Place("boot/ignition/*"),
    Place("run/ignition.json"),
    Place("etc/machine-config-daemon/currentconfig"),
    Place("run/credentials/*/*", "credential"),
    Place("run/credstore/*", "credential"),
    Place("etc/credstore/*", "credential"),
    Place("etc/systemd/system/*.service"),
    Place("etc/systemd/system/*.service.d/*.conf"),
    Place("run/systemd/system/*.service"),
    Place("etc/systemd/system.conf.d/*.conf"),
    Place("etc/sysconfig/*"),
    Place("etc/environment"),
    Place("etc/profile.d/*proxy*"),
    Place("etc/mco/proxy.env"),
    Place("proc/cmdline"),
)


@dataclass(frozen=True, slots=True)
class HostSecrets:
    """The secrets of a host, and the files that may hold more."""

    secrets: tuple[Secret, ...]
    unread: tuple[str, ...]
    """`PATH: why`, for a manifest; a file that is not there is not among them."""


def known_secrets(root: Path, environ: Mapping[str, str] | None = None) -> HostSecrets:
    """Return every secret in the known places and in an environment: the userinfo of proxies, tokens,
    passwords.

    Nothing has to be there. Raises nothing; what cannot be read, or is too much to read, is in `unread`.
    """
    contents = Contents()
    by_value: dict[bytes, Secret] = {}
    unread: list[str] = []
    variables = "\n".join(f"{name}={value}" for name, value in (environ or {}).items())
    secrets = contents.secrets(variables.encode(errors="surrogateescape"))
    for secret in (*secrets, *_of_files(root, contents, unread)):
        value = secret.value.strip()
        if not is_taken(secret.value) or value in by_value:
            continue
        if len(by_value) == _MOST_SECRETS:
            unread.append(f"{root}: more than {_MOST_SECRETS} secrets")
            break
        by_value[value] = secret
    return HostSecrets(tuple(by_value.values()), tuple(unread))


def _of_files(root: Path, contents: Contents, unread: list[str]) -> Iterator[Secret]:
    remaining = _ALL_BYTES
    for number, (path, place) in enumerate(_files(root)):
        if number == _MOST_FILES or remaining <= 0:
            unread.append(f"{path}: too many files before it")
            return
        try:
            data = _read(root, path)
        except OSError as error:
            unread.append(f"{path}: {error.strerror}")
            continue
        if len(data) > _FILE_BYTES:
            unread.append(f"{path}: more than {_FILE_BYTES >> 20} MiB")
        remaining -= len(data)
        if place.whole and len(data) <= _WHOLE_BYTES:
            yield Secret(place.whole, data.strip())
        yield from contents.secrets(data)
        for name, inline in inline_files(data):
            kind = _whole(name)
            if kind and len(inline) <= _WHOLE_BYTES:
                yield Secret(kind, inline.strip())


def _files(root: Path) -> Iterator[tuple[Path, Place]]:
    paths: set[Path] = set()
    for place in PLACES:
        try:
            for path in sorted(root.glob(place.pattern)):
                if path not in paths:
                    paths.add(path)
                    yield path, place
        except OSError:
            continue  # a directory that went away meanwhile


def _whole(path: str) -> str:
    """Return the kind of the secret that a file of this path is as a whole; empty when it is none."""
    name = path.removeprefix("/")
    return next((place.whole for place in PLACES if place.whole and fnmatch(name, place.pattern)), "")


def _read(root: Path, path: Path) -> bytes:
    """Return the content of a plain file below the root; nothing if it is missing or not a plain file."""
    real = Path(os.path.realpath(path))
    if not real.is_relative_to(os.path.realpath(root)):
        return b""
    try:
        if not real.is_file():
            return b""
        with real.open("rb") as file:
            return file.read(_FILE_BYTES + 1)
    except FileNotFoundError:
        return b""
