"""Rendered templates are masked on the host, checked by the collector, and shown with their build."""

from pathlib import Path

import pytest

from service_record.collector.serving_settings import CollectorSettings
from tests.collector.browsing import sign_in_visitor
from tests.collector.serving import RunningCollector, run_collector
from tests.command_line import service_record

KICKSTART = """rootpw --plaintext hunter2secret
user --name=ops --password=plainpassword --plaintext
url --url=http://mirror:pw123456@mirror.example.com/os
%packages
@core <script>alert(1)</script>
%end
"""
PRESEED = """d-i passwd/root-password password r00tme
d-i grub-installer/password-crypted password $1$abc
d-i netcfg/wireless_passwd string wlan-key
d-i mirror/http/hostname string mirror.example.com
"""
SECRETS = ("hunter2secret", "plainpassword", "pw123456", "r00tme", "$1$abc", "wlan-key")
TEMPLATES = "/api/v1/hosts/web1/templates"


def test_template_is_masked_and_shown_with_build(tmp_path: Path, sqlite_settings: CollectorSettings) -> None:
    with run_collector(sqlite_settings) as server:
        host = server.client("host", "web1")
        (tmp_path / "token").write_text(host.token)
        (tmp_path / "anaconda-ks.cfg").write_text(KICKSTART)
        (tmp_path / "preseed.cfg").write_text(PRESEED)
        host.step("web1", "Disk setup", build="one")
        given = ["--template", tmp_path / "anaconda-ks.cfg", "--template", tmp_path / "preseed.cfg"]
        given += ["--host", "web1", "--token-file", tmp_path / "token"]
        sent = service_record("ship", "--to", server.url.replace("http", "collector+http"), *given)
        assert sent.status == 0, sent.err
        host.step("web1", "Disk setup", build="two")
        visitor = sign_in_visitor(server)
        latest = visitor.get("/hosts/web1").body.decode()
        first = visitor.page("/hosts/web1?build=1")
        links = [node.attributes.get("href", "") for node in first.all("a")]
        texts = [visitor.get(link) for link in links if "/templates/" in link]
        rows = server.client("admin").get("/api/v1/hosts/web1/bundles").json["bundles"]

    assert "anaconda-ks.cfg" not in latest, "it is of the build before"
    shown = "".join(text.body.decode() for text in texts)
    assert len(texts) == 2
    assert "@core <script>" in shown
    assert "mirror.example.com" in shown
    assert not [secret for secret in SECRETS if secret in shown]
    assert {text.headers["content-type"] for text in texts} == {"text/plain; charset=utf-8"}
    assert {(row["kind"], row["build"], row["is_indexed"]) for row in rows} == {("template", 1, True)}


@pytest.mark.parametrize("line", [*KICKSTART.splitlines()[:3], *PRESEED.splitlines()[:3]])
def test_template_with_secret_is_refused(server: RunningCollector, line: str) -> None:
    host = server.client("host", "web1")
    host.step("web1", "Disk setup")

    answer = host.ask("POST", f"{TEMPLATES}?name=ks", body=line.encode())

    assert answer.status == 422
    assert b"ship --template" in answer.body
    assert server.client("admin").get("/api/v1/hosts/web1/bundles").json["bundles"] == []


def test_token_without_write_right_attaches_nothing(sqlite_settings: CollectorSettings) -> None:
    with run_collector(sqlite_settings) as server:
        for kind, scope in (("reader", ""), ("boot", "web1"), ("enrolment", ""), ("host", "web2")):
            answer = server.client(kind, scope).ask("POST", f"{TEMPLATES}?name=ks", body=b"text")
            assert answer.status == 403, kind
        host = server.client("host", "web1")
        assert host.ask("POST", TEMPLATES, body=b"text").status == 400
        assert host.ask("POST", f"{TEMPLATES}?name=ks", body=b"x" * (1 << 20)).status == 413
        assert server.client("admin").get("/api/v1/hosts/web1").status == 404


def test_same_template_is_kept_once_for_each_build(server: RunningCollector) -> None:
    host = server.client("host", "web1")
    for build in ("one", "two"):
        host.step("web1", "Disk setup", build=build)
        for name in ("a", "b", "a"):
            assert host.ask("POST", f"{TEMPLATES}?name={name}", body=b"text").status == 201
    rows = server.client("admin").get("/api/v1/hosts/web1/bundles").json["bundles"]
    assert sorted((row["build"], row["name"]) for row in rows) == [(1, "a"), (1, "b"), (2, "a"), (2, "b")]
