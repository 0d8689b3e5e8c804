"""The shell functions of a snippet, with the values of a host before them."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from itertools import pairwise
from typing import Final

_ENDS_WITHOUT_SEMICOLON: Final = re.compile(r"(?:^|\s)(?:do|then|else|in|\{|\()$|[|&(]$|;;$|^[^()]*\)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """What differs from host to host and from site to site."""

    service: str
    """The name of the record."""
    directory: str = "/var/log/openshift"
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
    is_erb: bool = False

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


def one_line(text: str) -> str:
    """The same shell on one line, without its comments."""
    lines = [line.strip() for line in text.replace("\\\n", " ").split("\n")]
    code = [line for line in lines if line and not line.startswith("#")]
    joined = code[0]
    for before, line in pairwise(code):
        joined += f" {line}" if _ENDS_WITHOUT_SEMICOLON.search(before) else f"; {line}"
    return joined


def _values(values: Values) -> Iterator[str]:
    yield f"service_record_service={values.quoted(values.service)}"
    yield f"service_record_directory={values.quoted(values.directory)}"
    yield f"service_record_action={values.quoted(values.action)}"
    yield f"service_record_ca={values.quoted(values.ca_file)}"
    yield f"service_record_limit={values.limit}"
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


def _printed(values: Values, text: str, expression: str) -> str:
    """The command that prints a text, or what ERB makes of an expression, whatever quotes are in it."""
    if text or not values.is_erb:
        return f"printf '%s' {values.quoted(text)}"
    # Between single quotes of shell; each of its own gets out of them, into double ones, and back.
    return f"""printf '%s' '<%= {expression}.to_s.split("'", -1).join(%q('"'"')) %>'"""
