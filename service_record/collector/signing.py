"""News of verdicts as a webhook gets them, signed after https://www.standardwebhooks.com, and when to try
again. Pure.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

MOST_TRIES: Final = 24
"""After which news are given up: more than half a day after the first."""
_FIRST_WAIT: Final = 5.0
_LONGEST_WAIT: Final = 3600.0
_PREFIX: Final = b"whsec_"


def body_of(data: Mapping[str, Any], at: float) -> bytes:
    """What is sent: the same bytes each time it is."""
    moment = datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return msgspec.json.encode({"type": "host.verdict", "timestamp": moment, "data": data})


def headers_of(notice_id: int, body: bytes, secret: bytes, now: float) -> dict[str, str]:
    """The id, the same each time, by which a receiver drops what it has; and the signature, with a secret."""
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
    """The secret in a file: after `whsec_` as base64, else as it stands. Raises ValueError."""
    text = text.strip()
    if not text.startswith(_PREFIX):
        return text
    try:
        return base64.b64decode(text.removeprefix(_PREFIX), validate=True)
    except binascii.Error:
        raise ValueError("what follows whsec_ is no base64") from None


def wait_after(tries: int, chance: float, asked: float = 0.0) -> float | None:
    """Seconds until it is sent again, after so many tries; None where it is given up.

    `chance` is from 0 to 1; `asked` are the seconds that the receiver asks for.
    """
    if tries >= MOST_TRIES:
        return None
    doubled = min(_FIRST_WAIT * 2.0 ** (tries - 1), _LONGEST_WAIT)
    return max(doubled * (0.5 + chance / 2), min(asked, _LONGEST_WAIT))
