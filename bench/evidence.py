"""Measure the cost of reading a bundle's evidence: every rule, in one pass over a busy host's journals."""

import os
import random
import tarfile
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from bench.python import COMMAND
from bench.reading import most_memory
from bench.rounds import medians, processor, wall
from bench.table import Row, limited, memory
from service_record.record.line import encoded
from service_record.record.systemd import boot_id, uptime

MEBIBYTES = 96
ROUNDS = 3
SECONDS_LIMIT = 5.0
BYTES_LIMIT = 300_000_000

_LINES = (
    'kubelet[1871]: E0302 09:00:40.{n} 1871 kubelet.go:2394] "Container runtime network not ready" id="{x}"',
    "kubelet[1871]: W0302 09:00:46.{n} 1871 reflector.go:324] failed to list Node {x}: connection refused",
    'crio[1711]: time="2026-03-02 09:00:33.{n}Z" level=info msg="Checking image status: b@sha256:{x}"',
    "kernel: audit: type=1400 audit(1772442001.{n}:91): avc:  denied  {{ getattr }} for pid={n} path={x}",
    "kernel: XFS (vda{n}): Ending clean mount",
    "NetworkManager[622]: <info>  [1772442003.{n}] device (ens3): state change: ip-check ({x})",
    "systemd[1]: Started run-{x}.scope.",
    "bootkube.sh[1016]: I0302 09:01:{n} 1 waitforceo.go:67] waiting on condition EtcdRunningInCluster {x}",
    'etcd[99]: {{"level":"warn","msg":"apply request took too long","took":"{n}ms","id":"{x}"}}',
    "sshd[{n}]: Accepted publickey for core from 192.0.2.3 port {n} ssh2: ED25519 SHA256:{x}",
)


def rows(root: Path) -> Iterator[Row]:
    folder = _bundle(root / "evidence")
    archive = root / "evidence.tar.gz"
    with tarfile.open(archive, "w:gz", compresslevel=1) as packed:
        packed.add(folder, folder.name)
    for form, path in (("unpacked", folder), ("packed", archive)):
        command = COMMAND, "analyze", "--from", path
        seconds = medians({form: partial(processor, *command)}, ROUNDS)[form]
        what = f"service-record analyze: a bundle of {MEBIBYTES} MiB, {form}"
        yield limited(what, seconds, SECONDS_LIMIT)
        yield memory(f"{what}: memory", most_memory(*command), BYTES_LIMIT)
    archive.unlink()
    yield _live_row(root / "live")


def _live_row(records: Path) -> Row:
    """Measure what looking at this very host takes, by the clock: programs that hang have a deadline."""
    started = {
        "timestamp": datetime.now(UTC).isoformat(),
        "phase": "service start",
        "pid": os.getpid(),
        "uptime": uptime(),
    }
    records.mkdir()
    (records / "bench.json").write_bytes(encoded({**started, "bootId": boot_id()}))
    environment = os.environ | {"SERVICE_RECORDS_DIR": str(records)}
    read = partial(wall, COMMAND, "analyze", environment=environment)
    return limited("service-record analyze: this host itself", medians({"live": read}, ROUNDS)["live"], 3.0)


def _bundle(top: Path) -> Path:
    """Make the unpacked bundle of a healthy host: half in one journal, the rest in those of units."""
    services, journals = top / "bootstrap/services", top / "bootstrap/journals"
    services.mkdir(parents=True)
    journals.mkdir()
    started = {"timestamp": "2026-03-02T09:00:00.000Z", "phase": "service start", "pid": 1016, "uptime": 60}
    (services / "bootkube.json").write_bytes(encoded(started))
    chance = random.Random(1)  # the same bundle each time
    names = ("journal", *(f"unit{number}" for number in range(12)))
    for name in names:
        size = (MEBIBYTES << 20) // 2 // (1 if name == "journal" else len(names) - 1)
        with (journals / f"{name}.log").open("w") as stream:
            while stream.tell() < size:
                stream.writelines(_line(chance) for _ in range(1000))
    return top


def _line(chance: random.Random) -> str:
    filled = chance.choice(_LINES).format(n=chance.randrange(100_000), x=f"{chance.getrandbits(64):x}")
    return f"2026-03-02T09:{chance.randrange(60):02}:{chance.randrange(60):02}.000000+00:00 host {filled}\n"
