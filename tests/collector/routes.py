"""List all routes of an application, for tests that check each of them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from starlette.applications import Starlette
from starlette.routing import BaseRoute, Mount, Route

PARAMETER = re.compile(r"{(\w+)(?::(\w+))?}")


@dataclass(frozen=True, slots=True)
class RouteMethod:
    """A method and a route."""

    method: str
    template: str

    @property
    def path(self) -> str:
        """A path that matches the route."""
        return PARAMETER.sub(lambda found: "1" if found[2] == "number" else "web1", self.template)

    def __str__(self) -> str:
        return f"{self.method} {self.template}"


def list_routes(app: Starlette) -> Iterator[RouteMethod]:
    """Yield each method of each route, without the HEAD that belongs to a GET."""
    yield from _walked(app.routes, "")


def _walked(routes: list[BaseRoute], prefix: str) -> Iterator[RouteMethod]:
    for route in routes:
        match route:
            case Route():
                methods = set(route.methods or {"GET"})
                yield from (
                    RouteMethod(method, f"{prefix}{route.path}")
                    for method in sorted(methods - {"HEAD"} if "GET" in methods else methods)
                )
            case Mount():
                yield RouteMethod("GET", f"{prefix}{route.path}/anything")
                yield from _walked(route.routes, f"{prefix}{route.path}")
            case _:
                raise AssertionError(f"{route} is of a kind that is not walked through")
