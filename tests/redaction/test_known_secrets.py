"""The secrets of a host, from where its programs keep them."""

import base64
import gzip
import json
import os
import stat
import subprocess
import sys
import urllib.parse
from pathlib import Path

import pytest

from service_record.redaction import HostMask, HostSecrets, Rules, Secret, known_secrets
from service_record.redaction.host_secrets import Contents, inline_files
from testing.made_up import draw, pem, pull_secret
from tests.redaction.test_masking import redacted

GZIP_AND_NO_MORE = b"\x1f\x8b\x08\0\0\0\0\0\0\3\xff"


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


class Host:
    """A root directory with secrets in it, each remembered."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.secrets: dict[str, str] = {}

    def secret(self, name: str, size: int = 20) -> str:
        return self.secrets.setdefault(name, draw(size))

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def key(self, name: str) -> str:
        block, lines = pem()
        self.secrets[name] = lines[7]
        return block

    def registries(self, name: str) -> str:
        """A file of registry credentials; its password is remembered, which only the decoded string shows."""
        return json.dumps({"auths": {"quay.io": {"auth": encoded(f"robot:{self.secret(name)}")}}}, indent=2)


UNREAD = """
import sys
from pathlib import Path
from service_record.redaction import known_secrets
print(*known_secrets(Path(sys.argv[1])).unread)
"""
NOT_EVERYTHING = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
"""Command that makes root obey the modes of files; see capabilities(7)."""


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def left(host: Host, text: str, environ: dict[str, str] | None = None) -> list[str]:
    """The names of the secrets that are still in a text that names each of them, in nothing's shape."""
    known = known_secrets(host.root, environ)
    after = redacted(text.encode(), rules=Rules(known.secrets)).decode()
    return [name for name, secret in host.secrets.items() if secret in after]


def said(host: Host) -> str:
    return "\n".join(f"{name} is {secret} there" for name, secret in host.secrets.items())


def test_every_kind_of_secret_of_a_host_is_known(host: Host) -> None:
    h = host
    h.write("etc/service-record/token", h.secret("reporter's token", 60) + "\n")
    h.write("root/.docker/config.json", pull_secret()[0])
    h.write("var/lib/kubelet/config.json", h.registries("pull secret"))
    h.write("run/containers/0/auth.json", h.registries("registry"))
    h.write("opt/openshift/auth/kubeadmin-password", h.secret("kubeadmin password"))
    h.write(
        "opt/openshift/auth/kubeconfig",
        f"    client-key-data: {encoded(h.key('admin key'))}\n    token: {h.secret('admin token', 40)}\n",
    )
    h.write("opt/openshift/tls/root-ca.key", h.key("tls key"))
    h.write("etc/kubernetes/bootstrap-secrets/kubeconfig", f"    token: {h.secret('bootstrap token')}\n")
    h.write("etc/kubernetes/static-pod-resources/etcd/secrets/all/etcd.key", h.key("etcd key"))
    h.write("etc/ssh/ssh_host_ed25519_key", h.key("host key"))
    h.write("etc/shadow", f"root:$6${h.secret('salt')[:16]}${h.secret('hash', 86)}:19000:0:99999:7:::\n")
    h.secrets.pop("salt")
    h.write(
        "etc/NetworkManager/system-connections/wifi.nmconnection", f"[wifi-security]\npsk={h.secret('psk')}\n"
    )
    h.write("etc/wireguard/wg0.conf", f"PrivateKey = {encoded(h.secret('wireguard', 32))}\n")
    h.write(
        "etc/systemd/system/agent.service",
        f"[Service]\nEnvironment=PULL_SECRET_TOKEN={h.secret('agent token', 80)}\n",
    )
    h.write(
        "etc/systemd/system.conf.d/proxy.conf",
        f'DefaultEnvironment=HTTP_PROXY="http://u:{h.secret("proxy password")}@proxy:3128"\n',
    )
    h.write(
        "etc/profile.d/proxy.sh",
        f"export https_proxy=http://u:{h.secret('other proxy password')}@proxy:3128\n",
    )
    h.write("run/credentials/some.service/token", h.secret("credential", 40))
    h.write("etc/luks/root", h.secret("luks passphrase", 30))
    h.write(
        "var/lib/kubelet/pods/1/volumes/kubernetes.io~projected/api/token", h.secret("service account", 60)
    )
    h.write("etc/iscsi/iscsid.conf", f"node.session.auth.password = {h.secret('iscsi')}\n")
    assert left(h, said(h)) == []
    assert known_secrets(h.root).unread == ()


def test_ignition_is_read_to_the_inside_of_its_files(host: Host) -> None:
    manifest = f"kind: Secret\ndata:\n  password: {encoded(host.secret('in a manifest'))}\n"
    packed = base64.b64encode(gzip.compress(f"token: {host.secret('packed', 40)}\n".encode())).decode()
    files = [
        {"path": "/opt/m.yaml", "contents": {"source": f"data:;base64,{encoded(manifest)}"}},
        {
            "path": "/opt/n",
            "contents": {"source": "data:," + urllib.parse.quote(f"password={host.secret('quoted')}\n")},
        },
        {
            "path": "/opt/o",
            "contents": {"source": f"data:text/plain;charset=utf-8;base64,{packed}", "compression": "gzip"},
        },
        {
            "path": "/root/.docker/config.json",
            "contents": {"source": f"data:;base64,{encoded(host.registries('inline'))}"},
        },
    ]
    unit = {
        "name": "a.service",
        "contents": f"[Service]\nEnvironment=API_TOKEN={host.secret('of a unit', 32)}\n",
    }
    users = [{"name": "core", "passwordHash": "$6$abcdefgh$" + host.secret("hash", 86)}]
    document = {"passwd": {"users": users}, "storage": {"files": files}, "systemd": {"units": [unit]}}
    host.write("opt/openshift/bootstrap.ign", json.dumps(document))
    assert left(host, said(host)) == []
    rules = Rules(known_secrets(host.root).secrets)
    assert redacted(b"master-0.example.com is up", rules=rules) == b"master-0.example.com is up"


def test_secrets_of_the_environment_are_known(host: Host) -> None:
    environ = {
        "HTTPS_PROXY": f"http://u:{host.secret('proxy')}@proxy:3128",
        "PULL_SECRET_TOKEN": host.secret("token", 60),
        "HOME": "/root/home-of-someone",
    }
    assert left(host, said(host), environ) == []
    assert (
        redacted(b"cd /root/home-of-someone", rules=Rules(known_secrets(host.root, environ).secrets))
        == b"cd /root/home-of-someone"
    )


def test_secret_is_known_without_escapes(host: Host) -> None:
    host.write("etc/profile.d/proxy.sh", "export https_proxy=http://u:p%40ss%2Fword%21x@proxy:3128\n")
    host.write("etc/assisted/config.json", json.dumps({"password": 'quo"ted\\word 1'}))
    rules = Rules(known_secrets(host.root).secrets)
    text = rb"""p@ss/word!x and quo"ted\word 1 and p%40ss%2Fword%21x and quo\"ted\\word 1"""
    assert redacted(text, rules=rules).count(b"<redacted:") == 4


def test_host_without_secrets_is_read(host: Host) -> None:
    assert known_secrets(host.root).secrets == ()
    assert known_secrets(host.root / "nowhere").secrets == ()


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[1, 2", "\0\xff", '{"auths": 7}', '{"auths": {"a": null}}'),
        *("-----BEGIN PRIVATE KEY-----", "[" * 100_000),
    ],
)
def test_damaged_files_raise_nothing(host: Host, text: str) -> None:
    host.write("root/.docker/config.json", text)
    host.write("opt/openshift/master.ign", text)
    host.write("var/lib/kubelet/config.json", host.registries("whole"))
    assert left(host, said(host)) == []


def test_only_plain_files_below_the_root_are_read(
    host: Host, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside") / "token"
    outside.write_text("outside-the-root-0123456789")
    directory = host.root / "run/credentials/some.service"
    directory.mkdir(parents=True)
    (directory / "link").symlink_to(outside)
    (directory / "loop").symlink_to("loop")
    (directory / "broken").symlink_to("nothing")
    (directory / "directory").mkdir()
    os.mkfifo(directory / "fifo")
    assert known_secrets(host.root) == HostSecrets((), ())


def test_absolute_links_begin_at_the_root(host: Host) -> None:
    host.write("data/rancher/rke2/config.yaml", f"token: {host.secret('behind a linked directory', 40)}\n")
    host.write("var/keep/config.json", host.registries("behind a linked file"))
    for link, target in (("etc/rancher", "/data/rancher"), ("root/.docker", "../../../var/docker")):
        (host.root / link).parent.mkdir(parents=True, exist_ok=True)
        (host.root / link).symlink_to(target)
    (host.root / "var/docker").mkdir()
    (host.root / "var/docker/config.json").symlink_to("/var/keep/config.json")
    assert left(host, said(host)) == []


def test_unreadable_file_is_reported(host: Host) -> None:
    host.write("etc/shadow", "")
    (host.root / "etc/shadow").chmod(stat.S_IWUSR)
    command = [*NOT_EVERYTHING, sys.executable, "-c", UNREAD, str(host.root)]
    told = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    assert told == f"{host.root}/etc/shadow: Permission denied\n"


def test_large_file_is_reported_and_its_beginning_read(host: Host) -> None:
    host.write(
        "etc/kubernetes/kubeconfig", f"token: {host.secret('at its beginning', 40)}\n" + "x" * (9 << 20)
    )
    known = known_secrets(host.root)
    assert known.unread == (f"{host.root}/etc/kubernetes/kubeconfig: more than 8 MiB",)
    assert left(host, said(host)) == []


@pytest.mark.slow
def test_number_of_files_is_limited(host: Host) -> None:
    for number in range(3999):
        host.write(f"etc/sysconfig/f{number}", "")
    host.write("etc/environment", "token=aB3dE9fG5iJk\n")
    assert known_secrets(host.root).unread == ()
    host.write("proc/cmdline", "token=cD4eF0gH6jKl\n")
    known = known_secrets(host.root)
    assert known.unread == (f"{host.root}/proc/cmdline: too many files before it",)
    assert known.secrets == (Secret("token", b"aB3dE9fG5iJk"),)


@pytest.mark.slow
def test_number_of_secrets_is_limited(host: Host) -> None:
    host.write("etc/environment", "".join(f"token={draw(20)}\n" for _ in range(4000)))
    assert known_secrets(host.root).unread == ()
    host.write("proc/cmdline", f"token={draw(20)}\n")
    known = known_secrets(host.root)
    assert known.unread == (f"{host.root}: more than 4000 secrets",)
    assert len(known.secrets) == 4000


@pytest.mark.slow
def test_total_size_of_files_is_limited(host: Host) -> None:
    for number in range(8):
        host.write(f"etc/sysconfig/f{number}", "\n" * (8 << 20))
    assert known_secrets(host.root).unread == ()
    host.write("etc/environment", f"token={host.secret('behind 64 MiB')}\n")
    assert known_secrets(host.root).unread == (f"{host.root}/etc/environment: too many files before it",)


def test_file_over_16_kib_is_not_a_secret(host: Host) -> None:
    for size, kinds in ((16 << 10, {"luks-passphrase", "credential"}), ((16 << 10) + 1, set())):
        host.write("etc/luks/a", ("aB3.z" * size)[:size])
        source = "data:," + ("cD4.y" * size)[:size]
        inline = {"path": "/run/credstore/b", "contents": {"source": source}}
        host.write("run/ignition.json", json.dumps(inline))
        assert {secret.kind for secret in known_secrets(host.root).secrets} == kinds


def test_printed_secrets_have_no_values(host: Host) -> None:
    host.write("etc/service-record/token", host.secret("token", 40))
    assert host.secret("token") not in repr(known_secrets(host.root))


def test_host_mask_uses_secrets_of_host_and_others(host: Host) -> None:
    host.write("etc/service-record/token", token := host.secret("token", 40))
    seconds = 5.0
    others = [Secret("other", b"cD4eF0gH6jKlMnOp")]
    masks = HostMask(host.root, {"API_TOKEN": "aB3dE9fG5iJkLmNo"}, others, now=lambda: seconds)
    for secret in (token, "aB3dE9fG5iJkLmNo", "cD4eF0gH6jKlMnOp"):
        line = f"it is {secret}\n"
        assert secret not in masks.text(line)
        masked = masks(line.encode())
        assert secret.encode() not in masked
        assert masked.startswith(b"it is ")
        assert len(masked) == len(line)
    assert masks(b"fine\n") == b"fine\n"
    assert masks.text("fine") == "fine"
    host.write("etc/luks/root", "a phrase of 77 words")
    assert masks(b"is a phrase of 77 words\n") == b"is a phrase of 77 words\n"
    seconds += 61
    assert masks(b"is a phrase of 77 words\n") == b"is ***                 \n"
    host.write("etc/luks/root", "")
    seconds += 59
    assert masks(b"is a phrase of 77 words\n") == b"is ***                 \n"


KEY = pem()[0]


def named(text: str) -> str:
    return f"password: {encoded(text)}"


@pytest.mark.parametrize(
    ("text", "secrets"),
    [
        (r'{"password": "quo\"ted 1"}', [rb"quo\"ted 1", b'quo"ted 1']),
        ("password=a%20b%2Fc1", [b"a%20b%2Fc1", b"a b/c1"]),
        ('{"m": "x\\npassword=hunter22"}', [b"hunter22"]),
        ('{"auth": "dTpodW50ZXIyMg=="}', [b"dTpodW50ZXIyMg==", b"u:hunter22", b"hunter22"]),
        ('{"a": [{"b": "token: aB3dE9fG5iJk\\n"}]}', [b"aB3dE9fG5iJk"]),
        ("data:,token%3D%20aB3dE9fG5iJk", [b"aB3dE9fG5iJk"]),
        (f"data:,{urllib.parse.quote(KEY)}", [KEY.encode()]),
        (json.dumps([{"a": f"x{KEY}"}]), [KEY.encode()]),
        (json.dumps([json.dumps([json.dumps([json.dumps([KEY])])])]), [KEY.encode()]),
        (named(named(named(named("password: correct horse 1")))), [b"correct horse 1"]),
        ("x=http://u:p%40s%2Fs%3Fw1@h", [b"p%40s%2Fs%3Fw1", b"p@s/s?w1"]),
        ("password: incorrect", []),
        ("data:;base64,bWFzdGVyLTAuZXhhbXBsZS5jb20=", []),
    ],
)
def test_secret_is_found_as_written_and_decoded(text: str, secrets: list[bytes]) -> None:
    found = {secret.value for secret in Contents().secrets(text.encode())}
    assert found >= set(secrets)
    assert bool(found) is bool(secrets)


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        (json.dumps([json.dumps([json.dumps([json.dumps([json.dumps([KEY])])])])]), KEY),
        (named(named(named(named(named("password: correct horse 1"))))), "correct horse 1"),
    ],
)
def test_secret_in_more_than_four_layers_is_ignored(text: str, secret: str) -> None:
    assert secret.encode() not in {each.value for each in Contents().secrets(text.encode())}


def test_text_that_resembles_base64_is_not_decoded() -> None:
    (secret,) = Contents().secrets(b"password=dTpo!dW50ZXIyMg==")
    assert secret.value == b"dTpo!dW50ZXIyMg=="


def test_files_in_ignition_configs_are_found_in_every_form() -> None:
    def file(path: object, source: object) -> dict[str, object]:
        return {"path": path, "contents": {"source": source}}

    packed = base64.b64encode(gzip.compress(b"packed")).decode()
    files = [
        file("/a", "data:,a%20b"),
        file("/b", "data:;base64,YWI="),
        file("/c", f"data:;base64,{packed}"),
        file("/d", "https://h/d"),
        file(7, "data:,x"),
        file("/e", 7),
        file("/g", f"data:;base64,{base64.b64encode(GZIP_AND_NO_MORE).decode()}"),
        {"path": "/f", "contents": "data:,x"},
        "data:,x",
    ]
    text = json.dumps({"spec": {"config": {"storage": {"files": files}}}}).encode()
    assert sorted(inline_files(text)) == [("/a", b"a b"), ("/b", b"ab"), ("/c", b"packed"), ("/g", b"")]
    assert list(inline_files(b"[")) == []


def test_working_directories_are_no_secrets(tmp_path: Path) -> None:
    environ = {"PWD": "/srv/some/where", "OLDPWD": "/srv/else/where", "DB_PWD": "/Hunter2hunter2"}
    assert [each.value for each in known_secrets(tmp_path, environ).secrets] == [b"/Hunter2hunter2"]
