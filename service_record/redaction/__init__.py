"""Secrets out of what leaves a host; docs/redaction.md says what is masked, and what is not."""

from importlib import import_module
from typing import TYPE_CHECKING

from service_record.redaction.host_secrets import HostSecrets, known_secrets
from service_record.redaction.redactor import Redactor
from service_record.redaction.rules import Rules
from service_record.redaction.types import Leak, Redacting, Secret, mask, report

if TYPE_CHECKING:
    from service_record.redaction.leak_scan import UNREADABLE, find_leak

__all__ = [
    "UNREADABLE",
    "HostSecrets",
    "Leak",
    "Redacting",
    "Redactor",
    "Rules",
    "Secret",
    "find_leak",
    "known_secrets",
    "mask",
    "report",
]


def __getattr__(name: str) -> object:
    """Load the leak scan, which reads archives, when it is first used."""
    if name not in {"UNREADABLE", "find_leak"}:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("service_record.redaction.leak_scan"), name)
