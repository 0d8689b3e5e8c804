"""Judge measured values: each check has a result with advice. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

_GIB: Final = 1 << 30
ETCD_SECONDS: Final = 0.010
"""The limit for the 99th percentile of fdatasync calls: OpenShift docs, "Recommended etcd practices"."""
LEAST_SAMPLES: Final = 200
"""The minimum number of calls for a meaningful 99th percentile."""
_KERNEL_SHARE: Final = 0.1
"""The fraction of the physical memory that the kernel may reserve, so that /proc/meminfo lacks it."""


class CheckState(StrEnum):
    """The result of a check."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_CHECKED = "not checked"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check, shown as one line."""

    check: str
    state: CheckState
    detail: str
    """The measured values, or the reason why nothing was measured."""
    advice: str = ""
    """The next steps; empty for a passed check."""


@dataclass(frozen=True, slots=True)
class Role:
    """The minimum requirements for a host of this role."""

    name: str
    cpus: int
    memory_bytes: int
    source: str
    needs_etcd_disk: bool
    needs_api_int: bool
    """True if a name server must have api-int. In other clusters, the hosts may resolve it themselves."""


_SINGLE_NODE_DOCS: Final = 'OpenShift docs, "Installing on a single node", minimum resource requirements'
_CLUSTER_DOCS: Final = 'OpenShift docs, "Installing on any platform", minimum resource requirements'
ROLES: Final = {
    role.name: role
    for role in (
        Role("single-node", 8, 16 * _GIB, _SINGLE_NODE_DOCS, needs_etcd_disk=True, needs_api_int=True),
        Role("control-plane", 4, 16 * _GIB, _CLUSTER_DOCS, needs_etcd_disk=True, needs_api_int=False),
        Role("worker", 2, 8 * _GIB, _CLUSTER_DOCS, needs_etcd_disk=False, needs_api_int=False),
    )
}


def not_checked(check: str, reason: str, advice: str = "") -> CheckResult:
    return CheckResult(check, CheckState.NOT_CHECKED, reason, advice)


def judge_name(
    check: str, name: str, answer: Sequence[str], problem: str | None, *, is_needed: bool
) -> CheckResult:
    """Judge the addresses of a name, or the problem that the name server reported."""
    if answer:
        return CheckResult(check, CheckState.PASSED, f"{name} is {', '.join(answer)}")
    if not is_needed:
        reason = (
            f"{name}: {problem}; needed only where the cluster answers for no name itself (platform none)"
        )
        return not_checked(check, reason)
    where = "the address of this node or of the load balancer"
    return CheckResult(
        check, CheckState.FAILED, f"{name}: {problem}", f"Add a DNS record for it with {where}."
    )


def judge_cpus(cpus: int, role: Role) -> CheckResult:
    """Judge the number of CPUs. Each hardware thread counts as one."""
    detail = f"{cpus} CPUs; a {role.name} host needs {role.cpus} ({role.source})"
    if cpus >= role.cpus:
        return CheckResult("cpu", CheckState.PASSED, detail)
    return CheckResult("cpu", CheckState.FAILED, detail, f"Give it {role.cpus} CPUs or more.")


def judge_memory(size: int, role: Role, *, is_physical: bool) -> CheckResult:
    """Judge the memory in bytes. `is_physical` is False if `size` lacks the memory reserved by the kernel."""
    need = role.memory_bytes
    detail = f"{size / _GIB:.1f} GiB; a {role.name} host needs {need / _GIB:.0f} GiB ({role.source})"
    if size >= need:
        return CheckResult("memory", CheckState.PASSED, detail)
    if not is_physical and size >= need * (1 - _KERNEL_SHARE):
        return not_checked("memory", f"{detail}; the kernel keeps a part, and tells only the rest")
    return CheckResult("memory", CheckState.FAILED, detail, f"Give it {need / _GIB:.0f} GiB or more.")


def judge_disk(directory: str, seconds: Sequence[float], role: Role) -> CheckResult:
    """Judge the durations of fdatasync calls. The limit of etcd applies to roles that run etcd."""
    if len(seconds) < LEAST_SAMPLES:
        reason = f"{directory}: only {len(seconds)} writes in the time given, too few for a 99th percentile"
        return not_checked("disk", reason, "Measure again when the disk is idle.")
    slowest = percentile(seconds, 0.99)
    detail = f"{directory}: 99 % of {len(seconds)} fdatasync calls took at most {slowest * 1000:.2f} ms"
    limit = f"{ETCD_SECONDS * 1000:.0f} ms"
    if slowest <= ETCD_SECONDS:
        return CheckResult("disk", CheckState.PASSED, f"{detail}; etcd needs {limit}")
    if not role.needs_etcd_disk:
        return CheckResult(
            "disk", CheckState.PASSED, f"{detail}; more than etcd's {limit}, and a worker runs no etcd"
        )
    return CheckResult(
        "disk", CheckState.FAILED, f"{detail}; etcd needs {limit}", "Use a faster disk: SSD or NVMe."
    )


def percentile(values: Iterable[float], part: float) -> float:
    """Return the percentile by the nearest-rank method; `part` is from 0 to 1."""
    ordered = sorted(values)
    return ordered[max(-int(-part * len(ordered) // 1), 1) - 1]


def judge_time(*, is_synchronized: bool) -> CheckResult:
    """Judge whether the kernel's clock follows a time source."""
    if is_synchronized:
        return CheckResult("time", CheckState.PASSED, "the clock follows a time source")
    advice = "Start chronyd with a server that this host reaches; see `chronyc sources`."
    return CheckResult("time", CheckState.FAILED, "the clock follows no time source", advice)


def format_result(result: CheckResult) -> str:
    """Return a result as one line of text."""
    if result.state is CheckState.NOT_CHECKED:
        line = f"- {result.check}: not checked: {result.detail}"
    else:
        line = f"{'✓' if result.state is CheckState.PASSED else '✗'} {result.check}: {result.detail}"
    return f"{line}. {result.advice}" if result.advice else line


def summarize(results: Sequence[CheckResult]) -> str:
    """Return the number of results by state as one line."""
    counts = ((sum(result.state is state for result in results), state) for state in CheckState)
    return ", ".join(f"{count} {state}" for count, state in counts)


def is_failed(results: Iterable[CheckResult]) -> bool:
    """Return True if any check failed."""
    return any(result.state is CheckState.FAILED for result in results)
