"""Journals in systemd's export format come to the lines that journalctl prints, at the places of the file."""

from io import BytesIO

import pytest

from service_record.diagnosis.evidence.journal_forms import convert_to_lines
from service_record.record.recognition import FileForm

TIME = "__REALTIME_TIMESTAMP=1795223110123456\n"
AT = "2026-11-21T01:05:10.123456+00:00"
BLOCK = 1 << 18
MAX_FIELD = 16 << 20


def lines(journal: bytes, most: int = BLOCK) -> list[bytes]:
    """The lines of a journal that is read at most so many bytes at a time; each block ends with one."""
    stream = BytesIO(journal)
    read = convert_to_lines(FileForm.JOURNAL_EXPORT, lambda size: stream.read(min(size, most)))
    blocks = list(iter(lambda: read(1), b""))
    assert all(block.endswith(b"\n") for block in blocks)
    return b"".join(blocks).split(b"\n")[:-1]


def binary(name: str, value: bytes) -> bytes:
    return name.encode() + b"\n" + len(value).to_bytes(8, "little") + value + b"\n"


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        (f"{TIME}MESSAGE=said\n", f"{AT} host unknown: said"),
        (f"{TIME}_HOSTNAME=a\n_COMM=b c:d\n_PID=7\nMESSAGE=said\n", f"{AT} a b_c_d[7]: said"),
        (f"{TIME}SYSLOG_IDENTIFIER=s\n_COMM=b\nSYSLOG_PID=8\n_PID=7\nMESSAGE=m\n", f"{AT} host s[8]: m"),
        (f"{TIME}_TRANSPORT=kernel\n_COMM=b\n_PID=7\nMESSAGE=m\n", f"{AT} host kernel: m"),
        (f"{TIME}_PID=x\nMESSAGE=m\n", f"{AT} host unknown: m"),
        (
            f"__REALTIME_TIMESTAMP={'9' * 16}\nMESSAGE=m\n",
            "2286-11-20T17:46:40.000000+00:00 host unknown: m",
        ),
        (
            f"__REALTIME_TIMESTAMP={'9' * 17}\nMESSAGE=m\n",
            "1970-01-01T00:00:00.000000+00:00 host unknown: m",
        ),
        ("__REALTIME_TIMESTAMP=soon\nMESSAGE=a=b\n", "1970-01-01T00:00:00.000000+00:00 host unknown: a=b"),
        (f"{TIME}MESSAGE={'x' * 20_000}\n", f"{AT} host unknown: {'x' * (1 << 14)}"),
    ],
)
@pytest.mark.parametrize("most", [1, BLOCK])
def test_entry_is_a_line_at_its_message(fields: str, line: str, most: int) -> None:
    before = fields[: fields.index("MESSAGE=")].count("\n")
    for end in ("\n", ""):  # the last may lack the empty line behind it
        (*above, found), behind = lines((fields + end).encode(), most)[: before + 1], len(end)
        assert (above, found.decode()) == ([b""] * before, line)
        assert len(lines((fields + end).encode(), most)) == before + 1 + behind


def test_entry_without_message_becomes_empty_lines() -> None:
    assert lines(f"{TIME}_PID=7\n\n{TIME}\n".encode()) == [b""] * 5


def test_multi_line_message_keeps_later_line_numbers() -> None:
    journal = TIME.encode() + binary("MESSAGE", b"one\n two\n") + f"_PID=7\n\n{TIME}MESSAGE=next\n\n".encode()
    found = lines(journal)
    head = f"{AT} host unknown[7]: ".encode()
    assert found[:4] == [b"", head + b"one", head + b" two", head]
    assert found.index(f"{AT} host unknown: next".encode()) == journal.split(b"\n").index(b"MESSAGE=next")
    assert len(found) == journal.count(b"\n")


@pytest.mark.parametrize("size", [0, 10, 2570], ids=str)
def test_line_breaks_in_a_field_size_are_counted(
    size: int,
) -> None:
    journal = binary("EXTRA", b"x" * size) + f"{TIME}MESSAGE=said\n\n".encode()
    place = journal.split(b"\n").index(b"MESSAGE=said")
    assert lines(journal)[place] == f"{AT} host unknown: said".encode()


def test_entries_before_a_field_of_absurd_size_are_read() -> None:
    before, behind = f"{TIME}MESSAGE=one\n\n".encode(), f"\n{TIME}MESSAGE=two\n\n".encode()
    largest = before + binary("BIG", b"x" * MAX_FIELD) + behind
    assert [line[-3:] for line in lines(largest) if line] == [b"one", b"two"]
    too_large = before + b"BIG\n" + (MAX_FIELD + 1).to_bytes(8, "little") + b"x" * 9 + behind
    assert [line[-3:] for line in lines(too_large) if line] == [b"one"]


def test_endless_line_is_not_read_forever() -> None:
    asked = []

    def endless(size: int) -> bytes:
        asked.append(size)
        assert len(asked) < 200
        return b"x" * size

    convert_to_lines(FileForm.JOURNAL_EXPORT, endless)(1)
    assert MAX_FIELD < len(asked) * BLOCK <= MAX_FIELD + 2 * BLOCK


def test_long_journal_is_read_in_blocks() -> None:
    journal = f"{TIME}MESSAGE={'x' * 1000}\n\n".encode() * 600
    stream = BytesIO(journal)
    read = convert_to_lines(FileForm.JOURNAL_EXPORT, stream.read)
    blocks = list(iter(lambda: read(1), b""))
    assert [len(block) >= BLOCK for block in blocks] == [True, True, False]
    assert max(map(len, blocks)) < BLOCK + 2000
    assert b"".join(blocks).count(b"\n") == journal.count(b"\n")
