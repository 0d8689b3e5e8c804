"""Read records as upstream's tools do.

In each respect the reader is as strict as the strictest version of these tools.
"""

import io
import json
import re
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn, Self

_MEMBER: Final = re.compile(r"/bootstrap/services/([^.]+)\.json$")
_FIELDS: Final = frozenset(
    {"timestamp", "precommand", "postcommand", "stage", "phase", "result", "errorline", "errormessage"}
)
_LAST_PHASES: Final = frozenset({"service end", "post-command end"})
_JUDGED_SERVICES: Final = ("release-image", "bootkube")
_BLANKS: Final = " \t\r\n"


class UnreadableError(Exception):
    """A record that one of upstream's tools rejects; the message is the reason."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """The state that `openshift-install analyze` derives for one service."""

    starts: int = 0
    successful: bool = False
    failing_stage: str = ""
    last_error: str = ""


class UpstreamReader:
    """The records of a bundle, read as upstream's tools read them.

    Two tools read records. `openshift-install analyze` decodes the entries of an array one by one and judges
    first release-image, then bootkube; `gather bootstrap` and a failed `create cluster` do the same. The
    assisted installer's log analyzer parses bootkube's whole file and counts its attempts. This class rejects
    every record that either tool rejects in any version. It also rejects some that Go accepts: an unclosed
    array, and null in place of a string.
    """

    def __init__(self, members: Mapping[str, bytes]) -> None:
        """`members` maps the path of each regular file in a bundle to its content.

        If two paths have the same file name, the last one is used.
        """
        self._records = {
            found[1]: content for path, content in members.items() if (found := _MEMBER.search(path))
        }

    @classmethod
    def from_bundle(cls, bundle: bytes) -> Self:
        """Read a tar archive compressed by gzip."""
        with tarfile.open(fileobj=io.BytesIO(bundle), mode="r:gz") as archive:
            files = ((info.name, archive.extractfile(info)) for info in archive if info.isreg())
            return cls({name: file.read() for name, file in files if file is not None})

    @classmethod
    def from_directory(cls, records: Path) -> Self:
        """Read a directory of records. Upstream gathers its files unchanged."""
        return cls(
            {
                f"log-bundle-1/bootstrap/services/{path.name}": path.read_bytes()
                for path in records.iterdir()
                if path.is_file()
            }
        )

    @property
    def services(self) -> list[str]:
        return sorted(self._records)

    def entries(self, service: str) -> list[dict[str, str]]:
        """Return the entries of a service, with the fields that upstream knows, in lower case.

        Go ignores the case of field names and uses the last of equal names. Raises UnreadableError.
        """
        return [
            {name.casefold(): text for name, text in fields.items() if name.casefold() in _FIELDS}
            for fields in _decode_entries(self._text(service))
        ]

    def judge(self, service: str) -> Judgement:
        """Judge a service. A service without a record has no starts. Raises UnreadableError."""
        starts, successful, stage, error = 0, False, "", ""
        is_after_failed_stage = False
        for entry in self.entries(service) if service in self._records else ():
            phase, has_failed = entry.get("phase"), entry.get("result") == "failure"
            starts += phase == "service start"
            successful = entry.get("result") == "success" and phase in _LAST_PHASES
            if has_failed:
                # A failure right after a failed stage keeps that stage: it is the cause. Upstream keeps the
                # stage in no other case.
                stage = stage if is_after_failed_stage else entry.get("stage", "")
                error = entry.get("errormessage", "")
            is_after_failed_stage = has_failed and phase == "stage end"
        return Judgement(starts, successful, stage, error)

    def find_failure(self) -> str | None:
        """Return the failure that `analyze` reports for the host, in our words, or None."""
        for service in _JUDGED_SERVICES:
            judgement = self.judge(service)
            if judgement.starts == 0:
                return f"{service} was never started"
            if not judgement.successful:
                where = f' at stage "{judgement.failing_stage}"' if service == "bootkube" else ""
                return f"{service} failed{where}"
        return None

    def count_attempts(self, service: str) -> int:
        """Return the number of different start times of a service. Raises UnreadableError."""
        try:
            entries = json.loads(self._text(service))
            return len({entry["timestamp"] for entry in entries if entry["phase"] == "service start"})
        except (ValueError, LookupError, TypeError) as error:
            raise UnreadableError(f"{service}: {error!r}") from error

    def _text(self, service: str) -> str:
        try:
            return self._records[service].decode()
        except ValueError as error:
            raise UnreadableError(f"{service}: {error}") from error


def _decode_entries(text: str) -> Iterator[dict[str, str]]:
    """Yield the objects of the array at the start of the text. The text after the array is ignored."""
    decoder = json.JSONDecoder(parse_constant=_refuse_constant)
    at = _skip_blanks(text, 0)
    if not text.startswith("[", at):
        raise UnreadableError("does not begin with an array")
    at = _skip_blanks(text, at + 1)
    if text.startswith("]", at):
        return
    while True:
        try:
            fields, at = decoder.raw_decode(text, at)
        except ValueError as error:
            raise UnreadableError(f"not an entry: {error}") from error
        yield _check_fields(fields)
        at = _skip_blanks(text, at)
        if text.startswith("]", at):
            return
        if not text.startswith(",", at):
            raise UnreadableError(f"expected ',' or ']' at character {at}")
        at = _skip_blanks(text, at + 1)


def _skip_blanks(text: str, at: int) -> int:
    while at < len(text) and text[at] in _BLANKS:
        at += 1
    return at


def _check_fields(fields: object) -> dict[str, str]:
    if not isinstance(fields, dict):
        raise UnreadableError(f"not an object: {fields!r}")
    for name, found in fields.items():
        if name.casefold() in _FIELDS and not isinstance(found, str):
            raise UnreadableError(f"{name} is not a string: {found!r}")
    return fields


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")
