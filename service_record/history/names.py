"""What runs are known by: their invocation, or where there is none their process. Pure."""

from typing import TypeAlias

from service_record.entry import Entry
from service_record.history.settled import SettledRun
from service_record.history.spans import RunSpan

_Identity: TypeAlias = tuple[str | None, int | None, str | None]


class Names:
    """The runs of one service, found by what entries say of the run that they are of."""

    def __init__(self) -> None:
        self._by_identity: dict[_Identity, RunSpan] = {}
        self._by_invocation: dict[str, RunSpan] = {}
        self._numbers: dict[str | _Identity, int] = {}

    def add(self, run: RunSpan) -> None:
        """Have a run found by what its first entry says."""
        self.add_process(run.first, run)
        if run.first.invocation_id is not None:
            self._by_invocation[run.first.invocation_id] = run
        self._numbers[_name(run.first)] = run.number

    def add_settled(self, run: SettledRun, number: int) -> None:
        self._numbers[_name(run)] = number

    def add_process(self, entry: Entry, run: RunSpan) -> None:
        """Have a run found by the process of this entry, too."""
        if not is_anonymous(entry):
            self._by_identity[_identity(entry)] = run

    def number(self, one: Entry | SettledRun) -> int | None:
        """That of the latest run of this name, settled or not; None when there is none."""
        return self._numbers.get(_name(one))

    def of_process(self, entry: Entry) -> RunSpan | None:
        """The run of the entry's process, unless it is settled."""
        return self._by_identity.get(_identity(entry))

    def of_invocation(self, entry: Entry) -> RunSpan | None:
        """Likewise the latest run of its invocation."""
        return self._by_invocation.get(entry.invocation_id or "")


def is_anonymous(entry: Entry) -> bool:
    """True for upstream's entries, which name neither their process nor their invocation."""
    return entry.pid is None and entry.invocation_id is None


def _name(one: Entry | SettledRun) -> str | _Identity:
    return one.invocation_id or _identity(one)


def _identity(one: Entry | SettledRun) -> _Identity:
    return one.invocation_id, one.pid, one.boot_id
