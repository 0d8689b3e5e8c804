"""Chromium, Debian's, through which somebody looks at the collector's pages."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from service_record.collector.domain.access import TokenKind
from tests.collector.serving import Served

_FLAGS: Final = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
_PATIENCE: Final = 60_000
"""Milliseconds. A page may be told up to five seconds late, and of a new verdict after that of a new step."""

expect.set_options(timeout=_PATIENCE)


@contextmanager
def chromium() -> Iterator[Browser]:
    """One browser; the test is skipped where there is none."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.skip("no chromium: it cannot be had here")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=list(_FLAGS))
        yield browser
        browser.close()


@contextmanager
def signed_in(
    browser: Browser, server: Served, kind: TokenKind = TokenKind.READER, **look: Any
) -> Iterator[Page]:
    """A window of somebody who has signed in, of that size, in the dark and so on."""
    token = server.client(kind).token
    with browser.new_context(**look) as context:
        context.set_default_timeout(_PATIENCE)
        page = context.new_page()
        page.goto(f"{server.url}/login")
        page.fill("#token", token)
        page.press("#token", "Enter")
        page.wait_for_url(f"{server.url}/")
        yield page
