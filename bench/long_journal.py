"""Measure how long a journal of 250 MB takes to read, and how much memory.

    python -m bench.long_journal [text|json|export] [MEGABYTES]

The journal has the messages of some boots with failures and restarts, and the lines of busy services between.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, Final

_SERVICES: Final = 60
_LINES_BETWEEN: Final = 40
_BOOT_LINES: Final = 400_000
_STARTING: Final = "7d4958e842da4a758f6c1cdc7b36dcc5"
_STARTED: Final = "39f53479d3a045ac8e11786248231fbf"


def messages() -> Iterator[dict[str, str]]:
    """Yield the fields of entries without end."""
    number = 0
    while True:
        boot = f"{number // _BOOT_LINES + 1:032x}"
        service = f"job-{number // _LINES_BETWEEN % _SERVICES}"
        invocation = f"{number // _LINES_BETWEEN:032x}"
        stamp = {
            "__REALTIME_TIMESTAMP": str(1_795_000_000_000_000 + number * 50_000),
            "__MONOTONIC_TIMESTAMP": str(number % _BOOT_LINES * 50_000),
            "_BOOT_ID": boot,
            "_HOSTNAME": "node",
            "_MACHINE_ID": "0" * 32,
            "PRIORITY": "6",
        }
        step = number % _LINES_BETWEEN
        number += 1
        of_systemd = {"_PID": "1", "SYSLOG_IDENTIFIER": "systemd", "UNIT": f"{service}.service"}
        of_systemd |= {"INVOCATION_ID": invocation, "_SYSTEMD_UNIT": "init.scope"}
        unit = f"{service}.service"
        texts = {
            0: (f"Starting {unit} - The job...", _STARTING),
            1: (f"Started {unit} - The job.", _STARTED),
            38: (f"{unit}: Main process exited, code=exited, status=1/FAILURE", ""),
            39: (f"{unit}: Failed with result 'exit-code'.", ""),
        }
        if step in texts:
            text, message_id = texts[step]
            yield stamp | of_systemd | {"MESSAGE": text, "MESSAGE_ID": message_id}
        else:
            own = {"_PID": str(1000 + number % 3000), "SYSLOG_IDENTIFIER": service, "_SYSTEMD_UNIT": unit}
            text = f'level=info msg="reconciled object {number}" controller=node attempt={step} took=12ms'
            yield stamp | own | {"_SYSTEMD_INVOCATION_ID": invocation, "MESSAGE": text}


def write(form: str, megabytes: int, file: BinaryIO) -> None:
    """Write a journal of so many megabytes."""
    size = 0
    for fields in messages():
        if form == "json":
            data = json.dumps(fields, separators=(",", ":")).encode() + b"\n"
        elif form == "export":
            data = "".join(f"{name}={value}\n" for name, value in fields.items()).encode() + b"\n"
        else:
            moment = datetime.fromtimestamp(int(fields["__REALTIME_TIMESTAMP"]) / 1e6, UTC)
            data = (
                f"{moment:%b %d %H:%M:%S} node {fields['SYSLOG_IDENTIFIER']}[{fields['_PID']}]: "
                f"{fields['MESSAGE']}\n"
            ).encode()
        file.write(data)
        size += len(data)
        if size >= megabytes << 20:
            return


def main() -> None:
    form = sys.argv[1] if len(sys.argv) > 1 else "text"
    megabytes = int(sys.argv[2]) if len(sys.argv) > 2 else 250
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "journal")
        with path.open("wb") as file:
            write(form, megabytes, file)
        for verb in ("show", "timeline"):
            begun, used = time.monotonic(), _processor_seconds()
            subprocess.run(
                [Path(sys.executable).with_name("service-record"), verb, "--from", str(path)],
                check=True,
                stdout=subprocess.DEVNULL,
            )
            seconds, used = time.monotonic() - begun, _processor_seconds() - used
            memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
            sys.stdout.write(
                f"{form} {megabytes} MB: {verb} took {seconds:.1f} s ({used:.1f} s of a processor), "
                f"at most {memory:.0f} MB\n"
            )


def _processor_seconds() -> float:
    """Return the time of all children that have ended: other programs on the machine do not change it."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
