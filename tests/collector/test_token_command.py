"""The commands `service-record collector token` and `audit`."""

import json
import stat
import time
from pathlib import Path

import pytest

from tests.collector.commands import collector_command
from tests.collector.serving import Client, make_collector_settings, run_collector


def test_token_is_the_only_output(tmp_path: Path) -> None:
    made = collector_command("token", "create", "host", "Web1", "--data", tmp_path / "data")

    assert made.status == 0
    assert "0600" in made.err
    with run_collector(make_collector_settings(tmp_path)) as server:
        assert Client(server.url, made.out.removesuffix("\n")).step("web1", "Disk setup").status == 201


def test_token_file_has_mode_0600(tmp_path: Path) -> None:
    file = tmp_path / "token"

    made = collector_command("token", "create", "admin", "--data", tmp_path, "--output", file)

    assert (made.status, made.out) == (0, "")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert file.read_text().startswith("srt_1_")


def test_existing_file_prevents_token_creation(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("mine")
    collector_command("token", "create", "reader", "--data", tmp_path)

    again = collector_command("token", "create", "admin", "--data", tmp_path, "--output", file)

    assert (again.status, file.read_text()) == (2, "mine")
    listed = collector_command("token", "list", "--output", "json", "--data", tmp_path)
    assert [token["kind"] for token in json.loads(listed.out)] == ["reader"]


def test_token_list_hides_secrets_in_all_formats(tmp_path: Path) -> None:
    made = collector_command("token", "create", "group", "dc1", "--name", "\x1b[31mred", "--data", tmp_path)
    enrolment = collector_command("token", "create", "enrolment", "--data", tmp_path)

    table = collector_command("token", "list", "--data", tmp_path)
    listed = collector_command("token", "list", "--output", "json", "--data", tmp_path)

    assert "\x1b" not in table.out
    assert len(table.out.splitlines()) == 3
    group, template = json.loads(listed.out)
    assert (group["kind"], group["scope"], group["expires_at"]) == ("group", "dc1", None)
    assert template["expires_at"] - template["created_at"] == 7 * 86_400
    for token in (made.out, enrolment.out):
        secret = token.strip().split("_", 2)[2]
        assert secret not in table.out + listed.out


def test_revoking_a_token_works_and_is_audited(tmp_path: Path) -> None:
    data = tmp_path / "data"
    made = collector_command("token", "create", "host", "web1", "--expires", "30d", "--data", data)
    with run_collector(make_collector_settings(tmp_path)) as server:
        host = Client(server.url, made.out.strip())
        assert host.step("web1", "Disk setup").status == 201

        assert collector_command("token", "revoke", 1, "--data", data).status == 0

        while (status := host.step("web1", "Disk setup").status) in {201, 429}:
            time.sleep(0.05)  # the time limit of the test ends it
        assert status == 401
    assert collector_command("token", "revoke", 1, "--data", data).status == 1
    audit = collector_command("audit", "--output", "json", "--data", data)
    assert [entry["action"] for entry in json.loads(audit.out)] == ["token revoke", "token create"]


def test_revoking_an_unknown_token_is_one_line(tmp_path: Path) -> None:
    collector_command("token", "create", "reader", "--data", tmp_path)

    answer = collector_command("token", "revoke", "9", "--data", tmp_path)

    assert answer.status == 1
    assert answer.err == "Error: no valid token 9; see `service-record collector token list`\n"


@pytest.mark.parametrize(
    "arguments", [("host",), ("group", "a b"), ("reader", "a b"), ("admin", "--expires", "x")]
)
def test_invalid_token_request_is_a_usage_error(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    answer = collector_command("token", "create", *arguments, "--data", tmp_path / "data")

    assert answer.status == 2
    assert not (tmp_path / "data").exists()


def test_list_without_collector_is_an_error(tmp_path: Path) -> None:
    answer = collector_command("token", "list", "--data", tmp_path)

    assert answer.status == 3
    assert str(tmp_path) in answer.err
