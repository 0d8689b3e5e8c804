"""The one list of what is delivered."""

from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest

from service_record.deploy.delivered import (
    HOST,
    MODULE_FILES,
    Layout,
    Option,
    choose_layout,
    contents,
    source,
)
from tests.programs import REPOSITORY

PACKAGE = choose_layout("/usr")
EVERYTHING = tuple(Option)
layouts = pytest.mark.parametrize("layout", [HOST, PACKAGE], ids=["host", "package"])


def test_option_selects_only_its_items() -> None:
    assert [item.path for item in contents([Option.SHIM])] == [
        "/etc/tmpfiles.d/service-record.conf",
        "/usr/local/bin/bootstrap-service-record.sh",
        "/usr/local/bin/service-record-exit.sh",
        "/usr/local/share/service-record/10-service-record-user-manager.conf",
        "/usr/local/share/service-record/10-service-record.conf",
        "/usr/local/share/service-record/20-service-record-array.conf",
        "/usr/local/share/service-record/service-record-close.sh",
        "/usr/local/share/service-record/service-record-failure.sh",
    ]
    assert [item.path for item in contents([Option.ALL_SERVICES])] == [
        "/etc/systemd/system/service.d/10-service-record.conf",
        "/etc/systemd/system/user@.service.d/10-service-record.conf",
    ]
    assert [item.path for item in contents([Option.ARRAY])] == [
        "/etc/systemd/system/service.d/20-service-record-array.conf",
        "/etc/tmpfiles.d/service-record-array.conf",
    ]
    assert [item.path for item in contents([Option.REPORTER])] == [
        "/etc/systemd/system/boot-reporter.service",
        "/etc/systemd/system/boot-reporter.timer",
        "/etc/systemd/system/timers.target.wants/boot-reporter.timer",
    ]


@layouts
def test_selected_paths_are_unique(layout: Layout) -> None:
    for number in range(len(EVERYTHING) + 1):
        for options in combinations(EVERYTHING, number):
            paths = [item.path for item in contents(options, layout, [("man/man1/a.1", "page")])]
            assert len(set(paths)) == len(paths)


@layouts
def test_only_programs_are_executable(layout: Layout) -> None:
    items = contents(EVERYTHING, layout, [("man/man1/a.1", "page")])
    programs = {item.path for item in items if item.mode == 0o755}
    on_host = {
        "/usr/local/bin/bootstrap-service-record.sh",
        "/usr/local/bin/service-record-exit.sh",
        "/usr/local/share/service-record/service-record-close.sh",
    }
    in_package = {
        f"/usr/share/service-record/service-record-{name}.sh" for name in ("exit", "close", "cluster-api")
    }
    in_package |= {f"/usr/lib/dracut/modules.d/95service-record/{name}" for name in MODULE_FILES}
    assert programs == (in_package if layout is PACKAGE else on_host)
    assert {item.mode for item in items} == {0o644, 0o755}


def test_units_name_installed_programs() -> None:
    by_name = {Path(item.path).name: item.data for item in contents(EVERYTHING, PACKAGE)}
    for name in ("10-service-record.conf", "10-service-record-user-manager.conf"):
        assert b" /usr/bin/service-record-exit.sh\n" in by_name[name]
    assert b"\nExecStart=-/usr/bin/service-record report --due\n" in by_name["boot-reporter.service"]
    assert b"\nConditionFileIsExecutable=/usr/bin/service-record\n" in by_name["boot-reporter.service"]
    by_name = {Path(item.path).name: item.data for item in contents(EVERYTHING, HOST)}
    assert b"\nExecStart=-/usr/local/bin/service-record report --due\n" in by_name["boot-reporter.service"]


def test_package_links_scripts_into_usr_bin() -> None:
    items = {item.path: item for item in contents(EVERYTHING, PACKAGE)}
    for name in ("bootstrap-service-record.sh", "service-record-exit.sh"):
        link = items[f"/usr/bin/{name}"]
        assert link.target == f"../share/service-record/{name}"
        original = (REPOSITORY / "shell" / name).read_bytes()
        assert items[f"/usr/share/service-record/{name}"].data.endswith(original.partition(b"\n")[2])


def test_package_stays_below_prefix_and_enables_nothing() -> None:
    items = contents(EVERYTHING, PACKAGE, [("man/man1/a.1", "page")])
    assert [item.path for item in items if not item.path.startswith("/usr/")] == []
    assert [item.path for item in items if ".wants/" in item.path or "/local/" in item.path] == []


def test_delivered_shim_equals_repository_file() -> None:
    shim = REPOSITORY / "shell/bootstrap-service-record.sh"
    (item,) = [item for item in contents([Option.SHIM]) if item.path.endswith(shim.name)]
    assert item.data == shim.read_bytes()


def test_units_and_shell_programs_are_delivered() -> None:
    kept = [path for name in ("shell", "units") for path in (REPOSITORY / name).rglob("*") if path.is_file()]
    of_package = contents(EVERYTHING, replace(HOST, is_package=True))
    delivered = {item.data for item in (*contents(EVERYTHING), *of_package)}
    assert [path for path in kept if path.read_bytes() not in delivered] == []


def test_missing_source_file_is_named() -> None:
    with pytest.raises(FileNotFoundError, match="install it anew"):
        source("shell/nothing.sh")
