"""Read request bodies, uploaded files and numbers, with limits on size and time."""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from http import HTTPStatus
from typing import Any, Final, TypeVar, get_origin
from urllib.parse import parse_qsl

import msgspec
from python_multipart.exceptions import MultipartParseError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.concurrency import run_in_threadpool
from starlette.convertors import Convertor, register_url_convertor
from starlette.requests import ClientDisconnect, Request

from service_record.collector.api.answering import Refusal
from service_record.collector.domain.steps import LONGEST_NAME, readable
from service_record.collector.ingest.incoming import IncomingFile, UploadTooLong

S = TypeVar("S", bound=msgspec.Struct)
_MAX_FIELDS: Final = 64


async def read_body(request: Request, most: int, seconds: float) -> bytes:
    """Return the body of a request.

    Raises Refusal: 413 if it is longer than `most` bytes, 408 if it does not arrive within `seconds`, 400 if
    the client disconnects.
    """
    if int(request.headers.get("content-length", "0") or "0") > most:
        raise _too_long(most)
    try:
        async with asyncio.timeout(seconds):
            return await _read(request, most)
    except TimeoutError:
        raise Refusal(HTTPStatus.REQUEST_TIMEOUT, f"the body did not come within {seconds:g} s") from None
    except ClientDisconnect:
        raise Refusal(HTTPStatus.BAD_REQUEST, "the body ended early") from None


async def _read(request: Request, most: int) -> bytes:
    pieces = bytearray()
    async for piece in request.stream():
        pieces += piece
        if len(pieces) > most:
            raise _too_long(most)
    return bytes(pieces)


def parse_fields(body: bytes) -> dict[str, Any]:
    """Return the fields of a body that is a JSON object or a form. Raises Refusal.

    The Content-Type is ignored: by default curl and wget label every body as a form.
    """
    if body.lstrip()[:1] == b"{":
        try:
            fields = msgspec.json.decode(body.decode(errors="replace"))
        except msgspec.DecodeError as error:
            raise Refusal(HTTPStatus.BAD_REQUEST, f"the body is not JSON: {error}") from None
        except RecursionError:
            raise Refusal(HTTPStatus.BAD_REQUEST, "the body is nested too deep") from None
        return dict(fields)
    return parse_form(body.decode(errors="replace"))


def parse_form(text: str) -> dict[str, str]:
    """Return the fields of a form or a query string. If a field is repeated, the last value counts.

    Raises Refusal if there are more than 64 fields.
    """
    try:
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=_MAX_FIELDS, errors="replace"))
    except ValueError:
        raise Refusal(HTTPStatus.BAD_REQUEST, f"more than {_MAX_FIELDS} fields") from None


def _too_long(most: int) -> Refusal:
    return Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body is longer than {most} bytes")


def parse_query(request: Request, kind: type[S]) -> S:
    """Return the parameters of the query that a type declares. Raises Refusal.

    If a parameter is repeated, the last value counts, unless its type is a tuple.
    """
    values: dict[str, object] = {}
    for parameter in msgspec.structs.fields(kind):
        texts: list[str] = request.query_params.getlist(parameter.name)
        if get_origin(parameter.type) is tuple:
            values[parameter.name] = texts
        elif texts:
            is_bare_flag = parameter.type is bool and not texts[-1]  # `?all`
            values[parameter.name] = is_bare_flag or texts[-1]
    return parse_values(values, kind)


async def read_fields(request: Request, kind: type[S], most: int, seconds: float) -> S:
    """Return the body of a request, a JSON object or a form, as this type. Raises Refusal.

    Texts lose control characters and spaces around them. A number without digits counts as missing.
    """
    values: dict[str, object] = {}
    is_number = {field.name for field in msgspec.structs.fields(kind) if field.default is None}
    for name, value in parse_fields(await read_body(request, most, seconds)).items():
        text = readable(str(value)).strip()
        if value is not None and not isinstance(value, str | int | float):
            raise Refusal(HTTPStatus.BAD_REQUEST, f"{readable(name)[:64]} is not a text or a number")
        if value is not None and not (name in is_number and not text):
            values[name] = text
    return parse_values(values, kind)


def parse_values(values: Mapping[str, object], kind: type[S]) -> S:
    """Convert texts to the types of fields. Raises Refusal with the first invalid field and its rule."""
    try:
        return msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        named = re.search(r"`(?:\$\.)?(\w+)(?:\[\d+\])?`$", str(error))
        name = named[1] if named else ""
        _, parts = msgspec.json.schema_components([kind], ref_template="{name}")
        schema = parts[kind.__name__]["properties"].get(name, {})
        schema = schema.get("items", schema)
        schema = {**schema, **parts.get(schema.get("$ref"), {})}
        raise Refusal(HTTPStatus.BAD_REQUEST, _describe_rule(name, schema)) from None


def _describe_rule(name: str, schema: Mapping[str, Any]) -> str:
    """Return the rule for a field in words, from its schema in the OpenAPI document."""
    if "enum" in schema:
        return f"{name} is one of {', '.join(filter(None, map(str, schema['enum'])))}"
    if "description" in schema:
        return f"{name}: {schema['description']}"
    for number in (schema, *schema.get("anyOf", ())):
        if number.get("type") == "integer":
            return f"{name} is a whole number from {number['minimum']} to {number['maximum']}"
    if schema.get("type") == "boolean":
        return f"{name} is true or false"
    most = schema.get("maxLength", LONGEST_NAME)
    return f"{name} is a text of {schema.get('minLength', 0)} to {most} characters"


NUMBER: Final = "number"
"""The name of the path convertor below, as in `/builds/{n:number}`."""
MOST_DIGITS: Final = 18
"""A longer number could be too large for the database."""


class _Number(Convertor[int]):
    """A whole number. Starlette's `int` accepts numbers of any length."""

    regex = f"[0-9]{{1,{MOST_DIGITS}}}"

    def convert(self, value: str) -> int:
        return int(value)

    def to_string(self, value: int) -> str:
        return str(value)


register_url_convertor(NUMBER, _Number())


_WRITE_BYTES: Final = 1 << 20
"""An upload is collected to at least this size before each write to disk."""
_FORM_OVERHEAD_BYTES: Final = 64 * 1024
"""Maximum size of everything in a form besides its file: boundaries, headers and other fields."""
_MAX_UPLOAD_SECONDS: Final = 3600.0
_MAX_NAME_CHARS: Final = 255


async def receive(request: Request, part: str, file: IncomingFile, seconds: float) -> str:
    """Write the uploaded file in the form field `part` to disk. Return the file name that the sender gave.

    Raises Refusal: 400 if the body is not such a form, 408 if the sender sends nothing for `seconds` or needs
    more than an hour in all, 413 if the file is too long. Raises OSError if the file cannot be written.
    """
    form = _UploadForm(_form_boundary(request), part, file)
    try:
        async with asyncio.timeout(_MAX_UPLOAD_SECONDS):
            async for piece in _read_pieces(request, file.most + _FORM_OVERHEAD_BYTES, seconds):
                await run_in_threadpool(form.write, piece)
    except TimeoutError:
        raise Refusal(HTTPStatus.REQUEST_TIMEOUT, f"nothing came for {seconds:g} s, or not all") from None
    except ClientDisconnect:
        raise Refusal(HTTPStatus.BAD_REQUEST, "the body ended early") from None
    except UploadTooLong as fault:
        raise Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"{part} is {fault}") from None
    except MultipartParseError as fault:
        raise Refusal(HTTPStatus.BAD_REQUEST, f"the form is damaged: {fault}") from None
    return form.name()


def _form_boundary(request: Request) -> bytes:
    kind, options = parse_options_header(request.headers.get("content-type"))
    boundary = options.get(b"boundary", b"")
    if kind != b"multipart/form-data" or not boundary:
        raise Refusal(HTTPStatus.BAD_REQUEST, "the Content-Type is not multipart/form-data with a boundary")
    return boundary


async def _read_pieces(request: Request, most: int, seconds: float) -> AsyncIterator[bytes]:
    """Yield the body in pieces of about 1 MiB.

    Raises UploadTooLong, TimeoutError, and ClientDisconnect.
    """
    if int(request.headers.get("content-length", "0") or "0") > most:
        raise UploadTooLong(f"longer than {most - _FORM_OVERHEAD_BYTES} bytes")
    buffer = bytearray()
    total = 0
    stream = aiter(request.stream())
    while True:
        try:
            async with asyncio.timeout(seconds):
                buffer += await anext(stream)
        except StopAsyncIteration:
            break
        if len(buffer) >= _WRITE_BYTES:
            total += len(buffer)
            if total > most:
                raise UploadTooLong(f"longer than {most - _FORM_OVERHEAD_BYTES} bytes")
            yield bytes(buffer)
            buffer.clear()
    yield bytes(buffer)


class _UploadForm:
    """A multipart form. The content of the first part with the given name is written to a file."""

    def __init__(self, boundary: bytes, part: str, file: IncomingFile) -> None:
        self._part = part
        self._file = file
        self._field = bytearray()
        self._value = bytearray()
        self._disposition = b""
        self._is_wanted = False
        self._name: str | None = None
        self._is_whole = False
        self._parser = MultipartParser(
            boundary,
            {
                "on_header_field": lambda data, start, end: self._field.extend(data[start:end]),
                "on_header_value": lambda data, start, end: self._value.extend(data[start:end]),
                "on_header_end": self._on_header,
                "on_headers_finished": self._on_headers,
                "on_part_data": self._on_data,
                "on_part_end": self._on_part_end,
            },
        )

    def write(self, data: bytes) -> None:
        if data:
            self._parser.write(data)

    def name(self) -> str:
        """Return the sender's name for the file. Raises Refusal if the file is missing or incomplete."""
        if self._name is None or not self._is_whole:
            raise Refusal(HTTPStatus.BAD_REQUEST, f"the form has no whole file {self._part}")
        return self._name

    def _on_header(self) -> None:
        if bytes(self._field).lower() == b"content-disposition":
            self._disposition = bytes(self._value)
        self._field.clear()
        self._value.clear()

    def _on_headers(self) -> None:
        _, options = parse_options_header(self._disposition)
        self._disposition = b""
        is_first = self._name is None
        self._is_wanted = is_first and options.get(b"name") == self._part.encode()
        if self._is_wanted:
            self._name = _base_name(options.get(b"filename", b""))

    def _on_data(self, data: bytes, start: int, end: int) -> None:
        if self._is_wanted:
            self._file.write(data[start:end])

    def _on_part_end(self) -> None:
        self._is_whole |= self._is_wanted
        self._is_wanted = False


def _base_name(raw: bytes) -> str:
    """Return a file name without folders and control characters."""
    text = readable(raw.decode(errors="replace")).replace("\\", "/").rpartition("/")[2]
    return text[-_MAX_NAME_CHARS:] or "bundle"
