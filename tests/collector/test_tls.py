"""A collector with TLS, behind a proxy, with its log on stderr."""

import contextlib
import http.client
import json
import shutil
import signal
import ssl
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from service_record.collector.serving_settings import CollectorSettings
from testing.collector import process
from tests.collector.commands import collector_command
from tests.collector.serving import Client, make_collector_settings
from tests.collector.test_sweep import eventually
from tests.command_line import service_record

if shutil.which("openssl") is None:
    pytest.skip("no openssl", allow_module_level=True)


def certificate_in(folder: Path) -> tuple[Path, Path]:
    """Create a self-signed certificate and its key."""
    certificate, key = folder / "tls.pem", folder / "tls.key"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
            *("-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-out", str(certificate), "-keyout", str(key)),
        ],
        check=True,
        capture_output=True,
    )
    return certificate, key


def token_of(settings: CollectorSettings, kind: str, scope: str = "") -> str:
    made = collector_command("token", "create", kind, scope, "--data", settings.data)
    return made.out.strip()


def asked(
    url: str, path: str, headers: dict[str, str], trust: ssl.SSLContext | None = None
) -> tuple[int, dict[str, str], bytes]:
    address = urlsplit(url)
    host, port = address.hostname or "", address.port
    connection = (
        http.client.HTTPConnection(host, port, timeout=30)
        if trust is None
        else http.client.HTTPSConnection(host, port, timeout=30, context=trust)
    )
    with contextlib.closing(connection):
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        return response.status, {n.lower(): v for n, v in response.headers.items()}, response.read()


def test_certificate_enables_only_tls_with_hsts(tmp_path: Path) -> None:
    certificate, key = certificate_in(tmp_path)
    settings = make_collector_settings(tmp_path)
    bearer = {"Authorization": f"Bearer {token_of(settings, 'reader')}"}
    with process(settings, "--certificate", str(certificate), "--key", str(key)) as running:
        trust = ssl.create_default_context(cafile=str(certificate))
        status, headers, _ = asked(running.url, "/api/v1/hosts", bearer, trust)

        assert running.url.startswith("https://")
        assert status == 200
        assert headers["strict-transport-security"] == "max-age=31536000"
        with pytest.raises(ssl.SSLCertVerificationError):
            asked(running.url, "/healthz", {}, ssl.create_default_context())
        with pytest.raises((http.client.HTTPException, OSError)):
            asked(running.url.replace("https", "http"), "/healthz", {})


def fingerprint(url: str) -> str:
    """Return the fingerprint of the certificate that a collector uses now."""
    address = urlsplit(url)
    return ssl.get_server_certificate((address.hostname or "", address.port or 0))


def test_sighup_reloads_certificate_and_steps(tmp_path: Path) -> None:
    certificate, key = certificate_in(tmp_path)
    steps = tmp_path / "steps.toml"
    steps.write_text('[[step]]\nlabel = "old"\n')
    settings = make_collector_settings(tmp_path)
    token = token_of(settings, "host", "web1")
    arguments = ("--certificate", str(certificate), "--key", str(key), "--steps", str(steps))
    with process(settings, *arguments) as running:
        before = fingerprint(running.url)
        certificate_in(tmp_path)
        steps.write_text('[[step]]\nlabel = "new"\n')
        running.process.send_signal(signal.SIGHUP)
        eventually(lambda: fingerprint(running.url) != before, expected=True)
        after = fingerprint(running.url)

        certificate.write_text("no certificate")
        steps.write_text("[[step")
        running.process.send_signal(signal.SIGHUP)
        trust = ssl.create_default_context(cadata=after)
        path, bearer = "/api/v1/hosts/web1/steps?name=", {"Authorization": f"Bearer {token}"}
        assert asked(running.url, path + "new", bearer, trust)[0] == 201
        assert asked(running.url, path + "old", bearer, trust)[0] == 422
        assert fingerprint(running.url) == after


def test_early_sighup_does_not_kill(tmp_path: Path) -> None:
    with process(make_collector_settings(tmp_path)) as running:
        running.process.send_signal(signal.SIGHUP)

        assert Client(running.url).get("/healthz").status == 200


@pytest.mark.parametrize("what", ["no PEM", "another key"])
def test_invalid_certificate_is_named(tmp_path: Path, what: str) -> None:
    certificate, key = certificate_in(tmp_path)
    if what == "no PEM":
        certificate.write_text("nothing")
    else:
        (tmp_path / "other").mkdir()
        _, key = certificate_in(tmp_path / "other")

    answer = service_record(
        *("collector", "serve", "--data", tmp_path / "data", "--port", 0),
        *("--certificate", certificate, "--key", key),
    )

    assert answer.status == 3
    assert answer.err.splitlines()[-1].startswith(
        f"Error: {certificate}: no certificate with its private key"
    )
    assert "Traceback" not in answer.err


def test_only_named_proxies_are_trusted(tmp_path: Path) -> None:
    settings = make_collector_settings(tmp_path)
    forwarded = {"X-Forwarded-For": "203.0.113.7", "X-Forwarded-Proto": "https"}
    seen = []
    for options in ((), ("--proxy", "127.0.0.1")):
        with process(settings, *options) as running:
            _, headers, _ = asked(running.url, "/api/v1/hosts", forwarded)
            running.end(signal.SIGTERM)
            lines = [line for line in running.log.read_text().splitlines() if line.startswith("{")]
        (refused,) = [line for line in map(json.loads, lines) if line["event"] == "refused"]
        seen.append((refused["address"], "strict-transport-security" in headers))

    assert seen == [("127.0.0.1", False), ("203.0.113.7", True)]


def test_logs_are_json_without_secrets(tmp_path: Path) -> None:
    settings = make_collector_settings(tmp_path)
    token = token_of(settings, "host", "web1")
    secret_file = tmp_path / "webhook-secret"
    secret_file.write_text("CANARYofTHEwebhook")
    webhook = "http://127.0.0.1:9/CANARYinTHEwebhooksURL"
    options = ["--webhook", webhook, "--webhook-secret-file", str(secret_file), "--log-level", "debug"]
    with process(settings, *options) as running:
        asked(running.url, "/api/v1/tokens?token=CANARYinQUERY", {"Authorization": f"Bearer {token}"})
        asked(running.url, "/CANARYinPATH", {"Cookie": "session=CANARYinCOOKIE"})
        asked(running.url, "/api/v1/hosts/web1/steps?name=x&status=failed", {"X-Secret-Key": token})
        running.end(signal.SIGTERM)
        log = running.log.read_text()

    lines = log.splitlines()
    assert lines[0].startswith("listening on ")
    assert len([json.loads(line) for line in lines[1:]]) >= 2
    assert "CANARY" not in log
    assert token.split("_", 2)[2] not in log
