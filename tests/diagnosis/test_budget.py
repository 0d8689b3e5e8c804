"""How long a stage may take, and what that is known from."""

from collections.abc import Sequence

import pytest

from service_record.diagnosis.budget import Basis, Budget, BudgetFile, Budgets
from service_record.diagnosis.yaml_files import read_budgets
from service_record.history import History, build_history
from service_record.history.outcome import Run
from service_record.record.config_file import ConfigError
from service_record.record.entry import Entry, Phase, Result
from tests.builders import entry

FILE = """\
# what our hosts need
stage: 10m
services:
  bootkube:
    run: 1h
    stages:
      cvo-bootstrap: 5m
      "wait for etcd": 90
  release-image: {}
"""


def took(*seconds: float, stage: str = "pull", result: str = Result.SUCCESS) -> list[Entry]:
    """A run in which a stage took these times, one after the other."""
    entries = [entry()]
    for number, each in enumerate(seconds):
        at = 10_000 * number
        entries += [
            entry(Phase.STAGE_START, at, stage=stage),
            entry(Phase.STAGE_END, at + each, stage=stage, result=result),
        ]
    return entries


def history(*entries: Entry) -> History:
    return build_history([("job", entries)])


def test_budget_file_names_services_and_stages() -> None:
    wanted = read_budgets(FILE, "b.yaml")
    assert wanted == BudgetFile(
        stage=600,
        runs={"bootkube": 3600},
        stages={("bootkube", "cvo-bootstrap"): 300, ("bootkube", "wait for etcd"): 90},
    )
    assert read_budgets("# nothing yet\n", "b.yaml") == BudgetFile()


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("stage: soon", "b.yaml:1: stage: 'soon' is not a valid duration; use one like 90s, 5m, 1h30m"),
        (
            "stage: 5m\nstages: {}",
            "b.yaml:2: stages: no such field; did you mean stage? a budget file has stage, services",
        ),
        (
            "services:\n  a:\n    run: 1m\n    run: 2m",
            "b.yaml:4: services.a.run: it is here twice; remove one",
        ),
        ("services:\n  a: 5m", "b.yaml:2: services.a: a service has fields: names with values"),
        (
            "services:\n  a:\n    stages: [x]",
            "b.yaml:3: services.a.stages: `stages` has fields: names with values",
        ),
        ("stage:", "b.yaml:1: stage: not a text, or an empty one"),
        ("stage: {", "b.yaml:2: not YAML: "),
        ("stage: \x07", "b.yaml:1: not YAML: "),
        ("[" * 100_000, "b.yaml:1: nested too deeply"),
        ("- 1", "b.yaml:1: a budget file has fields: names with values"),
    ],
)
def test_invalid_budget_file_is_refused_in_one_line(text: str, fault: str) -> None:
    with pytest.raises(ConfigError) as raised:
        read_budgets(text, "b.yaml")
    assert str(raised.value).startswith(fault)
    assert "\n" not in str(raised.value)


def of_stage(budgets: Budgets, stage: str, runs: Sequence[Run]) -> Budget:
    return budgets.find_stage_budget("job", stage, budgets.learn("job", runs))


def test_budget_is_from_file_then_history_then_default() -> None:
    job = history(*took(200, 400))
    runs = job.services[0].runs
    named = Budgets(file=BudgetFile(stage=7, stages={("job", "pull"): 5}))
    assert (of_stage(named, "pull", runs).seconds, named.find_run_budget("job")) == (5, None)
    assert of_stage(named, "other", runs).seconds == 7
    learned = of_stage(Budgets(), "pull", runs)
    assert (learned.seconds, learned.basis, learned.executions, learned.longest) == (
        1200,
        Basis.EARLIER,
        2,
        400,
    )
    default = of_stage(Budgets(), "other", runs)
    assert (default.seconds, default.basis) == (1800, Basis.DEFAULT)


def test_short_stage_gets_minutes_and_failures_do_not_count() -> None:
    runs = history(*took(0.1), *took(9999, stage="bad", result=Result.FAILURE)).services[0].runs
    assert of_stage(Budgets(), "pull", runs).seconds == 300
    assert of_stage(Budgets(), "bad", runs).basis is Basis.DEFAULT


def test_budget_is_learned_from_a_good_run() -> None:
    budgets = Budgets(baseline=history(*took(500)))
    learned = of_stage(budgets, "pull", history(entry()).services[0].runs)
    assert (learned.seconds, learned.basis) == (1500, Basis.BASELINE)
