"""Secrets that nobody has: the same in each run."""

import base64
import json
import random
import string
from typing import Final

RANDOM: Final = random.Random(20261121)
ALPHANUMERIC: Final = string.ascii_letters + string.digits


def draw(size: int, alphabet: str = ALPHANUMERIC) -> str:
    """Return a random word with a digit and a letter, so that nobody takes it for prose."""
    word = "".join(RANDOM.choice(alphabet) for _ in range(size - 2))
    return f"{word[: size // 2]}7{word[size // 2 :]}k" if alphabet == ALPHANUMERIC else word + alphabet[-2:]


LOWER: Final = string.ascii_lowercase + string.digits
HEX: Final = "abcdef" + string.digits
CRYPT: Final = ALPHANUMERIC + "./"
BASE64: Final = ALPHANUMERIC + "+/"
URL: Final = ALPHANUMERIC + "-_"


def in_base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def pem(label: str = "RSA PRIVATE KEY", lines: int = 12) -> tuple[str, tuple[str, ...]]:
    """Return a private key, and its lines."""
    body = (*(draw(64, BASE64) for _ in range(lines)), draw(41, BASE64) + "Q==")
    return f"-----BEGIN {label}-----\n" + "\n".join(body) + f"\n-----END {label}-----", body


def pull_secret() -> tuple[str, tuple[str, ...]]:
    """Return a pull secret, and the secrets in it."""
    auths = {
        registry: in_base64(f"openshift-release-dev+{draw(12, LOWER)}:{draw(64)}")
        for registry in ("cloud.openshift.com", "quay.io", "registry.redhat.io")
    }
    document = {"auths": {name: {"auth": auth, "email": "who@example.com"} for name, auth in auths.items()}}
    return json.dumps(document, separators=(",", ":")), tuple(auths.values())
