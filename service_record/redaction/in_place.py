"""Masking lines without changing their lengths, for what is sent by its place in a file. Pure."""

from typing import Final

from service_record.redaction import engine
from service_record.redaction.faces import MASK_BEGIN
from service_record.redaction.redactor import Redactor
from service_record.redaction.rules import Rules

_MASK: Final = engine.compiled(engine.escaped(MASK_BEGIN) + rb"[^<>]*>")
_SHORT: Final = b"***"
"""Shorter than any secret that is masked."""


def masked_in_place(lines: bytes, rules: Rules) -> bytes:
    """Whole lines without their secrets, each as long as before: blanks stand at the end of shorter ones.

    A line in which the masks take more room than the secrets has short ones, and where that is not enough, it
    is masked as a whole.
    """
    redactor = Redactor(rules)
    masked = redactor.feed(lines) + redactor.finish()
    if masked == lines:
        return lines
    pairs = zip(lines.split(b"\n"), masked.split(b"\n"), strict=True)
    return b"\n".join(_fitted(line, changed) for line, changed in pairs)


def _fitted(line: bytes, masked: bytes) -> bytes:
    if len(masked) > len(line):
        masked = _MASK.sub(_SHORT, masked)
    if len(masked) > len(line):
        return b"*" * len(line)
    return masked.ljust(len(line))
