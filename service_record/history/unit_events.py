"""Recognize systemd's messages about units: one table for all readers of journals. Pure.

A message is recognized by its MESSAGE_ID (systemd's catalog, sd-messages.h) or by its text. The texts are
from unit.c, job.c and service.c of systemd 219 to 257. Before version 249, many texts have a unit's
description instead of its name. A journal with fields has the name in the field UNIT as well.
"""

import re
from enum import StrEnum
from typing import Final

UNIT: Final = (
    r"(?a:[\w:.\\@-]+\.(?:service|socket|target|device|mount|automount|swap|timer|path|slice|scope))"
)


class UnitEvent(StrEnum):
    """What happened to a unit."""

    STARTING = "starting"
    STARTED = "started"
    """The start has succeeded, so the unit is active."""
    FINISHED = "finished"
    """The commands of a oneshot service have succeeded."""
    RESTARTED = "restart scheduled"
    CYCLE = "job deleted to break a cycle"
    DEACTIVATED = "deactivated"
    """The unit ended without a failure."""
    STOPPING = "stopping"
    STOPPED = "stopped"
    EXITED = "process exited"
    FAILED = "failed with a result"
    ENTERED_FAILED = "entered failed state"
    """The unit failed. Only systemd before 236 logs this; the result is in another line or is not logged."""
    NOT_STARTED = "start failed"
    """The start job failed. systemd logs this after the reason of the failure, or instead of it."""
    START_LIMIT = "start limit hit"
    ASSERTION = "assertion failed"
    CONDITION = "condition not met"
    DEPENDENCY = "dependency failed"
    TIMED_OUT = "job timed out"
    UNLOADABLE = "not loadable"


_OF: Final = rf"(?P<unit>{UNIT})"
_DESCRIPTION: Final = r"(?: - (?P<description>.*))?"
# systemd 232 to 237 writes no comma after the code of a control process.
_EXIT: Final = r"code=(?P<code>exited|killed|dumped),? status=(?P<number>\d{1,9})(?:/(?P<name>\S+))?"
_STARTED: Final = "(?:Started|Reached target|Mounted|Listening on|Found device|Activated swap)"
_MESSAGES: Final[tuple[tuple[UnitEvent, str, str], ...]] = (
    (
        UnitEvent.STARTING,
        "Starting Mounting Activating",
        rf"(?:Start|Mount|Activat)ing (?:swap )?{_OF}{_DESCRIPTION}(?:\.|\.\.\.|…)$",
    ),
    (UnitEvent.FINISHED, "Finished", rf"Finished {_OF}{_DESCRIPTION}\.$"),
    (
        UnitEvent.STARTED,
        "Started Reached Mounted Listening Found Activated",
        rf"{_STARTED} {_OF}{_DESCRIPTION}(?:\.|\.\.\.)$",
    ),
    (
        UnitEvent.RESTARTED,
        "Scheduled",
        rf"{_OF}: Scheduled restart job(?:, restart counter is at (?P<restarts>\d{{1,6}}))?",
    ),
    (UnitEvent.CYCLE, "Job", rf"\S+: Job {_OF}/start deleted to break ordering cycle"),
    (UnitEvent.DEACTIVATED, "Deactivated Succeeded.", rf"{_OF}: (?:Deactivated successfully|Succeeded)\."),
    (
        UnitEvent.EXITED,
        "Main main Control control Mount",
        rf"{_OF}: (?:[Mm]ain|[Cc]ontrol|Mount) process exited, {_EXIT}",
    ),
    (UnitEvent.FAILED, "Failed", rf"{_OF}: Failed with result '(?P<result>[a-z-]+)'"),
    (UnitEvent.ENTERED_FAILED, "Unit", rf"Unit {_OF} entered failed state\.$"),
    (UnitEvent.ENTERED_FAILED, "Unit", rf"{_OF}: Unit entered failed state\.$"),  # 230 to 235
    (UnitEvent.START_LIMIT, "Start", rf"{_OF}: Start request repeated too quickly"),
    (UnitEvent.ASSERTION, "Starting", rf"{_OF}: Starting requested but asserts failed"),
    (UnitEvent.ASSERTION, "Assertion", rf"Assertion failed for {_OF}{_DESCRIPTION}\.$"),
    (UnitEvent.CONDITION, "Condition", rf"Condition check resulted in {_OF}{_DESCRIPTION} being skipped"),
    (UnitEvent.CONDITION, "Skipped", rf"{_OF}: Skipped due to '(?P<detail>exec-condition)'"),
    (UnitEvent.DEPENDENCY, "Dependency", rf"Dependency failed for {_OF}{_DESCRIPTION}\.$"),
    (UnitEvent.DEPENDENCY, "Job", rf"{_OF}: Job \S+/start failed with result 'dependency'"),
    (UnitEvent.TIMED_OUT, "Job", rf"{_OF}: Job \S+/start timed out"),
    (UnitEvent.TIMED_OUT, "Job", rf"Job {_OF}/start timed out\."),  # before 212
    (UnitEvent.DEPENDENCY, "Job", rf"Job {_OF}/start failed with result 'dependency'\."),
    (
        UnitEvent.UNLOADABLE,
        "Unit",
        rf"{_OF}: (?P<detail>Unit configuration has fatal error), unit will not be started",
    ),
    (
        UnitEvent.STOPPING,
        "Stopping Unmounting Deactivating",
        rf"(?:Stopp|Unmount|Deactivat)ing (?:swap )?{_OF}{_DESCRIPTION}(?:\.|\.\.\.|…)$",
    ),
    (
        UnitEvent.STOPPED,
        "Stopped Unmounted Closed Deactivated",
        rf"(?:Stopped(?: target)?|Unmounted|Closed|Deactivated swap) {_OF}{_DESCRIPTION}\.$",
    ),
    (
        UnitEvent.NOT_STARTED,
        "Failed",
        rf"(?:Failed to (?:start|mount|listen on)) {_OF}{_DESCRIPTION}\.$",
    ),
    (
        UnitEvent.CONDITION,
        "",
        rf"{_OF}{_DESCRIPTION} was skipped because of an unmet condition check \((?P<detail>.*)\)\.$",
    ),
    (
        UnitEvent.CONDITION,
        "",
        rf"{_OF}{_DESCRIPTION} was skipped because (?P<detail>no trigger condition) checks were met",
    ),
    (UnitEvent.UNLOADABLE, "", rf"{_OF}: (?P<detail>.*[^\s.])\.? Refusing\.$"),
)
"""Event, words, pattern. A message begins with one of the words, or has it right after `UNIT: `.

`read_event` looks patterns up by this word instead of trying them all, because a journal may have hundreds
of thousands of messages. An entry without words has no fixed word in these places.
"""
_WITHOUT_WORD: Final = tuple((event, pattern) for event, words, pattern in _MESSAGES if not words)
_BY_WORD: Final = {
    word: tuple((event, pattern) for event, words, pattern in _MESSAGES if word in words.split())
    for word in " ".join(words for _, words, _ in _MESSAGES).split()
}
MESSAGE_IDS: Final = {
    "7d4958e842da4a758f6c1cdc7b36dcc5": UnitEvent.STARTING,
    "39f53479d3a045ac8e11786248231fbf": UnitEvent.STARTED,
    "de5b426a63be47a7b6ac3eaac82e2f6f": UnitEvent.STOPPING,
    "9d1aaa27d60140bd96365438aad20286": UnitEvent.STOPPED,
    "be02cf6855d2428ba40df7e9d022f03d": UnitEvent.NOT_STARTED,
    "98e322203f7a4ed290d09fe03c09fe15": UnitEvent.EXITED,
    "d9b373ed55a64feb8242e02dbe79a49c": UnitEvent.FAILED,
    "7ad2d189f7e94e70a38c781354912448": UnitEvent.DEACTIVATED,
    "5eb03494b6584870a536b337290809b3": UnitEvent.RESTARTED,
    "0e4284a0caca4bfc81c0bb6786972673": UnitEvent.CONDITION,
}
"""MESSAGE_ID -> event, for messages that have an ID in every version of systemd that logs them."""


def read_event(text: str) -> tuple[UnitEvent, re.Match[str]] | None:
    """Return the event in a message of systemd that names a unit, with the match; None for any other text."""
    words = text.split(" ", 2)
    patterns = _BY_WORD.get(words[0], ())
    if len(words) > 1 and words[0].endswith(":"):
        patterns = _BY_WORD.get(words[1], ())
    for event, pattern in patterns:
        if (match := re.match(pattern, text)) is not None:
            return event, match
    if text.endswith("Refusing.") or " was skipped because " in text:
        for event, pattern in _WITHOUT_WORD:
            if (match := re.match(pattern, text)) is not None:
                return event, match
    return None


_DESCRIBED: Final = (
    (UnitEvent.STARTING, r"(?:Start|Mount|Activat)ing (?:swap )?(?P<description>.+?)(?:\.\.\.|…)$"),
    (UnitEvent.FINISHED, r"Finished (?P<description>.+)\.$"),
    (
        UnitEvent.STARTED,
        rf"{_STARTED} (?P<description>.+)\.$",
    ),
    (UnitEvent.STOPPING, r"(?:Stopp|Unmount)ing (?P<description>.+?)(?:\.\.\.|…)$"),
    (UnitEvent.STOPPED, r"(?:Stopped(?: target)?|Unmounted|Closed) (?P<description>.+)\.$"),
    (UnitEvent.NOT_STARTED, r"Failed to (?:start|mount|listen on) (?P<description>.+)\.$"),
    (UnitEvent.DEPENDENCY, r"Dependency failed for (?P<description>.+)\.$"),
)
_SESSION: Final = r"Session \S+ of [Uu]ser "
"""The description of a session's scope. Scopes are ignored, because systemd starts no program in them."""
TARGET: Final = " (target)"
"""Suffix that is added to the description of a target, because a service may have the same description."""


def read_described_event(text: str) -> tuple[UnitEvent, str] | None:
    """Return event and description for a message that has a unit's description instead of its name."""
    for event, pattern in _DESCRIBED:
        if (match := re.match(pattern, text)) is not None:
            description = match["description"]
            if re.match(_SESSION, description):
                return None
            if text.startswith(("Reached target ", "Stopped target ")):
                description += TARGET
            return event, description
    return None
