"""Takes the secrets of a host out of lines of its records, as they leave it one after the other."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from time import monotonic
from typing import Final

from service_record.redaction.faces import Secret
from service_record.redaction.in_place import masked_in_place
from service_record.redaction.known import known_secrets
from service_record.redaction.outgoing import LeakError, refuse_leaks
from service_record.redaction.rules import Rules

__all__ = ["HostMask", "LeakError"]

_KNOWN: Final = 60.0
"""Seconds for which the secrets of a host are known."""


class HostMask:
    """Masks lines; which secrets the host has is looked up again each minute."""

    def __init__(self, root: Path, environ: Mapping[str, str], secrets: Iterable[Secret] = ()) -> None:
        """`secrets` are masked beside those of the host."""
        self._secrets = tuple(secrets)
        self._root = root
        self._environ = environ
        self._rules: Rules | None = None
        self._at = 0.0

    def __call__(self, lines: bytes) -> bytes:
        """Whole lines without secrets, of the same length. Raises LeakError where one still is in them."""
        if self._rules is None or monotonic() > self._at + _KNOWN:
            self._rules = Rules((*known_secrets(self._root, self._environ).secrets, *self._secrets))
            self._at = monotonic()
        masked = masked_in_place(lines, self._rules)
        refuse_leaks(masked, self._rules)
        return masked
