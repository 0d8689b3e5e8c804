"""Secrets out of what leaves a host; docs/redaction.md says what is masked, and what is not."""

from service_record.redaction.faces import Leak, Redacting, Secret, mask, report
from service_record.redaction.known import Known, known_secrets
from service_record.redaction.redactor import Redactor
from service_record.redaction.residual import UNREADABLE, residual
from service_record.redaction.rules import Rules

__all__ = [
    "UNREADABLE",
    "Known",
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
