"""Asks ignition-validate and butane about what is read and written, where they are installed."""

import re
import subprocess
from collections.abc import Iterator, Sequence

from service_record.deploy.ignition.reading import BadConfigError, ConfigFault

_SECONDS = 60.0
_REPORTED = re.compile(r"(error|warning) at \$\.?(\S*?)(?:, line \d+ col \d+)?: (.*)")
_UNKNOWN_VERSION = ("unsupported config version", "No translator exists")
"""Older tools say it of newer configs, which they cannot judge."""


def validate(config: bytes) -> tuple[str, ...]:
    """Return the warnings of ignition-validate, none where it is not installed or does not know the version.

    Raises BadConfigError where it refuses the config.
    """
    return _judge(("ignition-validate", "-"), config)


def validate_butane(config: bytes) -> None:
    """Raise BadConfigError where butane is installed, knows the version, and makes nothing of a config."""
    _judge(("butane", "--strict"), config)


def _judge(command: Sequence[str], config: bytes) -> tuple[str, ...]:
    try:
        done = subprocess.run(command, input=config, capture_output=True, check=False, timeout=_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    output = (done.stderr + done.stdout).decode(errors="replace")
    if any(words in output for words in _UNKNOWN_VERSION):
        return ()
    reported = list(_reported(output))
    if done.returncode != 0:
        errors = tuple(fault for kind, fault in reported if kind == "error")
        why = " ".join(done.stderr.decode(errors="replace").split()) or f"exit status {done.returncode}"
        raise BadConfigError(errors or (ConfigFault("", f"{command[0]}: {why}"),))
    return tuple(f"{fault}; {command[0]} says it" for kind, fault in reported if kind == "warning")


def _reported(output: str) -> Iterator[tuple[str, ConfigFault]]:
    for line in output.splitlines():
        if match := _REPORTED.match(line):
            yield match[1], ConfigFault(re.sub(r"\.(\d+)", r"[\1]", match[2]), match[3])
