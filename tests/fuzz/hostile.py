"""Records and archives to draw: whole, damaged, and made to do harm."""

import tarfile
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from hypothesis import strategies as st

from service_record.export import to_array
from service_record.record.entry import Entry
from tests.archives import COMPRESSIONS, header, member, tar
from tests.builders import array, entry, failed_run, our_array, upstream_entry
from tests.fuzz.corpus import grown
from tests.fuzz.damage import damaged
from tests.strategies import RECORD_BYTES, entries

Written: TypeAlias = Sequence[Entry]

NAMES = st.one_of(
    st.sampled_from(["job", "kube.let", "kube_let", "-o", "--", "a b", "%s", "~", "*"]),
    st.sampled_from(["../../out", "../../../out", "/proc/out", "..", "."]),
    st.sampled_from(["a\nb", "\x1b[2J", "\u202egnp", "\ufeff", "é" * 120]),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20),
)
"""Of services, as hostile as their makers like."""

RAW_NAMES = NAMES | st.just("\udcff")
"""Of files, which need not be UTF-8."""

_SECONDS = st.integers(0, 99)
_RUNS = st.one_of(
    _SECONDS.map(lambda at: failed_run(at=at)),
    st.builds(lambda at, text: failed_run(at=at, error_message=text, stack=(text,)), _SECONDS, NAMES),
    st.lists(_SECONDS.map(lambda at: upstream_entry(at=at)), max_size=4),
    st.lists(entries(), max_size=2),
)


def _in_lines(written: Written) -> bytes:
    return b"".join(one.to_line() for one in written)


def _in_upstreams_array(written: Written) -> bytes:
    return array(*written)


def _in_plain_array(written: Written) -> bytes:
    return b"".join(to_array(written))


def _in_our_array(written: Written, behind: int) -> bytes:
    return our_array(*written[behind:], behind=written[:behind])


_LAYOUTS: list[Callable[[Written], bytes]] = [
    *(_in_lines, _in_upstreams_array, _in_plain_array),
    *(partial(_in_our_array, behind=behind) for behind in range(3)),
]


@st.composite
def _contents(draw: st.DrawFn) -> bytes:
    if not draw(st.integers(0, 3)):
        return draw(RECORD_BYTES)  # has more in it, and takes longer to draw
    return draw(st.sampled_from(_LAYOUTS))(draw(_RUNS))


RECORDS = grown("records", _contents(), _contents(), st.lists(_contents(), max_size=3).map(b"".join))
"""The bytes of one record: in one layout or in several, whole or not."""

STREAMS = damaged(
    st.lists(NAMES, min_size=1, max_size=4).map(
        lambda names: b"".join(entry(extra={"service": name}).to_line() for name in names)
    )
)
"""The records of several services, as `show --output jsonl` writes them."""

_ABOVE = [*["log-bundle-1/", ""] * 5, "./", "a/b/", "/", "//", "../", "a/../", "long/" * 60, "\x1b[2J\n/"]
_BELOW = [*["bootstrap/services/", "var/log/openshift/"] * 5, "", "x/"]
_SUFFIXES = [*[".json"] * 8, ".json.tmp", ".json.damaged", ".gz", ""]
_PATHS = st.builds(
    "{}{}{}{}".format, st.sampled_from(_ABOVE), st.sampled_from(_BELOW), RAW_NAMES, st.sampled_from(_SUFFIXES)
)

_NO_FILES = [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE]
_TYPES = [*_NO_FILES, tarfile.GNUTYPE_SPARSE, tarfile.AREGTYPE, b"?"]
_EXTENDED = [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE]
_EXTENDED += [tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK]
_PAX_NAMES = ["path", "size", "mtime", "GNU.sparse.name", "GNU.sparse.major", "linkpath", "x"]
_PAX_VALUES = ["0", "512", "-1", str(2**63), str(2**70), "1e3", "\udcff"]


@st.composite
def _pax_records(draw: st.DrawFn) -> bytes:
    """The records of an extended header, with lengths that may be right."""
    records = b""
    for name in draw(st.lists(st.sampled_from(_PAX_NAMES), max_size=3)):
        value = draw(_PATHS | st.sampled_from(_PAX_VALUES))
        text = f" {name}={value}\n".encode(errors="surrogateescape")
        digits = 2 + (len(text) + 2 > 99)
        length = len(text) + digits + draw(st.sampled_from([0, 0, 0, 1, -1, 10**6]))
        records += str(length).encode() + text
    return records


@st.composite
def _members(draw: st.DrawFn, inner: st.SearchStrategy[bytes]) -> bytes:
    """One member of an archive, often a record, sometimes what should not be there."""
    path, data = draw(_PATHS), draw(inner)
    layout = draw(st.sampled_from([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]))
    match draw(st.integers(0, 9)):
        case 0:
            kind = draw(st.sampled_from(_TYPES))
            return member(path, data, layout=layout, type=kind, linkname="/etc/shadow")
        case 1:
            extended = draw(_pax_records() | st.binary(max_size=99))
            return member("x", extended, type=draw(st.sampled_from(_EXTENDED)))
        case 2:
            return header(path, draw(st.integers(-(2**40), 2**40)), mtime=draw(st.floats(0, 1e12))) + data
        case _:
            return member(path, data, layout=layout)


@st.composite
def _archives(draw: st.DrawFn, layers: int) -> bytes:
    """An archive, in up to two compressions, and with so many layers of archives in it."""
    inner = RECORDS | st.binary(max_size=99)
    if layers:
        inner |= damaged(_archives(layers - 1))
    archive = tar(*draw(st.lists(_members(inner), min_size=1, max_size=4)))
    for compress in draw(st.lists(st.sampled_from(list(COMPRESSIONS.values())), max_size=2)):
        archive = compress(archive)
    return archive


MEMBERS = _members(RECORDS | damaged(_archives(0)))
"""Of archives that are whole otherwise."""

ARCHIVES = grown("archives", _archives(2), _archives(2), _archives(2))
"""Archives in any compression, in one another, with whatever members; whole or not."""
