"""Where bundles go: what each destination is sent, what it answers, and what it never learns."""

import io
import logging
import tarfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from service_record.http.answers import Answered, Outcome, Unreachable
from service_record.http.proxies import Proxies
from service_record.reporter.assisted_service import AssistedService
from service_record.reporter.settings import Settings
from service_record.reporter.shipping import (
    copy_into,
    make_probe,
    ship_to,
    upload_boot_logs,
    upload_host_logs,
)
from tests.assisted_contract import assert_requests_match_openapi
from tests.assisted_installation import Host
from tests.assisted_rules import AssistedRules
from tests.assisted_server import (
    AssistedServer,
    Authority,
    CannedResponse,
    ConnectionClose,
    ConnectionReset,
    EarlyResponse,
    make_service_settings,
)
from tests.builders import require, require_type
from tests.forward_proxy import ForwardProxy
from tests.full_disk import limit_file_size
from tests.reporter.test_assisted_service import QUICK, TOKEN
from tests.running_server import get_refused_url

CONTENT = bytes(range(256)) * 256
SIGNATURE = "X-Amz-Credential=AKIAIOSFODNN7%2F20261121&X-Amz-Signature=fe5f80f77d5fa3beca038a248ff027d0"


@pytest.fixture
def server() -> Iterator[AssistedServer]:
    with AssistedServer() as server:
        yield server


@pytest.fixture
def knowing() -> Iterator[AssistedServer]:
    with AssistedServer(AssistedRules(knows_host_boot=True)) as server:
        yield server
    assert_requests_match_openapi(entry.request for entry in server.journal)


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    path = tmp_path / "log-bundle-20261121010500.tar.gz"
    path.write_bytes(CONTENT)
    return path


def talk(server: AssistedServer, host: Host | None = None) -> AssistedService:
    host = host or server.rules.add_host()
    return AssistedService(make_service_settings(host, server.url, TOKEN), retry_policy=QUICK)


def settings(server: AssistedServer, **more: Any) -> Settings:
    return Settings(
        service=make_service_settings(server.rules.add_host(), "http://not.asked.invalid", TOKEN), **more
    )


# The assisted-service


def test_host_boot_logs_are_probed_first(knowing: AssistedServer, bundle: Path) -> None:
    host = knowing.rules.add_host()
    outcome = require_type(Answered, upload_boot_logs(talk(knowing, host), bundle))
    asked, shipped = (entry.request for entry in knowing.journal)
    assert (outcome.status, outcome.tries) == (204, 2)
    assert len(CONTENT) < outcome.sent < len(CONTENT) + 1000
    assert len(asked.body) < 1000
    assert asked.query["logs_type"] == shipped.query["logs_type"] == "host_boot"
    assert list(knowing.rules.objects.values()) == [CONTENT]
    assert host.logs_info == ""


def test_probe_is_a_readable_archive(knowing: AssistedServer) -> None:
    assert talk(knowing).upload(make_probe(), "host_boot") == replace(
        Answered(204), sent=knowing_size(knowing)
    )
    (packed,) = knowing.rules.objects.values()
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        assert b"host_boot" in require(archive.extractfile("README")).read()


def knowing_size(server: AssistedServer) -> int:
    (probe,) = server.rules.objects.values()
    return len(probe)


def test_known_server_is_not_probed_again(knowing: AssistedServer, bundle: Path) -> None:
    assert upload_boot_logs(talk(knowing), bundle, is_known=True) == Answered(204, sent=len(CONTENT))
    assert len(knowing.journal) == 1


@pytest.mark.parametrize("body", [None, b"bad request"], ids=["the service", "a proxy before it"])
def test_server_without_host_boot_logs_gets_no_bundle(
    server: AssistedServer, bundle: Path, body: bytes | None
) -> None:
    if body:
        server.fail(CannedResponse(400, body), times=9)
    outcome = require_type(Answered, upload_boot_logs(talk(server), bundle))
    assert (outcome.status, len(server.journal)) == (400, 1)
    assert len(server.journal[0].request.body) < 1000
    assert server.rules.objects == {}


def test_missing_bundle_sends_no_request(knowing: AssistedServer, tmp_path: Path) -> None:
    assert isinstance(upload_boot_logs(talk(knowing), tmp_path / "gone"), Unreachable)
    assert knowing.journal == []


def test_host_logs_are_completed_after_their_upload(server: AssistedServer, bundle: Path) -> None:
    host = server.rules.add_host(status="error")
    assert upload_host_logs(talk(server, host), bundle) == Answered(204, sent=len(CONTENT))
    assert server.calls() == ["POST /v2/clusters/logs", "PUT /v2/infra-envs/hosts/logs-progress"]
    server.rules.advance(minutes=3)
    assert (host.logs_info, list(server.rules.objects.values())) == ("completed", [CONTENT])
    assert_requests_match_openapi((entry.request for entry in server.journal), has_proposed_values=False)


@pytest.mark.parametrize("status", [400, 404, 503])
def test_refused_host_logs_are_not_completed(server: AssistedServer, bundle: Path, status: int) -> None:
    server.fail(CannedResponse(status), path="/logs", times=9)
    assert require_type(Answered, upload_host_logs(talk(server), bundle)).status == status
    assert set(server.calls()) == {"POST /v2/clusters/logs"}


def test_stored_logs_count_even_if_not_completed(server: AssistedServer, bundle: Path) -> None:
    server.fail(CannedResponse(404, b"no such host"), path="/logs-progress")
    outcome = upload_host_logs(talk(server), bundle)
    assert outcome == Answered(204, "(not marked as completed: 404 no such host)", sent=len(CONTENT))


# Directories


def test_directory_keeps_each_bundle_by_host_name(tmp_path: Path, bundle: Path) -> None:
    share = tmp_path / "share"
    share.mkdir()
    target = share / "host-7-log-bundle-20261121010500.tar.gz"
    assert copy_into(share, "host-7", bundle) == Answered(201, str(target))
    assert target.read_bytes() == CONTENT
    assert copy_into(share, "host-7", bundle) == Answered(200, str(target))
    bundle.write_bytes(b"another of the same name, by a clock that was set back")
    other = share / "host-7-log-bundle-20261121010500-2.tar.gz"
    assert copy_into(share, "host-7", bundle) == Answered(201, str(other))
    assert sorted(path.name for path in share.iterdir()) == [other.name, target.name]


def test_missing_directory_is_not_created(tmp_path: Path, bundle: Path) -> None:
    missing = tmp_path / "mnt" / "stick"
    assert copy_into(missing, "h", bundle) == Unreachable(f"{missing}: No such file or directory")
    assert not missing.parent.exists()


def test_path_that_cannot_be_encoded_is_unreachable(tmp_path: Path, bundle: Path) -> None:
    outcome = require_type(Unreachable, copy_into(tmp_path / "\ud800", "h", bundle))
    assert "can't encode character" in outcome.reason


def test_full_disk_keeps_no_part_of_the_bundle(tmp_path: Path, bundle: Path) -> None:
    share = tmp_path / "share"
    share.mkdir()
    with limit_file_size(len(CONTENT) // 2):
        assert copy_into(share, "h", bundle) == Unreachable(f"{share}: File too large")
    assert list(share.iterdir()) == []


def test_only_torn_files_of_this_host_are_removed(tmp_path: Path, bundle: Path) -> None:
    share = tmp_path / "share"
    share.mkdir()
    ours, theirs = share / ".h-log-bundle-0.tar.gz.part", share / ".other-log-bundle-0.tar.gz.part"
    for torn in (ours, theirs):
        torn.write_bytes(b"to")
    copy_into(share, "h", bundle)
    assert (ours.exists(), theirs.exists()) == (False, True)


def test_host_name_cannot_leave_the_directory(server: AssistedServer, tmp_path: Path, bundle: Path) -> None:
    share = tmp_path / "share"
    share.mkdir()
    service = replace(make_service_settings(server.rules.add_host(), server.url), host_id="../../etc/x")
    require_type(Answered, ship_to(str(share), bundle, Settings(service=service), QUICK))
    assert [path.parent for path in tmp_path.rglob("*x-log-bundle*")] == [share]


# URLs


def put(server: AssistedServer, bundle: Path, tries: int | None = None) -> Outcome:
    return ship_to(f"{server.url}/bucket/host-7.tar.gz?{SIGNATURE}", bundle, settings(server), QUICK, tries)


@pytest.mark.parametrize(
    "says",
    [
        CannedResponse(200, headers={"ETag": '"d41d8"'}),
        CannedResponse(200, b"stored"),
        CannedResponse(201),
        CannedResponse(204),
    ],
    ids=["200 with an ETag", "200 with a word", "201", "204"],
)
def test_signed_url_is_used_unchanged(server: AssistedServer, bundle: Path, says: CannedResponse) -> None:
    server.fail(says)
    status, text = says.status, says.body.decode()
    assert put(server, bundle) == Answered(status, text, sent=len(CONTENT))
    (entry,) = server.journal
    assert (entry.request.method, entry.request.target) == ("PUT", f"/bucket/host-7.tar.gz?{SIGNATURE}")
    assert entry.request.body == CONTENT
    assert entry.request.headers["content-length"] == str(len(CONTENT))
    assert {"content-type", "transfer-encoding", "x-secret-key"}.isdisjoint(entry.request.headers)


def test_signature_appears_in_no_text(
    server: AssistedServer, bundle: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in ("", "httpx2", "httpcore2", "httpcore2.http11", "httpcore2.connection", "stamina"):
        caplog.set_level(logging.DEBUG, logger=name)
    half = SIGNATURE.partition("&")[0]
    escaped = SIGNATURE.replace("&", "&amp;")
    page = f"<Error><i>{half}</i><Message>{escaped} AKIAIOSFODNN7/20261121</Message></Error>"
    server.fail(CannedResponse(403, page.encode()))
    server.fail(CannedResponse(301, headers={"Location": f"{server.url}/?{SIGNATURE}"}))
    server.fail(ConnectionClose(), times=2)
    texts = [repr(put(server, bundle)) for _ in range(3)]
    texts += [str(vars(record)) for record in caplog.records]
    text = "".join([*texts, *capfd.readouterr()])
    assert "[secret]" in text
    for secret in ("fe5f80f77d5fa3beca", "AKIAIOSFODNN7"):
        assert secret not in text


def test_broken_put_is_repeated_completely(server: AssistedServer, bundle: Path) -> None:
    server.fail(ConnectionReset())
    server.fail(CannedResponse(201))
    outcome = require_type(Answered, put(server, bundle))
    assert (outcome.status, outcome.tries) == (201, 2)
    assert server.journal[-1].request.body == CONTENT


def test_uploads_stay_within_their_budget(
    server: AssistedServer, knowing: AssistedServer, bundle: Path
) -> None:
    for place in (server, knowing):
        place.fail(CannedResponse(503), times=99)
    for one in all_destinations(server, knowing):
        for tries in (1, 2):
            assert one(bundle, tries) == Answered(503, sent=len(CONTENT))  # a second costs as much


def all_destinations(
    server: AssistedServer, knowing: AssistedServer
) -> list[Callable[[Path, int | None], Outcome]]:
    """Return functions that ship a bundle in at most so many tries."""
    service = make_service_settings(knowing.rules.add_host(), "http://not.asked.invalid")
    return [
        lambda bundle, tries: put(server, bundle, tries),
        lambda bundle, tries: upload_host_logs(talk(knowing), bundle, tries),
        lambda bundle, tries: upload_boot_logs(talk(knowing), bundle, tries, is_known=True),
        lambda bundle, tries: ship_to(
            f"collector+{knowing.url}", bundle, Settings(service=service), QUICK, tries
        ),
    ]


@pytest.mark.parametrize("status", [401, 403, 404, 413, 429, 503])
def test_early_refusal_prevents_sending_the_bundle(
    server: AssistedServer, knowing: AssistedServer, bundle: Path, status: int
) -> None:
    for one in all_destinations(server, knowing):
        for place in (server, knowing):
            place.fail(EarlyResponse(status), times=2)
        tries = 2 if status in {429, 503} else 1
        assert one(bundle, None) == Answered(status, tries=tries)
        for place in (server, knowing):
            place.clear_faults()
    assert not knowing.rules.objects
    assert all(entry.request.headers["expect"] == "100-continue" for entry in knowing.journal)


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(CannedResponse(200, b"<!DOCTYPE html><title>Log in</title>"), id="a portal"),
        pytest.param(CannedResponse(200), id="a portal that says nothing"),
        pytest.param(EarlyResponse(200, b"<html><title>Log in</title>"), id="a portal that wants nothing"),
        pytest.param(EarlyResponse(302, b"", {"Location": "http://log.in"}), id="a redirect"),
    ],
)
def test_answer_of_a_portal_is_not_an_acknowledgement(
    server: AssistedServer, knowing: AssistedServer, bundle: Path, fault: CannedResponse
) -> None:
    for one in all_destinations(server, knowing):
        server.fail(fault, times=1)
        knowing.fail(fault, times=1)
        outcome = one(bundle, 1)
        assert isinstance(outcome, Unreachable), outcome
        assert outcome.sent == (0 if isinstance(fault, EarlyResponse) else len(CONTENT))
        server.clear_faults()
        knowing.clear_faults()


@pytest.mark.parametrize("status", [200, 201, 202])
def test_service_and_collector_acknowledge_only_with_204(
    server: AssistedServer, knowing: AssistedServer, bundle: Path, status: int
) -> None:
    for one in all_destinations(server, knowing)[1:]:
        knowing.fail(CannedResponse(status))
        assert "no acknowledgement" in require_type(Unreachable, one(bundle, 1)).reason


def test_server_without_expect_gets_the_bundle_after_a_second(
    server: AssistedServer, knowing: AssistedServer, bundle: Path
) -> None:
    knowing.sends_continue = False
    began = time.monotonic()
    assert upload_host_logs(talk(knowing), bundle) == Answered(204, sent=len(CONTENT))
    assert 1 <= time.monotonic() - began < 10
    assert list(knowing.rules.objects.values()) == [CONTENT]


def test_answer_417_repeats_the_upload_without_expect(knowing: AssistedServer, bundle: Path) -> None:
    knowing.fail(EarlyResponse(417))
    assert upload_host_logs(talk(knowing), bundle) == Answered(204, sent=len(CONTENT))
    assert ["expect" in entry.request.headers for entry in knowing.journal] == [True, False, False]


@pytest.mark.parametrize("is_refused", [True, False])
def test_expect_works_through_tls_and_a_proxy(tmp_path: Path, bundle: Path, is_refused: bool) -> None:
    authority = Authority(tmp_path / "authority")
    certificate = authority.issue("127.0.0.1", "assisted.example")
    with AssistedServer(certificate=certificate) as server, ForwardProxy(server.port) as proxy:
        if is_refused:
            server.fail(EarlyResponse(401))
        here = server.rules.add_host()
        service = make_service_settings(here, "https://assisted.example", TOKEN, authority.certificate)
        talking = AssistedService(service, retry_policy=QUICK, proxies=Proxies(https=proxy.url))
        outcome = talking.upload(bundle, "host")
    assert outcome == (Answered(401) if is_refused else Answered(204, sent=len(CONTENT)))
    assert list(server.rules.objects.values()) == ([] if is_refused else [CONTENT])


def test_put_uses_the_proxy(server: AssistedServer, bundle: Path) -> None:
    server.fail(CannedResponse(201))
    with ForwardProxy(server.port) as proxy:
        behind = settings(server, proxies=Proxies(http=proxy.url))
        outcome = ship_to("http://bucket.example/x?a=b", bundle, behind, QUICK)
    assert outcome == Answered(201, sent=len(CONTENT))
    assert proxy.seen == ["PUT http://bucket.example/x?a=b"]


def test_url_without_a_server_is_unreachable(server: AssistedServer, bundle: Path) -> None:
    url = get_refused_url()
    outcome = ship_to(f"{url}/x", bundle, settings(server), QUICK)
    assert outcome == Unreachable("no connection: Connection refused", tries=2)


# Collectors


def test_collector_gets_the_bundle_without_the_token(knowing: AssistedServer, bundle: Path) -> None:
    host = knowing.rules.add_host()
    service = make_service_settings(host, "http://not.asked.invalid", TOKEN)
    outcome = ship_to(f"collector+{knowing.url}", bundle, Settings(service=service), QUICK)
    assert outcome == Answered(204, sent=len(CONTENT))
    (entry,) = knowing.journal
    assert entry.request.query["host_id"] == host.id
    assert TOKEN not in str(entry)
    assert list(knowing.rules.objects.values()) == [CONTENT]


def test_collector_gets_its_own_token(knowing: AssistedServer, bundle: Path) -> None:
    service = make_service_settings(knowing.rules.add_host(), "http://not.asked.invalid", TOKEN)
    sending = Settings(service=service, collector_token="its-own")
    ship_to(f"collector+{knowing.url}", bundle, sending, QUICK)
    (entry,) = knowing.journal
    assert entry.request.headers["x-secret-key"] == "its-own"
    assert TOKEN not in str(entry)


def test_collector_needs_the_ids_of_the_host(bundle: Path) -> None:
    outcome = require_type(Unreachable, ship_to("collector+http://c", bundle, Settings(), QUICK))
    assert outcome.reason.startswith("a collector knows a host by its ids")
