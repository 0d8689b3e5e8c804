"""Notices of verdicts: destinations with their filters, and the texts of messages."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Annotated, Any, Final
from urllib.parse import quote

import msgspec
from msgspec import Meta

from service_record.collector.domain.access import is_within
from service_record.collector.domain.verdicts import FleetVerdict, make_cause_id
from service_record.display.text import utc
from service_record.record.config_file import parse_toml
from service_record.record.visible import visible

_BAD: Final = tuple(verdict for verdict in FleetVerdict if verdict.is_bad)
_NAME_RULE: Final = r"^[a-z0-9][a-z0-9_-]{0,31}\Z"
WEBHOOK: Final = "webhook"
"""The name of the destination of `serve --webhook`. It is reserved."""
_MAX_TITLE_CHARACTERS: Final = 200
_MAX_REASON_CHARACTERS: Final = 2_000
_MAX_HOSTS_NAMED: Final = 20
_MAX_GROUPS_NAMED: Final = 10
_MENTION: Final = re.compile(r"(?<!\w)@(?=\w)")
_BRACKETS: Final = str.maketrans("<>", "\u2039\u203a")


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """A change of a host's verdict. `at` is in seconds since 1970."""

    id: int
    host: str
    group: str
    build: int
    verdict: str
    before: str
    reason: str
    reason_before: str = ""
    at: float


class DestinationFilter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The filter of a destination. By default all notices pass."""

    verdicts: Annotated[tuple[FleetVerdict, ...], Meta(min_length=1)] = tuple(FleetVerdict)
    groups: tuple[str, ...] = ()
    """Only hosts of these groups and their subgroups; empty for all."""
    causes: tuple[str, ...] = ()
    """Patterns of reasons, or ids of causes; empty for all."""
    ends: bool = True
    """True if the end of trouble that passes the other filters is sent too."""

    def admits(self, notice: Notice) -> bool:
        """Return True if the destination gets this notice."""
        if self.groups and not any(is_within(notice.group, group) for group in self.groups):
            return False
        now, before = FleetVerdict(notice.verdict), FleetVerdict(notice.before)
        if self._matches(now, notice.reason, notice.host):
            return True
        is_end = before.is_bad and not now.is_bad
        return self.ends and is_end and self._matches(before, notice.reason_before, notice.host)

    def _matches(self, verdict: FleetVerdict, reason: str, host: str) -> bool:
        if verdict not in self.verdicts:
            return False
        if not self.causes:
            return True
        mark, text = make_cause_id(verdict, reason, host), reason.lower()
        return any(cause == mark or fnmatchcase(text, cause.lower()) for cause in self.causes)


class NewsDestination(DestinationFilter, frozen=True, kw_only=True):
    """A destination in the operator's file. Its URL may contain secrets."""

    name: Annotated[str, Meta(pattern=_NAME_RULE)]
    url: Annotated[str, Meta(min_length=1, max_length=4096)]
    verdicts: Annotated[tuple[FleetVerdict, ...], Meta(min_length=1)] = _BAD

    def __repr__(self) -> str:
        """Return only the name, because the URL contains secrets."""
        return f"NewsDestination({self.name!r})"


@dataclass(frozen=True, slots=True)
class Destinations:
    """All destinations of a file, and the public URL of the collector's page."""

    all: tuple[NewsDestination, ...] = ()
    page: str = ""


class DestinationError(Exception):
    """A destination cannot be used. The message is one line without URLs."""


_EXPECTED: Final = {
    "name": "lower case letters, digits, _ and -, at most 32",
    "url": "a URL as apprise has it, or alertmanager://HOST",
    "verdicts": f"some of {', '.join(FleetVerdict)}",
    "groups": "a list of groups",
    "causes": 'a list of patterns, such as "*no space left*"',
    "ends": "true or false",
}


def parse_destinations(text: str, path: str = "destinations") -> Destinations:
    """Parse a TOML document of `[[destination]]` tables. Raises ConfigError, whose message has no URL."""
    document = parse_toml(text, path)
    top = document.fields("a file of destinations", ("page", "destination"))
    tables = top["destination"].content if "destination" in top else None
    if not isinstance(tables, list) or not tables:
        raise document.fault("it has no [[destination]] with a name and a url")
    page = top["page"].content if "page" in top else ""
    if not isinstance(page, str) or not re.match(r"(https?://[^/\s]+\S*)?\Z", page):
        raise top["page"].fault(
            "not the address of the collector's page; use one such as https://collector.example.com"
        )
    by_name: dict[str, NewsDestination] = {}
    for table in tables:
        one = table.convert(NewsDestination, "a destination", _EXPECTED)
        if one.name in by_name or one.name == WEBHOOK:
            raise table.fields("a destination")["name"].fault(f"{one.name} is taken; use another name")
        by_name[one.name] = one
    return Destinations(tuple(by_name.values()), page.rstrip("/"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A notification as plain text."""

    title: str
    body: str
    is_bad: bool
    is_good: bool
    """True if the trouble is over."""


def make_message(together: Sequence[Notice], reason: str, page: str = "") -> Message:
    """Return the message about hosts with the same verdict and reason.

    `reason` is the first host's reason without secrets. Mentions and markup of chats are made harmless.
    """
    first, verdict = together[0], FleetVerdict(together[0].verdict)
    harmless = _remove_markup(reason)
    who = first.host if len(together) == 1 else f"{len(together)} hosts"
    headline = f"{who} {verdict}: {harmless}" if harmless else f"{who} {verdict}"
    title = _truncate(headline, _MAX_TITLE_CHARACTERS)
    lines = [] if title == headline else [_truncate(harmless, _MAX_REASON_CHARACTERS)]
    if len(together) > 1:
        lines.append(f"Hosts: {_list_names([notice.host for notice in together], _MAX_HOSTS_NAMED)}")
    groups = sorted({notice.group for notice in together if notice.group})
    if groups:
        lines.append(f"Group: {_remove_markup(_list_names(groups, _MAX_GROUPS_NAMED))}")
    lines.append(f"Before: {', '.join(sorted({notice.before for notice in together}))}")
    lines.append(f"Since: {datetime.fromtimestamp(first.at, UTC):%Y-%m-%d %H:%M:%S} UTC")
    if page:
        lines.append(f"{page}{_place(together, verdict)}")
    return Message(
        title=title,
        body="\n".join(lines),
        is_bad=verdict.is_bad,
        is_good=not verdict.is_bad and any(FleetVerdict(notice.before).is_bad for notice in together),
    )


def _place(together: Sequence[Notice], verdict: FleetVerdict) -> str:
    first = together[0]
    if len(together) == 1:
        return f"/hosts/{quote(first.host)}"
    cause = make_cause_id(verdict, first.reason, first.host)
    return f"/?cause={cause}" if cause else "/"


def _remove_markup(text: str) -> str:
    return _MENTION.sub("@ ", visible(text)).translate(_BRACKETS)


def _truncate(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _list_names(names: Sequence[str], most: int) -> str:
    text = ", ".join(names[:most])
    return text if len(names) <= most else f"{text} and {len(names) - most} more"


def make_alerts(together: Sequence[Notice], reason: str, page: str, lasts: float) -> list[dict[str, Any]]:
    """Return alerts for Alertmanager: new trouble begins, and the previous trouble ends.

    Alertmanager identifies an alert by its labels, so its end must have the same ones. `lasts`: seconds until
    an unrefreshed alert expires.
    """
    alerts = []
    for notice in together:
        if FleetVerdict(notice.before).is_bad:
            alerts.append(_alert(notice, notice.before, ends_at=notice.at))
        if FleetVerdict(notice.verdict).is_bad:
            about = {"summary": f"{notice.host} {notice.verdict}", "description": reason}
            began = {"startsAt": rfc3339(notice.at), "annotations": about}
            link = {"generatorURL": f"{page}/hosts/{quote(notice.host)}"} if page else {}
            alerts.append({**_alert(notice, notice.verdict, ends_at=notice.at + lasts), **began, **link})
    return alerts


def _alert(notice: Notice, verdict: str, *, ends_at: float) -> dict[str, Any]:
    labels = {"alertname": "HostInTrouble", "host": notice.host, "group": notice.group, "verdict": verdict}
    return {"labels": labels, "endsAt": rfc3339(ends_at)}


def rfc3339(at: float) -> str:
    """Format a time in seconds since 1970 as RFC 3339."""
    return utc(datetime.fromtimestamp(at, UTC))
