"""Look at the collector's pages with Debian's Chromium."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from service_record.collector.domain.access import TokenKind
from tests.collector.serving import RunningCollector

_FLAGS: Final = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
_PATIENCE: Final = 60_000
"""Milliseconds. A page may be updated up to five seconds late, and a new verdict comes after its step."""

expect.set_options(timeout=_PATIENCE)


@contextmanager
def start_browser() -> Iterator[Browser]:
    """Start a browser. Skips the test if Chromium is not installed."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.skip("no chromium: it cannot be had here")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=list(_FLAGS))
        yield browser
        browser.close()


@contextmanager
def open_signed_in_page(
    browser: Browser, server: RunningCollector, kind: TokenKind = TokenKind.READER, **look: Any
) -> Iterator[Page]:
    """Open a window and sign in. `look` has options of the window, such as its size or colour scheme."""
    token = server.client(kind).token
    with browser.new_context(**look) as context:
        context.set_default_timeout(_PATIENCE)
        page = context.new_page()
        page.goto(f"{server.url}/login")
        page.fill("#token", token)
        page.press("#token", "Enter")
        page.wait_for_url(f"{server.url}/")
        yield page
