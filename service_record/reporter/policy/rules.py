"""A rule: when it holds, and why it is one. Pure."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from service_record.reporter.policy.moment import Moment


@dataclass(frozen=True, slots=True)
class Rule:
    """A row of a table of rules, of which the first that holds decides."""

    name: str
    holds: Callable[[Moment], bool]
    reason: str

    @property
    def line(self) -> str:
        return f"{self.name}: {self.reason}"


def first(rules: Iterable[Rule], moment: Moment) -> Rule | None:
    """The first rule that holds; None when none does."""
    return next((rule for rule in rules if rule.holds(moment)), None)
