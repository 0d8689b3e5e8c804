"""The exact secrets of a host, from where its programs keep them. Only this part of redaction reads files."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

from service_record.redaction.contents import Contents, inline_files
from service_record.redaction.faces import Secret
from service_record.redaction.secrets import is_taken

_FILE_BYTES: Final = 8 << 20
_ALL_BYTES: Final = 64 << 20
_MOST_FILES: Final = 4000
_MOST_SECRETS: Final = 4000
_WHOLE_BYTES: Final = 16 << 10


@dataclass(frozen=True, slots=True)
class Place:
    """Files of one sort, by their path below the root, and what they hold."""

    pattern: str
    """As `Path.glob` takes it."""
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
class Known:
    """The secrets of a host, and the files that may hold more."""

    secrets: tuple[Secret, ...]
    unread: tuple[str, ...]
    """`PATH: why`, for a manifest; a file that is not there is not among them."""


def known_secrets(root: Path, environ: Mapping[str, str] | None = None) -> Known:
    """Every secret in the places known, and in an environment: the userinfo of proxies, tokens, passwords.

    Nothing has to be there. Raises nothing; what cannot be read, or is too much to read, is in `unread`.
    """
    contents = Contents()
    found: dict[bytes, Secret] = {}
    unread: list[str] = []
    variables = "\n".join(f"{name}={value}" for name, value in (environ or {}).items())
    secrets = contents.secrets(variables.encode(errors="surrogateescape"))
    for secret in (*secrets, *_of_files(root, contents, unread)):
        if is_taken(secret.value):
            found.setdefault(secret.value.strip(), secret)
        if len(found) == _MOST_SECRETS:
            unread.append(f"{root}: more than {_MOST_SECRETS} secrets")
            break
    return Known(tuple(found.values()), tuple(unread))


def _of_files(root: Path, contents: Contents, unread: list[str]) -> Iterator[Secret]:
    left = _ALL_BYTES
    for number, (path, place) in enumerate(_files(root)):
        if number == _MOST_FILES or left <= 0:
            unread.append(f"{path}: too many files before it")
            return
        try:
            data = _read(root, path)
        except OSError as error:
            unread.append(f"{path}: {error.strerror}")
            continue
        if len(data) > _FILE_BYTES:
            unread.append(f"{path}: more than {_FILE_BYTES >> 20} MiB")
        left -= len(data)
        if place.whole and len(data) <= _WHOLE_BYTES:
            yield Secret(place.whole, data.strip())
        yield from contents.secrets(data)
        for name, inline in inline_files(data):
            kind = _whole(name)
            if kind and len(inline) <= _WHOLE_BYTES:
                yield Secret(kind, inline.strip())


def _files(root: Path) -> Iterator[tuple[Path, Place]]:
    seen: set[Path] = set()
    for place in PLACES:
        try:
            for path in sorted(root.glob(place.pattern)):
                if path not in seen:
                    seen.add(path)
                    yield path, place
        except OSError:
            continue  # a directory that went away meanwhile


def _whole(path: str) -> str:
    """The kind of the secret that a file of this path is as a whole; empty when it is none."""
    name = path.removeprefix("/")
    return next((place.whole for place in PLACES if place.whole and fnmatch(name, place.pattern)), "")


def _read(root: Path, path: Path) -> bytes:
    """What is in a plain file below the root; nothing of what is none, or is gone."""
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
