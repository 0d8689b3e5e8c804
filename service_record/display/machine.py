"""Documents and entries as JSON, JSON Lines, YAML and CSV: lossless, and safe to look at on a terminal.

Only YAML cannot hold everything: it loses bytes that are not UTF-8, which file names may have.

`document` converts a history to a document of plain types; docs/show-document.md describes it field by field.
Unknown values are left out. Times are UTC with milliseconds, durations are seconds.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import IO, TYPE_CHECKING, Any, Final, TypeAlias

import msgspec
import orjson

from service_record.display.text import escape_invisible, utc
from service_record.history import History, ServiceHistory
from service_record.history.outcome import NOTHING, Command, Facts, Location, Run, Span, Stage
from service_record.record.entry import NO_UNKNOWN_FIELDS, Entry, Malformed, Piece
from service_record.record.line import make_encodable
from service_record.record.visible import UNSEEN

if TYPE_CHECKING:
    import yaml

    from service_record.diagnosis.findings import FailedUnit  # `show` does not load `diagnosis`


_SCHEMA_VERSION: Final = 1

Document: TypeAlias = dict[str, object]


def document(
    history: History,
    source: str,
    left_out: Iterable[tuple[str, str]] = (),
    failed_units: "Iterable[FailedUnit]" = (),
    *,
    has_runs: bool = True,
) -> Document:
    """Return the document of `show --output json` and `yaml`.

    `left_out` has the path and the reason of each file that was not read. Without `has_runs`, all lists of
    runs are empty, and `run_documents` makes their items.
    """
    units = [{"unit": failed.unit.name, **facts_document(failed.unit.facts)} for failed in failed_units]
    return {
        "version": _SCHEMA_VERSION,
        "source": source,
        "leftOut": [{"path": path, "reason": reason} for path, reason in left_out],
        "boots": list(history.boots),
        "services": [_service(service, has_runs=has_runs) for service in history.services],
        **present(failedUnits=units or None),
    }


def run_documents(service: ServiceHistory) -> Iterator[Document]:
    """Yield the documents of a service's runs. Each is made when it is needed, to save memory."""
    return map(_run, service.runs)


def malformed_document(piece: Malformed) -> Document:
    """Return a damaged piece with an excerpt of its text, which may be as long as its file."""
    return {"line": piece.line, "text": piece.abridge().text, "reason": piece.reason}


def _service(service: ServiceHistory, *, has_runs: bool) -> Document:
    return {
        "service": service.name,
        **present(outcome=service.outcome and service.outcome.value),
        "runs": [_run(run) for run in service.runs] if has_runs else [],
        "malformed": [malformed_document(piece) for piece in service.malformed],
        **present(unlisted=service.unlisted or None),
        **present(utcOffset=service.utc_offset and round(service.utc_offset.total_seconds())),
        **present(unfinished=service.is_unfinished or None, damagedCopy=service.has_damaged_copy or None),
    }


def _run(run: Run) -> Document:
    return {
        "attempt": run.attempt,
        **span_document(run),
        **present(firstEntry=run.first_entry and utc(run.first_entry)),
        **present(lastEntry=run.last_entry and utc(run.last_entry)),
        **present(inStage=run.in_stage, inCommand=run.in_command, bootId=run.boot_id),
        **present(invocationId=run.invocation_id, pid=run.pid, recorder=run.recorder),
        **present(derived=run.is_derived or None),
        **present(dropped=run.dropped or None, leftOut=run.left_out and run.left_out.to_json()),
        **facts_document(run.facts),
        "commands": [_command(command) for command in run.commands],
        "stages": _stages(run.stages),
    }


def _command(command: Command) -> Document:
    return {
        "kind": "pre-command" if command.is_before else "post-command",
        "name": command.name,
        **span_document(command),
        **present(inStage=command.in_stage, pid=command.pid),
        **facts_document(command.facts),
        "stages": _stages(command.stages),
    }


def _stages(stages: Iterable[Stage]) -> list[Document]:
    return [
        {
            "name": stage.name,
            "depth": stage.depth,
            **present(id=stage.id, parent=stage.parent),
            **span_document(stage),
            **facts_document(stage.facts),
        }
        for stage in stages
    ]


def span_document(span: Span) -> Document:
    """Return the outcome and the known times of a span."""
    document: Document = {"outcome": span.outcome.value}
    if span.started is not None:
        document["started"] = utc(span.started)
    if span.ended is not None:
        document["ended"] = utc(span.ended)
    if span.duration is not None:
        document["duration"] = span.duration
    if span.attributes:
        document["attributes"] = dict(span.attributes)
    return document


def facts_document(facts: Facts) -> Document:
    """Return `{"facts": ...}` with the known facts of an end; an empty document if there are none."""
    if facts == NOTHING:
        return {}
    return {
        "facts": present(
            location=_location(facts.location) if facts.location else None,
            approximate=facts.is_approximate or None,
            command=facts.command,
            stack=[_location(frame) for frame in facts.stack] or None,
            exitCode=facts.exit_code,
            signal=facts.signal,
            serviceResult=facts.service_result,
            stopRequest=facts.stop_request,
            stoppedWith=facts.stopped_with,
            timeLimit=facts.time_limit,
            message=facts.message,
            truncated=facts.is_truncated or None,
        )
    }


def _location(location: Location) -> Document:
    return present(line=location.line, function=location.function or None, file=location.file)


def present(**fields: object) -> Document:
    """Return the fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}


_DELETE: Final = b"\x7f"
_RUNS_BREAK: Final = "\n" + 6 * " "
"""A newline and the indent of a service's field. No other field named `runs` has this indent."""
_RUNS_BEGIN: Final = f'{_RUNS_BREAK}"runs": ['
_NO_RUNS: Final = f"{_RUNS_BEGIN}]"
_RUN_BREAK: Final = f"{_RUNS_BREAK}  "


def as_json(document: object) -> str:
    """Return a document as indented JSON."""
    return encoded(document, orjson.OPT_INDENT_2) + "\n"


def write_with_runs(document: object, runs: Iterable[Iterable[object]], stream: IO[bytes]) -> None:
    """Write a document of `show` as indented JSON, with the runs of each service in its empty lists.

    A record may have a million runs, so only one of them is in memory at a time.
    """
    before, *rest = as_json(document).split(_NO_RUNS)
    stream.write(before.encode())
    for own, behind in zip(runs, rest, strict=True):
        lines = (encoded(run, orjson.OPT_INDENT_2).replace("\n", _RUN_BREAK) for run in own)
        first = next(lines, None)
        stream.write(_RUNS_BEGIN.encode())
        if first is not None:
            stream.write((_RUN_BREAK + first).encode())
            stream.writelines(f",{_RUN_BREAK}{line}".encode() for line in lines)
            stream.write(_RUNS_BREAK.encode())
        stream.write(f"]{behind}".encode())


_BATCH: Final = 256
"""The number of pieces that are encoded together, while they are still in the processor's caches."""
_ENCODER: Final = msgspec.json.Encoder()
_NEXT_LINE: Final = b'\n{"'


def write_jsonl(records: Iterable[tuple[str, Iterable[Piece]]], stream: IO[bytes]) -> None:
    """Write each piece as a line, in the form of `piece_document`."""
    for service, record in records:
        pieces = iter(record)
        while batch := list(islice(pieces, _BATCH)):
            stream.write(_lines(service, batch))


def _lines(service: str, pieces: Sequence[Piece]) -> bytes:
    """Return the lines of these pieces. Entries without unknown fields are encoded in one call."""
    is_plain = all(isinstance(piece, Entry) and piece.extra is NO_UNKNOWN_FIELDS for piece in pieces)
    if not is_plain or service != make_encodable(service):  # a file name need not be UTF-8
        return "".join(f"{encoded(piece_document(service, piece))}\n" for piece in pieces).encode()
    begin = b'{"service":%b,"' % orjson.dumps(service)
    rest = _ENCODER.encode_lines(pieces).removeprefix(_NEXT_LINE[1:])
    raw = begin + rest.replace(_NEXT_LINE, b"\n" + begin)  # within a text there is no newline
    return raw if _is_harmless(raw) else escape_invisible(raw.decode()).encode()


def piece_document(service: str, piece: Piece) -> dict[str, object]:
    """Return an entry with the fields of its record, `service` first.

    A piece that is not an entry becomes `{"service": ..., "malformed": {"line", "text", "reason"}}`.
    """
    if isinstance(piece, Entry):
        return {"service": service} | piece.to_json()
    return {"service": service, "malformed": malformed_document(piece)}


def encoded(value: object, option: int = 0) -> str:
    """Return a value as JSON, in one line unless `option` of orjson says otherwise, safe for a terminal."""
    try:
        raw = orjson.dumps(value, option=option)
    except TypeError:  # a lone surrogate, or an integer of more than 64 bits
        raw = json.dumps(value, indent=2 if option else None).encode()
    return raw.decode() if _is_harmless(raw) else escape_invisible(raw.decode())


def _is_harmless(raw: bytes) -> bool:
    return raw.isascii() and _DELETE not in raw


_TEXT: Final = "tag:yaml.org,2002:str"
_NO_FOLDING: Final = 1 << 30


def as_yaml(document: object) -> str:
    """Return a document as YAML in block style. Texts of several lines are literal blocks if possible."""
    import yaml  # slow to load

    fast: type[Any] = getattr(yaml, "CSafeDumper", yaml.SafeDumper)  # absent where libyaml is
    dumper = type("Dumper", (fast,), {})  # a class of our own, because representers are added to the class
    yaml.add_representer(str, _represented, Dumper=dumper)
    written = yaml.dump(document, Dumper=dumper, allow_unicode=True, sort_keys=False, width=_NO_FOLDING)
    return escape_invisible(written)


def _represented(dumper: "yaml.SafeDumper", any_text: str) -> "yaml.Node":
    text = make_encodable(any_text)
    if UNSEEN.search(text):
        return dumper.represent_scalar(_TEXT, text, '"')  # so that `as_yaml` may write escapes
    return dumper.represent_scalar(_TEXT, text, "|" if "\n" in text else None)


_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
"""The characters with which a formula of a spreadsheet begins."""


def csv_of(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Return CSV (RFC 4180). A quote precedes each text that a spreadsheet would run as a formula."""
    import csv
    import io

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(columns)
    writer.writerows([_cell(value) for value in row] for row in rows)
    return text.getvalue()


def _cell(value: object) -> object:
    if isinstance(value, (list, tuple)):
        value = "; ".join(map(str, value))
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
