"""Diagnosis of a host from its history and evidence: findings and the verdict, root cause first. Pure."""

from service_record.diagnosis.diagnose import diagnose
from service_record.diagnosis.findings import Diagnosis, Verdict

__all__ = ["Diagnosis", "Verdict", "diagnose"]
