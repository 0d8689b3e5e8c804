"""The snippet of each installer: where its steps are, and how its templates have shell in them. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from service_record.deploy.snippets.script import RECORDS, Values, first_boot, one_line, part_of, script

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
_MACRO: Final = "service_record_steps"


def snippet(kind: str, values: Values, steps: Sequence[str] = ()) -> str:
    """Return the text to put into a template of this installer; the last of the steps is its end."""
    return _FORMS[kind](values, list(steps))


def _kickstart(values: Values, steps: list[str]) -> str:
    """%pre and %post are two shells, of two systems; what fails in between ends in %onerror."""
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


def _preseed(values: Values, steps: list[str]) -> str:
    """A command is one line; the last comes when the new system is in /target."""
    early, late = _halves(values, steps)
    within = replace(values, root=_TARGET, directory=f"{_TARGET}{RECORDS}")
    unit, leave = _first_boot(within)
    partitioning = f"service_record_step {values.quoted(_PARTITIONING)}"
    functions = one_line(script(values))
    commands = {
        "preseed/early_command": [functions, *early],
        "partman/early_command": [functions, f"{partitioning} init"],
        "preseed/late_command": [
            one_line(script(within) + unit),
            f'{partitioning} "done"',
            *late,
            *leave,
        ],
    }
    return "".join(
        f"d-i {name} string {'; '.join([*calls, 'service_record_end'])}\n" for name, calls in commands.items()
    )


def _autoinstall(values: Values, steps: list[str]) -> str:
    """Each command is a shell of its own; what fails ends in error-commands."""
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


def _cloud_init(values: Values, steps: list[str]) -> str:
    """The functions in a file; commands run last, each line with what the lines before it have set."""
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


def _bash(values: Values, steps: list[str]) -> str:
    """Functions for a script of one's own, and how they are called."""
    return "\n".join([script(values, "shim.sh"), *_calls(values, steps), "service_record_end", ""])


def _foreman(values: Values, _: list[str]) -> str:
    """Return a snippet of Foreman that defines the functions: as lines, or on one line for a preseed."""
    macro = replace(values, service="provisioning", is_erb=True, is_macro=True)
    functions = script(macro).rstrip("\n")
    branches = f"<% if @one_line -%>\n{one_line(functions)}<% else -%>\n{functions}\n<% end -%>\n"
    return part_of("foreman.erb") + branches


def _ipxe(values: Values, _: list[str]) -> str:
    """Return the lines of an iPXE script that stand between the images and `boot`. A failure goes on."""
    url = f"{values.url.rstrip('/')}" or "<%= host_param('service_record_url') %>"
    token = (
        f"<%= host_param('{values.token_parameter}') %>"
        if values.token_parameter
        else "${service-record-token}"
    )
    return f"imgfetch --name service-record {url}/api/v1/boot/{token} && imgfree service-record ||\n"


def _first_boot(values: Values) -> tuple[str, list[str]]:
    """Return the functions that leave a unit for the first boot, and their call; nothing without one."""
    if not values.has_first_boot:
        return "", []
    return f"\n{first_boot(values, BOOTED)}", ["service_record_first_boot"]


def _halves(values: Values, steps: list[str]) -> tuple[list[str], list[str]]:
    """Return the calls before and after the installation; a single step begins before, and ends after it."""
    calls = _calls(values, steps)
    first = 1 if len(steps) == 1 else 2
    return calls[:first], calls[first:]


def _calls(values: Values, steps: list[str]) -> list[str]:
    """Each step begun and done; what it does belongs between the two."""
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


_FORMS: Final[Mapping[str, Callable[[Values, list[str]], str]]] = {
    "kickstart": _kickstart,
    "preseed": _preseed,
    "autoinstall": _autoinstall,
    "cloud-init": _cloud_init,
    "bash": _bash,
    "foreman": _foreman,
    "ipxe": _ipxe,
}
KINDS: Final = tuple(_FORMS)
