"""What to run next on the host, to see more of a trouble. Pure."""

import shlex
from collections.abc import Iterator

from service_record.diagnosis.findings import (
    Diagnosis,
    FailedUnit,
    Hindrance,
    LoopOf,
    NotStarted,
    Trouble,
    Verdict,
)


def next_commands(trouble: Trouble) -> tuple[str, ...]:
    """Commands that look, those of the known cause first; safe to paste, whatever a service is called."""
    known = trouble.cause.commands if trouble.cause else ()
    return tuple(dict.fromkeys((*known, *_always(trouble))))


def _always(trouble: Trouble) -> Iterator[str]:
    run = trouble.run
    unit = shlex.quote(f"{trouble.service}.service")
    if trouble.kind is Verdict.STUCK or (trouble.loop and trouble.loop.of is LoopOf.STAGE):
        yield f"systemctl status {unit}"
    if run.invocation_id is not None:
        yield f"journalctl _SYSTEMD_INVOCATION_ID={shlex.quote(run.invocation_id)}"
    elif run.boot_id is not None:
        yield f"journalctl --boot={shlex.quote(run.boot_id)} --unit={unit}"
    else:
        yield f"journalctl --unit={unit}"


def unseen_commands(diagnosis: Diagnosis) -> tuple[str, ...]:
    """Return commands that look into what no record tells: the failed units, and what never started."""
    commands: list[str] = []
    for one in diagnosis.not_started:
        commands += commands_for_missing(one)
    for failed in diagnosis.failed_units:
        commands += commands_for_unit(failed)
    return tuple(dict.fromkeys(commands))


def commands_for_unit(failed: FailedUnit) -> tuple[str, ...]:
    unit = shlex.quote(failed.unit.name)
    causes = failed.cause.commands if failed.cause else ()
    return (*causes, f"systemctl status {unit}", f"journalctl --boot --unit={unit}")


def commands_for_missing(one: NotStarted) -> tuple[str, ...]:
    unit = shlex.quote(f"{one.service}.service")
    match one.hindrance:
        case Hindrance.ABSENT:
            return (f"systemctl list-unit-files {shlex.quote(f'{one.service}*')}",)
        case Hindrance.DAMAGE:
            return ("service-record validate",)
        case Hindrance.QUEUED | Hindrance.UNREACHED:
            return ("systemctl list-jobs",)
        case _:
            return (f"systemctl status {unit}", f"journalctl --boot --unit={unit}")
