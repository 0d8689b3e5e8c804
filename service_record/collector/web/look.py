"""What somebody looks at: the filters in the URL of a fleet. Pure."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, Self
from urllib.parse import urlencode

from starlette.datastructures import QueryParams

from service_record.collector.store.fleet import SHOWN_DONE, Filters
from service_record.collector.web.words import VERDICTS

ROWS: Final = 100
"""Hosts on one page."""
_MOST_PAGES: Final = 100_000
_MOST_WORDS: Final = 50
_NAMES: Final = re.compile(r"[\s,]+")
"""What is between the names of machines in one field."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Filters as a URL has them: `?group=dc1&machine=web*&verdict=failed&cluster=prod&all=1&page=2`."""

    groups: tuple[str, ...] = ()
    machines: tuple[str, ...] = ()
    verdicts: tuple[str, ...] = ()
    clusters: tuple[str, ...] = ()
    """Ids or names."""
    all: bool = False
    """With hosts that have been done for long."""
    page: int = 1

    @classmethod
    def of(cls, query: QueryParams) -> Self:
        """What a query asks for; what it asks in vain is left out."""
        return cls(
            groups=given(query.getlist("group")),
            machines=given(name for field in query.getlist("machine") for name in _NAMES.split(field)),
            verdicts=tuple(verdict for verdict in VERDICTS if verdict in query.getlist("verdict")),
            clusters=given(query.getlist("cluster")),
            all=query.get("all", "") not in {"", "0"},
            page=_page(query.get("page", "")),
        )

    @property
    def query(self) -> str:
        """The query of a URL that asks for this: empty, or with its question mark."""
        fields: list[tuple[str, str]] = [("group", group) for group in self.groups]
        fields += [("machine", machine) for machine in self.machines]
        fields += [("verdict", verdict) for verdict in self.verdicts]
        fields += [("cluster", cluster) for cluster in self.clusters]
        fields += [("all", "1")] * self.all
        fields += [("page", str(self.page))] * (self.page > 1)
        return f"?{urlencode(fields)}" if fields else ""

    @property
    def is_narrowed(self) -> bool:
        """Whether hosts are left out by what somebody asked for."""
        return bool(self.groups or self.machines or self.verdicts or self.clusters)

    @property
    def shows_clusters(self) -> bool:
        """Return whether clusters are shown above the hosts: all of them, or those that were asked for."""
        is_whole = self.page == 1 and not (self.groups or self.machines or self.verdicts)
        return is_whole or bool(self.clusters)

    def only(self, verdict: str) -> "Look":
        """The same of one verdict; of all where it is of that one already."""
        return replace(self, verdicts=() if self.verdicts == (verdict,) else (verdict,), page=1)

    def at(self, page: int) -> "Look":
        return replace(self, page=page)

    def filters(self, now: float, confined_to: str = "") -> Filters:
        """Return the same for the database, for a reader who may be confined to a group."""
        return Filters(
            confined_to=confined_to,
            groups=self.groups,
            machines=self.machines,
            verdicts=self.verdicts,
            clusters=self.clusters,
            done_since=None if self.all else now - SHOWN_DONE,
        )


def given(fields: Iterable[str]) -> tuple[str, ...]:
    """What is in some fields; NUL, which no database takes, is in none."""
    words = (field.replace("\0", "").strip() for field in fields)
    return tuple(dict.fromkeys(word for word in words if word))[:_MOST_WORDS]


def _page(text: str) -> int:
    return max(1, min(int(text), _MOST_PAGES)) if text.isascii() and text.isdecimal() else 1
