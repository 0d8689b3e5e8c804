"""Tests of the choice among rules that fit: which one is named as the cause, and why the others are not."""

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from io import BytesIO

import pytest

from service_record.diagnosis import Diagnosis, Verdict, diagnose
from service_record.diagnosis.cause_rules import CauseRule, Rank
from service_record.diagnosis.causes import Causes, built_in_rules, find_new_evidence
from service_record.diagnosis.connections import FailureContext
from service_record.diagnosis.evidence.host_evidence import Evidence
from service_record.diagnosis.evidence.named_things import list_named_things
from service_record.diagnosis.expectations import add_units
from service_record.diagnosis.findings import KnownCause, TroubleFacts
from service_record.diagnosis.judgement import judge_evidence, read_evidence
from service_record.diagnosis.matching import (
    EXISTS,
    HAS_PASSED,
    MAY_HAVE_PASSED,
    OF_UNKNOWN_MOUNT,
    UNCONNECTED,
    WORKS_LATER,
)
from service_record.diagnosis.ranking import find_likely_cause
from service_record.diagnosis.units import Unit
from service_record.diagnosis.yaml_files import read_rules
from service_record.history import History, build_history
from service_record.history.outcome import Facts
from service_record.record.entry import Entry, Malformed, Phase
from tests.builders import entry, failed_run, require, timestamp
from tests.cause_cases import cause_cases

KERNEL = "bootstrap/journals/kernel.log"
KUBELET = "bootstrap/journals/kubelet.log"
OWN = "bootstrap/journals/job.log"
JOURNAL = "bootstrap/journals/journal.log"
SLOW = "message: '(?P<bytes>[0-9]+) in (?P<took>[0-9]+[sm])', measure: slow-pull"
ELSEWHERE = "- {name: far, says: far, message: [far], where: [any]}"
RECORDS = {"job": failed_run(error_message="near")}  # from START, ten seconds long


def host(rules: str, files: Mapping[str, str]) -> Causes:
    return host_of(read_rules(rules, "rules.yaml"), files)


def host_of(rules: Sequence[CauseRule], files: Mapping[str, str]) -> Causes:
    history: History = build_history(RECORDS.items())
    causes = Causes(rules)
    streams = ((path, BytesIO(f"{text}\n".encode()).read) for path, text in files.items())
    return read_evidence(causes, history, (), streams)


def weighed(
    rules: str, files: Mapping[str, str], message: str | None = "near", *, is_over: bool = True
) -> list[tuple[str, str | None]]:
    """Return the rules that fit the failure of a run, and why each but the first is not named."""
    causes = host(rules, files)
    cause = explain(causes, message, is_over=is_over)
    log = [(one.rule, one.lost) for one in causes.log["job"]]
    assert [rule for rule, lost in log if lost is None] == ([] if cause is None else [cause.name])
    return log


def explain(causes: Causes, message: str | None = "near", *, is_over: bool = True) -> KnownCause | None:
    (run,) = causes.history.services[0].runs
    trouble = TroubleFacts(
        kinds=frozenset({"failed"}),
        service="job",
        facts=Facts(message=message, exit_code=1),
        started=run.started,
        run_started=run.started,
        booted=run.started,
        ended=run.ended if is_over else None,
    )
    return causes.explain(trouble)


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
def test_deepest_fitting_rule_is_named(rules: str, expected: list[tuple[str, str | None]]) -> None:
    assert weighed(rules, {}) == expected


HEALS = ELSEWHERE.replace("far, says", "far, heals: true, says")


@pytest.mark.parametrize(
    ("path", "line", "doubt"),
    [
        (KUBELET, at(-601, "kubelet[9]: far"), "it was logged long before the run"),
        (KUBELET, at(-600, "kubelet[9]: far"), None),
        (KUBELET, at(130, "kubelet[9]: far"), None),
        (KUBELET, at(131, "kubelet[9]: far"), "it was logged after the failure"),
        (KERNEL, at(-601, "kernel: far"), "it was logged long before the run"),
        (KERNEL, "kernel: far", None),
    ],
)
def test_line_outside_the_run_is_only_a_pointer(path: str, line: str, doubt: str | None) -> None:
    assert weighed(ELSEWHERE, {path: line}, None) == [("far", doubt)]
    any_time = ELSEWHERE.replace("far, says", "far, within: any, says")
    assert weighed(any_time, {path: line}, None) == [("far", None)]


def test_line_as_rare_as_on_healthy_hosts_is_pointer() -> None:
    line = at(3, "kubelet[9]: far")
    rules = ELSEWHERE.replace("far, says", "far, times: 2, says")
    assert weighed(rules, {KUBELET: line}, None) == [("far", "healthy hosts log it as often")]
    assert weighed(rules, {KUBELET: f"{line}\n{at(4, 'kubelet[9]: far')}"}, None) == [("far", None)]
    contributing = rules.replace("says: far", "says: far, rank: contributing")
    assert weighed(contributing, {KUBELET: line}, None) == []


def test_line_of_an_unnamed_program_is_a_pointer() -> None:
    for where, line, doubt, doubt_of_passing in (
        ("own", "kubelet[9]: job: far", "another program logged it", MAY_HAVE_PASSED),
        ("kernel", "kubelet[9]: job: far", "another program logged it", MAY_HAVE_PASSED),
        ("own", "kubelet[9]: far", UNCONNECTED, UNCONNECTED),
        ("any", "kubelet[9]: far", None, None),
    ):
        rules = f"- {{name: far, says: far, message: [far], where: [{where}]}}"
        passing = rules.replace("says: far", "heals: true, says: far")
        assert weighed(rules, {KUBELET: at(3, line)}, None) == [("far", doubt)]
        assert weighed(passing, {KUBELET: at(3, line)}, None) == [("far", doubt_of_passing)]
        symptom = rules.replace("says: far", "says: far, symptom: true")
        assert weighed(symptom, {KUBELET: at(3, line)}, None) == ([] if doubt else [("far", None)])


WENT_ON = "the line says that its program went on"


@pytest.mark.parametrize(
    ("line", "doubt"),
    [
        ("disk near does not exist, skipping", WENT_ON),
        ("near failed (ignored)", WENT_ON),
        ('level=warning msg="near is lost; will retry in 5s" attempt=3', WENT_ON),
        ("http: TLS handshake error from 192.0.2.9:4444: near", WENT_ON),
        ("192.0.2.9:4444 [29/Nov/2026:04:00:00.123] web/1: SSL handshake failure: near", WENT_ON),
        ("192.0.2.9:4444 web~/1: SSL handshake failure (near)", WENT_ON),
        ("[ssl:error] [pid 7] [client 192.0.2.9:4444] AH02039: Certificate Verification: near", WENT_ON),
        ("[ssl:info] [pid 7] SSL Library Error: error:14094412: near", WENT_ON),
        ("SSL_accept error from unknown[192.0.2.9]: near", WENT_ON),
        ("lost connection after STARTTLS from unknown[192.0.2.9] near", WENT_ON),
        ("near was ignored by the server", None),
        ("backend api: SSL handshake failure near", None),
        ("near is lost, waiting for sda timed out", None),
        ("near is lost, retrying\nnear is lost", None),
        ("near is lost\nnear is lost, retrying", None),
    ],
)
def test_own_line_after_which_program_goes_on_is_pointer(line: str, doubt: str | None) -> None:
    assert weighed(rule("a"), {}, line) == [("a", doubt)]
    lines = "\n".join(at(3, f"job[1]: {one}") for one in line.splitlines())
    assert weighed(rule("a"), {OWN: lines}, "the end") == [("a", doubt)]


WORKS = {
    "device": "kernel: EXT4-fs ({}): mounted filesystem with ordered data mode",
    "interface": "NetworkManager[5]: <info>  [1.2] dhcp4 ({}): state changed new lease, address=192.0.2.5",
    "host": "curl[5]: * Connected to {} (192.0.2.5) port 443 (#0)",
    "port": "web[5]: Listening on 0.0.0.0:{}",
}


@pytest.mark.parametrize("kind", WORKS)
def test_any_rule_about_what_works_later_is_a_pointer(kind: str) -> None:
    """Every built-in rule whose line names a device, an interface, a host or a port is tested."""
    rules = {one.name: one for one in built_in_rules() if one.rank is Rank.CAUSE}
    doubted = set()
    for case in cause_cases():
        own = case.values.get("own")
        test = rules[case.rule].condition.lines if case.rule in rules else None
        if case.is_near_miss or not isinstance(own, str) or test is None:
            continue
        found = next(filter(None, (pattern.search(own.encode()) for pattern in test.patterns)), None)
        groups = {} if found is None else found.groupdict()
        name = dict(list_named_things({k.decode(): v.decode() for k, v in groups.items() if v})).get(kind)
        if (
            name is None
            or re.fullmatch(r"[a-z0-9]+" if kind == "device" else r"[A-Za-z0-9.-]+", name) is None
        ):
            continue
        lines = "\n".join(at(3, f"job[7]: {line}") for line in own.splitlines())
        for second, is_later in ((4, True), (2, False)):
            causes = host_of(built_in_rules(), {OWN: lines, JOURNAL: at(second, WORKS[kind].format(name))})
            (run,) = causes.history.services[0].runs
            cause = causes.explain(
                TroubleFacts(
                    kinds=frozenset({"failed"}),
                    service="job",
                    facts=Facts(message=own, exit_code=1),
                    started=run.started,
                    run_started=run.started,
                    ended=run.ended,
                )
            )
            is_certain = cause is not None and cause.is_cause and cause.name == case.rule
            assert not (is_certain and is_later), case.rule
            lost = {one.rule: one.lost or "" for one in causes.log["job"]}.get(case.rule, "")
            if WORKS_LATER in lost:
                assert is_later, (case.rule, lost)
                doubted.add(case.rule)
    assert doubted, kind


def test_what_works_later_may_have_another_name() -> None:
    """`sda1` is `/dev/sda1` and `dev-sda1.device`; a line of another device says nothing."""
    rules = "- {name: far, says: far, message: ['(?P<device>\\S+) is far'], where: [own, any]}"
    for name, other, is_doubted in (
        ("/dev/sda1", "kernel: EXT4-fs (sda1): mounted filesystem", True),
        ("dev-sda1.device", "systemd[1]: Finished x.service - File System Check on /dev/sda1.", True),
        ("/dev/sda2", "kernel: EXT4-fs (sda1): mounted filesystem", False),
        ("/dev/sda1", "systemd[1]: Found device dev-sda1.device - DISK.", True),
    ):
        journal = f"{at(3, f'job[7]: {name} is far')}\n{at(4, other)}"
        ((_, doubt),) = weighed(rules, {JOURNAL: journal}, f"{name} is far")
        assert (doubt is not None) == is_doubted, (name, other, doubt)


def test_line_of_another_condition_does_not_replace_the_message() -> None:
    """The message gets neither the time nor the program of a line that `needs` found elsewhere."""
    rules = "- {name: far, says: far, message: ['(?P<device>\\S+) is far']"
    rules += ", needs: [{message: [x], where: [kernel]}]}"
    message = "/dev/sda1 is far"
    works = at(4, "kernel: EXT4-fs (sda1): mounted filesystem")
    files = {KERNEL: at(2, "kernel: x"), JOURNAL: at(3, f"job[7]: {message}")}
    assert weighed(rules, files, message) == [("far", None)]
    ((_, doubt),) = weighed(rules, files | {KERNEL: f"{files[KERNEL]}\n{works}"}, message)
    assert WORKS_LATER in (doubt or "")
    facts = Facts(message=message, exit_code=1)
    cause = host(rules, files).explain(TroubleFacts(kinds=frozenset({"failed"}), service="job", facts=facts))
    assert cause is not None
    assert (cause.line, cause.of) == (message, None)


@pytest.mark.parametrize(
    ("end", "continues"),
    [
        ("retrying", True),
        ("will retry", True),
        ("waiting for the server", True),
        ("retry limit exceeded", False),
        ("retry attempts exhausted", False),
        ("retry limit reached", False),
        ("waiting period expired", False),
        ("ignoring", True),
        ("skipping", True),
    ],
)
def test_line_with_a_last_retry_is_certain(end: str, continues: bool) -> None:
    expected = WENT_ON if continues else None
    assert weighed(rule("a"), {}, f"near, {end}") == [("a", expected)]


def test_new_try_of_another_program_is_certain() -> None:
    """The failed service may wait for a controller that tries forever."""
    for end, doubt in ((", retrying", None), (", skipping", WENT_ON)):
        assert weighed(ELSEWHERE, {KUBELET: at(3, f"kubelet[9]: far{end}")}, None) == [("far", doubt)]


def test_rule_about_a_program_needs_its_name() -> None:
    def doubt_of(program: str, message: str, files: Mapping[str, str]) -> str | None:
        ((_, doubt),) = weighed(rule("a", f"program: {program}, where: [own, any]"), files, message)
        return doubt

    assert doubt_of("moon", "near", {}) == "no line names the program"
    assert doubt_of("moon", "moon 1.2 starts\nnear", {}) is None
    assert doubt_of("^job$|job\\n", "near", {}) is None  # the service itself
    assert doubt_of("kubelet", "the end", {KUBELET: at(3, "kubelet[9]: near")}) is None
    assert doubt_of("moon", "the end", {KUBELET: at(3, "kubelet[9]: near")}) == "no line names the program"


def test_line_about_another_unit_is_a_pointer() -> None:
    rules = "- {name: far, says: far, message: ['[Ff]ailed at step'], where: [systemd]}"
    for unit, doubt in (("other", "it is about another unit"), ("job", None)):
        line = at(3, f"systemd[1]: {unit}.service: Failed at step EXEC spawning /x: Permission denied")
        assert weighed(rules, {JOURNAL: line}, None) == [("far", doubt)]


@pytest.mark.parametrize(
    ("line", "has_healed"),
    [
        (at(-291, "kubelet[9]: far"), True),  # more than five minutes before the end of the run
        (at(-290, "kubelet[9]: far"), False),
        (at(-291, "kernel: far"), False),  # the kernel logs a problem once, however long it lasts
    ],
)
def test_problem_that_heals_needs_a_recent_line(line: str, has_healed: bool) -> None:
    path = KERNEL if "kernel" in line else KUBELET
    expected = "it has passed: it was logged long before the end" if has_healed else None
    assert weighed(HEALS, {path: line}, None) == [("far", expected)]
    assert weighed(ELSEWHERE, {path: line}, None) == [("far", None)]


@pytest.mark.parametrize(
    ("rules", "files"),
    [
        (HEALS, {KUBELET: at(-291, "kubelet[9]: far")}),
        (
            ELSEWHERE.replace("far, says", "far, unless: [{message: [both], where: [any]}], says"),
            {KUBELET: "\n".join((at(3, "kubelet[9]: far"), at(4, "kubelet[9]: both")))},
        ),
    ],
    ids=["passed", "spoken against"],
)
def test_evidence_against_a_cause_only_lowers_it(rules: str, files: Mapping[str, str]) -> None:
    causes = host(rules, files)
    assert explain(causes, None) is None
    assert [(one.name, one.rank) for one in causes.doubtful["job"]] == [("far", "points to")]


@pytest.mark.parametrize(
    ("after", "doubt"),
    [
        ("cannot read it", None),
        ("Error: cannot start", None),
        ("Error: cannot read /etc/near.conf", None),
        ("Error: cannot open /srv/known", None),
        ("Error: cannot open /srv/other", "the service logged another error after it"),
    ],
)
def test_later_error_makes_a_common_line_doubtful(after: str, doubt: str | None) -> None:
    rules = """
- {name: near, says: near, message: [near], noise: true}
- {name: known, says: known, message: [known]}
"""
    assert ("near", doubt) in weighed(rules, {}, f"Error: near: /etc/near.conf\n{after}")


def test_likely_cause_with_evidence_against_it_comes_last() -> None:
    def cause(name: str, doubt: str) -> KnownCause:
        line = "level=error msg=/x"
        return KnownCause(name=name, says="it", rank="points to", doubt=doubt, line=line, place="a:1", of="a")

    passed, fresh = cause("passed", HAS_PASSED), cause("fresh", "another run logged it")
    assert find_likely_cause(FailureContext("job"), None, None, [passed, fresh], ()) == fresh
    assert find_likely_cause(FailureContext("job"), None, None, [passed], ()) is None


@pytest.mark.parametrize(
    ("first", "last", "has_healed"),
    [
        (at(5, "a[1]: far"), [at(305, "a[1]: x")], False),
        (at(4, "a[1]: far"), [at(305, "a[1]: x")], True),
        (at(4, "a[1]: far"), ["x"], False),  # nothing shows it to be over
        ("far", ["x"] * 50, False),
        ("far", ["x"] * 51, True),
        ("far", ["x"] * 150, True),
    ],
)
def test_problem_of_running_service_can_heal(first: str, last: Sequence[str], has_healed: bool) -> None:
    log = weighed(HEALS, {KUBELET: "\n".join([first, *last])}, None, is_over=False)
    assert (log[0][1] is not None) is has_healed


@pytest.mark.parametrize(("seconds", "is_own"), [(-3, False), (-2, True), (12, True), (13, False)])
def test_further_lines_of_a_run_are_its_own(seconds: float, is_own: bool) -> None:
    rules = "- {name: own, says: it, message: [deep], where: [own]}\n"
    rules += "- {name: far, says: it, message: [deep], where: [any]}\n"
    log = weighed(rules, {OWN: at(seconds, "job[1]: deep")})
    assert (log[1] == ("far", "own is nearer to the failure")) is is_own


def test_early_line_of_a_run_can_be_evidence() -> None:
    rules = "- {name: own, says: it, message: [deep]}\n"
    lines = [at(1, "job[1]: deep"), *(at(2, f"job[1]: {number}") for number in range(200))]
    assert weighed(rules, {OWN: "\n".join(lines)}) == [("own", None)]


def test_nearest_source_comes_first() -> None:
    rules = "- {name: far, says: it, message: [deep], where: [kernel]}\n"
    files = {KERNEL: at(3, "kernel: deep")}
    assert weighed(rule("m") + rules, files) == [("m", None), ("far", "m is nearer to the failure")]


def test_other_error_of_service_makes_causes_uncertain() -> None:
    files = {KERNEL: at(3, "kernel: far")}
    doubt = "the service itself logged another error"
    assert weighed(ELSEWHERE, files, "level=error msg=other") == [("far", doubt)]
    assert weighed(ELSEWHERE, files, "other") == [("far", None)]
    fact, facts = "- {name: fact, says: it, fact: {hostname: lab}}", {"hostname": "a.lab"}
    assert weighed(fact, facts, "level=error msg=other") == [("fact", doubt)]
    assert weighed(fact, facts, None) == [("fact", None)]
    own = rule("near") + ELSEWHERE
    assert weighed(own, files, "near\nlevel=error msg=other")[0] == ("near", None)


def test_only_evidence_unique_to_bad_host_is_shown() -> None:
    rules = (
        "- {name: far, says: it, message: [far], where: [any]}\n"
        "- {name: both, says: it, rank: contributing, message: [both], where: [any]}\n"
        "- {name: symptom, says: it, symptom: true, message: [far], where: [any]}\n"
        "- {name: unless, says: it, message: [far], where: [any], unless: [{message: both, where: [any]}]}\n"
    )
    both, far = at(1, "kernel: both"), at(2, "kernel: far")
    good, bad = host(rules, {KERNEL: both}), host(rules, {KERNEL: f"{both}\n{far}"})
    assert [cause.name for cause in find_new_evidence(bad, good)] == ["far"]
    assert [cause.name for cause in find_new_evidence(bad, host(rules, {}))] == ["far", "both"]
    assert find_new_evidence(good, bad) == ()


@pytest.mark.parametrize(("behind", "has_healed"), [(50, False), (51, True)])
def test_host_without_failure_can_have_unhealed_cause(behind: int, has_healed: bool) -> None:
    lines = [at(1, "kernel: far"), *(at(2, f"kernel: {number}") for number in range(behind))]
    files = {KERNEL: "\n".join(line.split(" ", 1)[1] for line in lines)}  # without times
    assert (host(HEALS, files).explain_host() is None) is has_healed
    assert host(ELSEWHERE, files).explain_host() is not None
    noise = ELSEWHERE.replace("far, says", "far, noise: true, says")
    assert host(noise, files).explain_host() is None


FACT = "bootstrap/storage/lsblk.txt"


@pytest.mark.parametrize(
    ("test", "files", "expected"),
    [
        ("message: ['ne(?P<x>a)r']", {}, ("it a", "nearby", None, None)),
        ("message: ['(?P<y>z)', 'de(?P<x>e)p'], where: [own]", {}, ("it e", "deep", f"{OWN}:2", "job")),
        (
            "message: ['de(?P<x>e)p', 'f(?P<x>a)r'], where: [own, kernel]",
            {OWN: "", KERNEL: at(3, "kernel: far")},
            ("it a", "far", f"{KERNEL}:1", "kernel"),
        ),
        (
            "message: ['(?P<x>deep)'], needs: [{message: ['(?P<x>near)']}]",
            {},
            ("it deep", "deep", f"{OWN}:2", "job"),
        ),
        (
            "exit: 1, needs: [{message: ['(?P<x>far)'], where: [any]}]",
            {KERNEL: at(3, "kernel: far")},
            ("it far", "far", f"{KERNEL}:1", "kernel"),
        ),
        ("fact: {block: '(?P<x>vdb)'}", {}, ("it vdb", "vdb: vdb disk", f"{FACT}:3", None)),
        ("check: swap-is-on", {"swaps": "N T S\nf f 2048"}, ("it", "SwapTotal: 2048 kB", "swaps:2", None)),
        ("service: '(?P<x>jo)b'", {}, ("it jo", None, None, None)),
        ("role: live", {"cmdline": "boot=live"}, ("it", None, None, None)),
        ("role: live", {}, None),
        ("fact: {block: sda}", {}, None),
        ("check: disk-is-full", {}, None),
        ("message: ['deep'], where: [kernel]", {}, None),
        (
            "exit: 1, within: boot, message: far, where: kernel",
            {KERNEL: at(-601, "kernel: far")},
            ("it", "far"),
        ),
        ("exit: 1, within: boot, message: far, where: kernel", {KERNEL: at(-1001, "kernel: far")}, None),
        (f"{SLOW}, where: [any]", {KERNEL: at(3, "kernel: 9000000 in 1s")}, None),
        (f"{SLOW}, where: [any]", {KERNEL: at(3, "kernel: 9000000 in 1m")}, ("it", "9000000 in 1m")),
        (f"{SLOW}, where: [any], times: 2", {KERNEL: "9000000 in 1m\n9000000 in 1s"}, None),
        (
            f"{SLOW}, where: [any], times: 2",
            {KERNEL: "9000000 in 1m\n8000000 in 1m"},
            ("it", "8000000 in 1m"),
        ),
        (
            SLOW,
            {OWN: at(1, "job[1]: 9000000 in 1m\n") + at(2, "job[1]: 9000000 in 1s")},
            ("it", "9000000 in 1m"),
        ),
        (SLOW, {OWN: at(1, "job[1]: 9000000 in 1s")}, None),
    ],
)
def test_cause_names_its_line_or_fact(
    test: str, files: Mapping[str, str], expected: tuple[str | None, ...] | None
) -> None:
    own = "\n".join([at(0, "job[1]: x"), at(2, "job[1]: deep"), at(3, "job[1]: x")])
    says = "'it [{x}|]'" if "<x>" in test else "it"
    causes = host(
        f"- {{name: a, says: {says}, {test}}}", {OWN: own, FACT: "NAME\nvda disk\nvdb disk", **files}
    )
    (run,) = causes.history.services[0].runs
    found = causes.explain(
        TroubleFacts(
            kinds=frozenset({"failed"}),
            service="job",
            facts=Facts(message="above\nnearby\nbelow", exit_code=1),
            started=run.started,
            run_started=run.started,
            booted=run.started and run.started - timedelta(seconds=1000),
            ended=run.ended,
        )
    )
    parts = None if found is None else (found.says.strip(), found.line, found.place, found.of)
    assert found is None or [(one.line, one.place) for one in causes.log["job"]] == [
        (found.line, found.place)
    ]
    assert (parts and parts[: len(expected or ())]) == expected


def judged(
    files: Mapping[str, str],
    records: Mapping[str, Sequence[Entry | Malformed]] = RECORDS,
    rules: str = "[]",
    units: Sequence[Unit] = (),
) -> Diagnosis | None:
    history = build_history(records.items())
    streams = ((path, BytesIO(f"{text}\n".encode()).read) for path, text in files.items())
    causes = read_evidence(Causes(read_rules(rules, "rules.yaml")), history, units, streams)
    diagnosis = diagnose(history, explain=causes.explain)
    return judge_evidence(add_units(diagnosis, history, units, explain=causes.explain), causes)


@pytest.mark.parametrize(
    ("message", "line", "is_told"),
    [
        ("near", at(0, "job[1]: Error: deep"), True),
        ("near", at(10, "job[1]: Error: deep"), True),
        ("near", at(-0.1, "job[1]: Error: deep"), False),
        ("near", at(10.1, "job[1]: Error: deep"), False),
        ("near", "Error: deep", False),
        ("near", at(1, "systemd[1]: Error: deep"), False),
        ("near", at(1, "job[1]: Error: deep") + "\n" + at(2, "job[1]: more"), True),
        ("near", at(1, "job[1]: Error: other") + "\n" + at(2, "job[1]: Error: deep"), True),
        ("near", at(1, "job[1]: deep"), False),
        (None, at(1, "job[1]: Error: deep"), True),
        ("Usage:", at(1, "job[1]: Error: deep"), True),
        ("it failed with exit status 1", at(1, "job[1]: Error: deep"), True),
        ("it failed with exit status 1", at(1, "job[1]: it exited with code 2"), False),
        ("cannot do it", at(1, "job[1]: Error: deep"), False),
    ],
)
def test_telling_log_line_replaces_a_vague_message(message: str | None, line: str, is_told: bool) -> None:
    root = require(require(judged({OWN: line}, {"job": failed_run(error_message=message)})).root)
    assert (root.telling and root.telling.line) == ("Error: deep" if is_told else None)


def test_cause_of_host_without_trouble_is_found() -> None:
    unit = Unit(name="new.service", is_failed=True)
    mount = Unit(name="a.mount", is_failed=True)
    line = at(3, "x[1]: far")
    well: Mapping[str, list[Entry]] = {"job": [entry(), entry(Phase.SERVICE_END, 9)]}

    def causes_of(units: Sequence[Unit], rules: str, text: str = line) -> list[str | None]:
        found = require(judged({JOURNAL: text, "hostname": "a.lab"}, well, rules, units))
        lines = [failed.telling.line if failed.telling else None for failed in found.failed_units]
        assert found.host_name == "a.lab"
        host_cause = (found.host.service, found.host.cause.name) if found.host else (None, None)
        return [*host_cause, *lines]

    assert causes_of([], ELSEWHERE) == ["x", "far"]
    assert causes_of([], "[]") == [None, None]
    assert causes_of([], "- {name: fact, says: it, fact: {hostname: lab}}") == ["host", "fact"]
    unit_rule = "- {name: unit, says: it, message: [far], where: [any], service: new}"
    assert causes_of([mount, unit], unit_rule) == ["new", "unit", None, None]
    assert causes_of([unit], unit_rule.replace("says", "symptom: true, says")) == [None, None, None]
    own = f"{at(1, 'new[7]: Error: deep')}\n{at(2, 'systemd[1]: new.service: Error: x')}"
    assert causes_of([mount, unit], "[]", own) == ["new", "own-error", None, "Error: deep"]
    assert causes_of([unit], unit_rule, f"{own}\n{line}") == ["new", "unit", None]
    root = require(judged({KERNEL: at(3, "kernel: far")}, RECORDS, ELSEWHERE, [unit]))
    assert (root.host, require(require(root.root).cause).name) == (None, "far")


@pytest.mark.parametrize("more", ["", ", within: boot", ", within: any"])
def test_only_lines_of_this_boot_count(more: str) -> None:
    rules = ELSEWHERE.replace("says: far", f"says: far{more}")
    well: Mapping[str, list[Entry]] = {"job": [entry()]}
    for path, is_found in ((KERNEL, True), ("bootstrap/journals/boot-1.log", "any" in more)):
        found = require(judged({path: at(3, "kernel: far")}, well, rules))
        assert (found.host is not None) is is_found


def test_files_of_a_host_are_judged_without_records() -> None:
    for files, is_judged in (
        ({KERNEL: "x"}, True),
        ({"hostname": "a"}, True),
        ({"notes": "x"}, True),
        ({}, False),
    ):
        found = judged(files, {})
        assert (found and found.verdict) == (Verdict.UNKNOWN if is_judged else None)
    assert judged({KERNEL: "x"}, {"job": [Malformed(1, "x", "not an entry")]}) is None


def test_compiled_rules_are_shared_by_hosts() -> None:
    causes = Causes(read_rules(ELSEWHERE, "rules.yaml"))
    causes.prepare()
    for other in (causes.without_evidence(History(())), causes.with_evidence(Evidence(), History(()))):
        assert other.book is causes.book
        assert other.explain_host() is None


NAMES_DEVICE = (
    "- {name: far, says: far, message: ['\\((?P<device>[a-z0-9]+)\\) is far'], where: [own, kernel]}"
)
FSTAB = "bootstrap/storage/fstab"
MOUNTS_FAILED = "\n".join(
    at(9, f"systemd[1]: {name}.mount: Failed with result 'exit-code'.") for name in ("data", "srv")
)


def explain_mount(files: Mapping[str, str], unit: str = "data.mount") -> tuple[str | None, str | None]:
    """Return the cause of a failed mount and the doubt of the first likely cause."""
    causes = host(NAMES_DEVICE, files)
    (run,) = causes.history.services[0].runs
    cause = causes.explain(
        TroubleFacts(
            kinds=frozenset({"failed"}),
            service=unit,
            facts=Facts(exit_code=32),
            started=run.started,
            run_started=run.started,
            ended=run.ended,
        )
    )
    doubts = [one.doubt for one in causes.doubtful[unit]]
    return (cause.name if cause is not None else None), next(iter(doubts), None)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, ("far", None)),
        ({FSTAB: "/dev/sdb1 /data xfs x 0 0"}, ("far", None)),
        ({FSTAB: "/dev/sdc1 /data xfs x 0 0"}, (None, None)),
        ({FSTAB: "/dev/mapper/vg-data /data xfs x 0 0"}, ("far", None)),
        ({JOURNAL: MOUNTS_FAILED}, (None, OF_UNKNOWN_MOUNT)),
        ({JOURNAL: MOUNTS_FAILED, FSTAB: "/dev/sdb1 /data xfs x 0 0"}, ("far", None)),
        ({JOURNAL: at(2, "mount[5]: mount: /data: can't read superblock on /dev/sdc1.")}, (None, None)),
    ],
    ids=["unknown", "same", "another", "on-lvm", "one-of-two", "same-of-two", "another-in-a-line"],
)
def test_line_about_another_device_is_not_the_cause(
    files: Mapping[str, str], expected: tuple[str | None, str | None]
) -> None:
    assert explain_mount({KERNEL: at(3, "kernel: FS (sdb1) is far"), **files}) == expected


@pytest.mark.parametrize(
    ("files", "is_doubted"),
    [
        ({}, False),
        ({"sosreport-x/etc/other.conf": "x"}, False),
        ({"sosreport-x/etc/far.conf": "x"}, True),
    ],
    ids=["unknown", "another-file", "same-file"],
)
def test_missing_file_that_the_host_has_is_doubted(files: Mapping[str, str], *, is_doubted: bool) -> None:
    rules = "- {name: far, says: far, message: ['open (?P<file>/\\S+): no such file']}"
    ((_, doubt),) = weighed(rules, files, "open /etc/far.conf: no such file or directory")
    assert (doubt or "").startswith(EXISTS) == is_doubted


@pytest.mark.parametrize(
    ("message", "fact", "text", "is_doubted"),
    [
        ("Timed out waiting for device /dev/sdb1", "lsblk", "NAME\nsdb\n`-sdb1 xfs", True),
        ("Timed out waiting for device /dev/sdb2", "lsblk", "NAME\nsdb\n`-sdb1 xfs", False),
        ("device /dev/sdb1 is broken", "lsblk", "NAME\nsdb\n`-sdb1 xfs", False),
    ],
    ids=["there", "another", "not-missing"],
)
def test_missing_device_that_the_host_has_is_doubted(
    message: str, fact: str, text: str, *, is_doubted: bool
) -> None:
    rules = "- {name: far, says: far, message: ['(?:waiting for )?device (?P<device>/dev/[a-z0-9]+)']}"
    rules = rules.replace("'(?:wait", "'(?:Timed out wait")
    ((_, doubt),) = weighed(rules, {f"bootstrap/storage/{fact}": text}, message)
    assert (doubt or "").startswith(EXISTS) == is_doubted
