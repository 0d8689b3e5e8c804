"""Tokens: their format, kinds and rights.

A token is `srt_ID_SECRET` with a random secret of 256 bits. Only the SHA-256 of the secret is stored. A slow
password hash is not needed, because a random secret of this length cannot be guessed.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from service_record.http.address import HOST_RULE, is_host_name
from service_record.record.quantities import parse_duration

GROUP_RULE: Final = "a group's name has letters, digits and . _ : - only, and / before a group below it"

GROUP_PATTERN: Final = "[A-Za-z0-9][A-Za-z0-9._:-]*(?:/[A-Za-z0-9][A-Za-z0-9._:-]*)*"
_GROUP: Final = re.compile(GROUP_PATTERN)
_LONGEST_GROUP: Final = 255


def is_group(name: str) -> bool:
    """Return True if an administrator may use this name for a group. Reports may use any text."""
    return len(name) <= _LONGEST_GROUP and _GROUP.fullmatch(name) is not None


_PREFIX: Final = "srt"
_BYTES: Final = 32
_SECONDS_IN_TEMPLATES: Final = 7 * 86_400.0
_LONGEST_SECONDS: Final = 100 * 365 * 86_400.0


class TokenKind(StrEnum):
    """The purpose of a token."""

    HOST = "host"
    """Reports for one host. Cannot read."""
    GROUP = "group"
    """Reports for the hosts of a group and its subgroups. Cannot read."""
    READER = "reader"
    """Reads everything, or with a scope only a group and its subgroups."""
    ADMIN = "admin"
    ENROLMENT = "enrolment"
    """Creates the token of one host, once. The scope is empty, `host:NAME` or `group:NAME`."""
    BOOT = "boot"
    """Reports that one host downloaded its image. The token is part of a URL."""
    CLOUD_INIT = "cloud-init"
    """Reports events of one host's cloud-init. The token is part of a URL."""

    @property
    def is_in_templates(self) -> bool:
        """True if tokens of this kind expire by default, because many people can read a template."""
        return self in {TokenKind.ENROLMENT, TokenKind.BOOT, TokenKind.CLOUD_INIT}


_SORTS: Final = {
    TokenKind.HOST: "host",
    TokenKind.BOOT: "host",
    TokenKind.CLOUD_INIT: "host",
    TokenKind.GROUP: "group",
    TokenKind.READER: "group",
}
"""Kind of token -> what its scope is the name of."""


class Forbidden(Exception):  # noqa: N818  # an answer (403), not a fault
    """The token is valid, but does not have this right."""


@dataclass(frozen=True, slots=True)
class Grant:
    """The rights of a request's token."""

    token_id: int
    kind: TokenKind
    scope: str = ""
    name: str = ""

    @property
    def holder(self) -> str:
        """Return the owner of the token, for the audit log."""
        return f"token {self.token_id} ({self.name})" if self.name else f"token {self.token_id}"

    @property
    def may_read(self) -> bool:
        return self.kind in {TokenKind.READER, TokenKind.ADMIN}

    @property
    def may_administer(self) -> bool:
        return self.kind is TokenKind.ADMIN

    @property
    def confined_to(self) -> str:
        """Return the group that a reader is confined to, or empty."""
        return self.scope if self.kind is TokenKind.READER else ""

    def may_read_group(self, group: str) -> bool:
        """Return True if the token may read the hosts of a group."""
        return self.may_read and (not self.confined_to or is_within(group, self.confined_to))

    def readable_groups(self, requested: Sequence[str]) -> tuple[str, ...]:
        """Return the requested groups that the token may read; without a request, all that it may read.

        Raises Forbidden if it may read none of the requested ones.
        """
        confined_to = self.confined_to
        if not confined_to or not requested:
            return tuple(requested) if requested else ((confined_to,) if confined_to else ())
        groups = [
            group if is_within(group, confined_to) else confined_to
            for group in requested
            if is_within(group, confined_to) or is_within(confined_to, group)
        ]
        if not groups:
            raise Forbidden(f"this token reads the hosts of group {confined_to} only")
        return tuple(dict.fromkeys(groups))

    def may_write(self, host: str, group: str) -> bool:
        """Return True if the token may report for a host in a group."""
        match self.kind:
            case TokenKind.ADMIN:
                return True
            case TokenKind.HOST:
                return host == self.scope
            case TokenKind.GROUP:
                return is_within(group, self.scope)
        return False

    def may_enrol(self, host: str, group: str) -> bool:
        """Return True if the enrolment token may create a token of a host in a group."""
        if self.kind is not TokenKind.ENROLMENT:
            return False
        sort, _, name = self.scope.partition(":")
        match sort:
            case "":
                return True
            case "host":
                return host == name
            case "group":
                return is_within(group, name)
        return False

    def group_of_enrolled(self, group: str) -> str:
        """Return the group of an unknown host that enrols and requests `group`.

        If the token is limited to another group, that is the group of the host.
        """
        sort, _, name = self.scope.partition(":")
        return name if sort == "group" and not is_within(group, name) else group

    def group_of_new_host(self, group: str) -> str:
        """Return the group of an unknown host whose first report names `group`.

        If the token is limited to another group, that is the group of the host.
        """
        if self.kind is TokenKind.GROUP and not is_within(group, self.scope):
            return self.scope
        return group


def parse_scope(kind: TokenKind, text: str) -> str:
    """Check and return the scope of a new token. Raises ValueError, which names the valid forms."""
    sort, _, name = text.partition(":") if kind is TokenKind.ENROLMENT else (_SORTS.get(kind, ""), "", text)
    match kind:
        case TokenKind.ADMIN if text:
            raise ValueError("a token of kind admin is good for every host: leave the scope out")
        case TokenKind.HOST | TokenKind.GROUP | TokenKind.BOOT | TokenKind.CLOUD_INIT if not text:
            raise ValueError(f"a token of kind {kind} needs the {sort}'s name; add it")
        case TokenKind.ENROLMENT if text and sort not in {"host", "group"}:
            raise ValueError("not a scope of an enrolment token; use host:NAME or group:NAME")
    if sort == "host" and text and not is_host_name(name):
        raise ValueError(HOST_RULE)
    if sort == "group" and text and not is_group(name):
        raise ValueError(GROUP_RULE)
    return text.lower() if sort == "host" else text


def parse_expiry(kind: TokenKind, text: str, now: float) -> float | None:
    """Return the expiry of a new token from a duration such as `30d`, or `never`. Raises ValueError.

    By default, tokens for templates (enrolment, boot, cloud-init) expire after a week, and others never.
    """
    if text == "never" or (not text and not kind.is_in_templates):
        return None
    seconds = parse_duration(text) if text else _SECONDS_IN_TEMPLATES
    if seconds > _LONGEST_SECONDS:
        raise ValueError(f"{text!r} is longer than 100 years; use never")
    return now + seconds


def is_within(group: str, scope: str) -> bool:
    """Return True if a group is `scope` or a subgroup of it: `dc1/rack2` is a subgroup of `dc1`."""
    return group == scope or group.startswith(f"{scope}/")


@dataclass(frozen=True, slots=True)
class Presented:
    """A token as a client presents it."""

    id: int
    secret: str = field(repr=False)

    def fits(self, digest: str) -> bool:
        """Return True if the secret matches the stored digest. The comparison takes constant time."""
        return hmac.compare_digest(hash_secret(self.secret), digest)


def new_secret() -> str:
    """Return the secret of a new token."""
    return secrets.token_urlsafe(_BYTES)


def hash_secret(secret: str) -> str:
    """Return the stored digest of a secret."""
    return hashlib.sha256(secret.encode()).hexdigest()


def format_token(token_id: int, secret: str) -> str:
    """Return the text of a token."""
    return f"{_PREFIX}_{token_id}_{secret}"


def parse_token(text: str) -> Presented | None:
    """Parse a presented token. Returns None if it does not have the format."""
    prefix, _, rest = text.partition("_")
    number, _, secret = rest.partition("_")
    if prefix != _PREFIX or not secret.isascii() or not (number.isascii() and number.isdecimal()):
        return None
    return Presented(int(number[:18]), secret)
