"""Counts leaks of secrets in texts that went through the redaction.

A secret leaks when six of its characters in a row can be read in the output, plain or in the wrapping's
encoding.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from service_record.redaction import Redactor, Rules, Secret
from tests.redaction.kinds import Kind
from tests.redaction.wrappings import Wrapping

SEED: Final = 20261128
PIECE: Final = 6
_ALNUM: Final = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
_ROTATED: Final = str.maketrans(
    _ALNUM, _ALNUM[7:26] + _ALNUM[:7] + _ALNUM[35:52] + _ALNUM[26:35] + "3456789012"
)


@dataclass(frozen=True, slots=True)
class Leaks:
    """The samples of one kind in one wrapping, and those that leaked."""

    kind: str
    wrapping: str
    samples: int
    leaked: tuple[str, ...]
    """Input and output of each leak."""


def redact(text: bytes, rules: Rules) -> bytes:
    redactor = Redactor(rules)
    return redactor.feed(text) + redactor.finish()


def measure(
    kinds: Sequence[Kind],
    wrappings: Sequence[Wrapping],
    samples: int,
    *,
    known: bool = False,
    seed: int = SEED,
) -> Iterator[Leaks]:
    """Yield the leaks of every kind in every wrapping that can carry it."""
    for kind in kinds:
        chance = random.Random(f"{seed} {kind.name}")
        secrets = [kind.draw(chance) for _ in range(samples)]
        rules = _rules(kind, tuple(secrets)) if known else Rules()
        for wrapping in wrappings:
            texts = [text for secret in secrets if (text := wrapping.wrap(kind, secret)) is not None]
            if texts:
                leaked = [
                    f"{text!r} -> {output!r}"
                    for secret, text in zip(secrets, texts, strict=True)
                    if leaks(kind, wrapping, secret, output := redact(_bytes(text), rules))
                ]
                yield Leaks(kind.name, wrapping.name, len(texts), tuple(leaked))


def leaks(kind: Kind, wrapping: Wrapping, secret: str, output: bytes) -> bool:
    """Return whether a part of the secret can be read in the output."""
    read = output.decode(errors="surrogateescape")
    size = PIECE if len(secret) < 60 else 2 * PIECE  # six letters of a long key may stand anywhere by chance
    if not _pieces(secret, size).isdisjoint(_pieces(read, size)):
        return True
    size *= wrapping.width
    return not _encoded_pieces(kind, wrapping, secret, size).isdisjoint(_pieces(read, size))


def _encoded_pieces(kind: Kind, wrapping: Wrapping, secret: str, size: int) -> set[str]:
    """Return the pieces of the wrapped text that show more than a few characters at an end of the secret."""
    few = PIECE - 1
    other = secret.translate(_ROTATED)
    shown = _pieces(_wrapped(wrapping, kind, secret), size)
    for hidden in (secret[:few] + other[few:], other[:-few] + secret[-few:]):
        shown -= _pieces(_wrapped(wrapping, kind, hidden), size)
    return shown


def _wrapped(wrapping: Wrapping, kind: Kind, secret: str) -> str:
    return _bytes(wrapping.wrap(kind, secret) or "").decode(errors="surrogateescape")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _pieces(text: str, size: int) -> set[str]:
    return {text[at : at + size] for at in range(len(text) - size + 1)}


@lru_cache(maxsize=256)
def _rules(kind: Kind, secrets: tuple[str, ...]) -> Rules:
    """Return the rules of known secrets. Making them takes longer than a measurement, so they are kept."""
    return Rules([_secret(kind, secret) for secret in secrets])


def _secret(kind: Kind, secret: str) -> Secret:
    """Return a known secret; of a PEM block a host knows the whole."""
    text = kind.text(secret)
    return (
        Secret("private-key", text.encode())
        if text.startswith("-----BEGIN")
        else Secret("password", secret.encode())
    )
