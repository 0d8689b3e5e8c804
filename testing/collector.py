"""Run a collector as a separate process, which tests can kill."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from service_record.collector.serving_settings import CollectorSettings

PROGRAM: Final = (
    sys.executable,
    "-c",
    "from service_record.cli import main; main(prog_name='service-record')",
)


@dataclass(slots=True)
class Process:
    """A running collector process."""

    url: str
    process: "subprocess.Popen[str]"
    log: Path
    """The file with its standard error."""

    def end(self, number: signal.Signals) -> int:
        """Send a signal, wait for the end of the process, and return its exit status."""
        self.process.send_signal(number)
        return self.process.wait()


@contextlib.contextmanager
def process(settings: CollectorSettings, *options: str, port: int = 0) -> Iterator[Process]:
    """Run a collector with the folder and the database of these settings, until the end of the block."""
    settings.data.mkdir(parents=True, exist_ok=True)
    errors = settings.data / f"log-{os.urandom(4).hex()}"
    arguments = ["--data", str(settings.data), "--database", settings.database, "--port", str(port)]
    with errors.open("w") as output:
        started = subprocess.Popen(
            [*PROGRAM, "collector", "serve", *arguments, *options], stderr=output, text=True
        )
    try:
        yield Process(_listening(started, errors), started, errors)
    finally:
        started.kill()
        started.wait()


def _listening(started: "subprocess.Popen[str]", errors: Path) -> str:
    """Wait until the collector listens, and return its URL."""
    while started.poll() is None:
        for line in errors.read_text().splitlines():
            if line.startswith("listening on "):
                return line.removeprefix("listening on ")
        with contextlib.suppress(subprocess.TimeoutExpired):
            started.wait(0.02)
    raise AssertionError(f"the collector did not start: {errors.read_text()}")
