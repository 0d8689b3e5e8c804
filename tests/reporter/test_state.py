"""The state file of the reporter: complete after a loss of power, and careful after damage."""

import os
import signal
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service_record.reporter.policy.transitions import begin_round
from service_record.reporter.state import Denial, Pause, ReporterState, SpooledBundle, Usage, load, save
from tests.full_disk import limit_file_size
from tests.reporter_builders import BOOT, NEXT_BOOT, begin_rounds, evidence, settings

FULL = ReporterState(
    reported=("a",),
    dropped=("b",),
    tries={"a": 2},
    conflicts={"b": 2},
    stages_known=False,
    refused={"host_boot": 400},
    accepted=("host",),
    usage={
        "assisted-service": Usage(uploads=2, bytes=3, boot_id=BOOT, boot_uploads=1, fingerprints=("f",))
    },
    bundle=SpooledBundle(fingerprint="f", boot_id=BOOT, uptime=3.5),
    cursor="s=1;i=2",
    denial=Denial(rule="gone", rounds=2, since=3.0, until=4.0),
    pauses={"assisted-service": Pause(boot_id=BOOT, uptime=7.0)},
)  # fmt: skip


def test_missing_state_file_gives_a_new_state(tmp_path: Path) -> None:
    assert load(tmp_path / "reporter.json") == ReporterState()


def test_saved_state_is_loaded_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "reporter.json"
    state = begin_rounds(evidence(), evidence(70.0, has_failed=True), state=FULL)
    save(path, state)
    assert load(path) == state
    assert path.stat().st_mode & 0o777 == 0o600
    assert [file.name for file in path.parent.iterdir()] == ["reporter.json"]


def test_state_of_an_earlier_version_keeps_its_facts(tmp_path: Path) -> None:
    path = tmp_path / "reporter.json"
    path.write_bytes(
        b'{"version":1,"told":["Booted with local ignition"],"moved":{"a":1},"withheld":["f"],'
        b'"offered":7200.0,"spent":{"host":{"uploads":2,"bytes":3,"last_word":"lifetime"}}}'
    )
    assert load(path) == ReporterState(
        reported=("Booted with local ignition",),
        conflicts={"a": 1},
        bundles_with_secrets=("f",),
        last_offer=7200.0,
        usage={"host": Usage(uploads=2, bytes=3, near_limit="lifetime")},
    )


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"\0" * 512, id="zeros"),
        pytest.param(b'{"version": 1, "boots": [', id="torn"),
        pytest.param(b'{"version": 2}', id="of a later version"),
        pytest.param(b'{"usage": {"x": {"uploads": -1}}}', id="impossible"),
        pytest.param(b'{"reported": "everything"}', id="of another type"),
        pytest.param(b'{"reported": ["\xff"]}', id="encoding"),
        pytest.param(b"[" * 100_000, id="nested"),
        pytest.param(b" " * 300_000, id="huge"),
    ],
)
def test_damaged_state_is_moved_and_replaced(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "reporter.json"
    path.write_bytes(damage)
    assert load(path) == ReporterState(is_careful=True)
    assert path.with_name("reporter.json.damaged").read_bytes() == damage
    assert load(path) == ReporterState(is_careful=True), "until the new one is saved"


@given(st.binary(max_size=300))
def test_random_state_file_raises_nothing(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("state") / "reporter.json"
    path.write_bytes(data)
    assert isinstance(load(path), ReporterState)


@pytest.mark.parametrize("cut", [0.3, 0.6, 0.9])
def test_truncated_state_is_damaged(tmp_path: Path, cut: float) -> None:
    path = tmp_path / "reporter.json"
    save(path, FULL)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * cut)])
    assert load(path).is_careful


def test_killed_writer_leaves_a_complete_state(tmp_path: Path) -> None:
    path = tmp_path / "reporter.json"
    program = f"""
from dataclasses import replace
from pathlib import Path
from service_record.reporter.state import ReporterState, save
number = 0
while True:
    save(Path({str(path)!r}), replace(ReporterState(), earlier_boots=number, reported=("x" * 5000,) * number))
    number = (number + 1) % 20
    print(number, flush=True)
"""
    for _ in range(5):
        with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            for _ in range(3):
                writer.stdout.readline()
            os.kill(writer.pid, signal.SIGKILL)
        state = load(path)
        assert not state.is_careful
        assert len(state.reported) == state.earlier_boots


def test_state_is_unchanged_if_saving_fails(tmp_path: Path) -> None:
    path = tmp_path / "reporter.json"
    save(path, FULL)
    with limit_file_size(10), pytest.raises(OSError, match="large"):
        save(path, ReporterState())
    assert load(path) == FULL


@pytest.mark.parametrize("name", ["reporter.json", ".reporter.json.new"])
@pytest.mark.parametrize("kind", ["directory", "link", "loop", "dangling", "pipe", "socket"])
def test_irregular_file_in_place_of_the_state_is_moved(tmp_path: Path, name: str, kind: str) -> None:
    path, blocker, theirs = tmp_path / "reporter.json", tmp_path / name, tmp_path / "theirs"
    theirs.write_text("{}")
    targets = {"link": theirs, "loop": blocker, "dangling": tmp_path / "gone"}
    if kind == "directory":
        (blocker / "deep").mkdir(parents=True)
    elif kind == "pipe":
        os.mkfifo(blocker)
    elif kind == "socket":
        os.mknod(blocker, stat.S_IFSOCK | 0o600)
    else:
        blocker.symlink_to(targets[kind])
    assert load(path).is_careful is (name == path.name)
    save(path, FULL)
    assert load(path) == FULL
    assert os.path.lexists(blocker.with_name(f"{name}.damaged"))
    assert theirs.read_text() == "{}"
    assert not (tmp_path / "gone").exists()


def test_repeated_directories_in_place_of_the_state_are_limited(tmp_path: Path) -> None:
    path = tmp_path / "reporter.json"
    for _ in range(20):
        path.mkdir()
        (path / "full").write_text("")
        load(path)
        if path.exists():
            break
        save(path, FULL)
        path.unlink()
    assert len(list(tmp_path.iterdir())) <= 18


def test_boots_are_counted_in_order() -> None:
    state = begin_rounds(evidence(20.0), evidence(600.0), evidence(15.0, boot_id=NEXT_BOOT))
    assert [(boot.boot_id, boot.rounds, boot.uptime) for boot in state.boots] == [
        (BOOT, 2, 600.0),
        (NEXT_BOOT, 1, 15.0),
    ]
    assert (state.ordinal(BOOT), state.ordinal(NEXT_BOOT), state.ordinal("new")) == (1, 2, 3)
    assert state.uptime_before(NEXT_BOOT) == 600.0


def test_old_boots_are_summed() -> None:
    state = ReporterState()
    for number in range(100):
        state = begin_round(settings(), state, evidence(10.0, boot_id=str(number)))
    assert len(state.boots) == 16
    assert state.ordinal("99") == 100
    assert state.uptime_before("99") == 990.0


def test_new_round_clears_deferred_calls() -> None:
    state = replace(ReporterState(), deferred=("host",))
    assert begin_round(settings(), state, evidence()).deferred == ()
