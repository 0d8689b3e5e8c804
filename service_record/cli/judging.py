"""What a diagnosis is made with: the files that `analyze` is given, and the host that it runs on."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Final, TypeVar

import click

from service_record.cli.opening import opened
from service_record.diagnosis import Diagnosis, diagnose
from service_record.diagnosis.budget import BudgetFile, Budgets, read_budgets
from service_record.diagnosis.causes import Causes, Rule, read_rules
from service_record.diagnosis.now import Now
from service_record.diagnosis.placed import FileError
from service_record.display.text import visible
from service_record.history import History, build_history

_T = TypeVar("_T")
_BUILT_IN: Final = "causes.yaml"


class BadFile(click.ClickException):
    """A file that was given for judging by is not what it should be."""

    exit_code = click.UsageError.exit_code


@dataclass(frozen=True, slots=True)
class Judging:
    """What every diagnosis of one call is made with."""

    budgets: Budgets = field(default_factory=Budgets)
    causes: Causes = field(default_factory=lambda: Causes(()))

    def diagnosis(self, history: History, now: Now) -> Diagnosis | None:
        return diagnose(history, now=now, budgets=self.budgets, explain=self.causes.explain)


def judging(budget: Path | None, baseline: str | None, rules: Sequence[Path]) -> Judging:
    """What these files say; rules of one's own come before the built-in ones.

    Raises BadFile with the line where one is not as docs/analyze.md has it.
    """
    file = _read(budget, read_budgets) if budget else BudgetFile()
    good = build_history(opened([baseline], ()).records) if baseline else None
    known: list[Rule] = [rule for path in rules for rule in _read(path, read_rules)]
    built_in = resources.files("service_record.diagnosis").joinpath(_BUILT_IN).read_text(encoding="utf-8")
    return Judging(Budgets(file=file, baseline=good), Causes([*known, *read_rules(built_in, _BUILT_IN)]))


def _read(path: Path, read: Callable[[str, str], _T]) -> _T:
    try:
        return read(path.read_text(encoding="utf-8"), str(path))
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise BadFile(visible(f"{path}:{line}: not UTF-8")) from None
    except FileError as error:
        raise BadFile(visible(str(error))) from None
