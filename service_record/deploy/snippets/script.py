"""The shell functions of a snippet, with the values of a host before them."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.resources import files
from itertools import pairwise
from typing import Final

_ENDS_WITHOUT_SEMICOLON: Final = re.compile(r"(?:^|\s)(?:do|then|else|in|\{|\()$|[|&(]$|;;$|^[^()]*\)$")
RECORDS: Final = "/var/log/openshift"


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """What differs from host to host and from site to site."""

    service: str
    """The name of the record."""
    root: str = ""
    """Where the installer sees the new system; empty where it runs in it."""
    directory: str = RECORDS
    """Of the records, as the installer sees it."""
    url: str = ""
    """The collector's; empty where it is not known, and then nothing is reported."""
    host: str = ""
    """As the collector is to know it; empty for the name that the host itself has."""
    token_file: str = "/etc/service-record/token"  # noqa: S105  # where it is, not what
    token_parameter: str = ""
    """Of ERB: the host parameter that is the token."""
    ca_file: str = ""
    action: str = "install"
    limit: int = 10
    """Seconds that a report may take."""
    has_first_boot: bool = False
    """Whether the new system reports one more step, after the reboot."""
    is_erb: bool = False
    is_macro: bool = False
    """Whether a template of Foreman passes the service and the directory, as `variables:` of `snippet`."""

    def quoted(self, text: str) -> str:
        """A text of ours as one word of shell, in a template of this language."""
        word = shlex.quote(text)
        return word.replace("<%", "<%%") if self.is_erb else word


def script(values: Values, *parts: str) -> str:
    """The values and functions, as lines of shell; parts are names of files beside this module."""
    return "\n".join([*_values(values), *(part_of(part) for part in ("steps.sh", *parts))])


def part_of(name: str) -> str:
    """A file of shell, without what it tells shellcheck."""
    text = files("service_record.deploy.snippets").joinpath(name).read_text()
    lines = (line for line in text.split("\n") if not line.strip().startswith("# shellcheck"))
    return "\n".join(lines)


def first_boot(values: Values, step: str) -> str:
    """Return a function that leaves a unit on the new system, and with it what that runs at the first boot.

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
    """The same shell on one line, without its comments."""
    lines = [line.strip() for line in text.replace("\\\n", " ").split("\n")]
    code = [line for line in lines if line and not line.startswith("#")]
    joined = code[0]
    for before, line in pairwise(code):
        joined += f" {line}" if _ENDS_WITHOUT_SEMICOLON.search(before) else f"; {line}"
    return joined


def _constants(values: Values) -> Iterator[str]:
    yield f"service_record_service={_variable(values, values.service, 'service')}"
    yield f"service_record_directory={_variable(values, values.directory, 'directory')}"
    yield f"service_record_action={values.quoted(values.action)}"
    yield f"service_record_ca={values.quoted(values.ca_file)}"
    yield f"service_record_limit={values.limit}"


def _values(values: Values) -> Iterator[str]:
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
    """A value in a function: what assigns it would be in the log of a template that traces what it does."""
    yield f"service_record_{name}() {{"
    yield f"  {body}"
    yield "}"


def _variable(values: Values, text: str, name: str) -> str:
    """Return a text as one word of shell; in a macro, the variable of that name takes its place."""
    return _rendered(f"(@{name} || '{text}')") if values.is_macro else values.quoted(text)


def _printed(values: Values, text: str, expression: str) -> str:
    """Return the command that prints a text, or what ERB makes of an expression."""
    word = values.quoted(text) if text or not values.is_erb else _rendered(expression)
    return f"printf '%s' {word}"


def _rendered(expression: str) -> str:
    """Return what ERB makes of an expression as one word of shell.

    It stands between single quotes; each of its own gets out of them, into double ones, and back.
    """
    return f"""'<%= {expression}.to_s.split("'", -1).join(%q('"'"')) %>'"""
