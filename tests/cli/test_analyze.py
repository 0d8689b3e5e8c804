"""`service-record analyze`, as it is started and on real files."""

import json
import os
import re
import subprocess
import tarfile
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from msgspec.structs import replace

from service_record import Records
from service_record.bundle import pack
from service_record.record import systemd
from service_record.record.entry import Entry, Phase, Result
from tests.builders import (
    BOOT_ID,
    START,
    array,
    entry,
    failed_run,
    require,
    upstream_entry,
    write_array,
    write_lines,
)
from tests.command_line import PROGRAM, Answer, environment, service_record
from tests.pages import parse_page

OTHER_BOOT = "c1" * 16
NO_IMAGE: dict[str, Any] = {
    "exit_code": 125,
    "command": 'podman run --quiet "$IMAGE"',
    "error_message": "Rendering\nError: initializing source docker://quay.io/x:1: reading manifest 1 in"
    " quay.io/x: manifest unknown\nExited",
}


def succeeded(at: float = 0) -> list[Entry]:
    return [entry(at=at), entry(Phase.SERVICE_END, at + 5)]


def analyze(path: Path, *arguments: object) -> Answer:
    return service_record("analyze", "--from", path, *arguments)


def first_line(answer: Answer) -> str:
    return answer.out.partition("\n")[0]


def here(pid: int | None = None) -> dict[str, Any]:
    """Return the fields that make an entry one of this boot, of a live process."""
    return {"boot_id": systemd.boot_id(), "uptime": systemd.uptime(), "pid": pid or os.getpid()}


@pytest.fixture
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A host whose bootkube has no image, with a service that waits for it; its path fits into a line."""
    directory = tmp_path_factory.mktemp("host")
    write_lines(directory / "bootkube.json", *failed_run("cvo-bootstrap", **NO_IMAGE))
    write_lines(directory / "approve-csr.json", entry(), entry(Phase.STAGE_START, 1, stage="wait"))
    write_lines(directory / "crio.json", *succeeded())
    return directory


PAGE = """\
✗ failed: bootkube in stage cvo-bootstrap: the registry has no image quay.io/x:1
3 services: 1 failed, 1 running, 1 succeeded
{directory}, 1 boot

  run      bootkube, exit 125 after 10.0s, 2026-11-21 01:05:20Z
  cause    the registry has no image quay.io/x:1 (image-not-found)
           The name, tag or digest is wrong, or the mirror lacks it.
           known by: Error: initializing source docker://quay.io/x:1: reading
           manifest 1 in quay.io/x: manifest unknown
  at       /usr/local/bin/job.sh:12 in main
           podman run --quiet "$IMAGE"
  message  │ Rendering
           │ Error: initializing source docker://quay.io/x:1: reading manifest 1
           │ in quay.io/x: manifest unknown
           │ Exited
  stages   ✗ cvo-bootstrap 9.0s
  next     podman images --digests
           cat /etc/containers/registries.conf
           ls /etc/containers/registries.conf.d
           journalctl _SYSTEMD_INVOCATION_ID=1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f

  running  approve-csr in stage wait for at least 9.0s
"""


def test_cause_comes_first_and_its_evidence_below(records: Path) -> None:
    answer = analyze(records)
    assert (answer.out, answer.err, answer.status) == (PAGE.format(directory=records), "", 1)
    manual = Path(__file__).parents[2].joinpath("docs/analyze.md").read_text()
    assert textwrap.indent(PAGE.format(directory="/var/log/openshift"), "    ") in manual


def test_evidence_line_is_whole_in_wide_output(tmp_path: Path) -> None:
    message = f"Error: {'initializing source: ' * 20}manifest unknown"
    write_lines(tmp_path / "job.json", *failed_run(error_message=message))
    page, wide = ("".join(analyze(tmp_path, "-o", form).out.split()) for form in ("table", "wide"))
    known_by = require(re.search("knownby:(.*?)at/usr", page))
    assert known_by[1].endswith("manifestunknown")
    assert len(known_by[1]) < len(message) / 2
    assert f"knownby:{message.replace(' ', '')}at" in wide


WAITING = [entry(), entry(Phase.STAGE_START, 1, stage="wait")]
RESTARTS = [replace(one, pid=n, invocation_id=f"{n:032x}") for n in range(3) for one in failed_run(at=n * 20)]
BOOTS = [
    replace(one, boot_id=boot * 16)
    for n, boot in enumerate(["a1", "b2", "c3"])
    for one in failed_run(at=n * 99)
]


@pytest.mark.parametrize(
    ("record", "beside", "line", "status"),
    [
        pytest.param(succeeded(), [], "✓ succeeded: nothing is wrong", 0, id="succeeded"),
        pytest.param(
            WAITING,
            succeeded(50),
            "● running: job in stage wait for at least 54.0s; nothing is wrong so far",
            0,
            id="running",
        ),
        pytest.param(
            WAITING,
            succeeded(4000),
            "▲ stuck: job in stage wait: longer than 30m 0s, the default (for at least 1h 6m)",
            1,
            id="stuck",
        ),
        pytest.param(
            RESTARTS,
            [],
            "✗ looping: job in stage second: exit 1 at /usr/local/bin/job.sh:12 in main (3",
            1,
            id="restart-loop",
        ),
        pytest.param(
            BOOTS,
            [],
            "✗ looping: job in stage second: exit 1 at /usr/local/bin/job.sh:12 in main (3",
            1,
            id="boot-loop",
        ),
        pytest.param(
            WAITING,
            [replace(one, boot_id=OTHER_BOOT) for one in succeeded(50)],
            "▲ interrupted: job in stage wait: the host went down meanwhile",
            1,
            id="interrupted",
        ),
        pytest.param(
            [*failed_run(at=0), *[replace(one, pid=9, invocation_id="9" * 32) for one in succeeded(60)]],
            [],
            "✓ succeeded: nothing is wrong",
            0,
            id="recovered",
        ),
        pytest.param(
            [
                entry(),
                entry(Phase.SERVICE_END, 9, result=Result.FAILURE, signal="KILL", service_result="oom-kill"),
            ],
            [],
            "✗ failed: job: it was killed because memory ran out",
            1,
            id="out-of-memory",
        ),
        pytest.param(
            [
                upstream_entry(),
                upstream_entry(
                    Phase.SERVICE_END, 9, result=Result.FAILURE, error_message="x: no space left on device"
                ),
            ],
            [],
            "✗ failed: job: the disk is full",
            1,
            id="upstream",
        ),
    ],
)
def test_first_line_and_exit_code_are_the_verdict(
    tmp_path: Path, record: Sequence[Entry], beside: Sequence[Entry], line: str, status: int
) -> None:
    write_lines(tmp_path / "job.json", *record)
    if beside:
        write_lines(tmp_path / "beside.json", *beside)
    answer = analyze(tmp_path)
    assert (first_line(answer), answer.status) == (line, status)


def test_bundle_is_judged_like_its_directory(records: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "log-bundle.tar"
    with bundle.open("wb") as stream:
        pack([(name, Records(records).read(name)) for name in Records(records).services()], stream, START)
    assert first_line(analyze(bundle)) == first_line(analyze(records))


def test_other_forms_say_the_same(records: Path) -> None:
    document = json.loads(analyze(records, "--output", "json").out)
    assert document["verdict"] == "failed"
    assert (
        document["says"] == "failed: bootkube in stage cvo-bootstrap: the registry has no image quay.io/x:1"
    )
    root = document["root"]
    assert (root["service"], root["stage"], root["cause"]["name"]) == (
        "bootkube",
        "cvo-bootstrap",
        "image-not-found",
    )
    assert (root["facts"]["exitCode"], root["facts"]["location"]["line"]) == (125, 12)
    assert document["running"][0]["service"] == "approve-csr"
    assert yaml.safe_load(analyze(records, "--output", "yaml").out) == document
    lines = [json.loads(line) for line in analyze(records, "--output", "jsonl").out.splitlines()]
    assert lines[0]["verdict"] == "failed"
    assert [line["finding"] for line in lines[1:]] == ["root", "running"]
    assert lines[1] == {"finding": "root"} | root


def test_wide_shows_every_trouble_in_full(records: Path) -> None:
    write_lines(records / "later.json", *failed_run("join", 50, error_message="join refused by nobody"))
    assert "│ join refused" not in analyze(records).out
    assert "│ join refused by nobody" in analyze(records, "-o", "wide").out


def test_services_boots_and_times_narrow_what_is_judged(records: Path) -> None:
    later = [replace(one, boot_id=OTHER_BOOT, pid=9) for one in succeeded(1000)]
    write_lines(records / "bootkube.json", *failed_run("cvo-bootstrap", **NO_IMAGE), *later)
    assert analyze(records, "bootkube").status == 0
    assert analyze(records, "bootkube", "--boot", "-1").status == 1
    assert analyze(records, "bootkube", "--until", "2026-11-21T01:06:00Z").status == 1
    assert first_line(analyze(records, "crio")).startswith("✓")


def test_nothing_to_judge_is_nothing_to_read(tmp_path: Path) -> None:
    assert analyze(tmp_path).status == 3
    (tmp_path / "job.json").write_bytes(b"")
    answer = analyze(tmp_path)
    assert (answer.status, answer.out, answer.err) == (3, "", f"Error: no run to judge in {tmp_path}\n")


def test_budget_file_decides_what_is_stuck(records: Path, tmp_path: Path) -> None:
    budget = tmp_path / "budget.yaml"
    budget.write_text("services:\n  approve-csr:\n    stages:\n      wait: 5s\n")
    answer = analyze(records, "approve-csr", "--budget", budget)
    assert first_line(answer) == (
        "▲ stuck: approve-csr in stage wait: longer than 5.0s, from the budget file (for"
    )
    assert "  budget   5.0s, from the budget file\n" in answer.out


_PAGES: Final = {"budget.yaml": "analyze.md", "rules.yaml": "cause-rules.md"}


def documented(name: str) -> str:
    """Return the example of that file in its page of docs."""
    page = Path(__file__).parents[2].joinpath("docs", _PAGES[name]).read_text()
    return textwrap.dedent(page[page.index(f"    # {name}") :].partition("\n\n")[0])


def test_files_in_the_documentation_are_accepted(records: Path, tmp_path: Path) -> None:
    given = {"--budget": tmp_path / "budget.yaml", "--rules": tmp_path / "rules.yaml"}
    for path in given.values():
        path.write_text(documented(path.name))
    refused = failed_run("pull", error_message="lookup mirror.lab on 10.0.0.1:53: no such host")
    write_lines(records / "bootkube.json", *refused)
    answer = analyze(records, *(part for pair in given.items() for part in pair))
    assert (
        first_line(answer) == "✗ failed: bootkube in stage pull: the mirror of the lab, mirror.lab, is down"
    )
    assert "  next     ping -c 3 mirror.lab\n" in answer.out


def test_good_run_shows_what_is_slow(records: Path, tmp_path: Path) -> None:
    good = tmp_path / "good"
    good.mkdir()
    pulled = [
        entry(Phase.STAGE_START, 1, stage="cvo-bootstrap"),
        entry(Phase.STAGE_END, 2, stage="cvo-bootstrap"),
    ]
    write_lines(good / "bootkube.json", entry(), *pulled, entry(Phase.SERVICE_END, 3))
    answer = analyze(records, "--baseline", good)
    assert "  slow     stage cvo-bootstrap of bootkube took 9.0s, in the good run 1.0s, 9.0\n" in answer.out


def test_own_rules_come_before_built_in_ones(records: Path, tmp_path: Path) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text(
        "- name: ours\n  says: the lab forgot to mirror\n  message: manifest unknown\n  next: ask {service}\n"
    )
    answer = analyze(records, "--rules", rules)
    assert first_line(answer) == "✗ failed: bootkube in stage cvo-bootstrap: the lab forgot to mirror"
    assert "  next     ask bootkube\n" in answer.out


HARMFUL = "<b>a\x1b]0;b\x07\u202ec</b>"


def named_by_a_rule(directory: Path, form: str) -> Answer:
    """Return the output for a failure whose cause contains a harmful name."""
    write_lines(directory / "job.json", *failed_run(error_message=f"mirror {HARMFUL} is gone"))
    rules = directory / "rules.yaml"
    rules.write_text("- name: a\n  says: '[{what}|it] is gone'\n  message: mirror (?P<what>[^ ]*)\n")
    return analyze(directory, "--rules", rules, "--output", form)


@pytest.mark.parametrize("form", ["table", "wide", "json", "jsonl", "yaml", "html"])
def test_value_from_a_message_does_not_control_the_terminal(tmp_path: Path, form: str) -> None:
    answer = named_by_a_rule(tmp_path, form)
    assert "is gone" in answer.out
    assert {"\x1b", "\x07", "\u202e"}.isdisjoint(answer.out)


def test_value_from_a_message_is_escaped_per_format(tmp_path: Path) -> None:
    shown = r"<b>a\x1b]0;b\x07\u202ec</b> is gone"
    assert first_line(named_by_a_rule(tmp_path, "table")) == f"✗ failed: job in stage second: {shown}"
    page = parse_page(named_by_a_rule(tmp_path, "html").out)
    assert page.texts("h1", "verdict") == [f"✗ failed: job in stage second: {shown}"]
    assert not page.all("b")
    document = json.loads(named_by_a_rule(tmp_path, "json").out)
    assert document["root"]["cause"]["says"] == f"{HARMFUL} is gone"


@pytest.mark.parametrize(
    ("option", "content", "fault"),
    [
        (
            "--rules",
            b"- name: a\n  says: b\n  message: '('\n",
            ":3: message: not a pattern of RE2: missing ): (",
        ),
        ("--rules", b"- name: \xff\n", ":1: not UTF-8"),
        ("--budget", b"stage: x\n", ":1: stage: 'x' is not a valid duration; use one like 90s, 5m, 1h30m"),
    ],
)
def test_invalid_file_is_reported_in_one_line(
    records: Path, tmp_path: Path, option: str, content: bytes, fault: str
) -> None:
    path = tmp_path / "given.yaml"
    path.write_bytes(content)
    answer = analyze(records, option, path)
    assert (answer.status, answer.out, answer.err) == (2, "", f"Error: {path}{fault}\n")


@pytest.mark.parametrize("layout", ["bootstrap/services", "log-bundle-1/var/log/openshift"])
def test_wait_for_a_bundle_is_wrong_usage(tmp_path: Path, layout: str) -> None:
    unpacked = tmp_path / "unpacked" / layout
    unpacked.mkdir(parents=True)
    write_lines(unpacked / "job.json", entry())
    packed = tmp_path / "bundle.tar"
    with tarfile.open(packed, "w") as bundle:
        bundle.add(tmp_path / "unpacked", "b")
    answers = [analyze(place, "--wait") for place in (packed, tmp_path / "unpacked")]
    assert [answer.status for answer in answers] == [2, 2]
    error = "Error: --wait needs one directory of records that a host writes"
    assert [answer.err.splitlines()[-1] for answer in answers] == [
        error,
        f"{error}; {tmp_path}/unpacked is an unpacked bundle, where nothing will change",
    ]


def test_several_bundles_are_not_waited_for(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name / "bootstrap" / "services").mkdir(parents=True)
    answer = analyze(tmp_path, "--wait")
    assert (answer.status, answer.err.partition(":")[2][:16]) == (3, " several bundles")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--timeout", "5m"], "--timeout needs --wait"),
        (["--wait", "--timeout", "soon"], "'soon' is not a valid duration"),
        (["--budget", "absent.yaml"], "does not exist"),
        (["--from", "-", "--baseline", "-"], "one of --from and --baseline"),
        (["--wait", "--from", "-"], "--wait needs one directory"),
    ],
)
def test_wrong_usage_is_reported(records: Path, arguments: list[str], message: str) -> None:
    answer = service_record("analyze", *arguments, SERVICE_RECORDS_DIR=str(records))
    assert (answer.status, answer.out) == (2, "")
    assert message in answer.err


def test_wait_for_a_busy_host_ends_with_124(tmp_path: Path) -> None:
    write_lines(tmp_path / "job.json", entry(**here()))
    answer = analyze(tmp_path, "--wait", "--timeout", "0.2s")
    assert answer.status == 124
    assert first_line(answer).startswith("● running: job for ")


def test_wait_for_missing_records_ends_with_124(tmp_path: Path) -> None:
    answer = analyze(tmp_path / "none", "--wait", "--timeout", "0.2s")
    assert (answer.status, answer.out) == (124, "")
    assert answer.err.startswith("Error: ")
    assert answer.err.count("\n") == 1


def test_waiting_for_what_is_over_does_not_wait(records: Path) -> None:
    (records / "approve-csr.json").unlink()
    assert analyze(records, "--wait").status == 1


@pytest.mark.parametrize(("result", "status"), [(Result.SUCCESS, 0), (Result.FAILURE, 1)], ids=str)
def test_wait_ends_with_a_verdict(tmp_path: Path, result: Result, status: int) -> None:
    directory = tmp_path / "records"  # not there yet: the wait begins before the first record
    with subprocess.Popen(
        [*PROGRAM, "analyze", "--wait", "--timeout", "100s", "--from", str(directory)],
        stdout=subprocess.PIPE,
        env=environment(),
        text=True,
    ) as waiting:
        writer = Records(directory).writer("job")
        writer.append(entry(**here(waiting.pid)))
        writer.append(entry(Phase.SERVICE_END, result=result, **here(waiting.pid)))
        out, _ = waiting.communicate(timeout=60)
    assert waiting.returncode == status
    assert out.startswith("✓ succeeded" if status == 0 else "✗ failed: job: ")


def test_vanished_process_ends_the_wait(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "100"]) as process:
        write_lines(tmp_path / "job.json", entry(**here(process.pid)))
        with subprocess.Popen(
            [*PROGRAM, "analyze", "--wait", "--from", str(tmp_path)],
            stdout=subprocess.PIPE,
            env=environment(),
            text=True,
        ) as waiting:
            process.kill()
            process.wait()
            out, _ = waiting.communicate(timeout=60)
    assert waiting.returncode == 1
    assert out.startswith("▲ interrupted: job: it ended without recording how")


def test_journal_text_does_not_control_the_terminal(tmp_path: Path) -> None:
    record = failed_run("a\x1b[2J", error_message="fatal: \x1b[31mred\u202e manifest unknown")
    write_lines(tmp_path / "job.json", *record)
    for form in ("table", "wide", "json", "yaml", "jsonl"):
        out = analyze(tmp_path, "--output", form).out
        assert "\x1b" not in out
        assert "\u202e" not in out


def test_lines_fit_the_width_and_the_encoding(records: Path) -> None:
    long: dict[str, Any] = {"error_message": "error: " + "word " * 200, "command": "x" * 199}
    write_lines(records / "long.json", *failed_run("s" * 200, -100, **long))
    page = service_record("analyze", "--from", records, COLUMNS="80").out
    assert max(map(len, page.splitlines())) <= 80
    assert service_record("analyze", "--from", records, PYTHONIOENCODING="ascii").out.isascii()


def test_arrays_of_upstream_and_damage_are_judged_too(tmp_path: Path) -> None:
    write_array(tmp_path / "bootkube.json", *failed_run("pull", **NO_IMAGE))
    (tmp_path / "torn.json").write_bytes(array(*succeeded())[:-40])
    answer = analyze(tmp_path)
    assert first_line(answer).startswith("✗ failed: bootkube in stage pull: ")
    assert "  damaged  torn: 1 damaged piece, the first at line " in answer.out


def test_set_clock_is_reported(tmp_path: Path) -> None:
    end = entry(Phase.SERVICE_END, 5000, uptime=70.0, boot_id=BOOT_ID)
    write_lines(tmp_path / "job.json", entry(), end)
    line = (
        "  clock    set forward by 1h 23m between 2026-11-21 01:05:10Z and 2026-11-21\n           02:28:30Z\n"
    )
    assert line in analyze(tmp_path).out


def test_thousands_of_restarts_take_one_page(tmp_path: Path) -> None:
    entries = [
        replace(one, pid=n, invocation_id=f"{n:032x}") for n in range(5000) for one in failed_run(at=n)
    ]
    write_lines(tmp_path / "job.json", *entries)
    answer = analyze(tmp_path)
    assert "(5000" in answer.out
    assert answer.out.count("\n") < 24


def test_page_has_verdict_evidence_and_consequences(records: Path) -> None:
    write_lines(
        records / "report.json", *failed_run("report", 30, error_message="Unable to connect to the server")
    )

    answer = analyze(records, "--output", "html")

    assert answer.status == 1
    page = parse_page(answer.out)
    assert page.texts("h1", "verdict") == [
        "✗ failed: bootkube in stage cvo-bootstrap: the registry has no image quay.io/x:1"
    ]
    assert page.texts("h2")[0] == "Root cause"
    assert "What is running" in page.texts("h2")
    assert "reading manifest 1 in quay.io/x: manifest unknown" in page.text
    assert any("report" in text for text in page.texts("summary"))
    assert page.all("svg")
    assert not any("src" in node.attributes for node in page.all("script"))


def test_page_of_a_healthy_host_says_so(tmp_path: Path) -> None:
    write_lines(tmp_path / "crio.json", *succeeded())

    answer = analyze(tmp_path, "--output", "html")

    assert answer.status == 0
    assert parse_page(answer.out).texts("h1", "verdict") == ["✓ succeeded: nothing is wrong"]


def retried(message: str = "Trying to pull\nError: manifest unknown") -> list[Entry]:
    """A run whose image pull failed twice, 12 minutes each, and is tried once more."""
    failed: dict[str, Any] = {"result": Result.FAILURE, "exit_code": 125, "error_message": message}
    return [
        entry(),
        entry(Phase.STAGE_START, 1, stage="pull"),
        entry(Phase.STAGE_END, 721, stage="pull", **failed),
        entry(Phase.STAGE_START, 722, stage="pull"),
        entry(Phase.STAGE_END, 1442, stage="pull", **failed),
        entry(Phase.STAGE_START, 1443, stage="pull"),
    ]


@pytest.mark.parametrize("form", ["table", "wide", "json", "jsonl", "yaml", "html"])
def test_survived_failure_is_in_every_output_form(tmp_path: Path, form: str) -> None:
    write_lines(tmp_path / "job.json", *retried())
    answer = analyze(tmp_path, "--output", form)
    assert answer.status == 0
    assert "nothing is wrong" not in answer.out
    text = " ".join(re.sub("<[^>]*>", " ", answer.out).split())
    assert "continued after stage pull failed twice: Error: manifest unknown" in text
    assert "Trying to pull" in text


def test_failure_before_a_hang_is_below_the_verdict(tmp_path: Path) -> None:
    failed: dict[str, Any] = {"result": Result.FAILURE, "error_message": "lookup api: no such host"}
    write_lines(
        tmp_path / "job.json",
        entry(),
        entry(Phase.STAGE_START, 1, stage="resolve-api-url"),
        entry(Phase.STAGE_END, 2, stage="resolve-api-url", **failed),
        entry(Phase.STAGE_START, 3, stage="wait"),
        entry(Phase.STAGE_START, 4000, stage="beside"),
    )
    answer = analyze(tmp_path)
    assert first_line(answer).startswith("▲ stuck: job in stage wait")
    assert "handled  job continued after stage resolve-api-url failed once" in answer.out
    assert "message  │ lookup api: no such host" in answer.out
    (handled,) = json.loads(analyze(tmp_path, "--output", "json").out)["handled"]
    assert (handled["service"], handled["stage"], handled["count"]) == ("job", "resolve-api-url", 1)
    assert handled["facts"]["message"] == "lookup api: no such host"


def test_success_after_an_unrepaired_failure_names_it(tmp_path: Path) -> None:
    failed: dict[str, Any] = {"result": Result.FAILURE, "error_message": "curl: (6) Could not resolve host"}
    write_lines(
        tmp_path / "job.json",
        entry(),
        entry(Phase.STAGE_START, 1, stage="check-url"),
        entry(Phase.STAGE_END, 2, stage="check-url", **failed),
        entry(Phase.SERVICE_END, 3),
    )
    answer = analyze(tmp_path)
    assert answer.status == 0
    assert answer.out.startswith("✓ succeeded: job continued after stage check-url failed once: curl: (6)")


@pytest.mark.parametrize(
    "content", [b"", b"[]\n", b"{}\n", bytes(4096)], ids=["empty", "array", "object", "nul"]
)
def test_unreadable_record_is_a_finding(tmp_path: Path, content: bytes) -> None:
    write_lines(tmp_path / "crio.json", *succeeded())
    (tmp_path / "bootkube.json").write_bytes(content)
    for options in ([], ["--boot", "0"]):
        answer = analyze(tmp_path, *options)
        assert answer.status == 3
        assert answer.out.startswith("▲ unknown: the record of bootkube is ")
    found = json.loads(analyze(tmp_path, "--output", "json").out)
    assert found["verdict"] == "unknown"
    assert [(one["service"], one["unreadable"]) for one in found["damaged"]] == [("bootkube", True)]
    assert analyze(tmp_path, "crio").status == 0


def test_busy_host_names_the_unreadable_record(tmp_path: Path) -> None:
    write_lines(tmp_path / "crio.json", entry(), entry(Phase.STAGE_START, 1, stage="wait"))
    (tmp_path / "bootkube.json").write_bytes(b"[]")
    answer = analyze(tmp_path)
    assert answer.status == 3
    assert "the record of bootkube is empty: nothing is known of it" in " ".join(first_lines(answer).split())


def first_lines(answer: Answer) -> str:
    """The verdict, on however many lines it stands."""
    return answer.out.partition("\n1 boot")[0]


def test_record_without_times_has_a_verdict(tmp_path: Path) -> None:
    untimed = [
        {name: value for name, value in one.to_json().items() if name not in {"timestamp", "uptime"}}
        for one in failed_run("cvo-bootstrap", **NO_IMAGE)
    ]
    (tmp_path / "bootkube.json").write_text(json.dumps(untimed))
    write_lines(tmp_path / "crio.json", *succeeded())
    answer = analyze(tmp_path)
    assert (answer.status, answer.err) == (1, "")
    assert first_line(answer).startswith(
        "✗ failed: bootkube in stage cvo-bootstrap: the registry has no image"
    )
    assert "run      bootkube, exit 125, time unknown" in answer.out


@pytest.mark.parametrize(
    "verb",
    [
        *("show", "show -o wide", "timeline", "timeline -o html", "export --to otlp"),
        *("export --to chrome-trace", "show --relative", "analyze -o html", "analyze -o yaml"),
    ],
)
def test_no_verb_minds_entries_without_times(tmp_path: Path, verb: str) -> None:
    pieces = [replace(one, timestamp=None) for one in failed_run("pull")]
    write_lines(tmp_path / "job.json", *pieces)
    write_lines(tmp_path / "crio.json", *succeeded())
    name, *options = verb.split()
    answer = service_record(name, "--from", tmp_path, *options)
    assert answer.status in {0, 1}
    assert answer.err == ""
    assert "job" in answer.out


FAILED_UNITS = """\
  UNIT             LOAD   ACTIVE SUB    DESCRIPTION
● bootkube.service loaded failed failed Bootstrap a cluster
"""
UNIT_STATUS = """\
* bootkube.service - Bootstrap a cluster
     Active: failed (Result: exit-code) since Mon 2026-11-23 06:33:22 UTC; 698ms ago
    Process: 56 ExecStartPre=/bin/sh -c exit 6 (code=exited, status=6)
"""


@pytest.fixture
def log_bundle(tmp_path: Path) -> Path:
    """An unpacked bundle whose services succeeded by their records, although a unit failed."""
    top = tmp_path / "log-bundle"
    (top / "bootstrap/services").mkdir(parents=True)
    (top / "unit-status").mkdir()
    for service in ("release-image", "crio"):
        write_lines(top / f"bootstrap/services/{service}.json", *succeeded())
    (top / "failed-units.txt").write_text(FAILED_UNITS)
    (top / "unit-status/bootkube.service.txt").write_text(UNIT_STATUS)
    return top


def packed(top: Path) -> Path:
    path = top.with_suffix(".tar.gz")
    with tarfile.open(path, "w:gz") as archive:
        archive.add(top, top.name)
    return path


@pytest.mark.parametrize("is_packed", [True, False])
def test_bundle_with_a_failed_unit_is_not_healthy(log_bundle: Path, is_packed: bool) -> None:
    place = packed(log_bundle) if is_packed else log_bundle
    answer = analyze(place)
    assert answer.status == 1
    assert " ".join(answer.out.split()).startswith(
        "✗ failed: bootkube.service: exit 6 of ExecStartPre=/bin/sh; nothing is recorded of it 2 services:"
    )
    assert "  next     systemctl status bootkube.service\n" in answer.out
    document = json.loads(analyze(place, "-o", "json").out)
    assert document["verdict"] == "failed"
    assert document["failedUnits"] == [
        {
            "unit": "bootkube.service",
            "says": "failed: bootkube.service: exit 6 of ExecStartPre=/bin/sh; nothing is recorded of it",
            "result": "exit-code",
            "exitCode": 6,
            "command": "ExecStartPre=/bin/sh",
            "next": ["systemctl status bootkube.service", "journalctl --boot --unit=bootkube.service"],
        }
    ]
    page = parse_page(analyze(place, "-o", "html").out)
    assert page.texts("h1", "verdict") == [f"✗ {document['says']}"]


def test_failed_units_are_selected_by_service_and_boot(log_bundle: Path) -> None:
    assert analyze(log_bundle, "crio").status == 0
    write_lines(
        log_bundle / "bootstrap/services/crio.json",
        *[replace(one, boot_id=OTHER_BOOT) for one in succeeded(50)],
    )
    assert [analyze(log_bundle, "--boot", boot).status for boot in ("-1", "0", "all")] == [0, 1, 1]


def test_expected_service_that_never_started_is_the_verdict(tmp_path: Path) -> None:
    write_lines(tmp_path / "bootkube.json", *succeeded())
    answer = analyze(tmp_path, "--expect", "bootstrap")
    assert (first_line(answer), answer.status) == (
        "✗ failed: release-image did not start: it has no record",
        1,
    )
    assert "\n  missing  release-image did not start: it has no record\n" in answer.out
    lines = analyze(tmp_path, "--expect", "bootkube.service, crio", "--expect", "etcd", "-o", "jsonl").out
    findings = [json.loads(line) for line in lines.splitlines()[1:]]
    assert [(one["finding"], one["service"], one["why"]) for one in findings] == [
        ("not-started", "crio", "unknown"),
        ("not-started", "etcd", "unreached"),
    ]
    assert analyze(tmp_path, "--expect", "bootkube").status == 0


def test_services_of_a_good_run_can_be_expected(tmp_path: Path) -> None:
    good, bad = tmp_path / "good", tmp_path / "bad"
    for directory, services in ((good, ("b", "a")), (bad, ("b",))):
        directory.mkdir()
        for number, service in enumerate(services):
            write_lines(directory / f"{service}.json", *succeeded(number * 10))
    answer = analyze(bad, "--baseline", good, "--expect", "baseline")
    assert (first_line(answer), answer.status) == ("✗ failed: a did not start: it has no record", 1)
    assert analyze(bad, "--expect", "baseline").status == 2
    assert analyze(bad, "--expect", "a,,b").status == 2


def test_wait_continues_until_expected_services_have_started(tmp_path: Path) -> None:
    write_lines(tmp_path / "a.json", *succeeded())
    answer = analyze(tmp_path, "--wait", "--timeout", "0.1s", "--expect", "a,b")
    assert first_line(answer) == "● running: b has not started yet: it has no record; nothing is wrong so far"
    assert answer.status == 124


def test_record_with_a_name_outside_utf8_is_judged(tmp_path: Path) -> None:
    records = tmp_path / "records"
    records.mkdir()
    write_lines(Path(os.fsdecode(os.fsencode(records) + b"/\xff.json")), *failed_run())

    done = service_record("analyze", "--from", str(records))

    assert done.status == 1
    assert "failed" in done.out


def test_bare_command_suggests_commands_if_there_is_no_run(tmp_path: Path) -> None:
    (tmp_path / "job.json").touch()
    answer = service_record(SERVICE_RECORDS_DIR=str(tmp_path))

    assert answer.status == 3
    assert "no run to judge" in answer.err
    assert "service-record doctor" in answer.err
