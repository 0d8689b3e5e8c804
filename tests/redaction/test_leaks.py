"""Secrets of every kind in every wrapping: a known secret never leaks, an unknown one seldom.

`make test` takes one secret of each kind, the slow cases ten.
"""

import random
import string
from collections.abc import Iterator
from typing import Any, Final

import pytest

from service_record.redaction import Rules, Secret
from tests.redaction.kinds import ANY_PUNCTUATION, KINDS, PUNCTUATION, Kind
from tests.redaction.measure import leaks, measure, redact
from tests.redaction.pending import case
from tests.redaction.wrappings import LIMITED, WRAPPINGS, Wrapping

SHARE: Final = 0.02
PUNCTUATION_SHARE: Final = 0.001
BY_NAME: Final = {wrapping.name: wrapping for wrapping in WRAPPINGS}


def sizes(group: str, name: str, small: int, large: int, *values: object) -> Iterator[Any]:
    """Yield a small case for `make test` and a large one for the thorough tests."""
    yield case(f"{group}, {name}, {small}", *values, small)
    yield case(f"{group}, {name}, {large}", *values, large, is_slow=True)


@pytest.mark.parametrize("wrapping", WRAPPINGS, ids=lambda wrapping: wrapping.name)
def test_measurement_sees_every_secret(wrapping: Wrapping) -> None:
    """Without redaction every secret leaks: a measurement that misses some proves nothing."""
    unseen = []
    for kind in KINDS:
        secret = kind.draw(random.Random(kind.name))
        text = wrapping.wrap(kind, secret)
        if text is not None and not leaks(kind, wrapping, secret, text.encode()):
            unseen.append(kind.name)
    assert unseen == []


@pytest.mark.parametrize(
    ("wrapping", "samples"),
    [each for wrapping in WRAPPINGS for each in sizes("known", wrapping.name, 1, 10, wrapping)],
)
def test_known_secret_never_leaks(wrapping: Wrapping, samples: int) -> None:
    assert [cell for cell in measure(KINDS, [wrapping], samples, known=True) if cell.leaked] == []


@pytest.mark.parametrize(
    ("wrapping", "samples"),
    [each for name in sorted(LIMITED) for each in sizes("unknown", name, 1, 10, BY_NAME[name])],
)
def test_unknown_secrets_seldom_leak(wrapping: Wrapping, samples: int) -> None:
    cells = list(measure(KINDS, [wrapping], samples))
    leaked = [f"{cell.kind}: {example}" for cell in cells for example in cell.leaked]
    assert len(leaked) <= SHARE * sum(cell.samples for cell in cells), "\n".join(leaked)


@pytest.mark.parametrize(
    ("kind", "wrapping", "samples"),
    [
        each
        for kind in (*PUNCTUATION, *ANY_PUNCTUATION)
        for name in (
            "plain",
            "journal short",
            *(() if kind in PUNCTUATION else ("CRI", "journal JSON", "set -x")),
        )
        for each in sizes(f"punctuation in {name}", kind.name, 200, 2000, kind, BY_NAME[name])
    ],
)
def test_passwords_with_punctuation_are_masked(kind: Kind, wrapping: Wrapping, samples: int) -> None:
    (cell,) = measure([kind], [wrapping], samples)
    assert len(cell.leaked) <= PUNCTUATION_SHARE * samples, cell.leaked[0]


def every_character() -> list[str]:
    """Return secrets that have each printable character first, inside and last."""
    base = "Qw7rT2yU9iP4"
    characters = string.ascii_letters + string.digits + string.punctuation
    inside = [f"{base[:6]}{each}{base[6:]}" for each in [*characters, " "]]
    return [*inside, *(each + base for each in characters), *(base + each for each in characters)]


@pytest.mark.parametrize(
    "wrapping",
    [
        case(f"any character, {each.name}", each, is_slow=each.name not in {"plain", "JSON", "set -x"})
        for each in WRAPPINGS
    ],
)
def test_known_secret_of_any_character_never_leaks(wrapping: Wrapping) -> None:
    kind = Kind("in a sentence", lambda _: "", lambda secret: f"got {secret} from the service")
    leaked = []
    secrets = every_character()
    for at in range(0, len(secrets), 40):  # for more secrets at once, fewer encodings are searched
        group = secrets[at : at + 40]
        rules = Rules([Secret("password", secret.encode()) for secret in group])
        for secret in group:
            text = wrapping.wrap(kind, secret)
            assert text is not None
            if leaks(kind, wrapping, secret, redact(text.encode(), rules)):
                leaked.append(secret)
    assert leaked == []
