"""Documents and entries as JSON, JSON Lines, YAML and CSV: lossless, and safe to look at on a terminal.

YAML loses what it cannot hold: bytes that are not UTF-8, which only the name of a file can have.
"""

import json
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import IO, TYPE_CHECKING, Any, Final

import msgspec
import orjson

from service_record.display.document import Document, malformed_document
from service_record.display.text import escaped
from service_record.record.entry import NO_UNKNOWN_FIELDS, Entry, Piece
from service_record.record.line import mended
from service_record.record.visible import UNSEEN

if TYPE_CHECKING:
    import yaml

_DELETE: Final = b"\x7f"
_RUNS_BREAK: Final = "\n" + 6 * " "
"""The end of a line before a field of a service: only `runs` of a service stands there under that name."""
_RUNS_BEGIN: Final = f'{_RUNS_BREAK}"runs": ['
_NO_RUNS: Final = f"{_RUNS_BEGIN}]"
_RUN_BREAK: Final = f"{_RUNS_BREAK}  "


def as_json(document: object) -> str:
    """Return a document as indented JSON."""
    return encoded(document, orjson.OPT_INDENT_2) + "\n"


def write_with_runs(document: object, runs: Iterable[Iterable[object]], stream: IO[bytes]) -> None:
    """Write a document of `show` as indented JSON, and the runs of each service as they are made.

    A long record has many runs; only one of them is held as a document and as text.
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
"""Pieces that are written together, while they are still in the caches of a processor."""
_ENCODER: Final = msgspec.json.Encoder()
_NEXT_LINE: Final = b'\n{"'


def write_jsonl(records: Iterable[tuple[str, Iterable[Piece]]], stream: IO[bytes]) -> None:
    """Write each piece on a line of its own, as `piece_document` has it, soon after it was read."""
    for service, record in records:
        pieces = iter(record)
        while batch := list(islice(pieces, _BATCH)):
            stream.write(_lines(service, batch))


def _lines(service: str, pieces: Sequence[Piece]) -> bytes:
    """Return the lines of these pieces; of entries without unknown fields, all are encoded in one call."""
    is_plain = all(isinstance(piece, Entry) and piece.extra is NO_UNKNOWN_FIELDS for piece in pieces)
    if not is_plain or not _is_unicode(service):
        return "".join(f"{encoded(piece_document(service, piece))}\n" for piece in pieces).encode()
    begin = b'{"service":%b,"' % orjson.dumps(service)
    rest = _ENCODER.encode_lines(pieces).removeprefix(_NEXT_LINE[1:])
    raw = begin + rest.replace(_NEXT_LINE, b"\n" + begin)  # within a text there is no newline
    return raw if _is_harmless(raw) else escaped(raw.decode()).encode()


def _is_unicode(service: str) -> bool:
    """False of the name of a file that is not UTF-8."""
    return service == mended(service)


def piece_document(service: str, piece: Piece) -> dict[str, object]:
    """Return an entry as it stands in the record with its `service` first.

    A piece that is not an entry becomes `{"service": ..., "malformed": {"line", "text", "reason"}}`.
    """
    if isinstance(piece, Entry):
        return {"service": service} | piece.to_json()
    return {"service": service, "malformed": malformed_document(piece)}


def encoded(value: object, option: int = 0) -> str:
    """Return a value as JSON in one line, in which nothing acts on a terminal; `option` is one of
    orjson's.
    """
    try:
        raw = orjson.dumps(value, option=option)
    except TypeError:  # a lone surrogate, or an integer of more than 64 bits
        raw = json.dumps(value, indent=2 if option else None).encode()
    return raw.decode() if _is_harmless(raw) else escaped(raw.decode())


def _is_harmless(raw: bytes) -> bool:
    return raw.isascii() and _DELETE not in raw


def written(document: Document, lines: Iterable[Document], form: str) -> str:
    """Return the document as `json` or `yaml`; or its lines as `jsonl`, one object each."""
    if form == "jsonl":
        return "".join(f"{encoded(line)}\n" for line in lines)
    if form == "yaml":
        return as_yaml(document)
    return as_json(document)


_TEXT: Final = "tag:yaml.org,2002:str"
_NO_FOLDING: Final = 1 << 30


def as_yaml(document: object) -> str:
    """Return a document as YAML in block style; texts of several lines are literal blocks where
    they can be.
    """
    import yaml  # noqa: PLC0415  # takes longer than all the rest, and other forms need none

    fast: type[Any] = getattr(yaml, "CSafeDumper", yaml.SafeDumper)  # absent where libyaml is
    dumper = type("Dumper", (fast,), {})  # of our own: what it represents it keeps for all who use it
    yaml.add_representer(str, _represented, Dumper=dumper)
    written = yaml.dump(document, Dumper=dumper, allow_unicode=True, sort_keys=False, width=_NO_FOLDING)
    return escaped(written)


def _represented(dumper: "yaml.SafeDumper", any_text: str) -> "yaml.Node":
    text = mended(any_text)
    if UNSEEN.search(text):
        return dumper.represent_scalar(_TEXT, text, '"')  # so that `as_yaml` may write escapes
    return dumper.represent_scalar(_TEXT, text, "|" if "\n" in text else None)


_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
"""What a spreadsheet takes for the beginning of a formula."""


def csv_of(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Return CSV (RFC 4180), in which a quote stands before what a spreadsheet takes for a formula."""
    import csv  # noqa: PLC0415  # few have tables
    import io  # noqa: PLC0415  # as above

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(columns)
    writer.writerows([_cell(value) for value in row] for row in rows)
    return text.getvalue()


def _cell(value: object) -> object:
    if isinstance(value, (list, tuple)):
        value = "; ".join(map(str, value))
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
