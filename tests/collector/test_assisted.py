"""The collector answers the calls of a boot reporter like the assisted-service."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from service_record.collector.assisted.host_states import ALL_STAGES, find_limit
from service_record.collector.assisted.installation_rules import CallRefused, Installation, apply_progress
from service_record.collector.serving_settings import CollectorSettings
from service_record.collector.store.schema import events, hosts, steps
from tests.assisted_installation import CONTROL_PLANE_IGNITION, LOCAL_IGNITION, STAGES, new_id
from tests.assisted_rules import AssistedRules, ServiceRequest, ServiceResponse
from tests.collector.browsing import sign_in_visitor
from tests.collector.installing import Agent, Clock, Twin, map_host
from tests.collector.serving import RunningCollector, run_collector

ROLES: dict[str, dict[str, Any]] = {
    "master": {},
    "worker": {"role": "worker"},
    "bootstrap": {"bootstrap": True},
    "single node": {"single_node": True},
}
JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def server(shared_settings: CollectorSettings, clock: Clock) -> Iterator[RunningCollector]:
    """One collector for all tests of the module. Each test uses its own hosts."""
    with run_collector(shared_settings, clock) as running:
        yield running


@pytest.fixture
def twin(server: RunningCollector, clock: Clock) -> Twin:
    return Twin(server, clock)


# As the assisted-service


@pytest.mark.parametrize("role", ROLES)
def test_stages_are_answered_like_the_assisted_service(
    server: RunningCollector, clock: Clock, role: str
) -> None:
    twin = Twin(server, clock, ROLES[role])

    for stage in [*STAGES[role], LOCAL_IGNITION, *STAGES[role], CONTROL_PLANE_IGNITION, "Joined", "Done"]:
        ours, theirs = twin.progress({"current_stage": stage, "progress_info": "so far"})
        assert (stage, ours.status) == (stage, theirs.status)
        assert twin.stages()[0] == twin.stages()[1]


BODIES: dict[str, object] = {
    "another stage's name": {"current_stage": "rebooting"},
    "no stage": {},
    "unknown field": {"current_stage": "Rebooting", "percentage": 3},
    "a list": [],
    "no JSON": b"{",
    "the same": {"current_stage": "Rebooting", "progress_info": ""},
    "the same with news": {"current_stage": "Rebooting", "progress_info": LOCAL_IGNITION},
    "the same at length": {"current_stage": "Rebooting", "progress_info": "é" * 2048},
    "failed": {"current_stage": "Failed", "progress_info": "it broke"},
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_bodies_are_validated_like_the_assisted_service(twin: Twin, body: object) -> None:
    ours, theirs = twin.progress(body, JSON if isinstance(body, bytes) else None)

    assert ours.status == theirs.status
    assert twin.stages()[0] == twin.stages()[1]


def test_body_with_wrong_content_type_is_refused(twin: Twin) -> None:
    ours, theirs = twin.progress(b'{"current_stage": "Joined"}', {"content-type": "text/plain"})

    assert (ours.status, theirs.status) == (400, 400)


def test_failed_or_installed_host_keeps_its_stage(twin: Twin) -> None:
    for stage in ("Done", "Done", "Joined"):
        ours, theirs = twin.progress({"current_stage": stage})
        assert ours.status == theirs.status

    assert twin.stages()[0] == twin.stages()[1]


PATHS = {
    "another infra-env": "/v2/infra-envs/{other}/hosts/{host}/progress",
    "no id": "/v2/infra-envs/{infra_env}/hosts/web1/progress",
}


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
def test_unknown_host_is_answered_like_the_assisted_service(twin: Twin, path: str) -> None:
    ids = {"infra_env": twin.host.infra_env_id, "host": twin.host.id, "other": new_id()}

    ours, theirs = twin.ask("PUT", path.format(**ids), {"current_stage": "Joined"})

    assert ours.status == theirs.status


@pytest.mark.parametrize("body", [None, {"host_id": "web1"}, []], ids=["its id", "no id", "a list"])
def test_agent_registers_like_at_the_assisted_service(twin: Twin, body: object) -> None:
    path = f"/v2/infra-envs/{twin.host.infra_env_id}/hosts"
    registered, theirs = twin.ask("POST", path, {"host_id": twin.host.id} if body is None else body)
    called, instructions = twin.ask("GET", f"{path}/{twin.host.id}/instructions")

    assert registered.status == (201 if body is None else 400)
    assert theirs.status == (201 if body != [] else 400)
    assert (called.status, called.json) == (200, json.loads(instructions.body))
    assert body is not None or twin.stages()[0] == twin.stages()[1]


def test_only_a_later_stage_clears_wrong_boot_order(twin: Twin) -> None:
    twin.ask("POST", f"/v2/infra-envs/{twin.host.infra_env_id}/hosts", {"host_id": twin.host.id})

    for stage, info in (("Rebooting", "still here"), ("Joined", "")):
        twin.progress({"current_stage": stage, "progress_info": info})
        assert twin.stages()[0] == twin.stages()[1]


@pytest.mark.parametrize(
    "query", ["", "?role=master", "?role=worker", "?role=king", "?status=installed", "?with-inventory=true"]
)
def test_host_list_is_filtered_like_the_assisted_service(twin: Twin, query: str) -> None:
    ours, theirs = twin.ask("GET", f"/v2/clusters/{twin.host.cluster_id}/hosts{query}")

    assert ours.status == theirs.status
    if ours.status == 200:
        assert len(ours.json) == len(json.loads(theirs.body))


@pytest.mark.parametrize("state", ["requested", "collecting", "completed", "timeout", "", "done", None, 3])
def test_logs_progress_is_accepted_like_the_assisted_service(twin: Twin, state: object) -> None:
    path = f"/v2/infra-envs/{twin.host.infra_env_id}/hosts/{twin.host.id}/logs-progress"

    ours, theirs = twin.ask("PUT", path, {"logs_state": state})

    assert ours.status == theirs.status
    assert twin.stages()[0] == twin.stages()[1]


def test_trailing_slash_changes_no_answer(twin: Twin) -> None:
    host = f"/v2/infra-envs/{twin.host.infra_env_id}/hosts/{twin.host.id}"
    cluster = f"/v2/clusters/{twin.host.cluster_id}"
    calls: list[tuple[str, str, object]] = [
        ("PUT", f"{host}/progress", {"current_stage": "Rebooting"}),
        ("PUT", f"{host}/logs-progress", {"logs_state": "completed"}),
        ("GET", f"{host}/instructions", None),
        ("GET", f"{cluster}/hosts", None),
        ("PUT", f"{cluster}/progress", {}),
        ("POST", "/v2/events", {"severity": "info", "message": "m"}),
    ]
    answers = [
        [twin.agent.ask(how, path + end, body).status for end in ("", "/")] for how, path, body in calls
    ]
    assert [pair for pair in answers if len(set(pair)) > 1 or pair[0] in {307, 404}] == []


EVENT = {"severity": "info", "message": "m", "event_time": "2026-11-21T01:00:00Z"}
EVENTS: dict[str, dict[str, object]] = {
    "whole": {},
    "no message": {"message": ""},
    "no time": {"event_time": None},
    "a time that is none": {"event_time": "yesterday"},
    "a time with nanoseconds": {"event_time": "2026-11-21T01:00:00.123456789+01:00"},
    "a time without a zone": {"event_time": "2026-11-21T01:00:00"},
    "a sortable time": {"event_time": "2026-11-21 01:00:00"},
    "a time without seconds": {"event_time": "2026-11-21T01:00Z"},
    "a day": {"event_time": "2026-11-21"},
    "a time without hyphens": {"event_time": "20261121T010000Z"},
    "a time of a week": {"event_time": "2026-W47-6T01:00:00Z"},
    "a time with another letter": {"event_time": "2026-11-21x01:00:00Z"},
    "a month that is none": {"event_time": "2026-13-21T01:00:00Z"},
    "seconds since 1970": {"event_time": "1795223110"},
    "a severity of its own": {"severity": "bad"},
    "a category of its own": {"category": "mine"},
    "metrics": {"category": "metrics", "name": "reboots"},
}


@pytest.mark.parametrize("change", EVENTS.values(), ids=EVENTS)
def test_events_are_validated_like_the_assisted_service(twin: Twin, change: dict[str, object]) -> None:
    ours, theirs = twin.ask("POST", "/v2/events", EVENT | {"host_id": twin.host.id} | change)

    assert ours.status == theirs.status


# The rules without a network, for any order of reports


@st.composite
def reports(draw: st.DrawFn) -> list[tuple[str, str]]:
    stage = st.sampled_from(sorted(ALL_STAGES - {"Failed"}))
    return draw(st.lists(st.tuples(stage, st.sampled_from(["", "a", "b"])), max_size=12))


@given(role=st.sampled_from(sorted(ROLES)), stages=reports())
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_stage_order_gives_equal_states(role: str, stages: list[tuple[str, str]]) -> None:
    rules = AssistedRules(knows_boot_stages=True)
    host = rules.add_host(**ROLES[role])
    ours = Installation(
        id=host.id,
        cluster_id=str(host.cluster_id),
        infra_env_id=host.infra_env_id,
        role=host.role,
        is_bootstrap=host.bootstrap,
        is_single_node=role == "single node",
        stage_started_at=0,
        stage_updated_at=0,
    )
    path = f"/api/assisted-install/v2/infra-envs/{host.infra_env_id}/hosts/{host.id}/progress"
    for stage, info in stages:
        body = {"current_stage": stage, "progress_info": info}
        theirs = rules.answer(ServiceRequest("PUT", path, JSON, str(body).replace("'", '"').encode()))
        status = 200
        try:
            ours = apply_progress(ours, body, 1)
        except CallRefused as refused:
            status = refused.status
        assert isinstance(theirs, ServiceResponse)
        assert status == theirs.status
        assert (ours.stage, ours.info, ours.status) == (host.stage, host.info, host.status)
        assert ours.percentage == rules.compute_percentage(host)


def test_stage_limits_equal_the_assisted_service() -> None:
    minutes = {"Starting installation": 30, "Writing image to disk": 30, "Copying registry data to disk": 90}
    minutes |= {"Rebooting": 40, "Waiting for ignition": 1440}

    assert {stage: find_limit(stage) / 60 for stage in ALL_STAGES} == {
        stage: minutes.get(stage, 60) for stage in ALL_STAGES
    }
    assert find_limit("Rebooting", is_single_node=True) == 80 * 60


# Intended differences


@pytest.mark.parametrize("info", ["x" * 2049, "a\0b"])
def test_unstorable_text_is_a_bad_request(twin: Twin, info: str) -> None:
    assert twin.agent.put_stage("Rebooting", info).status == 400


def test_too_long_event_is_refused(twin: Twin) -> None:
    reply = twin.agent.ask("POST", "/v2/events", EVENT | {"host_id": twin.host.id, "message": "x" * 4097})

    assert reply.status == 400


# Effects of reports


def row_of(server: RunningCollector, name: str) -> Any:
    with server.collector.database.reading() as connection:
        return connection.execute(select(hosts).where(hosts.c.name == name)).one()


def test_stage_sets_progress_and_is_a_step(twin: Twin, server: RunningCollector, clock: Clock) -> None:
    clock.now += 60
    twin.agent.put_stage(LOCAL_IGNITION, "first boot")

    row = row_of(server, twin.name)
    assert (row.percentage, row.message, row.updated_at) == (60.0, f"{LOCAL_IGNITION}: first boot", clock.now)
    assert (row.action, row.build, row.due_at) == ("install", 1, 0)
    with server.collector.database.reading() as connection:
        (step,) = connection.execute(select(steps).where(steps.c.host_id == row.id))
    assert (step.label, step.name, step.percentage) == ("booted_with_local_ignition", LOCAL_IGNITION, 60.0)


def test_enhancement_stage_is_shown_on_host_page(twin: Twin, server: RunningCollector) -> None:
    for stage in (LOCAL_IGNITION, CONTROL_PLANE_IGNITION):
        assert twin.agent.put_stage(stage).status == 200

    page = sign_in_visitor(server).page(f"/hosts/{twin.name}")

    shown = "".join(page.texts("th"))
    assert LOCAL_IGNITION in shown
    assert CONTROL_PLANE_IGNITION in shown


def test_stage_done_completes_the_build(twin: Twin, server: RunningCollector) -> None:
    twin.agent.put_stage("Done")

    row = row_of(server, twin.name)
    assert (row.percentage, row.ended_at) == (100.0, server.collector.now())


def test_late_reboot_requires_user_action_until_next_stage(twin: Twin, clock: Clock) -> None:
    clock.now += 40 * 60 + 1
    (late,) = twin.agent.listed()
    assert (late["status"], late["progress"]["stage_timed_out"]) == ("installing-pending-user-action", True)

    assert twin.agent.put_stage(LOCAL_IGNITION).status == 200
    (back,) = twin.agent.listed()
    assert (back["status"], back["progress"]["stage_timed_out"]) == ("installing-in-progress", False)


def test_event_is_stored_with_its_host(twin: Twin, server: RunningCollector) -> None:
    twin.agent.ask("POST", "/v2/events", EVENT | {"host_id": twin.host.id, "name": "reboots"})

    of = row_of(server, twin.name).id
    with server.collector.database.reading() as connection:
        (event,) = connection.execute(
            select(events).where(events.c.name == "reboots", events.c.host_id == of)
        )
    assert (event.severity, event.name, event.message) == ("info", "reboots", "m")


# Rights


def test_first_call_creates_the_host(server: RunningCollector) -> None:
    host = AssistedRules().add_host()
    agent = Agent(server.client("host", host.id), host)

    (seen,) = agent.listed()

    assert (seen["id"], seen["status"], seen["role"]) == (host.id, "installing-in-progress", "master")
    assert seen["progress"]["current_stage"] == "Rebooting"
    assert agent.put_stage(LOCAL_IGNITION).status == 200
    assert row_of(server, host.id).message == LOCAL_IGNITION
    assert len(agent.listed()) == 1


def test_host_in_another_cluster_begins_new_build(server: RunningCollector) -> None:
    host = AssistedRules().add_host()
    agent = Agent(server.client("host", host.id), host)
    agent.listed()
    agent.put_stage("Done")
    host.cluster_id = new_id()

    (seen,) = agent.listed()

    assert seen["progress"]["current_stage"] == "Rebooting"
    assert row_of(server, host.id).build == 2


def test_host_back_in_earlier_cluster_begins_new_build(server: RunningCollector) -> None:
    host = AssistedRules().add_host()
    agent = Agent(server.client("host", host.id), host)
    earlier = host.cluster_id
    for cluster in (earlier, new_id(), earlier):
        host.cluster_id = cluster
        agent.listed()
        agent.put_stage("Joined")

    row = row_of(server, host.id)
    assert (row.build, row.message) == (3, "Joined")


def test_token_in_x_secret_key_is_accepted(server: RunningCollector) -> None:
    host = AssistedRules().add_host()
    client = server.client("host", host.id)
    key = {"X-Secret-Key": client.token}

    listed = server.stranger.ask(
        "GET", f"/api/assisted-install/v2/clusters/{host.cluster_id}/hosts", headers=key
    )

    assert (listed.status, len(listed.json)) == (200, 1)


def test_token_reads_and_writes_only_its_host(server: RunningCollector, twin: Twin) -> None:
    other = Agent(server.client("host", "web2"), twin.host)

    assert other.listed() == []
    assert other.put_stage("Joined").status == 403
    assert other.ask("POST", "/v2/events", EVENT | {"host_id": twin.host.id}).status == 403
    assert Agent(server.stranger, twin.host).put_stage("Joined").status == 401
    assert Agent(server.client("reader"), twin.host).put_stage("Joined").status == 403
    assert Agent(server.client("enrolment"), twin.host).put_stage("Joined").status == 403


def test_unknown_cluster_has_no_hosts(server: RunningCollector) -> None:
    reply = server.client("admin").get(f"/api/assisted-install/v2/clusters/{new_id()}/hosts")

    assert (reply.status, reply.json) == (200, [])


def test_refusal_has_the_form_of_the_assisted_service(twin: Twin) -> None:
    reply = twin.agent.put_stage("Installing")

    assert reply.json == {
        "code": "409",
        "href": "",
        "id": 409,
        "kind": "Error",
        "reason": 'Can\'t assign lower stage "Installing" after host has been in stage "Rebooting"',
    }


REFUSALS: dict[str, tuple[str, str, object]] = {
    "no stage of that name": ("PUT", "{host}/progress", {"current_stage": "nowhere"}),
    "no id": ("GET", "/v2/clusters/web1/hosts", None),
    "no such path": ("GET", "/v2/nothing", None),
    "another method": ("DELETE", "/v2/clusters/{cluster}/hosts", None),
    "no event": ("POST", "/v2/events", {}),
}


@pytest.mark.parametrize("asked", REFUSALS.values(), ids=REFUSALS)
def test_refusal_before_a_handler_has_numeric_code(twin: Twin, asked: tuple[str, str, object]) -> None:
    method, path, body = asked
    host = f"/v2/infra-envs/{twin.host.infra_env_id}/hosts/{twin.host.id}"
    path = path.format(host=host, cluster=twin.host.cluster_id)

    ours, theirs = twin.ask(method, path, body)

    assert ours.status == theirs.status
    assert set(ours.json) == set(json.loads(theirs.body)) == {"code", "message"}
    assert ours.json["code"] == ours.status


def test_invalid_token_has_numeric_code(twin: Twin, server: RunningCollector) -> None:
    reply = Agent(server.stranger, twin.host).put_stage("Joined")

    assert reply.json == {"code": 401, "message": reply.json["message"]}
    assert reply.headers["content-type"] == "application/json"


def test_list_path_may_end_with_slash(twin: Twin) -> None:
    path = f"/v2/clusters/{twin.host.cluster_id}/hosts"

    assert twin.agent.ask("GET", f"{path}/").json == twin.agent.ask("GET", path).json


def test_host_with_auto_assign_role_has_no_stages(server: RunningCollector) -> None:
    host = AssistedRules().add_host(role="auto-assign")
    map_host(server, "unassigned", host)
    agent = Agent(server.client("host", "unassigned"), host)

    assert agent.put_stage("Configuring").status == 409
    assert agent.put_stage("Rebooting", "still here").status == 200


def test_bundle_with_invalid_infra_env_id_is_refused(twin: Twin) -> None:
    assert twin.agent.upload(b"bundle", infra_env_id="web1").status == 400
    assert twin.agent.upload(b"bundle", infra_env_id=new_id()).status == 204


def test_id_belongs_to_one_host(server: RunningCollector) -> None:
    host = AssistedRules().add_host()

    assert map_host(server, "mapped1", host).status == 201
    assert map_host(server, "mapped1", host).status == 200
    assert map_host(server, "mapped2", host).status == 409


@pytest.mark.parametrize(
    "mapping",
    [
        {"id": "web1"},
        {"id": new_id()},
        {"cluster_id": new_id()},
        {"id": new_id(), "cluster_id": new_id(), "infra_env_id": "x"},
        {"id": new_id(), "cluster_id": new_id(), "role": "king"},
        {"id": 3, "cluster_id": new_id()},
    ],
)
def test_incomplete_mapping_is_refused(server: RunningCollector, mapping: dict[str, object]) -> None:
    assert server.client("admin").ask("PUT", "/api/v1/hosts/mapped3", data=mapping).status == 400


def test_mapping_a_host_again_keeps_its_stage(twin: Twin, server: RunningCollector) -> None:
    twin.agent.put_stage(LOCAL_IGNITION)
    map_host(server, twin.name, twin.host)

    assert twin.agent.listed()[0]["progress"]["current_stage"] == LOCAL_IGNITION
