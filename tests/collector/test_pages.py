"""The HTML of the pages: their content, rows and static files."""

import csv
import gzip
import io
import json
import re
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from urllib.parse import quote

import pytest
from sqlalchemy import Connection, insert

from service_record.collector.store.schema import hosts
from service_record.collector.web.pages import remove_repetition
from tests.collector import shown_fleet
from tests.collector.browsing import Visitor, sign_in_visitor, wait_until_analysed
from tests.collector.serving import Client, RunningCollector, make_collector_settings, run_collector
from tests.pages import Page
from tests.waiting import wait_for

FAILED, LOOPING, DONE = "web03.dc2.example.com", "web07.dc2.example.com", "web05.dc2.example.com"
EVERY = (
    "/",
    "/login",
    "/groups",
    "/groups?by=site",
    "/?search=mirror",
    "/statistics",
    f"/hosts/{FAILED}",
    f"/hosts/{LOOPING}",
    f"/hosts/{FAILED}/analysis",
)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCollector]:
    """Thirty hosts. The services of one of them take half a minute."""
    ahead = [0.0]
    settings = make_collector_settings(tmp_path_factory.mktemp("fleet"))
    with run_collector(settings, now=lambda: time.time() + ahead[0]) as server:
        shown_fleet.fill(server)
        shown_fleet.more_of_a_host(server, FAILED)
        filled = server.collector.now()
        ahead[0] = 30.0
        shown_fleet.send_records(server, FAILED, **shown_fleet.failed_services(filled))
        wait_until_analysed(sign_in_visitor(server), FAILED)
        yield server


@pytest.fixture
def visitor(fleet: RunningCollector) -> Visitor:
    return sign_in_visitor(fleet)


def rows(page: Page) -> list[str]:
    return [node.attributes["data-row"] for node in page.all("tr") if "data-row" in node.attributes]


def words(page: Page, tag: str) -> list[str]:
    return [" ".join(text.split()) for text in page.texts(tag)]


def test_hosts_in_trouble_come_first(visitor: Visitor) -> None:
    page = visitor.page("/")
    shown = rows(page)

    assert len(shown) == 19
    assert "11 hosts are done" in page.text
    assert len(rows(visitor.page("/?verdict=done"))) == 11
    troubled = [f"web{number}" for number in ("21.dc2", "14.dc1", "08.dc1", "07.dc2", "03.dc2")]
    assert shown[:5] == [f"{name}.example.com" for name in troubled]


def fail_many(server: RunningCollector, count: int, first: int = 1) -> None:
    """Let hosts fail with one cause, each with another name, disk and time."""
    for number in range(first, first + count):
        name = f"node{number:02}"
        logs = f"12:00:{number % 60:02} {name}: no such disk /dev/sd{'ab'[number % 2]}"
        server.client("host", name).step(
            name, "Disk setup", "failed", group=f"dc{number % 2 + 1}", logs=logs, percentage=20
        )
    server.settle()


def test_hosts_with_one_cause_share_a_line(tmp_path: Path) -> None:
    clock = [1_800_000_000.0]
    with run_collector(make_collector_settings(tmp_path), now=lambda: clock[0]) as server:
        fail_many(server, 35)
        clock[0] += 60
        fail_many(server, 1, first=36)
        clock[0] += 60
        server.client("host", "other").step("other", "Packages", "failed", logs="no mirror could be reached")
        server.client("host", "fine").step("fine", "Packages", "init")
        server.settle()
        visitor = sign_in_visitor(server)
        page = visitor.page("/")

        assert rows(page) == ["other", "fine"], "each of the others has its row, the newest trouble first"
        assert len(page.texts("summary")) == 2, "of the filters, and of the cause"
        assert "36 hosts" in page.texts("b")
        page_text = " ".join(re.sub("<[^>]*>", "", visitor.get("/").body.decode()).split())
        assert (
            "dc1, dc2; first 2027-01-15 08:00:00Z 2m 0s ago, last 2027-01-15 08:01:00Z 1m 0s ago" in page_text
        )
        assert "(37) Fleet · service-record" in page.texts("title")
        listed = [text for text in page.texts("a") if text.startswith("node")]
        assert len(listed) == 36
        assert listed[0] == "node36", "the latest first"
        (each,) = [node.attributes["href"] for node in page.all("a") if "?cause=" in node.attributes["href"]]
        assert len(rows(visitor.page(each))) == 36
        assert len(rows(visitor.page("/?each=1"))) == 38
        reader, cause = server.client("reader"), each.partition("=")[2]
        assert reader.get("/api/v1/hosts", cause=cause).json["total"] == 36


def test_shown_hosts_can_be_exported(fleet: RunningCollector, visitor: Visitor) -> None:
    page = visitor.page("/?group=dc2")
    links = {node.attributes["href"] for node in page.all("a")}
    assert {"/fleet.csv?group=dc2", "/fleet.json?group=dc2"} <= links

    rows_of_csv = list(csv.DictReader(io.StringIO(visitor.get("/fleet.csv?group=dc2").body.decode())))
    rows_of_json = json.loads(visitor.get("/fleet.json?group=dc2").body)

    names = sorted(row["name"] for row in rows_of_csv)
    assert (
        names
        == sorted(rows(visitor.page("/?group=dc2&each=1")))
        == sorted(row["name"] for row in rows_of_json)
    )
    assert {row["verdict"] for row in rows_of_csv if row["name"] == FAILED} == {"failed"}
    assert json.loads(visitor.get("/fleet.json?machine=nobody").body) == []


def test_csv_contains_no_formula(server: RunningCollector) -> None:
    logs = "=HYPERLINK(1)"
    server.client("host", "web1").step("web1", logs, "init", group="=1+1")
    visitor = sign_in_visitor(server)
    cells = next(csv.DictReader(io.StringIO(visitor.get("/fleet.csv").body.decode())))
    assert cells["message"].startswith("'=") or cells["message"] == ""
    assert cells["group"] == "'=1+1"


def test_empty_fleet_explains_the_first_report(server: RunningCollector) -> None:
    visitor = sign_in_visitor(server)
    shown = visitor.page("/").texts("pre")
    assert "service-record collector token create host web1" in shown
    assert any(f"{server.url}/api/v1/hosts/web1/steps" in text for text in shown)
    server.client("host", "web1").step("web1", "Disk setup", "init")
    wait_for(lambda: not visitor.page("/").texts("pre"))  # slow counts are cached for a moment


def test_message_equal_to_reason_is_hidden() -> None:
    reason = "step Disk setup failed: no disk."
    assert remove_repetition("Disk setup  failed", reason) == remove_repetition("no disk", reason) == ""
    assert remove_repetition("Disk setup: no disk", reason) == ""
    assert remove_repetition("Packages: 3 of 4", reason) == "Packages: 3 of 4"
    assert remove_repetition("Packages", "") == "Packages"


@pytest.mark.parametrize(
    ("query", "some", "count"),
    [
        ("?each=1&group=dc2/rack1", FAILED, 5),
        ("?each=1&group=dc1&group=dc2", DONE, 30),
        ("?machine=web03*", FAILED, 1),
        ("?each=1&machine=web03*,web05*", DONE, 2),
        ("?verdict=looping", LOOPING, 1),
        ("?verdict=looping&verdict=failed&group=dc2", FAILED, 2),
        ("?verdict=nonsense&page=x&all=0&each=1", FAILED, 30),
    ],
)
def test_url_selects_the_hosts(visitor: Visitor, query: str, some: str, count: int) -> None:
    page = visitor.page(f"/{query}")

    assert some in rows(page)
    assert len(rows(page)) == count
    (stream,) = [node.attributes["data-stream"] for node in page.nodes if "data-stream" in node.attributes]
    assert len(rows(visitor.page(stream.replace("/events", "/")))) == count  # the live parts are equal


def test_verdict_filter_can_be_removed(visitor: Visitor) -> None:
    page = visitor.page("/?group=dc2&verdict=failed")

    (chosen,) = [node for node in page.all("a") if node.attributes.get("aria-current") == "true"]
    assert chosen.attributes["href"] == "/?group=dc2"


def test_empty_result_links_to_all_hosts(visitor: Visitor) -> None:
    assert "No host matches these filters." in visitor.page("/?machine=nobody").text
    assert "This page is empty now." in visitor.page("/?each=1&after=verdict:9e9:done:zzz").text


def test_many_hosts_are_split_into_pages(server: RunningCollector) -> None:
    def change(connection: Connection) -> None:
        seen = {"first_seen": 0.0, "last_seen": 0.0, "verdict": "progressing"}
        connection.execute(insert(hosts), [{"name": f"web{number:03}", **seen} for number in range(205)])

    server.collector.writer.change(change).result()
    visitor = sign_in_visitor(server)

    page = visitor.page("/?all=1")
    shown, links = rows(page), [node for node in page.all("a") if node.attributes.get("rel") == "next"]
    while links:
        page = visitor.page(links[0].attributes["href"])
        shown += rows(page)
        links = [node for node in page.all("a") if node.attributes.get("rel") == "next"]
    assert shown == [f"web{number:03}" for number in range(205)]
    (first,) = [node for node in page.all("a") if node.attributes.get("rel") == "first"]
    assert first.attributes["href"] == "/?all=1"


def test_old_done_host_is_shown_on_request(tmp_path: Path) -> None:
    clock = [1_800_000_000.0]
    with run_collector(make_collector_settings(tmp_path), now=lambda: clock[0]) as server:
        server.client("host", "web1").step("web1", "Call home", "done", percentage=100)
        clock[0] += 86_401
        visitor = sign_in_visitor(server)

        assert rows(visitor.page("/")) == []
        assert rows(visitor.page("/?all=1&each=1")) == ["web1"]


def test_failed_build_has_constant_duration(tmp_path: Path) -> None:
    clock = [1_800_000_000.0]
    with run_collector(make_collector_settings(tmp_path), now=lambda: clock[0]) as server:
        host = server.client("host", "web1")
        host.step("web1", "Disk setup", "init")
        clock[0] += 30
        host.step("web1", "Disk setup", "failed", logs="no disk")
        server.settle()
        clock[0] += 600
        visitor = sign_in_visitor(server)

        assert "30s" in visitor.page("/").texts("td")
        assert "30s" in visitor.page("/hosts/web1").texts("dd")


def test_failure_shows_logs_and_record_diagnosis(fleet: RunningCollector, visitor: Visitor) -> None:
    page = visitor.page(f"/hosts/{FAILED}")

    assert "Disk setup failed" in words(page, "h3")
    assert any("bootkube in stage cvo-bootstrap" in text for text in page.texts("h3"))
    assert any('level=error msg="failed to render' in text for text in page.texts("pre"))
    assert "bootkube: failed, from" in page.text
    assert any("no disk for the hardware RAID, giving up" in text for text in page.texts("pre"))
    assert f"{FAILED}.tar.gz" in page.texts("a")
    assert any("1 of 3 logs is missing" in text for text in page.texts("li"))


def test_loop_is_listed_once(visitor: Visitor) -> None:
    page = visitor.page(f"/hosts/{LOOPING}")

    steps = [node for node in page.all("tr") if node.attributes.get("id", "").startswith("step-")]
    assert len(steps) == 2
    assert "14 times" in page.texts("strong")
    assert page.texts("th").count("boots") == 14


def test_earlier_build_has_a_page(server: RunningCollector) -> None:
    host = server.client("host", "web1")
    host.step("web1", "Old step", "init", build="first")
    host.step("web1", "New step", "init", build="second")
    visitor = sign_in_visitor(server)

    latest, earlier = visitor.page("/hosts/web1"), visitor.page("/hosts/web1?build=1")

    def steps_of(page: Page) -> list[bool]:
        heads = "".join(page.texts("th"))
        return [name in heads for name in ("Old step", "New step")]

    assert (steps_of(latest), steps_of(earlier)) == ([False, True], [True, False])
    assert 'Another build began after "Old step" started.' in latest.text
    assert "Build 1 (earlier)" in earlier.text


@pytest.mark.parametrize("number", [2**31, 10**9 + 1, 10**12, 10**17, 10**30])
def test_unknown_build_is_not_another_build(server: RunningCollector, number: int) -> None:
    server.client("host", "web1").step("web1", "Disk setup", "init")
    visitor, reader = sign_in_visitor(server), server.client("reader")

    for path in (f"/hosts/web1?build={number}", f"/events?host=web1&build={number}"):
        assert visitor.get(path).status == 404
    assert reader.get(f"/api/v1/hosts/web1/builds/{number}").status == 404
    assert visitor.get("/hosts/web1?build=00000000001").status == 200


def test_notes_of_a_report_are_shown(server: RunningCollector) -> None:
    server.client("host", "web1").step("web1", "Disk setup", "exploded", percentage=180, logs="x" * 100_000)

    page = sign_in_visitor(server).page("/hosts/web1")

    assert {"note: status was exploded", "note: percentage was 180"} <= set(page.texts("p"))
    (full,) = [node.attributes["href"] for node in page.all("a") if node.text == "show all"]
    whole = sign_in_visitor(server).get(full)
    assert whole.headers["content-type"].startswith("text/plain")
    assert 60_000 < len(whole.body) < 66_000


def test_unknown_host_is_an_error_page(visitor: Visitor) -> None:
    for path in ("/hosts/nobody", f"/hosts/{FAILED}?build=77", "/hosts/nobody/analysis", "/hosts/a%20b"):
        reply = visitor.get(path)
        assert reply.status in {400, 404}, path
        assert reply.body.startswith(b"<!DOCTYPE html>"), path
    for path in ("steps/999999999999999999999999/logs", "bundles/1e9", "bundles/99999999999999999999"):
        assert visitor.get(f"/hosts/{FAILED}/{path}").status == 404, path


def test_statistics_show_failures_of_steps(visitor: Visitor) -> None:
    page = visitor.page("/statistics?by=group&group=dc2")

    assert "disk_setup" in page.texts("th")
    assert any("no disk for the hardware RAID" in text for text in page.texts("p"))
    assert not any("dc1" in text for text in page.texts("td"))


@pytest.mark.parametrize(
    ("by", "first"),
    [
        ("site", "dc1"),
        ("rack", "dc1/rack1"),
        ("group", "dc1/rack1"),
        ("release", "4.18"),
        ("hardware", "Dell Inc. PowerEdge R640"),
    ],
)
def test_groups_page_counts_hosts_by_verdict(visitor: Visitor, by: str, first: str) -> None:
    page = visitor.page(f"/groups?by={by}")

    totals = [node.text for node in page.all("td") if node.attributes["data-head"] == "Hosts"]
    assert sum(map(int, totals)) == 30
    assert not first or first in page.texts("a")


def test_search_finds_hosts_by_any_field(visitor: Visitor) -> None:
    for text, host in (
        *(("NO MIRROR", "web14.dc1"), ("web14", "web14.dc1"), ("over 14 boots", "web07.dc2")),
        ("r640", "web14.dc1"),
    ):
        found = visitor.page(f"/?each=1&search={quote(text)}").texts("a")
        assert any(name.startswith(host) for name in found), text
        assert not any(name.startswith("web03.dc2") for name in found)
    for wildcards in ("100%_none", "w_b14", "w%14"):
        found = visitor.page(f"/?each=1&search={quote(wildcards)}").texts("a")
        assert not any(name.startswith("web") for name in found), wildcards


@pytest.mark.parametrize("path", EVERY)
def test_pages_have_accessible_markup(visitor: Visitor, path: str) -> None:
    page = visitor.page(path)

    assert page.all("html")[0].attributes["lang"] == "en"
    assert len(page.all("h1")) == len(page.all("main")) == 1
    assert page.all("a")[0].attributes["href"] == "#contents"
    for head in page.all("th"):
        assert head.attributes.get("scope") in {"col", "row"}, head.text
    labelled = {node.attributes["for"] for node in page.all("label")}
    for field in page.all("input"):
        assert field.attributes.get("type") == "hidden" or field.attributes["id"] in labelled
    ids = [node.attributes["id"] for node in page.nodes if "id" in node.attributes]
    assert len(ids) == len(set(ids))
    for node in page.all("a"):
        target = node.attributes["href"]
        assert not target.startswith("#") or target[1:] in ids, target


@pytest.mark.parametrize("path", EVERY)
def test_pages_comply_with_their_csp(visitor: Visitor, path: str) -> None:
    reply = visitor.get(path)
    page = visitor.page(path)

    assert "default-src 'none'" in reply.headers["content-security-policy"]
    assert reply.headers["cache-control"] == "no-store"
    assert not page.all("style")
    for node in page.nodes:
        assert "style" not in node.attributes, node
        assert not [name for name in node.attributes if name.startswith("on")], node
    for script in page.all("script"):
        assert not script.text
        assert script.attributes["src"].startswith("/static/")


def test_assets_are_cached_by_digest(fleet: RunningCollector, visitor: Visitor) -> None:
    page = visitor.page("/")
    addresses = [node.attributes["href"] for node in page.all("link")]
    addresses += [node.attributes["src"] for node in page.all("script")]

    assert len(addresses) == 4
    for address in addresses:
        assert re.fullmatch(r"/static/\w+-[0-9a-f]{16}\.(css|js|svg)", address)
        reply = Visitor(fleet).get(address)
        assert (reply.status, "immutable" in reply.headers["cache-control"]) == (200, True)
    assert Visitor(fleet).get("/static/live-0000000000000000.js").status == 404
    assert Visitor(fleet).get("/static/..%2f__init__.py").status == 404


def test_steps_are_by_date_and_timeline_by_label(server: RunningCollector) -> None:
    host = server.client("host", "web1")
    for name, label, status in (
        ("Kickstart download", "get_ks", "init"),
        ("Disk setup", "disk", "init"),
        ("Disk setup", "disk", "done"),
        ("Kickstart, second mirror", "get_ks", "done"),
    ):
        assert host.step("web1", name, status, label=label).status == 201

    page = sign_in_visitor(server).page("/hosts/web1")

    reports = [node for node in page.all("th") if node.attributes.get("data-head") == "Step"]
    assert [node.text.strip() for node in reports] == [
        "Kickstart download",
        *("Disk setup", "Disk setup"),
        "Kickstart, second mirror",
    ]
    labels = [node.text for node in page.all("span", "plain")]
    assert labels == ["Kickstart, second mirror", "Disk setup"]


def test_fleet_shows_last_message_of_each_host(sqlite_server: RunningCollector) -> None:
    admin = sqlite_server.client("admin")
    admin.step("web1", "Bootloader", "failed", logs="no space left on device")
    admin.step("web2", "Packages", "init")
    admin.ask("PUT", "/api/v1/hosts/web3", data={"group": "dc1"})
    sqlite_server.settle()

    nodes = sign_in_visitor(sqlite_server).page("/").nodes
    messages = [
        inner.text for cell, inner in pairwise(nodes) if cell.tag == "td" and "message" in cell.classes
    ]

    assert len(messages) == 3
    assert all(message.strip() for message in messages)


def test_administrator_acts_on_host_page(sqlite_server: RunningCollector) -> None:
    sqlite_server.client("admin").step("web1", "Bootloader", "failed", group="dc1")
    sqlite_server.settle()
    admin, reader = sign_in_visitor(sqlite_server, "admin"), sign_in_visitor(sqlite_server)

    assert not reader.page("/hosts/web1").texts("select")
    assert reader.send("/hosts/web1", do="forget").status == 403
    assert admin.send("/hosts/web1", {"Origin": "https://evil.example.com"}, do="forget").status == 403
    shown = admin.send("/hosts/web1", do="token").body.decode()
    token = next(word for word in re.findall(r"srt_[\w-]+", shown))
    assert Client(sqlite_server.url, token).step("web1", "Bootloader", "done").status == 201
    fields = {"scope": "host", "subject": "web1", "kind": "muted", "duration": "1h", "back": "host"}
    assert admin.send("/mutes", None, **fields).headers["location"] == "/hosts/web1"
    assert admin.send("/hosts/web1", do="forget").headers["location"] == "/"
    assert admin.get("/hosts/web1").status == 404


def test_large_pages_are_compressed(sqlite_server: RunningCollector) -> None:
    visitor = sign_in_visitor(sqlite_server)

    whole = visitor.get("/")
    packed = Client(sqlite_server.url).ask(
        "GET",
        "/",
        headers={
            "Accept-Encoding": "gzip",
            "Cookie": "; ".join(f"{name}={value}" for name, value in visitor.cookies.items()),
        },
    )

    assert packed.headers["content-encoding"] == "gzip"
    page = gzip.decompress(packed.body)
    assert page.startswith(whole.body[:500])  # a lower part has times
    assert page.rstrip().endswith(b"</html>")
    assert len(packed.body) < len(page) / 2
