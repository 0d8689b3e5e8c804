"""The cases of the matrix: small services for each option, trap and signal."""

import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from tests.shell.scripts import NO_LOOKUP, Bash

HERE: Final = "# HERE"
"""Marks the line at which a service fails."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A service, and the signal that it receives, if any."""

    title: str
    script: str
    signal: str = ""
    """`TERM shell` signals bash alone, `TERM group` its process group."""


ENDS: Final = {
    "ends": ("", "true"),
    "exits 3": ("", f"leave() {{\n  exit 3 {HERE} leave\n}}\nleave"),
    "fails": ("set -eE", f"test -e /nowhere {HERE}"),
    "unbound": ("set -u", f'echo "$NOPE" {HERE}'),
}
"""Ways to end a service: the options of the script, and its last lines."""

# With these options bash runs nothing, or prints its commands, which tests/shell/surroundings.bats tests.
_SKIPPED_OPTIONS: Final = {"noexec", "onecmd", "verbose", "xtrace"}
_PRINTED_STATE: Final = """if (exit 5); then :; else echo "$?"; fi
true | true
echo "$? ${PIPESTATUS[*]} $own $* $-"
set +o
shopt
umask
declare -p own
trap -p TERM INT HUP
"""
COMPATIBILITY: Final = ("31", "42", "43", "44", "50", "51")
EVENTS: Final = ("EXIT", "ERR", "DEBUG", "RETURN", "TERM", "HUP", "USR1", "CHLD", "PIPE")
ACTIONS: Final = {"a handler": 'echo "trapped $?"', "ignored": ""}
SIGNALS: Final = ("TERM", "HUP", "INT", "QUIT", "PIPE", "USR1", "KILL")
TARGETS: Final = ("shell", "group")
STATES: Final = {
    "a child": "child",
    "wait": "child & wait",
    "a pipeline": "child | cat",
    "a subshell": "(child; :)",
    "a command substitution": "said=$(child)",
    "a function": "work() { child; }; work",
    "a builtin loop": "echo busy >ready; while [[ ! -e going ]]; do :; done",
    "read": ": >ready; read -r _ <over || :",
    "a handler of its own": "trap 'echo handled; exit 9' TERM HUP USR1; child & wait",
}
"""Commands that run when the signal arrives. The FIFO `over` has no writer until the command is released."""


def compose_script(before: str, after: str, ending: str) -> str:
    """Return a script with code before and after sourcing, a stage, and an end."""
    options, last = ENDS[ending]
    lines = [options, before, '. "$SHIM"', after, "record_service_stage_start one", "echo working"]
    return "\n".join([*filter(None, lines), "record_service_stage_success", last, ""])


def list_settings(bash: Bash) -> Iterator[str]:
    """Yield a command for each option of `set` and `shopt` that changes its default."""
    for listing in ("set -o", "shopt"):
        command = [str(bash.path), "-c", listing]
        listing_output = subprocess.run(
            command, check=True, capture_output=True, text=True, env=NO_LOOKUP
        ).stdout
        for name, value in (line.split() for line in listing_output.splitlines()):
            if name in _SKIPPED_OPTIONS:
                continue
            if listing == "shopt":
                yield f"shopt {'-u' if value == 'on' else '-s'} {name}"
            else:
                yield f"set {'+' if value == 'on' else '-'}o {name}"
    yield from (f"BASH_COMPAT={level}" for level in COMPATIBILITY)


def list_option_cases(bash: Bash) -> Iterator[Case]:
    """Yield every option and compatibility level of this bash, with a success and with `exit`."""
    for setting in list_settings(bash):
        for ending in ("ends", "exits 3"):
            script = compose_script(f"own='its own'\n{setting}", "", ending)
            yield Case(title=f"{setting}; {ending}", script=script.replace("echo working\n", _PRINTED_STATE))


def list_trap_cases(_: Bash) -> Iterator[Case]:
    """Yield a trap for every event, set before and after sourcing, with every way to end."""
    for event in EVENTS:
        for action_name, action in ACTIONS.items():
            for ending in ENDS:
                trap = f"trap '{action}' {event}"
                title = f"{event} {action_name}"
                yield Case(title=f"{title}, set before; {ending}", script=compose_script(trap, "", ending))
                yield Case(title=f"{title}, set after; {ending}", script=compose_script("", trap, ending))


def list_signal_cases(_: Bash) -> Iterator[Case]:
    """Yield every signal, to the shell and to its process group, during every activity."""
    for state, code in STATES.items():
        for name in SIGNALS:
            for target in TARGETS:
                script = f"""ulimit -c 0
child() {{ "$BASH" -c ': >ready; exec cat over'; }}
. "$SHIM"
record_service_stage_start waiting
{code}
echo survived
record_service_stage_success
"""
                title = f"{name} to the {target} in {state}"
                yield Case(title=title, script=script, signal=f"{name} {target}")


DIMENSIONS: Final[dict[str, Callable[[Bash], Iterator[Case]]]] = {
    "options": list_option_cases,
    "traps": list_trap_cases,
    "signals": list_signal_cases,
}
