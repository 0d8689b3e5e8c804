"""`service-record snippet`: run by each shell and each client of HTTP, against servers good and bad."""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from service_record.cli import main
from service_record.deploy.snippets.forms import KINDS, STEPS
from service_record.deploy.snippets.script import one_line, part_of
from service_record.entry import Entry, Malformed
from service_record.records import Records
from tests.programs import REPOSITORY
from tests.running_server import nobody
from tests.step_collector import black_hole, step_collector, trickle

SHELLS = {"bash": ["bash"], "bash-posix": ["bash", "--posix"], "dash": ["dash"], "busybox": ["busybox", "sh"]}
CLIENTS = ("curl", "wget", "busybox")
TOOLS = ("date", "tr", "tail", "sleep", "mkdir", "cat")
HOSTILE = """a 'b' "c" $(touch /tmp/x) `d` \\n <%= e %> & f=g;h # ü€𝄞"""

SHELLCHECK = Path(sys.executable).with_name("shellcheck")
shells = pytest.mark.parametrize("shell", SHELLS)
clients = pytest.mark.parametrize("client", CLIENTS)
kinds = pytest.mark.parametrize("kind", KINDS)


def printed(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["snippet", *map(str, arguments)], prog_name="service-record")


def snippet_of(*arguments: object) -> str:
    result = printed(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


class Installer:
    """A place with a few programs, as installers have them, and nothing else."""

    def __init__(self, directory: Path, shell: str, client: str = "curl") -> None:
        self.directory = directory
        self.programs = directory / "bin"
        self.programs.mkdir(parents=True)
        self.records = Records(directory / "records")
        self.token = directory / "token"
        self.token.write_text("secret.token\n")
        self.shell = SHELLS[shell]
        for name in (*TOOLS, self.shell[0]):
            self.has(name, name)
        if client == "busybox":
            self.has("wget", "busybox")
        else:
            self.has(client, client)

    def has(self, name: str, program: str) -> None:
        path = shutil.which(program)
        if path is None:
            pytest.skip(f"no {program}")
        (self.programs / name).unlink(missing_ok=True)
        (self.programs / name).symlink_to(path)

    def run(self, script: str, *flags: str) -> subprocess.CompletedProcess[str]:
        """The script, in so many seconds at most; what it writes to the terminal is part of the answer."""
        return subprocess.run(
            [self.programs / self.shell[0], *self.shell[1:], *flags, "-c", script],
            env={"PATH": str(self.programs), "SERVICE_RECORDS_DIR": str(self.records.directory)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def entries(self, service: str = "bash") -> list[Entry]:
        pieces = list(self.records.read(service))
        assert [piece for piece in pieces if isinstance(piece, Malformed)] == []
        return [piece for piece in pieces if isinstance(piece, Entry)]


def functions(*arguments: object) -> str:
    """The functions of a snippet, without the steps that are an example."""
    return snippet_of("bash", *arguments).rpartition("service_record_step 'Example step' init")[0]


@shells
@clients
def test_steps_are_reported_and_recorded_whatever_is_in_their_names(
    shell: str, client: str, tmp_path: Path
) -> None:
    host = Installer(tmp_path, shell, client)
    with step_collector() as collector:
        script = functions("--url", collector.url, "--host", "web1:rack_2", "--token-file", host.token)
        name = HOSTILE.replace("'", "'\"'\"'")
        done = host.run(
            f"{script}\nservice_record_step '{name}' init 10\n"
            f"service_record_step '{name}' failed '' '{name}'\nservice_record_end failure",
            "-eu",
        )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    # wget writes some of what is escaped as it is.
    paths = [report.path.replace("'", "%27") for report in collector.reported]
    assert paths == ["/api/v1/hosts/web1%3Arack_2/steps"] * 2
    assert {report.method for report in collector.reported} == {"GET" if client == "busybox" else "POST"}
    assert {report.authorization for report in collector.reported} == {"Bearer secret.token"}
    first, second = (report.fields for report in collector.reported)
    assert (first["name"], first["status"], first["percentage"]) == (HOSTILE, "init", "10")
    assert (second["name"], second["status"], second["logs"]) == (HOSTILE, "failed", HOSTILE)
    assert (first["action"], first["priority"]) == ("install", "0")
    assert re.fullmatch(r"[a-z0-9_]+", first["label"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", first["time"])
    told = [(str(entry.phase), entry.stage, entry.result) for entry in host.entries()]
    assert [(phase, stage, result and str(result)) for phase, stage, result in told] == [
        ("service start", None, None),
        ("stage start", HOSTILE, None),
        ("stage end", HOSTILE, "failure"),
        ("service end", None, "failure"),
    ]
    assert host.entries()[2].error_message == HOSTILE


@shells
@clients
@pytest.mark.parametrize("server", ["black hole", "trickle"])
def test_a_server_that_does_not_answer_takes_seconds_and_nothing_else(
    shell: str, client: str, server: str, tmp_path: Path
) -> None:
    host = Installer(tmp_path, shell, client)
    with black_hole() if server == "black hole" else trickle() as url:
        script = functions("--url", url, "--max-time", 1)
        begun = time.monotonic()
        done = host.run(f"{script}\nservice_record_step one init\necho on", "-eu")
    assert (done.returncode, done.stdout, done.stderr) == (0, "on\n", "")
    assert time.monotonic() - begun < 60  # and not for ever; the machine may be busy
    assert len(host.entries()) == 2


@shells
@clients
def test_nobody_there_and_a_server_that_refuses_fail_nothing(shell: str, client: str, tmp_path: Path) -> None:
    host = Installer(tmp_path, shell, client)
    with step_collector(500) as collector:
        for url in (nobody(), collector.url):
            done = host.run(f"{functions('--url', url)}\nservice_record_step one done\necho on", "-eu")
            assert (done.returncode, done.stdout, done.stderr) == (0, "on\n", "")
    assert len(collector.reported) == 1


@shells
def test_after_a_report_that_did_not_arrive_the_next_ones_are_short(shell: str, tmp_path: Path) -> None:
    host = Installer(tmp_path, shell)
    script = functions("--url", nobody(), "--max-time", 7)
    patience = 'echo "$service_record_patience"'
    with step_collector() as collector:
        done = host.run(
            f"{script}\n{patience}\nservice_record_step one init; {patience}\n"
            f"service_record_url() {{ echo {collector.url}; }}\nservice_record_step one done; {patience}"
        )
    assert done.stdout.split() == ["7", "2", "7"]


@shells
@pytest.mark.parametrize("client", ["curl", "none"])
def test_what_an_installer_lacks_fails_nothing(shell: str, client: str, tmp_path: Path) -> None:
    host = Installer(tmp_path, shell)
    for tool in TOOLS if client == "none" else ():
        (host.programs / tool).unlink()
    (host.programs / "curl").unlink()
    done = host.run(f"{functions('--url', nobody())}\nservice_record_step one init\necho on", "-eu")
    assert (done.returncode, done.stdout, done.stderr) == (0, "on\n", "")


@pytest.mark.parametrize("shell", ["bash", "bash-posix"])
def test_options_and_traps_of_the_template_stay_its_own(shell: str, tmp_path: Path) -> None:
    host = Installer(tmp_path, shell)
    done = host.run(
        "set -eEuCo pipefail; IFS=x; shopt -s nocasematch\n"
        "trap 'echo ERR' ERR; trap 'echo EXIT' EXIT\n"
        f"{functions('--url', nobody())}\n"
        'before=$(set +o; shopt; trap; printf %q "$IFS")\n'
        "service_record_step one init\nservice_record_step\n"
        '[[ $(set +o; shopt; trap; printf %q "$IFS") == "$before" ]] && echo same'
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "same\nEXIT\n", "")


@shells
def test_a_template_that_traces_what_it_does_traces_no_token(shell: str, tmp_path: Path) -> None:
    host = Installer(tmp_path, shell)
    with step_collector() as collector:
        script = functions("--url", collector.url, "--token-file", host.token)
        done = host.run(f"set -x\n{script}\nservice_record_step one init")
    assert collector.reported[0].authorization == "Bearer secret.token"
    assert "secret" not in done.stderr


def test_curl_is_given_the_token_where_nobody_sees_it(tmp_path: Path) -> None:
    host = Installer(tmp_path, "dash")
    (host.programs / "curl").unlink()
    (host.programs / "curl").write_text(f'#!/bin/sh\nprintf "%s\\n" "$*" >{tmp_path}/arguments\n')
    (host.programs / "curl").chmod(0o755)
    host.run(f"{functions('--url', nobody(), '--token-file', host.token)}\nservice_record_step one init")
    arguments = (tmp_path / "arguments").read_text()
    assert "name=one" in arguments
    assert "secret" not in arguments


@shells
def test_long_logs_keep_their_end_and_their_entry_fits_a_line(shell: str, tmp_path: Path) -> None:
    host = Installer(tmp_path, shell)
    (tmp_path / "log").write_text('x"\\\n' * 50_000 + "the end")
    done = host.run(
        f"{functions()}\nservice_record_step one init\n"
        f'service_record_step one failed "" "$(cat {tmp_path}/log)"'
    )
    assert done.stderr == ""
    message = host.entries()[-1].error_message or ""
    assert message.endswith('x"\\\nthe end')
    assert len(message) == 1000
    lines = (host.records.directory / "bash.json").read_bytes().split(b"\n")
    assert max(map(len, lines)) < 4096


def test_an_array_of_others_and_a_torn_line_are_left_as_they_are(tmp_path: Path) -> None:
    host = Installer(tmp_path, "dash")
    path = host.records.directory / "bash.json"
    path.parent.mkdir()
    path.write_text("[\n]\n")
    host.run(f"{functions()}\nservice_record_step one init")
    assert path.read_text() == "[\n]\n"
    path.write_text('{"timestamp": "2026')
    host.run(f"{functions()}\nservice_record_step one init")
    pieces = list(host.records.read("bash"))
    assert [type(piece) for piece in pieces] == [Malformed, Entry, Entry]


def test_where_the_shim_is_it_records(tmp_path: Path) -> None:
    host = Installer(tmp_path, "bash")
    shim = REPOSITORY / "shell/bootstrap-service-record.sh"
    done = host.run(
        f"SERVICE_RECORD_SHIM={shim}\n{functions()}\nservice_record_step one init\n"
        "service_record_step one done\nservice_record_step two init\nfalse_command_of_nobody",
        "-eu",
    )
    assert done.returncode == 127
    told = [(str(entry.phase), entry.stage) for entry in host.entries()]
    assert told == [
        ("service start", None),
        ("stage start", "one"),
        ("stage end", "one"),
        ("stage start", "two"),
        ("stage end", "two"),
        ("service end", None),
    ]
    assert (host.entries()[0].recorder or "").startswith("bash/")


def shell_of(kind: str, text: str) -> list[str]:
    """The pieces of shell in a snippet."""
    if kind == "kickstart":
        return re.findall(r"^%\w+ --interpreter=/bin/sh\n(.*?)^%end$", text, re.MULTILINE | re.DOTALL)
    if kind == "preseed":
        return [line.split(" string ", 1)[1] for line in text.splitlines()]
    if kind == "bash":
        return [text]
    document = yaml.safe_load(text)
    if kind == "cloud-init":
        (file,) = document["write_files"]
        (command,) = document["runcmd"]
        return [f"{file['content']}\n" + command.replace(f". {file['path']}\n", "")]
    commands = document["autoinstall"]
    return [commands[f"{name}-commands"][0] for name in ("early", "late", "error")]


@kinds
@shells
def test_every_piece_of_every_snippet_runs_and_reports(kind: str, shell: str, tmp_path: Path) -> None:
    host = Installer(tmp_path, shell)
    with step_collector() as collector:
        steps = [word for step in (HOSTILE, "Done") for word in ("--step", step)]
        text = snippet_of(kind, "--url", collector.url, "--host", "web1", *steps)
        for piece in shell_of(kind, text):
            done = host.run(piece, "-eu")
            assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    names = [report.fields["name"] for report in collector.reported]
    assert {HOSTILE, "Done"} == set(names)
    assert {entry.stage for entry in host.entries(kind)} == {HOSTILE, "Done", None}


@kinds
def test_shellcheck_has_nothing_to_say(kind: str, tmp_path: Path) -> None:
    for number, piece in enumerate(shell_of(kind, snippet_of(kind))):
        path = tmp_path / f"{number}.sh"
        path.write_text(piece)
        shell = "bash" if kind == "bash" else "sh"
        # ERR and DEBUG are bash's alone, and so guarded; what a sourced file has is not asked for.
        done = subprocess.run(
            [SHELLCHECK, f"--shell={shell}", "--exclude=SC3047,SC1090", path],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout == ""


def test_a_kickstart_has_whole_sections() -> None:
    lines = snippet_of("kickstart").splitlines()
    marks = [line.split()[0] for line in lines if line.startswith("%")]
    assert marks == ["%pre", "%end", "%post", "%end", "%onerror", "%end"]


def test_a_kickstart_is_one_to_its_parser(tmp_path: Path) -> None:
    parser = pytest.importorskip("pykickstart.parser")
    version = pytest.importorskip("pykickstart.version")
    path = tmp_path / "host.ks"
    path.write_text(snippet_of("kickstart", "--step", HOSTILE, "--step", "Done"))
    kickstart = parser.KickstartParser(version.makeVersion("RHEL9"))
    kickstart.readKickstart(str(path))
    assert len(kickstart.handler.scripts) == 3


def test_a_preseed_has_one_line_for_each_command() -> None:
    early, late = snippet_of("preseed", "--step", HOSTILE, "--step", "b").splitlines()
    assert early.startswith("d-i preseed/early_command string ")
    assert late.startswith("d-i preseed/late_command string ")
    assert "/target/var/log/openshift" in late
    assert not any(line.endswith("\\") for line in (early, late))


@pytest.mark.parametrize("kind", ["autoinstall", "cloud-init"])
def test_a_document_for_cloud_init_says_so_first(kind: str) -> None:
    text = snippet_of(kind, "--step", HOSTILE)
    assert text.startswith("#cloud-config\n")
    document = yaml.safe_load(text)
    if kind == "autoinstall":
        assert document["autoinstall"]["version"] == 1
        assert "/target/var/log/openshift" in document["autoinstall"]["late-commands"][0]
    else:
        assert document["write_files"][0]["permissions"] == "0644"


@kinds
def test_a_template_of_erb_has_what_foreman_knows_whatever_quotes_are_in_it(
    kind: str, tmp_path: Path
) -> None:
    if shutil.which("ruby") is None:
        pytest.skip("no ruby")
    template = snippet_of(
        kind, "--erb", "--token-parameter", "step_token", "--step", HOSTILE, "--step", "Done"
    )
    program = (
        "require 'erb'\nHost = Struct.new(:name)\n@host = Host.new(ENV['NAME'])\n"
        "def host_param(name) = {'service_record_url' => ENV['URL'], 'step_token' => ENV['TOKEN']}[name]\n"
        "print ERB.new(STDIN.read, trim_mode: '-').result(binding)\n"
    )
    host = Installer(tmp_path, "dash")
    with step_collector() as collector:
        token = "it's.secret"
        rendered = subprocess.run(
            ["ruby", "-e", program],
            input=template,
            env={**os.environ, "NAME": HOSTILE, "URL": collector.url, "TOKEN": token, "LANG": "C.UTF-8"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for piece in shell_of(kind, rendered):
            done = host.run(piece, "-eu")
            assert (done.returncode, done.stderr) == (0, "")
    assert {report.authorization for report in collector.reported} == {f"Bearer {token}"}
    assert len({report.path for report in collector.reported}) == 1
    assert {report.fields["name"] for report in collector.reported} == {HOSTILE, "Done"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["kickstart", "--step", "a\nb"], "no template takes"),
        (["kickstart", "--host", "a\x1b"], "no template takes"),
        (["kickstart", "--host", "my host"], "would be refused by the collector"),
        (["kickstart", "--token-parameter", "a"], "is of ERB"),
        (["kickstart", "--erb", "--token-parameter", "a') + `b`"], "no name of a parameter"),
        (["kickstart", "--url", "ftp://a"], "no URL"),
        (["kickstart", "--url", "tftp://a"], "http or https"),
        (["kickstart", "--url", "https://a:b@c"], "password"),
        (["kickstart", "--max-time", "0"], "--max-time"),
        (["yast"], "yast"),
    ],
)
def test_what_no_template_can_take_is_refused(arguments: list[str], said: str) -> None:
    result = printed(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in " ".join(result.stderr.split())


@kinds
def test_nothing_of_ours_is_taken_for_erb(kind: str) -> None:
    assert "<%" not in snippet_of(kind)
    assert "<%%= e %>" in snippet_of(kind, "--erb", "--step", HOSTILE)


def test_the_same_shell_on_one_line_is_the_same() -> None:
    line = one_line(part_of("steps.sh"))
    assert "\n" not in line
    assert subprocess.run(["sh", "-n", "-c", line], check=False).returncode == 0


@kinds
def test_each_kind_has_steps_of_its_own(kind: str) -> None:
    text = snippet_of(kind)
    assert all(step in text for step in STEPS[kind])
