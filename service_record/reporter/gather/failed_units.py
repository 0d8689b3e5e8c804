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
        for unit in units[: self.most]:
            path = task.collector.member + unit.replace("/", "_")
            yield Begin(f"{path}.txt")
            yield from Command((*_STATUS, unit), fine=(0, _STATUS_OF_FAILED)).pieces(task)
            yield Begin(f"{path}.log")
            yield from Journal((unit,), lines=_JOURNAL_LINES).pieces(task)
        if len(units) > self.most:
            raise GatherError(Status.CUT, f"{self.most} of {len(units)} failed units")
