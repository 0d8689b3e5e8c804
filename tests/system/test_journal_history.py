"""The history of a real journal, compared with systemd's own facts."""

import json
import re
from typing import Any

import pytest

from testing.machine import Machine

SCENARIO = """\
sr() { /venv/bin/python -c 'from service_record.cli import main; main(prog_name="service-record")' "$@"; }
start recorded failing daemon
while [[ $(systemctl show --property=NRestarts --value looping) != 2 ]]; do sleep 0.05; done
rest looping recorded failing
until systemctl is-active --quiet late; do sleep 0.05; done
systemctl stop stopped
journalctl --sync
printf '# shown\\n'; sr show --journal --output json
printf '\\n# without\\n'; SERVICE_RECORDS_DIR=/var/log/none sr show --output json
printf '\\n# drawn\\n'; sr timeline --journal --output json
printf '\\n# systemd\\n'
systemctl show --property=Id,Result,NRestarts,InactiveExitTimestampMonotonic,ActiveEnterTimestampMonotonic '*'
printf '\\n# end\\n'
"""


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    wants = (
        "early.service",
        "slow.service",
        "short.service",
        "late.service",
        "stopped.service",
        "looping.service",
    )
    machine = Machine(tmp_path_factory.mktemp("machine"), wants=wants)
    oneshot = ("Type=oneshot", "RemainAfterExit=yes")
    machine.unit("early", "ExecStart=/bin/sleep 0.4", *oneshot)
    slow = "Type=oneshot\nRemainAfterExit=yes\nExecStart=/bin/sleep 0.6\n"
    machine.write_unit("slow.service", f"[Unit]\nAfter=early.service\n[Service]\n{slow}")
    machine.write_unit(
        "short.service", f"[Unit]\nAfter=early.service\n[Service]\n{slow.replace('0.6', '0.1')}"
    )
    machine.write_unit("late.service", f"[Unit]\nAfter=slow.service short.service\n[Service]\n{slow}")
    machine.unit("stopped", "ExecStart=/bin/sleep 600")
    machine.unit("daemon", "ExecStart=/bin/sleep 600")
    machine.unit(
        "looping", "ExecStart=/bin/false", "Restart=on-failure", "RestartSec=100ms", "StartLimitBurst=3"
    )
    machine.unit("failing", "ExecStart=/bin/sh -c 'echo no space left; exit 7'")
    machine.bash_service("recorded", "record_service_stage_start pull\nfalse")
    output = machine.boot(SCENARIO)
    return dict(re.findall(r"^# (\w+)\n(.*?)(?=^# )", output, re.MULTILINE | re.DOTALL))


def services(text: str) -> dict[str, Any]:
    return {one["service"]: one for one in json.loads(text)["services"]}


@pytest.mark.parametrize("name", ["shown", "without"])
def test_outcomes_are_those_of_systemd(answers: dict[str, str], name: str) -> None:
    found = services(answers[name])
    assert found["daemon"]["outcome"] == "running"
    assert found["stopped"]["outcome"] == "stopped"
    assert found["slow"]["outcome"] == "success"
    assert [run["outcome"] for run in found["looping"]["runs"]] == ["failure"] * 3
    (failing,) = found["failing"]["runs"]
    assert failing["facts"]["exitCode"] == 7
    assert failing["facts"]["message"] == "no space left"


def test_record_and_journal_are_one_run(answers: dict[str, str]) -> None:
    (run,) = services(answers["shown"])["recorded"]["runs"]
    assert run["inStage"] == "pull"
    assert "derived" not in run
    (derived,) = services(answers["without"])["recorded"]["runs"]
    assert derived["derived"] is True
    assert derived["invocationId"] == run["invocationId"]


def test_start_durations_match_systemd(answers: dict[str, str]) -> None:
    blocks = [
        dict(line.split("=", 1) for line in each.splitlines()) for each in answers["systemd"].split("\n\n")
    ]
    drawn = {
        row["service"]: row for row in json.loads(answers["drawn"])["boots"][-1]["rows"] if not row["depth"]
    }
    compared = 0
    for unit in blocks:
        row = drawn.get(unit.get("Id", "").removesuffix(".service"))
        begun, ready = (
            int(unit.get(f"{name}TimestampMonotonic") or 0) for name in ("InactiveExit", "ActiveEnter")
        )
        if row is None or not begun or not ready or unit.get("NRestarts", "0") != "0" or len(row["bars"]) > 1:
            continue
        compared += 1
        assert row["bars"][0]["start"] == pytest.approx(begun / 1e6, abs=0.2), row
        assert row["longest"] == pytest.approx((ready - begun) / 1e6, abs=0.2), row
    assert compared > 3


def test_critical_chain_has_units_that_delayed_startup(answers: dict[str, str]) -> None:
    chain = [link["service"] for link in json.loads(answers["drawn"])["boots"][-1]["criticalChain"]]
    assert [name for name in chain if name in {"early", "slow", "short", "late"}] == ["early", "slow", "late"]
