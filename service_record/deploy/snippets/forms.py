"""The snippet of each installer: where its steps are, and how its templates have shell in them. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from service_record.deploy.snippets.script import Values, one_line, script

STEPS: Final[Mapping[str, tuple[str, ...]]] = {
    "kickstart": ("Installation begins", "Packages are installed"),
    "preseed": ("Installation begins", "Packages are installed"),
    "autoinstall": ("Installation begins", "Packages are installed"),
    "cloud-init": ("First boot", "First boot is done"),
    "bash": ("Example step",),
}
"""Installer -> steps that are reported where nobody names any."""
_INDENT: Final = "  "
_FILE: Final = "/usr/local/lib/service-record/steps.sh"
_TARGET: Final = "/target/var/log/openshift"


def snippet(kind: str, values: Values, steps: Sequence[str]) -> str:
    """The text to put into a template of this installer; the last of the steps is its end."""
    return _FORMS[kind](values, list(steps))


def _kickstart(values: Values, steps: list[str]) -> str:
    """%pre and %post are two shells, of two systems; what fails in between ends in %onerror."""
    functions = script(values).rstrip("\n")
    first, *rest = steps
    logs = '"$(tail -n 20 /tmp/anaconda.log 2>/dev/null || :)"'
    failed = f"service_record_step {values.quoted(steps[-1])} failed '' {logs}"
    sections = [
        _section("%pre --interpreter=/bin/sh", functions, [*_done(values, [first]), "service_record_end"]),
        _section(
            "%post --interpreter=/bin/sh", functions, [*_done(values, rest or [first]), "service_record_end"]
        ),
        _section("%onerror --interpreter=/bin/sh", functions, [failed, "service_record_end failure"]),
    ]
    return "\n".join(sections)


def _section(head: str, functions: str, calls: list[str]) -> str:
    return "\n".join([head, functions, "", *calls, "%end", ""])


def _preseed(values: Values, steps: list[str]) -> str:
    """A command is one line; the last comes when the new system is in /target."""
    first, *rest = steps
    early = [one_line(script(values)), *_done(values, [first]), "service_record_end"]
    within = replace(values, directory=_TARGET)
    late = [one_line(script(within)), *_done(values, rest or [first]), "service_record_end"]
    return (
        f"d-i preseed/early_command string {'; '.join(early)}\n"
        f"d-i preseed/late_command string {'; '.join(late)}\n"
    )


def _autoinstall(values: Values, steps: list[str]) -> str:
    """Each command is a shell of its own; what fails ends in error-commands."""
    first, *rest = steps
    within = replace(values, directory=_TARGET)
    commands = {
        "early-commands": (values, [*_done(values, [first]), "service_record_end"]),
        "late-commands": (within, [*_done(values, rest or [first]), "service_record_end"]),
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
    calls = [f". {_FILE}", *_done(values, steps), "service_record_end"]
    return "\n".join([*lines, *_indented("\n".join(calls), 2), ""])


def _bash(values: Values, steps: list[str]) -> str:
    """Functions for a script of one's own, and how they are called."""
    return "\n".join([script(values, "shim.sh"), *_done(values, steps), "service_record_end", ""])


def _done(values: Values, steps: list[str]) -> list[str]:
    """Each step begun and done; what it does belongs between the two."""
    calls = []
    for number, step in enumerate(steps, 1):
        name = values.quoted(step)
        calls += [
            f"service_record_step {name} init",
            f'service_record_step {name} "done" {100 * number // len(steps)}',
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
}
KINDS: Final = tuple(_FORMS)
