"""Derive records from the journals and installers' logs of a source, or from the journal of this host."""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from io import BytesIO
from itertools import chain, islice
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from service_record.diagnosis.evidence.journal_forms import Read, convert_to_lines
from service_record.diagnosis.evidence.journal_runs import CONSOLE, SYSTEMD_LINE, read_console, read_runs
from service_record.diagnosis.evidence.log_lines import (
    INSTALLER,
    Era,
    LogStream,
    classify_file,
    log_line,
    parse_time,
)
from service_record.history.from_installers import (
    CLOUD_INIT_RESULT,
    CLOUD_INIT_UNITS,
    InstallerLine,
    InstallerLog,
    end_with_anaconda,
    find_installer,
    insert_stages,
    read_cloud_init_result,
    read_cloud_init_status,
    read_journal_lines,
)
from service_record.history.from_installers import entries as installer_entries
from service_record.history.from_journal import merge
from service_record.read.host_files import host_files
from service_record.read.source import Source, SourceError
from service_record.record.entry import Entry, Phase, Piece, Result
from service_record.record.programs import Deadline, NoProgramError, ProgramError, reading
from service_record.record.recognition import HEAD_BYTES, LOGS, FileForm, recognise

if TYPE_CHECKING:
    from service_record.bundle.contents import Content, Leave

_JOURNALS: Final = frozenset(
    {FileForm.JOURNAL, FileForm.JOURNAL_JSON, FileForm.JOURNAL_EXPORT, FileForm.JOURNAL_VERBOSE}
)
_CLOUD_INIT_STATE: Final = r"(?:^|/)(?:cloud|cloud-init|data)/(?:data/)?(?P<name>status|result)\.json$"
_JOURNAL_OF_UNIT: Final = r"(?:^|/)journals/([^/]+?)(?:\.service)?\.log$"
"""A file of OpenShift's log bundle with the journal of one service."""
_JOURNAL_LINES: Final = rf"(?m)^{SYSTEMD_LINE}".encode()
_CONSOLES: Final = frozenset({FileForm.TEXT, FileForm.KERNEL, FileForm.UTF_16})
_COLOURS: Final = rb"(?:\x1b|\^\[)\[[0-9;]*m|\[\d{1,3}(?:;\d{1,3}){0,3}m"
_ENDS: Final = rb"end(?:s|ing)? at \S{1,20} ((?:19|20)\d\d-\d\d-\d\d \d\d:\d\d:\d\d)"
"""The end time in the first line of a journal as text, which journalctl prints."""
_FIELDS: Final = (
    *("MESSAGE", "MESSAGE_ID", "UNIT", "USER_UNIT", "INVOCATION_ID", "JOB_RESULT", "UNIT_RESULT"),
    "_SOURCE_REALTIME_TIMESTAMP",
    *("EXIT_CODE", "EXIT_STATUS", "SYSLOG_IDENTIFIER", "_PID", "_SYSTEMD_UNIT", "_SYSTEMD_INVOCATION_ID"),
)
_JOURNALCTL: Final = (
    *("journalctl", "--quiet", "--no-pager", "--all", "--output=json", "--lines=500000"),
    f"--output-fields={','.join(_FIELDS)}",
)
_MAX_FAILED: Final = 50
"""Maximum number of failed units whose own lines are read from this host's journal."""
_LIVE: Final = "the journal of this host"
_LIVE_SECONDS: Final = 60.0  # for reading the journal and finding its runs
_MAX_JOURNAL_BYTES: Final = 4 << 30

Records = Mapping[str, Sequence[Entry]]


def add_derived(source: Source, leave: "Leave | None" = None) -> Source:
    """Return the source with the runs from its journals and installers' logs added.

    If an invocation is in a record, only a missing end is added to it. `leave` is called with each file that
    was not read. Logs of several nodes, as from `kind export logs`, become the `hosts` of the source, the
    control planes first.
    """
    by_node = read_nodes(host_files(source, leave=leave, every_boot=True) or ())
    whole = _with_records(source, _join_nodes(by_node))
    if source.records or source.contents is None or len(by_node) < _LEAST_NODES:
        return whole
    hosts = (
        replace(
            _with_records(source, records),
            name=f"{source.name}: {node}",
            contents=partial(_node_contents, source.contents, node),
        )
        for node, records in by_node.items()
        if node
    )
    return replace(whole, hosts=tuple(hosts))


def read_nodes(files: Iterable[tuple[str, Read]]) -> dict[str, Records]:
    """Return the records derived from the journals and installers' logs among the files, by node.

    The control planes are first. Files of no node, such as all files of a single host, come last under an
    empty name.
    """
    by_node: dict[str, list[Records]] = {}
    for path, read in files:
        by_node.setdefault(find_node(path), []).append(read_log(path, read))
    nodes = sorted(by_node.keys() - {""}, key=lambda node: ("-control-plane" not in node, node))
    if len(nodes) < _LEAST_NODES:
        return {"": _merge_files(chain.from_iterable(by_node.values()))}
    found = {node: _merge_files(by_node.get(node, ())) for node in (*nodes, "")}
    return {node: records for node, records in found.items() if records or node}


def _join_nodes(by_node: Mapping[str, Records]) -> Records:
    """Return the records of all nodes. If there are several, each service has the name of its node."""
    return {
        f"{node}/{service}" if node else service: entries
        for node, records in by_node.items()
        for service, entries in records.items()
    }


_LEAST_NODES: Final = 2
_NODE: Final = (
    r"(?:[^/]+/)?([^/]+-(?:control-plane|worker)\d*)/"
    r"(?:(?:journal|kubelet|containerd|serial|images|alternatives)\.log$|kubernetes-version\.txt$|(?:containers|pods)/)"
)
"""The files of a node in the logs that `kind export logs` writes. The group has its name."""


def find_node(path: str) -> str:
    """Return the node that a file belongs to; empty for a file of one host or of the whole cluster."""
    match = re.match(_NODE, path)
    return match[1] if match is not None else ""


def _node_contents(
    contents: "Callable[[Leave], Iterator[Content]]", node: str, leave: "Leave"
) -> "Iterator[Content]":
    return (content for content in contents(leave) if find_node(content.path) == node)


def journal_of_this_host(source: Source | None) -> Source | None:
    """Return the records of this host, with the runs in its journal added; None if there are neither.

    `source` contains the records, or is None if there are none. A journal that could not be read completely
    is left out, because runs without their end would count as running. If there is no source either, this
    raises SourceError.
    """
    try:
        records = _live_records()
    except NoProgramError:
        records = {}
    except ProgramError as error:
        if source is None:
            raise SourceError(f"{_LIVE} cannot be read: {error}") from None
        from service_record.bundle import LeftOut  # imported here because few hosts need it

        return replace(source, left_out=(*source.left_out, LeftOut(_LIVE, f"not read: {error}")))
    if source is None:
        return _with_records(Source(_LIVE, ()), records) if records else None
    return replace(_with_records(source, records), name=f"{source.name}, {_LIVE}")


def read_log(path: str, read: Read) -> Records:
    """Return the records derived from a journal or an installer's log; empty for any other file."""
    head = read(HEAD_BYTES)
    form = recognise(head)
    if form is FileForm.JSON and (state := re.search(_CLOUD_INIT_STATE, path)) is not None:
        read_state = read_cloud_init_status if state["name"] == "status" else read_cloud_init_result
        return installer_entries("cloud-init", read_state(head + read(_BLOCK_BYTES)))
    if form not in LOGS:
        return {}
    stream = classify_file(path, head)
    if stream is not None and stream.host:
        return {}  # the file is from another host of the cluster
    whole = chain([head], iter(lambda: read(_BLOCK_BYTES), b""))

    def read_again(_size: int) -> bytes:
        return next(whole, b"")

    end = _parse_end_time(head)
    era = Era(last=end or datetime.now(UTC))
    installer = find_installer(path, head.decode(errors="replace"))
    if form in _JOURNALS and (installer is None or not installer.reads_journals):
        alone = re.search(_JOURNAL_OF_UNIT, path)
        only_unit = f"{alone[1]}.service" if alone is not None else ""
        runs = read_runs(form, read_again, era, is_year_known=end is not None, only_unit=only_unit)
        return _merge_files([runs.records(), read_journal_lines(runs.installer_lines)])
    if form in _CONSOLES and (installer is None or installer.name == "ignition"):
        return _read_capture(form, read_again, installer)
    return {} if installer is None else _read_steps(installer, form, read_again, era)


def _read_capture(form: FileForm, read: Read, installer: InstallerLog | None) -> Records:
    """Read the capture of a console. Ignition also logs to the console."""
    data = read(HEAD_BYTES) + read(_BLOCK_BYTES)
    # Search a whole block: checks of file systems may print thousands of lines before systemd's first one.
    if installer is None and re.search(CONSOLE, re.sub(_COLOURS, b"", data)) is None:
        # A few lines of a journal within other text, such as the emergency shell of CoreOS prints.
        if b" systemd[1]: " not in data or re.search(_JOURNAL_LINES, data) is None:
            return {}
        era = Era(last=datetime.now(UTC))
        return read_runs(FileForm.JOURNAL, BytesIO(data).read, era, is_year_known=False).records()
    data += b"".join(islice(iter(lambda: read(_BLOCK_BYTES), b""), _MAX_CAPTURE_BLOCKS))
    records: dict[str, Sequence[Entry]] = {**read_console(form, BytesIO(data).read).records()}
    if installer is not None:
        records |= _read_steps(installer, form, BytesIO(data).read, Era())
    return records


def _read_steps(installer: InstallerLog, form: FileForm, read: Read, era: Era) -> Records:
    own = LogStream("", INSTALLER, form=form)
    lines = (log_line(own, 0, line, era) for line in _split_lines(convert_to_lines(form, read)))
    steps = installer.read(InstallerLine(line.text, line.time, line.name) for line in lines)
    return installer_entries(installer.name, steps)


def _split_lines(read: Read) -> Iterator[bytes]:
    rest = b""
    while block := read(_BLOCK_BYTES):
        lines = (rest + block).split(b"\n")
        rest = lines.pop()[:_MAX_LINE_BYTES]
        yield from lines
    if rest:
        yield rest


_BLOCK_BYTES: Final = 1 << 20
_MAX_CAPTURE_BLOCKS: Final = 64
"""Only the beginning of a console capture is read."""
_MAX_LINE_BYTES: Final = 1 << 14


def _parse_end_time(head: bytes) -> datetime | None:
    """Return the end time in the first line of a journal, or None if journalctl did not print that line."""
    match = re.search(_ENDS, head[:500])
    return None if match is None else parse_time(match[1].decode())


def _merge_files(files: Iterable[Records]) -> Records:
    """Merge the records of several files.

    If several files have the same service and boot, the one with the most entries is used. The stages from an
    installer's log are inserted into the runs of its unit from a journal.
    """
    best: dict[str, dict[str | None, Sequence[Entry]]] = {}
    for records in files:
        for service, entries in records.items():
            boots: dict[str | None, list[Entry]] = {}
            for entry in entries:
                boots.setdefault(entry.boot_id, []).append(entry)
            known = best.setdefault(service, {})
            for boot_id, own in boots.items():
                if len(own) > len(known.get(boot_id, ())):
                    known[boot_id] = own
    joined: dict[str, Sequence[Entry]] = {}
    for service, by_boot in best.items():
        steps = by_boot.get(None, ())
        runs = list(chain.from_iterable(own for boot_id, own in by_boot.items() if boot_id is not None))
        with_steps = insert_stages(runs, steps) if runs and steps else None
        joined[service] = with_steps or [*steps, *runs]
    if not CLOUD_INIT_UNITS.isdisjoint(joined):
        joined.pop(CLOUD_INIT_RESULT, None)  # the records of the units have more details
    end_with_anaconda(joined)
    return joined


def _with_records(source: Source, derived: Records) -> Source:
    records: dict[str, Iterable[Piece]] = dict(source.records)
    for service, entries in derived.items():
        recorded = records.get(service)
        records[service] = entries if recorded is None else merge(recorded, entries)
    if not records:
        return source
    return replace(source, records=tuple(records.items()), refusal="")


def _live_records() -> Records:
    """Read systemd's messages, and if units failed, read again with their own lines. Raises ProgramError."""
    deadline = Deadline(_LIVE_SECONDS)
    runs = _read_journal(deadline, "_PID=1")
    failed = [
        service
        for service, entries in runs.items()
        if any(entry.phase is Phase.SERVICE_END and entry.result is Result.FAILURE for entry in entries)
    ]
    if not failed:
        return runs
    units = chain.from_iterable(
        ("+", f"_SYSTEMD_UNIT={service}.service") for service in failed[-_MAX_FAILED:]
    )
    return _read_journal(deadline, "_PID=1", *units)


def _read_journal(deadline: Deadline, *matches: str) -> Records:
    with reading((*_JOURNALCTL, *matches), os.environ, deadline, _MAX_JOURNAL_BYTES) as (_, read):
        return read_runs(FileForm.JOURNAL_JSON, read, Era()).records()
