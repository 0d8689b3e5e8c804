"""Decide whether a value is a secret: what it is not, how random it is, and what its place asks for. Pure.

`has_weight` measures in bits how much a value looks like a secret. The functions before it recognise other
texts, each of one kind: placeholders, paths, prose, names and so on. A `Level` says for a place how many bits
a value must have at least, and which of the other texts it must not be. shapes.toml names the level of each
shape. The limits are heuristics; the tests run them on known secrets and on ordinary log lines.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from service_record.redaction.common_words import is_uncommon_word
from service_record.redaction.encodings import from_base64
from service_record.redaction.randomness import random_bits
from service_record.redaction.system_errors import is_error
from service_record.redaction.types import mask_end

_UPPER: Final = re.compile(rb"[A-Z]")
_LOWER: Final = re.compile(rb"[a-z]")
_DIGIT: Final = re.compile(rb"[0-9]")
_DIGIT_OR_PLUS: Final = re.compile(rb"[0-9+]")
_SIGN: Final = re.compile(rb"[!#$%^*?@&~]")
"""Matches a sign that people use in passwords. Names and versions seldom have one."""
_SIGNS: Final = frozenset(b"!#$%^*?@&~+=(){}[]|;<>,`'\"\\")
"""The signs that names, paths and numbers do not have."""
_SIGNS_IN_WORDS: Final = re.compile(rb"[!#$%^*+~?=]+")
_JOINTS: Final = re.compile(rb"[^A-Za-z0-9]+")

# --- How much a value looks like a secret ---

_LEAST_BYTES: Final = 8
"""A shorter value has no weight."""
_LEAST_DIFFERENT: Final = 6
"""A word of fewer different characters is a drawing or a template, such as `0xXXXXXXXX`."""
_LEAST_LETTERS: Final = 12
"""A shorter word of letters alone may be a name, so it does not count as random."""
_LONG_NUMBER_BYTES: Final = 10
_RANDOM_BITS: Final = 10
"""Is true of 98 % of 12 random letters and digits. Names such as `Slf4jLog` have 9 bits."""
_UNCOMMON_BITS: Final = 4
"""The weight of a word of letters that is not in common use."""
_PHRASE_BITS: Final = 5
_MIXED_BITS: Final = 5
"""The weight of letters with digits."""
_BOTH_CASES_BITS: Final = 2
_SIGN_BITS: Final = 3
_MOST_BITS_OF_ID: Final = 9
_LEAST_SIGNS: Final = 2
_DISORDER_BITS: Final = 15
"""Code with several signs has less, apart from entities of HTML."""


def has_weight(value: bytes, least: float) -> bool:
    """Return True if a value has at least `least` bits of weight: see docs/redaction.md."""
    return (
        _made_bits(value) >= least
        or _random_bits(longest_word(value)) >= least
        or _disorder_bits(value) >= least
    )


def _made_bits(value: bytes) -> float:
    """Return the bits of a value that people made of words, digits and signs: `Winter2026!` has 10."""
    if len(value) < _LEAST_BYTES:
        return 0
    if value.isdigit():
        return _MIXED_BITS if len(value) >= _LONG_NUMBER_BYTES else 0
    if is_uncommon_word(value):
        return _UNCOMMON_BITS
    if _PHRASE.fullmatch(value):
        return _PHRASE_BITS
    has_upper, has_lower = _UPPER.search(value) is not None, _LOWER.search(value) is not None
    bits = 0
    if _DIGIT.search(value) and (has_upper or has_lower):
        bits += _MIXED_BITS
    if has_upper and has_lower:
        bits += _BOTH_CASES_BITS
    if _SIGN.search(value) and not _URL.match(value):
        bits += _SIGN_BITS
    return bits


_PHRASE: Final = re.compile(rb"[A-Za-z]{3,}(?:-[A-Za-z]{3,}){2,}")


def _random_bits(word: bytes) -> float:
    """Return the bits of a word of letters and digits if it is random: see `randomness`.

    IDs are random, too. Most have letters of one case, or few letters, so such a word has only some bits.
    Names of programs and users look random, too, if they are short: `efibootmgr`, `KSBrandID`.
    """
    word = word.removeprefix(b"0x")
    is_name = word.isalpha() and len(word) < _LEAST_LETTERS
    if len(word) < _LEAST_BYTES or len(set(word)) < _LEAST_DIFFERENT or word.isdigit() or is_name:
        return 0
    is_mixed = is_random(word) and 5 * len(_DIGIT.findall(word)) < 3 * len(word)
    bits = random_bits(word)
    return bits if is_mixed else min(bits, _MOST_BITS_OF_ID)


def _disorder_bits(value: bytes) -> float:
    """Return the bits of letters or digits with several signs if all of it is random: see `randomness`."""
    if len(value) < _LEAST_BYTES or len(set(value) & _SIGNS) < _LEAST_SIGNS or _URL.match(value):
        return 0
    classes = sum(each.search(value) is not None for each in (_UPPER, _LOWER, _DIGIT))
    return random_bits(value) if classes > 1 else 0


_URL: Final = re.compile(rb"(?:[a-z][a-z0-9+.-]*:)?//[A-Za-z0-9-]+[.:/]")
"""Matches a URL, also without its scheme. Its signs are its syntax."""


def is_random_word(word: bytes) -> bool:
    """Return True for letters of both cases and digits in random order."""
    return is_random(word) and _random_bits(word) >= _RANDOM_BITS


def is_random(value: bytes) -> bool:
    """Return True for letters of both cases and a digit or `+`, as base64 has."""
    return all(pattern.search(value) for pattern in (_UPPER, _LOWER, _DIGIT_OR_PLUS))


def split_words(value: bytes) -> Sequence[bytes]:
    """Return the runs of letters and digits, without the signs of passwords among them."""
    return _JOINTS.split(_SIGNS_IN_WORDS.sub(b"", value))


def longest_word(value: bytes) -> bytes:
    """Return the longest of the words of a value."""
    return max(split_words(value), key=len)


# --- What a value is, if it is no secret ---


_AROUND: Final = b" \t\r\n\0\"'`\\"
"""Blanks, quotes and escapes around a value."""


def is_placeholder(value: bytes) -> bool:
    """Return True for masks, variables, templates, words such as `null`, and brackets that open a block."""
    bare = value.strip(_AROUND)
    if not bare.strip(b"[{|>") or mask_end(bare):
        return True
    return _PLACEHOLDER.fullmatch(bare.rstrip(b",;")) is not None and not is_random_word(longest_word(bare))


_PLACEHOLDER: Final = re.compile(
    rb"(?i:[0-9]|=?\*+|!{1,2}|[*x.#_-]{3,}|<[a-z0-9 ._:/-]{0,60}>"
    rb"|[\[(_*]*(?:redacted|masked|hidden|sensitive|filtered|omitted|null|nil|none|unset|empty)[\])_*]*"
    rb"|\$\{?\(?(?:env:)?[a-z_][a-z0-9_]*[)}]?|\$\([^()]*\)|%[a-z]|%[({][a-z_]*[)}][a-z]?|\{\{(?:[^{}]*\}\})?|\{[a-z_.]*\}"
    rb"|true|false|yes|no|on|off|n/a|undefined|required|optional|string)"
)


def is_path(value: bytes) -> bool:
    """Return True for a path whose first directory is a word. It has no signs of passwords."""
    return _PATH.fullmatch(value.strip(_AROUND)) is not None


_PATH: Final = re.compile(
    rb"(?:file:(?://)?|[.~])?/[A-Z]?[a-z]{2,}(?:[/.-][^!#$^*?&|;<>]*)?|[A-Za-z]:\\.*|(?:[a-z]{3,}/){3}.*"
)


def is_address(value: bytes) -> bool:
    """Return True for a URL without a user and parameters, for an IPv4 address, and for `localhost`."""
    return _ADDRESS.fullmatch(value.strip(_AROUND)) is not None


_ADDRESS: Final = re.compile(
    rb"[a-z][a-z0-9+.-]*://[^\s@?;]*;?|(?:localhost|(?:[0-9]{1,3}\.){3}[0-9]{1,3})(?::[0-9]+)?;?"
)


def is_prose(value: bytes) -> bool:
    """Return True for an error message, a text that begins with a word such as `incorrect`, and settings.

    The settings are types of SQL, names of files, sources of nsswitch.conf(5), and hints and options in
    brackets.
    """
    first = value.partition(b" ")[0]
    return _PROSE.fullmatch(first) is not None or _NO_PASSWORD.fullmatch(value) is not None or is_error(value)


_PROSE: Final = re.compile(
    rb"(?i:a|all|an|and|any|are|as|at|auth|authentication|be|been|but|by|cannot|can't|change|changed|check|could|denied|did|do"
    rb"|does|don't|error|expired|expires?|failed|failure|for|from|has|have|if|in|incorrect|invalid|is|it|its|may"
    rb"|mismatch|missing|must|new|not|of|ok|old|on|or|please|prompt|provided|set|setenv|should|success|that|the|this|to"
    rb"|too|try|unable|unauthenticated|unauthorized|unknown|use|user|using|wait|waiting|was|we|were|when|which|will|with|would|you|your|password|passwd|options?|flags?|arguments?)[.,;:!?)]*"
)
_NO_PASSWORD: Final = re.compile(
    rb"[A-Za-z0-9_-]+\.(?:htpasswd|json|ya?ml|conf|cfg|txt|pem|crt|key)"
    rb"|(?:(?:files|db|compat|systemd|altfiles|sss|ldap|nis|winbind|\[[A-Za-z!=]+\])[ \t]*)+"
    rb"|(?i:[a-z]*char|[a-z]*binary|[a-z]*text|[a-z]*blob|bytea)(?:\([0-9]+\)?)?,?"
    rb"|\[[ \t]*[A-Z]?[a-z]+(?:(?:,[ \t]*|[ \t]+)[a-z]+){0,15}[.!]?[ \t]*\]"
    rb"|\[--?[A-Za-z][A-Za-z0-9|=_ -]*\]?"
)


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


def is_plain_word(value: bytes) -> bool:
    """Return True for a word in common use, or a short one."""
    word = value.rstrip(b".,;:!?)")
    return word.isalpha() and (word.islower() or word.istitle()) and not is_uncommon_word(word)


def is_option(value: bytes) -> bool:
    """Return True for an option of a command."""
    if _OPTION.fullmatch(value) is None or is_random_word(longest_word(value)):
        return False
    return _disorder_bits(value) < _DISORDER_BITS


_OPTION: Final = re.compile(rb"--?[A-Za-z0-9][A-Za-z0-9_.-]*(?:[=|,:].*)?|-+")


def is_number(value: bytes) -> bool:
    """Return True for an address in memory, a date, a port, and a fingerprint (`5e:1b:...`)."""
    return _NUMBER.fullmatch(value.strip(b"[]()")) is not None


_NUMBER: Final = re.compile(
    rb"(?:[^=]+=)?0[xX][0-9A-Fa-f]{1,16}(?:,.*)?|\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d.*)?,?|\d{1,5}(?:/.*)?"
    rb"|(?:[0-9A-Fa-f]{2}:){5,}[0-9A-Fa-f]{2}"
)


def is_uuid(value: bytes) -> bool:
    """Return True for a text that begins with a UUID."""
    return _UUID.match(value) is not None


_UUID: Final = re.compile(rb"[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}")


def is_public(value: bytes) -> bool:
    """Return True for certificates, public keys, and names of digests and containers, by their prefixes."""
    return _PUBLIC.match(value) is not None


_PUBLIC: Final = re.compile(
    rb"MII|LS0tLS1CRUdJTi|AAAA[BCEI]|AwEAA|ssh-|ecdsa-|(?i:(?:sha|md)[0-9]+|crio|docker|libpod|overlay|img|lvm)[-:_~]"
)


def is_digest(value: bytes) -> bool:
    """Return True for hexadecimal."""
    return _DIGEST.fullmatch(value) is not None


_DIGEST: Final = re.compile(rb"[0-9A-Fa-f]+")


def is_name(value: bytes) -> bool:
    """Return True if at least half of it is words: `default-dockercfg-x7k2p`, `openshift-etcd/etcd-peer`."""
    pieces = _JOINTS.split(value)
    words = sum(len(piece) for piece in pieces if _WORD.fullmatch(piece))
    return len(pieces) > 1 and 2 * words >= sum(map(len, pieces)) and not has_weight(value, _RANDOM_BITS)


_WORD: Final = re.compile(rb"[A-Z]?[a-z]{3,}(?:[A-Z][a-z]{2,})*|[A-Z]{3,}")


def is_code(value: bytes) -> bool:
    """Return True for calls, types, lists of words, variables, objects of Java, and entities of HTML."""
    if _ENTITY.search(value) is not None:
        return True
    return _CODE.search(value) is not None and _disorder_bits(value) < _DISORDER_BITS


_ENTITY: Final = re.compile(rb"&(?:#[0-9]+|#x[0-9A-Fa-f]+|[a-z]{2,6});")
_CODE: Final = re.compile(
    rb"^[\[{(]?[A-Za-z_.]{3,}[({|\[]|[A-Za-z0-9]\(\)|\$[({]?[A-Za-z_]{4}"
    rb"|^[a-z][A-Za-z0-9_]*(?:\.[A-Za-z0-9_$]+)+@[0-9a-f]+$"
)


def is_several_parts(value: bytes) -> bool:
    """Return True for assignments, options, URLs, percent-encoded texts, images, and texts with blanks."""
    return _SEVERAL_PARTS.search(value) is not None


_SEVERAL_PARTS: Final = re.compile(
    rb"^[\[{(]?[A-Za-z_.]{3,}=|^--?[A-Za-z][A-Za-z0-9-]*$|,[a-z]{3,}=|://|^//[A-Za-z0-9-]+[.:/]|\s|%[0-9A-F][0-9A-F]"
    rb"|^[a-z0-9_.-]+(?:/[a-z0-9_.-]+)+(?:[:@][A-Za-z0-9_.:-]+)?$"
)


def is_encoded_text(value: bytes) -> bool:
    """Return True for base64 of a text. A text with random words may be a token, such as JSON in base64."""
    plain = from_base64(value)
    if not plain or not plain.isascii() or not plain.translate(None, b"\t\n\r").decode().isprintable():
        return False
    return not any(map(LEVELS["random"], _BASE64_WORD.findall(plain)))


_BASE64_WORD: Final = re.compile(rb"[A-Za-z0-9+/]{20,}")


# --- What a place asks for ---


@dataclass(frozen=True, slots=True)
class Level:
    """The least weight of a secret in a place, in bits, and the other texts that may be in this place."""

    bits: float
    others: tuple[Callable[[bytes], object], ...]

    def __call__(self, value: bytes) -> bool:
        """Return True if a value is a secret."""
        value = value[:_MAX_CHECKED_BYTES]
        if self.bits and not has_weight(value, self.bits):
            return False
        return not any(is_other(value) for is_other in self.others)


_MAX_CHECKED_BYTES: Final = 512
"""The beginning of a value decides. Values of nested names overlap: all of each would take quadratic time."""
_ANY_NAMED: Final = (is_placeholder, is_path, is_address)
_WORDS: Final = (*_ANY_NAMED, is_prose)
_PARTS: Final = (is_code, is_several_parts)
_IDS: Final = (is_uuid, is_number, is_public)

LEVELS: Final[Mapping[str, Level]] = {
    # Where nothing but a secret can be: the prefix of a token, or the syntax of a file.
    "any": Level(0, (mask_end,)),
    "value": Level(0, _ANY_NAMED),
    "value, no number": Level(0, (*_ANY_NAMED, is_number)),
    # After the name of a password, where also a word or a sentence may be.
    "password": Level(0, _WORDS),
    "uncommon": Level(0, (*_WORDS, is_plain_word, is_option)),
    # In a command.
    "argument": Level(0, (*_WORDS, is_option)),
    "quoted argument": Level(0, (*_ANY_NAMED, is_option)),
    "mixed argument": Level(5, (*_WORDS, is_option, *_PARTS)),
    # After the name of a token, which often names an object; after its prefix; and without `=` or `:`.
    "named token": Level(4, (*_ANY_NAMED, is_number, is_name, is_code)),
    "token": Level(5, (*_ANY_NAMED, is_number, is_name, is_code)),
    "prefixed": Level(5, (mask_end, is_name, is_digest)),
    "word": Level(5, (*_WORDS, is_uuid, is_number, is_name, *_PARTS)),
    # After words that mostly have other values, such as `key` or `auth`.
    "unusual": Level(8, (*_ANY_NAMED, *_PARTS, *_IDS)),
    "unusual with UUID": Level(8, (*_ANY_NAMED, *_PARTS, is_number, is_public)),
    "unusual, no digest": Level(8, (*_WORDS, *_PARTS, *_IDS, is_digest, is_encoded_text)),
    # Without a name, anywhere; and after any short prefix of letters.
    "random": Level(10, (is_placeholder, *_PARTS, *_IDS, is_encoded_text)),
    "any prefix": Level(30, (is_placeholder, *_PARTS, *_IDS, is_encoded_text)),
}
"""The levels that shapes.toml and commands.py name.

The first ones accept nearly every value, and the last ones hardly any.
"""
VALUE: Final = LEVELS["value"]
PASSWORD: Final = LEVELS["password"]
NAMED_TOKEN: Final = LEVELS["named token"]
TOKEN: Final = LEVELS["token"]
WORD: Final = LEVELS["word"]
RANDOM: Final = LEVELS["random"]

IN_QUOTES: Final[Mapping[Callable[[bytes], bool], Callable[[bytes], bool]]] = {
    PASSWORD: VALUE,
    LEVELS["argument"]: LEVELS["quoted argument"],
}
"""The levels to use for a value in quotes, which is seldom prose."""


# --- Values with a form of their own ---


def is_small_words(value: bytes) -> bool:
    """Accept small letters and hyphens: `ribbon-pencil`. Reject names of objects and variables.

    Such a name mostly says what it is: `next_token`, `kubernetes-ca-bundle`.
    """
    return _SMALL_WORDS.fullmatch(value) is not None and PASSWORD(value) and not _NAMED_THING.search(value)


_SMALL_WORDS: Final = re.compile(rb"[a-z][a-z-]{7,}")
_NAMED_THING: Final = re.compile(
    rb"secret|token|key|cred|auth|pass|cert|bundle|config|tls|admin|service|name|store|value|file|string|valid"
)


def is_session(value: bytes) -> bool:
    """Accept the long random key of a web session."""
    return len(value) >= _SESSION_BYTES and WORD(value)


_SESSION_BYTES: Final = 20


def is_pin(value: bytes) -> bool:
    """Accept a number of 4 to 12 digits."""
    return value.isdigit() and _LEAST_PIN_DIGITS <= len(value) <= _MOST_PIN_DIGITS


_LEAST_PIN_DIGITS: Final = 4
_MOST_PIN_DIGITS: Final = 12


def is_bootstrap_token(value: bytes) -> bool:
    """Accept `abcdef.0123456789abcdef`: the second half must have both digits and letters."""
    last = value.rpartition(b".")[2]
    return _LEAST_BOOTSTRAP_DIGITS <= len(_DIGIT.findall(last)) < len(last)


_LEAST_BOOTSTRAP_DIGITS: Final = 2


def is_kubeadmin_password(value: bytes) -> bool:
    """Accept letters and digits in mixed case. The pattern checks the groups of kubeadmin's password."""
    return not value.isupper() and not value.islower() and value != value.title()


def is_credential(value: bytes) -> bool:
    """Accept base64 of `user:password`."""
    plain = from_base64(value)
    return len(plain) >= _CREDENTIAL_BYTES and b":" in plain and plain.isascii()


_CREDENTIAL_BYTES: Final = 3


def is_registry_auth(value: bytes) -> bool:
    """Accept base64 of `user:password`, and other random tokens."""
    return is_credential(value) or LEVELS["unusual"](value)


def find_check(names: str) -> Callable[[bytes], bool]:
    """Return the level or function with this name. Of several, joined by `or`, one must accept a value."""
    checks: list[Callable[[bytes], bool]] = [
        LEVELS[name] if name in LEVELS else globals()[name] for name in names.split(" or ")
    ]
    if len(checks) == 1:
        return checks[0]
    return lambda value: any(check(value) for check in checks)
