"""Where records can be read from, and what is said where they cannot."""

import bz2
import gzip
import json
import lzma
import os
import random
import re
import subprocess
import tarfile
from collections.abc import Callable
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from service_record.bundle import LeftOut, pack
from service_record.cli import main
from service_record.read.source import Source, SourceError, liveness_for, look_ahead, open_source
from service_record.record import systemd
from service_record.record.entry import Entry, Malformed, Phase
from service_record.record.systemd import is_alive
from tests.archives import MTIME, SERVICES, extract_all, header, record, tar
from tests.builders import entry, failed_run, require, write_array, write_lines
from tests.command_line import PROGRAM, environment, service_record


def read(source: Source) -> dict[str, list[Phase]]:
    return {
        name: [piece.phase for piece in record if isinstance(piece, Entry)] for name, record in source.records
    }


def test_a_directory_has_one_record_for_each_service(tmp_path: Path) -> None:
    write_lines(tmp_path / "one.json", entry())
    write_array(tmp_path / "two.json", entry(), entry(Phase.SERVICE_END, 1))
    (tmp_path / "two.json.tmp").write_text("half")
    assert read(open_source([str(tmp_path)])) == {
        "one": [Phase.SERVICE_START],
        "two": [Phase.SERVICE_START, Phase.SERVICE_END],
    }


def test_directory_has_write_times_and_unfinished_writes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        os.utime(write_lines(tmp_path / f"{name}.json", entry()), (0, 10**9))
    (tmp_path / "two.json.tmp").touch()
    (tmp_path / "three").mkdir()
    os.utime(write_lines(tmp_path / "three" / "one.json", entry()), (0, 2 * 10**9))
    source = open_source([str(tmp_path), str(tmp_path / "three")])
    assert source.written == {"one": 2e9, "two": 1e9}
    assert source.unfinished == {"two"}


def test_directory_lists_copies_of_damaged_records(tmp_path: Path) -> None:
    for name in ("one", "two", "three", "four"):
        write_lines(tmp_path / f"{name}.json", entry())
    (tmp_path / "two.json.damaged").write_bytes(b"\0{torn")
    (tmp_path / "three.json.damaged").mkdir()
    os.mkfifo(tmp_path / "four.json.damaged")
    (tmp_path / "gone.json.damaged").touch()
    source = open_source([str(tmp_path), str(tmp_path / "one.json")])
    assert {service: read() for service, read in source.damaged.items()} == {"two": b"\0{torn"}
    assert "two" in read(source)


def test_damaged_copies_survive_a_bundle(tmp_path: Path) -> None:
    write_lines(tmp_path / "job.json", entry())
    (tmp_path / "job.json.damaged").write_bytes(b"\0{torn")
    source = open_source([str(tmp_path)])
    with (tmp_path / "bundle").open("wb") as stream:
        pack(source.records, stream, datetime.now(UTC), source.damaged)
    with tarfile.open(tmp_path / "bundle") as archive:
        extract_all(archive, tmp_path / "unpacked")
    for place in ("bundle", "unpacked"):
        assert open_source([str(tmp_path / place)]).damaged["job"]() == b"\0{torn"


def test_record_with_upstream_name_is_read(tmp_path: Path) -> None:
    write_array(tmp_path / "kube.let.json", entry())
    write_array(tmp_path / "kube_let.json", entry(), entry(Phase.SERVICE_END, 1))
    assert read(open_source([str(tmp_path)])) == {
        "kube.let": [Phase.SERVICE_START],
        "kube_let": [Phase.SERVICE_START, Phase.SERVICE_END],
    }


def test_without_a_place_it_is_this_hosts_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_lines(tmp_path / "job.json", entry())
    monkeypatch.setenv("SERVICE_RECORDS_DIR", str(tmp_path))
    source = open_source()
    assert (source.name, source.is_home) == (str(tmp_path), True)
    assert open_source([str(tmp_path)]).is_home
    assert not open_source([str(tmp_path / "job.json")]).is_home


def test_file_name_is_the_name_of_its_service(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "job.json", entry())
    assert read(open_source([str(path)])) == {"job": [Phase.SERVICE_START]}


def test_several_places_are_read_as_one(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    old = write_lines(tmp_path / "old" / "job.json", entry())
    new = write_lines(tmp_path / "job.json", entry(Phase.SERVICE_END, 1))
    other = write_lines(tmp_path / "other.json", entry())
    assert read(open_source([str(old), str(new), str(other)])) == {
        "job": [Phase.SERVICE_START, Phase.SERVICE_END],
        "other": [Phase.SERVICE_START],
    }


def test_stream_with_service_names_has_several_records(tmp_path: Path) -> None:
    named = [entry(extra={"service": name}) for name in ("b", "a", "b")]
    path = write_lines(tmp_path / "all.jsonl", *named)
    assert read(open_source([str(path)])) == {"b": [Phase.SERVICE_START] * 2, "a": [Phase.SERVICE_START]}


def test_empty_file_is_a_record_without_runs(tmp_path: Path) -> None:
    path = tmp_path / "job.json"
    path.touch()
    assert read(open_source([str(path)])) == {"job": []}


BUNDLE = gzip.compress(
    tar(
        record("bootkube", *failed_run(), entry(at=60, boot_id="c1" * 16)),
        record("earlier", entry()),
        header(f"{SERVICES}/link.json", type=tarfile.SYMTYPE, linkname="/etc/shadow"),
    )
)


@pytest.mark.parametrize("name", ["log-bundle.tar.gz", "bundle", "record.json"])
def test_a_bundle_is_told_by_its_content(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(BUNDLE)
    source = open_source([str(tmp_path / name)])
    assert (source.name, source.is_home) == (str(tmp_path / name), False)
    assert source.left_out == (
        LeftOut(f"{tmp_path / name}: {SERVICES}/link.json", "refused: a symbolic link, not a plain file"),
    )
    assert source.written == {"bootkube": MTIME, "earlier": MTIME}
    assert list(read(source)) == ["bootkube", "earlier"]


@pytest.mark.parametrize("slice_bytes", [1, 300, 10**6])
def test_bundle_is_read_from_a_slow_standard_input(slice_bytes: int) -> None:
    with subprocess.Popen(
        [*PROGRAM, "show", "--from", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    ) as shown:
        assert shown.stdin is not None
        for start in range(0, len(BUNDLE), slice_bytes):
            shown.stdin.write(BUNDLE[start : start + slice_bytes])
            shown.stdin.flush()
        out, err = shown.communicate(timeout=60)
    assert out.decode().startswith("2 services: 1 interrupted, 1 running\nstandard input, 2 boots\n")
    assert err.decode() == (
        f"Warning: standard input: {SERVICES}/link.json: refused: a symbolic link, not a plain file\n"
    )


def test_line_from_pipe_does_not_wait_for_more() -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as stream, os.fdopen(writing, "wb", buffering=0) as pipe:
        pipe.write(b'{"phase":"x"}\n')
        head, again = look_ahead(stream)
        assert head == b'{"phase":"x"}\n'
        assert again.readline() == head


def test_a_bundle_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "bundle").write_bytes(BUNDLE)
    command = [*PROGRAM, "show", "--from", "bundle"]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment(TMPDIR=str(tmp_path)), capture_output=True, check=True
    )
    assert b"bootkube" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["bundle"]


def test_run_of_a_bundle_ignores_processes_here() -> None:
    gone = entry(boot_id=systemd.boot_id(), pid=2**22 + 1)
    archive = tar(record("now", gone), record("then", entry(at=-1000)))
    answer = service_record("show", "--output", "json", "--from", "-", stdin=archive)
    outcomes = {one["service"]: one["outcome"] for one in json.loads(answer.out)["services"]}
    assert outcomes == {"now": "running", "then": "interrupted"}


@pytest.mark.parametrize(
    "below",
    [
        "bootstrap/services",
        "log-bundle-20261121010510/bootstrap/services",
        "log-bundle-bootstrap/bootstrap/services",
        "agent-gather/var/log/openshift",
    ],
)
def test_unpacked_bundle_is_found(tmp_path: Path, below: str) -> None:
    (tmp_path / below).mkdir(parents=True)
    write_array(tmp_path / below / "bootkube.json", entry())
    source = open_source([str(tmp_path)])
    assert read(source) == {"bootkube": [Phase.SERVICE_START]}
    assert (source.name, source.is_snapshot) == (str(tmp_path / below), True)


def test_one_of_several_bundles_is_not_chosen(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name / "bootstrap" / "services").mkdir(parents=True)
    with pytest.raises(SourceError, match=r"several bundles.*give one of .*/a/bootstrap.*/b/bootstrap"):
        open_source([str(tmp_path)])


def test_records_beside_a_bundle_are_read(tmp_path: Path) -> None:
    (tmp_path / "log-bundle-1" / "bootstrap" / "services").mkdir(parents=True)
    write_lines(tmp_path / "job.json", entry())
    source = open_source([str(tmp_path)])
    assert (list(read(source)), source.is_snapshot) == (["job"], False)


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress])
def test_a_compressed_record_is_read(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "job.json.z"
    path.write_bytes(compress(entry().to_line()))
    assert read(open_source([str(path)])) == {"job": [Phase.SERVICE_START]}


def test_compressed_stream_has_named_records(tmp_path: Path) -> None:
    lines = b"".join(entry(extra={"service": name}).to_line() for name in ("b", "a"))
    (tmp_path / "all.jsonl.gz").write_bytes(gzip.compress(lines))
    assert list(read(open_source([str(tmp_path / "all.jsonl.gz")]))) == ["b", "a"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (tar(header("etc/motd")), "an archive with neither bootstrap/services/*.json nor"),
        (gzip.compress(tar(header("etc/motd")))[:-10], "ended before|no end"),
        (b"PK\x03\x04", "a damaged zip archive"),
    ],
    ids=["without records", "truncated", "zip"],
)
def test_archive_with_nothing_to_read_says_why(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "bundle"
    path.write_bytes(content)
    answer = service_record("show", "--from", path)
    assert (answer.status, answer.out, answer.err.count("\n")) == (3, "", 1)
    assert re.search(message.replace("*", "[*]"), answer.err)


def test_control_characters_in_archive_names_are_escaped() -> None:
    link = header(f"{SERVICES}/\x1b[2J.json", type=tarfile.SYMTYPE)
    answer = service_record("show", "--from", "-", stdin=tar(link, record("\x1b[31mred\n", entry())))
    assert "\x1b" not in answer.out + answer.err
    assert "\\x1b[31mred" in answer.out
    assert "\\x1b[2J" in answer.err


@pytest.mark.parametrize(
    ("name", "expected"), [("absent", "No such file or directory"), ("empty", r"no \*\.json file there")]
)
def test_place_without_records_is_named(tmp_path: Path, name: str, expected: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises((SourceError, FileNotFoundError), match=expected) as caught:
        open_source([str(tmp_path / name)])
    assert str(tmp_path / name) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_default_directory_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVICE_RECORDS_DIR", str(tmp_path / "absent"))
    with pytest.raises(SourceError, match=r"no such directory.*--from"):
        open_source()


def test_ended_process_is_not_alive() -> None:
    with subprocess.Popen(["/bin/sleep", "60"]) as sleep:
        assert is_alive(sleep.pid, systemd.uptime())
        sleep.kill()
        os.waitid(os.P_PID, sleep.pid, os.WEXITED | os.WNOWAIT)
        assert not is_alive(sleep.pid, systemd.uptime()), "a zombie has ended"
    assert not is_alive(sleep.pid, systemd.uptime())


def test_reused_pid_is_not_the_recorded_process() -> None:
    now = require(systemd.uptime())
    with subprocess.Popen(["/bin/sleep", "60"]) as sleep:
        assert is_alive(sleep.pid, now + 5)
        assert not is_alive(sleep.pid, now - 60)
        sleep.kill()


def test_only_own_directory_excludes_other_boots(tmp_path: Path) -> None:
    write_lines(tmp_path / "job.json", *failed_run())
    liveness = liveness_for(open_source([str(tmp_path)]))
    assert (liveness.boot_id, liveness.is_at_home) == (systemd.boot_id(), False)


def test_records_of_two_hosts_are_not_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, other = tmp_path / "home", tmp_path / "other"
    for directory in (home, other):
        directory.mkdir()
        write_lines(directory / "job.json", entry())
    monkeypatch.setenv("SERVICE_RECORDS_DIR", str(home))
    assert liveness_for(open_source([str(home)])).is_at_home
    assert not liveness_for(open_source([str(home), str(other)])).is_at_home


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "compressed"])
def test_an_empty_archive_is_no_record(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    content = BytesIO()
    tarfile.open(fileobj=content, mode="w").close()
    archive = tmp_path / "bundle.tar"
    archive.write_bytes(pack(content.getvalue()))
    with pytest.raises(SourceError, match="an empty archive"):
        list(open_source([str(archive)]).records)


def test_a_record_of_nothing_but_nuls_stays_one(tmp_path: Path) -> None:
    record = tmp_path / "bootkube.json"
    record.write_bytes(bytes(10240))
    ((service, pieces),) = open_source([str(record)]).records
    assert (service, [type(piece) for piece in pieces]) == ("bootkube", [Malformed])


PAGE = b"<!DOCTYPE html>\n<html><body>404 Not Found</body></html>\n"
FOREIGN = {
    "HTML": (PAGE, "looks like HTML"),
    "HTML in gzip": (gzip.compress(PAGE), "looks like HTML"),
    "XML": (b"<?xml version='1.0'?><Error><Code>AccessDenied</Code></Error>", "looks like XML"),
    "text": (b"curl: (22) The requested URL returned error: 404\n", "looks like plain text"),
    "binary": (b"\x89PNG\r\n\x1a\n", "looks like binary data"),
    "random": (random.Random(1).randbytes(5000), "looks like binary data"),
    "empty": (b"", "it is empty"),
    "empty tar": (bytes(10240), "looks like an empty archive"),
}


@pytest.mark.parametrize(
    "command",
    [
        ["show", "--from"],
        ["show", "-o", "jsonl", "--from"],
        ["analyze", "--from"],
        ["timeline", "--from"],
        ["export", "--to", "array", "--from"],
        ["validate"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("kind", FOREIGN)
def test_foreign_file_is_refused_by_every_verb(kind: str, command: list[str], tmp_path: Path) -> None:
    content, looks = FOREIGN[kind]
    path = tmp_path / "bundle.tar.gz"
    path.write_bytes(content)
    answer = invoked(*command, str(path))
    advice = "look into it, or fetch the bundle again"
    assert (answer.exit_code, answer.stdout, answer.stderr) == (
        3,
        "",
        f"Error: {path}: not a bundle and not a record: {looks}; {advice}\n",
    )


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["show", "--from"], "standard input"),
        (["show", "-o", "jsonl", "--from"], "standard input"),
        (["analyze", "--from"], "standard input"),
        (["timeline", "--from"], "standard input"),
        (["export", "--to", "array", "--from"], "standard input"),
        (["diff", "RECORDS"], "standard input"),
        (["validate"], "-"),
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", ["HTML", "HTML in gzip", "XML", "binary"])
def test_foreign_standard_input_is_refused_by_every_verb(
    kind: str, command: list[str], name: str, tmp_path: Path
) -> None:
    content, looks = FOREIGN[kind]
    write_lines(tmp_path / "job.json", entry())
    arguments = [str(tmp_path) if word == "RECORDS" else word for word in command]
    answer = service_record(*arguments, "-", stdin=content)
    advice = "look into it, or fetch the bundle again"
    assert (answer.status, answer.out, answer.err) == (
        3,
        "",
        f"Error: {name}: not a bundle and not a record: {looks}; {advice}\n",
    )


def test_validate_names_the_verb_that_reads_journals(tmp_path: Path) -> None:
    path = tmp_path / "journal.txt"
    path.write_text("Nov 21 10:00:00 node systemd[1]: Started moon.service.\n")
    assert "service-record analyze reads logs" in invoked("validate", str(path)).stderr


@pytest.mark.parametrize("content", [b"", bytes(4096), b'{"torn'], ids=["empty", "NULs", "torn"])
def test_damaged_record_on_stdin_is_accepted(content: bytes) -> None:
    assert service_record("show", "--from", "-", stdin=content).status == 0


@pytest.mark.parametrize("kind", [kind for kind in FOREIGN if kind != "HTML in gzip"])
def test_file_named_like_an_archive_is_not_copied(kind: str, tmp_path: Path) -> None:
    content, looks = FOREIGN[kind]
    path = tmp_path / "bundle.tar.gz"
    path.write_bytes(content)
    answer = invoked("bundle", "--redact", str(path), "-o", str(tmp_path / "copy.tar.gz"))
    assert answer.exit_code == 3
    assert looks in answer.stderr
    assert not (tmp_path / "copy.tar.gz").exists()


@pytest.mark.parametrize("content", [b"", bytes(10240), b"[]", b'{"torn', b"oops\n" + entry().to_line()])
def test_a_damaged_record_is_not_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "bootkube.json"
    path.write_bytes(content)
    assert invoked("show", "--from", str(path)).exit_code == 0


def invoked(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments, prog_name="service-record")


def test_standard_input_is_read_from_its_position(tmp_path: Path) -> None:
    lines = [one.to_line() for one in failed_run("pull")]
    path = tmp_path / "job.json"
    path.write_bytes(b"skipped\n" + b"".join(lines) + b"torn\n")
    with path.open("rb", buffering=0) as stream:
        stream.seek(len(b"skipped\n"))
        command = [*PROGRAM, "analyze", "-o", "json", "--from", "-"]
        done = subprocess.run(command, stdin=stream, capture_output=True, check=False, env=environment())
    assert (done.returncode, done.stderr) == (1, b"")
    assert f'"line": {len(lines) + 1}'.encode() in done.stdout
