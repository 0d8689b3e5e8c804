"""Mask the secrets in data that leaves a host; docs/redaction-coverage.md lists what is masked.

Texts, pages and installer templates (kickstart, preseed) are scanned again after masking, and refused if a
secret is left in them. Lines that are shipped by their position in a file keep their lengths.
"""

import html
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib import import_module
from io import BytesIO
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Final

from service_record.redaction import types
from service_record.redaction.host_secrets import HostSecrets, known_secrets
from service_record.redaction.redactor import Redactor
from service_record.redaction.rules import Rules
from service_record.redaction.types import Leak, Redacting, Secret, mask, report

if TYPE_CHECKING:
    from service_record.redaction.leak_scan import UNREADABLE, find_leak

__all__ = [
    "UNREADABLE",
    "HostMask",
    "HostSecrets",
    "Leak",
    "LeakError",
    "Redacting",
    "Redactor",
    "Rules",
    "Secret",
    "find_leak",
    "known_secrets",
    "mask",
    "masked_in_place",
    "outgoing",
    "outgoing_page",
    "outgoing_template",
    "outgoing_text",
    "refuse_leaks",
    "refuse_template_leaks",
    "report",
]


def __getattr__(name: str) -> object:
    """Load the leak scan, which reads archives, when it is first used."""
    if name not in {"UNREADABLE", "find_leak"}:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("service_record.redaction.leak_scan"), name)


class LeakError(Exception):
    """A secret would have left the host."""


def outgoing(data: bytes, rules: Rules) -> bytes:
    """Return the data with its secrets masked. Raises LeakError if a secret is left."""
    redactor = Redactor(rules)
    masked = redactor.feed(data) + redactor.finish()
    refuse_leaks(masked, rules)
    return masked


def outgoing_text(text: str, rules: Rules) -> str:
    """Return the text with its secrets masked. Raises LeakError if a secret is left."""
    return outgoing(text.encode(errors="surrogateescape"), rules).decode(errors="surrogateescape")


def outgoing_page(page: str, rules: Rules) -> str:
    """Return an HTML page with its secrets masked. Raises LeakError if a secret is left.

    Each text and each attribute value is masked separately, so that masks leave the markup intact.
    """

    def mask_text(match: re.Match[str]) -> str:
        text = html.unescape(match[0])
        redactor = Redactor(rules)
        data = redactor.feed(text.encode(errors="surrogateescape")) + redactor.finish()
        without = data.decode(errors="surrogateescape")
        return match[0] if without == text else html.escape(without)

    page = _TEXTS.sub(mask_text, page)
    refuse_leaks(page.encode(errors="surrogateescape"), rules)
    return page


_TEXTS: Final = re.compile(r'(?<![^>])[^<>]+|(?<==")[^"<>]+')
"""Matches texts between tags, and double-quoted values of attributes."""


def refuse_leaks(data: bytes, rules: Rules) -> None:
    """Raise LeakError if the data holds a secret."""
    if _has_leak(data, rules):
        raise LeakError("a secret of this host would have left it: nothing was sent")


def _has_leak(data: bytes, rules: Rules) -> bool:
    if _is_text(data):
        redactor = Redactor(rules, only_certain=True)
        redactor.feed(data)
        redactor.finish()
        return bool(redactor.counts)
    from service_record.redaction.leak_scan import find_leak  # reads archives, too

    return find_leak(rules, BytesIO(data)) is not None


def _is_text(data: bytes) -> bool:
    """Return True if the data is neither an archive nor compressed.

    Archives contain NULs, and gzip, xz and zstd begin with bytes that are not UTF-8.
    """
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return b"\0" not in data and not data.startswith(_BZIP2)


_BZIP2: Final = b"BZh"


def masked_in_place(lines: bytes, rules: Rules) -> bytes:
    """Return whole lines with their secrets masked, each as long as before.

    A line with shorter masks is padded with blanks at its end. A secret that is shorter than its mask becomes
    asterisks. JSON stays valid.
    """
    redactor = Redactor(rules, keeps_length=True)
    masked = redactor.feed(lines) + redactor.finish()
    if masked == lines:
        return lines
    pairs = zip(lines.split(b"\n"), masked.split(b"\n"), strict=True)
    return b"\n".join(changed.ljust(len(line)) for line, changed in pairs)


_TEMPLATE_MASK: Final = mask("password")
# A line of debconf: owner, question, type, value. The type is `password`, or the question contains `passw`.
_PRESEED: Final = types.compile_pattern(
    rb"(?m)^([ \t]*\S+[ \t]+(?:\S+[ \t]+password|\S*passw\S*[ \t]+string)[ \t]+)(\S[^\n]*)"
)


def outgoing_template(data: bytes, rules: Rules) -> bytes:
    """Return the template with its secrets masked. Raises LeakError if a secret is left."""
    return outgoing(_PRESEED.sub(rb"\1" + _TEMPLATE_MASK, data), rules)


def refuse_template_leaks(data: bytes) -> None:
    """Raise LeakError if a template that was rendered elsewhere contains a secret."""
    if outgoing_template(data, _shape_rules()) != data:
        raise LeakError("the template has a secret that is not masked")


@cache
def _shape_rules() -> Rules:
    """Return rules without known secrets. Only the host that a template is for knows those."""
    return Rules(())


_REFRESH_SECONDS: Final = 60.0
"""The time after which the known secrets of a host are read again."""


class HostMask:
    """Masks lines. Reads the known secrets of the host again every minute."""

    def __init__(
        self,
        root: Path,
        environ: Mapping[str, str],
        secrets: Iterable[Secret] = (),
        *,
        now: Callable[[], float] = monotonic,
    ) -> None:
        """Mask `secrets` in addition to those of the host. `now` returns seconds."""
        self._secrets = tuple(secrets)
        self._root = root
        self._environ = environ
        self._now = now
        self._rules: Rules | None = None
        self._read_at = 0.0

    def __call__(self, lines: bytes) -> bytes:
        """Return whole lines with their secrets masked, each as long as before. Raises LeakError."""
        rules = self._current_rules()
        masked = masked_in_place(lines, rules)
        refuse_leaks(masked, rules)
        return masked

    def text(self, text: str) -> str:
        """Return a text with its secrets masked. Raises LeakError if a secret is left."""
        return outgoing_text(text, self._current_rules())

    def _current_rules(self) -> Rules:
        if self._rules is None or self._now() > self._read_at + _REFRESH_SECONDS:
            self._rules = Rules((*known_secrets(self._root, self._environ).secrets, *self._secrets))
            self._read_at = self._now()
        return self._rules
