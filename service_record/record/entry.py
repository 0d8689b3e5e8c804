"""One event of a service: the words on disk, and the way between an `Entry` and its line.

The format is specified in docs/record-format.md; nothing here reads or writes a file.
"""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Final, TypeAlias

import msgspec

MAX_EXCERPT_CHARACTERS: Final = 4096
"""The limit of a damaged piece that is shown or held: its file has the whole of it."""
LEAST_ENTRY_BYTES: Final = len('{"phase":"stage end"}')
"""No shorter object is an entry."""


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
    """A service's, stage's or command's own result, recorded at its end."""

    SUCCESS = "success"
    FAILURE = "failure"


FOR_SIZE: Final = "size"
"""The reason: the record had outgrown its limit."""


_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=2**53)]


class RunsLeftOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, rename="camel"):
    """The runs that were left out right before the run whose first entry carries this."""

    reason: str = msgspec.field(default_factory=lambda: FOR_SIZE)  # so that it is always written
    succeeded: _Count = 0
    stopped: _Count = 0
    failed: _Count = 0
    """Runs that failed, were interrupted, or continued after a failure."""
    alike: _Count = 0
    """The number of them, in a row up to this run, with the same end in the same place as this run."""
    boots: _Count = 0
    """Earlier boots of which no run is left."""
    boot_runs: _Count = 0
    """The runs of those boots, which are in no other number here."""
    rotations: _Count = 0
    """On the first entry of a file: the number of its rotations. No two beginnings of it are the same."""

    @property
    def runs(self) -> int:
        """Return how many runs of the same boot were left out."""
        return self.succeeded + self.stopped + self.failed

    def to_json(self) -> dict[str, object]:
        """Return the numbers that are not 0, under their names on disk."""
        values: dict[str, object] = msgspec.to_builtins(self)
        return values


class UnknownFields(dict[str, object]):
    """Fields that this version does not know. No JSON value is one, so that a decoder refuses their name."""


NO_UNKNOWN_FIELDS: Final = UnknownFields()
"""The value for an entry that was decoded at once; a codec leaves out this very value."""
_Text: TypeAlias = Annotated[str, msgspec.Meta(min_length=1)]
_Whole: TypeAlias = Annotated[int, msgspec.Meta(gt=-(2**53), lt=2**53)]
_Seconds: TypeAlias = Annotated[float, msgspec.Meta(ge=0, lt=1e15)]  # which all encoders write alike


class Entry(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    gc=False,
    rename="camel",
):
    """One event of a service. A field that is not known is None, empty, False or 0, and not on disk.

    The fields are in the order of writing. Their types are what a line may hold to be decoded at once.
    """

    timestamp: _Text | None = None
    """RFC 3339, in UTC when written here: `2026-11-21T01:05:10.123Z`. Our recorders always write it."""
    pre_command: _Text | None = None
    """Name of the pre-command (`ExecStartPre=`) that the entry belongs to."""
    post_command: _Text | None = None
    stage: _Text | None = None
    """Name of the stage that starts or ends, or that is open meanwhile."""
    phase: Phase
    result: Result | None = None
    """The result; on ends only."""
    error_line: _Text | None = None
    """`LINE FUNCTION FILE` of the innermost frame of a failure; FUNCTION is `main` at top level."""
    error_message: _Text | None = None
    """The last lines of the journal of this invocation, oldest first."""
    exit_code: _Whole | None = None
    signal: _Text | None = None
    """The signal without SIG: `TERM`; `unknown` where only the fact of a signal is known."""
    command: _Text | None = None
    """The failing command as the script has it, nothing expanded."""
    stack: tuple[str, ...] = ()
    """Frames like `error_line`, innermost first."""
    error_line_approximate: bool = False
    """True when `error_line` is only the nearest call site known."""
    truncated: bool = False
    """True when something was cut to keep the line within `MAX_LINE_BYTES`."""
    boot_id: _Text | None = None
    """32 hexadecimal digits."""
    invocation_id: _Text | None = None
    """systemd's $INVOCATION_ID: 32 hexadecimal digits."""
    pid: _Whole | None = None
    """The id of the service's main process."""
    uptime: _Seconds | None = None
    """Seconds since boot, so that durations survive a clock step."""
    service_result: _Text | None = None
    """systemd's $SERVICE_RESULT, known to what runs after the service's death."""
    stop_request: _Text | None = None
    """The request to systemd behind the stop signal that ended the service: `stop`, `restart` or
    `shutdown`.
    """
    dropped: _Whole = 0
    """The number of entries before this one that could not be written."""
    recorder: _Text | None = None
    """Name and version of what wrote the run's entries: `bash/0.1.0`; on the start of a run or a command."""
    stage_id: _Text | None = None
    """The id of an execution, unique within the run, on entries of a stage whose recorder knows what it is
    in.
    """
    parent: _Text | None = None
    """The `stage_id` of the stage around it; None for a stage right in its run or command."""
    left_out: RunsLeftOut | None = None
    """The runs that a rotation left out right before this entry's."""
    extra: UnknownFields = NO_UNKNOWN_FIELDS
    """Fields this version does not know, kept as they were."""

    @classmethod
    def from_json(cls, value: object) -> "Entry":
        """Return the entry that a decoded JSON value holds; raise `fields.EntryError` when it holds none."""
        from service_record.record.fields import read_entry  # noqa: PLC0415  # most are decoded at once

        return read_entry(value)

    def to_json(self) -> dict[str, object]:
        """Return the fields that are known, under their names on disk and in their order there."""
        if self.extra is not NO_UNKNOWN_FIELDS:
            return msgspec.structs.replace(self, extra=NO_UNKNOWN_FIELDS).to_json() | self.extra
        values: dict[str, object] = msgspec.to_builtins(self)
        if self.stack:
            values["stack"] = list(self.stack)
        return values

    def to_line(self, limit: int | None = None) -> bytes:
        """Return the entry as one line of JSON with its newline, at most `limit` bytes: see
        `line.line_of`.
        """
        from service_record.record.line import MAX_LINE_BYTES, line_of  # noqa: PLC0415  # who reads writes none

        return line_of(self.to_json(), MAX_LINE_BYTES if limit is None else limit)

    @property
    def time(self) -> datetime | None:
        """Return the timestamp as an aware datetime."""
        return None if self.timestamp is None else datetime.fromisoformat(self.timestamp)


class Malformed(msgspec.Struct, frozen=True, gc=False):
    """A piece of a record that is not an entry."""

    line: int
    """The line at which it begins in its file, from 1."""
    text: str
    """The whole damaged text; bytes that are not UTF-8 as backslash escapes."""
    reason: str

    def abridge(self) -> "Malformed":
        """Return the piece with the beginning and the end of a long text, and how much is missing."""
        missing = len(self.text) - MAX_EXCERPT_CHARACTERS
        if missing <= 0:
            return self
        tail = MAX_EXCERPT_CHARACTERS // 4
        head = MAX_EXCERPT_CHARACTERS - tail
        text = f"{self.text[:head]}\u2026[{missing} characters left out]\u2026{self.text[-tail:]}"
        return msgspec.structs.replace(self, text=text)


Piece: TypeAlias = Entry | Malformed
"""A part of a record."""
