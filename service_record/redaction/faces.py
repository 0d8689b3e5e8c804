"""What redaction is given and gives: a secret, something that masks a stream, and what was found where."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

MASK_BEGIN: Final = b"<redacted:"
"""`<` begins a plain word in YAML and needs no escape in JSON; `[` would make a YAML list of the value."""


def mask(kind: str) -> bytes:
    """What stands in the place of a secret: `<redacted:pull-secret>`. No quote and no backslash is in it."""
    return MASK_BEGIN + kind.encode() + b">"


@dataclass(frozen=True, slots=True)
class Secret:
    """One exact secret of a host, as it stands in its file."""

    kind: str
    """Lower case letters, digits and hyphens: `pull-secret`, `kubeadmin-password`."""
    value: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Leak:
    """A secret that would leave the host. The value itself is nowhere in it."""

    kind: str
    place: str
    """Of the member, through the archives around it."""
    line: int
    """Counted from 1; 0 when it is no matter of lines: a member's name, or an archive that cannot be read."""

    def __str__(self) -> str:
        return f"{self.place or 'the stream'}{f':{self.line}' if self.line else ''}: {self.kind}"


class Redacting(Protocol):
    """Masks the secrets of one stream: what `Redactor(rules)` makes, one for each member of a bundle."""

    counts: Counter[str]
    """How many were masked so far, by kind."""

    def feed(self, data: bytes) -> bytes:
        """Take the next bytes, in chunks of any size; give what is ready, which may be nothing."""

    def finish(self) -> bytes:
        """Give what was held back. The stream has ended; nothing is fed after it."""


def report(counts: Iterable[Counter[str]]) -> dict[str, Any]:
    """What redaction.json says of all members together: how many were masked, by kind, and never a value."""
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return {"masked": total.total(), "kinds": dict(sorted(total.items()))}
