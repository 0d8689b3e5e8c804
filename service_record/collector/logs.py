"""The collector's log: a line of JSON for each event, on stderr, and never a secret.

Only what is known to be harmless is logged at all: of a request its route, never its path, query, headers or
body; of a fault where it was, not what it said. What looks like a token nevertheless is masked.
"""

import logging
import re
import sys
import traceback
from typing import Any, Final, TextIO

import structlog
from sqlalchemy.exc import DBAPIError
from structlog.typing import EventDict, WrappedLogger

_TOKEN: Final = re.compile(r"srt_(\d+)_[\w-]+")
_MOST_FRAMES: Final = 6
_PACKAGE: Final = f"/{__name__.partition('.')[0]}/"


def configure(level: str = "info", stream: TextIO | None = None) -> None:
    """Log from now on, our events and those of libraries, from that level on."""
    target, threshold = stream or sys.stderr, logging.getLevelNamesMapping()[level.upper()]
    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        _without_traceback,
        _masked,
    ]
    structlog.configure(
        processors=[*shared, structlog.processors.JSONRenderer()],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=structlog.WriteLoggerFactory(target),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(target)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(threshold, logging.WARNING))


def log() -> Any:
    """Return the logger, for events in plain words with their values as keywords."""
    return structlog.get_logger()


def fault_of(fault: BaseException) -> dict[str, object]:
    """Return place and kind of a fault; its message might hold something that a client sent."""
    frames = traceback.extract_tb(fault.__traceback__)
    ours = [frame for frame in frames if _PACKAGE in frame.filename] or frames
    fields: dict[str, object] = {
        "fault": type(fault).__name__,
        "at": [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in ours[-_MOST_FRAMES:]],
    }
    if isinstance(fault, DBAPIError) and fault.orig is not None:
        fields["database"] = str(fault.orig).strip().partition("\n")[0]
    return fields


def _without_traceback(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Replace the traceback that a library logs by where it was."""
    info = event.pop("exc_info", None)
    if isinstance(info, tuple) and isinstance(info[1], BaseException):
        event.update(fault_of(info[1]))
    return event


def _masked(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    return {
        name: _TOKEN.sub(r"srt_\1_***", value) if isinstance(value, str) else value
        for name, value in event.items()
    }
