"""`service-record bundle`: what it makes of a host and of other people's bundles, and what it refuses."""

import gzip
import io
import json
import os
import signal
import stat
import subprocess
import tarfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest

from service_record.record.entry import Phase
from tests.archives import member, tar
from tests.builders import array, entry, failed_run, timestamp, write_lines
from tests.command_line import PROGRAM, Answer, environment, service_record
from tests.upstream_reader import UpstreamReader

SECRET = "correct-horse-battery-staple-9137"
BEARER = "Authorization: Bearer sha256~5up3rS3cretTokenOfTheClusterAdmin00aaBBcc11"
TOP = "log-bundle-20261121010510"

FAKE_JOURNALCTL = """#!/bin/sh
case "$*" in
*--list-boots*) echo "0 b0b0" ;;
*) exec cat {printed} ;;
esac
"""


class Host:
    """A directory with records, a journal and a secret, and `service-record` run in a directory beside."""

    def __init__(self, root: Path) -> None:
        self.records = root / "records"
        self.records.mkdir()
        self.out = root / "out"
        self.out.mkdir()
        self.secret = root / "secret"
        self.secret.write_text(f"{SECRET}\n")
        self.printed = root / "journal"
        self._programs = root / "programs"
        self._programs.mkdir()
        self.program("journalctl", FAKE_JOURNALCTL.format(printed=self.printed))
        self.journal(f"a line with {SECRET} in it\n> {BEARER}\nFailed password for root\n".encode())

    def journal(self, printed: bytes) -> None:
        self.printed.write_bytes(printed)

    def program(self, name: str, script: str) -> None:
        (self._programs / name).write_text(script)
        (self._programs / name).chmod(0o755)

    @property
    def variables(self) -> dict[str, str]:
        return {"PATH": f"{self._programs}:{os.environ['PATH']}", "SERVICE_RECORDS_DIR": str(self.records)}

    def bundle(self, *arguments: object, stdin: bytes = b"") -> Answer:
        return service_record("bundle", *arguments, stdin=stdin, cwd=self.out, **self.variables)

    def made(self) -> list[str]:
        """Return the names in the directory, hidden or not."""
        return sorted(path.name for path in self.out.iterdir())


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def content(path: Path) -> dict[str, bytes]:
    with tarfile.open(path, "r:gz") as archive:
        files = {info.name: archive.extractfile(info) for info in archive}
        return {name: file.read() for name, file in files.items() if file is not None}


def below_top(path: Path) -> dict[str, bytes]:
    return {name.partition("/")[2]: data for name, data in content(path).items()}


# This host.


def test_bundle_has_the_verdict_first_and_its_evidence(host: Host) -> None:
    write_lines(host.records / "bootkube.json", *failed_run("cvo-bootstrap"))
    answer = host.bundle("-o", "b.tar.gz", "--secret", host.secret)
    assert (answer.status, answer.out) == (0, "b.tar.gz\n")
    path = host.out / "b.tar.gz"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert host.made() == ["b.tar.gz"]
    found = below_top(path)
    names = list(found)
    assert (names[0], names[-2:]) == ("verdict.txt", ["manifest.json", "redaction.json"])
    assert b"failed: bootkube in stage cvo-bootstrap: exit 1 at " in found["verdict.txt"]
    assert b"Failed password for root" in found["bootstrap/journals/kernel.log"]
    assert UpstreamReader.from_bundle(path.read_bytes()).judge("bootkube").failing_stage == "cvo-bootstrap"
    assert "bootkube failed in stage cvo-bootstrap" in service_record("show", "--from", path).out


def test_verdict_page_masks_secrets_in_evidence(host: Host) -> None:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip().replace("-", "")
    waited = "Error: timed out waiting for the condition"
    write_lines(host.records / "job.json", *failed_run(boot_id=boot, error_message=waited))
    host.journal(f"{timestamp(5)} host kernel: Out of memory: Killed process 7 ({SECRET}) rss:9kB\n".encode())
    assert host.bundle("-o", "b.tar.gz", "--secret", host.secret).status == 0
    verdict = below_top(host.out / "b.tar.gz")["verdict.txt"]
    assert b"memory ran out, and <redacted" in verdict
    assert SECRET.encode() not in verdict


def test_bundle_masks_and_counts_secrets(host: Host) -> None:
    write_lines(host.records / "job.json", entry(Phase.STAGE_START, stage=f"pull {SECRET}"))
    answer = host.bundle("-o", "b.tar.gz", "--secret", host.secret)
    assert answer.status == 0
    unpacked = gzip.decompress((host.out / "b.tar.gz").read_bytes())
    assert SECRET.encode() not in unpacked
    assert BEARER.rsplit(maxsplit=1)[-1].encode() not in unpacked
    found = below_top(host.out / "b.tar.gz")
    assert json.loads(found["manifest.json"])["redacted"] is True
    counted = json.loads(found["redaction.json"])
    assert counted["kinds"]["given"] >= 2
    assert counted["masked"] == sum(counted["kinds"].values())
    assert f"{counted['masked']} secrets masked" in answer.err
    assert len(json.loads(found["bootstrap/services/job.json"])) == 1


def test_bundle_is_named_after_the_host(host: Host) -> None:
    answer = host.bundle()
    assert answer.status == 0
    (name,) = host.made()
    assert answer.out == f"{name}\n"
    assert name.startswith(f"log-bundle-{os.uname().nodename}-")
    assert name.endswith(".tar.gz")


def test_bundle_of_a_host_without_records_says_so(host: Host) -> None:
    assert host.bundle("-o", "b.tar.gz").status == 0
    assert below_top(host.out / "b.tar.gz")["verdict.txt"].startswith(b"no records in ")


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user takes root")
@pytest.mark.parametrize(
    ("hidden", "which"),
    [("", "the service records of this host are"), ("bootkube.json", "some service records are")],
    ids=["the directory", "one of them"],
)
def test_unreadable_records_are_listed_as_missing(hidden: str, which: str) -> None:
    with TemporaryDirectory() as place:  # where any user gets to
        Path(place).chmod(0o755)
        host = Host(Path(place))
        host.out.chmod(0o777)
        for service in ("bootkube", "crio"):
            write_lines(host.records / f"{service}.json", *failed_run())
        (host.records / hidden).chmod(0o700)
        done = subprocess.run(
            [
                *("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"),
                *(*PROGRAM, "bundle", "-o", "b.tar.gz"),
            ],
            cwd=host.out,
            env=environment(**host.variables),
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout) == (3, "b.tar.gz\n")
        assert f"Warning: {which} not in the bundle: " in done.stderr
        assert "Permission denied. Run with sudo\n" in done.stderr
        assert "Warning: not root: journals and files may be incomplete" in done.stderr
        services = [name for name in below_top(host.out / "b.tar.gz") if name.endswith("crio.json")]
        assert len(services) == (1 if hidden else 0)


def test_bundle_with_a_leaked_secret_is_refused(host: Host) -> None:
    """The journal prints an archive, in which nothing could be masked."""
    host.journal(gzip.compress(f"the password is {SECRET}\n".encode()))
    answer = host.bundle("-o", "b.tar.gz", "--secret", host.secret)
    assert answer.status == 6
    (line,) = (line for line in answer.err.splitlines() if line.startswith("Error:"))
    assert "refused: a secret would have left with" in line
    assert "bootstrap/journals/" in line
    assert SECRET not in answer.err
    assert (answer.out, host.made()) == ("", [])


@pytest.mark.skipif(os.geteuid() != 0, reason="files of one's own in /etc take root")
@pytest.mark.parametrize("is_readable", [True, False], ids=["readable", "unreadable"])
def test_secrets_of_the_host_are_read_from_files(host: Host, *, is_readable: bool) -> None:
    """In a mount namespace with a proxy's password in /etc, as root without the right to read all files."""
    host.journal(f"the word is {SECRET}\n".encode())
    setting = host.out.parent / "proxy.sh"
    setting.write_text(f"export HTTPS_PROXY=http://user:{SECRET}@proxy.example.com:3128\n")
    place = "mount -t tmpfs tmpfs /etc/profile.d && cp proxy.sh /etc/profile.d/"
    hide = "" if is_readable else " && chmod 0 /etc/profile.d/proxy.sh"
    done = subprocess.run(
        [
            *("unshare", "-m", "sh", "-c", f'{place}{hide} && exec "$@"', "-"),
            *("setpriv", "--bounding-set=-all", "--inh-caps=-all"),
            *(*PROGRAM, "bundle", "-o", "out/b.tar.gz"),
        ],
        cwd=host.out.parent,
        env=environment(**host.variables),
        capture_output=True,
        text=True,
        check=True,
    )
    found = below_top(host.out / "b.tar.gz")
    assert (SECRET.encode() in found["bootstrap/journals/kernel.log"]) is not is_readable
    assert ("with secrets could not be read" in done.stderr) is not is_readable
    unread = json.loads(found["redaction.json"])["unread"]
    assert any(line.startswith("/etc/profile.d/proxy.sh") for line in unread) is not is_readable


def test_unredacted_bundle_needs_its_option_and_says_so(host: Host) -> None:
    answer = host.bundle("-o", "b.tar.gz", "--no-redact")
    assert answer.status == 0
    assert "Warning: secrets are not masked (--no-redact)" in answer.err
    found = below_top(host.out / "b.tar.gz")
    assert SECRET.encode() in found["bootstrap/journals/kernel.log"]
    assert json.loads(found["manifest.json"])["redacted"] is False
    assert json.loads(found["redaction.json"]) == {"redacted": False}


@pytest.mark.parametrize(
    "arguments",
    [
        ("--no-redact", "--redact", "x"),
        ("--no-redact", "--secret", "exists"),
        ("--max-size", "1K"),
        ("--max-size", "1G"),
        ("--max-size", "much"),
        ("-o", "exists"),
        ("--secret", "nowhere"),
        ("SERVICE",),
    ],
    ids=" ".join,
)
def test_wrong_usage_makes_nothing(host: Host, arguments: tuple[str, ...]) -> None:
    (host.out / "exists").write_text("before")
    answer = host.bundle(*arguments)
    assert answer.status == 2
    assert "Traceback" not in answer.err
    assert host.made() == ["exists"]
    assert (host.out / "exists").read_text() == "before"


def test_bundle_is_not_a_record_of_this_host(host: Host) -> None:
    assert host.bundle("-o", host.records / "job.json").status == 2
    assert list(host.records.iterdir()) == []


def test_unwritable_place_is_reported_in_one_line(host: Host) -> None:
    answer = host.bundle("-o", "no/such/directory/b.tar.gz")
    assert answer.status == 3
    assert answer.err.splitlines()[-1].startswith("Error: ")
    assert "Traceback" not in answer.err


def test_logs_lose_their_beginning_to_fit_the_limit(host: Host) -> None:
    # The same in each run: a random line in some ten thousand is taken for a secret, and its mask is shorter.
    random = Random(1)
    noise = b"".join(random.randbytes(30).hex().encode() + b"\n" for _ in range(40_000))
    host.journal(noise)
    host.program(
        "journalctl", FAKE_JOURNALCTL.replace("*) exec", "*=kernel*) exec").format(printed=host.printed)
    )
    answer = host.bundle("-o", "b.tar.gz", "--max-size", "256K")
    assert answer.status == 0
    assert (host.out / "b.tar.gz").stat().st_size <= 256 << 10
    assert "bytes are missing (room)" in answer.err
    found = below_top(host.out / "b.tar.gz")
    (cut,) = json.loads(found["manifest.json"])["cut"]
    rest = found[cut["path"]].partition(b"\n")[2]
    assert (cut["path"], cut["reason"]) == ("bootstrap/journals/kernel.log", "room")
    assert noise.endswith(rest)
    assert cut["droppedBytes"] == len(noise) - len(rest)


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)], ids=["SIGTERM", "SIGINT"]
)
def test_interrupted_bundle_leaves_nothing(host: Host, number: int, status: int) -> None:
    host.program("journalctl", "#!/bin/sh\nexec sleep 600\n")
    command = [*PROGRAM, "bundle", "-o", "b.tar.gz"]
    with subprocess.Popen(
        command, cwd=host.out, env=environment(**host.variables), stderr=subprocess.PIPE
    ) as running:
        deadline = time.monotonic() + 30
        while not host.made():
            assert running.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        running.send_signal(number)
        _, errors = running.communicate(timeout=60)
    assert running.returncode == status
    assert b"Traceback" not in errors
    assert host.made() == []


# What others gathered.


def packed(*members: bytes) -> bytes:
    return gzip.compress(tar(*members))


BUNDLE = packed(
    member(f"./{TOP}/", type=tarfile.DIRTYPE),
    member(f"./{TOP}/bootstrap/services/bootkube.json", array(*failed_run(error_message=f"with {SECRET}"))),
    member(f"{TOP}/bootstrap/journals/bootkube.log", f"curl: {BEARER}\nand {SECRET}\n".encode(), mtime=17),
    member(f"{TOP}/empty"),
    member(f"{TOP}/rotated.log.gz", gzip.compress(f"rotated {SECRET}".encode())),
    member(f"{TOP}/inner.tar", tar(member(f"logs/{SECRET}.log", b"plain"))),
    member(f"{TOP}/link", type=tarfile.SYMTYPE, linkname=SECRET),
    member(f"{TOP}/../../etc/passwd", b"out"),
)


def test_copy_of_a_bundle_keeps_files_and_masks_secrets(host: Host) -> None:
    (host.out / "b.tar.gz").write_bytes(BUNDLE)
    answer = host.bundle("--redact", "b.tar.gz", "--secret", host.secret)
    assert (answer.status, answer.out) == (0, "b-redacted.tar.gz\n")
    path = host.out / "b-redacted.tar.gz"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert SECRET.encode() not in gzip.decompress(path.read_bytes())
    found = content(path)
    assert list(found) == [
        f"{TOP}/bootstrap/services/bootkube.json",
        f"{TOP}/bootstrap/journals/bootkube.log",
        f"{TOP}/empty",
        f"{TOP}/rotated.log",
        f"{TOP}/inner.tar/logs/<redacted:given>.log",
        f"{TOP}/redaction.json",
    ]
    assert found[f"{TOP}/bootstrap/journals/bootkube.log"].count(b"<redacted:") == 2
    assert found[f"{TOP}/rotated.log"] == b"rotated <redacted:given>"
    with tarfile.open(path) as archive:
        assert archive.getmember(f"{TOP}/bootstrap/journals/bootkube.log").mtime == 17
    judged = UpstreamReader.from_bundle(path.read_bytes()).judge("bootkube")
    assert (judged.failing_stage, judged.last_error) == ("second", "with <redacted:given>")


def test_files_missing_in_a_copy_are_listed(host: Host) -> None:
    (host.out / "b.tar.gz").write_bytes(BUNDLE)
    answer = host.bundle("--redact", "b.tar.gz", "-o", "copy.tar.gz")
    warnings = [line for line in answer.err.splitlines() if line.startswith("Warning: ")]
    assert warnings == [
        f"Warning: b.tar.gz: {TOP}/link: left out: a symbolic link, not a plain file",
        f"Warning: b.tar.gz: {TOP}/../../etc/passwd: refused: its name leads out of the archive",
    ]


def test_copy_of_a_directory_leaves_out_irregular_files(host: Host) -> None:
    (host.out / "logs").mkdir()
    (host.out / "logs/a.log").write_text(f"{SECRET}\n")
    (host.out / "logs/inner.tar.gz").write_bytes(packed(member("b.log", SECRET.encode())))
    (host.out / "logs/passwd").symlink_to("/etc/passwd")
    os.mkfifo(host.out / "logs/pipe")
    answer = host.bundle("--redact", ".", "-o", "copy.tar.gz", "--secret", host.secret)
    assert answer.status == 0
    assert content(host.out / "copy.tar.gz").keys() == {
        "out/logs/a.log",
        "out/logs/inner.tar.gz/b.log",
        "out/redaction.json",
    }
    assert SECRET.encode() not in gzip.decompress((host.out / "copy.tar.gz").read_bytes())
    assert "logs/passwd: a symbolic link" in answer.err
    assert "logs/pipe: not a plain file" in answer.err


def test_standard_input_is_copied(host: Host) -> None:
    answer = host.bundle("--redact", "-", "--secret", host.secret, stdin=BUNDLE)
    assert (answer.status, answer.out) == (0, "bundle-redacted.tar.gz\n")
    assert f"{TOP}/rotated.log" in content(host.out / "bundle-redacted.tar.gz")


def test_single_file_becomes_an_archive(host: Host) -> None:
    (host.out / "job.log").write_text(f"a {SECRET}\n")
    assert host.bundle("--redact", "job.log", "--secret", host.secret).status == 0
    found = content(host.out / "job.log-redacted.tar.gz")
    assert found["job.log"] == b"a <redacted:given>\n"


def zipped() -> bytes:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("a", "b")
    return archive.getvalue()


@pytest.mark.parametrize(
    "make",
    [
        lambda path: None,
        lambda path: path.mkdir(),
        lambda path: path.write_bytes(zipped()[:-30]),
        lambda path: path.write_bytes(tar(member("a/", type=tarfile.DIRTYPE))),
    ],
    ids=["missing", "empty directory", "damaged zip", "empty archive"],
)
def test_copy_of_nothing_is_refused(host: Host, make: Callable[[Path], object]) -> None:
    make(host.out / "x")
    before = host.made()
    answer = host.bundle("--redact", "x", "-o", "copy.tar.gz")
    assert answer.status == 3
    assert any(line.startswith("Error: ") for line in answer.err.splitlines())
    assert "Traceback" not in answer.err
    assert host.made() == before
