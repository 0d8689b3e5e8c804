"""Build a reporter's settings files, evidence and host views."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.simulated import ID, settings
from service_record.diagnosis import Verdict
from service_record.reporter.host_state import HostEvidence
from service_record.reporter.host_view import HostView
from service_record.reporter.paths import Places
from service_record.reporter.policy.transitions import begin_round
from service_record.reporter.state import ReporterState

BOOT = "b0" * 16
NEXT_BOOT = "b1" * 16
APPLIED: dict[str, Any] = {"is_pending": False, "is_applied": True, "has_kubelet": True}
SERVICE = f"""\
[assisted_service]
url = "https://assisted.example:8090/"
cluster_id = "{ID}"
infra_env_id = "{ID.upper()}"
host_id = "{ID}"
"""

__all__ = ["ID", "settings"]


def make_places(root: Path, text: str | bytes | None = SERVICE, token: str | None = "raw-token") -> Places:
    """Write the settings file and the token of a host below `root`. None: the file does not exist."""
    places = Places(root)
    places.settings_file.parent.mkdir(parents=True, exist_ok=True)
    if text is not None:
        places.settings_file.write_bytes(text.encode() if isinstance(text, str) else text)
    if token is not None:
        places.credential_file.write_text(token)
        places.credential_file.chmod(0o600)
    return places


def evidence(uptime: float = 60.0, *, has_failed: bool = False, **fields: object) -> HostEvidence:
    """Return evidence of a host in its first boot, on which a service runs or has failed."""
    plain = HostEvidence(
        boot_id=BOOT,
        uptime=uptime,
        is_pending=True,
        verdict=Verdict.FAILED if has_failed else Verdict.RUNNING,
        fingerprint="wrong" if has_failed else "well",
    )
    return replace(plain, **fields)  # type: ignore[arg-type]


def host_view(**fields: object) -> HostView:
    """Return the service's view of a host after its reboot."""
    plain = HostView(stage="Rebooting", status="installing-in-progress", role="master")
    return replace(plain, **fields)  # type: ignore[arg-type]


def begin_rounds(*rounds: HostEvidence, state: ReporterState | None = None) -> ReporterState:
    """Return the state after the starts of these rounds, without any action."""
    state = state or ReporterState()
    for found in rounds:
        state = begin_round(settings(), state, found)
    return state
