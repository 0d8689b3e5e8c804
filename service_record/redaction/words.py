"""What stands where a secret might, and is none: placeholders, paths, and words of prose. Pure."""

import base64
import binascii
from typing import Final

from service_record.redaction import engine
from service_record.redaction.faces import MASK_BEGIN

_MASKED: Final = MASK_BEGIN.rstrip(b":")
_TOKEN_BYTES: Final = 8
_BODY_BYTES: Final = 12
_CREDENTIAL_BYTES: Final = 3
_KEY_BYTES: Final = frozenset({16, 24, 32, 64})
_BOOTSTRAP_DIGITS: Final = 2

_PLACEHOLDER: Final = engine.compiled(
    rb"(?i:[*x.#_-]{3,}|<[a-z0-9 ._:/-]{0,60}>|\[?(?:redacted|masked|hidden|sensitive|filtered|omitted)\]?"
    rb"|\$\{?\(?[a-z_][a-z0-9_]*[)}]?|\$\(.*|%[a-z]|%\(.*|\{\{.*|\{[a-z_.]*\}"
    rb"|null|nil|none|true|false|yes|no|n/a|unset|empty|undefined|required|optional|string)"
)
_PROSE: Final = engine.compiled(
    rb"(?i:a|an|and|any|are|as|at|auth|authentication|be|been|but|by|cannot|can't|change|changed|check|could|denied|did|do"
    rb"|does|don't|error|expired|expires?|failed|failure|for|from|has|have|if|in|incorrect|invalid|is|it|its|may"
    rb"|mismatch|missing|must|new|not|of|ok|old|on|or|please|prompt|provided|set|should|success|that|the|this|to"
    rb"|too|try|unable|unknown|use|user|using|wait|waiting|was|we|were|when|which|will|with|would|you|your|password|passwd|options?|flags?|arguments?)[.,;:!?)]*"
)
_PATH: Final = engine.compiled(
    rb"(?:file:/|\.)?/(?:bin|boot|dev|etc|home|lib|mnt|opt|proc|root|run|sbin|srv|sys|tmp|usr|var)(?:/.*)?|[A-Za-z]:\\.*"
)


def is_value(value: bytes) -> bool:
    """A value that is given, and is neither a mask, nor a placeholder, nor the path of a file."""
    bare = value.strip(b" \t\r\"'\\")
    if not bare or bare.startswith(_MASKED):
        return False
    return not _PLACEHOLDER.fullmatch(bare) and not _PATH.fullmatch(bare)


def is_password(value: bytes) -> bool:
    """Any value that is not prose: `password: incorrect` says something else."""
    return is_value(value) and not _PROSE.fullmatch(value.partition(b" ")[0])


def is_phrase(value: bytes) -> bool:
    """A value with blanks in it, where a name and a separator begin the line."""
    return is_value(value) and b"=" not in value


def is_body(value: bytes) -> bool:
    """More than the end of a line."""
    return len(value) >= _BODY_BYTES and is_value(value)


def is_token(value: bytes) -> bool:
    """Something that nobody would call a word: long enough, with digits among letters, or JSON."""
    if not is_value(value):
        return False
    if value.lstrip(b"\\\"' ").startswith(b"{"):
        return True
    has_digit = any(byte in b"0123456789" for byte in value)
    has_letter = any(chr(byte).isalpha() for byte in value)
    return len(value) >= _TOKEN_BYTES and has_digit and has_letter and b"*" not in value


def is_bootstrap_token(value: bytes) -> bool:
    """`abcdef.0123456789abcdef`: the second half of a random one has digits and letters."""
    last = value.rpartition(b".")[2]
    digits = sum(byte in b"0123456789" for byte in last)
    return _BOOTSTRAP_DIGITS <= digits < len(last)


def is_kubeadmin_password(value: bytes) -> bool:
    """Of its 20 random letters and digits, some are in either case."""
    return not value.isupper() and not value.islower() and value != value.title()


def is_credential(value: bytes) -> bool:
    """Base64 of `user:password`."""
    decoded = _decoded(value)
    return len(decoded) >= _CREDENTIAL_BYTES and b":" in decoded and decoded.isascii()


def is_key(value: bytes) -> bool:
    """Base64 of as many bytes as a key of AES or of a secretbox has."""
    is_hex = all(byte in b"0123456789abcdef" for byte in value)
    return not is_hex and len(_decoded(value)) in _KEY_BYTES


def is_anything(value: bytes) -> bool:
    """For shapes that are a secret by themselves; all that they may not be is masked already."""
    return not value.startswith(_MASKED)


def _decoded(value: bytes) -> bytes:
    try:
        return base64.b64decode(value.translate(bytes.maketrans(b"-_", b"+/")) + b"=" * (-len(value) % 4))
    except binascii.Error:
        return b""
