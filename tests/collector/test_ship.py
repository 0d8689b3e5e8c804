"""`service-record ship` sends records to a collector, and other commands read them there."""

import contextlib
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from time import monotonic
from urllib.parse import urlsplit

import pytest

from service_record.http.address import NotTaken
from service_record.http.collector_client import CollectorClient
from service_record.http.record_sending import Sender
from service_record.record.directory import Records
from tests.assisted_rules import AssistedRules
from tests.builders import array, entry, failed_run, our_array, require, write_lines
from tests.collector.installing import Agent
from tests.collector.serving import Client, RunningCollector, make_collector_settings, run_collector
from tests.collector.test_bundles import FAILED, indexed
from tests.command_line import PROGRAM, Answer, environment, service_record
from tests.fuzz.raw_answers import format_answer
from tests.fuzz.raw_server import RawServer
from tests.running_server import get_refused_url
from tests.waiting import wait_for


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCollector]:
    """One collector for all tests of the module. Each test uses its own host."""
    with run_collector(make_collector_settings(tmp_path_factory.mktemp("collector"))) as running:
        yield running


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "records").mkdir()
    return tmp_path / "records"


def token_file(directory: Path, client: Client) -> Path:
    path = directory.parent / f"token-{client.token[:8]}"
    path.write_text(client.token)
    return path


def sender(server: RunningCollector, host: str, directory: Path) -> Sender:
    client = CollectorClient(server.url, server.client("host", host).token)
    return Sender(client, host, Records(directory))


def held(server: RunningCollector, host: str, service: str) -> bytes:
    return server.client("reader").get(f"/api/v1/hosts/{host}/records/{service}").body


def read(server: RunningCollector, directory: Path, host: str, *arguments: str) -> Answer:
    place = f"collector://{urlsplit(server.url).netloc}/{host}"
    reader = token_file(directory, server.client("reader"))
    return service_record(*arguments, "--from", place, SERVICE_RECORD_TOKEN_FILE=str(reader))


# Sent records


@pytest.mark.slow
def test_lines_are_sent_unchanged_and_continued(server: RunningCollector, host: str, directory: Path) -> None:
    path = write_lines(directory / "crio.json", entry(), b"damaged\n")
    first = sender(server, host, directory)
    first.send()
    with path.open("ab") as stream:
        stream.write(entry("service end", 3).to_line())
    first.send()
    begun_anew = sender(server, host, directory)
    begun_anew.send()

    assert held(server, host, "crio") == path.read_bytes() + b"\n"
    assert first.sent_bytes == path.stat().st_size
    assert begun_anew.sent_bytes == 0


@pytest.mark.slow
@pytest.mark.parametrize("layout", [array, our_array])
def test_array_file_is_sent_by_entry(
    server: RunningCollector, host: str, directory: Path, layout: object
) -> None:
    assert callable(layout)
    run = failed_run("pull")
    sending = sender(server, host, directory)
    for count in range(1, len(run) + 1):
        (directory / "new").write_bytes(layout(*run[:count]))
        (directory / "new").rename(directory / "job.json")
        sending.send()

    assert held(server, host, "job") == b"".join(one.to_line() for one in run) + b"\n"


@pytest.mark.slow
def test_replacement_file_is_sent_after_the_replaced_one(
    server: RunningCollector, host: str, directory: Path
) -> None:
    sending = sender(server, host, directory)
    for at in (0, 100):
        (directory / "job.json").unlink(missing_ok=True)
        write_lines(directory / "job.json", entry(at=at), entry("service end", at + 1))
        sending.send()

    old, new = (entry(at=at).to_line() + entry("service end", at + 1).to_line() for at in (0, 100))
    assert held(server, host, "job") == old + b"\n" + new + b"\n"


@pytest.mark.slow
def test_large_records_are_sent_in_batches(server: RunningCollector, host: str, directory: Path) -> None:
    line = entry(stage="x" * 1000, phase="stage start").to_line()
    for service in ("one", "two", "three"):
        (directory / f"{service}.json").write_bytes(line * 700)

    sending = sender(server, host, directory)
    sending.send()

    assert sending.sent_bytes == 3 * 700 * len(line)
    assert held(server, host, "two") == line * 700 + b"\n"


@pytest.mark.slow
def test_many_services_are_all_sent(server: RunningCollector, host: str, directory: Path) -> None:
    for number in range(450):
        write_lines(directory / f"job-{number}.json", entry())

    sender(server, host, directory).send()

    listed = server.client("reader").get(f"/api/v1/hosts/{host}/records").json
    assert len(listed["services"]) == 450


@pytest.mark.slow
def test_lost_data_is_sent_again(server: RunningCollector, host: str, directory: Path) -> None:
    write_lines(directory / "job.json", entry())
    sending = sender(server, host, directory)
    sending.send()
    server.client("admin").ask("DELETE", f"/api/v1/hosts/{host}")
    sending.client = CollectorClient(server.url, server.client("host", host).token)
    with (directory / "job.json").open("ab") as stream:
        stream.write(entry("service end", 3).to_line())

    sending.send()

    assert held(server, host, "job") == (directory / "job.json").read_bytes() + b"\n"


@pytest.mark.slow
def test_lost_data_of_many_services_is_sent_again(
    server: RunningCollector, host: str, directory: Path
) -> None:
    names = [f"service-{number:03}-{'x' * 60}" for number in range(150)]
    for name in names:
        write_lines(directory / f"{name}.json", entry())
    sending = sender(server, host, directory)
    sending.send()
    server.client("admin").ask("DELETE", f"/api/v1/hosts/{host}")
    sending.client = CollectorClient(server.url, server.client("host", host).token)
    for name in names:
        with (directory / f"{name}.json").open("ab") as stream:
            stream.write(entry("service end", 3).to_line())

    sending.send()

    assert held(server, host, names[0]) == (directory / f"{names[0]}.json").read_bytes() + b"\n"


@pytest.mark.slow
def test_sending_ends_if_nothing_is_accepted(directory: Path) -> None:
    write_lines(directory / "job.json", entry())
    with RawServer([format_answer({"host": "web1", "services": [], "files": [], "bundle": None})]) as deaf:
        sending = Sender(CollectorClient(deaf.url, "token"), "web1", Records(directory))
        with pytest.raises(NotTaken, match="inconsistent offsets"):
            sending.send()

    assert len(deaf.request_lines) == 1 + 8
    assert sending.sent_bytes == 0


@pytest.mark.slow
def test_token_of_another_host_is_a_final_refusal(
    server: RunningCollector, host: str, directory: Path
) -> None:
    write_lines(directory / "job.json", entry())
    sending = Sender(
        CollectorClient(server.url, server.client("host", "other").token), host, Records(directory)
    )

    with pytest.raises(NotTaken) as refused:
        sending.send()

    assert refused.value.is_final


# The command


@pytest.mark.slow
def test_ship_sends_existing_records_and_ends(server: RunningCollector, host: str, directory: Path) -> None:
    write_lines(directory / "job.json", entry())
    token = token_file(directory, server.client("host", host))

    answer = service_record(
        "ship", "--to", server.url, "--host", host.upper(), "--from", directory, "--token-file", token
    )

    assert (answer.status, answer.err) == (0, f"{len(entry().to_line())} bytes sent\n")
    assert held(server, host, "job") == entry().to_line() + b"\n"


@pytest.mark.slow
def test_url_may_be_the_first_argument(directory: Path) -> None:
    undelivered = service_record(
        "ship", get_refused_url(), "--from", directory, "--token-file", token(directory)
    )
    assert (undelivered.status, undelivered.err.count("\n")) == (75, 1)
    twice = service_record("ship", get_refused_url(), "--to", get_refused_url(), "--from", directory)
    assert (twice.status, "given twice" in twice.err) == (2, True)
    assert "--to URL" in service_record("ship", "--from", directory).err


def token(directory: Path) -> Path:
    path = directory.with_name("token")
    path.write_text("a-token")
    return path


@pytest.mark.slow
def test_administrator_ships_records_of_new_host(server: RunningCollector, directory: Path) -> None:
    write_lines(directory / "job.json", entry())
    options = ("--host", "brand-new", "--from", directory, "--token-file")
    admin, reader = (token_file(directory, server.client(kind)) for kind in ("admin", "reader"))

    refused = service_record("ship", server.url, *options, reader)
    answer = service_record("ship", server.url, *options, admin)

    assert (refused.status, "403" in refused.err) == (75, True)
    assert (answer.status, answer.err) == (0, f"{len(entry().to_line())} bytes sent\n")
    assert held(server, "brand-new", "job") == entry().to_line() + b"\n"


@pytest.mark.slow
def test_repeated_stop_signals_end_ship(directory: Path, host: str) -> None:
    write_lines(directory / "job.json", entry())
    with following(get_refused_url(), host, directory, token(directory)) as running:
        assert running.stderr is not None
        assert b"tried again" in running.stderr.readline()
        end = monotonic() + 30
        # Some arrive while the previous one is handled, and some while the interpreter ends.
        while running.poll() is None and monotonic() < end:
            running.send_signal(signal.SIGTERM)
        assert running.wait(0) == 75


def test_symlinked_record_is_not_sent(server: RunningCollector, host: str, directory: Path) -> None:
    write_lines(directory / "job.json", entry())
    write_lines(directory.parent / "private.json", *failed_run())
    directory.joinpath("linked.json").symlink_to(directory.parent / "private.json")
    token = token_file(directory, server.client("host", host))

    arguments = ("--host", host, "--from", directory, "--token-file", token)
    answer = service_record("ship", "--to", server.url, *arguments)
    named = service_record("ship", "linked", "--to", server.url, *arguments)

    assert (answer.status, answer.err) == (0, f"{len(entry().to_line())} bytes sent\n")
    assert named.err == "0 bytes sent\n"
    assert server.client("reader").get(f"/api/v1/hosts/{host}/records/linked").status == 404


def test_undelivered_records_exit_75_with_one_line(
    server: RunningCollector, host: str, directory: Path
) -> None:
    write_lines(directory / "job.json", entry())
    token = token_file(directory, server.client("host", "other"))

    refused = service_record(
        "ship", "--to", server.url, "--host", host, "--from", directory, "--token-file", token
    )
    unreachable = service_record(
        "ship", "--to", "http://127.0.0.1:1", "--host", host, "--from", directory, "--token-file", token
    )

    assert (refused.status, unreachable.status) == (75, 75)
    assert refused.err == f"Error: {server.url}: 403: this token may not read of {host}\n"
    assert unreachable.err.count("\n") == 1


@contextlib.contextmanager
def following(url: str, host: str, directory: Path, token: Path) -> Iterator[subprocess.Popen[bytes]]:
    arguments = ["--host", host, "--from", str(directory), "--token-file", str(token)]
    command = [*PROGRAM, "ship", "--to", url, "--follow", *arguments]
    with subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE) as running:
        try:
            yield running
        finally:
            if running.poll() is None:
                running.kill()


def test_follow_sends_new_entries_and_ends_cleanly(
    server: RunningCollector, host: str, directory: Path
) -> None:
    token = token_file(directory, server.client("host", host))
    with following(server.url, host, directory, token) as running:
        for at in range(3):
            with (directory / "job.json").open("ab") as stream:
                stream.write(entry(at=at).to_line())
            wait_for(
                lambda: held(server, host, "job") == (directory / "job.json").read_bytes() + b"\n" or None
            )
        running.send_signal(signal.SIGTERM)
        _, errors = running.communicate(timeout=60)

    assert (running.returncode, errors) == (0, b"")


@pytest.mark.slow
def test_late_collector_gets_everything(host: str, directory: Path, tmp_path: Path) -> None:
    settings = make_collector_settings(tmp_path)
    with run_collector(settings) as first:
        token = token_file(directory, first.client("host", host))
        url = first.url
    write_lines(directory / "job.json", entry())

    with following(url, host, directory, token) as running:
        assert b"not delivered, and tried again" in require(running.stderr).readline()
        with run_collector(replace(settings, port=urlsplit(url).port or 0)) as second:
            wait_for(lambda: b"service start" in held(second, host, "job") or None)
            running.send_signal(signal.SIGTERM)
            running.communicate(timeout=60)

    assert running.returncode == 0


# Read through the collector


def test_verbs_read_sent_records(server: RunningCollector, host: str, directory: Path) -> None:
    write_lines(directory / "bootkube.json", *failed_run("pull"))
    write_lines(directory / "crio.json", entry(), entry("service end", 1))
    sender(server, host, directory).send()

    analyzed = read(server, directory, host, "analyze")
    shown = read(server, directory, host, "show", "--output", "json")
    drawn = read(server, directory, host, "timeline")

    here = service_record("show", "--output", "json", "--from", directory)
    assert analyzed.status == 1
    assert "bootkube" in analyzed.out
    assert "pull" in analyzed.out
    assert shown.out.partition('"services"')[2] == here.out.partition('"services"')[2]
    assert "crio" in drawn.out


@pytest.mark.slow
def test_host_with_only_a_bundle_is_readable(server: RunningCollector, directory: Path) -> None:
    of = AssistedRules().add_host()
    Agent(server.client("host", of.id), of).upload(FAILED)
    indexed(server, of.id)

    answer = read(server, directory, of.id, "analyze")

    assert answer.status == 1
    assert "bootkube" in answer.out


REFUSALS = {
    "nobody": ("collector://{at}/nobody", "404: no host nobody"),
    "no name": ("collector://{at}", "no host is named; use collector://{at}/NAME"),
    "no such collector": ("collector://127.0.0.1:1/web1", "http://127.0.0.1:1: "),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", REFUSALS.values(), ids=REFUSALS)
def test_unreadable_collector_is_one_line(
    server: RunningCollector, directory: Path, case: tuple[str, str]
) -> None:
    place, message = (text.format(at=urlsplit(server.url).netloc) for text in case)
    reader = token_file(directory, server.client("reader"))

    answer = service_record("show", "--from", place, SERVICE_RECORD_TOKEN_FILE=str(reader))

    assert (answer.status, answer.err.count("\n")) == (3, 1)
    assert message in answer.err


@pytest.mark.slow
def test_reading_does_not_wait_for_a_collector(server: RunningCollector, directory: Path, host: str) -> None:
    answer = read(server, directory, host, "analyze", "--wait")

    assert answer.status == 2
    assert "--wait needs one directory of records that a host writes" in answer.err


@pytest.mark.slow
def test_directory_is_read_without_collector_imports(directory: Path) -> None:
    write_lines(directory / "job.json", entry())
    program = (
        "import sys; from service_record.cli import main; "
        f"main(['show', '--from', {str(directory)!r}], standalone_mode=False); "
        "sys.exit('service_record.http.collector_client' in sys.modules or 'ssl' in sys.modules)"
    )

    assert subprocess.run([PROGRAM[0], "-c", program], check=False, capture_output=True).returncode == 0


# Data that never leaves the host


def test_secret_in_a_line_is_masked(server: RunningCollector, host: str, directory: Path) -> None:
    message = "Authorization: Bearer c2VjcmV0LXRva2VuLW9mLXRoZS1yZWdpc3RyeQ refused"
    run = failed_run("pull", error_message=message)
    write_lines(directory / "job.json", *run, entry(at=100))
    token = token_file(directory, server.client("host", host))

    answer = service_record(
        "ship", "--to", server.url, "--host", host, "--from", directory, "--token-file", token
    )

    assert answer.status == 0, answer.err
    sent = held(server, host, "job")
    assert len(sent) == (directory / "job.json").stat().st_size + 1
    assert b"c2VjcmV0LXRva2Vu" not in sent
    assert sent.count(b"refused") == 2
    assert "redacted" in read(server, directory, host, "show", "--output", "json").out


@pytest.mark.slow
def test_unfinished_line_waits_and_endless_line_is_hidden(
    server: RunningCollector, host: str, directory: Path
) -> None:
    endless = b"s3cret" * 60_000
    path = write_lines(directory / "job.json", entry(), b'{"timestamp": "2026')
    sending = sender(server, host, directory)
    sending.send()
    assert held(server, host, "job") == entry().to_line() + b"\n"

    path.write_bytes(path.read_bytes() + endless + b"\n" + entry(at=1).to_line())
    sending.send()

    sent = held(server, host, "job")
    assert len(sent) == path.stat().st_size + 1
    assert b"s3cret" not in sent
    assert sent.endswith(entry(at=1).to_line() + b"\n")
