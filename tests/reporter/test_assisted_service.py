"""Requests to an assisted-service, their answers, and failing networks."""

import json
import logging
import socket
import socketserver
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from service_record.http.answers import (
    MAX_RETRY_AFTER_SECONDS,
    MAX_TEXT_CHARACTERS,
    Answered,
    RetryPolicy,
    Unreachable,
    one_line,
    parse_retry_after,
)
from service_record.http.deadline import LEAVE_SECONDS
from service_record.http.proxies import Proxies, proxy_for
from service_record.http.transport import make_trust
from service_record.reporter.assisted_service import MAX_LIST_BYTES, AssistedService, base_url
from service_record.reporter.host_view import MAX_INFO_CHARACTERS, HostView, NoHost, Refused, find_host
from service_record.reporter.policy.round_context import DENIED_ROUNDS, DENIED_SECONDS, MOST_TRIES
from service_record.reporter.settings import SERVICE_LIMIT, AssistedServiceSettings
from service_record.reporter.shipping import ASKING, SHIPPING
from tests.assisted_contract import assert_requests_match_openapi
from tests.assisted_installation import Host, new_id
from tests.assisted_rules import AssistedRules
from tests.assisted_server import (
    AssistedServer,
    Authority,
    CannedResponse,
    ConnectionClose,
    ConnectionReset,
    Fault,
    NoResponse,
    SlowResponse,
    make_service_settings,
)
from tests.builders import require_type
from tests.forward_proxy import ForwardProxy
from tests.programs import REPOSITORY
from tests.running_server import get_refused_url, serve_in_thread

FACT = "Booted with local ignition"
TOKEN = "eyJhbGciOiJFUzI1NiJ9.tok-en/of+the=host"

QUICK = RetryPolicy(first_wait=0.01, longest_wait=0.02, jitter=0.01)
"""Long time limits for a busy machine, short waits between tries."""


@pytest.fixture
def server() -> Iterator[AssistedServer]:
    with AssistedServer() as server:
        yield server
    assert_requests_match_openapi(entry.request for entry in server.journal)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    path = tmp_path / "log-bundle-20261121.tar.gz"
    path.write_bytes(bytes(range(256)) * 1024)
    return path


def service_at(url: str) -> AssistedServiceSettings:
    return AssistedServiceSettings(url=url, cluster_id=new_id(), infra_env_id=new_id(), host_id=new_id())


def client(
    server: AssistedServer, host: Host | None = None, retry_policy: RetryPolicy = QUICK
) -> AssistedService:
    return AssistedService(
        make_service_settings(host or server.rules.add_host(), server.url), retry_policy=retry_policy
    )


# Parsing answers


@pytest.mark.parametrize(
    ("body", "line"),
    [
        (
            b'{"code": "409", "href": "", "id": 409, "kind": "Error", "reason": "Can\'t assign"}',
            "Can't assign",
        ),
        (b'{"code": 401, "message": "who are you"}', "who are you"),
        (b"bad request", "bad request"),
        (b"", ""),
        (b"<!DOCTYPE html><html><title>502 Bad\nGateway</title><body>x</body>", "502 Bad Gateway"),
        (b"<html><body><style>p {}</style><p>no <b>such</b> &amp; page</p></body></html>", "no such & page"),
        (b'<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>', "AccessDenied"),
        (b"a\x1b[31mred\r\nline\x00\xff", "a\\x1b[31mred line\\x00\ufffd"),
        (b'{"reason": "two\\nlines \\u202e"}', "two lines \\u202e"),
        (b'{"code": 500}', '{"code": 500}'),
        (b"[1, 2", "[1, 2"),
        (b'{"a":' * 5000, ('{"a":' * 5000)[:MAX_TEXT_CHARACTERS]),
    ],
)
def test_error_body_becomes_one_printable_line(body: bytes, line: str) -> None:
    assert one_line(body) == line


def test_secret_in_error_page_is_masked_before_truncation() -> None:
    assert one_line(f"<p>X-Secret-Key: {TOKEN}</p>".encode(), [TOKEN]) == "X-Secret-Key: [secret]"
    for length in range(1, len(TOKEN)):
        page = b"<p>" + b" " * (8 * MAX_TEXT_CHARACTERS - 3 - length) + TOKEN.encode() + b"</p>"
        assert one_line(page, [TOKEN]) == ""


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120.0),
        (" 0 ", 0.0),
        ("99999999999999999999", MAX_RETRY_AFTER_SECONDS),
        ("Sat, 21 Nov 2026 01:05:30 GMT", 30.0),
        ("Sat, 21 Nov 2026 01:04:00 GMT", 0.0),
        ("Sat, 21 Nov 2099 01:05:30 GMT", MAX_RETRY_AFTER_SECONDS),
        ("-1", None),
        ("soon", None),
        ("\u0663", None),
        ("", None),
        (None, None),
    ],
)
def test_retry_after_is_parsed_and_limited(value: str | None, seconds: float | None) -> None:
    assert parse_retry_after(value, datetime(2026, 11, 21, 1, 5, tzinfo=UTC)) == seconds


def test_retry_after_date_uses_the_clock_of_the_server() -> None:
    hour, wrong = "Sat, 21 Nov 2026 01:{}:00 GMT", datetime(1970, 1, 1, tzinfo=UTC)
    assert parse_retry_after(hour.format("07"), wrong, hour.format("05")) == 120.0
    assert parse_retry_after(hour.format("07"), wrong, "no date") == MAX_RETRY_AFTER_SECONDS


@pytest.mark.parametrize(
    "document",
    [{"hosts": []}, "no", None, 7, [1], ["text"]],
    ids=["object", "text", "null", "number", "numbers", "texts"],
)
def test_body_without_a_host_list_gives_no_view(document: object) -> None:
    assert find_host(json.dumps(document).encode(), "id") is None


@pytest.mark.parametrize("row", [{}, {"id": None}, {"id": 5}, {"name": "id"}], ids=repr)
def test_host_list_with_an_invalid_row_is_rejected(row: object) -> None:
    """Lists without this host stop the reporter permanently, so an invalid row must not look like one."""
    for rows in ([{"id": "other"}, row], [{"id": "id"}, row]):
        assert find_host(json.dumps(rows).encode(), "id") is None


def test_fields_of_wrong_types_are_ignored() -> None:
    row = {"id": "A", "status": 7, "progress": "none", "bootstrap": "yes"}
    assert find_host(json.dumps([{"id": "b"}, row]).encode(), "a") == HostView()
    assert find_host(b'[{"id": "a"}]', "A") == HostView()


def test_largest_host_list_needs_little_memory() -> None:
    """The unit has 256 MiB (`MemoryMax=`), of which a round without the list needs up to 128."""
    program = """
import resource, sys
from service_record.reporter.assisted_service import MAX_LIST_BYTES
from service_record.reporter.host_view import find_host
tiny, ours = b'{"id":""},', b'{"id":"us","status":"installing","n":[' + b'{},' * 300000 + b'{}]}'
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
view = find_host(b"[" + tiny * ((MAX_LIST_BYTES - len(ours)) // len(tiny)) + ours + b"]", "us")
assert view.status == "installing", view
large = b'[{"id":"us","n":[' + b"{}," * (MAX_LIST_BYTES // 3 - 9) + b"{}]}]"
assert find_host(large, "us") is None
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 128


# Reading the host's stage


def test_host_is_read_from_the_list_of_its_cluster(server: AssistedServer) -> None:
    host = server.rules.add_host(role="worker", stage="Configuring", info="words", bootstrap=False)
    server.rules.add_host(cluster_id=host.cluster_id)
    host.stage_updated_at = datetime.now(UTC) - timedelta(minutes=35)
    view = require_type(HostView, client(server, host).host())
    assert view.stage_age == pytest.approx(35 * 60, abs=30)
    assert replace(view, stage_age=None) == HostView(
        stage="Configuring", info="words", status="installing-in-progress", role="worker", kind="Host"
    )
    assert server.calls() == ["GET /v2/clusters/hosts"]


def test_host_is_found_among_large_ignition_overrides(server: AssistedServer) -> None:
    host = server.rules.add_host(role="worker", stage="Configuring")
    override = json.dumps({"ignition": {"version": "3.2.0"}, "file": "A" * (6 << 20), "text": '"\\' * 50_000})
    for each in (host, *(server.rules.add_host(cluster_id=host.cluster_id) for _ in range(3))):
        each.ignition_config_overrides = override
    assert require_type(HostView, client(server, host).host()).stage == "Configuring"


def test_host_is_found_among_five_hundred(server: AssistedServer) -> None:
    host = server.rules.add_host(role="worker", stage="Joined")
    for _ in range(499):
        server.rules.add_host(cluster_id=host.cluster_id).ignition_config_overrides = "x" * (1 << 17)
    assert require_type(HostView, client(server, host).host()).stage == "Joined"


def test_host_is_not_in_a_deleted_or_another_cluster(server: AssistedServer) -> None:
    host, other = server.rules.add_host(), server.rules.add_host()
    foreign = replace(make_service_settings(host, server.url), cluster_id=str(other.cluster_id))
    view = require_type(NoHost, AssistedService(foreign, retry_policy=QUICK).host())
    assert "not one of the cluster's 1 hosts" in view.reason
    server.rules.delete_cluster(str(host.cluster_id))
    assert isinstance(client(server, host).host(), NoHost)


@pytest.mark.parametrize("status", [401, 403])
def test_rejected_token_is_a_denial(server: AssistedServer, status: int) -> None:
    server.fail(CannedResponse(status, f'{{"code": {status}, "message": "who are you"}}'.encode()))
    assert client(server).host() == Refused(status, "who are you")


def test_404_of_the_service_means_unknown_host(server: AssistedServer) -> None:
    body = b'{"code": "404", "href": "", "id": 404, "kind": "Error", "reason": "cluster was not found"}'
    server.fail(CannedResponse(404, body))
    assert client(server).host() == NoHost("cluster was not found")


@pytest.mark.parametrize("status", [401, 403, 404])
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"<html><title>Access denied</title>", id="a proxy's page"),
        pytest.param(b"Log in to this network", id="a portal"),
        pytest.param(b"", id="nothing"),
        pytest.param(b'{"message": "no Route matched"}', id="a gateway's JSON"),
        pytest.param(b'{"code": 16, "message": "unauthenticated"}', id="a code of something else"),
        pytest.param(b'{"code": 401.5, "message": 7}', id="no text"),
        pytest.param(b'["code", 401]', id="no object"),
        pytest.param(b"[" * 9000, id="nested"),
    ],
)
def test_denial_in_another_form_is_a_plain_answer(server: AssistedServer, status: int, body: bytes) -> None:
    server.fail(CannedResponse(status, body))
    assert require_type(Answered, client(server).host()).status == status


@pytest.mark.parametrize("status", [301, 400, 405, 409, 418])
def test_other_status_is_a_plain_answer(server: AssistedServer, status: int) -> None:
    server.fail(CannedResponse(status, b"text"))
    assert client(server).host() == Answered(status, "text")
    assert len(server.journal) == 1


@pytest.mark.parametrize("body", [b"<html><title>Log in to this network</title>", b"{}", b"", b"[" * 100_000])
def test_200_without_a_host_list_is_unreachable(server: AssistedServer, body: bytes) -> None:
    server.fail(CannedResponse(200, body))
    assert require_type(Unreachable, client(server).host()).reason.startswith("200, but no list of hosts")


def test_too_long_host_list_is_unreachable(server: AssistedServer) -> None:
    server.fail(CannedResponse(200, b"[" + b" " * (8 << 20) + b"]"), times=9)
    view = client(server, retry_policy=replace(QUICK, tries=1)).host()
    assert view == Unreachable("the answer is longer than 8,388,608 bytes")


# Reporting the stage


def test_info_is_added_to_the_current_stage(server: AssistedServer) -> None:
    host = server.rules.add_host()
    assert client(server, host).report_stage("Rebooting", FACT) == Answered(200)
    assert host.info == FACT
    (entry,) = server.journal
    assert json.loads(entry.request.body) == {"current_stage": "Rebooting", "progress_info": FACT}


def test_boot_stage_is_400_at_services_without_it() -> None:
    for knows, status in ((True, 200), (False, 400)):
        with AssistedServer(AssistedRules(knows_boot_stages=knows)) as server:
            assert require_type(Answered, client(server).report_stage(FACT, "")).status == status
            assert_requests_match_openapi(entry.request for entry in server.journal)


def test_report_of_a_passed_stage_is_409_without_retry(server: AssistedServer) -> None:
    host = server.rules.add_host(stage="Joined")
    outcome = require_type(Answered, client(server, host).report_stage("Configuring", FACT))
    assert (outcome.status, outcome.tries, len(server.journal)) == (409, 1, 1)
    assert "Can't assign lower stage" in outcome.text


def test_report_is_retried_after_503_but_not_after_500(server: AssistedServer) -> None:
    host = server.rules.add_host()
    server.rules.conflicting_changes = 1
    outcome = require_type(Answered, client(server, host).report_stage("Rebooting", FACT))
    assert (outcome.status, len(server.journal)) == (500, 1)
    server.fail(CannedResponse(503))
    assert client(server, host).report_stage("Rebooting", FACT) == Answered(200, tries=2)


def test_info_is_truncated_to_the_stored_length(server: AssistedServer) -> None:
    host = server.rules.add_host()
    assert client(server, host).report_stage("Rebooting", "é\0" * 3000) == Answered(200)
    assert host.info == "é" * 2048


@pytest.mark.parametrize("stage", ["Failed", "failed", " FAILED "])
def test_failed_is_never_reported(server: AssistedServer, stage: str) -> None:
    with pytest.raises(ValueError, match="never reported"):
        client(server).report_stage(stage, "")
    assert server.journal == []


# Uploads


def test_upload_is_unchanged_and_has_a_content_length(server: AssistedServer, bundle: Path) -> None:
    host = server.rules.add_host()
    size = bundle.stat().st_size
    assert client(server, host).upload(bundle, "host") == Answered(204, sent=size)
    assert list(server.rules.objects.values()) == [bundle.read_bytes()]
    (entry,) = server.journal
    assert int(entry.request.headers["content-length"]) == len(entry.request.body)
    assert "transfer-encoding" not in entry.request.headers
    assert entry.request.query == {"logs_type": "host", "host_id": host.id, "infra_env_id": host.infra_env_id}


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 409, 413])
def test_refused_upload_is_not_retried(server: AssistedServer, bundle: Path, status: int) -> None:
    server.fail(CannedResponse(status, b"bad request"))
    size = bundle.stat().st_size
    assert client(server).upload(bundle, "host") == Answered(status, "bad request", sent=size)
    assert len(server.journal) == 1


def test_too_large_or_missing_file_is_not_sent(server: AssistedServer, tmp_path: Path) -> None:
    large = tmp_path / "large.tar.gz"
    with large.open("wb") as file:
        file.truncate(SERVICE_LIMIT + 1)
    outcome = require_type(Unreachable, client(server).upload(large, "host"))
    assert "262144001 bytes are more than the 262144000" in outcome.reason
    assert (
        "No such file" in require_type(Unreachable, client(server).upload(tmp_path / "none", "host")).reason
    )
    assert server.journal == []


def test_broken_upload_is_retried_and_counted_in_full(server: AssistedServer, tmp_path: Path) -> None:
    large = tmp_path / "large.tar.gz"
    large.write_bytes(b"0123456789abcdef" * (1 << 19))
    server.fail(ConnectionReset(after_bytes=100_000))
    outcome = require_type(Answered, client(server).upload(large, "host"))
    assert (outcome.status, outcome.tries) == (204, 2)
    assert large.stat().st_size < outcome.sent < 2 * large.stat().st_size + 1
    assert list(server.rules.objects.values()) == [large.read_bytes()]


def test_upload_that_always_breaks_has_two_tries(server: AssistedServer, bundle: Path) -> None:
    server.fail(ConnectionReset(), times=99)
    outcome = require_type(Unreachable, client(server).upload(bundle, "host"))
    assert (outcome.tries, len(server.journal)) == (2, 2)


def test_upload_without_an_answer_is_unreachable(server: AssistedServer, bundle: Path) -> None:
    server.fail(ConnectionClose(), times=2)
    outcome = client(server).upload(bundle, "host")
    assert outcome == Unreachable(
        "the connection was closed without an answer", tries=2, sent=2 * bundle.stat().st_size
    )


def test_completed_logs_are_reported(server: AssistedServer) -> None:
    host = server.rules.add_host()
    assert client(server, host).complete_logs() == Answered(204)
    assert host.logs_info == "completed"


def test_tries_and_limits_are_documented() -> None:
    page = (REPOSITORY / "docs" / "boot-reporter-requests.md").read_text()
    tries, facts = (
        ASKING.tries,
        f"{MOST_TRIES} times without an answer, which are {MOST_TRIES * ASKING.tries}",
    )
    documented = {
        "GET /v2/clusters": f"at most {MAX_LIST_BYTES >> 20} MiB of it | {tries} tries in a round |",
        "PUT /v2/infra-envs": f"{tries} tries in a round, but never after a 500; {facts} tries",
        "POST /v2/clusters": f"| {SHIPPING.upload_tries} tries, the second only",
        "PUT …/logs-progress": f"| {SHIPPING.tries} tries |",
        "GET /`": "| 1 try |",
    }
    for call, words in documented.items():
        (row,) = [line for line in page.splitlines() if line.startswith(f"| `{call}")]
        assert words in row
    limits = {"connect": "connect", "read": "read", "write": "write", "total": "total", "budget": "budget"}
    for name, field in (limits | {"first wait": "first_wait", "longest wait": "longest_wait"}).items():
        asking, shipping = getattr(ASKING, field), getattr(SHIPPING, field)
        assert f"| {name} | {asking:g} s | {shipping:g} s |" in page
    assert f"| upload | | {SHIPPING.upload_total:g} s |" in page
    prose = " ".join(page.split())
    assert f"the text is cut to {MAX_INFO_CHARACTERS} characters" in prose
    assert f"A file of more than {SERVICE_LIMIT} bytes is not sent" in prose
    assert f"printable line of at most {MAX_TEXT_CHARACTERS} characters" in prose
    assert ("`Retry-After` (at most an hour;" in prose, MAX_RETRY_AFTER_SECONDS) == (True, 3600)
    assert ("up to six requests for a fact" in prose, MOST_TRIES) == (True, 6)
    assert f"does not answer within {LEAVE_SECONDS:g} s, the bundle is sent" in prose
    assert f"at least three rounds over at least {DENIED_SECONDS / 60:g} minutes" in prose
    assert DENIED_ROUNDS == 3


# Headers and URLs


def test_requests_of_a_round_share_an_id(server: AssistedServer) -> None:
    talk = client(server)
    talk.host()
    talk.complete_logs()
    other = client(server)
    other.host()
    ids = [entry.request.headers["x-request-id"] for entry in server.journal]
    assert ids[0] == ids[1] != ids[2]
    for entry in server.journal:
        assert "discovery_agent_version" not in entry.request.headers
        assert entry.request.headers["user-agent"].startswith("service-record/")


@pytest.mark.parametrize("ending", ["", "/", "/api/assisted-install", "/api/assisted-install/"])
def test_base_path_is_appended_to_url_path(ending: str) -> None:
    with AssistedServer(prefix="/behind/a/router") as server:
        service = make_service_settings(server.rules.add_host(), server.url + ending)
        assert isinstance(AssistedService(service, retry_policy=QUICK).host(), HostView)


def test_query_of_the_url_is_dropped() -> None:
    assert base_url("https://api.example.com/?a=b#c") == "https://api.example.com/api/assisted-install"


def test_requests_with_the_token_are_accepted(bundle: Path) -> None:
    rules = AssistedRules(auth_type="rhsso")
    with AssistedServer(rules) as server:
        service = make_service_settings(rules.add_host(), server.url, f"{rules.pull_secret_auth}\n")
        with AssistedService(service, retry_policy=QUICK) as talk:
            assert isinstance(talk.host(), HostView)
            assert talk.report_stage("Rebooting", FACT) == Answered(200)
            assert isinstance(talk.upload(bundle, "host"), Answered)
            assert talk.complete_logs() == Answered(204)
        assert isinstance(client(server).host(), Refused)
        assert_requests_match_openapi(entry.request for entry in server.journal)


# Retries


@pytest.mark.parametrize("status", [408, 423, 425, 429, 500, 502, 503, 504, 599])
def test_temporary_failure_is_retried(server: AssistedServer, status: int) -> None:
    server.fail(CannedResponse(status), times=3)
    assert isinstance(client(server).host(), HostView)
    assert len(server.journal) == 4
    server.fail(CannedResponse(status, b"still"), times=99)
    assert client(server).complete_logs() == Answered(status, "still", tries=4)


@pytest.mark.parametrize(
    "status", [301, 302, 307, 400, 401, 403, 404, 405, 406, 409, 410, 413, 415, 418, 422]
)
def test_permanent_failure_is_not_retried(server: AssistedServer, status: int) -> None:
    server.fail(CannedResponse(status, headers={"Location": f"{server.url}/elsewhere"}))
    assert client(server).complete_logs() == Answered(status)
    assert len(server.journal) == 1


def test_retry_after_is_obeyed(server: AssistedServer) -> None:
    server.fail(CannedResponse(429, headers={"Retry-After": "1"}))
    begin = time.monotonic()
    assert client(server).complete_logs() == Answered(204, tries=2)
    assert time.monotonic() - begin >= 1


def test_long_retry_after_waits_for_next_round(server: AssistedServer) -> None:
    server.fail(CannedResponse(503, headers={"Retry-After": "900"}))
    assert client(server).complete_logs() == Answered(503, retry_after=900.0)
    assert len(server.journal) == 1


def test_waits_of_a_round_end_with_its_budget(server: AssistedServer) -> None:
    server.fail(CannedResponse(503, headers={"Retry-After": "1"}), times=99)
    talk = client(server, retry_policy=replace(QUICK, budget=1.5, tries=99))
    first, second = talk.complete_logs(), talk.complete_logs()
    assert isinstance(first, Answered)
    assert first.tries <= 2
    assert second == Answered(503, retry_after=1.0)


def test_no_retry_after_the_budget(server: AssistedServer) -> None:
    server.fail(CannedResponse(503), times=99)
    outcome = client(server, retry_policy=replace(QUICK, budget=1e-9)).complete_logs()
    assert outcome == Answered(503)


# Failing networks


def test_refused_connection_has_four_tries() -> None:
    url = get_refused_url()
    service = service_at(url)
    outcome = AssistedService(service, retry_policy=QUICK).host()
    assert outcome == Unreachable("no connection: Connection refused", tries=4)


def test_silent_server_is_unreachable(server: AssistedServer) -> None:
    server.fail(NoResponse(), times=99)
    outcome = client(server, retry_policy=replace(QUICK, read=0.3, tries=2)).complete_logs()
    assert outcome == Unreachable("no answer within the time limit", tries=2)


@pytest.mark.parametrize("fault", [ConnectionClose(), ConnectionReset()])
def test_broken_connection_is_retried_and_unreachable(server: AssistedServer, fault: Fault) -> None:
    server.fail(fault, times=99)
    outcome = require_type(Unreachable, client(server).complete_logs())
    assert outcome.reason.startswith("the connection ")
    assert (outcome.tries, len(server.journal)) == (4, 4)


@pytest.mark.parametrize(
    "fault", [SlowResponse(), SlowResponse(in_head=True), NoResponse()], ids=["body", "head", "silence"]
)
def test_slow_answer_ends_at_the_time_limit(server: AssistedServer, fault: Fault) -> None:
    server.fail(fault, times=99)
    outcome = client(server, retry_policy=replace(QUICK, total=0.5, tries=1)).host()
    assert outcome == Unreachable("no whole answer within 0.5 s")
    assert hanging_lookups() == []


def test_unread_upload_ends_at_the_time_limit(server: AssistedServer, tmp_path: Path) -> None:
    large = tmp_path / "large.tar.gz"
    with large.open("wb") as file:
        file.truncate(64 << 20)
    server.fail(NoResponse(), times=99)
    limits = replace(QUICK, upload_total=0.5, upload_tries=1)
    outcome = require_type(Unreachable, client(server, retry_policy=limits).upload(large, "host"))
    assert outcome.reason == "no whole answer within 0.5 s"


@pytest.mark.parametrize(
    "fault", [SlowResponse(400, 0.0), SlowResponse(400, max_writes=9)], ids=["never ends", "breaks off"]
)
def test_status_is_enough_without_a_complete_body(server: AssistedServer, fault: Fault) -> None:
    server.fail(fault)
    outcome = require_type(Answered, client(server).complete_logs())
    assert (outcome.status, outcome.tries) == (400, 1)


def test_unknown_host_name_is_unreachable() -> None:
    service = service_at("http://assisted.invalid")
    outcome = AssistedService(service, retry_policy=replace(QUICK, tries=1, total=20)).host()
    assert isinstance(outcome, Unreachable)


def hanging_lookups() -> list[threading.Thread]:
    """Return the threads of name lookups that still run after 20 seconds."""
    threads = [thread for thread in threading.enumerate() if thread.name == "name lookup"]
    for thread in threads:
        thread.join(20)
    return [thread for thread in threads if thread.is_alive()]


@contextmanager
def full_queue() -> Iterator[tuple[socket.socket, set[int]]]:
    """Yield a listening socket whose queue is full, and the ports of the connections in the queue."""
    with ExitStack() as opened:
        listening = opened.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        listening.settimeout(60)
        fillers = [opened.enter_context(socket.socket()) for _ in range(3)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(listening.getsockname())
        yield listening, {filler.getsockname()[1] for filler in fillers}


def test_hanging_connect_ends_at_the_time_limit() -> None:
    with full_queue() as (listening, _):
        service = service_at(f"http://127.0.0.1:{listening.getsockname()[1]}")
        outcome = AssistedService(service, retry_policy=replace(QUICK, connect=0.3, tries=2)).host()
    assert outcome == Unreachable("no connection within the time limit", tries=2)


def test_abandoned_request_is_never_sent() -> None:
    with full_queue() as (listening, fillers):
        service = service_at(f"http://127.0.0.1:{listening.getsockname()[1]}")
        limits = replace(QUICK, connect=60, total=0.3, tries=1)
        assert AssistedService(service, retry_policy=limits).host() == Unreachable(
            "no whole answer within 0.3 s"
        )
        listening.settimeout(3)
        with suppress(TimeoutError):
            while True:
                connection, (_, port) = listening.accept()
                with connection:
                    assert port in fillers or connection.recv(1) == b""


def test_hanging_name_lookup_ends_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: released.wait(60) and [])
    limits = replace(QUICK, connect=60, total=0.3, tries=1)
    begin = time.monotonic()
    outcome = AssistedService(service_at("http://assisted.invalid"), retry_policy=limits).host()
    released.set()
    assert outcome == Unreachable("no whole answer within 0.3 s")
    assert time.monotonic() - begin < 10
    assert hanging_lookups() == []


@pytest.mark.parametrize(
    "url", ["", "ftp://x", "no url", "https://", "http://[::1", "http://x:99999", "http://x:0x"]
)
def test_invalid_url_is_reported_and_not_tried(url: str) -> None:
    outcome = require_type(Unreachable, AssistedService(service_at(url), retry_policy=QUICK).host())
    assert "correct the setting" in outcome.reason
    assert outcome.tries == 0


# Certificates


def test_unknown_authority_is_not_trusted_or_retried(authority: Authority) -> None:
    with AssistedServer(certificate=authority.issue("127.0.0.1")) as server:
        outcome = require_type(Unreachable, client(server).host())
        assert (outcome.is_tls, outcome.tries, server.journal) == (True, 1, [])
        assert "is not trusted: unable to get local issuer certificate" in outcome.reason


def test_ca_bundle_is_trusted_in_addition_to_the_system(authority: Authority, bundle: Path) -> None:
    before, after = make_trust(None).cert_store_stats(), make_trust(authority.certificate).cert_store_stats()
    assert after["x509"] == before["x509"] + 1
    with AssistedServer(certificate=authority.issue("127.0.0.1")) as server:
        host = server.rules.add_host()
        service = make_service_settings(host, server.url, TOKEN, authority.certificate)
        talk = AssistedService(service, retry_policy=QUICK)
        assert isinstance(talk.host(), HostView)
        assert talk.upload(bundle, "host") == Answered(204, sent=bundle.stat().st_size)


@pytest.mark.parametrize(
    ("names", "days", "why"),
    [(["10.0.0.1"], 2, "IP address mismatch"), (["127.0.0.1"], -1, "certificate has expired")],
    ids=["another name", "a clock that is ahead"],
)
def test_wrong_name_or_expired_certificate_is_not_trusted(
    authority: Authority, names: list[str], days: int, why: str
) -> None:
    with AssistedServer(certificate=authority.issue(*names, days=days)) as server:
        service = make_service_settings(server.rules.add_host(), server.url, None, authority.certificate)
        outcome = AssistedService(service, retry_policy=QUICK).host()
    assert isinstance(outcome, Unreachable)
    assert outcome.is_tls
    assert why in outcome.reason
    assert "this host's clock" in outcome.reason


def test_server_certificate_in_the_ca_bundle_is_trusted(authority: Authority, tmp_path: Path) -> None:
    own, _, _ = authority.issue("127.0.0.1").read_text().partition("-----BEGIN PRIVATE KEY")
    bundle = tmp_path / "own.pem"
    bundle.write_text(own)
    with AssistedServer(certificate=authority.issue("127.0.0.1")) as other:
        service = make_service_settings(other.rules.add_host(), other.url, None, bundle)
        assert isinstance(AssistedService(service, retry_policy=QUICK).host(), Unreachable)
    certificate = authority.issue("127.0.0.1")
    bundle.write_text(certificate.read_text().partition("-----BEGIN PRIVATE KEY")[0])
    with AssistedServer(certificate=certificate) as server:
        service = make_service_settings(server.rules.add_host(), server.url, None, bundle)
        assert isinstance(AssistedService(service, retry_policy=QUICK).host(), HostView)


class _LeavesInHandshake(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        self.request.recv(1 << 16)


def test_connection_closed_in_the_handshake_is_retried() -> None:
    leaving = socketserver.ThreadingTCPServer(("127.0.0.1", 0), _LeavesInHandshake)
    with serve_in_thread(leaving):
        url = f"https://127.0.0.1:{leaving.server_address[1]}"
        outcome = AssistedService(service_at(url), retry_policy=QUICK).host()
    assert isinstance(outcome, Unreachable)
    assert (outcome.is_tls, outcome.tries) == (False, 4)


def test_server_without_tls_is_not_trusted(server: AssistedServer) -> None:
    url = server.url.replace("http:", "https:")
    outcome = AssistedService(make_service_settings(server.rules.add_host(), url), retry_policy=QUICK).host()
    assert isinstance(outcome, Unreachable)
    assert outcome.is_tls
    assert server.journal == []


@pytest.mark.parametrize("kind", ["missing", "empty", "text", "directory", "torn", "second torn"])
def test_invalid_ca_bundle_is_reported_and_nothing_is_sent(
    server: AssistedServer, authority: Authority, tmp_path: Path, kind: str
) -> None:
    good, path = authority.certificate.read_text(), tmp_path / "ca.pem"
    contents = {"empty": "", "text": "no PEM\n", "torn": good[:200], "second torn": good + good[:200]}
    if kind == "directory":
        path.mkdir()
    elif kind != "missing":
        path.write_text(contents[kind])
    service = make_service_settings(server.rules.add_host(), server.url, TOKEN, path)
    outcome = require_type(Unreachable, AssistedService(service, retry_policy=QUICK).host())
    assert outcome.reason.startswith(f"{path}: ")
    assert "correct the CA bundle" in outcome.reason
    assert server.journal == []


# Proxies


@pytest.mark.parametrize(
    ("no_proxy", "url", "direct"),
    [
        ("", "http://api.example.com", False),
        ("*", "http://api.example.com", True),
        ("example.com", "http://api.example.com", True),
        ("example.com", "http://example.com", True),
        ("example.com", "http://badexample.com", False),
        ("EXAMPLE.com", "http://Api.Example.COM.", True),
        (".example.com", "http://api.example.com", True),
        ("*.example.com", "http://api.example.com", True),
        ("example.com:8090", "http://api.example.com:8090", True),
        ("example.com:8090", "http://api.example.com", False),
        ("example.com:443", "https://api.example.com", True),
        ("10.0.0.0/8", "http://10.1.2.3:8090", True),
        ("10.0.0.0/8", "http://11.1.2.3", False),
        ("10.0.0.0/8", "http://api.example.com", False),
        ("10.1.2.3", "http://10.1.2.3", True),
        ("10.1.2.3:80", "http://10.1.2.3", True),
        ("10.1.2.3:81", "http://10.1.2.3", False),
        ("fd00::/8", "http://[fd00::1]:8090", True),
        ("fd00::1", "http://[fd00::1]", True),
        ("[fd00::1]:80", "http://[fd00::1]", True),
        ("not/a/network", "http://10.1.2.3", False),
        ("", "http://localhost:8090", True),
        ("", "http://127.0.0.1:8090", True),
        ("", "http://[::1]:8090", True),
    ],
)
def test_no_proxy_works_as_in_go(no_proxy: str, url: str, direct: bool) -> None:
    proxies = Proxies(http="http://proxy:3128", https="proxy:3128", no_proxy=("other", no_proxy))
    assert proxy_for(url, proxies) == (None if direct else "http://proxy:3128")


def test_proxies_of_the_environment_are_ignored(
    server: AssistedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = get_refused_url()
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, url)
    assert isinstance(client(server).host(), HostView)


def behind_proxy(
    server: AssistedServer, proxy: ForwardProxy, url: str, authority: Authority
) -> AssistedService:
    service = make_service_settings(server.rules.add_host(), url, TOKEN, authority.certificate)
    return AssistedService(service, proxies=Proxies(http=proxy.url, https=proxy.address), retry_policy=QUICK)


def test_requests_go_through_a_proxy(server: AssistedServer, authority: Authority, bundle: Path) -> None:
    with ForwardProxy(server.port) as proxy:
        talk = behind_proxy(server, proxy, "http://assisted.example:8090", authority)
        assert isinstance(talk.host(), HostView)
        assert talk.upload(bundle, "host") == Answered(204, sent=bundle.stat().st_size)
    assert [line.partition("/api")[0] for line in proxy.seen] == [
        "GET http://assisted.example:8090",
        "POST http://assisted.example:8090",
    ]


def test_https_requests_use_a_tunnel_through_the_proxy(authority: Authority, bundle: Path) -> None:
    certificate = authority.issue("assisted.example")
    with AssistedServer(certificate=certificate) as server, ForwardProxy(server.port) as proxy:
        talk = behind_proxy(server, proxy, "https://assisted.example", authority)
        assert isinstance(talk.host(), HostView)
        assert talk.upload(bundle, "host") == Answered(204, sent=bundle.stat().st_size)
    assert proxy.seen == ["CONNECT assisted.example:443"] * 2


def test_proxy_gets_the_login_of_its_url(authority: Authority) -> None:
    certificate = authority.issue("assisted.example")
    login = "Basic bWU6c2VjcmV0"
    with AssistedServer(certificate=certificate) as server, ForwardProxy(server.port, login=login) as proxy:
        host = server.rules.add_host()
        service = make_service_settings(host, "https://assisted.example", None, authority.certificate)
        good = Proxies(https=f"http://me:secret@{proxy.address}")
        assert isinstance(AssistedService(service, proxies=good, retry_policy=QUICK).host(), HostView)
        bad = Proxies(https=proxy.address)
        outcome = AssistedService(service, proxies=bad, retry_policy=replace(QUICK, tries=1)).host()
    assert outcome == Unreachable("the proxy refused: 407 Proxy Authentication Required")


def test_missing_proxy_is_unreachable(tmp_path: Path) -> None:
    service = service_at("https://assisted.example")
    url = get_refused_url()
    outcome = AssistedService(service, proxies=Proxies(https=url), retry_policy=QUICK).host()
    assert outcome == Unreachable("no connection: Connection refused", tries=4)


@pytest.mark.parametrize("proxy", ["socks5://me:hunter2@proxy", "http://me:hunter2@", "://x"])
def test_invalid_proxy_is_reported_without_its_login(proxy: str) -> None:
    service = service_at("https://assisted.example")
    outcome = AssistedService(service, proxies=Proxies(https=proxy), retry_policy=QUICK).host()
    assert isinstance(outcome, Unreachable)
    assert "invalid proxy URL" in outcome.reason
    assert "hunter2" not in outcome.reason


# The token


@pytest.mark.parametrize(
    "fault",
    [
        None,
        CannedResponse(500, f"you sent {TOKEN}".encode()),
        ConnectionReset(),
        ConnectionClose(),
        NoResponse(),
    ],
)
def test_token_is_never_shown_or_logged(
    server: AssistedServer,
    bundle: Path,
    fault: Fault | None,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    for name in ("", "httpx2", "httpcore2", "httpcore2.http11", "httpcore2.connection", "stamina"):
        caplog.set_level(logging.DEBUG, logger=name)
    if fault:
        server.fail(fault, times=99)
    talk = AssistedService(
        make_service_settings(server.rules.add_host(), server.url, TOKEN),
        retry_policy=replace(QUICK, read=0.3, tries=2),
    )
    answers = [
        talk.host(),
        talk.report_stage("Rebooting", FACT),
        talk.upload(bundle, "host"),
    ]
    assert all(entry.request.headers["x-secret-key"] == TOKEN for entry in server.journal)
    logged = [str(vars(record)) for record in caplog.records]
    assert TOKEN not in "".join([*map(repr, answers), repr(talk), *logged, *capfd.readouterr()])


@pytest.mark.parametrize("token", ["two\nlines", "né", "a\0b", "a\x7fb"])
def test_token_invalid_in_a_header_is_reported_without_it(server: AssistedServer, token: str) -> None:
    service = make_service_settings(server.rules.add_host(), server.url, token)
    outcome = require_type(Unreachable, AssistedService(service, retry_policy=QUICK).host())
    assert outcome.reason.startswith("the value of X-Secret-Key has characters")
    assert server.journal == []


def test_token_is_not_sent_to_a_redirect(server: AssistedServer, bundle: Path) -> None:
    with AssistedServer() as elsewhere:
        server.fail(CannedResponse(307, headers={"Location": f"{elsewhere.url}/x"}), times=99)
        talk = AssistedService(
            make_service_settings(server.rules.add_host(), server.url, TOKEN), retry_policy=QUICK
        )
        assert talk.upload(bundle, "host") == Answered(307, sent=bundle.stat().st_size)
        assert elsewhere.journal == []
