"""Which part of a history, or of the entries behind it, is asked for. Pure."""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Final

import msgspec
from msgspec.structs import replace

from service_record.history import History, ServiceHistory
from service_record.history.outcome import Run, Stage
from service_record.record.entry import Malformed, Piece, Result

ALL_BOOTS: Final = "all"


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """What runs and entries must be like; by default anything goes."""

    services: Collection[str] = ()
    """Names; none means all."""
    boot_id: str | None = None
    stage: str | None = None
    failed: bool = False
    """Only what failed or was interrupted."""
    since: datetime | None = None
    until: datetime | None = None

    def of(self, history: History) -> History:
        """The history of the selected runs; a service without any goes, unless its record is damaged."""
        named = tuple(s for s in history.services if self.has_service(s.name))
        if self._has_all:
            return replace(history, services=named)
        selected = (self._service(service) for service in named)
        return replace(history, services=tuple(s for s in selected if s.runs or s.malformed or s.has_no_run))

    def has_service(self, name: str) -> bool:
        return not self.services or name in self.services

    def within(self, record: Iterable[Piece]) -> Iterable[Piece]:
        """Return what of a record is selected."""
        return record if self._has_all else filter(self.has, record)

    def has(self, piece: Piece) -> bool:
        """Whether an entry is selected; a damaged piece always is."""
        if isinstance(piece, Malformed):
            return True
        return (
            self.boot_id in {None, piece.boot_id}
            and self.stage in {None, piece.stage}
            and not (self.failed and piece.result != Result.FAILURE)
            and (self.since is None or piece.time is None or piece.time >= self.since)
            and (self.until is None or piece.time is None or piece.time <= self.until)
        )

    @property
    def _has_all(self) -> bool:
        return replace(self, services=()) == Selection()

    def _service(self, service: ServiceHistory) -> ServiceHistory:
        runs = tuple(self._run(run) for run in service.runs if self._has_run(run))
        return replace(service, runs=runs)

    def _has_run(self, run: Run) -> bool:
        return (
            self.boot_id in {None, run.boot_id}
            and not (self.failed and not run.outcome.is_bad)
            and (self.since is None or run.last_entry is None or run.last_entry >= self.since)
            and (self.until is None or run.first_entry is None or run.first_entry <= self.until)
            and self._has_stage(run)
        )

    def _has_stage(self, run: Run) -> bool:
        return self.stage is None or any(map(self._stages, (run.stages, *(c.stages for c in run.commands))))

    def _run(self, run: Run) -> Run:
        if self.stage is None:
            return run
        commands = (replace(command, stages=self._stages(command.stages)) for command in run.commands)
        return replace(run, stages=self._stages(run.stages), commands=tuple(commands))

    def _stages(self, stages: Sequence[Stage]) -> tuple[Stage, ...]:
        return tuple(stage for stage in stages if stage.name == self.stage)


def find_boot(boots: Sequence[str], wanted: str) -> str:
    """The id of a boot, as journalctl counts them: 0 the latest, -1 the one before, 1 the first.

    Or the beginning of the id itself. Raises LookupError, in one line, when it names none or several.
    """
    if wanted.lstrip("+-").isdecimal() and len(wanted) < len("00000000"):
        number = int(wanted)
        index = number - 1 if number > 0 else len(boots) - 1 + number
        if 0 <= index < len(boots):
            return boots[index]
        raise LookupError(f"no boot {wanted}: the records know {len(boots)}")
    found = [boot_id for boot_id in boots if boot_id.startswith(wanted.replace("-", ""))]
    if len(found) != 1:
        raise LookupError(f"{len(found) or 'no'} boots begin with {wanted}; the records know {len(boots)}")
    return found[0]
