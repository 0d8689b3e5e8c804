"""Pages of one file: what is in them, and what never is."""

import base64
import hashlib
import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from itertools import product
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from service_record.display.charts import charts
from service_record.display.drawing import boot_drawing, join_bars
from service_record.display.html.rendering import page, section, stylesheet
from service_record.display.html.show_page import show_html
from service_record.display.html.timeline_page import timeline_html
from service_record.display.text import Ink, View
from service_record.history import build_history
from service_record.history.build import latest_entry
from service_record.record.entry import Entry, Malformed, Phase, Result
from service_record.record.visible import visible
from tests.builders import START, entry, failed_run
from tests.command_line import service_record
from tests.pages import Page, parse_page
from tests.timelines import assign_run, host, stage, write_host

VIEW = View(now=START + timedelta(hours=1))
HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(2)>&lt;b&gt;'
Records = Mapping[str, Iterable[Entry | Malformed]]


def html(records: Records, source: str = "/var/log/openshift", *, flat: bool = False) -> str:
    found = build_history(records.items())
    return timeline_html(found, source, charts(found, latest_entry(found), by_duration=flat), VIEW, flat=flat)


def seen(records: Records) -> Page:
    return parse_page(html(records))


def bars(found: Page) -> list[str]:
    """Return the outcome of each bar, of all charts."""
    return [node.attributes["class"] for node in found.all("rect") if node.path[-1] == "a"]


def test_every_execution_is_a_bar_with_its_outcome() -> None:
    found = seen(host())
    assert bars(found) == [
        *["success"] * 4,
        *["interrupted", "success", "interrupted"],
        *["failure"] * 3,
        "success",
        *["success"] * 3,
        *["failure"] * 3,
        *["running"] * 2,
    ]


def test_outcomes_have_signs_and_words() -> None:
    found = seen(host())
    signs = [node.text for node in found.all("text") if "a" in node.path]
    assert "".join(signs) == "✓✓✓✓▲✓▲✗✗✗✓✓✓✓✗✗✗→→"
    assert "bootkube, attempt 2: failed in stage cvo-bootstrap, from 2m 20s to 2m 50s, 30.0s" in found.texts(
        "title"
    )
    assert "approve-csr, attempt 1: running in stage wait-for-api, from 1m 30s, 2m 20s+" in found.texts(
        "title"
    )


def test_every_failure_stands_with_its_journal_lines() -> None:
    found = seen(host())
    assert found.texts("h4") == ["▲ interrupted in stage start", "✗ stage cvo-bootstrap failed"]
    assert (
        'Error: no such image\nunable to pull \\x1b[31mred\\x1b[0m <b title="&amp;">\nExited'
        in found.texts("pre")
    )
    assert "3 times, the last: attempt 3, exit 1 after 30.0s, 2026-11-21 01:08:00Z" in found.texts("p")


def test_failure_that_the_run_survived_is_shown() -> None:
    failed = entry(Phase.STAGE_END, 5, stage="try", result=Result.FAILURE, error_message="refused")
    found = seen({"job": [entry(), *stage("try", 1), failed, entry(Phase.SERVICE_END, 9)]})
    assert found.texts("h4") == ["✗ stage try failed"]
    assert any(text.endswith("; the run succeeded") for text in found.texts("p"))


def test_the_table_has_what_the_chart_has() -> None:
    found = seen({"job": failed_run()})
    heads = [node.text for node in found.all("th") if node.attributes["scope"] == "row"]
    assert heads == ["job", "job: second"]
    assert found.texts("td") == [
        *("1", "✗ failed", "1m", "1m 10s", "10.0s", "2026-11-21T01:05:10.000Z", "2026-11-21T01:05:20.000Z"),
        *("1", "✗ failed", "1m 1s", "1m 10s", "9.0s", "2026-11-21T01:05:11.000Z", "2026-11-21T01:05:20.000Z"),
    ]


def test_all_that_is_linked_to_is_there_once() -> None:
    found = seen({**host(), "again": failed_run(error_message="x")})
    ids = [node.attributes["id"] for node in found.nodes if "id" in node.attributes]
    links = [node.attributes["href"] for node in found.all("a")]
    assert len(ids) == len(set(ids))
    assert {link.removeprefix("#") for link in links} <= set(ids)
    assert all(link.startswith("#") for link in links)


def test_a_page_needs_nothing_but_itself() -> None:
    text = html(host())
    found = parse_page(text)
    names = {name for node in found.nodes for name in node.attributes}
    assert {"link", "img", "iframe", "object"}.isdisjoint(node.tag for node in found.nodes)
    assert not {name for name in names if name.startswith("on") or name in {"src", "srcset"}}
    assert set(re.findall(r"url\((.*?)\)", text)) == {"#broken", "#hatched"}
    assert "@import" not in text
    policy = next(node for node in found.all("meta") if "http-equiv" in node.attributes)
    (script,) = found.texts("script")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy.attributes["content"] == (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    )
    assert not re.search(r"fetch\(|XMLHttpRequest|import\(|https?:(?!//www.w3.org/2000/svg)", script)


def test_no_text_becomes_markup() -> None:
    run = failed_run(HOSTILE, error_message=HOSTILE, command=HOSTILE, error_line=f"1 {HOSTILE} /x")
    records: Records = {HOSTILE: [*run, Malformed(5, HOSTILE, HOSTILE)]}
    found = parse_page(html(records, HOSTILE))
    plain_run = failed_run("name", error_message="m", command="c")
    plain = seen({"name": [*plain_run, Malformed(5, "t", "r")]})
    assert [node.tag for node in found.nodes] == [node.tag for node in plain.nodes]
    assert found.texts("h1") == [f"Timeline of {HOSTILE}"]
    assert HOSTILE in found.texts("h3")


@given(st.text(max_size=40), st.text(max_size=200))
def test_hostile_text_is_shown_and_harmless(name: str, message: str) -> None:
    found = seen({f"job{name}": failed_run(f"stage{name}", error_message=f"said{message}")})
    assert visible(f"job{name}") in found.texts("h3")
    shown = "\n".join(visible(line) for line in f"said{message}".split("\n"))
    assert shown in [text.replace("\r", "") for text in found.texts("pre")]


INKS = ("text", "faint", "link", "success", "failure", "interrupted", "running", "stopped")


def test_texts_are_readable_in_both_colour_schemes() -> None:
    palettes = [dict(re.findall(r"--(\w+): (#\w+);", each)) for each in stylesheet().split(":root")[1:]]
    assert len(palettes) == 2
    for palette in palettes:
        assert set(palette) == {*INKS, "ground", "panel", "line"}
        for ink, ground in product(INKS, ("ground", "panel")):
            lighter, darker = sorted((luminance(palette[ink]), luminance(palette[ground])), reverse=True)
            assert (lighter + 0.05) / (darker + 0.05) >= 4.5, (ink, ground)


def luminance(color: str) -> float:
    """Relative luminance as WCAG 2 defines it, of `#rrggbb`."""
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_page_of_thousands_of_restarts_stays_small() -> None:
    runs = [
        one for n in range(3000) for one in assign_run(n, failed_run(at=11.0 * n, error_message=f"try {n}"))
    ]
    text = html({"job": runs})
    found = parse_page(text)
    assert len(text) < 100_000
    assert found.texts("h4") == ["✗ stage second failed"]
    assert any("3000 executions failed" in title for title in found.texts("title"))
    assert any("2980 earlier executions left out" in cell for cell in found.texts("td"))


def test_only_short_close_equal_bars_are_joined() -> None:
    good = [entry(at=40), entry(Phase.SERVICE_END, 41)]
    runs = [*(failed_run(at=at) for at in (0, 11, 22)), good, failed_run(at=50), failed_run(at=500)]
    found = build_history([("job", [one for n, run in enumerate(runs) for one in assign_run(n, run)])])
    (chart,) = charts(found, latest_entry(found))
    drawn = join_bars(boot_drawing(chart, 1, {}, VIEW).rows[0].bars, 15, chart.end)
    assert [(one.bar.look, one.begin, one.end, one.count) for one in drawn] == [
        ("failure", 60, 92, 3),
        ("success", 100, 101, 1),
        ("failure", 110, 120, 1),
        ("failure", 560, 570, 1),
    ]
    assert [one.is_followed for one in drawn] == [True, True, False, False]


def test_what_took_longest_comes_first_by_duration() -> None:
    found = parse_page(html(host(), flat=True))
    labels = [
        node.text
        for node in found.all("span")
        if node.path[-1] == "span" and set(node.classes) & {"strong", "plain"}
    ]
    assert labels[:3] == ["approve-csr", "approve-csr: wait-for-api", "kubelet"]


def test_a_page_holds_any_sections() -> None:
    lead = [(("a <b>", Ink.BAD), (" c", Ink.PLAIN))]
    sections = [section("one", "First", "parts.html", "items", texts=["two\nlines", "<i>"])]
    found = parse_page(page("All & sundry", lead, sections, START, summary=lead))
    assert found.texts("title") == found.texts("h1") == ["All & sundry"]
    assert [(node.text, node.attributes["href"]) for node in found.all("a")][1:] == [
        ("First", "#one"),
        ("#", "#one"),
    ]
    assert found.texts("pre") == ["a <b> c\n"]
    assert any(
        text.startswith("page made 2026-11-21T01:05:10Z by service-record") for text in found.texts("p")
    )
    assert found.texts("span", "failure") == ["a <b>"]
    assert [node.text for node in found.all("li") if node.path[-2] == "section"] == ["two\nlines", "<i>"]


def test_healthy_host_has_no_failure_section() -> None:
    found = seen({"job": [entry(), entry(Phase.SERVICE_END, 5)]})
    assert found.texts("h2") == ["Boot 1 of 1"]


def test_page_with_a_set_time_is_reproducible(tmp_path: Path) -> None:
    call = ("timeline", "--output", "html", "--from", str(write_host(tmp_path)))
    pages = [
        parse_page(service_record(*call, SOURCE_DATE_EPOCH=epoch).out) for epoch in ("1795564800", "later")
    ]
    made = [next(text for text in found.texts("p") if text.startswith("page made ")) for found in pages]
    assert made[0].startswith("page made 2026-11-25T00:00:00Z by service-record ")
    assert made[1] > made[0]


def test_the_command_line_prints_one_page(tmp_path: Path) -> None:
    answer = service_record("timeline", "--output", "html", "--from", write_host(tmp_path), LC_ALL="C")
    found = parse_page(answer.out)
    assert (answer.status, found.texts("h1")) == (0, [f"Timeline of {tmp_path}"])
    assert found.texts("h2") == ["Boot 1 of 1", "Failures"]


def test_show_page_has_failures_first() -> None:
    history = build_history(host().items())
    text = show_html(history, "here", (), VIEW)

    folded = re.findall('<details class="service"[^>]*><summary>(.*?)</summary>', text, re.DOTALL)
    names = sorted(service.name for service in history.services if service.runs)
    assert sorted(re.sub("<.*?>", "", each).split()[1] for each in folded) == names
    assert parse_page(text).texts("h2")[:2] == ["Failures", "Services"]


def test_page_of_show_escapes_what_a_record_says() -> None:
    runs = failed_run(error_message=HOSTILE)
    text = show_html(build_history([("job", runs)]), HOSTILE, (), VIEW)

    assert len(parse_page(text).all("script")) == 1
    assert "<img" not in text


def test_show_page_has_newest_runs_of_a_loop() -> None:
    entries = [
        each for number in range(1, 201) for each in failed_run(invocation_id=f"{number:032x}", pid=number)
    ]
    history = build_history([("job", entries)])
    text = show_html(history, "here", (), VIEW)

    assert text.count("job</span> <span") <= 51  # and the line in front
    assert f"and {len(history.services[0].runs) - 50} earlier runs" in text


def test_diff_page_has_a_card_for_each_difference() -> None:
    answer = service_record("diff", "example:good", "example:failed-stage", "--output", "html")
    found = parse_page(answer.out)

    assert answer.status == 1
    assert len(found.all("article")) == 4  # three that differ, and those that are alike
    named = [article.attributes["id"] for article in found.all("article") if "id" in article.attributes]
    assert [link.attributes["href"] for link in found.all("a", "anchor")][1:] == [
        f"#{each}" for each in named
    ]
    assert found.all("article")[0].classes == ["card", "failure"]
    assert found.texts("title") == ["example:failed-stage compared with example:good"]
