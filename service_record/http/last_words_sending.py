"""Send the lines that services printed last to a collector, where they remain if the host dies."""

from collections.abc import Callable, Sequence
from http import HTTPStatus
from time import monotonic
from typing import Final

import msgspec

from service_record.http.address import CollectorError
from service_record.http.collector_answers import LONGEST_LINE, LONGEST_NAME, MOST_LINES, LastWords
from service_record.http.collector_client import CollectorClient, host_path

_RETRY_SECONDS: Final = 60.0
"""The pause after a request that failed. A collector that is away must not cost more."""


class LastWordsSender:
    """Sends last lines of services of one host, if they have changed.

    No method raises CollectorError: lines that cannot be sent are dropped, and the reason is printed once.
    """

    def __init__(
        self,
        client: CollectorClient,
        host: str,
        mask: Callable[[str], str],
        tell: Callable[[str], None],
    ) -> None:
        """`mask` masks the secrets in a text, `tell` prints a line."""
        self._client = client
        self._host = host
        self._mask = mask
        self._tell = tell
        self._sent: dict[str, bytes] = {}
        self._has_told = False
        self._pause_until = 0.0
        self.is_refused = False
        """True if the collector would refuse the next request for the same reason."""

    def send(self, service: str, stage: str, lines: Sequence[str], *, is_last: bool = False) -> None:
        """Send the last lines of a service in a stage, without secrets, unless they were sent already.

        Without lines, the collector deletes those that it has. The last request is not put off after one that
        failed.
        """
        if self.is_refused or (monotonic() < self._pause_until and not is_last):
            return
        # All lines are masked before most are left out: a key may begin above those that are sent.
        masked = self._mask("\n".join(lines)).split("\n") if lines else []
        shown = [line[:LONGEST_LINE] for line in masked[-MOST_LINES:]]
        body = msgspec.json.encode(LastWords(service[:LONGEST_NAME], shown, stage[:LONGEST_NAME]))
        if self._sent.get(service) == body:
            return
        try:
            self._client.send("PUT", host_path(self._host, "last-words"), body=body)
        except CollectorError as error:
            self._pause_until = monotonic() + _RETRY_SECONDS
            refusals = {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND}
            self.is_refused = error.status in {*refusals, HTTPStatus.METHOD_NOT_ALLOWED}
            self.tell_once(str(error))
            return
        self._sent[service] = body

    def was_sent(self, service: str) -> bool:
        """Return whether the collector may have lines of this service."""
        return service in self._sent

    def forget(self, service: str) -> None:
        """Forget what was sent of a service whose run has ended."""
        self._sent.pop(service, None)

    def tell_once(self, reason: str) -> None:
        """Print why lines are not sent, the first time."""
        if not self._has_told:
            self._has_told = True
            self._tell(f"Warning: last lines are not sent: {reason}")
