"""Snippets with a real collector, from the boot loader to the first boot."""

import shutil
import subprocess
from pathlib import Path

import pytest

from service_record.collector.serving_settings import CollectorSettings
from tests.collector.browsing import sign_in_visitor
from tests.collector.serving import Reply, RunningCollector, run_collector
from tests.deploy.test_snippets import Installed, Installer, shell_of, snippet_of


@pytest.mark.parametrize("kind", ["kickstart", "preseed"])
@pytest.mark.parametrize("shell", ["dash", "busybox"])
def test_host_is_visible_from_image_to_first_boot(
    kind: str, shell: str, tmp_path: Path, sqlite_settings: CollectorSettings
) -> None:
    host = Installer(tmp_path / "host", shell)
    with run_collector(sqlite_settings) as server:
        host.token.write_text(f"{server.client('host', 'web1').token}\n")
        boot_token = server.client("boot", "web1").token
        line = snippet_of("ipxe", "--url", server.url)
        address = line.split()[3].replace("${service-record-token}", boot_token)
        # Like iPXE: a GET without special headers, whose answer must be 200.
        fetched = subprocess.run(["curl", "-sf", address], capture_output=True, check=True)
        given = ("--url", server.url, "--host", "web1", "--token-file", host.token)
        for piece in shell_of(kind, snippet_of(kind, *given))[: 1 if kind == "kickstart" else 2]:
            assert host.run(piece, "-eu").returncode == 0
        system = Installed(kind, host, *given[:4])
        server.settle()
        installing = server.client("admin").get("/api/v1/hosts/web1").json
        system.boot()
        server.settle()
        done = server.client("admin").get("/api/v1/hosts/web1").json

    assert fetched.stdout == b"#!ipxe\n"
    assert (installing["summary"]["verdict"], done["summary"]["verdict"]) == ("progressing", "done")
    names = [step["name"] for repeated in done["steps"] for step in repeated["first"]]
    assert names[0] == "Image downloaded"
    assert names[-1] == "Booted from disk"
    assert "Packages are installed" in names
    assert ("Partitioning" in names) == (kind == "preseed")
    assert len(done["builds"]) == 1


# The methods that Foreman's safe mode allows in a template; any other raises NoMethodError.
FOREMAN = """
    require 'erb'
    require 'json'
    Subnet = Struct.new(:name, :dhcp?)
    Nic = Struct.new(:identifier, :mac, :ip, :subnet)
    Host = Struct.new(:name, :provision_method, :managed_interfaces)
    def payload(hash = {}, with_defaults: true) = hash.merge(with_defaults ? { context: {} } : {}).to_json
    managed = Subnet.new('rack "2"', true)
    static = Subnet.new('storage', false)
    nics = [Nic.new('eth0', '52:54:00:00:00:01', '192.0.2.5', managed), Nic.new('eth1', nil, nil, managed),
            Nic.new('eth2', '52:54:00:00:00:03', '198.51.100.5', static), Nic.new('eth3', nil, nil, nil)]
    @event_name = "#{ARGV[0]}.event.foreman"
    @object = Host.new('web1.example.com', 'build', ARGV[1] == 'dhcp' ? nics : nics.drop(1))
    Task = Struct.new(:label, :result)
    Job = Struct.new(:host_name, :job_invocation_id, :task)
    @object = Job.new('web1.example.com', 17, Task.new('RunHostJob', 'error')) if ARGV[0].include?('job')
    print ERB.new(STDIN.read, trim_mode: '-').result(binding)
"""


def webhook_body(event: str, network: str) -> bytes:
    """Return the body that Foreman's webhook sends for an event of a host."""
    if shutil.which("ruby") is None:
        pytest.skip("no ruby; apt-get install ruby, or it cannot be had here")
    template = snippet_of("foreman-webhook").encode()
    command = ["ruby", "-e", FOREMAN, event, network]
    return subprocess.run(command, input=template, capture_output=True, check=True).stdout


def post_webhook(server: RunningCollector, network: str = "dhcp", event: str = "build_entered") -> Reply:
    """Send the webhook's body with the token of a group."""
    headers = {"Content-Type": "application/json"}
    body = webhook_body(event, network)
    return server.client("group", "dc1").ask("POST", "/api/v1/steps", body=body, headers=headers)


def test_webhook_of_foreman_reports_before_host(sqlite_settings: CollectorSettings) -> None:
    with run_collector(sqlite_settings) as server:
        answers = post_webhook(server, "dhcp").json["answers"]
        admin = server.client("admin")
        admin.step("web1.example.com", "Partitioning", "init", action="install")
        page = sign_in_visitor(server).page("/hosts/web1.example.com")
        host = admin.get("/api/v1/hosts/web1.example.com").json

    assert [one["status"] for one in answers] == [201, 201]
    steps = [step for repeated in host["steps"] for step in repeated["first"]]
    assert 'eth0 52:54:00:00:00:01 192.0.2.5 in rack "2"' in steps[0]["logs"]
    assert "eth2" not in steps[0]["logs"]
    assert len(host["builds"]) == 1
    chart = page.text[page.text.index("Build 1") :]
    names = ("DHCP reservation", "Prepared by Foreman", "Partitioning")
    assert sorted(names, key=chart.index) == list(names)


def test_webhook_of_foreman_names_no_dhcp_without_reservation(sqlite_settings: CollectorSettings) -> None:
    with run_collector(sqlite_settings) as server:
        answers = post_webhook(server, "static").json["answers"]
        host = server.client("admin").get("/api/v1/hosts/web1.example.com").json

    assert [one["status"] for one in answers] == [201]
    names = [step["name"] for repeated in host["steps"] for step in repeated["first"]]
    assert names == ["Prepared by Foreman"]


def test_webhook_of_foreman_reports_each_event_of_host(sqlite_settings: CollectorSettings) -> None:
    with run_collector(sqlite_settings) as server:
        admin = server.client("admin")
        for event in ("host_created", "build_entered"):
            post_webhook(server, event=event)
        admin.step("web1.example.com", "Partitioning", "done", action="install")
        post_webhook(server, event="build_exited")
        built = admin.get("/api/v1/hosts/web1.example.com").json
        post_webhook(server, event="actions.remote_execution.run_host_job_failed")
        after_job = admin.get("/api/v1/hosts/web1.example.com").json
        post_webhook(server, event="host_destroyed")
        server.settle()
        deleted = admin.get("/api/v1/hosts/web1.example.com").json

    names = [step["name"] for repeated in built["steps"] for step in repeated["first"]]
    assert names == [
        "Created in Foreman",
        "DHCP reservation",
        "Prepared by Foreman",
        "Partitioning",
        "Left build mode",
    ]
    assert len(after_job["builds"]) == 1
    job = after_job["steps"][-1]["first"][0]
    assert (job["name"], job["status"]) == ("Remote job 17", "failed")
    assert deleted["summary"]["verdict"] == "done"
    assert [step["name"] for repeated in deleted["steps"] for step in repeated["first"]] == [
        "Deleted in Foreman"
    ]
