"""The collector's log: JSON lines on stderr, without secrets.

Only harmless values are logged: the route of a request, never its path, query, headers or body; the place of
an error, never its message. Texts with the form of a token are masked nevertheless.
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
    """Configure logging of the collector and of libraries, from this level."""
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
    """Return the logger. Pass the event as a short text, and its values as keyword arguments."""
    return structlog.get_logger()


def fault_of(fault: BaseException) -> dict[str, object]:
    """Return the type and place of an exception.

    Its message may contain data of a client, so it is left out.
    """
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
    """Replace the traceback of a library's log record by the place of the exception."""
    info = event.pop("exc_info", None)
    if isinstance(info, tuple) and isinstance(info[1], BaseException):
        event.update(fault_of(info[1]))
    return event


def _masked(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    return {
        name: _TOKEN.sub(r"srt_\1_***", value) if isinstance(value, str) else value
        for name, value in event.items()
    }
