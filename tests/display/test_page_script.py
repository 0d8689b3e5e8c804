"""The script of pages in Chromium: filter, zoom, bars, copy buttons; and the same page without it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.collector.chromium import start_browser
from tests.command_line import service_record
from tests.triage.test_triage import NO_IMAGE, failing

pytestmark = pytest.mark.xdist_group("script of pages")
BAR = '.chart li[data-name="bootkube: cvo-bootstrap"] a'


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with start_browser() as opened:
        yield opened


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page whose errors fail the test, among them refusals by its policy."""
    errors: list[str] = []
    with browser.new_context(viewport={"width": 1400, "height": 900}) as context:
        context.set_default_timeout(10_000)
        made = context.new_page()
        made.on("pageerror", lambda error: errors.append(str(error)))
        made.on("console", lambda line: errors.append(line.text) if line.type == "error" else None)
        made.on("request", lambda request: errors.append(request.url) if "file:" not in request.url else None)
        yield made
    assert not errors


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    for verb in ("analyze", "timeline", "show"):
        answer = service_record(verb, "--from", "example:failed-stage", "--output", "html")
        (folder / f"{verb}.html").write_text(answer.out)
    return folder


def opened(page: Page, file: Path) -> Page:
    page.goto(file.as_uri())
    return page


def shown_rows(page: Page) -> list[str]:
    rows = page.locator(".chart > li[data-name]:visible")
    return [row.get_attribute("data-name") or "" for row in rows.all()]


def box_of(page: Page, bar: str = BAR) -> tuple[float, float]:
    box = page.locator(f"{bar} rect").first.bounding_box()
    assert box is not None
    return box["x"], box["width"]


def test_filter_hides_what_does_not_match(page: Page, files: Path) -> None:
    opened(page, files / "timeline.html")
    page.keyboard.press("/")
    page.keyboard.type("CVO bootkube")
    assert shown_rows(page) == ["bootkube", "bootkube: cvo-bootstrap"]
    expect(page.get_by_text("oc patch infrastructure")).to_be_hidden()
    expect(page.get_by_role("status").first).to_contain_text(" shown")

    page.keyboard.press("Escape")
    assert len(shown_rows(page)) > 10
    expect(page.get_by_text("oc patch infrastructure")).to_be_visible()


def test_only_troubles_keeps_rows_that_failed(page: Page, files: Path) -> None:
    opened(page, files / "timeline.html").get_by_label("only troubles").check()
    assert shown_rows(page) == [
        *("bootkube", "bootkube: cvo-bootstrap"),
        *("report-progress", "report-progress: report-bootstrapping"),
    ]


def test_drag_zooms_and_keys_move_and_reset(page: Page, files: Path) -> None:
    opened(page, files / "timeline.html")
    left, width = box_of(page)
    row = page.locator(f"{BAR} rect").first.bounding_box()
    assert row is not None
    height = row["y"] + row["height"] / 2
    page.mouse.move(left, height)
    page.mouse.down()
    page.mouse.move(left + width, height, steps=4)
    page.mouse.up()
    axis = page.locator(".chart .axis svg").bounding_box()
    assert axis is not None
    zoomed_left, zoomed_width = box_of(page)
    # The mouse has whole pixels, which are magnified.
    assert abs(zoomed_left - axis["x"]) < 10
    assert abs(zoomed_width - axis["width"]) < 20
    assert page.locator(".panel").count() == 0, "a drag is no click"
    period = page.locator(".zoom output").inner_text()
    assert " to " in period

    page.locator(BAR).focus()
    page.keyboard.press("-")
    assert box_of(page)[1] < zoomed_width * 0.6
    before = box_of(page)[0]
    page.keyboard.press("ArrowLeft")
    assert box_of(page)[0] > before
    page.keyboard.press("0")
    assert abs(box_of(page)[1] - width) < 2  # the bar in focus has a wider edge


def test_filter_finds_folded_stages(page: Page, files: Path) -> None:
    opened(page, files / "timeline.html")
    whole = shown_rows(page)
    fold = page.get_by_role("button", name="Stages of bootkube")
    fold.press("Enter")
    assert [row for row in whole if row not in shown_rows(page)] == [
        "bootkube: etcd-bootstrap",
        "bootkube: wait-for-etcd",
        "bootkube: cvo-bootstrap",
    ]
    expect(fold).to_have_attribute("aria-expanded", "false")
    page.get_by_label("Filter", exact=True).fill("cvo")
    assert shown_rows(page) == ["bootkube", "bootkube: cvo-bootstrap"]
    page.get_by_label("Filter", exact=True).fill("")
    page.get_by_role("button", name="Fold stages").click()
    assert not [row for row in shown_rows(page) if ":" in row]
    page.get_by_role("button", name="Fold stages").click()
    assert shown_rows(page) == whole


def test_overview_moves_the_zoomed_part(page: Page, files: Path) -> None:
    opened(page, files / "timeline.html")
    strip, frame = page.locator(".overview svg"), page.locator(".overview .frame")
    expect(strip).to_be_hidden()
    page.get_by_role("button", name="Zoom in (+)").click()
    around, before = strip.bounding_box(), frame.bounding_box()
    assert around is not None
    assert before is not None
    assert abs(before["width"] - around["width"] / 2) < 4
    page.mouse.move(around["x"] + around["width"] / 2, around["y"] + 5)
    page.mouse.down()
    page.mouse.move(around["x"] + around["width"], around["y"] + 5, steps=4)
    page.mouse.up()
    after = frame.bounding_box()
    assert after is not None
    assert abs(after["x"] + after["width"] - around["x"] - around["width"]) < 4, (
        "the frame stays in the chart"
    )
    assert page.locator(".selection").count() == 0
    page.get_by_role("button", name="Whole").click()
    expect(strip).to_be_hidden()


def test_wheel_with_ctrl_zooms_where_the_pointer_is(page: Page, files: Path) -> None:
    opened(page, files / "timeline.html")
    left, width = box_of(page)
    page.locator(f"{BAR} rect").first.hover()
    page.keyboard.down("Control")
    page.mouse.wheel(0, -300)
    page.keyboard.up("Control")
    page.wait_for_function("document.querySelector('.zoomed') !== null")
    zoomed_left, zoomed_width = box_of(page)
    assert zoomed_width > 2 * width
    assert abs(zoomed_left + zoomed_width / 2 - (left + width / 2)) < 3


def test_two_fingers_zoom_and_one_moves(browser: Browser, files: Path) -> None:
    with browser.new_context(
        viewport={"width": 390, "height": 800}, has_touch=True, is_mobile=True
    ) as context:
        page = opened(context.new_page(), files / "timeline.html")
        axis = page.locator(".chart .axis svg")
        axis.scroll_into_view_if_needed()
        box = axis.bounding_box()
        assert box is not None
        session = context.new_cdp_session(page)

        def touch(kind: str, *places: float) -> None:
            points = [
                {"x": box["x"] + place, "y": box["y"] + 12, "id": number}
                for number, place in enumerate(places)
            ]
            session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

        width = box_of(page)[1]
        touch("touchStart", 140, 180)
        for step in range(1, 9):
            touch("touchMove", 140 - 8 * step, 180 + 8 * step)
        touch("touchEnd")
        assert box_of(page)[1] > 2 * width

        before = box_of(page)[0]
        touch("touchStart", 100)
        for step in range(1, 9):
            touch("touchMove", 100 + 5 * step)
        touch("touchEnd")
        assert box_of(page)[0] > before


def test_click_on_a_bar_shows_its_details(page: Page, files: Path) -> None:
    opened(page, files / "timeline.html").locator(BAR).click()
    panel = page.locator(".panel")
    expect(panel).to_contain_text("bootkube: cvo-bootstrap, attempt 1: failed")
    expect(panel).to_contain_text("End entry2026-11-21T13:35:07")
    expect(panel).to_contain_text("lookup registry.lab.example.net on 192.0.2.53:53: no such host")
    page.keyboard.press("Escape")
    expect(panel).to_have_count(0)
    expect(page.locator(BAR)).to_be_focused()


def test_bar_links_to_its_folded_table_row(page: Page, files: Path) -> None:
    opened(page, files / "timeline.html")
    place = page.locator('.chart li[data-name="bootkube: wait-for-etcd"] a').get_attribute("href") or ""
    opened(page, Path(f"{files}/timeline.html")).evaluate("place => { location.hash = place }", place)
    line = page.locator(place)
    expect(line).to_be_visible()
    expect(line).to_contain_text("bootkube: wait-for-etcd")


def test_copy_buttons_copy_the_command(browser: Browser, files: Path) -> None:
    with browser.new_context() as context:
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        page = opened(context.new_page(), files / "analyze.html")
        page.get_by_role("button", name="Copy command 1", exact=True).click()
        assert page.evaluate("navigator.clipboard.readText()") == "getent ahosts registry.lab.example.net"
        page.get_by_role("button", name="Copy the text for a ticket").click()
        expect(page.get_by_role("button", name="Copy the text for a ticket")).to_have_text("Copied")
        copied = page.evaluate("navigator.clipboard.readText()")
        assert copied.startswith("✗ failed: bootkube in stage cvo-bootstrap")
        assert "getent ahosts registry.lab.example.net" in copied


def test_page_without_script_is_complete(browser: Browser, files: Path) -> None:
    with browser.new_context(java_script_enabled=False) as context:
        page = opened(context.new_page(), files / "analyze.html")
        expect(page.get_by_role("heading", name="failed: bootkube in stage cvo-bootstrap")).to_be_visible()
        expect(page.get_by_text("getent ahosts registry.lab.example.net").first).to_be_attached()
        assert page.locator("button, input").count() == 0
        page.get_by_text("The same as a table").click()
        expect(page.get_by_role("cell", name="0.31s")).to_be_visible()


def test_script_of_a_record_never_runs(page: Page, tmp_path: Path) -> None:
    text = service_record("show", "--from", "example:good", "--output", "html").out
    hostile = text.replace("</main>", "<script>document.title = 'taken'</script></main>")
    (tmp_path / "page.html").write_text(hostile)
    with page.context.browser.new_context() as context:  # type: ignore[union-attr]  # has one
        other = opened(context.new_page(), tmp_path / "page.html")
        assert other.title() != "taken"


def test_print_unfolds_everything(page: Page, files: Path) -> None:
    opened(page, files / "show.html")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details:not([open])").count() == 0
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("details[open]").count() == 0


def test_causes_of_many_bundles_are_folded(page: Page, tmp_path: Path) -> None:
    for number in range(3):
        failing(tmp_path / f"image-{number}.tar.gz", NO_IMAGE, number * 86_400.0)
    words = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "mu"]
    for word in words:
        failing(tmp_path / f"{word}.tar.gz", " ".join([word] * 4))
    (tmp_path / "page.html").write_text(service_record("triage", tmp_path, "--output", "html").out)
    page.set_viewport_size({"width": 390, "height": 800})
    opened(page, tmp_path / "page.html")

    expect(page.get_by_text("image-not-found (cause)")).to_be_hidden()
    assert page.locator("details.cause:visible").count() == 11
    page.locator("details.cause summary").first.click()
    expect(page.get_by_text("image-not-found (cause)")).to_be_visible()

    page.get_by_role("searchbox").fill("mu mu")
    expect(page.locator("details.cause:visible")).to_have_count(1)
