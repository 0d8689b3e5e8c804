"""Parse reports of steps: JSON, forms, queries, cloud-init's events, and the body in the RFC's thread.

Invalid values are dropped or corrected with a note, because a refused report would be lost.
"""

import math
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from service_record.collector.domain.progress import COMPLETE
from service_record.collector.domain.steps import (
    LONGEST_LOGS,
    LONGEST_NAME,
    TRIMMED,
    ReportedStep,
    StepStatus,
    make_label,
    readable,
)

_FAILURE: Final = re.compile(
    r"\b(fail(s|ed|ing|ures?)?|errors?|fatal|abort(ed|ing)?|(?<!ing )missing|unable|cannot|can't|could not"
    r"|couldn't|timed out|panic(ked)?|denied|refused|not found|unreachable|crashed|no such)\b"
)
_NO_FAILURE: Final = re.compile(
    r"\b(no|0|zero|without( any)?|not|never|for|after|until) (\w+ )?(fail(ed|ures?)|errors?|fatal)\b"
    r"|\b(fail(ed|ures?)|errors?) ?[:=] ?0\b"
)


class UnreadableReport(Exception):  # noqa: N818  # an answer, not a fault
    """A report cannot be used. The message is the reason in one line."""


def parse_step(fields: Mapping[str, Any]) -> ReportedStep:
    """Return the step in the fields of a JSON object, a form or a query. Raises UnreadableReport."""
    notes: list[str] = []
    label = _text(fields, "label", notes)
    name = _text(fields, "name", notes) or label
    if not name:
        raise UnreadableReport("a step needs a name or a label")
    return ReportedStep(
        label=make_label(label or name),
        name=name,
        status=_status(fields, notes),
        priority=_priority(fields, notes),
        percentage=_percentage(fields, notes),
        action=_text(fields, "action", notes),
        logs=_logs(fields, notes),
        time=_time(fields, notes),
        boot_id=_text(fields, "boot", notes)[:64],
        build=_text(fields, "build", notes),
        sequence=_sequence(fields, notes),
        group=_text(fields, "group", notes),
        release=_text(fields, "release", notes),
        hardware=_text(fields, "hardware", notes),
        notes=tuple(notes),
    )


def parse_update(fields: Mapping[str, Any]) -> tuple[str, ReportedStep]:
    """Return the host and the step in the body of the RFC's thread.

    Its `name` is the host's name, its `status` a text.
    """
    host = str(fields.get("name") or "")
    if not host:
        raise UnreadableReport("an update needs the name of its host")
    update_name = str(fields.get("status") or fields.get("action") or "update")
    update_fields = {
        "name": update_name,
        "status": _status_in(update_name),
        "percentage": fields.get("percentage"),
        "action": fields.get("action"),
        "group": fields.get("datacenter_name"),
        "logs": fields.get("logs"),
    }
    return host, parse_step({name: value for name, value in update_fields.items() if value is not None})


LAST_STAGE: Final = "modules-final"
"""The last stage of cloud-init."""


def parse_event(fields: Mapping[str, Any], *, has_failed: bool) -> ReportedStep:
    """Return the step in an event of cloud-init's reporting webhook. Raises UnreadableReport.

    The end of cloud-init completes the build, unless a step failed. Fields and results are those of
    cloudinit/reporting/events.py.
    """
    name, kind = str(fields.get("name") or ""), str(fields.get("event_type") or "")
    if not name or kind not in {"start", "finish"}:
        raise UnreadableReport("an event needs a name, and an event_type that is start or finish")
    result = str(fields.get("result") or "") if kind == "finish" else ""
    status = _RESULTS.get(result, "") if kind == "finish" else StepStatus.INIT
    is_end = name == LAST_STAGE and status == StepStatus.DONE and not has_failed
    values = {
        "name": name,
        "status": status or (result and f"result {result}"),
        "percentage": COMPLETE if is_end else None,
        "logs": fields.get("description") if result in {"FAIL", "WARN"} else None,
        "time": fields.get("timestamp"),
    }
    step = parse_step({field: value for field, value in values.items() if value is not None})
    if result == "WARN":
        return msgspec.structs.replace(step, notes=(*step.notes, "cloud-init warned"))
    return step


_RESULTS: Final = {"SUCCESS": StepStatus.DONE, "WARN": StepStatus.DONE, "FAIL": StepStatus.FAILED}


def _status_in(text: str) -> str:
    """Return the status. The texts report failures in words, at any percentage."""
    words = _NO_FAILURE.sub(" ", text.lower().replace("_", " "))
    return StepStatus.FAILED if _FAILURE.search(words) else StepStatus.REPORTED


def _text(fields: Mapping[str, Any], name: str, notes: list[str]) -> str:
    value = fields.get(name)
    if value is None:
        return ""
    if not isinstance(value, str | int | float):
        notes.append(f"{name} was not a text")
        return ""
    text = readable(str(value)).strip()
    if len(text) > LONGEST_NAME:
        notes.append(f"{name} was cut at {LONGEST_NAME} characters")
    return text[:LONGEST_NAME]


def _status(fields: Mapping[str, Any], notes: list[str]) -> StepStatus:
    word = _text(fields, "status", notes).lower()
    if not word:
        return StepStatus.REPORTED
    status = _STATUSES.get(word)
    if status is None:
        notes.append(f"status was {word}")
        return StepStatus.REPORTED
    return status


_STATUSES: Final = {status.value: status for status in StepStatus}


def _priority(fields: Mapping[str, Any], notes: list[str]) -> int:
    number = _number(fields, "priority", notes)
    return 0 if number is None else int(max(-(2**31), min(number, 2**31 - 1)))


def _sequence(fields: Mapping[str, Any], notes: list[str]) -> int | None:
    number = _number(fields, "sequence", notes)
    if number is None:
        return None
    if number.is_integer() and number >= 0:
        return int(number)
    notes.append(f"sequence was {number:g}")
    return None


def _percentage(fields: Mapping[str, Any], notes: list[str]) -> float | None:
    number = _number(fields, "percentage", notes)
    if number is None:
        return None
    if 0 <= number <= COMPLETE:
        return number
    notes.append(f"percentage was {number:g}")
    return None


def _number(fields: Mapping[str, Any], name: str, notes: list[str]) -> float | None:
    text = _text(fields, name, notes).removesuffix("%").strip()
    if not text:
        return None
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if math.isfinite(number):
        return number
    notes.append(f"{name} was {text}")
    return None


def _logs(fields: Mapping[str, Any], notes: list[str]) -> str:
    value = fields.get("logs")
    if value is None:
        return ""
    logs = str(value).replace("\x00", " ")
    raw = logs.encode("utf-8", "replace")
    if len(raw) <= LONGEST_LOGS:
        return raw.decode()
    notes.append(f"{TRIMMED}: logs had {len(raw)} bytes")
    return raw[-LONGEST_LOGS:].decode(errors="ignore")


def _time(fields: Mapping[str, Any], notes: list[str]) -> float | None:
    """Parse a time: RFC 3339, or seconds since 1970."""
    text = _text(fields, "time", notes)
    if not text:
        return None
    try:
        if text.replace(".", "", 1).isdigit():
            return float(text)
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        notes.append(f"time was {text}")
        return None
