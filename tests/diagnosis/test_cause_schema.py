"""docs/cause-rules.schema.json: a file of rules may hold what the reader takes, and nothing else."""

import json
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from jsonschema import Draft202012Validator

from service_record.diagnosis import causes, yaml_files
from service_record.diagnosis.cause_rules import Rank
from service_record.diagnosis.evidence.fact_checks import CHECKS, MEASURES, ROLES
from service_record.diagnosis.evidence.facts import FACT_NAMES
from service_record.diagnosis.evidence.log_lines import KINDS_OF_LINES
from service_record.diagnosis.findings import KINDS
from service_record.diagnosis.yaml_files import read_rules
from service_record.record.config_file import ConfigError
from tests.programs import REPOSITORY

SCHEMA: Final[dict[str, Any]] = json.loads((REPOSITORY / "docs" / "cause-rules.schema.json").read_text())
VALIDATOR: Final = Draft202012Validator(SCHEMA)
FILES: Final = sorted((Path(causes.__file__).parent / "rules").glob("*.yaml"))


def test_schema_is_valid() -> None:
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_built_in_rules_follow_the_schema(file: Path) -> None:
    rules = yaml.safe_load(file.read_text(encoding="utf-8"))

    assert rules
    assert [f"{error.json_path}: {error.message}" for error in VALIDATOR.iter_errors(rules)] == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": None},
        {"says": " "},
        {"message": None},
        {"message": None, "where": "kernel"},
        {"messages": "x"},
        {"rank": "reason"},
        {"rank": "cause", "symptom": True},
        {"where": "moon"},
        {"where": "unit:"},
        {"times": 21},
        {"fact": {"weather": "x"}},
        {"check": "weather"},
        {"role": "king"},
        {"measure": "weather"},
        {"message": None, "role": "node", "measure": "slow-pull"},
        {"kind": "dead"},
        {"exit": "one"},
        {"within": "day"},
        {"heals": "maybe"},
        {"needs": [{"where": "kernel"}]},
        {"unless": [{"says": "x"}]},
    ],
    ids=str,
)
def test_reader_and_schema_refuse_the_same(wrong: dict[str, object]) -> None:
    right = {"name": "moon", "says": "the moon is wrong", "message": "wrong phase"}
    rule = {name: value for name, value in (right | wrong).items() if value is not None}

    assert VALIDATOR.is_valid([right])
    assert not VALIDATOR.is_valid([rule])
    with pytest.raises(ConfigError):
        read_rules(yaml.safe_dump([rule]), "own.yaml")


def test_schema_and_reader_know_the_same_names() -> None:
    of_rule, of_tests = (SCHEMA["$defs"][name]["properties"] for name in ("rule", "tests"))
    where = of_tests["where"]["oneOf"][0]["anyOf"][0]["enum"]

    assert {*of_rule, *of_tests} == set(yaml_files._FIELDS)  # the one list of them
    assert set(of_rule["rank"]["enum"]) == set(Rank)
    assert set(where) == {"own", "any", *KINDS_OF_LINES}
    assert set(of_tests["fact"]["propertyNames"]["enum"]) == FACT_NAMES
    assert set(of_tests["check"]["enum"]) == set(CHECKS)
    assert set(of_tests["measure"]["enum"]) == set(MEASURES)
    assert set(of_tests["role"]["oneOf"][0]["enum"]) == set(ROLES)
    assert set(of_tests["kind"]["oneOf"][0]["enum"]) == set(KINDS)
