"""Secrets out of what leaves a host; docs/redaction.md says what is masked, and what is not."""

from service_record.redaction.faces import Finding, Redacting, Secret, mask, report

__all__ = ["Finding", "Redacting", "Secret", "mask", "report"]
