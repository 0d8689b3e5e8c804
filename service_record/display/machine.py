"""Documents and entries as JSON, JSON Lines, YAML and CSV: lossless, and safe to look at on a terminal.

Only YAML cannot hold everything: it loses bytes that are not UTF-8, which file names may have.
"""

import json
import re
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import IO, TYPE_CHECKING, Annotated, Any, Final

import msgspec
import orjson
from msgspec import Meta

from service_record.display.text import escape_invisible
from service_record.record.entry import NO_UNKNOWN_FIELDS, Entry, Malformed, Piece
from service_record.record.line import make_encodable
from service_record.record.visible import UNSEEN

if TYPE_CHECKING:
    import yaml


class ProgramDocument(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """A document for programs, or a part of one. A field that has its default value is not written."""


class DamageDocument(ProgramDocument, frozen=True, kw_only=True):
    """A damaged piece of a record."""

    line: Annotated[int, Meta(ge=1)]
    """The line of the file."""
    text: str
    reason: str


def malformed_document(piece: Malformed) -> DamageDocument:
    """Return a damaged piece with an excerpt of its text, which may be as long as its file."""
    return DamageDocument(line=piece.line, text=piece.abridge().text, reason=piece.reason)


_DELETE: Final = b"\x7f"
_RUNS_BREAK: Final = "\n" + 6 * " "
"""A newline and the indent of a service's field. No other field named `runs` has this indent."""
_RUNS_BEGIN: Final = f'{_RUNS_BREAK}"runs": ['
_NO_RUNS: Final = f"{_RUNS_BEGIN}]"
_RUN_BREAK: Final = f"{_RUNS_BREAK}  "


def format_json(document: object) -> str:
    """Return a document as indented JSON."""
    return encode_document(document, orjson.OPT_INDENT_2) + "\n"


def write_run_by_run(document: object, runs: Iterable[Iterable[object]], stream: IO[bytes]) -> None:
    """Write a document of `show` as indented JSON, with the runs of each service in its empty lists.

    A record may have a million runs, so only one of them is in memory at a time.
    """
    before, *rest = format_json(document).split(_NO_RUNS)
    stream.write(before.encode())
    for own, behind in zip(runs, rest, strict=True):
        lines = (encode_document(run, orjson.OPT_INDENT_2).replace("\n", _RUN_BREAK) for run in own)
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
        return "".join(f"{encode_document(piece_document(service, piece))}\n" for piece in pieces).encode()
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


def encode_document(value: object, option: int = 0) -> str:
    """Return a value as JSON, in one line unless `option` of orjson says otherwise, safe for a terminal."""
    try:
        raw = orjson.dumps(value, msgspec.to_builtins, option)
    except TypeError:  # a lone surrogate, or an integer of more than 64 bits
        raw = json.dumps(value, default=msgspec.to_builtins, indent=2 if option else None).encode()
    return raw.decode() if _is_harmless(raw) else escape_invisible(raw.decode())


def _is_harmless(raw: bytes) -> bool:
    return raw.isascii() and _DELETE not in raw


_TEXT: Final = "tag:yaml.org,2002:str"
_NO_FOLDING: Final = 1 << 30


def format_yaml(document: object) -> str:
    """Return a document as YAML in block style. Texts of several lines are literal blocks if possible."""
    import yaml  # slow to load

    fast: type[Any] = getattr(yaml, "CSafeDumper", yaml.SafeDumper)  # absent where libyaml is
    dumper = type("Dumper", (fast,), {})  # a class of our own, because representers are added to the class
    yaml.add_representer(str, _represent_text, Dumper=dumper)
    plain = msgspec.to_builtins(document)
    written = yaml.dump(plain, Dumper=dumper, allow_unicode=True, sort_keys=False, width=_NO_FOLDING)
    return escape_invisible(written)


def _represent_text(dumper: "yaml.SafeDumper", any_text: str) -> "yaml.Node":
    text = make_encodable(any_text)
    if re.search(UNSEEN, text):
        return dumper.represent_scalar(_TEXT, text, '"')  # so that `format_yaml` may write escapes
    return dumper.represent_scalar(_TEXT, text, "|" if "\n" in text else None)


_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
"""The characters with which a formula of a spreadsheet begins."""


def format_csv(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
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
