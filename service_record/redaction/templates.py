"""Takes the secrets out of a rendered template of an installer: a kickstart, a preseed. Pure."""

from functools import cache
from typing import Final

from service_record.redaction import engine
from service_record.redaction.faces import mask
from service_record.redaction.outgoing import LeakError, outgoing
from service_record.redaction.rules import Rules

_MASK: Final = mask("password")
# debconf's own line: owner, question, type, value. A password's type is password, or its question says so.
_PRESEED: Final = engine.compiled(
    rb"(?m)^([ \t]*\S+[ \t]+(?:\S+[ \t]+password|\S*passw\S*[ \t]+string)[ \t]+)(\S[^\n]*)"
)


def outgoing_template(data: bytes, rules: Rules) -> bytes:
    """Return the template without secrets. Raises LeakError where one still is in it."""
    return outgoing(_PRESEED.sub(rb"\1" + _MASK, data), rules)


def refuse_template_leaks(data: bytes) -> None:
    """Raise LeakError where a template that came from elsewhere has what a host would have masked."""
    if outgoing_template(data, _shapes()) != data:
        raise LeakError("the template has a secret that is not masked")


@cache
def _shapes() -> Rules:
    """The rules without any exact secret: those of its host only the host knows."""
    return Rules(())
