"""Bundles of hosts are stored unchanged, read in a confined process, and can be downloaded."""

import gzip
import hashlib
from collections.abc import Iterator
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import pytest
from sqlalchemy import select, update

from service_record.collector.ingest.opening_bundles import Allowed, read_bundle
from service_record.collector.serving_settings import CollectorSettings
from service_record.collector.store.schema import bundle_services, bundles, hosts
from tests.archives import member, record, tar
from tests.assisted_installation import new_id
from tests.assisted_rules import BASE_PATH, AssistedRules
from tests.builders import BOOT_ID, entry, failed_run
from tests.collector.installing import Agent, form, map_host
from tests.collector.serving import RunningCollector, make_collector_settings, run_collector
from tests.waiting import wait_for

T = TypeVar("T")
MOST = 1 << 20
FAILED = gzip.compress(tar(record("bootkube", *failed_run("pull")), record("crio", entry())))


@pytest.fixture(scope="module")
def server(shared_settings: CollectorSettings) -> Iterator[RunningCollector]:
    """One collector for all tests of the module. Each test uses its own hosts."""
    with run_collector(replace(shared_settings, most_bundle=MOST)) as running:
        yield running


@pytest.fixture
def agent(server: RunningCollector) -> Agent:
    """Return an agent of a new, unknown host."""
    host = AssistedRules().add_host()
    return Agent(server.client("host", host.id), host)


def rows(server: RunningCollector, host: str) -> list[Any]:
    with server.collector.database.reading() as connection:
        wanted = select(bundles).join(hosts).where(hosts.c.name == host).order_by(bundles.c.id)
        return list(connection.execute(wanted))


def indexed(server: RunningCollector, host: str) -> Any:
    """Wait until the latest bundle of a host is read, and return it."""

    def look() -> Any:
        found = rows(server, host)
        return found[-1] if found and found[-1].is_indexed else None

    return wait_for(look)


def test_bundle_is_stored_unchanged_before_acknowledgement(server: RunningCollector, agent: Agent) -> None:
    reply = agent.upload(FAILED, name="boot.tar.gz")

    (row,) = rows(server, agent.host.id)
    assert (reply.status, reply.body) == (204, b"")
    assert (row.kind, row.name, row.size) == ("host_boot", "boot.tar.gz", len(FAILED))
    assert row.sha256 == hashlib.sha256(FAILED).hexdigest()
    assert b"".join(server.collector.objects.read(row.key)) == FAILED


def test_records_of_a_bundle_decide_the_verdict(server: RunningCollector, agent: Agent) -> None:
    agent.upload(FAILED)

    row = indexed(server, agent.host.id)

    assert (row.verdict, row.boots, row.left_out) == ("failed", BOOT_ID, "")
    assert row.reason.startswith("bootkube in stage pull: ")
    with server.collector.database.reading() as connection:
        found = connection.execute(
            select(bundle_services).where(bundle_services.c.bundle_id == row.id).order_by("service")
        )
        assert [(one.service, one.entries, one.outcome, one.stage) for one in found] == [
            ("bootkube", 4, "failure", "pull"),
            ("crio", 1, "running", ""),
        ]
        verdict = connection.execute(
            select(hosts.c.records_verdict).where(hosts.c.name == agent.host.id)
        ).scalar_one()
    assert b'"verdict":"failed"' in verdict
    assert b'"service":"bootkube","stage":"pull"' in verdict
    why = str(row.reason).removeprefix("bootkube in stage pull: ")
    assert f'"reason":"{why}"'.encode() in verdict


def test_older_bundle_does_not_replace_newer_verdict(server: RunningCollector, agent: Agent) -> None:
    agent.upload(FAILED)
    indexed(server, agent.host.id)
    with server.collector.database.changing() as connection:
        late = update(hosts).where(hosts.c.name == agent.host.id)
        connection.execute(
            late.values(records_verdict=b'{"verdict":"succeeded","reason":"","at":9999999999.0}')
        )
    agent.upload(gzip.compress(tar(record("crio", *failed_run()))))
    indexed(server, agent.host.id)

    with server.collector.database.reading() as connection:
        kept = connection.execute(
            select(hosts.c.records_verdict).where(hosts.c.name == agent.host.id)
        ).scalar_one()
    assert b"succeeded" in kept


def test_bundle_without_records_is_judged_by_its_files(server: RunningCollector, agent: Agent) -> None:
    agent.upload(FAILED)
    indexed(server, agent.host.id)
    killed = b"[ 1.5] Out of memory: Killed process 6214 (hyperkube) total-vm:1586752kB\n"
    agent.upload(gzip.compress(tar(member("nodes/m0/dmesg", killed))))

    row = indexed(server, agent.host.id)

    assert (row.verdict, "hyperkube was killed" in row.reason) == ("unknown", True)
    with server.collector.database.reading() as connection:
        verdict = connection.execute(
            select(hosts.c.records_verdict).where(hosts.c.name == agent.host.id)
        ).scalar_one()
    assert b'"verdict":"failed"' in verdict


def test_bundle_names_the_hardware(server: RunningCollector, agent: Agent) -> None:
    facts = {"hardware-vendor.txt": b"Dell Inc.\n", "hardware-model.txt": b"PowerEdge R640\n"}
    files = (member(f"bootstrap/system/{name}", text) for name, text in facts.items())
    agent.upload(gzip.compress(tar(record("crio", *failed_run()), *files)))
    indexed(server, agent.host.id)

    (found,) = server.client("reader").get("/api/v1/hosts", hardware="Dell Inc. PowerEdge R640").json["hosts"]
    assert found["name"] == agent.host.id


def test_repeated_bundle_is_stored_once(server: RunningCollector, agent: Agent) -> None:
    replies = [agent.upload(FAILED).status for _ in range(2)]

    kept = [key for key in server.collector.objects.keys_before(inf) if key.startswith(agent.host.id)]
    assert (replies, len(rows(server, agent.host.id)), len(kept)) == ([204, 204], 1, 1)


def test_probe_bundle_is_answered_and_not_stored(server: RunningCollector, agent: Agent) -> None:
    assert agent.upload(b"asked", name="probe.tar.gz").status == 204
    assert rows(server, agent.host.id) == []


def test_logs_are_collecting_until_the_host_completes_them(server: RunningCollector, agent: Agent) -> None:
    agent.listed()
    agent.upload(FAILED, logs_type="host")
    assert agent.listed()[0]["logs_info"] == "collecting"

    path = f"/v2/infra-envs/{agent.host.infra_env_id}/hosts/{agent.host.id}/logs-progress"
    assert agent.ask("PUT", path, {"logs_state": "completed"}).status == 204
    assert agent.listed()[0]["logs_info"] == "completed"


def test_mapped_host_has_bundles_under_its_name(server: RunningCollector) -> None:
    host = AssistedRules().add_host()
    map_host(server, "mapped1", host)

    assert Agent(server.client("host", "mapped1"), host).upload(FAILED).status == 204
    assert len(rows(server, "mapped1")) == 1


def test_group_token_sends_bundle_of_unknown_host(server: RunningCollector) -> None:
    host = AssistedRules().add_host()

    assert Agent(server.client("group", "dc1"), host).upload(FAILED).status == 204
    with server.collector.database.reading() as connection:
        assert connection.execute(select(hosts.c.group).where(hosts.c.name == host.id)).scalar() == "dc1"
    assert Agent(server.client("group", "dc2"), host).upload(FAILED).status == 403


# Uploads that are refused before anything is written


QUERIES = {
    "another type": {"logs_type": "node-boot"},
    "no host": {"host_id": ""},
    "a host's name": {"host_id": "web1"},
}


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_bundle_with_invalid_query_is_refused(agent: Agent, query: dict[str, str]) -> None:
    assert agent.upload(FAILED, **query).status == 400


def test_bundle_of_another_host_is_refused(server: RunningCollector, agent: Agent) -> None:
    assert agent.upload(FAILED, host_id=new_id()).status == 403
    assert Agent(server.client("reader"), agent.host).upload(FAILED).status == 403
    assert Agent(server.stranger, agent.host).upload(FAILED).status == 401
    assert Agent(server.client("admin"), agent.host).upload(FAILED).status == 404


def test_bundle_of_another_cluster_is_refused(server: RunningCollector, agent: Agent) -> None:
    agent.listed()
    agent.host.cluster_id = new_id()

    assert agent.upload(FAILED).status == 404


def logs_of(agent: Agent) -> str:
    return f"/v2/clusters/{agent.host.cluster_id}/logs?logs_type=host_boot&host_id={agent.host.id}"


def forms() -> dict[str, tuple[bytes, dict[str, str]]]:
    whole, headers = form(FAILED)
    return {
        "no form": (FAILED, {"content-type": "application/gzip"}),
        "no boundary": (whole, {"content-type": "multipart/form-data"}),
        "another part": form(FAILED, part="file"),
        "cut off": (whole[:200], headers),
        "another boundary": (whole, {"content-type": "multipart/form-data; boundary=other"}),
        "empty": (b"", headers),
    }


@pytest.mark.parametrize("kind", forms())
def test_body_without_complete_file_leaves_nothing(server: RunningCollector, agent: Agent, kind: str) -> None:
    body, headers = forms()[kind]

    assert agent.ask("POST", logs_of(agent), body, headers).status == 400
    assert rows(server, agent.host.id) == []
    assert list((server.collector.settings.data / "incoming").glob("upload-*")) == []


def test_too_large_bundle_is_refused(server: RunningCollector, agent: Agent) -> None:
    assert agent.upload(bytes(MOST + 1)).status == 413
    assert agent.upload(bytes(MOST)).status == 204


def test_bundle_name_contains_no_path(server: RunningCollector, agent: Agent) -> None:
    agent.upload(FAILED, name="../../etc/<script>\x07.tar.gz")

    (row,) = rows(server, agent.host.id)
    reader = server.client("reader")
    reply = reader.get(f"/api/v1/hosts/{agent.host.id}/bundles/{row.id}")
    assert row.name == "<script> .tar.gz"
    assert reply.headers["content-disposition"] == (
        f'attachment; filename="{agent.host.id}-{row.id}-_script_.tar.gz"'
    )


# Downloads


@pytest.mark.slow
def test_reader_lists_and_downloads_bundles(server: RunningCollector, agent: Agent) -> None:
    agent.upload(FAILED)
    number = indexed(server, agent.host.id).id
    reader = server.client("reader")
    path = f"/api/v1/hosts/{agent.host.id}/bundles"

    (listed,) = reader.get(path).json["bundles"]
    reply = reader.get(f"{path}/{number}")

    assert (listed["id"], listed["verdict"], listed["kind"]) == (number, "failed", "host_boot")
    assert (reply.status, reply.body) == (200, FAILED)
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert reply.headers["content-disposition"].startswith("attachment;")


@pytest.mark.parametrize("number", ["0", "999999", "x", "9" * 40, "²"])
def test_missing_bundle_is_not_found(server: RunningCollector, agent: Agent, number: str) -> None:
    assert server.client("reader").get(f"/api/v1/hosts/web1/bundles/{quote(number)}").status == 404
    assert server.client("reader").get("/api/v1/hosts/nobody/bundles").status == 404


def test_host_may_not_read_bundles(server: RunningCollector, agent: Agent) -> None:
    agent.upload(FAILED)
    (row,) = rows(server, agent.host.id)

    assert agent.client.get(f"/api/v1/hosts/{agent.host.id}/bundles/{row.id}").status == 403
    assert agent.client.get(f"/api/v1/hosts/{agent.host.id}/bundles").status == 403


# Hostile contents


@pytest.mark.slow
def test_unread_bundle_is_read_after_restart(tmp_path: Path) -> None:
    host = AssistedRules().add_host()
    with run_collector(make_collector_settings(tmp_path)) as first:
        Agent(first.client("host", host.id), host).upload(FAILED)
        number = indexed(first, host.id).id
        with first.collector.database.changing() as connection:
            connection.execute(update(bundles).values(is_indexed=False, verdict=""))

    with run_collector(make_collector_settings(tmp_path)) as second:
        row = indexed(second, host.id)

    assert (row.id, row.verdict) == (number, "failed")


HOSTILE = {
    "no archive": b"nothing",
    "cut off": FAILED[:100],
    "names that climb": gzip.compress(tar(member("../../../etc/passwd", b"x"), record("crio", entry()))),
    "zeros": gzip.compress(tar(member("bootstrap/services/big.json", bytes(80 << 20)))),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_damaged_bundle_is_read_as_far_as_possible(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "bundle"
    path.write_bytes(HOSTILE[kind])

    seen = read_bundle(path).look

    assert seen.left_out or seen.services
    assert all(found.service != "passwd" for found in seen.services)


def test_bundle_without_records_shows_journal_runs(tmp_path: Path) -> None:
    journal = b"""\
2026-11-21T10:00:02+00:00 node systemd[1]: Starting pull.service - Pull the image...
2026-11-21T10:00:05+00:00 node pull.sh[40]: registry: connection refused
2026-11-21T10:00:05+00:00 node systemd[1]: pull.service: Main process exited, code=exited, status=3/X
2026-11-21T10:00:05+00:00 node systemd[1]: pull.service: Failed with result 'exit-code'.
"""
    path = tmp_path / "bundle.tar.gz"
    path.write_bytes(gzip.compress(tar(member("sos/sos_commands/logs/journalctl_--no-pager", journal))))

    (service,) = read_bundle(path).look.services

    assert (service.service, service.outcome) == ("pull", "failure")


@pytest.mark.parametrize("allowed", [Allowed(memory=96 << 20), Allowed(seconds=0)])
def test_bundle_beyond_the_limits_is_not_read(tmp_path: Path, allowed: Allowed) -> None:
    path = tmp_path / "bundle"
    lines = b"".join(piece.to_line() for piece in failed_run())
    path.write_bytes(gzip.compress(tar(member("bootstrap/services/big.json", lines * 20_000)), 1))

    seen = read_bundle(path, allowed=allowed).look

    assert seen.services == ()
    assert seen.left_out[0].startswith("not read: ")


def test_silent_sender_is_disconnected(tmp_path: Path) -> None:
    host = AssistedRules().add_host()
    with run_collector(make_collector_settings(tmp_path, seconds=0.2)) as running:
        agent = Agent(running.client("host", host.id), host)
        body, headers = form(FAILED)
        reply = agent.ask("POST", logs_of(agent), body, {**headers, "Content-Length": str(len(body) + 10)})

    assert reply.status == 408


def test_unused_assisted_service_paths_are_not_answered(agent: Agent) -> None:
    for method, path in [("GET", "/v2/infra-envs/x/hosts"), ("GET", "/v2/clusters"), ("GET", "/v2/events")]:
        assert agent.client.ask(method, BASE_PATH + path).status in {404, 405}
