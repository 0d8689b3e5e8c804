"""`make man`: pages and completions that say what the command line says, and that troff and shells take."""

import importlib
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import click
import pytest

from packages.manual import COMPLETIONS
from service_record.cli import VERBS
from service_record.record.entry import Entry, Phase
from service_record.version import RELEASED
from tests.builders import entry, failed_run, write_lines
from tests.command_line import PROGRAM, environment
from tests.programs import REPOSITORY, skip_without

PAGES = [
    "man1/service-record.1",
    *(f"man1/service-record-{verb}.1" for verb in VERBS),
    "man1/bootstrap-service-record.sh.1",
    "man1/service-record-exit.sh.1",
    "man5/service-record.5",
]

pages = pytest.mark.parametrize("page", PAGES)


@pytest.fixture(scope="module")
def share(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("share")
    # In a process of its own, as `make` does: click keeps the help option of a command once it has one.
    subprocess.run([sys.executable, "-m", "packages.stage", directory, "--pages"], cwd=REPOSITORY, check=True)
    return directory


def shown(page: Path) -> str:
    """The page as a terminal of 80 columns shows it, in one line."""
    text = subprocess.run(
        ["man", "--local-file", page],
        env=os.environ | {"MANWIDTH": "80", "LC_ALL": "C.UTF-8"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return " ".join(re.sub(".\b", "", text).split())


@pages
def test_troff_has_nothing_to_say_against_a_page(share: Path, page: str) -> None:
    skip_without("man")
    done = subprocess.run(
        ["man", "--warnings", "--encoding=UTF-8", "--local-file", "-Tutf8", "-Z", share / "man" / page],
        env=os.environ | {"MANWIDTH": "80", "MANROFFSEQ": "", "LC_ALL": "C.UTF-8"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        check=True,
    )
    assert done.stderr == b""


@pages
def test_mandoc_has_nothing_to_say_against_a_page(share: Path, page: str) -> None:
    skip_without("mandoc")
    done = subprocess.run(
        ["mandoc", "-T", "lint", "-W", "warning", share / "man" / page], capture_output=True, check=False
    )
    assert (done.stdout, done.stderr) == (b"", b"")


@pytest.mark.parametrize("verb", VERBS)
def test_man_page_has_all_of_help(share: Path, verb: str) -> None:
    skip_without("man")
    command: click.Command = importlib.import_module(f"service_record.cli.{verb}").command
    text = shown(share / "man" / "man1" / f"service-record-{verb}.1")
    options = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
    assert [option.opts for option in options if option.opts[0] not in text] == []
    assert [option.help for option in options if option.help and option.help not in text] == []
    assert " ".join(
        (command.help or "").replace("\b", "").replace("Examples:", "EXAMPLES").split()
    ) in text.replace("DESCRIPTION ", "")


def test_format_page_names_every_field(share: Path) -> None:
    page = (share / "man/man5/service-record.5").read_text()
    fields = entry(
        Phase.STAGE_END, stage="a", pre_command="a", post_command="a", error_line="1 a b", error_message="a"
    )
    known = Entry.from_json(fields.to_json() | {"exitCode": 1, "signal": "TERM", "dropped": 1}).to_json()
    assert [name for name in known if f".TP\n\\fB{name}\\fR\n" not in page] == []
    assert "\n.SH ROTATION\n" in page
    assert page.startswith(".TH SERVICE\\-RECORD 5 ")


def test_man_page_has_the_documented_exit_codes(share: Path) -> None:
    page = (share / "man/man1/service-record.1").read_text()
    codes = re.findall(r"^\| (\d+) \|", (REPOSITORY / "docs/output.md").read_text(), re.MULTILINE)
    assert re.findall(r"^\.TP\n(\d+)$", page, re.MULTILINE) == codes


def test_man_page_has_the_date_of_the_version(share: Path) -> None:
    assert f" 5 {RELEASED} " in (share / "man/man5/service-record.5").read_text()


@pytest.fixture
def records(tmp_path: Path) -> Path:
    directory = tmp_path / "records"
    directory.mkdir()
    write_lines(
        directory / "bootkube.json", *failed_run(), entry(Phase.STAGE_START, 20, stage="needs quotes")
    )
    write_lines(directory / "boot-agent.json", entry(Phase.STAGE_START, stage="select"))
    return directory


def run_with_program(command: list[str], records: Path) -> subprocess.CompletedProcess[str]:
    """Run a command that finds `service-record` on its PATH."""
    program = records.parent / "service-record"
    quoted = PROGRAM[2].replace("'", "'\\''")
    program.write_text(f"#!/bin/sh\nexec {PROGRAM[0]} -c '{quoted}' \"$@\"\n")
    program.chmod(0o755)
    path = f"{program.parent}:{os.environ['PATH']}"
    return subprocess.run(
        command,
        env=environment(PATH=path, SERVICE_RECORDS_DIR=str(records), HOME=str(records.parent)),
        capture_output=True,
        text=True,
        check=True,
    )


def completed_by_bash(share: Path, records: Path, line: str) -> list[str]:
    """Return the words that a bash with our completion offers for the last word of a line."""
    script = """
. "$1"
read -ra COMP_WORDS <<<"$2"
[[ $2 == *' ' ]] && COMP_WORDS+=('')
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
compopt() { :; }  # works only inside a completion that readline began
function=$(complete -p service-record | sed 's/.*-F \\([^ ]*\\).*/\\1/')
"$function" service-record
printf '%s\\n' "${COMPREPLY[@]}"
"""
    done = run_with_program(["bash", "-c", script, "bash", str(share / COMPLETIONS["bash"]), line], records)
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("sh", ["ship", "show"]),
        ("show ", ["boot-agent", "bootkube"]),
        ("follow bootk", ["bootkube"]),
        ("export --to array boot", ["boot-agent", "bootkube"]),
        ("show --stage ", ["second", "select"]),
        ("show bootkube --stage ", ["second"]),
        ("follow --stage sel", ["select"]),
        ("run --service bootk", ["bootkube"]),
        ("export --to ch", ["chrome-trace"]),
    ],
)
def test_bash_completes_verbs_options_services_and_stages(
    share: Path, records: Path, line: str, expected: list[str]
) -> None:
    assert completed_by_bash(share, records, f"service-record {line}") == expected


def test_services_of_the_given_directory_are_completed(share: Path, records: Path) -> None:
    other = records.parent / "other"
    other.mkdir()
    write_lines(other / "elsewhere.json", entry())
    assert completed_by_bash(share, records, f"service-record show --from {other} ") == ["elsewhere"]
    assert completed_by_bash(share, records, f"service-record follow --from {other} els") == ["elsewhere"]
    assert completed_by_bash(share, records, "service-record show --from - ") == []


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_find_no_fault_in_their_completion(share: Path, shell: str) -> None:
    skip_without(shell)
    subprocess.run([shell, "-n", share / COMPLETIONS[shell]], check=True)


def test_fish_completes_services(share: Path, records: Path) -> None:
    skip_without("fish")
    script = f"source {share / COMPLETIONS['fish']}; complete --do-complete 'service-record show boot'"
    done = run_with_program(["fish", "--no-config", "-c", script], records)
    assert sorted(done.stdout.split()) == ["boot-agent", "bootkube"]  # in an order of its own


def test_zsh_completes_services(share: Path, records: Path) -> None:
    """What takes the words runs in its line editor only, so something is in the place of that."""
    skip_without("zsh")
    script = """
compdef() { :; }
compadd() { print -l -- ${(P)@[-1]} }
_describe() { print -l -- ${(P)@[-1]} }
words=(service-record show boot) CURRENT=3
source "$1"
_service_record_completion
"""
    done = run_with_program(
        ["zsh", "--no-rcs", "-c", script, "zsh", str(share / COMPLETIONS["zsh"])], records
    )
    assert done.stdout.split() == ["boot-agent", "bootkube"]


@pytest.mark.slow
def test_install_puts_pages_and_completions_in_place(tmp_path: Path) -> None:
    subprocess.run(
        ["make", "--silent", "install", f"DESTDIR={tmp_path}", "PREFIX=/usr"],
        cwd=REPOSITORY,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    assert (tmp_path / "usr/bin/bootstrap-service-record.sh").exists()
    assert [page for page in PAGES if not (tmp_path / "usr/share/man" / page).exists()] == []
    assert [path for path in COMPLETIONS.values() if not (tmp_path / "usr/share" / path).exists()] == []


@pytest.mark.slow
def test_install_delivers_the_pages_of_the_wheel(share: Path, tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=REPOSITORY, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "installed")
    tmp_path.joinpath("root").mkdir()
    program = "from service_record.cli import main; main()"
    subprocess.run(
        [sys.executable, "-c", program, "install", "--root", tmp_path / "root"],
        env=os.environ | {"PYTHONPATH": str(tmp_path / "installed")},
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )

    delivered = tmp_path / "root/usr/local/share"
    for file in share.rglob("*"):
        if file.is_file():
            assert (delivered / file.relative_to(share)).read_bytes() == file.read_bytes()
