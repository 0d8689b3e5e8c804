"""Start a collector with any options: it serves, or reports an error in one line."""

import gc
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from hypothesis import example, given, settings
from hypothesis import strategies as st

from service_record.collector.process import StepsError
from tests.fuzz.asgi import capture_log, run_application
from tests.fuzz.command import limit_time, service_record
from tests.fuzz.corpus import with_corpus
from tests.fuzz.loopback import block_network
from tests.fuzz.odd_settings import STEP_FILES
from tests.fuzz.places import change_directory, create_directory
from tests.fuzz.reply_checks import check_next_request, sign_in

TEXTS = st.sampled_from(
    [
        *("", " ", "\udcff", "a\nb", "\x1b[2J", "-", "..", "nan", "inf", "-1", "0", "1e400", "9" * 400),
        *("x" * 300, "http://[", "http://\u2100", "http://a:99999/", "https://", "http://a b/", "[::1]"),
        *("::", "a..b", ".", "é", "postgresql://", "postgresql://[/x", "sqlite:///x", "mysql://a/b"),
        *("postgresql://a:b\udcff@h/x", "://", "s3://", "s3://b/p?x", "file:///x", "s3://[", "gs://b"),
        *("memory://", "10.0.0.0/99", "*", "999.1.1.1", "{given}", "{folder}", "{folder}/no/such", "1h30m"),
        *("20G", "99999999999999h", "debug", "loud", "127.0.0.1"),
    ]
)
OPTIONS = st.sampled_from(
    [
        *("--budget", "--rate", "--keep-days", "--keep-bytes", "--webhook", "--webhook-secret-file"),
        *("--certificate", "--key", "--proxy", "--objects", "--steps", "--log-level", "--database", "--data"),
        *("--host", "--port"),
    ]
)


@contextmanager
def stop_server() -> Iterator[None]:
    """Send SIGTERM repeatedly. The server stops at the first one after it has started; this process ignores
    the others.
    """
    is_over = threading.Event()

    def ignore(_number: int, _frame: FrameType | None) -> None:
        pass

    def send_repeatedly() -> None:
        while not is_over.wait(0.1):
            os.kill(os.getpid(), signal.SIGTERM)

    before, thresholds = signal.signal(signal.SIGTERM, ignore), gc.get_threshold()
    thread = threading.Thread(target=send_repeatedly)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        signal.signal(signal.SIGTERM, before)
        gc.unfreeze()
        gc.set_threshold(*thresholds)


@settings(max_examples=25)
@example({"--rate": "nan"}, b"")
@example({"--rate": "inf"}, b"")
@example({"--keep-days": "nan"}, b"")
@example({"--webhook": "http://["}, b"")
@example({"--host": "\udcff"}, b"")
@example({"--host": "x" * 300}, b"")
@example({"--port": "65536"}, b"")
@example({"--proxy": ""}, b"")
@example({"--proxy": "10.0.0.0/99"}, b"")
@given(st.dictionaries(OPTIONS, TEXTS, min_size=1, max_size=2), st.binary(max_size=40) | STEP_FILES)
def test_collector_starts_or_reports_one_error(options: dict[str, str], content: bytes) -> None:
    with (
        create_directory() as directory,
        capture_log(),
        block_network(),
        stop_server(),
        change_directory(directory / "out"),
    ):
        given = directory / "given"
        given.write_bytes(content)
        options_with_defaults = {"--data": str(directory / "out" / "data"), "--port": "0", **options}
        arguments = [
            text.replace("{given}", str(given)).replace("{folder}", str(directory / "out"))
            for pair in options_with_defaults.items()
            for text in pair
        ]
        with limit_time("settings: of a collector"):
            answer = service_record(
                *("collector", "serve", *arguments),
                stdin=b"", encoding="utf-8", scratch=directory / "scratch",
            )  # fmt: skip
            assert answer.status in {0, 2, 3}, answer.err
            assert "Traceback" not in answer.err
            if answer.status:
                last = answer.err.splitlines()[-1]
                assert last.startswith("Error: "), answer.err


@settings(max_examples=15)
@with_corpus("steps", "file")
@given(STEP_FILES)
def test_defined_steps_can_be_reported_and_shown(file: bytes) -> None:
    with create_directory() as directory, limit_time("settings: steps that are reported"):
        steps = directory / "steps.toml"
        steps.write_bytes(file)
        if (error := report_steps(steps)) is not None:
            assert error.startswith(f"{steps}:")
            assert "\n" not in error


def report_steps(steps: Path) -> str | None:
    """Report the first steps that a file defines. Return the error if the file is refused."""
    try:
        with run_application(steps=(steps,)) as collector:
            cookie = sign_in(collector)
            bearer = [(b"authorization", f"Bearer {collector.token('admin')}".encode())]
            known = collector.process.definitions.by_label
            for label in list(known)[:3]:
                for status in ("init", "done"):
                    query = f"/api/v1/hosts/web1/steps?name={label}&status={status}".encode()
                    assert collector.ask("GET", query, bearer).status == 201
            check_next_request(collector, cookie, 201 if "good" in known else 422)
    except StepsError as error:
        return str(error)
    return None
