"""`install` and `uninstall`: all in its place, nothing of anybody else's touched, and everything undone."""

import multiprocessing
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service_record.deploy.delivered import HOST, Option, contents, source
from service_record.deploy.installed import FILE
from service_record.deploy.installing import InstallOutcome, install, uninstall
from service_record.deploy.planning import Action
from service_record.deploy.root import Root
from tests.builders import require
from tests.command_line import service_record
from tests.programs import REPOSITORY
from tests.trees import Tree, read_tree, read_tree_without_directory_times, set_old_times, write_file

SHIM = "/usr/local/bin/bootstrap-service-record.sh"
DROP_IN = "/etc/systemd/system/service.d/10-service-record.conf"
TIMER = "/etc/systemd/system/boot-reporter.timer"
ENABLED = "/etc/systemd/system/timers.target.wants/boot-reporter.timer"
TOMBSTONE = "/var/lib/service-record/reporter.stopped"
PAGES = (("man/man1/service-record.1", "a page"),)
EVERYTHING = tuple(Option)

Prior = Callable[[Path], object]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    directory = tmp_path / "root"
    directory.mkdir()
    return directory


def installed(
    root: Path, *options: Option, replaces: bool = False, pages: Iterable[tuple[str, str]] = PAGES
) -> InstallOutcome:
    return install(Root(root), options, pages, replaces=replaces)


def uninstalled(root: Path) -> dict[str, Action]:
    outcome = uninstall(Root(root))
    return {step.path: step.action for step in outcome.steps} if outcome else {}


def at(root: Path, path: str) -> Path:
    return root / path.lstrip("/")


def actions(outcome: InstallOutcome) -> dict[str, Action]:
    return {step.path: step.action for step in outcome.steps}


# What is put there


@pytest.mark.parametrize("option", Option)
def test_selected_files_have_place_mode_and_owner(root: Path, option: Option) -> None:
    installed(root, option)
    for item in contents([option], HOST, PAGES):
        path = at(root, item.path)
        if item.target is not None:
            assert str(path.readlink()) == item.target
            continue
        status = path.stat()
        assert path.read_bytes() == item.data
        assert status.st_mode & 0o7777 == item.mode
        assert (status.st_uid, status.st_gid) == (os.geteuid(), os.getegid())
    assert at(root, FILE).stat().st_mode & 0o777 == 0o644


def test_default_is_the_shim(root: Path) -> None:
    assert set(actions(installed(root))) == {item.path for item in contents([Option.SHIM], HOST, PAGES)}


def test_make_install_equals_install(tmp_path: Path, root: Path) -> None:
    packaged = tmp_path / "packaged"
    subprocess.run(
        [
            *("make", "--silent", "install", f"PYTHON={sys.executable}", f"DESTDIR={packaged}"),
            "OPTIONS=--all-services --array --reporter",
        ],
        cwd=REPOSITORY,
        check=True,
    )
    answer = service_record("install", "--root", root, "--all-services", "--array", "--reporter")
    assert answer.status == 0, answer.err
    shutil.rmtree(at(root, "/var"))
    trees = (read_tree(each, with_times=False) for each in (root, packaged))
    # A checkout has man pages and completions once `make man` has made them.
    delivered, staged = (
        {path: facts for path, facts in tree.items() if not path.startswith("usr/local/share")}
        for tree in trees
    )
    assert delivered == staged


def test_make_install_needs_only_python(tmp_path: Path, root: Path) -> None:
    bare = [sys.executable, "-SB", "-m", "packages.stage", str(tmp_path / "packaged")]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(bare, cwd=REPOSITORY, env=environment, check=True, capture_output=True, text=True)
    assert done.stderr == "No click (make man gets it): man pages and completions are left out.\n"
    installed(root, pages=())
    shutil.rmtree(at(root, "/var"))
    assert read_tree(root, with_times=False) == read_tree(tmp_path / "packaged", with_times=False)


# Twice, and a newer version


@pytest.mark.parametrize("options", [(), (Option.REPORTER,), EVERYTHING])
def test_second_install_changes_nothing(root: Path, options: tuple[Option, ...]) -> None:
    installed(root, *options)
    set_old_times(root)
    before = read_tree(root)
    assert set(actions(installed(root, *options)).values()) == {Action.LEAVE}
    assert read_tree(root) == before


def test_install_without_options_upgrades_all(root: Path) -> None:
    installed(root, Option.REPORTER, Option.SHIM, pages=[("man/man1/a.1", "old"), ("man/man1/b.1", "gone")])
    at(root, TIMER).unlink()
    found = actions(installed(root, pages=[("man/man1/a.1", "new")]))
    assert found["/usr/local/share/man/man1/a.1"] is Action.UPDATE
    assert found["/usr/local/share/man/man1/b.1"] is Action.REMOVE
    assert found[TIMER] is Action.CREATE
    assert at(root, "/usr/local/share/man/man1/a.1").read_text() == "new"
    assert not at(root, "/usr/local/share/man/man1/b.1").exists()
    uninstalled(root)
    assert list(read_tree(root)) == ["."]


def test_upgrade_keeps_changed_mode(root: Path) -> None:
    page = at(root, "/usr/local/share/man/man1/service-record.1")
    installed(root)
    page.chmod(0o600)
    installed(root, pages=[("man/man1/service-record.1", "new")])
    installed(root, pages=[("man/man1/service-record.1", "newer")])
    assert (page.read_text(), page.stat().st_mode & 0o777) == ("newer", 0o600)


def test_only_changed_mode_is_mentioned(root: Path) -> None:
    path = "/usr/local/share/man/man1/service-record.1"
    installed(root)
    assert {step.why for step in installed(root).steps} == {""}
    at(root, path).chmod(0o600)
    assert {step.path: step.why for step in installed(root).steps if step.why} == {path: "mode 0600 is kept"}


def test_upgrade_leaves_stopped_reporter_removed(root: Path) -> None:
    installed(root, Option.SHIM, Option.REPORTER)
    for path in (ENABLED, TIMER, "/etc/systemd/system/boot-reporter.service"):
        at(root, path).unlink()
    write_file(root, TOMBSTONE, "{}")
    installed(root)
    assert not at(root, TIMER).exists()
    outcome = installed(root, Option.REPORTER)
    assert at(root, TIMER).exists()
    assert [note for note in outcome.notes if note.startswith("the reporter has stopped here permanently")]


# What is somebody's


def test_edited_file_is_kept_with_new_beside_it(root: Path) -> None:
    installed(root, Option.ALL_SERVICES)
    at(root, DROP_IN).write_text("edited")
    outcome = installed(root)
    assert actions(outcome)[DROP_IN] is Action.KEEP
    assert at(root, DROP_IN).read_text() == "edited"
    assert at(root, f"{DROP_IN}.new").read_bytes().startswith(b"#")
    assert uninstalled(root)[DROP_IN] is Action.KEEP
    assert [path for path in read_tree(root) if at(root, path).is_file()] == [DROP_IN.lstrip("/")]


def test_new_file_is_removed_with_edited_one(root: Path) -> None:
    installed(root)
    at(root, SHIM).write_text("edited")
    installed(root)
    at(root, SHIM).unlink()
    installed(root)
    assert not at(root, f"{SHIM}.new").exists()
    assert at(root, SHIM).read_bytes() == (REPOSITORY / "shell/bootstrap-service-record.sh").read_bytes()


def test_uninstall_restores_replaced_file(root: Path) -> None:
    write_file(root, SHIM, "upstream's", 0o555)
    set_old_times(root)
    before = read_tree_without_directory_times(root)
    assert actions(installed(root, replaces=True))[SHIM] is Action.REPLACE
    assert at(root, SHIM).read_bytes() == (REPOSITORY / "shell/bootstrap-service-record.sh").read_bytes()
    assert at(root, f"{SHIM}.replaced").read_text() == "upstream's"
    assert uninstalled(root)[SHIM] is Action.RESTORE
    assert read_tree_without_directory_times(root) == before


def test_replaced_file_is_named_if_ours_is_kept(root: Path) -> None:
    write_file(root, SHIM, "upstream's")
    installed(root, replaces=True)
    at(root, SHIM).write_text("edited")
    outcome = require(uninstall(Root(root)))
    (kept,) = [step for step in outcome.steps if step.action is Action.KEEP]
    assert kept.why == f"edited; {SHIM}.replaced is what was there before"
    assert at(root, SHIM).read_text() == "edited"


def test_a_masked_unit_stays_masked(root: Path) -> None:
    at(root, TIMER).parent.mkdir(parents=True)
    at(root, TIMER).symlink_to("/dev/null")
    assert actions(installed(root, Option.REPORTER))[TIMER] is Action.KEEP
    assert str(at(root, TIMER).readlink()) == "/dev/null"


def test_uninstall_keeps_records_and_tombstone(root: Path) -> None:
    installed(root, Option.SHIM, Option.REPORTER)
    record = write_file(root, "/var/log/openshift/bootkube.json", "a record")
    tombstone = write_file(root, TOMBSTONE, "{}")
    outcome = require(uninstall(Root(root)))
    assert outcome.notes == (
        "/var/lib/service-record stays: there is something else in it",
        "/var/lib stays: there is something else in it",
        "/var stays: there is something else in it",
    )
    assert record.exists()
    assert tombstone.exists()


# As before


def _upstreams_host(root: Path) -> None:
    write_file(root, SHIM, "upstream's", 0o555)
    write_file(root, "/usr/local/bin/bootkube.sh", mode=0o755)
    write_file(root, "/etc/systemd/system/bootkube.service")
    at(root, "/var/log/openshift").mkdir(parents=True)


def _coreos(root: Path) -> None:
    """/usr/local of an image that never booted leads into an empty /var."""
    at(root, "/usr").mkdir()
    at(root, "/usr/local").symlink_to("../var/usrlocal")
    at(root, "/var").mkdir()


def _absolute_link(root: Path) -> None:
    at(root, "/usr").mkdir()
    at(root, "/usr/local").symlink_to("/opt/local")
    at(root, "/opt/local/bin").mkdir(parents=True)


def _odd_modes(root: Path) -> None:
    for path, mode in {"/usr/local/bin": 0o2775, "/etc/systemd/system": 0o700, "/var/lib": 0o1777}.items():
        at(root, path).mkdir(parents=True)
        at(root, path).chmod(mode)


PRIORS: list[Prior] = [
    lambda root: None,
    _upstreams_host,
    _coreos,
    _absolute_link,
    _odd_modes,
]


@pytest.mark.parametrize("replaces", [False, True], ids=["", "replacing"])
@pytest.mark.parametrize("prior", PRIORS, ids=lambda prior: prior.__name__.strip("_"))
def test_uninstall_restores_the_host(root: Path, prior: Prior, replaces: bool) -> None:
    prior(root)
    set_old_times(root)
    before = read_tree_without_directory_times(root)
    installed(root, *EVERYTHING, replaces=replaces)
    assert read_tree_without_directory_times(root) != before
    uninstalled(root)
    assert read_tree_without_directory_times(root) == before
    assert uninstall(Root(root)) is None


def test_dry_run_lists_steps_without_changes(root: Path) -> None:
    _upstreams_host(root)
    set_old_times(root)
    before = read_tree(root)
    trial = install(Root(root), EVERYTHING, PAGES, is_trial=True)
    assert read_tree(root) == before
    assert trial.steps == installed(root, *EVERYTHING).steps
    set_old_times(root)
    there = read_tree(root)
    leaving = uninstall(Root(root), is_trial=True)
    assert read_tree(root) == there
    done = uninstall(Root(root))
    assert leaving is not None
    assert done is not None
    assert leaving.steps == done.steps


ANY_PATHS = [item.path for item in contents(EVERYTHING, HOST, PAGES)]
ANY_PATHS += [f"{path}{end}" for path in ANY_PATHS for end in (".new", ".replaced")]
THINGS = st.sampled_from(["file", "empty", "ours", "link", "dangling", "directory", "fifo"])
OPTIONS = st.sets(st.sampled_from(EVERYTHING))


def _make(path: Path, thing: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    match thing:
        case "file" | "empty":
            path.write_text("somebody's" if thing == "file" else "")
        case "ours":
            path.write_bytes((REPOSITORY / "units/10-service-record.conf").read_bytes())
        case "link":
            path.symlink_to("/etc")
        case "dangling":
            path.symlink_to("nowhere")
        case "directory":
            path.mkdir()
        case "fifo":
            os.mkfifo(path)


@given(
    things=st.dictionaries(st.sampled_from(ANY_PATHS), THINGS, max_size=12),
    calls=st.lists(st.tuples(OPTIONS, st.booleans()), min_size=1, max_size=3),
)
def test_uninstall_restores_any_host(things: dict[str, str], calls: list[tuple[set[Option], bool]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        for path, thing in things.items():
            _make(at(root, path), thing)
        set_old_times(root)
        before = read_tree_without_directory_times(root)
        for options, replaces in calls:
            installed(root, *options, replaces=replaces)
        there = read_tree(root)
        installed(root, replaces=calls[-1][1])
        assert read_tree(root) == there
        uninstalled(root)
        assert read_tree_without_directory_times(root) == before


# Links


def _outside(root: Path) -> Path:
    outside = root.parent / "outside"
    outside.mkdir()
    return outside


@pytest.mark.parametrize("steps", ["", "../../../../../.."], ids=["absolute", "relative"])
def test_no_link_leaves_the_root(root: Path, steps: str) -> None:
    outside = _outside(root)
    for path in ("/usr/local", "/etc", "/var"):
        at(root, path).parent.mkdir(exist_ok=True)
        at(root, path).symlink_to(f"{steps}{outside}{path}")
    before = read_tree(root)
    installed(root, *EVERYTHING)
    assert list(outside.iterdir()) == []
    assert at(root, f"{outside}{SHIM}").exists()
    uninstalled(root)
    assert list(read_tree(root)) == list(before)


def test_linked_file_is_not_written_through(root: Path) -> None:
    precious = write_file(_outside(root), "precious")
    at(root, SHIM).parent.mkdir(parents=True)
    at(root, SHIM).symlink_to(precious)
    installed(root, replaces=True)
    assert precious.read_text() == "somebody's"
    assert not at(root, SHIM).is_symlink()


def test_circular_links_are_an_error(root: Path) -> None:
    at(root, "/usr").symlink_to("/usr")
    with pytest.raises(OSError, match="symbolic links"):
        installed(root)


# Cut short


CHANGES = ("write", "link", "keep_as", "put_back", "remove", "make_directory", "remove_directory")


class Breaking(Root):
    """A root in which the n-th change fails, and each after it."""

    def __init__(self, path: Path, changes: int) -> None:
        super().__init__(path)
        self.left = changes

    def __getattribute__(self, name: str) -> Any:
        if name in CHANGES:
            self.left -= 1
            if self.left < 0:
                raise OSError(5, "broken")
        return super().__getattribute__(name)


def _without_empty_homes(tree: Tree) -> Tree:
    """Without directories that were made for the note before it could be written, and so without the root."""
    homes = (".", "var", "var/lib", "var/lib/service-record")
    return {path: state for path, state in tree.items() if path not in homes}


def cut_short(tmp_path: Path, act: Callable[[Path, int], object], goes_on: Prior) -> None:
    """Act with each number of changes on a host of its own, and go on where that was too few."""
    for changes in range(200):
        root = tmp_path / str(changes)
        root.mkdir()
        _upstreams_host(root)
        before = _without_empty_homes(read_tree(root, with_times=False))
        try:
            act(root, changes)
        except OSError:
            goes_on(root)
            uninstalled(root)
            assert _without_empty_homes(read_tree(root, with_times=False)) == before, changes
        else:
            break
    assert 20 < changes < 199


@pytest.mark.parametrize("resume", ["uninstall", "install, uninstall"])
def test_interrupted_install_can_be_undone(tmp_path: Path, resume: str) -> None:
    def goes_on(root: Path) -> None:
        if resume.startswith("install"):
            installed(root, *EVERYTHING, replaces=True)
            assert set(actions(installed(root)).values()) == {Action.LEAVE}

    cut_short(tmp_path, lambda root, n: install(Breaking(root, n), EVERYTHING, PAGES, replaces=True), goes_on)


def test_interrupted_uninstall_can_be_completed(tmp_path: Path) -> None:
    def removed(root: Path, changes: int) -> None:
        installed(root, *EVERYTHING, replaces=True)
        uninstall(Breaking(root, changes))

    cut_short(tmp_path, removed, lambda _: None)


def test_partial_file_is_removed(root: Path) -> None:
    installed(root)
    write_file(root, f"{Path(SHIM).parent}/.{Path(SHIM).name}.part", "half")
    uninstalled(root)
    assert list(read_tree(root)) == ["."]


# Refused


def _as_somebody() -> None:
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(65534, 65534, 65534)
        os.setresuid(65534, 65534, 65534)


def _with_files_of(most: int) -> None:
    """Every write of more bytes fails, as on a full disk."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))


def _install_and_tell(limited: Callable[[], None], directory: str, pipe: Any) -> None:
    limited()
    try:
        install(Root(Path(directory)), (), ())
    except OSError as error:
        pipe.send((type(error).__name__, error.filename))
    else:
        pipe.send(None)


def installed_by_a_child(root: Path, limited: Callable[[], None]) -> object:
    """Return the result of an installation by another process, with less privilege than ours."""
    ours, theirs = multiprocessing.Pipe()
    fork = multiprocessing.get_context("fork")
    child = fork.Process(target=_install_and_tell, args=(limited, str(root), theirs))
    child.start()
    child.join(60)
    return ours.recv()


def test_unwritable_directory_prevents_all_changes() -> None:
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        for path in ("/", "/etc", "/usr", "/usr/local", "/var/lib"):
            at(root, path).mkdir(parents=True, exist_ok=True)
            at(root, path).chmod(0o777)
        at(root, "/usr/local/bin").mkdir(mode=0o555)
        before = read_tree(root)
        error = installed_by_a_child(root, _as_somebody)
        assert error == ("PermissionError", f"{directory}/usr/local/bin")
        assert read_tree(root) == before


def test_failed_first_write_leaves_nothing(root: Path) -> None:
    assert installed_by_a_child(root, lambda: _with_files_of(100)) == ("OSError", f"{root}{FILE}")
    assert list(read_tree(root)) == ["."]


def test_files_written_before_full_disk_are_removable(root: Path) -> None:
    assert installed_by_a_child(root, lambda: _with_files_of(20_000)) == ("OSError", f"{root}{SHIM}")
    assert at(root, FILE).exists()
    assert [path for path in read_tree(root) if path.endswith(".part")] == []
    uninstalled(root)
    assert list(read_tree(root)) == ["."]


def test_file_in_place_of_directory_is_refused(root: Path) -> None:
    write_file(root, "/usr/local")
    before = read_tree(root)
    answer = service_record("install", "--root", root)
    assert (answer.status, answer.out) == (3, "")
    assert answer.err == f"Error: {root}/usr/local: Not a directory; check the path\n"
    assert read_tree(root) == before


def test_concurrent_install_is_refused(root: Path) -> None:
    with Root(root).locked():
        answer = service_record("install", "--root", root)
    assert (answer.status, answer.err.count("\n")) == (3, 1)
    assert "somebody else installs or uninstalls here; try again" in answer.err


@pytest.mark.parametrize(
    "content",
    [
        *("", "[]", "{}", '{"version": 2}', '{"version": 1, "options": ["all"]}'),
        *("\udcff", '{"version": 1, "options": [], "files": {"x": {"link": "y"}}}'),
    ],
)
@pytest.mark.parametrize("verb", ["install", "uninstall"])
def test_damaged_list_of_installed_files_is_one_error(root: Path, verb: str, content: str) -> None:
    note = write_file(root, FILE, "")
    note.write_bytes(content.encode(errors="surrogateescape"))
    before = read_tree(root)
    answer = service_record(verb, "--root", root)
    assert (answer.status, answer.out, answer.err.count("\n")) == (3, "", 1)
    assert answer.err.startswith(f"Error: {note}: damaged, or of another version")
    assert read_tree(root) == before


# What is said


def test_output_has_line_per_file_and_summary(root: Path) -> None:
    write_file(root, SHIM, "upstream's")
    before = read_tree(root)
    trial = service_record("install", "--root", root, "--dry-run")
    assert trial.status == 1
    assert f"\nwould keep    {SHIM}  " in trial.out
    assert trial.out.endswith(" created, 1 kept.\n")
    assert read_tree(root) == before
    answer = service_record("install", "--root", root)
    assert answer.status == 1
    assert "created  /etc/tmpfiles.d/service-record.conf\n" in answer.out
    assert f"\nkept     {SHIM}  not ours; ours is {SHIM}.new\n" in answer.out
    again = service_record("install", "--root", root)
    assert re.search(r"unchanged\.\nsystemd closes no record yet\.\nNext:\n", again.out)
    gone = service_record("uninstall", "--root", root)
    *_, summary, afterwards = gone.out.splitlines()
    assert (gone.status, summary.split()[1:]) == (0, ["removed."])
    assert afterwards == "Records stay."
    service_record("install", "--root", root, "--replace")
    at(root, SHIM).unlink()
    at(root, f"{SHIM}.replaced").unlink()
    service_record("install", "--root", root)
    afterwards = service_record("uninstall", "--root", root).out.splitlines()[-1]
    assert afterwards == "Records stay. Scripts that source the shim fail without it: change them."
    write_file(root, SHIM, "upstream's")
    assert service_record("uninstall", "--root", root).out == f"Nothing is installed in {root}.\n"
    assert read_tree(root, with_times=False) == {path: (*state[:-1], None) for path, state in before.items()}


def test_next_commands_depend_on_installed_files(root: Path) -> None:
    write_file(root, SHIM, "upstream's")
    answer = service_record("install", "--root", root)
    assert [" ".join(line.split()) for line in answer.out.splitlines()[-5:]] == [
        "systemd closes no record yet.",
        "Next:",
        f"service-record install --root {root} --replace put ours in the place of what was kept",
        f". {SHIM} in a bash script: record it",
        f"service-record install --root {root} --close SERVICE have systemd record how SERVICE ends",
    ]
    closes = ("--close", "bootkube", "--close", "a@1.service")
    answer = service_record("install", "--root", root, "--replace", *closes)
    assert "\nsystemd closes the records of: bootkube, a@1.\nNext:\n" in answer.out
    assert "--close SERVICE" not in answer.out
    answer = service_record("install", "--root", root, "--all-services", "--collector")
    assert "\nsystemd closes the record of every service.\nNext:\n" in answer.out
    assert "\n  systemctl enable --now collector.service" in answer.out
    assert "Next:" not in service_record("install", "--root", root, "--dry-run").out


def test_close_drop_in_lasts_until_all_services(root: Path) -> None:
    drop_in = "/etc/systemd/system/bootkube.service.d/10-service-record.conf"
    before = read_tree(root)
    assert service_record("install", "--root", root, "--close", "bootkube.service").status == 0
    assert at(root, drop_in).read_bytes() == source("units/10-service-record.conf")
    assert at(root, f"{HOST.programs}/service-record-exit.sh").exists()
    assert not at(root, DROP_IN).exists()
    at(root, drop_in).unlink()
    assert f"created  {drop_in}\n" in service_record("install", "--root", root).out
    service_record("install", "--root", root, "--all-services")
    assert (at(root, drop_in).exists(), at(root, DROP_IN).exists()) == (False, True)
    service_record("install", "--root", root, "--close", "crio")
    assert not at(root, "/etc/systemd/system/crio.service.d").exists()
    assert service_record("uninstall", "--root", root).status == 0
    assert read_tree(root, with_times=False) == {path: (*state[:-1], None) for path, state in before.items()}


@pytest.mark.parametrize("name", ["a/b", "../x", "", "a b", "\x1b[2J"])
def test_invalid_service_name_is_refused(root: Path, name: str) -> None:
    answer = service_record("install", "--root", root, "--close", name)
    assert (answer.status, answer.out) == (2, "")
    assert "is not the name of a service" in answer.err
    assert list(root.iterdir()) == []


def test_incomplete_reporter_is_reported(root: Path) -> None:
    outcome = installed(root, Option.REPORTER)
    assert [note for note in outcome.notes if not note.startswith("not root")] == [
        "/usr/local/bin/service-record is missing: without the program the reporter does nothing",
        "/etc/service-record/reporter.toml is missing: without its settings the reporter does nothing",
    ]


def test_missing_root_is_a_usage_error(tmp_path: Path) -> None:
    for verb in ("install", "uninstall"):
        answer = service_record(verb, "--root", tmp_path / "nowhere")
        assert (answer.status, answer.out) == (2, "")
