"""A reported step of a host's provisioning.

The names of fields are those of the RFC "Tracking provisioning progress of hosts".
"""

import hashlib
import re
from enum import StrEnum
from functools import lru_cache
from typing import Final

import msgspec

LONGEST_LOGS: Final = 65_535
"""Only the last part of a report's logs is stored, of the same size as in Foreman."""
LONGEST_NAME: Final = 255
"""Maximum number of characters of a name, a label or an action."""
TRIMMED: Final = "Output trimmed"

_NOT_A_LABEL: Final = re.compile(r"[^a-z0-9]+")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


class StepStatus(StrEnum):
    """The status of a step."""

    INIT = "init"
    DONE = "done"
    FAILED = "failed"
    REPORTED = "reported"
    """The step happened; nothing else is known. The RFC's simple reports have no status."""


class ReportedStep(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A report within the limits and without control characters.

    One is created for each report: as a frozen dataclass that takes ten times as long.
    """

    label: str
    """The key of a step: lower case, digits and `_`."""
    name: str
    """The displayed name."""
    status: StepStatus
    priority: int = 0
    percentage: float | None = None
    """0 to 100, progress of the whole provisioning."""
    action: str = ""
    """The kind of work on the host: `install`, `rebuild` and the like."""
    logs: str = ""
    time: float | None = None
    """The time by the host's own clock, in seconds since 1970."""
    boot_id: str = ""
    build: str = ""
    """The template's name of this build. A different name begins a new build."""
    sequence: int | None = None
    """The number of this report among the reports of its host in one boot."""
    group: str = ""
    release: str = ""
    hardware: str = ""
    """Vendor and model of the machine, without a serial number."""
    notes: tuple[str, ...] = ()
    """Remarks on invalid values and their corrections."""
    is_known: bool = True
    """False if an operator defined the steps, and this is not one of them."""


REPEAT_SECONDS: Final = 60.0
"""An unchanged report without an id counts once within this time."""


class ReportIdentity(msgspec.Struct, frozen=True, gc=False):
    """The identity by which repeated reports are recognized."""

    number: int
    """63 bits of a digest of the host's name and the report."""
    has_id: bool
    """True if the sender named the report. Otherwise all its fields are compared, for REPEAT_SECONDS."""


def identify_report(host: str, step: ReportedStep, key: str = "") -> ReportIdentity:
    """Return the identity of a report of a host.

    It consists of the host's name and of the sender's key, the boot and sequence number, or all fields.
    """
    has_id = True
    if key:
        report: object = ("key", key)
    elif step.boot_id and step.sequence is not None:
        report = ("sequence", step.boot_id, step.sequence)
    else:
        report, has_id = step, False
    # All hosts of a fleet report the same steps. Without the host's name, looking up one report would find
    # the reports of all hosts.
    digest = hashlib.blake2b(_ENCODER.encode((host, report)), digest_size=8)
    return ReportIdentity(int.from_bytes(digest.digest()) >> 1, has_id)


_ENCODER: Final = msgspec.msgpack.Encoder()


@lru_cache(4096)  # hosts report the same steps again and again
def make_label(name: str) -> str:
    """Return the label of a step with only a name, as the snippets make it."""
    return _NOT_A_LABEL.sub("_", name.lower()).strip("_")[:LONGEST_NAME] or "step"


def readable(text: str) -> str:
    """Return a text without control characters. Line breaks become spaces."""
    return text if text.isprintable() else _CONTROL.sub(" ", text)
