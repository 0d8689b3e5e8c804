"""docs/single-node.md: every command of it, in the order of the page, and what it says of them."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from service_record.collector.domain.access import TokenKind
from service_record.deploy.ignition.checking import check, read_contents
from service_record.http.collector_client import CollectorClient
from service_record.http.record_sending import Sender
from service_record.record.directory import Records
from tests.assisted_contract import assert_requests_match_openapi
from tests.assisted_installation import STAGES
from tests.assisted_rules import AssistedRules
from tests.assisted_server import AssistedServer
from tests.builders import entry, write_lines
from tests.collector.serving import RunningCollector, make_collector_settings, run_collector
from tests.docs.single_node_page import PAGE, REPORTER_TOKEN, USER_TOKEN, Desk, blocks
from tests.programs import REPOSITORY

pytestmark = pytest.mark.skipif(not shutil.which("jq"), reason="jq is not installed")

SHIM = "/usr/local/bin/bootstrap-service-record.sh"
BOOTSTRAP = {
    "ignition": {"version": "3.2.0"},
    "storage": {"files": [{"path": SHIM, "mode": 365, "contents": {"source": "data:,upstream"}}]},
    "systemd": {"units": [{"name": "bootkube.service", "contents": "[Service]\n"}]},
}
IN_ORDER = (
    *("Required files", "Into the discovery image", "By hand", "Onto the disk"),
    *("The installation", "Without the service"),
)


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[RunningCollector]:
    with run_collector(make_collector_settings(tmp_path / "collector")) as running:
        yield running


@pytest.fixture
def desk(tmp_path: Path, collector: RunningCollector) -> Iterator[Desk]:
    rules = AssistedRules(auth_type="rhsso")
    rules.user_key = USER_TOKEN
    with AssistedServer(rules) as service:
        desk = Desk(tmp_path / "desk", collector, service, rules.add_infra_env(single_node=True))
        desk.write("bootstrap.json", json.dumps(BOOTSTRAP))
        yield desk
    assert_requests_match_openapi(asked.request for asked in service.journal)


def units(config: dict[str, Any]) -> dict[str, bool]:
    return {unit["name"]: bool(unit.get("enabled")) for unit in config["systemd"]["units"]}


def files(config: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {file["path"]: file for file in config["storage"]["files"]}


def content(config: dict[str, Any], path: str) -> str:
    return (read_contents(files(config)[path]["contents"]) or b"").decode()


def is_good(config: dict[str, Any]) -> bool:
    return not check(config)


def ship(collector: RunningCollector, directory: Path) -> None:
    """Send what the host has recorded, as its unit does."""
    write_lines(directory / "bootkube.json", entry(), entry("service end", 3))
    token = collector.client(TokenKind.HOST, "sno1").token
    with CollectorClient(collector.url, token) as client:
        Sender(client, "sno1", Records(directory)).send()


def test_all_commands_of_the_page_are_tested() -> None:
    run = [block for heading in IN_ORDER for block in blocks(heading)]
    assert run == re.findall(r"^```bash\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("named", sorted(set(re.findall(r"`((?:tests|units|shell)/[^`\s]*)`", PAGE))))
def test_paths_of_the_page_exist(named: str) -> None:
    assert (REPOSITORY / named).exists()


@pytest.mark.slow
def test_commands_prepare_install_and_undo(desk: Desk, collector: RunningCollector, tmp_path: Path) -> None:
    desk.follow("Required files")
    desk.follow("Into the discovery image")
    live = json.loads(desk.infra_env.ignition_config_override)
    assert is_good(live)
    assert units(live) == {"ship-records.service": True}
    assert content(live, "/etc/ship-records.token") == (desk.directory / "collector-token").read_text()
    assert files(live)["/etc/ship-records.token"]["mode"] == 0o600
    assert content(live, SHIM) == (REPOSITORY / "shell/bootstrap-service-record.sh").read_text()

    by_hand = desk.follow("By hand")
    assert f"\n    {by_hand.err}" in PAGE, "the page shows what it says"
    merged = desk.config("sno1.iso")
    assert is_good(merged)
    assert merged["ignition"]["version"] == "3.1.0"
    assert files(merged)["/usr/local/bin/agent-fix-bz1964591"]["mode"] == 755
    assert units(merged) == {"agent.service": True, "ship-records.service": True}

    host = desk.service.rules.register(desk.infra_env, role="master", status="known", stage="")
    desk.follow("Onto the disk")
    installed = json.loads(host.ignition_config_overrides)
    assert is_good(installed)
    enabled = {"boot-reporter.timer", "node-joined.service", "ship-records.service"}
    assert {name for name, is_enabled in units(installed).items() if is_enabled} == enabled
    assert content(installed, "/usr/local/bin/service-record") == desk.executable.decode()
    assert REPORTER_TOKEN in content(installed, "/etc/service-record/token")
    assert host.id in content(installed, "/etc/service-record/reporter.toml")

    ship(collector, tmp_path)
    answer = desk.follow("The installation")
    assert "bootkube succeeded" in answer.out
    assert host.ignition_config_overrides == ""
    assert json.loads(desk.infra_env.ignition_config_override) == {"ignition": {"version": "3.1.0"}}


@pytest.mark.slow
def test_commands_prepare_bootstrap_in_place(
    desk: Desk,
) -> None:
    (desk.directory / "sno").mkdir()
    desk.follow("Required files")
    desk.follow("Without the service")
    live = desk.config("rhcos-live.iso")
    assert is_good(live)
    assert live["ignition"]["version"] == "3.2.0"
    assert content(live, SHIM) == (REPOSITORY / "shell/bootstrap-service-record.sh").read_text()
    assert "/etc/systemd/system/bootkube.service.d/10-service-record.conf" in files(live)
    assert set(units(live)) == {"bootkube.service", "ship-records.service"}
    machine_config = yaml.safe_load((desk.directory / "sno/openshift/99-service-record.yaml").read_text())
    installed = machine_config["spec"]["config"]
    assert is_good(installed)
    assert units(installed) == {"node-joined.service": True}
    assert "/etc/ship-records.token" not in files(installed)


def test_page_has_the_single_node_stages() -> None:
    assert re.findall(r"^\| `([A-Z][^`]+)` \|", PAGE, re.MULTILINE) == STAGES["single node"]


def test_table_of_modes_is_correct() -> None:
    rows = re.findall(r"^\| (\d+) \| 0(\d+) \|", PAGE, re.MULTILINE)
    assert len(rows) == 4
    assert [int(octal, 8) for _, octal in rows] == [int(decimal) for decimal, _ in rows]
    assert "755 is 01363" in PAGE
    assert f"0{755 & 0o777:o}" == "0363"
