"""Properties of every redacted text: JSON keeps its shape, lines stay lines, and chunks do not matter."""

import json
import random
import textwrap
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service_record.redaction import Redactor, Rules, Secret
from tests.redaction.kinds import BARE, KINDS, PRINTABLE, random_text
from tests.redaction.measure import SEED, redact
from tests.redaction.pending import case
from tests.redaction.wrappings import WRAPPINGS, Wrapping

RULES: Final = Rules()
JSON_WRAPPINGS: Final = [
    wrapping
    for wrapping in WRAPPINGS
    if wrapping.name
    in {"JSON", "JSON in JSON", "\\u in JSON", "journal JSON", "data: URL, gzip", "data: URL, percent"}
]
PROSE: Final = (
    "password:",
    "Enter password:",
    "Enter passphrase for key '/root/.ssh/id_rsa':",
    "cat: /etc/passwd: Permission denied",
    "token:",
    "secret=",
    "error reading password: EOF",
    "api key: ",
    "Authorization:",
    "Authorization: Bearer",
    "https://user:@host/",
    "passwd: Module is unknown",
)
NAMES: Final = (
    "password",
    "token",
    "api_key",
    "secret",
    "msg",
    "errorMessage",
    "auth",
    "pid",
    "value",
    "name",
)


def shape(value: Any) -> Any:
    """Return the structure of a document: its keys, the lengths of its lists, and which values are texts.

    A number may become a text, because a number that is a secret is masked.
    """
    if isinstance(value, dict):
        return [(key, shape(each)) for key, each in value.items()]
    if isinstance(value, list):
        return [shape(each) for each in value]
    return value if value is None or isinstance(value, bool) else "scalar"


def same_shape(before: bytes, after: bytes) -> bool:
    try:
        return bool(shape(json.loads(before)) == shape(json.loads(after)))
    except ValueError:
        return False


@pytest.mark.parametrize("wrapping", [case(f"shape, {each.name}", each) for each in JSON_WRAPPINGS])
def test_json_keeps_its_shape(wrapping: Wrapping) -> None:
    broken = []
    for kind in KINDS:
        chance = random.Random(f"{SEED} {kind.name}")
        for _ in range(3):
            text = (wrapping.wrap(kind, kind.draw(chance)) or "null").encode()
            if not same_shape(text, output := redact(text, RULES)):
                broken.append((text, output))
    assert broken == []


@pytest.mark.parametrize("form", [case(f"prose in JSON, {prose}", prose) for prose in PROSE])
def test_json_with_prose_is_unchanged(form: str) -> None:
    for document in (
        {"msg": form, "pid": 1},
        {"pid": 1, "msg": form},
        {"errorMessage": f"it failed\n{form}", "result": "failure"},
        {"errorMessage": f"{form}\nmount failed", "result": "failure"},
        {"log": json.dumps({"msg": form, "pid": 1}), "stream": "stderr"},
    ):
        for separators in ((",", ":"), (", ", ": ")):
            text = json.dumps(document, separators=separators).encode()
            assert redact(text, RULES) == text


texts = st.one_of(
    st.sampled_from(PROSE),
    st.text(PRINTABLE, max_size=24),
    st.text(max_size=8),
    st.builds("{}{}".format, st.sampled_from(PROSE), st.text(PRINTABLE, max_size=12)),
)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-9, 1 << 40), texts),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=8,
)
documents = st.dictionaries(st.sampled_from(NAMES), values, min_size=1, max_size=5)


@pytest.mark.parametrize(
    "known", [case("any JSON", ()), case("any JSON, known", (b'pa"ss\\w{rd9', b"{token: 9a}"))]
)
def test_any_json_keeps_its_shape(known: tuple[bytes, ...]) -> None:
    rules = Rules(Secret("password", secret) for secret in known)

    @settings(derandomize=True)
    @given(documents, st.booleans(), st.booleans())
    def check(document: dict[str, Any], is_ascii: bool, is_compact: bool) -> None:
        separators = (",", ":") if is_compact else None
        text = json.dumps(document, ensure_ascii=is_ascii, separators=separators).encode(
            errors="surrogatepass"
        )
        output = redact(text, rules)
        assert same_shape(text, output), (text, output)

    check()


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b'{"passwords": [" "]}', id="only blanks"),
        pytest.param(b'[1.5, "password: {\\"X1v_15JvNeN", []]', id="an array that begins with a number"),
        pytest.param(b'[null,"password=\\\\","token"]', id="an array that begins with null"),
        pytest.param(b'{"args":["--password",5,{"key":"a","name":"b"}]}', id="a number after an option"),
    ],
)
def test_unusual_json_keeps_its_shape(text: bytes) -> None:
    assert same_shape(text, redact(text, RULES))


@pytest.mark.parametrize("wrapping", [case(f"again, {each.name}", each) for each in WRAPPINGS])
def test_second_redaction_changes_nothing(wrapping: Wrapping) -> None:
    changed = []
    for kind in KINDS:
        text = wrapping.wrap(kind, kind.draw(random.Random(f"{SEED} {kind.name}")))
        once = redact((text or "").encode(), RULES)
        if redact(once, RULES) != once:
            changed.append(once)
    assert changed == []


@pytest.mark.parametrize("wrapping", [case(f"lines, {each.name}", each) for each in WRAPPINGS])
def test_number_of_lines_stays(wrapping: Wrapping) -> None:
    for kind in KINDS:
        text = (wrapping.wrap(kind, kind.draw(random.Random(f"{SEED} {kind.name}"))) or "").encode()
        assert redact(text, RULES).count(b"\n") == text.count(b"\n"), text


def long_text() -> bytes:
    """Return 3 MiB: ordinary lines, every kind of secret, and lines that are longer than a block."""
    chance = random.Random(SEED)
    parts: list[str] = []
    for wrapping in WRAPPINGS:
        for kind in KINDS:
            parts.append(wrapping.wrap(kind, kind.draw(chance)) or "")
            parts.append('level=info msg="reconciled" controller=machine-config\n' * 4)
    parts.append("x" * (1 << 19) + " password: Qw7rT2yU9iP4 " + "y " * (1 << 19) + "\n")
    return "".join(parts).encode()


@pytest.mark.slow
@pytest.mark.parametrize(
    "size", [case(f"chunks of {each}", each, is_slow=each < 1000) for each in (997, 1 << 16, (1 << 20) + 1)]
)
def test_size_of_chunks_does_not_matter(size: int) -> None:
    text = long_text()
    redactor = Redactor(RULES)
    output = b"".join(redactor.feed(text[at : at + size]) for at in range(0, len(text), size))
    assert output + redactor.finish() == redact(text, RULES)


@pytest.mark.parametrize("before", [case(f"key, {each} before a cut", each) for each in (0, 30, 300, 1500)])
def test_key_at_line_cut_is_masked(before: int) -> None:
    body = random_text(64 * 24)(random.Random(SEED))
    lines = [body[at : at + 64] for at in range(0, len(body), 64)]
    key = "\\n".join(["-----BEGIN RSA PRIVATE KEY-----", *lines, "-----END RSA PRIVATE KEY-----"])
    text = "x" * ((1 << 20) - before) + f'"key":"{key}"' + " y" * (1 << 17)
    output = redact(text.encode(), RULES).decode()
    assert [line for line in lines if line in output] == []


@pytest.mark.parametrize("before", [31, 300, 800, 1600])
def test_json_line_is_not_cut_in_a_key(before: int) -> None:
    body = random_text(64 * 24)(random.Random(SEED))
    key = "\n".join(
        ["-----BEGIN RSA PRIVATE KEY-----", *textwrap.wrap(body, 64), "-----END RSA PRIVATE KEY-----"]
    )
    start = '{"a":"'
    text = start + "x" * ((1 << 20) - before - len(start)) + '","key":' + json.dumps(key)
    redactor = Redactor(RULES)
    first = redactor.feed((text + ',"b":"' + "y" * (1 << 17)).encode())
    assert first
    assert b"BEGIN" not in first
    after = (first + redactor.finish()).decode()
    assert [
        body[at : at + 8] for at in range(len(body) - 8) if body[at : at + 8] in after[-(1 << 18) :]
    ] == []


@pytest.mark.parametrize("is_known", [case("key without BEGIN", False), case("known key, line alone", True)])
def test_part_of_a_key_is_masked(is_known: bool) -> None:
    body = random_text(64 * 12, BARE.translate({ord(each): None for each in "!#$%&()*,-.:;<=>?@[]^_{|}~"}))
    lines = [body(random.Random(SEED))[at : at + 64] for at in range(0, 64 * 12, 64)]
    begin, end = "-----BEGIN RSA PRIVATE KEY-----", "-----END RSA PRIVATE KEY-----"
    whole = "\n".join([begin, *lines, end])
    rules = Rules([Secret("private-key", whole.encode())] if is_known else [])
    prefix = "Nov 21 00:54:19 boot0 app[2213]: "
    part = [f"{prefix}{line}" for line in ([lines[5], "all is well"] if is_known else [*lines[4:], end])]
    output = redact("\n".join(part).encode(), rules).decode()
    assert [line for line in lines if line in output] == []


@pytest.mark.parametrize(
    ("harmless", "secret"),
    [
        ("password: 12", "password: 12345678"),
        ("login a password 1", "login a password 99999999"),
        ("port 1 password is none", "port 2 password=hunter2hunter"),
        ("x=%41 password is none", "x=%40 password=hunter2hunter"),
        ("seen 0 proctitle=616263646566", "seen 0 proctitle=2D2D70617373776F72643D6831756E74657232"),
    ],
)
def test_similar_lines_are_judged_apart(harmless: str, secret: str) -> None:
    """A line is not taken for a harmless one that differs in numbers which decide."""
    rules = Rules()
    together = redact(f"{harmless}\n{secret}\n".encode(), rules)
    assert together == redact(f"{harmless}\n".encode(), rules) + redact(f"{secret}\n".encode(), rules)


def test_known_secrets_are_found_in_long_json_lines() -> None:
    secret = b"Qw7rT2yU9iP4aB3x"
    filler = b'{"msg":"' + b"some words " * 90_000 + b'","value":"'
    text = filler + secret + b'","more":"' + b"more words " * 90_000 + b'"}\n'
    after = redact(text, Rules([Secret("some", secret)]))
    assert secret not in after
    assert after.startswith(filler)
    json.loads(after)
