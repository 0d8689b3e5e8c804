"""What systemd says of units, and services that were expected to start: read, and added to a diagnosis."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from service_record.diagnosis import Diagnosis, Verdict, diagnose
from service_record.diagnosis.evidence.unit_logs import Hindrance
from service_record.diagnosis.expectations import add_units
from service_record.diagnosis.findings import KnownCause, TroubleFacts
from service_record.diagnosis.units import (
    Unit,
    find_chain_to_root,
    join_properties,
    read_assertions,
    read_properties,
    read_texts,
)
from service_record.display.analysis_document import analysis_document
from service_record.display.sentences import exit_description, verdict_sentence
from service_record.history.outcome import Facts, Location, Outcome
from service_record.record.entry import Malformed, Phase, Result
from tests.builders import START, entry, failed_run, require
from tests.diagnosis.test_diagnosis import history, running, succeeded

EXEC = (
    "{{ path={path} ; argv[]={path} ; ignore_errors={ignored} ; start_time=[n/a] ; stop_time=[n/a] ; pid=7 ;"
    " code={code} ; status={status} }}"
)
FAILED = "ActiveState=failed"


def ended(path: str, code: str, status: str, ignored: str = "no") -> str:
    return EXEC.format(path=path, code=code, status=status, ignored=ignored)


def properties(name: str, *lines: str) -> str:
    return "\n".join([lines[0], f"Id={name}", *lines[1:]])


def read(*blocks: str) -> tuple[Unit, ...]:
    return read_properties("\n\n".join(blocks) + "\n", 1_000.0)


def added(
    units: Sequence[Unit] | None, *expected: str, is_waiting: bool = False, **records: Any
) -> Diagnosis | None:
    """The diagnosis of these records, with these units and expected services."""
    host = history(**records)
    return add_units(diagnose(host), host, units, expected=expected, is_waiting=is_waiting)


@pytest.mark.parametrize(
    ("lines", "command", "facts"),
    [
        pytest.param(
            ["Result=exit-code", f"ExecStartPre={ended('/bin/a', 'exited', '6')}"],
            "ExecStartPre=/bin/a",
            Facts(exit_code=6, service_result="exit-code"),
            id="a pre-command",
        ),
        pytest.param(
            ["Result=signal", f"ExecStart={ended('/bin/a', 'killed', '9/KILL')}"],
            "ExecStart=/bin/a",
            Facts(signal="KILL", service_result="signal"),
            id="a signal",
        ),
        pytest.param(
            [
                "Result=exit-code",
                f"ExecStopPost={ended('/bin/tidy', 'exited', '1')}",
                f"ExecStart={ended('/bin/a', 'exited', '5')}",
            ],
            "ExecStart=/bin/a",
            Facts(exit_code=5, service_result="exit-code"),
            id="the first in the order of their running",
        ),
        pytest.param(
            [
                "SuccessExitStatus=5",
                "Result=exit-code",
                f"ExecStart={ended('/bin/a', 'exited', '5')}",
                f"ExecStopPost={ended('/bin/tidy', 'exited', '1')}",
            ],
            None,
            Facts(service_result="exit-code"),
            id="not certain where other statuses are a success",
        ),
        pytest.param(
            [
                "Result=exit-code",
                f"ExecStartPre={ended('/bin/a', 'exited', '1', ignored='yes')}",
                f"ExecStart={ended('/bin/b', 'exited', '2')}",
            ],
            "ExecStart=/bin/b",
            Facts(exit_code=2, service_result="exit-code"),
            id="not one whose failure is ignored",
        ),
        pytest.param(
            ["Result=start-limit-hit", f"ExecStart={ended('/bin/a', 'exited', '1')}"],
            None,
            Facts(service_result="start-limit-hit"),
            id="not one of an earlier start",
        ),
    ],
)
def test_failed_command_is_named_if_certain(lines: list[str], command: str | None, facts: Facts) -> None:
    (unit,) = read(properties("job.service", *lines, FAILED))
    assert (unit.is_failed, unit.command, unit.facts) == (True, command, facts)


@pytest.mark.parametrize(
    ("result", "is_failed", "is_active"), [("exit-code", True, False), ("success", False, True)]
)
def test_unit_that_waits_for_its_restart_is_failed(result: str, is_failed: bool, is_active: bool) -> None:
    start = f"ExecStart={ended('/bin/a', 'exited', '3')}"
    restart = ("ActiveState=activating", "SubState=auto-restart", f"Result={result}", "NRestarts=4", start)
    (unit,) = read(properties("job.service", "Names=job.service", *restart))
    assert (unit.is_failed, unit.is_active, unit.restarts) == (is_failed, is_active, 4)
    assert unit.facts.exit_code == (3 if is_failed else None)


def test_line_break_in_a_command_hides_no_unit() -> None:
    broken = "ExecStart={ path=/bin/sh ; argv[]=/bin/sh -c true\n\nexit 5 ; ignore_errors=no ; code=exited }"
    units = read(properties("a.service", "Result=exit-code", broken, FAILED), properties("b.mount", FAILED))
    assert [(unit.name, unit.is_failed) for unit in units] == [("a.service", True), ("b.mount", True)]


def test_repeated_units_count_once_and_others_never() -> None:
    assert [unit.name for unit in read(properties("a.service", FAILED), properties("a.service", FAILED))] == [
        "a.service"
    ]
    assert read(properties("\x1b[2J", FAILED)) == ()
    assert read("") == ()


UNIT = f"""\
Names=a.service b.service;LoadState=not-found;ActiveState=inactive;Job=12;ConditionResult=no;AssertResult=no
ConditionTimestampMonotonic=1;AssertTimestampMonotonic=1;InactiveExitTimestampMonotonic=1
StateChangeTimestampMonotonic={"9" * 15};Requires=a.mount b.mount;Requisite=c.mount;BindsTo=d.device
RequiredBy=x.service x.target;RequisiteOf=y.service x.service;BoundBy=z.service"""


def test_unit_has_the_properties_from_systemd() -> None:
    (unit,) = read(properties("a.service", *UNIT.replace(";", "\n").splitlines()))
    assert unit == Unit(
        name="a.service",
        aliases=frozenset({"a.service", "b.service"}),
        since=datetime.fromtimestamp(1_000 + 999_999_999.999999, UTC),
        load_state="not-found",
        has_unmet_condition=True,
        has_unmet_assertion=True,
        is_queued=True,
        has_started=True,
        requires=frozenset({"a.mount", "b.mount", "c.mount", "d.device"}),
        bound_to=frozenset({"d.device"}),
        required_by=("x.service", "y.service", "z.service"),
    )
    assert (unit.service, Unit(name="a.mount").service) == ("a", None)
    for unchecked in ("ConditionResult=no", "AssertResult=no"):
        assert read(properties("a.service", unchecked)) == (Unit(name="a.service"),)
    met = read(properties("a.service", "ConditionResult=yes", "ConditionTimestampMonotonic=1"))
    assert met == (Unit(name="a.service"),)


LISTING = """\
  UNIT             LOAD   ACTIVE SUB    DESCRIPTION
● mnt-data.mount   loaded failed failed /mnt/data
* bootkube.service loaded failed failed Bootstrap a cluster
kubelet.service    loaded failed failed Kubelet

LOAD   = Reflects whether the unit definition was properly loaded.
3 loaded units listed.
"""
STATUS = """\
* bootkube.service - Bootstrap a cluster
     Loaded: loaded (/etc/systemd/system/bootkube.service; static)
     Active: failed (Result: exit-code) since Mon 2026-11-23 06:33:22 UTC; 698ms ago
    Process: 55 ExecStartPre=/bin/true (code=exited, status=0/SUCCESS)
    Process: 56 ExecStartPre=/bin/sh -c echo a ; exit 6 (code=exited, status=6)
        CPU: 4ms
"""


def test_failed_units_of_bundle_have_their_status() -> None:
    units = read_texts({"log/failed-units.txt": LISTING, "log/unit-status/bootkube.service.txt": STATUS})
    assert [unit.name for unit in units] == ["mnt-data.mount", "bootkube.service", "kubelet.service"]
    assert (units[1].command, units[1].facts.exit_code) == ("ExecStartPre=/bin/sh", 6)
    assert (units[2].command, units[2].facts) == (None, Facts())


def test_properties_in_bundle_complete_the_list() -> None:
    command = EXEC.format(path="/bin/a", ignored="no", code="exited", status="4")
    bootkube = f"Id=bootkube.service\nActiveState=failed\nResult=exit-code\nExecStart={command}"
    shown = [
        f"{bootkube}\nStateChangeTimestampMonotonic=5000000\n",
        "Id=kubelet.service\nActiveState=inactive\nRequires=bootkube.service\n",
    ]
    texts = {"log/failed-units.txt": LISTING, "log/unit-properties.txt": join_properties(shown, 1000.0)}
    units = {unit.name: unit for unit in read_texts(texts)}
    assert units.keys() == {"mnt-data.mount", "bootkube.service", "kubelet.service"}
    failed = units["bootkube.service"]
    assert (failed.command, failed.facts.exit_code) == ("ExecStart=/bin/a", 4)
    assert failed.since == datetime.fromtimestamp(1005, UTC)
    assert find_chain_to_root(units["kubelet.service"], units) == (failed,)


@pytest.mark.parametrize("booted", [99_999_999_999, 100_000_000_000, 999_999_999_999])
def test_boot_time_out_of_range_is_rejected(booted: int) -> None:
    shown = ["Id=job.service\nActiveState=failed\nStateChangeTimestampMonotonic=999999999999999\n"]
    units = read_texts({"unit-properties.txt": join_properties(shown, booted)})
    assert [unit.name for unit in units] == (["job.service"] if booted < 10**11 else [])


def test_bundle_names_the_assertions_of_a_unit() -> None:
    shown = ["Id=job.service\nActiveState=inactive\nAssertResult=no\nAssertTimestampMonotonic=5\n"]
    assertions = {"job.service": ("AssertPathExists=/a", "AssertHost=b"), "gone.mount": ("AssertUser=c",)}
    texts = {"unit-properties.txt": join_properties(shown, 1000.0, assertions)}
    job, gone = read_texts(texts)
    assert (job.hindrance, job.detail) == (Hindrance.ASSERTION, "one of AssertPathExists=/a, AssertHost=b")
    assert (gone.name, gone.assertions) == ("gone.mount", ("AssertUser=c",))


def test_assertions_are_read_as_systemd_reads_them() -> None:
    file = "[Unit]\nAssertPathExists=/a\nAssertPathExists=\nAssertHost = b\n# /x.d/y.conf\nAssertUser=|c\n"
    assert read_assertions(file) == ("AssertHost=b", "AssertUser=|c")


def test_status_counts_only_for_its_failure() -> None:
    def read_status(status: str) -> tuple[str | None, Facts]:
        listing = "\n* a.service x failed failed\nb.service failed active x\n\x1b.service x failed x"
        texts = {"notes.txt": listing, "failed-units.txt": listing, "unit-status/a.service.txt": status}
        (unit,) = read_texts(texts)
        assert (unit.name, unit.is_failed) == ("a.service", True)
        return unit.command, unit.facts

    active = "   Active: failed (Result: {}) since"
    ended = "   Process: 7 ExecStart=/bin/{} b (code={})"
    signal = "\n".join([active.format("core-dump"), ended.format("a", "dumped, signal=SEGV")])
    assert read_status(signal) == ("ExecStart=/bin/a", Facts(signal="SEGV", service_result="core-dump"))
    two = "\n".join([active.format("exit-code"), *(ended.format(n, f"exited, status={n}") for n in (1, 2))])
    assert read_status(two) == (None, Facts(service_result="exit-code"))
    timeout = "\n".join([active.format("timeout"), ended.format("a", "exited, status=1/FAILURE")])
    assert read_status(timeout) == (None, Facts(service_result="timeout"))
    assert read_status("") == (None, Facts())


def test_failed_unit_makes_the_host_failed() -> None:
    found = require(added([Unit(name="job.service", is_failed=True)], job=succeeded()))
    assert (found.verdict, found.root) == (Verdict.FAILED, None)
    assert found.failed_units[0].recorded is Outcome.SUCCESS
    says = "failed: job.service: systemd's reason is not known; its latest recorded run succeeded"
    assert verdict_sentence(found) == says


def test_failed_unit_beside_running_ones_is_reported() -> None:
    found = require(
        added([Unit(name="a.mount", is_failed=True, required_by=("job.service",))], job=running())
    )
    assert found.verdict is Verdict.FAILED
    assert (
        verdict_sentence(found) == "failed: a.mount: systemd's reason is not known; job.service requires it"
    )


def test_recorded_failure_is_reported_once() -> None:
    found = require(added([Unit(name="job.service", is_failed=True)], job=failed_run()))
    assert found.root is not None
    assert found.failed_units == ()


def test_approximate_place_is_near() -> None:
    facts = Facts(exit_code=1, location=Location(12, "main", "/usr/local/bin/job.sh"), is_approximate=True)
    assert exit_description(facts) == "exit 1 near /usr/local/bin/job.sh:12 in main"


def test_unrecorded_failure_is_explained_by_systemd() -> None:
    unexplained = [entry(), entry(Phase.SERVICE_END, 1, result=Result.FAILURE, service_result="exit-code")]
    unit = Unit(
        name="job.service", is_failed=True, facts=Facts(exit_code=6), command="ExecStartPre=/bin/mount"
    )
    found = require(added([unit], job=unexplained))
    assert verdict_sentence(found) == 'failed: job: exit 6 of "ExecStartPre=/bin/mount"'
    explained = require(added([unit], job=failed_run()))
    assert verdict_sentence(explained).startswith("failed: job in stage second: exit 1 at")


def test_start_limit_of_systemd_is_shown_with_record() -> None:
    gave_up = Unit(name="job.service", is_failed=True, facts=Facts(service_result="start-limit-hit"))
    found = require(added([gave_up], job=failed_run()))
    assert found.root is not None
    assert [failed.unit for failed in found.failed_units] == [gave_up]


def test_nothing_is_judged_without_any_evidence() -> None:
    assert added([]) is None
    assert added([Unit(name="job.service")]) is None


REQUIRES = Unit(name="job.service", requires=frozenset({"a.mount"}))
QUEUED = Unit(name="job.service", is_queued=True)
DAMAGE = [Malformed(1, "x", "not an entry")]


@pytest.mark.parametrize(
    ("units", "records", "hindrance", "verdict"),
    [
        pytest.param([], {}, Hindrance.UNKNOWN, Verdict.FAILED, id="no record"),
        pytest.param([], {"job": DAMAGE}, Hindrance.DAMAGE, Verdict.FAILED, id="damage"),
        pytest.param(
            [Unit(name="job.service", load_state="not-found")],
            {},
            Hindrance.ABSENT,
            Verdict.FAILED,
            id="absent",
        ),
        pytest.param(
            [REQUIRES, Unit(name="a.mount", is_failed=True)],
            {},
            Hindrance.DEPENDENCY,
            Verdict.FAILED,
            id="dependency",
        ),
        pytest.param(
            [Unit(name="job.service", has_unmet_condition=True)],
            {},
            Hindrance.CONDITION,
            Verdict.FAILED,
            id="condition",
        ),
        pytest.param(
            [Unit(name="new.service", aliases=frozenset({"job.service"}), has_unmet_assertion=True)],
            {},
            Hindrance.ASSERTION,
            Verdict.FAILED,
            id="assertion, of a unit by another name",
        ),
        pytest.param([QUEUED], {}, Hindrance.QUEUED, Verdict.RUNNING, id="queued"),
        pytest.param([], {"first": running()}, Hindrance.UNREACHED, Verdict.RUNNING, id="not reached"),
        pytest.param([], {"first": succeeded()}, Hindrance.UNKNOWN, Verdict.FAILED, id="it was its turn"),
        pytest.param([], {"first": failed_run()}, Hindrance.UNREACHED, Verdict.FAILED, id="the one before"),
    ],
)
def test_unstarted_service_is_shown_with_its_blocker(
    units: list[Unit], records: dict[str, Any], hindrance: Hindrance, verdict: Verdict
) -> None:
    expected = ("first", "job") if "first" in records else ("job",)
    found = require(added(units, *expected, other=succeeded(), **records))
    (missing,) = found.not_started
    assert (missing.service, missing.hindrance, found.verdict) == ("job", hindrance, verdict)


def test_later_services_wait_for_an_unfinished_one() -> None:
    failed = Unit(name="b.service", is_failed=True)
    expected = ("a", "b", "c", "d", "c")
    for records, units, by in (
        ({"a": succeeded()}, [failed], {"c": "b", "d": "b"}),
        ({"a": failed_run()}, [failed], {"c": "a", "d": "a"}),
        ({"a": succeeded(), "b": succeeded()}, [], {"c": None, "d": "c"}),
        ({"a": succeeded(), "b": running(), "c": failed_run()}, [], {"d": "b"}),
        ({"b": succeeded()}, [], {"a": None, "c": "a", "d": "a"}),
    ):
        found = require(added(units, *expected, **records))  # type: ignore[arg-type]
        assert {one.service: one.by for one in found.not_started} == by


@pytest.mark.parametrize(
    ("unit", "seen", "waited"),
    [
        (Unit(name="job.service", load_state="not-found"), False, True),
        (Unit(name="job.service", has_unmet_condition=True), False, False),
        (Unit(name="job.service", is_queued=True), True, True),
        (Unit(name="job.service"), False, True),
    ],
)
def test_only_unblocked_services_may_still_start(unit: Unit, seen: bool, waited: bool) -> None:
    for is_waiting, is_pending in ((False, seen), (True, waited)):
        (missing,) = require(added([unit], "job", is_waiting=is_waiting, other=succeeded())).not_started
        assert missing.is_pending is is_pending


def test_failed_units_have_causes_earliest_first() -> None:
    asked: list[TroubleFacts] = []
    units = [
        Unit(name="b.service", is_failed=True, since=START, facts=Facts(exit_code=3)),
        Unit(name="a.mount", is_failed=True),
        Unit(name="c.service", is_failed=True, since=START - timedelta(seconds=1)),
        Unit(name="d.service", is_failed=False),
    ]
    host = history(b=succeeded())
    cause = KnownCause(name="x", says="x")

    def explain(trouble: TroubleFacts) -> KnownCause:
        asked.append(trouble)
        return cause

    found = require(add_units(diagnose(host), host, units, explain=explain))
    assert [(one.unit.name, one.recorded, one.cause) for one in found.failed_units] == [
        ("a.mount", None, cause),
        ("c.service", None, cause),
        ("b.service", Outcome.SUCCESS, cause),
    ]
    assert [(one.service, sorted(one.kinds), one.facts.exit_code) for one in asked] == [
        ("a.mount", ["failed"], None),
        ("c", ["failed"], None),
        ("b", ["ended-well", "failed"], 3),
    ]


def test_systemd_explains_only_unrecorded_failures_of_latest_boot() -> None:
    unit = Unit(name="job.service", is_failed=True, facts=Facts(exit_code=6), command="ExecStart=/bin/a")
    silent = {"result": Result.FAILURE, "exit_code": None, "error_line": None}
    later = {"boot_id": "c2" * 16}
    cases: list[tuple[dict[str, Any], dict[str, Any], str | None]] = [
        ({}, {}, "ExecStart=/bin/a"),
        ({"exit_code": 2}, {}, None),
        ({"signal": "KILL"}, {}, None),
        ({"error_message": "no"}, {}, None),
        ({}, {"other": [entry(at=99, **later), entry(Phase.SERVICE_END, 100, **later)]}, None),
    ]
    for more, records, command in cases:
        job = [entry(), entry(Phase.SERVICE_END, 1, **(silent | more))]
        trouble = require(require(added([unit], job=job, **records)).root)
        assert (trouble.facts.command, trouble.facts.exit_code) == (
            command,
            6 if command else more.get("exit_code"),
        )


def test_running_service_without_record_has_started() -> None:
    found = require(added([Unit(name="job.service", has_started=True)], "job", other=succeeded()))
    assert (found.verdict, found.not_started) == (Verdict.SUCCEEDED, ())


def test_host_with_unknown_units_is_not_called_healthy() -> None:
    found = require(added(None, job=succeeded()))
    assert verdict_sentence(found) == (
        "succeeded: no record tells of a failure; systemd does not say which units failed"
    )
    assert analysis_document(found, "x").units_unknown


def test_numbers_that_systemd_has_not_are_none() -> None:
    many = "9" * 5000
    (unit,) = read(
        properties(
            "a.service",
            FAILED,
            "Result=exit-code",
            f"ExecStart={ended('/bin/a', 'exited', many)}",
            f"InactiveExitTimestampMonotonic={many}",
            f"StateChangeTimestampMonotonic={many}",
        )
    )
    assert (unit.facts, unit.has_started, unit.since) == (Facts(service_result="exit-code"), False, None)
