"""The settings of the reporter: their sources, and one line for each missing or invalid setting."""

import json
import os
import re
import stat
from pathlib import Path

import pytest

from service_record.reporter.paths import Places
from service_record.reporter.settings import (
    SETTINGS,
    HostLogsPolicy,
    Send,
    Settings,
    Stages,
    read_settings,
)
from tests.builders import require
from tests.reporter_builders import ID, SERVICE, make_places

DOCUMENT = Path(__file__).parents[2] / "docs" / "boot-reporter-settings.md"
PULL_SECRET = json.dumps({"auths": {"cloud.openshift.com": {"auth": "c2VjcmV0", "email": "a@b"}}})
VARIABLES = {
    "ASSISTED_SERVICE_URL": "https://from.environment",
    "CLUSTER_ID": ID,
    "INFRA_ENV_ID": ID,
    "HOST_ID": ID,
}


def test_configured_host_has_no_faults(tmp_path: Path) -> None:
    settings = read_settings(make_places(tmp_path), {})
    assert settings.faults == ()
    assert settings.service is not None
    assert settings.service.url == "https://assisted.example:8090"
    assert settings.service.infra_env_id == ID
    assert settings.service.token == "raw-token"


def test_credential_has_precedence_over_the_file_only(tmp_path: Path) -> None:
    credential = tmp_path / "reporter.toml"
    credential.write_text('jitter = 7\nuploads = 2\nfrequency = "often"\n')
    places = make_places(tmp_path / "root", "jitter = 9\nlifetime = 120\n" + SERVICE)
    environ = {"CREDENTIALS_DIRECTORY": str(tmp_path), "LOG_SEND_FREQUENCY_IN_MINUTES": "4"}
    settings = read_settings(places, environ)
    assert (settings.jitter, settings.uploads, settings.lifetime, settings.frequency) == (7, 2, 120, 240)
    assert [fault.partition(": ")[0] for fault in settings.faults] == [f"{credential}:3"]


def test_every_setting_is_read_from_the_file(tmp_path: Path) -> None:
    text = """\
ship_to = ["/mnt/share", "https://store.example/put?sig=1", "collector+http://collector.example"]
records_to = ["collector+https://collector.example/web1"]
frequency = "5m"
time_limit = 1800
lifetime = "2d"
jitter = 0
send = "always"
host_logs = "overwrite"
stages = "never"
redact = false
disk_bytes = "32 MiB"
upload_bytes = "512K"
uploads_per_boot = 2
uploads = 3
total_bytes = 5000000
keep_after = ["settings", "spool"]
remove = ["/usr/local/bin/reporter"]
api_url = "https://api.example:6443"
[proxies]
http = "proxy.example:3128"
https = "http://user:geheim@proxy.example:3128"
no_proxy = ["localhost", ".example"]
[assisted_service]
ca_bundle = "/etc/ca.crt"
"""
    settings = read_settings(make_places(tmp_path, text + SERVICE.replace("[assisted_service]\n", "")), {})
    assert settings.faults == ()
    assert settings.ship_to[2] == "collector+http://collector.example"
    assert settings.records_to == ("collector+https://collector.example/web1",)
    assert (settings.frequency, settings.time_limit, settings.lifetime) == (300, 1800, 172800)
    assert (settings.send, settings.host_logs) == (Send.ALWAYS, HostLogsPolicy.OVERWRITE)
    assert (settings.stages, settings.redact) == (Stages.NEVER, False)
    assert (settings.disk_bytes, settings.upload_bytes, settings.total_bytes) == (1 << 25, 1 << 19, 5_000_000)
    assert (settings.uploads_per_boot, settings.uploads, settings.jitter) == (2, 3, 0)
    assert settings.remove == (Path("/usr/local/bin/reporter"),)
    assert settings.proxies.http == "http://proxy.example:3128"
    assert settings.proxies.no_proxy == ("localhost", ".example")
    assert require(settings.service).ca_bundle == Path("/etc/ca.crt")


def test_environment_has_precedence_over_the_file(tmp_path: Path) -> None:
    places = make_places(tmp_path, 'frequency = "20m"\ntime_limit = "2h"\n' + SERVICE)
    environ = VARIABLES | {"LOG_SEND_FREQUENCY_IN_MINUTES": "5", "SERVICE_TIMEOUT_MINUTES": "30"}
    settings = read_settings(places, environ)
    assert settings.faults == ()
    assert require(settings.service).url == "https://from.environment"
    assert (settings.frequency, settings.time_limit) == (300, 1800)


def test_empty_variable_counts_as_unset(tmp_path: Path) -> None:
    settings = read_settings(make_places(tmp_path), {"CLUSTER_ID": "", "HTTP_PROXY": " "})
    assert settings.faults == ()
    assert settings.service is not None


def test_invalid_variable_leaves_the_value_of_the_file(tmp_path: Path) -> None:
    settings = read_settings(make_places(tmp_path), {"CLUSTER_ID": "nonsense"})
    assert settings.service is not None
    assert settings.faults == (
        (
            "environment:CLUSTER_ID: 'nonsense' is not a valid id; "
            "use one like 01234567-89ab-cdef-0123-456789abcdef"
        ),
    )


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy"])
def test_proxy_variables_work_in_either_case(tmp_path: Path, name: str) -> None:
    settings = read_settings(make_places(tmp_path), {name: "http://proxy:1", "no_proxy": "a, b"})
    assert (settings.proxies.http, settings.proxies.no_proxy) == ("http://proxy:1", ("a", "b"))


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        pytest.param("frequenzy = 3", "frequenzy: no such setting; did you mean frequency?", id="unknown"),
        pytest.param("nothing_like_it = 3", "no such setting; docs/boot-reporter-settings.md", id="far off"),
        pytest.param("frequency = 1", "1 is too small; use at least 60", id="too little"),
        pytest.param("frequency = nan", "too small", id="not a number"),
        pytest.param("frequency = true", "True is not a valid duration", id="wrong type"),
        pytest.param('frequency = "soon"', "'soon' is not a valid duration", id="no duration"),
        pytest.param('upload_bytes = "1 TB"', "'1 TB' is not a valid size", id="no size"),
        pytest.param('upload_bytes = "1 GiB"', "too large; use at most 262,144,000", id="too much"),
        pytest.param('redact = "no"', "'no' is neither true nor false", id="no switch"),
        pytest.param("uploads = 1.5", "1.5 is not a whole number", id="no whole number"),
        pytest.param('host_logs = "often"', "'often' is not valid; use one of when-empty", id="no choice"),
        pytest.param("host_logs = []", "[] is not valid; use one of when-empty", id="no text"),
        pytest.param('ship_to = "/mnt"', 'not a list of texts; write it like ["this", "that"]', id="no list"),
        pytest.param('records_to = ["https://x"]', "is not a collector; use a URL", id="records"),
        pytest.param('ship_to = ["ftp://x/"]', "not a URL of http or https with a host", id="scheme"),
        pytest.param('ship_to = ["/a/../b"]', "write an absolute one without `..`", id="dots"),
        pytest.param('remove = ["bin/x"]', "'bin/x' is not a valid path", id="relative"),
        pytest.param('keep_after = ["token"]', "'token' is not valid; use one of settings, spool", id="kept"),
        pytest.param("proxies = 3", "a section; write [proxies]", id="section"),
        pytest.param('token = "abc"', "the token does not belong here; write it into", id="token"),
        pytest.param('api_url = "https://h:99999"', "not a URL of http or https with a host", id="port"),
    ],
)  # fmt: skip
def test_invalid_setting_gets_one_line_with_its_place(tmp_path: Path, line: str, fault: str) -> None:
    places = make_places(tmp_path, f"# settings\n{line}\n{SERVICE}")
    settings = read_settings(places, {})
    (fault_line,) = [found for found in settings.faults if " no assisted_service" not in found]
    assert fault_line.startswith(f"{places.settings_file}:2: ")
    assert fault in fault_line
    assert "\n" not in fault_line


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("url", "https://user:geheim@h"),
        ("url", "https://h/?geheim"),
        ("url", "http://geheim:x/"),
        ("cluster_id", "{01234567-89ab-cdef-0123-456789abcdef}"),
    ],
)
def test_invalid_service_setting_is_not_also_missing(tmp_path: Path, name: str, value: str) -> None:
    text = re.sub(rf'(?m)^{name} = ".*"', f'{name} = "{value}"', SERVICE)
    places = make_places(tmp_path, text)
    settings = read_settings(places, {})
    assert settings.service is None
    (fault_line,) = settings.faults
    line = text.splitlines().index(f'{name} = "{value}"') + 1
    assert fault_line.startswith(f"{places.settings_file}:{line}: assisted_service.{name}: ")
    assert "geheim" not in fault_line


def test_invalid_proxy_is_reported_without_its_password(tmp_path: Path) -> None:
    environ = {"HTTPS_PROXY": "http://user:ge heim@proxy:1"}
    settings = read_settings(make_places(tmp_path), environ)
    assert settings.proxies.https is None
    (fault_line,) = settings.faults
    assert fault_line.startswith("environment:HTTPS_PROXY: the URL has a blank in it")
    assert "heim" not in fault_line


def test_missing_settings_are_named(tmp_path: Path) -> None:
    settings = read_settings(Places(tmp_path), {})
    assert settings.service is None
    assert len(settings.faults) == 4
    assert "no assisted_service.url" in settings.faults[0]
    assert "ASSISTED_SERVICE_URL in the environment" in settings.faults[0]


def test_destination_alone_needs_no_service(tmp_path: Path) -> None:
    assert read_settings(make_places(tmp_path, 'ship_to = ["/mnt"]'), {}).faults == ()


@pytest.mark.parametrize(
    ("text", "line", "fault"),
    [
        pytest.param("a = 1\nb = \n", 2, "not TOML", id="toml"),
        pytest.param("a = 1\nb = [", 2, "not TOML", id="cut"),
        pytest.param(b"a = 1\n\n# \xff\n", 3, "not UTF-8", id="encoding"),
        pytest.param("a = " + "[" * 5000, 1, "", id="nested"),
        pytest.param(b"#" * 70000, 1, "larger than 65,536 bytes", id="huge"),
    ],
)
def test_invalid_file_gets_one_line_and_the_environment_applies(
    tmp_path: Path, text: str | bytes, line: int, fault: str
) -> None:
    places = make_places(tmp_path, text)
    settings = read_settings(places, VARIABLES)
    (fault_line,) = settings.faults
    assert fault_line.startswith(f"{places.settings_file}:{line}: ")
    assert fault in fault_line
    assert settings.service is not None


def test_pipe_in_place_of_a_file_does_not_block(tmp_path: Path) -> None:
    places = make_places(tmp_path, text=None, token=None)
    os.mkfifo(places.settings_file)
    os.mkfifo(places.credential_file)
    faults = read_settings(places, VARIABLES).faults
    assert [fault for fault in faults if "no regular file" in fault] == list(faults[:2])


def test_token_credential_has_precedence_over_the_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("from-systemd\n")
    settings = read_settings(make_places(tmp_path / "root"), {"CREDENTIALS_DIRECTORY": str(tmp_path)})
    assert require(settings.service).token == "from-systemd"


def test_empty_credential_counts_as_missing(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(" ")
    settings = read_settings(make_places(tmp_path / "root"), {"CREDENTIALS_DIRECTORY": str(tmp_path)})
    assert require(settings.service).token == "raw-token"


@pytest.mark.parametrize("text", [PULL_SECRET, f"\n{PULL_SECRET}\n", "c2VjcmV0\n"])
def test_token_is_read_from_a_pull_secret(tmp_path: Path, text: str) -> None:
    settings = read_settings(make_places(tmp_path, token=text), {})
    assert settings.faults == ()
    assert require(settings.service).token == "c2VjcmV0"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        pytest.param('{"auths": {"quay.io": {"auth": "geheim"}}}', "a pull secret without", id="registry"),
        pytest.param('{"auths": ["geheim"', "a pull secret without", id="torn"),
        pytest.param("[" * 9999, "characters that no token has", id="brackets"),
        pytest.param("Bearer geheim", "a blank in it", id="bearer"),
        pytest.param("geheim\ngeheim", "a blank in it", id="two lines"),
        pytest.param('"geheim"', "characters that no token has", id="quotes"),
        pytest.param("TOKEN=geheim", "characters that no token has", id="a variable"),
        pytest.param("geh\0eim", "characters that no token has", id="a NUL"),
        pytest.param("", "an empty file", id="empty"),
        pytest.param(" \n", "an empty file", id="blanks"),
        pytest.param("gehe\u0131m", "no token: a token is ASCII", id="letters"),
    ],
)
def test_invalid_token_is_not_sent_and_not_shown(tmp_path: Path, text: str, fault: str) -> None:
    settings = read_settings(make_places(tmp_path, token=text), {})
    assert settings.service is not None
    assert (settings.service.token, settings.service.is_usable) == (None, False)
    (line,) = settings.faults
    assert fault in line
    assert line.endswith("; until then the assisted-service is sent nothing")
    assert "geheim" not in line


@pytest.mark.parametrize("kind", ["directory", "pipe", "socket", "link to nothing"])
def test_irregular_token_file_disables_the_service(tmp_path: Path, kind: str) -> None:
    places = make_places(tmp_path, token=None)
    place = places.credential_file
    match kind:
        case "directory":
            place.mkdir()
        case "pipe":
            os.mkfifo(place)
        case "socket":
            os.mknod(place, stat.S_IFSOCK | 0o600)
        case "link to nothing":
            place.symlink_to("nowhere")
    settings = read_settings(places, {})
    assert settings.service is not None
    assert (settings.service.token, settings.service.is_usable) == (None, False)
    (line,) = settings.faults
    assert line.startswith(f"{place}:1: ")


def test_service_is_called_without_a_token_file(tmp_path: Path) -> None:
    settings = read_settings(make_places(tmp_path, token=None), {})
    assert settings.service is not None
    assert (settings.service.token, settings.service.is_usable) == (None, True)


def test_valid_token_is_used_after_an_invalid_one(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("Bearer geheim")
    settings = read_settings(make_places(tmp_path / "root"), {"CREDENTIALS_DIRECTORY": str(tmp_path)})
    assert settings.service is not None
    assert (settings.service.token, settings.service.is_usable) == ("raw-token", True)


def test_invalid_collector_token_disables_collectors(tmp_path: Path) -> None:
    places = make_places(tmp_path, 'ship_to = ["/mnt", "collector+https://c"]\n' + SERVICE)
    places.collector_credential_file.write_text("two\nlines")
    settings = read_settings(places, {})
    assert settings.ship_to == ("/mnt",)
    assert any("collectors are sent nothing" in line for line in settings.faults)


def test_readable_token_is_used_with_a_warning(tmp_path: Path) -> None:
    places = make_places(tmp_path)
    places.credential_file.chmod(0o644)
    settings = read_settings(places, {})
    assert require(settings.service).token == "raw-token"
    path = places.credential_file
    assert settings.faults == (
        f"{path}:1: others than its owner may read the token; chmod 0600 {path}",
    )  # fmt: skip


def test_token_in_the_environment_is_ignored(tmp_path: Path) -> None:
    settings = read_settings(make_places(tmp_path, token=None), {"PULL_SECRET_TOKEN": "geheim"})
    assert require(settings.service).token is None
    assert "write it into /etc/service-record/token (0600)" in settings.faults[0]
    assert "geheim" not in repr(settings)


def test_repr_of_settings_has_no_secret(tmp_path: Path) -> None:
    environ = {"HTTPS_PROXY": "http://user:geheim@proxy:1"}
    settings = read_settings(make_places(tmp_path, token="geheim"), environ)
    assert settings.proxies.https == "http://user:geheim@proxy:1"
    assert "geheim" not in repr(settings)


def test_ca_bundle_at_the_default_path_is_used(tmp_path: Path) -> None:
    places = make_places(tmp_path)
    places.ca_bundle.parent.mkdir(parents=True)
    places.ca_bundle.write_text("PEM")
    settings = read_settings(places, {})
    assert require(settings.service).ca_bundle == places.ca_bundle


@pytest.mark.parametrize("name", SETTINGS)
def test_each_setting_is_documented(name: str) -> None:
    (row,) = [line for line in DOCUMENT.read_text().splitlines() if line.startswith(f"| `{name}`")]
    for variable in SETTINGS[name].variables:
        assert f"`{variable}`" in row or variable.islower(), row
    default = getattr(Settings(), name, None) if "." not in name else None
    if isinstance(default, int) and not isinstance(default, bool) and "bytes" in name:
        assert f"{default >> 20} MiB" in row
    elif isinstance(default, float):
        assert f"{default / 3600:g} h" in row or f"{default / 60:g} m" in row
    elif isinstance(default, str | int) and not isinstance(default, bool):
        assert str(default) in row
