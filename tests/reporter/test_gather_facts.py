"""Facts that the reporter finds itself: whether services can be reached, and the clocks of the host."""

import re
import shutil
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from service_record.reporter.gather.gathering import GatherStatus
from service_record.reporter.gather.network import reachability
from service_record.reporter.gather.sources import clocks
from tests.gathering import Host, run_collector
from tests.running_server import QuietHandler, get_refused_url, serve


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


class Service(QuietHandler):
    """Answers every request with 403, as an API answers clients without credentials."""

    def do_GET(self) -> None:
        self.respond(403)


@pytest.fixture
def port() -> Iterator[int]:
    with serve(Service) as port:
        yield port


def reachability_text(host: Host, *urls: str, **more: Any) -> str:
    return run_collector(host, reachability, urls=urls, **more).data("facts.txt").decode()


def test_reachability_is_absent_without_urls(host: Host) -> None:
    assert run_collector(host, reachability).only.status is GatherStatus.ABSENT


def test_reachable_service_has_all_steps(host: Host, port: int) -> None:
    text = reachability_text(host, f"http://127.0.0.1:{port}/readyz?secret=1")

    assert text.startswith(f"http://127.0.0.1:{port}\n  name     127.0.0.1 (")
    assert "  connect  127.0.0.1: connected (" in text
    assert "  http     GET /readyz: 403 (" in text
    assert " s ahead of the server's" in text or " s behind the server's" in text
    assert "secret" not in text


def test_closed_port_and_unknown_name_are_reported(host: Host) -> None:
    url = get_refused_url()
    text = reachability_text(host, url.replace("http:", "https:"), "https://api.cluster.invalid:6443/")

    assert "  connect  127.0.0.1: Connection refused" in text
    assert "https://api.cluster.invalid:6443\n  name     " in text


@pytest.mark.parametrize("url", ["", "ftp://", "https://[::1", "http://host:port/", "http://user:secret@/"])
def test_invalid_url_is_reported_without_its_password(host: Host, url: str) -> None:
    text = reachability_text(host, url)

    assert text
    assert "secret" not in text


@pytest.mark.parametrize("name", ["a" * 64 + ".example", "a..example", "\u00fc" * 63 + ".example"])
def test_unusable_host_name_does_not_end_the_checks(host: Host, port: int, name: str) -> None:
    text = reachability_text(host, f"https://{name}", f"http://127.0.0.1:{port}/next")

    first, _, rest = text.partition("http://127.0.0.1")
    assert "\n  name     " in first
    assert "  connect  " not in first
    assert "  http     GET /next: 403 (" in rest


@pytest.mark.parametrize(
    ("path", "requested"),
    [
        ("/\u00fc", "/%C3%BC"),
        ("/a b", "/a%20b"),
        ("/%C3%BC%2F", "/%C3%BC%2F"),
        ("/~a;b=(c),d:e@f!$&'*+", "/~a;b=(c),d:e@f!$&'*+"),
    ],
)
def test_path_is_percent_encoded(host: Host, port: int, path: str, requested: str) -> None:
    assert f"  http     GET {requested}: 403 (" in reachability_text(host, f"http://127.0.0.1:{port}{path}")


def test_invalid_proxy_name_does_not_end_checks(host: Host, port: int) -> None:
    environ = {"http_proxy": f"http://{'a' * 64}.example:3128"}

    text = reachability_text(host, f"http://127.0.0.1:{port}", environ=environ)

    assert "  past the proxy:\n  name " in text
    assert "  http     GET /: 403 (" in text


def test_service_without_tls_is_reported(host: Host, port: int) -> None:
    assert "  failed   " in reachability_text(host, f"https://127.0.0.1:{port}")


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A self-signed certificate for localhost, with its key in the same file."""
    path = tmp_path / "certificate.pem"
    request = ("req", "-x509", "-nodes", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")
    names = ("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1")
    command = ("openssl", *request, *names, "-days", "2", "-keyout", path, "-out", tmp_path / "public.pem")
    subprocess.run(command, check=True, capture_output=True)
    path.write_bytes(path.read_bytes() + (tmp_path / "public.pem").read_bytes())
    return path


@pytest.fixture
def tls_port(certificate: Path) -> Iterator[int]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with serve(Service, context) as port:
        yield port


needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")


@needs_openssl
def test_request_is_sent_despite_an_untrusted_certificate(host: Host, tls_port: int) -> None:
    text = reachability_text(host, f"https://127.0.0.1:{tls_port}/readyz")

    assert re.search("not trusted: self.signed certificate; SHA-256 of the certificate ", text)
    assert "  http     GET /readyz: 403 (" in text


@needs_openssl
def test_certificate_in_the_ca_bundle_is_trusted(host: Host, tls_port: int, certificate: Path) -> None:
    text = reachability_text(host, f"https://127.0.0.1:{tls_port}/readyz", ca_bundle=certificate)

    assert ", trusted, valid until " in text


@needs_openssl
def test_unreadable_ca_bundle_is_reported(host: Host, tls_port: int) -> None:
    text = reachability_text(host, f"https://127.0.0.1:{tls_port}/", ca_bundle=Path("/no/such/file"))

    assert "  failed   No such file or directory" in text


def test_proxy_and_direct_connection_are_tested(host: Host, port: int) -> None:
    environ = {"http_proxy": f"http://user:secret@127.0.0.1:{port}", "NO_PROXY": ".cluster.example"}

    text = reachability_text(host, f"http://127.0.0.1:{port}", environ=environ)

    assert f"  proxy    127.0.0.1:{port}, but not for .cluster.example\n    name " in text
    assert "  past the proxy:\n  name " in text
    assert "secret" not in text


def test_clocks_of_the_host_are_listed(host: Host) -> None:
    host.file("/sys/class/rtc/rtc0/since_epoch", "1000000000\n")

    text = run_collector(host, clocks).data("facts.txt").decode()

    assert "hardware 2001-09-09T01:46:40+00:00 (the system is " in text
    assert [line.split()[0] for line in text.splitlines()] == ["system", "hardware", "uptime"]
