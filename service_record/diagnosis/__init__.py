"""Diagnose a host from its history and evidence: the verdict, the root cause and other findings. Pure."""

from service_record.diagnosis.diagnose import diagnose
from service_record.diagnosis.findings import Diagnosis, Verdict

__all__ = ["Diagnosis", "Verdict", "diagnose"]
