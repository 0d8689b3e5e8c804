"""One pass over the files of a host: which lines and facts are kept of them, with their places."""

from collections.abc import Mapping, Sequence
from io import BytesIO

import pytest

from service_record.diagnosis.evidence.host_evidence import Evidence
from service_record.diagnosis.evidence.line_patterns import LineSet, Pattern
from service_record.diagnosis.evidence.log_lines import Era
from service_record.diagnosis.evidence.scan import Scanner
from tests.builders import timestamp

BLOCK = 1 << 18
MAX_LINE = 1 << 14
JOURNAL = "bootstrap/journals/other.log"
KERNEL = "bootstrap/journals/kernel.log"
RECORD = "bootstrap/services/job.json"
RECORD_OF_A = f"a/{RECORD}"


def scanned(files: Mapping[str, str | bytes], most: int = BLOCK) -> Evidence:
    """The evidence in files that are read so many bytes at a time; `far` is test 7, `job` process 4711."""
    scanner = Scanner(LineSet([(7, Pattern.parse("far"))]), {"job": [4711], "idle": []}, Era())
    for path, text in files.items():
        stream = BytesIO(text.encode() if isinstance(text, str) else text)
        scanner.read(path, lambda size, stream=stream: stream.read(min(size, most)))  # type: ignore[misc]
    return scanner.evidence()


def places(evidence: Evidence) -> list[tuple[str, str]]:
    return [(str(line.place), line.text) for line in evidence.lines.get(7, ())]


def own(evidence: Evidence, service: str = "job") -> list[tuple[int | None, str]]:
    return [(line.place.line, line.text) for line in evidence.own.get(service, ())]


def at(seconds: float, text: str) -> str:
    return f"{timestamp(seconds)} h {text}"


@pytest.mark.parametrize(
    ("path", "line", "own_text"),
    [
        ("bootstrap/journals/job.log", "anything", "anything"),
        (f"bootstrap/journals/invocations/job-{'0a' * 16}.log", at(1, "child[9]: a"), "a"),
        (JOURNAL, at(1, "job[9]: a"), "a"),
        (JOURNAL, at(1, "job.sh[9]: a"), "a"),
        (JOURNAL, at(1, "child[4711]: a"), "a"),
        (JOURNAL, at(1, "child[4712]: a"), None),
        (JOURNAL, at(1, "job: a"), None),
        (JOURNAL, at(1, "systemd[1]: job.service: a"), "job.service: a"),
        (JOURNAL, at(1, "systemd[2]: job.service: a"), None),
        (JOURNAL, at(1, "systemd[1]: other.service: a"), None),
        (KERNEL, at(1, "job[9]: a"), None),
        (JOURNAL, f"{at(1, 'x' * MAX_LINE)} job[9]: a", None),
    ],
)
def test_line_belongs_to_service_by_file_or_pid(path: str, line: str, own_text: str | None) -> None:
    evidence = scanned(
        {path: f"{line}\nnothing\n{line}\n{line}" if path != JOURNAL else f"\n\n{line}\n{line}"}
    )
    texts = [text for _, text in own(evidence) if text != "nothing"]
    assert texts == ([] if own_text is None else [own_text] * len(texts))
    numbers = [number for number, text in own(evidence) if text == own_text]
    assert numbers == ([] if own_text is None else [3, 4] if path == JOURNAL else [1, 3, 4])
    assert own(evidence, "idle") == []


@pytest.mark.parametrize("most", [5, 1000, BLOCK])
def test_line_numbers_do_not_depend_on_blocks(most: int) -> None:
    long = "x" * 999
    text = "\n".join(["far 1", "", *[long] * 300, "far 303", at(1, "job[9]: far 304"), "", "far 306"])
    for end in ("", "\n"):
        evidence = scanned({JOURNAL: text + end}, most)
        assert places(evidence) == [
            *((f"{JOURNAL}:{number}", f"far {number}") for number in (1, 303, 306)),
            (f"{JOURNAL}:304", "far 304"),  # those without a time come first
        ]
        assert own(evidence) == [(304, "far 304")]
        (count, last) = evidence.ends[JOURNAL]
        assert (count, last and last.text, evidence.looked.lines) == (306, "far 306", 306)


def test_first_and_last_lines_are_kept() -> None:
    lines = [at(number, f"job[9]: far {number}") for number in range(1000)]
    evidence = scanned({JOURNAL: "\n".join(lines)})
    assert [text for _, text in places(evidence)] == [f"far {n}" for n in (*range(8), *range(976, 1000))]
    assert own(evidence) == [(number + 1, f"far {number}") for number in range(600, 1000)]


def test_beginning_of_a_long_line_is_searched() -> None:
    evidence = scanned({KERNEL: f"{'x' * (MAX_LINE - 3)}far\n{'x' * (MAX_LINE - 2)}far\n"})
    assert places(evidence) == [(f"{KERNEL}:1", "x" * (MAX_LINE - 3) + "far")]
    assert evidence.ends[KERNEL][0] == 2
    longer = scanned({KERNEL: f"far {'x' * 5 * BLOCK} far\nfar"})
    assert [(place, len(text)) for place, text in places(longer)] == [
        (f"{KERNEL}:1", MAX_LINE),
        (f"{KERNEL}:2", 3),
    ]


@pytest.mark.parametrize(
    ("before", "is_read"),
    [(bytes(range(256)) * 8, False), (b"LPKSHHRH", False), (b"x" * 99 + b"\0", True)],
)
def test_binary_file_is_not_read_as_text(before: bytes, is_read: bool) -> None:
    evidence = scanned({KERNEL: before + b"\nfar\n"})
    assert (len(places(evidence)), evidence.looked.files) == (is_read, is_read)


def test_lines_are_sorted_by_time_without_duplicates() -> None:
    line = at(2, "job[9]: far")
    evidence = scanned(
        {JOURNAL: f"{line}\n{line}", "bootstrap/journals/job.log": f"{line}\n{at(1, 'x[1]: far')}"}
    )
    assert [(path, text) for path, text in places(evidence)] == [
        ("bootstrap/journals/job.log:2", "far"),
        (f"{JOURNAL}:1", "far"),
        (f"{JOURNAL}:2", "far"),
    ]
    assert scanned({KERNEL: "\n"}).looked.kinds == {"kernel"}
    assert scanned({RECORD: "far", "x/resolv.conf": "a", "a.txt": "far\n"}).looked.files == 2


def test_without_services_no_line_is_of_one() -> None:
    scanner = Scanner(LineSet(()), {}, Era())
    scanner.read(JOURNAL, BytesIO(f"{at(1, 'job[9]: a')}\n{at(1, 'systemd[1]: .service: a')}".encode()).read)
    assert scanner.evidence().own == {}


def test_journal_in_export_format_is_read() -> None:
    text = "__CURSOR=1\n__REALTIME_TIMESTAMP=1795223110000000\nMESSAGE=far\n\n"
    assert places(scanned({JOURNAL: text})) == [(f"{JOURNAL}:3", "far")]


@pytest.mark.parametrize(
    ("paths", "hosts"),
    [
        ([RECORD_OF_A, "a/etc/hostname", "b/etc/hostname", "b/proc/cmdline"], ["a/etc/hostname"]),
        ([RECORD_OF_A, "hostname"], ["hostname"]),
        (["a/etc/hostname", "b/etc/hostname", "b/proc/cmdline"], ["b/etc/hostname"]),
        (["a/nodes/n1/etc/hostname"], []),
        (["bootstrap/services/job.json", "bootstrap/network/hostname"], ["bootstrap/network/hostname"]),
    ],
)
def test_facts_are_of_the_recorded_or_main_host(paths: Sequence[str], hosts: Sequence[str]) -> None:
    facts = scanned(dict.fromkeys(paths, "here")).facts
    assert [fact.place.path for fact in facts.all("hostname")] == list(hosts)


def test_fact_files_have_size_limits() -> None:
    line = "m 1\n"
    modules = {f"{number}/lsmod": line * 100_000 for number in range(40)}
    facts = scanned({RECORD: "", **{f"bootstrap/{path}": text for path, text in modules.items()}}, 1000).facts
    assert facts.all("module")
    evidence = scanned({"lsmod": "\n" * (BLOCK - 4) + "m 1\nm 2\n"})
    assert [(fact.value, fact.place.line) for fact in evidence.facts.all("module")] == [("m", BLOCK - 3)]
    assert evidence.looked.files == 1
    assert scanned({f"bootstrap/{path}": text for path, text in modules.items()}).looked.files == 32


def test_containers_are_those_with_logs_of_this_host() -> None:
    log = "namespaces/n/pods/p/{0}/{0}/logs/current.log"
    evidence = scanned({log.format("etcd"): "x", f"nodes/n1/{log.format('dns')}": "x"})
    assert [(fact.value, str(fact.place)) for fact in evidence.facts.all("container")] == [
        ("etcd", log.format("etcd"))
    ]
