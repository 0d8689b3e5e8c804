"""Settled runs, of which only the bounds are looked at: a history is what pairing alone makes of it."""

from dataclasses import replace
from io import BytesIO
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from service_record.diagnosis import diagnose
from service_record.display.analysis_document import analysis_document
from service_record.history import History, build_history
from service_record.history.completed_runs import SettledRun
from service_record.history.outcome import Outcome, Run
from service_record.history.results import Liveness
from service_record.history.selection import Selection
from service_record.record.entry import Entry, Phase, Result
from service_record.record.layout import read_stretches
from tests.builders import START, InMemory, entry, failed_run

RUN = [
    entry(),
    entry("stage start", 1, stage="render"),
    entry("stage end", 2, stage="render"),
    entry("service end", 3, exit_code=0),
]
PROCESSES: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        {"invocation_id": invocation_id, "pid": pid, "boot_id": boot_id}
        for invocation_id, pid, boot_id in [
            *(("1" * 32, 1, "b0" * 16), ("1" * 32, 2, "b0" * 16), ("2" * 32, 3, "b0" * 16)),
            *(("3" * 32, 4, "b1" * 16), ("4" * 32, 4, "b1" * 16), ("5" * 32, 5, "b2" * 16)),
            *((None, 1, "b0" * 16), (None, 6, "b2" * 16), (None, None, None), ("6" * 32, None, None)),
        ]
    ]
)
PROGRAMS: list[dict[str, Any]] = [{"invocation_id": f"{number:032x}"} for number in range(3)]
STAGES = st.sampled_from(["render", "pull", "wait"])
ENDS: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        {"result": Result.SUCCESS, "exit_code": 0},
        {"result": Result.FAILURE, "exit_code": 1, "error_line": "7 main run.sh", "error_message": "no"},
        {"result": Result.FAILURE, "signal": "KILL", "service_result": "oom-kill"},
        {"result": None},
    ]
)


@st.composite
def programs(draw: st.DrawFn) -> list[Entry]:
    """The entries of one process, mostly a whole run; their times and uptimes are set when it is its turn."""
    process = draw(PROCESSES)
    within = []
    for stage in draw(st.lists(STAGES, max_size=3)):
        command: dict[str, Any] = {"pre_command": "check"} if not draw(st.integers(0, 9)) else {}
        begun = entry("stage start", stage=stage, **process, **command)
        within += [begun, entry("stage end", stage=stage, **process, **command, **draw(ENDS))]
    if not draw(st.integers(0, 4)):
        within = draw(st.permutations(within))[: draw(st.integers(0, 6))]
    whole = [entry(recorder="bash/0.1.0", **process), *within, entry("service end", **process, **draw(ENDS))]
    odd = oddities(whole, process, entry("service end", **process, **draw(ENDS)))
    return draw(st.sampled_from(odd)) if not draw(st.integers(0, 1)) else whole


def oddities(whole: list[Entry], process: dict[str, Any], end: Entry) -> list[list[Entry]]:
    """A whole run as it would be if something had been lost, or somebody else had written, too."""
    phases = [Phase.PRE_COMMAND_START, Phase.PRE_COMMAND_END]
    before = [entry(phase, pre_command="check", **(process | {"pid": 99})) for phase in phases]
    after = entry("post-command start", post_command="clean", **(process | {"pid": 98}))
    return [
        whole[1:],
        whole[:-1],
        [*whole, end],  # systemd knows better
        [*whole[:-1], with_fields(end, dropped=3)],
        [whole[0], *whole],
        [*before, *whole],
        [*whole, after],
        *([with_fields(one, **same) for one in whole] for same in ALIEN),
        [whole[0], *(with_fields(one, bootId="b2" * 16) for one in whole[1:2]), *whole[2:]],
    ]


ALIEN: list[dict[str, Any]] = [{"dropped": 1}, {"preCommand": "a"}, {"postCommand": "a"}]
"""What no writer of ours has in every entry of a run."""


def with_fields(one: Entry, **fields: object) -> Entry:
    return Entry.from_json(one.to_json() | fields)


@st.composite
def records(draw: st.DrawFn) -> list[Entry]:
    """What some processes recorded one after the other, with now and then an entry out of its place."""
    all_of_them = [one for program in draw(st.lists(programs(), max_size=8)) for one in program]
    for _ in range(draw(st.integers(0, 3)) if all_of_them else 0):
        moved = all_of_them.pop(draw(st.integers(0, len(all_of_them) - 1)))
        all_of_them.insert(draw(st.just(len(all_of_them)) | st.integers(0, len(all_of_them))), moved)
    step = draw(st.sampled_from([0, 0, 0, 3, -3600]))
    set_at = draw(st.integers(0, 30))
    return [
        Entry.from_json(
            one.to_json()
            | {"timestamp": entry(at=at + (step if at > set_at else 0)).timestamp}
            | ({"uptime": 60.0 + at} if one.boot_id else {})
        )
        for at, one in enumerate(all_of_them)
    ]


def in_blocks(record: list[Entry], size: int, liveness: Liveness | None = None) -> History:
    content = b"".join(map(Entry.to_line, record))
    return build_history([("job", read_stretches(BytesIO(content), size, InMemory(content)))], liveness)


@settings(max_examples=400, deadline=None)
@given(records(), st.sampled_from([1, 400, 2000, 1 << 16]), st.booleans())
def test_the_history_of_blocks_is_that_of_their_entries(
    record: list[Entry], size: int, at_home: bool
) -> None:
    liveness = Liveness("b2" * 16, at_home)
    together, apart = in_blocks(record, size, liveness), build_history([("job", record)], liveness)
    found, expected = (diagnose(history) for history in (together, apart))
    assert (found and analysis_document(found, "")) == (expected and analysis_document(expected, ""))
    for selection in (
        Selection(boot_id="b1" * 16),
        Selection(failed=True),
        Selection(since=START, stage="pull"),
    ):
        assert selection.of(together) == selection.of(apart)
    assert together.services[0].attempts == apart.services[0].attempts
    assert together == apart


def of(run: list[Entry], process: dict[str, Any]) -> list[Entry]:
    return [replace(one, **process) for one in run]


def many(*runs: list[Entry]) -> list[Entry]:
    """The entries of these runs, each of an invocation of its own."""
    return [one for number, run in enumerate(runs) for one in of(run, {"invocation_id": f"{number:032x}"})]


def test_a_settled_run_is_made_when_it_is_asked_for() -> None:
    (service,) = in_blocks(many(RUN, failed_run(), RUN), 700).services
    assert [type(head) for head in service.runs.heads] == [SettledRun] * 3
    assert [head.outcome for head in service.runs.heads] == [
        Outcome.SUCCESS,
        Outcome.FAILURE,
        Outcome.SUCCESS,
    ]
    assert service.runs[1].in_stage == "second"
    assert [type(head) for head in service.runs.heads] == [SettledRun, Run, SettledRun]


def test_a_settled_run_is_amended_by_what_comes_later() -> None:
    late = entry("service end", 9, result=Result.FAILURE, signal="KILL", invocation_id="0" * 32)
    (service,) = in_blocks([*many(RUN, RUN), late], 1 << 16).services
    assert [(run.outcome, run.facts.signal) for run in service.runs] == [
        (Outcome.FAILURE, "KILL"),
        (Outcome.SUCCESS, None),
    ]


def test_a_run_without_an_end_is_over_when_a_settled_one_follows_its_last_entry() -> None:
    first, second, third = PROGRAMS
    again = entry("stage start", 9, stage="wait", **first)
    record = [entry(**first), *(of(RUN, second)), again, *of(RUN, third)]
    (service,) = in_blocks(record, 1 << 16).services
    assert [run.outcome for run in service.runs] == [Outcome.INTERRUPTED, Outcome.SUCCESS, Outcome.SUCCESS]


def test_what_comes_late_to_a_settled_run_is_not_running_when_another_followed_it() -> None:
    first, second, _ = PROGRAMS
    late = entry("post-command start", 9, post_command="clean", **first)
    (service,) = in_blocks([*of(RUN, first), *of(RUN, second), late], 1 << 16).services
    assert service.runs[0].commands[0].outcome is Outcome.INTERRUPTED
