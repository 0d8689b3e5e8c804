"""When a host is installed anew, and when it only tries again."""

import pytest
from sqlalchemy import select

from service_record.collector.progress import Progress, advance, begins_build, first
from service_record.collector.steps import Status, Step, label_of
from service_record.collector.store.schema import builds, steps
from tests.collector.serving import Served


def step(name: str, status: str = "init", percentage: float | None = None, **fields: str) -> Step:
    return Step(label=label_of(name), name=name, status=Status(status), percentage=percentage, **fields)  # type: ignore[arg-type]


def build_of(*reported: Step) -> Progress:
    """A build of which these were reported, a second apart."""
    progress = first(reported[0], 1, 0.0)
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
def test_a_build_begins_when_the_host_is_installed_anew(
    before: list[Step], reported: Step, is_new: bool
) -> None:
    assert begins_build(build_of(*before), reported, now=10.0) is is_new


def test_the_first_report_of_a_host_begins_its_first_build() -> None:
    assert begins_build(None, step("Disk"), now=0.0)


def test_earlier_builds_of_a_host_stay(server: Served) -> None:
    host = server.client("host", "web1")
    for key in ("b1", "b2", "b3"):
        host.step("web1", "Disk setup", "init", build=key)
        host.step("web1", "Disk setup", "failed", build=key, logs=f"no disk in {key}")

    with server.collector.database.reading() as connection:
        kept = connection.execute(select(builds.c.number, builds.c.key).order_by(builds.c.number)).all()
        logs = connection.execute(select(steps.c.build, steps.c.logs).order_by(steps.c.id)).all()
    assert [tuple(row) for row in kept] == [(1, "b1"), (2, "b2"), (3, "b3")]
    assert [tuple(row) for row in logs if row.logs] == [(n, f"no disk in b{n}") for n in (1, 2, 3)]


def test_a_new_step_long_after_a_build_was_complete_is_of_the_next_one() -> None:
    assert begins_build(build_of(*COMPLETE), step("First login"), now=7 * 86_400.0)
