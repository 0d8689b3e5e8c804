"""Raise an exception, as a signal handler would, at each point at which Python could run one in the recorder.

Run as a program, it prints for each point one line of JSON: what the service saw, and what was left behind.
Python runs signal handlers when a function begins, when a call of C code has returned, and when a loop goes
back; the trace function below stops at exactly these points.
"""

import dis
import json
import os
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any, Final

import service_record
from service_record.recorder import current

POINTS: Final = {"CALL", "CALL_FUNCTION_EX", "CALL_KW", "JUMP_BACKWARD"}
PACKAGE: Final = str(Path(service_record.__file__).parent)


class Interruption:
    """Raises TimeoutError at the point of that number."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.passed = 0
        self.where: str | None = None
        self._before: dict[int, str] = {}

    def trace(self, frame: FrameType, event: str, _: object) -> Any:
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "call":  # of a function; or a generator goes on
            self._pass(frame, "begin of ")
        elif event == "opcode":
            if self._before.get(id(frame)) in POINTS:
                self._pass(frame)
            self._before[id(frame)] = dis.opname[frame.f_code.co_code[frame.f_lasti]]
        elif event == "return":
            self._before.pop(id(frame), None)
        return self.trace

    def _pass(self, frame: FrameType, what: str = "") -> None:
        self.passed += 1
        if self.passed > self.number:
            sys.settrace(None)
            self.where = f"{what}{frame.f_code.co_name}:{frame.f_lineno}"
            raise TimeoutError("the service's own deadline")


def descriptors() -> list[str]:
    return sorted(os.listdir("/proc/self/fd"))  # noqa: PTH208  # pathlib opens others meanwhile


def run(interruption: Interruption, place: str, *, fails: bool) -> dict[str, object]:
    """Record a service with a few stages, one of them interrupted, and return what the service sees of it."""
    reached, before = 0, descriptors()
    if place == "service":
        sys.settrace(interruption.trace)
    try:
        with service_record.service("job"):
            if place == "stage":
                sys.settrace(interruption.trace)
            try:
                with service_record.stage("interrupted"):
                    if fails:
                        raise KeyError  # noqa: TRY301  # the block that is recorded
            except TimeoutError:
                reached += 1
            except KeyError:
                pass
            if place == "stage":
                sys.settrace(None)
                thread = threading.Thread(target=lambda: service_record.stage("thread").start().end())
                thread.start()
                thread.join(5)
            with service_record.stage("after"):
                pass
    except TimeoutError:
        reached += 1
    finally:
        sys.settrace(None)
    return {
        "where": interruption.where,
        "reached": reached,
        "leaks": descriptors() != before,
        "current": str(current()),
        "exported": "SERVICE_RECORD_RUN" in os.environ,
    }


def main() -> None:
    """Run once for each point, each in a child with a directory of its own, and print a line for each."""
    place, fails, root = sys.argv[1], sys.argv[2] == "fails", Path(sys.argv[3])
    number = 0
    while True:
        reading, writing = os.pipe()
        directory = root / str(number)
        if os.fork() == 0:
            os.environ["SERVICE_RECORDS_DIR"] = str(directory)
            os.write(writing, json.dumps(run(Interruption(number), place, fails=fails)).encode())
            os._exit(0)
        os.close(writing)
        result = json.loads(os.read(reading, 1 << 16))
        os.close(reading)
        os.wait()
        if result["where"] is None:
            return
        sys.stdout.write(json.dumps(result) + "\n")
        number += 1


if __name__ == "__main__":
    main()
