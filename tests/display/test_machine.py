"""The forms for programs: nothing lost, nothing that acts on a terminal."""

import io
import json
import re
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
import yaml
from msgspec.structs import replace

from service_record.display.machine import format_json, format_yaml, write_jsonl
from service_record.display.show_document import ShowDocument, show_document
from service_record.history import History, build_history
from service_record.record.entry import Entry, Malformed, Phase
from tests.builders import entry, failed_run

TROUBLE = "\x00\x1b[31m\x7f\x85\x9b\u202e\u2066 \"quoted\" \\ 'single' # : - 完了 \U0001f600\ttab"
MESSAGES = {
    "lines": "one\n  two: [\n# three",
    "leading blank": "  one\ntwo",
    "empty first": "\none",
    "trailing newline": "one\n",
    "trouble": f"{TROUBLE}\n{TROUBLE}",
    "words": "null",
    "empty line": "one\n\nthree",
}


def failed(message: str) -> ShowDocument:
    run = failed_run("pull", error_message=message, stack=("12 main /a b.sh",), command=TROUBLE)
    return show_document(
        build_history([("job", [*run, Malformed(7, TROUBLE, "torn")])]), "/var/log/openshift"
    )


@pytest.mark.parametrize("message", MESSAGES.values(), ids=MESSAGES)
def test_json_and_yaml_give_the_document_back(message: str) -> None:
    whole = failed(message)
    plain = json.loads(msgspec.json.encode(whole))
    assert json.loads(format_json(whole)) == plain
    assert yaml.safe_load(format_yaml(whole)) == plain


@pytest.mark.parametrize("form", [format_json, format_yaml])
def test_nothing_in_them_acts_on_a_terminal(form: type[str]) -> None:
    text = form(failed(MESSAGES["trouble"]))
    assert [character for character in "\x00\x1b\x7f\x85\x9b\u202e\u2066" if character in text] == []


def test_multiline_message_is_a_literal_block_in_yaml() -> None:
    written = format_yaml(failed("cannot open “完了”:\n\n- it: is not there"))
    lines = [line.strip() for line in written.splitlines()]
    start = lines.index("message: |-")
    assert lines[start + 1 : start + 4] == ["cannot open “完了”:", "", "- it: is not there"]


def test_yaml_has_the_fields_in_order_of_json() -> None:
    whole = failed("why")
    assert names_in_order(yaml.compose(format_yaml(whole))) == names_in_order(
        yaml.compose(format_json(whole))
    )
    assert "&" not in format_yaml(whole)


def names_in_order(node: yaml.Node | None) -> list[str]:
    if isinstance(node, yaml.MappingNode):
        return [name for key, value in node.value for name in (key.value, *names_in_order(value))]
    inner = node.value if isinstance(node, yaml.SequenceNode) else []
    return [name for item in inner for name in names_in_order(item)]


@pytest.mark.parametrize("loader", [yaml.SafeLoader, getattr(yaml, "CSafeLoader", yaml.SafeLoader)])
def test_name_that_is_not_utf_8_is_valid_yaml(loader: type[yaml.SafeLoader]) -> None:
    written = format_yaml({"source": "/a\udcff", "text": "a\n完了", "odd": "\ud800"})
    assert yaml.load(written, loader) == {"source": r"/a\xff", "text": "a\n完了", "odd": "\ufffd"}


def test_document_uses_the_field_names_of_records() -> None:
    (service,) = json.loads(format_json(failed("why")))["services"]
    assert service["service"] == "job"
    assert service["outcome"] == "failure"
    assert service["malformed"] == [{"line": 7, "text": TROUBLE, "reason": "torn"}]
    (run,) = service["runs"]
    location = {"line": 12, "function": "main", "file": "/usr/local/bin/job.sh"}
    assert run.pop("stages") == [
        {
            "name": "pull",
            "depth": 0,
            "outcome": "failure",
            "started": "2026-11-21T01:05:11.000Z",
            "ended": "2026-11-21T01:05:20.000Z",
            "duration": 9.0,
            "facts": run["facts"],
        }
    ]
    assert run == {
        "attempt": 1,
        "outcome": "failure",
        "started": "2026-11-21T01:05:10.000Z",
        "ended": "2026-11-21T01:05:20.000Z",
        "duration": 10.0,
        "firstEntry": "2026-11-21T01:05:10.000Z",
        "lastEntry": "2026-11-21T01:05:20.000Z",
        "inStage": "pull",
        "bootId": "b0" * 16,
        "invocationId": "1f" * 16,
        "pid": 4711,
        "recorder": "bash/0.1.0",
        "facts": {
            "location": location,
            "command": TROUBLE,
            "stack": [{"line": 12, "function": "main", "file": "/a b.sh"}],
            "exitCode": 1,
            "message": "why",
        },
        "commands": [],
    }


def test_every_field_is_documented() -> None:
    entries: list[Entry | Malformed] = [
        entry(Phase.PRE_COMMAND_START, pre_command="p"),
        entry(Phase.STAGE_START, pre_command="p", stage="s"),
        entry(Phase.PRE_COMMAND_END, pre_command="p"),
        *failed_run(signal="KILL", service_result="watchdog", error_line_approximate=True, dropped=1),
        entry(Phase.SERVICE_END, 11, truncated=True, error_message="m", command="c", stack=("1 a b",)),
        Malformed(1, "x", "y"),
    ]
    page = Path(__file__).parents[2].joinpath("docs/show-document.md").read_text()
    documented = set(re.findall(r"`(\w+)`", page))
    (service,) = build_history([("job", entries)]).services
    doubted = replace(service, utc_offset=timedelta(hours=1), is_unfinished=True, has_damaged_copy=True)
    assert (
        names_in(json.loads(format_json(show_document(History((doubted,)), "here", [("there", "why")]))))
        <= documented
    )


def names_in(value: object) -> set[str]:
    if isinstance(value, dict):
        return set(value).union(*map(names_in, value.values()))
    return set().union(*map(names_in, value)) if isinstance(value, list) else set()


def written(*pieces: Entry | Malformed) -> list[dict[str, object]]:
    stream = io.BytesIO()
    write_jsonl([("job", pieces)], stream)
    assert b"\x9b" not in stream.getvalue().replace("完了".encode(), b"")
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_json_lines_have_service_and_piece() -> None:
    start = entry(stage=TROUBLE, extra={"ours": [1]})
    assert written(start, Malformed(2, "{\x9b", "torn"), entry(Phase.SERVICE_END, 1)) == [
        {"service": "job"} | start.to_json(),
        {"service": "job", "malformed": {"line": 2, "text": "{\x9b", "reason": "torn"}},
        {"service": "job"} | entry(Phase.SERVICE_END, 1).to_json(),
    ]


@pytest.mark.parametrize("odd", ["\udc80", 2**80], ids=["lone surrogate", "huge number"])
def test_values_refused_by_orjson_are_written(odd: object) -> None:
    assert written(entry(extra={"odd": odd}))[0]["odd"] == odd
