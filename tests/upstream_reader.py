"""What upstream's readers make of records; as strict as the strictest of them in each respect."""

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
_JUDGED: Final = ("release-image", "bootkube")
_BLANKS: Final = " \t\r\n"


class UnreadableError(Exception):
    """A record that one of upstream's readers would not take; says why."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """View that `openshift-install analyze` has of one service."""

    starts: int = 0
    successful: bool = False
    failing_stage: str = ""
    last_error: str = ""


class UpstreamReader:
    """The records of a bundle, read as upstream's tools read them.

    Two tools read records. `openshift-install analyze` (`gather bootstrap` and a failed `create cluster` too)
    streams the entries of one array, and judges release-image, then bootkube, by what it saw. The assisted
    installer's log analyzer parses bootkube's whole file and counts its attempts. This class refuses what
    either of them refuses in any version: where Go takes unclosed arrays or null for a text, this does not.
    """

    def __init__(self, members: Mapping[str, bytes]) -> None:
        """Take the regular files of a bundle by their paths, in its order: of one name the later counts."""
        self._records = {
            found[1]: content for path, content in members.items() if (found := _MEMBER.search(path))
        }

    @classmethod
    def of_bundle(cls, bundle: bytes) -> Self:
        """Take a gzipped tar archive."""
        with tarfile.open(fileobj=io.BytesIO(bundle), mode="r:gz") as archive:
            files = ((info.name, archive.extractfile(info)) for info in archive if info.isreg())
            return cls({name: file.read() for name, file in files if file is not None})

    @classmethod
    def of_gathered(cls, records: Path) -> Self:
        """Take a bundle of a host's records as upstream gathers them: the directory's files as they are."""
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
        """The entries of a service, by upstream's fields in lower case; others are nothing to it.

        Go takes a field whatever its case, and the last one of those that are alike. Raises UnreadableError.
        """
        return [
            {name.casefold(): text for name, text in fields.items() if name.casefold() in _FIELDS}
            for fields in _streamed(self._text(service))
        ]

    def judge(self, service: str) -> Judgement:
        """Judge a service; raises UnreadableError. Of one without a record nothing was ever seen."""
        starts, successful, stage, error = 0, False, "", ""
        is_after_failed_stage = False
        for entry in self.entries(service) if service in self._records else ():
            phase, has_failed = entry.get("phase"), entry.get("result") == "failure"
            starts += phase == "service start"
            successful = entry.get("result") == "success" and phase in _LAST_PHASES
            if has_failed:
                # What fails right after its stage failed because of it. Nothing else ever forgets a stage.
                stage = stage if is_after_failed_stage else entry.get("stage", "")
                error = entry.get("errormessage", "")
            is_after_failed_stage = has_failed and phase == "stage end"
        return Judgement(starts, successful, stage, error)

    def complaint(self) -> str | None:
        """The one thing that `analyze` says of the host, in our words; None when all is well to it."""
        for service in _JUDGED:
            judgement = self.judge(service)
            if judgement.starts == 0:
                return f"{service} was never started"
            if not judgement.successful:
                where = f' at stage "{judgement.failing_stage}"' if service == "bootkube" else ""
                return f"{service} failed{where}"
        return None

    def attempts(self, service: str) -> int:
        """Return how often a service was started: the different times of its starts. Raises
        UnreadableError.
        """
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


def _streamed(text: str) -> Iterator[dict[str, str]]:
    """The objects of the array that the text begins with; what stands behind it is never looked at."""
    decoder = json.JSONDecoder(parse_constant=_refuse_constant)
    at = _behind_blanks(text, 0)
    if not text.startswith("[", at):
        raise UnreadableError("does not begin with an array")
    at = _behind_blanks(text, at + 1)
    if text.startswith("]", at):
        return
    while True:
        try:
            fields, at = decoder.raw_decode(text, at)
        except ValueError as error:
            raise UnreadableError(f"not an entry: {error}") from error
        yield _checked(fields)
        at = _behind_blanks(text, at)
        if text.startswith("]", at):
            return
        if not text.startswith(",", at):
            raise UnreadableError(f"neither closed nor continued at character {at}")
        at = _behind_blanks(text, at + 1)


def _behind_blanks(text: str, at: int) -> int:
    while at < len(text) and text[at] in _BLANKS:
        at += 1
    return at


def _checked(fields: object) -> dict[str, str]:
    if not isinstance(fields, dict):
        raise UnreadableError(f"not an object: {fields!r}")
    for name, found in fields.items():
        if name.casefold() in _FIELDS and not isinstance(found, str):
            raise UnreadableError(f"{name} is not a text: {found!r}")
    return fields


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")
