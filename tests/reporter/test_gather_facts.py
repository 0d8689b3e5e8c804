"""What we find out ourselves: whether services can be reached, and how the clocks stand."""

import re
import shutil
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from service_record.reporter.gather import host_facts
from service_record.reporter.gather.model import GatherStatus
from tests.gathered import Host, gathered
from tests.running_server import Quiet, nobody, serving


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


class Service(Quiet):
    """Answers anybody with 403, as an API does those that it does not know."""

    def do_GET(self) -> None:
        self.say(403)


@pytest.fixture
def port() -> Iterator[int]:
    with serving(Service) as port:
        yield port


def reached(host: Host, *urls: str, **more: Any) -> str:
    return gathered(host, host_facts.reachability, urls=urls, **more).data("facts.txt").decode()


def test_without_a_service_to_reach_that_is_said(host: Host) -> None:
    assert gathered(host, host_facts.reachability).only.status is GatherStatus.ABSENT


def test_a_service_that_answers_is_reached(host: Host, port: int) -> None:
    told = reached(host, f"http://127.0.0.1:{port}/readyz?secret=1")

    assert told.startswith(f"http://127.0.0.1:{port}\n  name     127.0.0.1 (")
    assert "  connect  127.0.0.1: connected (" in told
    assert "  http     GET /readyz: 403 (" in told
    assert " s ahead of the server's" in told or " s behind the server's" in told
    assert "secret" not in told


def test_a_port_that_nobody_listens_on_and_a_name_that_nobody_knows_are_told(host: Host) -> None:
    url = nobody()
    told = reached(host, url.replace("http:", "https:"), "https://api.cluster.invalid:6443/")

    assert "  connect  127.0.0.1: Connection refused" in told
    assert "https://api.cluster.invalid:6443\n  name     " in told


@pytest.mark.parametrize("url", ["", "ftp://", "https://[::1", "http://host:port/", "http://user:secret@/"])
def test_a_bad_url_is_told_without_what_is_in_it(host: Host, url: str) -> None:
    told = reached(host, url)

    assert told
    assert "secret" not in told


@pytest.mark.parametrize("name", ["a" * 64 + ".example", "a..example", "\u00fc" * 63 + ".example"])
def test_unusable_host_name_does_not_end_the_checks(host: Host, port: int, name: str) -> None:
    told = reached(host, f"https://{name}", f"http://127.0.0.1:{port}/next")

    first, _, rest = told.partition("http://127.0.0.1")
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
    assert f"  http     GET {requested}: 403 (" in reached(host, f"http://127.0.0.1:{port}{path}")


def test_proxy_with_an_unusable_name_does_not_end_the_checks(host: Host, port: int) -> None:
    environ = {"http_proxy": f"http://{'a' * 64}.example:3128"}

    told = reached(host, f"http://127.0.0.1:{port}", environ=environ)

    assert "  past the proxy:\n  name " in told
    assert "  http     GET /: 403 (" in told


def test_a_service_that_is_no_service_of_tls_is_told(host: Host, port: int) -> None:
    assert "  failed   " in reached(host, f"https://127.0.0.1:{port}")


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate for localhost that nobody has signed, with its key in the same file."""
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
    with serving(Service, context) as port:
        yield port


needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")


@needs_openssl
def test_a_certificate_that_is_not_trusted_is_told_and_the_service_is_asked(
    host: Host, tls_port: int
) -> None:
    told = reached(host, f"https://127.0.0.1:{tls_port}/readyz")

    assert re.search("not trusted: self.signed certificate; SHA-256 of the certificate ", told)
    assert "  http     GET /readyz: 403 (" in told


@needs_openssl
def test_a_certificate_may_be_trusted_by_a_bundle_of_its_own(
    host: Host, tls_port: int, certificate: Path
) -> None:
    told = reached(host, f"https://127.0.0.1:{tls_port}/readyz", ca_bundle=certificate)

    assert ", trusted, valid until " in told


@needs_openssl
def test_a_ca_bundle_that_cannot_be_read_is_told(host: Host, tls_port: int) -> None:
    told = reached(host, f"https://127.0.0.1:{tls_port}/", ca_bundle=Path("/no/such/file"))

    assert "  failed   No such file or directory" in told


def test_a_proxy_is_reached_for_and_the_service_past_it(host: Host, port: int) -> None:
    environ = {"http_proxy": f"http://user:secret@127.0.0.1:{port}", "NO_PROXY": ".cluster.example"}

    told = reached(host, f"http://127.0.0.1:{port}", environ=environ)

    assert f"  proxy    127.0.0.1:{port}, but not for .cluster.example\n    name " in told
    assert "  past the proxy:\n  name " in told
    assert "secret" not in told


def test_the_clocks_of_a_host_are_told(host: Host) -> None:
    host.file("/sys/class/rtc/rtc0/since_epoch", "1000000000\n")

    told = gathered(host, host_facts.clocks).data("facts.txt").decode()

    assert "hardware 2001-09-09T01:46:40+00:00 (the system is " in told
    assert [line.split()[0] for line in told.splitlines()] == ["system", "hardware", "uptime"]
