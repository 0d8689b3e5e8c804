"""What is known of one end, as a list of terms."""

from collections.abc import Iterator
from xml.etree.ElementTree import Element

from service_record.display.html.elements import Content, element
from service_record.display.phrases import ending, place
from service_record.history.facts import Facts


def facts_list(facts: Facts) -> Element:
    """Where it happened, called from where, how it ended, and what the journal said: a `dl`."""
    made = element("dl")
    for term, value in _terms(facts):
        made.extend([element("dt", term), element("dd", value)])
    return made


def _terms(facts: Facts) -> Iterator[tuple[str, Content]]:
    if facts.location is not None:
        near = "near " if facts.is_approximate else ""
        yield "at", element("code", near + place(facts.location))
    if facts.command is not None:
        yield "command", element("code", facts.command)
    inner, callers = facts.frames_around
    for term, frames in (("into", inner), ("from", callers)):
        if frames:
            yield term, element("pre", "\n".join(map(place, frames)))
    if ending(facts):
        yield "ended", ending(facts)
    if facts.message:
        yield "message", element("pre", facts.message)
