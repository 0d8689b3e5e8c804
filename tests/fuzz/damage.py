"""Damage to files: flipped bits, truncation, and removed, repeated, overwritten or inserted parts."""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import TypeAlias

from hypothesis import strategies as st

Damage: TypeAlias = Callable[[bytes], bytes]

_PLACES = st.integers(0, 1 << 16)
_LENGTHS = st.integers(0, 600)
_AWKWARD = [bytes([byte]) for byte in b'\n[]{}"\\,']
_FOREIGN = st.binary(max_size=12) | st.sampled_from(
    [*_AWKWARD, b"\0" * 512, b"\xef\xbb\xbf", b"Nov 21 host: oops\n"]
)


def _cut(place: int) -> Damage:
    return lambda data: data[: place % (len(data) + 1)]


def _flip(place: int, bits: int) -> Damage:
    def flip(data: bytes) -> bytes:
        if not data:
            return data
        at = place % len(data)
        return data[:at] + bytes([data[at] ^ bits]) + data[at + 1 :]

    return flip


def _overwrite(place: int, length: int, with_byte: bytes) -> Damage:
    """Overwrite a part of the data; an empty `with_byte` removes it."""

    def overwrite(data: bytes) -> bytes:
        at = place % (len(data) + 1)
        stretch = data[at : at + length]
        return data[:at] + with_byte * len(stretch) + data[at + length :]

    return overwrite


def _repeat(place: int, length: int) -> Damage:
    def repeat(data: bytes) -> bytes:
        at = place % (len(data) + 1)
        return data[: at + length] + data[at:]

    return repeat


def _insert(place: int, foreign: bytes) -> Damage:
    def insert(data: bytes) -> bytes:
        at = place % (len(data) + 1)
        return data[:at] + foreign + data[at:]

    return insert


def _join_lines(number: int) -> Damage:
    """Remove a newline."""

    def join(data: bytes) -> bytes:
        lines = data.split(b"\n")
        at = number % len(lines)
        return b"\n".join(lines[:at]) + b"\n".join(lines[at:])

    return join


_DAMAGES = st.one_of(
    st.builds(_cut, _PLACES),
    st.builds(_flip, _PLACES, st.integers(1, 255)),
    st.builds(_overwrite, _PLACES, _LENGTHS, st.sampled_from([b"", b"\0", b" "])),
    st.builds(_repeat, _PLACES, _LENGTHS),
    st.builds(_insert, _PLACES, _FOREIGN),
    st.builds(_join_lines, _PLACES),
)


def draw_damaged(read_files: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """Draw contents with up to four damages."""
    return st.builds(_apply, read_files, st.just([]) | st.lists(_DAMAGES, max_size=4))


def _apply(data: bytes, damages: Sequence[Damage]) -> bytes:
    return reduce(lambda content, damage: damage(content), damages, data)
