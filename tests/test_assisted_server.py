"""The tests' own assisted-service behaves as the real one was seen to: a row for each of its rules."""

import http.client
import json
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pytest

from tests.assisted_installation import Host, new_id
from tests.assisted_rules import BASE_PATH, Asked, AssistedRules, HungUp, Told
from tests.assisted_server import AssistedServer
from tests.builders import must_be

OK = [200, 201, 204]


def ask(
    rules: AssistedRules,
    method: str,
    path: str,
    body: object = None,
    headers: Mapping[str, str] | None = None,
) -> Told:
    """The answer to a call; JSON bodies are objects, others bytes."""
    sent = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    types = {} if body is None or isinstance(body, bytes) else {"content-type": "application/json"}
    return must_be(Told, rules.answer(Asked(method, BASE_PATH + path, types | dict(headers or {}), sent)))


def listed(rules: AssistedRules, host: Host, query: str = "") -> list[dict[str, object]]:
    told = ask(rules, "GET", f"/v2/clusters/{host.cluster_id}/hosts{query}")
    assert told.status == 200
    found: list[dict[str, object]] = json.loads(told.body)
    return found


def said(told: Told) -> str:
    """The reason, or the message, of an error."""
    body = json.loads(told.body or b"{}")
    return str(body.get("reason") or body.get("message", ""))


def put(rules: AssistedRules, host: Host, stage: str, info: str = "") -> Told:
    return put_body(rules, host, {"current_stage": stage, "progress_info": info})


def put_body(rules: AssistedRules, host: Host, body: object) -> Told:
    return ask(rules, "PUT", f"/v2/infra-envs/{host.infra_env_id}/hosts/{host.id}/progress", body)


def logs_progress(rules: AssistedRules, host: Host, body: object) -> Told:
    return ask(rules, "PUT", f"/v2/infra-envs/{host.infra_env_id}/hosts/{host.id}/logs-progress", body)


def form(content: bytes = b"logs", part: str = "upfile") -> tuple[bytes, dict[str, str]]:
    disposition = f'Content-Disposition: form-data; name="{part}"; filename="logs.tar.gz"'
    body = f"--limit\r\n{disposition}\r\nContent-Type: application/gzip\r\n\r\n".encode()
    return body + content + b"\r\n--limit--\r\n", {"content-type": "multipart/form-data; boundary=limit"}


def upload(
    rules: AssistedRules, host: Host, query: str | None = None, content: bytes = b"logs", part: str = "upfile"
) -> Told | HungUp:
    body, headers = form(content, part)
    query = f"logs_type=host&host_id={host.id}" if query is None else query
    target = f"{BASE_PATH}/v2/clusters/{host.cluster_id}/logs?{query}"
    return rules.answer(Asked("POST", target, headers, body))


def status_of(reply: Told | HungUp) -> int:
    return reply.status if isinstance(reply, Told) else 0


# Keys

AGENT = {"x-secret-key": "key"}
CALLS = [
    ("GET", "/v2/clusters/{cluster}/hosts", None),
    ("PUT", "/v2/infra-envs/{infra_env}/hosts/{host}/progress", {"current_stage": "Rebooting"}),
    ("PUT", "/v2/infra-envs/{infra_env}/hosts/{host}/logs-progress", {"logs_state": "completed"}),
    ("POST", "/v2/events", {"severity": "info", "message": "m", "event_time": "2026-11-21T01:00:00Z"}),
]


def with_ids(path: str, host: Host) -> str:
    return path.format(cluster=host.cluster_id, infra_env=host.infra_env_id, host=host.id)


@dataclass(frozen=True, slots=True)
class KeyRule:
    auth_type: str
    headers: Mapping[str, str]
    status: int | None
    infra_env: str | None = None
    """The infra-env that the local token `key` is for."""


KEY_RULES = {
    "none: no header": KeyRule("none", {}, None),
    "none: any header": KeyRule("none", {"x-secret-key": "whatever"}, None),
    "rhsso: the auth string of the pull secret": KeyRule("rhsso", {"x-secret-key": "{secret}"}, None),
    "rhsso: not with Bearer before it": KeyRule("rhsso", {"x-secret-key": "Bearer {secret}"}, 401),
    "rhsso: no header": KeyRule("rhsso", {}, 401),
    "rhsso: another string": KeyRule("rhsso", AGENT, 401),
    "local: a token of the infra-env": KeyRule("local", AGENT, None, "{infra_env}"),
    "local: not scoped, any host's token is good": KeyRule("local", AGENT, None, "{other}"),
    "local: a deleted infra-env's": KeyRule("local", AGENT, 401, "gone"),
    "local: not as Authorization": KeyRule("local", {"authorization": "Bearer key"}, 401, "{infra_env}"),
    "local: unknown": KeyRule("local", AGENT, 401),
}


@pytest.mark.parametrize("call", CALLS, ids=[call[1] for call in CALLS])
@pytest.mark.parametrize("rule", KEY_RULES.values(), ids=KEY_RULES)
def test_a_call_is_taken_with_the_key_that_its_kind_of_authentication_asks_for(
    rule: KeyRule, call: tuple[str, str, object]
) -> None:
    rules = AssistedRules(auth_type=rule.auth_type)
    host, other = rules.add_host(), rules.add_host()
    if rule.infra_env:
        rules.tokens["key"] = rule.infra_env.format(infra_env=host.infra_env_id, other=other.infra_env_id)
    headers = {
        name: value.replace("{secret}", rules.pull_secret_auth) for name, value in rule.headers.items()
    }
    method, path, body = call
    told = ask(rules, method, with_ids(path, host), body, headers)
    if rule.status is None:
        assert told.status in OK
    else:
        assert told.status == rule.status
        assert json.loads(told.body)["code"] == rule.status


# Reading


def test_the_hosts_of_a_cluster_are_listed_with_their_stages() -> None:
    rules = AssistedRules()
    host = rules.add_host(role="worker", stage="Configuring", info="words", status="installing-in-progress")
    rules.add_host()
    (shown,) = listed(rules, host)
    progress = must_be(dict, shown["progress"])
    assert (shown["id"], shown["role"], shown["bootstrap"], shown["kind"]) == (
        host.id,
        "worker",
        False,
        "Host",
    )
    assert (progress["current_stage"], progress["progress_info"]) == ("Configuring", "words")


@pytest.mark.parametrize(
    ("query", "count"),
    [("?role=worker", 1), ("?role=master", 0), ("?status=error", 0), ("?status=installing-in-progress", 1)],
)
def test_the_hosts_of_a_cluster_are_filtered(query: str, count: int) -> None:
    rules = AssistedRules()
    assert len(listed(rules, rules.add_host(role="worker"), query)) == count


def test_a_cluster_that_is_deleted_or_was_never_there_has_an_empty_list() -> None:
    rules = AssistedRules()
    host = rules.add_host()
    rules.delete_cluster(str(host.cluster_id))
    assert listed(rules, host) == []
    host.cluster_id = new_id()
    assert listed(rules, rules.add_host(cluster_id=new_id())) == []


def test_asking_for_instructions_counts_as_a_sign_of_life_of_the_agent() -> None:
    rules = AssistedRules()
    host = rules.add_host()
    told = ask(rules, "GET", f"/v2/infra-envs/{host.infra_env_id}/hosts/{host.id}/instructions")
    assert (told.status, host.checked_in_at) == (200, rules.now)


def test_registering_while_rebooting_stops_the_host_for_a_person_to_look_at() -> None:
    rules = AssistedRules()
    host = rules.add_host(stage="Rebooting")
    told = ask(rules, "POST", f"/v2/infra-envs/{host.infra_env_id}/hosts", {"host_id": host.id})
    assert (told.status, host.status) == (201, "installing-pending-user-action")


# Stages

ROLES: dict[str, dict[str, object]] = {
    "master": {},
    "arbiter": {"role": "arbiter"},
    "worker": {"role": "worker"},
    "bootstrap": {"bootstrap": True},
    "single node": {"single_node": True, "bootstrap": True},
}
_MASTER = [12, 25, 37, 50, 62, 75, 87, 100]
PERCENT = {
    "master": _MASTER,
    "arbiter": _MASTER,
    "worker": [11, 22, 33, 44, 55, 66, 77, 88, 100],
    "bootstrap": [9, 18, 27, 36, 45, 54, 63, 72, 81, 90, 100],
    "single node": _MASTER,
}


def of_role(rules: AssistedRules, role: str, **facts: object) -> Host:
    return rules.add_host(**{**ROLES[role], **facts})  # type: ignore[arg-type]


@pytest.mark.parametrize("role", ROLES)
def test_a_host_goes_through_the_stages_of_its_role_in_order(role: str) -> None:
    rules = AssistedRules()
    host = of_role(rules, role, stage="", status="installing")
    seen = []
    for stage in rules.stages(host):
        assert put(rules, host, stage).status == 200
        seen.append(host.percentage)
    assert (seen, host.status) == (PERCENT[role], "installed")


FACT = "Booted with local ignition"


@dataclass(frozen=True, slots=True)
class StageRule:
    stage: str
    info: str
    status: int
    then: Mapping[str, object]
    before: Mapping[str, object]
    role: str = "master"
    events: int = 0
    says: str = ""


def row(
    stage: str,
    answer: int,
    info: str = "",
    /,
    *,
    then: Mapping[str, object] | None = None,
    role: str = "master",
    events: int = 0,
    says: str = "",
    **before: object,
) -> StageRule:
    return StageRule(stage, info, answer, then or {}, before, role, events, says)


PENDING = "installing-pending-user-action"
SHORT_OF_LIMIT, TOO_LONG = "é" * 2048, "x" * 2049
STAGE_RULES = {
    "a stage of the enhancement is unknown": row(FACT, 400, says="current_stage in body should be one of"),
    "the other one, too": row("Booted with control plane ignition", 400),
    "the wrong case is unknown": row("rebooting", 400),
    "the same again changes nothing": row("Rebooting", 200, "x", info="x", events=0),
    "other words are stored": row("Rebooting", 200, FACT, events=1, then={"info": FACT}),
    "other words in status installed": row("Rebooting", 200, FACT, events=1, status="installed"),
    "other words in status error": row("Rebooting", 200, FACT, events=1, status="error"),
    "other words leave a pending host pending": row(
        "Rebooting", 200, FACT, events=1, status=PENDING, then={"status": PENDING}
    ),
    "a later stage": row("Configuring", 200, events=1, then={"stage": "Configuring", "percentage": 75}),
    "stages may be skipped": row("Joined", 200, events=1, then={"stage": "Joined", "percentage": 87}),
    "a later stage ends pending": row(
        "Configuring", 200, events=1, status=PENDING, then={"status": "installing-in-progress"}
    ),
    "a later stage forgets a timeout": row(
        "Configuring", 200, events=1, stage_timed_out=True, then={"stage_timed_out": False}
    ),
    "an earlier stage": row(
        "Installing", 409, says='Can\'t assign lower stage "Installing" after host has been'
    ),
    "a stage of another role": row("Waiting for ignition", 409, says="isn't available for host role master"),
    "waiting for the control plane is not one of a master's": row("Waiting for control plane", 409),
    "for a bootstrap it is before": row(
        "Waiting for control plane", 409, role="bootstrap", says="lower stage"
    ),
    "for a worker it is before": row("Waiting for control plane", 409, role="worker", says="lower stage"),
    "a single node is never configuring": row("Configuring", 409, role="single node", says="isn't available"),
    "a change when it is installed": row(
        "Configuring",
        409,
        status="installed",
        says="Can't set progress <Configuring> to host in status <installed>",
    ),
    "a change in error": row("Configuring", 409, status="error"),
    "no stage": row("", 409, says="Stages  isn't available"),
    "Failed fails the host": row("Failed", 200, then={"status": "error"}),
    "a day-2 host that reboots is done": row(
        *("Rebooting", 200),
        kind="AddToExistingClusterHost",
        stage="Installing",
        events=1,
        then={"stage": "Done", "status": "added-to-existing-cluster"},
    ),
    "a day-2 host that is rebooting stays": row(
        "Rebooting", 200, FACT, kind="AddToExistingClusterHost", events=1, then={"stage": "Rebooting"}
    ),
    "words of the greatest length, in characters": row("Rebooting", 200, SHORT_OF_LIMIT, events=1),
    "words that are too long": row("Rebooting", 500, TOO_LONG, says="value too long"),
    "a NUL": row("Rebooting", 500, "a\0b", says="invalid byte sequence"),
    "a change of somebody else's meanwhile": row(
        "Rebooting", 500, FACT, meanwhile=True, says="nothing has changed"
    ),
}


@pytest.mark.parametrize("rule", STAGE_RULES.values(), ids=STAGE_RULES)
def test_a_stage_is_answered_by_the_rules_of_stages(rule: StageRule) -> None:
    rules = AssistedRules()
    before = dict(rule.before)
    rules.changes_meanwhile = int(bool(before.pop("meanwhile", False)))
    host = of_role(rules, rule.role, **{"stage": "Rebooting", **before})
    told = put(rules, host, rule.stage, rule.info)
    assert told.status == rule.status
    assert rule.says in said(told)
    assert len(rules.events) == rule.events
    assert {name: getattr(host, name) for name in rule.then} == rule.then


def test_a_server_that_knows_the_enhancements_stages_takes_them_in_their_places() -> None:
    rules = AssistedRules(knows_boot_stages=True)
    host = rules.add_host()
    stages = rules.stages(host)
    assert stages[4:] == [
        *("Rebooting", FACT, "Configuring"),
        *("Booted with control plane ignition", "Joined", "Done"),
    ]
    assert [put(rules, host, stage).status for stage in stages[5:]] == [200] * 5
    assert put(rules, host, FACT).status == 409


def test_the_event_of_a_change_says_stage_and_words() -> None:
    rules = AssistedRules()
    put(rules, rules.add_host(), "Rebooting", FACT)
    assert [(event.name, event.message) for event in rules.events] == [
        ("host_install_progress_updated", f"reached installation stage Rebooting: {FACT}")
    ]


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b'{"current_stage": "Rebooting", "more": 1}', "application/json"),
        (b"", "application/json"),
        (b"not json", "application/json"),
        (b"[]", "application/json"),
        (b'{"current_stage": "Rebooting"}', "text/plain"),
    ],
    ids=["an unknown field", "no body", "no JSON", "no object", "another content type"],
)
def test_a_body_that_is_no_progress_is_400(body: bytes, content_type: str) -> None:
    rules = AssistedRules()
    host = rules.add_host()
    path = f"/v2/infra-envs/{host.infra_env_id}/hosts/{host.id}/progress"
    assert ask(rules, "PUT", path, body, {"content-type": content_type}).status == 400


def test_an_object_without_a_stage_is_409() -> None:
    rules = AssistedRules()
    assert put_body(rules, rules.add_host(), {}).status == 409


def test_a_host_is_found_by_its_own_ids_only() -> None:
    rules = AssistedRules()
    host, other, free = rules.add_host(), rules.add_host(), rules.add_host(bound=False)
    body = {"current_stage": "Rebooting"}
    hosts = f"/v2/infra-envs/{host.infra_env_id}/hosts"
    assert ask(rules, "PUT", f"{hosts}/no-id/progress", body).status == 400
    assert ask(rules, "PUT", f"{hosts}/{new_id()}/progress", body).status == 404
    assert (
        ask(rules, "PUT", f"/v2/infra-envs/{other.infra_env_id}/hosts/{host.id}/progress", body).status == 404
    )
    assert put(rules, free, "Rebooting").status == 400
    assert ask(rules, "POST", f"{hosts}/{host.id}/progress", body).status == 405
    rules.delete_cluster(str(host.cluster_id))
    assert put(rules, host, "Rebooting").status == 404


# Logs


@dataclass(frozen=True, slots=True)
class UploadRule:
    query: str
    status: int
    part: str = "upfile"
    content: bytes = b"logs"
    known: bool = False


UPLOAD_RULES = {
    "a host's": UploadRule("logs_type=host&host_id={host}", 204),
    "plain text": UploadRule("logs_type=host&host_id={host}", 204, content=b"text"),
    "an empty file": UploadRule("logs_type=host&host_id={host}", 204, content=b""),
    "an infra-env that nobody knows": UploadRule("logs_type=host&host_id={host}&infra_env_id={new}", 204),
    "the controller's": UploadRule("logs_type=controller", 204),
    "host_boot": UploadRule("logs_type=host_boot&host_id={host}", 400),
    "host_boot where it is known": UploadRule("logs_type=host_boot&host_id={host}", 204, known=True),
    "all": UploadRule("logs_type=all&host_id={host}", 400),
    "no type": UploadRule("host_id={host}", 400),
    "no host": UploadRule("logs_type=host", 400),
    "no id of a host": UploadRule("logs_type=host&host_id=me", 400),
    "an unknown host": UploadRule("logs_type=host&host_id={new}", 404),
    "a host of another cluster": UploadRule("logs_type=host&host_id={other}", 404),
    "a host that is bound to none": UploadRule("logs_type=host&host_id={free}", 404),
    "a form without the file": UploadRule("logs_type=host&host_id={host}", 0, part="file"),
}


@pytest.mark.parametrize("rule", UPLOAD_RULES.values(), ids=UPLOAD_RULES)
def test_an_upload_is_answered_by_the_rules_of_logs(rule: UploadRule) -> None:
    rules = AssistedRules(knows_host_boot=rule.known)
    host, other, free = rules.add_host(), rules.add_host(), rules.add_host(bound=False)
    query = rule.query.format(host=host.id, other=other.id, free=free.id, new=new_id())
    assert status_of(upload(rules, host, query, rule.content, rule.part)) == rule.status
    assert (rule.content in rules.objects.values()) == (rule.status == 204)


@pytest.mark.parametrize("status", ["error", "installed", "cancelled", PENDING, "added-to-existing-cluster"])
def test_logs_are_taken_in_every_status(status: str) -> None:
    rules = AssistedRules()
    assert status_of(upload(rules, rules.add_host(status=status))) == 204


def test_logs_of_a_deleted_cluster_are_404() -> None:
    rules = AssistedRules()
    host = rules.add_host()
    rules.delete_cluster(str(host.cluster_id))
    assert status_of(upload(rules, host)) == 404


def test_an_upload_that_is_no_form_is_400_and_form_fields_are_no_query() -> None:
    rules = AssistedRules()
    host = rules.add_host()
    path = f"/v2/clusters/{host.cluster_id}/logs"
    query = f"?logs_type=host&host_id={host.id}"
    assert ask(rules, "POST", path + query, b"logs", {"content-type": "application/gzip"}).status == 400
    body, headers = form()
    fields = b'--limit\r\nContent-Disposition: form-data; name="logs_type"\r\n\r\nhost\r\n'
    assert ask(rules, "POST", path, fields + body, headers).status == 400


def test_each_upload_takes_the_place_of_the_one_before_and_is_an_event() -> None:
    rules = AssistedRules()
    host = rules.add_host()
    for content in (b"the agent's", b"ours"):
        upload(rules, host, content=content)
    assert rules.objects == {f"{host.cluster_id}/logs/{host.id}/logs.tar.gz": b"ours"}
    assert [event.name for event in rules.events] == ["host_logs_uploaded"] * 2


def test_logs_of_boots_have_a_place_of_their_own() -> None:
    rules = AssistedRules(knows_host_boot=True)
    host = rules.add_host()
    upload(rules, host, content=b"the agent's")
    upload(rules, host, f"logs_type=host_boot&host_id={host.id}", b"ours")
    assert sorted(rules.objects.values()) == [b"ours", b"the agent's"]
    assert host.logs_info == "collecting"


def test_logs_are_collecting_until_somebody_says_that_they_are_complete() -> None:
    rules = AssistedRules()
    host = rules.add_host(status="error")
    upload(rules, host)
    assert host.logs_info == "collecting"
    assert logs_progress(rules, host, {"logs_state": "completed"}).status == 204
    rules.advance(minutes=3)
    assert host.logs_info == "completed"
    upload(rules, host)
    assert host.logs_info == "collecting"
    rules.advance(minutes=2)
    assert host.logs_info == "collecting"
    rules.advance(seconds=1)
    assert host.logs_info == "timeout"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        *(({"logs_state": state}, 204) for state in ("requested", "collecting", "completed", "timeout", "")),
        ({"logs_state": "done"}, 400),
        ({}, 400),
    ],
)
def test_the_collection_of_logs_has_five_states(body: object, status: int) -> None:
    rules = AssistedRules()
    assert logs_progress(rules, rules.add_host(), body).status == status


# Events

EVENT = {"severity": "info", "message": "2 reboots", "event_time": "2026-11-21T01:00:00Z", "name": "reboots"}


@pytest.mark.parametrize(
    ("changes", "status", "kept"),
    [
        ({}, 201, 1),
        ({"category": "metrics", "props": '{"a": 1}', "cluster_id": new_id(), "host_id": new_id()}, 201, 1),
        ({"severity": "bad"}, 400, 0),
        ({"category": "bad"}, 400, 0),
        ({"message": None}, 400, 0),
        ({"event_time": None}, 400, 0),
        ({"message": "x" * 4096}, 201, 1),
        ({"message": "x" * 4097}, 201, 0),
    ],
    ids=[
        *("good", "ids of nobody", "severity", "category", "no message", "no time"),
        *("longest", "too long: dropped"),
    ],
)
def test_an_event_is_answered_by_the_rules_of_events(
    changes: dict[str, object], status: int, kept: int
) -> None:
    rules = AssistedRules()
    assert ask(rules, "POST", "/v2/events", EVENT | changes).status == status
    assert len(rules.events) == kept


def test_an_event_has_the_servers_time() -> None:
    rules = AssistedRules()
    ask(rules, "POST", "/v2/events", EVENT | {"event_time": "1970-01-01T00:00:00Z"})
    assert [event.time for event in rules.events] == [rules.now]


# Bodies of errors, and what stands before the service


def test_errors_of_handlers_have_a_code_of_text_and_a_reason() -> None:
    rules = AssistedRules()
    body = json.loads(put(rules, rules.add_host(), "Installing").body)
    assert (body["code"], body["kind"], body["id"]) == ("409", "Error", 409)
    assert "lower stage" in body["reason"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v2/nothing", 404),
        ("PUT", "/v2/events", 405),
        ("GET", "/v2/clusters/no-id/hosts", 400),
        ("GET", "/v1/clusters", 404),
    ],
)
def test_errors_of_routing_and_validation_have_a_code_of_a_number_and_a_message(
    method: str, path: str, status: int
) -> None:
    told = ask(AssistedRules(), method, path)
    body = json.loads(told.body)
    assert (told.status, body["code"]) == (status, status)
    assert body["message"]


# On the network


@pytest.fixture
def server() -> Iterator[AssistedServer]:
    with AssistedServer() as server:
        yield server


def connected(server: AssistedServer) -> http.client.HTTPConnection:
    return http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)


def test_a_form_may_come_in_chunks(server: AssistedServer) -> None:
    host = server.rules.add_host()
    body, headers = form(b"in chunks")
    connection = connected(server)
    target = f"{BASE_PATH}/v2/clusters/{host.cluster_id}/logs?logs_type=host&host_id={host.id}"
    connection.request("POST", target, iter([body[:50], body[50:]]), headers, encode_chunked=True)
    assert connection.getresponse().status == 204
    assert list(server.rules.objects.values()) == [b"in chunks"]


def test_a_client_may_wait_to_be_told_to_continue(server: AssistedServer) -> None:
    host = server.rules.add_host()
    body, headers = form(b"continued")
    connection = connected(server)
    connection.putrequest(
        "POST", f"{BASE_PATH}/v2/clusters/{host.cluster_id}/logs?logs_type=host&host_id={host.id}"
    )
    for name, value in {**headers, "Expect": "100-continue", "Content-Length": str(len(body))}.items():
        connection.putheader(name, value)
    connection.endheaders()
    assert connection.sock.recv(25) == b"HTTP/1.1 100 Continue\r\n\r\n"
    connection.send(body)
    assert connection.getresponse().status == 204


def test_a_form_without_the_file_ends_the_connection_without_an_answer(server: AssistedServer) -> None:
    host = server.rules.add_host()
    body, headers = form(part="file")
    connection = connected(server)
    target = f"{BASE_PATH}/v2/clusters/{host.cluster_id}/logs?logs_type=host&host_id={host.id}"
    connection.request("POST", target, body, headers)
    with pytest.raises(http.client.RemoteDisconnected):
        connection.getresponse()
    assert [entry.status for entry in server.journal] == [0]


def test_the_journal_holds_what_was_asked(server: AssistedServer) -> None:
    connection = connected(server)
    connection.request(
        "GET", f"{BASE_PATH}/v2/clusters/{new_id()}/hosts?role=worker", headers={"X-Request-ID": "7"}
    )
    assert json.loads(connection.getresponse().read()) == []
    assert server.calls() == ["GET /v2/clusters/hosts"]
    (entry,) = server.journal
    assert (entry.asked.headers["x-request-id"], entry.asked.query, entry.status) == (
        "7",
        {"role": "worker"},
        200,
    )


# Ignition

CONFIG = '{"ignition":{"version":"3.2.0"},"storage":{"files":[{"path":"/etc/a"}]}}'


def override(rules: AssistedRules, host: Host, text: str, key: str = "") -> Told:
    path = f"/v2/infra-envs/{host.infra_env_id}/hosts/{host.id}/ignition"
    return ask(rules, "PATCH", path, {"config": text}, {"authorization": f"Bearer {key}"} if key else {})


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (CONFIG, 201),
        (CONFIG.replace("3.2.0", "3.1.0"), 201),
        (CONFIG.replace("3.2.0", "3.4.0"), 400),
        (CONFIG.replace("3.2.0", "3.0.0"), 400),
        ("{", 400),
        ("", 201),
    ],
    ids=["3.2.0", "3.1.0", "3.4.0", "3.0.0", "no JSON", "empty"],
)
def test_an_override_of_a_host_is_ignition_of_two_versions_and_an_empty_one_removes_it(
    text: str, status: int
) -> None:
    rules = AssistedRules()
    host = rules.add_host(ignition_config_overrides="before")
    assert override(rules, host, text).status == status
    shown = listed(rules, host)[0].get("ignition_config_overrides", "")
    assert shown == (text if status == 201 else "before")


def test_an_empty_override_of_the_discovery_image_changes_nothing() -> None:
    rules = AssistedRules()
    infra_env = rules.add_infra_env()
    path = f"/v2/infra-envs/{infra_env.id}"
    for text, status in ((CONFIG, 201), ("", 201), (CONFIG.replace("3.2.0", "3.4.0"), 400)):
        assert ask(rules, "PATCH", path, {"ignition_config_override": text}).status == status
        assert infra_env.ignition_config_override == CONFIG
    (shown,) = json.loads(ask(rules, "GET", f"/v2/infra-envs?cluster_id={infra_env.cluster_id}").body)
    assert shown["ignition_config_override"] == CONFIG
    assert json.loads(ask(rules, "GET", f"/v2/infra-envs?cluster_id={new_id()}").body) == []


def test_the_ignition_of_the_discovery_image_has_room_for_256_kib() -> None:
    rules = AssistedRules()
    infra_env = rules.add_infra_env()
    config = json.loads(CONFIG)
    config["storage"]["files"][0]["contents"] = {"source": f"data:,{secrets.token_hex(300_000)}"}
    body = {"ignition_config_override": json.dumps(config)}
    assert ask(rules, "PATCH", f"/v2/infra-envs/{infra_env.id}", body).status == 400


def test_overrides_are_a_users_business() -> None:
    rules = AssistedRules(auth_type="rhsso")
    host = rules.add_host()
    assert override(rules, host, CONFIG, key=rules.user_key).status == 201
    assert override(rules, host, CONFIG).status == 401
    assert override(rules, host, CONFIG, key="another").status == 401
