"""Renders pages from templates. What a browser may do with them is in the headers of every answer."""

from datetime import UTC, datetime
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import Response

from service_record.collector.web.assets import assets
from service_record.collector.web.words import LOOKS, SIGNS, VERDICTS, times, took
from service_record.display.hosts import stopped_at
from service_record.display.text import duration, visible


@cache
def environment() -> Environment:
    """The templates, all compiled, so that a fault in one stops the start and not a page."""
    made = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_readable,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "moment": _moment,
        "iso": _iso,
        "took": took,
        "duration": duration,
        "times": times,
        "stopped_at": stopped_at,
    }
    made.globals |= {
        "asset": lambda name: assets()[name].address,
        "signs": SIGNS,
        "looks": LOOKS,
        "verdicts": VERDICTS,
    }
    for name in made.list_templates():
        made.get_template(name)
    return made


def render(template: str, /, **values: Any) -> str:
    """The text of a template."""
    return environment().get_template(template).render(values)


def page(template: str, /, status: HTTPStatus = HTTPStatus.OK, **values: Any) -> Response:
    """A page, which nobody keeps."""
    return Response(render(template, **values), status, {"Cache-Control": "no-store"}, "text/html")


def _readable(value: object) -> object:
    """Texts of others with what nobody would see written out; line ends stay."""
    if type(value) is not str or (value.isascii() and value.isprintable()):
        return value
    return "\n".join(map(visible, value.split("\n")))


def _moment(at: float) -> str:
    """`2026-11-21 03:12:05Z`."""
    return _iso(at).replace("T", " ")


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds").removesuffix("+00:00") + "Z"
