"""The redaction rules of a host: its known secrets, and the shapes of unknown ones. Pure."""

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Final

from service_record.redaction.exact import Exact
from service_record.redaction.first_pass import EXACT, Suspect, patterns
from service_record.redaction.masks import Mask, clip_and_merge
from service_record.redaction.over_lines import OpenName
from service_record.redaction.reader import LineReader
from service_record.redaction.types import Found, MaskedSpan, Secret


class RememberedLines:
    """The masks of lines that have been read. A line is known by its text with zeros for its digits.

    Most lines of a log repeat a few messages and differ only in digits. Lines that may contain tokens or
    encoded texts must be equal, because each digit matters there. Threads may share an object.
    """

    def __init__(self) -> None:
        self.masks: dict[tuple[OpenName | None, int, bytes], tuple[Sequence[Mask], OpenName | None]] = {}
        """The key is the open name above the line, the groups of shapes, and the line. The value is the
        line's masks and the open name below it.
        """
        self.harmless: set[bytes] = set()
        """The lines without secrets that neither affect other lines nor depend on them."""

    def add(
        self,
        line: bytes,
        groups: int,
        names: tuple[OpenName | None, OpenName | None],
        masks: Sequence[Mask],
        *,
        is_alone: bool,
    ) -> None:
        """Remember the masks of a line, given its groups of shapes and the open names above and below it.

        `is_alone`: the next line does not change what is secret in this one.
        """
        if len(self.masks) >= _MAX_REMEMBERED_LINES:
            self.masks.clear()
            self.harmless.clear()
        above, below = names
        self.masks[above, groups, line] = masks, below
        if is_alone and not masks and names == (None, None) and not groups & EXACT:
            self.harmless.add(line)


_MAX_REMEMBERED_LINES: Final = 4096


class Rules:
    """Finds known and unknown secrets. Compile once; streams and threads may share an object."""

    def __init__(self, secrets: Iterable[Secret] = ()) -> None:
        self._exact = Exact(secrets)
        self._patterns = patterns()
        self.known = self._exact.find
        """Returns the known secrets in a text of one line."""
        self._reader = LineReader(self.known, _decode_nothing)
        self._remembered: defaultdict[tuple[bool, bool], RememberedLines] = defaultdict(RememberedLines)

    @property
    def left_out(self) -> Counter[str]:
        """Count, by kind, the known secrets beyond the limit. They are not searched for."""
        return self._exact.left_out

    def remembered_lines(self, *, only_certain: bool, keeps_length: bool) -> RememberedLines:
        """Return the lines that streams with these options have read. See `Redactor` for the options."""
        return self._remembered[only_certain, keeps_length]

    def exact_spans(self, text: bytes) -> list[MaskedSpan]:
        """Return the spans of the known secrets in a text of any number of lines."""
        return self._exact.spans(text)

    def is_suspect(self, text: bytes, *, certain: bool = False) -> bool:
        """Return True if a text may hold an unknown secret."""
        return self._patterns.groups_in(text, certain=certain) != 0

    def find_suspects(
        self, text: bytes, *, certain: bool = False, harmless: Container[bytes] = frozenset()
    ) -> list[Suspect]:
        """Return each line that may hold an unknown secret.

        Leaves out `harmless` lines; see `Patterns.find_suspects`.
        """
        return self._patterns.find_suspects(text, certain=certain, harmless=harmless)

    def values(self, text: bytes) -> Iterator[Secret]:
        """Yield the values in a text that look like secrets. Their escapes are kept."""
        for start, end, *_ in self.find_suspects(text):
            line = text[start:end]
            for first, last, kind in clip_and_merge(line, self._reader.secrets(line)):
                yield Secret(kind, line[first:last])


def _decode_nothing(_text: bytes, _depth: int) -> list[Found]:
    return []
