"""Record files in the array layout: complete, truncated, compact and indented."""

import json

from service_record.record.entry import Entry
from tests.array_writers import Json
from tests.builders import array, failed_run, upstream_entry

ODD = 'a ] b }] c }, d \n] e {"timestamp":"x"}, "f" \\" é … 😀 }]'
"""A text with every character sequence that looks like the end of an array or of an entry."""

OURS = [*failed_run(error_message=ODD)]
UPSTREAM = [upstream_entry("service start"), upstream_entry("stage start", 1, stage=ODD)]
JSON = [each.to_json() for each in OURS]
FIRST, SECOND, THIRD, LAST = (each.to_line().rstrip() for each in OURS)
UNCLOSED = b"[\n" + b",\n".join([FIRST, SECOND, THIRD])
ALL = b",\n".join([FIRST, SECOND, THIRD, LAST])
CLOSED = b"[\n" + ALL + b"\n]\n"
COMPACT = json.dumps(JSON, ensure_ascii=False, separators=(",", ":")).encode()
INDENTED = array(*OURS)
PADDING = b" " * 1500 + b"\n"


def to_json(entries: list[Entry]) -> list[Json]:
    return [each.to_json() for each in entries]
