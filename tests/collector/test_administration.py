"""Tokens, enrolment, hosts and builds over HTTP, and the audit log."""

from pathlib import Path

import pytest

from service_record.collector.store import host_rows
from tests.collector.browsing import sign_in_visitor
from tests.collector.installing import Clock
from tests.collector.serving import Client, RunningCollector, make_collector_settings, run_collector

NOW = 1_800_000_000.0
DAY = 86_400.0


def made(admin: Client, kind: str, scope: str = "", **fields: str) -> Client:
    reply = admin.post("/api/v1/tokens", kind=kind, scope=scope, **fields)
    assert reply.status == 201, reply.body
    return Client(admin.url, reply.json["token"])


def test_token_made_over_http_allows_only_its_kind(server: RunningCollector) -> None:
    admin = server.client("admin")

    host = made(admin, "host", "Web1")

    assert host.step("web1", "Disk setup").status == 201
    assert host.step("web2", "Disk setup").status == 403
    assert host.get("/api/v1/tokens").status == 403


def test_token_list_contains_no_secret(server: RunningCollector) -> None:
    admin = server.client("admin")
    host = made(admin, "host", "web1", name="rack 2")

    reply = admin.get("/api/v1/tokens")

    assert [token["scope"] for token in reply.json["tokens"]] == ["", "web1"]
    assert reply.json["tokens"][1]["name"] == "rack 2"
    for token in (admin.token, host.token):
        assert token.split("_", 2)[2].encode() not in reply.body


def test_revoked_token_stops_working_at_once(server: RunningCollector) -> None:
    admin = server.client("admin")
    host = made(admin, "host", "web1")
    assert host.step("web1", "Disk setup").status == 201

    assert admin.ask("DELETE", f"/api/v1/tokens/{host.token.split('_')[1]}").status == 204

    assert host.step("web1", "Disk setup").status == 401
    assert admin.ask("DELETE", f"/api/v1/tokens/{host.token.split('_')[1]}").status == 404


def test_expired_token_stops_working(tmp_path: Path) -> None:
    clock = Clock(NOW)
    with run_collector(make_collector_settings(tmp_path), clock) as server:
        host = made(server.client("admin"), "host", "web1", expires="30d")
        clock.now += 31 * DAY

        assert host.step("web1", "Disk setup").status == 401


@pytest.mark.parametrize(
    ("fields", "detail"),
    [
        ({"kind": "root"}, "kind is one of admin, boot, cloud-init, enrolment, group, host, reader"),
        ({"kind": "host"}, "needs the host's name"),
        ({"kind": "host", "scope": "../../etc/passwd"}, "a host's name has letters"),
        ({"kind": "group", "scope": "dc1/../x"}, "a group's name has letters"),
        ({"kind": "admin", "scope": "web1"}, "leave the scope out"),
        ({"kind": "enrolment", "scope": "web1"}, "host:NAME or group:NAME"),
        ({"kind": "reader", "expires": "soon"}, "expires: a lifetime is a duration such as 30d"),
        ({"kind": "reader", "expires": "999999999d"}, "100 years"),
    ],
)
def test_invalid_token_request_names_valid_values(
    sqlite_server: RunningCollector, fields: dict[str, str], detail: str
) -> None:
    reply = sqlite_server.client("admin").ask("POST", "/api/v1/tokens", form=fields)

    assert reply.status == 400
    assert detail in reply.json["detail"]


def test_enrolment_token_works_once(server: RunningCollector) -> None:
    template = made(server.client("admin"), "enrolment", "group:dc1")

    reply = template.post("/api/v1/enrol", host="web1", group="dc1/rack2")

    assert (reply.status, reply.body[-1:]) == (201, b"\n")
    host = Client(server.url, reply.body.decode().strip())
    assert host.step("web1", "Disk setup").status == 201
    assert host.step("web2", "Disk setup").status == 403
    assert template.post("/api/v1/enrol", host="web2").status == 401


def test_enrolment_answers_json_if_accepted(sqlite_server: RunningCollector) -> None:
    template = made(sqlite_server.client("admin"), "enrolment")

    reply = template.ask(
        "POST", "/api/v1/enrol", data={"host": "web1"}, headers={"Accept": "application/json"}
    )

    assert reply.json["host"] == "web1"
    assert Client(sqlite_server.url, reply.json["token"]).step("web1", "Disk setup").status == 201


@pytest.mark.parametrize(
    ("scope", "host", "status"),
    [
        ("host:web1", "web1", 201),
        ("host:web1", "web2", 403),
        ("group:dc2", "web1", 403),  # it is in dc1
        ("group:dc1", "web1", 201),
        ("group:dc2", "new1", 201),
        ("", "../etc", 400),
        ("", "web1", 403),
        ("", "new1", 201),
    ],
)
def test_enrolment_is_limited_to_its_scope(
    server: RunningCollector, scope: str, host: str, status: int
) -> None:
    admin = server.client("admin")
    assert admin.ask("PUT", "/api/v1/hosts/web1", data={"group": "dc1/rack2"}).status == 201

    template = made(admin, "enrolment", scope)

    assert template.post("/api/v1/enrol", host=host).status == status
    if status == 403:  # the refusals did not use it up
        allowed = "web1" if scope == "host:web1" else "new2"
        assert template.post("/api/v1/enrol", host=allowed).status == 201


def test_enrolled_host_gets_group_of_the_enrolment(server: RunningCollector) -> None:
    admin = server.client("admin")
    host = Client(
        server.url,
        made(admin, "enrolment", "group:dc1").post("/api/v1/enrol", host="web1").body.decode().strip(),
    )

    host.step("web1", "Disk setup", group="dc9")

    with server.collector.database.reading() as connection:
        found = host_rows.read_host(connection, "web1", 1.0)
    assert found is not None
    assert found.summary.group == "dc1"


def test_put_sets_group_and_release_before_first_report(server: RunningCollector) -> None:
    admin = server.client("admin")

    first = admin.ask("PUT", "/api/v1/hosts/Web1", data={"group": "dc1", "release": "9.6"})
    again = admin.ask("PUT", "/api/v1/hosts/web1", data={"group": "dc2"})

    assert (first.status, first.json) == (201, {"host": "web1", "created": True})
    assert (again.status, again.json) == (200, {"host": "web1", "created": False})
    with server.collector.database.reading() as connection:
        found = host_rows.read_host(connection, "web1", 1.0)
    assert found is not None
    assert (found.summary.group, found.summary.release) == ("dc2", "9.6")


def test_hardware_of_any_report_in_a_batch_stays(server: RunningCollector) -> None:
    named = {"host": "web1", "name": "Disk setup", "hardware": "Dell Inc. R640"}
    later = [{"host": "web1", "name": name} for name in ("Packages", "Reboot")]
    server.client("admin").post("/api/v1/steps", {"reports": [named, *later]})
    server.client("admin").step("web1", "Call home")

    (found,) = server.client("reader").get("/api/v1/hosts", hardware="Dell Inc. R640").json["hosts"]
    assert found["name"] == "web1"
    assert server.client("reader").get("/api/v1/hosts", hardware="Dell Inc.").json["hosts"] == []
    for by in ("rack", "hardware"):
        assert sign_in_visitor(server).get(f"/groups?by={by}").status == 200


def test_next_steps_belong_to_build_begun_by_administrator(server: RunningCollector) -> None:
    admin, host = server.client("admin"), server.client("host", "web1")
    assert host.step("web1", "Disk setup", "init").json["build"] == 1

    begun = admin.post("/api/v1/hosts/web1/builds", build="b2", action="rebuild")

    assert (begun.status, begun.json) == (201, {"host": "web1", "build": 2})
    assert host.step("web1", "Disk setup", "init").json["build"] == 2
    assert admin.post("/api/v1/hosts/nobody/builds").status == 404


def test_deleting_a_host_deletes_its_tokens(server: RunningCollector) -> None:
    admin = server.client("admin")
    host = made(admin, "host", "web1")
    host.step("web1", "Disk setup")

    assert admin.ask("DELETE", "/api/v1/hosts/web1").status == 204

    with server.collector.database.reading() as connection:
        assert host_rows.read_host(connection, "web1", 1.0) is None
    assert admin.ask("DELETE", "/api/v1/hosts/web1").status == 404
    assert host.step("web1", "Disk setup").status == 401
    with server.collector.database.reading() as connection:
        assert host_rows.read_host(connection, "web1", 1.0) is None


def test_deleting_a_host_revokes_its_own_tokens(sqlite_server: RunningCollector) -> None:
    server, installed_id = sqlite_server, "01234567-89ab-cdef-0123-456789abcdef"
    admin, by_id = server.client("admin"), server.client("host", installed_id)
    enrolment = server.client("enrolment", "host:web1")
    mapped = {"id": installed_id, "cluster_id": installed_id}
    assert admin.ask("PUT", "/api/v1/hosts/web1", data=mapped).status == 201

    admin.ask("DELETE", "/api/v1/hosts/web1")

    cluster = f"/api/assisted-install/v2/clusters/{installed_id}/hosts"
    assert by_id.ask("GET", cluster).status == 401
    assert enrolment.post("/api/v1/enrol", host="web1").status == 401


def test_audit_log_lists_latest_action_first(server: RunningCollector) -> None:
    admin = server.client("admin")
    template = made(admin, "enrolment", "host:web1", name="kickstart")
    template.post("/api/v1/enrol", host="web1")
    admin.ask("PUT", "/api/v1/hosts/web1", data={"group": "dc1"})
    admin.post("/api/v1/hosts/web1/builds")
    admin.ask("DELETE", "/api/v1/tokens/2")
    admin.ask("DELETE", "/api/v1/hosts/web1")

    reply = admin.get("/api/v1/audit")

    done = [(entry["action"], entry["actor"]) for entry in reply.json["entries"]]
    assert done == [
        ("host delete", "token 1"),
        ("token revoke", "token 1"),
        ("build begin", "token 1"),
        ("host put", "token 1"),
        ("enrol", "token 2 (kickstart)"),
        ("token create", "token 1"),
    ]
    latest = reply.json["entries"][0]["id"]
    assert len(admin.get("/api/v1/audit", before=latest).json["entries"]) == 5
    assert server.client("reader").get("/api/v1/audit").status == 403


def test_only_administrators_may_administer(sqlite_server: RunningCollector) -> None:
    for kind, scope in (("host", "web1"), ("group", "dc1"), ("reader", ""), ("enrolment", "")):
        client = sqlite_server.client(kind, scope)
        assert client.post("/api/v1/tokens", kind="admin").status == 403
        assert client.ask("PUT", "/api/v1/hosts/web1", data={}).status == 403
        assert client.ask("DELETE", "/api/v1/hosts/web1").status == 403
        assert client.post("/api/v1/hosts/web1/builds").status == 403
        assert client.ask("DELETE", "/api/v1/tokens/1").status == 403
