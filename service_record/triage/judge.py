"""A program that judges bundles: each line of input is a request, each line of output its answer.

Run as `python -m service_record.triage.judge`. It loads the rules once, and forks for each bundle, so
a bundle that takes too much memory or time, or crashes its reader, costs only its own row.
"""

import gc
import hashlib
import io
import os
import signal
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from service_record.bundle.contents import Content, archive_contents, directory_contents
from service_record.bundle.layers import (
    Layer,
    LimitError,
    Limits,
    ReadingBudget,
    decompressed_layer,
)
from service_record.bundle.members import archive_members
from service_record.bundle.tar import TarError
from service_record.diagnosis.causes import built_in_causes
from service_record.diagnosis.judgement import judge
from service_record.diagnosis.units import read_texts
from service_record.history.build import host_history
from service_record.read.derived import add_derived
from service_record.read.host_files import host_files
from service_record.read.source import Source, SourceError, liveness_for, open_source
from service_record.record.directory import RECORD_DIRECTORIES
from service_record.record.line import make_encodable
from service_record.record.programs import ForkedProgram, ProgramError, confine, run_confined
from service_record.redaction import LeakError, outgoing_text
from service_record.redaction.rules import Rules
from service_record.triage.rows import (
    TROUBLE,
    UNREADABLE,
    BundleRow,
    Reference,
    add_cluster_columns,
    find_cluster_member,
    is_cluster_member,
    make_host_columns,
    make_row,
    make_unreadable_row,
)
from service_record.version import __version__

_MIB: Final = 1 << 20
_CHUNK_BYTES: Final = 1 << 20
_MAX_ANSWER_BYTES: Final = 256 * _MIB
_MAX_LEFT_OUT: Final = 500  # characters
_TEMPORARY: Final = "service-record-triage-"
_WITHHELD: Final = "withheld: a secret was left in it"
_SHOWN_TEXTS: Final = ("says", "cause_says", "signature", "line", "left_out")


class JudgeRequest(msgspec.Struct, frozen=True):
    """A bundle to judge, with limits."""

    reference: Reference
    path: bytes
    """The file or directory on this machine, or the place of a host's records at a collector."""
    memory_bytes: int = 1024 * _MIB
    cpu_seconds: int = 60
    """Wall-clock time may be three times as long."""


def judge_path(path: str, reference: Reference) -> Iterator[BundleRow]:
    """Yield a row for each host in a bundle. A part that cannot be read becomes a row with the reason."""
    for row in _judge_hosts(path, reference):
        # Two bundles whose few readable files are equal need not be copies of each other.
        if row.verdict == UNREADABLE:
            row = msgspec.structs.replace(row, digest="")  # noqa: PLW2901
        masked = _mask_secrets(row, make_encodable(path), reference.uri)
        yield msgspec.structs.replace(masked, judged=time.time(), version=__version__)


def _judge_hosts(path: str, reference: Reference) -> Iterator[BundleRow]:
    content = _hash_contents(path)
    if not content.by_host:
        for row in judge_bundle(path, reference):
            # Nodes in one source are different hosts, not copies of each other.
            digest = f"{content.whole}/{row.member}" if row.member else content.whole
            yield msgspec.structs.replace(row, digest=digest)
        return
    for member, copy in _unpack_hosts(path):
        if isinstance(copy, str):
            yield make_unreadable_row(reference, copy)
        else:
            row = add_cluster_columns(judge_bundle(str(copy), reference)[0], member)
            name = "/".join(
                part for part in member.split("/") if part not in {"", "."}
            )  # as in `Content.path`
            yield msgspec.structs.replace(row, digest=content.by_host.get(name, ""))


def judge_bundle(path: str, reference: Reference) -> list[BundleRow]:
    """Return the row of the host at this path, or a row for each node whose logs are there."""
    try:
        source = open_source([path], with_evidence=True)
        if not source.records:
            source = add_derived(source, leave=lambda _part: None)  # the same parts are left out below
        if not source.hosts:
            return [judge_source(source, path, reference)]
        return [_judge_node(host, source, path, reference) for host in source.hosts]
    except (SourceError, OSError) as reason:
        return [_refuse(reason, path, reference)]


def _judge_node(node: Source, source: Source, path: str, reference: Reference) -> BundleRow:
    """Return the row of a node whose logs are in a source of several. Other nodes are judged without it."""
    try:
        row = judge_source(node, path, reference)
    except (SourceError, OSError) as reason:
        row = _refuse(reason, path, reference)
    return msgspec.structs.replace(row, member=node.name.removeprefix(f"{source.name}: "))


def _refuse(reason: Exception, path: str, reference: Reference) -> BundleRow:
    return make_unreadable_row(reference, str(reason).removeprefix(f"{path}: ").replace(path, reference.uri))


def judge_source(source: Source, path: str, reference: Reference) -> BundleRow:
    """Return the row of one host. Raises SourceError, OSError."""
    history = host_history(
        source.records,
        liveness_for(source),
        written=source.written,
        unfinished=source.unfinished,
        damaged=source.damaged,
    )
    units = read_texts(source.unit_texts)
    parts = list(source.left_out)
    files = host_files(source, units, leave=parts.append)
    judgement = judge(history, built_in_causes(), units, files=files, is_log_bundle=source.is_log_bundle)
    if judgement.diagnosis is None and source.refusal:
        raise SourceError(source.refusal)
    facts = make_host_columns(judgement.facts, history)
    row = make_row(judgement.diagnosis, history, reference, facts)
    # Archives of whole systems have hundreds of links and sockets, which hold no evidence.
    left_out = dict.fromkeys(str(part) for part in parts if not part.reason.endswith(", not a plain file"))
    is_cut = any(part.path in {"", path} for part in parts)
    if is_cut and row.verdict not in TROUBLE and not row.cause:
        # The missing rest of an archive may show a trouble, so the host cannot be called healthy.
        row = msgspec.structs.replace(row, verdict=UNREADABLE)
    why = "; ".join(left_out).replace(f"{path}: ", "").replace(path, reference.uri)
    return msgspec.structs.replace(row, left_out=why[:_MAX_LEFT_OUT])


class _Digests(msgspec.Struct, frozen=True):
    """The digest of a bundle's content, and of each host's in the archive of a cluster."""

    whole: str
    by_host: dict[str, str]


def _hash_contents(path: str) -> _Digests:
    """Hash each file of a bundle by itself, so that packing, order and names make no difference.

    An archive with records of its own belongs to one host, even if it contains archives of other hosts.
    """
    place = Path(path)
    hashes: dict[str, set[bytes]] = {}
    try:
        if place.is_dir():
            found = directory_contents(place, lambda _: None)
            _hash_each(found, hashes)
        elif place.is_file():
            with place.open("rb") as stream:
                _hash_each(archive_contents(stream, place.name, 0.0, lambda _: None), hashes)
    except OSError:
        return _Digests("", {})  # the reader of the bundle says why
    by_host = (
        {} if place.is_dir() else {member: _join_hashes(some) for member, some in hashes.items() if member}
    )
    everything = _join_hashes(set().union(*hashes.values()))
    return _Digests(everything, {} if _ONE_HOST in hashes else by_host)


_ONE_HOST: Final = "/"
"""The key for records outside the archives of hosts. No member of an archive has this name."""


def _hash_each(contents: Iterator[Content], hashes: dict[str, set[bytes]]) -> None:
    """Add the hash of each file to those of the host's archive that it is in, or to those of ""."""
    for content in contents:
        hashed = hashlib.sha256()
        while chunk := content.read(_CHUNK_BYTES):
            hashed.update(chunk)
        member = find_cluster_member(content.path)
        if not member and any(f"{directory}/" in content.path for directory in RECORD_DIRECTORIES):
            hashes.setdefault(_ONE_HOST, set())
        hashes.setdefault(member, set()).add(hashed.digest())


def _join_hashes(hashes: set[bytes]) -> str:
    return hashlib.sha256(b"".join(sorted(hashes))).hexdigest() if hashes else ""


def _unpack_hosts(path: str) -> Iterator[tuple[str, Path | str]]:
    """Yield the archives of hosts in the archive that assisted-service makes of a cluster, each as a file.

    If the archive is damaged, the last item has the reason in place of a file.
    """
    with Path(path).open("rb") as stream, tempfile.TemporaryDirectory(prefix=_TEMPORARY) as around:
        layer = decompressed_layer(Layer(stream.read1, ReadingBudget(Limits())))
        copy = Path(around) / "host"
        damage = ""
        try:
            for member in archive_members(layer):
                if member.kind or not is_cluster_member(member.name):
                    continue
                with copy.open("wb") as file:
                    while chunk := member.read(_CHUNK_BYTES):
                        file.write(chunk)
                yield member.name, copy
            while layer.read():
                pass
        except (TarError, LimitError) as error:
            damage = str(error)
        if damage or layer.damage:
            yield "", f"{damage or layer.damage}; hosts behind the damage are missing"


def _mask_secrets(row: BundleRow, path: str, uri: str) -> BundleRow:
    """Return the row without secrets, because an index has rows of many hosts and is shown to many people.

    Its texts can be stored: bytes of file names that are not UTF-8 are escaped.
    """
    rules = Rules(())
    stages = {make_encodable(name): seconds for name, seconds in row.stages.items()}
    names = (field.name for field in msgspec.structs.fields(BundleRow) if field.type is str)
    row = msgspec.structs.replace(
        row, stages=stages, **{name: make_encodable(getattr(row, name)) for name in names}
    )
    texts = {name: getattr(row, name).replace(path, uri) for name in _SHOWN_TEXTS}
    try:
        return msgspec.structs.replace(
            row, **{name: outgoing_text(text, rules) for name, text in texts.items() if text}
        )
    except LeakError:
        return msgspec.structs.replace(row, **{name: _WITHHELD for name, text in texts.items() if text})


def answer(request: JudgeRequest) -> bytes:
    """Judge a bundle in a child process within the limits of the request; return its rows as JSON."""
    try:
        return run_confined(
            lambda: ForkedProgram(partial(_judge_confined, request)), request.cpu_seconds, _MAX_ANSWER_BYTES
        )
    except ProgramError as reason:
        return msgspec.json.encode([make_unreadable_row(request.reference, f"not judged: {reason}")])


def _judge_confined(request: JudgeRequest) -> bytes:
    """Judge in this process. The rows of a cluster's hosts need temporary files."""
    confine(request.memory_bytes, request.cpu_seconds, may_write=True)
    try:
        return msgspec.json.encode(list(judge_path(os.fsdecode(request.path), request.reference)))
    except MemoryError:
        raise ProgramError(f"it takes more than {request.memory_bytes // _MIB} MiB of memory") from None


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
"""A small bundle that makes most readers and rules run once."""


def _warm_up() -> None:
    """Judge a sample, so that children inherit the patterns that are compiled at their first use."""
    built_in_causes().prepare()
    with suppress(OSError), tempfile.TemporaryDirectory(prefix=_TEMPORARY) as directory:
        path = Path(directory) / "sample.tar"
        with tarfile.open(path, "w") as archive:
            for name, data in _SAMPLE.items():
                member = tarfile.TarInfo(name)
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
        tuple(judge_path(str(path), Reference(str(path))))


def main() -> None:
    """Answer requests until standard input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    _warm_up()
    gc.collect()
    gc.freeze()  # children share the loaded objects, and their garbage collector must not touch them
    for line in sys.stdin.buffer:
        reply = answer(msgspec.json.decode(line, type=JudgeRequest)) + b"\n"
        try:
            sys.stdout.buffer.write(reply)
            sys.stdout.buffer.flush()
        except BrokenPipeError:  # the parent was killed
            os._exit(1)


if __name__ == "__main__":
    main()
