"""Snippets of shell for installers' templates: they record and report steps with what an installer has.

Each installer has a form: where its steps are, and how its templates have shell in them.
"""

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from itertools import pairwise
from typing import Final

_ENDS_WITHOUT_SEMICOLON: Final = re.compile(r"(?:^|\s)(?:do|then|else|in|\{|\()$|[|&(]$|;;$|^[^()]*\)$")
RECORDS: Final = "/var/log/openshift"


@dataclass(frozen=True, slots=True, kw_only=True)
class SnippetValues:
    """Values that differ from host to host and from site to site."""

    service: str
    """The name of the record."""
    root: str = ""
    """The new system's root as the installer sees it; empty for an installer that runs in it."""
    directory: str = RECORDS
    """The directory of the records, as the installer sees it."""
    url: str = ""
    """The collector's; empty where it is not known, and then nothing is reported."""
    host: str = ""
    """The host's name at the collector; empty for the name that the host itself has."""
    token_file: str = "/etc/service-record/token"  # noqa: S105  # where it is, not what
    token_parameter: str = ""
    """For ERB: the host parameter that is the token."""
    ca_file: str = ""
    action: str = "install"
    limit: int = 10
    """Seconds that a report may take."""
    has_first_boot: bool = False
    """True if the new system reports one more step, after the reboot."""
    is_erb: bool = False
    is_macro: bool = False
    """True if a template of Foreman passes the service and the directory, as `variables:` of `snippet`."""

    def quoted(self, text: str) -> str:
        """Return one of our texts as one word of shell, in a template of this language."""
        word = shlex.quote(text)
        return word.replace("<%", "<%%") if self.is_erb else word


def script(values: SnippetValues, *parts: str) -> str:
    """Return the values and functions, as lines of shell; parts are names of files beside this module."""
    return "\n".join([*_values(values), *(part_of(part) for part in ("steps.sh", *parts))])


def part_of(name: str) -> str:
    """Return a file of shell, without its directives for shellcheck."""
    text = files("service_record.deploy.snippets").joinpath(name).read_text()
    lines = (line for line in text.split("\n") if not line.strip().startswith("# shellcheck"))
    return "\n".join(lines)


def first_boot(values: SnippetValues, step: str) -> str:
    """Return a function that leaves a unit on the new system, and the program that it runs at the first
    boot.

    What it runs has no value of ERB in it: the installer writes those to files beside it.
    """
    later = replace(values, service="first-boot", directory=RECORDS, is_erb=False)
    name = f"service_record_name={shlex.quote(step)}"
    parts = (part_of("first-boot-values.sh"), part_of("steps.sh"), name, part_of("first-boot-run.sh"))
    run = one_line("\n".join([*_constants(later), *parts]))
    unit = part_of("first-boot.service").rstrip("\n").split("\n")
    return "\n".join(
        [
            f"service_record_root={values.quoted(values.root)}",
            *_function("script", f"printf '%s\\n' {values.quoted(run)}"),
            *_function("unit", f"printf '%s\\n' {' '.join(map(shlex.quote, unit))}"),
            part_of("first-boot-install.sh"),
        ]
    )


def one_line(text: str) -> str:
    """Return the same shell on one line, without its comments."""
    lines = [line.strip() for line in text.replace("\\\n", " ").split("\n")]
    code = [line for line in lines if line and not line.startswith("#")]
    joined = code[0]
    for before, line in pairwise(code):
        joined += f" {line}" if _ENDS_WITHOUT_SEMICOLON.search(before) else f"; {line}"
    return joined


def _constants(values: SnippetValues) -> Iterator[str]:
    yield f"service_record_service={_variable(values, values.service, 'service')}"
    yield f"service_record_directory={_variable(values, values.directory, 'directory')}"
    yield f"service_record_action={values.quoted(values.action)}"
    yield f"service_record_ca={values.quoted(values.ca_file)}"
    yield f"service_record_limit={values.limit}"


def _values(values: SnippetValues) -> Iterator[str]:
    yield from _constants(values)
    yield from _function("url", _printed(values, values.url, "host_param('service_record_url')"))
    yield from _function("host", _printed(values, values.host, "@host.name"))
    if values.token_parameter:
        parameter = values.token_parameter
        yield from _function("token", _printed(values, "", f"host_param('{parameter}')"))
    else:
        path = values.quoted(values.token_file)
        yield from _function(
            "token", f"[ ! -r {path} ] || IFS= read -r token <{path}; printf '%s' \"${{token-}}\""
        )


def _function(name: str, body: str) -> Iterator[str]:
    """Yield a value in a function: an assignment would be in the log of a template that traces its
    commands.
    """
    yield f"service_record_{name}() {{"
    yield f"  {body}"
    yield "}"


def _variable(values: SnippetValues, text: str, name: str) -> str:
    """Return a text as one word of shell; in a macro, the variable of that name takes its place."""
    return _rendered(f"(@{name} || '{text}')") if values.is_macro else values.quoted(text)


def _printed(values: SnippetValues, text: str, expression: str) -> str:
    """Return the command that prints a text, or the result of an ERB expression."""
    word = values.quoted(text) if text or not values.is_erb else _rendered(expression)
    return f"printf '%s' {word}"


def _rendered(expression: str) -> str:
    """Return the result of an ERB expression as one word of shell.

    It stands between single quotes; each of its own gets out of them, into double ones, and back.
    """
    return f"""'<%= {expression}.to_s.split("'", -1).join(%q('"'"')) %>'"""


STEPS: Final[Mapping[str, tuple[str, ...]]] = {
    "kickstart": ("Installation begins", "Packages are installed"),
    "preseed": ("Installation begins", "Packages are installed"),
    "autoinstall": ("Installation begins", "Packages are installed"),
    "cloud-init": ("First boot", "First boot is done"),
    "bash": ("Example step",),
}
"""Installer -> steps that are reported where nobody names any."""
BOOTED: Final = "Booted from disk"
"""The step of the first boot; the build is complete with it."""
FIRST_BOOT: Final = ("kickstart", "preseed")
"""The installers whose snippets can leave a unit that reports the first boot."""
_PARTITIONING: Final = "Partitioning"
"""Begins with partman/early_command, and is done when preseed/late_command runs."""
_INDENT: Final = "  "
_FILE: Final = "/usr/local/lib/service-record/steps.sh"
_TARGET: Final = "/target"


def snippet(kind: str, values: SnippetValues, steps: Sequence[str] = ()) -> str:
    """Return the text to put into a template of this installer; the last of the steps is its end."""
    return _FORMS[kind](values, list(steps))


def _kickstart(values: SnippetValues, steps: list[str]) -> str:
    """Return %pre and %post, two shells of two systems; a failure in between ends in %onerror."""
    functions = script(values).rstrip("\n")
    early, late = _halves(values, steps)
    logs = '"$(tail -n 20 /tmp/anaconda.log 2>/dev/null || :)"'
    failed = f"service_record_step {values.quoted(steps[-1])} failed '' {logs}"
    unit, leave = _first_boot(values)
    sections = [
        _section("%pre --interpreter=/bin/sh", functions, [*early, "service_record_end"]),
        _section(
            "%post --interpreter=/bin/sh",
            functions + unit.rstrip("\n"),
            [*late, *leave, "service_record_end"],
        ),
        _section("%onerror --interpreter=/bin/sh", functions, [failed, "service_record_end failure"]),
    ]
    return "\n".join(sections)


def _section(head: str, functions: str, calls: list[str]) -> str:
    return "\n".join([head, functions, "", *calls, "%end", ""])


def _preseed(values: SnippetValues, steps: list[str]) -> str:
    """Return the commands, a line each; the last comes when the new system is in /target."""
    early, late = _halves(values, steps)
    within = replace(values, root=_TARGET, directory=f"{_TARGET}{RECORDS}")
    unit, leave = _first_boot(within)
    partitioning = f"service_record_step {values.quoted(_PARTITIONING)}"
    functions = one_line(script(values))
    commands = {
        "preseed/early_command": [functions, *early],
        "partman/early_command": [functions, f"{partitioning} init"],
        "preseed/late_command": [one_line(script(within) + unit), f'{partitioning} "done"', *late, *leave],
    }
    return "".join(
        f"d-i {name} string {'; '.join([*calls, 'service_record_end'])}\n" for name, calls in commands.items()
    )


def _autoinstall(values: SnippetValues, steps: list[str]) -> str:
    """Return the commands, each in a shell of its own; failures end in error-commands."""
    early, late = _halves(values, steps)
    within = replace(values, directory=f"{_TARGET}{RECORDS}")
    commands = {
        "early-commands": (values, [*early, "service_record_end"]),
        "late-commands": (within, [*late, "service_record_end"]),
        "error-commands": (
            values,
            [f"service_record_step {values.quoted(steps[-1])} failed", "service_record_end failure"],
        ),
    }
    lines = ["#cloud-config", "autoinstall:", "  version: 1"]
    for name, (each, calls) in commands.items():
        lines += [f"  {name}:", "    - |"]
        lines += _indented("\n".join([script(each), *calls]), 3)
    return "\n".join([*lines, ""])


def _cloud_init(values: SnippetValues, steps: list[str]) -> str:
    """Return the functions in a file; commands run last, each line with the variables of the lines before
    it.
    """
    lines = [
        "#cloud-config",
        "write_files:",
        f"  - path: {_FILE}",
        "    permissions: '0644'",
        "    content: |",
    ]
    lines += _indented(script(values), 3)
    lines += ["runcmd:", "  - |"]
    calls = [f". {_FILE}", *_calls(values, steps), "service_record_end"]
    return "\n".join([*lines, *_indented("\n".join(calls), 2), ""])


def _bash(values: SnippetValues, steps: list[str]) -> str:
    """Return functions for the user's own script, and calls of them."""
    return "\n".join([script(values, "shim.sh"), *_calls(values, steps), "service_record_end", ""])


def _foreman(values: SnippetValues, _: list[str]) -> str:
    """Return a snippet of Foreman that defines the functions: as lines, or on one line for a preseed."""
    macro = replace(values, service="provisioning", is_erb=True, is_macro=True)
    functions = script(macro).rstrip("\n")
    branches = f"<% if @one_line -%>\n{one_line(functions)}<% else -%>\n{functions}\n<% end -%>\n"
    return part_of("foreman.erb") + branches


def _foreman_webhook(_: SnippetValues, __: list[str]) -> str:
    """Return a webhook template of Foreman. URL and token are fields of the webhook itself."""
    return part_of("foreman-webhook.erb")


def _ipxe(values: SnippetValues, _: list[str]) -> str:
    """Return the lines of an iPXE script between the images and `boot`. A failure does not stop it."""
    url = f"{values.url.rstrip('/')}" or "<%= host_param('service_record_url') %>"
    token = (
        f"<%= host_param('{values.token_parameter}') %>"
        if values.token_parameter
        else "${service-record-token}"
    )
    return f"imgfetch --name service-record {url}/api/v1/boot/{token} && imgfree service-record ||\n"


def _first_boot(values: SnippetValues) -> tuple[str, list[str]]:
    """Return the functions that leave a unit for the first boot, and their call; nothing without one."""
    if not values.has_first_boot:
        return "", []
    return f"\n{first_boot(values, BOOTED)}", ["service_record_first_boot"]


def _halves(values: SnippetValues, steps: list[str]) -> tuple[list[str], list[str]]:
    """Return the calls before and after the installation; a single step begins before, and ends after it."""
    calls = _calls(values, steps)
    first = 1 if len(steps) == 1 else 2
    return calls[:first], calls[first:]


def _calls(values: SnippetValues, steps: list[str]) -> list[str]:
    """Return the calls for each step, begun and done; its commands belong between the two."""
    calls = []
    total = len(steps) + values.has_first_boot
    for number, step in enumerate(steps, 1):
        name = values.quoted(step)
        calls += [
            f"service_record_step {name} init",
            f'service_record_step {name} "done" {100 * number // total}',
        ]
    return calls


def _indented(text: str, levels: int) -> list[str]:
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
