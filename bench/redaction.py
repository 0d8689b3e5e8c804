"""Measure redaction: the throughput for many kinds of logs, and the time for a journal compared with gzip.

`make bench` and `python -m bench.redaction` write the throughput into docs/project/performance.md.
`python -m bench.redaction FILE...` prints the throughput for files.
"""

import gzip
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from io import BytesIO
from itertools import chain
from pathlib import Path
from string import ascii_letters, ascii_lowercase, digits
from typing import Final

from bench.machine import machine
from bench.rounds import medians, wall
from bench.table import Row, markdown, replace_between, timed
from service_record.redaction import Redactor, Rules, Secret, find_leak
from testing.clean_lines import clean_lines
from testing.made_up import pem, pull_secret
from testing.ordinary_logs import KINDS, ordinary_lines

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "project" / "performance.md"
MIB: Final = 1 << 20
JOURNAL_BYTES: Final = 64 * MIB
LOG_BYTES: Final = 2 * MIB
NAMING_BYTES: Final = MIB >> 1
HOSTILE_BYTES: Final = MIB >> 2
CHUNK_BYTES: Final = 1 << 16
SHARE_OF_GZIP: Final = 0.7
"""The limit of the time for masking, relative to `gzip -6`. Masking plus gzip is then below two gzips."""
# Goals in MB/s.
MIXED_SPEED: Final = 150
ORDINARY_SPEED: Final = 100
NAMING_SPEED: Final = 20
HOSTILE_SPEED: Final = 20


def rows(root: Path) -> Iterator[Row]:
    """Yield the rows of `make bench`, which compare redaction of a journal with gzip."""
    lines = "".join(f"{line}\n" for line in clean_lines(80)).encode()
    text = (lines * (JOURNAL_BYTES // len(lines) + 1))[:JOURNAL_BYTES]
    journal = root / "journal.log"
    journal.write_bytes(text)
    packed = gzip.compress(text, 1)
    rules = Rules(secrets())
    seconds = medians(
        {
            "redaction": partial(time_redaction, text, rules),
            "shapes": partial(time_redaction, text, Rules()),
            "residual": partial(time_leak_scan, packed, rules),
            "gzip": partial(wall, "gzip", "-6", "-c", journal),
            "rules": partial(time_rules, secrets()),
        }
    )
    speed = f"{JOURNAL_BYTES / 1e6 / seconds['redaction']:.0f} MB/s"
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
    """Return the secrets of a bootstrap host, among them 45 private keys and a pull secret."""
    whole, auths = pull_secret()
    return [
        Secret("pull-secret", whole.encode()),
        *(Secret("registry-auth", auth.encode()) for auth in auths),
        Secret("kubeadmin-password", b"aB3dE-fG5iJ-kL7nO-pQ9sT"),
        *(Secret("private-key", pem(lines=25)[0].encode()) for _ in range(45)),
    ]


def time_redaction(text: bytes, rules: Rules, clock: Callable[[], float] = time.perf_counter) -> float:
    """Return the seconds to mask a text in chunks of 64 KiB, the size of a pipe."""
    redactor = Redactor(rules)
    begun = clock()
    for at in range(0, len(text), CHUNK_BYTES):
        redactor.feed(text[at : at + CHUNK_BYTES])
    redactor.finish()
    return clock() - begun


def time_leak_scan(packed: bytes, rules: Rules) -> float:
    """Return the seconds to scan a packed text for leaks."""
    begun = time.perf_counter()
    assert find_leak(rules, BytesIO(packed)) is None
    return time.perf_counter() - begun


def time_rules(some: list[Secret]) -> float:
    """Return the seconds to compile the rules for these secrets."""
    begun = time.perf_counter()
    Rules(some).exact_spans(b"warm")
    return time.perf_counter() - begun


def speed_rows(texts: Mapping[str, tuple[Callable[[], bytes], int]]) -> list[Row]:
    """Return a row with the throughput and goal of each text, with 50 known secrets, and one for gzip.

    Each round takes a new text if there is one, because lines that have been searched are remembered.

    Measures processor time, which other programs on the machine change less.
    """
    rules = Rules(secrets())
    everything = b"".join(make_text() for make_text, _ in texts.values())
    time_redaction(everything, rules)  # RE2 builds the states of its automata on the first pass
    nanoseconds = medians(
        {name: partial(time_per_byte, make_text, rules) for name, (make_text, _) in texts.items()},
        rounds=3,
    )
    begun = time.process_time()
    gzip.compress(everything, 6)
    gzip_speed = len(everything) / 1e6 / (time.process_time() - begun)
    return [
        *(speed_row(name, 1e3 / nanoseconds[name], goal) for name, (_, goal) in texts.items()),
        Row(what="for comparison: gzip -6 of all of it", measured=f"{gzip_speed:.0f} MB/s"),
    ]


def time_per_byte(make_text: Callable[[], bytes], rules: Rules) -> float:
    """Return the nanoseconds of processor time to mask one byte of the next text."""
    text = make_text()
    return time_redaction(text, rules, time.process_time) * 1e9 / len(text)


def speed_row(name: str, speed: float, goal: int) -> Row:
    measured = f"{speed:.0f} MB/s" if speed >= 1 else f"{speed:.2g} MB/s"
    return Row(what=name, measured=measured, limit=f"{goal} MB/s", holds=speed >= goal)


def texts_with_goals() -> Iterator[tuple[str, tuple[Callable[[], bytes], int]]]:
    """Yield the name, a function that makes the next text, and the goal in MB/s of each measurement."""
    mixed = chain.from_iterable(zip(*(ordinary_lines(kind, 1 << 30) for kind in KINDS), strict=True))
    yield "all ordinary logs, mixed", (partial(fill, mixed), MIXED_SPEED)
    for kind in KINDS:
        yield f"ordinary: {kind}", (partial(fill, ordinary_lines(kind, 1 << 30)), ORDINARY_SPEED)
    for name, line in NAMING.items():
        yield f"names secrets: {name}", (partial(fill, make_lines(line), NAMING_BYTES), NAMING_SPEED)
    for name, piece in HOSTILE.items():
        yield f"hostile: {name}", (partial(repeat, piece, HOSTILE_BYTES), HOSTILE_SPEED)


NAMING: Final[Mapping[str, str]] = {
    "kubelet": 'I1121 00:54:19.12 2213 secrets.go:{n}] "watching" secret="ns-{n}/name" token-count={d}',
    "kubelet, other names": 'I1121 00:54:19 2213 secrets.go:{n}] "watching" secret="{w}/{w}" token-count=3',
    "environment": "DB_PASSWORD=Qw7rT2yU9iP4{n} API_KEY=abcdefghijklmnop{n} LOG_LEVEL=info",
    "environment, other secrets": "DB_PASSWORD={s} API_KEY={s}{s} LOG_LEVEL=info",
    "JSON": '{{"level":"info","msg":"login {n}","user":"core","password":"Qw7rT2yU{n}","pid":{d}}}',
    "JSON, other secrets": '{{"level":"info","msg":"login {n}","user":"core","password":"{s}","pid":{d}}}',
    "prose": "Failed password for root from 10.0.0.{d} port {n} ssh2: token: expired",
    "errors": "cat: /etc/passwd: Permission denied ({n})",
}
"""Templates of lines; each contains a secret or the name of one.

`{n}` and `{d}` stand for numbers, which differ in each line, `{s}` for random letters and digits, and `{w}`
for random letters. A line that differs from others only in digits is not read again.
"""

HOSTILE: Final[Mapping[str, bytes]] = {
    "lines that end in token:": b"the next one is the token:\n",
    "password= without an end": b'password="',
    "one line of names": b"password token secret key ",
    "brackets": b'{"password":[',
    "a password, then brackets": b"password=Qw7rT2yU9 " + b"[" * 4096 + b"\n",
    "a password, then two kinds of brackets": b"password=Qw7rT2yU9 " + b"[{" * 2048 + b"\n",
    "escapes": b'\\\\\\"password\\\\\\":',
    "base64": b"c2VjcmV0IGtleTogYWJjZGVmZ2hpams",
    "base64 in short lines": b"c2VjcmV0IGtleTogYWJjZGVmZ2hpams\n",
    "hexadecimal": b"70617373776F72643D",
    "percent": b"%70%61%73%73%77%6f%72%64%3d",
    "BEGIN lines": b"-----BEGIN RSA PRIVATE KEY-----\n",
    "user@ without an end": b"https://user:",
    "a command of many lines": b"curl -u a:b \\\n",
}
"""Pieces that are repeated to a text that is slow to redact."""


def make_lines(template: str) -> Iterator[str]:
    """Yield lines from a template of `NAMING`, each with other values."""
    chance = random.Random(1)
    for number in range(1 << 30):
        secret = "".join(chance.choices(ascii_letters + digits, k=12))
        word = "".join(chance.choices(ascii_lowercase, k=8))
        yield template.format(n=number, d=number % 250, s=secret, w=word)


def repeat(piece: bytes, size: int) -> bytes:
    return (piece * (size // len(piece) + 1))[:size]


def fill(lines: Iterator[str], size: int = LOG_BYTES) -> bytes:
    """Return whole lines of at least `size` bytes in all."""
    text = bytearray()
    while len(text) < size:
        text += f"{next(lines)}\n".encode()
    return bytes(text)


def publish_speed() -> int:
    """Print the throughput and write it into the page. Return 1 if a goal is missed, else 0."""
    measured = speed_rows(dict(texts_with_goals()))
    text = f"{machine()}\n\n{markdown(measured)}"
    print(text)
    replace_between(PAGE, "bench-redaction", text)
    return int(any(row.holds is False for row in measured))


def print_speed(paths: list[str]) -> int:
    print(markdown(speed_rows({path: (Path(path).read_bytes, ORDINARY_SPEED) for path in paths})))
    return 0


if __name__ == "__main__":
    sys.exit(print_speed(sys.argv[1:]) if sys.argv[1:] else publish_speed())
