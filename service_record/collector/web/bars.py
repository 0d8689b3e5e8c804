"""What is drawn of a build, as rows of bars: its boots, its steps, and the services that ran. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from service_record.collector.analysis import ServiceRan
from service_record.collector.repeats import Repeated
from service_record.collector.store.boots import Boot
from service_record.collector.store.hosts import StepShown
from service_record.collector.web.words import SIGNS

_MOST_BARS: Final = 60
"""In one row; of more the earliest are told as one."""
_SIGNS: Final = {"success": "✓", "failure": "✗", "running": "→", "interrupted": "▲", "told": "·", "boot": ""}
_WORDS: Final = {
    "success": "done",
    "failure": "failed",
    "running": "not done yet",
    "interrupted": "never ended",
    "told": "reported",
    "boot": "booted",
}
_LOOKS: Final = {"done": "success", "failed": "failure", "init": "running", "reported": "told"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """Something that took its time; times are seconds since 1970."""

    begin: float
    end: float | None
    """None while it has none."""
    look: str
    count: int = 1
    """How often it came, where only the first and the last time are told apart."""
    target: str = ""
    """Where the page says more."""
    verdict: str = ""
    """Of a build: its word and sign are those of the verdict."""

    @property
    def sign(self) -> str:
        return SIGNS[self.verdict] if self.verdict in SIGNS else _SIGNS[self.look]

    @property
    def word(self) -> str:
        return self.verdict or _WORDS[self.look]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What is drawn beside one name."""

    kind: str
    """`build`, `boot`, `step` or `service`."""
    name: str
    bars: tuple[Bar, ...]

    @property
    def latest(self) -> Bar:
        return self.bars[-1]

    @property
    def times(self) -> int:
        return sum(bar.count for bar in self.bars)


def service_rows(services: Iterable[ServiceRan], begin: float, end: float) -> Iterator[Row]:
    """A row for each service of which something ran in that time, by the clock of its host."""
    for service in services:
        bars = tuple(
            Bar(begin=max(first, begin), end=last, look=look)
            for first, last, look in service.runs
            if first <= end and (last is None or last >= begin)
        )
        if bars:
            yield Row(kind="service", name=service.name, bars=bars)


def step_rows(steps: Sequence[Repeated[StepShown]], *, is_over: bool, end: float) -> Iterator[Row]:
    """Yield a row for each step, by priority, and within a priority in the order in which they came first."""
    bars: dict[str, list[Bar]] = {}
    names: dict[str, str] = {}
    priorities: dict[str, int] = {}
    for group in steps:
        for step in group.first:
            names[step.label] = step.name
            priorities[step.label] = step.priority
            _take(bars.setdefault(step.label, []), step)
        for label in dict.fromkeys(step.label for step in group.latest):
            is_within = bars[label][-1].end is None and _last(group, label).status == "reported"
            if group.count > 1 and not is_within:
                bars[label] = [*bars[label][:-1], _again(bars[label][-1], group, label)]
    for label, found in sorted(bars.items(), key=lambda row: priorities[row[0]]):
        if is_over and found[-1].end is None:
            found[-1] = replace(found[-1], end=max(end, found[-1].begin), look="interrupted")
        yield Row(kind="step", name=names[label], bars=tuple(found))


def _take(bars: list[Bar], step: StepShown) -> None:
    """Take one report in: it begins a bar, ends the one that has no end, or is a point outside of any."""
    at, look, target = step.received_at, _LOOKS[step.status], f"step-{step.id}"
    last = bars[-1] if bars and bars[-1].end is None else None
    if last is not None and step.status == "init":
        bars[-1] = replace(last, end=at, look="interrupted")
    if last is not None and step.status in {"done", "failed"}:
        bars[-1] = replace(last, end=at, look=look, target=target)
        return
    if last is not None and step.status == "reported":
        return
    bars.append(Bar(begin=at, end=None if step.status == "init" else at, look=look, target=target))


def _again(bar: Bar, group: Repeated[StepShown], label: str) -> Bar:
    """The bar of a step in a round that came again and again: from its first time to its last."""
    first = next(step for step in group.first if step.label == label)
    last = _last(group, label)
    return Bar(
        begin=min(bar.begin, first.received_at),
        end=None if last.status == "init" else last.received_at,
        look=_LOOKS[last.status],
        count=group.count,
        target=f"step-{last.id}",
    )


def _last(group: Repeated[StepShown], label: str) -> StepShown:
    return [step for step in group.latest if step.label == label][-1]


def boot_rows(boots: Sequence[Boot], end: float | None) -> Iterator[Row]:
    """Each boot until the next; none where no step names one."""
    if boots:
        ends = [*(boot.begin for boot in boots[1:]), end]
        bars = (
            Bar(begin=boot.begin, end=until, look="boot") for boot, until in zip(boots, ends, strict=True)
        )
        yield Row(kind="boot", name="boots" if len(boots) > 1 else "boot", bars=tuple(bars))


def thinned(row: Row) -> Row:
    """A row with as many bars as can be drawn; of more the earliest are told as one."""
    if len(row.bars) <= _MOST_BARS:
        return row
    early, late = row.bars[: 1 - _MOST_BARS], row.bars[1 - _MOST_BARS :]
    joined = replace(early[-1], begin=early[0].begin, count=sum(bar.count for bar in early))
    return replace(row, bars=(joined, *late))
