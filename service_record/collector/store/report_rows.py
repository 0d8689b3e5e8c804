"""What reports change in the tables, as rows: steps, durations, builds, and the hosts that they are of."""

from typing import Any, Final

import msgspec
from sqlalchemy import bindparam, update

from service_record.collector.domain.progress import Progress, StepFinished
from service_record.collector.domain.steps import ReportedStep
from service_record.collector.store.schema import builds, hosts
from service_record.diagnosis.failures import signature

_LONGEST_MESSAGE: Final = 500
"""Characters of what a fleet's table says of a host."""


def new_host(name: str, group: str, release: str, now: float) -> dict[str, Any]:
    """A host that reports for the first time."""
    return {"name": name, "group": group, "release": release, "first_seen": now, "last_seen": now}


def step_row(
    number: int, host_id: int, build: int, step: ReportedStep, now: float, *, notes: tuple[str, ...]
) -> dict[str, Any]:
    """A report as it came; `notes` are what is to be noted of it besides its own."""
    return {
        "id": number,
        "host_id": host_id,
        "build": build,
        "label": step.label,
        "name": step.name,
        "status": step.status.value,
        "priority": step.priority,
        "percentage": step.percentage,
        "action": step.action,
        "logs": step.logs,
        "notes": "\n".join((*step.notes, *notes)),
        "boot_id": step.boot_id,
        "host_time": step.time,
        "received_at": now,
        "is_known": step.is_known,
    }


def duration_row(host: Any, build: int, release: str, finish: StepFinished, now: float) -> dict[str, Any]:
    """What a report ended, for what is learnt; `host` is a row."""
    return {
        "host_id": host.id,
        "build": build,
        "label": finish.label,
        "group": host.group,
        "release": release or host.release,
        "seconds": finish.seconds,
        "status": finish.status.value,
        "signature": signature(finish.logs) if finish.status == "failed" else "",
        "ended_at": now,
    }


def build_row(host_id: int, progress: Progress, release: str) -> dict[str, Any]:
    """A build that begins."""
    return {
        "host_id": host_id,
        "number": progress.number,
        "key": progress.key,
        "action": progress.action,
        "release": release,
        "started_at": progress.started_at,
        "updated_at": progress.started_at,
    }


def build_change(host_id: int, progress: Progress) -> dict[str, Any]:
    """For UPDATE_BUILD."""
    return {
        "of": host_id,
        "in": progress.number,
        "action": progress.action,
        "key": progress.key,
        "updated_at": progress.updated_at,
        "ended_at": progress.ended_at,
    }


def host_change(host: Any, progress: Progress, step: ReportedStep, now: float) -> dict[str, Any]:
    """For UPDATE_HOST; `host` is its row until now, and the step its latest."""
    said = step.name if not step.logs else f"{step.name}: {step.logs}"
    return {
        "of": host.id,
        "last_seen": max(now, host.last_seen),
        "release": step.release or host.release,
        "build": progress.number,
        "action": progress.action,
        "percentage": progress.percentage,
        "message": said[:_LONGEST_MESSAGE],
        "started_at": progress.started_at,
        "updated_at": progress.updated_at,
        "ended_at": progress.ended_at,
        "progress": msgspec.json.encode(progress),
    }


def _columns(*names: str) -> dict[str, Any]:
    return {name: bindparam(name) for name in names}


UPDATE_HOST: Final = (
    update(hosts)
    .where(hosts.c.id == bindparam("of"))
    .values(
        **_columns(
            "last_seen",
            "release",
            "build",
            "action",
            "percentage",
            "message",
            "started_at",
            "updated_at",
            "ended_at",
            "progress",
        ),
        due_at=0.0,  # judged again at once
        revision=hosts.c.revision + 1,
    )
)
UPDATE_BUILD: Final = (
    update(builds)
    .where(builds.c.host_id == bindparam("of"), builds.c.number == bindparam("in"))
    .values(**_columns("action", "key", "updated_at", "ended_at"))
)
UPDATE_EARLIER_BUILD: Final = (
    update(builds)
    .where(builds.c.host_id == bindparam("of"), builds.c.number == bindparam("in"))
    .values(updated_at=bindparam("updated_at"))
)
TELL_OF_HOST: Final = update(hosts).where(hosts.c.id == bindparam("of")).values(revision=hosts.c.revision + 1)
"""For who looks at it: something of it is new, although nothing of its latest build."""
