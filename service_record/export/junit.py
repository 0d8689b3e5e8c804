"""Write a history as JUnit XML, so that CI shows stages as tests. Pure.

Readers support different parts of the format. Only elements and attributes are used that Jenkins, GitLab and
GitHub's reporters all support.
"""

import re
from collections.abc import Iterator
from typing import Final
from xml.sax.saxutils import escape, quoteattr

from service_record.display.phrases import exit_text
from service_record.history import History, ServiceHistory
from service_record.history.outcome import Outcome, Run, Stage

_NOT_IN_XML: Final = "[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
_BAD: Final = {Outcome.FAILURE: "failure", Outcome.INTERRUPTED: "error"}


def to_junit(history: History) -> Iterator[bytes]:
    """Yield one document: a suite for each service, with its latest attempt and the stages in it."""
    yield b'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites>\n'
    for service in history.services:
        if service.runs:
            yield from _suite(service)
    yield b"</testsuites>\n"


def _suite(service: ServiceHistory) -> Iterator[bytes]:
    run = service.attempts[-1]
    spans: list[Stage | Run] = [*run.stages, run]
    counts = {
        "tests": len(spans),
        "failures": sum(span.outcome is Outcome.FAILURE for span in spans),
        "errors": sum(span.outcome is Outcome.INTERRUPTED for span in spans),
        "skipped": sum(span.outcome in {Outcome.RUNNING, Outcome.STOPPED} for span in spans),
    }
    numbers = " ".join(f'{name}="{number}"' for name, number in counts.items())
    stamp = f' timestamp="{run.started:%Y-%m-%dT%H:%M:%S}"' if run.started is not None else ""
    yield f"<testsuite name={_quoted(service.name)} {numbers}{_time_attribute(run)}{stamp}>\n".encode()
    for span in spans:
        name = span.name if isinstance(span, Stage) else "run"
        attributes = f"classname={_quoted(service.name)} name={_quoted(name)}{_time_attribute(span)}"
        yield f"<testcase {attributes}>{_format_outcome(span)}</testcase>\n".encode()
    yield b"</testsuite>\n"


def _format_outcome(span: Stage | Run) -> str:
    if span.outcome in {Outcome.RUNNING, Outcome.STOPPED}:
        return f'<skipped message="{span.outcome.value}"/>'
    element = _BAD.get(span.outcome)
    if element is None:
        return ""
    facts = span.facts
    how = exit_text(facts) or span.outcome.value
    where = facts.location
    lines = [facts.message or ""]
    if where is not None:
        lines.append(f"{where.file}:{where.line or '?'} {where.function}")
    text = escape(_replace_disallowed("\n".join(filter(None, lines))))
    return f"<{element} message={_quoted(how)}>{text}</{element}>"


def _time_attribute(span: Stage | Run) -> str:
    return f' time="{span.duration:.3f}"' if span.duration is not None else ""


def _quoted(text: str) -> str:
    return quoteattr(_replace_disallowed(text))


def _replace_disallowed(text: str) -> str:
    """Replace the characters that XML does not allow."""
    return re.sub(_NOT_IN_XML, "\N{REPLACEMENT CHARACTER}", text)
