"""Make the journal-only exam: the cases of an exam with nothing but the journal of the latest boot.

    python -m tests.exam_journals EXAM_DIRECTORY OUT

OUT/text, OUT/json and OUT/export are exams of their own, each with the cases' journal as one file called
`bundle`, as `journalctl -b`, `-o json` and `-o export` print it. Grade one with
`python3 OUT/text/run.py PATH-TO-service-record`.
"""

import json
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

JOURNAL: Final = Path("bootstrap/journals/journal.log")
_LINE: Final = re.compile(
    r"(?P<time>\d{4}-\d\d-\d\dT[\d:.]+\+00:00) (?P<host>\S+) "
    r"(?P<name>[^\s:\[]+)(?:\[(?P<pid>\d+)\])?: (?P<text>.*)"
)
_UNIT: Final = re.compile(r"(?:(?:Started|Starting|Finished|Stopped|Failed to start) )?(\S+\.service)\b")
_WARNING: Final = "Failed with result|Failed to start|Dependency failed|Start request repeated"

Fields = dict[str, str]


def journal_fields(bundle: Path) -> list[Fields]:
    """Return the journal of a bundle of the exam as fields of journald, one entry for each line."""
    folder = (bundle / JOURNAL).parent
    boot_id = re.search("[0-9a-f]{32}", (folder / "boots.txt").read_text())
    units = _units_by_line(folder)
    pids = _services_by_pid(bundle)
    entries: list[Fields] = []
    for line in (bundle / JOURNAL).read_text().splitlines():
        match = _LINE.fullmatch(line)
        if match is None:
            raise SystemExit(f"{bundle / JOURNAL}: not a line of journalctl -o short-iso-precise: {line}")
        microseconds = int(datetime.fromisoformat(match["time"]).timestamp() * 1_000_000)
        fields = {
            "__CURSOR": f"s=1;i={len(entries) + 1:x}",
            "__REALTIME_TIMESTAMP": str(microseconds),
            "__MONOTONIC_TIMESTAMP": str(len(entries) * 1000),
            "_BOOT_ID": boot_id[0] if boot_id is not None else "0" * 32,
            "_HOSTNAME": match["host"],
            "PRIORITY": "6",
            "SYSLOG_IDENTIFIER": match["name"],
            "MESSAGE": match["text"],
            "_TRANSPORT": "kernel" if match["name"] == "kernel" else "stdout",
        }
        if match["pid"]:
            fields["_PID"] = match["pid"]
        if match["pid"] == "1":
            fields["_SYSTEMD_UNIT"] = "init.scope"
            if re.search(_WARNING, match["text"]):
                fields["PRIORITY"] = "4"
            if (unit := _UNIT.match(match["text"])) is not None:
                fields["UNIT"] = unit[1]
        elif (service := pids.get(match["pid"] or "") or units.get(line)) is not None:
            fields["_SYSTEMD_UNIT"] = f"{service}.service"
        entries.append(fields)
    return entries


def _units_by_line(folder: Path) -> dict[str, str]:
    """Return the unit of the lines that a bundle has in files of one unit, too."""
    others = {"journal", "kernel", "time"}
    files = [path for path in folder.glob("*.log") if path.stem not in others and "boot-" not in path.stem]
    return {line: path.stem for path in files for line in path.read_text().splitlines()}


def _services_by_pid(bundle: Path) -> dict[str, str]:
    records = (bundle / "bootstrap/services").glob("*.json")
    return {pid: path.stem for path in records for pid in re.findall(r'"pid": ?(\d+)', path.read_text())}


def as_text(entries: list[Fields]) -> Iterator[bytes]:
    """Yield the lines of `journalctl -b`."""
    for fields in entries:
        time = datetime.fromtimestamp(int(fields["__REALTIME_TIMESTAMP"]) / 1_000_000, UTC)
        pid = f"[{fields['_PID']}]" if "_PID" in fields else ""
        name = fields["SYSLOG_IDENTIFIER"]
        yield f"{time:%b %d %H:%M:%S} {fields['_HOSTNAME']} {name}{pid}: {fields['MESSAGE']}\n".encode()


def as_json(entries: list[Fields]) -> Iterator[bytes]:
    """Yield the lines of `journalctl -b -o json`."""
    return (json.dumps(fields, ensure_ascii=False).encode() + b"\n" for fields in entries)


def as_export(entries: list[Fields]) -> Iterator[bytes]:
    """Yield the entries of `journalctl -b -o export`."""
    return ("".join(f"{name}={value}\n" for name, value in each.items()).encode() + b"\n" for each in entries)


FORMS: Final[dict[str, Callable[[list[Fields]], Iterator[bytes]]]] = {
    "text": as_text,
    "json": as_json,
    "export": as_export,
}


def make_exam(exam: Path, out: Path) -> None:
    """Write an exam for each form of the journal."""
    for form in FORMS:
        (out / form).mkdir(parents=True, exist_ok=True)
        for name in ("run.py", "grades.toml"):
            shutil.copyfile(exam / name, out / form / name)
    for case in sorted((exam / "cases").iterdir()):
        entries = journal_fields(next((case / "bundle").iterdir()))
        # `only` has run.py ask `bundle` itself, here a file, instead of what is in it.
        text = re.sub(r"(?m)^only = .*$", 'only = "bundle"', (case / "case.toml").read_text())
        for form, lines in FORMS.items():
            place = out / form / "cases" / case.name
            place.mkdir(parents=True, exist_ok=True)
            (place / "case.toml").write_text(text)
            (place / "bundle").write_bytes(b"".join(lines(entries)))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit("usage: python -m tests.exam_journals EXAM_DIRECTORY OUT")
    make_exam(Path(sys.argv[1]), Path(sys.argv[2]))
