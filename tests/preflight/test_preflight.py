"""`preflight`: what must hold before an installation, measured on loopback and on networks of its own."""

import base64
import hashlib
import json
import os
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import pytest

from service_record.preflight.checks import (
    ROLES,
    CheckResult,
    CheckState,
    format_result,
    judge_cpus,
    judge_disk,
    judge_memory,
    judge_time,
    percentile,
)
from service_record.preflight.probes import measure_device
from service_record.preflight.registry import credentials_for, read_image
from tests.command_line import PROGRAM, Answer, environment, service_record
from tests.name_server import serve_names
from tests.programs import skip_without
from tests.running_server import QuietHandler, get_refused_url, serve

GIB = 1 << 30
SINGLE = ROLES["single-node"]
WORKER = ROLES["worker"]
PASSWORD = "canary-of-a-pull-secret"
GOOD = base64.b64encode(f"joe:{PASSWORD}".encode()).decode()
IMAGE = "openshift-release-dev/ocp-release"
IN_A_NETWORK = """\
ip link set lo up
ip link add srt-here type veth peer name srt-there
ip address add 192.0.2.1/24 dev srt-here
ip link set srt-here up
ip link set srt-there up
ip route add default via 192.0.2.254
exec "$@"
"""


@pytest.mark.parametrize(
    ("slow", "state"),
    [(0, CheckState.PASSED), (10, CheckState.PASSED), (11, CheckState.FAILED)],
    ids=["none", "1 %", "more"],
)
def test_slow_writes_up_to_one_percent_pass(slow: int, state: CheckState) -> None:
    seconds = [0.002] * (1000 - slow) + [0.050] * slow

    assert judge_disk("/var/lib", seconds, SINGLE).state is state
    assert judge_disk("/var/lib", seconds, WORKER).state is CheckState.PASSED


def test_percentile_is_a_measured_value() -> None:
    assert percentile(range(1, 1001), 0.99) == 990
    assert percentile([3.0], 0.99) == 3.0


def test_too_few_writes_are_not_judged() -> None:
    assert judge_disk("/var/lib", [0.001] * 199, SINGLE).state is CheckState.NOT_CHECKED


@pytest.mark.parametrize(
    ("size", "is_physical", "state"),
    [
        (16 * GIB, True, CheckState.PASSED),
        (16 * GIB - 1, True, CheckState.FAILED),
        (16 * GIB, False, CheckState.PASSED),
        (15 * GIB, False, CheckState.NOT_CHECKED),
        (14 * GIB, False, CheckState.FAILED),
    ],
)
def test_memory_limits_allow_for_the_kernel(size: int, is_physical: bool, state: CheckState) -> None:
    assert judge_memory(size, SINGLE, is_physical=is_physical).state is state


@pytest.mark.parametrize(
    ("role", "cpus", "memory"), [("single-node", 8, 16), ("control-plane", 4, 16), ("worker", 2, 8)]
)
def test_role_requirements_match_openshift_docs(role: str, cpus: int, memory: int) -> None:
    requirements = ROLES[role]

    assert (requirements.cpus, requirements.memory_bytes) == (cpus, memory * GIB)
    assert judge_cpus(cpus, requirements).state is CheckState.PASSED
    assert judge_cpus(cpus - 1, requirements).state is CheckState.FAILED
    assert requirements.source in judge_cpus(cpus, requirements).detail


def test_line_has_detail_and_advice() -> None:
    assert format_result(judge_time(is_synchronized=True)) == "✓ time: the clock follows a time source"
    assert format_result(judge_time(is_synchronized=False)).startswith(
        "✗ time: the clock follows no time source. Start"
    )
    assert (
        format_result(CheckResult("disk", CheckState.NOT_CHECKED, "why", "Do."))
        == "- disk: not checked: why. Do."
    )


MEDIA = "application/vnd.oci.image."
MANIFEST = json.dumps({"schemaVersion": 2, "mediaType": f"{MEDIA}manifest.v1+json", "layers": []}).encode()


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def index_of(*digests: str) -> bytes:
    platforms = [{"architecture": f"arch{n}"} for n in range(len(digests))]
    entries = [{"digest": digest, "platform": each} for digest, each in zip(digests, platforms, strict=True)]
    return json.dumps({"schemaVersion": 2, "manifests": entries}).encode()


LIST = index_of(digest_of(MANIFEST))
BROKEN_LIST = index_of(digest_of(MANIFEST), digest_of(b"missing"))
LYING = digest_of(b"another manifest")
MANIFESTS = {
    "4.8.2-x86_64": MANIFEST,
    "list": LIST,
    "broken-list": BROKEN_LIST,
    digest_of(MANIFEST): MANIFEST,
    LYING: MANIFEST,
}


class Registry(QuietHandler):
    """A registry with a private image and a public one below `public/`. Wrong credentials are refused."""

    authorizations: ClassVar[list[str | None]] = []
    credentials_elsewhere: ClassVar[list[str | None]] = []

    def do_GET(self) -> None:
        address = f"http://{self.headers['Host']}"
        authorization = self.headers["Authorization"]
        self.authorizations.append(authorization)
        challenge = {"WWW-Authenticate": f'Bearer realm="{address}/token",service="fake"'}
        name, _, reference = self.path.removeprefix("/v2/").partition("/manifests/")
        if self.path == "/v2/":
            self.respond(401, headers=challenge)
        elif self.path == "/elsewhere":
            self.credentials_elsewhere.append(authorization)
            self.respond(200)
        elif self.path.startswith("/token?"):
            assert "scope=repository%3A" in self.path
            token = {f"Basic {GOOD}": "good"}.get(authorization, "nobody" if authorization is None else "")
            self.respond(200 if token else 401, json.dumps({"token": token}).encode())
        elif authorization != "Bearer good" and not (name == "public/image" and authorization):
            self.respond(401, headers=challenge)
        elif reference == "moved":
            port = self.headers["Host"].partition(":")[2]
            self.respond(307, headers={"Location": f"http://localhost:{port}/elsewhere"})
        elif name in {IMAGE, "public/image"} and reference in MANIFESTS:
            body = MANIFESTS[reference]
            kind = "index" if b'"manifests"' in body else "manifest"
            self.respond(200, body, {"Content-Type": f"{MEDIA}{kind}.v1+json"})
        else:
            self.respond(404)


class Portal(QuietHandler):
    """A login portal that answers every request with a web page, or demands a login at `/v2/`."""

    says_at_v2: ClassVar[int] = 200

    def do_GET(self) -> None:
        if self.path == "/v2/" and self.says_at_v2 == 401:
            self.respond(401, headers={"WWW-Authenticate": "Basic realm=guests"})
        else:
            self.respond(200, b"<html><title>Guest Wi-Fi login</title></html>", {"Content-Type": "text/html"})


@contextmanager
def registry(context: ssl.SSLContext | None = None) -> Iterator[str]:
    with serve(Registry, context) as port:
        yield f"127.0.0.1:{port}"


def pull_secret(directory: Path, **auths: str) -> Path:
    path = directory / "pull-secret.json"
    path.write_text(json.dumps({"auths": {place: {"auth": auth} for place, auth in auths.items()}}))
    return path


def lines_of(answer: Answer, check: str) -> str:
    """Return the line of a check, after testing that the output has no secrets."""
    (line,) = (line for line in answer.out.splitlines() if line[2:].startswith(f"{check}:"))
    assert PASSWORD not in answer.out + answer.err
    assert GOOD not in answer.out + answer.err
    return line


def preflight(*arguments: object) -> Answer:
    return service_record("preflight", "--disk", "/proc", "-o", "wide", *arguments)


@pytest.mark.parametrize(
    ("auth", "tag", "line"),
    [
        (
            GOOD,
            "4.8.2-x86_64",
            "✓ release image: {}/"
            + IMAGE
            + ", 4.8.2-x86_64: there; the registry refuses it without the pull",
        ),
        (GOOD, "4.8.3-x86_64", "✗ release image: {}/" + IMAGE + ", 4.8.3-x86_64: the registry answered 404"),
        (
            "d3Jvbmc6d3Jvbmc=",
            "4.8.2-x86_64",
            "✗ release image: {}/" + IMAGE + ", 4.8.2-x86_64: the registry answ",
        ),
    ],
    ids=["there", "not there", "refused"],
)
def test_release_image_is_requested_with_pull_secret(tmp_path: Path, auth: str, tag: str, line: str) -> None:
    with registry() as host:
        secret = pull_secret(tmp_path, **{host: auth})
        answer = preflight("--release-image", f"{host}/{IMAGE}:{tag}", "--pull-secret", secret)

    assert lines_of(answer, "registry") == f"✓ registry: {host} answers"
    assert lines_of(answer, "release image").startswith(line.format(host))


def test_unusable_pull_secrets_have_different_messages(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_text(PASSWORD)
    with registry() as host:
        image = ("--release-image", f"{host}/{IMAGE}:4.8.2-x86_64")
        without = preflight(*image)
        missing = preflight(*image, "--pull-secret", tmp_path / "none")
        broken = preflight(*image, "--pull-secret", wrong)
        others = preflight(*image, "--pull-secret", pull_secret(tmp_path, **{"quay.io": GOOD}))

    assert lines_of(without, "release image").startswith("- release image: not checked: ")
    assert "no pull secret is named" in lines_of(without, "release image")
    assert "none: No such file or directory" in lines_of(missing, "release image")
    assert "not a pull secret" in lines_of(broken, "release image")
    assert f": the pull secret has nothing for {host}. " in lines_of(others, "release image")
    assert lines_of(others, "release image").startswith("✗ ")


def image_line(tmp_path: Path, image: str) -> str:
    """Return the line for an image that is checked with a valid pull secret."""
    with registry() as host:
        secret = pull_secret(tmp_path, **{host: GOOD})
        answer = preflight("--release-image", f"{host}/{image}", "--pull-secret", secret)
    return lines_of(answer, "release image")


def test_public_image_does_not_test_pull_secret(tmp_path: Path) -> None:
    Registry.authorizations.clear()
    line = image_line(tmp_path, "public/image:4.8.2-x86_64")
    assert line.startswith("✓ ")
    assert line.endswith(": there; anybody may pull it; the pull secret was not tried")
    assert f"Basic {GOOD}" not in Registry.authorizations


@pytest.mark.parametrize("status", [200, 401])
def test_login_portal_fails_registry_check(
    tmp_path: Path, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Portal, "says_at_v2", status)
    with serve(Portal) as port:
        host = f"127.0.0.1:{port}"
        secret = pull_secret(tmp_path, **{host: GOOD})
        answer = preflight("--release-image", f"{host}/{IMAGE}:1", "--pull-secret", secret)
    assert answer.status == 1
    failed = lines_of(answer, "registry" if status == 200 else "release image")
    assert failed.startswith("✗ ")
    assert "login portal" in failed
    assert not lines_of(answer, "release image").startswith("✓ ")


def test_every_architecture_of_a_list_is_checked(tmp_path: Path) -> None:
    assert ": there for arch0; " in image_line(tmp_path, f"{IMAGE}:list")
    line = image_line(tmp_path, f"{IMAGE}:broken-list")
    assert line.startswith("✗ ")
    assert f"answered 404 for its arch1 image, {digest_of(b'missing')}" in line


def test_manifest_must_have_its_digest(tmp_path: Path) -> None:
    assert image_line(tmp_path, f"{IMAGE}@{digest_of(MANIFEST)}").startswith("✓ ")
    line = image_line(tmp_path, f"{IMAGE}@{LYING}")
    assert line.startswith("✗ ")
    assert f"has the digest {digest_of(MANIFEST)}, and not {LYING}" in line


def test_each_named_image_is_checked(tmp_path: Path) -> None:
    with registry() as host, registry() as mirror:
        secret = pull_secret(tmp_path, **{host: GOOD, mirror: GOOD})
        images = (f"{host}/{IMAGE}:4.8.2-x86_64", f"{host}/{IMAGE}:none", f"{mirror}/{IMAGE}:list")
        named = [word for image in images for word in ("--release-image", image)]
        answer = preflight(*named, "--pull-secret", secret)
    lines = [line for line in answer.out.splitlines() if "release image:" in line]
    assert [line[0] for line in lines] == ["✓", "✗", "✓"]


def test_subnet_checks_every_host_address() -> None:
    answer = preflight("--free", "127.0.0.8/30")
    assert [f"address 127.0.0.{n}:" in answer.out for n in (8, 9, 10, 11)] == [False, True, True, False]
    assert "smaller subnet" in preflight("--free", "10.0.0.0/8").err


@pytest.mark.slow
def test_disk_is_measured_and_keeps_its_content(tmp_path: Path) -> None:
    skip_without("losetup")
    image = tmp_path / "disk"
    image.write_bytes(os.urandom(8 << 20))
    before = image.read_bytes()
    made = subprocess.run(["losetup", "--find", "--show", image], capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip("no loop devices here")
    device = Path(made.stdout.strip())
    try:
        assert "fdatasync calls took" in measure_device(device, WORKER).detail
        other = service_record("preflight", "-o", "wide", "--disk", device)
    finally:
        subprocess.run(["losetup", "--detach", device], check=True)
    assert image.read_bytes() == before
    assert "measured only in a live system" in lines_of(other, "disk")


def test_redirection_gets_no_credentials(tmp_path: Path) -> None:
    with registry() as host:
        secret = pull_secret(tmp_path, **{host: GOOD})
        preflight("--release-image", f"{host}/{IMAGE}:moved", "--pull-secret", secret)

    assert Registry.credentials_elsewhere
    assert set(Registry.credentials_elsewhere) == {None}


def test_unreachable_registry_fails() -> None:
    host = get_refused_url().removeprefix("http://").rstrip("/")
    answer = preflight("--release-image", f"{host}/{IMAGE}:1")

    assert answer.status == 1
    assert lines_of(answer, "registry").startswith(f"✗ registry: {host}: no connection: Connection refused. ")
    assert lines_of(answer, "release image") == "- release image: not checked: the registry was not reached"


def test_registry_certificate_must_be_trusted(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    request = ("req", "-x509", "-nodes", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")
    names = ("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1")
    command = ("openssl", *request, *names, "-days", "2", "-keyout", key, "-out", certificate)
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with registry(context) as host:
        port = host.rpartition(":")[2]
        image = f"localhost:{port}/{IMAGE}:4.8.2-x86_64"
        distrusted = preflight("--release-image", image)
        trusted = preflight("--release-image", image, "--ca-bundle", certificate)

    assert "certificate is not trusted" in lines_of(distrusted, "registry")
    assert lines_of(trusted, "registry") == f"✓ registry: localhost:{port} answers"


def test_most_specific_pull_secret_entry_is_used() -> None:
    image = read_image(f"quay.io/{IMAGE}:4.8.2-x86_64")

    assert credentials_for(image, {"https://quay.io/v2/": "a", "quay.io/openshift-release-dev": "b"}) == "b"
    assert credentials_for(image, {"https://quay.io": "a", "quay.io/openshift": "b"}) == "a"
    assert credentials_for(image, {"quay.io:443": "a"}) is None


def test_dns_check_distinguishes_missing_name_and_dead_server(tmp_path: Path) -> None:
    with serve_names(tmp_path, {"api.lab.example": "192.0.2.10"}) as server:
        answer = in_network(server.prefix(), "--domain", "lab.example")
        cluster = in_network(server.prefix(), "--domain", "lab.example", "--role", "control-plane")
    nobody_answers = in_network(server.prefix(), "--domain", "lab.example")

    assert answer.status == 1
    assert lines_of(answer, "api") == "✓ api: api.lab.example is 192.0.2.10"
    assert lines_of(answer, "api-int").startswith(
        "✗ api-int: api-int.lab.example: Name or service not known. Add"
    )
    assert lines_of(answer, "apps").startswith("✗ apps: console-openshift-console.apps.lab.example: Name")
    assert lines_of(cluster, "api-int").startswith("- api-int: not checked: ")
    assert lines_of(nobody_answers, "api").startswith("- api: not checked: api.lab.example: ")


def in_network(prefix: list[str], *arguments: str) -> Answer:
    command = [*prefix, *PROGRAM, "preflight", "-o", "wide", "--disk", "/proc", *arguments]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=60, check=False)
    return Answer(done.returncode, done.stdout, done.stderr)


def test_used_address_fails() -> None:
    answer = preflight("--free", "127.0.0.1", "--free", "::1")

    assert lines_of(answer, "address 127.0.0.1").startswith("✗ address 127.0.0.1: a host has it. ")
    assert answer.status == 1


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="a network of its own takes root")
def test_unreachable_address_does_not_count_as_free() -> None:
    code = "from service_record.preflight.probes import check_free; print(check_free('192.0.2.7').state)"
    script = f'ip link set lo up; ip route add unreachable 192.0.2.0/24; "{sys.executable}" -c "{code}"'
    answer = subprocess.run(["unshare", "-n", "sh", "-c", script], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == str(CheckState.NOT_CHECKED), answer.stderr


def test_only_addresses_on_the_local_network_pass_as_free() -> None:
    if os.geteuid() != 0:
        pytest.skip("not root, so no network of its own")
    prefix = ["unshare", "--net", "sh", "-ec", IN_A_NETWORK, "sh"]
    answer = in_network(prefix, "--free", "192.0.2.7", "--free", "198.51.100.7")

    assert lines_of(answer, "address 192.0.2.7") == "✓ address 192.0.2.7: no host answers for it"
    assert lines_of(answer, "address 198.51.100.7").startswith("- address 198.51.100.7: not checked: ")


def test_network_checks_are_skipped_without_network() -> None:
    if os.geteuid() != 0:
        pytest.skip("not root, so no network of its own")
    image = ("--release-image", "192.0.2.7/name:1")
    answer = in_network(["unshare", "--net"], "--free", "192.0.2.7", "--domain", "lab.example", *image)

    for check in ("api", "api-int", "apps", "address 192.0.2.7", "registry", "release image"):
        assert lines_of(answer, check).startswith(f"- {check}: not checked: ")


@pytest.mark.slow
def test_slow_disk_fails_and_no_file_remains(tmp_path: Path) -> None:
    skip_without("strace")
    slow = "fdatasync:delay_exit=15000:when=1..60"
    prefix = ["strace", "-f", "-qq", "-o", os.devnull, "-e", "trace=fdatasync", "-e", f"inject={slow}"]
    answer = in_network(prefix, "--disk", str(tmp_path))

    assert "etcd needs 10 ms. Use a faster disk" in lines_of(answer, "disk")
    assert lines_of(answer, "disk").startswith(f"✗ disk: {tmp_path}: 99 % of ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("directory", ["/proc", "/dev/shm", "/no/such/directory"])
def test_directory_outside_a_disk_is_not_measured(directory: str) -> None:
    answer = service_record("preflight", "-o", "wide", "--disk", directory)

    assert lines_of(answer, "disk").startswith(f"- disk: not checked: {directory}")


def test_json_has_all_checks() -> None:
    answer = preflight("--output", "json", "--role", "worker")
    document = json.loads(answer.out)

    checks = {row["check"]: row for row in document["checks"]}
    assert list(checks) == [
        *("api", "api-int", "apps", "registry", "release image", "disk", "memory", "cpu", "time")
    ]
    assert checks["api"]["state"] == "not checked"
    assert {checks[name]["state"] for name in ("memory", "cpu", "time")} <= {"passed", "failed"}
    assert document["failed"] is any(row["state"] == "failed" for row in checks.values())
    assert answer.status == int(document["failed"])


@pytest.mark.parametrize(
    "arguments",
    [
        ("--domain", "no domain"),
        ("--domain", "-x.example"),
        ("--free", "192.0.2.300"),
        ("--release-image", "ocp-release"),
        ("--role", "etcd"),
        ("--ca-bundle", "/no/such/file"),
    ],
)
def test_invalid_argument_is_a_usage_error(arguments: tuple[str, ...]) -> None:
    answer = service_record("preflight", *arguments)

    assert (answer.status, answer.out) == (2, "")
    assert "Traceback" not in answer.err
