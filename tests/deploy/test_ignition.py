"""`service-record ignition`: what comes out of it, and what an Ignition makes of that."""

import json
import os
import shutil
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from service_record.cli import main
from service_record.deploy.ignition.checking import check, read_contents
from service_record.deploy.ignition.making import (
    CLOSED_ON_BOOTSTRAP,
    ROLES,
    DeliveryRequest,
    items_to_deliver,
)
from service_record.deploy.ignition.reading import VERSIONS
from service_record.deploy.ignition.urls import compute_hash
from service_record.reporter.paths import Places
from service_record.reporter.settings import read_settings
from tests.builders import require
from tests.command_line import service_record
from tests.ignition_configs import (
    DAMAGES,
    DISCOVERY_SERVICES,
    discovery,
    make_discovery_image_config,
    set_value,
)

ID = "2d3f6e1c-5a77-4c0e-9d8f-0123456789ab"
REPORTING = ["--url", "https://ai.example.com", "--cluster-id", ID, "--infra-env-id", ID, "--host-id", ID]
IGNITION = Path("/usr/lib/dracut/modules.d/30ignition/ignition")
REPORTERS_UNITS = ("boot-reporter.service", "boot-reporter.timer")
SHIM = "/usr/local/bin/bootstrap-service-record.sh"

roles = pytest.mark.parametrize("role", ROLES)


def made(*arguments: object, stdin: bytes = b"") -> Result:
    return CliRunner().invoke(
        main, ["ignition", *map(str, arguments)], input=stdin, prog_name="service-record"
    )


def config_of(*arguments: object, stdin: bytes = b"") -> dict[str, Any]:
    result = made(*arguments, stdin=stdin)
    assert result.exit_code == 0, result.output
    config: dict[str, Any] = json.loads(result.stdout)
    return config


def file_at(config: dict[str, Any], path: str) -> dict[str, Any]:
    (file,) = [file for file in config["storage"]["files"] if file["path"] == path]
    return dict(file)


def text_at(config: dict[str, Any], path: str) -> str:
    data = require(read_contents(file_at(config, path)["contents"]))
    return data.decode()


@pytest.fixture
def base(tmp_path: Path) -> Path:
    path = tmp_path / "base.ign"
    path.write_text(json.dumps(discovery()))
    return path


@pytest.fixture
def token(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text("eyJhbGciOi.example.token\n")
    return path


@roles
@pytest.mark.parametrize("spec", VERSIONS)
@pytest.mark.parametrize("merging", [False, True], ids=["alone", "merged"])
def test_config_of_each_role_is_valid(role: str, spec: str, merging: bool, base: Path, token: Path) -> None:
    more = ["--merge", base] if merging else []
    config = config_of("--role", role, "--spec", spec, *REPORTING, "--token-file", token, *more)
    assert check(config) == ()
    assert config["ignition"]["version"] == spec


@roles
def test_config_has_exactly_the_delivered_files(role: str) -> None:
    config = config_of("--role", role)
    written = {
        file["path"]: (read_contents(file["contents"]), file["mode"]) for file in config["storage"]["files"]
    }
    assert written == {
        item.path: (item.data, item.mode) for item in items_to_deliver(DeliveryRequest(role=role))
    }
    assert "systemd" not in config
    assert {file["overwrite"] for file in config["storage"]["files"]} == {True}
    for resource in (file["contents"] for file in config["storage"]["files"]):
        assert resource["compression"] == "gzip"
        assert resource["source"].startswith("data:")


def test_reporter_config_has_units_settings_and_token(token: Path, tmp_path: Path) -> None:
    config = config_of("--role", "worker", *REPORTING, "--token-file", token)
    units = {unit["name"]: unit.get("enabled") for unit in config["systemd"]["units"]}
    assert units == {"boot-reporter.service": None, "boot-reporter.timer": True}
    places = Places(tmp_path / "host")
    for path in (places.settings_file, places.credential_file):
        on_host = f"/{path.relative_to(places.root)}"
        assert file_at(config, on_host)["mode"] == 0o600
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        path.write_text(text_at(config, on_host))
    settings = read_settings(places, {})
    assert settings.faults == ()
    assert settings.service is not None
    assert (settings.service.url, settings.service.host_id) == ("https://ai.example.com", ID)
    assert settings.service.token == "eyJhbGciOi.example.token"


def test_token_from_stdin_is_only_in_its_file(token: Path) -> None:
    result = made("--role", "worker", *REPORTING, "--token-file", "-", stdin=token.read_bytes())
    assert text_at(json.loads(result.stdout), "/etc/service-record/token") == token.read_text()
    assert token.read_text().strip() not in result.output


def test_bootstrap_config_sets_array_and_close_drop_ins(tmp_path: Path) -> None:
    base = discovery()
    set_value("storage.files.0.path", SHIM)(base)
    path = tmp_path / "bootstrap.ign"
    path.write_text(json.dumps(base))
    refused = made("--role", "bootstrap", "--merge", path)
    assert refused.exit_code == 3
    assert f"--replace {SHIM} puts ours in its place" in refused.stderr
    config = config_of("--role", "bootstrap", "--merge", path, "--replace", SHIM)
    assert "SERVICE_RECORDS_LAYOUT=array" in text_at(
        config, "/etc/systemd/system/service.d/20-service-record-array.conf"
    )
    for name in CLOSED_ON_BOOTSTRAP:
        assert "ExecStopPost" in text_at(
            config, f"/etc/systemd/system/{name}.service.d/10-service-record.conf"
        )


def test_close_options_select_drop_ins() -> None:
    config = config_of("--role", "worker", "--close", "crio.service", "--close", "kubelet")
    closed = [
        file["path"] for file in config["storage"]["files"] if file["path"].endswith("10-service-record.conf")
    ]
    assert closed == [
        "/etc/systemd/system/crio.service.d/10-service-record.conf",
        "/etc/systemd/system/kubelet.service.d/10-service-record.conf",
        "/usr/local/share/service-record/10-service-record.conf",
    ]
    every = config_of("--role", "bootstrap", "--all-services")
    closed = [
        file["path"] for file in every["storage"]["files"] if file["path"].endswith("10-service-record.conf")
    ]
    assert closed == [
        "/etc/systemd/system/service.d/10-service-record.conf",
        "/etc/systemd/system/user@.service.d/10-service-record.conf",
        "/usr/local/share/service-record/10-service-record.conf",
    ]


def test_discovery_image_config_is_kept_and_extended(
    tmp_path: Path,
) -> None:
    theirs = make_discovery_image_config()
    path = tmp_path / "discovery.ign"
    path.write_text(json.dumps(theirs))
    close = [word for service in DISCOVERY_SERVICES for word in ("--close", service)]

    config = config_of("--role", "single-node", "--merge", path, "--spec", "3.1.0", *REPORTING, *close)

    assert check(config) == ()
    assert (config["ignition"], config["passwd"]) == (theirs["ignition"], theirs["passwd"])
    assert config["storage"]["files"][: len(theirs["storage"]["files"])] == theirs["storage"]["files"]
    units = [unit["name"] for unit in config["systemd"]["units"]]
    assert units == [*(f"{name}.service" for name in DISCOVERY_SERVICES), *REPORTERS_UNITS]
    for name in DISCOVERY_SERVICES:
        assert "ExecStopPost" in text_at(
            config, f"/etc/systemd/system/{name}.service.d/10-service-record.conf"
        )


def test_output_is_reproducible(base: Path, tmp_path: Path) -> None:
    arguments = ("--role", "master", "--merge", base, *REPORTING)
    outputs = [tmp_path / name for name in ("one", "two")]
    for output in outputs:
        answer = service_record("ignition", *arguments, "-o", output, PYTHONHASHSEED=str(len(output.name)))
        assert answer.status == 0, answer.err
    assert outputs[0].read_bytes() == outputs[1].read_bytes()
    assert stat.S_IMODE(outputs[0].stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["base.ign", "one", "two"]


@pytest.mark.parametrize(
    ("damaged", "message"), [pytest.param(*row, id=name) for name, row in DAMAGES.items()]
)
def test_damaged_base_is_one_error_without_output(damaged: bytes, message: str, tmp_path: Path) -> None:
    base, output = tmp_path / "base.ign", tmp_path / "out.ign"
    base.write_bytes(damaged)
    result = made("--role", "worker", "--merge", base, "-o", output)
    assert (result.exit_code, result.stdout) == (3, "")
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"Error: {base}: ")
    assert message in line
    assert [path.name for path in tmp_path.iterdir()] == ["base.ign"]


def test_failed_run_keeps_old_output(tmp_path: Path) -> None:
    base, output = tmp_path / "base.ign", tmp_path / "out.ign"
    base.write_text("{}")
    output.write_text("old")
    assert made("--role", "worker", "--merge", base, "-o", output).exit_code == 3
    assert output.read_text() == "old"
    assert made("--role", "worker", "-o", output).exit_code == 0
    assert check(json.loads(output.read_text())) == ()
    assert stat.S_IMODE(output.stat().st_mode) == 0o600


def test_output_must_be_a_replaceable_file(tmp_path: Path) -> None:
    assert made("--role", "worker", "-o", tmp_path / "no" / "out.ign").exit_code == 3
    assert list(tmp_path.iterdir()) == []
    result = made("--role", "worker", "-o", "/dev/null")
    assert result.exit_code == 2
    assert "/dev/null is not a file that can be replaced" in result.stderr
    assert not Path("/dev/null").is_file()


def test_missing_base_is_one_error(tmp_path: Path) -> None:
    result = made("--role", "worker", "--merge", tmp_path / "none.ign")
    assert (result.exit_code, result.stderr) == (
        3,
        f"Error: {tmp_path}/none.ign: No such file or directory; check the path\n",
    )


def test_unused_key_of_base_is_a_warning(tmp_path: Path) -> None:
    base = tmp_path / "base.ign"
    base.write_text(json.dumps({**discovery(), "networkd": {}}))
    warning = f"Warning: {base}: networkd: Unused key networkd; ignition-validate says it\n"
    result = made("--role", "worker", "--merge", base)
    assert result.exit_code == 0
    assert result.stderr.endswith(warning if shutil.which("ignition-validate") else "")
    assert json.loads(result.stdout)["networkd"] == {}


def test_host_patch_has_config_as_text() -> None:
    body = config_of("--role", "worker", "--assisted-host-patch", *REPORTING)
    assert list(body) == ["config"]
    assert json.loads(body["config"]) == config_of("--role", "worker", "--spec", "3.2.0", *REPORTING)


def test_added_configs_are_merged_or_conflict(base: Path, tmp_path: Path) -> None:
    one, other = tmp_path / "one.ign", tmp_path / "other.ign"
    for path, name in ((one, "/etc/one"), (other, "/etc/other")):
        files = [{"path": name, "contents": {"source": "data:,theirs"}}]
        path.write_text(json.dumps({"ignition": {"version": "3.2.0"}, "storage": {"files": files}}))
    config = config_of("--role", "worker", "--add", one, "--add", other, "--merge", base)
    assert text_at(config, "/etc/one") == text_at(config, "/etc/other") == "theirs"
    assert text_at(config, SHIM)
    refused = made("--role", "worker", "--add", one, "--add", one)
    assert refused.exit_code == 3
    assert refused.stderr.startswith(f"Error: {one}: storage.files")
    assert "'/etc/one' is there already" in refused.stderr


def test_host_patch_has_version_of_assisted_service(tmp_path: Path) -> None:
    base = tmp_path / "base.ign"
    for version in ("3.1.0", "3.2.0"):
        base.write_text(json.dumps({"ignition": {"version": version}}))
        body = config_of("--role", "worker", "--assisted-host-patch", "--merge", base)
        assert json.loads(body["config"])["ignition"]["version"] == "3.2.0"
    assert made("--role", "worker", "--assisted-host-patch", "--spec", "3.1.0").exit_code == 0
    base.write_text(json.dumps({"ignition": {"version": "3.4.0"}}))
    refused = made("--role", "worker", "--assisted-host-patch", "--merge", base)
    assert refused.exit_code == 3
    assert "3.4.0 is not taken by an assisted-service; 3.1.0 and 3.2.0 are" in refused.stderr


@pytest.mark.parametrize(
    ("role", "pool"), [("master", "master"), ("worker", "worker"), ("single-node", "master")]
)
def test_machine_config_has_pool_of_role(role: str, pool: str) -> None:
    result = made("--role", role, "--format", "machineconfig", "--ship-to", "https://example.com/")
    document = yaml.safe_load(result.stdout)
    assert document["apiVersion"] == "machineconfiguration.openshift.io/v1"
    assert document["kind"] == "MachineConfig"
    assert document["metadata"] == {
        "labels": {"machineconfiguration.openshift.io/role": pool},
        "name": f"99-{pool}-service-record",
    }
    config = document["spec"]["config"]
    assert check(config) == ()
    assert "links" not in config["storage"]
    # The operator calls a host degraded that lacks what its MachineConfig has.
    assert 'keep_after = ["settings", "units"]' in text_at(config, "/etc/service-record/reporter.toml")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (set_value("passwd", {"users": [{"name": "root"}]}), "no user but core"),
        (set_value("passwd", {"users": [{"name": "core", "uid": 7}]}), "password and keys only"),
        (set_value("passwd", {"groups": [{"name": "a"}]}), "passwd.groups"),
        (set_value("storage", {"links": [{"path": "/a", "target": "/b"}]}), "storage.links"),
        (set_value("storage", {"directories": [{"path": "/a"}]}), "storage.directories"),
        (set_value("storage", {"files": [{"path": "/a", "append": [{"source": "data:,a"}]}]}), "append"),
        (
            set_value("storage", {"files": [{"path": "/a", "contents": {"source": "https://a/b"}}]}),
            "is fetched",
        ),
    ],
)
def test_fields_unsupported_by_the_operator_are_refused(damage: Any, message: str, tmp_path: Path) -> None:
    base: dict[str, Any] = {"ignition": {"version": "3.4.0"}}
    damage(base)
    path = tmp_path / "base.ign"
    path.write_text(json.dumps(base))
    result = made("--role", "worker", "--format", "machineconfig", "--merge", path)
    assert result.exit_code == 3
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--role", "worker", "--token-file", "/dev/null"], "say where it reports to"),
        (["--role", "worker", "--replace", "/a"], "--replace needs --merge"),
        (["--role", "worker", "--executable-hash", "x"], "give both"),
        (["--role", "worker", "--url", "https://a"], "no assisted_service.cluster_id"),
        (["--role", "worker", *REPORTING, "--cluster-id", "x"], "cluster_id"),
        (["--role", "worker", *REPORTING, "--token-file", "/dev/null"], "is empty"),
        (["--role", "worker", *REPORTING, "--ca-bundle", __file__], "no certificate"),
        (["--role", "worker", *REPORTING, "--executable", __file__], "is not a program"),
        (["--role", "worker", *REPORTING, "--executable", "https://a/b"], "add --executable-hash"),
        (["--role", "worker", "--token-file", "-", "--merge", "-", *REPORTING], "standard input can be read"),
        (["--role", "worker", "--executable", "-", "--merge", "-", *REPORTING], "standard input can be read"),
        (["--role", "worker", "--executable", "-", *REPORTING], "standard input is not a program"),
        (["--role", "bootstrap", "--format", "machineconfig"], "takes no MachineConfig"),
        (["--role", "worker", "--format", "machineconfig", *REPORTING], "leave --host-id out"),
        (
            ["--role", "worker", "--format", "machineconfig", "--ship-to", "/a", "--token-file", "-"],
            "must not hold a token",
        ),
        (["--role", "worker", "--format", "butane", "--assisted-host-patch"], "leave --format out"),
        (["--role", "worker", "--format", "butane", "--merge", "-"], "merged by Butane"),
        (["--role", "worker", "--format", "butane", "--add", "-"], "merged by Butane"),
        (["--role", "worker", "--assisted-host-patch", "--spec", "3.4.0"], "assisted-service takes 3.1.0"),
    ],
)
def test_conflicting_options_are_refused(arguments: list[str], message: str) -> None:
    result = made(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in " ".join(result.stderr.split())


def test_executable_is_delivered_and_removed_later(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"\x7fELF and more")
    inside = config_of("--role", "worker", *REPORTING, "--executable", program)
    file = file_at(inside, "/usr/local/bin/service-record")
    assert (file["mode"], read_contents(file["contents"])) == (0o755, program.read_bytes())
    assert 'remove = ["/usr/local/bin/service-record"]' in text_at(
        inside, "/etc/service-record/reporter.toml"
    )
    digest = compute_hash(program.read_bytes())
    fetched = config_of(
        "--role", "worker", *REPORTING, "--executable", "https://a.example/b", "--executable-hash", digest
    )
    assert file_at(fetched, "/usr/local/bin/service-record")["contents"] == {
        "source": "https://a.example/b",
        "verification": {"hash": digest},
    }
    other = made(
        "--role", "worker", *REPORTING, "--executable", program, "--executable-hash", compute_hash(b"")
    )
    assert other.exit_code == 2
    assert "the data has another sha512" in other.stderr


def test_settings_file_is_combined_with_options(tmp_path: Path) -> None:
    settings = tmp_path / "reporter.toml"
    settings.write_text(
        'frequency = 300\nship_to = ["/mnt"]\n[proxies]\nhttps = "http://u:p\\u0040ss@proxy:3128"\n'
    )
    more = ["--settings", settings, "--ship-to", "https://b.example/"]
    text = text_at(config_of("--role", "worker", *REPORTING, *more), "/etc/service-record/reporter.toml")
    places = Places(tmp_path / "host")
    places.settings_file.parent.mkdir(parents=True)
    places.settings_file.write_text(text)
    read = read_settings(places, {})
    assert (read.frequency, read.ship_to) == (300, ("/mnt", "https://b.example/"))
    assert read.proxies.https == "http://u:p@ss@proxy:3128"


def test_butane_has_plain_texts(token: Path) -> None:
    result = made("--role", "worker", "--format", "butane", *REPORTING, "--token-file", token)
    document = yaml.safe_load(result.stdout)
    assert (document["variant"], document["version"]) == ("fcos", "1.5.0")
    config = config_of("--role", "worker", *REPORTING, "--token-file", token)
    assert {file["path"]: file["contents"]["inline"] for file in document["storage"]["files"]} == {
        file["path"]: text_at(config, file["path"]) for file in config["storage"]["files"]
    }
    assert document["systemd"] == config["systemd"]
    assert {frozenset(file) for file in document["storage"]["files"]} == {
        frozenset({"path", "mode", "overwrite", "contents"})
    }


def test_openshift_butane_has_machine_config_metadata() -> None:
    arguments = ("--role", "single-node", "--format", "butane", "--variant", "openshift")
    document = yaml.safe_load(made(*arguments).stdout)
    assert (document["variant"], document["version"]) == ("openshift", "4.14.0")
    assert document["metadata"]["labels"] == {"machineconfiguration.openshift.io/role": "master"}
    assert made(*arguments, "--spec", "3.3.0").exit_code == 3


@pytest.mark.skipif(shutil.which("ignition-validate") is None, reason="no ignition-validate")
@roles
def test_ignition_validate_accepts_output(role: str, base: Path, token: Path) -> None:
    for more in ([], ["--merge", base]):
        result = made("--role", role, "--spec", "3.3.0", *REPORTING, "--token-file", token, *more)
        done = subprocess.run(
            ["ignition-validate", "-"], input=result.stdout, capture_output=True, text=True, check=False
        )
        warnings = [line for line in done.stdout.splitlines() if "plaintext HTTP proxy" not in line]
        assert (done.returncode, warnings) == (0, [])


@pytest.mark.skipif(not IGNITION.exists() or os.geteuid() != 0, reason="needs Ignition, and root")
@roles
def test_ignition_writes_delivered_files(role: str, token: Path, tmp_path: Path) -> None:
    root, config = tmp_path / "root", tmp_path / "config.ign"
    (root / "etc/selinux").mkdir(parents=True)
    (root / "etc/selinux/config").write_text("SELINUXTYPE=targeted\n")
    labelling = tmp_path / "setfiles"  # there is no SELinux here
    labelling.write_text("#!/bin/sh\ncat >/dev/null\n")
    labelling.chmod(0o755)
    variables = {"IGNITION_CONFIG_FILE": str(config), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    arguments = ["--role", role, "--spec", "3.3.0", *REPORTING, "--token-file", token, "-o", config]
    assert made(*arguments).exit_code == 0
    for stage in ("fetch", "files"):
        own = {name: tmp_path / name for name in ("config-cache", "state-file", "neednet")}
        flags = [f"--{name}={path}" for name, path in own.items()]
        done = subprocess.run(
            [IGNITION, "--platform=file", f"--stage={stage}", f"--root={root}", "--log-to-stdout", *flags],
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-2000:]
    assert {path: found(root, path) for path in wanted(role, token)} == wanted(role, token)
    preset = (root / "etc/systemd/system-preset/20-ignition.preset").read_text()
    assert preset == "enable boot-reporter.timer\n"


def found(root: Path, path: str) -> tuple[bytes, int]:
    place = root / path.lstrip("/")
    return place.read_bytes(), stat.S_IMODE(place.stat().st_mode)


def wanted(role: str, token: Path) -> dict[str, tuple[bytes, int]]:
    """Return the files that are to be on the host, but for the settings, which have a test of their own."""
    items = items_to_deliver(DeliveryRequest(role=role, settings="", token=token.read_bytes()))
    return {
        item.path: (item.data, item.mode)
        for item in items
        if item.target is None and not item.path.endswith("reporter.toml")
    }


def test_kernel_arguments_move_into_machine_config_spec(tmp_path: Path) -> None:
    base = tmp_path / "base.ign"
    base.write_text(
        json.dumps({"ignition": {"version": "3.4.0"}, "kernelArguments": {"shouldExist": ["a=b"]}})
    )
    document = yaml.safe_load(made("--role", "worker", "--format", "machineconfig", "--merge", base).stdout)
    assert document["spec"]["kernelArguments"] == ["a=b"]
    assert "kernelArguments" not in document["spec"]["config"]


def test_token_invalid_in_header_is_refused_unprinted(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("no token at all\n")
    result = made("--role", "worker", *REPORTING, "--token-file", token)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "no token at all" not in result.stderr
    assert "/etc/service-record/token:1:" in result.stderr
