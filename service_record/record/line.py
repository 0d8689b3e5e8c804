"""Convert the fields of an entry to one line of a record, cut to a maximum length.

Every recorded service loads this module, so it imports little of the standard library and nothing else.
"""

from __future__ import annotations

# The parts of `json.JSONEncoder`. They are not taken from `json`, because every recorded service loads this
# module, and `json` loads `re`: 4 ms, as long as the whole recorder takes. A test compares the lines with
# those of `json`.
from _json import encode_basestring, make_encoder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Final

FORMAT_VERSION: Final = 1
MAX_LINE_BYTES: Final = 4096
"""bash appends a line of this size with one write, and a longer one with two."""

FIELD_NAMES: Final = (
    *("timestamp", "preCommand", "postCommand", "stage", "phase", "result", "errorLine", "errorMessage"),
    *("exitCode", "signal", "command", "stack", "errorLineApproximate", "truncated", "bootId"),
    *("invocationId", "pid", "uptime", "serviceResult", "stopRequest", "stoppedWith", "timeLimit"),
    *("dropped", "recorder", "stageId", "parent", "attributes", "leftOut"),
)
"""The fields of the format in the order of writing."""

_MAX_CHARACTER_BYTES: Final = 4
_LIMITS: Final = {"stage": 255, "preCommand": 255, "postCommand": 255, "command": 200}
"""Maximum bytes of short texts. They are fixed, so a stage has the same name in all its entries."""

_CUT: Final = "\u2026"
_CUT_BYTES: Final = len(_CUT.encode())
_MESSAGE_FLOOR_BYTES: Final = 1024
"""A message is cut below this size only after frames, command, attributes and unknown fields are dropped."""

_STRUCTURE: Final = ("timestamp", "phase", "result")
_NAMES: Final = ("stage", "preCommand", "postCommand")


def _refuse(value: object) -> str:
    raise TypeError(f"{type(value).__name__} is not JSON")


# `json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))` makes this encoder again for
# each text.
_chunks: Final[Callable[[object, int], tuple[str, ...]]] = make_encoder(
    None, _refuse, encode_basestring, None, ":", ",", False, False, False
)


encode_text: Final[Callable[[str], str]] = encode_basestring
"""Return a text as a JSON string in quotes. Lone surrogates are kept."""


def line_of(fields: Mapping[str, object], limit: int = MAX_LINE_BYTES) -> bytes:
    """Return the fields of an entry as one line of JSON with a newline, in UTF-8, at most `limit` bytes.

    A line that is too long is cut in this order, and gets the field `truncated`: the beginning of the
    message, the outermost stack frames, the command, the attributes, unknown fields, the other texts. Time,
    phase and result are never cut, so a limit below 512 bytes may be exceeded.
    """
    fields = _with_short_texts(fields)
    if "dropped" in fields:  # the writer has added it at the end
        fields = with_fields(fields)
    try:
        line = encoded(fields)
    except (TypeError, ValueError, RecursionError):  # only unknown fields can have values that are not JSON
        standard = {name: value for name, value in fields.items() if name in FIELD_NAMES}
        fields = with_fields(standard, truncated=True)
        line = encoded(fields)
    if len(line) <= limit:
        return line
    return encoded(_cut_to(limit, with_fields(fields, truncated=True)))


def with_fields(fields: Mapping[str, object], **added: object) -> dict[str, object]:
    """Return the fields with others added, in the order of writing; unknown ones come last."""
    every = {**fields, **added}
    standard = {name: every.pop(name) for name in FIELD_NAMES if name in every}
    return standard | every


def encoded(fields: Mapping[str, object]) -> bytes:
    """Return one line of UTF-8 with its newline. Lone surrogates, which UTF-8 cannot hold, become U+FFFD.

    Raises TypeError, ValueError or RecursionError for a value that is not JSON.
    """
    text = "".join((*_chunks(fields, 0), "\n"))
    try:
        return text.encode()
    except UnicodeEncodeError:
        return without_lone_surrogates(text).encode()


def without_lone_surrogates(text: str) -> str:
    """Return the text with surrogate pairs joined, and lone surrogates replaced by U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def make_encodable(text: str) -> str:
    r"""Return the text with escaped bytes (PEP 383) as `\xNN`, and other lone surrogates as U+FFFD."""
    try:
        return text.encode(errors="surrogateescape").decode(errors="backslashreplace")
    except UnicodeEncodeError:
        return without_lone_surrogates(text)


def _with_short_texts(fields: Mapping[str, object]) -> Mapping[str, object]:
    long = {
        name: _first_bytes_of(text, limit)
        for name, limit in _LIMITS.items()
        if isinstance(text := fields.get(name), str) and len(text) * _MAX_CHARACTER_BYTES > limit
    }
    return {**fields, **long} if long else fields


def _first_bytes_of(text: str, limit: int) -> str:
    """Return the first characters that fit into `limit` bytes of UTF-8."""
    return without_lone_surrogates(text).encode()[:limit].decode(errors="ignore")


def _cut_to(limit: int, fields: dict[str, object]) -> dict[str, object]:
    """Return the fields, cut until their line has at most `limit` bytes, the least important ones first.

    An unknown field is never cut, only dropped.
    """
    cut = dict(fields)
    for give_way in (
        _cut_message,
        _cut_stack,
        _cut_command,
        _drop_attributes,
        _drop_unknown,
        _cut_texts,
    ):
        excess = len(encoded(cut)) - limit
        if excess <= 0:
            break
        give_way(cut, excess)
    return cut


def _cut_message(fields: dict[str, object], excess: int) -> None:
    message = fields.get("errorMessage")
    if isinstance(message, str):
        room = max(_size(message) - excess, _MESSAGE_FLOOR_BYTES)
        fields["errorMessage"] = _last_of(message, room)


def _cut_stack(fields: dict[str, object], excess: int) -> None:
    frames = fields.get("stack")
    if not isinstance(frames, list):
        return
    remaining = list(frames)
    while remaining and excess > 0:
        excess -= _size(remaining.pop()) + len('"",')
    fields["stack"] = remaining
    if not remaining:
        del fields["stack"]


def _cut_command(fields: dict[str, object], excess: int) -> None:
    command = fields.get("command")
    if isinstance(command, str):
        _put(fields, "command", _first_of(command, _size(command) - excess))


def _drop_attributes(fields: dict[str, object], excess: int) -> None:
    """Leave out attributes, the last one first, until the line fits."""
    attributes = fields.get("attributes")
    if not isinstance(attributes, dict):
        return
    remaining = dict(attributes)
    while remaining and excess > 0:
        name, value = remaining.popitem()
        excess -= len(encoded({name: value})) - len("{}\n") + len(",")
    fields["attributes"] = remaining
    if not remaining:
        del fields["attributes"]


def _drop_unknown(fields: dict[str, object], excess: int) -> None:
    for name in [name for name in reversed(fields) if name not in FIELD_NAMES]:
        if excess <= 0:
            return
        excess -= len(encoded({name: fields.pop(name)})) - len("{}\n") + len(",")


def _cut_texts(fields: dict[str, object], excess: int) -> None:
    """Cut the longest texts, names only after all others."""
    texts = {name: text for name, text in fields.items() if isinstance(text, str) and name not in _STRUCTURE}
    for name, text in sorted(texts.items(), key=lambda item: (item[0] in _NAMES, -_size(item[1]))):
        if excess <= 0:
            return
        keep = _last_of if name == "errorMessage" else _first_of
        before = len(encoded(fields))
        _put(fields, name, keep(text, _size(text) - excess))
        excess -= before - len(encoded(fields))


def _put(fields: dict[str, object], name: str, text: str) -> None:
    if text:
        fields[name] = text
    else:
        del fields[name]


def _size(text: str) -> int:
    """Return the bytes of the text as JSON, without its quotes."""
    return len(encoded({"": text})) - len('{"":""}\n')


def _first_of(text: str, room: int) -> str:
    """Return the beginning of the text that fits into `room` bytes of JSON, with `…` if it was cut."""
    if _size(text) <= room:
        return text
    prefix = _fitting(text, room - _CUT_BYTES)
    return text[:prefix] + _CUT if prefix else ""


def _last_of(text: str, room: int) -> str:
    """Return the end of the text that fits into `room` bytes of JSON, after `…` if it was cut."""
    if _size(text) <= room:
        return text
    suffix = _fitting(text[::-1], room - _CUT_BYTES)
    return _CUT + text[len(text) - suffix :] if suffix else ""


def _fitting(text: str, room: int) -> int:
    """Return the number of characters of the text that fit into `room` bytes of JSON."""
    for index, character in enumerate(text):
        room -= _size(character)
        if room < 0:
            return index
    return len(text)
