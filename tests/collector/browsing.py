"""A simple browser for the collector's pages: it keeps cookies and parses pages."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlencode

from service_record.collector.domain.access import TokenKind
from tests.collector.serving import Client, Reply, RunningCollector
from tests.pages import Page, parse_page
from tests.waiting import wait_for

HTML = {"Accept": "text/html"}


@dataclass
class Visitor:
    """A browser with its cookies."""

    server: RunningCollector
    cookies: dict[str, str] = field(default_factory=dict)

    def get(self, path: str) -> Reply:
        return self._ask("GET", path, {})

    def page(self, path: str) -> Page:
        """Return a parsed page. Fails unless the status is 200."""
        reply = self.get(path)
        assert reply.status == 200, reply.body
        return parse_page(reply.body.decode())

    def send(self, path: str, headers: Mapping[str, str] | None = None, **form: str) -> Reply:
        """Send a form with the headers of a browser that shows a page of the collector."""
        return self._ask("POST", path, {"Origin": self.server.url, **(headers or {})}, form)

    def sign_in(self, token: str, place: str = "/") -> Reply:
        return self.send("/login", token=token, next=place)

    def _ask(
        self, method: str, path: str, headers: Mapping[str, str], form: Mapping[str, str] | None = None
    ) -> Reply:
        cookie = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        sent = {**HTML, **headers, **({"Cookie": cookie} if cookie else {})}
        body = None if form is None else urlencode(form).encode()
        reply = Client(self.server.url).ask(method, path, body=body, headers=sent)
        if made := reply.headers.get("set-cookie"):
            name, _, value = made.partition(";")[0].partition("=")
            self.cookies[name] = value
        return reply


def sign_in_visitor(server: RunningCollector, kind: TokenKind | str = TokenKind.READER) -> Visitor:
    """Return a browser that has signed in with a new token."""
    visitor = Visitor(server)
    assert visitor.sign_in(server.client(kind).token).status == 303
    return visitor


def wait_until_analysed(visitor: Visitor, host: str) -> Visitor:
    """Wait until the records of a host are analysed. Pages do not wait for that."""
    wait_for(lambda: "Root cause" in visitor.page(f"/hosts/{host}").texts("h2"))
    return visitor
