"""What is known of an end, gathered from the entries that tell it. Pure."""

from collections.abc import Sequence
from typing import Final

import msgspec

from service_record.record.entry import Entry


class Location(msgspec.Struct, frozen=True, gc=False):
    """A place in a script or program."""

    line: int | None
    """None where the record has none that can be believed."""
    function: str
    file: str


_STOP_SIGNALS: Final = frozenset({"unknown", "TERM"})
"""What a recorder says by itself of a stop, and alike of a timeout: it cannot know who sent the signal."""
_BROKEN_PIPE: Final = "PIPE"
"""systemd calls a service that died of it clean (`is_clean_exit` in its source), but nobody stopped it."""


def is_stop(end: "Entry | Facts") -> bool:
    """Return True where systemd stopped it, or calls its death by a signal clean."""
    is_clean = end.service_result == "success" and end.signal not in {None, _BROKEN_PIPE}
    return end.stop_request is not None or is_clean


def is_stop_or_kill(end: "Entry | Facts") -> bool:
    """Return True where only the recorder spoke: a signal ended it, and nobody knows whose."""
    return end.signal in _STOP_SIGNALS and end.service_result is None and end.stop_request is None


class Facts(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What is known of an end. Of a failure, where it happened and what was said."""

    location: Location | None = None
    is_approximate: bool = False
    """True when `location` is only the nearest call site known."""
    command: str | None = None
    stack: tuple[Location, ...] = ()
    """Innermost first. `location` is among them, behind frames of libraries that it had called."""
    exit_code: int | None = None
    signal: str | None = None
    service_result: str | None = None
    stop_request: str | None = None
    """What systemd was asked for when its stop signal ended it: `stop`, `restart` or `shutdown`."""
    message: str | None = None
    """What was said last, oldest line first: in the journal, and behind that by the exception."""
    is_truncated: bool = False

    @property
    def frames_around(self) -> tuple[tuple[Location, ...], tuple[Location, ...]]:
        """The frames that `location` had called, and those that it was called from; innermost first."""
        if self.location not in self.stack:
            return (), self.stack
        place = self.stack.index(self.location)
        callers = (frame for frame in self.stack[place:] if frame != self.location)
        return self.stack[:place], tuple(callers)


NOTHING: Final = Facts()


def gather_facts(ends: Sequence[Entry]) -> Facts:
    """The facts of one end that several entries tell: what is known later counts.

    The exit status or signal told last is how it ended. What was told before without a signal does not
    explain one.
    """
    if not ends:
        return NOTHING
    if len(ends) == 1 and _says_little(ends[0]):
        return Facts(exit_code=ends[0].exit_code)
    death = next((end for end in reversed(ends) if end.signal or end.exit_code is not None), ends[-1])
    telling = [end for end in ends if end.signal] if death.signal else ends
    located = _last_with("error_line", telling)
    said = _last_with("error_message", telling)
    return Facts(
        location=_location(located.error_line, _has_upstreams_line(located)),
        is_approximate=located.error_line_approximate,
        command=_last_with("command", telling).command,
        stack=tuple(filter(None, map(_location, located.stack))),
        exit_code=death.exit_code,
        signal=_signal(telling) if death.signal else None,
        service_result=_last_with("service_result", ends).service_result,
        stop_request=_last_with("stop_request", ends).stop_request,
        message=said.error_message,
        is_truncated=said.truncated,
    )


def _says_little(end: Entry) -> bool:
    """Whether an end has no more than an exit status, as nearly all successes."""
    return not (
        end.error_line
        or end.error_message
        or end.signal
        or end.command
        or end.stack
        or end.service_result
        or end.stop_request
        or end.error_line_approximate
        or end.truncated
    )


def _signal(ends: Sequence[Entry]) -> str | None:
    """The signal that was named last; `unknown` when none was."""
    return next((end.signal for end in reversed(ends) if end.signal != "unknown"), ends[-1].signal)


def _last_with(attribute: str, ends: Sequence[Entry]) -> Entry:
    if len(ends) == 1:
        return ends[0]
    return next((end for end in reversed(ends) if getattr(end, attribute) is not None), ends[-1])


def _has_upstreams_line(entry: Entry) -> bool:
    """True where upstream's shim filled in the line: its EXIT trap sees line 1 whatever failed."""
    return entry.uptime is None and entry.pid is None and (entry.error_line or "").startswith("1 ")


def _location(frame: str | None, is_line_unknown: bool = False) -> Location | None:
    """The place that `LINE FUNCTION FILE` names; the file may contain spaces."""
    if frame is None:
        return None
    line, function, file = (*frame.split(" ", 2), "", "")[:3]
    if not line.isdecimal() or not file:
        return Location(None, "", frame)
    return Location(None if is_line_unknown else int(line), function, file)
