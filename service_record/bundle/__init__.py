"""Bundles: archives of a host's records in the layout of OpenShift's own; docs/bundle.md describes it."""

from service_record.bundle.head import looked_into
from service_record.bundle.layers import HEAD_BYTES, is_packed
from service_record.bundle.limits import Limits
from service_record.bundle.names import RECORD_DIRECTORIES, UNFINISHED_SUFFIX
from service_record.bundle.opening import Bundle, LeftOut, Record, open_bundle
from service_record.bundle.packing import pack

__all__ = [
    "HEAD_BYTES",
    "RECORD_DIRECTORIES",
    "UNFINISHED_SUFFIX",
    "Bundle",
    "LeftOut",
    "Limits",
    "Record",
    "is_packed",
    "looked_into",
    "open_bundle",
    "pack",
]
