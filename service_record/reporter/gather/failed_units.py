"""The units that failed: what systemd says of each, and the end of its journal."""

from dataclasses import dataclass
from typing import Final

from service_record.reporter.gather.journal import Journal
from service_record.reporter.gather.model import Begin, GatherError, Pieces, Status, Task
from service_record.reporter.gather.take import Command, output_of

_LIST: Final = ("systemctl", "list-units", "--state=failed", "--plain", "--no-legend", "--full", "--no-pager")
_STATUS: Final = ("systemctl", "status", "--full", "--no-pager", "--lines=0", "--")
_STATUS_OF_FAILED: Final = 3  # of systemctl, for a unit that is not active
_JOURNAL_LINES: Final = 1000


@dataclass(frozen=True, slots=True)
class FailedUnits:
    """`<unit>.txt` with the status of each, `<unit>.log` with its journal, in the collector's directory."""

    most: int = 20

    def pieces(self, task: Task) -> Pieces:
        """Raises GatherError when systemd does not answer, and when units are left out."""
        printed = output_of(_LIST, task)
        units = [line.split()[0] for line in printed.decode(errors="replace").splitlines() if line.split()]
        trouble: list[GatherError] = []
        for unit in units[: self.most]:
            yield from _about(unit, task, trouble)
        if trouble:
            raise trouble[0]
        if len(units) > self.most:
            raise GatherError(Status.CUT, f"{self.most} of {len(units)} failed units")


def _about(unit: str, task: Task, trouble: list[GatherError]) -> Pieces:
    path = task.collector.member + unit.replace("/", "_")
    status = Command((*_STATUS, unit), fine=(0, _STATUS_OF_FAILED))
    for member, take in ((f"{path}.txt", status), (f"{path}.log", Journal((unit,), lines=_JOURNAL_LINES))):
        yield Begin(member)
        try:
            yield from take.pieces(task)
        except GatherError as error:
            if error.status is Status.FAILED:
                trouble.append(GatherError(Status.FAILED, f"{unit}: {error}"))
            elif error.status is not Status.ABSENT:
                raise
