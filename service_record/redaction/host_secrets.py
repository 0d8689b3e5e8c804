"""Read the known secrets of a host from the files in `places`, and decode them.

No other module of redaction reads files of the host.
"""

import contextlib
import fnmatch
import json
import os
import re
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Final

from service_record.record.directory import open_inside
from service_record.redaction import types
from service_record.redaction.encodings import from_base64, inflate
from service_record.redaction.place_parsers import INNER, Parser, anything, ini, secrets_among, urls
from service_record.redaction.places import PLACES, Place
from service_record.redaction.rules import Rules
from service_record.redaction.secrets import PEM_BEGIN, is_searchable
from service_record.redaction.types import Secret

_MAX_LAYERS: Final = 4
"""A MachineConfig contains data URLs, which contain manifests, which contain Secrets with base64 values."""
_UNPACKED_BYTES: Final = 8 << 20
_PARSED_BYTES: Final = 256 << 10
"""The part of a file that is parsed. A hostile file may take about 2 s for each MiB."""
_MAX_PRINTED_BYTES: Final = 4096
_PEM: Final = types.compile_pattern(
    rb"(?s)(" + PEM_BEGIN + rb".*?-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----)"
)
_DATA_URL: Final = "data-url"
"""Data URLs are masked by their shape, but are not known secrets: one may contain just the host name."""
_CREDENTIALS: Final = frozenset({"registry-auth", "authorization"})
"""Kinds of secrets whose values are base64 of `user:password`."""


def _kind_from_name(name: str) -> str:
    """Return the kind of a secret with this name."""
    return next((kind for kind in ("psk", "token", "cookie") if kind in name.lower()), "password")


class Contents:
    """Finds the secrets in the contents of files."""

    def __init__(self) -> None:
        self._rules = Rules()

    def secrets(
        self,
        text: bytes,
        layers: int = _MAX_LAYERS,
        parser: Parser | None = None,
        names: frozenset[str] = frozenset(),
    ) -> Iterator[Secret]:
        """Yield every secret in a text, as written and decoded. A secret may be yielded several times.

        `parser` reads the syntax of the text. `names` are names that are secret in this text only.
        """
        text = inflate(text, _UNPACKED_BYTES)
        for match in _PEM.finditer(text):
            yield Secret("private-key", match.group(1))
        for secret in self._rules.values(text):
            if secret.kind != _DATA_URL:
                yield secret
                yield from (Secret(secret.kind, bare) for bare in _unescape_value(secret.value))
            if layers:
                yield from self._decode_secret(secret, layers - 1)
        yield from self._parse_text(text, layers, parser, names)
        if layers:
            for inner in _inner_texts(text):
                yield from self.secrets(inner, layers - 1)

    def _parse_text(
        self, text: bytes, layers: int, parser: Parser | None, names: frozenset[str]
    ) -> Iterator[Secret]:
        readable = text[:_PARSED_BYTES].decode(errors="surrogateescape")
        for name, value in secrets_among(chain(urls(readable), parser(readable) if parser else ()), names):
            exact = value.encode(errors="surrogateescape")
            if name != INNER:
                yield Secret(_kind_from_name(name), exact)
                if layers and (decoded := _from_base64(exact)):
                    yield from self.secrets(decoded, layers - 1)
            elif layers:
                yield from self.secrets(_from_base64(exact) or exact, layers - 1, anything)

    def _decode_secret(self, secret: Secret, layers: int) -> Iterator[Secret]:
        decoded = _from_base64(secret.value)
        if not decoded:
            return
        if _is_line(decoded) and secret.kind != _DATA_URL:
            yield Secret(secret.kind, decoded.strip())
        if _is_line(decoded) and secret.kind in _CREDENTIALS:
            yield Secret(secret.kind, decoded.strip().partition(b":")[2])
        yield from self.secrets(decoded, layers)


def _unescape_value(value: bytes) -> Iterator[bytes]:
    """Yield the value without JSON escapes, and without percent-encoding."""
    if b"\\" in value:
        with contextlib.suppress(ValueError):
            yield str(json.loads(b'"' + value + b'"')).encode(errors="surrogatepass")
    if b"%" in value:
        yield urllib.parse.unquote_to_bytes(value)


def _inner_texts(text: bytes) -> Iterator[bytes]:
    """Yield the texts inside a text: longer JSON strings, and the text without percent-encoding."""
    if text.lstrip()[:1] in {b"{", b"["}:
        yield from _json_strings(text)
    if b"data:," in text or b"%22auths%22" in text:
        yield urllib.parse.unquote_to_bytes(text)


def inline_files(text: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield path and content of the files in an Ignition config or in a MachineConfig."""
    for value in _json_values(text):
        contents = value.get("contents") if isinstance(value, dict) else None
        source = contents.get("source") if isinstance(contents, dict) else None
        if isinstance(source, str) and source.startswith("data:") and isinstance(value.get("path"), str):
            head, _, data = source.partition(",")
            plain = urllib.parse.unquote_to_bytes(data)
            yield value["path"], _from_base64(plain) if head.endswith(";base64") else plain


def _json_strings(text: bytes) -> Iterator[bytes]:
    for value in _json_values(text):
        if isinstance(value, str) and any(character in value for character in '\n"%'):
            yield value.encode(errors="surrogatepass")


def _json_values(text: bytes) -> Iterator[Any]:
    """Yield every value in a JSON document at any depth; nothing if the text is not valid JSON."""
    try:
        waiting = [json.loads(text)]
    except (ValueError, RecursionError):
        return
    while waiting:
        value = waiting.pop()
        yield value
        if isinstance(value, dict):
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)


def _from_base64(value: bytes) -> bytes:
    """Return the content of a base64 value, decompressed; empty if it is not base64."""
    packed = value.replace(b"%2B", b"+").replace(b"%2F", b"/").replace(b"%3D", b"=").replace(b"\\n", b"")
    return inflate(from_base64(packed, is_strict=True), _UNPACKED_BYTES)


def _is_line(decoded: bytes) -> bool:
    """Return True if decoded base64 is one printable line, which is then a secret itself."""
    return (
        len(decoded) <= _MAX_PRINTED_BYTES
        and decoded.isascii()
        and decoded.strip().decode("ascii").isprintable()
    )


_FILE_BYTES: Final = 8 << 20
_ALL_BYTES: Final = 64 << 20
_MAX_FILES: Final = 4000
_MAX_SECRETS: Final = 4000
_WHOLE_BYTES: Final = 16 << 10


@dataclass(frozen=True, slots=True)
class HostSecrets:
    """The known secrets of a host, and the files that could not be read completely."""

    secrets: tuple[Secret, ...]
    unread: tuple[str, ...]
    """`PATH: REASON` for each file that was not read to its end. Missing files are not listed."""


def known_secrets(root: Path, environ: Mapping[str, str] | None = None) -> HostSecrets:
    """Return the secrets in the files of `PLACES` below `root`, and in an environment.

    Never raises: unreadable and too large files are listed in `unread`.
    """
    contents = Contents()
    by_value: dict[bytes, Secret] = {}
    unread: list[str] = []
    variables = "\n".join(f"{name}={value}" for name, value in (environ or {}).items())
    secrets = contents.secrets(variables.encode(errors="surrogateescape"), parser=ini)
    for secret in (*secrets, *_read_places(root, contents, unread)):
        value = secret.value.strip()
        if not is_searchable(secret.value) or value in by_value:
            continue
        if len(by_value) == _MAX_SECRETS:
            unread.append(f"{root}: more than {_MAX_SECRETS} secrets")
            break
        by_value[value] = secret
    return HostSecrets(tuple(by_value.values()), tuple(unread))


def _read_places(root: Path, contents: Contents, unread: list[str]) -> Iterator[Secret]:
    root = Path(os.path.realpath(root))
    remaining = _ALL_BYTES
    for number, (path, place) in enumerate(_find_files(root)):
        if number == _MAX_FILES or remaining <= 0:
            unread.append(f"{path}: too many files before it")
            return
        try:
            data = _read_file(root, path)
        except OSError as error:
            unread.append(f"{path}: {error.strerror}")
            continue
        if len(data) > _FILE_BYTES:
            unread.append(f"{path}: more than {_FILE_BYTES >> 20} MiB")
        remaining -= len(data)
        if place.whole and len(data) <= _WHOLE_BYTES:
            yield Secret(place.whole, data.strip())
        yield from contents.secrets(data, parser=place.parser, names=place.names)
        for name, inline in inline_files(data):
            own = _find_place(name)
            if own and own.whole and len(inline) <= _WHOLE_BYTES:
                yield Secret(own.whole, inline.strip())
            parser, names = (own.parser, own.names) if own else (anything, frozenset[str]())
            yield from contents.secrets(inline, parser=parser, names=names)


def _find_files(root: Path) -> Iterator[tuple[Path, Place]]:
    paths: set[Path] = set()
    for place in PLACES:
        for path in _expand_pattern(root, root, place.pattern.split("/")):
            if path not in paths:
                paths.add(path)
                yield path, place


def _expand_pattern(root: Path, directory: Path, parts: Sequence[str]) -> Iterator[Path]:
    """Yield the files below a directory that match the parts of a pattern.

    `Path.glob` would follow links out of the root, and miss files whose absolute links are valid only in it.
    """
    name, *rest = parts
    directory = _resolve(root, directory)
    if name == "**":
        for below, _, _ in sorted(os.walk(directory)):
            yield from _expand_pattern(root, Path(below), rest)
    elif _WILDCARD.search(name):
        with contextlib.suppress(OSError):  # not a directory, or not readable
            for path in sorted(directory.iterdir()):
                if fnmatch.fnmatch(path.name, name):
                    yield from _expand_pattern(root, path, rest) if rest else [path]
    elif rest:
        yield from _expand_pattern(root, directory / name, rest)
    elif os.path.lexists(directory / name):
        yield directory / name


_WILDCARD: Final = re.compile(r"[*?\[]")


def _find_place(path: str) -> Place | None:
    """Return the first place whose pattern matches the path of a file, or None."""
    name = path.removeprefix("/")
    return next((place for place in PLACES if fnmatch.fnmatch(name, place.pattern)), None)


def _read_file(root: Path, path: Path) -> bytes:
    """Return up to 8 MiB and one byte of a regular file below the root; empty if it is not one.

    The extra byte shows that the file is larger.
    """
    real = _resolve(root, path)
    if not real.is_file():
        return b""
    try:
        with open_inside(root, real) as file:
            return file.read(_FILE_BYTES + 1)
    except FileNotFoundError:
        return b""


def _resolve(root: Path, path: Path) -> Path:
    """Return a path below the root without links. They are read as on the host: `/x` is below the root.

    A path with too many links stays as it is. The root itself must have no links.
    """
    waiting = list(path.relative_to(root).parts)[::-1]
    real = root
    links = 0
    while waiting:
        part = waiting.pop()
        if part == "..":
            real = real.parent if real != root else root
            continue
        try:
            target = str((real / part).readlink())
        except OSError:  # not a link
            real /= part
            continue
        links += 1
        if links > _MAX_LINKS:
            return path
        if target.startswith("/"):
            real = root
        waiting += [step for step in target.split("/") if step not in {"", "."}][::-1]
    return real


_MAX_LINKS: Final = 40
"""The limit of Linux for one path."""
