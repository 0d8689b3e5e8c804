"""Tests of the choice among rules that fit: which one is named as the cause, and why the others are not."""

from collections.abc import Mapping
from io import BytesIO

import pytest

from service_record.diagnosis.causes import Causes, causes_with, evidence_only_in
from service_record.diagnosis.trouble_facts import TroubleFacts
from service_record.diagnosis.yaml_files import read_rules
from service_record.history import History, build_history
from service_record.history.outcome import Facts
from tests.builders import failed_run, timestamp

KERNEL = "bootstrap/journals/kernel.log"
KUBELET = "bootstrap/journals/kubelet.log"
OWN = "bootstrap/journals/job.log"
ELSEWHERE = "- {name: far, says: far, message: [far], where: [any]}"
RECORDS = {"job": failed_run(error_message="near")}  # from START, ten seconds long


def host(rules: str, files: Mapping[str, str], records: Mapping[str, list[object]] = RECORDS) -> Causes:  # type: ignore[assignment]
    history: History = build_history(records.items())  # type: ignore[arg-type]
    causes = Causes(read_rules(rules, "rules.yaml"))
    streams = ((path, BytesIO(f"{text}\n".encode()).read) for path, text in files.items())
    return causes_with(causes, history, (), streams)


def weighed(
    rules: str, files: Mapping[str, str], message: str | None = "near"
) -> list[tuple[str, str | None]]:
    """Return the rules that fit the failure of a run, and why each but the first is not named."""
    causes = host(rules, files)
    (run,) = causes.history.services[0].runs
    trouble = TroubleFacts(
        kinds=frozenset({"failed"}),
        service="job",
        facts=Facts(message=message, exit_code=1),
        started=run.started,
        run_started=run.started,
        booted=run.started,
        ended=run.ended,
    )
    cause = causes.explain(trouble)
    log = [(one.rule, one.lost) for one in causes.log["job"]]
    assert [rule for rule, lost in log if lost is None] == ([] if cause is None else [cause.name])
    return log


def at(seconds: float, text: str) -> str:
    return f"{timestamp(seconds)} host {text}"


def rule(name: str, more: str = "") -> str:
    return f"- {{name: {name}, says: it, message: [near]{', ' if more else ''}{more}}}\n"


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        (rule("a") + rule("b"), [("a", None), ("b", "a lies deeper")]),
        (rule("a", "symptom: true") + rule("b"), [("b", None), ("a", "a symptom, and b is a cause")]),
        (
            rule("a", "rank: form of death") + rule("b", "rank: symptom") + rule("c", "rank: contributing"),
            [
                ("c", None),
                ("a", "a form of death, and c is a contributing"),
                ("b", "a symptom, and c is a contributing"),
            ],
        ),
        (rule("a") + rule("b", "over: [a]"), [("b", None), ("a", "b accounts for it")]),
        (
            rule("a") + rule("b", "over: [a]") + rule("c", "over: [b]"),
            [("c", None), ("a", "c lies deeper"), ("b", "c accounts for it")],
        ),
        (rule("a", "over: [b]") + rule("b", "over: [a]"), [("b", None), ("a", "b accounts for it")]),
        (
            rule("a", "needs: [{exit: 7}]")
            + rule("b", "unless: [{exit: 1}]")
            + rule("c", "needs: [{exit: 1}]"),
            [
                ("c", None),
                ("a", "something that it needs is missing"),
                ("b", "something speaks against it"),
            ],
        ),
        (rule("a", "needs: [{rule: [b]}]") + rule("b"), [("a", None), ("b", "a lies deeper")]),
        (rule("a", "needs: [{rule: [a]}]"), [("a", "something that it needs is missing")]),
        (rule("a", "exit: [1, 2]") + rule("b", "exit: 2") + rule("c", "stage: x"), [("a", None)]),
        (rule("a", "service: ^job$"), [("a", None)]),
    ],
)
def test_of_rules_that_fit_the_deepest_is_named(rules: str, expected: list[tuple[str, str | None]]) -> None:
    assert weighed(rules, {}) == expected


@pytest.mark.parametrize(
    ("path", "line", "is_found"),
    [
        (KUBELET, at(-291, "kubelet[9]: far"), False),  # not within five minutes before the end
        (KUBELET, at(-290, "kubelet[9]: far"), True),
        (KUBELET, at(130, "kubelet[9]: far"), True),
        (KUBELET, at(131, "kubelet[9]: far"), False),
        (KERNEL, at(-600, "kernel: far"), True),
        (KERNEL, at(-601, "kernel: far"), False),
        (KERNEL, "kernel: far", True),
    ],
)
def test_a_line_elsewhere_counts_from_shortly_before_a_run_to_shortly_after(
    path: str, line: str, is_found: bool
) -> None:
    assert bool(weighed(ELSEWHERE, {path: line}, None)) is is_found
    assert weighed(ELSEWHERE.replace("far, says", "far, within: any, says"), {path: line}, None)
    assert bool(weighed(ELSEWHERE.replace("far, says", "far, times: 2, says"), {path: line}, None)) is False
    twice = f"{line}\n{line.replace('far', 'as far')}"
    assert (
        bool(weighed(ELSEWHERE.replace("far, says", "far, times: 2, says"), {path: twice}, None)) is is_found
    )


@pytest.mark.parametrize(("seconds", "is_found"), [(-3, False), (-2, True), (12, True), (13, False)])
def test_further_lines_of_a_run_are_its_own(seconds: float, is_found: bool) -> None:
    rules = "- {name: own, says: it, message: [deep]}"
    assert bool(weighed(rules, {OWN: at(seconds, "job[1]: deep")})) is is_found


def test_of_its_further_lines_the_last_forty_may_tell_and_the_nearest_comes_first() -> None:
    rules = "- {name: own, says: it, message: [deep]}\n"
    rules += "- {name: far, says: it, message: [deep], where: [kernel]}\n"
    for before, found in ((39, ["own", "far"]), (40, ["far"])):
        lines = [at(1, "job[1]: deep"), *(at(2, f"job[1]: {number}") for number in range(before))]
        log = weighed(rules, {OWN: "\n".join(lines), KERNEL: at(3, "kernel: deep")})
        assert [name for name, _ in log] == found
    assert weighed(rule("m") + rules, {KERNEL: at(3, "kernel: deep")}) == [
        ("m", None),
        ("far", "m is nearer to the failure"),
    ]


def test_a_service_that_tells_of_another_error_has_no_cause_from_elsewhere() -> None:
    files = {KERNEL: at(3, "kernel: far")}
    assert weighed(ELSEWHERE, files, "level=error msg=other") == [
        ("far", "the service tells of another error")
    ]
    assert weighed(ELSEWHERE, files, "other") == [("far", None)]


def test_only_what_the_bad_host_alone_has_is_told_of_it() -> None:
    rules = (
        "- {name: far, says: it, message: [far], where: [any]}\n"
        "- {name: both, says: it, rank: contributing, message: [both], where: [any]}\n"
        "- {name: symptom, says: it, symptom: true, message: [far], where: [any]}\n"
        "- {name: unless, says: it, message: [far], where: [any], unless: [{message: both, where: [any]}]}\n"
    )
    both, far = at(1, "kernel: both"), at(2, "kernel: far")
    good, bad = host(rules, {KERNEL: both}), host(rules, {KERNEL: f"{both}\n{far}"})
    assert [cause.name for cause in evidence_only_in(bad, good)] == ["far"]
    assert [cause.name for cause in evidence_only_in(bad, host(rules, {}))] == ["far", "both"]
    assert evidence_only_in(good, bad) == ()


@pytest.mark.parametrize(("behind", "is_found"), [(50, True), (51, False)])
def test_of_a_host_without_trouble_a_line_counts_near_the_end_of_its_file(
    behind: int, is_found: bool
) -> None:
    lines = [at(1, "kernel: far"), *(at(2, f"kernel: {number}") for number in range(behind))]
    causes = host(ELSEWHERE, {KERNEL: "\n".join(lines)})
    assert (causes.of_host() is not None) is is_found
    expected = None if is_found else "its file goes on long after it"
    assert [(one.rule, one.lost) for one in causes.log[""]] == [("far", expected)]
    not_alone = host(
        ELSEWHERE.replace("far, says", "far, alone: false, says"), {KERNEL: at(1, "kernel: far")}
    )
    assert not_alone.of_host() is None
