"""The command line: one module for each verb, imported when the verb runs.

Also the error message for a missing extra of the package.
"""

import errno
import gc
import importlib
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import IO, Any, Final

import click

# With its default threshold of 700 objects, the garbage collector goes through the loaded modules and the
# read entries again and again. That takes 30 ms of `analyze`, and a third of the time for a large record.
gc.set_threshold(200_000)

GROUPS: Final = {
    "Read": {
        "show": "Show what services did, failures first.",
        "analyze": "Say what is wrong with a host, and why: the root cause first.",
        "timeline": "Show when services and their stages ran, as bars over each boot.",
        "follow": "Show entries as they come.",
        "diff": "Compare the records of a bad host with those of a good one.",
        "export": "Write records in a form that other programs read.",
        "validate": "Say what is damaged in records, and save what is whole.",
        "mcp": "Answer assistants by the Model Context Protocol (MCP).",
    },
    "Record": {
        "run": "Run CMD as a recorded service or stage, and end as it ends.",
        "rotate": "Shorten records that have grown too long; no failure is lost.",
        "install": "Put the shim, drop-ins and the reporter's units onto a host.",
        "uninstall": "Remove what `install` has put onto a host.",
        "ignition": "Make an Ignition config with the shim and the boot reporter.",
        "initrd": "Make an archive that has an initrd record and report failures.",
        "snippet": "Print shell code that reports the steps of an installation.",
        "doctor": "Check the recorder's set-up on this host, and say what to mend.",
        "preflight": "Check whether host and network are ready for an installation.",
    },
    "Deliver": {
        "bundle": "Gather what explains a host into one file, without its secrets.",
        "report": "Report how far this host came: one round of the boot reporter.",
        "ship": "Send records to a collector, or traces to a backend, as they come.",
        "assisted": "Prepare a cluster's hosts through its assisted-service.",
    },
    "Fleet": {
        "collector": "Receive from many hosts how far they came, and show it.",
        "hosts": "Show the hosts of a collector, those in trouble first.",
        "triage": "Say what is failing in many bundles, how often, and what is new.",
    },
}
"""Group of verbs -> verb -> its summary, which its own help begins with.

`service_record.cli.<verb>` has its `command`.
"""
VERBS: Final = {verb: summary for group in GROUPS.values() for verb, summary in group.items()}
_REFUSAL: Final = "refused: a secret would have left the host"
_NOTHING: Final = "nothing to read there"
_NO_DATA: Final = "its folder or database cannot be used"
_EXIT_CODES: Final[dict[str, dict[int, str]]] = {
    "show": {1: "with --fail a service failed", 3: _NOTHING},
    "analyze": {1: "something is wrong", 3: _NOTHING, 124: "--wait ran out of time"},
    "timeline": {3: _NOTHING},
    "follow": {3: "a record cannot be read"},
    "diff": {1: "something differs", 3: _NOTHING},
    "export": {3: _NOTHING, 4: "damaged pieces were left out", 6: _REFUSAL},
    "validate": {3: _NOTHING, 4: "a record is damaged"},
    "rotate": {1: "a record could not be rotated", 3: _NOTHING},
    "ignition": {3: "the base config or a file cannot be used"},
    "initrd": {3: "a file cannot be read"},
    "doctor": {1: "something is to be mended"},
    "preflight": {1: "a check failed"},
    "install": {1: "a file was kept", 3: "not allowed"},
    "uninstall": {1: "a file was kept", 3: "not allowed"},
    "bundle": {3: "a record, or what is to be redacted, cannot be read", 6: _REFUSAL},
    "report": {6: _REFUSAL, 75: "with --stop something could not be removed"},
    "ship": {3: "no token, or a file cannot be read", 6: _REFUSAL, 75: "not delivered"},
    "assisted": {1: "a host was left alone", 3: "refused", 75: "the service cannot be reached"},
    "triage": {3: "something was not judged, or there is nothing to judge"},
    "collector": {1: "a test failed, or there is no such token", 3: _NO_DATA},
    "hosts": {1: "with --fail a host is in trouble", 3: "the collector did not answer"},
    "hosts show": {3: "the collector did not answer, or knows no such host"},
    "assisted prepare": {1: "a host was left alone", 3: "refused", 75: "the service cannot be reached"},
    "assisted undo": {3: "refused", 75: "the service cannot be reached"},
    "assisted follow": {3: "refused", 75: "the service or the collector cannot be reached"},
    "collector notices": {1: "a destination did not take it", 3: "the file is wrong"},
    "collector token revoke": {1: "there is no such token", 3: _NO_DATA},
    **{
        f"collector {name}": {3: _NO_DATA}
        for name in ("serve", "audit", "backup", "restore", "prune", "token create", "token list")
    },
}
"""Command -> the exit codes that are its own. docs/output.md has all of them."""
_COMMON_CODES: Final = {0: "done", 2: "wrong usage"}

FAILED: Final = 1
UNREADABLE: Final = 3
DAMAGED: Final = 4
REFUSED: Final = 6
NOT_DELIVERED: Final = 75
TIMED_OUT: Final = 124
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_INTERRUPTED: Final = 130
_CLOSED_PIPE: Final = 141


class Unreadable(click.ClickException):
    """An input is missing or cannot be read."""

    exit_code = UNREADABLE


class WrongUsage(click.ClickException):
    """A mistake in the command line. The message has two lines: the command for help, and the error."""

    exit_code = click.UsageError.exit_code

    def __init__(self, error: click.UsageError, command: str) -> None:
        super().__init__(" ".join(_usage_message(error).split()))
        self._command = error.ctx.command_path if error.ctx is not None else command

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"Try: {self._command} --help", file=file, err=file is None)
        super().show(file)


def _usage_message(error: click.UsageError) -> str:
    """Return click's message, with a suggestion if click has none."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError) and isinstance(error.ctx.command, click.Group):
        return f"Missing command. Choose from: {', '.join(error.ctx.command.list_commands(error.ctx))}"
    if isinstance(error, click.NoSuchOption) and not error.possibilities and error.ctx is not None:
        # click compares whole names: `--all` is not similar enough to `--all-services`.
        names = [name for each in error.ctx.command.get_params(error.ctx) for name in each.opts]
        longer = sorted(name for name in names if name.startswith(error.option_name))
        if longer and error.option_name.startswith("--"):
            return f"{error.message} Did you mean {' or '.join(map(repr, longer))}?"
    return error.format_message()


class LeakRefused(click.ClickException):
    """The output has a secret in it, so it was not written or sent."""

    exit_code = REFUSED


class NotDelivered(click.ClickException):
    """The server cannot be reached or is busy. A later try may succeed."""

    exit_code = NOT_DELIVERED


class Verbs(click.Group):
    """The main command. It lists its verbs without importing their modules."""

    def __call__(self, *args: Any, **extra: Any) -> Any:
        """Run the program without the garbage collection at its end, which takes longer than most verbs."""
        try:
            return super().__call__(*args, **extra)
        except SystemExit as end:
            if isinstance(end.code, int) and _has_abandoned_threads():
                for stream in filter(None, (sys.stdout, sys.stderr)):
                    with suppress(OSError):
                        stream.flush()
                os._exit(end.code)
            raise
        finally:
            gc.freeze()

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Parse the command line."""
        with _report_errors(lambda: "service-record"):
            context = super().make_context(info_name, args, parent, **extra)
            _flush_output()
        return context

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Run `analyze --brief` if no verb is given.

        `help`, `help show` and `version` also work, because everybody tries them.
        """
        if ctx.resilient_parsing:  # a shell completes words
            pass
        elif args[:1] == ["help"]:
            args = [*args[1:2], "--help"]
        elif args == ["version"]:
            args = ["--version"]
        elif not args:
            args = ["analyze", "--brief"]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return sorted(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in VERBS:
            return None
        command: click.Command = importlib.import_module(f"service_record.cli.{cmd_name}").command
        _add_exit_codes(command, cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:
            names = [*VERBS, "help"]
            raise click.NoSuchCommand(error.command_name, possibilities=names, ctx=ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        for name, verbs in GROUPS.items():
            with formatter.section(name):
                formatter.write_dl(list(verbs.items()))

    def invoke(self, ctx: click.Context) -> object:
        """Run the verb."""
        # For an option without its value, click's error does not name the verb.
        with _report_errors(lambda: " ".join(filter(None, [ctx.command_path, ctx.invoked_subcommand]))):
            result = super().invoke(ctx)
            _flush_output()
        return result


def _has_abandoned_threads() -> bool:
    """Return True if threads still wait for a network or disk that takes no time limit.

    They are daemon threads. If one uses OpenSSL while the interpreter ends in its usual way, which cleans
    OpenSSL up, the process crashes.
    """
    threading = sys.modules.get("threading")
    return threading is not None and any(thread.daemon for thread in threading.enumerate())


def _add_exit_codes(command: click.Command, name: str) -> None:
    """End the help of a command, and of the commands below it, with their exit codes."""
    writes_pages = any("html" in getattr(each.type, "choices", ()) for each in command.params)
    page_codes = {REFUSED: _REFUSAL} if writes_pages else {}
    codes = sorted((_COMMON_CODES | page_codes | _EXIT_CODES.get(name, {})).items())
    meanings = ", ".join(f"{code} {meaning}" for code, meaning in codes)
    command.epilog = "Exit code: that of CMD." if name == "run" else f"Exit codes: {meanings}."
    if isinstance(command, click.Group):
        for below, each in command.commands.items():
            _add_exit_codes(each, f"{name} {below}")


@contextmanager
def _report_errors(command: Callable[[], str]) -> Iterator[None]:
    """Turn wrong usage, system errors and missing libraries into a short message and an exit code."""
    try:
        yield
    except click.UsageError as error:
        raise WrongUsage(error, command()) from None
    except KeyboardInterrupt:
        raise click.exceptions.Exit(_INTERRUPTED) from None
    except BrokenPipeError:
        _drop_output()
        raise click.exceptions.Exit(_CLOSED_PIPE) from None
    except click.ClickException as error:
        if not _log_to_journal(error.format_message()):
            raise
        raise click.exceptions.Exit(error.exit_code) from None
    except OSError as error:
        # An error of open(2) has the name of its file; one of write(2), e.g. to standard output, does not.
        where = "" if error.filename or error.errno not in _FULL else "the output could not be written: "
        show_error(f"{where}{system_error_line(error)}")
        if where and sys.stdout is not None:
            _drop_output()
        raise click.exceptions.Exit(UNREADABLE) from None
    except ModuleNotFoundError as error:
        raise missing_extra(error) or error from None


def show_error(text: str) -> None:
    """Print an error; in a service, send it to the journal."""
    if not _log_to_journal(text):
        click.echo(f"Error: {text}", err=True)


def _log_to_journal(text: str) -> bool:
    """Log an error to the journal, with its MESSAGE_ID. Return False if standard error does not lead there.

    Only root can tell journald the unit of a message. Otherwise `journalctl --unit` would lack the error,
    because this process ends at once. So others, and root where journald does not answer, print it.
    """
    if "JOURNAL_STREAM" not in os.environ:
        return False
    from service_record.record.journal_sending import MessageKind, is_journal, send_message
    from service_record.record.systemd import unit_of_process

    if not is_journal(2, os.environ):
        return False
    line = f"Error: {text}"
    if os.geteuid() != 0 or not send_message(MessageKind.COMMAND_FAILED, line, 3, unit=unit_of_process()):
        click.echo(f"<3>{line}", err=True)  # the level of an error, see sd-daemon(3): a unit may drop others
    return True


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "-V",
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=lambda ctx, _option, signum: _print_version(ctx) if signum else None,
    help="Show the version and exit.",
)
def main() -> None:
    """Record what services do, and show which of them failed, and why.

    \b
    Examples:
      service-record                         what is wrong here, in a few lines
      service-record show                    what ran here, failures first
      service-record show bootkube           one service
      service-record show --from DIR         records copied from another host
      service-record analyze                 what is wrong here, and why
      service-record run --stage pull -- CMD
      service-record bundle                  all of it in an archive to send
    """


def _print_version(context: click.Context) -> None:
    from service_record.version import __version__  # rarely wanted

    click.echo(f"service-record, version {__version__}")
    context.exit()


def _flush_output() -> None:
    """Flush standard output, so that a write error is reported in one line."""
    if sys.stdout is not None:  # the caller may have closed it
        sys.stdout.flush()


def _drop_output() -> None:
    """Discard further output, so that the interpreter does not try to write it again when it exits."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())


def system_error_line(error: OSError) -> str:
    """Return the message of a system error in one line, with advice if the text comes from the system."""
    from service_record.record.visible import visible  # not needed if nothing fails

    where = f"{os.fsdecode(error.filename)}: " if error.filename else ""
    code = error.errno or 0
    is_systems = code != 0 and error.strerror == os.strerror(code)
    advice = _ADVICE.get(code, "") if is_systems and (where or isinstance(error, PermissionError)) else ""
    return visible(f"{where}{error.strerror or error}{advice}")


_ADVICE: Final = {
    errno.EACCES: "; try as root",
    errno.EPERM: "; try as root",
    errno.ENOENT: "; check the path",
    errno.ENOTDIR: "; check the path",
    errno.EISDIR: "; give a file",
    errno.EEXIST: "; name another place",
    errno.ENOSPC: "; make room there",
    errno.EROFS: "; name a place that can be written",
}


EXTRAS: Final = {
    "client": ("httpx2",),
    "notices": ("apprise", "httpx2"),
    "reporter": ("httpx2", "stamina"),
    "otlp": ("httpx2", "opentelemetry"),
    "mcp": ("mcp",),
    "triage": ("drain3", "duckdb", "httpx2", "pyarrow"),
    "dask": ("distributed", "drain3", "duckdb", "httpx2", "pyarrow"),
    "collector": (
        *("alembic", "httptools", "obstore", "prometheus_client", "psycopg"),
        *("python_multipart", "sqlalchemy", "starlette", "structlog", "uvicorn", "uvloop"),
    ),
}
"""Extra -> its modules that are required. The extra `reporter` also has isal, but zlib can replace it."""


class MissingExtra(click.ClickException):
    """A verb needs a library that is not installed."""

    exit_code = click.UsageError.exit_code

    def __init__(self, extra: str, *modules: str) -> None:
        verb = "is" if len(modules) == 1 else "are"
        names = " and ".join(filter(None, (", ".join(modules[:-1]), modules[-1])))
        is_executable = "_standalone" in sys.builtin_module_names  # no library can be added to it
        missing = "not in this executable: on a host with Python," if is_executable else "not installed:"
        # There is often no `pip` on PATH, and none at all in environments of pipx and `uv tool install`.
        python = shlex.quote(sys.executable)
        if is_executable:
            install = "pip install"
        elif find_spec("pip") is not None:
            install = f"{python} -m pip install"
        elif os.path.exists(f"{sys.prefix}/pipx_metadata.json"):  # noqa: PTH110  # pathlib is not loaded yet
            install = f"pipx runpip {shlex.quote(os.path.basename(sys.prefix))} install"  # noqa: PTH119
        else:
            install = f"uv pip install --python {python}"
        super().__init__(
            f"the extra '{extra}' is needed, and {names} {verb} {missing} {install} 'service-record[{extra}]'"
        )


def require_extra(extra: str) -> None:
    """Raise MissingExtra unless all modules of an extra are installed."""
    missing = [name for name in EXTRAS[extra] if find_spec(name) is None]
    if missing:
        raise MissingExtra(extra, *missing)


def missing_extra(error: ModuleNotFoundError) -> MissingExtra | None:
    """Return the error for a module that could not be imported; None if no extra has it."""
    module = (error.name or "").partition(".")[0]
    module = "httpx2" if module == "httpcore2" else module  # a part of httpx2
    extra = next((extra for extra, modules in EXTRAS.items() if module in modules), None)
    return MissingExtra(extra, module) if extra is not None else None
