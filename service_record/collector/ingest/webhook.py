"""Tells a URL of changes of verdicts, signed after https://www.standardwebhooks.com.

Each process has a thread for it; any number of them share the work.
"""

import base64
import binascii
import hashlib
import hmac
import os
import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import cached_property
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from sqlalchemy.exc import SQLAlchemyError

from service_record.collector.ingest.rounds import Background
from service_record.collector.logs import log
from service_record.collector.store import notices
from service_record.collector.store.database import Database
from service_record.collector.store.notices import Notice
from service_record.collector.store.row_writer import DatabaseWriter, Unavailable
from service_record.http.answers import Answered, RetryPolicy
from service_record.http.proxies import proxies_of
from service_record.redaction import Rules
from service_record.redaction.outgoing import LeakError, outgoing_text

if TYPE_CHECKING:
    from service_record.http.transport import Transport


MOST_TRIES: Final = 24
"""After which news are given up: more than half a day after the first."""
_FIRST_WAIT: Final = 5.0
_LONGEST_WAIT: Final = 3600.0
_PREFIX: Final = b"whsec_"


def body_of(together: Sequence[Notice]) -> bytes:
    """Return what is sent of news that are told at once: the same bytes each time they are."""
    first, *others = together
    moment = datetime.fromtimestamp(first.at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    data = (
        _digest(together)
        if others
        else {**_host(first), "verdict": first.verdict, "reason": _public(first.reason)}
    )
    kind = "hosts.verdict" if others else "host.verdict"
    return msgspec.json.encode({"type": kind, "timestamp": moment, "data": data})


def _digest(together: Sequence[Notice]) -> dict[str, Any]:
    """Return what several hosts have in common, in a sentence and one by one."""
    verdict, reason = together[0].verdict, _public(together[0].reason)
    return {
        "summary": f"{len(together)} hosts {verdict}: {reason}",
        "count": len(together),
        "verdict": verdict,
        "reason": reason,
        "groups": sorted({notice.group for notice in together}),
        "hosts": [_host(notice) for notice in together],
    }


def _host(notice: Notice) -> dict[str, Any]:
    names = ("id", "host", "group", "build", "before", "at")
    return {name: getattr(notice, name) for name in names}


def headers_of(notice_id: int, body: bytes, secret: bytes, now: float) -> dict[str, str]:
    """Return the id, the same each time, so that receivers drop repeats; and with a secret the signature."""
    message_id, timestamp = f"notice_{notice_id}", str(int(now))
    headers = {
        "Content-Type": "application/json",
        "Webhook-Id": message_id,
        "Webhook-Timestamp": timestamp,
    }
    if secret:
        signed = b".".join((message_id.encode(), timestamp.encode(), body))
        digest = hmac.new(secret, signed, hashlib.sha256).digest()
        headers["Webhook-Signature"] = f"v1,{base64.b64encode(digest).decode()}"
    return headers


def secret_of(text: bytes) -> bytes:
    """Return the secret in a file: after `whsec_` as base64, else as it stands. Raises ValueError."""
    text = text.strip()
    if not text.startswith(_PREFIX):
        return text
    try:
        return base64.b64decode(text.removeprefix(_PREFIX), validate=True)
    except binascii.Error:
        raise ValueError("the part after whsec_ is not base64") from None


def wait_after(tries: int, chance: float, requested: float = 0.0) -> float | None:
    """Return seconds until it is sent again, after so many tries; None where it is given up.

    `chance` is from 0 to 1; `requested` are the seconds that the receiver asks for.
    """
    if tries >= MOST_TRIES:
        return None
    doubled = min(_FIRST_WAIT * 2.0 ** (tries - 1), _LONGEST_WAIT)
    return max(doubled * (0.5 + chance / 2), min(requested, _LONGEST_WAIT))


_PATIENCE: Final = 10.0
"""Seconds for each part of a delivery: to connect, to send, to be answered."""
LEASE: Final = 60.0
"""Seconds for which what a process is sending is nobody else's; should it be killed, so long nobody's."""
_MOST: Final = 500
"""News that are claimed at once, and so in one digest at most."""
_AT_ONCE: Final = 8
"""Deliveries on their way at once: one that takes its time holds up few others."""
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
        writer: DatabaseWriter,
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

    def set_secret(self, secret: bytes) -> None:
        """Sign with another secret from the next delivery on."""
        self._secret = secret

    def round(self) -> float:
        """Deliver what is due; seconds until something will be again."""
        self.deliver_due()
        now = self._now()
        with self._database.reading() as connection:
            next_at = notices.next_due(connection, now)
        return _LONGEST if next_at is None else min(max(next_at - now, _SHORTEST), _LONGEST)

    def close(self) -> None:
        """End, after the delivery that it is at."""
        super().close()
        if "_transport" in vars(self):
            self._transport.close()

    @cached_property
    def _transport(self) -> "Transport":
        from service_record.http.transport import Transport  # noqa: PLC0415  # only where there is a webhook

        limits = RetryPolicy(connect=_PATIENCE, read=_PATIENCE, write=_PATIENCE, upload_total=3 * _PATIENCE)
        return Transport(
            self._url, proxies=proxies_of(os.environ), retry_policy=limits, keeps_connections=True
        )

    def deliver_due(self) -> None:
        """Deliver all that is due now. Raises Unavailable, SQLAlchemyError when the database fails."""
        _ = self._transport  # made here, not by several threads
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="webhook") as pool:
            while not self._is_closed.is_set():
                now = self._now()
                claimed = self._writer.change(
                    lambda connection: notices.claim_due(connection, now, now + LEASE, _MOST, _AT_ONCE)  # noqa: B023
                ).result()
                if not claimed:
                    return
                list(pool.map(self._deliver, claimed))

    def _deliver(self, together: Sequence[Notice]) -> None:
        ids = [notice.id for notice in together]
        if self._is_closed.is_set():
            self._writer.change(lambda connection: notices.put_off(connection, ids, self._now())).result()
            return
        status, pause = self._send(together)
        now, tries = self._now(), together[0].tries + 1
        if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
            self._mark_delivered(ids, now)
            return
        wait = None if status == HTTPStatus.GONE else wait_after(tries, random.random(), pause)  # noqa: S311
        event = "webhook" if wait is not None else "webhook given up"
        log().warning(event, notice=ids[0], news=len(ids), status=status, tries=tries)
        next_at = None if wait is None else now + wait
        self._writer.change(lambda connection: notices.put_off(connection, ids, next_at)).result()

    def _mark_delivered(self, ids: Sequence[int], now: float) -> None:
        """However long the database takes: what is not marked would be sent again."""
        while True:
            try:
                self._writer.change(lambda connection: notices.delivered(connection, ids, now)).result()
            except (Unavailable, SQLAlchemyError):
                if self._is_closed.wait(_AGAIN):
                    return
            else:
                return

    def _send(self, together: Sequence[Notice]) -> tuple[int, float]:
        """Return the status of the answer, 0 where there is none, and for how long it asks to wait."""
        from service_record.http.attempt import Request  # noqa: PLC0415  # only where there is a webhook

        body = body_of(together)
        headers = headers_of(together[0].id, body, self._secret, self._now())
        request = Request(method="POST", url=self._url, headers=headers, file=body)
        outcome = self._transport.call(request, again=(), tries=1).outcome
        return (outcome.status, outcome.retry_after or 0.0) if isinstance(outcome, Answered) else (0, 0.0)


def _public(reason: str) -> str:
    """Return a reason without what has the shape of a secret: hosts may have sent records with theirs in."""
    try:
        return outgoing_text(reason, Rules())
    except LeakError:
        return "left out: it holds a secret"


def read_secret(file: Path) -> bytes:
    """Return the secret in a file. Raises OSError, or ValueError when it holds none."""
    secret = secret_of(file.read_bytes())
    if not secret:
        raise ValueError("there is no secret in it")
    return secret
