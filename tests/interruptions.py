"""Raise an exception at each point at which Python could run a signal handler in the recorder.

As a program, the module prints a line of JSON for each point: the service's view, and leaked resources.
Python runs signal handlers at the start of a function, after a call of C code, and when a loop jumps back.
The trace function stops at exactly these points.
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
    """Raises TimeoutError at the point with this number, counted from 0."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.points = 0
        self.where: str | None = None
        self._before: dict[int, str] = {}

    def trace(self, frame: FrameType, event: str, _: object) -> Any:
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "call":  # a function starts, or a generator resumes
            self._count_point(frame, "begin of ")
        elif event == "opcode":
            if self._before.get(id(frame)) in POINTS:
                self._count_point(frame)
            self._before[id(frame)] = dis.opname[frame.f_code.co_code[frame.f_lasti]]
        elif event == "return":
            self._before.pop(id(frame), None)
        return self.trace

    def _count_point(self, frame: FrameType, what: str = "") -> None:
        self.points += 1
        if self.points > self.number:
            sys.settrace(None)
            self.where = f"{what}{frame.f_code.co_name}:{frame.f_lineno}"
            raise TimeoutError("the service's own deadline")


def descriptors() -> list[str]:
    return sorted(os.listdir("/proc/self/fd"))  # noqa: PTH208  # pathlib opens others meanwhile


def run(interruption: Interruption, place: str, *, fails: bool) -> dict[str, object]:
    """Record a service with an interrupted stage, and return what the service's code observes.

    Points are counted in the whole service, or in the stage only if `place` is "stage".
    """
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
    """Interrupt at each point, in a new process with a new directory, and print the result."""
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
