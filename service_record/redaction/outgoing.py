"""Takes the secrets out of a whole text that is about to leave, and refuses it where one is left. Pure."""

from io import BytesIO

from service_record.redaction.redactor import Redactor
from service_record.redaction.residual import residual
from service_record.redaction.rules import Rules


class LeakError(Exception):
    """A secret would have left the host."""


def outgoing(data: bytes, rules: Rules) -> bytes:
    """Return the data without secrets. Raises LeakError where one still is in it."""
    redactor = Redactor(rules)
    masked = redactor.feed(data) + redactor.finish()
    refuse_leaks(masked, rules)
    return masked


def outgoing_text(text: str, rules: Rules) -> str:
    """Return the text without secrets. Raises LeakError where one still is in it."""
    return outgoing(text.encode(errors="surrogateescape"), rules).decode(errors="surrogateescape")


def refuse_leaks(data: bytes, rules: Rules) -> None:
    """Raise LeakError where a secret is in what is about to leave."""
    if residual(rules, BytesIO(data)) is not None:
        raise LeakError("a secret of this host would have left it: nothing of that was sent")
