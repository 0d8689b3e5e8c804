"""The end of the reporter: nothing of it stays but a tombstone and the records, whatever cuts that short."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

import msgspec
import pytest

from service_record.reporter.paths import Places
from service_record.reporter.settings import Settings
from service_record.reporter.stopping import (
    Tombstone,
    _format_rule,
    finish,
    purge,
    read_tombstone,
    stop,
    undelivered_bundle,
)
from tests.builders import entry, require, write_lines
from tests.programs import REPOSITORY, skip_without

TOKEN = "canary-7f3a-token"
EXTRA = Path("/opt/reporter")
REASON = "the kubelet is up"
STOP = f"""
import sys
from pathlib import Path
from service_record.reporter.stopping import stop
from service_record.reporter.paths import Places
from service_record.reporter.settings import Settings
settings = Settings(remove=(Path({str(EXTRA)!r}),))
sys.exit("\\n".join(stop(Places(Path(sys.argv[1])), settings, {REASON!r})) or 0)
"""
WITH_EXTRA = Settings(remove=(EXTRA,))
CHANGES = ("rename", "unlink", "unlinkat", "rmdir")


def write(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def host(root: Path) -> Places:
    """A host with all that the reporter may have left, and with files of somebody else around it."""
    places = Places(root)
    write(places.settings_file, "[service]\n")
    write(places.credential_file, TOKEN)
    write(places.collector_credential_file, TOKEN)
    write(places.state_file, "{}")
    write(places.state_directory / f".{places.state_file.name}.x1y2", "{")
    write(places.state_directory / f"{places.state_file.name}.damaged", "{")
    write(places.spool_directory / "bundle.tar.gz", TOKEN)
    write(places.work_directory / "deep/member", TOKEN)
    write(places.issue, "failed\n")
    write(places.service, "[Service]\n")
    write(places.timer, "[Timer]\n")
    write(places.timer.with_name("boot-reporter.timer.d") / "frequency.conf", "[Timer]\n")
    write(places.service.with_name("boot-reporter.service.d") / "proxy.conf", f"# {TOKEN}\n")
    for wants in ("timers.target.wants", "multi-user.target.wants"):
        link = places.timer.parent / wants / places.timer.name
        link.parent.mkdir()
        link.symlink_to(f"../{places.timer.name}")
    write(root / str(EXTRA)[1:] / "bin/service-record", "#!/bin/sh\n")
    for neighbour in (
        "etc/systemd/system/sshd.service",
        "etc/issue.d/10-other.issue",
        "etc/tmpfiles.d/a.conf",
    ):
        write(root / neighbour, "its own\n")
    (root / "etc/systemd/system/multi-user.target.wants/sshd.service").symlink_to("../sshd.service")
    places.records.mkdir(parents=True)
    write_lines(places.records / "bootkube.json", entry())
    return places


def files(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_symlink() or not path.is_dir()}


KEPT = {
    *("etc/systemd/system/sshd.service", "etc/systemd/system/multi-user.target.wants/sshd.service"),
    *("etc/issue.d/10-other.issue", "etc/tmpfiles.d/a.conf"),
    *("var/log/openshift/bootkube.json", "var/lib/service-record/reporter.stopped"),
}


def holds_the_token(root: Path) -> bool:
    return subprocess.run(["grep", "-r", TOKEN, root], check=False, stdout=subprocess.DEVNULL).returncode == 0


def test_only_tombstone_and_foreign_files_stay(tmp_path: Path) -> None:
    places = host(tmp_path)
    assert stop(places, WITH_EXTRA, REASON) == ()
    assert files(tmp_path) == KEPT
    assert not places.settings_file.parent.exists()
    assert not holds_the_token(tmp_path)


def test_packaged_units_stay_and_are_disabled(tmp_path: Path) -> None:
    places = host(tmp_path)
    packaged = [tmp_path / "usr/lib/systemd/system" / unit.name for unit in (places.service, places.timer)]
    for unit, own in zip((places.service, places.timer), packaged, strict=True):
        own.parent.mkdir(parents=True, exist_ok=True)
        unit.rename(own)
    assert stop(places, WITH_EXTRA, REASON) == ()
    assert files(tmp_path) - KEPT == {str(own.relative_to(tmp_path)) for own in packaged}


def test_tombstone_has_reason_and_time(tmp_path: Path) -> None:
    places = host(tmp_path)
    stop(places, Settings(), REASON)
    tombstone = require(read_tombstone(places))
    assert (tombstone.reason, tombstone.is_finished) == (REASON, True)
    assert tombstone.stopped.endswith("Z")
    assert places.tombstone.stat().st_mode & 0o777 == 0o600


def test_second_stop_keeps_the_first_reason(tmp_path: Path) -> None:
    places = host(tmp_path)
    stop(places, Settings(), REASON)
    assert stop(places, Settings(), "another") == ()
    assert json.loads(places.tombstone.read_text())["reason"] == REASON


@pytest.mark.parametrize(
    ("word", "kept"),
    [
        ("settings", "etc/service-record/reporter.toml"),
        ("spool", "var/lib/service-record/spool/bundle.tar.gz"),
        ("state", "var/lib/service-record/reporter.json"),
        ("units", "etc/systemd/system/boot-reporter.service"),
    ],
)
def test_keep_after_keeps_parts_but_no_token(tmp_path: Path, word: str, kept: str) -> None:
    places = host(tmp_path)
    assert stop(places, replace(WITH_EXTRA, keep_after=(word,)), REASON) == ()
    left = files(tmp_path) - KEPT
    assert kept in left
    assert {Path(path).parts[:2] for path in left} == {Path(kept).parts[:2]}
    assert not places.credential_file.exists()
    assert not places.collector_credential_file.exists()


def test_host_without_a_reporter_can_be_stopped(tmp_path: Path) -> None:
    assert stop(Places(tmp_path), Settings(), REASON) == ()
    assert files(tmp_path) == {"var/lib/service-record/reporter.stopped"}


@pytest.mark.parametrize("text", ["", "{", "[]", '{"reason": 1}', "\x00" * 100])
def test_damaged_tombstone_is_valid(tmp_path: Path, text: str) -> None:
    places = host(tmp_path)
    write(places.tombstone, text)
    tombstone = require(read_tombstone(places))
    assert finish(places, tombstone) == ()
    assert files(tmp_path) - {path for path in files(tmp_path) if path.startswith("opt/")} == KEPT


def test_foreign_files_keep_the_settings_directory(tmp_path: Path) -> None:
    places = host(tmp_path)
    theirs = write(places.settings_file.with_name("collector.toml"))
    assert stop(places, Settings(), REASON) == ()
    assert theirs.exists()


def test_top_level_directory_is_never_removed(tmp_path: Path) -> None:
    places = host(tmp_path)
    (line,) = stop(places, Settings(remove=(Path("/opt"),)), REASON)
    assert line == "/opt: too much would go with it; remove it by hand"
    assert (tmp_path / "opt/reporter/bin/service-record").exists()
    assert not holds_the_token(tmp_path)


def test_link_is_removed_without_its_target(tmp_path: Path) -> None:
    places = host(tmp_path)
    shutil.rmtree(places.spool_directory)
    theirs = write(tmp_path / "home/precious")
    places.spool_directory.symlink_to(theirs.parent)
    assert stop(places, Settings(), REASON) == ()
    assert theirs.exists()
    assert not places.spool_directory.is_symlink()


def test_failed_removal_is_reported_and_others_continue(tmp_path: Path) -> None:
    places = host(tmp_path)
    places.issue.unlink()
    places.issue.mkdir()
    pinned = write(places.issue / "pinned")
    if subprocess.run(["chattr", "+i", pinned], check=False, capture_output=True).returncode != 0:
        pytest.skip("immutable files cannot be had here")
    try:
        (line,) = stop(places, WITH_EXTRA, REASON)
        tombstone = read_tombstone(places)
    finally:
        subprocess.run(["chattr", "-i", pinned], check=True)
    assert line.startswith(f"{places.issue}: ")
    assert line.endswith("; remove it by hand")
    assert tombstone is not None
    assert not tombstone.is_finished
    assert files(tmp_path) - {str(pinned.relative_to(tmp_path))} == KEPT
    assert finish(places, tombstone) == ()
    assert files(tmp_path) == KEPT


def killed_at(change: str, number: int, root: Path) -> bool:
    """Stop the reporter in a process that is killed before its n-th call of a kind; whether it got there."""
    trace = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={change}"]
    kill = ["-e", f"inject={change}:signal=KILL:when={number}"]
    done = subprocess.run(
        [*trace, *kill, sys.executable, "-B", "-c", STOP, root],
        env={"PYTHONPATH": str(REPOSITORY), "PATH": os.environ["PATH"]},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode in {0, -9, 137}, done.stderr
    return done.returncode != 0


def hosts_with_ever_later_kills(directory: Path) -> Iterator[Path]:
    for change in CHANGES:
        for number in count(1):
            places = host(directory / f"{change}-{number}")
            if not killed_at(change, number, places.root):
                break
            yield places.root


@pytest.fixture(scope="module")
def found_after_kills(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Hosts on which the reporter was killed before its first change of a kind, the second, and so on."""
    skip_without("strace")
    return list(hosts_with_ever_later_kills(tmp_path_factory.mktemp("killed")))


@pytest.fixture
def killed(found_after_kills: list[Path], tmp_path: Path) -> list[Places]:
    """The same hosts, for one test to go on with."""
    return [Places(shutil.copytree(root, tmp_path / root.name, symlinks=True)) for root in found_after_kills]


def test_cleanup_continues_after_a_kill_at_any_step(killed: list[Places], tmp_path: Path) -> None:
    everything = files(host(tmp_path / "untouched").root)
    for places in killed:
        tombstone = read_tombstone(places)
        if tombstone is None:
            assert files(places.root) >= everything
            assert stop(places, WITH_EXTRA, REASON) == ()
        else:
            assert tombstone.remove == (str(EXTRA),)
            assert finish(places, tombstone) == ()
        assert files(places.root) == KEPT
        assert not holds_the_token(places.root)
    assert len(killed) > 15


def test_token_is_removed_first_and_units_last(killed: list[Places]) -> None:
    def is_whole(places: Places) -> tuple[bool, bool, bool]:
        others = (places.settings_file, places.state_file, places.spool_directory, places.issue)
        units = (*places.unit_links, places.service, places.timer)
        return places.credential_file.exists(), all(map(Path.exists, others)), all(map(Path.exists, units))

    assert {is_whole(places) for places in killed} == {
        (True, True, True),
        (False, True, True),
        (False, False, True),
        (False, False, False),
    }


def test_next_boot_removes_files_left_by_a_kill(killed: list[Places]) -> None:
    skip_without("systemd-tmpfiles")
    cut_short = [
        places
        for places in killed
        if len(places.unit_links) < 2 and not (read_tombstone(places) or Tombstone("")).is_finished
    ]
    assert any(places.timer.exists() for places in cut_short)
    for places in cut_short:
        before = files(places.root)
        remove_by_rules_below(places.root)
        assert files(places.root) == before, "it did not wait for a boot"
        remove_by_rules_below(places.root, "--boot")
        assert files(places.root) - {"var/lib/service-record/.reporter.stopped.new"} == KEPT


def remove_by_rules_below(root: Path, *options: str) -> None:
    """Without the name of a rule, or without --root, the rules of this very host would be in force."""
    rule = "boot-reporter.conf"
    if (root / "etc/tmpfiles.d" / rule).exists():
        subprocess.run(["systemd-tmpfiles", f"--root={root}", "--remove", *options, rule], check=True)


def test_full_disk_is_cleared_for_the_tombstone(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("not root")
    script = """
    mount -t tmpfs -o size=64k tmpfs "$1" && mkdir -p "$1/var/lib/service-record/spool" &&
    head --bytes=1M /dev/zero >"$1/var/lib/service-record/spool/bundle" 2>/dev/null
    "$2" -B -c "$3" "$1" && cat "$1/var/lib/service-record/reporter.stopped" && ls "$1/var/lib/service-record"
    """
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, "sh", tmp_path, sys.executable, STOP],
        env={"PYTHONPATH": str(REPOSITORY), "PATH": os.environ["PATH"]},
        check=False,
        capture_output=True,
        text=True,
    )
    if "unshare" in done.stderr or "mount:" in done.stderr:
        pytest.skip("this root may mount nothing, so no full disk can be had here")
    assert done.returncode == 0, done.stderr
    assert REASON in done.stdout
    assert "spool" not in done.stdout


def test_undelivered_bundle_stays_until_purged(tmp_path: Path) -> None:
    places = host(tmp_path)
    kept = {
        str(path.relative_to(tmp_path)) for path in (places.spool_directory / "bundle.tar.gz", places.issue)
    }
    assert stop(places, WITH_EXTRA, REASON, is_undelivered=True) == ()
    assert files(tmp_path) == KEPT | kept
    assert undelivered_bundle(places) == places.spool_directory / "bundle.tar.gz"
    tombstone = require(read_tombstone(places))
    rule = write(tmp_path / "etc/tmpfiles.d/boot-reporter.conf", _format_rule(places, tombstone).decode())
    assert "spool" not in rule.read_text()
    if shutil.which("systemd-tmpfiles") is not None:
        remove_by_rules_below(tmp_path, "--boot")
        assert files(tmp_path) - {str(rule.relative_to(tmp_path))} == KEPT | kept
    assert purge(places) == ()
    assert files(tmp_path) == KEPT
    assert undelivered_bundle(places) is None
    assert purge(places) == ()


def test_written_tombstone_is_read_again(tmp_path: Path) -> None:
    places = Places(tmp_path)
    whole = Tombstone(REASON, "2026-11-21T01:05:10Z", "b0" * 16, (str(EXTRA),), ("spool",), is_finished=True)
    write(places.tombstone, msgspec.json.encode(whole).decode())
    assert read_tombstone(places) == whole
