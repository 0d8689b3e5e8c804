"""The exact secrets of a host, in every form they take, wherever a stream is cut."""

import base64
import hashlib
import shutil
import string
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service_record.redaction import Redactor, Rules, Secret
from service_record.redaction.exact import Exact
from service_record.redaction.secrets import forms as forms_of
from service_record.redaction.secrets import is_searchable
from service_record.redaction.types import merge_adjacent
from testing.made_up import pem, pull_secret
from tests.redaction.measure import redact
from tests.redaction.test_masking import redacted
from tests.secret_forms import FORMS, PREFIX

_PULL_SECRET, _AUTHS = pull_secret()
SECRETS: Final[Mapping[str, bytes]] = {
    "kubeadmin-password": b"AbCd3-fghij-kLmno-pqr5t",
    "bootstrap-token": b"x7f2kq.9fh2k1lq8z3m5v0b",
    "reporter-token": b"tok/en+with=signs%and~more.of-them_0123456789ABCDEF",
    "registry-auth": _AUTHS[0].encode(),
    "proxy-password": b"p@ss w/\"quo'te\\<&>+%$x9",
    "password-hash": b"$6$saltsalt$" + b"aB3/x.Z9" * 10 + b"abc123",
    "short": b"Hunter2x9!",
    "wifi-psk": b"wifi psk 12345678 more",
    "passphrase": b"correct horse battery staple",
    "private-key": pem(lines=24)[0].encode(),
    "curve-key": pem("EC PRIVATE KEY", 2)[0].encode(),
    "pull-secret": _PULL_SECRET.encode(),
}
RULES: Final = Rules(
    [
        *(Secret(kind, value) for kind, value in SECRETS.items()),
        *(Secret("registry-auth", auth.encode()) for auth in _AUTHS),
    ]
)
_SHORT: Final = 8
"""No more may be left of a secret: what base64 shares with its neighbours, or a line cuts off."""

kinds = pytest.mark.parametrize("kind", SECRETS)
forms = pytest.mark.parametrize("form", FORMS)


def planted(kind: str, form: str) -> bytes:
    """A log with the secret in it; forms that are lines of their own stand between lines."""
    text = FORMS[form](SECRETS[kind])
    joint = b"\n" if "wrapped" in form else b" "
    return b"the first line\nbefore" + joint + text + joint + b"after\nthe last line\n"


def parts(kind: str) -> Iterator[bytes]:
    """Yield the secrets that nobody may read."""
    if kind == "pull-secret":
        yield from (auth.encode() for auth in _AUTHS)
    elif SECRETS[kind].startswith(b"-----"):
        yield from SECRETS[kind].splitlines()[1:-1]
    else:
        yield SECRETS[kind]


def longest_left(secret: bytes, text: bytes) -> int:
    """The size of the longest piece of the one that is in the other."""
    longest = start = 0
    while start + longest < len(secret):
        if secret[start : start + longest + 1] in text:
            longest += 1
        else:
            start += 1
    return longest


def left_of(kind: str, form: str, text: bytes) -> int:
    """Return how much of a secret can be read in a text, as it is or in the form."""
    bare = text.replace(b"\0", b"")  # of UTF-16
    as_is = max(longest_left(part, bare) for part in parts(kind))
    lines = FORMS[form](SECRETS[kind]).removeprefix(PREFIX).splitlines()
    formed = max((longest_left(line.removeprefix(PREFIX).strip(), text) for line in lines), default=0)
    is_encoded = "base64" in form or form == "hexadecimal"
    return max(as_is, formed // 4 if is_encoded else as_is)


@kinds
@forms
def test_every_form_of_a_known_secret_is_masked(kind: str, form: str) -> None:
    text = planted(kind, form)
    after = redacted(text, rules=RULES)
    assert left_of(kind, form, after) <= _SHORT, after
    assert after.startswith(b"the first line\nbefore")
    assert after.endswith(b"after\nthe last line\n")
    assert after.count(b"\n") == text.count(b"\n")
    assert redacted(after, rules=RULES) == after


@kinds
@given(data=st.data())
def test_known_secret_between_two_chunks_is_masked(kind: str, data: st.DataObject) -> None:
    form = data.draw(st.sampled_from(sorted(FORMS)))
    text = planted(kind, form)
    sizes = data.draw(st.lists(st.integers(0, len(text)), max_size=3))
    assert redacted(text, rules=RULES, sizes=sizes) == redacted(text, rules=RULES)


@pytest.mark.parametrize(
    "form", ["raw", "base64", "base64, wrapped at 76", "base64, wrapped, in a journal", "JSON"]
)
@pytest.mark.parametrize("kind", ["kubeadmin-password", "private-key", "registry-auth", "short"])
def test_known_secret_at_a_block_boundary_is_masked(kind: str, form: str) -> None:
    """At every distance from the end of what is looked at at once."""
    text = planted(kind, form)
    filler = b"x" * 63 + b"\n"
    block = filler * (1 << 14)
    for shift in range(0, len(text) + 128, max(7, len(text) // 24)):
        head = block[: len(block) - shift].removesuffix(b"\n") + b"\n"
        whole = head + text + filler * 2000
        after = redacted(whole, rules=RULES, sizes=[1 << 18] * 5)
        assert after == head + redacted(text, rules=RULES) + filler * 2000


def test_fragment_of_a_long_secret_is_masked() -> None:
    """As a journal cuts a message, or as somebody prints the first hundred characters."""
    auth = _AUTHS[0].encode()
    for begin in range(0, 60, 3):
        after = redacted(b"x " + auth[begin : begin + 80] + b" y", rules=RULES)
        assert longest_left(auth, after) <= _SHORT


def test_secret_over_two_terminal_lines_is_masked() -> None:
    secret = SECRETS["kubeadmin-password"]
    for cut in range(1, len(secret)):
        after = redacted(b"it is " + secret[:cut] + b"\n" + secret[cut:] + b" there\n", rules=RULES)
        assert longest_left(secret, after) <= 3, after


@pytest.mark.parametrize(
    "value", [b"", b"short7!", b"password", b"openshift", b"12345678", b"aaaaaaaaaaaa", b"PRODUCTION"]
)
def test_words_and_short_values_are_not_known_secrets(value: bytes) -> None:
    assert not is_searchable(value)
    rules = Rules([Secret("x", value), Secret("y", SECRETS["short"])])
    after = redacted(b"the " + value + b" is here, and " + SECRETS["short"], rules=rules)
    assert after == b"the " + value + b" is here, and <redacted:y>"


def test_secret_over_several_lines_is_counted_once() -> None:
    redactor = Redactor(RULES)
    redactor.feed(planted("private-key", "raw") + planted("kubeadmin-password", "raw") * 2)
    redactor.finish()
    assert redactor.counts == {"private-key": 1, "kubeadmin-password": 2}


def test_many_known_secrets_stay_fast() -> None:
    """More than RE2 has memory for: the first are taken, and it is told how many were not."""
    many = [Secret("private-key", pem(lines=24)[0].encode()) for _ in range(300)]
    rules = Rules([Secret("first", SECRETS["kubeadmin-password"]), *many])
    assert rules.left_out["private-key"] > 0
    assert b"<redacted:first>" in redacted(SECRETS["kubeadmin-password"], rules=rules)


def _openssl(*arguments: str | Path) -> bytes:
    return subprocess.run(["openssl", *arguments], check=True, capture_output=True).stdout


_ALGORITHMS: dict[str, list[str]] = {
    "RSA": ["rsa:2048"],
    "Ed25519": ["ed25519"],
    **{f"P-{bits}": ["ec", "-pkeyopt", f"ec_paramgen_curve:P-{bits}"] for bits in (256, 384, 521)},
}


def test_all_keys_of_a_bootstrap_host_fit() -> None:
    """It has 45, RSA keys of 2048 bits, and their certificates and kubeconfigs beside them."""
    keys = [Secret("private-key", pem(lines=25)[0].encode()) for _ in range(45)]
    assert not Rules([*keys, *(Secret(kind, value) for kind, value in SECRETS.items())]).left_out


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl")
@pytest.mark.parametrize("serial_bytes", [17, 18, 19])  # by it, base64 has what follows in three ways
@pytest.mark.parametrize("algorithm", _ALGORITHMS)
def test_certificate_of_a_known_key_stays(tmp_path: Path, algorithm: str, serial_bytes: int) -> None:
    """Key and certificate have the public key in common, what it says of its curve, and `-----BEGIN `."""
    key, certificate = tmp_path / "key", tmp_path / "certificate"
    made = ["-x509", "-set_serial", "0x" + "11" * serial_bytes, "-newkey", *_ALGORITHMS[algorithm]]
    _openssl("req", "-nodes", "-subj", "/CN=x", *made, "-keyout", key, "-out", certificate)
    keys = [key.read_bytes()]  # as of PKCS #8
    if algorithm != "Ed25519":
        keys.append(_openssl("pkey", "-traditional", "-in", key))  # as of PKCS #1 and SEC 1
    published = certificate.read_bytes()
    for private in keys:
        rules = Rules([Secret("private-key", private)])
        for written in (published, base64.b64encode(published), published.hex().encode()):
            assert redacted(written, rules=rules) == written
        body = private.splitlines()[1:-1]
        after = redacted(b"key: " + b"".join(body), rules=rules)
        assert not any(line in after for line in body)
        encoded = base64.b64encode(private)
        after = redacted(encoded, rules=rules)
        assert not any(encoded[place : place + _SHORT] in after for place in range(len(encoded) - _SHORT))


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl")
@pytest.mark.parametrize("kept_bytes", [40, 90, 180])
def test_damaged_key_is_masked(kept_bytes: int) -> None:
    """Cut, or with a length that is wrong: what is private in it is not known then."""
    begin, *body, end = _openssl(
        "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-521"
    ).splitlines()
    der = bytearray(base64.b64decode(b"".join(body))[:kept_bytes])
    der[der.index(b"\x02\x01\x01\x04") + 4] = 0xFF
    for ending in ([end], []):
        lines = base64.encodebytes(bytes(der)).splitlines()
        rules = Rules([Secret("private-key", b"\n".join([begin, *lines, *ending]))])
        whole, encoded = b"".join(lines), base64.b64encode(b"\n".join([begin, *lines, *ending, b""]))
        for written in (whole, whole[6:], encoded, encoded[48:]):
            assert longest_left(written, redacted(b"it is " + written + b" here", rules=rules)) < _SHORT


@pytest.mark.parametrize("kind", ["kubeadmin-password", "bootstrap-token", "passphrase", "proxy-password"])
def test_truncated_secret_is_masked(kind: str) -> None:
    secret = SECRETS[kind]
    head, tail = secret[: 2 * len(secret) // 3], secret[len(secret) // 3 :]
    mask = f"<redacted:{kind}>".encode()
    for before, piece, behind in (
        (b'{"command":"login --as core ', head, b'"}\n'),
        (b"       login --as core ", head, b"\n"),
        (b'{"errorMessage":"\xe2\x80\xa6', tail, b' is wrong"}\n'),
        ("\u2026".encode(), tail, b" is wrong\n"),
    ):
        assert redacted(before + piece + behind, rules=RULES) == before + mask + behind


def test_adjacent_pieces_are_merged_and_empty_ones_dropped() -> None:
    assert merge_adjacent([(0, 2), (2, 5), (5, 5), (6, 6), (7, 8)]) == [(0, 5), (7, 8)]


_FIT: Final = "Hunter2x9!"
_MIDDLE: Final = "AbCd3-fghij-kLmno-pqr5tX"
_LONG: Final = "A0B1C2D3E4F5G6H7I8J9K0L1M2N3O4P5Q6R7S8T9U0V1W2X3Y4Z5A6B7C8D9"


@pytest.mark.parametrize(
    ("secret", "text"),
    [
        (_FIT, "is «Hunter2x9!» or «Hunter2x9!Hunter2x9!»x"),
        (_FIT, "Hunter2x9, Hunte x\nr2x9!"),
        (_FIT, "«SHVudGVyMng5I»Q=="),
        (r"Hunt\n2x9!", r"is «Hunt\n2x9!» or «Hunt\\n2x9!» there"),
        (_MIDDLE, "is «AbCd3-fghij-kLmno-pqr5tX», «AbCd3-fghij-kLmno-pqr5tXAbCd3-fghij-kLmno-pqr5tX»"),
        (_MIDDLE, "«AbCd3-fghij»\n«-kLmno-pqr5tX» there"),
        (
            _MIDDLE,
            "Nov 21 01:05:10 h a[1]: «AbCd3-fghij-k»\nNov 21 01:05:11 h a[1]: «Lmno-pqr5tX»",
        ),
        (_MIDDLE, r"«AbCd3-fghij-k»\n«Lmno-pqr5tX», «AbCd3-f»\n«ghij-kLmno-pqr5tX»"),
        (_MIDDLE, r"«AbCd3-fghij-k»%0a«Lmno-pqr5tX», «AbCd3-f»&#10;«ghij-kLmno-pqr5tX»"),
        (_MIDDLE, "«AbCd3-fghij-k» \\\n  > «Lmno-pqr5tX»"),
        (_MIDDLE, "«AbCd3-fghij-kLmno-pqr5t»\n  «X» y"),
        (_MIDDLE, "«A»\n«bCd3-fghij-kLmno-pqr5tX»"),
        (_MIDDLE, "xyA\nx: bCd3-fxghij-kLmno-pqr5tX y"),
        (_MIDDLE, "xyA\nx: bCd3-fghij-kLmno-pqr5tX y"),
        (_MIDDLE, "«AbCd3-»\n«fghij-k»\n«Lmno-»\n«pqr5tX»"),
        (_MIDDLE, r'{"a": "b\"«AbCd3\u002dfghij\u002dkLmno-pqr5tX»\n", "c": "%41"}'),
        (_MIDDLE, "x=«AbCd3%252dfghij%252dkLmno-pqr5tX»&y"),
        (_MIDDLE, "AbCd3-fghij, AbCd3-fghij- more, xhij-kLmno-pqr5tX there"),
        (_MIDDLE, 'say "«AbCd3-fghij-»", "«AbCd3-fghij-kLm»\u2026 "«hij-kLmno-pqr5tX» there'),
        (_MIDDLE, "«AbCd3-fghij-kLmno-pqr5t»"),
        (_MIDDLE, "«bCd3-fghij-kLmno-pqr5tX» x"),
        (_MIDDLE, "bCd3-fghij-kLmno-pqr5t"),
        (_LONG, f"is «{_LONG}» and «{_LONG}»"),
        (_LONG, f"is «{_LONG[:30]}»\ny «{_LONG[30:]}» x"),
        (_LONG, f"is «{_LONG[:30]}»\nother words\ny «{_LONG[30:40]}»\n«{_LONG[40:]}» x"),
        (_LONG, f"is «{_LONG[30:]}» x, {_LONG[45:]} x"),
    ],
)
def test_mask_covers_exactly_the_known_secret(secret: str, text: str) -> None:
    bare = text.replace("«", "").replace("»", "").encode()
    after, position = b"", 0
    for span in Exact([Secret("x", secret.encode())]).spans(bare):
        after += bare[position : span.start] + f"«{bare[span.start : span.end].decode()}»".encode()
        position = span.end
    assert (after + bare[position:]).decode() == text


_EC: Final = "EC PRIVATE KEY"


def _key(der: bytes, label: str = "PRIVATE KEY") -> bytes:
    return f"-----BEGIN {label}-----\n{base64.encodebytes(der).decode()}-----END {label}-----".encode()


_NOISE: Final = b"".join(hashlib.sha512(bytes([number])).digest() for number in range(20))
_P256_HEAD: Final = bytes.fromhex("30770201010420")
_ED25519_HEAD: Final = bytes.fromhex("302e020100300506032b657004220420")
_P256_TAIL: Final = bytes.fromhex("a00a06082a8648ce3d030107a14403420004") + _NOISE[:64]
_P256: Final = _key(_P256_HEAD + _NOISE[:32] + _P256_TAIL, _EC)


@pytest.mark.parametrize(
    ("secret", "first", "last"),
    [
        pytest.param(_P256, 9, 53, id="P-256"),
        pytest.param(_key(_P256_HEAD + _NOISE[:31], _EC), 0, 52, id="P-256, cut"),
        pytest.param(_key(_ED25519_HEAD + _NOISE[:32]), 21, 64, id="Ed25519"),
        pytest.param(_key(_NOISE[:525]), 210, 700, id="RSA"),
        pytest.param(_key(_NOISE[:522]), 0, 696, id="another key"),
        pytest.param(_P256.replace(b"-----END ", b""), 0, 200, id="without END"),
    ],
)
def test_needles_are_from_private_part_only(secret: bytes, first: int, last: int) -> None:
    body = b"".join(secret.splitlines()[1:-1])
    (raw,) = (form for form in forms_of(secret) if form.text.startswith(body))
    assert len(raw.needles) >= 2
    assert all(first <= raw.text.find(needle) <= last - len(needle) for needle in raw.needles)


def test_needles_are_letters_and_digits_if_possible() -> None:
    for secret, needles in {
        b"openshift-install-Qw7rT2yU9iP4": {b"Qw7rT2yU9i"},
        b"Hunter2x9!": {b"Hunter2x9"},
        b"correct horse battery": {b"correct ho", b"rse batter"},
    }.items():
        assert set(forms_of(secret)[0].needles) == needles


def test_words_and_numbers_are_not_known_secrets() -> None:
    taken = ["abcdef1g", "aabbccdd1", "aBcDeFgH", "abcdefghijklmnop", "1234567890123456", "pass-word"]
    others = ["abcde1g", "aabbccdd", "abcdefghijklmno", "ABCDEFGH", "Abcdefgh", "123456789012345"]
    for texts, is_one in ((taken, True), (others, False)):
        assert {text: is_searchable(f" {text}\n".encode()) for text in texts} == dict.fromkeys(texts, is_one)


@pytest.mark.parametrize(
    "quote",
    [
        lambda text: subprocess.check_output(["bash", "-c", 'printf %q "$1"', "bash", text], text=True),
        lambda text: "'" + text.replace("'", "''") + "'",
    ],
    ids=["bash", "YAML"],
)
def test_quoted_form_with_any_sign_is_masked(quote: Callable[[str], str]) -> None:
    left = []
    for sign in string.punctuation:
        for text in (f"{sign}kQ7wLm4TRz2m", f"kQ7wLm{sign}Rz2mVb8N", f"kQ7wLm{sign}x'y\"Rz2mVb8N"):
            secret = Secret("password", text.encode())
            quoted = quote(text)
            output = redact(f"x {quoted} y\n".encode(), Rules([secret])).decode()
            left += [quoted[at:] for at in range(len(quoted) - 9) if quoted[at : at + 10] in output]
    assert left == []


@pytest.mark.parametrize("size", [12, 24, 50])
def test_each_line_of_a_known_key_is_masked(size: int) -> None:
    key, _ = pem(lines=size)
    rules = Rules([Secret("private-key", key.encode())])
    private = key.splitlines()[size // 3 + 1 : -2]  # the first third is public, and the last line is short
    assert [line for line in private if line in redact(f"{line}\n".encode(), rules).decode()] == []


def test_forms_of_a_secret() -> None:
    texts = [form.text for form in forms_of(b" p/a'\"\\<$ \xc3\xa4 ")]
    assert len(set(texts)) == len(texts)
    assert texts[0] == b"p/a'\"\\<$ \xc3\xa4"
    assert set(texts) > {
        b"p/a'\\''\"\\<$ \xc3\xa4",
        b"p/a'\"'\"'\"\\<$ \xc3\xa4",
        b"p/a''\"\\<$ \xc3\xa4",
        b"p/a'\"\\<$+\xc3\xa4",
        b"p/a'\"\\<$ \xe4",
        b"702f6127225c3c2420c3a4",
        b"702F6127225C3C2420C3A4",
    }
    for before in (b"", b"x", b"xy"):
        encoded = base64.b64encode(before + texts[0] + b"z")
        assert any(text in encoded and len(text) >= 13 for text in texts)
