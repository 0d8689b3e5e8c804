"""The redaction rules of a host: its known secrets, and the shapes of unknown ones. Pure."""

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from service_record.redaction.exact import Exact
from service_record.redaction.first_pass import Suspect, patterns
from service_record.redaction.masks import Mask, clip_and_merge
from service_record.redaction.private_keys import OpenKey
from service_record.redaction.reader import LineReader
from service_record.redaction.types import Found, MaskedSpan, Secret
from service_record.redaction.values_below import OpenName

State: TypeAlias = tuple[OpenName | None, OpenKey | None]
"""The name and the secret of several lines that may continue below a line."""
NOTHING_OPEN: Final[State] = (None, None)


class RememberedLines:
    """The masks of lines that have been read.

    Most lines of a log repeat a few messages and differ only in digits. So a line is known by its text with
    zeros for its digits, or by its text alone if its digits matter. Threads may share an object.
    """

    def __init__(self) -> None:
        self.forms: dict[tuple[State, int, bytes], tuple[Sequence[Mask], State]] = {}
        """Lines with zeros for digits. The key is the state above the line, the groups of shapes, and the
        line. The value is the line's masks and the state below it.
        """
        self.texts: dict[tuple[State, int, bytes], tuple[Sequence[Mask], State]] = {}
        """The same of lines as they are."""
        self.harmless: set[bytes] = set()
        """Those of `forms` without secrets that neither affect other lines nor depend on them."""
        self._size = 0

    def add(
        self, line: bytes, groups: int, states: tuple[State, State], masks: Sequence[Mask], *, is_form: bool
    ) -> None:
        """Remember the masks of a line, given its groups of shapes and the states above and below it.

        `is_form`: the line has zeros for its digits.
        """
        if self._size > _MAX_REMEMBERED_BYTES:
            self._size = 0
            for each in (self.forms, self.texts, self.harmless):
                each.clear()
        self._size += len(line)
        above, below = states
        (self.forms if is_form else self.texts)[above, groups, line] = masks, below
        if is_form and not masks and above == below == NOTHING_OPEN:
            self.harmless.add(line)


_MAX_REMEMBERED_BYTES: Final = 1 << 22


class Rules:
    """Finds known and unknown secrets. Compile once; streams and threads may share an object."""

    def __init__(self, secrets: Iterable[Secret] = ()) -> None:
        self._exact = Exact(secrets)
        self._patterns = patterns()
        self._reader = LineReader(_decode_nothing)
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
        return self._patterns.find_groups(text, certain=certain) != 0

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
