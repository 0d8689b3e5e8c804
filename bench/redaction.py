"""Measure the cost of masking secrets, beside compressing the same text: a bundle needs both."""

import gzip
import time
from collections.abc import Iterator
from functools import partial
from io import BytesIO
from pathlib import Path

from bench.rounds import medians, wall
from bench.table import Row, timed
from service_record.redaction import Redactor, Rules, Secret, find_leak
from testing.clean_lines import clean_lines
from testing.made_up import pem, pull_secret

MIB = 1 << 20
JOURNAL = 64 * MIB
CHUNK = 1 << 16
SHARE_OF_GZIP = 0.7
"""Of gzip's time: masking and compressing, one after the other, are then faster than gzip twice."""


def rows(root: Path) -> Iterator[Row]:
    lines = "".join(f"{line}\n" for line in clean_lines(80)).encode()
    text = (lines * (JOURNAL // len(lines) + 1))[:JOURNAL]
    journal = root / "journal.log"
    journal.write_bytes(text)
    packed = gzip.compress(text, 1)
    rules = Rules(secrets())
    seconds = medians(
        {
            "redaction": partial(redacted, text, rules),
            "shapes": partial(redacted, text, Rules()),
            "residual": partial(looked_through, packed, rules),
            "gzip": partial(wall, "gzip", "-6", "-c", journal),
            "rules": partial(make_rules, secrets()),
        }
    )
    speed = f"{JOURNAL / 1e6 / seconds['redaction']:.0f} MB/s"
    yield beside_gzip(
        f"redaction: a journal of 64 MiB ({speed})", seconds["redaction"], seconds["gzip"], SHARE_OF_GZIP
    )
    yield beside_gzip("redaction: by shape only, no secret known", seconds["shapes"], seconds["gzip"])
    yield beside_gzip("redaction: the last look at it, packed", seconds["residual"], seconds["gzip"])
    yield timed("redaction: rules of 50 secrets, made", seconds["rules"])


def beside_gzip(what: str, seconds: float, reference: float, share: float | None = None) -> Row:
    limit, holds = (f"{share:g} x", seconds <= share * reference) if share else ("", None)
    return timed(what, seconds, "gzip -6", reference, limit=limit, holds=holds)


def secrets() -> list[Secret]:
    """Return the secrets of a bootstrap host: forty private keys, a pull secret and its parts."""
    whole, auths = pull_secret()
    return [
        Secret("pull-secret", whole.encode()),
        *(Secret("registry-auth", auth.encode()) for auth in auths),
        Secret("kubeadmin-password", b"aB3dE-fG5iJ-kL7nO-pQ9sT"),
        *(Secret("private-key", pem(lines=25)[0].encode()) for _ in range(45)),
    ]


def redacted(text: bytes, rules: Rules) -> float:
    """Seconds of masking a text that comes in chunks of a pipe's size."""
    redactor = Redactor(rules)
    begun = time.perf_counter()
    for at in range(0, len(text), CHUNK):
        redactor.feed(text[at : at + CHUNK])
    redactor.finish()
    spent = time.perf_counter() - begun
    assert not redactor.counts
    return spent


def looked_through(packed: bytes, rules: Rules) -> float:
    begun = time.perf_counter()
    assert find_leak(rules, BytesIO(packed)) is None
    return time.perf_counter() - begun


def make_rules(some: list[Secret]) -> float:
    begun = time.perf_counter()
    Rules(some).exact_spans(b"warm")
    return time.perf_counter() - begun
