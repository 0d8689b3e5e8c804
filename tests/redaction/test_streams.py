"""A stream of lines: what is remembered of one line is right for the next, and time is linear."""

import gc
import random
import re
import time
import tracemalloc
import weakref

import pytest

from bench.redaction import HOSTILE
from service_record.redaction import Redactor, Rules
from service_record.redaction.first_pass import ENCODED, RUNS, TOKENS, patterns
from service_record.redaction.redactor import BLOCK_BYTES
from service_record.redaction.types import ZEROS_FOR_DIGITS
from testing.ordinary_logs import KINDS as KINDS_OF_LOGS
from testing.ordinary_logs import ordinary_lines
from tests.redaction.kinds import KINDS
from tests.redaction.measure import SEED, redact
from tests.redaction.wrappings import WRAPPINGS
from tests.shape_examples import shape_examples

RULES = Rules()
SMALL = 1 << 14
GROWTH = 4
MOST_READ = 0.03
"""The share of different lines of ordinary logs that may be read."""
MOST_GROWTH = 9
"""Linear text takes 4 times as long when it is 4 times as long, quadratic 16 times."""


@pytest.mark.parametrize("name", ["plain", "JSON", "journal JSON", "query", "logfmt", "journal short"])
def test_lines_that_differ_in_digits_are_masked_as_alone(name: str) -> None:
    wrapping = next(each for each in WRAPPINGS if each.name == name)
    chance = random.Random(SEED)
    lines = []
    for kind in KINDS:
        text = wrapping.wrap(kind, kind.draw(chance))
        if text is None or "\n" in text.rstrip("\n"):
            continue
        for _ in range(4):
            digits = str.maketrans("0123456789", "".join(chance.choices("0123456789", k=10)))
            lines.append(text.rstrip("\n").translate(digits).encode())
    assert len(lines) >= 100
    separator = b"\nnothing to see here\n"
    after = redact(separator.join(lines), RULES).split(separator)
    alone = [redact(line, RULES) for line in lines]
    assert [(each, line) for each, line in zip(alone, after, strict=True) if each != line] == []


def test_search_without_digits_finds_each_line_that_digits_make_suspect() -> None:
    chance = random.Random(SEED)
    lines = [example.text.encode() for example in shape_examples()]
    lines += [re.sub(rb"[0-9]", lambda _: b"%d" % chance.randrange(10), line) for line in lines]
    lines = [line for line in lines if b"\n" not in line]
    missed = []
    for line in lines:
        by_run = RUNS | ENCODED  # `find_suspects` drops runs that are ordinary words
        exact = patterns().find_groups(line) & ~by_run
        possible = [groups for *_, groups in patterns().find_suspects(line)]
        # NAMES and WORDS share a search.
        if exact & TOKENS & ~sum(possible) or (exact and not possible):
            missed.append(line)
    assert missed == []


def test_few_ordinary_lines_have_a_trigger() -> None:
    """Reading a line takes a hundred times as long as searching it for triggers."""
    lines = {
        line.encode().translate(ZEROS_FOR_DIGITS)
        for kind in KINDS_OF_LOGS
        for line in ordinary_lines(kind, 600)
    }
    suspects = patterns().find_suspects(b"\n".join(sorted(lines)))
    assert len(suspects) < MOST_READ * len(lines)


def test_harmless_line_is_a_secret_below_a_name() -> None:
    """After the first block, the line is no longer searched when it is on its own."""
    line = b"    hooks.slack-Zq8kT1\n"
    text = line * (2 * BLOCK_BYTES // len(line))
    assert patterns().find_suspects(line)
    assert not patterns().find_suspects(line, harmless={b"    hooks.slack-Zq0kT0"})
    assert redact(text + b"password:\n" + line, RULES) == text + b"password:\n" + redact(
        b"password:\n" + line, RULES
    ).removeprefix(b"password:\n")
    assert b"Zq8kT1" not in redact(b"password:\n" + line, RULES)


def test_traced_output_is_read_for_each_reader() -> None:
    """The second command of a pipeline says whether the output of the first is a password."""
    output = b"+ echo hunter2-ribbon\n"
    rules = Rules()
    assert redact(output + b"done\n", rules) == output + b"done\n"
    assert b"hunter2" not in redact(output + b"+ cryptsetup luksOpen /dev/vda4 root -\n", rules)


def test_pipeline_is_read_across_blocks() -> None:
    """The last whole line of a block waits for the next block: here the reader of the pipeline."""
    redactor = Redactor(RULES)
    text = redactor.feed(
        b"an ordinary line\n" * (BLOCK_BYTES // 17 + 1) + b"+ echo hunter2-ribbon\n+ kinit bob\n"
    )
    assert b"ordinary" in text
    assert b"hunter2" not in text + redactor.finish()


@pytest.mark.parametrize(
    "lines",
    [
        b"-----BEGIN RSA PRIVATE KEY-----\n" * 3 + b"MIIEowIBAAKCAQEAx2b8kPq1\nall is well\n" * 2,
        b"-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEAx2b8kPq1\n-----END RSA PRIVATE KEY-----\n",
        b"passwords:\n- Qw7rT2yU9iP4\n- Qw7rT2yU9iP5\nusers:\n- Qw7rT2yU9iP4\n",
        b"- name: DB_PASSWORD\n  type: text\n  value: correct horse\n  type: text\n",
        b"args:\n- --user\n- root\n- --password\n- Qw7rT2yU9iP4\n- --verbose\n",
        b"+ echo hunter2-ribbon\n+ kinit bob\n+ echo hunter2-ribbon\ndone\n",
        b'message="password: Qw7rT2yU9iP4\\n" \x1b[0m again=Qw7rT2yU9iP4\n',
        b"00000000: 7061 7373 776f 7264 3d51 7737 7254 3279  password=Qw7rT2y\nall is well\n",
    ],
)
def test_repeated_lines_are_masked_like_the_first(lines: bytes) -> None:
    """The state above a line is a part of what is remembered of it."""
    first = redact(lines + b"--\n", Rules())
    assert first != lines + b"--\n"
    assert redact((lines + b"--\n") * 3, Rules()) == first * 3


def test_value_is_masked_in_a_similar_line() -> None:
    """The earlier line has another word in that place."""
    lines = b"password=Qw7rT2yU9iP4 id=Qw7rT2yU9iP5\npassword=Qw7rT2yU9iP6 id=Qw7rT2yU9iP6"
    assert b"Qw7rT2yU9iP6" not in redact(lines, RULES)


NESTED = {
    "names in one word": b"chpasswd:",
    "one value behind many names": b"value:>a1=706173\\npassword: ",
    "masks below a key": b'-----BEGIN RSA PRIVATE KEY-----<redacted:password>"',
    "names behind a path": b'x"password":echo data:',
    "names in quoted words": b",'\\''password=",
    "brackets behind a word": b"password=(x)",
    "backslashes": b"\\",
    "blanks": b" ",
    "tokens in JSON": b'{"a":"https://u:pA55w0rd@h"},',
}
"""Texts in which names are nested in the values of other names, or much has to be read for each name."""


@pytest.mark.slow
@pytest.mark.parametrize("piece", [*HOSTILE.values(), *NESTED.values()], ids=[*HOSTILE, *NESTED])
def test_time_grows_with_the_text(piece: bytes) -> None:
    def seconds(size: int) -> float:
        text = (b"password: x" + piece * (size // len(piece)))[:size]
        begun = time.process_time()
        redact(text, RULES)
        return time.process_time() - begun

    seconds(SMALL)
    assert min(seconds(GROWTH * SMALL) for _ in range(2)) < MOST_GROWTH * max(seconds(SMALL), seconds(SMALL))


def test_hostile_text_leaves_nothing_in_memory() -> None:
    """The next text would take the time to free it: one odd file would slow a bundle."""
    pieces = [HOSTILE[name] for name in ("brackets", "escapes", "percent")]
    for piece in pieces:
        redact(piece * (SMALL // len(piece)), RULES)  # compiles the patterns
    tracemalloc.start()
    try:
        for piece in pieces:
            redact(piece * (2 * SMALL // len(piece)), RULES)
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < 8 * SMALL
    finally:
        tracemalloc.stop()


def test_redactor_is_freed_without_a_garbage_collection() -> None:
    gc.disable()
    try:
        redactor = Redactor(RULES)
        redactor.feed(b"password=Qw7rT2yU9iP4")
        redactor.finish()
        freed = weakref.ref(redactor)
        del redactor
        assert freed() is None
    finally:
        gc.enable()
