"""Replace the secrets of a line by masks, so that valid JSON stays valid. Pure."""

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from service_record.redaction.json_documents import clip_to_strings, find_documents
from service_record.redaction.prefixes import prefix_end
from service_record.redaction.random_words import CREDENTIAL
from service_record.redaction.types import Found, mask

Mask: TypeAlias = tuple[int, int, str, bytes]
"""Start, end and kind of a secret in a line, and what replaces it."""
MaskedLine: TypeAlias = tuple[int, int, Sequence[Mask]]
"""Start and end of a line in a text, and its masks."""

_NUMBER: Final = b"0123456789.eE+-"


def clip_and_merge(line: bytes, found: Iterable[Found]) -> list[Found]:
    """Return the spans to mask in a line, sorted and disjoint, clipped so that JSON stays valid.

    Overlapping secrets become one span with the kind of the first. Of equal ones, a kind that a rule names
    says more than that of a random word.
    """
    start = prefix_end(line)
    text = line[start:]  # the reader has parsed the same text
    documents = [document for document in find_documents(text) if document.is_complete]
    parts = sorted(
        (
            (start + first, start + last, kind)
            for begin, end, kind in found
            for first, last in clip_to_strings(text, documents, begin - start, end - start)
        ),
        key=lambda each: (each[0], -each[1], each[2] == CREDENTIAL),
    )
    in_order: list[Found] = []
    for first, last, kind in parts:
        if in_order and first < in_order[-1][1]:
            in_order[-1] = (in_order[-1][0], max(last, in_order[-1][1]), in_order[-1][2])
        elif first < last:
            in_order.append((first, last, kind))
    return in_order


def number_quote(line: bytes, start: int, end: int) -> bytes:
    """Return the quote to put around a mask that replaces a JSON number: the quote around the number's key.

    Returns an empty string if the value is not a number, true, false or null in JSON.
    """
    if line[start:end].strip(_NUMBER) and line[start:end] not in (b"true", b"false", b"null"):
        return b""
    head = line[max(0, start - 64) : start].rstrip(b" \t")
    if head.endswith(b'":'):
        name = head[:-2]
        return name[len(name.rstrip(b"\\")) :] + b'"'
    is_item = head.endswith((b"[", b",")) and line[end : end + 1] in (b",", b"]")
    return b'"' if is_item else b""


def make_masks(line: bytes, secrets: Sequence[Found], *, keeps_length: bool = False) -> list[Mask]:
    """Return the masks of a line's secrets. With `keeps_length`, no mask is longer than its secret.

    The masks are equal for lines that differ only in digits.
    """
    masks: list[Mask] = []
    for start, end, kind in secrets:
        quote = number_quote(line, start, end)
        cover = quote + mask(kind.lstrip("+")) + quote
        if keeps_length and len(cover) > end - start:
            cover = _short_mask(quote, end - start)
        masks.append((start, end, kind, cover))
    return masks


def _short_mask(quote: bytes, size: int) -> bytes:
    stars = size - 2 * len(quote)
    if stars > 0:
        return quote + b"***"[:stars] + quote
    return b"0" if quote else b"*" * size


def mask_lines(text: bytes, lines: Iterable[MaskedLine]) -> tuple[bytes, list[tuple[int, int]]]:
    """Return the text with these lines masked, and the ranges of the lines in it.

    The lines are in order. Neighbouring lines are one range.
    """
    pieces: list[bytes] = []
    ranges: list[tuple[int, int]] = []
    position = shift = first = 0
    last = -2
    for start, end, masks in lines:
        if start > last + 1:
            ranges.append((first, last + shift))
            first = start + shift
        for begin, stop, _, cover in masks:
            pieces += text[position : start + begin], cover
            position = start + stop
            shift += len(cover) - stop + begin
        last = end
    ranges.append((first, last + shift))
    pieces.append(text[position:])
    return b"".join(pieces), ranges[1:]
