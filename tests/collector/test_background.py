"""Background threads run one round after another, even if rounds fail."""

import io
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from service_record.collector.ingest.rounds import Background
from service_record.collector.logs import configure
from service_record.collector.store.row_writer import Unavailable

PATIENCE = 30.0
FAR_OFF = 3600.0


class Worker(Background):
    """A thread that counts its rounds. The test defines what a round does and returns."""

    def __init__(self, do: Callable[[int], float], first: float = 0.0, again: float = 0.0) -> None:
        super().__init__("worker", "work was put off", first=first, again=again)
        self._do = do
        self._moved = threading.Condition()
        self.rounds = 0

    def round(self) -> float:
        with self._moved:
            self.rounds += 1
            self._moved.notify_all()
        return self._do(self.rounds)

    def has_made(self, rounds: int) -> bool:
        """Wait until this number of rounds has begun."""
        with self._moved:
            return self._moved.wait_for(lambda: self.rounds >= rounds, PATIENCE)

    @property
    def is_closing(self) -> threading.Event:
        return self._is_closed


@contextmanager
def working(worker: Worker) -> Iterator[Worker]:
    worker.start()
    try:
        yield worker
    finally:
        worker.close()


def is_at_work() -> bool:
    return any(thread.name == "worker" for thread in threading.enumerate())


def test_round_runs_at_start_and_when_woken() -> None:
    with working(Worker(lambda _: FAR_OFF)) as worker:
        assert worker.has_made(1)
        worker.wake()
        assert worker.has_made(2)

    assert worker.rounds == 2


def test_due_round_runs_without_waking() -> None:
    with working(Worker(lambda number: 0.0 if number < 5 else FAR_OFF)) as worker:
        assert worker.has_made(5)

    assert worker.rounds == 5


def test_waking_during_a_round_causes_one_more() -> None:
    is_woken = threading.Event()

    def do(number: int) -> float:
        assert number > 1 or is_woken.wait(PATIENCE)
        return FAR_OFF

    with working(Worker(do)) as worker:
        assert worker.has_made(1)
        for _ in range(10):
            worker.wake()
        is_woken.set()
        assert worker.has_made(2)

    assert worker.rounds == 2


def test_failed_round_is_logged_and_repeated() -> None:
    log = io.StringIO()
    configure(stream=log)

    def do(number: int) -> float:
        if number == 1:
            raise Unavailable("the database\nis gone")
        return 1 / (number - 2) * FAR_OFF

    with working(Worker(do)) as worker:
        assert worker.has_made(3)

    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    faults = [(line["event"], line["level"], line["fault"]) for line in lines]
    assert faults == [
        ("work was put off", "warning", "Unavailable"),
        ("work was put off", "error", "ZeroDivisionError"),
    ]


def test_wait_after_a_fault_ends_only_on_close() -> None:
    is_failing = threading.Event()

    def do(_: int) -> float:
        is_failing.set()
        raise Unavailable

    with working(Worker(do, again=FAR_OFF)) as worker:
        assert is_failing.wait(PATIENCE)
        worker.wake()

    assert worker.rounds == 1


def test_close_waits_for_the_round_and_logs_nothing() -> None:
    log = io.StringIO()
    configure(stream=log)
    ended: list[bool] = []

    def do(_: int) -> float:
        ended.append(worker.is_closing.wait(PATIENCE))
        raise Unavailable

    worker = Worker(do)
    with working(worker):
        assert worker.has_made(1)
        assert is_at_work()

    assert ended == [True]
    assert not is_at_work()
    assert log.getvalue() == ""


def test_close_works_before_start_and_first_round() -> None:
    with working(Worker(lambda _: FAR_OFF, first=FAR_OFF)) as worker:
        pass
    Worker(lambda _: FAR_OFF).close()

    assert worker.rounds == 0
    assert not is_at_work()
