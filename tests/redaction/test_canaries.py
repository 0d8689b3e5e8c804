"""Secrets of every kind, wherever a host has them and in every form they take: none is in what is shipped."""

import gzip
import subprocess
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from service_record.record.entry import Result
from testing.made_up import draw, pem, pull_secret
from tests.assisted_server import AssistedServer, create_server_with_tokens
from tests.builders import entry, write_lines
from tests.reporting_host import TOKEN, ReportingHost
from tests.secret_forms import FORMS

PIECE: Final = 12
"""Bytes. Less than that of a secret is nothing that anybody can use, and may stand anywhere by chance."""
FEW: Final = 4
PULL_SECRET, AUTHS = pull_secret()
KEY: Final = pem(lines=24)[0]
CANARIES: Final = {
    "kubeadmin": draw(23).encode(),
    "bootstrap token": f"{draw(6).lower()}.{draw(16).lower()}".encode(),
    "registry auth": AUTHS[0].encode(),
    "proxy password": f"p@ss-{draw(12)}%the+proxy".encode(),
    "password hash": f"$6$saltsalt${draw(86)}".encode(),
    "psk": f"wifi-{draw(12)}".encode(),
    "agent token": f"eyTok/{draw(30)}+with=signs%and~more".encode(),
    "ignition": draw(20).encode(),
    "environment": draw(24).encode(),
    "reporter's token": TOKEN.encode(),
}
ROTATED: Final = bytes.maketrans(
    b"abcdefghijklmnopqrstuvwxyz0123456789", b"nopqrstuvwxyzabcdefghijklm5678901234"
)
FAKE_JOURNALCTL: Final = "#!/bin/sh\ncase \"$*\" in *--list-boots*) exit 0 ;; esac\ncat '{printed}'\n"


def plant(host: ReportingHost) -> None:
    """Put each secret where hosts have it."""
    said = {name: secret.decode() for name, secret in CANARIES.items()}
    host.variables["REGISTRY_PASSWORD"] = said["environment"]
    proxy = urllib.parse.quote(said["proxy password"], safe="")
    host.write("/opt/openshift/auth/kubeadmin-password", said["kubeadmin"])
    host.write("/etc/kubernetes/bootstrap-secrets/kubeconfig", f"    token: {said['bootstrap token']}\n")
    host.write("/root/.docker/config.json", PULL_SECRET)
    host.write("/etc/shadow", f"core:{said['password hash']}:19000:0:99999:7:::\n")
    host.write("/opt/openshift/tls/root-ca.key", KEY)
    host.write(
        "/etc/NetworkManager/system-connections/lab.nmconnection", f"[wifi-security]\npsk={said['psk']}\n"
    )
    host.write(
        "/etc/systemd/system/agent.service",
        f"[Service]\nEnvironment=PULL_SECRET_TOKEN={said['agent token']}\n"
        f"Environment=HTTPS_PROXY=http://robot:{proxy}@proxy.lab:3128\n",
    )
    inline = urllib.parse.quote(f"password: {said['ignition']}\n")
    host.write(
        "/opt/openshift/master.ign",
        '{"ignition": {"version": "3.4.0"}, "storage": {"files": [{"path": "/etc/secret.yaml",'
        f' "contents": {{"source": "data:,{inline}"}}}}]}}}}',
    )


def said_of_them() -> bytes:
    """A journal in which every secret stands in every form, and the key in its lines."""
    lines = [b"before " + form(secret) + b" after" for secret in CANARIES.values() for form in FORMS.values()]
    return b"\n".join([*lines, *(b"key: " + line for line in KEY.encode().splitlines()), b"the last line\n"])


def pieces(text: bytes) -> set[bytes]:
    return {text[start : start + PIECE] for start in range(len(text) - PIECE + 1)}


def telling(form: Callable[[bytes], bytes], secret: bytes) -> set[bytes]:
    """The pieces of a form that tell more of a secret than a few bytes at one of its ends."""
    other = secret.translate(ROTATED)
    ends = (secret[:FEW] + other[FEW:], other[:-FEW] + secret[-FEW:])
    return pieces(form(secret)).difference(*(pieces(form(end)) for end in ends))


def left(shipped: bytes) -> Iterator[str]:
    """The secrets that can still be read, with the form."""
    known = pieces(shipped)
    for name, secret in CANARIES.items():
        for called, form in FORMS.items():
            if known & telling(form, secret):
                yield f"{name}, {called}"
    if any(known & pieces(line) for line in KEY.encode().splitlines()[1:-1]):
        yield "private key"


@pytest.fixture
def server() -> Iterator[AssistedServer]:
    with create_server_with_tokens() as server:
        yield server


@pytest.mark.slow
def test_no_canary_is_in_what_is_shipped(tmp_path: Path, server: AssistedServer) -> None:
    host = ReportingHost(tmp_path / "host", server.rules.add_rebooting_host(TOKEN), server.url)
    plant(host)
    journal = host.write("/journal", said_of_them())
    host.write("/bin/journalctl", FAKE_JOURNALCTL.format(printed=journal)).chmod(0o755)
    message = "\n".join(secret.decode() for secret in CANARIES.values())
    failure = entry(
        "service end",
        at=9,
        result=Result.FAILURE,
        error_message=message,
        command=f"login {CANARIES['kubeadmin'].decode()}",
    )
    write_lines(host.places.records / "bootkube.json", entry("service start"), failure)
    assert set(left(said_of_them())) >= {f"{name}, raw" for name in CANARIES} | {"private key"}

    with subprocess.Popen(["sh", "-c", "sleep 100; :", "-", *message.split("\n")]) as process:
        try:
            assert host.report().status == 0
        finally:
            process.kill()
    (bundle,) = server.rules.objects.values()
    shipped = gzip.decompress(bundle)
    assert b"the last line" in shipped
    assert list(left(shipped)) == []
    assert b"bootkube" in host.places.issue.read_bytes()
    assert list(left(host.places.issue.read_bytes())) == []
    told = [one.request for one in server.journal if one.request.query.get("logs_type") is None]
    assert any(asked.method == "PUT" for asked in told), "a fact about this host as progress"
    assert list(left(b"\n".join(asked.target.encode() + b"\n" + asked.body for asked in told))) == []
