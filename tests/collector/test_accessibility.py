"""Check the accessibility of pages and HTML files with axe: on a screen and a phone, light and dark."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

import pytest
from axe_playwright_python.base import AXE_FILE_PATH
from playwright.sync_api import Browser, Page

from service_record.collector.domain.access import TokenKind
from tests.assisted_installation import new_id
from tests.collector import browsing, shown_fleet
from tests.collector.browsing import wait_until_analysed
from tests.collector.chromium import open_signed_in_page, start_browser
from tests.collector.serving import RunningCollector, make_collector_settings, run_collector
from tests.command_line import service_record
from tests.faults import Faults
from tests.timelines import write_host
from tests.triage.test_triage import NO_IMAGE, NO_SPACE, failing

pytestmark = pytest.mark.xdist_group("pages for axe")
SIZES: Final = ((1400, 900), (360, 740))
EVERYTHING: Final = "axe.run()"
COLOURS: Final = "axe.run({runOnly: ['color-contrast']})"
LOOKS: Final[tuple[tuple[Literal["light", "dark"], str], ...]] = (("light", EVERYTHING), ("dark", COLOURS))
"""In the dark scheme, only colours differ."""
THIN_OUT: Final = """() => {
  const count = {};
  for (const part of document.querySelectorAll("tr, li, svg a")) {
    const whole = part.parentElement;
    const kind = [part.tagName, part.className, whole.tagName, whole.className];
    count[kind] = (count[kind] || 0) + 1;
    if (count[kind] > 3 && whole.childElementCount > 1) part.remove();
  }
}"""
"""Keeps three rows of each kind and one item of each list, because axe takes quadratic time."""
FAILED: Final = "web03.dc2.example.com"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with start_browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCollector]:
    """Three hundred hosts: two are a cluster, in which one waits for its user; one has records; one cause is
    acknowledged.
    """
    with run_collector(make_collector_settings(tmp_path_factory.mktemp("fleet"))) as server:
        shown_fleet.fill(server)
        shown_fleet.fill_quickly(server, range(31, 301))
        shown_fleet.more_of_a_host(server, FAILED)
        shown_fleet.send_records(server, FAILED, **shown_fleet.failed_services(server.collector.now() - 20))
        wait_until_analysed(browsing.sign_in_visitor(server), FAILED)
        admin = server.client("admin")
        infra_env, waiting = new_id(), new_id()
        cluster = {"cluster_id": new_id(), "infra_env_id": infra_env}
        for name, host in (("web01.dc2.example.com", new_id()), ("web02.dc1.example.com", waiting)):
            admin.ask("PUT", f"/api/v1/hosts/{name}", data={"id": host, **cluster})
        base = f"/api/assisted-install/v2/infra-envs/{infra_env}/hosts"
        assert admin.ask("POST", base, data={"host_id": waiting}).status == 201
        admin.post(
            "/api/v1/mutes", kind="acknowledged", scope="host", subject=FAILED, duration="1h", note="new disk"
        )
        server.settle()
        yield server


def barriers(page: Page) -> list[str]:
    """Return what axe finds at each size, and of colours in each scheme too, with every part opened."""
    page.evaluate("document.querySelectorAll('details').forEach(part => { part.open = true })")
    page.evaluate(AXE_FILE_PATH.read_text(encoding="utf-8"))
    found = []
    for width, height in SIZES:
        page.set_viewport_size({"width": width, "height": height})
        taken = page.evaluate("document.documentElement.scrollWidth")
        found += [f"{width} px: it takes {taken} px"] if taken > width else []
    page.evaluate(THIN_OUT)
    for width, height in SIZES:
        page.set_viewport_size({"width": width, "height": height})
        for scheme, run in LOOKS:
            page.emulate_media(color_scheme=scheme)
            found += [f"{width} px, {scheme}: {each}" for each in _violations(page, run)]
    return found


def _violations(page: Page, run: str) -> list[str]:
    result = page.evaluate(run)
    assert result["passes"], "axe looked at nothing"
    return [
        f"{each['id']}: {each['help']}: {node['html'][:200]}"
        for each in result["violations"]
        for node in each["nodes"]
    ]


def test_collector_pages_pass_axe(browser: Browser, fleet: RunningCollector) -> None:
    with open_signed_in_page(browser, fleet, TokenKind.ADMIN) as page, Faults() as faults:
        (cluster,) = fleet.client("reader").get("/api/v1/clusters").json["clusters"]
        for path in (
            *("/", "/?each=1&verdict=failed", "/?machine=nobody", f"/hosts/{FAILED}"),
            *(f"/hosts/{FAILED}/analysis", "/hosts/web07.dc2.example.com", "/hosts/nobody", "/clusters"),
            *(f"/clusters/{cluster['id']}", "/mutes", "/groups?by=hardware", "/statistics"),
            "/statistics?by=group&by=release",
        ):
            page.goto(fleet.url + path)
            with faults.case(path):
                assert barriers(page) == []
        page.get_by_role("button", name="Sign out").click()
        page.wait_for_url("**/login")
        with faults.case("/login"):
            assert barriers(page) == []


def test_empty_and_huge_fleets_pass_axe(browser: Browser, tmp_path: Path) -> None:
    with (
        run_collector(make_collector_settings(tmp_path)) as server,
        open_signed_in_page(browser, server) as page,
    ):
        assert page.get_by_role("heading", name="The first host").is_visible()
        assert barriers(page) == []

        shown_fleet.fill_quickly(server, range(10_000))
        page.reload()
        assert "10000 hosts" in page.get_by_role("status").inner_text()
        assert page.locator("tr.same-cause").count() > 3
        assert barriers(page) == []


def test_html_files_pass_axe(browser: Browser, fleet: RunningCollector, tmp_path: Path) -> None:
    records, bundles, token = tmp_path / "records", tmp_path / "bundles", tmp_path / "token"
    records.mkdir()
    write_host(records)
    for number in range(3):
        failing(bundles / f"{number}.tar.gz", NO_IMAGE, number * 86_400.0)
    failing(bundles / "space.tar.gz", NO_SPACE)
    failing(bundles / "unknown.tar.gz", "frobnicate: widget 17 has lost its 4 sprockets")
    token.write_text(fleet.client("reader").token)
    source = fleet.url.replace("http", "collector+http")
    with browser.new_context() as context, Faults() as faults:
        page = context.new_page()
        for command in (
            ("timeline", "--from", records),
            ("analyze", "--from", records),
            ("show", "--from", records),
            ("diff", "example:good", "example:failed-stage"),
            ("triage", bundles),
            ("hosts", "--from", source, "--token-file", token, "--group", "dc1"),
        ):
            with faults.case(command[0]):
                answer = service_record(*command, "-o", "html")
                assert answer.out.startswith("<!DOCTYPE html>"), answer.err
                (tmp_path / "page.html").write_text(answer.out)
                page.goto((tmp_path / "page.html").as_uri())
                assert barriers(page) == []


def test_axe_reports_a_violation(browser: Browser) -> None:
    with browser.new_context() as context:
        page = context.new_page()
        page.set_content("<html><body><main><input><p style='color: #bbb'>grey</p></main></body></html>")
        found = {re.split(": ", each)[1] for each in barriers(page)}
        assert {"label", "color-contrast", "html-has-lang"} <= found
