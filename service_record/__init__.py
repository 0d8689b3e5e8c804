"""Record what the bootstrap services of a host do, and read the records.

    import service_record

    with service_record.service("bootkube"):
        with service_record.stage("cvo-bootstrap"):
            ...

Everything that recording needs is loaded here: from then on a service may call `os.chroot`. The other names
are loaded when they are first used, because they need libraries and a service does not need them.

PYTEST_DONT_REWRITE: the package has a plugin, so a recorded program that runs pytest would get a warning.
"""

import sys

from service_record.recorder import (
    Recording,
    Service,
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
from service_record.version import __version__

TYPE_CHECKING = False  # see service_record/record/__init__.py
if TYPE_CHECKING:
    from service_record.record.directory import Records
    from service_record.record.entry import Entry, Malformed, Phase, Result
    from service_record.recorder.log_handler import RecentLinesHandler

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

_LOADED_LATER = {
    "Entry": "record.entry",
    "Malformed": "record.entry",
    "Phase": "record.entry",
    "Records": "record.directory",
    "RecentLinesHandler": "recorder.log_handler",
    "Result": "record.entry",
}


def __getattr__(name: str) -> object:
    if name not in _LOADED_LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = f"{__name__}.{_LOADED_LATER[name]}"
    __import__(module)
    value: object = getattr(sys.modules[module], name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
