"""Evidence as people have it: a file of any name, in any form of journalctl, and trees of other gatherers."""

import gzip
import io
import json
import re
import shutil
import zipfile
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from service_record.collector.ingest.opening_bundles import read_bundle
from service_record.diagnosis.evidence.line_patterns import LineSet, Pattern
from service_record.diagnosis.evidence.log_lines import Era
from service_record.diagnosis.evidence.scan import Scanner, list_evidence_patterns
from tests.builders import failed_run, require_type
from tests.command_line import Answer, service_record
from tests.diagnosis.test_evidence_layouts import tar, unpacked
from tests.exam_journals import as_export, as_json

TELLING = "frobnicator gave up: no sprocket left"
RULE = f"""
- name: no-sprocket
  says: there is no sprocket left
  where: any
  message: '{TELLING}'
"""
MOMENT = 1772442001615095
ENTRIES = [
    {
        "__CURSOR": f"s=1;i={number}",
        "__REALTIME_TIMESTAMP": str(MOMENT + number * 1_000_000),
        "__MONOTONIC_TIMESTAMP": str(5_000_000 + number * 1_000_000),
        "_BOOT_ID": "b0" * 16,
        "_HOSTNAME": "node7",
        "PRIORITY": "3",
        "SYSLOG_IDENTIFIER": name,
        "_PID": pid,
        "_SYSTEMD_UNIT": unit,
        "MESSAGE": text,
    }
    for number, (name, pid, unit, text) in enumerate(
        [
            ("systemd", "1", "init.scope", "Started frob.service - Frobnicator."),
            ("frob.sh", "812", "frob.service", "Looking for sprockets"),
            ("frob.sh", "812", "frob.service", TELLING),
            ("sshd", "900", "sshd.service", "Connection reset by 192.0.2.3 port 51234 [preauth]"),
        ]
    )
]


def lines(stamp: Callable[[datetime, dict[str, str]], str], *, with_unit: bool = False) -> str:
    """The journal in a text form of journalctl, with the times of that form."""

    def line(fields: dict[str, str]) -> str:
        time = datetime.fromtimestamp(int(fields["__REALTIME_TIMESTAMP"]) / 1e6, UTC)
        name = fields["_SYSTEMD_UNIT"] if with_unit else fields["SYSLOG_IDENTIFIER"]
        return f"{stamp(time, fields)} node7 {name}[{fields['_PID']}]: {fields['MESSAGE']}\n"

    return "".join(map(line, ENTRIES))


def verbose(fields: dict[str, str]) -> str:
    time = datetime.fromtimestamp(int(fields["__REALTIME_TIMESTAMP"]) / 1e6, UTC)
    stamp = f"{int(fields['__REALTIME_TIMESTAMP']):x}"
    head = f"{time:%a %Y-%m-%d %H:%M:%S.%f} UTC [s=1;i=2;b={fields['_BOOT_ID']};m=4;t={stamp};x=1]\n"
    kept = {name: value for name, value in fields.items() if not name.startswith("__")}
    return head + "".join(f"    {name}={value}\n" for name, value in kept.items())


def pretty(fields: dict[str, str]) -> str:
    return json.dumps(fields, indent=8).replace('": ', '" : ') + "\n"


JOURNALS: dict[str, str | bytes] = {
    "short": lines(lambda time, _: f"{time:%b %d %H:%M:%S}"),
    "no-hostname": lines(lambda time, _: f"{time:%b %d %H:%M:%S}").replace(" node7 ", " "),
    "short-iso": lines(lambda time, _: f"{time:%Y-%m-%dT%H:%M:%S}+0000"),
    "short-precise": lines(lambda time, _: f"{time:%b %d %H:%M:%S.%f}"),
    "short-iso-precise": lines(lambda time, _: time.isoformat()),
    "short-full": lines(lambda time, _: f"{time:%a %Y-%m-%d %H:%M:%S} UTC"),
    "short-monotonic": lines(lambda _, each: f"[{int(each['__MONOTONIC_TIMESTAMP']) / 1e6:12.6f}]"),
    "short-unix": lines(lambda time, _: f"{time.timestamp():.6f}"),
    "with-unit": lines(lambda time, _: f"{time:%a %Y-%m-%d %H:%M:%S} UTC", with_unit=True),
    "verbose": "".join(map(verbose, ENTRIES)),
    "cat": "".join(f"{each['MESSAGE']}\n" for each in ENTRIES),
    "json": b"".join(as_json(ENTRIES)),
    "json-pretty": "".join(map(pretty, ENTRIES)),
    "json-sse": b"".join(b"data: " + line + b"\n" for line in as_json(ENTRIES)),
    "json-seq": b"".join(b"\x1e" + line for line in as_json(ENTRIES)),
    "jq --slurp": json.dumps(ENTRIES, indent=2),
    "export": b"".join(as_export(ENTRIES)),
    "between boots": f"-- Boot {'b0' * 16} --\n" + lines(lambda time, _: f"{time:%b %d %H:%M:%S}"),
    "UTF-16": lines(lambda time, _: f"{time:%b %d %H:%M:%S}").replace("\n", "\r\n").encode("utf-16"),
    "dmesg": f"[    0.000000] Linux version 6.1\n[    5.200000] frob 0000:00:1f.2: {TELLING}\n[    6.0] x\n",
    "dmesg -T": f"[Mon Mar  2 09:00:00 2026] ahci: up\n[Mon Mar  2 09:00:01 2026] frob: {TELLING}\n",
    "syslog": lines(lambda time, _: f"{time:%b %e %H:%M:%S}"),
    "console": "\x1b[2J[    5.200000] frob: x\r\n"
    f"[\x1b[0;1;31mFAILED\x1b[0m] frob: \x1b[1m{TELLING}\x1b[0m\r\n",
    "cluster-info dump": '{\n    "kind": "NodeList",\n    "apiVersion": "v1",\n    "items": []\n}\n'
    f"==== START logs for container etcd of pod kube-system/etcd-node7 ====\n{TELLING}\n",
    "rdsosreport": f"+ cat /lib/dracut/dracut-059\ndracut-059\n+ dmesg\n[    5.200000] frob: {TELLING}\n",
}


def analysis(tmp_path: Path, *source: object, stdin: bytes = b"") -> tuple[dict[str, Any], Answer]:
    rules = tmp_path / "rules.yaml"
    rules.write_text(RULE)
    answer = service_record("analyze", "--rules", rules, "-o", "json", *source, stdin=stdin)
    return (require_type(dict, json.loads(answer.out)) if answer.out else {}), answer


def telling_place(tmp_path: Path, *source: object, stdin: bytes = b"") -> str:
    """Where `analyze` found the telling line in a source."""
    document, answer = analysis(tmp_path, *source, stdin=stdin)
    assert answer.status == 1, (answer.out, answer.err)
    found = [each for each in _causes(document) if each.get("name") == "no-sprocket"]
    assert found, document
    assert TELLING in found[0]["line"]
    return require_type(str, found[0]["place"])


def _causes(value: object) -> list[dict[str, Any]]:
    if isinstance(value, dict):
        own = [value] if "name" in value and "place" in value else []
        return own + [cause for each in value.values() for cause in _causes(each)]
    return [cause for each in value for cause in _causes(each)] if isinstance(value, list) else []


def as_bytes(content: str | bytes) -> bytes:
    return content.encode() if isinstance(content, str) else content


@pytest.mark.parametrize("form", JOURNALS)
def test_one_file_is_read_in_every_form(form: str, tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    path.write_bytes(as_bytes(JOURNALS[form]))
    place, _, line = telling_place(tmp_path, "--from", path).partition(":")
    assert place == "out.txt"
    if form != "UTF-16":
        assert TELLING in as_bytes(JOURNALS[form]).split(b"\n")[int(line) - 1].decode(
            errors="replace"
        ).replace("\x1b[1m", "")


@pytest.mark.parametrize("name", ["node7-journal.txt", "serial.log", "rdsosreport.txt", "noname", "a.json"])
def test_name_of_a_journal_does_not_matter(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(as_bytes(JOURNALS["json"]))
    assert telling_place(tmp_path, path) == f"{name}:3"


@pytest.mark.parametrize("form", ["short", "json", "export", "cat"])
def test_standard_input_is_read_like_a_file(form: str, tmp_path: Path) -> None:
    journal = as_bytes(JOURNALS[form])
    for packed in (journal, gzip.compress(journal)):
        assert telling_place(tmp_path, "--from", "-", stdin=packed).startswith("stdin:")


def test_several_files_are_read_as_one_host(tmp_path: Path) -> None:
    for name in ("cat", "short"):
        (tmp_path / name).write_text(
            require_type(str, JOURNALS[name]).replace(TELLING, "nothing" * (name == "cat"))
        )
    (tmp_path / "short").write_bytes(as_bytes(JOURNALS["short"]))
    assert telling_place(tmp_path, "--from", tmp_path / "cat", "--from", tmp_path / "short") == "short:3"


def zipped(files: Mapping[str, bytes | str], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", compression) as archive:
        for path, content in files.items():
            archive.writestr(path, content)
    return packed.getvalue()


JOURNAL = require_type(str, JOURNALS["short"])
LOG = f"2026-03-02 09:00:01,123 - util.py[WARNING]: {TELLING}\n"
CRI = f"2026-03-02T09:00:01.123456789Z stderr F {TELLING}\n"
MANIFEST = '{"kind": "ConfigMap", "timestamp": "2026-03-02T09:00:00Z"}\n'
STATUS = json.dumps({"v1": {"stage": None, "modules-final": {"errors": [f"('scripts_user', {TELLING})"]}}})
LAYOUTS: dict[str, tuple[dict[str, bytes | str], str]] = {
    "files": ({"one.txt": "hello\n", "node7.txt": JOURNAL, "settings.json": MANIFEST}, "node7.txt:3"),
    "var log": (
        {
            "syslog": JOURNAL,
            "dpkg.log": "x\n",
            "wtmp": bytes(9),
            "openshift/x.txt": "y\n",
            "apt/a.json": "{}",
        },
        "syslog:3",
    ),
    "sos": (
        {
            "sosreport-node7/sos_commands/logs/journalctl_--no-pager_--boot": JOURNAL,
            "sosreport-node7/sos_commands/host/hostname": "node7\n",
            "sosreport-node7/sos_reports/sos.json": MANIFEST,
            "sosreport-node7/version.txt": "sosreport: 4.5\n",
        },
        "sosreport-node7/sos_commands/logs/journalctl_--no-pager_--boot:3",
    ),
    "supportconfig": (
        {
            "scc_node7_260302/basic-environment.txt": "#==[ Command ]======#\n# /bin/date\nMon Mar 2\n",
            "scc_node7_260302/messages.txt": f"#==[ Log File ]====#\n# /var/log/messages\n{JOURNAL}",
        },
        "scc_node7_260302/messages.txt:5",
    ),
    "cloud-init collect-logs": (
        {
            "cloud-init-logs-2026-03-02/cloud-init-output.log": "Cloud-init v. 23.4 running\n",
            "cloud-init-logs-2026-03-02/run/cloud-init/status.json": STATUS,
            "cloud-init-logs-2026-03-02/dmesg.txt": "[    0.000000] Linux\n",
            "cloud-init-logs-2026-03-02/version": "23.4\n",
        },
        "cloud-init-logs-2026-03-02/run/cloud-init/status.json:1",
    ),
    "cloud-init newer": (
        {"cloud-init-logs-2026-03-02/var/log/cloud-init.log": LOG},
        "cloud-init-logs-2026-03-02/var/log/cloud-init.log:1",
    ),
    "subiquity": (
        {
            "subiquity-server-debug.log": LOG,
            "autoinstall-user-data": "autoinstall: {}\n",
            "device-map.json": "{}",
            "block/probe-data.json": MANIFEST,
        },
        "subiquity-server-debug.log:1",
    ),
    "debian-installer": (
        {"installer/syslog": f"Mar  2 09:00:01 main-menu[5]: {TELLING}\n"},
        "installer/syslog:1",
    ),
    "anaconda": (
        {"anaconda.log": "09:00:01,1 INF x: y\n", "storage.log": f"09:00:01,123 ERR blivet: {TELLING}\n"},
        "storage.log:1",
    ),
    "anaconda traceback": (
        {"anaconda-tb-a1b2c3": f"anaconda 34.25 exception report\nTraceback:\nblivet.errors.X: {TELLING}\n"},
        "anaconda-tb-a1b2c3:3",
    ),
    "kubectl cluster-info dump": (
        {
            "nodes.json": MANIFEST,
            "kube-system/events.json": MANIFEST,
            "kube-system/pods.json": json.dumps({"items": [{"status": {"phase": "Running"}}]}),
            "kube-system/etcd-node7/logs.txt": f"==== START logs for container etcd ====\n{TELLING}\n",
        },
        "kube-system/etcd-node7/logs.txt:2",
    ),
    "events of a cluster": (
        {
            "nodes.json": MANIFEST,
            "default/events.json": json.dumps(
                {"kind": "EventList", "items": [{"message": TELLING}]}, indent=4
            ),
        },
        "default/events.json:5",
    ),
    "kind export": (
        {
            "kind-version.txt": "kind v0.20.0\n",
            "kind-control-plane/inspect.json": MANIFEST,
            "kind-control-plane/journal.log": "Mar 02 09:00:01 kind systemd[1]: Started x.\n",
            "kind-control-plane/pods/kube-system_etcd_1/etcd/0.log": CRI,
        },
        "kind-control-plane/pods/kube-system_etcd_1/etcd/0.log:1",
    ),
    "log bundle without records": (
        {
            "log-bundle-1/bootstrap/services/.keep": "",
            "log-bundle-1/bootstrap/journals/bootkube.log": JOURNAL,
            "log-bundle-1/rendered-assets/a.json": MANIFEST,
        },
        "log-bundle-1/bootstrap/journals/bootkube.log:3",
    ),
    "serial of the installer": (
        {
            "log-bundle-1/bootstrap/journals/kubelet.log": "x\n",
            "log-bundle-1/serial/c-bootstrap-serial.log": JOURNALS["console"],
        },
        "log-bundle-1/serial/c-bootstrap-serial.log:2",
    ),
    "own bundle without records": (
        {"log-bundle-1/manifest.json": MANIFEST, "log-bundle-1/bootstrap/journals/journal.log": JOURNAL},
        "log-bundle-1/bootstrap/journals/journal.log:3",
    ),
    "own bundle, unpacked from inside": (
        {"manifest.json": MANIFEST, "bootstrap/journals/journal.log": JOURNAL},
        "bootstrap/journals/journal.log:3",
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_directory_of_each_gatherer_is_read(layout: str, tmp_path: Path) -> None:
    files, place = LAYOUTS[layout]
    folder = unpacked(tmp_path / "given", files)
    assert telling_place(tmp_path, folder) == place
    assert telling_place(tmp_path, "--from", folder) == place


@pytest.mark.parametrize("pack", [tar, zipped])
@pytest.mark.parametrize("layout", ["sos", "subiquity", "kind export", "serial of the installer"])
def test_archive_of_each_gatherer_is_read(
    layout: str, pack: Callable[[Mapping[str, bytes | str]], bytes], tmp_path: Path
) -> None:
    files, place = LAYOUTS[layout]
    path = tmp_path / "given"
    path.write_bytes(pack(files))
    assert telling_place(tmp_path, path) == place
    assert telling_place(tmp_path, "--from", "-", stdin=path.read_bytes()) == place


def test_archive_in_a_zip_archive_is_read(tmp_path: Path) -> None:
    path = tmp_path / "case.zip"
    path.write_bytes(zipped({"readme.txt": "x\n", "sos.tar.gz": tar({"a/messages": JOURNAL})}))
    assert telling_place(tmp_path, path) == "sos.tar.gz/a/messages:3"


def test_records_in_a_zip_archive_are_shown(tmp_path: Path) -> None:
    record = b"".join(each.to_line() for each in failed_run())
    path = tmp_path / "bundle.zip"
    path.write_bytes(zipped({"b/bootstrap/services/bootkube.json": record}))
    answer = service_record("show", "--from", path)
    assert (answer.status, answer.err) == (0, "")
    assert "bootkube failed" in answer.out


def test_collector_reads_zip_archives(tmp_path: Path) -> None:
    record = b"".join(each.to_line() for each in failed_run())
    files: dict[str, bytes | str] = {"b/bootstrap/services/bootkube.json": record, "b/journal.txt": JOURNAL}
    path = tmp_path / "bundle.zip"
    path.write_bytes(zipped(files))
    assert read_bundle(path).look.verdict == "failed"
    path.write_bytes(zipped({**files, "b/core": bytes(20 << 20)}, zipfile.ZIP_STORED))
    assert any("a zip archive that cannot be copied" in each for each in read_bundle(path).look.left_out)


def test_foreign_json_makes_no_directory_a_record_directory(tmp_path: Path) -> None:
    folder = unpacked(tmp_path / "given", {"status.json": STATUS, "kernel.log": "x\n"})
    answer = service_record("show", "--from", folder)
    assert answer.status == 3
    assert "its *.json files are not records" in answer.err


def test_foreign_json_beside_records_is_not_a_damaged_record(tmp_path: Path) -> None:
    record = b"".join(each.to_line() for each in failed_run())
    folder = unpacked(tmp_path / "given", {"bootkube.json": record, "manifest.json": MANIFEST})
    services = json.loads(service_record("show", "-o", "json", "--from", folder).out)["services"]
    assert [each["service"] for each in services] == ["bootkube"]


def test_files_beside_records_are_evidence(tmp_path: Path) -> None:
    record = b"".join(each.to_line() for each in failed_run())
    folder = unpacked(tmp_path / "given", {"bootkube.json": record, "node7.txt": JOURNAL})
    document, answer = analysis(tmp_path, folder)
    assert document["root"]["service"] == "bootkube", answer.err
    assert "no-sprocket" in answer.out


@pytest.mark.parametrize("verb", ["show", "timeline"])
def test_verbs_of_records_name_the_verb_that_reads_logs(verb: str, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("2026-11-21T01:05:10+0000 node program[7]: of no unit\n")
    answer = service_record(verb, "--from", path)
    advice = "service-record analyze reads logs"
    assert (answer.status, answer.err) == (
        3,
        f"Error: {path}: not a bundle and not a record: looks like a journal as text; {advice}\n",
    )


def test_dmesg_is_not_a_damaged_record(tmp_path: Path) -> None:
    path = tmp_path / "dmesg.json"
    path.write_text(require_type(str, JOURNALS["dmesg"]))
    assert telling_place(tmp_path, path) == "dmesg.json:2"


@pytest.mark.parametrize(
    "place",
    ["log-bundle-1/control-plane/192.0.2.9/journals/kubelet.log", "log-bundle-1/serial/m0-serial.log"],
)
def test_gather_without_bootstrap_host_is_reported(place: str, tmp_path: Path) -> None:
    files: dict[str, bytes | str] = {
        place: "Mar 02 09:00:01 m0 kubelet[1]: x\n",
        "log-bundle-1/gather.log": "x\n",
    }
    path = tmp_path / "log-bundle-1.tar.gz"
    path.write_bytes(tar(files))
    for source in (path, unpacked(tmp_path / "given", files)):
        warning = analysis(tmp_path, source)[1].err
        assert re.search(
            "bootstrap: not in this log bundle: the bootstrap host could not be reached", warning
        )


@pytest.mark.skipif(shutil.which("journalctl") is None, reason="needs journalctl")
def test_damaged_binary_journal_is_named_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "system.journal"
    path.write_bytes(b"LPKSHHRH" + bytes(400))
    answer = service_record("analyze", "--from", path)
    assert answer.status == 3
    assert "a binary journal that journalctl cannot read" in answer.err


def fake_journalctl(folder: Path, output: bytes) -> Path:
    folder.mkdir()
    (folder / "export").write_bytes(output)
    program = folder / "journalctl"
    program.write_text(
        "#!/bin/sh\nfor last; do case $last in --boot=-1) exit 1;; esac; done\n"
        f'set -- "$@"; for each; do case $each in --directory=*) '
        f'grep -q LPKSHHRH "${{each#*=}}"/*.journal || exit 2;; esac; done\ncat {folder}/export\n'
    )
    program.chmod(0o755)
    return folder


def test_binary_journal_is_read_by_journalctl(tmp_path: Path) -> None:
    programs = fake_journalctl(tmp_path / "bin", as_bytes(JOURNALS["export"]))
    folder = unpacked(
        tmp_path / "log", {"journal/b0/system.journal": b"LPKSHHRH" + bytes(400), "a.txt": "x\n"}
    )
    (tmp_path / "rules.yaml").write_text(RULE)
    answer = service_record(
        "analyze", "--rules", tmp_path / "rules.yaml", "--from", folder, PATH=f"{programs}:/usr/bin:/bin"
    )
    assert answer.status == 1
    assert "journal/b0/journal.export:" in answer.out


def test_binary_journal_without_journalctl_is_named_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    folder = unpacked(
        tmp_path / "log", {"journal/b0/system.journal": b"LPKSHHRH" + bytes(400), "a.txt": "x\n"}
    )
    answer = service_record("analyze", "--from", folder, PATH=str(tmp_path / "bin"))
    assert "a binary journal, not read: journalctl is not installed here" in answer.err
    assert answer.err.count("\n") == 1


def record(*phases: str) -> str:
    """A record as OpenShift's own recorder writes it."""
    entries = [
        {"timestamp": f"2026-03-02T09:00:0{number}Z", "phase": phase, "result": result}
        for number, (phase, result) in enumerate(phase.split(", ") for phase in phases)
    ]
    return json.dumps([{name: value for name, value in each.items() if value != "none"} for each in entries])


SUCCEEDED = record("service start, none", "service end, success")


@pytest.mark.parametrize(
    ("recorded", "missing"),
    [
        ({"release-image": SUCCEEDED}, ["bootkube"]),
        ({"crio-configure": SUCCEEDED}, ["release-image", "bootkube"]),
        ({"release-image": SUCCEEDED, "bootkube": SUCCEEDED}, []),
        ({"bootkube": SUCCEEDED}, []),
        ({"kubelet": SUCCEEDED}, []),
    ],
)
def test_log_bundle_expects_the_services_of_a_bootstrap_host(
    recorded: dict[str, str], missing: list[str], tmp_path: Path
) -> None:
    files: dict[str, bytes | str] = {
        f"log-bundle-1/bootstrap/services/{name}.json": text for name, text in recorded.items()
    }
    path = tmp_path / "log-bundle-1.tar.gz"
    path.write_bytes(tar(files))
    for source in (path, unpacked(tmp_path / "given", files)):
        document, answer = analysis(tmp_path, source)
        assert [each["service"] for each in document.get("notStarted", [])] == missing, document
        assert answer.status == (1 if missing else 0)


def test_bundle_of_ours_expects_nothing(tmp_path: Path) -> None:
    files: dict[str, bytes | str] = {
        "b/bootstrap/services/release-image.json": SUCCEEDED,
        "b/manifest.json": '{"version": 1, "generator": "service-record/1"}',
    }
    path = tmp_path / "bundle.tar.gz"
    path.write_bytes(tar(files))
    assert analysis(tmp_path, path)[1].status == 0


@pytest.mark.parametrize("verb", ["analyze", "show", "timeline"])
def test_path_without_from_is_a_source(verb: str, tmp_path: Path) -> None:
    folder = unpacked(
        tmp_path / "records", {"bootkube.json": b"".join(each.to_line() for each in failed_run())}
    )
    for source in (folder, folder / "bootkube.json", "./records", "records"):
        answer = service_record(verb, source, cwd=tmp_path)
        assert "bootkube" in answer.out, answer.err
    other = service_record(verb, folder, "frob", cwd=tmp_path)
    assert (other.status, "no record of frob" in other.err) == (3, True)


def test_service_of_this_host_is_not_a_file(tmp_path: Path) -> None:
    folder = unpacked(tmp_path / "records", {"job.json": b"".join(each.to_line() for each in failed_run())})
    (tmp_path / "job").mkdir()
    answer = service_record("show", "job", cwd=tmp_path, SERVICE_RECORDS_DIR=str(folder))
    assert (answer.status, answer.err) == (0, "")


LATER = "Mar 02 10:00:01 node7 systemd[1]: Started again.service.\n"
BOOTS: dict[str, bytes | str] = {
    "journalctl": f"{JOURNAL}-- Boot {'b1' * 16} --\n{LATER}",
    "older journalctl": f"{JOURNAL}-- Reboot --\n{LATER}",
    "syslog": f"{JOURNAL}Mar 02 10:00:00 node7 kernel: Linux version 6.1\n{LATER}",
    "console": f"[    5.200000] frob: {TELLING}\n[    0.000000] Linux version 6.1\n[    1.000000] x\n",
    "json": b"".join(as_json([*ENTRIES, {**ENTRIES[0], "_BOOT_ID": "b1" * 16}])),
    "export": b"".join(as_export([*ENTRIES, {**ENTRIES[0], "_BOOT_ID": "b1" * 16}])),
}


@pytest.mark.parametrize("form", BOOTS)
def test_lines_before_latest_boot_are_of_earlier_one(form: str) -> None:
    scanner = Scanner(LineSet([(7, Pattern.parse(TELLING)), *list_evidence_patterns()]), {}, Era())
    scanner.read("out.txt", io.BytesIO(as_bytes(BOOTS[form])).read)
    ((line,),) = scanner.evidence().lines.values()
    assert (line.is_earlier_boot, TELLING in line.text) == (True, True)


@pytest.mark.parametrize("form", JOURNALS)
def test_lines_of_the_only_boot_are_of_the_latest(form: str) -> None:
    scanner = Scanner(LineSet([(7, Pattern.parse(TELLING)), *list_evidence_patterns()]), {}, Era())
    scanner.read("out.txt", io.BytesIO(as_bytes(JOURNALS[form])).read)
    ((line,),) = scanner.evidence().lines.values()
    assert not line.is_earlier_boot


@pytest.mark.parametrize("form", ["json", "json-pretty", "export", "verbose"])
def test_structured_journal_has_units_and_priorities(form: str) -> None:
    scanner = Scanner(LineSet([(7, Pattern.parse(TELLING))]), {"frob": [], "sshd": []}, Era())
    scanner.read("out.txt", io.BytesIO(as_bytes(JOURNALS[form])).read)
    evidence = scanner.evidence()
    ((line,),) = evidence.lines.values()
    assert (line.unit, line.name, line.pid, line.priority) == ("frob", "frob.sh", 812, 3)
    assert line.time == datetime.fromtimestamp((MOMENT + 2_000_000) / 1e6, UTC)
    assert [each.text for each in evidence.own["frob"]] == ["Looking for sprockets", TELLING]


def test_journal_lines_in_other_text_belong_to_their_service() -> None:
    ended = "Mar 02 09:00:09 node7 systemd[1]: frob.service: Failed with result 'exit-code'.\n"
    capture = "$ cat notes\n" * 9 + JOURNAL + ended
    scanner = Scanner(LineSet(()), {"frob": [812]}, Era())
    scanner.read("out.txt", io.BytesIO(capture.encode()).read)
    evidence = scanner.evidence()
    assert [line.text for line in evidence.own["frob"]][:2] == ["Looking for sprockets", TELLING]
    assert "frob.service" in evidence.unit_logs


SUPPORTCONFIG = """\
#==[ Command ]======================================#
# /bin/df -h
Filesystem      Size  Used Avail Use% Mounted on
/dev/sda2        40G   40G     0 100% /

#==[ Configuration File ]===========================#
# /etc/resolv.conf
search lab.example.net
nameserver 192.0.2.53
"""


def test_facts_of_supportconfig_are_those_of_the_host() -> None:
    scanner = Scanner(LineSet(()), {}, Era())
    text = io.BytesIO(SUPPORTCONFIG.encode())
    scanner.read("scc_node7_260302/network.txt", text.read)
    facts = scanner.evidence().facts
    server = facts.all("nameserver")
    assert [(one.value, one.place.line) for one in server] == [("192.0.2.53", 9)]
    assert [one.of for one in facts.all("full")] == ["/"]
