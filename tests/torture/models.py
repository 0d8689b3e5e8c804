"""Lives of a host, drawn step by step, against a model of what has to come of them.

`RecordedHost` records with the real writer in real files, crashes in the midst of writes, fills its disk,
sets its clock by years and boots anew; what is read back, and the history made of it, has to be the model's.
"""

import os
import tempfile
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import Final
from unittest import mock

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from msgspec.structs import replace

from service_record.history import build_history
from service_record.history.outcome import Outcome
from service_record.history.results import Liveness
from service_record.record.appending import Writer
from service_record.record.entry import Entry, Phase, Result
from service_record.record.layout import read_entries
from tests.builders import START
from tests.full_disk import full_beyond

SERVICES: Final = ("bootkube", "kubelet")
YEARS: Final = 10 * 365 * 86400
_BLANK: Final = b" \t\r\n]"
ROOM: Final = st.none() | st.none() | st.integers(0, 300)
"""Bytes that are left on the disk; mostly enough."""
STEPS: Final = st.tuples(
    st.sampled_from(["pull", "render", "é {"]), st.sampled_from(["start", "start", *Result]), ROOM
)


@dataclass
class ModelRun:
    """A run as it was, and what of it was acknowledged."""

    pid: int
    boot_id: str
    writer: Writer
    entries: list[Entry] = field(default_factory=list)
    stages: list[str] = field(default_factory=list)
    """Open stages."""
    lost: int = 0
    """Entries since the last acknowledged one that could not be written."""
    is_alive: bool = True

    @property
    def outcome(self) -> Outcome:
        """Return the expected history, given the entries of the record."""
        end = self.entries[-1]
        if end.phase is Phase.SERVICE_END:
            return Outcome(str(end.result))
        return Outcome.RUNNING if self.is_alive else Outcome.INTERRUPTED


class RecordedHost(RuleBasedStateMachine):
    """A host with two services, in one layout."""

    @initialize(layout=st.sampled_from(["lines", "array"]))
    def boot_first(self, layout: str) -> None:
        self.directory = tempfile.TemporaryDirectory()
        self.layout = layout
        self.runs: dict[str, list[ModelRun]] = {service: [] for service in SERVICES}
        self.acknowledged: dict[str, list[Entry]] = {service: [] for service in SERVICES}
        self.clock: datetime = START
        self.uptime = 5.0
        self.boot = 1
        self.pid = 100

    def teardown(self) -> None:
        if hasattr(self, "directory"):
            self.directory.cleanup()

    def _path(self, service: str) -> Path:
        return Path(self.directory.name, "records", f"{service}.json")

    @property
    def _boot_id(self) -> str:
        return f"{self.boot:032x}"

    def _open(self, service: str) -> ModelRun | None:
        runs = self.runs[service]
        return runs[-1] if runs and runs[-1].is_alive else None

    def _entry(self, run: ModelRun, phase: Phase, **fields: object) -> Entry:
        now = self.clock.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        known = {"boot_id": run.boot_id, "invocation_id": f"{run.pid:032x}", "pid": run.pid}
        return Entry(timestamp=now, phase=phase, uptime=round(self.uptime, 2), **known, **fields)  # type: ignore[arg-type]

    def _found(self, service: str) -> list[Entry]:
        """Return the history that a reader finds."""
        path = self._path(service)
        content = path.read_bytes() if path.exists() else b""
        return [piece for piece in read_entries(BytesIO(content)) if isinstance(piece, Entry)]

    def _record(self, service: str, run: ModelRun, entry: Entry, room: int | None = None) -> None:
        """Append; with no more room on the disk than so many bytes."""
        path = self._path(service)
        size = path.stat().st_size if path.exists() else 0
        disk = nullcontext() if room is None else full_beyond(size + room)
        with mock.patch.dict(os.environ, {"SERVICE_RECORDS_LAYOUT": self.layout}), disk:
            written = run.writer.append(entry)
        told = replace(entry, dropped=run.lost)
        if written or self._found(service) == [*self.acknowledged[service], told]:  # all but its newline
            run.entries.append(told)
            self.acknowledged[service].append(told)
        if written:
            run.lost = 0
        else:
            assert room is not None, "only a full disk keeps an entry from being written"
            run.lost += 1

    @rule(service=st.sampled_from(SERVICES), room=ROOM)
    def start(self, service: str, room: int | None) -> None:
        self.kill(service)
        self.pid += 1
        run = ModelRun(self.pid, self._boot_id, Writer(self._path(service)))
        self.runs[service].append(run)
        self._record(service, run, self._entry(run, Phase.SERVICE_START, recorder="python/0.1.0"), room)

    @rule(service=st.sampled_from(SERVICES), steps=st.lists(STEPS, min_size=1, max_size=8))
    def work(self, service: str, steps: list[tuple[str, str, int | None]]) -> None:
        """Stages that start, nest and end, in the run that is open, or in a new one."""
        if self._open(service) is None:
            self.start(service, None)
        for name, word, room in steps:
            run = self._open(service)
            assert run is not None
            if word == "start":
                run.stages.append(name)
                self._record(service, run, self._entry(run, Phase.STAGE_START, stage=name), room)
            elif run.stages:
                entry = self._entry(run, Phase.STAGE_END, stage=run.stages.pop(), result=Result(word))
                self._record(service, run, entry, room)

    @rule(service=st.sampled_from(SERVICES), result=st.sampled_from(Result), room=ROOM)
    def end(self, service: str, result: Result, room: int | None) -> None:
        run = self._open(service)
        if run is not None:
            self._record(service, run, self._entry(run, Phase.SERVICE_END, result=result), room)
            run.is_alive = False

    @rule(service=st.sampled_from(SERVICES))
    def kill(self, service: str) -> None:
        run = self._open(service)
        if run is not None:
            run.is_alive = False

    @rule(service=st.sampled_from(SERVICES), share=st.floats(0, 0.99))
    def kill_in_the_midst_of_a_write(self, service: str, share: float) -> None:
        run, path = self._open(service), self._path(service)
        if run is None or not path.exists():
            return
        run.is_alive = False
        line = self._entry(run, Phase.STAGE_START, stage="torn").to_line().rstrip()
        content = path.read_bytes()
        if content.startswith(b"["):
            closed = content.rstrip(b" \n\t")
            if not closed.endswith(b"\n]"):
                return  # it would be parked, or mended first
            kept = len(closed.rstrip(_BLANK))
            text = (b",\n" if kept > 1 else b"\n") + line
        else:
            kept, text = len(content), b"\n" + line
        torn = text[: max(1, int(share * (len(text) - 1)))]
        path.write_bytes(content[:kept] + torn + content[kept + len(torn) :])

    @rule(seconds=st.floats(0.01, 5000))
    def wait(self, seconds: float) -> None:
        self.uptime += seconds
        self.clock += timedelta(seconds=seconds)

    @rule(seconds=st.integers(-YEARS, YEARS) | st.integers(-5, 5))
    def step_the_clock(self, seconds: int) -> None:
        moved = self.clock + timedelta(seconds=seconds)
        if 1990 < moved.year < 2200:
            self.clock = moved

    @rule(seconds=st.floats(1, 500))
    def reboot(self, seconds: float) -> None:
        for service in SERVICES:
            self.kill(service)
        self.boot += 1
        self.uptime = 5.0
        self.clock += timedelta(seconds=seconds)

    @invariant()
    def promise_2_what_was_acknowledged_is_there_in_order_and_nothing_else(self) -> None:
        for service in SERVICES if hasattr(self, "runs") else ():
            assert self._found(service) == self.acknowledged[service]

    @invariant()
    def promise_4_every_run_has_its_outcome_whatever_the_clock_does(self) -> None:
        if not hasattr(self, "runs"):
            return
        alive = {run.pid for runs in self.runs.values() for run in runs if run.is_alive}
        here = Liveness(boot_id=self._boot_id, is_at_home=True, is_alive=lambda pid, _uptime: pid in alive)
        found = build_history(((name, self.acknowledged[name]) for name in SERVICES), here)
        for history in found.services:
            model = [run for run in self.runs[history.name] if run.entries]
            assert [run.pid for run in history.runs] == [run.pid for run in model]
            assert [run.outcome for run in history.runs] == [run.outcome for run in model]
            for seen, run in zip(history.runs, model, strict=True):
                first, last = run.entries[0], run.entries[-1]
                assert seen.dropped == sum(each.dropped for each in run.entries)
                if first.phase is Phase.SERVICE_START and last.phase is Phase.SERVICE_END:
                    assert seen.duration is not None
                    assert abs(seen.duration - ((last.uptime or 0) - (first.uptime or 0))) < 0.02
