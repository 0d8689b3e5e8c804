"""Definitions of steps by an operator (`serve --steps`): the strict mode of the RFC.

Reports of other steps are refused, but stored, so that no report is lost because of a misspelt label.
"""

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from service_record.collector.domain.steps import ReportedStep, StepStatus
from service_record.record.visible import visible

_TABLE: Final = "step"
_FIELD: Final = re.compile(r"\$\.(\w+)|field `(.*)`", re.DOTALL)
_POSITION: Final = re.compile(r"^(.*?) \(at line (\d+), column \d+\)$")
_EXPECTED: Final = {
    "label": "lower case letters, digits and _, at most 255",
    "name": "a text of at most 255 characters",
    "priority": "a whole number of at most 31 bits",
    "budget": "seconds, more than 0 and at most 1e9",
    "percentage": "a number from 0 to 100",
    "last": "true or false",
}


class DefinitionError(Exception):
    """An error in a file of definitions, with its line."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line


class Definition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A step that hosts may report."""

    label: Annotated[str, Meta(pattern=r"^[a-z0-9_]{1,255}\Z")]
    name: Annotated[str, Meta(max_length=255)] = ""
    """The displayed name; if empty, the reported name is used."""
    priority: Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)] = 0
    budget: Annotated[float, Meta(gt=0, le=1e9)] | None = None
    """Seconds after which the host is stuck in this step."""
    percentage: Annotated[float, Meta(ge=0, le=100)] | None = None
    """The host's progress, in per cent, when this step is done and the report does not name it."""
    last: bool = False
    """True if the build is complete when this step is done."""


@dataclass(frozen=True, slots=True)
class Definitions:
    """All definitions, in the order of their file; without any, every step is accepted."""

    by_label: Mapping[str, Definition] = field(default_factory=dict)

    def of(self, label: str) -> Definition | None:
        """Return the definition of a step."""
        return self.by_label.get(label)

    @property
    def budgets(self) -> Mapping[str, float]:
        """Return the budgets in seconds by label."""
        return {
            label: definition.budget
            for label, definition in self.by_label.items()
            if definition.budget is not None
        }

    def is_last(self, step: ReportedStep) -> bool:
        """Return True if this step completes the build."""
        definition = self.of(step.label)
        return definition is not None and definition.last

    def applied(self, step: ReportedStep) -> ReportedStep:
        """Return a step with the values of its definition, or marked as undefined."""
        if not self.by_label:
            return step
        definition = self.of(step.label)
        if definition is None:
            return replace(step, is_known=False)
        is_done = step.status in {StepStatus.DONE, StepStatus.REPORTED}
        return replace(
            step,
            name=definition.name or step.name,
            priority=definition.priority,
            percentage=definition.percentage if step.percentage is None and is_done else step.percentage,
        )


def parse(text: str) -> Definitions:
    """Return the definitions in a TOML document of `[[step]]` tables. Raises DefinitionError."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _syntax_error(text, str(error)) from None
    except RecursionError:
        raise DefinitionError(1, "nested too deeply; a step is a [[step]] table of plain values") from None
    except ValueError as error:  # a number of more digits than Python takes
        raise DefinitionError(1, str(error)) from None
    foreign = document.keys() - {_TABLE}
    if foreign:
        line = _line(text, lambda match: bool(match.keys() & foreign))
        raise DefinitionError(line, f"no [[{_TABLE}]]: {visible(', '.join(sorted(foreign)))}")
    tables = document.get(_TABLE, [])
    if not isinstance(tables, list) or not tables:
        raise DefinitionError(1, f"it defines no steps: [[{_TABLE}]] and label = ... for each")
    definitions: dict[str, Definition] = {}
    for number, table in enumerate(tables):
        definition = _definition(text, number, table)
        if definition.label in definitions:
            raise DefinitionError(
                _line_of_field(text, number, "label"), f"{definition.label} is defined twice; remove one"
            )
        definitions[definition.label] = definition
    return Definitions(definitions)


def _definition(text: str, number: int, table: object) -> Definition:
    try:
        return msgspec.convert(table, Definition)
    except msgspec.ValidationError as error:
        name = wrong_field(error)
        raise DefinitionError(_line_of_field(text, number, name), _reason(table, name)) from None


def wrong_field(error: msgspec.ValidationError) -> str:
    """Return the field that msgspec refused, or empty if it refused the whole table."""
    named = _FIELD.search(str(error))
    return (named[1] or named[2]) if named else ""


def _reason(table: object, name: str) -> str:
    """Describe the error in a field."""
    if not isinstance(table, dict):
        return f"a step is a table: [[{_TABLE}]]"
    if not name:
        return f"a step has {', '.join(_EXPECTED)}, and nothing else"
    if name not in table:
        return f"a step needs a {name}"
    if name not in _EXPECTED:
        return f"unknown: {visible(name)}; a step has {', '.join(_EXPECTED)}"
    return f"{name}: {_EXPECTED[name]}"


def _syntax_error(text: str, message: str) -> DefinitionError:
    at = _POSITION.match(message)
    if at is not None:
        return DefinitionError(int(at[2]), at[1])
    return DefinitionError(text.count("\n") + 1, message.removesuffix(" (at end of document)"))


def _line_of_field(text: str, number: int, name: str) -> int:
    """Return the line of a field, or of the beginning of its table if the field is missing."""

    def has_table(document: Mapping[str, Any]) -> bool:
        return len(document.get(_TABLE, [])) > number

    def has_field(document: Mapping[str, Any]) -> bool:
        if not has_table(document):
            return False
        table = document[_TABLE][number]
        return isinstance(table, dict) and name in table

    return _line(text, has_field, default=_line(text, has_table))


def _line(text: str, is_there: Callable[[Mapping[str, Any]], bool], default: int = 1) -> int:
    """Return the first line that matches, because the parser gives no positions."""
    lines = text.splitlines()
    for number in range(1, len(lines) + 1):
        try:
            document = tomllib.loads("\n".join(lines[:number]))
        except tomllib.TOMLDecodeError:  # a text or list of several lines is not over
            continue
        if is_there(document):
            return number
    return default
