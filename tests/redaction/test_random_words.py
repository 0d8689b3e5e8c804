"""Random words are masked in the place of a credential, and kept as evidence elsewhere."""

import random
import string

import pytest

from service_record.redaction import Rules, first_pass
from service_record.redaction.ordinary_words import RANDOM, TOKEN
from tests.redaction.kinds import ALNUM, Kind, random_text
from tests.redaction.measure import redact
from tests.redaction.wrappings import LIMITED, WRAPPINGS

RULES = Rules()
LINES = [
    "cmdkey /add:srv /user:bob /pass:{}",
    "schtasks /create /ru bob /rp {} /tn x",
    "tpm2_nvread -P {} 0x1500016",
    "pscp -pw {} image.iso core@10.0.0.5:",
    "connecting to nas01 as backup:{}",
    "app:{}@tcp(db:3306)/app?parseTime=true",
    "rman target sys/{}@db",
    "echo {} | kinit admin@EXAMPLE.COM",
    "10.0.0.9:1812\t{}\t3",
    "user app on >{} ~* +@all",
    'expect "Password:"; send "{}\\r"',
    "Unseal Key 1: {}",
    '"app" "{}"',
    "pro attach {}",
    "GET /log?m=pihole+-a+-p+{}&z=1 HTTP/1.1",
    "RABBITMQ_ERLANG_COOKIE={}",
    'DriverManager.getConnection("jdbc:x", "app", "{}")',
    '{{"unsealKey": "{}"}}',
    'said "bob" * "{}" * again',
    "ansible-vault encrypt_string '{}' --name db",
    "drive-tool --initialsetup {} /dev/nvme0n1",
    "+ siptool add 1001 {}",
    "CRON[812]: (root) CMD (/opt/siptool add 1001 {})",
    "RUN siptool add 1001 {}",
    "ExecStart=/opt/siptool add 1001 {}",
    "Command ['siptool', 'add', '1001', '{}', '-x'] failed",
    "PDO->__construct('mysql:host=db;dbname=app', 'app', '{}')",
    "  inline: {}",
    "Value: {}",
    'GEMS__EXAMPLE: "bot:{}"',
    "  hmac = '{}';",
    "    shared {}",
    '  "inline": "{}",',
    "<inline>{}</inline>",
]
"""Lines with a random word in the place of a credential."""


@pytest.mark.parametrize("line", LINES)
def test_random_credential_is_masked(line: str) -> None:
    secret = "hQ7wZ2kR9mT4"
    after = redact(line.format(secret).encode(), RULES)
    assert secret.encode() not in after
    assert b"<redacted:" in after


@pytest.mark.parametrize(
    "line",
    [
        b'usbguard: user hash "LQE90mfq3IHgSx172WPvlkqA=" via-port "usb1"',
        b"sendmail[4306]: jA9J1UvC004306: from=root, user=x, msgid=<2005.jA9J1UvC004306@node>",
        b"sshd[1]: Accepted publickey for core: ED25519 SHA256:hQ7wZ2kR9mT4hQ7wZ2kR9mT4hQ7wZ2kR9mT4hQ7wZ2k",
        b"user session of /tmp/hQ7wZ2kR9mT4 and requestID: hQ7wZ2kR9mT4 closed",
        b"key Samsung LC32-G7xT isInt16Array DataSourceEc2Local",
        b"thread hQ7wZ2kR9mT4 started",
        b"AppleThunderboltNHIType2::waitForOk2Go2Sx - Perform CrazyIvan46! retries = 7",
        b"/hQ7wZ2kR9mT4hQ7wZ2kR9mT4hQ7wZ2kR9mT4hQ7wZ2kR9mT4hQ7wZ2kR9mT4+x",
        b'<path d="M0 0h24v24H0z" fill="none" />',
        b"node: hQ7wZ2kR9mT4 is ready",
        b"digest: hQ7wZ2kR9mT4",
        b"peer: hQ7wZ2kR9mT4",
        b"<DigestValue>hQ7wZ2kR9mT4</DigestValue>",
        b"content: aGVsbG8sIHdvcmxkCmhlbGxvLCB3b3JsZAo=",
        b'{"name": "a", "trace": "hQ7wZ2kR9mT4"}',
        b"secret: ImagePullBackOff, secret: MyAppSecretName",
        b"peer public key hQ7wZ2kR9mT4hQ7wZ2kR9mT4",
        b"+ mv /tmp/tmp.hQ7wZ2kR9m /etc/x",
        b"+ oc get pod/etcd-7d9f8b6c5-x2k9q --request-id hQ7wZ2kR9mT4",
        b"+ podman rm -f 0d5f1c9e7a3b --cidfile=/run/app.ctr-id quay.io/a/b@sha256:0d5f1c9e7a3b0d5f1c9e7a3b",
        b"Bad activity token: android.os.BinderProxy@2bd79ce",
        b"undefined symbol: _ZN9__gnu_cxx18stdio_sync_filebufIwSt11char_traitsIwEE5uflowEv",
        b'{"function":"_ZNSt17_Function_handlerIFvvEZ4mainEUlvE_E9_M_invoke"}',
        b"postfix/smtp[1]: 4TwNdH5zwCz7fxV: status=sent (250 2.0.0 Ok: queued as 4TwNdH5zwCz7fxV)",
        b"message-id=<CAKu1rkDJCREmGWt+M2bTfgAP0LYhxGoW=Sus4Pbu7cWgA@mail.example.com>",
        b"An account was logged off.#015#012#011Security ID:#011#011S-1-5-18#015#012#011Name:#011x",
        b"* oO0OoO0OoO0Oo Redis is starting oO0OoO0OoO0Oo",
        b"InsertFile(parent_id=u'hQ7wZ2kR9mT4', tags=x)",
        b"requestId=navidrome-0/hQ7wZ2kR9mT4 responseSize=48",
        b"multipart/mixed; boundary=batch_hQ7wZ2kR9mT4",
        b"#    1 0x8D589AFA4DFAEEED85FFF5AA78E5FF6A  19.0000",
    ],
)
def test_name_or_digest_stays(line: bytes) -> None:
    assert redact(line, RULES) == line


def test_skipping_ordinary_words_changes_no_output(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line may be skipped only if reading it would find nothing, in each form that carries it."""
    chance = random.Random(34)
    signs = string.ascii_letters + string.digits + "!#$%^*+~?_/-"
    wrappings = [wrapping for wrapping in WRAPPINGS if wrapping.name in LIMITED]
    texts = []
    for line in LINES:
        alphabet, size = chance.choice(((ALNUM, 12), (ALNUM, 20), (signs, 14)))
        kind = Kind(line, random_text(size, alphabet), line.format)
        secret = kind.draw(chance)
        texts += [text for wrapping in wrappings if (text := wrapping.wrap(kind, secret)) is not None]
    data = [text.encode() for text in texts]
    skipped = [redact(text, RULES) for text in data]
    monkeypatch.setattr(first_pass.Patterns, "_ordinary_words", lambda *_: set())
    assert [redact(text, RULES) for text in data] == skipped


def test_random_letters_are_a_token_and_names_are_not() -> None:
    chance = random.Random(33)
    tokens = ["".join(chance.choice(string.ascii_letters) for _ in range(12)).encode() for _ in range(1000)]
    assert sum(map(TOKEN, tokens)) > 950
    words = [
        "".join(chance.choice(string.ascii_letters + string.digits) for _ in range(12)) for _ in range(2000)
    ]
    mixed = [
        word.encode()
        for word in words
        if not (word.isalpha() or word.lower() == word or word.upper() == word)
    ]
    assert sum(map(RANDOM, mixed)) > 0.97 * len(mixed)
    names = [
        b"isInt16Array",
        b"BigUInt64Array",
        b"readBigUInt64LE",
        b"Slf4jLog",
        b"pbkdf2Sync",
        b"DeepSkyBlue1",
    ]
    assert not any(map(RANDOM, names))


def test_kind_of_a_known_token_is_kept() -> None:
    text = b"token ghp_" + b"a1B2c3D4e5F6" * 3
    assert redact(text, RULES) == b"token <redacted:service-token>"
