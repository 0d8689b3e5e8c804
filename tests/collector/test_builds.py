"""Which reports begin a new build, and which belong to a retry."""

from typing import Any

import msgspec
import pytest
from sqlalchemy import select

from service_record.collector.domain.access import Grant, TokenKind
from service_record.collector.domain.progress import (
    Progress,
    StepFinished,
    advance,
    begin_progress,
    begins_build,
    group_rounds,
    list_finished_steps,
)
from service_record.collector.domain.steps import ReportedStep, StepStatus, make_label
from service_record.collector.store.reporting import Accepted, Report, record_steps
from service_record.collector.store.schema import builds, steps
from tests.collector.serving import Client, RunningCollector


def step(name: str, status: str = "init", percentage: float | None = None, **fields: str) -> ReportedStep:
    return ReportedStep(
        label=make_label(name),
        name=name,
        status=StepStatus(status),
        percentage=percentage,
        **fields,  # type: ignore[arg-type]
    )


def build_of(*reported: ReportedStep) -> Progress:
    """Return the progress of a build after these reports, one second apart."""
    progress = begin_progress(reported[0], 1, 0.0)
    for at, each in enumerate(reported):
        progress = advance(progress, each, float(at))
    return progress


COMPLETE = (step("Disk"), step("Callback", "done", 100))


@pytest.mark.parametrize(
    ("before", "reported", "is_new"),
    [
        pytest.param([step("Disk")], step("Packages"), False, id="the next step"),
        pytest.param([step("Disk")], step("Disk"), False, id="the same step again: a host in a loop"),
        pytest.param(
            [step("Disk"), step("Packages", "failed")],
            step("Disk"),
            False,
            id="from the start after a failure",
        ),
        pytest.param(
            [step("Disk", build="b1")], step("Packages", build="b1"), False, id="the build of before"
        ),
        pytest.param([step("Disk", build="b1")], step("Disk", build="b2"), True, id="another build"),
        pytest.param([step("Disk", build="b1")], step("Packages"), False, id="a step that names no build"),
        pytest.param(
            [step("Disk")], step("Packages", build="b1"), False, id="a build that gets its name late"
        ),
        pytest.param(
            [step("Disk", action="install")], step("Disk", action="rebuild"), True, id="another action"
        ),
        pytest.param([step("Disk", action="install")], step("Disk"), False, id="a step that names no action"),
        pytest.param(
            [step("Disk", action="install", build="b1")],
            step("Disk", action="first boot", build="b1"),
            False,
            id="another action of the same build",
        ),
        pytest.param(COMPLETE, step("Disk"), True, id="a step again after the build was complete"),
        pytest.param(COMPLETE, step("First login"), False, id="a new step after the build was complete"),
        pytest.param(COMPLETE, step("Callback", "done", 100), False, id="the last step twice"),
        pytest.param(COMPLETE, step("Ready", "done", 100), False, id="complete in other words"),
        pytest.param(
            [*COMPLETE[:1], step("Callback", "done", 100, build="b1")],
            step("First login", "done", build="b1"),
            False,
            id="a late step of a complete build",
        ),
        pytest.param(
            [step("Disk", "init", 100)], step("Packages"), False, id="100 % of a step that has begun"
        ),
    ],
)
def test_new_build_begins_with_new_installation(
    before: list[ReportedStep], reported: ReportedStep, is_new: bool
) -> None:
    assert begins_build(build_of(*before), reported, now=10.0) is is_new


def test_first_report_begins_first_build() -> None:
    assert begins_build(None, step("Disk"), now=0.0)


def test_earlier_builds_are_kept(server: RunningCollector) -> None:
    host = server.client("host", "web1")
    for key in ("b1", "b2", "b3"):
        host.step("web1", "Disk setup", "init", build=key)
        host.step("web1", "Disk setup", "failed", build=key, logs=f"no disk in {key}")

    with server.collector.database.reading() as connection:
        kept = connection.execute(select(builds.c.number, builds.c.key).order_by(builds.c.number)).all()
        logs = connection.execute(select(steps.c.build, steps.c.logs).order_by(steps.c.id)).all()
    assert [tuple(row) for row in kept] == [(1, "b1"), (2, "b2"), (3, "b3")]
    assert [tuple(row) for row in logs if row.logs] == [(n, f"no disk in b{n}") for n in (1, 2, 3)]


def test_new_step_long_after_completion_begins_a_build() -> None:
    built = build_of(*COMPLETE)
    assert built.ended_at == 1.0
    assert not begins_build(built, step("First login"), now=3601.0)
    assert begins_build(built, step("First login"), now=3601.5)


def make_known_host(server: RunningCollector) -> Grant:
    """Create web1. Return the rights of a token for it."""
    assert server.client("admin").ask("PUT", "/api/v1/hosts/web1").status == 201
    return Grant(0, TokenKind.HOST, "web1")


def builds_of(server: RunningCollector) -> list[tuple[int, str]]:
    with server.collector.database.reading() as connection:
        rows = connection.execute(select(builds.c.number, builds.c.key).order_by(builds.c.number))
        return [(row.number, row.key) for row in rows]


def read_builds(reader: Client, host: str) -> list[object]:
    """Return the summary without its revision, the steps, and the time of the last report of a host."""
    document = reader.get(f"/api/v1/hosts/{host}").json
    del document["summary"]["revision"]
    return [document[what] for what in ("summary", "steps", "last_seen")]


def test_late_report_changes_only_its_earlier_build(
    server: RunningCollector,
) -> None:
    host, reader = server.client("host", "web1"), server.client("reader")
    host.step("web1", "Disk setup", "init", build="b1", percentage=10)
    host.step("web1", "Disk setup", "init", build="b2", percentage=20)
    server.settle()
    before = read_builds(reader, "web1")

    late = host.step("web1", "Packages", "failed", build="b1", percentage=100, logs="no network")
    server.settle()

    assert late.json["build"] == 1
    assert builds_of(server) == [(1, "b1"), (2, "b2")]
    assert read_builds(reader, "web1") == before
    earlier = reader.get("/api/v1/hosts/web1/builds/1").json
    late_step = [step for group in earlier["steps"] for step in group["latest"]][-1]
    assert (late_step["name"], late_step["notes"]) == ("Packages", "it came when build 2 had begun")
    assert host.step("web1", "Packages", "init", build="b2").json["build"] == 2


def test_reports_of_two_builds_in_one_batch_are_separated(server: RunningCollector) -> None:
    grant = make_known_host(server)
    names = ["b1", "", "b2", "b1", "b3", "b2", "b3"]
    reports = [
        Report("web1", step(f"Step {number}", "done", build=name), float(number), grant)
        for number, name in enumerate(names)
    ]

    with server.collector.database.changing() as connection:
        taken = record_steps(connection, reports)
        ends = connection.execute(select(builds.c.updated_at).order_by(builds.c.number)).scalars().all()

    assert [one.build for one in taken if isinstance(one, Accepted)] == [1, 1, 2, 1, 3, 2, 3]
    assert builds_of(server) == [(1, "b1"), (2, "b2"), (3, "b3")]
    assert ends == [3.0, 5.0, 6.0]


def test_build_replaced_in_one_batch_has_ended(server: RunningCollector) -> None:
    grant = make_known_host(server)
    reports = [
        Report("web1", step("Disk", "init"), 1.0, grant),
        Report("web1", step("Callback", "done", 100, build="b1"), 2.0, grant),
        Report("web1", step("Disk", "init", build="b2"), 3.0, grant),
    ]

    with server.collector.database.changing() as connection:
        record_steps(connection, reports)
        ended = connection.execute(select(builds.c.ended_at).order_by(builds.c.number)).scalars().all()

    assert builds_of(server) == [(1, "b1"), (2, "b2")]
    assert ended == [2.0, None]


@pytest.mark.parametrize(
    ("reported", "at", "build"),
    [
        pytest.param(step("Packages", "done", action="install"), 60, 1, id="what it did not have yet"),
        pytest.param(step("Disk", action="install"), 60, 3, id="what it had: a host that starts over"),
        pytest.param(step("Packages", "done", action="install"), 3700, 3, id="long after it"),
        pytest.param(step("Disk", action="wipe"), 60, 3, id="an action that is new"),
    ],
)
@pytest.mark.parametrize("is_together", [True, False], ids=["together", "one by one"])
def test_repeated_action_is_late_or_begins_a_build(
    server: RunningCollector, reported: ReportedStep, at: float, build: int, *, is_together: bool
) -> None:
    grant = make_known_host(server)
    reports = [
        Report("web1", step("Disk", action="install"), 0.0, grant),
        Report("web1", step("Disk", action="rebuild"), 10.0, grant),
        Report("web1", reported, float(at), grant),
    ]

    parts = [reports] if is_together else [[report] for report in reports]
    taken: list[object] = []
    for part in parts:
        with server.collector.database.changing() as connection:
            taken += record_steps(connection, part)

    assert isinstance(taken[-1], Accepted)
    assert taken[-1].build == build


def test_administrator_may_reuse_a_build_name(server: RunningCollector) -> None:
    host, admin = server.client("host", "web1"), server.client("admin")
    for name in ("b1", "b2"):
        host.step("web1", "Disk setup", "init", build=name)

    admin.post("/api/v1/hosts/web1/builds", build="b1")

    assert host.step("web1", "Disk setup", "init", build="b1").json["build"] == 3
    assert host.step("web1", "Disk setup", "done", build="b2").json["build"] == 2


def test_late_report_does_not_name_the_latest_build(server: RunningCollector) -> None:
    host = server.client("host", "web1")
    host.step("web1", "Disk setup", "init", build="b1")
    host.step("web1", "Callback", "done", build="b1", percentage=100)
    assert host.step("web1", "Disk setup", "init").json["build"] == 2

    assert host.step("web1", "Packages", "done", build="b1").json["build"] == 1

    assert builds_of(server) == [(1, "b1"), (2, "")]
    assert host.step("web1", "Packages", "init", build="b2").json["build"] == 2
    assert builds_of(server) == [(1, "b1"), (2, "b2")]


@pytest.mark.parametrize("begun", [{"action": "rebuild"}, {}], ids=["with an action", "without a word"])
def test_unnamed_build_takes_a_used_name(server: RunningCollector, begun: dict[str, str]) -> None:
    host, admin = server.client("host", "web1"), server.client("admin")
    host.step("web1", "Disk setup", "init", build="b1", action="install")

    admin.post("/api/v1/hosts/web1/builds", data=begun)

    assert host.step("web1", "Disk setup", "init", build="b1").json["build"] == 2


def test_first_report_belongs_to_build_begun_by_administrator(server: RunningCollector) -> None:
    host, admin = server.client("host", "web1"), server.client("admin")
    host.step("web1", "Disk setup", "init", action="install")

    admin.post("/api/v1/hosts/web1/builds", action="rebuild")

    assert host.step("web1", "Packages", "init", action="install").json["build"] > 1


def verdicts_of(server: RunningCollector) -> list[tuple[int, str, str]]:
    """Return number, verdict and reason of each build."""
    with server.collector.database.reading() as connection:
        rows = connection.execute(select(builds).order_by(builds.c.number))
        return [(row.number, row.verdict, row.reason) for row in rows]


def test_replaced_unjudged_build_is_failed_or_abandoned(server: RunningCollector) -> None:
    grant, now = make_known_host(server), server.collector.now()
    reports = [
        Report("web1", each, now, grant)
        for each in (
            step("Disk", "failed", build="b1", logs="no disk"),
            step("Disk", build="b2"),
            step("Disk", "failed", build="b3", logs="no disk"),
            step("Network", build="b3"),
            step("Disk", "done", 100, build="b4"),
            step("Disk", build="b5"),
        )
    ]

    server.collector.writer.change(lambda connection: record_steps(connection, reports)).result()
    server.settle()

    assert verdicts_of(server)[:4] == [
        (1, "failed", "Disk failed: no disk."),
        (2, "abandoned", 'Another build began after "Disk" started.'),
        (3, "failed", "Disk failed: no disk; the host continued, and another build began."),
        (4, "done", 'Finished with "Disk".'),
    ]
    assert verdicts_of(server)[4][:2] == (5, "progressing")
    listed = server.client("reader").get("/api/v1/hosts", earlier="true").json["earlier"]["web1"]
    assert [(each["number"], each["verdict"]) for each in listed] == [
        (4, "done"),
        (3, "failed"),
        (2, "abandoned"),
        (1, "failed"),
    ]


def test_build_replaced_by_administrator_keeps_its_verdict(server: RunningCollector) -> None:
    host, admin = server.client("host", "web1"), server.client("admin")
    for boot in "abc":
        host.step("web1", "Disk", "init", boot=boot)
    server.settle()
    for _ in range(2):
        assert admin.post("/api/v1/hosts/web1/builds", {}).status == 201
    server.settle()

    assert verdicts_of(server)[:2] == [
        (1, "looping", "Rebooted 3 times during Disk."),
        (2, "abandoned", "Another build began before a step was reported."),
    ]
    page = server.client("reader").get("/api/v1/hosts/web1/builds/2").json
    assert [each["verdict"] for each in page["builds"]] == ["progressing", "abandoned", "looping"]


_SIGNS = {"#": "build", "~": "action", "@": "boot_id", "!": "logs"}


def steps_of(text: str) -> list[ReportedStep]:
    """Return the steps of a text such as `Disk init 10 @boot | Disk failed !logs`."""
    reported = []
    for part in text.split(" | "):
        name, status, *rest = part.split()
        fields = {_SIGNS[each[0]]: each[1:] for each in rest if each[0] in _SIGNS}
        percentage = next((float(each) for each in rest if each[0] not in _SIGNS), None)
        reported.append(step(name, status, percentage, **fields))
    return reported


@pytest.mark.parametrize(
    ("reported", "progress"),
    [
        (
            "Disk init 10 #b1 ~install @x | Disk reported",
            {"key": "b1", "action": "install", "boot_id": "x", "percentage": 10.0, "farthest": 10.0}
            | {"fresh_at": 1.0, "fresh_name": "Disk", "open": {"disk": 0.0}, "boots": ("x",)}
            | {"seen": {"disk:init": 1, "disk:reported": 1}},
        ),
        (
            "Disk init 10 | Disk done 20",
            {"percentage": 20.0, "farthest": 20.0, "fresh_at": 1.0, "fresh_name": "Disk"}
            | {"seen": {"disk:init": 1, "disk:done": 1}},
        ),
        (
            "Disk init 9 | Net init | Disk init 9 | Disk init 8 | Disk init",
            {"percentage": 8.0, "farthest": 9.0, "fresh_at": 1.0, "fresh_name": "Net"}
            | {"open": {"disk": 4.0, "net": 1.0}, "seen": {"disk:init": 4, "net:init": 1}}
            | {"repeats": {"disk": 3}, "again_name": "Disk"},
        ),
        (
            "Disk reported | Disk reported | Net reported | Disk reported | Disk reported",
            {"fresh_at": 2.0, "fresh_name": "Net", "seen": {"disk:reported": 4, "net:reported": 1}}
            | {"repeats": {"disk": 1}, "again_name": "Disk"},
        ),
        (
            "Disk failed !a | Disk failed !b",
            {"fresh_at": 0.0, "fresh_name": "Disk", "seen": {"disk:failed": 2}}
            | {"repeats": {"disk": 1}, "again_name": "Disk"}
            | {"failure": {"label": "disk", "name": "Disk", "at": 1.0, "logs": "b", "count": 2}},
        ),
        (
            "Disk failed | Net done | Net failed | Disk done | Net init",
            {"fresh_at": 4.0, "fresh_name": "Net", "open": {"net": 4.0}}
            | {"seen": {"disk:failed": 1, "net:done": 1, "net:failed": 1, "disk:done": 1, "net:init": 1}}
            | {"failure": {"label": "net", "name": "Net", "at": 2.0}},
        ),
        (
            "Disk done 100 | Net init 50 | Net done 100",
            {"percentage": 100.0, "farthest": 100.0, "fresh_at": 2.0, "fresh_name": "Net", "ended_at": 0.0}
            | {"seen": {"disk:done": 1, "net:init": 1, "net:done": 1}},
        ),
        (
            "Disk init @x | Disk init @y | Disk init @x | Disk init",
            {
                "boot_id": "x",
                "fresh_at": 0.0,
                "fresh_name": "Disk",
                "open": {"disk": 3.0},
                "boots": ("x", "y"),
            }
            | {"seen": {"disk:init": 4}, "repeats": {"disk": 3}, "again_name": "Disk"},
        ),
        (
            "Disk reported @x | Disk reported @x | Disk reported @y | Disk reported",
            {"boot_id": "y", "fresh_at": 0.0, "fresh_name": "Disk", "boots": ("x", "y")}
            | {"seen": {"disk:reported": 4}, "repeats": {"disk": 1}, "again_name": "Disk"},
        ),
        (
            "Disk init | Disk done | Disk init | Disk done | Disk done",
            {"fresh_at": 1.0, "fresh_name": "Disk", "seen": {"disk:init": 2, "disk:done": 3}}
            | {"repeats": {"disk": 1}, "again_name": "Disk"},
        ),
        (
            "A init @x | B init @x | A init @y | B init @z | A init @z",
            {"boot_id": "z", "fresh_at": 1.0, "fresh_name": "B", "open": {"b": 3.0, "a": 4.0}}
            | {"seen": {"a:init": 3, "b:init": 2}, "boots": ("x", "y", "z")}
            | {"repeats": {"a": 2, "b": 1}, "again_name": "A"},
        ),
        (
            "A init @x | A init @y | B init",
            {"boot_id": "y", "fresh_at": 2.0, "fresh_name": "B", "open": {"a": 1.0, "b": 2.0}}
            | {"seen": {"a:init": 2, "b:init": 1}, "again_name": "A", "boots": ("y",)},
        ),
    ],
)
def test_progress_follows_from_steps(reported: str, progress: dict[str, Any]) -> None:
    steps_ = steps_of(reported)
    last = steps_[-1]
    built = msgspec.to_builtins(build_of(*steps_))
    latest = {"label": last.label, "name": last.name, "updated_at": len(steps_) - 1.0}
    status = {} if last.status is StepStatus.REPORTED else {"status": last.status}
    assert built == {"number": 1, "started_at": 0.0, **latest, **status, **progress}


def test_progress_is_limited_and_times_never_decrease() -> None:
    built = build_of(*(step(f"S{number}", boot_id=f"b{number}") for number in range(257)))
    assert (len(built.open), len(built.seen), built.boots) == (256, 256, ("b256",))
    again = built
    for number in range(40):
        again = advance(again, step("S0", boot_id=f"c{number}"), 1.0)
    assert again.boots == tuple(f"c{number}" for number in range(8, 40))
    assert (again.updated_at, again.fresh_at, again.again, built.again) == (256.0, 256.0, 40, 0)
    assert advance(built, step("S0", "failed"), 1.0).fresh_at == 256.0
    done = advance(built, step("S0", "done"), 300.0, is_last=True)
    assert (done.ended_at, done.percentage, len(done.open)) == (300.0, 100.0, 255)
    assert advance(built, step("S0", "init"), 300.0, is_last=True).ended_at is None


@pytest.mark.parametrize(
    ("before", "reported", "finished"),
    [
        ("Disk init", "Disk done !l", [StepFinished("disk", StepStatus.DONE, 5.0, "l")]),
        ("Disk init", "Disk failed !l", [StepFinished("disk", StepStatus.FAILED, 5.0, "l")]),
        ("Disk init", "Net done", [StepFinished("net", StepStatus.DONE, None, "")]),
        ("Disk init", "Net init", []),
        ("Disk reported", "Net init", [StepFinished("disk", StepStatus.REPORTED, 5.0, "")]),
        ("Disk reported", "Disk reported", []),
        (
            "Disk reported",
            "Net failed",
            [
                StepFinished("disk", StepStatus.REPORTED, 5.0, ""),
                StepFinished("net", StepStatus.FAILED, None, ""),
            ],
        ),
    ],
)
def test_report_finishes_steps(before: str, reported: str, finished: list[StepFinished]) -> None:
    progress, (after,) = build_of(*steps_of(before)), steps_of(reported)
    assert list_finished_steps(progress, after, 5.0) == tuple(finished)
    assert [each.seconds for each in list_finished_steps(progress, after, 0.0)] == [
        None if each.seconds is None else 0.0 for each in finished
    ]
    assert all(each.seconds is None for each in list_finished_steps(progress, after, -1.0))
    built = build_of(*steps_of(f"A init | {before}"))
    later = [each.seconds for each in list_finished_steps(built, after, 5.0)]
    assert later == [None if each.seconds is None else 4.0 for each in finished]
    assert list_finished_steps(begin_progress(after, 1, 0.0), steps_of("Net init")[0], 5.0) == ()


@pytest.mark.parametrize(
    ("reports", "rounds"),
    [
        ("", ""),
        ("abc", "a1 b1 c1"),
        ("aab", "a2 b1"),
        ("aAa", "a3"),
        ("aaaaa", "a5"),
        ("xababab", "x1 ab3"),
        ("abABc", "ab2 c1"),
        ("abcabcab", "abc2 a1 b1"),
        ("aabaab", "a2 b1 a2 b1"),
        ("abcdefghijklmnopqrstuvwxyz012345" * 2, "abcdefghijklmnopqrstuvwxyz0123452"),
        ("abcdefghijklmnopqrstuvwxyz0123456" * 2, " ".join("abcdefghijklmnopqrstuvwxyz0123456" * 2) + " "),
    ],
)
def test_repeated_rounds_are_listed_once(reports: str, rounds: str) -> None:
    found = group_rounds(reports, str.lower)
    if rounds.endswith(" "):
        rounds = rounds.replace(" ", "1 ").strip()
    assert " ".join(f"{''.join(each.first)}{each.count}" for each in found) == rounds
    assert "".join("".join(each.reports) for each in found) == reports
    assert [len(each.between) for each in found] == [
        max(each.count - 2, 0) * len(each.first) for each in found
    ]
