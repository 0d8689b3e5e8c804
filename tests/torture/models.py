"""Simulated hosts with random steps, checked against a model.

`RecordedHost` records with the real writer into real files, is killed during writes, fills its disk, sets its
clock by years and reboots. The entries that are read back, and the history built from them, must match the
model.
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
from tests.full_disk import limit_file_size

SERVICES: Final = ("bootkube", "kubelet")
YEARS: Final = 10 * 365 * 86400
_BLANK: Final = b" \t\r\n]"
ROOM: Final = st.none() | st.none() | st.integers(0, 300)
"""Free bytes on the disk; None, which is drawn most often, is enough."""
STEPS: Final = st.tuples(
    st.sampled_from(["pull", "render", "é {"]), st.sampled_from(["start", "start", *Result]), ROOM
)


@dataclass
class ModelRun:
    """The expected state of a run."""

    pid: int
    boot_id: str
    writer: Writer
    entries: list[Entry] = field(default_factory=list)
    open_stages: list[str] = field(default_factory=list)
    lost: int = 0
    """Entries that could not be written since the last acknowledged one."""
    is_alive: bool = True

    @property
    def outcome(self) -> Outcome:
        """Return the expected outcome of a run with entries."""
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

    def _find_open_run(self, service: str) -> ModelRun | None:
        runs = self.runs[service]
        return runs[-1] if runs and runs[-1].is_alive else None

    def _make_entry(self, run: ModelRun, phase: Phase, **fields: object) -> Entry:
        now = self.clock.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        known = {"boot_id": run.boot_id, "invocation_id": f"{run.pid:032x}", "pid": run.pid}
        return Entry(timestamp=now, phase=phase, uptime=round(self.uptime, 2), **known, **fields)  # type: ignore[arg-type]

    def _read_entries(self, service: str) -> list[Entry]:
        """Return the entries that a reader finds."""
        path = self._path(service)
        content = path.read_bytes() if path.exists() else b""
        return [piece for piece in read_entries(BytesIO(content)) if isinstance(piece, Entry)]

    def _record(self, service: str, run: ModelRun, entry: Entry, room: int | None = None) -> None:
        """Append an entry; `room` limits the free bytes on the disk."""
        path = self._path(service)
        size = path.stat().st_size if path.exists() else 0
        disk = nullcontext() if room is None else limit_file_size(size + room)
        with mock.patch.dict(os.environ, {"SERVICE_RECORDS_LAYOUT": self.layout}), disk:
            written = run.writer.append(entry)
        expected = replace(entry, dropped=run.lost)
        # An entry whose newline alone is missing is there although its append failed.
        if written or self._read_entries(service) == [*self.acknowledged[service], expected]:
            run.entries.append(expected)
            self.acknowledged[service].append(expected)
        if written:
            run.lost = 0
        else:
            assert room is not None, "an entry was not written although the disk had room"
            run.lost += 1

    @rule(service=st.sampled_from(SERVICES), room=ROOM)
    def start(self, service: str, room: int | None) -> None:
        self.kill(service)
        self.pid += 1
        run = ModelRun(self.pid, self._boot_id, Writer(self._path(service)))
        self.runs[service].append(run)
        self._record(service, run, self._make_entry(run, Phase.SERVICE_START, recorder="python/0.1.0"), room)

    @rule(service=st.sampled_from(SERVICES), steps=st.lists(STEPS, min_size=1, max_size=8))
    def work(self, service: str, steps: list[tuple[str, str, int | None]]) -> None:
        """Start, nest and end stages in the open run, or in a new one."""
        if self._find_open_run(service) is None:
            self.start(service, None)
        for name, word, room in steps:
            run = self._find_open_run(service)
            assert run is not None
            if word == "start":
                run.open_stages.append(name)
                self._record(service, run, self._make_entry(run, Phase.STAGE_START, stage=name), room)
            elif run.open_stages:
                entry = self._make_entry(
                    run, Phase.STAGE_END, stage=run.open_stages.pop(), result=Result(word)
                )
                self._record(service, run, entry, room)

    @rule(service=st.sampled_from(SERVICES), result=st.sampled_from(Result), room=ROOM)
    def end(self, service: str, result: Result, room: int | None) -> None:
        run = self._find_open_run(service)
        if run is not None:
            self._record(service, run, self._make_entry(run, Phase.SERVICE_END, result=result), room)
            run.is_alive = False

    @rule(service=st.sampled_from(SERVICES))
    def kill(self, service: str) -> None:
        run = self._find_open_run(service)
        if run is not None:
            run.is_alive = False

    @rule(service=st.sampled_from(SERVICES), share=st.floats(0, 0.99))
    def kill_during_write(self, service: str, share: float) -> None:
        run, path = self._find_open_run(service), self._path(service)
        if run is None or not path.exists():
            return
        run.is_alive = False
        line = self._make_entry(run, Phase.STAGE_START, stage="torn").to_line().rstrip()
        content = path.read_bytes()
        if content.startswith(b"["):
            closed = content.rstrip(b" \n\t")
            if not closed.endswith(b"\n]"):
                return  # a writer would repair or park here first
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
    def acknowledged_entries_are_read_back(self) -> None:
        for service in SERVICES if hasattr(self, "runs") else ():
            assert self._read_entries(service) == self.acknowledged[service]

    @invariant()
    def each_run_has_its_outcome(self) -> None:
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
