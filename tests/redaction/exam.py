"""Compare `analyze` before and after redaction on an exam, and on copies whose messages speak of secrets.

    python -m tests.redaction.exam EXAM_DIRECTORY

Prints each altered line, and each case in which `analyze` says something else. `analyze` runs only where
redaction altered a file.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from service_record.redaction import Rules
from tests.redaction.measure import redact
from tests.redaction.test_prose import AROUND

_LINE: Final = re.compile(rb"(?m)^(\d{4}-\d\d-\d\dT[\d:.+]+ \S+ [^\s:\[]+(?:\[\d+\])?: )(.+)$")
_MESSAGE: Final = re.compile(rb'("errorMessage": ?)("(?:[^"\\]|\\.)*")')
_RULES: Final = Rules()


def texts(root: Path, around: str) -> dict[Path, bytes]:
    """Return the files below a directory, with other words around the message of each line and record."""
    before, behind = (part.encode() for part in around.split("{}"))

    def reworded(match: re.Match[bytes]) -> bytes:
        return match[1] + json.dumps(around.format(json.loads(match[2]))).encode()

    def reworded_line(match: re.Match[bytes]) -> bytes:
        return (match[1] + before + match[2] + behind).replace(b"\n", b" ")

    files: dict[Path, bytes] = {}
    for path in sorted(path for path in root.rglob("*") if path.is_file()):
        text = path.read_bytes()
        if around != "{}":
            text = _MESSAGE.sub(reworded, text)
            text = _LINE.sub(reworded_line, text)
        files[path.relative_to(root)] = text
    return files


def analysis(files: Mapping[Path, bytes]) -> str:
    with TemporaryDirectory() as root:
        for path, text in files.items():
            (Path(root) / path).parent.mkdir(parents=True, exist_ok=True)
            (Path(root) / path).write_bytes(text)
        command = [sys.executable, "-m", "service_record", "analyze", "--from", root, "-o", "json"]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.replace(root, "")


def changes(exam: Path) -> Iterator[str]:
    """Yield a text for each altered line, and for each case whose analysis changes."""
    for case in sorted((exam / "cases").iterdir()):
        for source, (name, around) in (
            (each, form) for each in ("records", "bundle") for form in AROUND.items()
        ):
            root = case / source
            if not root.is_dir():
                continue
            before = texts(root, around)
            after = {path: redact(text, _RULES) for path, text in before.items()}
            for path, text in before.items():
                pairs = zip(text.split(b"\n"), after[path].split(b"\n"), strict=True)
                yield from (f"{case.name} {path}, {name}: {a!r} -> {b!r}" for a, b in pairs if a != b)
            if after != before and analysis(before) != analysis(after):
                yield f"{case.name}, {source}, {name}: ANALYSIS DIFFERS"


if __name__ == "__main__":
    found = list(changes(Path(sys.argv[1])))
    print("\n".join(found))
    sys.exit(bool(found))
