"""`GET /api/v1/boot/TOKEN`: an iPXE script reports a downloaded image. The token has no other rights."""

import pytest

from service_record.collector.serving_settings import CollectorSettings
from tests.collector.serving import Client, RunningCollector, run_collector

BOOT = "/api/v1/boot/{}"


def test_get_reports_image_downloaded(server: RunningCollector) -> None:
    token = server.client("boot", "web1").token

    answer = server.stranger.get(BOOT.format(token))

    assert (answer.status, answer.body) == (200, b"#!ipxe\n"), "a script for iPXE that does nothing"
    assert answer.headers["cache-control"] == "no-store"
    document = server.client("admin").get("/api/v1/hosts/web1").json
    ((step,),) = (repeated["first"] for repeated in document["steps"])
    assert (step["name"], step["label"], step["status"]) == ("Image downloaded", "image_downloaded", "done")


def test_other_tokens_in_a_path_are_refused(server: RunningCollector) -> None:
    for kind, scope in (("admin", ""), ("host", "web1"), ("group", "dc1"), ("reader", ""), ("enrolment", "")):
        assert server.stranger.get(BOOT.format(server.client(kind, scope).token)).status == 403, kind
    for wrong in ("srt_1_guess", "web1", "srt_", "%20"):
        assert server.stranger.get(BOOT.format(wrong)).status == 401, wrong
    assert server.client("admin").get("/api/v1/hosts/web1").status == 404


def test_boot_token_has_no_other_right(server: RunningCollector) -> None:
    boot = server.client("boot", "web1")

    assert boot.step("web1", "Disk setup").status == 403
    assert boot.post("/api/update", name="web1", status="x").status == 403
    assert boot.ask("POST", "/api/v1/hosts/web1/records", data={"pieces": []}).status == 403
    assert boot.get("/api/v1/hosts/web1").status == 403
    assert boot.post("/api/v1/enrol", host="web1").status == 403
    assert boot.get("/api/v1/tokens").status == 403


@pytest.mark.parametrize("method", ["HEAD", "POST"])
def test_only_get_reports(sqlite_settings: CollectorSettings, method: str) -> None:
    with run_collector(sqlite_settings) as server:
        token = server.client("boot", "web1").token

        assert server.stranger.ask(method, BOOT.format(token)).status == 405
        assert server.client("admin").get("/api/v1/hosts/web1").status == 404


def test_head_request_reports_no_step(server: RunningCollector) -> None:
    admin = server.client("admin")
    step = "/api/v1/hosts/web1/steps?name=Disk%20setup&status=failed"

    assert admin.ask("HEAD", step).status == 405
    assert admin.get("/api/v1/hosts/web1").status == 404
    assert admin.get(step).status == 201


def test_boot_token_expires_and_ends_with_its_host(server: RunningCollector) -> None:
    admin = server.client("admin")
    made = admin.post("/api/v1/tokens", kind="boot", scope="web1").json
    nameless = admin.post("/api/v1/tokens", kind="boot")

    assert made["expires_at"] - server.collector.now() == pytest.approx(7 * 86_400, abs=60)
    assert (nameless.status, "needs the host's name" in nameless.json["detail"]) == (400, True)
    assert server.stranger.get(BOOT.format(made["token"])).status == 200
    assert admin.ask("DELETE", "/api/v1/hosts/web1").status == 204
    assert Client(server.url).get(BOOT.format(made["token"])).status == 401


def test_boot_token_is_not_logged(
    sqlite_settings: CollectorSettings, capfd: pytest.CaptureFixture[str]
) -> None:
    with run_collector(sqlite_settings) as server:
        token = server.client("host", "web1").token
        assert server.stranger.get(BOOT.format(token)).status == 403
    output = "".join(capfd.readouterr())
    assert token not in output
    assert token.split("_", 2)[2] not in output
