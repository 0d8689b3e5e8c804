"""The last look at what leaves."""

import base64
import errno
import gzip
import io
import os
import tarfile
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from typing import BinaryIO, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service_record.redaction import (
    UNREADABLE,
    Leak,
    LeakError,
    Redactor,
    Rules,
    Secret,
    find_leak,
    refuse_leaks,
)
from service_record.redaction.masks import MaskedLine, mask_lines
from service_record.redaction.redactor import BLOCK_BYTES
from service_record.redaction.types import MaskedSpan
from testing.clean_lines import clean_lines
from testing.made_up import pem
from tests.archives import COMPRESSIONS, member, tar
from tests.builders import require
from tests.redaction.test_exact import RULES, SECRETS, planted
from tests.redaction.test_masking import redacted
from tests.secret_forms import FORMS
from tests.secret_shapes import EXAMPLES

SECRET = SECRETS["kubeadmin-password"]
TOKEN_RULES = Rules([Secret("kubeadmin-password", SECRET)])

compressions = pytest.mark.parametrize("compress", COMPRESSIONS.values(), ids=COMPRESSIONS)


def found(data: bytes, rules: Rules = TOKEN_RULES, place: str = "") -> Leak | None:
    return find_leak(rules, io.BytesIO(data), place)


def bundle(members: Mapping[str, bytes]) -> bytes:
    return gzip.compress(tar(*(member(name, data) for name, data in members.items())))


@compressions
def test_a_leak_is_found_in_a_packed_bundle(compress: object) -> None:
    assert callable(compress)
    leak = b"a line\nthe password is " + SECRET + b"\n"
    packed = compress(
        tar(
            member("top/fine.log", b"all is well\n" * 9999),
            member("top/bad.log", leak),
            member("top/more.log", b"x"),
        )
    )
    assert found(packed) == Leak("kubeadmin-password", "top/bad.log", 2)


@compressions
def test_leak_in_nested_archive_is_found(compress: object) -> None:
    assert callable(compress)
    inner = compress(tar(member("logs/a.log", base64.b64encode(SECRET + b"ab"))))
    middle = bundle({"inner": inner, "note": b"x"})
    assert found(bundle({"outer/middle.tar.gz": middle}), place="bundle.tar.gz") == Leak(
        "kubeadmin-password", "bundle.tar.gz: outer/middle.tar.gz: inner: logs/a.log", 1
    )


@pytest.mark.slow
def test_secrets_are_found_unless_redacted() -> None:
    wrong = []
    for kind, form in product(SECRETS, FORMS):
        finding = found(bundle({"x": b"fine\n" * 100, "y.log": planted(kind, form)}), RULES)
        if finding is None or finding.place != "y.log":
            wrong.append(f"{kind}, {form}: not found")
        if found(bundle({"y.log": redacted(planted(kind, form), rules=RULES)}), RULES) is not None:
            wrong.append(f"{kind}, {form}: refused although it was redacted")
    assert not wrong


def test_what_was_redacted_by_shape_is_not_refused() -> None:
    text = "\n".join(example.text for example in EXAMPLES).encode()
    assert found(bundle({"y.log": redacted(text)}), Rules()) is None


def test_unknown_key_is_refused_unlike_weak_shape() -> None:
    finding = found(bundle({"x.log": b"a\nb\n" + pem()[0].encode()}), Rules())
    assert finding == Leak("private-key", "x.log", 4)
    assert found(bundle({"x.log": b"password: incorrect-1 for user\n"}), Rules()) is None
    assert found(bundle({"password=hunter22.log": b"x"}), Rules()) is None


def test_clean_lines_are_not_refused() -> None:
    assert found(bundle({"journal.log": "\n".join(clean_lines(20)).encode()})) is None


def test_a_secret_in_a_name_is_found() -> None:
    name = f"logs/{SECRET.decode()}.log"
    assert found(bundle({name: b""})) == Leak("kubeadmin-password, in the name of a member", "", 0)
    long = io.BytesIO()
    with tarfile.open(fileobj=long, mode="w:gz", format=tarfile.PAX_FORMAT) as archive:
        archive.addfile(tarfile.TarInfo("a" * 300 + SECRET.decode()))
    assert found(long.getvalue()) is not None


def test_gzip_members_one_after_another_are_one_stream() -> None:
    packed = tar(member("a.log", b"x" * 5000), member("b.log", b"is " + SECRET))
    joined = b"".join(gzip.compress(packed[at : at + 700]) for at in range(0, len(packed), 700))
    assert found(joined) == Leak("kubeadmin-password", "b.log", 1)


def test_what_cannot_be_read_is_refused() -> None:
    whole = bundle({"a.log": bytes(range(256)) * 999})
    assert found(whole) is None
    for broken in (whole[: len(whole) // 2], whole[:40], whole + b"\x1f\x8b\x08 and more"):
        finding = require(found(broken, place="b.tar.gz"))
        assert (finding.kind, finding.line) == (UNREADABLE, 0)
    unpacked = gzip.decompress(whole)
    assert found(unpacked[:1000], place="b.tar") == Leak(UNREADABLE, "b.tar: a.log", 0)
    assert found(tar(member("a", b"b" * 700))[:512] + b"garbage" * 400 + unpacked) is not None


class Failing(io.RawIOBase):
    """A file on a disk that fails behind so many bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = io.BytesIO(data)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # what BufferedReader gives
        data = self._data.read(min(len(buffer), 512))
        if not data:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        buffer[: len(data)] = data
        return len(data)


@compressions
def test_a_disk_that_fails_is_no_finding(compress: object) -> None:
    assert callable(compress)
    packed = compress(tar(member("a.log", bytes(range(256)) * 999)))
    with pytest.raises(OSError, match="Input/output error"):
        find_leak(TOKEN_RULES, cast("BinaryIO", Failing(packed[: len(packed) // 2])))


def test_too_many_layers_are_refused() -> None:
    data = b"fine"
    for _ in range(12):
        data = gzip.compress(data)
    assert found(data) == Leak(UNREADABLE, "", 0)


@given(st.binary(max_size=600))
def test_whatever_the_bytes_there_is_an_answer(data: bytes) -> None:
    for each in (data, gzip.compress(data), tar(member("a", data)), tar(member("a", b"b"))[:512] + data):
        found(each)


def test_a_finding_tells_where_and_never_what() -> None:
    finding = found(bundle({"top/bad.log": SECRET}))
    assert str(finding) == "top/bad.log:1: kubeadmin-password"


def test_secret_in_unnamed_header_is_found() -> None:
    packed = io.BytesIO()
    pax = {"comment": f"by {SECRET.decode()}"}
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT, pax_headers=pax) as archive:
        archive.addfile(tarfile.TarInfo("a.log"))
    assert require(found(packed.getvalue())).kind.startswith("kubeadmin-password")


def test_data_after_the_end_of_archive_is_refused() -> None:
    finding = found(tar(member("a.log", b"fine")) + bytes(1024) + b"is " + SECRET)
    assert finding == Leak(UNREADABLE, "", 0)


@compressions
def test_binary_output_is_searched_inside(compress: Callable[[bytes], bytes]) -> None:
    refuse_leaks("a page… with more than ASCII".encode(), TOKEN_RULES)
    without_nul = b"\x1f\x8b\x08\x01\1\1\1\1\2\3" + zlib.compress(SECRET)[2:-5]
    assert b"\0" not in without_nul
    cut = (tar(member("a", b"b" * 700))[:700], b"BZh91AY&SY", without_nul)
    for data in (compress(SECRET), tar(member("a", SECRET)), "… ".encode() + SECRET, *cut):
        with pytest.raises(LeakError):
            refuse_leaks(data, TOKEN_RULES)


def test_line_number_is_right_far_into_a_stream() -> None:
    lines = b"all is well\n" * 200_000
    assert found(lines + SECRET + b"\nand again " + SECRET) == Leak("kubeadmin-password", "", 200_001)
    assert found(lines + pem()[0].encode()) == Leak("private-key", "", 200_002)


@pytest.fixture
def masks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every redactor return its lines as they are, as if its masks were lost."""

    def lose(text: bytes, lines: Iterable[MaskedLine]) -> tuple[bytes, list[tuple[int, int]]]:
        lost = (
            (start, end, [(a, b, kind, text[start + a : start + b]) for a, b, kind, _ in masks])
            for start, end, masks in lines
        )
        return mask_lines(text, lost)

    monkeypatch.setattr("service_record.redaction.redactor.mask_lines", lose)


def leak_after(data: bytes, rules: Rules) -> tuple[str, int] | None:
    redactor = Redactor(rules, looks_again=True)
    redactor.feed(data)
    redactor.finish()
    return redactor.leak


@pytest.mark.usefixtures("masks_nothing")
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.slow] * (kind == "private-key")) for kind in SECRETS]
)
def test_unmasked_secret_is_found_in_a_packed_bundle(kind: str) -> None:
    wrong = []
    for form in FORMS:
        text = b"fine\n" * 100 + planted(kind, form)
        leak, expected = leak_after(text, RULES), require(found(bundle({"y.log": text}), RULES))
        if leak != (expected.kind, expected.line):
            wrong.append(f"{form}: {leak}, expected {expected}")
    assert not wrong


@pytest.mark.usefixtures("masks_nothing")
def test_unmasked_secret_is_found_across_blocks() -> None:
    """A line without a break is cut into blocks: each of these cuts is inside the secret."""
    secret = SECRETS["short"]
    rules = Rules([Secret("short", secret)])
    for before in range(BLOCK_BYTES - len(secret), BLOCK_BYTES + 1):
        redactor = _CutsEverywhere(rules, looks_again=True)
        redactor.feed(b" " * before + secret + b" " * (1 << 17))
        redactor.finish()
        assert redactor.leak == ("short", 1), before


class _CutsEverywhere(Redactor):
    """A redactor whose blocks end inside secrets."""

    def _safe_end(self, text: bytes, spans: Sequence[MaskedSpan]) -> int:
        return BLOCK_BYTES


@pytest.mark.usefixtures("masks_nothing")
def test_unmasked_key_of_nobody_known_is_found() -> None:
    key = pem()[0].encode()
    assert leak_after(b"fine\n" * 9 + key, Rules()) == ("private-key", 11)
    indented = b"a: |\n" + b"".join(b"  " + line for line in key.splitlines(keepends=True))
    assert leak_after(indented * 3, Rules()) == ("private-key", 3)


@pytest.mark.slow
def test_masked_text_has_no_leak() -> None:
    text = "\n".join(example.text for example in EXAMPLES).encode()
    assert leak_after(text * 3, Rules()) is None
    assert all(leak_after(planted(kind, form), RULES) is None for kind in SECRETS for form in FORMS)
