"""Checks that distinguish secrets from placeholders, paths, names, digests and prose. Pure.

Each check takes a candidate value and returns True if it is a secret. shapes.toml names the checks of each
shape. The limits are heuristics; the tests run them on known secrets and on ordinary log lines.
"""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import chain
from typing import Final

from service_record.redaction.common_words import is_uncommon_word
from service_record.redaction.encodings import from_base64
from service_record.redaction.randomness import random_bits
from service_record.redaction.system_errors import is_error
from service_record.redaction.types import mask_end

_TOKEN_BYTES: Final = 8
_BODY_BYTES: Final = 12
_CREDENTIAL_BYTES: Final = 3
_KEY_BYTES: Final = frozenset({16, 24, 32, 64})
_BOOTSTRAP_DIGITS: Final = 2
_SESSION_BYTES: Final = 20
_DIGITS: Final = 10
"""The least size of a token of digits alone."""
_RANDOM_LETTERS: Final = 14
_DENSE_BYTES: Final = 16
_DENSE_DIGITS: Final = 2
_UPPER: Final = re.compile(rb"[A-Z]")
_LOWER: Final = re.compile(rb"[a-z]")
_DIGIT: Final = re.compile(rb"[0-9+]")
_ANY_DIGIT: Final = re.compile(rb"[0-9]")
_ANY_LETTER: Final = re.compile(rb"[A-Za-z\xaa\xb5\xba\xc0-\xd6\xd8-\xf6\xf8-\xff]")
_HEX_NUMBER: Final = re.compile(rb"0[xX][0-9A-Fa-f]+,?|[^=]+=0[xX][0-9A-Fa-f]+.*")
_UUID: Final = re.compile(rb"[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}.*")
_TIME: Final = re.compile(rb"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d.*)?,?")
_HEX: Final = re.compile(rb"[0-9A-Fa-f]+")
_PUBLIC: Final = re.compile(
    rb"(?:MII|LS0tLS1CRUdJTi|AAAA[BCEI]|ssh-|ecdsa-|(?i:(?:sha|md)[0-9]+|crio|docker|libpod|overlay|img)[-:_~]).*"
)
"""Matches certificates, public keys, and names of digests and containers, by their prefixes."""
_GLOB: Final = re.compile(rb"^\*|\*\*|\*$")
_PORT: Final = re.compile(rb"\d{1,5}(?:/|$)")
_STRUCTURE: Final = re.compile(rb"[A-Za-z.]{3,}[{(]")
_JOINTS: Final = re.compile(rb"[^A-Za-z0-9]+")
_WORD: Final = re.compile(rb"[A-Z]?[a-z]{3,}(?:[A-Z][a-z]{2,})*|[A-Z]{3,}")

_PLACEHOLDER: Final = re.compile(
    rb"(?i:\*+|!{1,2}|[*x.#_-]{3,}|<[a-z0-9 ._:/-]{0,60}>"
    rb"|[\[(_*]*(?:redacted|masked|hidden|sensitive|filtered|omitted|null|nil|none|unset|empty)[\])_*]*"
    rb"|\$\{?\(?(?:env:)?[a-z_][a-z0-9_]*[)}]?|\$\([^()]*\)|%[a-z]|%\([a-z_]*\)[a-z]|\{\{(?:[^{}]*\}\})?|\{[a-z_.]*\}"
    rb"|true|false|yes|no|n/a|undefined|required|optional|string)"
)
_PROSE: Final = re.compile(
    rb"(?i:a|all|an|and|any|are|as|at|auth|authentication|be|been|but|by|cannot|can't|change|changed|check|could|denied|did|do"
    rb"|does|don't|error|expired|expires?|failed|failure|for|from|has|have|if|in|incorrect|invalid|is|it|its|may"
    rb"|mismatch|missing|must|new|not|of|ok|old|on|or|please|prompt|provided|set|setenv|should|success|that|the|this|to"
    rb"|too|try|unable|unauthenticated|unauthorized|unknown|use|user|using|wait|waiting|was|we|were|when|which|will|with|would|you|your|password|passwd|options?|flags?|arguments?)[.,;:!?)]*"
)
_HEX_NAME: Final = re.compile(rb"\$[0-9A-Fa-f]{24,}")
"""Matches a value that looks like a variable but is too long for one."""
_FILE: Final = re.compile(rb"[A-Za-z0-9_-]+\.(?:htpasswd|json|ya?ml|conf|cfg|txt|pem|crt|key)")
_NAME_SERVICES: Final = re.compile(
    rb"(?:(?:files|db|compat|systemd|altfiles|sss|ldap|nis|winbind|\[[A-Za-z!=]+\])[ \t]*)+"
)
"""Matches the sources of a database in nsswitch.conf(5), such as `passwd: files systemd`."""
_COLUMN_TYPE: Final = re.compile(
    rb"(?i:[a-z]*char|[a-z]*binary|[a-z]*text|[a-z]*blob|bytea)(?:\([0-9]+\)?)?,?"
)
"""Matches the type of a column in SQL, such as `varchar(20)`."""
_WORDS_IN_BRACKETS: Final = re.compile(
    rb"\[[ \t]*[A-Z]?[a-z]+(?:(?:,[ \t]*|[ \t]+)[a-z]+){0,15}[.!]?[ \t]*\]"
)
"""Matches a hint or a list of plain words, such as `passwords: [see below]`."""
_PATH: Final = re.compile(
    rb"(?:file:(?://)?|\.)?/(?:bin|boot|dev|etc|home|lib|mnt|opt|proc|root|run|sbin|srv|sys|tmp|usr|var)(?:/.*)?|[A-Za-z]:\\.*"
    rb"|(?:[a-z]{3,}/){3}.*"
)


def is_not_mask(value: bytes) -> bool:
    """Accept everything except a mask. The pattern alone proves a secret."""
    return not mask_end(value)


def is_random(value: bytes) -> bool:
    """Accept text with letters of both cases and a digit or `+`, as base64 has. Reject hexadecimal."""
    return all(pattern.search(value) for pattern in (_UPPER, _LOWER, _DIGIT))


def is_value(value: bytes) -> bool:
    """Accept everything except masks, placeholders, file paths, opening brackets and marks of YAML blocks."""
    bare = value.strip(b" \t\r\n\0\"'\\")
    if not bare.strip(b"[{|>") or mask_end(bare):
        return False
    if _PLACEHOLDER.fullmatch(bare.rstrip(b",;")):
        is_random_in_marks = bare.startswith((b"<", b"$")) and is_shuffled(bare.strip(b"<>$"))
        return is_random_in_marks or _HEX_NAME.fullmatch(bare) is not None
    return not _PATH.fullmatch(bare)


def is_password(value: bytes) -> bool:
    """Like `is_value`, and reject prose (`password: incorrect`), types of SQL, and `passwd: files`."""
    if any(each.fullmatch(value) for each in (_NAME_SERVICES, _FILE, _WORDS_IN_BRACKETS, _COLUMN_TYPE)):
        return False
    return is_value(value) and not _PROSE.fullmatch(value.partition(b" ")[0])


def is_sentence(value: bytes) -> bool:
    """Return True for an error message, and for several words that look like prose."""
    if is_error(value):
        return True
    words = value.split()
    if len(words) <= 1:
        return False
    if any(_PROSE.fullmatch(word) for word in words):
        return True
    return all(word.strip(b".,;:!?()'\"-").isalpha() for word in words) and (
        words[0].istitle() and words[1].islower()
    )


def is_password_and_no_path(value: bytes) -> bool:
    """Like `is_password`, and reject all paths, for names that passwords and directories share."""
    if value.startswith((b"/", b"~")) and not _has_signs(value[1:]):
        return is_shuffled(value) and value.rfind(b"/") <= 0
    return is_password(value)


def is_credential_word(value: bytes) -> bool:
    """Accept random letters and uncommon words. For names that only keys and tokens have."""
    if not value.isalpha() or not is_password(value):
        return False
    return _has_bits(value, _BITS_AFTER_NAME_OF_KEY) or is_uncommon_word(value)


def is_small_words(value: bytes) -> bool:
    """Accept small letters and hyphens: `ribbon-pencil`. Reject names of objects and variables.

    Such a name mostly says what it is: `next_token`, `kubernetes-ca-bundle`.
    """
    return _SMALL_WORDS.fullmatch(value) is not None and is_password(value) and not _NAMED_THING.search(value)


_SMALL_WORDS: Final = re.compile(rb"[a-z][a-z-]{7,}")
_NAMED_THING: Final = re.compile(
    rb"secret|token|key|cred|auth|pass|cert|bundle|config|tls|admin|service|name|store|value|file|string|valid"
)


def _has_bits(word: bytes, least: float) -> bool:
    """Return True if a word is long enough to be judged, and at least so much more likely to be random."""
    return len(word) >= _TOKEN_BYTES and random_bits(word) >= least


_BITS_AFTER_NAME_OF_KEY: Final = 4
"""Is true of 99 % of 12 random letters, and of one in ten words of logs."""
_BITS_AFTER_NAME: Final = 8
_BITS_WITHOUT_NAME: Final = 10
"""Is true of 98 % of 12 random letters and digits. Names such as `Slf4jLog` have 9 bits."""


def is_not_plain_word(value: bytes) -> bool:
    """Like `is_password`, and reject common words and short ones. For passwords in sentences."""
    word = value.rstrip(b".,;:!?)")
    is_plain = word.isalpha() and (word.islower() or word.istitle())
    return is_password(value) and (not is_plain or is_uncommon_word(word))


def is_token_or_word(value: bytes) -> bool:
    """Like `is_token`, and accept uncommon words. For names before `=` and `:`."""
    return is_token(value) or is_uncommon_word(value)


def is_flag_value(value: bytes) -> bool:
    """Like `is_password`, and reject the next option of a command."""
    return is_password(value) and not _is_option(value)


def is_argument(value: bytes) -> bool:
    """Accept random values, and letters of both cases with digits. For arguments that may be names."""
    return is_flag_value(value) and (_is_mix(value) or is_token(value))


def is_quoted_flag_value(value: bytes) -> bool:
    """Like `is_flag_value`, for quoted values: they are not prose, and may begin with a hyphen."""
    return is_value(value) and not _is_option(value)


def _is_option(value: bytes) -> bool:
    return _OPTION.fullmatch(value) is not None and not is_scrambled(value)


_OPTION: Final = re.compile(rb"--?[A-Za-z0-9][A-Za-z0-9_.-]*(?:[=|,:].*)?|-+")


def is_userinfo(value: bytes) -> bool:
    """Like `is_value`, and reject the port of a URL without userinfo whose path contains an @."""
    return is_value(value) and not _PORT.match(value)


def is_cookie(value: bytes) -> bool:
    """Like `is_value`, and reject hexadecimal numbers, such as the cookie of a network flow."""
    return is_value(value) and not _HEX_NUMBER.fullmatch(value)


def is_session(value: bytes) -> bool:
    """Accept the long random key of a web session; reject numbers and UUIDs."""
    return (
        len(value) >= _SESSION_BYTES
        and is_token(value)
        and not _HEX_NUMBER.fullmatch(value)
        and not _UUID.fullmatch(value)
    )


def is_body(value: bytes) -> bool:
    """Like `is_value`, and reject short values."""
    return len(value) >= _BODY_BYTES and is_value(value)


def is_token(value: bytes) -> bool:
    """Accept letters mixed with digits, long numbers, random letters and JSON; reject words and names."""
    value = value.strip(b" \t\r\n\0")
    if not is_value(value):
        return False
    if value.lstrip(b"\\\"' ").startswith(b"{"):
        return bool(value.strip(b"\\\"' {["))  # a lone bracket opens a block of source code
    if (
        len(value) < _TOKEN_BYTES
        or _GLOB.search(value)
        or _HEX_NUMBER.fullmatch(value)
        or _TIME.fullmatch(value.strip(b"[]()"))
    ):
        return False
    has_digit = _ANY_DIGIT.search(value)
    if has_digit:
        is_mixed = _ANY_LETTER.search(value) and not _is_name(value) and not _STRUCTURE.match(value)
        return bool(is_mixed) or (len(value) >= _DIGITS and value.isdigit()) or is_password_like(value)
    letters = b"".join(_LETTER.findall(value))
    if _is_random_word(value) or _is_disordered(letters):
        return True
    return _INNER_SIGN.search(value) is not None and is_credential_word(letters)


def is_password_like(value: bytes) -> bool:
    """Accept letters of both cases, digits and a sign that names do not have: `Winter@2026`."""
    is_mix = _is_mix(value) and _PASSWORD_SIGN.search(value) is not None
    return is_mix and _NO_SECRET_WORD.search(value) is None and _OBJECT.fullmatch(value) is None


_OBJECT: Final = re.compile(rb"[a-z][A-Za-z0-9_]*(?:\.[A-Za-z0-9_$]+)+@[0-9a-f]+")
"""Matches how Java prints an object: `android.os.BinderProxy@2bd79ce`."""


_LETTER: Final = re.compile(rb"[A-Za-z]+")
_INNER_SIGN: Final = re.compile(rb"[A-Za-z][!#$%&*+?^~]+[A-Za-z]")
"""Matches a sign that names and sentences do not have within a word."""


def is_random_value(value: bytes) -> bool:
    """Accept only random values. For names that are also words of prose."""
    return is_token(value) and is_password(value) and not _UUID.fullmatch(value)


def is_password_without_separator(value: bytes) -> bool:
    """Accept random values, and other words of letters and signs or digits in random order.

    For words after a name without `=` or `:`, where prose is more likely than a value.
    """
    if _NO_SECRET_WORD.search(value):
        return False
    return is_random_value(value) or (_has_signs(value) and is_password(value))


def _has_signs(value: bytes) -> bool:
    """Return True for a sign that names and paths do not have, and two other classes of characters."""
    classes = sum(pattern.search(value) is not None for pattern in (_UPPER, _LOWER, _ANY_DIGIT, _SIGN))
    return len(value) >= _TOKEN_BYTES and classes >= _MIN_CLASSES and _SIGN.search(value) is not None


def is_disordered(value: bytes) -> bool:
    """Accept random letters, and words of letters, digits and signs. Reject names, versions and digests.

    For places where a password may be, but also other words.
    """
    if len(value) < _TOKEN_BYTES or _NO_SECRET_WORD.search(value) or not is_password(value):
        return False
    if value.isalpha():
        return _is_disordered(value) or is_credential_word(value)
    return is_scrambled(value) or (
        _PASSWORD_SIGN.search(value) is not None
        and sum(pattern.search(value) is not None for pattern in (_UPPER, _LOWER, _ANY_DIGIT)) > 1
    )


_PASSWORD_SIGN: Final = re.compile(rb"[!#$%^*?@&~]")


def is_disordered_or_phrase(value: bytes) -> bool:
    """Like `is_disordered`, and accept hexadecimal, a word with digits, and several words with hyphens."""
    is_text = not _NO_SECRET_WORD.search(value) and is_flag_value(value)
    return is_text and (
        _is_mix(value)
        or is_disordered(value)
        or is_password_without_separator(value)
        or _PHRASE.fullmatch(value) is not None
    )


def _is_mix(value: bytes) -> bool:
    """Return True for a text with letters of both cases and a digit."""
    return all(pattern.search(value) for pattern in (_UPPER, _LOWER, _ANY_DIGIT))


_PHRASE: Final = re.compile(rb"[A-Za-z]{3,}(?:-[A-Za-z]{3,}){2,}")

_MIN_CLASSES: Final = 3
_SIGN: Final = re.compile(rb"[^A-Za-z0-9\s_./:,'-]")
_NO_SECRET_WORD: Final = re.compile(
    rb"^--?[A-Za-z][A-Za-z0-9-]*$|^[\[{(]?[A-Za-z_.]{3,}[({=|\[]|^[a-z0-9_.-]+(?:/[a-z0-9_.-]+)+(?:[:@][A-Za-z0-9_.:-]+)?$"
    rb"|[A-Za-z0-9]\(\)|://|\s|%[0-9A-F][0-9A-F]|&#?[A-Za-z0-9]+;|\$[({]?[A-Za-z_]{4}"
)
"""Matches options, calls, assignments, types, paths, variables, entities of HTML and URLs."""


def is_no_name(value: bytes) -> bool:
    """Accept random values. Reject names, such as `postgres-password1`, and settings.

    For values of names that rarely have a secret: `passwordKey` of Helm, and entries of a map `secrets`.
    """
    if _NO_SECRET_WORD.search(value) or not is_value(value):
        return False
    is_mixed_with_signs = _SIGN.search(value) is not None and is_password_without_separator(value)
    return is_shuffled(value) or is_sole_value(value) or is_mixed_with_signs


def is_mixed(value: bytes) -> bool:
    """Accept keys; reject identifiers and digests with the same prefix.

    A key has digits or random letters, and is not a hexadecimal number.
    """
    return (
        is_not_mask(value)
        and not _is_name(value)
        and not _HEX.fullmatch(value)
        and (_ANY_DIGIT.search(value) is not None or _is_random_word(value))
    )


def is_dense(value: bytes) -> bool:
    """Accept a long run of random letters and digits. Reject names, hosts and versions."""
    if not is_value(value) or _PUBLIC.fullmatch(value) or _UUID.fullmatch(value):
        return False
    longest = max(_JOINTS.split(value), key=len)
    digits = len(_ANY_DIGIT.findall(longest))
    if len(longest) < _DENSE_BYTES or not _DENSE_DIGITS <= digits < len(longest):
        return False
    return _HEX.fullmatch(longest) is not None or random_bits(longest) >= _BITS_AFTER_NAME


def is_dense_or_letters(value: bytes) -> bool:
    """Like `is_dense`, and accept random letters alone."""
    return is_dense(value) or (value.isalpha() and is_sole_value(value))


def is_dense_and_no_digest(value: bytes) -> bool:
    """Like `is_dense`, and reject hexadecimal, and base64 of text, such as encoded names of keys."""
    return is_dense(value) and not _HEX.fullmatch(value) and not _is_text(from_base64(value))


def _is_text(data: bytes) -> bool:
    return bool(data) and data.isascii() and data.translate(None, b"\t\n\r").decode().isprintable()


def is_prefixed(value: bytes) -> bool:
    """Accept the part of a token after its service's prefix. Reject identifiers, which are made of words."""
    return is_shuffled(value) and is_dense_and_no_digest(value)


def is_shuffled(value: bytes) -> bool:
    """Accept random letters and digits. Reject names such as `DataSourceEc2`."""
    return _is_mixed_up(max(_JOINTS.split(value), key=len))


def is_scrambled(value: bytes) -> bool:
    """Accept a word of letters of both cases and digits in random order, whatever its name is.

    It accepts 98 % of all random words of 12 letters and digits.
    """
    # Most words of logs have no digit or no capital, and those that have both repeat.
    if not is_random(value):
        return False
    return _is_scrambled(value) if len(value) > _MAX_WORD_BYTES else _remember_scrambled(value)


def _is_scrambled(value: bytes) -> bool:
    if _PERCENT.search(value) or _PUBLIC.fullmatch(value) or _HEX_NUMBER.fullmatch(value):
        return False
    word = max(_SIGNS_IN_WORDS.split(_SIGNS_OF_PASSWORDS.sub(b"", value)), key=len)
    is_disordered = _is_mixed_up(word)
    plain = from_base64(value) if is_disordered else b""
    # A token of base64 with JSON in it, as of cloudflared, is as random as a word in it.
    return is_disordered and (not _is_text(plain) or any(map(is_scrambled, _BASE64_WORD.findall(plain))))


_remember_scrambled: Final = lru_cache(maxsize=1 << 12)(_is_scrambled)


def possible_scrambled_words(text: bytes) -> Sequence[tuple[int, int]]:
    """Return the spans of the runs of signs of words in which `is_scrambled` may accept a word, in order.

    The escapes in a run may hide a word, so a run with the beginning of an escape is among them. The lines
    and the words of logs repeat, and most are found among the remembered ones, so this takes a tenth of the
    time of a regular expression for words.
    """
    spaced = text.translate(_SPACES_BETWEEN_WORDS)
    spans = _find_possible(spaced) if len(text) > _MAX_LINE_BYTES else _remember_possible(spaced)
    # Addresses of memory look random. Their first digit must be a zero.
    return [span for span in spans if not _HEX_NUMBER.fullmatch(text, *span)]


def _find_possible(spaced: bytes) -> Sequence[tuple[int, int]]:
    possible: set[bytes] = set()
    for word in set(spaced.split()) - _NEVER_SCRAMBLED:
        if len(word) <= _MAX_WORD_BYTES and _is_never_scrambled(word):
            if len(_NEVER_SCRAMBLED) >= _MAX_REMEMBERED_WORDS:
                _NEVER_SCRAMBLED.clear()
            _NEVER_SCRAMBLED.add(word)
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
def _is_never_scrambled(word: bytes) -> bool:
    """Return True if no part of a word is scrambled, whatever its digits are."""
    if _PART_OF_ESCAPE.search(word):
        return False
    # A sign belongs to a password; but in a parameter of a URL, `+` stands for a blank.
    forms = (word, word.replace(b"+", b" ")) if b"+" in word else (word,)
    pieces = chain(*(_SIGNS_IN_WORDS.split(_SIGNS_OF_PASSWORDS.sub(b"", form)) for form in forms))
    return not any(map(_is_mixed_up, pieces))


def _is_mixed_up(word: bytes) -> bool:
    """Return True for letters of both cases and digits in random order.

    Numbers with letters between them, as in paths of SVG and some IDs, are not among them.
    """
    is_number = 5 * len(_ANY_DIGIT.findall(word)) >= 3 * len(word)
    return is_random(word) and not is_number and _has_bits(word, _BITS_WITHOUT_NAME)


_NEVER_SCRAMBLED: Final[set[bytes]] = set()
"""Remembered words that are never scrambled, with zeros for their digits."""
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
_BASE64_WORD: Final = re.compile(rb"[A-Za-z0-9+/]{20,}")
_PERCENT: Final = re.compile(rb"%[0-9A-Fa-f]{2}")
_SIGNS_OF_PASSWORDS: Final = re.compile(rb"[!#$%^*+~?=]")
_SIGNS_IN_WORDS: Final = re.compile(rb"[^A-Za-z0-9]+")


def is_sole_value(value: bytes) -> bool:
    """Accept random letters and digits. For texts that are only a name and a value."""
    if not is_value(value) or _PUBLIC.fullmatch(value) or _UUID.fullmatch(value) or _TIME.fullmatch(value):
        return False
    pieces = [piece for piece in _JOINTS.split(value) if piece]
    longest = max(pieces, key=len, default=b"")
    if longest.isalpha():
        return len(longest) >= _DENSE_BYTES and is_password(longest) and _has_bits(longest, _BITS_AFTER_NAME)
    if len(longest) < _DENSE_BYTES:
        return len(pieces) >= _MIN_GROUPS and all(
            len(piece) >= _GROUP_BYTES and piece.isalnum() and not piece.isalpha() for piece in pieces
        )
    if longest.isdigit():
        return len(longest) >= _MIN_DIGITS_ALONE
    return random_bits(longest) >= _BITS_AFTER_NAME_OF_KEY


_MIN_GROUPS: Final = 3
_MIN_DIGITS_ALONE: Final = 24
"""The least size of digits alone. Times and other numbers are shorter."""
_GROUP_BYTES: Final = 4


def is_sole_value_or_uuid(value: bytes) -> bool:
    """Like `is_sole_value`, and accept a UUID. For names in capitals or in camel case."""
    return is_sole_value(value) or _UUID.fullmatch(value) is not None


def is_registry_auth(value: bytes) -> bool:
    """Accept base64 of `user:password`, and other random tokens."""
    return is_credential(value) or is_dense(value)


def _is_name(value: bytes) -> bool:
    """Return True if at least half of it is words: `default-dockercfg-x7k2p`, `openshift-etcd/etcd-peer`."""
    pieces = _JOINTS.split(value)
    words = sum(len(piece) for piece in pieces if _WORD.fullmatch(piece))
    return len(pieces) > 1 and 2 * words >= sum(map(len, pieces))


def _is_random_word(value: bytes) -> bool:
    """Return True for many random letters, after a prefix such as `sk_`."""
    letters = value.rpartition(b"_")[2]
    return len(letters) >= _RANDOM_LETTERS and letters.isalpha() and _has_bits(letters, _BITS_WITHOUT_NAME)


def _is_disordered(letters: bytes) -> bool:
    """Return True for letters of both cases in random order. Names in camel case are not."""
    is_mixed_case = not (letters.islower() or letters.isupper() or letters.istitle())
    return is_mixed_case and _has_bits(letters, _BITS_AFTER_NAME)


def is_pin(value: bytes) -> bool:
    """Accept a number of 4 to 12 digits."""
    return value.isdigit() and _LEAST_PIN_DIGITS <= len(value) <= _MOST_PIN_DIGITS


_LEAST_PIN_DIGITS: Final = 4
_MOST_PIN_DIGITS: Final = 12


def is_bootstrap_token(value: bytes) -> bool:
    """Accept `abcdef.0123456789abcdef`: the second half must have both digits and letters."""
    last = value.rpartition(b".")[2]
    digits = len(_ANY_DIGIT.findall(last))
    return _BOOTSTRAP_DIGITS <= digits < len(last)


def is_kubeadmin_password(value: bytes) -> bool:
    """Accept letters and digits in mixed case. The pattern checks the groups of kubeadmin's password."""
    return not value.isupper() and not value.islower() and value != value.title()


def is_credential(value: bytes) -> bool:
    """Accept base64 of `user:password`."""
    plain = from_base64(value)
    return len(plain) >= _CREDENTIAL_BYTES and b":" in plain and plain.isascii()


def is_key(value: bytes) -> bool:
    """Accept base64 of a key for AES or secretbox: 16, 24, 32 or 64 bytes."""
    is_hex = all(byte in b"0123456789abcdef" for byte in value)
    return not is_hex and len(from_base64(value)) in _KEY_BYTES


def find_check(names: str) -> Callable[[bytes], bool]:
    """Return the check with this name. Of several, joined by `or`, one must accept a value."""
    checks: list[Callable[[bytes], bool]] = [globals()[name] for name in names.split(" or ")]
    if len(checks) == 1:
        return checks[0]
    return lambda value: any(check(value) for check in checks)
