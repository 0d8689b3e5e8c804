"""Decide whether the boot reporter has work to do.

A systemd timer runs this check every minute, and usually there is nothing to do. So it imports little.
"""

import hashlib
from collections.abc import Mapping
from typing import Final

from service_record.record import systemd
from service_record.reporter.paths import Places, is_there
from service_record.reporter.settings import Settings, read_settings
from service_record.reporter.state import ReporterState, newest_state_file, read

TIMER_SLACK_SECONDS: Final = 5.0  # AccuracySec= of boot-reporter.timer


def is_anything_due(places: Places, environ: Mapping[str, str]) -> bool:
    """Return whether a round should start now.

    Takes no lock and writes nothing; the round checks again under its lock.
    """
    if is_there(places.tombstone):
        return True  # the reporter has stopped; a round finishes the clean-up
    settings = read_settings(places, environ)
    if settings.records_to:
        return True  # records are sent each minute
    try:
        state = read(newest_state_file(places))
    except OSError:
        return True  # a round logs the unreadable state
    boot_id, uptime = systemd.boot_id(), systemd.uptime()
    return not (state and boot_id and uptime) or is_due_at(settings, state, boot_id, uptime)


def is_due_at(settings: Settings, state: ReporterState, boot_id: str, uptime: float) -> bool:
    """Return whether the last round of this boot is long enough ago. The first round is always due.

    `state` is the one before `begin_round`. Pure.
    """
    boot = state.boot(boot_id)
    if boot is None or uptime < boot.uptime:
        return True
    # Hosts that boot together must not report together from then on.
    delay = _host_fraction(settings, boot_id) * settings.jitter if boot.rounds == 1 else 0.0
    return uptime - boot.uptime >= settings.frequency + delay - TIMER_SLACK_SECONDS


def _host_fraction(settings: Settings, boot_id: str) -> float:
    """Return a number from 0 to 1 that is stable for this host in this boot."""
    name = f"{settings.service.host_id if settings.service else ''} {boot_id}"
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4]) / (1 << 32)
