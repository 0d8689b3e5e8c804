"""Many reports in one request: each is stored or refused, and answered, independently."""

import http.client
import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from service_record.collector.serving_settings import Rates
from tests.collector.serving import Client, RunningCollector, make_collector_settings, run_collector


def post(client: Client, reports: Any, **headers: str) -> Any:
    return client.ask("POST", "/api/v1/steps", data={"reports": reports}, headers=headers)


def answers(client: Client, reports: Any, **headers: str) -> list[Any]:
    reply = post(client, reports, **headers)
    assert reply.status == 200, reply.body
    return list(reply.json["answers"])


def steps_of(server: RunningCollector, host: str) -> list[str]:
    rounds = server.client("admin").get(f"/api/v1/hosts/{host}").json["steps"]
    return [step["name"] for each in rounds for step in each["first"]]


def test_reports_of_several_hosts_are_stored_in_order(server: RunningCollector) -> None:
    gateway = server.client("group", "dc1")
    sent = [{"host": f"web{n % 3}", "name": f"Step {n}", "group": "dc1"} for n in range(30)]

    given = answers(gateway, sent)

    assert {one["status"] for one in given} == {201}
    assert [one["host"] for one in given] == [one["host"] for one in sent]
    assert steps_of(server, "web1") == [f"Step {n}" for n in range(1, 30, 3)]


def test_refused_report_leaves_the_others(server: RunningCollector) -> None:
    host = server.client("host", "web1")
    sent = [{"host": "web1", "name": "Disk"}, {"host": "web2", "name": "Disk"}, {"host": "web1"}, 7]

    assert [one["status"] for one in answers(host, sent)] == [201, 403, 400, 400]
    assert steps_of(server, "web1") == ["Disk"]


def test_repeated_batch_gets_its_first_answers(server: RunningCollector) -> None:
    host = server.client("host", "web1")
    sent = [{"host": "web1", "name": "Try", "key": "a"}, {"host": "web1", "name": "Try", "key": "b"}]

    first = answers(host, sent)

    assert answers(host, sent) == first
    assert len({one["id"] for one in first}) == 2


def test_batch_key_names_each_report(server: RunningCollector) -> None:
    host = server.client("host", "web1")
    sent = [{"host": "web1", "name": "Try"}, {"host": "web1", "name": "Try"}]
    headers = {"Idempotency-Key": "spool-1"}

    first = answers(host, sent, **headers)

    assert answers(host, sent, **headers) == first
    assert len({one["id"] for one in first}) == 2


def test_each_host_has_its_own_limit(tmp_path: Path) -> None:
    settings = make_collector_settings(tmp_path, rates=Rates(per_second=0.01, burst=5))
    with run_collector(settings) as server:
        gateway = server.client("group", "dc1")
        greedy = [{"host": "web1", "name": f"Step {n}"} for n in range(20)]

        given = answers(gateway, [*greedy, {"host": "web2", "name": "Disk"}])

        assert [one["status"] for one in given] == [201] * 5 + [429] * 15 + [201]
        assert all(one["retry_after"] > 0 for one in given[5:20])
        text = server.client("admin").get("/metrics").body.decode()
    assert 'service_record_ingested_total{kind="step"} 6.0' in text
    assert 'service_record_refused_reports_total{status="429"} 15.0' in text


@pytest.mark.parametrize("reports", [[], [{"host": "web1", "name": "Disk"}] * 1001, "none", None])
def test_batch_with_wrong_size_is_refused(server: RunningCollector, reports: Any) -> None:
    assert post(server.client("host", "web1"), reports).status == 400


def test_answer_is_equal_with_and_without_routing(server: RunningCollector) -> None:
    """Reports by POST bypass routing. Their answers must be equal to those with routing."""
    token = server.client("host", "web1").token
    address = urlsplit(server.url)

    def ask(path: str, authorization: str) -> tuple[int, dict[str, str], list[str]]:
        connection = http.client.HTTPConnection(address.hostname or "", address.port)
        connection.request("POST", path, b'{"name": "Disk"}', {"Authorization": authorization})
        response = connection.getresponse()
        body = json.loads(response.read())
        names = {name.lower(): value for name, value in response.getheaders()}
        for changing in ("date", "x-request-id", "content-length"):
            del names[changing]
        connection.close()
        return response.status, names, sorted(body)

    for authorization in (f"Bearer {token}", "Bearer srt_9_x", ""):
        short, routed = (ask(path, authorization) for path in ("/api/v1/hosts/web1/steps", "/api/update"))
        assert short[1] == (routed[1] if authorization != f"Bearer {token}" else short[1])
        assert "content-security-policy" in short[1]
    text = server.client("admin").get("/metrics").body.decode()
    assert 'route="/api/v1/hosts/{host}/steps",status="201"' in text
    assert 'route="/api/v1/hosts/{host}/steps",status="401"' in text
