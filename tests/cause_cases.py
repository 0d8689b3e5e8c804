"""Read the test cases of the cause rules: inputs that a rule must match, and near misses.

tests/causes/FAMILY.yaml has the cases. A case may have these keys:

- `own`, `exit`, `signal`, `systemd`, `kind`, `stage`, `command`, `service`: the last lines of a failed
  service, and how it ended. A case with none of them, or only `service`, has no failed service.
- `kernel`, `journal`, `agent`, `installer`: lines of logs. `units` and `containers` map names to their lines,
  and `files` maps paths in a bundle to texts. `earlier_boot` names a service that succeeded in the previous
  boot, and `runs` lists running services.
- `says`: the expected words of the cause.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import yaml

from service_record.diagnosis.causes import Causes
from service_record.diagnosis.findings import KnownCause, TroubleFacts
from service_record.diagnosis.judgement import make_scanner
from service_record.history import History, build_history
from service_record.history.outcome import Facts
from service_record.record.entry import Phase
from tests.builders import entry

FOLDER: Final = Path(__file__).parent / "causes"
TOP: Final = "log-bundle-1/bootstrap/"
_ENDS: Final = ("own", "exit", "signal", "systemd", "kind", "stage", "command")
_AT: Final = "2026-03-02T09:00:00.000000+00:00 host"


@dataclass(frozen=True, slots=True)
class CauseCase:
    """One case of one rule."""

    rule: str
    is_near_miss: bool
    values: Mapping[str, Any]

    @property
    def says(self) -> str | None:
        return self.values.get("says")

    @property
    def trouble(self) -> TroubleFacts | None:
        """Return the facts about the failed service; None if no service has failed."""
        values = self.values
        if not any(name in values for name in _ENDS):
            return None
        signal, systemd = values.get("signal"), values.get("systemd")
        ended = Facts(
            message=values.get("own"),
            command=values.get("command"),
            exit_code=int(values.get("exit", 1)) if signal is None and systemd is None else None,
            signal=signal,
            service_result=systemd,
        )
        kinds = values.get("kind", "failed")
        return TroubleFacts(
            kinds=frozenset([kinds] if isinstance(kinds, str) else kinds),
            service=values.get("service", "job"),
            stage=values.get("stage"),
            facts=ended,
        )

    @property
    def files(self) -> dict[str, str]:
        """Return the files of the bundle: path -> text."""
        values = self.values
        files = {f"{TOP}{path}": text for path, text in values.get("files", {}).items()}
        if "kernel" in values:
            files[f"{TOP}journals/kernel.log"] = _format_journal("kernel", values["kernel"])
        journal = _format_journal("", values["journal"]) if "journal" in values else ""
        journal += "".join(
            _format_journal(f"{name}[7]", text) for name, text in values.get("units", {}).items()
        )
        if journal:
            files[f"{TOP}journals/journal.log"] = journal
        for name, text in values.get("containers", {}).items():
            files[f"{TOP}containers/{name}-1f2e.log"] = f"{text}\n"
        if "agent" in values:
            files[f"{TOP}agent/agent.log"] = f"{values['agent']}\n"
        if "installer" in values:
            files["var/log/cloud-init.log"] = f"{values['installer']}\n"
        return files

    def _history(self) -> History:
        earlier = self.values.get("earlier_boot")
        if earlier is None:
            return build_history((name, [entry(Phase.SERVICE_START)]) for name in self.values.get("runs", ()))
        ended = [entry(Phase.SERVICE_START), entry(Phase.SERVICE_END, 9)]
        now = [entry(Phase.SERVICE_START, 99, boot_id="b1" * 16, invocation_id="2f" * 16)]
        return build_history([(earlier, ended), ("set-hostname", now)])

    def named_cause(self, causes: Causes, around: Mapping[str, str] | None = None) -> KnownCause | None:
        """Return the cause that the rules find, if the files of another host (`around`) are added."""
        history = self._history()
        other = around or {}
        files = {path: text for path, text in other.items() if path not in self.files}
        files |= {path: _combine(other.get(path, ""), text) for path, text in self.files.items()}
        if files:
            reading = make_scanner(causes, history)
            for path, text in files.items():
                reading.read(path, BytesIO(text.encode()).read)
            causes = causes.with_evidence(reading.evidence(), history)
        trouble = self.trouble
        return causes.explain_host() if trouble is None else causes.explain(trouble)


def _combine(before: str, text: str) -> str:
    """Append a log to the file of the other host. Any other text replaces that file."""
    return before + text if text.startswith("2026-") else text


def _format_journal(program: str, text: str) -> str:
    """Return the text in the format of a journal. If `program` is empty, each line already has one."""
    return "".join(
        f"{_AT} {program}: {line}\n" if program else f"{_AT} {line}\n" for line in text.splitlines()
    )


def cause_cases() -> Iterator[CauseCase]:
    """Yield all cases, in the order of the files."""
    for path in sorted(FOLDER.glob("*.yaml")):
        for one in yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader) or ():
            for name, is_near_miss in (("fires", False), ("misses", True)):
                yield from (CauseCase(one["rule"], is_near_miss, case) for case in one.get(name, ()))
