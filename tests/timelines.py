"""A host whose records contain everything that a timeline can show."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from service_record.record.entry import Entry, Phase
from tests.builders import entry, failed_run, write_lines

MESSAGE: Final = 'Error: no such image\nunable to pull \x1b[31mred\x1b[0m <b title="&amp;">\nExited'


def stage(name: str, start: float, end: float | None = None, **fields: object) -> list[Entry]:
    """Return the entries of a successful stage, or of an open one if `end` is None."""
    entries = [entry(Phase.STAGE_START, start, stage=name)]
    return entries if end is None else [*entries, entry(Phase.STAGE_END, end, stage=name, **fields)]


def assign_run(number: int, entries: Iterable[Entry]) -> list[Entry]:
    """Return the entries with the PID and invocation id of run `number`."""
    return [replace(one, pid=number, invocation_id=f"{number:032x}") for one in entries]


def _bootkube(number: int, at: float) -> list[Entry]:
    failure = failed_run(
        "cvo-bootstrap", at + 20, stack=("12 main /usr/local/bin/job.sh",), error_message=MESSAGE
    )
    return assign_run(number, [entry(at=at), *stage("api-bootstrap", at + 1, at + 20), *failure[1:]])


def host() -> Mapping[str, list[Entry]]:
    """Return services that succeed with nested stages, fail repeatedly, were interrupted, and still run."""
    wait_online = [
        entry(Phase.PRE_COMMAND_START, 12, pre_command="wait-online"),
        entry(Phase.PRE_COMMAND_END, 14, pre_command="wait-online"),
    ]
    configure = [
        entry(at=1),
        *stage("pull", 1.2, 9),
        entry(Phase.STAGE_START, 9, stage="configure"),
        *stage("write", 10, 11.5),
        entry(Phase.STAGE_END, 12, stage="configure"),
        entry(Phase.SERVICE_END, 12),
    ]
    again = [entry(at=80), entry(Phase.SERVICE_END, 150)]
    return {
        "approve-csr": assign_run(9, [entry(at=30), *stage("wait-for-api", 35)]),
        "bootkube": [
            *assign_run(100, wait_online),
            *_bootkube(100, 20),
            *_bootkube(101, 80),
            *_bootkube(102, 140),
        ],
        "crio-configure": configure,
        "kubelet": [*assign_run(10, [entry(at=5), *stage("start", 6)]), *assign_run(11, again)],
    }


def write_host(directory: Path) -> Path:
    for service, entries in host().items():
        write_lines(directory / f"{service}.json", *entries)
    return directory
