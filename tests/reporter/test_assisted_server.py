"""Test that the tests' own assisted-service behaves as the real one did.

Stages, hosts, lists, states of logs and events are compared with our collector, call by call, in
`tests/collector/test_assisted.py`; here are the calls that a collector lacks or answers otherwise.
"""

import http.client
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from bench.simulated import Answering
from service_record.http.answers import Answered
from service_record.reporter.host_view import HostView
from service_record.reporter.policy.round_context import Shipment, StageReport
from tests.assisted_installation import LOCAL_IGNITION, Host, new_id
from tests.assisted_rules import BASE_PATH, AssistedRules, HandlerCrash, ServiceRequest, ServiceResponse
from tests.assisted_server import AssistedServer
from tests.builders import require_type
from tests.collector.installing import form
from tests.faults import Faults


def ask(
    rules: AssistedRules,
    method: str,
    path: str,
    body: object = None,
    headers: Mapping[str, str] | None = None,
) -> ServiceResponse:
    """The answer to a call with JSON."""
    sent = b"" if body is None else json.dumps(body).encode()
    types = {} if body is None else {"content-type": "application/json"}
    return require_type(
        ServiceResponse,
        rules.answer(ServiceRequest(method, BASE_PATH + path, types | dict(headers or {}), sent)),
    )


def put(rules: AssistedRules, host: Host, stage: str, info: str = "") -> ServiceResponse:
    path = f"/v2/infra-envs/{host.infra_env_id}/hosts/{host.id}/progress"
    return ask(rules, "PUT", path, {"current_stage": stage, "progress_info": info})


def upload(
    rules: AssistedRules, host: Host, query: str = "logs_type=host&host_id={host}", part: str = "upfile"
) -> ServiceResponse | HandlerCrash:
    body, headers = form(part=part)
    target = f"{BASE_PATH}/v2/clusters/{host.cluster_id}/logs?{query.format(host=host.id, new=new_id())}"
    return rules.answer(ServiceRequest("POST", target, headers, body))


AGENT = {"x-secret-key": "key"}
CALLS = [
    ("GET", "/v2/clusters/{cluster}/hosts", None),
    ("PUT", "/v2/infra-envs/{infra_env}/hosts/{host}/progress", {"current_stage": "Rebooting"}),
    ("PUT", "/v2/infra-envs/{infra_env}/hosts/{host}/logs-progress", {"logs_state": "completed"}),
    ("POST", "/v2/events", {"severity": "info", "message": "m", "event_time": "2026-11-21T01:00:00Z"}),
]


@dataclass(frozen=True, slots=True)
class KeyRule:
    auth_type: str
    headers: Mapping[str, str]
    is_good: bool
    infra_env: str | None = None
    """The infra-env that the local token `key` is for."""


KEY_RULES = {
    "none: no header": KeyRule("none", {}, True),
    "none: any header": KeyRule("none", {"x-secret-key": "whatever"}, True),
    "rhsso: the auth string of the pull secret": KeyRule("rhsso", {"x-secret-key": "{secret}"}, True),
    "rhsso: not with Bearer before it": KeyRule("rhsso", {"x-secret-key": "Bearer {secret}"}, False),
    "rhsso: no header": KeyRule("rhsso", {}, False),
    "rhsso: another string": KeyRule("rhsso", AGENT, False),
    "local: a token of the infra-env": KeyRule("local", AGENT, True, "{infra_env}"),
    "local: not scoped, any host's token is good": KeyRule("local", AGENT, True, "{other}"),
    "local: a deleted infra-env's": KeyRule("local", AGENT, False, "gone"),
    "local: not as Authorization": KeyRule("local", {"authorization": "Bearer key"}, False, "{infra_env}"),
    "local: unknown": KeyRule("local", AGENT, False),
}


def test_call_needs_key_of_its_authentication() -> None:
    with Faults() as faults:
        for name, rule in KEY_RULES.items():
            rules = AssistedRules(auth_type=rule.auth_type)
            host, other = rules.add_host(), rules.add_host()
            ids = {"infra_env": host.infra_env_id, "host": host.id, "cluster": host.cluster_id}
            if rule.infra_env:
                rules.tokens["key"] = rule.infra_env.format(other=other.infra_env_id, **ids)
            key = {
                name: text.replace("{secret}", rules.pull_secret_auth) for name, text in rule.headers.items()
            }
            for method, path, body in CALLS:
                with faults.case(f"{name}: {path}"):
                    reply = ask(rules, method, path.format(**ids), body, key)
                    assert reply.status in ({200, 201, 204} if rule.is_good else {401})
                    assert rule.is_good or json.loads(reply.body)["code"] == 401


STORED: list[tuple[str, dict[str, Any], int, str]] = [
    ("é" * 2048, {}, 200, ""),
    ("x" * 2049, {}, 500, "value too long"),
    ("a\0b", {}, 500, "invalid byte sequence"),
    ("changed by somebody else meanwhile", {"conflicting_changes": 1}, 500, "nothing has changed"),
]


def test_unstorable_text_is_500() -> None:
    for info, state, status, reason in STORED:
        rules = AssistedRules()
        for name, value in state.items():
            setattr(rules, name, value)
        reply = put(rules, rules.add_host(), "Rebooting", info)
        assert (reply.status, reason in json.loads(reply.body or b'{"reason": ""}')["reason"]) == (
            status,
            True,
        )


@pytest.mark.parametrize("knows_boots", [False, True])
def test_simulated_service_answers_like_the_rules(knows_boots: bool) -> None:
    rules = AssistedRules(knows_boot_stages=knows_boots, knows_host_boot=knows_boots)
    host = rules.add_host()
    simulated = Answering(knows_stages=knows_boots, knows_host_boot=knows_boots)
    with Faults() as faults:
        for fact, stage in [("words", "Rebooting"), (LOCAL_IGNITION, LOCAL_IGNITION), ("late", "Installing")]:
            with faults.case(fact):
                answer = require_type(Answered, simulated.put(StageReport(fact=fact, stage=stage, info=fact)))
                assert answer.status == put(rules, host, stage, fact).status
                seen = require_type(HostView, simulated.view)
                assert (seen.stage, seen.info) == (host.stage, host.info)
        for kind in ("host_boot", "host"):
            with faults.case(kind):
                shipment = Shipment(kind=kind, most=1 << 20, fingerprint="")
                answer = require_type(Answered, simulated.upload(shipment, 1 << 20))
                expected = require_type(
                    ServiceResponse, upload(rules, host, f"logs_type={kind}&host_id={{host}}")
                )
                assert answer.status == expected.status
                assert require_type(HostView, simulated.view).logs_info == host.logs_info


UPLOADS = {
    "logs_type=host&host_id={host}": 204,
    "logs_type=host&host_id={host}&infra_env_id={new}": 204,
    "logs_type=controller": 204,
    "logs_type=host_boot&host_id={host}": 400,
    "logs_type=all&host_id={host}": 400,
    "host_id={host}": 400,
    "logs_type=host": 400,
    "logs_type=host&host_id=me": 400,
    "logs_type=host&host_id={new}": 404,
}


def test_upload_answers_follow_the_rules() -> None:
    with Faults() as faults:
        for query, status in UPLOADS.items():
            with faults.case(query):
                rules = AssistedRules()
                assert require_type(ServiceResponse, upload(rules, rules.add_host(), query)).status == status
                assert list(rules.objects.values()) == ([b"logs"] if status == 204 else [])
    rules = AssistedRules(knows_host_boot=True)
    host = rules.add_host()
    for kind in ("host", "host", "host_boot"):
        upload(rules, host, f"logs_type={kind}&host_id={{host}}")
    places = [f"{host.cluster_id}/logs/{host.id}/{name}" for name in ("logs.tar.gz", "boot_logs.tar.gz")]
    assert list(rules.objects) == places
    rules.delete_cluster(str(host.cluster_id))
    assert require_type(ServiceResponse, upload(rules, host)).status == 404


def test_collecting_logs_time_out_after_two_minutes() -> None:
    rules = AssistedRules()
    host = rules.add_host(status="error")
    upload(rules, host)
    rules.advance(minutes=2)
    assert host.logs_info == "collecting"
    rules.advance(seconds=1)
    assert host.logs_info == "timeout"


def test_long_event_is_dropped_silently() -> None:
    rules = AssistedRules()
    event = {"severity": "info", "event_time": "1970-01-01T00:00:00Z"}
    for size in (4096, 4097):
        assert ask(rules, "POST", "/v2/events", event | {"message": "x" * size}).status == 201
    assert [(len(event.message), event.time) for event in rules.events] == [(4096, rules.now)]


# On the network


def test_chunked_form_needs_its_file() -> None:
    with AssistedServer() as server:
        host = server.rules.add_host()
        target = f"{BASE_PATH}/v2/clusters/{host.cluster_id}/logs?logs_type=host&host_id={host.id}"
        for part in ("upfile", "file"):
            body, headers = form(part=part)
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
            connection.request("POST", target, iter([body[:50], body[50:]]), headers, encode_chunked=True)
            if part == "upfile":
                assert connection.getresponse().status == 204
            else:
                with pytest.raises(http.client.RemoteDisconnected):
                    connection.getresponse()
        assert list(server.rules.objects.values()) == [b"logs"]
        assert [entry.status for entry in server.journal] == [204, 0]


# Ignition

CONFIG = '{"ignition":{"version":"3.2.0"},"storage":{"files":[{"path":"/etc/a"}]}}'
OVERRIDES = {
    CONFIG: 201,
    CONFIG.replace("3.2.0", "3.1.0"): 201,
    CONFIG.replace("3.2.0", "3.4.0"): 400,
    CONFIG.replace("3.2.0", "3.0.0"): 400,
    "{": 400,
    "": 201,
}


def override(rules: AssistedRules, host: Host, text: str, key: str = "") -> int:
    path = f"/v2/infra-envs/{host.infra_env_id}/hosts/{host.id}/ignition"
    return ask(
        rules, "PATCH", path, {"config": text}, {"authorization": f"Bearer {key}"} if key else {}
    ).status


def test_host_override_accepts_two_versions_or_empty() -> None:
    for text, status in OVERRIDES.items():
        rules = AssistedRules()
        host = rules.add_host(ignition_config_overrides="before")
        assert override(rules, host, text) == status, text
        assert host.ignition_config_overrides == (text if status == 201 else "before")


def test_discovery_override_is_limited_to_256_kib() -> None:
    rules = AssistedRules()
    infra_env = rules.add_infra_env()
    large = json.loads(CONFIG)
    large["storage"]["files"][0]["contents"] = {"source": f"data:,{secrets.token_hex(300_000)}"}
    for text, status in ((CONFIG, 201), ("", 201), (json.dumps(large), 400)):
        body = {"ignition_config_override": text}
        assert ask(rules, "PATCH", f"/v2/infra-envs/{infra_env.id}", body).status == status
        assert infra_env.ignition_config_override == CONFIG


def test_overrides_need_a_user_key() -> None:
    rules = AssistedRules(auth_type="rhsso")
    host = rules.add_host()
    keys = (rules.user_key, "", "another")
    assert [override(rules, host, CONFIG, key) for key in keys] == [201, 401, 401]
