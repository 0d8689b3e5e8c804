"""Traces: `service-record export --to chrome-trace` and `--to otlp`."""

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status, TracesData

from service_record.export.otlp import to_otlp
from service_record.export.trace import SteadyClock, to_chrome_trace
from service_record.history import History, build_history
from service_record.record.entry import Entry, Phase, Result
from service_record.version import __version__
from tests.builders import BOOT_ID, START, entry, failed_run, upstream_entry, write_lines
from tests.command_line import service_record
from tests.strategies import entries

START_MICROSECONDS = round(START.timestamp() * 1e6)


def history(records: dict[str, list[Entry]]) -> History:
    clock = SteadyClock(each for record in records.values() for each in record)
    return build_history((service, clock.timed(record)) for service, record in records.items())


def chrome_events(**records: list[Entry]) -> list[dict[str, Any]]:
    content = b"".join(to_chrome_trace(history(records), None))
    events: list[dict[str, Any]] = json.loads(content)["traceEvents"]
    return events


def slices(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [event for event in events if event["ph"] == "X"]


def otlp(host: str | None = None, **records: list[Entry]) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(b"".join(to_otlp(history(records), host)))
    return document


def parse_traces(document: dict[str, Any]) -> TracesData:
    """Parse a document with the protocol's own definitions, which by default expect ids in base64."""

    def with_base64(value: Any) -> Any:
        if isinstance(value, list):
            return [with_base64(item) for item in value]
        if not isinstance(value, dict):
            return value
        ids = {key: base64.b64encode(bytes.fromhex(value[key])).decode() for key in value if is_id(key)}
        return {key: with_base64(item) for key, item in value.items()} | ids

    return json_format.ParseDict(with_base64(document), TracesData())


def is_id(key: str) -> bool:
    return key in {"traceId", "spanId", "parentSpanId"}


def read_spans(document: dict[str, Any]) -> list[Span]:
    return [
        span
        for resource in parse_traces(document).resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def find_ids(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from (item for key, item in value.items() if is_id(key))
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from find_ids(item)


def stage(name: str, start: float, end: float, **fields: object) -> list[Entry]:
    return [
        entry(Phase.STAGE_START, start, stage=name, **fields),
        entry(Phase.STAGE_END, end, stage=name, **fields),
    ]


def sort_by_uptime(*written: list[Entry]) -> list[Entry]:
    return sorted((one for some in written for one in some), key=lambda one: one.uptime or 0)


RUN = [entry(at=0), entry(Phase.SERVICE_END, 10)]


def test_chrome_trace_has_slices_and_failures_of_each_service() -> None:
    events = chrome_events(bootkube=failed_run(), other=sort_by_uptime(RUN, stage("first", 1, 3)))
    names = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    found = [
        (names[each["pid"]], each["name"], each["ts"] - START_MICROSECONDS, each["dur"])
        for each in slices(events)
    ]
    assert found == [
        ("bootkube", "bootkube", 0, 10_000_000),
        ("bootkube", "stage second", 1_000_000, 9_000_000),
        ("other", "other", 0, 10_000_000),
        ("other", "stage first", 1_000_000, 2_000_000),
    ]
    failures = [each for each in events if each["ph"] == "i"]
    assert [(each["name"], each["ts"] - START_MICROSECONDS) for each in failures] == [
        ("bootkube failed: exit 1", 10_000_000),
        ("stage second failed: exit 1", 10_000_000),
    ]
    assert failures[0]["args"]["facts"]["location"] == {
        "line": 12,
        "function": "main",
        "file": "/usr/local/bin/job.sh",
    }


def test_overlapping_stages_are_on_different_threads() -> None:
    events = chrome_events(
        job=sort_by_uptime(RUN, stage("a", 1, 5), stage("b", 3, 7), stage("c", 6, 8), stage("d", 6.5, 7.5))
    )
    threads = {event["name"]: event["tid"] for event in slices(events)}
    assert threads["job"] == threads["stage a"] == threads["stage c"] == threads["stage d"]
    assert threads["stage b"] != threads["job"]


def test_concurrent_stages_have_the_recorded_parents() -> None:
    inner = stage("b", 2, 4, stage_id="2")
    record = sort_by_uptime(
        RUN, stage("a", 1, 9, stage_id="1"), inner, stage("c", 3, 8, stage_id="3", parent="1")
    )
    named = {span.name: span for span in read_spans(otlp(job=record))}
    job, first = named["job"].span_id, named["stage a"].span_id
    assert {name: span.parent_span_id for name, span in named.items()} == {
        "job": b"",
        "stage a": job,
        "stage b": job,
        "stage c": first,
    }


@given(st.lists(entries(), max_size=12))
def test_slices_of_a_thread_never_cross(written: list[Entry]) -> None:
    events = slices(chrome_events(job=written))
    assert all(event["dur"] >= 0 and event["ts"] >= 0 for event in events)
    for one in events:
        for other in events:
            if one["tid"] == other["tid"]:
                ends = one["ts"] + one["dur"], other["ts"] + other["dur"]
                assert not one["ts"] < other["ts"] < ends[0] < ends[1]


@given(st.lists(entries(), max_size=12))
def test_spans_of_any_record_are_valid(written: list[Entry]) -> None:
    document = otlp(job=written)
    spans = read_spans(document)
    known = {span.span_id for span in spans}
    assert len(known) == len(spans)
    assert all(span.parent_span_id in known | {b""} for span in spans)
    assert all(span.start_time_unix_nano <= span.end_time_unix_nano for span in spans)


def test_trace_of_a_boot_has_spans_with_failures() -> None:
    document = otlp("host-1", bootkube=failed_run(error_message="no such image", stack=("12 main /x",)))
    run, second = read_spans(document)
    assert run.trace_id == second.trace_id == bytes.fromhex(BOOT_ID)
    assert (run.name, second.name, second.parent_span_id) == ("bootkube", "stage second", run.span_id)
    assert run.kind == Span.SPAN_KIND_INTERNAL
    assert (run.status.code, run.status.message) == (Status.STATUS_CODE_ERROR, "failed: exit 1")
    assert run.end_time_unix_nano - run.start_time_unix_nano == 10 * 10**9
    assert run.start_time_unix_nano == START_MICROSECONDS * 1000
    attributes = {attribute.key: attribute.value.string_value for attribute in run.events[0].attributes}
    assert attributes["exception.message"] == "no such image"
    resource = parse_traces(document).resource_spans[0].resource
    assert [(each.key, each.value.string_value) for each in resource.attributes] == [
        ("service.name", "bootkube"),
        ("service.instance.id", BOOT_ID),
        ("host.name", "host-1"),
        ("service_record.boot_id", BOOT_ID),
        ("service_record.version", __version__),
    ]


def test_ids_are_hexadecimal_and_integers_are_strings() -> None:
    document = otlp(bootkube=failed_run())
    assert [
        found for found in find_ids(document) if not re.fullmatch("[0-9a-f]{32}|[0-9a-f]{16}", found)
    ] == []
    span = document["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
    assert span["startTimeUnixNano"] == f"{START_MICROSECONDS}000"
    assert {"key": "process.pid", "value": {"intValue": "4711"}} in span["attributes"]


def test_ids_do_not_change_when_the_record_grows() -> None:
    before = list(find_ids(otlp(job=failed_run())))
    after = list(find_ids(otlp(job=[*failed_run(), *[replace(one, pid=2) for one in failed_run(at=100)]])))
    assert after[: len(before)] == before
    assert len(set(after)) == 5  # the trace, two runs, two stages


def test_each_boot_is_a_trace_even_without_an_id() -> None:
    other = [replace(one, boot_id="c1" * 16) for one in RUN]
    upstream = [upstream_entry(at=0), upstream_entry(Phase.SERVICE_END, 5)]
    assert len({span.trace_id for span in read_spans(otlp(job=[*RUN, *other], old=upstream))}) == 3


def test_clock_change_within_a_boot_moves_no_span() -> None:
    run = sort_by_uptime(RUN, stage("first", 1, 3))
    stepped = [replace(one, timestamp="2020-01-01T00:00:00Z") for one in run[:2]] + run[2:]
    assert chrome_events(job=stepped) == chrome_events(job=run)
    assert otlp(job=stepped) == otlp(job=run)


@pytest.mark.parametrize("uptime", [1e12, 1e300, -1e12])
def test_entry_with_an_impossible_uptime_keeps_its_time(uptime: float) -> None:
    end = replace(entry(Phase.SERVICE_END, 10), uptime=uptime)
    assert list(SteadyClock([RUN[0]]).timed([RUN[0], end]))[1] is end


def test_span_without_end_ends_at_the_last_known_time() -> None:
    events = slices(chrome_events(running=[entry(at=1)], other=RUN, gone=[entry(at=-50, boot_id="a0" * 16)]))
    assert {each["name"]: (each["args"]["outcome"], each["dur"]) for each in events} == {
        "running": ("running", 9_000_000),
        "other": ("success", 10_000_000),
        "gone": ("interrupted", 0),
    }


def test_command_is_a_child_of_its_run() -> None:
    before = [
        entry(Phase.PRE_COMMAND_START, -3, pre_command="prep"),
        entry(Phase.PRE_COMMAND_END, -1, pre_command="prep", result=Result.SUCCESS),
    ]
    run, command = read_spans(otlp(job=[*before, *RUN]))
    assert (command.name, command.parent_span_id) == ("pre-command prep", run.span_id)
    assert command.end_time_unix_nano < run.start_time_unix_nano


@pytest.mark.parametrize("form", ["chrome-trace", "otlp"])
def test_damaged_pieces_are_left_out_and_reported(tmp_path: Path, form: str) -> None:
    write_lines(tmp_path / "job.json", *failed_run(), b"oops\n")
    write_lines(tmp_path / "other.json", *RUN)
    answer = service_record("export", "--to", form, "--from", tmp_path)
    assert (answer.status, answer.err) == (4, "job: 1 damaged piece left out: line 5 (not an entry)\n")
    assert json.loads(answer.out)
    assert service_record("export", "other", "--to", form, "--from", tmp_path).status == 0


def test_host_option_is_accepted_for_traces_only(tmp_path: Path) -> None:
    write_lines(tmp_path / "job.json", *RUN)
    arguments = "export", "--from", tmp_path, "--host", "h1", "--to"
    assert json.loads(service_record(*arguments, "chrome-trace").out)["otherData"]["host"] == "h1"
    assert service_record(*arguments, "array").status == 2
    assert (
        service_record("export", "--to", "otlp", "--directory", tmp_path / "out", "--from", tmp_path).status
        == 2
    )


def test_stopped_run_has_no_status() -> None:
    facts: dict[str, Any] = {
        "exit_code": None,
        "signal": "TERM",
        "service_result": "signal",
        "stop_request": "stop",
    }
    run, second = read_spans(otlp("host-1", bootkube=failed_run(**facts)))
    for span in (run, second):
        attributes = {attribute.key: attribute.value.string_value for attribute in span.attributes}
        assert (span.status.code, len(span.events)) == (Status.STATUS_CODE_UNSET, 0)
        assert attributes["service_record.outcome"] == "stopped"
    assert attributes["service_record.stop_request"] == "stop"


@pytest.mark.parametrize(
    ("recorder", "message", "expected"),
    [
        ("python/1.0", "OSError: [Errno 28] No space left", "OSError"),
        ("python/1.0", "Pulling\nKeyError: 'x'\nimages.PullDenied: no\nhint: log in", "images.PullDenied"),
        ("python/1.0", "ValueError: two\nNote: lines", "ValueError"),
        ("python/1.0", "KeyboardInterrupt", "KeyboardInterrupt"),
        ("python/1.0", "the disk is full", "failed: exit 1"),
        ("bash/1.0", "OSError: printed by something", "failed: exit 1"),
    ],
)
def test_exception_has_the_class_as_its_type(recorder: str, message: str, expected: str) -> None:
    record = failed_run(error_message=message)
    record[0] = replace(record[0], recorder=recorder)
    run = read_spans(otlp(job=record))[0]
    attributes = {each.key: each.value.string_value for each in run.events[0].attributes}

    assert attributes["exception.type"] == expected


def test_spans_are_written_one_by_one() -> None:
    runs = [entry for at in range(100) for entry in failed_run(at=at * 10)]
    parts = list(to_otlp(history({"job": runs, "other": runs}), None))

    assert max(map(len, parts)) < 4000
    assert [len(each["scopeSpans"]) for each in json.loads(b"".join(parts))["resourceSpans"]] == [1, 1]


@pytest.mark.parametrize("form", ["otlp", "chrome-trace"])
def test_pipe_is_exported_like_a_file(form: str, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "stdin.json", *failed_run())
    from_file = service_record("export", "--to", form, "--from", path)
    with path.open("rb") as stream:
        from_pipe = service_record("export", "--to", form, "--from", "-", stdin=stream.read())

    assert (from_pipe.status, from_pipe.err) == (0, "")
    assert json.loads(from_pipe.out) == json.loads(from_file.out)


def test_trace_has_schema_and_conventional_names() -> None:
    run = [
        entry("service start", boot_id="1" * 32, invocation_id="2" * 32),
        entry("service end", boot_id="1" * 32, invocation_id="2" * 32, result="failure", exit_code=3),
    ]
    document = json.loads(b"".join(to_otlp(history({"job": run, "other": run}), "node1", "4" * 32)))

    parse_traces(document)
    assert len(document["resourceSpans"]) == 2
    for resource in document["resourceSpans"]:
        (scope,) = resource["scopeSpans"]
        assert resource["schemaUrl"] == scope["schemaUrl"] == "https://opentelemetry.io/schemas/1.37.0"
        attributes = {each["key"]: each["value"] for each in resource["resource"]["attributes"]}
        assert attributes["service.instance.id"] == {"stringValue": "1" * 32}
        assert attributes["host.id"] == {"stringValue": "4" * 32}
        (span,) = scope["spans"]
        assert {"key": "error.type", "value": {"stringValue": "failed: exit 3"}} in span["attributes"]
