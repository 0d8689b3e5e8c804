"""Secrets that nobody told us, by their shapes; and that everything else stays as it is."""

import json
import subprocess
import sys
import time
from collections.abc import Iterable

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from service_record.redaction import Redactor, Rules, Secret, mask, report
from testing.clean_lines import clean_lines
from testing.made_up import pem
from tests.faults import Faults
from tests.secret_shapes import EXAMPLES
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


def test_every_shape_is_masked_and_what_tells_about_it_stays() -> None:
    """The trigger of a shape matches wherever the shape does, so that lines without one are skipped."""
    with Faults() as faults:
        for example in EXAMPLES:
            with faults.of(example.name):
                given_ = redacted(example.text.encode()).decode()
                assert [secret for secret in example.secrets if secret in given_] == []
                assert example.kept in given_
                assert given_.count("\n") == example.text.count("\n")
                assert redacted(given_.encode()) == given_.encode(), "masked again"
                for line in example.text.encode().split(b"\n"):
                    assert redacted(line) == line or RULES.suspect(line, 0) is not None, line


def test_evidence_about_passwords_is_no_password() -> None:
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


def test_at_most_one_of_a_thousand_clean_lines_is_altered(capsys: pytest.CaptureFixture[str]) -> None:
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


def test_masks_are_counted_by_kind_and_values_are_not_told() -> None:
    redactor = Redactor(RULES)
    redactor.feed(b"+ curl -u a:hunter33 password=hunter22\npassword=hunter22\n")
    redactor.finish()
    told = report([redactor.counts, redactor.counts])
    assert told == {"masked": 6, "kinds": {"command-password": 2, "password": 4}}


def test_a_key_between_lines_of_other_programs_is_masked_and_they_are_not() -> None:
    block, body = pem()
    lines = [line for each in block.splitlines() for line in (f"a[1]: {each}", "kernel: all is well")]
    after = redacted("\n".join(lines).encode()).decode()
    assert not any(line in after for line in body)
    assert after.count("kernel: all is well") == len(block.splitlines())


def test_a_public_certificate_stays() -> None:
    text = pem("CERTIFICATE")[0].encode()
    assert redacted(text) == text


def test_a_key_without_an_end_does_not_take_the_rest_of_the_log() -> None:
    text = b"-----BEGIN RSA PRIVATE KEY-----\n" + b"kernel: all is well\n" * 40 + b"sha256\nabcd\n"
    assert redacted(text) == text


@given(st.data())
def test_chunks_of_any_size_give_the_same(data: st.DataObject) -> None:
    some = data.draw(st.lists(st.sampled_from(EXAMPLES), min_size=1, max_size=3))
    text = b"".join(example.text.encode() + b"\n" for example in some)
    sizes = data.draw(st.lists(st.integers(0, len(text)), max_size=4))
    assert redacted(text, sizes=sizes) == redacted(text)


@given(
    st.binary()
    | st.lists(st.sampled_from([example.text.encode() for example in EXAMPLES]) | st.binary()).map(b" ".join)
)
def test_whatever_the_bytes_lines_stay_and_twice_is_once(text: bytes) -> None:
    once = redacted(text)
    assert once.count(b"\n") == text.count(b"\n")
    assert redacted(once) == once


def test_a_secret_before_what_seems_to_go_on_from_the_line_above_is_masked() -> None:
    key = next(example for example in EXAMPLES if "client-key-data: " in example.text).text.encode()
    key = key[: key.index(b"\n", key.index(b"client-key-data: ")) + 1]
    after = redacted(
        key + b"    token: je92xutZTZjHlJRhTDvW7295GIfJii7V X-Secret-Key: NiWQRs+O0CH11kOsmSrp5me1uU"
    )
    assert b"je92xutZ" not in after
    assert b"NiWQRs" not in after
    assert redacted(after) == after


def test_blocks_do_not_cut_secrets() -> None:
    """A secret at every place around the end of a block, in lines and in one long line."""
    secret = b"hunter2hunter3"
    for end in (b"\n", b" "):
        filler = b"x" * 99 + end
        for shift in range(0, 120, 7):
            head = filler * ((MIB - 60) // 100) + b"y" * shift
            text = head + b" password=" + secret + end + filler * 2000
            assert secret not in redacted(text, sizes=[100_000] * 13)


def test_a_long_line_is_not_held_forever() -> None:
    redactor = Redactor(RULES)
    given_ = [redactor.feed(b"some words " * 10_000) for _ in range(60)]
    assert sum(map(len, given_)) > 50 * 110_000
    assert b"".join(given_) + redactor.finish() == b"some words " * 600_000


def test_a_secret_without_an_end_is_masked_to_the_end_of_its_line() -> None:
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
]


def seconds(text: bytes, rules: Rules) -> float:
    begun = time.process_time()
    redacted(text, rules=rules)
    return time.process_time() - begun


@pytest.mark.parametrize("unit", REPEATED)
def test_time_is_linear_in_the_text_however_it_is_made(unit: bytes) -> None:
    """Ten times the text takes ten times as long; a quadratic case would take a hundred times."""
    rules = Rules([Secret("some", b"hunter2hunter3")])
    small, large = (
        min(seconds(unit * (size // len(unit)), rules) for _ in range(2)) for size in (MIB // 40, MIB // 4)
    )
    assert large < 30 * small + 0.1
    assert large < 3, "seconds for a quarter of a MiB, on any machine"


_TWO_PASSES = """
import sys, time
from service_record.redaction import Redactor, Rules
rules, text = Rules(), sys.stdin.buffer.read()
for _ in range(4):
    begun = time.process_time()
    redactor = Redactor(rules)
    redactor.feed(text)
    redactor.finish()
    print(time.process_time() - begun)
"""


def test_the_first_pass_over_text_rich_in_secrets_takes_about_as_long_as_the_next() -> None:
    """RE2 makes the states of its machines in the first pass of a process; there must be few of them."""
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
    assert first <= 2.5 * next_ + 0.005, f"{first:.3f} s, then {next_:.3f} s"
