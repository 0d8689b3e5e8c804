"""One row of the tables of shapes. Pure."""

from collections.abc import Callable
from dataclasses import dataclass

from service_record.redaction import words


@dataclass(frozen=True, slots=True)
class Shape:
    """One kind of secret, known by its form.

    A pattern of RE2. Its groups are masked; what stands around them is what they are known by, and stays.
    """

    kind: str
    pattern: bytes
    trigger: bytes
    """Matches wherever the pattern can match, in a text with its escapes.

    All triggers are one pattern, so one that counts or waits for the end of a line makes all of them slow.
    """
    check: Callable[[bytes], bool] = words.is_value
    """Tells whether the text of a group is a secret."""
    least: int = 0
    """Shortest secret, in bytes. A count in the pattern costs RE2 a state for each byte."""
    is_certain: bool = False
    """Never legitimate in what leaves a host: shipping is refused for it."""
    is_assigned: bool = False
    """A bare value behind a name: what follows a separator belongs to the next name."""
