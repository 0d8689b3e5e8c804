"""What to run next on the host, to see more of a trouble. Pure."""

import shlex
from collections.abc import Iterator

from service_record.diagnosis.findings import LoopOf, Trouble, Verdict


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
