"""`make bench-bundle`: what packing a large journal costs, beside `journalctl | gzip -6` in the same run."""

import argparse
import base64
import hashlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Self

from bench import journal
from bench.machine import machine
from bench.rounds import processor_of, resident
from bench.table import Row, duration, replace_between, timed
from service_record.bundle.archive import DISK_BYTES
from service_record.reporter.bundling import make_bundle
from service_record.reporter.gather.gathering import Context, GatherRow
from service_record.reporter.gather.sources import ProgramSource

PAGE = Path(__file__).resolve().parents[1] / "docs" / "project" / "bundle.md"
MIB = 1 << 20
QUICK_MEBIBYTES = 64
FULL_MEBIBYTES = 1024
SLOWEST = 2.0
"""The limit of the duration, as a multiple of that of gzip."""
MOST_PROCESSOR = 1.0
"""The maximum processor time of a whole bundle, as a multiple of that of gzip."""
MOST_MEMORY = 128 * MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Sizes in bytes, times in seconds."""

    journal: int
    gzip_seconds: float
    gzip_processor: float
    gzip_bytes: int
    pack_seconds: float
    """Gathering, redaction, the last look and packing."""
    pack_processor: float
    bundle: int
    kept: int
    """Bytes of the journal in the bundle."""
    masked: int
    memory: int
    """The most that the process had resident."""
    disk: int
    """The most that it took, as the file system counts it."""

    @property
    def holds(self) -> bool:
        is_quick = self.pack_seconds <= SLOWEST * self.gzip_seconds
        return is_quick and self.memory < MOST_MEMORY and self.disk <= DISK_BYTES


def measured(root: Path, mebibytes: int) -> Measured:
    """Compress a journal of that size with gzip, and then make a bundle of it in a process of its own."""
    programs = journal.install(root, mebibytes * MIB)
    environment = os.environ | {"PATH": f"{programs}:{os.environ['PATH']}"}
    size = int(
        subprocess.run(
            "journalctl | wc -c", shell=True, env=environment, check=True, capture_output=True
        ).stdout
    )
    packed = root / "journal.gz"
    begun, processor_begun = time.perf_counter(), processor_of(resource.RUSAGE_CHILDREN)
    subprocess.run(f"journalctl | gzip -6 >{packed}", shell=True, env=environment, check=True)
    gzip_seconds = time.perf_counter() - begun
    gzip_processor = processor_of(resource.RUSAGE_CHILDREN) - processor_begun
    gzip_bytes = packed.stat().st_size
    packed.unlink()
    done = subprocess.run(
        [sys.executable, "-m", "bench.bundle", "--pack", root],
        env=environment,
        check=True,
        stdout=subprocess.PIPE,
    )
    return Measured(
        journal=size,
        gzip_seconds=gzip_seconds,
        gzip_processor=gzip_processor,
        gzip_bytes=gzip_bytes,
        **json.loads(done.stdout),
    )


def pack(root: Path) -> Mapping[str, float]:
    """Make the bundle in this process, and say what that took."""
    collector = GatherRow(
        "journal", "bootstrap/journals/journal.log", ProgramSource(("journalctl",)), 3600, 1 << 40
    )
    work = root / "work"
    work.mkdir()
    _plant_secrets(root)
    context = Context(environ=os.environ, root=root)
    with _Disk(work) as disk:
        begun = time.perf_counter()
        bundle = make_bundle(work, [collector], context, verdict="", at=datetime.now(UTC), seconds=3600)
        whole_seconds = time.perf_counter() - begun
    processor = processor_of(resource.RUSAGE_SELF) - disk.processor
    memory = resident(os.getpid())  # getrusage(2) would count its parent's memory, too
    if bundle.leak or bundle.gathered[0].reason:
        raise SystemExit(f"no bundle: {bundle.leak or bundle.gathered[0].reason}")
    return {
        "pack_seconds": whole_seconds,
        "pack_processor": processor,
        "bundle": bundle.bytes,
        "kept": sum(member.bytes or 0 for member in bundle.members if member.path == collector.member),
        "masked": bundle.masked,
        "memory": memory,
        "disk": disk.most,
    }


def _plant_secrets(root: Path) -> None:
    """Write known secrets to a host: the scan looks for each in each of its forms."""
    registries = ("cloud.openshift.com", "quay.io", "registry.connect.redhat.com", "registry.redhat.io")
    auths = {
        name: {
            "auth": base64.b64encode(
                f"user+{name}:{hashlib.sha256(name.encode()).hexdigest()}".encode()
            ).decode()
        }
        for name in registries
    }
    for path, text in {
        "root/.docker/config.json": json.dumps({"auths": auths}),
        "opt/openshift/auth/kubeadmin-password": "aBcDe-FgHiJ-kLmNo-PqRsT",
        "etc/service-record/token": hashlib.sha256(b"token").hexdigest(),
    }.items():
        (root / path).parent.mkdir(parents=True)
        (root / path).write_text(text)


class _Disk:
    """Peak disk use of this process in a directory, by polling. Files without a name count, too."""

    def __init__(self, directory: Path) -> None:
        self.most = 0
        self.processor = 0.0
        """Seconds of processor time that the polling itself took."""
        self._directory = directory
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.02):
            self.most = max(self.most, disk_use(self._directory))
            self.processor = time.thread_time()


def disk_use(directory: Path) -> int:
    """Return the bytes that this process has open in a directory now, as the file system counts them."""
    sizes: dict[int, int] = {}
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            if str(descriptor.readlink()).startswith(f"{directory}/"):
                status = descriptor.stat()
                sizes[status.st_ino] = status.st_blocks * 512
    return sum(sizes.values())


def rows(root: Path) -> Iterator[Row]:
    """Yield the row of the quick measurement, for `make bench`."""
    (root / "bundle").mkdir()
    result = measured(root / "bundle", QUICK_MEBIBYTES)
    what, limit = f"bundle: gather, redact and pack {QUICK_MEBIBYTES} MiB", f"{SLOWEST:.0f} x"
    against = "journalctl piped to gzip -6"
    yield timed(what, result.pack_seconds, against, result.gzip_seconds, limit=limit, holds=result.holds)
    spent, allowed = result.pack_processor, MOST_PROCESSOR * result.gzip_processor
    what, limit = "bundle: processor time of that, with the last look", f"{MOST_PROCESSOR:.0f} x"
    yield timed(what, spent, against, result.gzip_processor, limit=limit, holds=spent <= allowed)


def table(result: Measured) -> str:
    rate = result.gzip_seconds / result.pack_seconds
    compressor = "zlib" if find_spec("isal") is None else "ISA-L"
    cells = [
        ("", "`journalctl \\| gzip -6`", f"bundle, with {compressor}", "limit"),
        ("journal", mebibytes(result.journal), "the same", ""),
        ("gather, redact, pack", duration(result.gzip_seconds), duration(result.pack_seconds), ""),
        ("throughput", "1", f"{rate:.2f}", f"at least {1 / SLOWEST}"),
        ("processor time, all of it", duration(result.gzip_processor), duration(result.pack_processor), ""),
        ("compressed", mebibytes(result.gzip_bytes), mebibytes(result.bundle), mebibytes(DISK_BYTES)),
        ("journal in it", "all", mebibytes(result.kept), ""),
        ("secrets masked", "0", f"{result.masked:,}", ""),
        ("memory at most", "", mebibytes(result.memory), mebibytes(MOST_MEMORY)),
        ("disk at most", "", mebibytes(result.disk), mebibytes(DISK_BYTES)),
    ]
    head, *body = ("| " + " | ".join(row) + " |" for row in cells)
    return "\n".join([head, "|---|---|---|---|", *body])


def mebibytes(size: int) -> str:
    return f"{size / MIB:.3g} MiB" if size < 1000 * MIB else f"{size / MIB:.0f} MiB"


def main() -> int:
    """Measure a bundle. Return the exit status: 1 when a promise does not hold."""
    parser = argparse.ArgumentParser(prog="python -m bench.bundle", description=__doc__)
    parser.add_argument(
        "--mebibytes", type=int, default=FULL_MEBIBYTES, help="of journal [default: %(default)s]"
    )
    parser.add_argument("--pack", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.pack:
        print(json.dumps(pack(arguments.pack)))
        return 0
    with tempfile.TemporaryDirectory(prefix="service-record-bench-") as directory:
        result = measured(Path(directory), arguments.mebibytes)
    text = f"{machine()}\n\n{table(result)}"
    print(text)
    replace_between(PAGE, "bench-bundle", text)
    return int(not result.holds)


if __name__ == "__main__":
    sys.exit(main())
