"""Keep the last lines of a log as the message of failures outside of the journal.

Loaded only by services that use it: it imports `logging`.
"""

import logging
from collections import deque

from service_record.recorder.recorded_run import recent_lines


class RecentLinesHandler(logging.Handler):
    """A handler of `logging` that keeps the last lines for the message of a failure.

    Under systemd the message of a failure begins with the last journal lines of the invocation. For a service
    whose output is not in the journal, this handler keeps the last `capacity` lines of the log instead:

        logging.getLogger().addHandler(service_record.RecentLinesHandler())
    """

    def __init__(self, capacity: int = 3, level: int = logging.NOTSET) -> None:
        super().__init__(level)
        self._lines: deque[str] = deque(maxlen=capacity)
        recent_lines.append(self._get_lines)

    def _get_lines(self) -> list[str]:
        return list(self._lines)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            # Formatted now: the arguments of the record may have changed when something fails.
            self._lines.extend(self.format(record).splitlines())
        except Exception:  # noqa: BLE001  # as all handlers: the service's `logging.raiseExceptions` decides
            self.handleError(record)

    def close(self) -> None:
        """Forget the lines."""
        if self._get_lines in recent_lines:
            recent_lines.remove(self._get_lines)
        super().close()
