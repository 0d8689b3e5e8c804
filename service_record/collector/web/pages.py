"""Render pages from templates, and serve their styles, script and icon.

A verdict is shown by a sign, a word and a colour, never by a colour alone. The address of each static file
contains a digest of its content, so that browsers may cache it without limit.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any, ClassVar, Final

from jinja2 import Environment, FileSystemLoader
from starlette.requests import Request
from starlette.responses import Response

from service_record.collector.api.answering import Refusal
from service_record.collector.assisted.host_states import WAITING
from service_record.display.html.rendering import make_environment, script, stylesheet
from service_record.display.text import count, duration
from service_record.http.collector_answers import ClusterSummary

_FOLDER: Final = Path(__file__).parent / "static"
_TYPES: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_DIGITS: Final = 16


@dataclass(frozen=True, slots=True)
class Asset:
    """A static file of pages."""

    content: bytes
    media_type: str
    address: str


@cache
def assets() -> dict[str, Asset]:
    """Return file name -> static file.

    `pages.css` begins with the styles of the HTML files that commands write (`-o html`), and `page.js` is the
    script of these files.
    """
    contents = {path.name: path.read_bytes() for path in sorted(_FOLDER.iterdir())}
    contents["pages.css"] = stylesheet().encode() + contents["pages.css"]
    contents["page.js"] = script().encode()
    made = {}
    for name, content in contents.items():
        stem, suffix = Path(name).stem, Path(name).suffix
        digest = hashlib.sha256(content).hexdigest()[:_DIGITS]
        made[name] = Asset(content, _TYPES[suffix], f"/static/{stem}-{digest}{suffix}")
    return made


async def get_asset(request: Request) -> Response:
    """`GET /static/{file}`: a static file. It needs no session."""
    for asset in assets().values():
        if asset.address == request.url.path:
            headers = {
                "Cache-Control": "public, max-age=31536000, immutable",
                "X-Content-Type-Options": "nosniff",
            }
            return Response(asset.content, media_type=asset.media_type, headers=headers)
    raise Refusal(HTTPStatus.NOT_FOUND, "no such file")


VERDICTS: Final = ("failed", "looping", "stuck", "silent", "progressing", "done")
"""Worst first, the order in which counts are shown."""
SIGNS: Final = {
    "failed": "✗",
    "looping": "↻",
    "stuck": "▲",
    "silent": "◌",
    "progressing": "●",
    "done": "✓",
    "abandoned": "▲",
    # States of clusters and of their hosts.
    "pending-for-input": "▲",
    "insufficient": "▲",
    "disconnected": "▲",
    "installing-pending-user-action": "▲",
    "resetting-pending-user-action": "▲",
    "discovering": "●",
    "known": "●",
    "ready": "●",
    "preparing-for-installation": "●",
    "preparing-successful": "●",
    "preparing-failed": "✗",
    "installing": "●",
    "installing-in-progress": "●",
    "finalizing": "●",
    "resetting": "●",
    "installed": "✓",
    "added-to-existing-cluster": "✓",
    "available": "✓",
    "error": "✗",
    "cancelled": "◌",
    "disabled": "◌",
}
_LOOKS_OF_SIGNS: Final = {
    "✗": "failure",
    "↻": "failure",
    "▲": "interrupted",
    "●": "running",
    "✓": "success",
    "◌": "faint",
}
LOOKS: Final = {word: _LOOKS_OF_SIGNS[sign] for word, sign in SIGNS.items()}
"""Verdict or state -> CSS class."""
_MINUTE: Final = 60


def took(seconds: float) -> str:
    """Format a duration in whole seconds: `12s`, `2m 3s`, `1h 5m`. `took` in live.js does the same."""
    whole = max(int(seconds), 0)
    return f"{whole}s" if whole < _MINUTE else duration(whole)


def times(number: int) -> str:
    """Format a number of repetitions: `×3`; empty for 1."""  # noqa: RUF002
    return f"×{number}" if number > 1 else ""  # noqa: RUF001


def per_cent(rate: float | None) -> str:
    """Format a share in per cent. The result is 0 % or 100 % only for exactly 0 or 1."""
    if rate is None:
        return ""
    rounded = round(rate * 100)
    if 0 < rate < 1:
        rounded = min(max(rounded, 1), 99)
    return f"{rounded} %"


def counted(total: int, counts: Mapping[str, int], verdicts: Collection[str] = ()) -> str:
    """Format the number of hosts: `31 hosts: 2 failed, 1 stuck, 28 done`, or only of some verdicts."""
    counts_text = ", ".join(
        f"{counts[verdict]} {verdict}"
        for verdict in VERDICTS
        if counts[verdict] and (not verdicts or verdict in verdicts)
    )
    return f"{count(total, 'host')}: {counts_text}" if counts_text else "no hosts"


def remove_repetition(message: str, reason: str) -> str:
    """Return the message; empty if the reason has all its words, or if it contains the whole reason."""
    words, why = (
        [word.strip('".,:;\u2026') for word in text.casefold().split()] for text in (message, reason)
    )
    is_repeated = set(words) <= {*why, ""} or f" {' '.join(why)} " in f" {' '.join(words)} "
    return "" if words and why and is_repeated else message


def waits_for_user(cluster: ClusterSummary) -> bool:
    """Return True if one of its hosts needs user action. The reason lists such hosts by their state."""
    return any(f": {state}." in cluster.reason for state in WAITING)


@cache
def environment() -> Environment:
    """Compile all templates, so that an error in one prevents the start instead of breaking a page."""
    templates = make_environment(FileSystemLoader(Path(__file__).parent / "templates"))
    templates.filters |= {
        "moment": lambda at: _iso(at).replace("T", " "),  # 2026-11-21 03:12:05Z
        "iso": _iso,
        "took": took,
        "duration": duration,
        "times": times,
        "waits_for_user": waits_for_user,
        "remove_repetition": remove_repetition,
        "iso_day": iso_day,
        "per_cent": per_cent,
    }
    templates.globals |= {
        "asset": lambda name: assets()[name].address,
        "signs": SIGNS,
        "looks": LOOKS,
        "verdicts": VERDICTS,
    }
    for name in templates.list_templates():
        templates.get_template(name)
    return templates


def render(template: str, /, **values: Any) -> str:
    """Render a template."""
    return environment().get_template(template).render(values)


def page(template: str, /, status: HTTPStatus = HTTPStatus.OK, **values: Any) -> Response:
    """Return a page that must not be cached."""
    return Response(render(template, **values), status, {"Cache-Control": "no-store"}, "text/html")


def reader_page(request: Request, template: str, /, **values: Any) -> Response:
    """Return a page for the reader who is signed in."""
    return page(template, **values, signed_in=request.state.grant.name or "session")


class LivePage(ABC):
    """The content of a page at one time. The page in a browser is updated when it changes.

    Its templates read it as `seen`.
    """

    __slots__ = ()
    template: ClassVar[str]
    """The template of the live part of the page."""
    now: float

    @property
    @abstractmethod
    def heading(self) -> str:
        """Return the heading of the page."""

    @property
    def title(self) -> str:
        """Return the title of the browser's tab."""
        return self.heading

    @property
    @abstractmethod
    def address(self) -> str:
        """Return the URL of the page, with its query."""

    @property
    @abstractmethod
    def stream(self) -> str:
        """Return the URL of the events that update the page."""

    @property
    @abstractmethod
    def state(self) -> str:
        """Return a key that changes whenever the content changes."""

    @property
    @abstractmethod
    def sentence(self) -> str:
        """Return a summary of the page, which screen readers announce after a change."""

    def whole(self) -> str:
        """Return the HTML of the live part of the page."""
        return render(self.template, seen=self)


def iso_day(at: float) -> str:
    """Format a day in UTC: `2026-11-21`."""
    return datetime.fromtimestamp(at, UTC).date().isoformat()


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds").removesuffix("+00:00") + "Z"
