"""Tokens: what they are good for, the form they have, and the groups that they may name. Pure.

A token is `srt_ID_SECRET`, 256 bits of chance; what is kept of it is the SHA-256 of the secret, which nobody
can guess back, so that no slower hash is needed.
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

_GROUP: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]*(?:/[A-Za-z0-9][A-Za-z0-9._:-]*)*")
_LONGEST_GROUP: Final = 255


def is_group(name: str) -> bool:
    """Return whether an administrator may give a group this name; a report may name its group by any text."""
    return len(name) <= _LONGEST_GROUP and _GROUP.fullmatch(name) is not None


_PREFIX: Final = "srt"
_BYTES: Final = 32
_SECONDS_IN_TEMPLATES: Final = 7 * 86_400.0
_LONGEST_SECONDS: Final = 100 * 365 * 86_400.0


class TokenKind(StrEnum):
    """The purpose of a token."""

    HOST = "host"
    """Writes for one host, and reads nothing."""
    GROUP = "group"
    """Writes for the hosts of a group and of the groups below it, and reads nothing."""
    READER = "reader"
    """Reads everything, or with a scope the hosts of a group and of the groups below it."""
    ADMIN = "admin"
    ENROLMENT = "enrolment"
    """Gets one token of a host, once. Its scope is none, `host:NAME` or `group:NAME`."""
    BOOT = "boot"
    """Reports one step of one host, that its image was downloaded; it stands in an address."""
    CLOUD_INIT = "cloud-init"
    """Reports what cloud-init of one host does; it stands in an address."""

    @property
    def is_in_templates(self) -> bool:
        """Return whether a new token of this kind expires by itself, because many people can read its
        template.
        """
        return self in {TokenKind.ENROLMENT, TokenKind.BOOT, TokenKind.CLOUD_INIT}


_SORTS: Final = {
    TokenKind.HOST: "host",
    TokenKind.BOOT: "host",
    TokenKind.CLOUD_INIT: "host",
    TokenKind.GROUP: "group",
    TokenKind.READER: "group",
}
"""The kind of name that the scope of a token is."""


class Forbidden(Exception):  # noqa: N818  # a refusal, told as 403
    """A valid token without the right to do this."""


@dataclass(frozen=True, slots=True)
class Grant:
    """The rights of a request's token."""

    token_id: int
    kind: TokenKind
    scope: str = ""
    name: str = ""

    @property
    def holder(self) -> str:
        """Return the name of the actor, as written into the audit log."""
        return f"token {self.token_id} ({self.name})" if self.name else f"token {self.token_id}"

    @property
    def may_read(self) -> bool:
        return self.kind in {TokenKind.READER, TokenKind.ADMIN}

    @property
    def may_administer(self) -> bool:
        return self.kind is TokenKind.ADMIN

    @property
    def confined_to(self) -> str:
        """Return the group that a reader is confined to; empty for a reader of everything."""
        return self.scope if self.kind is TokenKind.READER else ""

    def may_read_group(self, group: str) -> bool:
        """Return whether it may read about the hosts in that group."""
        return self.may_read and (not self.confined_to or is_within(group, self.confined_to))

    def readable_groups(self, requested: Sequence[str]) -> tuple[str, ...]:
        """Narrow the requested groups to those it may read; without a request, return all of these.

        Raises Forbidden when it may read none of them.
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
        """Return whether it may report for that host in that group."""
        match self.kind:
            case TokenKind.ADMIN:
                return True
            case TokenKind.HOST:
                return host == self.scope
            case TokenKind.GROUP:
                return is_within(group, self.scope)
        return False

    def may_enrol(self, host: str, group: str) -> bool:
        """Return whether it may get a token of that host in that group."""
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
        """Return the group of a host that is enrolled before it is known, and asks for this one."""
        sort, _, name = self.scope.partition(":")
        return name if sort == "group" and not is_within(group, name) else group

    def group_of_new_host(self, group: str) -> str:
        """Return the group of a host that is reported for the first time, and asks for this one."""
        if self.kind is TokenKind.GROUP and not is_within(group, self.scope):
            return self.scope
        return group


def scope_of(kind: TokenKind, text: str) -> str:
    """Return the scope of a new token. Raises ValueError, with the valid forms."""
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


def expiry_of(kind: TokenKind, text: str, now: float) -> float | None:
    """Return the expiry of a new token, given a duration such as `30d`, or `never`. Raises ValueError with
    the fault.

    A token of kind enrolment, boot or cloud-init stands in templates and ends after a week; others do not.
    """
    if text == "never" or (not text and not kind.is_in_templates):
        return None
    seconds = parse_duration(text) if text else _SECONDS_IN_TEMPLATES
    if seconds > _LONGEST_SECONDS:
        raise ValueError(f"{text!r} is longer than 100 years; use never")
    return now + seconds


def is_within(group: str, scope: str) -> bool:
    """Return whether a group is `scope`, or below it: `dc1/rack2` is below `dc1`."""
    return group == scope or group.startswith(f"{scope}/")


@dataclass(frozen=True, slots=True)
class Presented:
    """A token in the form in which a client presents it."""

    id: int
    secret: str = field(repr=False)

    def fits(self, digest: str) -> bool:
        """Return whether it matches the stored digest, in a time that reveals nothing."""
        return hmac.compare_digest(digest_of(self.secret), digest)


def new_secret() -> str:
    """Return the secret of a new token."""
    return secrets.token_urlsafe(_BYTES)


def digest_of(secret: str) -> str:
    """Return the stored digest of a secret."""
    return hashlib.sha256(secret.encode()).hexdigest()


def spelled(token_id: int, secret: str) -> str:
    """Return a token in the form in which it is handed out."""
    return f"{_PREFIX}_{token_id}_{secret}"


def presented(text: str) -> Presented | None:
    """Parse a token that a client presents; None if it does not have the form of one."""
    prefix, _, rest = text.partition("_")
    number, _, secret = rest.partition("_")
    if prefix != _PREFIX or not secret.isascii() or not (number.isascii() and number.isdecimal()):
        return None
    return Presented(int(number[:18]), secret)
