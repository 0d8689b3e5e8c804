"""Read untrusted bundles in a separate process with limits on memory and time.

One pass produces both the summary and the page of the records.
"""

import dataclasses
import os
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self, TypeVar

import msgspec
from msgspec.structs import replace

from service_record.bundle.contents import archive_contents
from service_record.bundle.layers import Limits
from service_record.bundle.opening import open_bundle
from service_record.collector.domain.records_page import Analysis, analyse
from service_record.collector.domain.summary_of_records import (
    MOST_SERVICES,
    BesideRecords,
    JudgedRecords,
    RecordsSummary,
    judge_records,
    summarise,
)
from service_record.diagnosis.judgement import HostFiles
from service_record.record.programs import Program, ProgramError, ProgramTimeoutError, confine, run_confined
from service_record.redaction import LeakError, outgoing_page, outgoing_text
from service_record.redaction.rules import Rules

if TYPE_CHECKING:
    from service_record.record.entry import Piece

_Value = TypeVar("_Value", bound=msgspec.Struct)
_MIB: Final = 1 << 20
_MAX_RESULT_BYTES: Final = 256 * _MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """Limits on reading one file."""

    memory: int = 1024 * _MIB
    """Maximum memory in bytes, including the interpreter."""
    seconds: int = 60
    """Maximum processor time in seconds. The limit of elapsed time is three times this."""


class ReadingStopped(Exception):  # noqa: N818  # what was asked for
    """The collector stops; the file was not read."""


def _read_confined(
    file: Path, allowed: Allowed, is_stopped: threading.Event | None, arguments: Sequence[str]
) -> bytes:
    """Run this module with a file as its standard input, and return its output.

    `arguments` begin at `sys.argv[3]`. Raises OSError, ReadingStopped or ProgramError.
    """
    command = (sys.executable, "-m", __name__, str(allowed.memory), str(allowed.seconds), *arguments)
    with file.open("rb") as stream:
        # Python finds the modules of this process. The rest of the environment has secrets.
        variables = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONDONTWRITEBYTECODE": "1"}
        start = partial(Program, command, {}, stdin=stream, variables=variables)
        try:
            return run_confined(start, allowed.seconds, _MAX_RESULT_BYTES, is_stopped)
        except ProgramTimeoutError:
            if is_stopped is not None and is_stopped.is_set():
                raise ReadingStopped from None
            raise


LIMITS: Final = Limits(
    read_bytes=1024 * _MIB,
    members=50_000,
    records=MOST_SERVICES,
    record_bytes=32 * _MIB,
    kept_bytes=64 * _MIB,
    decoder_bytes=128 * _MIB,
)
"""Limits of a bundle's content, far above those of the boot reporter, whose bundles have at most 12 MiB."""
_PACKED_ONLY: Final = "not an archive: it has no named records"


class BundleContent(msgspec.Struct, frozen=True):
    """The result of reading a bundle."""

    look: RecordsSummary
    analysis: Analysis

    @classmethod
    def not_read(cls, reason: str) -> Self:
        """Return the message for a bundle that could not be read."""
        left_out = (f"not read: {reason}",)
        return cls(RecordsSummary(left_out=left_out), Analysis(left_out=left_out))


def read_bundle(
    bundle: Path,
    source: str = "",
    *,
    silence: float | None = None,
    allowed: Allowed | None = None,
    is_stopped: threading.Event | None = None,
) -> BundleContent:
    """Return the content of a bundle, or the reason why it was not read. Raises OSError or ReadingStopped.

    `source` is the bundle's name. Records are judged `silence` seconds after their latest entry.
    """
    silence_and_source = ("" if silence is None else str(silence), source)
    try:
        output = _read_confined(bundle, allowed or Allowed(), is_stopped, silence_and_source)
        return msgspec.json.decode(output, type=BundleContent)
    except ProgramError as reason:
        return BundleContent.not_read(str(reason))


def _other_files(stream: BufferedReader) -> HostFiles:
    """Read the other files of the bundle in a second pass. The first pass reported omitted parts."""
    stream.seek(0)
    for content in archive_contents(stream, "", 0.0, lambda _: None, LIMITS):
        yield content.path, content.read


def _mask_secrets(summary: BundleContent) -> BundleContent:
    """Return a copy with masked secrets. Bundles of other programs may contain some."""
    rules = Rules()
    try:
        look = _mask_fields(summary.look, ("reason", "why", "hardware"), outgoing_text, rules)
        parts = ("verdict", "lead", "cause", "rest")
        return BundleContent(look, _mask_fields(summary.analysis, parts, outgoing_page, rules))
    except LeakError:
        return BundleContent.not_read("withheld: a secret in the result could not be masked")


def _mask_fields(
    value: _Value, names: Iterable[str], outgoing: Callable[[str, Rules], str], rules: Rules
) -> _Value:
    return msgspec.structs.replace(value, **{name: outgoing(getattr(value, name), rules) for name in names})


def judge_stream(stream: BufferedReader, silence: float | None = None) -> JudgedRecords:
    """Judge the bundle in a seekable file."""
    bundle = open_bundle(stream, LIMITS)
    left_out = [str(part) for part in bundle.left_out]
    if bundle.unpacked is not None:
        left_out.append(_PACKED_ONLY)
    by_node: Mapping[str, Iterable[tuple[str, Iterable[Piece]]]] = {
        "": [(service, record.pieces()) for service, record in bundle.records.items()]
    }
    if not bundle.records:
        from service_record.read.derived import read_nodes  # most bundles have records

        by_node = {node: records.items() for node, records in read_nodes(_other_files(stream)).items()}
    beside = BesideRecords(
        boot_id=bundle.boot_id,
        written={service: record.written for service, record in bundle.records.items()},
        unfinished=bundle.unfinished,
        damaged=bundle.damaged,
        unit_texts=bundle.unit_texts,
        is_log_bundle=bundle.is_of_gather,
    )
    judged: dict[str, JudgedRecords] = {}
    for node, records in by_node.items():
        files = _node_files(stream, node) if node else _other_files(stream)
        judged[node] = judge_records(records, left_out, silence, replace(beside, files=files))
    return _choose_most_urgent(judged)


def _node_files(stream: BufferedReader, node: str) -> HostFiles:
    from service_record.read.derived import find_node  # likewise

    return ((path, read) for path, read in _other_files(stream) if find_node(path) == node)


def _choose_most_urgent(judged: Mapping[str, JudgedRecords]) -> JudgedRecords:
    """Return the judged records of the node that most needs attention, with the verdicts of the others."""
    known = {node: one.diagnosis for node, one in judged.items() if one.diagnosis is not None}
    if not known:
        return next(iter(judged.values()))
    chosen = min(known, key=lambda node: known[node].urgency)
    others = tuple((node, diagnosis) for node, diagnosis in known.items() if node != chosen)
    return dataclasses.replace(judged[chosen], node=chosen, other_hosts=others)


def _main(memory: int, silence: str, source: str) -> None:
    """Read the bundle on standard input, and print the result as JSON."""
    try:
        with os.fdopen(sys.stdin.fileno(), "rb", closefd=False) as stream:
            judged = judge_stream(stream, float(silence) if silence else None)
        result = _mask_secrets(BundleContent(summarise(judged), analyse(judged, source, datetime.now(UTC))))
    except MemoryError:
        result = BundleContent.not_read(f"it takes more than {memory // _MIB} MiB of memory")
    sys.stdout.buffer.write(msgspec.json.encode(result))


if __name__ == "__main__":
    memory, seconds = map(int, sys.argv[1:3])
    confine(memory, seconds)
    _main(memory, *sys.argv[3:])
