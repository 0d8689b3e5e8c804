"""Tells a URL of changes of verdicts: a thread in each process, any number of processes at once."""

import random
import time
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sqlalchemy.exc import SQLAlchemyError

from service_record.collector import signing
from service_record.collector.background import Background
from service_record.collector.logs import log
from service_record.collector.store import notices
from service_record.collector.store.database import Database
from service_record.collector.store.notices import Notice
from service_record.collector.store.writer import Unavailable, Writer
from service_record.redaction import Rules
from service_record.redaction.outgoing import LeakError, outgoing_text
from service_record.trust import system_trust

if TYPE_CHECKING:
    import httpx2

_PATIENCE: Final = 10.0
"""Seconds for each part of a delivery: to connect, to send, to be answered."""
LEASE: Final = 60.0
"""Seconds for which what a process is sending is nobody else's; should it be killed, so long nobody's."""
_MOST: Final = 50
_LONGEST: Final = 30.0
"""Seconds that it sleeps at most: another process may have left news."""
_SHORTEST: Final = 0.1
"""And at least, where an older one of the same host is on its way."""
_AGAIN: Final = 5.0
"""Seconds until it is tried again to note what was delivered."""


class Webhook(Background):
    """Delivers news at least once each, with an id; what was delivered is never sent again.

    Only of the one on its way is it unknown, when the process is killed, whether it came: it is sent again.
    """

    def __init__(
        self,
        database: Database,
        writer: Writer,
        url: str,
        secret: bytes,
        now: Callable[[], float] = time.time,
    ) -> None:
        super().__init__("webhook", "news are told later")
        self._database = database
        self._writer = writer
        self._url = url
        self._secret = secret
        self._now = now
        self._client: httpx2.Client | None = None

    def set_secret(self, secret: bytes) -> None:
        """Sign with another secret from the next delivery on."""
        self._secret = secret

    def round(self) -> float:
        """Deliver what is due; seconds until something will be again."""
        if self._client is None:
            self._client = _client()
        self.deliver_due(self._client)
        now = self._now()
        with self._database.reading() as connection:
            next_at = notices.next_due(connection, now)
        return _LONGEST if next_at is None else min(max(next_at - now, _SHORTEST), _LONGEST)

    def close(self) -> None:
        """End, after the delivery that it is at."""
        super().close()
        if self._client is not None:
            self._client.close()

    def deliver_due(self, client: "httpx2.Client") -> None:
        """Deliver all that is due now. Raises Unavailable, SQLAlchemyError when the database fails."""
        while not self._is_closed.is_set():
            with self._database.reading() as connection:
                found = notices.due(connection, self._now(), _MOST)
            if not found:
                return
            for notice in found:
                if self._is_closed.is_set():
                    return
                self._deliver(client, notice)

    def _deliver(self, client: "httpx2.Client", notice: Notice) -> None:
        until = self._now() + LEASE
        claimed = self._writer.change(lambda connection: notices.claim(connection, notice, until))
        if not claimed.result():
            return
        status, asked = self._send(client, notice)
        now, tries = self._now(), notice.tries + 1
        if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
            self._mark_delivered(notice.id, now)
            return
        wait = None if status == HTTPStatus.GONE else signing.wait_after(tries, random.random(), asked)  # noqa: S311
        log().warning(
            "webhook" if wait is not None else "webhook given up",
            notice=notice.id,
            status=status,
            tries=tries,
        )
        next_at = None if wait is None else now + wait
        self._writer.change(lambda connection: notices.put_off(connection, notice.id, next_at)).result()

    def _mark_delivered(self, notice_id: int, now: float) -> None:
        """However long the database takes: what is not marked would be sent again."""
        while True:
            try:
                self._writer.change(lambda connection: notices.delivered(connection, notice_id, now)).result()
            except (Unavailable, SQLAlchemyError):
                if self._is_closed.wait(_AGAIN):
                    return
            else:
                return

    def _send(self, client: "httpx2.Client", notice: Notice) -> tuple[int, float]:
        """The status of the answer, 0 where there is none, and for how long it asks to wait."""
        import httpx2  # noqa: PLC0415  # only where there is a webhook

        data = {
            "id": notice.id,
            "host": notice.host,
            "group": notice.group,
            "build": notice.build,
            "verdict": notice.verdict,
            "before": notice.before,
            "reason": _public(notice.reason),
            "at": notice.at,
        }
        body = signing.body_of(data, notice.at)
        headers = signing.headers_of(notice.id, body, self._secret, self._now())
        try:
            with client.stream("POST", self._url, content=body, headers=headers) as response:
                asked = response.headers.get("retry-after", "")
                return response.status_code, float(asked[:9]) if asked.isdecimal() else 0.0
        except (httpx2.HTTPError, httpx2.InvalidURL):
            return 0, 0.0


def _public(reason: str) -> str:
    """Return a reason without what has the shape of a secret: hosts may have sent records with theirs in."""
    try:
        return outgoing_text(reason, Rules())
    except LeakError:
        return "left out: it holds a secret"


def _client() -> "httpx2.Client":
    import httpx2  # noqa: PLC0415

    timeout = httpx2.Timeout(_PATIENCE)
    return httpx2.Client(verify=system_trust(), timeout=timeout, follow_redirects=False)


def read_secret(file: Path) -> bytes:
    """Return the secret in a file. Raises OSError, or ValueError when it holds none."""
    secret = signing.secret_of(file.read_bytes())
    if not secret:
        raise ValueError("there is no secret in it")
    return secret
