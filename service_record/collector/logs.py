"""The collector's log: JSON lines on stderr, without secrets.

Only harmless values are logged: the route of a request, never its path, query, headers or body; the place of
an error, never its message. Texts with the form of a token are masked nevertheless. In the journal, a line
has fields as well.
"""

import logging
import os
import re
import sys
import traceback
from typing import Any, Final, TextIO

import structlog
from sqlalchemy.exc import DBAPIError
from structlog.typing import EventDict, WrappedLogger

from service_record.record.journal_sending import MessageKind, is_journal, send_message

_TOKEN: Final = re.compile(r"srt_(\d+)_[\w-]+")
_MOST_FRAMES: Final = 6
_PACKAGE: Final = f"/{__name__.partition('.')[0]}/"


def configure(level: str = "info", stream: TextIO | None = None) -> None:
    """Configure logging of the collector and of libraries, from this level."""
    target, threshold = stream or sys.stderr, logging.getLevelNamesMapping()[level.upper()]
    in_journal = stream is None and is_journal(2, os.environ)
    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        _without_traceback,
        _masked,
    ]
    structlog.configure(
        processors=[*shared, structlog.processors.JSONRenderer()],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=_JournalLogger if in_journal else structlog.WriteLoggerFactory(target),
        cache_logger_on_first_use=True,
    )
    handler = _JournalHandler(target) if in_journal else logging.StreamHandler(target)
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


_KINDS: Final = {
    "error": (3, MessageKind.COLLECTOR_FAULT),
    "warning": (4, MessageKind.COLLECTOR_PROBLEM),
    "info": (6, MessageKind.COLLECTOR_NOTICE),
}
"""Log level -> priority as in syslog(3), and the kind of the message in the journal."""
REFUSED: Final = "refused"
"""The event of a request that was refused."""


def _send(level: str, line: str) -> bool:
    priority, kind = _KINDS.get(level, _KINDS["info"])
    if f'"event": "{REFUSED}"' in line:
        kind = MessageKind.COLLECTOR_REFUSED
    return send_message(kind, line, priority)


class _JournalLogger:
    """Sends lines with fields to the journal, or to standard error if journald does not answer."""

    def __init__(self, *_: object) -> None:
        """Accept and ignore the arguments that structlog passes to a logger factory."""

    def info(self, line: str) -> None:
        self._log("info", line)

    def warning(self, line: str) -> None:
        self._log("warning", line)

    def error(self, line: str) -> None:
        self._log("error", line)

    debug, critical, exception, msg = info, error, error, info

    @staticmethod
    def _log(level: str, line: str) -> None:
        if not _send(level, line):
            sys.stderr.write(f"{line}\n")


class _JournalHandler(logging.StreamHandler[TextIO]):
    """Sends the log records of our modules with fields to the journal, and writes those of libraries."""

    def emit(self, record: logging.LogRecord) -> None:
        """Send a record; if journald does not answer, write it to standard error."""
        level = "error" if record.levelno >= logging.ERROR else record.levelname.lower()
        if not record.name.startswith(__name__.partition(".")[0]) or not _send(level, self.format(record)):
            super().emit(record)


def log() -> Any:
    """Return the logger. Pass the event as a short text, and its values as keyword arguments."""
    return structlog.get_logger()


def describe_fault(fault: BaseException) -> dict[str, object]:
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
        event.update(describe_fault(info[1]))
    return event


def _masked(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    return {
        name: _TOKEN.sub(r"srt_\1_***", value) if isinstance(value, str) else value
        for name, value in event.items()
    }
