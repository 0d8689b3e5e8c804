"""Entries: what is one and what is not, and the line each becomes."""

import io
import json
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service_record.record.entry import (
    Entry,
    EntryError,
    Malformed,
    Phase,
    Result,
    RunsLeftOut,
    describe_value,
)
from service_record.record.layout import read_entries
from service_record.record.line import MAX_LINE_BYTES, encoded, line_of
from tests.builders import START, entry, timestamp, upstream_entry
from tests.faults import Faults
from tests.strategies import entries


@given(entries())
def test_an_entry_survives_the_way_through_json(written: Entry) -> None:
    assert Entry.from_json(written.to_json()) == written


@given(entries())
def test_line_is_what_json_writes(written: Entry) -> None:
    encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
    text = encode(written.to_json()).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert encoded(written.to_json()).decode() == f"{text}\n"


@given(entries(), st.integers(1024, 2 * MAX_LINE_BYTES))
def test_cut_line_keeps_its_structure(written: Entry, limit: int) -> None:
    line = written.to_line(limit)
    read = Entry.from_json(json.loads(line))
    assert len(line) <= limit
    assert line.count(b"\n") == 1
    assert line.endswith(b"}\n")
    assert (read.timestamp, read.phase, read.result) == (written.timestamp, written.phase, written.result)
    shorts = (written.stage, written.pre_command, written.command)
    if not read.truncated and all(len((text or "").encode()) <= 200 for text in shorts):
        assert read == written


def test_unknown_fields_are_written_last() -> None:
    end = entry(
        "stage end",
        extra={"newField": [1]},
        recorder="bash/0.1.0",
        stage="first",
        pre_command="pull",
        result=Result.FAILURE,
        error_line="3 main /x",
        error_message="gone",
        exit_code=0,
        stack=("3 main /x",),
        dropped=2,
    )
    assert list(json.loads(end.to_line())) == [
        *("timestamp", "preCommand", "stage", "phase", "result", "errorLine", "errorMessage"),
        *("exitCode", "stack", "bootId", "invocationId", "pid", "uptime", "dropped", "recorder", "newField"),
    ]


def test_what_is_not_known_is_left_out() -> None:
    assert json.loads(upstream_entry("service start").to_line()) == {
        "timestamp": "2026-11-21T01:05:10Z",
        "phase": "service start",
    }


def test_null_and_empty_text_mean_absent() -> None:
    found = {
        "timestamp": timestamp(),
        "phase": "stage end",
        "stage": "",
        "result": None,
        "errorMessage": "",
        "pid": None,
    }
    assert Entry.from_json(found) == Entry(timestamp=timestamp(), phase=Phase.STAGE_END)


def test_message_end_and_stage_name_outlast_the_rest() -> None:
    written = entry(
        "stage end",
        stage="third",
        error_message="é\x00" * 9000 + "the last words",
        stack=tuple(f"{line} run /usr/local/bin/job.sh" for line in range(500)),
        command="podman run --rm",
    )
    read = Entry.from_json(json.loads(written.to_line()))
    assert read.truncated
    assert read.stage == "third"
    assert read.command == "podman run --rm"
    assert read.stack == written.stack[: len(read.stack)]
    assert len(read.stack) > 20
    assert read.error_message is not None
    assert read.error_message.startswith("\u2026")
    assert read.error_message.endswith("the last words")


def test_beginning_of_a_message_is_cut_first() -> None:
    written = entry("service end", error_message="x" * 5000 + "end", command="false", stack=("1 main /x",))
    line = written.to_line()
    read = Entry.from_json(json.loads(line))
    assert len(line) == MAX_LINE_BYTES
    assert (read.command, read.stack, read.truncated) == ("false", ("1 main /x",), True)


def test_long_name_is_cut_the_same_everywhere() -> None:
    start = entry("stage start", stage="s" * 300)
    end = entry("stage end", stage="s" * 300, error_message="m" * 9000)
    names = {Entry.from_json(json.loads(written.to_line())).stage for written in (start, end)}
    assert names == {"s" * 255}


@pytest.mark.parametrize(
    "absurd",
    [
        pytest.param(
            {"stage": "\0" * 999, "pre_command": "\1" * 999, "post_command": "\2" * 999}, id="names"
        ),
        pytest.param({"error_line": "1 main /" + "x" * 9000, "signal": "\x1b" * 9000}, id="texts"),
        pytest.param({"extra": {"a": "x" * 9000, "b": 1}}, id="unknown-field"),
        pytest.param({"extra": {f"field{number}": number for number in range(999)}}, id="unknown-fields"),
        pytest.param(
            {"stack": ("9" * 5000, *["1 main /x"] * 9000), "command": "\U0001f600" * 9000}, id="stack"
        ),
    ],
)
def test_an_absurd_entry_fits_all_the_same(absurd: dict[str, Any]) -> None:
    line = entry("service end", error_message="m" * 9000, **absurd).to_line()
    assert len(line) <= MAX_LINE_BYTES
    assert Entry.from_json(json.loads(line)).truncated


def test_only_unknown_fields_are_lost_to_json() -> None:
    nested: list[Any] = []
    for _ in range(100_000):
        nested = [nested]
    line = entry("service start", extra={"deep": nested}).to_line()
    assert Entry.from_json(json.loads(line)) == entry("service start", truncated=True)


def test_a_lone_surrogate_becomes_a_replacement_character() -> None:
    line = entry("stage start", stage="a\udcffb").to_line()
    assert json.loads(line)["stage"] == "a\ufffdb"


def nested(depth: int) -> object:
    return json.loads("[" * depth + "]" * depth)


def test_an_unknown_field_may_be_nested_deeply() -> None:
    found = entry("service start").to_json() | {"x": nested(100)}
    assert json.loads(Entry.from_json(found).to_line()) == found


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        pytest.param(
            {"timestamp": "2026-11-21"}, 'timestamp: expected an RFC 3339 time, found "2026-11-21"', id="date"
        ),
        pytest.param(
            {"timestamp": "2026-11-21T01:05:10"}, "timestamp: expected an RFC 3339 time", id="no-zone"
        ),
        pytest.param(
            {"timestamp": "0001-01-01T00:00:00Z"}, "timestamp: expected an RFC 3339 time", id="year-one"
        ),
        pytest.param({"x\n": [[1e999]]}, '"x\\n": a number too large', id="infinite"),
        pytest.param({"x": 10**400}, '"x": a number too large', id="beyond-a-double"),
        pytest.param({"x": nested(101)}, '"x": nested deeper than 100', id="nested-lists"),
        pytest.param({"x": {"y": nested(100)}}, '"x": nested deeper than 100', id="nested"),
        pytest.param(
            {"timestamp": "2026-11-31T01:05:10Z"}, "timestamp: expected an RFC 3339 time", id="no-day"
        ),
        pytest.param(
            {"timestamp": "20261121T010510.123Z"}, "timestamp: expected an RFC 3339 time", id="basic"
        ),
        pytest.param({"timestamp": 1795223110}, "timestamp: expected a text, found 1795223110", id="epoch"),
        pytest.param({"phase": ""}, "phase: missing", id="empty-phase"),
        pytest.param({"phase": "service paused"}, 'phase: unknown word "service paused"', id="unknown-phase"),
        pytest.param({"phase": ["stage end"]}, "phase: expected a text, found a list", id="phase-list"),
        pytest.param({"result": "ok"}, 'result: unknown word "ok"', id="unknown-result"),
        pytest.param({"phase": "stage start"}, 'result: has no place on "stage start"', id="result-on-start"),
        pytest.param({"stage": 3}, "stage: expected a text, found 3", id="number-for-text"),
        pytest.param(
            {"stage": "s" * 99, "pid": "p" * 99},
            f'pid: expected a whole number, found "{"p" * 40}"...',
            id="long",
        ),
        pytest.param({"pid": "4711"}, 'pid: expected a whole number, found "4711"', id="text-for-number"),
        pytest.param({"pid": True}, "pid: expected a whole number, found true", id="flag-for-number"),
        pytest.param({"pid": 10**5000}, "pid: expected a whole number, found a number too large", id="huge"),
        pytest.param({"exitCode": 1.5}, "exitCode: expected a whole number, found 1.5", id="fraction"),
        pytest.param({"uptime": float("nan")}, "uptime: expected a number of seconds, found NaN", id="nan"),
        pytest.param({"truncated": 1}, "truncated: expected true or false, found 1", id="number-for-flag"),
        pytest.param({"stack": "1 main /x"}, "stack: expected a list of texts", id="text-for-list"),
        pytest.param({"stack": [1]}, "stack: expected a list of texts, found a list", id="list-of-numbers"),
    ],
)
def test_refusal_names_the_field_in_one_line(change: dict[str, Any], reason: str) -> None:
    found = {"timestamp": timestamp(), "phase": "stage end", "result": "success"} | change
    with pytest.raises(EntryError) as refused:
        Entry.from_json(found)
    assert str(refused.value).startswith(reason)
    assert "\n" not in str(refused.value)


LARGEST = float(2**1023 * (2 - 2**-52))
LIMITS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"pid": 2**53 - 1}, {"pid": 2**53}),
    ({"exitCode": -(2**53) + 1}, {"exitCode": -(2**53)}),
    ({"uptime": LARGEST}, {"uptime": float("inf")}),
    ({"uptime": 0}, {"uptime": True}),
    ({"x": LARGEST}, {"x": float("inf")}),
    ({"x": [-LARGEST]}, {"x": [-float("inf")]}),
    ({"leftOut": {"failed": 0}}, {"leftOut": {"failed": -1}}),
    ({"leftOut": {"failed": 2**53 - 1}}, {"leftOut": {"failed": 2**53}}),
]
"""The last value of a field that is taken, and the first that is not."""


def test_a_value_counts_up_to_its_limit() -> None:
    with Faults() as faults:
        for taken, refused in LIMITS:
            with faults.case(taken):
                Entry.from_json({"phase": "stage end"} | taken)
            with faults.case(refused), pytest.raises(EntryError):
                Entry.from_json({"phase": "stage end"} | refused)


@pytest.mark.parametrize(
    ("value", "description"),
    [
        ("x" * 40, f'"{"x" * 40}"'),
        ("x" * 41, f'"{"x" * 40}"...'),
        (2**53, "9007199254740992"),
        (2**53 + 1, "a number too large"),
        (-(2**53) - 1, "a number too large"),
        (True, "true"),
        (None, "null"),
        ({}, "an object"),
        ([], "a list"),
    ],
    ids=str,
)
def test_a_value_is_described_in_a_few_words(value: object, description: str) -> None:
    assert describe_value(value) == description


def test_left_out_runs_include_every_outcome() -> None:
    assert RunsLeftOut(succeeded=1, stopped=2, failed=4, alike=8, boots=16, boot_runs=32).runs == 7


def test_long_damaged_text_is_shown_abridged() -> None:
    whole = Malformed(7, "x" * 4096, "not an entry")
    assert whole.abridge() is whole
    long = Malformed(7, "a" * 3072 + "b" + "c" * 1024, "not an entry")
    text = "a" * 3072 + "\u2026[1 characters left out]\u2026" + "c" * 1024
    assert long.abridge() == Malformed(7, text, "not an entry")


@pytest.mark.parametrize("found", [[], "service start", 3, None, True], ids=repr)
def test_only_an_object_can_be_an_entry(found: object) -> None:
    with pytest.raises(EntryError, match="not an object"):
        Entry.from_json(found)


def test_unknown_fields_are_kept() -> None:
    found = entry("service start").to_json() | {"site": {"rack": 7}, "tags": [], "note": ""}
    assert Entry.from_json(found).extra == {"site": {"rack": 7}, "tags": [], "note": ""}
    assert Entry.from_json(found).to_json() == found


def test_the_time_is_aware_whatever_the_zone() -> None:
    utc, east = entry(at=3), entry(timestamp="2026-11-21T03:05:13+02:00")
    assert utc.time == east.time == START + timedelta(seconds=3)


@pytest.mark.parametrize("phase", Phase)
def test_a_phase_is_a_start_or_an_end(phase: Phase) -> None:
    assert phase.is_start is phase.endswith(" start")
    assert phase.is_end is not phase.is_start


def test_start_with_a_result_is_malformed() -> None:
    line = json.dumps(entry("stage start").to_json() | {"result": "success"}).encode() + b"\n"
    (piece,) = read_entries(io.BytesIO(line))
    assert isinstance(piece, Malformed)


ENDED = {"timestamp": "2026-11-21T01:05:10.000Z", "phase": "service end"}


@pytest.mark.parametrize("name", ["errorMessage", "errorLine", "command", "stage", "signal"])
@pytest.mark.parametrize("character", ["x", "\n", "\u00e9", "\U0001f600"])
def test_cut_text_fills_its_line(name: str, character: str) -> None:
    text = character * 40
    whole = line_of({**ENDED, name: text})
    assert json.loads(whole)[name] == text
    assert line_of({**ENDED, name: text}, len(whole)) == whole
    size = len(json.dumps(character, ensure_ascii=False).encode()) - 2
    marked = len(whole) + len('"truncated":true,')
    for limit in range(marked - 41 * size, len(whole)):
        line = line_of({**ENDED, name: text}, limit)
        fields = json.loads(line)
        kept = fields.get(name, "").strip("\u2026")
        assert fields["truncated"]
        assert fields.get(name, "").startswith("\u2026") is (bool(kept) and name == "errorMessage")
        assert len(line) <= limit
        assert text.startswith(kept)
        if kept:
            assert limit - len(line) < size
        else:
            assert marked - 40 * size + len("\u2026".encode()) + size > limit


def test_last_attributes_are_dropped_until_the_line_fits() -> None:
    attributes = {f"key{number:02}": "v" * 20 for number in range(30)}
    fields = {**ENDED, "command": "c" * 100, "attributes": attributes, "unknown": "u"}
    line = line_of(fields, 600)
    kept = json.loads(line)
    names = list(attributes)[: len(kept["attributes"])]
    assert kept["attributes"] == dict.fromkeys(names, "v" * 20)
    assert 600 - len(",".join((line.decode(), f'"key99":"{"v" * 20}"'))) < 0 <= 600 - len(line)
    assert ("command" in kept, kept["unknown"], kept["truncated"]) == (False, "u", True)
    assert "attributes" not in json.loads(line_of(fields | {"attributes": {"key": "v" * 900}}, 300))


def test_fields_are_cut_no_more_than_needed() -> None:
    frames = [f"{number} f job.sh" for number in range(30)]
    line = line_of({**ENDED, "stack": frames, "command": "true"}, 300)
    fields = json.loads(line)
    assert (fields["command"], fields["stack"]) == ("true", frames[: len(fields["stack"])])
    assert 300 - len(line) < len('"30 f job.sh",') + len('"",')
    assert "stack" not in json.loads(line_of({**ENDED, "stack": ["x" * 400]}, 300))
    both = {**ENDED, "command": "c" * 150, "zeta": "z" * 100}
    fields = json.loads(line_of(both, len(line_of(both)) + len('"truncated":true,') - 37))
    assert (fields["command"], fields["zeta"]) == ("c" * 110 + "\u2026", "z" * 100)
    both = {**ENDED, "alpha": "a" * 50, "gamma": "c" * 50}
    least = len(line_of(both)) + len('"truncated":true,') - len(f'"gamma":"{both["gamma"]}",')
    assert [json.loads(line_of(both, least - less)).get("alpha") for less in (0, 1)] == ["a" * 50, None]
    unknown = {"alpha": "a" * 50, "beta": "b" * 300, "gamma": "c" * 50}
    fields = json.loads(line_of({**ENDED, **unknown, "errorMessage": "m" * 1000}, 1250))
    assert [name for name in fields if name in unknown] == ["alpha"]
    assert fields["errorMessage"] == "m" * 1000
    fields = json.loads(
        line_of({**ENDED, "stage": "s" * 200, "signal": "t" * 60, "errorLine": "e" * 90}, 420)
    )
    assert (len(fields["stage"]), len(fields["signal"])) == (200, 60)
    assert fields["errorLine"].endswith("e\u2026")


def test_message_keeps_a_kilobyte_before_others() -> None:
    line = line_of({**ENDED, "errorMessage": "m" * 3000, "stack": ["1 main /x"] * 400, "command": "c" * 200})
    fields = json.loads(line)
    assert len(fields["errorMessage"].encode()) == 1024
    assert len(fields["command"]) == 200
    assert MAX_LINE_BYTES - len(line) < 30
    names = {"stage": 255, "preCommand": 255, "postCommand": 255, "command": 200}
    for name, most in names.items():
        for size in (most // 4, most // 4 + 1, most, most + 1):
            fields = json.loads(line_of({**ENDED, name: "n" * size}))
            assert fields[name] == "n" * min(size, most)


def test_added_fields_get_their_place() -> None:
    fields = {"recorder": "x", "phase": "service end", "pid": 7, "zeta": 1}
    assert list(json.loads(line_of(fields))) == list(fields)
    assert list(json.loads(line_of({**fields, "dropped": 2}))) == [
        "phase",
        "pid",
        "dropped",
        "recorder",
        "zeta",
    ]
