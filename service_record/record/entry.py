"""The entries of a record: their fields and values, and their conversion from and to JSON.

docs/record-format.md specifies the format. This module reads and writes no file.
"""

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Final, TypeAlias

import msgspec

MAX_EXCERPT_CHARACTERS: Final = 4096
"""Maximum length of the excerpt of a damaged piece. Its file has all of it."""
LEAST_ENTRY_BYTES: Final = len('{"phase":"stage end"}')
"""Length of the shortest entry."""
MAX_REGION_BYTES: Final = 4 << 20
"""Maximum part of a file in memory. No entry is longer, and a longer line is read in pieces."""
BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


class Phase(StrEnum):
    """The event that an entry marks: the start or the end of a service, a stage or a command."""

    SERVICE_START = "service start"
    SERVICE_END = "service end"
    STAGE_START = "stage start"
    STAGE_END = "stage end"
    PRE_COMMAND_START = "pre-command start"
    PRE_COMMAND_END = "pre-command end"
    POST_COMMAND_START = "post-command start"
    POST_COMMAND_END = "post-command end"

    @property
    def is_start(self) -> bool:
        return self.endswith("start")

    @property
    def is_end(self) -> bool:
        return self.endswith("end")


class Result(StrEnum):
    """The result of a service, stage or command, recorded at its end."""

    SUCCESS = "success"
    FAILURE = "failure"


FOR_SIZE: Final = "size"
"""The reason that the record had become too long."""


_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=2**53)]


class RunsLeftOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, rename="camel"):
    """Counts of the runs that a rotation removed. The first entry of the next run has them."""

    reason: str = msgspec.field(default_factory=lambda: FOR_SIZE)  # so that it is always written
    succeeded: _Count = 0
    stopped: _Count = 0
    failed: _Count = 0
    """Runs that failed, were interrupted, or continued after a failure."""
    alike: _Count = 0
    """The number of consecutive runs right before this one that ended like it in the same place."""
    boots: _Count = 0
    """The number of earlier boots without a remaining run."""
    boot_runs: _Count = 0
    """The runs of those boots. They are in no other count."""
    rotations: _Count = 0
    """In the first entry of a file, the number of its rotations. So the file begins differently each time."""

    @property
    def runs(self) -> int:
        """Return the number of removed runs of the same boot."""
        return self.succeeded + self.stopped + self.failed

    def to_json(self) -> dict[str, object]:
        """Return the counts that are not 0, with their names on disk."""
        values: dict[str, object] = msgspec.to_builtins(self)
        return values


class UnknownFields(dict[str, object]):
    """Fields that this version does not know.

    A class of its own, because the decoder must not accept a field `extra` in a line.
    """


NO_UNKNOWN_FIELDS: Final = UnknownFields()
"""The default. The encoder leaves out a field only if it has this very object."""
_Text: TypeAlias = Annotated[str, msgspec.Meta(min_length=1)]
_Whole: TypeAlias = Annotated[int, msgspec.Meta(gt=-(2**53), lt=2**53)]
_Number: TypeAlias = Annotated[float, msgspec.Meta(ge=-1e15, le=1e15)]  # which all encoders write alike
_Seconds: TypeAlias = Annotated[float, msgspec.Meta(ge=0, lt=1e15)]  # which all encoders write alike


AttributeValue: TypeAlias = str | bool | int | float
"""The value of an attribute of a stage."""
_Attribute: TypeAlias = str | bool | _Whole | _Number


class Entry(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    gc=False,
    rename="camel",
):
    """One event of a service. Unknown fields are None, empty, False or 0, and are not written.

    The fields are in the order of writing. Lines with values of these types are decoded by msgspec; `_CHECKS`
    is for all others.
    """

    timestamp: _Text | None = None
    """RFC 3339: `2026-11-21T01:05:10.123Z`. Our recorders always write it, in UTC."""
    pre_command: _Text | None = None
    """The pre-command (`ExecStartPre=`) to which the entry belongs."""
    post_command: _Text | None = None
    stage: _Text | None = None
    """The stage that starts or ends, or that is open at this event."""
    phase: Phase
    result: Result | None = None
    """The result, only in entries of an end."""
    error_line: _Text | None = None
    """`LINE FUNCTION FILE` of the innermost frame of a failure; FUNCTION is `main` at top level."""
    error_message: _Text | None = None
    """The last lines of the journal of this invocation, oldest first."""
    exit_code: _Whole | None = None
    signal: _Text | None = None
    """The name of a signal without SIG: `TERM`. `unknown` if it was some signal."""
    command: _Text | None = None
    """The failed command as it is written in the script, without expansions."""
    stack: tuple[str, ...] = ()
    """Frames like `error_line`, innermost first."""
    error_line_approximate: bool = False
    """True if `error_line` is only the nearest known call site."""
    truncated: bool = False
    """True if a value was cut to keep the line within `MAX_LINE_BYTES`."""
    boot_id: _Text | None = None
    """32 hexadecimal digits."""
    invocation_id: _Text | None = None
    """systemd's $INVOCATION_ID: 32 hexadecimal digits."""
    pid: _Whole | None = None
    """The id of the service's main process."""
    uptime: _Seconds | None = None
    """Seconds since boot. Durations calculated from it are right even if the clock is set."""
    service_result: _Text | None = None
    """systemd's $SERVICE_RESULT, which is set when the service has ended."""
    stop_request: _Text | None = None
    """Why systemd sent the stop signal that ended the service: `stop`, `restart` or `shutdown`."""
    stopped_with: _Text | None = None
    """The unit in BindsTo= whose end made systemd stop the service."""
    time_limit: _Text | None = None
    """The setting of the exceeded time limit: `TimeoutStartSec`, `TimeoutStopSec` or `RuntimeMaxSec`."""
    dropped: _Whole = 0
    """The number of entries before this one that could not be written."""
    recorder: _Text | None = None
    """Name and version of the recorder, `bash/0.1.0`, in the start entry of a run or command."""
    stage_id: _Text | None = None
    """An id of this execution of a stage, unique within the run, if the recorder tracks nested stages."""
    parent: _Text | None = None
    """The `stage_id` of the stage around it; None for a stage directly in its run or command."""
    attributes: dict[str, _Attribute] | None = None
    """Facts that the service recorded about this stage: `{"image": "quay.io/x", "layers": 7}`."""
    left_out: RunsLeftOut | None = None
    """Counts of the runs that a rotation removed right before the run of this entry."""
    extra: UnknownFields = NO_UNKNOWN_FIELDS
    """Fields that this version does not know, unchanged."""

    @classmethod
    def from_json(cls, value: object) -> "Entry":
        """Convert a decoded JSON value to an entry. Raises EntryError if it is not one."""
        return _read_entry(value)

    def to_json(self) -> dict[str, object]:
        """Return the known fields with their names on disk, in the order of writing."""
        if self.extra is not NO_UNKNOWN_FIELDS:
            return msgspec.structs.replace(self, extra=NO_UNKNOWN_FIELDS).to_json() | self.extra
        values: dict[str, object] = msgspec.to_builtins(self)
        if self.stack:
            values["stack"] = list(self.stack)
        return values

    def to_line(self, limit: int | None = None) -> bytes:
        """Return the entry as one line of JSON with its newline, at most `limit` bytes; see `line_of`."""
        from service_record.record.line import MAX_LINE_BYTES, line_of  # readers do not need it

        return line_of(self.to_json(), MAX_LINE_BYTES if limit is None else limit)

    @property
    def time(self) -> datetime | None:
        """Return the timestamp as an aware datetime."""
        return None if self.timestamp is None else datetime.fromisoformat(self.timestamp)


class Malformed(msgspec.Struct, frozen=True, gc=False):
    """A piece of a record that is not an entry."""

    line: int
    """The number of its first line in the file, from 1."""
    text: str
    """The whole damaged text; bytes that are not UTF-8 as backslash escapes."""
    reason: str

    def abridge(self) -> "Malformed":
        """Return the piece with a long text reduced to its beginning and end."""
        missing = len(self.text) - MAX_EXCERPT_CHARACTERS
        if missing <= 0:
            return self
        tail = MAX_EXCERPT_CHARACTERS // 4
        head = MAX_EXCERPT_CHARACTERS - tail
        text = f"{self.text[:head]}\u2026[{missing} characters left out]\u2026{self.text[-tail:]}"
        return msgspec.structs.replace(self, text=text)


Piece: TypeAlias = Entry | Malformed
"""A part of a record."""


_MAX_DOUBLE: Final = 1.7976931348623157e308  # IEEE 754 binary64, all that RFC 8259 section 6 counts on
_MAX_INTEGER: Final = 2**53  # RFC 8259 section 6: what every JSON implementation agrees on
_RFC_3339: Final = re.compile(
    r"(?!0|9999)\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,15})?(Z|[+-]\d\d:\d\d)", re.ASCII
)
"""A time in a year that Python supports in every time zone."""
_MAX_SHOWN_CHARACTERS: Final = 40
_MAX_DEPTH: Final = 100  # well below the limits of encoders, so that every read value can be written again

_Check: TypeAlias = Callable[[str, object], object]
"""A function that gets a field's name and value, and returns the value or raises EntryError."""


class EntryError(ValueError):
    """The reason why a JSON value is not an entry, in one line that names the field."""


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise EntryError(f"{name}: expected a text, found {describe_value(value)}")
    return value


def _texts(name: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise EntryError(f"{name}: expected a list of texts, found {describe_value(value)}")
    return tuple(value)


def _whole_number(name: str, value: object) -> int:
    if type(value) is not int or not -_MAX_INTEGER < value < _MAX_INTEGER:
        raise EntryError(f"{name}: expected a whole number, found {describe_value(value)}")
    return value


def _seconds(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= _MAX_DOUBLE:
        raise EntryError(f"{name}: expected a number of seconds, found {describe_value(value)}")
    return float(value)


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise EntryError(f"{name}: expected true or false, found {describe_value(value)}")
    return value


def check_time(name: str, value: object) -> str:
    """Return an RFC 3339 time unchanged. A leap second (`:60`) is refused: Linux clocks never show one."""
    written = _text(name, value)
    try:
        moment = _RFC_3339.fullmatch(written) and datetime.fromisoformat(written)
    except ValueError:
        moment = None
    if not moment:
        raise EntryError(f"{name}: expected an RFC 3339 time, found {describe_value(value)}")
    return written


def _word(kind: type[StrEnum]) -> _Check:
    """Return the check for one of the words of an enumeration."""
    words = {str(member): member for member in kind}

    def check(name: str, value: object) -> object:
        member = words.get(_text(name, value))
        if member is None:
            raise EntryError(f"{name}: unknown word {describe_value(value)}")
        return member

    return check


def _unknown(name: str, value: object, depth: int = _MAX_DEPTH) -> object:
    """Return the value of an unknown field, if it can be written again as JSON."""
    if isinstance(value, int | float) and not abs(value) <= _MAX_DOUBLE:
        raise EntryError(f"{describe_value(name)}: a number too large")
    if isinstance(value, dict | list):
        if depth == 0:
            raise EntryError(f"{describe_value(name)}: nested deeper than {_MAX_DEPTH}")
        for inner in value.values() if isinstance(value, dict) else value:
            _unknown(name, inner, depth - 1)
    return value


def describe_value(value: object) -> str:
    """Return a short description of a JSON value, for an error message of one line."""
    import json  # needed only for an error

    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    if isinstance(value, str) and len(value) > _MAX_SHOWN_CHARACTERS:
        return json.dumps(value[:_MAX_SHOWN_CHARACTERS]) + "..."
    if isinstance(value, int) and abs(value) > _MAX_INTEGER:
        return "a number too large"
    return json.dumps(value)


_NUMBERS: Final = {
    name: attribute
    for name, attribute in zip(
        RunsLeftOut.__struct_encode_fields__, RunsLeftOut.__struct_fields__, strict=True
    )
    if attribute != "reason"
}
"""Name on disk -> attribute."""


def _read_left_out(name: str, content: object) -> RunsLeftOut:
    """Return the counts of removed runs in an entry. Raises EntryError for any other value."""
    if not isinstance(content, Mapping):
        raise EntryError(f"{name}: expected an object, found {describe_value(content)}")
    counts: dict[str, int] = {}
    for key, value in content.items():
        attribute = _NUMBERS.get(key)
        if attribute is not None:
            counts[attribute] = _whole_number(f"{name}.{key}", value)
            if counts[attribute] < 0:
                raise EntryError(f"{name}.{key}: expected a count, found {describe_value(value)}")
    return RunsLeftOut(reason=_text(f"{name}.reason", content.get("reason", FOR_SIZE)), **counts)


def _read_attributes(name: str, content: object) -> dict[str, AttributeValue]:
    """Return the attributes of an entry. Raises EntryError for a value that is not a text or a number."""
    if not isinstance(content, Mapping):
        raise EntryError(f"{name}: expected an object, found {describe_value(content)}")
    attributes: dict[str, AttributeValue] = {}
    for key, value in content.items():
        if type(value) is int:
            attributes[key] = _whole_number(f"{name}.{key}", value)
        elif isinstance(value, str | bool) or (isinstance(value, float) and abs(value) <= _MAX_DOUBLE):
            attributes[key] = value
        else:
            raise EntryError(f"{name}.{key}: expected a text or a number, found {describe_value(value)}")
    return attributes


_CHECKS: Final[Mapping[str, _Check]] = {
    "timestamp": check_time,
    "phase": _word(Phase),
    "result": _word(Result),
    "exit_code": _whole_number,
    "stack": _texts,
    "error_line_approximate": _flag,
    "truncated": _flag,
    "pid": _whole_number,
    "uptime": _seconds,
    "dropped": _whole_number,
    "attributes": _read_attributes,
    "left_out": _read_left_out,
}
"""Attribute -> the function that checks and converts its value. All other attributes are texts."""
_FIELDS: Final = {
    name: (attribute, _CHECKS.get(attribute, _text))
    for name, attribute in zip(Entry.__struct_encode_fields__, Entry.__struct_fields__, strict=True)
    if attribute != "extra"
}
"""Name on disk -> attribute, and the function that checks it."""


def _read_entry(value: object) -> Entry:
    """Convert a decoded JSON value to an entry. Raises EntryError if it is not one.

    In optional fields, null and the empty string mean that the field is absent, as for upstream's readers.
    """
    if not isinstance(value, dict):
        raise EntryError(f"not an object: {describe_value(value)}")
    fields: dict[str, object] = {}
    extra: dict[str, object] = {}
    for name, content in value.items():
        known_field = _FIELDS.get(name)
        if known_field is None:
            extra[name] = _unknown(name, content)
        elif content is not None and content != "":
            attribute, read = known_field
            fields[attribute] = read(name, content)
    if "phase" not in fields:
        raise EntryError("phase: missing")
    entry = Entry(**fields, extra=UnknownFields(extra) if extra else NO_UNKNOWN_FIELDS)  # type: ignore[arg-type]  # each value was checked by its reader
    if entry.result is not None and entry.phase.is_start:
        raise EntryError(f'result: has no place on "{entry.phase}"')
    return entry
