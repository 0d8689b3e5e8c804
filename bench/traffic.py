"""`python -m bench.traffic`: what one failing host costs its assisted-service in a day, as one table.

Simulated by the reporter's own rules, with default settings and bundles as large as they may be. The table
goes into docs/project/boot-reporter.md.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.simulated import DAY, FIRST_ROUND, MINUTE, Answering, failing, live, settings
from bench.table import aligned, replace_between
from service_record.reporter.host_state import HostEvidence
from service_record.reporter.settings import Settings

PAGE = Path(__file__).resolve().parents[1] / "docs" / "project" / "boot-reporter.md"
_MIB = 1 << 20
_HEAD = ("a failing host, 24 hours", "uploads", "MiB", "PUT", "GET", "withdrawn reporter: uploads")
_WITHDRAWN_EVERY = 5 * MINUTE
_WITHDRAWN_LIMIT = 60 * MINUTE


@dataclass(frozen=True, slots=True)
class Case:
    """A host that fails, and how."""

    what: str
    boots: Sequence[float]
    evidence: Callable[[int, float], HostEvidence]
    knows_host_boot: bool = False


def _anew(boot: int, uptime: float) -> HostEvidence:
    return failing(boot, uptime, f"{boot} {uptime}")


_LOOP = [20 * MINUTE] * 72
CASES = (
    Case("reboots every 20 minutes, the same failure each time", _LOOP, failing),
    Case("reboots every 20 minutes, another failure in each round", _LOOP, _anew),
    Case("the same, at a service with a slot for boots", _LOOP, _anew, knows_host_boot=True),
    Case("hangs in its first boot, one failure", [DAY + MINUTE], failing),
    Case("hangs in its first boot, another failure in each round", [DAY + MINUTE], _anew),
    Case("hangs in its second boot, another failure in each round", [20 * MINUTE, DAY], _anew),
)


def spent(case: Case, with_settings: Settings | None = None) -> Answering:
    """Return the service after that host's day."""
    service = Answering(knows_host_boot=case.knows_host_boot)
    chosen = with_settings or settings()
    live(chosen, case.boots, service, case.evidence, chosen.upload_bytes)
    return service


def withdrawn(boots: Sequence[float]) -> int:
    """Uploads of upstream's withdrawn reporter: every 5 minutes for an hour, in every boot."""
    rounds = (int(min(boot - FIRST_ROUND, _WITHDRAWN_LIMIT - 1) // _WITHDRAWN_EVERY) + 1 for boot in boots)
    return sum(rounds)


def table() -> str:
    rows = [_HEAD]
    for case in CASES:
        service = spent(case)
        calls = service.calls
        rows.append((
            case.what,
            str(len(service.uploads)),
            f"{service.bytes / _MIB:.1f}",
            str(calls["PUT"]),
            str(calls["GET"]),
            f"{withdrawn(case.boots)}, of any size",
        ))  # fmt: skip
    return aligned(rows)


def main() -> None:
    text = table()
    print(text)
    replace_between(PAGE, "traffic", text)


if __name__ == "__main__":
    main()
