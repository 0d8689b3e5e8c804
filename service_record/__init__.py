"""Record what the bootstrap services of a host do, and read the records.

    import service_record

    with service_record.service("bootkube"):
        with service_record.stage("cvo-bootstrap"):
            ...

Names are loaded when they are first used, for the command line needs few of them. The first name for
recording loads everything that recording needs: from then on a service may call `os.chroot`.
"""

import sys

TYPE_CHECKING = False  # `typing` takes as long to load as all the rest
if TYPE_CHECKING:
    from service_record.record.directory import Records
    from service_record.record.entry import Entry, Malformed, Phase, Result
    from service_record.recorder import (
        end_service,
        end_stage,
        post_command,
        pre_command,
        service,
        stage,
        start_service,
        start_stage,
    )
    from service_record.recorder.failure import Failure
    from service_record.recorder.log_handler import RecentLinesHandler
    from service_record.recorder.recording import Recording, Service
    from service_record.version import __version__

__all__ = [
    "Entry",
    "Failure",
    "Malformed",
    "Phase",
    "RecentLinesHandler",
    "Recording",
    "Records",
    "Result",
    "Service",
    "__version__",
    "end_service",
    "end_stage",
    "post_command",
    "pre_command",
    "service",
    "stage",
    "start_service",
    "start_stage",
]

_HOMES = {
    "record.entry": ("Entry", "Malformed", "Phase", "Result"),
    "recorder.failure": ("Failure",),
    "recorder.log_handler": ("RecentLinesHandler",),
    "record.directory": ("Records",),
    "recorder.recording": ("Recording", "Service"),
    "version": ("__version__",),
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = next((home for home, names in _HOMES.items() if name in names), "recorder")
    __import__(f"{__name__}.{home}")
    value: object = getattr(sys.modules[f"{__name__}.{home}"], name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
