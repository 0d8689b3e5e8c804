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
from service_record.deploy.snippets import BOOTED, STEPS, one_line, read_part
from service_record.record.directory import Records
from service_record.record.entry import Entry, Malformed
from tests.programs import REPOSITORY
from tests.running_server import get_refused_url
from tests.step_collector import serve_endless_body, serve_step_collector, serve_without_response
from tests.waiting import wait_for

SHELLS = {"bash": ["bash"], "bash-posix": ["bash", "--posix"], "dash": ["dash"], "busybox": ["busybox", "sh"]}
CLIENTS = ("curl", "wget", "busybox")
TOOLS = ("date", "tr", "tail", "sleep", "mkdir", "cat")
HOSTILE = """a 'b' "c" $(touch /tmp/x) `d` \\n <%= e %> & f=g;h # ü€𝄞"""

SHELLCHECK = Path(sys.executable).with_name("shellcheck")
shells = pytest.mark.parametrize("shell", SHELLS)
clients = pytest.mark.parametrize("client", CLIENTS)
kinds = pytest.mark.parametrize("kind", STEPS)
first_boots = pytest.mark.parametrize("kind", ["kickstart", "preseed"])


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
def test_step_names_may_have_any_character(shell: str, client: str, tmp_path: Path) -> None:
    host = Installer(tmp_path, shell, client)
    with serve_step_collector() as collector:
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
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", first["time"])
    steps = [(str(entry.phase), entry.stage, entry.result) for entry in host.entries()]
    assert [(phase, stage, result and str(result)) for phase, stage, result in steps] == [
        ("service start", None, None),
        ("stage start", HOSTILE, None),
        ("stage end", HOSTILE, "failure"),
        ("service end", None, "failure"),
    ]
    assert host.entries()[2].error_message == HOSTILE


@shells
def test_one_process_sends_last_lines_per_step(shell: str, tmp_path: Path) -> None:
    host, log = Installer(tmp_path, shell), tmp_path / "log"
    log.write_text("at work\n")
    named = host.records.directory / ".bash.open"
    with serve_step_collector() as collector:
        settings = "service_record_log_pause=30; service_record_log_stays=yes\n"
        script = f"{functions('--url', collector.url, '--host', 'web1', '--log', log)}\n{settings}"
        senders = []
        for step in ("one", "two"):
            begun = time.monotonic()
            done = host.run(f"{script}service_record_step {step} init; echo on", "-eu")
            assert (done.returncode, done.stdout, done.stderr) == (0, "on\n", "")
            assert time.monotonic() - begun < 20  # the sender does not keep the terminal
            senders.append(int(named.read_text().split()[1]))
        assert is_running(senders[1])
        wait_for(lambda: not is_running(senders[0]))
        host.run(f"{script}service_record_end", "-eu")
        assert is_running(senders[1])  # the step goes on in a later script
        host.run(f"{script}service_record_step two failed", "-eu")
        wait_for(lambda: not is_running(senders[1]))
    assert not named.exists() or not named.read_text()  # there is no `rm`
    assert {report.path for report in collector.reported} == {"/api/v1/hosts/web1/steps"}


@pytest.mark.parametrize("kind", ["kickstart", "preseed", "autoinstall"])
def test_log_is_live_across_the_reboot(kind: str) -> None:
    text = snippet_of(kind, "--url", get_refused_url(), "--log", "/tmp/a log")
    early, _, late = text.partition("'Packages are installed' init")

    assert "service_record_log_stays=yes" in early.rpartition("'Installation begins' init")[0]
    assert "'Packages are installed' " in late
    assert "late" not in early.replace("late-commands", "").rpartition("\n")[2]
    assert early.count("%pre") <= 1
    assert "%post" not in early


def test_sender_of_last_lines_ends_with_its_script(tmp_path: Path) -> None:
    host, log = Installer(tmp_path, "dash"), tmp_path / "log"
    log.write_text("at work\n")
    with serve_step_collector() as collector:
        script = f"{functions('--url', collector.url, '--log', log)}\nservice_record_log_pause=1\n"
        named = 'read -r watch sender <"$SERVICE_RECORDS_DIR/.bash.open"; echo "$sender"'
        done = host.run(f"{script}service_record_step one init; {named}; service_record_end", "-eu")
        wait_for(lambda: not is_running(int(done.stdout)))
        killed = host.run(f"{script}service_record_step one init; {named}", "-eu")
        wait_for(lambda: not is_running(int(killed.stdout)))


def is_running(process: int) -> bool:
    """Return whether a process runs, and is not a zombie that nobody waits for here."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize(
    ("url", "spelled"),
    [
        ("https://c.example.com/base", "https://c.example.com/base"),
        ("https://[2001:db8::1]:8474/", "https://[2001:db8::1]:8474"),
        ("https://c.example.com/${hostname}/<%=x%>", "https://c.example.com/%24%7Bhostname%7D/%3C%%3Dx%%3E"),
        ("https://c.example.com/a'b\"c\\d&&e%20f", "https://c.example.com/a%27b%22c%5Cd%26%26e%20f"),
    ],
)
def test_ipxe_accepts_the_address(url: str, spelled: str) -> None:
    assert snippet_of("ipxe", "--url", url).split()[3] == f"{spelled}/api/v1/boot/${{service-record-token}}"


@shells
def test_first_step_names_vendor_and_model(shell: str, tmp_path: Path) -> None:
    host = Installer(tmp_path, shell)
    facts = tmp_path / "sys/class/dmi/id"
    facts.mkdir(parents=True)
    (facts / "sys_vendor").write_text("Dell Inc.\n")
    (facts / "product_name").write_text("PowerEdge R640\n")
    with serve_step_collector() as collector:
        steps = f"SERVICE_RECORD_ROOT={tmp_path}; service_record_step one init; service_record_step two init"
        host.run(f"{functions('--url', collector.url)}\n{steps}", "-eu")

    hardware = [report.fields.get("hardware") for report in collector.reported]
    assert hardware == ["Dell Inc. PowerEdge R640", None]


@shells
@clients
@pytest.mark.parametrize("server", ["black hole", "trickle"])
def test_silent_server_costs_only_seconds(shell: str, client: str, server: str, tmp_path: Path) -> None:
    host = Installer(tmp_path, shell, client)
    with serve_without_response() if server == "black hole" else serve_endless_body() as url:
        script = functions("--url", url, "--max-time", 1)
        begun = time.monotonic()
        done = host.run(f"{script}\nservice_record_step one init\necho on", "-eu")
    assert (done.returncode, done.stdout, done.stderr) == (0, "on\n", "")
    assert time.monotonic() - begun < 60  # and not for ever; the machine may be busy
    assert len(host.entries()) == 2


@shells
@clients
def test_absent_or_refusing_server_fails_nothing(shell: str, client: str, tmp_path: Path) -> None:
    host = Installer(tmp_path, shell, client)
    with serve_step_collector(500) as collector:
        for url in (get_refused_url(), collector.url):
            done = host.run(f"{functions('--url', url)}\nservice_record_step one done\necho on", "-eu")
            assert (done.returncode, done.stdout, done.stderr) == (0, "on\n", "")
    assert len(collector.reported) == 1


@shells
def test_timeout_shortens_later_attempts(shell: str, tmp_path: Path) -> None:
    host = Installer(tmp_path, shell)
    script = functions("--url", get_refused_url(), "--max-time", 7)
    patience = 'echo "$service_record_patience"'
    with serve_step_collector() as collector:
        done = host.run(
            f"{script}\n{patience}\nservice_record_step one init; {patience}\n"
            f"service_record_url() {{ echo {collector.url}; }}\nservice_record_step one done; {patience}"
        )
    assert done.stdout.split() == ["7", "2", "7"]


@shells
@clients
def test_refused_reports_arrive_later_in_order(shell: str, client: str, tmp_path: Path) -> None:
    host = Installer(tmp_path, shell, client)
    with serve_step_collector(first=[503, 429, 503]) as collector:
        steps = "; ".join(f"service_record_step {name} init" for name in ("one", "two", "three"))
        done = host.run(f"{functions('--url', collector.url)}\n{steps}\necho on", "-eu")
        wait_for(lambda: len({report.key for report in collector.reported if report.status == 201}) == 3)

    assert (done.returncode, done.stdout, done.stderr) == (0, "on\n", "")
    accepted = [report for report in collector.reported if report.status == 201]
    by_key = {report.key: report.fields["name"] for report in accepted}
    assert list(by_key.values()) == ["one", "two", "three"]
    assert all(by_key[report.key] == report.fields["name"] for report in collector.reported)


@pytest.mark.parametrize("client", ["curl", "wget"])
def test_rejected_report_blocks_no_other(client: str, tmp_path: Path) -> None:
    host = Installer(tmp_path, "dash", client)
    with serve_step_collector(first=[422]) as collector:
        script = f"{functions('--url', collector.url)}\nservice_record_background=0\n"
        host.run(f"{script}service_record_step one init; service_record_step two init", "-eu")

    assert [report.fields["name"] for report in collector.reported] == ["one", "two"]


@pytest.mark.parametrize("client", ["curl", "wget"])
def test_steps_send_nothing_before_retry_after(client: str, tmp_path: Path) -> None:
    host = Installer(tmp_path, "dash", client)
    with serve_step_collector(first=[429], retry_after=250) as collector:
        script = f"{functions('--url', collector.url)}\nservice_record_background=0\n"
        host.run(f"{script}service_record_step one init; service_record_step two init", "-eu")
        assert [report.fields["name"] for report in collector.reported] == ["one"]
        (wait,) = host.records.directory.glob(".*.reports.wait")
        wait.write_text("0\n")  # the time has passed
        host.run(f"{script}service_record_step three init", "-eu")

    assert [report.fields["name"] for report in collector.reported[1:]] == ["one", "two", "three"]


def test_next_script_sends_pending_reports(tmp_path: Path) -> None:
    host = Installer(tmp_path, "dash")
    script = "service_record_background=0; service_record_step"
    host.run(f"{functions('--url', get_refused_url())}\n{script} one init", "-eu")
    with serve_step_collector() as collector:
        host.run(f"{functions('--url', collector.url)}\n{script} two init", "-eu")

    assert [report.fields["name"] for report in collector.reported] == ["one", "two"]


@shells
@pytest.mark.parametrize("client", ["curl", "none"])
def test_missing_programs_fail_nothing(shell: str, client: str, tmp_path: Path) -> None:
    host = Installer(tmp_path, shell)
    for tool in TOOLS if client == "none" else ():
        (host.programs / tool).unlink()
    (host.programs / "curl").unlink()
    done = host.run(f"{functions('--url', get_refused_url())}\nservice_record_step one init\necho on", "-eu")
    assert (done.returncode, done.stdout, done.stderr) == (0, "on\n", "")


@pytest.mark.parametrize("shell", ["bash", "bash-posix"])
def test_template_keeps_its_options_and_traps(shell: str, tmp_path: Path) -> None:
    host = Installer(tmp_path, shell)
    done = host.run(
        "set -eEuCo pipefail; IFS=x; shopt -s nocasematch\n"
        "trap 'echo ERR' ERR; trap 'echo EXIT' EXIT\n"
        f"{functions('--url', get_refused_url())}\n"
        'before=$(set +o; shopt; trap; printf %q "$IFS")\n'
        "service_record_step one init\nservice_record_step\n"
        '[[ $(set +o; shopt; trap; printf %q "$IFS") == "$before" ]] && echo same'
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "same\nEXIT\n", "")


@shells
def test_xtrace_of_template_shows_no_token(shell: str, tmp_path: Path) -> None:
    host = Installer(tmp_path, shell)
    with serve_step_collector() as collector:
        script = functions("--url", collector.url, "--token-file", host.token)
        done = host.run(f"set -x\n{script}\nservice_record_step one init")
    assert collector.reported[0].authorization == "Bearer secret.token"
    assert "secret" not in done.stderr


def test_token_is_not_on_curl_command_line(tmp_path: Path) -> None:
    host = Installer(tmp_path, "dash")
    (host.programs / "curl").unlink()
    (host.programs / "curl").write_text(f'#!/bin/sh\nprintf "%s\\n" "$*" >{tmp_path}/arguments\n')
    (host.programs / "curl").chmod(0o755)
    host.run(
        f"{functions('--url', get_refused_url(), '--token-file', host.token)}\nservice_record_step one init"
    )
    arguments = (tmp_path / "arguments").read_text()
    assert "name=one" in arguments
    assert "secret" not in arguments


@shells
def test_long_logs_keep_their_end(shell: str, tmp_path: Path) -> None:
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


def test_foreign_array_and_torn_line_are_kept(tmp_path: Path) -> None:
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


def test_installed_shim_records_the_steps(tmp_path: Path) -> None:
    host = Installer(tmp_path, "bash")
    shim = REPOSITORY / "shell/bootstrap-service-record.sh"
    done = host.run(
        f"SERVICE_RECORD_SHIM={shim}\n{functions()}\nservice_record_step one init\n"
        "service_record_step one done\nservice_record_step two init\nfalse_command_of_nobody",
        "-eu",
    )
    assert done.returncode == 127
    steps = [(str(entry.phase), entry.stage) for entry in host.entries()]
    assert steps == [
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
    with serve_step_collector() as collector:
        steps = [word for step in (HOSTILE, "Done") for word in ("--step", step)]
        text = snippet_of(kind, "--url", collector.url, "--host", "web1", *steps)
        for piece in shell_of(kind, text):
            done = host.run(piece, "-eu")
            assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    names = [report.fields["name"] for report in collector.reported]
    known = {HOSTILE, "Done", *(["Partitioning"] if kind == "preseed" else [])}
    assert set(names) == known
    assert {entry.stage for entry in host.entries(kind)} == {*known, None}
    percentages = [report.fields.get("percentage") for report in collector.reported]
    assert percentages.count("100") == 1, "only the last step completes the build"


@kinds
def test_shellcheck_passes(kind: str, tmp_path: Path) -> None:
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


def test_kickstart_sections_are_complete() -> None:
    lines = snippet_of("kickstart").splitlines()
    marks = [line.split()[0] for line in lines if line.startswith("%")]
    assert marks == ["%pre", "%end", "%post", "%end", "%onerror", "%end"]


def test_pykickstart_accepts_kickstart(tmp_path: Path) -> None:
    parser = pytest.importorskip("pykickstart.parser")
    version = pytest.importorskip("pykickstart.version")
    path = tmp_path / "host.ks"
    path.write_text(snippet_of("kickstart", "--step", HOSTILE, "--step", "Done"))
    kickstart = parser.KickstartParser(version.makeVersion("RHEL9"))
    kickstart.readKickstart(str(path))
    assert len(kickstart.handler.scripts) == 3


def test_a_preseed_has_one_line_for_each_command() -> None:
    early, partman, late = snippet_of("preseed", "--step", HOSTILE, "--step", "b").splitlines()
    assert early.startswith("d-i preseed/early_command string ")
    assert partman.startswith("d-i partman/early_command string ")
    assert late.startswith("d-i preseed/late_command string ")
    assert "/target/var/log/openshift" in late
    assert not any(line.endswith("\\") for line in (early, partman, late))


def test_partitioning_step_spans_the_partitioner(
    tmp_path: Path,
) -> None:
    host = Installer(tmp_path, "busybox")
    with serve_step_collector() as collector:
        for piece in shell_of("preseed", snippet_of("preseed", "--url", collector.url)):
            assert host.run(piece, "-eu").returncode == 0
    steps = [(report.fields["name"], report.fields["status"]) for report in collector.reported]
    assert steps == [
        ("Installation begins", "init"),
        ("Installation begins", "done"),
        ("Partitioning", "init"),
        ("Partitioning", "done"),
        ("Packages are installed", "init"),
        ("Packages are installed", "done"),
    ]


@pytest.mark.parametrize("kind", ["autoinstall", "cloud-init"])
def test_cloud_init_document_has_its_header(kind: str) -> None:
    text = snippet_of(kind, "--step", HOSTILE)
    assert text.startswith("#cloud-config\n")
    document = yaml.safe_load(text)
    if kind == "autoinstall":
        assert document["autoinstall"]["version"] == 1
        assert "/target/var/log/openshift" in document["autoinstall"]["late-commands"][0]
    else:
        assert document["write_files"][0]["permissions"] == "0644"


@kinds
def test_erb_template_quotes_foreman_values(kind: str, tmp_path: Path) -> None:
    template = snippet_of(
        kind, "--erb", "--token-parameter", "step_token", "--step", HOSTILE, "--step", "Done"
    )
    host = Installer(tmp_path, "dash")
    with serve_step_collector() as collector:
        token = "it's.secret"
        rendered = rendered_by_ruby(template, url=collector.url, token=token)
        for piece in shell_of(kind, rendered):
            done = host.run(piece, "-eu")
            assert (done.returncode, done.stderr) == (0, "")
    assert {report.authorization for report in collector.reported} == {f"Bearer {token}"}
    assert len({report.path for report in collector.reported}) == 1
    assert {report.fields["name"] for report in collector.reported} - {"Partitioning"} == {HOSTILE, "Done"}


def rendered_by_ruby(template: str, *, url: str, token: str, macro: str = "") -> str:
    """Return what ERB makes of a template, with what Foreman has there; `macro` is service_record_steps."""
    if shutil.which("ruby") is None:
        pytest.skip("no ruby; apt-get install ruby, or it cannot be had here")
    # As Foreman's `snippet`: a rendering of its own, in which the variables are instance variables.
    program = """
        require 'erb'
        Host = Struct.new(:name)
        class Scope
          def initialize(variables)
            @host = Host.new(ENV['NAME'])
            variables.each { |name, value| instance_variable_set("@#{name}", value) }
          end
          def host_param(name) = {'service_record_url' => ENV['URL'], 'step_token' => ENV['TOKEN']}[name]
          def snippet(name, variables: {})
            raise name unless name == 'service_record_steps'
            Scope.new(variables).render(ENV['MACRO'])
          end
          def render(text) = ERB.new(text, trim_mode: '-').result(binding)
        end
        print Scope.new({}).render(STDIN.read)
    """
    given = {"NAME": HOSTILE, "URL": url, "TOKEN": token, "MACRO": macro, "LANG": "C.UTF-8"}
    done = subprocess.run(
        ["ruby", "-e", program],
        input=template,
        env={**os.environ, **given},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@shells
def test_foreman_template_calls_macro_once(shell: str, tmp_path: Path) -> None:
    macro = snippet_of("foreman", "--token-parameter", "step_token")
    assert re.match(r"<%#\nkind: snippet\nname: service_record_steps\n", macro)
    template = (
        "%post\n<%= snippet 'service_record_steps', variables: { service: %q(it's), directory: 'x' } %>\n"
        "service_record_step 'Disk setup' init 10\nservice_record_step 'Disk setup' \"done\" 40\n"
        "service_record_end\n%end\n"
    )
    host = Installer(tmp_path, shell)
    with serve_step_collector() as collector:
        rendered = rendered_by_ruby(template, url=collector.url, token="it's.secret", macro=macro)
        assert rendered.count("service_record_now() {") == 1
        assert "<%" not in rendered.replace("<%= e %>", "")
        done = host.run(rendered.removeprefix("%post\n").removesuffix("%end\n"), "-eu")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    steps = [(report.fields["name"], report.fields["status"]) for report in collector.reported]
    assert steps == [("Disk setup", "init"), ("Disk setup", "done")]
    assert {report.authorization for report in collector.reported} == {"Bearer it's.secret"}
    assert len(host.entries("it's")) == 4


def test_preseed_macro_is_one_line(tmp_path: Path) -> None:
    macro = snippet_of("foreman", "--token-parameter", "step_token")
    template = (
        "d-i preseed/late_command string "
        "<%= snippet 'service_record_steps', variables: { one_line: true } %>; "
        "service_record_step 'Late' \"done\"; service_record_end\n"
    )
    host = Installer(tmp_path, "busybox")
    with serve_step_collector() as collector:
        rendered = rendered_by_ruby(template, url=collector.url, token="t", macro=macro)
        (piece,) = shell_of("preseed", rendered)
        assert host.run(piece, "-eu").returncode == 0
    assert [report.fields["name"] for report in collector.reported] == ["Late"]
    assert len(host.entries("provisioning")) == 3


UNIT = "etc/systemd/system/service-record-first-boot.service"
WANTS = "etc/systemd/system/multi-user.target.wants/service-record-first-boot.service"
LEFT = "var/lib/service-record/first-boot"


class Installed:
    """A new system as the installer leaves it, with the unit for its first boot."""

    def __init__(self, kind: str, host: Installer, *arguments: object) -> None:
        self.host = host
        self.root = host.directory / "root"
        self.pauses = host.directory / "pauses"
        # Twenty seconds are over at once, and counted; what else sleeps does.
        (host.programs / "sleep").unlink()
        (host.programs / "sleep").write_text(
            f'#!/bin/sh\n[ "$1" = 20 ] || exec /bin/sleep "$1"\necho >>{self.pauses}\n'
            f"[ ! -e {host.directory}/mended ] || cp {host.directory}/mended {self.root}/{LEFT}/url\n"
        )
        (host.programs / "sleep").chmod(0o755)
        for program in ("cp", "ln", "rm", "sh"):
            host.has(program, program)
        text = snippet_of(kind, "--first-boot", "--token-file", host.token, *arguments)
        pieces = shell_of(kind, text)
        done = host.run(f"SERVICE_RECORD_ROOT={self.root}\n{pieces[1 if kind == 'kickstart' else 2]}", "-eu")
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

    def boot(self) -> None:
        done = self.host.run(f"export SERVICE_RECORD_ROOT={self.root}; sh {self.root / LEFT / 'run.sh'}")
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

    def is_clean(self) -> bool:
        return not any(os.path.lexists(self.root / path) for path in (UNIT, WANTS, LEFT))


@first_boots
@shells
def test_first_boot_is_reported_once_and_cleaned_up(kind: str, shell: str, tmp_path: Path) -> None:
    host = Installer(tmp_path, shell)
    with serve_step_collector() as collector:
        system = Installed(kind, host, "--url", collector.url, "--host", "web1")
        assert (system.root / WANTS).resolve() == system.root / UNIT
        assert "Type=oneshot" in (system.root / UNIT).read_text()
        for name in ("token", "run.sh"):
            assert (system.root / LEFT / name).stat().st_mode & 0o077 == 0
        of_installer = len(collector.reported)
        assert "100" not in {report.fields.get("percentage") for report in collector.reported}
        host.token.unlink()
        system.boot()
    (report,) = collector.reported[of_installer:]
    assert (report.path, report.authorization) == ("/api/v1/hosts/web1/steps", "Bearer secret.token")
    assert (report.fields["name"], report.fields["status"]) == (BOOTED, "done")
    assert report.fields["percentage"] == "100"
    assert system.is_clean()
    assert not system.pauses.exists()
    phases = [str(entry.phase) for entry in host.entries("first-boot")]
    assert phases == ["service start", "stage end", "service end"]


@first_boots
def test_first_boot_gives_up_without_collector(kind: str, tmp_path: Path) -> None:
    system = Installed(kind, Installer(tmp_path, "dash"), "--url", get_refused_url())
    system.boot()
    assert system.pauses.read_text().count("\n") == 29
    assert system.is_clean()
    assert len(system.host.entries("first-boot")) == 3, "it is recorded once"


def test_first_boot_is_reported_after_outage(tmp_path: Path) -> None:
    host = Installer(tmp_path, "busybox")
    system = Installed("kickstart", host, "--url", get_refused_url())
    with serve_step_collector() as collector:
        (tmp_path / "mended").write_text(collector.url)
        system.boot()
    assert [report.fields["name"] for report in collector.reported] == [BOOTED]
    assert system.pauses.read_text().count("\n") == 1
    assert system.is_clean()


def test_ipxe_script_continues_without_collector() -> None:
    line = snippet_of("ipxe", "--url", "https://collector.example.com/")
    address = "https://collector.example.com/api/v1/boot/${service-record-token}"
    assert line == f"imgfetch --name service-record {address} && imgfree service-record ||\n"
    with_erb = snippet_of("ipxe", "--erb", "--token-parameter", "step_token")
    rendered = rendered_by_ruby(with_erb, url="http://c:8474", token="srt_1_x")
    assert rendered == line.replace(address, "http://c:8474/api/v1/boot/srt_1_x")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bash", "--first-boot"], "only for kickstart and preseed"),
        (["ipxe"], "no default for the collector"),
        (["ipxe", "--url", "http://a", "--step", "b"], "has no steps of its own"),
        (["foreman", "--step", "b"], "has no steps of its own"),
        (["kickstart", "--step", "a\nb"], "no template takes"),
        (["kickstart", "--host", "a\x1b"], "no template takes"),
        (["kickstart", "--host", "my host"], "would be refused by the collector"),
        (["kickstart", "--token-parameter", "a"], "is for ERB only"),
        (["kickstart", "--erb", "--token-parameter", "a') + `b`"], "not the name of a parameter"),
        (["kickstart", "--url", "tftp://a"], "use http://HOST or https://HOST"),
        (["kickstart", "--url", "https://a:b@c"], "password"),
        (["kickstart", "--max-time", "0"], "--max-time"),
        (["yast"], "yast"),
    ],
)
def test_unquotable_values_are_refused(arguments: list[str], message: str) -> None:
    result = printed(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in " ".join(result.stderr.split())


@kinds
def test_shell_code_has_no_erb_tags(kind: str) -> None:
    assert "<%" not in snippet_of(kind)
    assert "<%%= e %>" in snippet_of(kind, "--erb", "--step", HOSTILE)


def test_one_line_shell_behaves_the_same() -> None:
    line = one_line(read_part("steps.sh"))
    assert "\n" not in line
    assert subprocess.run(["sh", "-n", "-c", line], check=False).returncode == 0


@kinds
def test_each_kind_has_own_steps(kind: str) -> None:
    text = snippet_of(kind)
    assert all(step in text for step in STEPS[kind])
