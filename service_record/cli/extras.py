"""Say which extra of the package is missing, in one line, for every verb that needs one."""

from importlib.util import find_spec
from typing import Final

import click

EXTRAS: Final = {
    "client": ("httpx2",),
    "reporter": ("httpx2", "stamina"),
    "collector": (
        *("alembic", "httptools", "jinja2", "obstore", "prometheus_client", "psycopg"),
        *("python_multipart", "sqlalchemy", "starlette", "structlog", "uvicorn", "uvloop"),
    ),
}
"""Extra -> the modules that it brings. Without isal, which the reporter has too, zlib compresses."""


class MissingExtra(click.ClickException):
    """Not all that a verb needs is installed."""

    exit_code = click.UsageError.exit_code

    def __init__(self, extra: str, *modules: str) -> None:
        verb = "is" if len(modules) == 1 else "are"
        names = " and ".join(filter(None, (", ".join(modules[:-1]), modules[-1])))
        super().__init__(
            f"the extra '{extra}' is needed, and {names} {verb} not installed: "
            f"pip install 'service-record[{extra}]'"
        )


def require_extra(extra: str) -> None:
    """Raise MissingExtra unless all of an extra is installed."""
    missing = [name for name in EXTRAS[extra] if find_spec(name) is None]
    if missing:
        raise MissingExtra(extra, *missing)


def missing_extra(error: ModuleNotFoundError) -> MissingExtra | None:
    """Return what to say of a module that could not be imported; None when no extra brings it."""
    module = (error.name or "").partition(".")[0]
    extra = next((extra for extra, modules in EXTRAS.items() if module in modules), None)
    return MissingExtra(extra, module) if extra is not None else None
