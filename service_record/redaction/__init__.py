"""Secrets out of what leaves a host; docs/redaction.md says what is masked, and what is not."""

from service_record.redaction.faces import Finding, Redacting, Secret, mask, report
from service_record.redaction.redactor import Redactor
from service_record.redaction.rules import Rules

__all__ = ["Finding", "Redacting", "Redactor", "Rules", "Secret", "mask", "report"]
