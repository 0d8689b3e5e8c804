"""The output of `service-record hosts` for people and programs."""

import json
import os
import pty
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from service_record.collector.serving_settings import CollectorSettings
from tests.assisted_installation import new_id
from tests.collector.installing import Clock
from tests.collector.serving import Client, RunningCollector, run_collector
from tests.collector.test_sweep import eventually, verdict
from tests.command_line import PROGRAM, Answer, environment, service_record
from tests.pages import parse_page
from tests.schemas import check

START = 1_795_223_160.0  # 2026-11-21T01:06:00Z


@dataclass(frozen=True, slots=True)
class Fleet:
    """Hosts of a collector, with a client and a token to query them."""

    server: RunningCollector
    clock: Clock
    admin: Client
    token: Path

    def hosts(self, *arguments: object, columns: int = 80, url: str | None = None) -> Answer:
        return service_record(
            "hosts",
            *arguments,
            SERVICE_RECORD_COLLECTOR=self.server.url if url is None else url,
            SERVICE_RECORD_TOKEN_FILE=str(self.token),
            COLUMNS=str(columns),
        )


@pytest.fixture
def fleet(sqlite_settings: CollectorSettings, tmp_path: Path) -> Iterator[Fleet]:
    """One host with each verdict except silent."""
    clock = Clock(START)
    with run_collector(sqlite_settings, clock) as server:
        admin, token = server.client("admin"), tmp_path / "token"
        token.write_text(server.client("reader").token)
        report(admin, clock)
        server.collector.sweeper.wake()
        expected = ["failed", "looping", "stuck", "progressing", "done"]
        eventually(lambda: [verdict(admin, f"web{number}") for number in range(1, 6)], expected)
        yield Fleet(server, clock, admin, token)


def report(admin: Client, clock: Clock) -> None:
    admin.step("web3", "Disk setup", "init", percentage=30, action="install", group="dc1/rack2")
    clock.now += 960
    admin.step("web1", "Bootloader", "init", percentage=80, action="install", group="dc1")
    clock.now += 42
    admin.step("web1", "Bootloader", "failed", logs="grub2-install: error: no space left on device")
    for boot in "abc":
        admin.step("web2", "Network boot", "init", boot=boot, percentage=5, action="install")
    admin.step("web4", "Packages: 1200 of 1300", "reported", percentage=61, action="install")
    admin.step("web5", "Finish", "done", percentage=100, action="install")


AT_80_COLUMNS = """\
5 hosts: 1 failed, 1 looping, 1 stuck, 1 progressing, 1 done
URL

                                                   Last    Total
  Machine  Action   Progress      Last message     update  duration  Verdict
✗ web1     install  ━━━━━━   80%  Bootloader: gr…  0s      42.0s     failed
    Bootloader failed: grub2-install: error: no space left on device.
✗ web2     install            5%  Network boot     0s      0.00s     looping
    Rebooted 3 times during Network boot.
▲ web3     install  ━━       30%  Disk setup       16m     16m 42s   stuck
    No report for 15 min (default limit) since "Disk setup" started.
● web4     install  ━━━━     61%  Packages: 1200…  0s      0.00s     progressing
✓ web5     install  ━━━━━━━ 100%  Finish           0s      0.00s     done
"""


def test_trouble_comes_first_within_80_columns(fleet: Fleet) -> None:
    answer = fleet.hosts()

    assert answer.out.replace(fleet.server.url, "URL") == AT_80_COLUMNS
    assert (answer.status, answer.err) == (0, "")


@pytest.mark.parametrize("columns", [60, 80, 100, 200])
def test_lines_fit_the_terminal(fleet: Fleet, columns: int) -> None:
    name, action = f"{'long-name.' * 8}example.com", "install it again"
    fleet.admin.step(name, "Packages " * 20, logs="x" * 200, action=action)
    fleet.server.settle()

    form_cluster(fleet)

    for arguments in (("-o", "table"), ("-o", "wide"), ("show", name), ("show", "w1")):
        lines = fleet.hosts(*arguments, columns=columns).out.splitlines()
        assert max(map(len, lines)) <= columns


def test_hosts_are_filtered_by_group_name_and_verdict(fleet: Fleet) -> None:
    def named(*arguments: str) -> list[str]:
        lines = fleet.hosts(*arguments, "-o", "jsonl").out.splitlines()
        return [json.loads(line)["machine"] for line in lines]

    assert named("--group", "dc1") == ["web1", "web3"]
    assert named("--machine", "web?", "--stuck", "--failed") == ["web1", "web3"]
    assert named("--verdict", "done") == ["web5"]
    assert named("--from", f"{fleet.server.url.replace('http', 'collector')}/web2") == ["web2"]
    fleet.clock.now += 25 * 3600
    assert named("-m", "web5") == []
    assert named("-m", "web5", "--all") == ["web5"]


def test_json_and_yaml_have_the_same_data(fleet: Fleet) -> None:
    document = json.loads(fleet.hosts("-o", "json").out)

    assert yaml.safe_load(fleet.hosts("-o", "yaml").out) == document
    assert document["counts"] == {
        "failed": 1,
        "looping": 1,
        "stuck": 1,
        "silent": 0,
        "progressing": 1,
        "done": 1,
    }
    assert document["hosts"][0] == {
        "machine": "web1",
        "verdict": "failed",
        "reason": "Bootloader failed: grub2-install: error: no space left on device.",
        "since": "2026-11-21T01:22:42.000Z",
        "group": "dc1",
        "build": 1,
        "action": "install",
        "percentage": 80.0,
        "message": "Bootloader: grub2-install: error: no space left on device",
        "started": "2026-11-21T01:22:00.000Z",
        "updated": "2026-11-21T01:22:42.000Z",
        "duration": 42.0,
    }


def test_html_has_a_row_for_each_host(fleet: Fleet) -> None:
    fleet.admin.step("web6", "<script>alert(1)</script>", logs="</td><img src=x onerror=alert(1)>")

    page = parse_page(fleet.hosts("-o", "html").out)

    assert len(page.all("tr")) == 7
    assert not [script for script in page.all("script") if "alert(1)" in script.text]
    assert page.all("img") == []


def test_html_file_contains_no_secret(fleet: Fleet) -> None:
    fleet.admin.step("web6", "401 with X-Secret-Key: aB3dE9fG5iJkLmNoP")

    page = fleet.hosts("-o", "html").out

    assert "401 with X-Secret-Key: &lt;redacted:token&gt;" in page
    assert "aB3dE9fG5iJkLmNoP" not in page


def test_fail_option_exits_1_on_trouble(fleet: Fleet) -> None:
    assert fleet.hosts("--fail").status == 1
    assert fleet.hosts("--fail", "--verdict", "done").status == 0


@pytest.mark.parametrize(
    ("url", "arguments", "message"),
    [
        ("http://127.0.0.1:1", [], "http://127.0.0.1:1: "),
        ("", [], "no collector: give its URL, or set SERVICE_RECORD_COLLECTOR"),
        ("", ["--from", "web1"], "web1: not a valid address; use collector://HOST[:PORT]/NAME"),
        (None, ["--token-file", "/nowhere"], "/nowhere: no such file; write the token into it"),
    ],
)
def test_unreachable_collector_is_one_line(
    fleet: Fleet, url: str | None, arguments: list[str], message: str
) -> None:
    answer = fleet.hosts(*arguments, url=url)

    assert (answer.status, answer.out) == (3, "")
    assert answer.err.startswith(f"Error: {message}")
    assert answer.err.count("\n") == 1


def test_token_without_read_right_is_refused(fleet: Fleet) -> None:
    fleet.token.write_text(fleet.server.client("host", "web1").token)

    answer = fleet.hosts()

    assert (answer.status, answer.err.partition(": ")[2]) == (
        3,
        f"{fleet.server.url}: 403: this needs a token of kind reader or admin, and not host\n",
    )


def test_follow_redraws_the_table_within_the_screen(fleet: Fleet) -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*PROGRAM, "hosts", "--follow", "--color", "never"],
        env=environment(
            SERVICE_RECORD_COLLECTOR=fleet.server.url,
            SERVICE_RECORD_TOKEN_FILE=str(fleet.token),
            COLUMNS="80",
            LINES="8",
        ),
        stdout=theirs,
    ) as following:
        os.close(theirs)
        seen = b""
        while seen.count(b"\x1b[H\x1b[J") < 2:
            seen += os.read(ours, 65536)
        following.terminate()
    os.close(ours)

    screen = seen.decode().split("\x1b[H\x1b[J")[1].splitlines()
    assert screen[-2:] == [
        "✗ web1     install  ━━━━━━   80%  Bootloader: gr…  0s      42.0s     failed",
        "7 more lines; --group, --stuck and --failed leave some out",
    ]
    assert len(screen) == 7


def test_follow_prints_changes(fleet: Fleet) -> None:
    with subprocess.Popen(
        [*PROGRAM, "hosts", "--follow", "-o", "jsonl"],
        env=environment(
            SERVICE_RECORD_COLLECTOR=fleet.server.url, SERVICE_RECORD_TOKEN_FILE=str(fleet.token)
        ),
        stdout=subprocess.PIPE,
        text=True,
    ) as following:
        assert following.stdout is not None
        before = [json.loads(following.stdout.readline())["machine"] for _ in range(5)]
        fleet.admin.step("web4", "Bootloader", "failed", logs="no disk")
        seen = json.loads(following.stdout.readline())
        while seen["verdict"] != "failed":
            seen = json.loads(following.stdout.readline())
        following.terminate()

    assert before == ["web1", "web2", "web3", "web4", "web5"]
    assert (seen["machine"], seen["reason"]) == ("web4", "Bootloader failed: no disk.")


def test_options_take_several_values(fleet: Fleet) -> None:
    def named(*arguments: str) -> list[str]:
        lines = fleet.hosts(*arguments, "-o", "jsonl").out.splitlines()
        return [json.loads(line)["machine"] for line in lines]

    assert named("-m", "web1", "web5") == ["web1", "web5"]
    assert named("-dc", "dc1/rack2", "dc2") == ["web3"]
    assert named("--datacenter", "dc1", "-m", "web1", "web2") == ["web1"]
    assert named("-m", "web1", "-m", "web2", "--all") == ["web1", "web2"]
    assert fleet.hosts("-m").status == 2
    assert fleet.hosts("web1").status == 2


def test_all_option_shows_earlier_builds_with_verdicts(fleet: Fleet) -> None:
    fleet.admin.post("/api/v1/hosts/web1/builds", {"build": "b2", "action": "install"})
    fleet.admin.step("web1", "Disk setup", "init")
    fleet.clock.now += 29 * 86_400
    fleet.admin.step("web1", "Disk setup", "init", action="install", build="b3")
    fleet.server.settle()

    table = fleet.hosts("--all", "-m", "web1").out.splitlines()[5:]
    assert table == [
        "● web1       install                Disk setup    0s      0.00s     progressing",
        "▲   build 2  install                              29d     0.00s     abandoned",
        '    Another build began after "Disk setup" started.',
        "✗   build 1  install                              29d     42.0s     failed",
        "    Bootloader failed: grub2-install: error: no space left on device.",
    ]
    (host,) = json.loads(fleet.hosts("--all", "-m", "web1", "-o", "json").out)["hosts"]
    assert [(each["build"], each["verdict"]) for each in host["earlier"]] == [(2, "abandoned"), (1, "failed")]
    assert "build 1, install: failed, begun " in fleet.hosts("--all", "-m", "web1", "-o", "wide").out
    assert "earlier" not in fleet.hosts("-m", "web1", "-o", "json").out
    fleet.clock.now += 2 * 86_400
    assert "build 1" not in fleet.hosts("--all", "-m", "web1").out


def test_show_lists_steps_by_priority_with_logs(fleet: Fleet) -> None:
    fleet.admin.step("web1", "Disk setup", "done", priority=-1, percentage=250)
    fleet.admin.step("web1", "Bootloader", "failed", logs="\x1b[31mno space\nleft", action="install")
    fleet.server.settle()

    answer = fleet.hosts("show", "web1")

    steps = answer.out.partition("Steps of build 1\n")[2].splitlines()
    assert [line[:24].rstrip() for line in steps] == [
        "✓ Disk setup  done",
        "    note: percentage was",
        "✗ Bootloader  failed",
        r"    \x1b[31mno space"[:24],
        "    left",
    ]
    assert "42.0s" in steps[2]
    assert steps[2].endswith("2")
    assert "✗ web1\n  verdict     failed since " in answer.out
    document = json.loads(fleet.hosts("show", "web1", "-o", "json").out)
    check(document, "host")
    for line in fleet.hosts("show", "web1", "-o", "jsonl").out.splitlines():
        check(json.loads(line), "host", "line")
    assert {step["latest"][0]["name"] for step in document["steps"]} == {"Disk setup", "Bootloader"}
    assert "Disk setup" in fleet.hosts("show", "web1", "-o", "html").out
    fleet.admin.post("/api/v1/hosts/web1/builds", {"build": "b2"})
    assert "Steps of" not in fleet.hosts("show", "web1").out
    assert "  earlier     build 1, install: failed, begun " in fleet.hosts("show", "web1").out
    assert fleet.hosts("show", "web1", "--build", "1").out.endswith("    left\n")


def test_show_measures_ages_by_the_collectors_clock(fleet: Fleet) -> None:
    shown = " ".join(fleet.hosts("show", "web3").out.split())

    assert "duration 16m 42s" in shown


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["show", "nobody"], 3, "nothing is known of nobody"),
        (["show", "web1", "--build", "7"], 3, "nothing is known of build 7 of web1"),
        (["--stuck", "show", "web1"], 2, "options come after the name: hosts show NAME --from URL"),
    ],
)
def test_unknown_host_is_one_line(fleet: Fleet, arguments: list[str], status: int, message: str) -> None:
    answer = fleet.hosts(*arguments)

    assert (answer.status, answer.out) == (status, "")
    assert message in answer.err.splitlines()[-1]


def form_cluster(fleet: Fleet) -> str:
    """Create the cluster prod with two control-plane hosts, and a worker with a wrong boot order."""
    cluster, infra_env = new_id(), new_id()
    ids = {name: new_id() for name in ("m1", "m2", "w1")}
    for name, host_id in ids.items():
        role = "worker" if name == "w1" else "master"
        mapping = {"id": host_id, "cluster_id": cluster, "infra_env_id": infra_env, "role": role}
        fleet.admin.ask("PUT", f"/api/v1/hosts/{name}", data=mapping)
    fleet.admin.ask("PUT", f"/api/v1/clusters/{cluster}", data={"name": "prod", "workers": 2})
    base = f"/api/assisted-install/v2/infra-envs/{infra_env}/hosts"
    fleet.admin.ask("PUT", f"{base}/{ids['m1']}/progress", data={"current_stage": "Done"})
    fleet.admin.ask("POST", base, data={"host_id": ids["w1"]})
    fleet.server.settle()
    return cluster


CLUSTER_AT_80_COLUMNS = """\
3 hosts: 1 stuck, 1 progressing, 1 done
URL

  Cluster  State       Since  Nodes joined
● prod     installing  0s     1 of 3
    1 of 3 control-plane hosts and 0 of 2 workers are installed. w1:
    installing-pending-user-action.

"""


def test_cluster_state_is_above_hosts_in_80_columns(fleet: Fleet) -> None:
    form_cluster(fleet)

    shown = fleet.hosts("--cluster", "prod").out.replace(fleet.server.url, "URL")

    assert shown.startswith(CLUSTER_AT_80_COLUMNS)
    assert [line.split()[1] for line in shown.splitlines() if line[:1] in "✗▲✓●" and line[:1]][1:] == [
        "w1",
        "m2",
        "m1",
    ]
    assert "  prod  " not in fleet.hosts("--machine", "m1").out
    assert "Cluster  State" in fleet.hosts().out


def test_json_and_html_contain_clusters(fleet: Fleet) -> None:
    cluster = form_cluster(fleet)

    (found,) = json.loads(fleet.hosts("--cluster", "prod", "-o", "json").out)["clusters"]
    assert (found["cluster"], found["status"], found["joined"]) == (cluster, "installing", 1)
    assert "Nodes joined" in fleet.hosts("--cluster", cluster, "-o", "html").out
    assert "clusters" not in json.loads(fleet.hosts("-m", "web1", "-o", "json").out)


def test_show_explains_the_state_of_a_host(fleet: Fleet) -> None:
    cluster = form_cluster(fleet)

    shown = " ".join(fleet.hosts("show", "w1").out.split())

    assert "state installing-pending-user-action: Expected the host to boot from disk" in shown
    assert f"cluster {cluster}, worker" in shown
