"""Leaves out long strings of JSON while it is read: JSON of any length needs little memory."""

from typing import Final

_QUOTE: Final = b'"'
_BACKSLASH: Final = ord("\\")


class StringShortener:
    """Empties every string of more than `longest` bytes in JSON that comes in pieces.

    Text that is not JSON stays unchanged, except for text between two distant quotes.
    """

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._is_inside = False
        """True within a string."""
        self._string = bytearray()
        """The string so far; empty once it is too long."""
        self._is_long = False
        self._backslashes = 0
        """The number of them at the end of the string so far: an odd one escapes what comes next."""

    def feed(self, data: bytes) -> bytes:
        """Return what is known of the output after this piece."""
        out = bytearray()
        position = 0
        while position < len(data):
            if not self._is_inside:
                end = data.find(_QUOTE, position) + 1
                out += data[position : end or len(data)]
                position = end or len(data)
                self._is_inside = end > 0
                continue
            end = self._end_of_string(data, position)
            self._keep(data[position : end if end >= 0 else len(data)])
            if end < 0:
                break
            out += self._string + _QUOTE
            self._string.clear()
            self._is_inside, self._is_long, self._backslashes = False, False, 0
            position = end + 1
        return bytes(out)

    def finish(self) -> bytes:
        """Return the string that has no end."""
        return bytes(self._string)

    def _end_of_string(self, data: bytes, start: int) -> int:
        """Return the offset of the quote that ends the string; -1 if it is not in this text."""
        quote = data.find(_QUOTE, start)
        while quote >= 0 and self._trailing_backslashes(data, start, quote) % 2:
            quote = data.find(_QUOTE, quote + 1)
        return quote

    def _trailing_backslashes(self, data: bytes, start: int, end: int) -> int:
        first = end
        while first > start and data[first - 1] == _BACKSLASH:
            first -= 1
        return end - first + (self._backslashes if first == start else 0)

    def _keep(self, part: bytes) -> None:
        self._backslashes = self._trailing_backslashes(part, 0, len(part))
        self._is_long = self._is_long or len(self._string) + len(part) > self._longest
        if self._is_long:
            self._string.clear()
        else:
            self._string += part
