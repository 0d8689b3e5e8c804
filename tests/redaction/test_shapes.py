"""Every shape in every surroundings, and private keys in every wrapping."""

import base64
import gzip
import hashlib
import quopri
import random
import shutil
import subprocess
import textwrap
from pathlib import Path

import pytest

from service_record.redaction import Redactor, Rules, Secret, secret_names
from service_record.redaction.encodings import unescaped_views
from service_record.redaction.private_keys import KeyFollower
from service_record.redaction.reader import LineReader
from service_record.redaction.shapes import OURS, PUBLIC, SERVICES, rows, shapes
from service_record.redaction.values_below import ValueFollower
from testing.made_up import pem
from tests.key_wrappings import BYTES, WRAPPINGS, key_leaks, private_keys
from tests.shape_examples import (
    SURROUNDINGS,
    can_surround,
    command_examples,
    is_leaking,
    redact,
    shape_examples,
)

RULES = Rules()
READER = LineReader(lambda _text, _depth: [])
EXAMPLES = list(shape_examples())
COMMANDS = list(command_examples())
FIRST_COMMANDS = list({example.near_miss: example for example in COMMANDS}.values())
"""One example for each row of the table of commands."""
ORDINARY = Path(__file__).parents[1].joinpath("ordinary_lines.txt").read_bytes().splitlines()
"""Made up by us after what installers and hosts log: words about secrets, and no secret."""
LEAST_SURROUNDINGS = 12
LEAST_WRAPPINGS = 60

KINDS_OF_KEYS = [
    *("RSA 2048", "RSA 4096", "RSA, PKCS #1", "P-256", "P-384", "P-521"),
    *("P-256, SEC 1", "P-384, SEC 1", "P-521, SEC 1", "Ed25519", "encrypted PKCS #8", "encrypted PEM"),
    *("OpenSSH Ed25519", "OpenSSH RSA"),
]
needs_openssl = pytest.mark.skipif(
    not (shutil.which("openssl") and shutil.which("ssh-keygen")), reason="no openssl, or no ssh-keygen"
)


@pytest.mark.parametrize("surrounding", SURROUNDINGS)
def test_every_shape_is_masked_in_each_surrounding(surrounding: str) -> None:
    suited = [example for example in EXAMPLES + FIRST_COMMANDS if can_surround(example, surrounding)]
    assert len(SURROUNDINGS) >= LEAST_SURROUNDINGS
    assert [example.text for example in suited if is_leaking(example, surrounding, RULES)] == []


def test_shapes_have_source_positive_and_near_miss() -> None:
    assert len(EXAMPLES) == len(shapes()) + len(secret_names.rows())
    for row in (*rows(OURS), *rows(PUBLIC), *rows(SERVICES), *secret_names.rows()):
        assert row.get("source") or row.get("name"), row
    assert [example.name for example in EXAMPLES if not example.secrets] == []
    near = [example.near_miss for example in EXAMPLES]
    assert [text for text in near if redact(RULES, text.encode()) != text.encode()] == []


def test_every_command_is_masked_and_its_near_miss_is_not() -> None:
    assert [example.text for example in COMMANDS if is_leaking(example, "alone", RULES)] == []
    near = {example.near_miss for example in COMMANDS}
    assert [text for text in near if redact(RULES, text.encode()) != text.encode()] == []


@needs_openssl
@pytest.mark.parametrize("kind", KINDS_OF_KEYS)
def test_known_key_is_masked_in_every_wrapping(kind: str) -> None:
    rules = Rules([Secret("private-key", private_keys()[kind])])
    assert len(WRAPPINGS) >= LEAST_WRAPPINGS
    assert [wrapping for wrapping in WRAPPINGS if key_leaks(kind, wrapping, rules)] == []


@needs_openssl
@pytest.mark.parametrize("kind", ["RSA 2048", "P-256", "Ed25519"])
def test_known_key_is_masked_in_output_of_openssl(kind: str) -> None:
    key = private_keys()[kind]
    text = subprocess.run(
        ["openssl", "pkey", "-text", "-noout"], input=key, capture_output=True, check=True
    ).stdout
    name = b"privateExponent:" if kind == "RSA 2048" else b"priv:"
    first = text.partition(name)[2].strip().partition(b"\n")[0].strip()
    after = redact(Rules([Secret("private-key", key)]), text)
    assert len(first) >= 40
    assert first[6:40] in text
    assert first[6:40] not in after
    assert b"Private-Key:" in after


@needs_openssl
@pytest.mark.parametrize("kind", KINDS_OF_KEYS)
def test_unknown_key_is_masked_in_every_wrapping(kind: str) -> None:
    assert [wrapping for wrapping in WRAPPINGS if key_leaks(kind, wrapping, RULES)] == []


@needs_openssl
@pytest.mark.parametrize("wrapping", WRAPPINGS)
def test_leak_scan_refuses_keys_behind_any_prefix(wrapping: str) -> None:
    """Whoever packs without masking, or with a mask that has a hole, is stopped."""
    text = WRAPPINGS[wrapping](private_keys()["RSA 2048"])
    scan = Redactor(RULES, only_certain=True)
    scan.feed(text)
    scan.finish()
    assert scan.counts["private-key"] + scan.counts["encoded-secret"] > 0


@pytest.mark.parametrize(
    "text",
    [
        b"image: quay.io/a/b@sha256:" + b"0123456789abcdef" * 4,
        b"token: kube-api-access-x4b2z secret=openshift-etcd/etcd-peer-master-0",
        b"Processed session termination for sessionid: 0x14f05578bd80001",
        b"session id=123e4567-e89b-12d3-a456-426614174000 closed",
        b"commit 3f2c379a5f0b8e6d1c2b3a4958676869707172af by somebody",
        b"ssh2: ED25519 SHA256:uNiVztksCsDhcc0u9e8BrV4Vk1ZPx1LQzG0v6M8oJ5k",
        b"link/ether 52:54:00:12:34:56 brd ff:ff:ff:ff:ff:ff inet6 fe80::5054:ff:fe12:3456/64",
        b"allowing master-0.ocp.example.com:6443 and api-int.ocp.example.com",
        b"WindowManager: AppWindowToken{df0798e token=Token{78af589 ActivityRecord{3b04890 u0}}}",
        b'"key":"/kubernetes.io/secrets/openshift-etcd/etcd-peer-master-0","revision":71',
        b"Secret: failed to list *v1.Secret: secrets is forbidden",
        b"ConfigMap data:\n  enabled: enabled1\n  size: 12345678\n",
        b"%wheel ALL=(ALL) NOPASSWD: ALL",
        b"core ALL=(ALL) NOPASSWD:SETENV: ALL",
        b"bypass: 1, compass = north4",
        b"token: 2026-11-21T01:05:10Z pass = 2026-11-21T01:05:10Z",
        b'{"key": "normal_key", "value": {"stringValue": null}}',
        b"PublicKey = u1SU1LfVLPHCozMxH2Mo4lgOEePzNm0tRgeLezV6ffA=",
        b'"public_key": "u1SU1LfVLPHCozMxH2Mo4lgOEePzNm0tRgeLezV6ffA="',
        b"peer public key u1SU1LfVLPHCozMxH2Mo4lgOEePzNm0tRgeLezV6ffA",
        b'"integrity":"sha512-Vx9fRUKVf/MeVkJuPROARBpCh0W1WUTnxYLYvV2bTDh1oqN6xGmR3wHnNz=="',
        b"cache key: 3f2c379a5f0b8e6d1c2b3a4958676869707172af, key sha256:3f2c379a5f0b8e6d1c2b3a4958676869",
        b"mv_ValidateRFC4281CodecId: Unrecognized codec 1",
        b"crio-3f2c379a5f0b8e6d1c2b3a49586768693f2c379a5f0b8e6d1c2b3a4958676869.scope: Deactivated",
        b'etcd: {"key":"L3JlZ2lzdHJ5L3BvZHMvZGVmYXVsdC93ZWItMQ=="}',
        b"secret 457eb676-33da-42ec-9a8c-9293d545c337 of type rbd",
    ],
)
def test_text_that_resembles_a_secret_stays(text: bytes) -> None:
    assert redact(RULES, text) == text


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("> Proxy-Authorization: Basic YWRtaW46aHVudGVyMjI=", "YWRtaW46aHVudGVyMjI"),
        ('{"kty":"EC","d":"Qka4K8fBb04tK_DsGKcTA65oxXeVmlzwZ1LDjLnBEeV"}', "Qka4K8fBb04tK"),
        ("invalid token 'btWF1ciKFb28QmedaHKCU7hlj36gQbE3'", "btWF1ciKFb28"),
        ("Server=db;Uid=sa;Pwd=correcthorse;Database=x", "correcthorse"),
        ('exec: ["rabbitmqctl" "add_user" "app" "correcthorse"]', "correcthorse"),
        ("run('podman', 'login', '-p', 'correcthorse', 'quay.io')", "correcthorse"),
        ("- name: DB_PASSWORD\n  value: correcthorse\n", "correcthorse"),
        ('{\n  "name": "DB_PASSWORD",\n  "value": "correcthorse"\n}', "correcthorse"),
        ("password:\n  correcthorse\nuser: root\n", "correcthorse"),
        ("password: |\n  correcthorse\n  battery\nuser: root\n", "battery"),
        ("secret: >-\n  correcthorse\nuser: root\n", "correcthorse"),
        ("<password>\n  correcthorse\n</password>", "correcthorse"),
        ("apiVersion: v1\ndata:\n  key: aHVudGVyMjI=\nkind: Secret\n", "aHVudGVyMjI="),
        ("kind: Secret\nstringData:\n  key: correcthorse\n", "correcthorse"),
        ('{"apiVersion":"v1","data":{"key":"aHVudGVyMjI="},"kind":"Secret"}', "aHVudGVyMjI="),
        ('{"data":{"a":"plain"},"stringData":{"c":"correct horse"}}', "correct horse"),
        ('{"m":"password: |\\n  correcthorse\\nuser: root"}', "correcthorse"),
        ("Nov 21 h a[1]: password:\nNov 21 h a[1]:   correcthorse\nNov 21 h a[1]: fine\n", "correcthorse"),
        ("SECRET=aB3dE9fG5iJ", "aB3dE9fG5iJ"),
        ('{"credentials":{"secret":"aB3dE9fG5iJ"}}', "aB3dE9fG5iJ"),
        ("huggingface_token: aBcDeFgHiJkLmNoPqRsTuV", "aBcDeFgHiJkLmNoPqRsTuV"),
        ("discord_token = 123456789012345678", "123456789012345678"),
        ("{u'password': u'correcthorse', u'user': u'x'}", "correcthorse"),
        ("{'passwd': b'correcthorse'}", "correcthorse"),
        ("Set-Cookie: SID=aB3dE9fG5iJ; Path=/", "aB3dE9fG5iJ"),
        ("node.session.auth.password_in = correcthorse", "correcthorse"),
        (r'{"m":"a\npcs -u hacluster -p correcthorse"}', "correcthorse"),
        ("requirepass aB3dE9fG5iJ", "aB3dE9fG5iJ"),
        ("Pwd=correcthorse;Database=x", "correcthorse"),
        ("proxy-pass: correcthorse", "correcthorse"),
        ("token=aB3dE9fG5iJkL and then aB3dE9fG5iJkL in its own words", "aB3dE9fG5iJkL"),
        ("<telegramToken>\n  80649682:Agpxo6-9rfdl8\n</telegramToken>", "Agpxo6-9rfdl8"),
        ("kind: Secret\ndata:\n  # base64 of it\n  key: aHVudGVyMjI=\n", "aHVudGVyMjI="),
        ("data:\n  key: aHVudGVyMjI=\n", "aHVudGVyMjI="),
        ("kind: Secret\nname: a-secret\nnamespace: b\ndata:\n  key: aHVudGVyMjI=\n", "aHVudGVyMjI="),
        ("data:\n  # password: `echo | base64`\n  key: aHVudGVyMjI=\n", "aHVudGVyMjI="),
        ("s.aB3dE9fG5iJkLmNoPqRsTuVw", "aB3dE9fG5iJkLmNoPqRsTuVw"),
        ("secret = '  aB3dE9fG5iJkLmN  '", "aB3dE9fG5iJkLmN"),
        ("password\"] = 'aB3dE9fG5iJ'", "aB3dE9fG5iJ"),
        ("<secret>$A3ae68d9f8ccfc898ee2555a5f8f228b9</secret>", "68d9f8ccfc898ee2"),
        ('{"auths":{"quay.io":{"auth":"WqQm513Gn8MFE9h8LyozXt5n2tg7_5e55oEFG3Ll6L"}}}', "WqQm513Gn8MFE9h8"),
        ('Content-Disposition: form-data; name="password"\r\n\r\ncorrecthorse\r\n--b', "correcthorse"),
        (
            'Content-Disposition: form-data; name="token"\nContent-Type: text/plain\n\nQw7rT2yU9iP4\n--b',
            "Qw7rT2yU9iP4",
        ),
        (r'{"m":"Content-Disposition: form-data; name=\"token\"\r\n\r\nQw7rT2yU9iP4\r\n"}', "Qw7rT2yU9iP4"),
        ("localhost:5432:*:postgres:correcthorse", "correcthorse"),
        ("create user a identified by 'correcthorse'", "correcthorse"),
        ("username admin privilege 15 secret 0 aB3dE9fG5iJ", "aB3dE9fG5iJ"),
        ("tacacs-server key 7 aB3dE9fG5iJ", "aB3dE9fG5iJ"),
        ("snmp-server host 10.0.0.1 version 2c aB3dE9fG5iJ", "aB3dE9fG5iJ"),
        ('"user" * "aB3dE9fG5iJ"', "aB3dE9fG5iJ"),
        ('"keyFile":{"source":"data:,correct%20horse"}', "horse"),
        ("found NRAK-GDJSS4QZORUYIC1OGTRNGQMT5VH", "GDJSS4QZORUY"),
        (
            "<property>\n  <name>db.password</name>\n  <value>correct;horse</value>\n</property>",
            "correct;horse",
        ),
        ("<Password>\n  <Value>correct;horse</Value>\n</Password>", "correct;horse"),
        ('variable "db_password" {\n  type = string\n  default = "correct;horse"\n}', "correct;horse"),
    ],
)
def test_value_is_masked_in_every_syntax(text: str, secret: str) -> None:
    after = redact(RULES, text.encode()).decode()
    assert secret not in after
    assert after.count("\n") == text.count("\n")
    assert ("user: root" in after) == ("user: root" in text)


@pytest.mark.parametrize("line", ORDINARY)
def test_ordinary_installer_line_stays(line: bytes) -> None:
    assert redact(RULES, line) == line


@needs_openssl
@pytest.mark.parametrize("wrapping", BYTES)
def test_bytes_of_a_certificate_stay(wrapping: str) -> None:
    text = WRAPPINGS[wrapping](pem("CERTIFICATE")[0].encode())
    assert redact(RULES, text) == text


def test_random_base64_stays() -> None:
    """Two letters in front of a token are too few: some line of a certificate begins with them."""
    chance = random.Random(7)
    for _ in range(500):
        body = base64.b64encode(chance.randbytes(1200))
        lines = [body[at : at + 64] for at in range(0, len(body), 64)]
        text = b"-----BEGIN CERTIFICATE-----\n" + b"\n".join(lines) + b"\n-----END CERTIFICATE-----\n"
        assert redact(RULES, text) == text
        assert redact(RULES, base64.b64encode(text)) == base64.b64encode(text)


@pytest.mark.parametrize(
    ("name", "rules"), [("password=", RULES), ("said ", Rules([Secret("password", b"Qw7rT2yU9iP4")]))]
)
@pytest.mark.parametrize("size", range(58, 75))
def test_secret_across_a_soft_line_break_is_masked(size: int, name: str, rules: Rules) -> None:
    """Quoted-printable breaks lines of more than 76 characters."""
    line = f"{name:.>{size}}Qw7rT2yU9iP4 and more words\n"
    text = b"To: bob\n" + quopri.encodestring(line.encode()) + b"Regards, eve\n"
    after = redact(rules, text)
    assert not any(b"Qw7rT2yU9iP4"[at : at + 4] in after for at in range(9))
    assert after.startswith(b"To: bob\n")
    assert after.endswith(b"\nRegards, eve\n")


def test_dump_of_a_key_ends_before_other_dumps() -> None:
    key = WRAPPINGS["hexdump -C"](pem()[0].encode())
    other = WRAPPINGS["hexdump -C"](b"GET /healthz HTTP/1.1\r\nHost: api-int:6443\r\n")
    after = redact(RULES, key + b"\nkernel: all is well\n" + other)
    assert after.endswith(b"\nkernel: all is well\n" + other)
    assert after.count(b"\n") == (key + b"\nkernel: all is well\n" + other).count(b"\n")


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        pytest.param(b"http_proxy=http://u:p@ss/w?rd@proxy:3128", b"ss/w?rd", id="a proxy's password"),
        pytest.param(b"machine h\n  login u\n  password hunter\n", b"hunter", id="netrc in lines"),
        pytest.param(
            b"huggingface_token: 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", b"kvjwprtn", id="lower case"
        ),
        pytest.param(b"huggingface_token: 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", b"kVjWpRtN", id="letters"),
        pytest.param(
            b'bmc.password: Invalid value: \\"u8jzPde0IgxL\\": too short',
            b"u8jzPde0IgxL",
            id="a field of JSON",
        ),
    ],
)
def test_ambiguous_secrets_are_masked(text: bytes, secret: bytes) -> None:
    assert secret not in redact(RULES, text)


def bare(text: str) -> str:
    return text.replace("«", "").replace("»", "")


def marked(follower: KeyFollower | ValueFollower, text: str) -> str:
    """Return a text with marks around what is secret in it."""
    lines = []
    for line in text.encode().split(b"\n"):
        view = unescaped_views(line)[-1]
        after = view.text
        for start, end, _ in sorted(follower.spans(view), reverse=True):
            after = after[:start] + "«".encode() + after[start:end] + "»".encode() + after[end:]
        lines.append(after)
    return b"\n".join(lines).decode()


BEGIN, END = "-----BEGIN RSA PRIVATE KEY-----", "-----END RSA PRIVATE KEY-----"
A, B, C = (base64.b64encode(hashlib.sha512(bytes([n])).digest()).decode()[:64] for n in range(3))


@pytest.mark.parametrize(
    "text",
    [
        f"x\n{BEGIN}\n«{A}»\n«{B}»\n«{C[:20]}»\n{END}\n{A}",
        f"a[1]: {BEGIN}\na[22]: «{A}»\nb[1]: «{B}»\na[3]: «{A[:20]}»\nz[1]: {A[:20]}\na[1]: {END}\na[1]: {A}",
        f"BEGIN PRIVATE KEY----- end\n«{A[:24]}», end",
        f"x {BEGIN} «{A}» «{B}» «{A[:20]}» {END} y {A}",
        f"{BEGIN}«{A}»{BEGIN}«{B}»{END}{C}",
        f"{BEGIN}\nwords «{A[:40]}» and\nother {A[:20]} of\nwords «{A[:20]}»\nwords {A[:20]} of",
        f"log {BEGIN} end\nlog «{A[:20]}»' end\nlog {A[:20]} other\nanother {A[:20]}' end",
        f"{BEGIN}\nINFO\tctl\t«{A}»\t{{}}\nINFO\tctl\t«{B[:24]}»\t{{}}",
        f"{BEGIN}\n{A[:12]}\n«{A[:16]}»\n«{A[:12]}»\n       {A[:11]}\n«{A[:4]}»",
        f"{BEGIN}\n{A[:12]}\n{A[:23]}\n«{A[:24]}»\n{A[:23]}\n«{A[:25]}»",
        f"{BEGIN}\n«+{A[:24]}»\n«+{A[:20]}»\n+{A[:18]}",
        f"{BEGIN}\n«{A[:44]}»<redacted:x>«{B[:30]}» «{C[:20]}»<redacted:aaaaaaaaaaaaaaaaaaaaaaaa>",
        f"{BEGIN}\n" + "all is well\n" * 160 + f"«{A}»\n" + "all is well\n" * 160 + f"«{B}»",
        f"{BEGIN}\n" + "all is well\n" * 161 + A,
        f"{BEGIN}\n" + "<redacted:x>\n\n" * 161 + f"«{A}»",
        f"{BEGIN}\n" + f"«{A[:24]}»\n" * 4000 + f"{A[:24]}\n",
        f"{BEGIN}\n{'- ' * 4096}«{A[:24]}»",
    ],
)  # fmt: skip
def test_mask_covers_exactly_the_key(text: str) -> None:
    assert marked(KeyFollower(), bare(text)) == text


@pytest.mark.parametrize("columns", [64, 76])
@pytest.mark.parametrize(
    ("first", "prefix"),
    [("x: ", "x: "), ("[app.12] out | ", "[app.12] out | "), ("content: ", "  "), ("a/b got: ", "a/b ")],
)
@pytest.mark.parametrize("kind", ["key", "text", "compressed"])
def test_base64_behind_equal_unknown_text_is_masked(kind: str, first: str, prefix: str, columns: int) -> None:
    texts = {
        "key": f"{BEGIN}\n{A}\n{B}\n{C}\n{END}\n".encode(),
        "text": b"user: joe\npassword: Hunter2xx!\nhost: node7\n" * 4,
        "compressed": gzip.compress(bytes(random.Random(1).randbytes(300)), mtime=0),
    }
    lines = textwrap.wrap(base64.b64encode(texts[kind]).decode(), columns)
    text = "\n".join((prefix if at else first) + line for at, line in enumerate(lines))
    after = redact(RULES, f"all is well\n{text}\nall is well".encode()).decode().split("\n")
    assert (after[0], after[-1], len(after)) == ("all is well", "all is well", len(lines) + 2)
    assert [line for line in lines if any(line[:32] in masked for masked in after)] == []


@pytest.mark.parametrize(
    "text",
    [
        "password:\n  «correcthorse»\n  battery\nuser: root",
        "password:\ncorrecthorse",
        "  password:\n  correcthorse",
        "  password:\n   «correcthorse»",
        '- password:\n\n  "«correcthorse»",',
        "password:\n  two words",
        "password:\n  user:",
        "password:\n  incorrect",
        "password: |\n  «line one»  \n  ${X}\n\n   «line two»\nuser: root\n  none",
        "password: |\n  «line one»\n  |\n  «line two»\nuser: root",
        "token: >-\n  «correcthorse»\n «more»",
        "password: |\n" + "  «correcthorse»\n" * 200 + "  correcthorse",
        "Nov 21 h a[1]: password:\nNov 22 h a[2]:   «correcthorse»",
        "Nov 21 h a[1]: password:\nNov 22 i a[2]:   correcthorse",
        "Nov 21 h a1 password:\nNov 22 h a:   correcthorse",
        "h a: password: |\nh a:   «one two»\nh b:   three four",
        "<password>\n«correcthorse»\n</password>",
        "  <password id=1>\n  «correcthorse»  ",
        "- name: DB_PASSWORD\n  value: «correcthorse»\n  value: battery",
        '{"name": "DB_PASSWORD",\n"value": "«correct horse»"}',
        "name: DB_PASSWORD\nvalue: '«correct horse»'",
        "key: DB_PASSWORD\nvalue: ${X}",
        "key: DB_PASSWORD\nvalue: «my password:»\n  correcthorse",
        'content-disposition: form-data; name="password"\nContent-Type: text\n\n«correcthorse»\nbattery',
        "data:\n  a: «YWJjZA==»\n  b: YWJj\n  c: aHVudGVyMjI\n  d: plain\nf: YWJjZA==",
        'data:\n  a: "«YQliCmNkZWY=»"\n  b: «8fLz9PX29/j5+vv8/f7/AAEC»\n  c: 8fLz9PX29/j5+vv8/f7/',
        "stringData:\n  a: «correct horse»\n  b: ${X}\n  c: '«x y»',\n  d: *anchor\ne: x",
        'data: {\n  "a": "«aHVudGVyMjI=»",\n}',
        "data:\n  password: |\n    «correct horse»",
        "stringData:\n  a: |\n    «one two»\n    user: «three»\n  b: >-\n    ${X}\nkind: x",
        'array(1) {\n  ["password"]=>\n  string(9) "«Hunter2xx»"\n}',
        'Config {\n    api_token: Secret(\n        "«9fk2l0dl2kq8xx»",\n    ),\n}',
        'Config {\n    password: None,\n    command: Some(\n        "Hunter2xx",\n    ),\n}',
        '"db_password": {\n  "type": "string",\n  "sensitive": true,\n  "value": "«Hunter2xx»"\n}',
        "option_name: smtp_password\noption_value: «Hunter2xx»\noption_value: Hunter2xy",
        '"ParameterKey": "DBPassword",\n"ParameterValue": "«Hunter2xx»"',
        "password:\n  description: none\n  value: «Hunter2xx»",
        "- name: DB_PASSWORD\n- value: Hunter2xx",
        '<property name="password">\n  <value>«Hunter2xx»</value>\n</property>',
        '<input name="password"\n  value="«Hunter2xx»">',
        "<password>\n«Hunter2xx»\nHunter2xy\n</password>",
        "<secret>\n  <uuid>abc</uuid>\n  <value>«Hunter2xx»</value>\n</secret>",
        "password: !vault\n  «Hunter2xx»",
    ],
)  # fmt: skip
def test_only_the_value_below_its_name_is_masked(text: str) -> None:
    assert marked(ValueFollower(READER.find_kind), bare(text)) == text


def test_value_behind_an_escaped_newline_is_masked() -> None:
    text = r'{"m":"password: |\n  correct horse\n  battery\nuser: root"}'
    after = marked(ValueFollower(READER.find_kind), text)
    assert after == '{"m":"password: |\n  «correct horse»\n  «battery»\nuser: root"}'
