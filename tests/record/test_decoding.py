"""Lines that are decoded and encoded many at once: whatever stands in a record, it comes to the same."""

from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from service_record.display.machine import write_jsonl
from service_record.record.directory import Records
from service_record.record.entry import Entry, Malformed, Phase, Result
from service_record.record.layout import decode_entries, read_entries
from service_record.record.recovery import Lines
from tests.builders import entry, failed_run, our_array, timestamp, upstream_entry
from tests.strategies import RECORD_BYTES

TIMES = [
    *("2026-11-21T01:05:10Z", "2026-11-21T01:05:10.1Z", "2026-11-21T01:05:10.123456789012345Z"),
    *("2024-02-29T00:00:00Z", "2023-02-29T00:00:00Z", "2026-04-31T00:00:00Z", "2026-12-31T23:59:59Z"),
    *("2026-11-21T24:00:00Z", "2026-11-21T01:60:00Z", "2026-11-21T01:05:60Z", "2026-11-21t01:05:10z"),
    *("2026-11-21T01:05:10+02:00", "2026-11-21T01:05:10-23:59", "2026-11-21T01:05:10+24:00"),
    *("0000-01-01T00:00:00Z", "0999-01-01T00:00:00Z", "9999-01-01T00:00:00Z", "1000-01-01T00:00:00Z"),
    *("2026-11-21T01:05:10.1234567890123456Z", "2026-11-21 01:05:10Z", "2026-11-21T01:05:10", "", "Z"),
    "2026-11-21T01:05:10Z\\n2026-11-21T01:05:10Z",
    "\u0662026-11-21T01:05:10Z",
]
VALUES = [
    *('""', '"a"', '"\\u0000"', '"\\ud800"', '"\\ud83d\\ude00"', '"\x7f"', '"\u202e\u2028é"'),
    *('"\\/"', '"a\tb"'),
    *('"}\\n{"', '" { \\" "', "null", "true", "false", "[]", '["a", ""]', '["a", 1]', '[["a"]]', '""', "{}"),
    *("0", "-0", "-0.0", "1", "01", "1.0", "1.", "1e2", "-3", "255", "0.1", "1e-7", "1e15", "1e16", "1e999"),
    *(
        '{"a":1}',
        '{"a":"b","":true}',
        '{"a":1.5,"b":-1e15}',
        '{"a":2e15}',
        '{"a":null}',
        '{"a":[1]}',
        '{"a":{}}',
    ),
    *('{"a":9007199254740992}', '{"a":1e999}', '{"a":""}', '{"a":"\\ud800"}', '{"a":1,"a":2}'),
    *("9007199254740991", "9007199254740992", "18446744073709551616", "NaN", "1" * 400, "1e-400"),
]
NAMES = [
    *("preCommand", "postCommand", "stage", "result", "errorLine", "errorMessage", "exitCode", "signal"),
    *("command", "stack", "errorLineApproximate", "truncated", "bootId", "invocationId", "pid", "uptime"),
    *("serviceResult", "stopRequest", "dropped", "recorder", "attributes", "service", "x", "st\\u0061ge"),
    *("pre_command", "Stage"),
]
WORDS = [*VALUES, '"success"', '"failure"', '"SUCCESS"']
FIELDS = st.tuples(st.sampled_from(NAMES), st.sampled_from(WORDS))
PHASES = st.sampled_from([*map(str, Phase), "service  start", ""])


@st.composite
def objects(draw: st.DrawFn) -> bytes:
    """An object with about the fields of an entry, in any order, doubled or missing, with any values."""
    fields = [("phase", f'"{draw(PHASES)}"'), *draw(st.lists(FIELDS, max_size=3))]
    if draw(st.integers(0, 9)):
        fields.append(("timestamp", f'"{draw(st.just(timestamp()) | st.sampled_from(TIMES))}"'))
    colon, comma = draw(st.sampled_from([(":", ","), (": ", ", "), (":\n", "\n,"), ("\t:\r", " ,")]))
    written = comma.join(f'"{name}"{colon}{value}' for name, value in draw(st.permutations(fields)))
    return f"{{{written}}}".encode()


TWO_ON_THREE_LINES = (
    b'{"timestamp":\n"2026-11-21T01:05:10Z","phase":"stage start","stage":"{\\"a\\": {"}\n'
    + entry().to_line()
)
ORDINARY = st.sampled_from([entry(), entry("stage end", 1, stage="a"), *failed_run()]).map(Entry.to_line)
ENDS = st.sampled_from(
    [b"\n", b"\n", b"\n", b"\r\n", b",\n", b"\n\n", b"", b" ", b"]\n[", b"\0\n", b"\n{", b"\n}"]
)
LINES = st.lists(ORDINARY | st.tuples(objects(), ENDS).map(b"".join) | RECORD_BYTES, max_size=8).map(b"".join)


def carefully_read(content: bytes) -> list[Entry | Malformed]:
    return list(Lines(BytesIO(), bytes).read(content))


def assert_read_alike(content: bytes, size: int = 1) -> None:
    together = list(read_entries(BytesIO(content), size))
    assert list(map(repr, together)) == list(map(repr, carefully_read(content))), content


def test_value_in_a_block_is_read_like_alone() -> None:
    for phase in ("stage start", "stage end"):
        for name in NAMES:
            for value in WORDS:
                line = f'{{"timestamp":"2026-11-21T01:05:10Z","phase":"{phase}","{name}":{value}}}\n'
                assert_read_alike(line.encode())


def test_time_in_a_block_is_read_like_alone() -> None:
    for time in TIMES:
        line = f'{{"timestamp":"{time}","phase":"stage start"}}\n'.encode()
        assert_read_alike(line)
        assert_read_alike(line * 2, 600)


@settings(max_examples=200, deadline=None)
@given(LINES, st.integers(1, 600))
@example(b"\xef\xbb\xbf" + entry().to_line() * 2, 1)
@example(TWO_ON_THREE_LINES + b"torn\n", 600)
@example(entry().to_line().rstrip() * 2 + b"\n{}\n{}\n", 1)
@example(b"[\n" + b",\n".join([entry().to_line().rstrip()] * 3) + b"\n]\n", 1)
def test_blocks_are_read_like_single_lines(content: bytes, size: int) -> None:
    assert_read_alike(content, size)


@given(LINES, st.sampled_from(["job", 'a "b"', "é\u202e", "\x7f", "caf\udce9"]))
def test_blocks_are_written_like_single_entries(content: bytes, service: str) -> None:
    written = []
    for record in ([read_entries(BytesIO(content), 1)], ([one] for one in carefully_read(content))):
        stream = BytesIO()
        for pieces in record:
            write_jsonl([(service, pieces)], stream)
        written.append(stream.getvalue())
    assert written[0] == written[1]


FULL = entry(
    "service end",
    pre_command="p",
    post_command="q",
    stage="\u00e9 {",
    result=Result.FAILURE,
    error_line="1 main /x",
    error_message="a\n\x1b",
    exit_code=0,
    signal="TERM",
    command='c "d"',
    stack=("1 main /x", ""),
    error_line_approximate=True,
    truncated=True,
    uptime=0.0,
    service_result="signal",
    stop_request="stop",
    dropped=2,
    recorder="bash/0.1.0",
)


@pytest.mark.parametrize(
    "written",
    [
        pytest.param([entry(phase) for phase in Phase], id="each phase"),
        pytest.param([FULL], id="all fields"),
        pytest.param([upstream_entry(), upstream_entry("service end", 1, result=None)], id="upstream's"),
        pytest.param([entry(timestamp="2024-02-29T01:00:00+02:00")] * 2, id="on a leap day"),
    ],
)
def test_what_writers_write_is_decoded_at_once(tmp_path: Path, written: list[Entry]) -> None:
    for one in written * 2:
        Records(tmp_path).writer("job").append(one)  # another writer for each, as for each run
    assert decode_entries(Records(tmp_path).path("job").read_bytes()) == written * 2


def test_array_with_element_lines_is_decoded_at_once() -> None:
    elements = [entry("stage start", at, stage="a},") for at in range(30)]
    content = our_array(*elements)
    within = content[content.index(b"{") : content.rindex(b"}") + 1] + b"\n"
    assert decode_entries(within) == elements
    assert_read_alike(content, 900)


def test_late_damage_has_its_line_number() -> None:
    lines = [one.to_line() for number in range(9000) for one in failed_run(f"stage {number}")]
    torn = [len(lines) // 3, len(lines) // 3 + 1, len(lines) - 400, len(lines) - 1]
    for place in torn:
        lines[place] = b"torn\n"
    found = [piece.line for piece in read_entries(BytesIO(b"".join(lines))) if isinstance(piece, Malformed)]
    assert [line - 1 for line in found] == [torn[0], *torn[2:]]  # two in a row are one piece
