"""`service-record assisted`: the hosts of a cluster, prepared through an assisted-service of the tests."""

import base64
import json
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from service_record.cli import main
from service_record.deploy.ignition.checking import check, read_contents
from service_record.reporter.paths import Places
from service_record.reporter.settings import read_settings
from tests.assisted_contract import assert_requests_match_openapi
from tests.assisted_installation import Host, InfraEnv
from tests.assisted_rules import AssistedRules
from tests.assisted_server import AssistedServer, CannedResponse
from tests.builders import require
from tests.command_line import Answer
from tests.running_server import get_refused_url

USER, REPORTER = "canary-of-a-user", "canary-of-the-reporter"
SHIM = "/usr/local/bin/bootstrap-service-record.sh"
SETTINGS = "/etc/service-record/reporter.toml"
TOKEN = "/etc/service-record/token"
THEIRS = """{ "ignition": {"version": "3.1.0"},
  "storage": {"files": [{"path": "/etc/motd", "mode": 755, "contents": {"source": "data:,theirs"}}]},
  "systemd": {"units": [{"name": "theirs.service", "enabled": true, "contents": "[Service]\\n"}]}
}"""
EMPTY = {"ignition": {"version": "3.1.0"}}


@pytest.fixture
def server() -> Iterator[AssistedServer]:
    rules = AssistedRules(auth_type="rhsso")
    rules.user_key = USER
    with AssistedServer(rules) as running:
        yield running
    assert_requests_match_openapi(entry.request for entry in running.journal)
    for entry in running.journal:
        assert "x-secret-key" not in entry.request.headers, "the reporter's token is for hosts"


@pytest.fixture
def infra_env(server: AssistedServer) -> InfraEnv:
    return server.rules.add_infra_env()


@pytest.fixture
def hosts(server: AssistedServer, infra_env: InfraEnv) -> list[Host]:
    """Three that wait for their installation; somebody has an override for the second."""
    roles = ("master", "worker", "auto-assign")
    made = [
        server.rules.register(infra_env, role=role, status="known", stage="", requested_hostname=f"{role}-0")
        for role in roles
    ]
    made[1].ignition_config_overrides = THEIRS
    return made


class Cluster:
    """Somebody who prepares a cluster from a directory with his files."""

    def __init__(self, directory: Path, server: AssistedServer, infra_env: InfraEnv) -> None:
        self.directory = directory
        self.options: list[object] = ["--url", server.url, "--cluster-id", infra_env.cluster_id]
        self.user_token = self.file("user", f"{USER}\n")
        self.reporter_token = self.file("reporter", f"{REPORTER}\n")

    def file(self, name: str, text: str) -> Path:
        path = self.directory / name
        path.write_text(text)
        return path

    def run(self, verb: str, *arguments: object) -> Answer:
        command = ["assisted", verb, *self.options, "--token-file", self.user_token, *arguments]
        result = CliRunner().invoke(main, [*map(str, command)], prog_name="service-record")
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        answer = Answer(result.exit_code, result.stdout, result.stderr)
        assert USER not in answer.out + answer.err
        assert REPORTER not in answer.out + answer.err
        return answer

    def prepare(self, *arguments: object) -> Answer:
        return self.run("prepare", "--reporter-token-file", self.reporter_token, *arguments)


@pytest.fixture
def cluster(tmp_path: Path, server: AssistedServer, infra_env: InfraEnv) -> Cluster:
    return Cluster(tmp_path, server, infra_env)


def files(text: str) -> dict[str, dict[str, Any]]:
    return {file["path"]: file for file in json.loads(text)["storage"]["files"]}


def content(text: str, path: str) -> str:
    return (read_contents(files(text)[path]["contents"]) or b"").decode()


def patches(server: AssistedServer) -> int:
    return sum(entry.request.method == "PATCH" for entry in server.journal)


def test_each_host_gets_its_ids_and_reporter_settings(
    cluster: Cluster, hosts: list[Host], server: AssistedServer, tmp_path: Path
) -> None:
    answer = cluster.prepare()
    assert answer.status == 0, answer.err
    assert [line.partition(": ")[0] for line in answer.out.splitlines()] == [
        f"host {host.id} ({host.requested_hostname}, {host.role})" for host in hosts
    ]
    for host in hosts:
        text = host.ignition_config_overrides
        assert check(json.loads(text)) == ()
        assert json.loads(text)["ignition"]["version"] == "3.2.0"
        places = Places(tmp_path / host.id)
        for path, name in ((places.settings_file, SETTINGS), (places.credential_file, TOKEN)):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(mode=0o600)
            path.write_text(content(text, name))
            assert files(text)[name]["mode"] == 0o600
        settings = read_settings(places, {})
        assert settings.faults == ()
        service = require(settings.service)
        assert (service.url, service.host_id) == (server.url, host.id)
        assert (service.cluster_id, service.infra_env_id) == (host.cluster_id, host.infra_env_id)
        assert service.token == REPORTER
        assert Path("/etc/service-record/prepared.json") in settings.remove
        assert USER not in text


def test_content_of_an_override_is_kept(cluster: Cluster, hosts: list[Host]) -> None:
    assert cluster.prepare().status == 0
    before, after = json.loads(THEIRS), json.loads(hosts[1].ignition_config_overrides)
    assert after["storage"]["files"][:1] == before["storage"]["files"]
    assert after["systemd"]["units"][:1] == before["systemd"]["units"]


def test_second_run_sends_nothing(cluster: Cluster, hosts: list[Host], server: AssistedServer) -> None:
    first = cluster.prepare()
    sent, texts = patches(server), [host.ignition_config_overrides for host in hosts]
    second = cluster.prepare()
    assert (first.status, second.status) == (0, 0)
    assert patches(server) == sent == 3
    assert [host.ignition_config_overrides for host in hosts] == texts
    assert [line.rpartition(": ")[2] for line in second.out.splitlines()] == ["unchanged"] * 3


def test_other_options_replace_only_our_part(cluster: Cluster, hosts: list[Host]) -> None:
    cluster.prepare("--close", "crio")
    cluster.prepare("--close", "kubelet")
    paths = files(hosts[1].ignition_config_overrides)
    assert "/etc/systemd/system/kubelet.service.d/10-service-record.conf" in paths
    assert "/etc/systemd/system/crio.service.d/10-service-record.conf" not in paths
    assert cluster.run("undo").status == 0
    assert [host.ignition_config_overrides for host in hosts] == ["", THEIRS, ""]


def test_undo_restores_the_override_byte_for_byte(
    cluster: Cluster, hosts: list[Host], infra_env: InfraEnv, server: AssistedServer
) -> None:
    infra_env.ignition_config_override = THEIRS
    assert cluster.prepare().status == 0
    assert cluster.run("prepare", "--discovery").status == 0
    assert infra_env.ignition_config_override != THEIRS
    undone = cluster.run("undo")
    assert undone.status == 0, undone.err
    assert [host.ignition_config_overrides for host in hosts] == ["", THEIRS, ""]
    assert infra_env.ignition_config_override == THEIRS
    sent = patches(server)
    assert cluster.run("undo").status == 0
    assert patches(server) == sent


def test_undone_discovery_override_is_an_empty_config(
    cluster: Cluster, infra_env: InfraEnv, server: AssistedServer
) -> None:
    cluster.run("prepare", "--discovery")
    assert cluster.run("undo").status == 0
    assert json.loads(infra_env.ignition_config_override) == EMPTY
    sent = patches(server)
    assert cluster.run("undo").status == 0
    assert patches(server) == sent


def test_undo_keeps_later_additions(cluster: Cluster, hosts: list[Host]) -> None:
    cluster.prepare()
    for host in hosts:
        later = json.loads(host.ignition_config_overrides)
        later["storage"]["files"].insert(1, {"path": "/etc/later", "contents": {"source": "data:,later"}})
        host.ignition_config_overrides = json.dumps(later, indent=2)
    again = cluster.prepare()
    assert again.status == 0, again.err
    assert all("/etc/later" in files(host.ignition_config_overrides) for host in hosts)
    assert cluster.run("undo").status == 0
    assert list(files(hosts[0].ignition_config_overrides)) == ["/etc/later"]
    assert list(files(hosts[1].ignition_config_overrides)) == ["/etc/motd", "/etc/later"]
    assert "service-record" not in hosts[1].ignition_config_overrides


def test_undo_keeps_and_reports_changed_parts(cluster: Cluster, hosts: list[Host]) -> None:
    cluster.prepare()
    changed = json.loads(hosts[0].ignition_config_overrides)
    (shim,) = [file for file in changed["storage"]["files"] if file["path"] == SHIM]
    shim["contents"] = {"source": "data:,another"}
    hosts[0].ignition_config_overrides = json.dumps(changed)
    undone = cluster.run("undo")
    assert undone.status == 0
    assert f"{SHIM} was changed since, and stays" in undone.err
    assert list(files(hosts[0].ignition_config_overrides)) == [SHIM]


def test_reformatted_override_is_recognised(
    cluster: Cluster, hosts: list[Host], server: AssistedServer
) -> None:
    cluster.prepare()
    sent = patches(server)
    for host in hosts:
        host.ignition_config_overrides = json.dumps(
            json.loads(host.ignition_config_overrides), indent=1, sort_keys=True
        )
    assert cluster.prepare().status == 0
    assert patches(server) == sent
    cluster.run("undo")
    assert [host.ignition_config_overrides for host in hosts] == ["", THEIRS, ""]


def test_conflict_is_refused_before_sending_unless_replaced(
    cluster: Cluster, hosts: list[Host], server: AssistedServer
) -> None:
    upstreams = json.dumps(
        {
            "ignition": {"version": "3.2.0"},
            "storage": {"files": [{"path": SHIM, "contents": {"source": "data:,upstream"}}]},
        }
    )
    hosts[2].ignition_config_overrides = upstreams
    refused = cluster.prepare()
    assert (refused.status, refused.out, patches(server)) == (3, "", 0)
    (line,) = refused.err.splitlines()
    assert line.startswith(f"Error: host {hosts[2].id} (auto-assign-0, auto-assign): override: storage.files")
    assert f"--replace {SHIM}" in line
    assert cluster.prepare("--replace", SHIM).status == 0
    assert content(hosts[2].ignition_config_overrides, SHIM) != "upstream"
    assert cluster.prepare("--replace", SHIM).out.count("unchanged") == 3
    assert cluster.run("undo").status == 0
    assert [host.ignition_config_overrides for host in hosts] == ["", THEIRS, upstreams]


def test_dry_run_shows_requests_and_sends_none(
    cluster: Cluster, hosts: list[Host], server: AssistedServer
) -> None:
    answer = cluster.prepare("--dry-run")
    assert answer.status == 0, answer.err
    assert patches(server) == 0
    path = f"/v2/infra-envs/{hosts[0].infra_env_id}/hosts/{hosts[0].id}/ignition"
    assert f"host {hosts[0].id} (master-0, master): would send PATCH {path}, " in answer.out
    for line in (f"file {TOKEN} 0600", f"file {SHIM} 0755", "unit boot-reporter.timer, enabled"):
        assert answer.out.splitlines().count(f"  {line}") == 3
    cluster.prepare()
    undo = cluster.run("undo", "--dry-run")
    assert undo.out.count("would send PATCH") == 3
    assert patches(server) == 3


def test_discovery_image_gets_the_recorder_without_reporter(
    cluster: Cluster, infra_env: InfraEnv, tmp_path: Path
) -> None:
    added = tmp_path / "live.ign"
    added.write_text(THEIRS)
    answer = cluster.run("prepare", "--discovery", "--add", added, "--close", "agent")
    assert answer.status == 0, answer.err
    assert answer.out.startswith(f"discovery image {infra_env.id} (discovery): prepared, ")
    config = json.loads(infra_env.ignition_config_override)
    paths = files(infra_env.ignition_config_override)
    assert {SHIM, "/etc/motd", "/etc/systemd/system/agent.service.d/10-service-record.conf"} <= set(paths)
    assert {SETTINGS, TOKEN}.isdisjoint(paths)
    assert [unit["name"] for unit in config["systemd"]["units"]] == ["theirs.service"]


def test_hosts_with_generated_ignition_are_left_alone(cluster: Cluster, hosts: list[Host]) -> None:
    hosts[0].status = "installing-in-progress"
    answer = cluster.prepare()
    assert answer.status == 1
    assert hosts[0].ignition_config_overrides == ""
    assert "too late, it is installing-in-progress" in answer.err
    assert hosts[2].ignition_config_overrides


def test_cluster_without_hosts_gets_advice(cluster: Cluster) -> None:
    answer = cluster.prepare()
    assert answer.status == 3
    assert len(answer.err.splitlines()) == 1
    assert "--discovery is for hosts that are not there yet" in answer.err


@pytest.mark.parametrize(
    ("fault", "ending"),
    [
        (
            CannedResponse(401, b'{"code":401,"message":"canary-of-a-user is bad"}'),
            (3, "401: [secret] is bad; give a"),
        ),
        (
            CannedResponse(403, b'{"code":403,"message":"no"}'),
            (3, "403: no; give the token of a user who may"),
        ),
        (CannedResponse(404, b'{"code":"404","reason":"gone"}'), (3, "404: gone")),
        (CannedResponse(200, b"<html><title>Log in</title></html>"), (3, "not an assisted-service's list")),
        (CannedResponse(503, b"busy", {"Retry-After": "0"}), (75, "503: busy")),
    ],
    ids=["401", "403", "404", "portal", "503"],
)
def test_refusal_of_the_service_is_one_line(
    cluster: Cluster,
    hosts: list[Host],
    server: AssistedServer,
    fault: CannedResponse,
    ending: tuple[int, str],
) -> None:
    server.fail(fault, path="/hosts", times=9)
    answer = cluster.prepare()
    status, message = ending
    assert (answer.status, patches(server)) == (status, 0)
    (line,) = answer.err.splitlines()
    assert line.startswith("Error: assisted-service: ")
    assert message in line
    server.clear_faults()


def test_next_run_completes_an_interrupted_one(
    cluster: Cluster, hosts: list[Host], server: AssistedServer
) -> None:
    server.fail(CannedResponse(409, b'{"code":"409","reason":"not now"}'), path=f"{hosts[1].id}/ignition")
    broken = cluster.prepare()
    assert broken.status == 3
    assert broken.err == f"Error: assisted-service: host {hosts[1].id} (worker-0, worker): 409: not now\n"
    assert hosts[0].ignition_config_overrides
    assert hosts[2].ignition_config_overrides == ""
    finished = cluster.prepare()
    assert finished.status == 0
    assert [line.split(": ")[1].split(",")[0] for line in finished.out.splitlines()] == [
        "unchanged",
        "prepared",
        "prepared",
    ]


def test_token_in_a_repeated_config_is_masked(
    cluster: Cluster, hosts: list[Host], server: AssistedServer
) -> None:
    cluster.reporter_token.write_text(json.dumps({"auths": {"cloud.openshift.com": {"auth": REPORTER}}}))
    for _ in hosts:
        body = json.dumps({"code": "400", "reason": f"bad: {REPORTER} {USER}"}).encode()
        server.fail(CannedResponse(400, body), path="/ignition")
        answer = cluster.prepare()
        assert answer.status == 3
        assert "400: bad: [secret] [secret]" in answer.err


def test_full_discovery_image_is_reported(cluster: Cluster, infra_env: InfraEnv, tmp_path: Path) -> None:
    added = tmp_path / "large.ign"
    file = {"path": "/etc/large", "contents": {"source": f"data:,{secrets.token_hex(300_000)}"}}
    added.write_text(json.dumps({"ignition": {"version": "3.2.0"}, "storage": {"files": [file]}}))
    answer = cluster.run("prepare", "--discovery", "--add", added)
    assert answer.status == 3
    assert "400: The ignition archive size is over the maximum (256 KiB)" in answer.err
    assert infra_env.ignition_config_override == ""


@pytest.mark.slow
def test_unreachable_service_exits_with_75(cluster: Cluster) -> None:
    cluster.options[1] = get_refused_url()
    answer = cluster.prepare()
    assert answer.status == 75
    assert answer.err.startswith("Error: assisted-service: no connection")


def test_invalid_override_is_refused_and_unchanged(
    cluster: Cluster, hosts: list[Host], server: AssistedServer
) -> None:
    hosts[0].ignition_config_overrides = "{"
    for verb in ("prepare", "undo"):
        answer = cluster.run(verb)
        assert answer.status == 3
        assert answer.err.startswith(f"Error: host {hosts[0].id} (master-0, master): override: line 1")
    assert patches(server) == 0


def test_damaged_note_of_our_part_is_reported(cluster: Cluster, hosts: list[Host]) -> None:
    cluster.prepare()
    config = json.loads(hosts[0].ignition_config_overrides)
    for file in config["storage"]["files"]:
        if file["path"].endswith("prepared.json"):
            file["contents"] = {"source": "data:,%7B%7D"}
    hosts[0].ignition_config_overrides = json.dumps(config)
    answer = cluster.run("undo")
    assert answer.status == 3
    assert "prepared.json is damaged, or of another version" in answer.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--cluster-id", "x"], "'x' is not a UUID"),
        (["--token-file", "/dev/null"], "/dev/null: no token"),
        (["--discovery", "--executable", "/bin/sh"], "--executable is for the reporter"),
        (["--reporter-token-file", "-", "--token-file", "-"], "standard input can be read once"),
        (["--ca-bundle", "-"], "give a file"),
        (["--executable", "https://a/b"], "add --executable-hash"),
    ],
)
def test_options_that_cannot_be_are_refused(
    cluster: Cluster, hosts: list[Host], arguments: list[str], message: str
) -> None:
    answer = cluster.run("prepare", *arguments)
    assert answer.status == 2
    assert message in " ".join(answer.err.split())


def test_token_of_agent_based_installer_has_no_bearer(
    cluster: Cluster, hosts: list[Host], server: AssistedServer
) -> None:
    claims = base64.urlsafe_b64encode(b'{"auth_scheme":"userAuth"}').decode().rstrip("=")
    token = f"header.{claims}.signature"
    server.rules.auth_type = "none"
    cluster.run("prepare", "--token-file", cluster.file("abi", token))
    assert server.journal[0].request.headers["authorization"] == token
    cluster.run("prepare")
    assert server.journal[-1].request.headers["authorization"] == f"Bearer {USER}"


def test_large_override_is_warned_of(cluster: Cluster, hosts: list[Host]) -> None:
    program = cluster.directory / "large"
    program.write_bytes(b"\x7fELF" + os.urandom(2 << 20))

    large = cluster.prepare("--executable", program, "--dry-run")
    small = cluster.prepare("--dry-run")

    assert hosts
    assert "MiB are in each answer of the service" in large.err
    assert "MiB" not in small.err


def test_executable_is_included_or_fetched(cluster: Cluster, hosts: list[Host], tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"\x7fELF and more")
    assert "no --executable" in cluster.prepare().err
    answer = cluster.prepare("--executable", program)
    assert answer.err == ""
    for host in hosts:
        text = host.ignition_config_overrides
        assert content(text, "/usr/local/bin/service-record") == program.read_text()
        assert '"/usr/local/bin/service-record"' in content(text, SETTINGS)
