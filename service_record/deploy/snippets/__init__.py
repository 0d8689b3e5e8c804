"""Generate shell snippets for installers' templates, which record and report steps.

The snippets need only the programs that an installer's environment has. The functions themselves are in the
files beside this module. A form function for each kind of template puts them into the syntax of the template.
"""

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from itertools import pairwise
from typing import Final
from urllib.parse import quote

_NO_SEMICOLON_AFTER: Final = re.compile(r"(?:^|\s)(?:do|then|else|in|\{|\()$|[|&(]$|;;$|^[^()]*\)$")
"""Matches a line of shell that needs no `;` before the next one, such as `then` or a pattern of `case`."""
RECORDS: Final = "/var/log/openshift"


@dataclass(frozen=True, slots=True, kw_only=True)
class SnippetValues:
    """The values in a snippet that depend on the host or the site."""

    service: str
    """The name of the record."""
    root: str = ""
    """The new system's root as the installer sees it; empty for an installer that runs in it."""
    directory: str = RECORDS
    """The directory of the records, as the installer sees it."""
    url: str = ""
    """The collector's URL. Without it, ERB inserts a host parameter; other snippets only record steps."""
    host: str = ""
    """The host's name in the collector. Without it, the hostname at the time of the report is used."""
    token_file: str = "/etc/service-record/token"  # noqa: S105  # a path, not a secret
    token_parameter: str = ""
    """For ERB: the name of the host parameter with the token."""
    ca_file: str = ""
    action: str = "install"
    log_file: str = ""
    """The log whose last lines are sent while a step is open; none if empty."""
    limit: int = 10
    """The longest time of a report, in seconds."""
    has_first_boot: bool = False
    """True if the new system reports a step after the reboot."""
    is_erb: bool = False
    is_macro: bool = False
    """True for the snippet of Foreman, which gets service and directory as `variables:`."""

    def quote(self, text: str) -> str:
        """Return a text as one word of shell. In an ERB template, `<%` is escaped."""
        word = shlex.quote(text)
        return word.replace("<%", "<%%") if self.is_erb else word


def script(values: SnippetValues, *parts: str) -> str:
    """Return the functions of a snippet with their values. `parts` are further files beside this module."""
    return "\n".join([*_define_values(values), *(read_part(part) for part in ("steps.sh", *parts))])


def read_part(name: str) -> str:
    """Return the text of a file beside this module, without directives for shellcheck."""
    text = files("service_record.deploy.snippets").joinpath(name).read_text()
    lines = (line for line in text.split("\n") if not line.strip().startswith("# shellcheck"))
    return "\n".join(lines)


def first_boot_script(values: SnippetValues, step: str) -> str:
    """Return a function that installs a unit on the new system, which reports `step` at the first boot.

    URL, host and token are not part of the unit's program, because ERB may insert them. The installer writes
    them to files, which the program reads.
    """
    later = replace(values, service="first-boot", directory=RECORDS, log_file="", is_erb=False)
    name = f"service_record_name={shlex.quote(step)}"
    parts = (read_part("first-boot-values.sh"), read_part("steps.sh"), name, read_part("first-boot-run.sh"))
    run = one_line("\n".join([*_assign_values(later), *parts]))
    unit = read_part("first-boot.service").rstrip("\n").split("\n")
    return "\n".join(
        [
            f"service_record_root={values.quote(values.root)}",
            *_define_function("script", f"printf '%s\\n' {values.quote(run)}"),
            *_define_function("unit", f"printf '%s\\n' {' '.join(map(shlex.quote, unit))}"),
            read_part("first-boot-install.sh"),
        ]
    )


def one_line(text: str) -> str:
    """Join lines of shell to one line, without comments."""
    lines = [line.strip() for line in text.replace("\\\n", " ").split("\n")]
    code = [line for line in lines if line and not line.startswith("#")]
    joined = code[0]
    for before, line in pairwise(code):
        joined += f" {line}" if _NO_SEMICOLON_AFTER.search(before) else f"; {line}"
    return joined


def _assign_values(values: SnippetValues) -> Iterator[str]:
    """Yield the assignments of service, directory, log, action, certificates and time limit."""
    yield f"service_record_service={_quote_variable(values, values.service, 'service')}"
    yield f"service_record_directory={_quote_variable(values, values.directory, 'directory')}"
    yield f"service_record_log={_quote_variable(values, values.log_file, 'log')}"
    yield f"service_record_action={values.quote(values.action)}"
    yield f"service_record_ca={values.quote(values.ca_file)}"
    yield f"service_record_limit={values.limit}"


def _define_values(values: SnippetValues) -> Iterator[str]:
    """Yield the assignments, and the functions that print URL, host and token."""
    yield from _assign_values(values)
    yield from _define_function("url", _print_command(values, values.url, "host_param('service_record_url')"))
    yield from _define_function("host", _print_command(values, values.host, "@host.name"))
    if values.token_parameter:
        parameter = values.token_parameter
        yield from _define_function("token", _print_command(values, "", f"host_param('{parameter}')"))
    else:
        path = values.quote(values.token_file)
        yield from _define_function(
            "token", f"[ ! -r {path} ] || IFS= read -r token <{path}; printf '%s' \"${{token-}}\""
        )


def _define_function(name: str, body: str) -> Iterator[str]:
    """Yield the lines of a shell function.

    Values such as tokens are in functions because `set -x` in a template would log an assignment.
    """
    yield f"service_record_{name}() {{"
    yield f"  {body}"
    yield "}"


def _quote_variable(values: SnippetValues, text: str, name: str) -> str:
    """Return a text as one word of shell. In Foreman's snippet, its variable `name` overrides the text."""
    return _quote_erb(f"(@{name} || '{text}')") if values.is_macro else values.quote(text)


def _print_command(values: SnippetValues, text: str, expression: str) -> str:
    """Return a command that prints a text or, in an ERB template without one, the result of an expression."""
    word = values.quote(text) if text or not values.is_erb else _quote_erb(expression)
    return f"printf '%s' {word}"


def _quote_erb(expression: str) -> str:
    """Return an ERB tag that renders the result of an expression as one word of shell.

    The result is in single quotes, and each single quote in it becomes `'"'"'`. `split` and `join` replace
    it, because Foreman's safe mode allows these.
    """
    return f"""'<%= {expression}.to_s.split("'", -1).join(%q('"'"')) %>'"""


STEPS: Final[Mapping[str, tuple[str, ...]]] = {
    "kickstart": ("Installation begins", "Packages are installed"),
    "preseed": ("Installation begins", "Packages are installed"),
    "autoinstall": ("Installation begins", "Packages are installed"),
    "cloud-init": ("First boot", "First boot is done"),
    "bash": ("Example step",),
}
"""Kind of snippet -> its default steps."""
BOOTED: Final = "Booted from disk"
"""The step that the first boot reports. It completes the build."""
FIRST_BOOT: Final = ("kickstart", "preseed")
"""Kinds of snippets that can install a unit for the first boot."""
_PARTITIONING: Final = "Partitioning"
"""A step of preseed: it begins with partman/early_command, and is done when preseed/late_command runs."""
_INDENT: Final = "  "
_FILE: Final = "/usr/local/lib/service-record/steps.sh"
_TARGET: Final = "/target"


def snippet(kind: str, values: SnippetValues, steps: Sequence[str] = ()) -> str:
    """Return the snippet of a kind, with calls for the steps. The last step completes the build, unless the
    first boot does.
    """
    return _FORMS[kind](values, list(steps))


def _kickstart(values: SnippetValues, steps: list[str]) -> str:
    """Return %pre, which runs in the installer, %post, which runs in the new system, and %onerror."""
    functions = script(values).rstrip("\n")
    early, late = _split_calls(values, steps)
    logs = '"$(tail -n 20 /tmp/anaconda.log 2>/dev/null || :)"'
    failed = f"service_record_step {values.quote(steps[-1])} failed '' {logs}"
    unit, install_unit = _first_boot_parts(values)
    sections = [
        _section("%pre --interpreter=/bin/sh", functions, [*early, "service_record_end"]),
        _section(
            "%post --interpreter=/bin/sh",
            functions + unit.rstrip("\n"),
            [*late, *install_unit, "service_record_end"],
        ),
        _section("%onerror --interpreter=/bin/sh", functions, [failed, "service_record_end failure"]),
    ]
    return "\n".join(sections)


def _section(head: str, functions: str, calls: list[str]) -> str:
    return "\n".join([head, functions, "", *calls, "%end", ""])


def _preseed(values: SnippetValues, steps: list[str]) -> str:
    """Return three commands, each on one line. The last one runs when the new system is at /target."""
    early, late = _split_calls(values, steps)
    within = replace(values, root=_TARGET, directory=f"{_TARGET}{RECORDS}")
    unit, install_unit = _first_boot_parts(within)
    partitioning = f"service_record_step {values.quote(_PARTITIONING)}"
    functions = one_line(script(values))
    commands = {
        "preseed/early_command": [functions, *early],
        "partman/early_command": [functions, f"{partitioning} init"],
        "preseed/late_command": [
            one_line(script(within) + unit),
            f'{partitioning} "done"',
            *late,
            *install_unit,
        ],
    }
    return "".join(
        f"d-i {name} string {'; '.join([*calls, 'service_record_end'])}\n" for name, calls in commands.items()
    )


def _autoinstall(values: SnippetValues, steps: list[str]) -> str:
    """Return the commands of autoinstall, each in a shell of its own. error-commands run after a failure."""
    early, late = _split_calls(values, steps)
    within = replace(values, directory=f"{_TARGET}{RECORDS}")
    commands = {
        "early-commands": (values, [*early, "service_record_end"]),
        "late-commands": (within, [*late, "service_record_end"]),
        "error-commands": (
            values,
            [f"service_record_step {values.quote(steps[-1])} failed", "service_record_end failure"],
        ),
    }
    lines = ["#cloud-config", "autoinstall:", "  version: 1"]
    for name, (each, calls) in commands.items():
        lines += [f"  {name}:", "    - |"]
        lines += _indent("\n".join([script(each), *calls]), 3)
    return "\n".join([*lines, ""])


def _cloud_init(values: SnippetValues, steps: list[str]) -> str:
    """Return write_files with the functions, and runcmd, one shell with all calls."""
    lines = [
        "#cloud-config",
        "write_files:",
        f"  - path: {_FILE}",
        "    permissions: '0644'",
        "    content: |",
    ]
    lines += _indent(script(values), 3)
    lines += ["runcmd:", "  - |"]
    calls = [f". {_FILE}", *_step_calls(values, steps), "service_record_end"]
    return "\n".join([*lines, *_indent("\n".join(calls), 2), ""])


def _bash(values: SnippetValues, steps: list[str]) -> str:
    """Return functions for a script of the user, and example calls."""
    return "\n".join([script(values, "shim.sh"), *_step_calls(values, steps), "service_record_end", ""])


def _foreman(values: SnippetValues, _: list[str]) -> str:
    """Return a snippet of Foreman that defines the functions, on one line if `@one_line` is set (preseed)."""
    macro = replace(values, service="provisioning", is_erb=True, is_macro=True)
    functions = script(macro).rstrip("\n")
    branches = f"<% if @one_line -%>\n{one_line(functions)}<% else -%>\n{functions}\n<% end -%>\n"
    return read_part("foreman.erb") + branches


def _foreman_webhook(_: SnippetValues, __: list[str]) -> str:
    """Return a webhook template of Foreman. URL and token are fields of the webhook, not of its template."""
    return read_part("foreman-webhook.erb")


def _ipxe(values: SnippetValues, _: list[str]) -> str:
    """Return a line for an iPXE script, to put before `boot`. `||` continues the script after a failure."""
    # iPXE knows no quotes. It would replace `${...}`, and ERB `<%...%>`.
    url = quote(values.url.rstrip("/"), safe="/:[]%~") or "<%= host_param('service_record_url') %>"
    token = (
        f"<%= host_param('{values.token_parameter}') %>"
        if values.token_parameter
        else "${service-record-token}"
    )
    return f"imgfetch --name service-record {url}/api/v1/boot/{token} && imgfree service-record ||\n"


def _first_boot_parts(values: SnippetValues) -> tuple[str, list[str]]:
    """Return the functions that install the unit for the first boot, and their call. Both may be empty."""
    if not values.has_first_boot:
        return "", []
    return f"\n{first_boot_script(values, BOOTED)}", ["service_record_first_boot"]


def _split_calls(values: SnippetValues, steps: list[str]) -> tuple[list[str], list[str]]:
    """Return the calls before and after the installation.

    The first step is reported before, all others after it. A single step begins before and ends after it.
    With a log, the second step begins before the installation, so that the log is live meanwhile.
    """
    calls = _step_calls(values, steps)
    first = 1 if len(steps) == 1 else 2
    if not values.log_file:
        return calls[:first], calls[first:]
    first = 1 if len(steps) == 1 else 3
    return ["service_record_log_stays=yes", *calls[:first]], calls[first:]


def _step_calls(values: SnippetValues, steps: list[str]) -> list[str]:
    """Return two calls for each step: `init` and `done`. Users put the commands of the step between them."""
    calls = []
    total = len(steps) + values.has_first_boot
    for number, step in enumerate(steps, 1):
        name = values.quote(step)
        calls += [
            f"service_record_step {name} init",
            f'service_record_step {name} "done" {100 * number // total}',
        ]
    return calls


def _indent(text: str, levels: int) -> list[str]:
    return [f"{_INDENT * levels}{line}" if line else "" for line in text.rstrip("\n").split("\n")]


_FORMS: Final[Mapping[str, Callable[[SnippetValues, list[str]], str]]] = {
    "kickstart": _kickstart,
    "preseed": _preseed,
    "autoinstall": _autoinstall,
    "cloud-init": _cloud_init,
    "bash": _bash,
    "foreman": _foreman,
    "foreman-webhook": _foreman_webhook,
    "ipxe": _ipxe,
}
KINDS: Final = tuple(_FORMS)
