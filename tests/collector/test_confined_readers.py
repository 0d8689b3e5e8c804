"""A reader whose token has a group as its scope reads of the hosts of that group, and of no others."""

from collections.abc import Iterator

import pytest

from service_record.collector.api.operation import READERS
from service_record.collector.api.operations import OPERATIONS
from service_record.collector.serving_settings import CollectorSettings
from tests.collector.serving import Client, Reply, Served, served
from tests.collector.test_records import piece

HOSTS = {"web1": "dc1/rack1", "db1": "dc2", "bare1": ""}
OTHERS = [name for name, group in HOSTS.items() if group != "dc1/rack1"]
OF_A_HOST = [one.template for one in OPERATIONS if READERS.kinds <= one.who.kinds and "{host}" in one.path]
PAGES = [
    *("/hosts/{host}", "/hosts/{host}/analysis", "/hosts/{host}/steps/1/logs", "/events?host={host}"),
    *("/hosts/{host}/bundles/1", "/hosts/{host}/templates/1"),
]
LISTS = [
    "/api/v1/hosts?all=true",
    "/api/v1/hosts?all=true&group=dc2",
    "/api/v1/hosts?all=true&machine=db1&machine=bare1",
    "/api/v1/statistics?by=group",
    "/?all=1",
    "/?all=1&group=dc2",
    "/statistics?by=group",
]


@pytest.fixture(scope="module")
def server(shared_settings: CollectorSettings) -> Iterator[Served]:
    """A collector with one host in the reader's group, one in another, and one in none."""
    with served(shared_settings) as running:
        admin = running.client("admin")
        for name, group in HOSTS.items():
            assert admin.ask("PUT", f"/api/v1/hosts/{name}", data={"group": group}).status == 201
            assert admin.step(name, f"Setup of {name}", "done").status == 201
            sent = {"pieces": [piece("app", 0, b'{"phase":"service start"}\n')]}
            assert admin.post(f"/api/v1/hosts/{name}/records", sent).status == 200
        running.settle()
        yield running


@pytest.fixture(scope="module")
def reader(server: Served) -> Client:
    return server.client("reader", "dc1")


def look(reader: Client, path: str) -> Reply:
    """Ask for a path of the API or for a page, with a session of the token."""
    if path.startswith("/api/"):
        return reader.get(path)
    origin = {"Origin": reader.url, "Host": reader.url.removeprefix("http://")}
    login = Client(reader.url).ask("POST", "/login", form={"token": reader.token}, headers=origin)
    cookie = login.headers["set-cookie"].partition(";")[0]
    return Client(reader.url).ask("GET", path, headers={"Cookie": cookie, "Accept": "text/html"})


@pytest.mark.parametrize("path", [*OF_A_HOST, *PAGES])
def test_a_host_outside_of_the_group_does_not_exist(reader: Client, path: str) -> None:
    for other in OTHERS:
        values = {"{host}": other, "{n}": "1", "{service}": "app", "{bundle}": "1"}
        asked = path
        for placeholder, value in values.items():
            asked = asked.replace(placeholder, value)
        assert look(reader, asked).status == 404, other


@pytest.mark.parametrize("path", LISTS)
def test_no_list_has_a_host_outside_of_the_group(reader: Client, path: str) -> None:
    reply = look(reader, path)

    assert reply.status in {200, 403}
    for other in ("db1", "bare1", "setup_of_db1", "setup_of_bare1"):
        assert other.encode() not in reply.body.replace(b"machine=db1", b"").replace(b"machine=bare1", b"")


def test_hosts_of_the_group_and_of_groups_below_it_are_read_as_ever(reader: Client) -> None:
    assert [host["name"] for host in reader.get("/api/v1/hosts").json["hosts"]] == ["web1"]
    assert reader.get("/api/v1/hosts", group="dc1/rack1").json["counts"]["progressing"] == 1
    assert reader.get("/api/v1/hosts/web1/records/app").status == 200
    assert [step["label"] for step in reader.get("/api/v1/statistics").json["steps"]] == ["setup_of_web1"]
    assert b"web1" in look(reader, "/").body
    assert look(reader, "/hosts/web1").status == 200


def test_what_is_of_all_hosts_is_refused(reader: Client) -> None:
    assert reader.get("/metrics").status == 403
    assert reader.get("/api/v1/statistics", group="dc2").status == 403


def test_a_token_of_a_group_reads_no_records_of_a_host_without_a_group(server: Served) -> None:
    writer = server.client("group", "dc1")

    assert writer.get("/api/v1/hosts/bare1/records").status == 403
    assert writer.get("/api/v1/hosts/web1/records").status == 200
    assert writer.get("/api/v1/hosts/new1/records").json["files"] == []
