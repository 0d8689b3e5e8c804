"""Tests of the command line as a whole: its verbs, help, errors and exit codes."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import click
import pytest

from service_record.cli import VERBS, main
from service_record.version import __version__
from tests.builders import entry, failed_run, require, write_lines
from tests.command_line import PROGRAM, environment, service_record
from tests.faults import Faults


def test_help_lists_the_verbs_without_importing_any() -> None:
    code = "import sys; from service_record.cli import main; main(['--help'], standalone_mode=False);"
    code += "print([name for name in sys.modules if name.startswith('service_record.cli')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *listing, modules = done.stdout.splitlines()
    for verb, summary in VERBS.items():
        assert any(line.split() == [verb, *summary.split()] for line in listing)
    assert modules == "['service_record.cli']"


def list_commands(command: click.Command, *path: str) -> Iterator[tuple[str, ...]]:
    """Yield the names of a command and of all commands below it."""
    yield path
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            yield from list_commands(require(command.get_command(context, name)), *path, name)


def test_help_fits_a_terminal_of_80_columns() -> None:
    with Faults() as faults:
        for path in list_commands(main):
            page = service_record(*path, "--help", COLUMNS="80").out
            with faults.case(" ".join(path)):
                assert [line for line in page.splitlines() if len(line) > 80] == []


def test_gc_runs_in_verbs_but_not_at_exit() -> None:
    code = (
        "import atexit, gc, sys; from service_record import cli; import click;"
        "atexit.register(lambda: print(gc.get_freeze_count() > 1000));"
        "cli.main.get_command(click.Context(cli.main), 'collector'); print(gc.isenabled());"
        "cli.main(['--version'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[::2] == ["True", "True"]


_WITH_BUSY_THREADS = """
import ssl, sys, threading
from service_record.cli import main

def use_openssl():
    while True:
        ssl.create_default_context()

for _ in range(3):
    threading.Thread(target=use_openssl, daemon=True).start()
sys.argv = ["service-record", "--version"]
main()
"""


@pytest.mark.slow
def test_abandoned_threads_do_not_crash_the_end() -> None:
    command = [sys.executable, "-c", _WITH_BUSY_THREADS]
    for _ in range(20):  # one of six crashed
        answer = subprocess.run(command, capture_output=True, check=False, text=True, env=environment())
        assert (answer.returncode, answer.stderr) == (0, "")
        assert __version__ in answer.stdout


@pytest.mark.parametrize("verb", VERBS)
def test_help_begins_with_summary_of_verb(verb: str) -> None:
    command = import_module(f"service_record.cli.{verb}").command
    assert isinstance(command, click.Command)
    assert (command.name, (command.help or "").splitlines()[0]) == (verb, VERBS[verb])
    assert verb in service_record(verb, "--help").out


def test_version_option() -> None:
    assert service_record("--version").out == f"service-record, version {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["shwo"], "Did you mean 'show'?"),
        (["show", "--otput"], "--output"),
        (["show", "--output", "xml"], "'xml' is not one of"),
        (["show", "--since", "later"], "'later' is not a valid time; use"),
        (["show", "--since", "@99999999999999999"], "'@99999999999999999' is not a valid time; use"),
    ],
    ids=["verb", "option", "choice", "time", "huge time"],
)
def test_typo_is_a_usage_error_with_suggestion(arguments: list[str], expected: str) -> None:
    answer = service_record(*arguments)
    assert (answer.status, answer.out) == (2, "")
    assert expected in answer.err


@pytest.mark.parametrize("arguments", [["shwo"], ["ship"], ["ignition"], ["show", "--otput"], ["triage"]])
def test_usage_error_has_two_lines(arguments: list[str]) -> None:
    answer = service_record(*arguments)
    assert answer.status == 2
    advice, error = answer.err.splitlines()
    assert error.startswith("Error: ")
    assert advice.startswith("Try: service-record")


@pytest.mark.parametrize("arguments", [["help"], ["--help"], ["help", "show"]])
def test_help_has_several_spellings(arguments: list[str]) -> None:
    answer = service_record(*arguments)
    assert (answer.status, answer.err) == (0, "")
    assert answer.out.startswith("Usage: service-record")


@pytest.mark.parametrize("arguments", ["--help", "show --help", "show --from ."])
def test_full_standard_output_gives_one_error_line(tmp_path: Path, arguments: str) -> None:
    write_lines(tmp_path / "job.json", entry())
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*PROGRAM, *arguments.split()],
            cwd=tmp_path,
            env={**environment(), "PYTHONUNBUFFERED": ""},  # output stays in the buffer until the exit
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.stderr == "Error: the output could not be written: No space left on device\n"
    assert done.returncode == 3


def test_unreadable_record_gives_one_error_line(tmp_path: Path) -> None:
    write_lines(tmp_path / "job.json", entry())
    answer = service_record("show", "--from", tmp_path / "job.json" / "deeper")
    assert answer.status == 3
    advice = "give a directory of records, a bundle or a collector's URL"
    assert answer.err == f"Error: {tmp_path}/job.json/deeper: Not a directory; {advice}\n"


@pytest.mark.parametrize("output", ["table", "jsonl"])
def test_closed_pipe_is_not_an_error(tmp_path: Path, output: str) -> None:
    write_lines(tmp_path / "job.json", *[entry(error_message="x" * 3000)] * 100)
    show = f"{sys.executable} -c '{PROGRAM[2].replace(chr(39), chr(34))}' show -o {output} --from {tmp_path}"
    script = f"{show} | exec 0<&-; printf '%s' ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, env=environment(), check=True
    )
    assert (done.stdout, done.stderr) == ("141", "")


def test_interrupt_exits_130_without_traceback() -> None:
    with subprocess.Popen(
        [*PROGRAM, "show", "--from", "-"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(PYTHONVERBOSE=""),
    ) as show:
        assert show.stdin is not None
        assert show.stderr is not None
        # More than a pipe holds, so when this returns, the program has started to read.
        show.stdin.write((entry().to_line() + b"\n") * 1000)
        show.stdin.flush()
        show.send_signal(signal.SIGINT)
        _, errors = show.communicate()
    assert (show.returncode, errors) == (130, b"")


def test_without_verb_the_verdict_is_shown_in_brief(tmp_path: Path) -> None:
    write_lines(tmp_path / "job.json", *failed_run())
    answer = service_record(SERVICE_RECORDS_DIR=str(tmp_path))
    in_full = service_record("analyze", SERVICE_RECORDS_DIR=str(tmp_path))
    lines = answer.out.splitlines()

    assert (answer.status, answer.err) == (1, "")
    assert lines[:2] == in_full.out.splitlines()[:2]
    assert lines[-1].split() == ["service-record", "analyze"]
    assert len(lines) < len(in_full.out.splitlines())


def test_without_verb_and_records_first_commands_are_named(tmp_path: Path) -> None:
    answer = service_record(SERVICE_RECORDS_DIR=str(tmp_path))
    error, advice = answer.err.splitlines()
    assert (answer.status, answer.out) == (3, "")
    assert error.startswith("Error: no records in ")
    assert "service-record doctor" in advice


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["bundle", "--output", "absent/x", "--redact", "/etc/hostname"], "Error: absent/x: No such file"),
        (["ignition", "--role", "master", "--close", "a/b"], "'a/b' is not the name of a service"),
        (["install", "--root", ".", "--close", "absent"], "Warning: there is no absent.service yet"),
        (["preflight", "--disk", "/absent"], "/absent is neither a directory nor a disk"),
        (["analyze", "absent.tar.gz"], "Error: absent.tar.gz: No such file or directory"),
    ],
    ids=["bundle", "ignition", "install", "preflight", "analyze"],
)
def test_message_names_missing_file_or_service(tmp_path: Path, arguments: list[str], expected: str) -> None:
    answer = service_record(*arguments, cwd=tmp_path)
    assert expected in answer.out + answer.err


def test_local_time_in_utc_is_shown_as_utc() -> None:
    in_a_pipe = service_record("show", "example:good", TZ="UTC")
    local = service_record("show", "example:good", "--local", TZ="UTC")

    assert local.out == in_a_pipe.out


NOTHING = "/no/such/place"
MISSING_INPUT = {
    "show": ["--from", NOTHING],
    "analyze": ["--from", NOTHING],
    "timeline": ["--from", NOTHING],
    "diff": [NOTHING, NOTHING],
    "export": ["--to", "array", "--from", NOTHING],
    "validate": [NOTHING],
    "rotate": ["absent"],
    "ship": ["--to", "http://127.0.0.1:1", "--token-file", NOTHING],
    "collector": ["audit", "--data", NOTHING],
    "hosts": ["--from", "collector+http://127.0.0.1:1", "--token-file", "/etc/hostname"],
    "triage": [NOTHING],
}


@pytest.mark.parametrize("verb", MISSING_INPUT)
def test_missing_input_exits_3_as_in_help(verb: str, tmp_path: Path) -> None:
    answer = service_record(verb, *MISSING_INPUT[verb], SERVICE_RECORDS_DIR=str(tmp_path))
    assert (answer.status, answer.err.count("\n")) == (3, 1)
    assert "3 " in exit_codes_of(verb)


@pytest.mark.parametrize("verb", ["doctor", "mcp", "preflight", "report", "run", "snippet"])
def test_help_without_input_has_no_exit_code_3(verb: str) -> None:
    assert " 3 " not in exit_codes_of(verb)


def test_help_has_only_the_exit_codes_of_the_command() -> None:
    assert " 6 " in exit_codes_of("export")  # with --redact
    assert " 1 " not in exit_codes_of("assisted", "undo")
    assert " 1 " in exit_codes_of("assisted", "prepare")


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        ("hosts show", ["host", "--from", "collector+http://127.0.0.1:1", "--token-file", "/etc/hostname"]),
        ("collector audit", ["--data", NOTHING]),
        ("collector backup", ["copy.db", "--data", NOTHING]),
        ("collector prune", ["--data", NOTHING, "--keep-days", "1"]),
        ("collector token list", ["--data", NOTHING]),
        ("collector token revoke", ["--data", NOTHING, "1"]),
    ],
)
def test_subcommand_exits_3_as_in_its_help(command: str, arguments: list[str], tmp_path: Path) -> None:
    answer = service_record(*command.split(), *arguments, cwd=tmp_path)
    assert (answer.status, answer.err.count("\n")) == (3, 1), answer
    assert "3 " in exit_codes_of(*command.split())


@pytest.mark.parametrize("command", ["analyze", "show", "hosts", "hosts show"])
def test_help_of_pages_names_the_refusal_of_secrets(command: str) -> None:
    assert "6 refused" in exit_codes_of(*command.split())


def exit_codes_of(*command: str) -> str:
    """Return the section on exit codes in the help of a command."""
    return " ".join(service_record(*command, "--help").out.partition("Exit code")[2].split())
