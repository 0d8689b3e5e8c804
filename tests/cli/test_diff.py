"""What a bad host did differently from a good one."""

import json
import os
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from service_record.diagnosis.comparison import (
    Added,
    EndedDifferently,
    Missing,
    Moved,
    ServiceComparison,
    Slower,
    StepEnded,
    Tolerance,
    compare,
)
from service_record.diagnosis.failures import FailureGroup, RunStep
from service_record.display.difference import comparison_page
from service_record.display.text import View, render_lines
from service_record.history import build_history
from service_record.history.build import latest_entry
from service_record.history.outcome import Outcome
from service_record.record.entry import Entry, Malformed, Phase, Result
from service_record.record.layout import read_entries
from tests.archives import SERVICES, member, tar
from tests.builders import (
    START,
    array,
    entry,
    failed_run,
    require,
    timestamp,
    upstream_entry,
    write_array,
    write_lines,
)
from tests.command_line import Answer, service_record
from tests.timelines import assign_run, host, stage, write_host

GOLDEN = Path(__file__).parents[1] / "golden"
LENIENT = Tolerance()
NO_SUCH_IMAGE = "pulling quay.io/a@sha256:{} failed at 10:0{}:00: 10.0.0.{}: no such image"


def run(*steps: tuple[str, float], at: float = 0, end: str | None = Result.SUCCESS) -> list[Entry]:
    """A run of stages one after the other, each so many seconds long; they end with `end`, or not at all."""
    entries, now = [entry(at=at)], at
    for name, seconds in steps:
        entries += stage(name, now, now + seconds)
        now += seconds
    return entries if end is None else [*entries, entry(Phase.SERVICE_END, now, result=Result(end))]


def compared(
    good: Sequence[Entry], bad: Sequence[Entry], tolerance: Tolerance = LENIENT
) -> ServiceComparison:
    histories = build_history([("job", good)]), build_history([("job", bad)])
    (one,) = compare(*histories, latest_entry(histories[1]), tolerance)
    return one


def read(path: Path) -> list[Entry | Malformed]:
    with path.open("rb") as stream:
        return list(read_entries(stream))


def named(name: str) -> RunStep:
    return RunStep("stage", name)


GOOD = run(("a", 1), ("b", 2), ("c", 3), ("d", 4))


def test_equal_runs_do_not_differ() -> None:
    again = run(("a", 1.5), ("b", 2), ("c", 4), ("d", 4), at=5000)
    assert not compared(GOOD, [replace(one, boot_id="c1" * 16) for one in again]).differs


@pytest.mark.parametrize(
    ("bad", "expected"),
    [
        (run(("a", 1), ("c", 3), ("d", 4)), [Missing(named("b"), is_unreached=False)]),
        (run(("a", 1), ("b", 2), ("x", 1), ("c", 3), ("d", 4)), [Added(named("x"))]),
        (run(("d", 4), ("a", 1), ("b", 2), ("c", 3)), [Moved(named("d"), None, named("c"))]),
        (run(("b", 2), ("c", 3), ("a", 1), ("d", 4)), [Moved(named("a"), named("c"), None)]),
        (run(("a", 1), ("b", 2), ("c", 3), ("d", 10)), [Slower(named("d"), 10, 4, is_running=False)]),
        (
            run(("a", 1), ("b", 2), end=None),
            [EndedDifferently(), *(Missing(named(n), is_unreached=True) for n in "cd")],
        ),
    ],
)
def test_differences_are_shown_step_by_step(bad: list[Entry], expected: list[object]) -> None:
    assert list(compared(GOOD, bad).differences) == expected


def with_commands(before: str, after: str) -> list[Entry]:
    """A run of a second, with a command before it and one behind it, in each of which a stage runs."""
    return [
        entry(Phase.PRE_COMMAND_START, 0, pre_command=before),
        *(replace(one, pre_command=before) for one in stage("within", 1, 2)),
        entry(Phase.PRE_COMMAND_END, 3, pre_command=before),
        *run(("a", 1), at=4),
        entry(Phase.POST_COMMAND_START, 6, post_command=after),
        entry(Phase.POST_COMMAND_END, 7, post_command=after),
    ]


def test_stages_are_compared_within_their_command() -> None:
    bad = with_commands("check", "tidy")
    assert not compared(bad, bad).differs
    assert list(compared(run(("a", 1)), bad).differences) == [
        Added(RunStep("pre-command", "check")),
        Added(RunStep("stage", "within", "check")),
        Added(RunStep("post-command", "tidy")),
    ]


def test_usual_is_what_succeeded() -> None:
    good = [
        entry(),
        *stage("a", 1, 2),
        *stage("a", 3, 99, result=Result.FAILURE),
        entry(Phase.SERVICE_END, 100),
    ]
    found = compared(good, run(("a", 40))).differences
    assert [one for one in found if isinstance(one, Slower)] == [Slower(named("a"), 40, 1, is_running=False)]
    failed = [entry(), *stage("a", 3, 4, result=Result.FAILURE), entry(Phase.SERVICE_END, 5)]
    assert not any(isinstance(one, Slower) for one in compared(failed, run(("a", 4.5))).differences)
    whole = run(("b", 1), end=Result.FAILURE)
    assert not any(isinstance(one, Slower) for one in compared(whole, run(("c", 99))).differences)


def test_failed_run_did_not_reach_later_steps() -> None:
    bad = [*run(("a", 1), end=None), *failed_run("c", 1, error_message="Exited")[1:]]
    assert list(compared(GOOD, bad).differences)[:3] == [
        EndedDifferently(),
        Missing(named("b"), is_unreached=False),
        Missing(named("d"), is_unreached=True),
    ]


@pytest.mark.parametrize(
    ("good", "bad", "tolerance", "is_told"),
    [
        (10, 21, Tolerance(), True),
        (10, 20, Tolerance(), False),
        (1, 5.9, Tolerance(), False),
        (1, 5.9, Tolerance(floor=4), True),
        (100, 130, Tolerance(ratio=1.25), True),
    ],
)
def test_slower_is_what_exceeds_ratio_and_floor(
    good: float, bad: float, tolerance: Tolerance, is_told: bool
) -> None:
    found = compared(run(("a", good)), run(("a", bad)), tolerance).differences
    expected = [Slower(step, bad, good, is_running=False) for step in (named("a"), None)]
    assert list(found) == (expected if is_told else [])


def test_running_step_is_slower_once_it_takes_longer() -> None:
    bad = [entry(), *stage("a", 0), *stage("beside", 50, 60)]
    slower = [one for one in compared(run(("a", 1)), bad).differences if isinstance(one, Slower)]
    assert slower == [Slower(named("a"), 60, 1, is_running=True), Slower(None, 60, 1, is_running=True)]


def test_failed_stage_is_shown_in_a_continuing_run() -> None:
    failed = entry(Phase.STAGE_END, 1, stage="a", result=Result.FAILURE, error_message="no")
    bad = [entry(), *stage("new", 0, 0), *stage("a", 0), failed, entry(Phase.SERVICE_END, 2)]
    ended, _, failure = compared(run(("a", 1)), bad).differences
    assert ended == StepEnded(named("a"), Outcome.FAILURE)
    assert isinstance(failure, FailureGroup)
    assert (failure.step, failure.signature) == (named("a"), "no")


def test_failures_with_equal_signatures_are_equal() -> None:
    good = failed_run(error_message=NO_SUCH_IMAGE.format("aa11bb22cc", 1, 7))
    bad = assign_run(2, failed_run(at=100, error_message=NO_SUCH_IMAGE.format("dd33ee44ff", 2, 9)))
    assert not compared(good, bad).differs
    other = failed_run(at=100, error_message="no space left on device")
    (failure,) = compared(good, [*bad, *assign_run(3, other), *assign_run(4, other)]).differences
    assert isinstance(failure, FailureGroup)
    assert (failure.signature, failure.count) == ("no space left on device", 2)


def test_failure_without_message_is_compared_by_its_end() -> None:
    assert not compared(failed_run(), failed_run(at=100)).differs
    (failure,) = compared(failed_run(), failed_run(exit_code=None, signal="KILL")).differences
    assert isinstance(failure, FailureGroup)
    assert failure.facts.signal == "KILL"


def test_failures_of_earlier_attempts_count() -> None:
    bad = [*assign_run(1, failed_run("a", error_message="no route")), *assign_run(2, run(("a", 1), at=50))]
    (failure,) = compared(run(("a", 1)), bad).differences
    assert isinstance(failure, FailureGroup)


def test_last_finished_run_is_compared_or_the_last() -> None:
    over = [
        *assign_run(1, run(("a", 1))),
        *assign_run(2, run(("a", 9), at=50)),
        *assign_run(3, run(at=90, end=None)),
    ]
    found = compared(GOOD, over)
    assert (found.bad and found.bad.attempt, found.bad_runs) == (2, 3)
    running = compared(GOOD, assign_run(7, run(("a", 1), end=None)))
    assert require(running.bad).outcome is Outcome.RUNNING


def test_services_that_are_in_one_only_differ() -> None:
    good, bad = build_history([("old", GOOD), ("both", GOOD)]), build_history([("both", GOOD), ("new", GOOD)])
    found = compare(good, bad, latest_entry(bad), LENIENT)
    assert [(one.service, one.differs, one.good_runs, one.bad_runs) for one in found] == [
        ("both", False, 1, 1),
        ("new", True, 0, 1),
        ("old", True, 1, 0),
    ]
    assert [(one.good is None, one.bad is None) for one in found[1:]] == [(True, False), (False, True)]
    assert [one.service for one in compare(good, bad, latest_entry(bad), LENIENT, ["new"])] == ["new"]


@pytest.fixture
def hosts(tmp_path: Path) -> tuple[Path, Path]:
    """A good host and a bad one."""
    good, bad = tmp_path / "good", tmp_path / "bad"
    good.mkdir()
    bad.mkdir()
    write_host(bad)
    write_lines(good / "bootkube.json", *run(("api-bootstrap", 5), ("cvo-bootstrap", 5), ("done", 1), at=20))
    write_lines(good / "crio-configure.json", *host()["crio-configure"])
    write_lines(good / "kubelet.json", *run(at=5))
    return good, bad


def test_page_equals_the_reviewed_one(hosts: tuple[Path, Path]) -> None:
    good, bad = (build_history((p.stem, read(p)) for p in sorted(host.iterdir())) for host in hosts)
    found = compare(good, bad, latest_entry(bad), LENIENT)
    view = View(width=80, now=START + timedelta(hours=1))
    page = "".join(
        render_lines(comparison_page(found, ("/mnt/good", good), ("/mnt/bad", bad), view), color=False)
    )
    assert page == (GOLDEN / "diff-80.txt").read_text()


def test_exit_code_is_1_for_differences(hosts: tuple[Path, Path]) -> None:
    answer = service_record("diff", *hosts)
    assert (answer.out.splitlines()[0], answer.status) == ("3 of 4 services differ", 1)
    answer = service_record("diff", *hosts, "--service", "crio-configure")
    assert (answer.out.splitlines()[0], answer.status) == ("nothing differs in 1 service", 0)
    answer = service_record("diff", hosts[1], hosts[1])
    assert (answer.out.splitlines()[0], answer.status) == ("nothing differs in 4 services", 0)


def titles(answer: Answer) -> list[str]:
    """The services of a page in their order, without what is alike."""
    lines = answer.out.splitlines()
    return [line.split()[1] for line in lines if line[:1] in set("✗▲●✓!") and "alike:" not in line]


def test_failures_come_first_in_order_of_time(tmp_path: Path) -> None:
    good, bad = tmp_path / "good", tmp_path / "bad"
    for directory in (good, bad):
        directory.mkdir()
    for name in ("a-waits", "b-late", "c-early"):
        write_lines(good / f"{name}.json", *run(("s", 1)))
    write_lines(good / "d-absent.json", *run(("s", 1), at=5))
    write_lines(good / "e-absent.json", *run(("s", 1)))
    write_lines(bad / "a-waits.json", *run(("s", 1), end=None))
    write_lines(bad / "b-late.json", *failed_run("s", 40))
    again = [replace(one, pid=9, invocation_id="9" * 32) for one in failed_run("s", 200)]
    write_lines(bad / "c-early.json", *failed_run("s", 20), *again)
    stepped_back = [replace(one, timestamp=timestamp(-3600)) for one in failed_run("s", 30)]
    write_lines(bad / "f-between.json", *stepped_back)
    answer = service_record("diff", good, bad)
    assert titles(answer) == ["c-early", "f-between", "b-late", "a-waits", "e-absent", "d-absent"]


def test_times_of_another_zone_are_marked(tmp_path: Path) -> None:
    for place in ("good", "bad"):
        (tmp_path / place).mkdir()
        write_array(tmp_path / place / "job.json", upstream_entry(), upstream_entry(Phase.SERVICE_END, 9))
    written = (START + timedelta(seconds=9)).timestamp()
    os.utime(tmp_path / "good/job.json", (written, written))
    os.utime(tmp_path / "bad/job.json", (written + 5 * 3600, written + 5 * 3600))
    page = service_record("diff", tmp_path / "good", tmp_path / "bad").out
    assert page.count("times seem to be those of UTC-05:00, although labelled UTC: job") == 1
    assert page.index("bad  ") < page.index("times seem")


def test_many_differences_are_limited_to_the_first(hosts: tuple[Path, Path]) -> None:
    write_lines(hosts[0] / "kubelet.json", *run(*((f"stage-{n}", 1) for n in range(500))))
    answer = service_record("diff", *hosts, "--service", "kubelet")
    assert "and 490 more: --output wide shows them" in answer.out
    assert len(answer.out.splitlines()) < 24
    assert "stage-499" in service_record("diff", *hosts, "--service", "kubelet", "-o", "wide").out


def test_programs_get_a_line_for_each_difference(hosts: tuple[Path, Path]) -> None:
    answer = service_record("diff", *hosts, "--output", "jsonl", "--ratio", "3", "--floor", "10s")
    lines = [json.loads(line) for line in answer.out.splitlines()]
    assert [(line["service"], line["kind"], line.get("stage")) for line in lines] == [
        ("approve-csr", "service-new", None),
        ("bootkube", "outcome", None),
        ("bootkube", "missing", "done"),
        ("bootkube", "slower", "api-bootstrap"),
        ("bootkube", "failure", "cvo-bootstrap"),
        ("kubelet", "slower", None),
    ]
    assert (answer.status, lines[3]["good"], lines[3]["bad"]) == (1, 5.0, 19.0)


def test_document_says_what_was_compared_and_how(hosts: tuple[Path, Path]) -> None:
    document = json.loads(service_record("diff", *hosts, "--output", "json", "--service", "bootkube").out)
    (service,) = document["services"]
    assert (document["ratio"], document["floor"], document["differs"]) == (2.0, 5.0, True)
    assert (service["good"]["outcome"], service["good"]["runs"]) == ("success", 1)
    assert (service["bad"]["outcome"], service["bad"]["attempt"], service["bad"]["inStage"]) == (
        "failure",
        3,
        "cvo-bootstrap",
    )


def test_bundle_and_standard_input_are_compared(hosts: tuple[Path, Path], tmp_path: Path) -> None:
    run_of_upstream = array(upstream_entry(), upstream_entry(Phase.SERVICE_END, 9))
    bundle = tmp_path / "log-bundle.tar"
    bundle.write_bytes(tar(member(f"{SERVICES}/bootkube.json", run_of_upstream)))
    stdin = (hosts[1] / "bootkube.json").read_bytes()
    answer = service_record("diff", bundle, "-", "--output", "jsonl", stdin=stdin)
    assert {json.loads(line)["service"] for line in answer.out.splitlines()} == {"bootkube", "stdin"}


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["-", "-"], 2, "standard input is one source"),
        (["good"], 2, "Missing argument 'BAD'"),
        (["good", "absent"], 3, "absent"),
        (["good", "bad", "--floor", "soon"], 2, "'soon' is not a valid duration"),
        (["good", "bad", "--ratio", "0.5"], 2, "0.5 is not in the range"),
        (["good", "bad", "--service", "nobody"], 3, "no record of nobody"),
    ],
)
def test_wrong_usage_is_reported_in_one_line(
    hosts: tuple[Path, Path], arguments: list[str], status: int, message: str
) -> None:
    places = {name: str(hosts[0].parent / name) for name in ("good", "bad", "absent")}
    answer = service_record("diff", *(places.get(argument, argument) for argument in arguments))
    assert answer.status == status
    assert message in answer.err.splitlines()[-1]


def test_ratio_must_be_a_number(tmp_path: Path) -> None:
    answer = service_record("diff", "--ratio", "nan", tmp_path, tmp_path)
    assert (answer.status, "is not a number" in answer.err) == (2, True)
