"""The verdict on this host, as the first page of a bundle and in one sentence for its consoles."""

from datetime import datetime
from typing import Final

from service_record.display.analysis import analysis_text
from service_record.display.sentences import verdict_sentence
from service_record.reporter.evidence import Evidence

_NOTHING: Final = "no service has recorded a run on this host"


def sentence(evidence: Evidence) -> str:
    """`failed: bootkube in stage pull: the registry has no such image`, or why there is no verdict."""
    if evidence.diagnosis is not None:
        return verdict_sentence(evidence.diagnosis)
    return f"unknown: {evidence.unread or _NOTHING}"


def page(evidence: Evidence, source: str, at: datetime) -> str:
    """What `analyze` prints of the records of `source`; the sentence where none can be judged."""
    if evidence.diagnosis is None or evidence.history is None:
        return f"{sentence(evidence)}\n"
    return analysis_text(evidence.diagnosis, evidence.history, source, at)
