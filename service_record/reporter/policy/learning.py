"""What an answer to a request means for later ones: a table, a row for each rule. Pure."""

from collections.abc import Container
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from service_record.reporter.answers import Outcome, Unreachable


class Call(StrEnum):
    """A kind of request."""

    STAGE = "stage"
    """A PUT of a stage that is a fact."""
    INFO = "info"
    """A PUT of the current stage with other information."""
    UPLOAD = "upload"


class Meaning(StrEnum):
    """What an answer means."""

    DONE = "done"
    LATER = "later"
    """Nothing was said about the request itself: a later round may try again, within its limits."""
    OTHER_FORM = "other form"
    """The service does not know facts as stages: they are information on the current stage."""
    MOVED = "moved"
    """The host has moved on: look once more what the service knows; the second time the fact is dropped."""
    NEVER_AGAIN = "never again"
    """This kind of request is over for good."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A row of the table: of the first one that fits, the meaning counts."""

    name: str
    calls: frozenset[Call]
    statuses: Container[int]
    meaning: Meaning
    reason: str


_ALL: Final = frozenset(Call)
_PUTS: Final = frozenset({Call.STAGE, Call.INFO})

ANSWERS: Final = (
    Answer("accepted", _ALL, range(200, 300), Meaning.DONE, "the service has it"),
    Answer(
        "unknown-stage",
        frozenset({Call.STAGE}),
        {400},
        Meaning.OTHER_FORM,
        "services without the stages of the enhancement answer 400 to them, and store nothing",
    ),
    Answer(
        "moved-on",
        _PUTS,
        {409, 500},
        Meaning.MOVED,
        "409: it has another stage by now; 500: its status changed meanwhile, or this can never be stored",
    ),
    Answer(
        "busy",
        _ALL,
        {408, 423, 425, 429, *range(500, 600)},
        Meaning.LATER,
        "the server, or what stands before it, has a bad moment",
    ),
    Answer(
        "denied",
        _ALL,
        {401, 403, 404},
        Meaning.LATER,
        "a proxy, a portal, or a service whose database is away says so, too",
    ),
    Answer(
        "not-the-service",
        _ALL,
        range(100, 400),
        Meaning.LATER,
        "redirects come from portals and proxies, and are not followed: the key is for the service alone",
    ),
    Answer(
        "refused",
        _ALL,
        range(400, 500),
        Meaning.NEVER_AGAIN,
        "it would be refused again; the server may keep a large upload that it refuses on its disk for ever",
    ),
)


def learn(call: Call, outcome: Outcome) -> Meaning:
    """What an outcome of a call means. A status that HTTP does not have means as much as no answer."""
    if isinstance(outcome, Unreachable):
        return Meaning.LATER
    rows = (row for row in ANSWERS if call in row.calls and outcome.status in row.statuses)
    return next((row.meaning for row in rows), Meaning.LATER)
