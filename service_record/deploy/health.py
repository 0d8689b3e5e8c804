"""Checks the recorder on a host: its files, systemd's drop-ins, records, journal, reporter, servers."""

import os
import socket
import stat
from collections import Counter
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from service_record.deploy.delivered import CLOSING, HOST, SCRIPTS, choose_layout, pages
from service_record.deploy.installed import DamagedError
from service_record.deploy.installing import install
from service_record.deploy.planning import Action
from service_record.deploy.root import UNIT_DIRECTORIES, Root
from service_record.http.address import URL_VARIABLE, CollectorError, is_collector, parse_address
from service_record.http.proxies import proxy_for, read_proxies, split_url
from service_record.preflight.checks import CheckResult, CheckState, not_checked
from service_record.preflight.probes import check_time, file_system
from service_record.record import systemd
from service_record.reporter.paths import Places, is_there
from service_record.reporter.settings import Settings, read_settings

_CONNECT_SECONDS: Final = 5.0
_INBOX_MODE: Final = 0o1733
"""Every user may create a file, only root may list them; see units/tmpfiles.d/service-record.conf."""
_IN_MEMORY: Final = frozenset({"tmpfs", "ramfs"})
_MIN_FREE_BYTES: Final = 64 << 20
"""A round of the boot reporter needs as much."""
_REPORTER_MODULES: Final = ("httpx2", "stamina")


def examine(root: Root, environ: Mapping[str, str]) -> Iterator[CheckResult]:
    """Yield a result for each part of the recorder. Some checks need a running host, and so the root `/`.

    An optional part that is not installed, such as the boot reporter, is "not checked".
    """
    places = Places.of_environment(Path(root.at("/")), environ)
    yield _check_files(root)
    yield _check_drop_ins(root)
    yield _check_records(places)
    if root.is_this_host:
        yield _check_inbox(Path(environ.get("SERVICE_RECORDS_INBOX") or "/dev/shm/service-record"))  # noqa: S108
    yield _check_journal(places)
    settings = read_settings(places, environ)
    yield _check_reporter(places, settings)
    if root.is_this_host:
        yield from _check_destinations(settings, environ)
        yield check_time()


def _passed(check: str, detail: str) -> CheckResult:
    return CheckResult(check, CheckState.PASSED, detail)


def _failed(check: str, detail: str, advice: str) -> CheckResult:
    return CheckResult(check, CheckState.FAILED, detail, advice)


def _check_files(root: Root) -> CheckResult:  # noqa: PLR0911  # one for each fault
    """Compare the files on the host with those that this version would install."""
    check = "files"
    if root.see(f"{HOST.programs}/{SCRIPTS[0]}").kind == "nothing":
        packaged = f"{choose_layout('/usr').programs}/{SCRIPTS[0]}"
        if root.see(packaged).kind != "nothing":
            return _passed(check, f"{packaged}, of a package")
        return _failed(check, "the shim is not installed", "Install it: `service-record install`.")
    try:
        steps = install(root, (), tuple(pages()), is_trial=True).steps
    except DamagedError as error:
        return _failed(check, str(error), "Then run `service-record install` again.")
    except OSError as error:
        return not_checked(check, f"{error.filename}: {error.strerror}", "Try as root.")
    counts = Counter(step.action for step in steps)
    problems = [
        f"{count} {what}"
        for action, what in ((Action.CREATE, "missing"), (Action.UPDATE, "of another version"))
        if (count := counts[action])
    ]
    if problems:
        return _failed(check, ", ".join(problems), "Bring them to this version: `service-record install`.")
    if edited := [step.path for step in steps if step.action is Action.KEEP]:
        more = f" and {len(edited) - 1} more" if len(edited) > 1 else ""
        advice = "Compare with the .new file beside it, or replace it: `service-record install --replace`."
        return _failed(check, f"{edited[0]}{more}: edited, or not ours", advice)
    return _passed(check, f"{counts[Action.LEAVE]} files, all of this version")


def _check_drop_ins(root: Root) -> CheckResult:
    """Check for which services systemd records the end, and that a running systemd has read the drop-ins."""
    check = "drop-ins"
    found: dict[str, str] = {}
    for directory in UNIT_DIRECTORIES:
        for drop_in in Path(root.at(directory)).glob(f"*.d/{CLOSING}"):
            found.setdefault(drop_in.parent.name.removesuffix(".d"), f"{directory}/{drop_in.parent.name}")
    services = sorted(name.removesuffix(".service") for name in found if name.endswith(".service"))
    if "service" not in found and not services:
        advice = "Have systemd record all ends: `service-record install --all-services`."
        return _failed(check, "no record has the end of a service that is killed or hangs", advice)
    what = "all services" if "service" in found else ", ".join(services)
    if root.is_this_host and systemd.is_running():
        # journald runs on every host with systemd, so that it shows what systemd has read.
        unit = "systemd-journald.service" if "service" in found else f"{services[0]}.service"
        read = systemd.unit_properties([unit], ["DropInPaths"], with_failed=False)
        if read is not None and CLOSING not in read:
            return _failed(check, f"{what}: systemd has not read them", "Run `systemctl daemon-reload`.")
    return _passed(check, f"systemd records the end of {what}")


def _check_records(places: Places) -> CheckResult:  # noqa: PLR0911  # one for each fault
    """Check that the records directory exists, survives a reboot and has free space."""
    check, directory = "records", places.records
    try:
        status = directory.stat()
        records = len(list(directory.glob("*.json")))
        room = os.statvfs(directory)
    except FileNotFoundError:
        return not_checked(check, f"{directory} is not there yet; the first record makes it")
    except OSError as error:
        return not_checked(check, f"{directory}: {error.strerror}", "Try as root.")
    if not stat.S_ISDIR(status.st_mode):
        return _failed(check, f"{directory} is not a directory", "Move it away.")
    if status.st_mode & stat.S_IWOTH:
        mode = f"{directory} has mode {stat.S_IMODE(status.st_mode):04o}: any user may change its records"
        return _failed(check, mode, f"Run `chmod 0750 {directory}`.")
    free = room.f_bavail * room.f_frsize
    if (kind := file_system(directory)) in _IN_MEMORY:
        advice = "Name a directory on a disk by SERVICE_RECORDS_DIR, or mount one there."
        return _failed(check, f"{directory} is in memory ({kind}): a reboot loses it", advice)
    if room.f_flag & os.ST_RDONLY:
        advice = "Entries wait in the inbox; see docs/read-only.md."
        return _failed(check, f"{directory} is read-only", advice)
    if free < _MIN_FREE_BYTES:
        return _failed(check, f"{directory}: {free >> 20} MiB are free", "Make room there.")
    number = "1 record" if records == 1 else f"{records} records"
    return _passed(check, f"{directory}: {number}, {free >> 20} MiB free")


def _check_inbox(inbox: Path) -> CheckResult:
    """Check the directory for the entries of services that may not write their record."""
    check = "inbox"
    settings = f"{HOST.tmpfiles}/service-record.conf"
    program = f"systemd-tmpfiles --create {settings}" if Path(settings).exists() else "service-record install"
    advice = f"Make it: `{program}`."
    try:
        status = inbox.lstat()
    except FileNotFoundError:
        lost = "entries of services that are not root are lost"
        return _failed(check, f"{inbox} is missing: {lost}", advice)
    except OSError as error:
        return not_checked(check, f"{inbox}: {error.strerror}", "Try as root.")
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != 0:
        return _failed(check, f"{inbox} is not a directory of root", f"Remove it. {advice}")
    if (mode := stat.S_IMODE(status.st_mode)) != _INBOX_MODE:
        return _failed(check, f"{inbox} has mode {mode:04o}", f"Run `chmod {_INBOX_MODE:o} {inbox}`.")
    return _passed(check, f"{inbox} takes entries of every user")


def _check_journal(places: Places) -> CheckResult:
    """Check that the journal survives a reboot: its lines explain failures."""
    check = "journal"
    kept, volatile = places.at("/var/log/journal"), places.at("/run/log/journal")
    try:
        is_kept = any(kept.glob("*/*.journal"))
    except OSError as error:
        return not_checked(check, f"{kept}: {error.strerror}", "Try as root.")
    if is_kept:
        return _passed(check, f"kept in {kept}")
    if not is_there(volatile) and not is_there(kept):
        return not_checked(check, "this host has no journal")
    if is_there(kept) and not os.access(kept, os.R_OK | os.X_OK):
        return not_checked(check, f"{kept} cannot be listed", "Try as root.")
    advice = "Keep it: `mkdir -p /var/log/journal && systemctl restart systemd-journald`."
    return _failed(check, "in memory: a reboot loses the lines that explain a failure", advice)


def _check_reporter(places: Places, settings: Settings) -> CheckResult:  # noqa: PLR0911  # one for each fault
    """Check that the boot reporter is enabled and can run."""
    check = "boot reporter"
    if is_there(places.tombstone):
        return _passed(check, f"it has finished here ({places.tombstone})")
    if not is_there(places.timer):
        return not_checked(
            check, "not installed", "Install it where wanted: `service-record install --reporter`."
        )
    if not places.unit_links:
        return _failed(check, "its timer is not enabled", "Run `systemctl enable --now boot-reporter.timer`.")
    program = places.at(f"{HOST.programs}/service-record")
    if not is_there(program):
        return _failed(
            check, f"{program} is missing, which its unit runs", "Make a link there to the command."
        )
    if settings.faults:
        more = f" ({len(settings.faults)} faults)" if len(settings.faults) > 1 else ""
        return _failed(
            check, f"{settings.faults[0]}{more}", "`service-record report --dry-run` shows them all."
        )
    missing = [name for name in _REPORTER_MODULES if find_spec(name) is None]
    if missing and places.root == Path("/"):
        advice = "Install the extra `reporter`: `service-record report` prints the command."
        return _failed(check, f"{' and '.join(missing)} not installed", advice)
    return _passed(check, "enabled, and its settings are complete")


def _check_destinations(settings: Settings, environ: Mapping[str, str]) -> Iterator[CheckResult]:
    """Connect to each server to which this host sends."""
    urls = [*([settings.service.url] if settings.service else []), *settings.ship_to, *settings.records_to]
    named = environ.get(URL_VARIABLE)
    urls += [named] if named else []
    servers = dict.fromkeys(filter(None, map(_server, urls)))
    if not servers:
        yield not_checked("collector", "none is configured on this host")
    for server in servers:
        yield _check_server(server, environ)


def _server(url: str) -> str | None:
    """Return the URL of the server, without path and password; None for a directory."""
    try:
        place = parse_address(url).url if is_collector(url) else url
    except CollectorError:
        return None
    parts = split_url(place)
    return None if parts is None else f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _check_server(server: str, environ: Mapping[str, str]) -> CheckResult:
    if (proxy := proxy_for(server, read_proxies(environ))) is not None:
        return not_checked(server, f"it is reached through the proxy {_server(proxy) or 'of this host'}")
    parts = split_url(server)
    if parts is None or parts.hostname is None:
        return not_checked(server, "not a URL")
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        with socket.create_connection((parts.hostname, port), timeout=_CONNECT_SECONDS):
            return _passed(server, "it accepts connections")
    except TimeoutError:
        why = f"no answer within {_CONNECT_SECONDS:g} s"
    except OSError as error:
        why = str(error.strerror or error)
    return _failed(server, why, "Check the address, the name server, routes and firewalls.")
