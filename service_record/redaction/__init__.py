"""Secrets out of what leaves a host; docs/redaction.md says what is masked, and what is not."""

from service_record.redaction.host_secrets import HostSecrets, known_secrets
from service_record.redaction.leak_scan import UNREADABLE, residual
from service_record.redaction.redactor import Redactor
from service_record.redaction.rules import Rules
from service_record.redaction.types import Leak, Redacting, Secret, mask, report

__all__ = [
    "UNREADABLE",
    "HostSecrets",
    "Leak",
    "Redacting",
    "Redactor",
    "Rules",
    "Secret",
    "known_secrets",
    "mask",
    "report",
    "residual",
]
