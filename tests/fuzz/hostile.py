"""Draw records and archives: valid, damaged and malicious ones."""

import tarfile
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from hypothesis import strategies as st

from service_record.export import to_array
from service_record.record.entry import Entry
from tests.archives import COMPRESSIONS, header, member, tar
from tests.builders import array, entry, failed_run, our_array, upstream_entry
from tests.fuzz.corpus import draw_from_corpus
from tests.fuzz.damage import draw_damaged
from tests.strategies import RECORD_BYTES, entries

Entries: TypeAlias = Sequence[Entry]

NAMES = st.one_of(
    st.sampled_from(["job", "kube.let", "kube_let", "-o", "--", "a b", "%s", "~", "*"]),
    st.sampled_from(["../../out", "../../../out", "/proc/out", "..", "."]),
    st.sampled_from(["a\nb", "\x1b[2J", "\u202egnp", "\ufeff", "é" * 120]),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20),
)
"""Names of services, including malicious ones."""

RAW_NAMES = NAMES | st.just("\udcff")
"""Names of files, which need not be UTF-8."""

_SECONDS = st.integers(0, 99)
_RUNS = st.one_of(
    _SECONDS.map(lambda at: failed_run(at=at)),
    st.builds(lambda at, text: failed_run(at=at, error_message=text, stack=(text,)), _SECONDS, NAMES),
    st.lists(_SECONDS.map(lambda at: upstream_entry(at=at)), max_size=4),
    st.lists(entries(), max_size=2),
)


def _write_lines(entries_to_write: Entries) -> bytes:
    return b"".join(one.to_line() for one in entries_to_write)


def _write_upstream_array(entries_to_write: Entries) -> bytes:
    return array(*entries_to_write)


def _write_plain_array(entries_to_write: Entries) -> bytes:
    return b"".join(to_array(entries_to_write))


def _write_our_array(entries_to_write: Entries, behind: int) -> bytes:
    return our_array(*entries_to_write[behind:], appended=entries_to_write[:behind])


_LAYOUTS: list[Callable[[Entries], bytes]] = [
    *(_write_lines, _write_upstream_array, _write_plain_array),
    *(partial(_write_our_array, behind=behind) for behind in range(3)),
]


@st.composite
def _draw_content(draw: st.DrawFn) -> bytes:
    if not draw(st.integers(0, 3)):
        return draw(RECORD_BYTES)  # more varied, but slower to draw
    return draw(st.sampled_from(_LAYOUTS))(draw(_RUNS))


RECORDS = draw_from_corpus(
    "records", _draw_content(), _draw_content(), st.lists(_draw_content(), max_size=3).map(b"".join)
)
"""Contents of a record in one or several layouts, undamaged or damaged."""

STREAMS = draw_damaged(
    st.lists(NAMES, min_size=1, max_size=4).map(
        lambda names: b"".join(entry(extra={"service": name}).to_line() for name in names)
    )
)
"""Records of several services, as `show --output jsonl` writes them."""

_PREFIXES = [*["log-bundle-1/", ""] * 5, "./", "a/b/", "/", "//", "../", "a/../", "long/" * 60, "\x1b[2J\n/"]
_FOLDERS = [*["bootstrap/services/", "var/log/openshift/"] * 5, "", "x/"]
_SUFFIXES = [*[".json"] * 8, ".json.tmp", ".json.damaged", ".gz", ""]
_PATHS = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(_PREFIXES),
    st.sampled_from(_FOLDERS),
    RAW_NAMES,
    st.sampled_from(_SUFFIXES),
)

_NON_FILES = [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE]
_TYPES = [*_NON_FILES, tarfile.GNUTYPE_SPARSE, tarfile.AREGTYPE, b"?"]
_EXTENDED = [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE]
_EXTENDED += [tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK]
_PAX_NAMES = ["path", "size", "mtime", "GNU.sparse.name", "GNU.sparse.major", "linkpath", "x"]
_PAX_VALUES = ["0", "512", "-1", str(2**63), str(2**70), "1e3", "\udcff"]


@st.composite
def _draw_pax_records(draw: st.DrawFn) -> bytes:
    """Draw the records of an extended header; some have a wrong length."""
    records = b""
    for name in draw(st.lists(st.sampled_from(_PAX_NAMES), max_size=3)):
        value = draw(_PATHS | st.sampled_from(_PAX_VALUES))
        text = f" {name}={value}\n".encode(errors="surrogateescape")
        digits = 2 + (len(text) + 2 > 99)
        length = len(text) + digits + draw(st.sampled_from([0, 0, 0, 1, -1, 10**6]))
        records += str(length).encode() + text
    return records


@st.composite
def _draw_member(draw: st.DrawFn, inner: st.SearchStrategy[bytes]) -> bytes:
    """Draw a member of an archive: mostly a record, sometimes an unsafe or invalid member."""
    path, data = draw(_PATHS), draw(inner)
    layout = draw(st.sampled_from([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]))
    match draw(st.integers(0, 9)):
        case 0:
            kind = draw(st.sampled_from(_TYPES))
            return member(path, data, layout=layout, type=kind, linkname="/etc/shadow")
        case 1:
            extended = draw(_draw_pax_records() | st.binary(max_size=99))
            return member("x", extended, type=draw(st.sampled_from(_EXTENDED)))
        case 2:
            return header(path, draw(st.integers(-(2**40), 2**40)), mtime=draw(st.floats(0, 1e12))) + data
        case _:
            return member(path, data, layout=layout)


@st.composite
def _draw_archive(draw: st.DrawFn, layers: int) -> bytes:
    """Draw an archive with up to two compressions and nested archives, `layers` deep."""
    inner = RECORDS | st.binary(max_size=99)
    if layers:
        inner |= draw_damaged(_draw_archive(layers - 1))
    archive = tar(*draw(st.lists(_draw_member(inner), min_size=1, max_size=4)))
    for compress in draw(st.lists(st.sampled_from(list(COMPRESSIONS.values())), max_size=2)):
        archive = compress(archive)
    return archive


MEMBERS = _draw_member(RECORDS | draw_damaged(_draw_archive(0)))
"""Members for archives that are valid otherwise."""

ARCHIVES = draw_from_corpus("archives", _draw_archive(2), _draw_archive(2), _draw_archive(2))
"""Nested archives in any compression with any members, undamaged or damaged."""
