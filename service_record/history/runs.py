"""The runs of a service in their order, each made when it is asked for. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from operator import ne
from typing import overload

from service_record.history.attempts import attempts
from service_record.history.outcome import Run
from service_record.history.settled import Head, SettledRun


class Runs(Sequence[Run]):
    """The runs of a service. Who only looks through all of them takes `heads`, which costs nothing."""

    __slots__ = ("_service", "heads")

    def __init__(self, service: str = "", heads: Iterable[Head] = ()) -> None:
        self._service = service
        self.heads = list(heads)

    def attempts(self) -> "Runs":
        """The runs that stand for each attempt: of several programs in one invocation only one."""
        numbers = [head.attempt for head in self.heads]
        if all(map(ne, numbers, numbers[1:])):
            return self
        return Runs(self._service, attempts(self.heads))

    def __len__(self) -> int:
        return len(self.heads)

    @overload
    def __getitem__(self, index: int) -> Run: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Run, ...]: ...
    def __getitem__(self, index: int | slice) -> Run | tuple[Run, ...]:
        if isinstance(index, slice):
            return tuple(self[place] for place in range(*index.indices(len(self))))
        head = self.heads[index]
        if isinstance(head, SettledRun):
            head = self.heads[index] = head.run(self._service)
        return head

    def __iter__(self) -> Iterator[Run]:
        return map(self.__getitem__, range(len(self)))

    def drain(self) -> Iterator[Run]:
        """Yield each run, forgotten as it is handed out: the runs of a long record take much memory."""
        self.heads.reverse()
        while self.heads:
            head = self.heads.pop()
            yield head.run(self._service) if isinstance(head, SettledRun) else head

    def __eq__(self, other: object) -> bool:
        return tuple(self) == tuple(other) if isinstance(other, Runs) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # they are made bit by bit
