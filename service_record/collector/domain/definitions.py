"""Definitions of steps by an operator (`serve --steps`): the strict mode of the RFC.

Reports of other steps are refused, but stored, so that no report is lost because of a misspelt label.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from service_record.collector.domain.steps import ReportedStep, StepStatus
from service_record.record.config_file import parse_toml

_TABLE: Final = "step"
_EXPECTED: Final = {
    "label": "lower case letters, digits and _, at most 255",
    "name": "a text of at most 255 characters",
    "priority": "a whole number of at most 31 bits",
    "budget": "seconds, more than 0 and at most 1e9",
    "percentage": "a number from 0 to 100",
    "last": "true or false",
}


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
        definition = self.by_label.get(step.label)
        return definition is not None and definition.last

    def applied(self, step: ReportedStep) -> ReportedStep:
        """Return a step with the values of its definition, or marked as undefined."""
        if not self.by_label:
            return step
        definition = self.by_label.get(step.label)
        if definition is None:
            return msgspec.structs.replace(step, is_known=False)
        is_done = step.status in {StepStatus.DONE, StepStatus.REPORTED}
        return msgspec.structs.replace(
            step,
            name=definition.name or step.name,
            priority=definition.priority,
            percentage=definition.percentage if step.percentage is None and is_done else step.percentage,
        )


def parse(text: str, path: str = "steps") -> Definitions:
    """Return the definitions in a TOML document of `[[step]]` tables. Raises ConfigError."""
    document = parse_toml(text, path)
    top = document.fields("a file of steps", (_TABLE,))
    tables = top[_TABLE].content if _TABLE in top else None
    if not isinstance(tables, list) or not tables:
        raise document.fault(f"it defines no steps: [[{_TABLE}]] and label = ... for each")
    definitions: dict[str, Definition] = {}
    for table in tables:
        definition = table.convert(Definition, "a step", _EXPECTED)
        if definition.label in definitions:
            label = table.fields("a step")["label"]
            raise label.fault(f"{definition.label} is defined twice; remove one")
        definitions[definition.label] = definition
    return Definitions(definitions)
