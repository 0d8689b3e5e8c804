"""The last lines of a service: stored with limits, masked, and shown until they are replaced."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select

from service_record.collector.serving_settings import CollectorSettings
from service_record.collector.store.record_rows import MOST_SERVICES
from service_record.collector.store.schema import last_words
from service_record.http.collector_answers import LONGEST_LINE, MOST_LINES
from tests.collector.browsing import sign_in_visitor
from tests.collector.installing import Clock
from tests.collector.serving import Client, Reply, RunningCollector, run_collector
from tests.collector.test_events import state_of, streaming
from tests.collector.test_sweep import eventually, verdict
from tests.command_line import service_record
from tests.pages import parse_page
from tests.schemas import check


@pytest.fixture(scope="module")
def server(shared_settings: CollectorSettings) -> Iterator[RunningCollector]:
    """One collector for all tests of the module. Each test uses its own host."""
    with run_collector(shared_settings) as running:
        yield running


def send(client: Client, host: str, service: str, *lines: str, stage: str = "") -> Reply:
    body = {"service": service, "stage": stage, "lines": list(lines)}
    return client.ask("PUT", f"/api/v1/hosts/{host}/last-words", data=body)


def kept(server: RunningCollector, host: str) -> list[tuple[str, str, str]]:
    shown = server.client("reader").get(f"/api/v1/hosts/{host}").json["last_words"]
    return [(words["service"], words["stage"], words["text"]) for words in shown]


def test_newest_lines_of_each_service_are_kept(server: RunningCollector, host: str) -> None:
    client = server.client("host", host)
    send(client, host, "bootkube", "one", stage="pull")
    send(client, host, "crio", "ready")

    reply = send(client, host, "bootkube", "two", "three", stage="render")

    assert reply.status == 204
    assert kept(server, host) == [("bootkube", "render", "two\nthree"), ("crio", "", "ready")]


def test_empty_lines_delete_the_kept_ones(server: RunningCollector, host: str) -> None:
    client = server.client("host", host)
    send(client, host, "bootkube", "one")

    assert send(client, host, "bootkube").status == 204
    assert kept(server, host) == []


def test_host_cannot_keep_more_than_its_share(server: RunningCollector, host: str) -> None:
    client = server.client("host", host)
    full = ["x" * LONGEST_LINE] * MOST_LINES
    for number in range(MOST_SERVICES + 3):
        assert send(client, host, f"service-{number}", *full).status == 204

    services = [service for service, _, _ in kept(server, host)]
    assert services == [f"service-{number}" for number in range(MOST_SERVICES + 2, 2, -1)]
    assert send(client, host, "crio", *full, "one more").status == 400
    assert send(client, host, "crio", "x" * (LONGEST_LINE + 1)).status == 400


def test_text_of_a_shell_replaces_the_lines(server: RunningCollector, host: str) -> None:
    client, path = server.client("host", host), f"/api/v1/hosts/{host}/last-words"
    text = "".join(f"line {number}\r\n" for number in range(30)) + "x" * 1000 + "\npassword=sw0rdfish99 \xff"
    form = {"Content-Type": "application/x-www-form-urlencoded"}

    reply = client.ask(
        "POST", f"{path}?service=kickstart&stage=Packages", body=text.encode("latin-1"), headers=form
    )

    assert reply.status == 204
    ((service, stage, found),) = kept(server, host)
    lines = found.split("\n")
    assert (service, stage, len(lines), lines[0]) == ("kickstart", "Packages", MOST_LINES, "line 12")
    assert lines[-2] == "x" * LONGEST_LINE
    assert "sw0rdfish99" not in lines[-1]
    assert client.ask("POST", f"{path}?stage=Packages", body=b"x").status == 400
    assert server.client("host", "other").ask("POST", f"{path}?service=a", body=b"x").status == 403


def test_lines_are_masked_again(server: RunningCollector, host: str) -> None:
    send(
        server.client("host", host),
        host,
        "crio",
        "curl -u core:hunter2secret https://x",
        "password=sw0rdfish99",
    )

    ((_, _, text),) = kept(server, host)
    assert "sw0rdfish99" not in text
    assert "curl" in text


def test_other_hosts_token_is_refused(server: RunningCollector, host: str) -> None:
    send(server.client("host", host), host, "crio", "ours")

    assert send(server.client("host", "another"), host, "crio", "theirs").status == 403
    assert kept(server, host) == [("crio", "", "ours")]


def test_lines_go_with_their_host(server: RunningCollector, host: str) -> None:
    send(server.client("host", host), host, "only-of-this-test", "one")

    server.client("admin").ask("DELETE", f"/api/v1/hosts/{host}")

    with server.collector.database.reading() as connection:
        own = last_words.c.service == "only-of-this-test"
        assert connection.execute(select(last_words).where(own)).all() == []


def test_page_shows_lines_under_their_open_step(server: RunningCollector, host: str) -> None:
    client = server.client("host", host)
    client.step(host, "Disk setup", "init")
    send(client, host, "installer", "wiping /dev/sda", stage="Disk setup")
    send(client, host, "crio", "<b>starting</b>")

    page = sign_in_visitor(server).page(f"/hosts/{host}")

    of_rows = [node.text for node in page.all("pre") if "tr" in node.path]
    others = [node.text for node in page.all("pre") if "tr" not in node.path]
    assert of_rows == ["wiping /dev/sda"]
    assert others == ["<b>starting</b>"]


def test_open_page_gets_new_lines(running: RunningCollector, host: str) -> None:
    client, visitor = running.client("host", host), sign_in_visitor(running)
    send(client, host, "crio", "one")
    running.settle()
    with streaming(visitor, host=host, state=state_of(visitor, f"/hosts/{host}")) as stream:
        assert stream.quiet() == ": nothing new\n"

        send(client, host, "crio", "two")

        kind, change = stream.next()
    assert kind == "change"
    assert parse_page(change["whole"]).texts("pre") == ["two"]


def test_lines_do_not_keep_a_host_from_being_stuck(sqlite_settings: CollectorSettings) -> None:
    clock = Clock()
    with run_collector(sqlite_settings, clock) as server:
        client = server.client("host", "web1")
        client.step("web1", "Disk setup", "init")
        server.settle()
        for minutes in (10, 20):
            clock.now += 10 * 60
            send(client, "web1", "crio", f"still waiting after {minutes} minutes")
        server.collector.sweeper.wake()
        eventually(lambda: verdict(server.client("reader"), "web1"), "stuck")


def test_hosts_show_ends_with_the_last_lines(running: RunningCollector, host: str, tmp_path: Path) -> None:
    send(running.client("host", host), host, "crio", "\x1b[31mone", "two", stage="pull")
    token = tmp_path / "token"
    token.write_text(running.client("reader").token)

    def shown(form: str) -> str:
        place = ("--from", running.url, "--token-file", token)
        return service_record("hosts", "show", host, "--output", form, *place).out

    heading, *lines = shown("table").splitlines()[-3:]
    assert heading.startswith("  crio, stage pull, received ")
    assert lines == ["     [31mone", "    two"]
    document = json.loads(shown("json"))
    check(document, "host")
    assert [words["text"] for words in document["last_words"]] == [" [31mone\ntwo"]
