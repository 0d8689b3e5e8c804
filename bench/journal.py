"""A large journal to measure with: a `journalctl` that prints realistic lines as fast as a pipe takes."""

import random
import re
from pathlib import Path
from typing import Final

_BLOCK_BYTES: Final = 16 << 20
"""Printed again and again. gzip looks back 32 KiB, so that it gains nothing by that."""

_LINES: Final = (
    (
        'kubelet.sh[{pid}]: I1121 {time}.{us} {pid} kubelet.go:2431] "SyncLoop (PLEG): event for pod" '
        'pod="{ns}/{name}" event={{"ID":"{uuid}","Type":"ContainerStarted","Data":"{hex}{hex}"}}'
    ),
    (
        'kubelet.sh[{pid}]: E1121 {time}.{us} {pid} pod_workers.go:1301] "Error syncing pod, skipping" '
        'err="failed to \\"StartContainer\\" for \\"{name}\\" with CrashLoopBackOff: back-off 5m0s" '
        'pod="{ns}/{name}" podUID="{uuid}"'
    ),
    (
        "kubelet.sh[{pid}]: W1121 {time}.{us} {pid} reflector.go:561] client-go/informers/factory.go:160: "
        'failed to list *v1.Node: Get "https://api-int.ocp.example.com:6443/api/v1/nodes?limit=500": '
        "dial tcp 192.0.2.{byte}:6443: connect: connection refused"
    ),
    (
        'crio[{pid}]: time="2026-11-21 {time}.{us}Z" level=info msg="Pulled image: '
        'quay.io/openshift-release-dev/ocp-v4.0-art-dev@sha256:{hex}{hex}" id={uuid} '
        "name=/runtime.v1.ImageService/PullImage"
    ),
    (
        'bootkube.sh[{pid}]: [#{byte}] failed to fetch discovery: Get "https://localhost:6443/api'
        '?timeout=32s": dial tcp [::1]:6443: connect: connection refused'
    ),
    "systemd[1]: {name}.service: Main process exited, code=exited, status={byte}/n/a",
    "systemd[1]: Started libcontainer container {hex}{hex}.",
    "NetworkManager[{pid}]: <info>  [1795223110.{us}] device (veth{hex}): carrier: link connected",
    "kernel: IPv6: ADDRCONF(NETDEV_CHANGE): veth{hex}: link becomes ready",
    "sshd[{pid}]: Failed password for root from 192.0.2.{byte} port {pid} ssh2",
    (
        "ovs-vswitchd[{pid}]: ovs|{pid}|connmgr|INFO|br-ex<->unix#{pid}: "
        "{byte} flow_mods in the last 0 s ({byte} adds)"
    ),
    (
        "machine-config-daemon[{pid}]: I1121 {time}.{us} {pid} update.go:2641] Node master-{byte} has "
        "Desired Config rendered-master-{hex}, currently on rendered-master-{hex}"
    ),
    (
        "podman[{pid}]: 2026-11-21 {time}.{us} +0000 UTC m=+0.{us} container create {hex}{hex} "
        "(image={name}, name={name})"
    ),
    (
        'agent[{pid}]: time="2026-11-21T{time}Z" level=info msg="Host will be inspected: token not due" '
        "pull_secret_set=true"
    ),
)
_SECRETS: Final = (
    "curl[{pid}]: > Authorization: Bearer sha256~{hex}{hex}",
    "podman[{pid}]: Error: unable to pull https://admin:{hex}@registry.example.com:5000/release",
)
"""One in some thousands of lines: what redaction is for."""
_NAMES: Final = (
    *("etcd", "kube-apiserver", "kube-controller-manager", "machine-config-server", "coredns", "haproxy"),
)
_FIELD: Final = re.compile(r"\{(pid|time|us|ns|name|uuid|hex|byte)\}")


def journal_text() -> bytes:
    """Return lines as `journalctl --output=short-iso-precise` prints them; the same each time."""
    chance = random.Random(20261121)
    text = bytearray()
    second = 0.0
    while len(text) < _BLOCK_BYTES:
        second += chance.expovariate(40)
        lines = _SECRETS if chance.random() < 0.0005 else _LINES
        text += f"2026-11-21T{_time(second)}.{chance.randrange(10**6):06}+0000 master-0 ".encode()
        text += _filled(chance.choice(lines), chance, second).encode() + b"\n"
    return bytes(text[: text.rfind(b"\n", 0, _BLOCK_BYTES) + 1])


def _filled(line: str, chance: random.Random, second: float) -> str:
    return _FIELD.sub(
        lambda field: _value(field[1], chance, second), line.replace("{{", "{").replace("}}", "}")
    )


def _value(field: str, chance: random.Random, second: float) -> str:
    digits = chance.randbytes(16).hex()
    return {
        "time": _time(second),
        "us": f"{chance.randrange(10**6):06}",
        "pid": str(chance.randrange(1000, 90_000)),
        "byte": str(chance.randrange(256)),
        "uuid": "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])),
        "ns": f"openshift-{chance.choice(_NAMES)}",
        "name": chance.choice(_NAMES),
        "hex": digits,
    }[field]


def _time(second: float) -> str:
    whole = int(second)
    return f"{whole // 3600 % 24:02}:{whole // 60 % 60:02}:{whole % 60:02}"


def install(directory: Path, size: int) -> Path:
    """Make a `journalctl` in a directory of its own that prints about so many bytes, and return that."""
    block = directory / "block"
    block.write_bytes(journal_text())
    programs = directory / "bin"
    programs.mkdir()
    program = programs / "journalctl"
    times = max(round(size / block.stat().st_size), 1)
    program.write_text(f"#!/bin/sh\nexec cat {' '.join([str(block)] * times)}\n")
    program.chmod(0o755)
    return programs
