"""All that an application answers, to be walked through by tests."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from starlette.applications import Starlette
from starlette.routing import BaseRoute, Mount, Route

PARAMETER = re.compile(r"{(\w+)(?::(\w+))?}")


@dataclass(frozen=True, slots=True)
class Walked:
    """A way to ask a route."""

    method: str
    template: str

    @property
    def path(self) -> str:
        """One that it answers."""
        return PARAMETER.sub(lambda found: "1" if found[2] == "number" else "web1", self.template)

    def __str__(self) -> str:
        return f"{self.method} {self.template}"


def walk(app: Starlette) -> Iterator[Walked]:
    """Each method of each route; HEAD where it is no more than a GET without its body is left out."""
    yield from _walked(app.routes, "")


def _walked(routes: list[BaseRoute], prefix: str) -> Iterator[Walked]:
    for route in routes:
        match route:
            case Route():
                methods = set(route.methods or {"GET"})
                yield from (
                    Walked(method, f"{prefix}{route.path}")
                    for method in sorted(methods - {"HEAD"} if "GET" in methods else methods)
                )
            case Mount():
                yield Walked("GET", f"{prefix}{route.path}/anything")
                yield from _walked(route.routes, f"{prefix}{route.path}")
            case _:
                raise AssertionError(f"{route} is of a kind that is not walked through")
