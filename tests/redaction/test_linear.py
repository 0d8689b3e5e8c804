"""The readers of single syntaxes take time in proportion to a text, also where a construct never ends."""

import time
from collections.abc import Callable

import pytest

from service_record.redaction import Rules
from service_record.redaction.command_words import split_audit
from service_record.redaction.place_parsers import netrc
from service_record.redaction.types import UnescapedText
from service_record.redaction.values import quoted_parts
from tests.redaction.measure import redact


def parts(text: bytes) -> list[UnescapedText]:
    return list(quoted_parts(UnescapedText(text, [], [])))


READERS: dict[str, tuple[Callable[[bytes], object], bytes, bytes]] = {
    "URL parameters without escapes": (parts, b"x ", b"?a="),
    "data URLs without escapes": (parts, b"%41 ", b"data:,"),
    "EXECVE without arguments": (
        split_audit,
        b"",
        b"type=EXECVE ",
    ),
    "blanks in a row of INSERT": (
        lambda text: redact(text, Rules()),
        b"INSERT INTO t (password) VALUES\n(",
        b" ",
    ),
    "blanks alone": (lambda text: redact(text, Rules()), b"", b" "),
    "signs of a trace": (lambda text: redact(text, Rules()), b"password=Qw7rT2yU9iP4 + x", b"+"),
    "blanks in an argument": (lambda text: redact(text + b"x", Rules()), b"args:\n- --password\n- a", b" "),
    "arguments in a list": (lambda text: redact(text, Rules()), b"args:\n", b"- --password\n- v1\n"),
    "lines of a command": (lambda text: redact(text, Rules()), b"curl \\\n", b"--user \\\n"),
    "empty lines of netrc": (lambda text: list(netrc(text.decode())), b"", b"\n"),
}


@pytest.mark.parametrize("name", READERS)
def test_reader_takes_linear_time(name: str) -> None:
    """Eight times the text takes eight times as long, not 64 times."""
    read, before, unit = READERS[name]

    def seconds(size: int) -> float:
        text = before + unit * (size // len(unit))
        started = time.process_time()
        read(text)
        return time.process_time() - started

    small = min(seconds(8_000) for _ in range(3))
    assert min(seconds(64_000) for _ in range(3)) < 24 * small + 0.02


def test_arguments_of_a_later_execve_record_are_read() -> None:
    records = b'type=EXECVE msg=1: cut\ntype=EXECVE msg=2: argc=2 a0="app" a1=2D70\n'
    assert [word.text for word in split_audit(records)] == [b"app", b"-p"]


def test_numbers_in_a_list_of_tokens_take_linear_time() -> None:
    def seconds(count: int) -> float:
        text = b'{"token":"a1b2c3d4e5","tokens":[1' + b",1" * count + b"]}\n"
        started = time.process_time()
        redact(text, Rules())
        return time.process_time() - started

    seconds(1_000)  # compiles the patterns
    small = min(seconds(count) for count in (50_000, 50_001, 50_002))  # the same text is read from a cache
    assert seconds(400_000) < 24 * small + 0.02
