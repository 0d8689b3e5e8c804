"""The pages in Chromium: live updates, keyboard, without scripts, on a phone, and with hostile texts."""

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Dialog, Page, Request, expect

from service_record.collector.store.schema import bundles, events
from tests.assisted_installation import new_id
from tests.builders import failed_run
from tests.collector import browsing, shown_fleet
from tests.collector.browsing import wait_until_analysed
from tests.collector.chromium import open_signed_in_page, start_browser
from tests.collector.hostile import PAYLOADS
from tests.collector.serving import RunningCollector, make_collector_settings, run_collector

pytestmark = pytest.mark.xdist_group("pages in a browser")
PHONE: Final[dict[str, Any]] = {"viewport": {"width": 360, "height": 740}, "device_scale_factor": 2}
FAILED, LOOPING = "web03.dc2.example.com", "web07.dc2.example.com"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with start_browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCollector]:
    """Thirty hosts."""
    with run_collector(make_collector_settings(tmp_path_factory.mktemp("fleet"))) as server:
        shown_fleet.fill(server)
        shown_fleet.more_of_a_host(server, FAILED)
        shown_fleet.send_records(server, FAILED, **shown_fleet.failed_services(server.collector.now() - 20))
        wait_until_analysed(browsing.sign_in_visitor(server), FAILED)
        yield server


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningCollector]:
    """A new collector on SQLite. Pages do not depend on the database."""
    with run_collector(make_collector_settings(tmp_path)) as running:
        yield running


def test_change_appears_without_reload(browser: Browser, server: RunningCollector) -> None:
    host = server.client("host", "web1")
    host.step("web1", "Disk setup", "init", percentage=10)
    with open_signed_in_page(browser, server) as page:
        page.evaluate("window.mark = 'not loaded again'")
        row = page.locator("[data-row=web1]")
        expect(row.locator(".percent")).to_have_text("10 %")
        row.locator("a").focus()

        host.step("web1", "Disk setup", "done", percentage=40)
        expect(row.locator(".percent")).to_have_text("40 %")
        expect(row.locator("a")).to_be_focused()

        server.client("host", "web2").step("web2", "Disk setup", "failed", logs="no disk")
        expect(page.locator("[data-row=web2] .word")).to_have_text("✗ failed")
        expect(page.get_by_role("status")).to_have_text("2 hosts: 1 failed, 1 progressing")
        assert page.evaluate("window.mark") == "not loaded again"
        assert page.title() == "(1) Fleet · service-record"


def test_paused_page_says_so_and_catches_up(browser: Browser, server: RunningCollector) -> None:
    host = server.client("host", "web1")
    host.step("web1", "Disk setup", "init", percentage=10)
    with open_signed_in_page(browser, server) as page:
        page.get_by_role("link", name="web1").click()
        state = page.locator("[data-live-state]")
        expect(state).to_have_text("Live")
        page.get_by_role("button", name="Pause").click()
        expect(state).to_have_text("Paused")

        host.step("web1", "Disk setup", "done", percentage=40)
        page.get_by_role("button", name="Pause").click()

        expect(state).to_have_text("Live")
        expect(page.locator(".percent")).to_have_text("40 %")
        expect(page.locator("[data-sentence]")).to_contain_text('after "Disk setup" finished')


def test_pages_work_by_keyboard(browser: Browser, fleet: RunningCollector) -> None:
    with open_signed_in_page(browser, fleet) as page:
        page.keyboard.press("Tab")
        expect(page.get_by_role("link", name="Skip to the contents")).to_be_focused()
        page.keyboard.press("Enter")
        for _ in range(5):  # pause, refresh, search, show, more filters
            page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        page.keyboard.type("dc2")
        page.keyboard.press("Tab")
        page.keyboard.type("web0*")
        page.keyboard.press("Enter")
        page.wait_for_url("**/?search=&group=dc2&machine=web0*")

        page.get_by_role("link", name="1 failed").focus()
        page.keyboard.press("Enter")
        page.wait_for_url("**verdict=failed")
        expect(page.locator("[data-row]")).to_have_count(1)
        page.get_by_role("link", name=FAILED).focus()
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="Failure")).to_be_visible()

        shown = page.get_by_text("The same as a table")
        shown.focus()
        page.keyboard.press("Enter")
        expect(page.get_by_role("rowheader", name="Disk setup").first).to_be_visible()


def test_pages_are_complete_without_script(browser: Browser, fleet: RunningCollector) -> None:
    with open_signed_in_page(browser, fleet, java_script_enabled=False) as page:
        expect(page.locator("[data-row]")).to_have_count(19)  # the others are done and shown as one line
        page.get_by_role("link", name="1 looping").click()
        expect(page.locator(".reason")).to_contain_text("Kickstart download")
        expect(page.locator(".ago").first).to_contain_text("ago")
        page.get_by_role("link", name="Refresh").click()
        page.get_by_role("link", name=LOOPING).click()
        expect(page.get_by_role("heading", name="Build 1")).to_be_visible()
        page.get_by_role("button", name="Sign out").click()
        page.wait_for_url("**/login")


def test_times_are_local_until_switched_to_utc(browser: Browser, server: RunningCollector) -> None:
    server.client("host", "web1").step("web1", "Disk setup", "failed")
    mute = {"kind": "muted", "scope": "host", "subject": "web1", "duration": "4h"}
    assert server.client("admin").post("/api/v1/mutes", mute).status == 201
    server.settle()
    with open_signed_in_page(browser, server, timezone_id="Asia/Kolkata") as page:
        times = page.locator("[data-row=web1] time")
        expect(times).to_have_count(3)  # the end of the mute, the verdict, and the last update
        for time in times.all():
            utc = datetime.fromisoformat(time.get_attribute("datetime") or "")
            local = utc.astimezone(timezone(timedelta(hours=5, minutes=30)))
            expect(time).to_have_text(f"{local:%Y-%m-%d %H:%M:%S}")
            expect(time).to_have_attribute("title", f"{utc:%Y-%m-%d %H:%M:%S}Z (UTC)")

        page.get_by_role("button", name="Local", exact=True).click()
        page.reload()
        for time in times.all():
            utc = datetime.fromisoformat(time.get_attribute("datetime") or "")
            expect(time).to_have_text(f"{utc:%Y-%m-%d %H:%M:%S}Z")


def test_phone_shows_one_line_and_reason_of_trouble(browser: Browser, fleet: RunningCollector) -> None:
    with open_signed_in_page(browser, fleet, **PHONE) as page:
        page.goto(f"{fleet.url}/?each=1")
        row = page.locator(f'[data-row="{FAILED}"]')
        places = "(row, parts) => parts.map(part => row.querySelector(part).getBoundingClientRect())"
        name, word, percent, reason, since = row.evaluate(
            places, ["a", ".word", ".percent", ".reason", ".since"]
        )
        assert max(abs(name["y"] - other["y"]) for other in (word, percent)) < name["height"] / 2
        assert reason["y"] >= name["y"] + name["height"]
        assert abs(since["y"] - reason["y"]) < reason["height"]
        assert row.locator(".since").inner_text().startswith("since ")
        heights = page.locator(".running-row, .success-row").evaluate_all(
            "rows => rows.map(r => r.clientHeight)"
        )
        assert heights
        assert max(heights) < 48


def test_cause_with_long_reason_takes_two_lines(browser: Browser, server: RunningCollector) -> None:
    shown_fleet.fill_quickly(server, range(2))
    for name in ("node00000.dc0.example.com", "node00001.dc1.example.com"):
        shown_fleet.judge(
            server, name, "failed", "step Packages failed: " + "no mirror could be reached, " * 40
        )
    lines = """parts => parts.map(
        part => part.getBoundingClientRect().height / parseFloat(getComputedStyle(part).lineHeight))"""
    with open_signed_in_page(browser, server, viewport={"width": 1400, "height": 900}) as page:
        (cause,) = page.locator(".same-cause summary").evaluate_all(lines)
        assert cause < 2.1
        left = "part => part.getBoundingClientRect().left"
        with_cause = page.locator(".same-cause .reason").first.evaluate(left)
        page.goto(f"{server.url}/?each=1")
        reasons = page.locator("[data-row] .reason").evaluate_all(lines)
        assert [round(each) for each in reasons] == [2, 2]
        assert abs(page.locator("[data-row] .reason").first.evaluate(left) - with_cause) < 2, "they align"


def test_cluster_change_appears_without_reload(browser: Browser, server: RunningCollector) -> None:
    cluster, infra_env, host = new_id(), new_id(), new_id()
    admin = server.client("admin")
    mapping = {"id": host, "cluster_id": cluster, "infra_env_id": infra_env, "single_node": True}
    admin.ask("PUT", "/api/v1/hosts/web1", data=mapping)
    base = f"/api/assisted-install/v2/infra-envs/{infra_env}/hosts"
    server.settle()
    with open_signed_in_page(browser, server, **PHONE) as page, open_signed_in_page(browser, server) as fleet:
        page.goto(f"{server.url}/clusters/{cluster}")
        expect(page.locator(".verdict")).to_contain_text("installing: 0 of 1 control-plane hosts")
        expect(page.locator("p.verdict .word")).to_have_class("word running strong")

        admin.ask("POST", base, data={"host_id": host})
        expect(page.locator("tbody")).to_contain_text("fix boot order")
        expect(fleet.locator("table.clusters")).to_contain_text("web1: installing-pending-user-action.")
        expect(fleet.locator("table.clusters .word")).to_have_class("word interrupted strong")
        expect(page.locator("p.verdict .word")).to_have_class("word interrupted strong")
        assert page.evaluate("document.documentElement.scrollWidth") == 360
        with open_signed_in_page(browser, server, viewport={"width": 390, "height": 844}) as phone:
            first = phone.locator("[data-row]").first
            assert first.evaluate("row => row.getBoundingClientRect().top") < 844 / 2

        admin.ask("PUT", f"{base}/{host}/progress", data={"current_stage": "Done"})
        expect(page.locator(".verdict")).to_contain_text(
            "installed: 1 of 1 control-plane hosts are installed."
        )
        expect(fleet.locator("table.clusters .word")).to_have_text("✓ installed")


def test_text_of_a_host_never_runs_as_script(browser: Browser, server: RunningCollector) -> None:
    admin = server.client("admin")
    for number, payload in enumerate(PAYLOADS):
        fields = {"action": payload, "group": payload, "release": payload, "build": payload, "boot": payload}
        admin.step(f"web{number}", payload, "init", label=payload, **fields)
        admin.step(f"web{number}", payload, "failed", logs=payload, label=payload, **fields)
        admin.step(f"web{number}", "status", payload, percentage=payload, **fields)
        shown_fleet.judge(server, f"web{number}", "failed", payload)
        bundle = {"build": 1, "kind": "host", "name": payload, "key": str(number), "size": 1, "sha256": ""}
        bundle |= {"reason": payload, "left_out": payload, "boots": payload, "verdict": payload[:16]}
        shown_fleet.add(server, bundles, f"web{number}", received_at=1.0, **bundle)
        event = {"severity": payload[:16], "name": payload, "message": payload}
        shown_fleet.add(server, events, f"web{number}", received_at=1.0, **event)
    records = {payload.replace("/", "-"): failed_run(payload, error_message=payload) for payload in PAYLOADS}
    shown_fleet.send_records(server, "web0", **records)
    with open_signed_in_page(browser, server) as page:
        harm = _watched(page, server.url)
        page.goto(f"{server.url}/hosts/web0")
        expect(
            page.get_by_role("heading", name="Root cause")
        ).to_be_visible()  # it appears when the analysis is ready
        paths = ["/", "/statistics", "/hosts/web0/analysis"]
        for path in paths + [f"/hosts/web{number}" for number in range(len(PAYLOADS))]:
            page.goto(server.url + path)
            for details in page.locator("details").all():
                details.evaluate("element => element.open = true")
        asked = [(name, payload) for payload in PAYLOADS for name in ("group", "machine", "release", "next")]
        for path in ("/", "/statistics", "/login", "/events/nothing"):
            page.goto(f"{server.url}{path}?{urlencode(asked)}")

        page.goto(server.url)  # also as a live update
        expect(page.locator("[data-live-state]")).to_have_text("Live")
        admin.step("web0", f"news {PAYLOADS[1]}", "done", logs=PAYLOADS[1])
        expect(page.locator("[data-row=web0]")).to_contain_text(
            f"news {PAYLOADS[1]}"
        )  # in the message or the reason

        assert harm == []
        assert page.evaluate("window.harmed") is None


def _watched(page: Page, home: str) -> list[str]:
    """Return a list that grows with each console error, foreign request and dialog of the page."""
    harm: list[str] = []

    def look(message: ConsoleMessage) -> None:
        if message.type == "error" and "404" not in message.text:
            harm.append(message.text)

    def follow(request: Request) -> None:
        if not request.url.startswith(home):
            harm.append(request.url)

    def refuse(dialog: Dialog) -> None:
        harm.append(dialog.message)
        dialog.dismiss()

    page.on("console", look)
    page.on("pageerror", lambda error: harm.append(str(error)))
    page.on("dialog", refuse)
    page.on("request", follow)
    return harm
