"""Secrets that nobody told us, by their shapes; and that everything else stays as it is."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from service_record.redaction import (
    LeakError,
    Redactor,
    Rules,
    Secret,
    mask,
    masked_in_place,
    ordinary_words,
    outgoing_page,
    outgoing_template,
    refuse_template_leaks,
    report,
)
from service_record.redaction.encodings import from_base64, unescaped_views
from service_record.redaction.first_pass import RUNS, TOKENS, patterns
from service_record.redaction.reader import LineReader
from testing.clean_lines import clean_lines
from testing.made_up import pem
from tests.faults import Faults
from tests.secret_shapes import EXAMPLES, Example
from tests.shape_examples import shape_examples

RULES = Rules()
MIB = 1 << 20
MOST_ALTERED = 0.001


def redacted(text: bytes, *, rules: Rules = RULES, sizes: Iterable[int] = ()) -> bytes:
    """The text as it leaves, fed in chunks of these sizes and a last one."""
    redactor = Redactor(rules)
    given_, position = [], 0
    for size in sizes:
        given_.append(redactor.feed(text[position : position + size]))
        position += size
    return b"".join((*given_, redactor.feed(text[position:]), redactor.finish()))


def test_every_shape_is_masked_and_its_context_stays() -> None:
    """The trigger of a shape matches wherever the shape does, so that lines without one are skipped."""
    with Faults() as faults:
        for example in EXAMPLES:
            with faults.case(example.name):
                given_ = redacted(example.text.encode()).decode()
                assert [secret for secret in example.secrets if secret in given_] == []
                assert example.kept in given_
                assert given_.count("\n") == example.text.count("\n")
                assert redacted(given_.encode()) == given_.encode(), "masked again"
                for line in example.text.encode().split(b"\n"):
                    suspects = [(start, end) for start, end, *_ in RULES.find_suspects(line)]
                    assert redacted(line) == line or suspects == [(0, len(line))], line


def test_evidence_about_passwords_stays() -> None:
    for line in (
        b"Failed password for root from 10.0.0.1 port 22 ssh2",
        b"pam_unix(sshd:auth): check pass; user unknown",
        b"passwd: password changed for core",
        b"error: password: incorrect",
        b"passwd:         files systemd",
        b"passwd: sss [NOTFOUND=return] files",
        b"Password: <redacted:password>",
        b"token: ${TOKEN} password=$PASSWORD key=%s",
        b"sudo: core : TTY=pts/0 ; PWD=/home/core ; USER=root ; COMMAND=/bin/ls",
        b"--token-auth-file=/etc/kubernetes/token password_file=/run/secrets/password",
        b"cookie=0x0, duration=1.5s, table=0",
    ):
        assert redacted(line) == line


def test_clean_lines_stay(capsys: pytest.CaptureFixture[str]) -> None:
    lines = clean_lines()
    after = redacted("".join(f"{line}\n" for line in lines).encode()).decode().splitlines()
    altered = [line for line, now in zip(lines, after, strict=True) if line != now]
    with capsys.disabled():
        print(f"\n{len(altered)} of {len(lines)} clean lines altered; all {len(EXAMPLES)} shapes masked")
    assert len(lines) >= 10_000
    assert len(altered) <= MOST_ALTERED * len(lines), altered[:10]


def test_a_mask_needs_no_escape_in_json_and_yaml() -> None:
    document = {
        "password": 'a "quoted" one',
        "n": 1,
        "tls.key": pem()[0],
        "token": "ab" * 9 + "7",
        "pin": {"password": 123456},
    }
    after = json.loads(redacted(json.dumps(document).encode()))
    assert after["password"] == mask("password").decode()
    assert after["pin"] == {"password": mask("password").decode()}
    assert after["n"] == 1
    nested = json.loads(json.loads(redacted(json.dumps(json.dumps(document)).encode())))
    assert nested["password"] == mask("password").decode()
    assert yaml.safe_load(redacted(yaml.safe_dump(document).encode())).keys() == document.keys()
    assert yaml.safe_load(redacted(b"user: root\npassword: hunter2\n")) == {
        "user": "root",
        "password": "<redacted:password>",
    }


def test_masks_are_counted_by_kind_without_values() -> None:
    redactor = Redactor(RULES)
    redactor.feed(b"+ curl -u a:hunter33 password=hunter22\npassword=hunter22\n")
    redactor.finish()
    told = report([redactor.counts, redactor.counts])
    assert told == {"masked": 6, "kinds": {"command-password": 2, "password": 4}}


def test_only_the_key_is_masked_between_other_lines() -> None:
    block, body = pem()
    lines = [line for each in block.splitlines() for line in (f"a[1]: {each}", "kernel: all is well")]
    after = redacted("\n".join(lines).encode()).decode()
    assert not any(line in after for line in body)
    assert after.count("kernel: all is well") == len(block.splitlines())


def test_public_certificate_stays() -> None:
    text = pem("CERTIFICATE")[0].encode()
    assert redacted(text) == text


def test_key_without_end_leaves_the_rest_of_the_log() -> None:
    text = b"-----BEGIN RSA PRIVATE KEY-----\n" + b"kernel: all is well\n" * 40 + b"sha256\nabcd\n"
    assert redacted(text) == text


@given(st.data())
def test_size_of_chunks_does_not_change_the_output(data: st.DataObject) -> None:
    some = data.draw(st.lists(st.sampled_from(EXAMPLES), min_size=1, max_size=3))
    text = b"".join(example.text.encode() + b"\n" for example in some)
    sizes = data.draw(st.lists(st.integers(0, len(text)), max_size=4))
    assert redacted(text, sizes=sizes) == redacted(text)


@given(
    st.binary()
    | st.lists(st.sampled_from([example.text.encode() for example in EXAMPLES]) | st.binary()).map(b" ".join)
)
def test_masking_again_only_masks_more(text: bytes) -> None:
    """A mask is a sign of a credential for the words beside it, so they may be masked, too."""
    once = redacted(text)
    again = redacted(once)
    assert once.count(b"\n") == again.count(b"\n") == text.count(b"\n")
    for before, after in zip(once.split(b"\n"), again.split(b"\n"), strict=True):
        rest = before
        for piece in filter(None, re.split(rb"<redacted:[a-z0-9-]*>", after)):
            _, found, rest = rest.partition(piece)
            assert found == piece


@pytest.mark.parametrize("example", EXAMPLES, ids=[example.name for example in EXAMPLES])
def test_masked_example_stays(example: Example) -> None:
    once = redacted(example.text.encode())
    assert redacted(once) == once


@pytest.mark.parametrize(
    ("command", "masked"),
    [
        (b"curl -b a=x ; -b b=y", b"curl -b a=<redacted:cookie> ; -b b=y"),
        (b"curl x; ls -b b=y", b"curl x; ls -b b=y"),
        (b"curl -H 'a; b' -b a=x -b b=y", b"curl -H 'a; b' -b a=<redacted:cookie> -b b=<redacted:cookie>"),
        (b"curl https://x?a&b -b a=x", b"curl https://x?a&b -b a=<redacted:cookie>"),
    ],
)
def test_options_belong_to_one_command(command: bytes, masked: bytes) -> None:
    assert redacted(command) == masked
    assert redacted(masked) == masked


def test_secret_before_a_continued_key_is_masked() -> None:
    key = next(example for example in EXAMPLES if "client-key-data: " in example.text).text.encode()
    key = key[: key.index(b"\n", key.index(b"client-key-data: ")) + 1]
    after = redacted(
        key + b"    token: je92xutZTZjHlJRhTDvW7295GIfJii7V X-Secret-Key: NiWQRs+O0CH11kOsmSrp5me1uU"
    )
    assert b"je92xutZ" not in after
    assert b"NiWQRs" not in after
    assert redacted(after) == after


@pytest.mark.slow
def test_secrets_at_block_boundaries_are_masked() -> None:
    """A secret at every place around the end of a block, in lines and in one long line."""
    secret = b"hunter2hunter3"
    for end in (b"\n", b" "):
        filler = b"x" * 99 + end
        for shift in range(0, 120, 7):
            head = filler * ((MIB - 60) // 100) + b"y" * shift
            text = head + b" password=" + secret + end + filler * 2000
            assert secret not in redacted(text, sizes=[100_000] * 13)


def test_secret_without_blanks_at_a_block_boundary_is_masked() -> None:
    rules = Rules([Secret("some", b"hunter2hunter3")])
    for shift in (1, 7, 13):
        head, tail = b"x" * (MIB - shift), b"y" * MIB
        text = head + b"hunter2hunter3" + tail
        assert redacted(text, rules=rules, sizes=[1 << 15] * 40) == head + mask("some") + tail


def test_long_line_is_written_in_pieces() -> None:
    redactor = Redactor(RULES)
    given_ = [redactor.feed(b"some words " * 10_000) for _ in range(60)]
    assert sum(map(len, given_)) > 50 * 110_000
    assert b"".join(given_) + redactor.finish() == b"some words " * 600_000


def test_long_line_cut_behind_a_bracket_stays() -> None:
    text = b"a" * (MIB - 1) + b">" + b"b" * MIB
    assert redacted(text, sizes=[1 << 15] * 40) == text


def test_secret_without_end_is_masked_to_the_line_end() -> None:
    text = b"data:;base64," + b"QUJD" * MIB + b"\nafter\n"
    assert redacted(text, sizes=[1 << 16] * 80) == b"data:;base64,<redacted:data-url>\nafter\n"


REPEATED = [
    *(
        b"a",
        b"aA0/",
        b"password=",
        b"password=x ",
        b"http://a:",
        b"http://a:b@",
        b"curl -u ",
        b"curl -u a:b ",
    ),
    *(
        b"ipmitool ",
        b"echo a|",
        b'"auth":"',
        b"\\",
        b"eyJaaaaaaaaa.",
        b"$6$a$",
        b"data:",
        b"%22auths%22",
        b"&a=b",
    ),
    *(
        b"<redacted:",
        b"<redacted:x>",
        b"<redacted:aaaaaaaa",
        b"-----BEGIN PRIVATE KEY-----",
        b"abcdef.",
        b"aaaaa-",
        b":1900:1:1:1:1:1:",
    ),
    *(
        b"password: 'a'\n",
        b"-----BEGIN PRIVATE KEY-----\n",
        b"IiB\n",
        b"IiB7ImF1dGhzIj\n",
        b"hunter2hun",
        b"ter2hunter3",
    ),
    *(
        b"<password>",
        b"<password> <![CDATA[",
        b"<a name='password' ",
        b'setPassword("',
        b"password 1 ",
        b"password=\\nA1b",
        b"mysql -pa ",
        b" '\\'",
        b"into password (",
        b"into a(password) values ('",
    ),
]
BEHIND_A_PASSWORD = [b"[", b"[{"]
"""Brackets that never close. A line is searched for JSON only if it may hold a secret."""


def seconds(text: bytes, rules: Rules) -> float:
    begun = time.process_time()
    redacted(text, rules=rules)
    return time.process_time() - begun


@pytest.mark.slow
@pytest.mark.parametrize(
    ("head", "unit"),
    [
        *((b"", unit) for unit in REPEATED),
        *((b"password=Qw7rT2yU9 ", unit) for unit in BEHIND_A_PASSWORD),
        (b"<password>", b" "),
    ],
)
def test_time_is_linear_for_repeated_text(head: bytes, unit: bytes) -> None:
    """Ten times the text takes ten times as long; a quadratic case would take a hundred times."""
    rules = Rules([Secret("some", b"hunter2hunter3")])
    small, large = (
        min(seconds(head + unit * (size // len(unit)), rules) for _ in range(2))
        for size in (MIB // 40, MIB // 4)
    )
    assert large < 30 * small + 0.1
    assert large < 5, "seconds for a quarter of a MiB, on any machine"


_TWO_PASSES = """
import sys, time
from service_record.redaction import Redactor, Rules
text = sys.stdin.buffer.read()
for _ in range(4):
    begun = time.process_time()
    redactor = Redactor(Rules())  # new rules remember no lines
    redactor.feed(text)
    redactor.finish()
    print(time.process_time() - begun)
"""


@pytest.mark.slow
def test_first_pass_is_about_as_fast_as_later_ones() -> None:
    """RE2 makes the states of its automata in the first pass of a process; there must be few of them.

    Patterns are also compiled when they are first used. For this short text that takes about eight times as
    long as a later pass.
    """
    text = "".join(f"{example.text}\n" for example in shape_examples()).encode() * 3
    passes = [
        [
            float(line)
            for line in subprocess.run(
                [sys.executable, "-c", _TWO_PASSES], input=text, capture_output=True, check=True
            ).stdout.split()
        ]
        for _ in range(4)
    ]
    first = min(seconds[0] for seconds in passes)
    next_ = min(min(seconds[1:]) for seconds in passes)
    assert first <= 16 * next_, f"{first:.3f} s, then {next_:.3f} s"


@pytest.mark.parametrize(
    ("is_secret", "secrets", "others"),
    [
        (
            ordinary_words.VALUE,
            "correct horse|x|/x/y|a b",
            "<redacted:x>| \\'\" ||${X}|$X|/etc/shadow|file:/etc/x|file:///etc/x|/srv|C:\\x|null|none|(null)|__REDACTED__|***|..x",
        ),
        (
            ordinary_words.PASSWORD,
            "correcthorse|passwords",
            "incorrect horse|files systemd|passwd.yaml|/etc/x|expired.|a|varchar(20)|[see below]|timed out",
        ),
        (
            ordinary_words.LEVELS["uncommon"],
            "cORRECT|correct1|c0rrect.|incorrect1",
            "correct|Correct|correct.",
        ),
        (
            ordinary_words.WORD,
            "hunter22|Qw7rT2yU|pA#x!zQk|'Qw#rT$yU",
            (
                "incorrect|for|Enter|created_at|--Password1|Config{Aa#b|DB_USER=Ab#c|https://Ab#c1@x|a1b2|"
                "efibootmgr|passwd1a.yaml|123e4567-e89b-12d3-a456-426614174000|correcthorse"
            ),
        ),
        (
            ordinary_words.LEVELS["argument"],
            "x1",
            "-x1|incorrect",
        ),
        (
            ordinary_words.LEVELS["value, no number"],
            "hunter22|312800|3128x|SID=a1",
            "3128|3128/x|<redacted:x>|0x12|0x12,|x=0x12|null",
        ),
        (
            ordinary_words.TOKEN,
            (
                "a1b2c3d4|1234567890|qzxkvjwprtnmbdfgh|QzXkVjWpRtNmBd|quay.io/a1b2c3d4|quay.io/a1b2c3|"
                " a1b2c3d4 |Coffee_4490!"
            ),
            (
                "a1b2c3d|123456789|12345.67890|abcdefgh|MyAppSecretName|0x12345678|2026-11-21T01:05:10Z|"
                "2026-11-21|default-dockercfg-x7k2p|Token{df0798e|/etc/a1b2c3|correct.horse|"
                "x7k2-p9|a1b2-word|word-a1b2|qzxkvjwprtn|correcthorsebattery"
            ),
        ),
        (
            ordinary_words.LEVELS["prefixed"],
            "correct1|QzXkVjWpRtNmBdFg|abCdefGhijklmNO",
            "correcthorse|correct-horse-1|<redacted:a1>|createPodSandbox",
        ),
        (
            ordinary_words.LEVELS["unusual"],
            "a1b2c3d4e5f6g7h8|0123456789abcdef|ab1cd2ef3gh4ij5kl|abcdef1234567890abcdef1234567890|QXZJKVWPQXZJKVWPQXZJKV",
            (
                "kubernetes1cluster2|authenticationprovider2v3|0123456789012345|"
                "MIIa1b2c3d4e5f6g7h8|sha256:a1b2c3d4e5f6g7h8|123e4567-e89b-12d3-a456-426614174000|"
                "/etc/a1b2c3d4e5f6g7h8|openshift4controller5plane|DENIED|etcd-peer-master-0"
            ),
        ),
        (
            ordinary_words.LEVELS["unusual, no digest"],
            "a1b2c3d4e5f6g7h8|Turtle@6884|f;q(zk]}R^wjx#Kd",
            "0123456789abcdef|aHVudGVyMjIyMjIyMjI1|Summer5884|Map<String,List>()|&lt;b&gt;x&lt;/b&gt;|//example.com/id?KEY=VALUE",
        ),
        (
            ordinary_words.RANDOM,
            "x_a1B2c3D4e5F6g7H8|aBcDeFgHiJ1lMnOpQ2|abcD1eF2ghijKL3M|Winter2026!",
            (
                "x_a1b2c3d4e5f6g7h8|ValidateRFC4281Id|validateRfc4281codecId1|abcDEF123abcDEF123|"
                "abcDEF12abcDEF12|abcdEF12abcdEF12|Winter2026|hunter22!"
            ),
        ),
        (
            ordinary_words.LEVELS["any prefix"],
            "gsk_a1B2c3D4e5F6g7H8",
            "moneypunct_cacheIcLb0EEC1Em|image_3f2c379a5f0b8e6d1c2b3a4958676869707172af",
        ),
        (
            ordinary_words.is_registry_auth,
            "YTpi|a1b2c3d4e5f6g7h8",
            "YWJj|OmI=|wqM6Yg==|correct-horse-battery",
        ),
        (
            ordinary_words.is_bootstrap_token,
            "abcdef.0123456789abcdef|abcdef.abcdefghijklmn01",
            "abcdef.0123456789012345|abcdef.abcdefghijklmnop|abcdef.abcdefghijklmno1|abcde0.abcdefghijklmno1",
        ),
        (
            ordinary_words.is_kubeadmin_password,
            "AbCd3-fghij",
            "ABCD3-FGHIJ|abcd3-fghij|Abcd3-Fghij",
        ),
        (
            ordinary_words.is_credential,
            "YTpi|OmE6",
            "OmI=|YWJj|w6M6YmI=",
        ),
        (
            ordinary_words.is_random,
            "aB1|aB+",
            "ab1|AB1|aBc",
        ),
        (
            ordinary_words.LEVELS["any"],
            "x|<redacted|<redacted:Qw7rT2yU|<redactedx>",
            "<redacted:x>|<redacted:x",
        ),
    ],
)
def test_check_accepts_secrets_and_rejects_words(
    is_secret: Callable[[bytes], bool], secrets: str, others: str
) -> None:
    for texts, is_one in ((secrets, True), (others, False)):
        assert {text: is_secret(text.encode()) for text in texts.split("|")} == dict.fromkeys(
            texts.split("|"), is_one
        )


@pytest.mark.parametrize(
    ("text", "finest", "places", "levels"),
    [
        (rb"a\nb", b"a\nb", [0, 1, 3, 4], 1),
        (rb"\u0041.\u00ff", b"A.\xff", [0, 6, 7, 13], 1),
        (rb"\u2026", b"\x80", [0, 6], 1),
        (rb"\x41b\101", b"A\0bA", [0, 4, 4, 5, 9], 1),
        (rb"\377\400", b"\xff\\400", [0, 4, 5, 6, 7, 8], 1),
        (rb"\/\$\a\e\0x", b"/$\a\x1b\0x", [0, 2, 4, 6, 8, 10, 11], 1),
        (b"%41%4", b"A%4", [0, 3, 4, 5], 1),
        (b"#012#037#040#177", b"\n\x1f#040\x7f", [0, 4, 8, 9, 10, 11, 12, 16], 1),
        (b"&quot;&bogus;&#65;&#x41;", b'"&bogus;AA', [0, 6, 7, 8, 9, 10, 11, 12, 13, 18, 24], 1),
        (b"&#X42;&#256;&#255;", b"B\x80\xff", [0, 6, 12, 18], 1),
        (b"^I^M^J^A", b"\t\r\n^A", [0, 2, 4, 6, 7, 8], 1),
        (b"a\x1b[31mb^[[0mc", b"a\0b\0c", [0, 1, 6, 7, 12, 13], 1),
        (b"ab\0", b"ab", [0, 1, 3], 1),
        (b"abc\0", b"abc\0", [0, 1, 2, 3, 4], 0),
        (b"\\" * 10 + b"n", b"\\\n", [0, 8, 11], 3),
        (b"\\" * 31 + b"n", b"\\\\\n", [0, 16, 30, 32], 4),
        (rb"\\n x%5C%6E", b"\n x\n", [0, 3, 4, 5, 11], 2),
    ],
)
def test_characters_of_a_view_map_to_the_text(
    text: bytes, finest: bytes, places: list[int], levels: int
) -> None:
    views = unescaped_views(text)
    assert views[-1].text == finest
    assert [views[-1].place(position) for position in range(len(finest) + 1)] == places
    assert len(views) == levels + 1


@pytest.mark.parametrize(
    ("text", "plain", "strict"),
    [
        (b"YWJj", b"abc", b"abc"),
        (b"YWI", b"ab", b"ab"),
        (b"YWI=", b"ab", b"ab"),
        (b"Y", b"", b""),
        (b"-_-_", b"\xfb\xff\xbf", b"\xfb\xff\xbf"),
        (b"YW!Jj", b"abc", b""),
    ],
)
def test_base64_is_read_in_either_alphabet(text: bytes, plain: bytes, strict: bytes) -> None:
    assert (from_base64(text), from_base64(text, is_strict=True)) == (plain, strict)


@pytest.mark.parametrize(
    ("line", "masked", "counts"),
    [
        ("password=hunter22", "password=P", {"P": 1}),
        ("password=hunter22,user=x", "password=P,user=x", {"P": 1}),
        ("{password: hunter22}", "{password: P}", {"P": 1}),
        ("password='hunter22,user=x'", "password='P'", {"P": 1}),
        ('{"password": 123456,"a":1}', '{"password": "P","a":1}', {"P": 1}),
        (r"{\"password\": -1.5e3}", r"{\"password\": \"P\"}", {"P": 1}),
        ("password=hunter22 " * 10, "password=P " * 10, {"P": 10}),
        ("password=123456 password=y", "password=P password=P", {"P": 2}),
        ("token=ab3de9fg5ijk or ab3de9fg5ijk, xab3de9fg5ijk", "token=T or T, xT", {"T": 3}),
        ("token=ab3de9fg5ij or ab3de9fg5ij", "token=T or ab3de9fg5ij", {"T": 1}),
        ("public key: u1SU1LfVLPHCozMxH2Mo4l", "public key: u1SU1LfVLPHCozMxH2Mo4l", {}),
        ("<redacted:password=hunter22>", "<redacted:password=P>", {"P": 1}),
        ("curl -u <redacted:token>", "curl -u <redacted:token>", {}),
        ("token=T password=${X}", "token=T password=${X}", {}),
        ('password: incorrect "password": "incorrect"', 'password: incorrect "password": "P"', {"P": 1}),
    ],
)
def test_mask_covers_exactly_the_value(line: str, masked: str, counts: dict[str, int]) -> None:
    masks = {"P": "password", "T": "token"}
    given_, wanted = (
        re.sub(r"\b[PT]\b|(?<=x)T", lambda match: mask(masks[match[0]]).decode(), text).encode()
        for text in (line, masked)
    )
    redactor = Redactor(RULES)
    assert redactor.feed(given_) + redactor.finish() == wanted
    assert redactor.counts == {masks[kind]: number for kind, number in counts.items()}
    certain = Redactor(RULES, only_certain=True)
    assert certain.feed(given_) + certain.finish() == given_


@pytest.mark.parametrize(
    ("lines", "masked"),
    [
        (b"a Hunter2x9!aaaaaaaa b\nfine\n", b"a <redacted:pw> b     \nfine\n"),
        (b"password=hunter22\n", b"password=***     \n"),
        (b"password=abc", b"password=***"),
        (b"password=ab\nx", b"password=**\nx"),
        (b'{"password":"a","pid":1}', b'{"password":"*","pid":1}'),
        (b'{"pin":{"password":12},"pid":1}', b'{"pin":{"password":0},"pid":1} '),
        (b"clean", b"clean"),
    ],
)
def test_lines_of_kept_length_have_blanks_or_short_masks(lines: bytes, masked: bytes) -> None:
    rules = Rules([Secret("pw", b"Hunter2x9!aaaaaaaa")])
    assert masked_in_place(lines, rules) == masked


def test_texts_of_a_page_are_masked_and_markup_stays() -> None:
    page = '<p title="password=hunter22">a &lt;b&gt; password=hunter22</p><a>x &amp; y</a>'
    assert outgoing_page(page, RULES) == page.replace("hunter22", "&lt;redacted:password&gt;")


def test_page_with_bytes_that_are_not_utf8_is_masked() -> None:
    assert (
        outgoing_page("<p>\udcff password=hunter22</p>", RULES)
        == "<p>\udcff password=&lt;redacted:password&gt;</p>"
    )


def test_page_with_a_secret_in_its_markup_is_refused() -> None:
    rules = Rules([Secret("pw", b"Hunter2x9!aaaaaaaa")])
    with pytest.raises(LeakError):
        outgoing_page("<p title='Hunter2x9!aaaaaaaa'>fine</p>", rules)


def test_password_of_a_preseed_is_masked_or_refused() -> None:
    template = b"d-i passwd/root-password password hunter22\nd-i x/y string z\n"
    masked = outgoing_template(template, RULES)
    assert masked == template.replace(b"hunter22", mask("password"))
    refuse_template_leaks(masked)
    with pytest.raises(LeakError):
        refuse_template_leaks(template)


@pytest.mark.parametrize("certain", [True, False])
def test_block_search_finds_groups_of_each_line(certain: bool) -> None:
    texts = (Path(__file__).parents[1] / name for name in ("secret_shapes.txt", "ordinary_lines.txt"))
    lines = [line for text in texts for line in text.read_bytes().splitlines() if line][:5000]
    text = b"\n".join(lines)
    groups = {
        text[start:end]: found for start, end, _, found in patterns().find_suspects(text, certain=certain)
    }
    assert len(groups) > 10
    reader = LineReader(lambda _text, _depth: [], certain=certain)
    for line in lines:
        missed = patterns().find_groups(line, certain=certain) & ~groups.get(line, 0)
        # A line may be skipped for a word that looks random, if it is not in the place of a credential.
        is_ordinary = missed == RUNS and line not in groups and not reader.secrets(line)
        assert not missed or is_ordinary, (missed, line)


def test_repeated_lines_have_their_own_tokens() -> None:
    """Such lines are compared instead of searched, but a token depends on its digits."""
    lines = [b"password=x r%d_abcdefgh" % digit for digit in (9, 9, 9, 8, 8, 9)]
    suspects = patterns().find_suspects(b"\n".join(lines))
    assert [groups & TOKENS for *_, groups in suspects] == [0, 0, 0, TOKENS, TOKENS, 0]
