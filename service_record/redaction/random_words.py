"""Find random words that may be credentials. Pure.

No name says that these words are secret, only their letters. A random word is masked unless its place says
that it is evidence.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import Final

from service_record.redaction import secret_names, types
from service_record.redaction.ordinary_words import RANDOM, is_random_word, split_words
from service_record.redaction.prefixes import prefix_end
from service_record.redaction.types import Found, is_in_mask

ADDRESS: Final = re.compile(rb"[A-Za-z0-9_.+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+")
_MAX_NAME_BYTES: Final = 64
CREDENTIAL: Final = "credential"
"""The kind of a random word."""
_MIX: Final = (
    rb"(?:[a-z][0-9]{1,4}[A-Z]|[A-Z][0-9]{1,4}[a-z]|[0-9][a-z]{1,4}[A-Z]|[0-9][A-Z]{1,4}[a-z]"
    rb"|[a-z][A-Z]{1,4}[0-9]|[A-Z][a-z]{1,4}[0-9])"
)
SCRAMBLED: Final = _MIX + rb"[A-Za-z0-9]{4}|[A-Za-z0-9]{4}" + _MIX
"""Matches in 99 % of all random words of 12 letters and digits, and in one of a hundred lines of logs."""
SIGNED: Final = rb"[0-9][!#$^*?]+(?:[\s\"'`,;)\\<&%]|$)|[a-z][!$^*?][0-9]"
"""Matches in passwords that people make up of a word, a number and a sign, and seldom in logs."""
_SIGNED_WORD: Final = re.compile(
    rb"""(?:^|(?<=[\s"'`=:,(%]))[A-Za-z0-9!#$^*?+~_.@-]{8,}(?=["'`,;)\\<&]|\s*\Z|(?<![!?])\s)"""
)
"""A sign before a blank and another word is punctuation."""
_HAS_SIGNED: Final = types.Finder(b"(?m)" + SIGNED)
_SCRAMBLED_WORD: Final = re.compile(
    rb"""(?:^|(?<=[\0-\x20"'`=:,%>(\[{|@;/]))(?:(?<=["'])-|_(?![ZR]))?"""
    rb"""[A-Za-z0-9!#$%^*+~?][A-Za-z0-9!#$%^*+~?_./-]{6,}[A-Za-z0-9!#$%^*+~?_-]={0,2}"""
    rb"""(?=[\0-\x20"'`,;)\]}<&@|\\]|/>|[.]?(?:\s|\Z))"""
)
"""`_Z` and `_R` begin the names of functions of C++ and Rust."""
_ESCAPE_OR_MESSAGE_ID: Final = re.compile(rb"#(?:0[0-3][0-7]|177)|<[^<>\s:@/]+@[A-Za-z0-9.-]+>")
"""Matches an escape of syslog (`#011`), and the message ID of a mail (`<...@host>`), often random."""
_LOOK_AHEAD_BYTES: Final = 4
"""At most `==` and `. ` follow a word."""
_STRING_PREFIX: Final = re.compile(rb"""(?<![A-Za-z0-9])[bru]{1,2}["']\Z""")
"""Matches the prefix and the quote of a string in Python: `parent_id=u'`."""
BEFORE_VALUES: Final = b" \t\r\"'`>)]:=?,({-"
"""The characters between a name and its value."""
_AROUND_DATA: Final = b" \t\r\"'*#>|,;\\{}/"
"""A word with only these characters around it in its line is part of an encoded text."""
_ENDS_OF_WORDS: Final = re.compile(rb"""[\0-\x20"'`=,(\[{|;<>]""")
_PARTS: Final = (
    rb"[\\%\x1b]|\"'\"|&(?:#|[a-z]{2,5};)|#(?:0[0-3][0-7]|177)|\^[\[IMJ]"
    rb"|[?&][A-Za-z0-9_.\[\]-]+=[^\s&\"'<>#]*\+|[\[{][ \t]*[\"'{\[]|EXECVE"
)
"""Matches in each line with escapes, JSON or texts that `quoted_parts` finds."""
_HAS_PARTS: Final = types.Finder(_PARTS)
_REST_OF_JSON: Final = (b'"', b"}", b"]")
"""The first character of a line that continues the JSON of the lines above."""
_USER: Final = re.compile(rb"[a-z][a-z0-9_.-]{2,31}/(?![^/]*[/+=])")


_MIN_BASE64_BYTES: Final = 24
"""A word of this size after a slash is base64 that begins with it. A shorter one is a path."""


def may_have_random_word(line: bytes) -> bool:
    """Return True if a line may have a random word that is secret.

    Escapes and JSON contain texts of their own, which only reading the line finds.
    """
    if not _possible_words(line) and _HAS_SIGNED.find(line) is None:
        return False
    text = line[prefix_end(line) :]
    if _HAS_PARTS.find(line) is not None or text.lstrip(b" \t").startswith(_REST_OF_JSON):
        return True
    return next(find_random_words(text), None) is not None


def find_random_words(text: bytes) -> Iterator[Found]:
    """Yield the words of random letters and digits, and the passwords that people make up of a word, digits
    and a sign.

    Such words are rare in logs, except digests, paths and the like, which their places reveal.
    """
    text = _ESCAPE_OR_MESSAGE_ID.sub(lambda each: b"," * len(each[0]), text)
    words = [
        span
        for first, last in _possible_words(text)
        # Not the rest of the line, but as much of it as the pattern looks ahead.
        for word in _SCRAMBLED_WORD.finditer(text, first, last + _LOOK_AHEAD_BYTES)
        for span in _without_user(word)
    ]
    if _HAS_SIGNED.find(text) is not None:
        signed = (word for word in _SIGNED_WORD.finditer(text) if RANDOM(word[0]))
        words += [word.span() for word in signed if ADDRESS.fullmatch(word[0]) is None]
        words.sort()
    for start, end in words:
        before = text[max(0, start - _MAX_NAME_BYTES) : start]
        head = _ENDS_OF_WORDS.split(before)[-1]
        is_path = head.endswith((b"::", b"/")) and _USER.fullmatch(head) is None and head != b"/"
        is_path |= not head.endswith(b":") and head.startswith((b"/", b".", b"~"))
        is_path &= head != b"/" or end - start < _MIN_BASE64_BYTES
        first = start - len(head) if head.endswith(b"/") else start
        is_data = not text[:first].strip(_AROUND_DATA) and not text[end:].strip(_AROUND_DATA)
        name = before.removesuffix(head) if head.endswith(b"/") else before
        if not (is_path or is_data or is_in_mask(text, start) or is_after_evidence(name)):
            yield start, end, CREDENTIAL


def _without_user(word: re.Match[bytes]) -> list[tuple[int, int]]:
    """Return the span of a random word, without the user in `USER/PASSWORD`; no span for other words."""
    user = _USER.match(word[0])
    if user is not None and RANDOM(word[0][user.end() :]):
        return [(word.start() + user.end(), word.end())]
    return [word.span()] if RANDOM(word[0]) else []


def is_credential(name: bytes, value: bytes) -> bool:
    """Return True if a value in JSON is a random word, and its name is not that of evidence."""
    return (
        _SCRAMBLED_WORD.fullmatch(value.removeprefix(b"-")) is not None
        and RANDOM(value)
        and not secret_names.is_evidence(name, is_assigned=True)
    )


def is_after_evidence(before: bytes) -> bool:
    """Return True if a random value after this text is evidence by its name, the last words of the text."""
    name = _STRING_PREFIX.sub(b"", before).rstrip(BEFORE_VALUES)
    return secret_names.is_evidence(name, is_assigned=any(sign in before[len(name) :] for sign in b"=:>"))


def _possible_words(text: bytes) -> Sequence[tuple[int, int]]:
    """Return the spans of the runs of signs of words in which a random word may be, in order.

    The escapes in a run may hide a word, so a run with the beginning of an escape is among them. The lines
    and the words of logs repeat, and most are found among the remembered ones, so this takes a tenth of the
    time of a regular expression for words.
    """
    spaced = text.translate(_SPACES_BETWEEN_WORDS)
    return _find_possible(spaced) if len(text) > _MAX_LINE_BYTES else _remember_possible(spaced)


def _find_possible(spaced: bytes) -> Sequence[tuple[int, int]]:
    possible: set[bytes] = set()
    for word in set(spaced.split()) - _ORDINARY:
        if len(word) <= _MAX_WORD_BYTES and _is_ordinary(word):
            if len(_ORDINARY) >= _MAX_REMEMBERED_WORDS:
                _ORDINARY.clear()
            _ORDINARY.add(word)
        else:
            possible.add(word)
    if not possible:
        return ()
    spans: list[tuple[int, int]] = []
    padded = b" " + spaced + b" "  # an offset of a blank here is that of the word after it in `spaced`
    end = 0
    for word in spaced.split():
        if word in possible:
            start = padded.index(b" " + word + b" ", end)
            end = start + len(word)
            spans.append((start, end))
    return spans


_remember_possible: Final = lru_cache(maxsize=1 << 10)(_find_possible)


@lru_cache(maxsize=1 << 12)
def _is_ordinary(word: bytes) -> bool:
    """Return True if no part of a word is random, whatever its digits are."""
    if _PART_OF_ESCAPE.search(word):
        return False
    # A sign belongs to a password; but in a parameter of a URL, `+` stands for a blank.
    forms = (word, word.replace(b"+", b" ")) if b"+" in word else (word,)
    return not any(map(is_random_word, chain(*map(split_words, forms))))


_ORDINARY: Final[set[bytes]] = set()
"""Remembered words that are not random, with zeros for their digits."""
_MAX_REMEMBERED_WORDS: Final = 1 << 13
_MAX_WORD_BYTES: Final = 128
_MAX_LINE_BYTES: Final = 1 << 10
"""The limits of what is remembered."""
_SIGNS_OF_WORDS: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%^*+~?_./-\\&\x1b"
_SPACES_BETWEEN_WORDS: Final = bytes(
    byte if byte in _SIGNS_OF_WORDS else ord("0") if byte in b"0123456789" else ord(" ")
    for byte in range(256)
)
"""Table for `bytes.translate`. Keeps the signs of words and of escapes, and makes all digits equal."""
_PART_OF_ESCAPE: Final = re.compile(rb"[%&^\x1b]|#000|\\(?![\\A-Zcdg-mopqswyz?])")
"""Matches the beginning of an escape, which may hide the rest of a word."""
