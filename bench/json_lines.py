"""`python -m bench.json_lines`: what the library jsonlines costs where records are read and written.

The same entries by the library and by ours, alternately, in rounds; of each the median.
"""

import statistics
import time
from collections import deque
from collections.abc import Callable, Iterable
from io import BytesIO
from typing import Final

import jsonlines
import orjson

from service_record.display.machine import encode_document
from service_record.export import FORMS
from service_record.record.entry import Entry
from service_record.record.layout import read_entries

_RUNS: Final = 5_000
_ROUNDS: Final = 7
_RUN: Final = (
    b'{"timestamp":"2026-11-21T01:05:10Z","phase":"service start","pid":7,"bootId":"%032x"}\n'
    b'{"timestamp":"2026-11-21T01:05:11Z","stage":"pull","phase":"stage start","pid":7,"bootId":"%032x"}\n'
    b'{"timestamp":"2026-11-21T01:05:12Z","stage":"pull","phase":"stage end","result":"success","pid":7}\n'
    b'{"timestamp":"2026-11-21T01:05:13Z","phase":"service end","result":"success","pid":7}\n'
)


def main() -> None:
    """Print entries a second by each way, and how many times slower the library is than ours."""
    record = b"".join(_RUN % (number, number) for number in range(_RUNS))
    entries = [piece for piece in read_entries(BytesIO(record)) if isinstance(piece, Entry)]
    ways: dict[str, Callable[[], object]] = {
        "read": lambda: _exhaust(read_entries(BytesIO(record))),
        "read, jsonlines with orjson": lambda: _exhaust(
            Entry.from_json(row) for row in jsonlines.Reader(BytesIO(record), loads=orjson.loads)
        ),
        "write, export --to jsonl": lambda: _exhaust(FORMS["jsonl"](entries)),
        "write, jsonlines": lambda: _write(entries),
    }
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(_ROUNDS):
        for way, work in ways.items():
            began = time.perf_counter()
            work()
            seconds[way].append(time.perf_counter() - began)
    for way, times in seconds.items():
        print(f"{way:32}{len(entries) / statistics.median(times):>12,.0f} entries a second")


def _exhaust(pieces: Iterable[object]) -> None:
    deque(pieces, maxlen=0)


def _write(entries: Iterable[Entry]) -> None:
    with jsonlines.Writer(BytesIO(), dumps=encode_document) as writer:
        writer.write_all(entry.to_json() for entry in entries)


if __name__ == "__main__":
    main()
