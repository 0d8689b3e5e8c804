"""A reader token with a group as its scope can read only the hosts of that group."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from service_record.collector.api.operation import READERS
from service_record.collector.app import OPERATIONS
from service_record.collector.serving_settings import CollectorSettings
from tests.assisted_installation import new_id
from tests.collector.browsing import Visitor
from tests.collector.serving import Client, Reply, RunningCollector, make_collector_settings, run_collector
from tests.collector.test_events import state_of, streaming
from tests.collector.test_records import piece

HOSTS = {"web1": "dc1/rack1", "db1": "dc2", "bare1": ""}
OTHERS = [name for name, group in HOSTS.items() if group != "dc1/rack1"]
OF_A_HOST = [one.template for one in OPERATIONS if READERS.kinds <= one.who.kinds and "{host}" in one.path]
PAGES = [
    *("/hosts/{host}", "/hosts/{host}/analysis", "/hosts/{host}/steps/1/logs", "/events?host={host}"),
    *("/hosts/{host}/bundles/1", "/hosts/{host}/templates/1"),
]
LISTS = [
    *("/api/v1/hosts?all=true", "/api/v1/hosts?all=true&group=dc2"),
    *("/api/v1/hosts?all=true&machine=db1&machine=bare1", "/api/v1/statistics?by=group", "/?all=1"),
    *("/?all=1&group=dc2", "/statistics?by=group"),
]


@pytest.fixture(scope="module")
def server(shared_settings: CollectorSettings) -> Iterator[RunningCollector]:
    """A collector with one host in the reader's group, one in another, and one in none."""
    with run_collector(shared_settings) as running:
        admin = running.client("admin")
        for name, group in HOSTS.items():
            assert admin.ask("PUT", f"/api/v1/hosts/{name}", data={"group": group}).status == 201
            assert admin.step(name, f"Setup of {name}", "done").status == 201
            sent = {"pieces": [piece("app", 0, b'{"phase":"service start"}\n')]}
            assert admin.post(f"/api/v1/hosts/{name}/records", sent).status == 200
        running.settle()
        yield running


@pytest.fixture(scope="module")
def reader(server: RunningCollector) -> Client:
    return server.client("reader", "dc1")


def look(reader: Client, path: str) -> Reply:
    """Request a path of the API, or a page with a session of the token."""
    if path.startswith("/api/"):
        return reader.get(path)
    origin = {"Origin": reader.url, "Host": reader.url.removeprefix("http://")}
    login = Client(reader.url).ask("POST", "/login", form={"token": reader.token}, headers=origin)
    cookie = login.headers["set-cookie"].partition(";")[0]
    return Client(reader.url).ask("GET", path, headers={"Cookie": cookie, "Accept": "text/html"})


@pytest.mark.parametrize("path", [*OF_A_HOST, *PAGES])
def test_host_outside_the_group_is_not_found(reader: Client, path: str) -> None:
    for other in OTHERS:
        values = {"{host}": other, "{n}": "1", "{service}": "app", "{bundle}": "1"}
        asked = path
        for placeholder, value in values.items():
            asked = asked.replace(placeholder, value)
        assert look(reader, asked).status == 404, other


@pytest.mark.parametrize("path", LISTS)
def test_lists_omit_hosts_outside_the_group(reader: Client, path: str) -> None:
    reply = look(reader, path)

    assert reply.status in {200, 403}
    for other in ("db1", "bare1", "setup_of_db1", "setup_of_bare1"):
        assert other.encode() not in reply.body.replace(b"machine=db1", b"").replace(b"machine=bare1", b"")


def test_hosts_in_group_and_subgroups_are_readable(reader: Client) -> None:
    assert [host["name"] for host in reader.get("/api/v1/hosts").json["hosts"]] == ["web1"]
    assert reader.get("/api/v1/hosts", group="dc1/rack1").json["counts"]["progressing"] == 1
    assert reader.get("/api/v1/hosts/web1/records/app").status == 200
    assert [step["label"] for step in reader.get("/api/v1/statistics").json["steps"]] == ["setup_of_web1"]
    assert b"web1" in look(reader, "/").body
    assert look(reader, "/hosts/web1").status == 200


def test_metrics_and_other_groups_are_refused(reader: Client) -> None:
    assert reader.get("/metrics").status == 403
    assert reader.get("/api/v1/statistics", group="dc2").status == 403


def test_group_token_reads_no_records_outside_groups(server: RunningCollector) -> None:
    writer = server.client("group", "dc1")

    assert writer.get("/api/v1/hosts/bare1/records").status == 403
    assert writer.get("/api/v1/hosts/web1/records").status == 200
    assert writer.get("/api/v1/hosts/new1/records").json["files"] == []


OF_THE_FLEET = [
    *("/", "/?each=1", "/?all=1&verdict=failed", "/?cluster=prod&all=1"),
    *("/?cluster=elsewhere", "/?after=verdict:1:failed:a"),
    *("/?group=dc1&group=annex", "/?machine=far*", "/fleet.csv?all=1", "/fleet.json?all=1&group=annex"),
    *("/clusters", "/clusters?all=1", "/statistics", "/statistics?by=group&by=release", "/hosts/near1"),
    *(
        "/api/v1/hosts?all=true&earlier=true",
        "/api/v1/hosts?cluster=prod",
        "/api/v1/hosts?after=verdict:1:failed:a",
    ),
    *("/api/v1/clusters?all=true", "/api/v1/clusters?cluster=prod&all=true", "/api/v1/statistics?by=release"),
    *("/api/v1/hosts/near1", "/api/v1/hosts/near1/bundles"),
]
STREAMS = [{"all": "1"}, {"each": "1"}, {"group": "annex"}, {"clusters": "1"}, {"host": "near1"}]
REFUSED = {
    **dict.fromkeys(("/clusters/prod", "/clusters/elsewhere", "/api/v1/clusters/prod"), 404),
    **dict.fromkeys(("/api/v1/clusters/elsewhere/logs/controller", "/clusters/prod/logs/all"), 404),
    **dict.fromkeys(("/events?of_cluster=prod", "/events?host=far1"), 404),
    **dict.fromkeys(("/mutes", "/api/v1/mutes", "/api/v1/audit", "/api/v1/tokens", "/metrics"), 403),
}


@pytest.fixture
def two_groups(tmp_path: Path) -> Iterator[RunningCollector]:
    """Hosts of two groups with equal trouble, in one cluster, and further data of the other group."""
    with run_collector(make_collector_settings(tmp_path)) as running:
        admin = running.client("admin")
        infra_env, prod, elsewhere = new_id(), new_id(), new_id()
        for name, group, cluster in (
            ("near1", "dc1", prod),
            ("far1", "annex", prod),
            ("far2", "annex", elsewhere),
        ):
            ids = {"id": new_id(), "cluster_id": cluster, "infra_env_id": infra_env}
            assert admin.ask("PUT", f"/api/v1/hosts/{name}", data={"group": group, **ids}).status == 201
            assert admin.step(name, "Disk setup", "failed", logs="no disk", release="9").status == 201
        for cluster, name in ((prod, "prod"), (elsewhere, "elsewhere")):
            admin.ask("PUT", f"/api/v1/clusters/{cluster}", data={"name": name})
        for scope, subject in (("host", "far1"), ("group", "annex")):
            mute = {
                "kind": "muted",
                "scope": scope,
                "subject": subject,
                "duration": "4h",
                "note": "of the annex",
            }
            assert admin.post("/api/v1/mutes", mute).status == 201
        running.settle()
        yield running


def confined_visitor(server: RunningCollector) -> Visitor:
    visitor = Visitor(server)
    assert visitor.sign_in(server.client("reader", "dc1").token).status == 303
    return visitor


def seen_of_others(asked: str, text: str) -> list[str]:
    """Return the words of the other group in a text, except those that the request contains."""
    return [word for word in ("far1", "far2", "annex", "elsewhere") if word in text and word not in asked]


@pytest.mark.slow
def test_hosts_of_other_groups_are_never_shown(two_groups: RunningCollector) -> None:
    visitor, reader = confined_visitor(two_groups), two_groups.client("reader", "dc1")
    everything = two_groups.client("reader")

    answers = everything.get("/api/v1/hosts", all="true").body + everything.get("/api/v1/clusters").body
    assert seen_of_others("", answers.decode()) == ["far1", "far2", "annex", "elsewhere"]
    for path in OF_THE_FLEET:
        reply = reader.get(path) if path.startswith("/api/") else visitor.get(path)
        assert reply.status in {200, 403}, path
        assert seen_of_others(path, reply.body.decode()) == [], path
    for query in STREAMS:
        with streaming(visitor, **query) as stream:
            kind, data = stream.next()
        assert (kind, seen_of_others(str(query), str(data))) == ("change", []), query
    assert "1 failed" in visitor.page("/").text


def test_other_hosts_and_shared_clusters_are_refused(
    two_groups: RunningCollector,
) -> None:
    visitor, reader = confined_visitor(two_groups), two_groups.client("reader", "dc1")
    for path, status in REFUSED.items():
        reply = reader.get(path) if path.startswith(("/api/", "/metrics")) else visitor.get(path)
        assert (reply.status, seen_of_others(path, reply.body.decode())) == (status, []), path
    muted = {"kind": "muted", "scope": "group", "subject": "dc1", "duration": "4h"}
    assert visitor.send("/mutes", {}, **muted).status == 403
    assert reader.post("/api/v1/mutes", muted).status == 403


def test_stream_ends_when_host_changes_group(two_groups: RunningCollector) -> None:
    visitor, admin = confined_visitor(two_groups), two_groups.client("admin")
    with streaming(visitor, host="near1", state=state_of(visitor, "/hosts/near1")) as stream:
        admin.ask("PUT", "/api/v1/hosts/near1", data={"group": "annex"})
        admin.step("near1", "Packages", "failed", logs="in the annex")

        assert stream.next()[0] == "gone"
