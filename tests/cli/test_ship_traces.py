"""`service-record ship --to otlp+http://...`: boots as traces, at a backend that decodes what it gets."""

import contextlib
import json
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTracePartialSuccess
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from service_record.export.trace_backend import TraceBackend
from service_record.export.trace_endpoint import read_headers, traces_url
from service_record.export.trace_sending import TraceSender
from service_record.http.address import CollectorError, NotTaken
from service_record.record import systemd
from service_record.record.directory import Records
from service_record.record.entry import Entry, Phase, Result
from tests.assisted_server import Authority
from tests.builders import BOOT_ID, array, entry, failed_run, require, write_lines
from tests.command_line import PROGRAM, Answer, environment, service_record
from tests.forward_proxy import ForwardProxy
from tests.otlp_backend import OtlpBackend, Reply, partial_success
from tests.running_server import get_refused_url
from tests.waiting import wait_for

GONE = 2**22 + 1
"""No process has this number."""
HERE = systemd.boot_id() or BOOT_ID


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "records").mkdir()
    return tmp_path / "records"


@pytest.fixture
def backend() -> Iterator[OtlpBackend]:
    with OtlpBackend() as backend:
        yield backend


def ship(backend: OtlpBackend, directory: Path, *arguments: object) -> Answer:
    options = ["--host", "web1", "--from", directory, *arguments]
    return service_record("ship", "--to", backend.place, *options)


def sender(backend: OtlpBackend, directory: Path, **settings: Any) -> TraceSender:
    return TraceSender(
        TraceBackend(traces_url(backend.place), {}), "web1", Records(directory), frozenset(), **settings
    )


def names(backend: OtlpBackend) -> list[str]:
    return [span.name for span in backend.spans()]


def facts_of(attributes: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in attributes}


def here(*entries: Entry, pid: int = 1) -> list[Entry]:
    """The entries as a process of this boot has written them; without an end it runs, as the first does."""
    return [replace(each, boot_id=HERE, pid=pid) for each in entries]


def append(path: Path, *entries: Entry) -> None:
    with path.open("ab") as stream:
        stream.writelines(each.to_line() for each in entries)


# What is sent


def test_boot_is_a_trace_with_failures_and_messages(backend: OtlpBackend, directory: Path) -> None:
    write_lines(directory / "bootkube.json", *failed_run(error_message="pulling\nno such image"))
    write_lines(directory / "crio.json", entry(), entry(Phase.SERVICE_END, 2))

    answer = ship(backend, directory)

    assert (answer.status, answer.err) == (0, "3 spans sent\n")
    (path, headers), *_ = backend.requests
    assert path == "/v1/traces"
    assert headers["content-type"] == "application/x-protobuf"
    spans = {span.name: span for span in backend.spans()}
    assert {span.trace_id.hex() for span in spans.values()} == {BOOT_ID}
    run, second = spans["bootkube"], spans["stage second"]
    assert second.parent_span_id == run.span_id
    assert (run.status.code, run.status.message) == (Status.STATUS_CODE_ERROR, "failed: exit 1")
    assert spans["crio"].status.code == Status.STATUS_CODE_OK
    (event,) = second.events
    facts = facts_of(event.attributes)
    assert facts["exception.message"] == "pulling\nno such image"
    assert (facts["code.file.path"], facts["code.line.number"]) == ("/usr/local/bin/job.sh", 12)
    of_resource = {
        facts_of(each.attributes)["service.name"]: facts_of(each.attributes)
        for each, _ in backend.resources()
    }
    assert of_resource["bootkube"].pop("service_record.version")
    assert of_resource["bootkube"] == {
        "service.instance.id": BOOT_ID,
        "service.name": "bootkube",
        "host.name": "web1",
        "service_record.boot_id": BOOT_ID,
    }


def test_shipped_spans_equal_exported_ones(backend: OtlpBackend, directory: Path) -> None:
    write_lines(directory / "bootkube.json", *failed_run())
    ship(backend, directory)
    exported = json.loads(service_record("export", "--to", "otlp", "--host", "web1", "--from", directory).out)
    spans = exported["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert [(each["spanId"], each["name"], each["startTimeUnixNano"]) for each in spans] == [
        (each.span_id.hex(), each.name, str(each.start_time_unix_nano)) for each in backend.spans()
    ]


def test_repeated_spans_are_identical(backend: OtlpBackend, directory: Path) -> None:
    (directory / "bootkube.json").write_bytes(array(*failed_run()))
    ship(backend, directory)
    ship(backend, directory)
    first, again = backend.traces
    assert first == again


def test_only_the_services_that_are_named_are_sent(backend: OtlpBackend, directory: Path) -> None:
    for service in ("one", "two"):
        write_lines(directory / f"{service}.json", entry(), entry(Phase.SERVICE_END, 2))
    assert ship(backend, directory, "two").status == 0
    assert names(backend) == ["two"]


def test_no_secret_leaves_the_host(backend: OtlpBackend, directory: Path) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6" * 3
    write_lines(
        directory / "job.json", *failed_run(f"stage {secret}", error_message=f"login with {secret} failed")
    )
    assert ship(backend, directory).status == 0
    sent = b"".join(each.SerializeToString() for each in backend.traces)
    assert b"login with" in sent
    assert secret.encode() not in sent


def test_ended_spans_are_sent_and_running_ones_marked(backend: OtlpBackend, directory: Path) -> None:
    path = write_lines(directory / "job.json", *here(entry(), entry(Phase.STAGE_START, 1, stage="pull")))
    sending = sender(backend, directory)
    sending.send(is_last=True)
    assert names(backend) == ["job is running", "stage pull is running"]
    append(path, *here(entry(Phase.STAGE_END, 5, stage="pull"), entry(Phase.STAGE_START, 5, stage="start")))
    sending.send(is_last=True)
    append(path, *here(entry(Phase.STAGE_END, 9, stage="start"), entry(Phase.SERVICE_END, 9)))
    sending.send(is_last=True)
    sending.send(is_last=True)

    assert names(backend)[2:] == ["stage pull", "stage start is running", "job", "stage start"]
    spans = {span.name: span for span in backend.spans()}
    assert len({span.span_id for span in spans.values()}) == len(spans) == 6
    assert spans["stage pull is running"].parent_span_id == spans["stage pull"].span_id
    mark = spans["job is running"]
    assert mark.start_time_unix_nano == mark.end_time_unix_nano == spans["job"].start_time_unix_nano


def test_gone_process_may_still_get_its_end(backend: OtlpBackend, directory: Path) -> None:
    """systemd's helper records the end a moment after; until then the run seems to be interrupted."""
    path = write_lines(
        directory / "job.json", *here(entry(), entry(Phase.STAGE_START, 1, stage="pull"), pid=GONE)
    )
    sending = sender(backend, directory, settle_seconds=0.3, mark_seconds=1e12)
    sending.send(is_last=True)
    assert names(backend) == []
    end = entry(Phase.SERVICE_END, 1, result=Result.FAILURE, signal="KILL")
    append(path, *here(end, pid=GONE))
    sending.send(is_last=True)
    assert {span.name: span.status.message for span in backend.spans()}["job"] == "failed: killed by SIGKILL"


def test_gone_process_without_end_is_interrupted(backend: OtlpBackend, directory: Path) -> None:
    write_lines(directory / "job.json", *here(entry(), pid=GONE))
    sending = sender(backend, directory, settle_seconds=0.2)
    sending.send(is_last=True)
    time.sleep(0.3)
    sending.send(is_last=True)
    assert [(span.name, span.status.message) for span in backend.spans()] == [("job", "interrupted")]


def test_many_spans_use_several_requests_and_little_memory(directory: Path) -> None:
    with (directory / "job.json").open("wb") as stream:
        for run in range(100):
            stream.write(entry(at=run * 200, pid=run + 1).to_line())
            for n in range(100):
                at = run * 200 + n
                stream.write(entry(Phase.STAGE_START, at, stage=f"s{n}", pid=run + 1).to_line())
                stream.write(entry(Phase.STAGE_END, at + 1, stage=f"s{n}", pid=run + 1).to_line())
            stream.write(entry(Phase.SERVICE_END, run * 200 + 150, pid=run + 1).to_line())
    with OtlpBackend() as backend:
        command = [*PROGRAM, "ship", "--to", backend.place, "--from", str(directory)]
        most = 0
        with subprocess.Popen(command, env=environment(), stderr=subprocess.DEVNULL) as running:
            while running.poll() is None:
                status = Path(f"/proc/{running.pid}/status").read_text()
                most = max(most, *map(int, re.findall(r"^VmHWM:\s+(\d+) kB", status, re.MULTILINE)), 0)
                time.sleep(0.02)
    assert running.returncode == 0
    assert len(backend.requests) == 51
    assert len({span.span_id for span in backend.spans()}) == 10_100
    assert 0 < most < 80 * 1024  # kB; it takes 45 MB for a hundred spans


# What a backend answers


def retry_after(seconds: int, status: int = 503) -> Reply:
    return Reply(status, b"busy", {"Retry-After": str(seconds)}, "text/plain")


def test_busy_backend_is_retried_after_retry_after(directory: Path) -> None:
    write_lines(directory / "job.json", *failed_run())
    with OtlpBackend(retry_after(1, 429), retry_after(1)) as backend:
        begun = time.monotonic()
        answer = ship(backend, directory)
        assert time.monotonic() - begun >= 2
    assert (answer.status, backend.statuses) == (0, [429, 503, 200])
    assert answer.err.splitlines() == [
        f"Warning: not delivered, and tried again: http://127.0.0.1:{backend.port}/v1/traces: 429: busy",
        "Delivered again",
        "2 spans sent",
    ]


@pytest.mark.parametrize("status", [502, 504])
def test_retried_statuses_are_those_of_the_protocol(directory: Path, status: int) -> None:
    write_lines(directory / "job.json", *failed_run())
    with OtlpBackend(Reply(status)) as backend:
        assert ship(backend, directory).status == 0
    assert backend.statuses == [status, 200]


@pytest.mark.parametrize("status", [401, 403, 404, 413, 500])
def test_permanent_refusal_ends_shipping(directory: Path, status: int) -> None:
    write_lines(directory / "job.json", *failed_run())
    body = ExportTracePartialSuccess(error_message="no\x1b way").SerializeToString()
    with OtlpBackend(Reply(status, body), Reply(status, body)) as backend:
        answer = ship(backend, directory)
    assert (answer.status, backend.statuses) == (75, [status])
    assert answer.err == f"Error: http://127.0.0.1:{backend.port}/v1/traces: {status}: no\\x1b way\n"


@pytest.mark.parametrize("reply", [Reply(400, b"bad ids", kind="text/plain"), partial_success(2, "bad ids")])
def test_refused_spans_are_reported_and_not_resent(directory: Path, reply: Reply) -> None:
    write_lines(directory / "job.json", *failed_run())
    with OtlpBackend(reply) as backend:
        answer = ship(backend, directory)
    assert (answer.status, len(backend.requests)) == (75, 1)
    assert "2 of 2 spans refused: " in answer.err
    assert "bad ids" in answer.err


def test_warning_of_the_backend_is_shown(directory: Path) -> None:
    write_lines(directory / "job.json", *failed_run())
    with OtlpBackend(partial_success(0, "use TLS")) as backend:
        answer = ship(backend, directory)
    assert answer.status == 0
    assert answer.err == "Warning: taken with a warning: use TLS\n2 spans sent\n"


def test_page_of_a_portal_is_not_success(directory: Path) -> None:
    write_lines(directory / "job.json", *failed_run())
    page = Reply(200, b"<html><title>Log in</title></html>", kind="text/html")
    with OtlpBackend(page) as backend, pytest.raises(NotTaken, match="no acknowledgement") as refused:
        sender(backend, directory).send(is_last=True)
    assert not refused.value.is_final


# Authentication, trust and proxies


def test_headers_are_read_from_a_file_and_secret(
    backend: OtlpBackend, directory: Path, tmp_path: Path
) -> None:
    write_lines(directory / "job.json", *failed_run())
    file = tmp_path / "headers"
    file.write_text("# of our tenant\nAuthorization: Bearer s3cr3t-t0ken\n\nX-Scope-OrgID: a\n")
    assert ship(backend, directory, "--headers-file", file).status == 0
    _, headers = backend.requests[0]
    assert (headers["authorization"], headers["x-scope-orgid"]) == ("Bearer s3cr3t-t0ken", "a")
    backend.replies.append(Reply(401, b"not Bearer s3cr3t-t0ken", kind="text/plain"))
    refused = ship(backend, directory, "--headers-file", file)
    assert (refused.status, "s3cr3t" in refused.err) == (75, False)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("Authorization Bearer x", "line 1 is not a header"),
        ("Content-Type: x", "cannot be set"),
        ("A: ü", "ASCII"),
    ],
)
def test_file_without_headers_is_refused_and_not_quoted(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "headers").write_text(text)
    with pytest.raises(CollectorError, match=says) as refused:
        read_headers(tmp_path / "headers")
    assert "Bearer" not in str(refused.value).replace("'Authorization: Bearer TOKEN'", "")


@pytest.mark.parametrize(
    ("place", "url"),
    [
        ("otlp+https://tempo.example", "https://tempo.example/v1/traces"),
        ("otlp+http://[::1]:4318/", "http://[::1]:4318/v1/traces"),
        ("otlp+https://otlp.example/api/otlp", "https://otlp.example/api/otlp/v1/traces"),
        ("otlp+https://otlp.example/api/v1/traces", "https://otlp.example/api/v1/traces"),
    ],
)
def test_path_is_that_of_the_protocol(place: str, url: str) -> None:
    assert traces_url(place) == url


@pytest.mark.parametrize(
    "place",
    [
        "otlp+https://",
        "otlp+https://me:secret@x",
        "otlp+http://x:99999",
        "otlp+http://a..b",
        "otlp+http://x :4318",
    ],
)
def test_invalid_address_is_reported_in_one_line(directory: Path, place: str) -> None:
    answer = service_record("ship", "--to", place, "--from", directory)
    assert (answer.status, answer.err.count("\n"), "otlp+" in answer.err) == (3, 1, True)


def test_options_of_collectors_are_not_for_traces(directory: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for option in ("--token-file", "--template"):
        answer = service_record("ship", "--to", "otlp+http://127.0.0.1:1", option, tmp_path / "file")
        assert (answer.status, "are for collectors" in answer.err) == (2, True)
    answer = service_record("ship", "--to", "http://127.0.0.1:1", "--headers-file", tmp_path / "file")
    assert (answer.status, "--headers-file is for otlp" in answer.err) == (2, True)


def test_named_private_authority_is_trusted(directory: Path, tmp_path: Path) -> None:
    write_lines(directory / "job.json", *failed_run())
    authority = Authority(tmp_path / "authority")
    with OtlpBackend(certificate=authority.issue("127.0.0.1")) as backend:
        with pytest.raises(NotTaken, match="is not trusted: unable to get local issuer certificate"):
            sender(backend, directory).send(is_last=True)
        assert backend.requests == []

        assert ship(backend, directory, "--ca-bundle", authority.certificate).status == 0
        answer = service_record(
            *("ship", "--to", backend.place, "--from", directory),
            SERVICE_RECORD_CA_BUNDLE=str(authority.certificate),
        )
        assert (answer.status, len(backend.traces)) == (0, 2)
        unreadable = ship(backend, directory, "--ca-bundle", tmp_path / "nothing")
    assert (unreadable.status, unreadable.err.count("\n"), "nothing" in unreadable.err) == (3, 1, True)


def test_proxy_of_the_environment_is_used(backend: OtlpBackend, directory: Path) -> None:
    write_lines(directory / "job.json", *failed_run())
    with ForwardProxy(backend.port) as proxy:
        answer = service_record(
            "ship", "--to", "otlp+http://tempo.example:4318", "--from", directory, http_proxy=proxy.url
        )
    assert (answer.status, len(backend.traces)) == (0, 1)
    assert proxy.seen == ["POST http://tempo.example:4318/v1/traces"]


# The verb that goes on


@contextlib.contextmanager
def following(place: str, directory: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [*PROGRAM, "ship", "--to", place, "--follow", "--from", str(directory)]
    with subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE) as running:
        try:
            yield running
        finally:
            if running.poll() is None:
                running.kill()


def test_followed_trace_survives_a_backend_restart(directory: Path) -> None:
    path = write_lines(directory / "job.json", entry(), entry(Phase.SERVICE_END, 2))
    with OtlpBackend() as first, following(first.place, directory) as running:
        wait_for(lambda: names(first) == ["job"])
        port = first.port
        first.__exit__(None, None, None)
        append(path, entry(at=10, pid=7), entry(Phase.SERVICE_END, 12, pid=7))
        assert b"not delivered, and tried again" in require(running.stderr).readline()
        with OtlpBackend(Reply(seconds=1.0), port=port) as second:
            wait_for(lambda: len(second.spans()) == 1)
            append(path, entry(at=20, pid=8), entry(Phase.SERVICE_END, 22, pid=8))
            running.send_signal(signal.SIGTERM)
            _, errors = running.communicate(timeout=60)
            spans: list[Span] = [*first.spans(), *second.spans()]
    assert (running.returncode, errors) == (0, b"Delivered again\n")
    assert [span.name for span in spans] == ["job"] * 3
    assert len({span.span_id for span in spans}) == 3


def test_restart_after_a_kill_skips_no_span(directory: Path) -> None:
    """`ship` keeps no list of what it sent: the backend knows each span by its id."""
    path = write_lines(directory / "job.json", entry(), entry(Phase.SERVICE_END, 2))
    with OtlpBackend() as backend:
        with following(backend.place, directory) as running:
            wait_for(lambda: len(backend.spans()) == 1)
            running.kill()
        append(path, entry(at=10, pid=7), entry(Phase.SERVICE_END, 12, pid=7))
        with following(backend.place, directory) as running:
            wait_for(lambda: len(backend.spans()) >= 3)
            running.send_signal(signal.SIGTERM)
            running.communicate(timeout=60)
        spans = backend.spans()
    assert running.returncode == 0
    assert len(spans) == 3
    assert len({span.span_id for span in spans}) == 2
    assert spans[0] in spans[1:]


def test_nobody_there_ends_with_75_and_one_line(directory: Path, tmp_path: Path) -> None:
    write_lines(directory / "job.json", *failed_run())
    place = get_refused_url().replace("http://", "otlp+http://")
    with following(place, directory) as running:
        assert b"not delivered, and tried again" in require(running.stderr).readline()
        running.send_signal(signal.SIGTERM)
        _, errors = running.communicate(timeout=60)
    assert (running.returncode, errors.count(b"\n")) == (75, 1)
