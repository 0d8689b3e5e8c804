"""Bodies, files and numbers of requests, read within limits of size and time."""

import asyncio
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qsl

import msgspec
from python_multipart.exceptions import MultipartParseError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.concurrency import run_in_threadpool
from starlette.convertors import Convertor, register_url_convertor
from starlette.requests import ClientDisconnect, Request

from service_record.collector.api.answering import Refusal
from service_record.collector.domain.steps import readable
from service_record.collector.ingest.incoming import Arriving, TooLong

_MOST_FIELDS: Final = 64


async def body_of(request: Request, most: int, seconds: float) -> bytes:
    """Return the whole body.

    Raises Refusal when it is longer than `most` bytes, or takes too long to come.
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


def fields_of(body: bytes) -> dict[str, Any]:
    """Return the members of a body, JSON or a form, whatever content type a client gives: many call all a
    form.

    Raises Refusal.
    """
    if body.lstrip()[:1] == b"{":
        try:
            fields = msgspec.json.decode(body.decode(errors="replace"))
        except msgspec.DecodeError as error:
            raise Refusal(HTTPStatus.BAD_REQUEST, f"the body is not JSON: {error}") from None
        except RecursionError:
            raise Refusal(HTTPStatus.BAD_REQUEST, "the body is nested too deep") from None
        return dict(fields)
    return pairs_of(body.decode(errors="replace"))


def pairs_of(text: str) -> dict[str, Any]:
    """Return the fields of a form or of a query; of repeated fields the last. Raises Refusal."""
    try:
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=_MOST_FIELDS, errors="replace"))
    except ValueError:
        raise Refusal(HTTPStatus.BAD_REQUEST, f"more than {_MOST_FIELDS} fields") from None


def _too_long(most: int) -> Refusal:
    return Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body is longer than {most} bytes")


def whole_number(text: str, name: str, least: int, most: int) -> int:
    """Return a number that is written in digits. Raises Refusal."""
    is_number = text.isascii() and text.isdecimal() and len(text) <= len(str(most))
    if not is_number or not least <= int(text) <= most:
        raise Refusal(HTTPStatus.BAD_REQUEST, f"{name} is a whole number from {least} to {most}")
    return int(text)


NUMBER: Final = "number"
"""The name of the convertor, as in `/builds/{n:number}`."""


class _Number(Convertor[int]):
    """A whole number of at most 18 digits: Starlette's own takes any, and the database does not."""

    regex = "[0-9]{1,18}"

    def convert(self, value: str) -> int:
        return int(value)

    def to_string(self, value: int) -> str:
        return str(value)


register_url_convertor(NUMBER, _Number())


_PIECE: Final = 1 << 20
"""Bytes of a body that are written at once."""
_AROUND: Final = 64 * 1024
"""Bytes that a form may have around its file."""
_HOUR: Final = 3600.0
"""Seconds that a whole upload may take."""
_LONGEST_NAME: Final = 255


async def receive(request: Request, part: str, file: Arriving, seconds: float) -> str:
    """Write the file of that name in a form to disk; return the sender's name for it.

    `seconds` is how long the sender may be silent. Raises Refusal: 400 where the body is no such form, 408,
    413; OSError where the disk does not take it.
    """
    form = _UploadForm(_boundary(request), part, file)
    try:
        async with asyncio.timeout(_HOUR):
            async for piece in _pieces(request, file.most + _AROUND, seconds):
                await run_in_threadpool(form.write, piece)
    except TimeoutError:
        raise Refusal(HTTPStatus.REQUEST_TIMEOUT, f"nothing came for {seconds:g} s, or not all") from None
    except ClientDisconnect:
        raise Refusal(HTTPStatus.BAD_REQUEST, "the body ended early") from None
    except TooLong as fault:
        raise Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"{part} is {fault}") from None
    except MultipartParseError as fault:
        raise Refusal(HTTPStatus.BAD_REQUEST, f"the form is damaged: {fault}") from None
    return form.name()


def _boundary(request: Request) -> bytes:
    kind, options = parse_options_header(request.headers.get("content-type"))
    boundary = options.get(b"boundary", b"")
    if kind != b"multipart/form-data" or not boundary:
        raise Refusal(HTTPStatus.BAD_REQUEST, "the Content-Type is not multipart/form-data with a boundary")
    return boundary


async def _pieces(request: Request, most: int, seconds: float) -> AsyncIterator[bytes]:
    """Yield the body in pieces of a useful length."""
    if int(request.headers.get("content-length", "0") or "0") > most:
        raise TooLong(f"longer than {most - _AROUND} bytes")
    buffer = bytearray()
    total = 0
    stream = aiter(request.stream())
    while True:
        try:
            async with asyncio.timeout(seconds):
                buffer += await anext(stream)
        except StopAsyncIteration:
            break
        if len(buffer) >= _PIECE:
            total += len(buffer)
            if total > most:
                raise TooLong(f"longer than {most - _AROUND} bytes")
            yield bytes(buffer)
            buffer.clear()
    yield bytes(buffer)


class _UploadForm:
    """A form from which one file is read: the first part of that name."""

    def __init__(self, boundary: bytes, part: str, file: Arriving) -> None:
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
        """Return the sender's name for the file. Raises Refusal if no file came whole."""
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
    """Return a name without the folders and control characters that a client may have put into it."""
    text = readable(raw.decode(errors="replace")).replace("\\", "/").rpartition("/")[2]
    return text[-_LONGEST_NAME:] or "bundle"
