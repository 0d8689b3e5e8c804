"""Acknowledged and muted trouble: no notices, an entry in the audit log, and a remark on the pages."""

from pathlib import Path

import pytest
from sqlalchemy import select

from service_record.collector.serving_settings import CollectorSettings
from service_record.collector.store.schema import notices
from tests.collector.browsing import sign_in_visitor
from tests.collector.serving import Client, RunningCollector, make_collector_settings, run_collector
from tests.pages import Page

NOW = 1_800_000_000.0


def fail(server: RunningCollector, host: str, why: str = "no such disk", group: str = "dc1/rack1") -> None:
    server.client("host", host).step(host, "Disk setup", "failed", logs=why, group=group)
    server.settle()


def recover(server: RunningCollector, host: str) -> None:
    server.client("host", host).step(host, "Call home", "done", percentage=100)
    server.settle()


def cause_of(server: RunningCollector, host: str) -> str:
    cause: str = server.client("reader").get("/api/v1/hosts", machine=host).json["hosts"][0]["cause"]
    return cause


def news(server: RunningCollector) -> list[str]:
    """Return the verdicts of all stored notices, including those without a destination."""
    with server.collector.database.reading() as connection:
        return list(connection.execute(select(notices.c.verdict).order_by(notices.c.id)).scalars())


def mute(admin: Client, kind: str, scope: str, subject: str, duration: str = "1h") -> int:
    reply = admin.post(
        "/api/v1/mutes", kind=kind, scope=scope, subject=subject, duration=duration, note="disks are ordered"
    )
    assert reply.status == 201, reply.body
    number: int = reply.json["id"]
    return number


@pytest.mark.slow
@pytest.mark.parametrize("scope", ["host", "group", "cause"])
@pytest.mark.parametrize(
    ("kind", "expected"),
    [("acknowledged", ["failed", "done"]), ("muted", ["failed"]), ("maintenance", ["failed"])],
)
def test_muted_hosts_send_no_notices(
    sqlite_settings: CollectorSettings, scope: str, kind: str, expected: list[str]
) -> None:
    """The first host fails before the mute and is done after it. A second host fails with the same cause."""
    with run_collector(sqlite_settings) as server:
        fail(server, "web1")
        subject = {"host": "web1", "group": "dc1", "cause": cause_of(server, "web1")}[scope]
        mute(server.client("admin"), kind, scope, subject)
        fail(server, "web2", why="no such disk" if scope != "host" else "other", group="dc1/rack2")
        recover(server, "web1")

        assert news(server) == (expected if scope != "host" else [expected[0], "failed", *expected[1:]])


def test_mute_lasts_until_its_end(tmp_path: Path) -> None:
    clock = [NOW]
    with run_collector(make_collector_settings(tmp_path), now=lambda: clock[0]) as server:
        admin = server.client("admin")
        first = mute(admin, "muted", "group", "dc1")
        assert [each["id"] for each in admin.get("/api/v1/mutes").json["mutes"]] == [first]
        clock[0] += 3601
        assert admin.get("/api/v1/mutes").json["mutes"] == []
        fail(server, "web1")
        assert news(server) == ["failed"]
        second = mute(admin, "maintenance", "host", "Web2")
        assert admin.ask("DELETE", f"/api/v1/mutes/{second}").status == 204
        assert admin.ask("DELETE", f"/api/v1/mutes/{second}").status == 404
        fail(server, "web2")
        assert news(server) == ["failed", "failed"]
        audit = admin.get("/api/v1/audit").json["entries"]
        actor = f"token {admin.token.split('_')[1]}"
        assert [(entry["actor"], entry["action"]) for entry in audit][:3] == [
            (actor, "mute end"),
            (actor, "mute create"),
            (actor, "mute create"),
        ]
        assert audit[0]["subject"] == f"{second}: host web2"


@pytest.mark.parametrize(
    "wrong",
    [{"kind": "loud"}, {"scope": "rack"}, {"subject": "a b"}, {"duration": "soon"}, {"duration": "9999d"}],
)
def test_invalid_mute_is_refused(server: RunningCollector, wrong: dict[str, str]) -> None:
    fields = {"kind": "muted", "scope": "host", "subject": "web1", "duration": "1h"} | wrong
    assert server.client("admin").post("/api/v1/mutes", **fields).status == 400


def test_page_shows_mutes_made_by_administrators(tmp_path: Path) -> None:
    with run_collector(make_collector_settings(tmp_path)) as server:
        fail(server, "web1")
        fail(server, "web2")
        fail(server, "web3", why="no mirror could be reached")
        admin, reader = sign_in_visitor(server, "admin"), sign_in_visitor(server)
        cause = cause_of(server, "web1")
        assert "(3) Fleet · service-record" in reader.page("/").texts("title")
        assert f"/mutes?scope=cause&subject={cause}" in {
            node.attributes["href"] for node in reader.page("/").all("a")
        }
        form = {"kind": "acknowledged", "scope": "cause", "subject": cause, "duration": "4h", "note": "mine"}
        assert reader.send("/mutes", {}, **form).status == 403
        assert reader.get("/mutes").status == 403
        assert admin.send("/mutes", {"Origin": "https://evil.example.com"}, **form).status == 403

        assert admin.send("/mutes", {}, **form).headers["location"] == "/mutes"

        assert "(1) Fleet · service-record" in reader.page("/").texts("title")
        assert any("acknowledged until" in text for text in reader.page("/").texts("span"))
        page = admin.page("/mutes")
        (number,) = [
            node.attributes["value"] for node in page.all("input") if node.attributes["name"] == "end"
        ]
        assert admin.send("/mutes", end="x").status == 400
        assert admin.send("/mutes", end=number).status == 303
        assert "Nothing is acknowledged, muted or in maintenance." in admin.page("/mutes").text


@pytest.mark.parametrize("scope", ["host", "group", "cause"])
def test_host_page_shows_its_mutes(tmp_path: Path, scope: str) -> None:
    with run_collector(make_collector_settings(tmp_path)) as server:
        fail(server, "web1")
        fail(server, "web2", why="no mirror could be reached", group="dc2")
        reader = sign_in_visitor(server)
        cause = cause_of(server, "web1")
        subject = {"host": "web1", "group": "dc1", "cause": cause}[scope]
        before = reader.page("/hosts/web1")

        def links(page: Page) -> set[str | None]:
            found = {node.attributes.get("href") for node in page.all("a")}
            return {link for link in found if link and link.startswith("/mutes?")}

        offered = {"/mutes?scope=group&subject=dc1/rack1", f"/mutes?scope=cause&subject={cause}"}
        assert links(sign_in_visitor(server, "admin").page("/hosts/web1")) == offered
        assert links(before) == set(), "a reader may mute nothing"

        mute(server.client("admin"), "acknowledged", scope, subject)

        (marker,) = [
            text for text in reader.page("/hosts/web1").texts("span") if "acknowledged until" in text
        ]
        assert marker.endswith(": disks are ordered")
        assert "acknowledged until" not in reader.page("/hosts/web2").text
        assert state(before) != state(reader.page("/hosts/web1"))


def test_host_page_shows_reason_once(tmp_path: Path) -> None:
    with run_collector(make_collector_settings(tmp_path)) as server:
        fail(server, "web1")
        page = sign_in_visitor(server).page("/hosts/web1")
        assert "Disk setup failed: no such disk." in page.text
        assert "last message" not in page.texts("dt")


def state(page: Page) -> str:
    """Return the state of a page, which changes with its content."""
    (live,) = [node for node in page.all("div") if "data-state" in node.attributes]
    return live.attributes["data-state"]
