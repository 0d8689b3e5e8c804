"""A check whether a round is due. The timer runs it each minute, mostly in vain, so it loads little."""

import hashlib
from collections.abc import Mapping
from typing import Final

from service_record.record import systemd
from service_record.reporter.paths import Places, is_there
from service_record.reporter.settings import Settings, read_settings
from service_record.reporter.state import ReporterState, read

_SLACK: Final = 5.0
"""Seconds: what wakes the reporter is that inexact."""


def is_anything_due(places: Places, environ: Mapping[str, str]) -> bool:
    """Return whether a round would do anything (it looks again itself): nothing is locked, printed or written
    here.

    It has where the reporter has stopped, where records are sent as they come, and where the state cannot
    be read.
    """
    if is_there(places.tombstone):
        return True
    settings = read_settings(places, environ)
    if settings.records_to:
        return True
    try:
        in_memory = places.volatile.state_file
        state = read(in_memory if is_there(in_memory) else places.state_file)
    except OSError:
        return True
    boot_id, uptime = systemd.boot_id(), systemd.uptime()
    return not (state and boot_id and uptime) or is_due_at(settings, state, boot_id, uptime)


def is_due_at(settings: Settings, state: ReporterState, boot_id: str, uptime: float) -> bool:
    """Return whether a round is due by its frequency; the first of a boot is at once.

    Give the state before `arrive`. Pure.
    """
    boot = state.boot(boot_id)
    if boot is None or uptime < boot.uptime:
        return True
    apart = _part(settings, boot_id) * settings.jitter if boot.rounds == 1 else 0.0
    return uptime - boot.uptime >= settings.frequency + apart - _SLACK


def _part(settings: Settings, boot_id: str) -> float:
    """Return a part of one that is this host's own in this boot."""
    name = f"{settings.service.host_id if settings.service else ''} {boot_id}"
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4]) / (1 << 32)
