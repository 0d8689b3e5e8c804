"""Read and write bundles: archives of a host's records in OpenShift's layout (docs/bundle.md).

Names are imported at their first use: most inputs are not archives and need no decompressor.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from service_record.bundle.layers import HEAD_BYTES, Limits, is_packed
    from service_record.bundle.opening import Bundle, LeftOut, Record, open_bundle
    from service_record.bundle.packing import pack

__all__ = [
    "HEAD_BYTES",
    "Bundle",
    "LeftOut",
    "Limits",
    "Record",
    "is_packed",
    "open_bundle",
    "pack",
]

_HOMES = {
    "layers": ("HEAD_BYTES", "Limits", "is_packed"),
    "opening": ("Bundle", "LeftOut", "Record", "open_bundle"),
    "packing": ("pack",),
}


def __getattr__(name: str) -> object:
    home = next((home for home, names in _HOMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value
