"""A program that judges bundles for others: a request a line, an answer a line.

Run as `python -m service_record.triage.judge`. It loads the rules once, and forks for each bundle: one that
takes too much memory or time, or brings its reader down, costs nothing but its own row.
"""

import gc
import hashlib
import io
import os
import resource
import select
import signal
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Final

import msgspec

from service_record.bundle.layers import (
    Layer,
    LimitError,
    Limits,
    ReadingBudget,
    decompressed_layer,
    is_archive,
)
from service_record.bundle.members import archive_members
from service_record.bundle.tar import TarError
from service_record.diagnosis.causes import built_in_causes
from service_record.diagnosis.judgement import judge
from service_record.diagnosis.units import read_texts
from service_record.history.build import host_history
from service_record.read.host_files import host_files
from service_record.read.source import SourceError, liveness_for, open_source
from service_record.record.directory import RECORD_DIRECTORIES
from service_record.redaction import LeakError, outgoing_text
from service_record.redaction.rules import Rules
from service_record.triage.rows import (
    BundleRow,
    Reference,
    bundle_facts,
    is_cluster_member,
    row_of,
    unreadable_row,
    within_cluster,
)
from service_record.version import __version__

_MIB: Final = 1 << 20
_PIECE: Final = 1 << 20
_MAX_LEFT_OUT: Final = 500  # characters
_WITHHELD: Final = "withheld: a secret was left in it"
_SHOWN_TEXTS: Final = ("says", "cause_says", "signature", "line", "left_out")


class JudgeRequest(msgspec.Struct, frozen=True):
    """A bundle to judge, and what that may take."""

    reference: Reference
    path: str
    """The file or directory on this machine."""
    memory_bytes: int = 1024 * _MIB
    cpu_seconds: int = 60
    """Three times as many of the clock."""


def rows_of(path: Path, reference: Reference) -> Iterator[BundleRow]:
    """Yield a row for each host in a bundle. What cannot be read becomes a row with the reason."""
    digest = _digest(path)
    for row in _rows(path, reference):
        yield msgspec.structs.replace(_masked(row), digest=digest, judged=time.time(), version=__version__)


def _rows(path: Path, reference: Reference) -> Iterator[BundleRow]:
    has_hosts = False
    if path.is_file():
        for member, copy in _hosts_of_cluster(path):
            has_hosts = True
            yield within_cluster(_row(copy, reference), member)
    if not has_hosts:
        yield _row(path, reference)


def _row(path: Path, reference: Reference) -> BundleRow:
    try:
        return judge_bundle(path, reference)
    except (SourceError, OSError) as reason:
        return unreadable_row(reference, str(reason).replace(str(path), reference.uri))


def judge_bundle(path: Path, reference: Reference) -> BundleRow:
    """Return the row of the host whose bundle is at this path. Raises SourceError, OSError."""
    source = open_source([str(path)], with_evidence=True)
    history = host_history(
        source.records,
        liveness_for(source),
        written=source.written,
        unfinished=source.unfinished,
        damaged=source.damaged,
    )
    units = read_texts(source.unit_texts)
    left_out = list(map(str, source.left_out))
    files = host_files(source, units, leave=lambda part: left_out.append(str(part)))
    judgement = judge(history, built_in_causes(), units, files=files, is_log_bundle=source.is_log_bundle)
    if judgement.diagnosis is None and source.refusal:
        raise SourceError(source.refusal)
    facts = bundle_facts(judgement.facts, history)
    row = row_of(judgement.diagnosis, history, reference, facts)
    why = "; ".join(left_out).replace(str(path), reference.uri)
    return msgspec.structs.replace(row, left_out=why[:_MAX_LEFT_OUT])


def _hosts_of_cluster(path: Path) -> Iterator[tuple[str, Path]]:
    """Yield the archives of hosts in the archive that assisted-service makes of a cluster, each as a file.

    An archive with records of its own is that of one host: the rest of it is not read here.
    """
    with path.open("rb") as stream, ExitStack() as opened:
        layer = decompressed_layer(Layer(stream.read1, ReadingBudget(Limits())))
        if not is_archive(layer.head):
            return
        copy: Path | None = None  # most bundles have one host, and need no directory
        try:
            for member in archive_members(layer):
                if any(f"{directory}/" in member.name for directory in RECORD_DIRECTORIES):
                    return
                if member.kind or not is_cluster_member(member.name):
                    continue
                if copy is None:
                    around = tempfile.TemporaryDirectory(prefix="service-record-triage-")
                    copy = Path(opened.enter_context(around)) / "host"
                with copy.open("wb") as file:
                    while piece := member.read(_PIECE):
                        file.write(piece)
                yield member.name, copy
        except (TarError, LimitError):
            return  # the hosts before the damage have their rows


def _digest(path: Path) -> str:
    """Return the SHA-256 of a file; empty for a directory, and for what cannot be read."""
    if not path.is_file():
        return ""
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError:
        return ""


def _masked(row: BundleRow) -> BundleRow:
    """Return the row without secrets: it is kept beside those of other hosts, and shown to many."""
    rules = Rules(())
    texts = {name: getattr(row, name) for name in _SHOWN_TEXTS}
    try:
        return msgspec.structs.replace(
            row, **{name: outgoing_text(text, rules) for name, text in texts.items() if text}
        )
    except LeakError:
        return msgspec.structs.replace(row, **{name: _WITHHELD for name, text in texts.items() if text})


def answer(request: JudgeRequest) -> bytes:
    """Return the JSON of the rows of a bundle, judged in a process of its own within the request's limits."""
    seconds = 3 * request.cpu_seconds
    read_end, write_end = os.pipe()
    child = os.fork()
    if not child:
        os.close(read_end)
        _child(request, write_end)
    os.close(write_end)
    with os.fdopen(read_end, "rb", buffering=0) as pipe:
        reply = _read_until(pipe, time.monotonic() + seconds)
    if reply is None:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if reply is None:
        reason = f"not judged: it takes more than {seconds} s"
    elif os.waitstatus_to_exitcode(status) == 0 and reply:
        return reply
    elif os.waitstatus_to_exitcode(status) < 0:
        reason = f"not judged: it takes more than {request.cpu_seconds} s of a processor, or too much memory"
    else:
        reason = f"not judged: {reply.decode(errors='replace') or 'its reader ended without a word'}"
    return msgspec.json.encode([unreadable_row(request.reference, reason)])


def _read_until(pipe: IO[bytes], deadline: float) -> bytes | None:
    """Return all that comes through a pipe; None when that takes too long."""
    parts: list[bytes] = []
    while (remaining := deadline - time.monotonic()) > 0:
        if not select.select([pipe], [], [], remaining)[0]:
            break
        piece = pipe.read(_PIECE)
        if not piece:
            return b"".join(parts)
        parts.append(piece)
    return None


def _child(request: JudgeRequest, write_end: int) -> None:
    """Judge, write the answer or one line of what went wrong, and end."""
    status = 1
    try:
        for limit, most in (
            (resource.RLIMIT_AS, request.memory_bytes),
            (resource.RLIMIT_CPU, request.cpu_seconds),
            (resource.RLIMIT_CORE, 0),
        ):
            resource.setrlimit(limit, (most, most))
        written = msgspec.json.encode(list(rows_of(Path(request.path), request.reference)))
        status = 0
    except MemoryError:
        written = f"it takes more than {request.memory_bytes // _MIB} MiB of memory".encode()
    except BaseException as fault:  # noqa: BLE001  # of a bundle of anybody; the program goes on with the next
        written = f"{type(fault).__name__}: {fault}".encode(errors="replace")[:500]
    try:
        with os.fdopen(write_end, "wb") as pipe:
            pipe.write(written)
    finally:
        os._exit(status)


_SAMPLE: Final = {
    "bootstrap/services/sample.json": b"".join(
        b'{"timestamp":"2026-01-01T00:00:0%d.000Z","phase":"%s","bootId":"%032x","invocationId":"%032x","pid":2%s}\n'
        % (at, phase, 1, 1, more)
        for at, phase, more in (
            (0, b"service start", b""),
            (1, b"stage start", b',"stage":"a"'),
            (
                2,
                b"stage end",
                b',"stage":"a","result":"failure","errorMessage":"Error: x","errorLine":"1 main x"',
            ),
            (2, b"service end", b',"result":"failure","errorMessage":"Error: x","errorLine":"1 main x"'),
        )
    ),
    "bootstrap/journals/journal.log": b"2026-01-01T00:00:00+00:00 host sample[2]: Error: no space left\n",
    "bootstrap/journals/kernel.log": b"2026-01-01T00:00:00+00:00 host kernel: a: b\n",
    "bootstrap/system/os-release.txt": b"ID=x\nVERSION_ID=1\n",
    "bootstrap/system/kernel-command-line.txt": b"root=/dev/sda1 ro\n",
    "bootstrap/system/memory.txt": b"MemTotal: 1 kB\n",
    "bootstrap/network/hostname.txt": b"host.example\n",
    "bootstrap/network/resolv.conf": b"nameserver 192.0.2.1\n",
    "bootstrap/network/ip-addr.txt": b"2: a: <UP> mtu 1500\n    inet 192.0.2.2/24 scope global a\n",
    "bootstrap/network/ip-route.txt": b"default via 192.0.2.1 dev a proto dhcp\n",
    "bootstrap/storage/df.txt": b"Filesystem 1K-blocks Used Available Use% Mounted on\n/dev/a 9 8 1 80% /\n",
    "bootstrap/storage/lsblk.txt": b"NAME SIZE TYPE MOUNTPOINT\nsda 9G disk\n`-sda1 9G part /\n",
    "bootstrap/time/chrony-tracking.txt": b"Leap status     : Normal\n",
}
"""A bundle with a little of most that bundles have."""


def _warm_up() -> None:
    """Judge a sample, so that what is compiled at its first use is there before the first child is made."""
    built_in_causes().prepare()
    with tempfile.TemporaryDirectory(prefix="service-record-triage-") as directory:
        path = Path(directory) / "sample.tar"
        with tarfile.open(path, "w") as archive:
            for name, data in _SAMPLE.items():
                member = tarfile.TarInfo(name)
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
        tuple(rows_of(path, Reference(str(path))))


def main() -> None:
    """Answer requests until standard input ends."""
    _warm_up()
    gc.collect()
    gc.freeze()  # what is loaded is shared with the children, and not looked through by them
    for line in sys.stdin.buffer:
        sys.stdout.buffer.write(answer(msgspec.json.decode(line, type=JudgeRequest)) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
