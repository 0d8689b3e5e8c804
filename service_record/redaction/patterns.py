"""The shapes of secrets that nobody told us: one row of a table each. Pure.

A shape is a pattern of RE2 within one line. Its groups are what is masked; what stands around them is what they
are known by, and stays. No pattern begins with a repetition: each is looked for at every place of a text anyway.
"""

import base64
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from service_record.redaction import words

_WORD: Final = (
    rb"""(?:'([^'\n]+)|\\+"([^"\\\n]+)|"((?:[^"\\\n]|\\[^\n])+)|([^\s"'\\,;|&<>()][^\s"'\\,;|&<>]*))"""
)
"""An argument of a command: in quotes of either kind, in quotes of JSON, or bare."""
_NEXT: Final = rb"""(?:\\*["'])?(?:[ \t]*[=,][ \t]*|[ \t]+)"""
"""Between one argument and the next, on a command line or in a list of JSON or Python."""
_OPTIONS: Final = rb"""[^\n]*?[\s"']"""
_IS: Final = rb"""\\*["']?[ \t]{0,8}(?::=|=>|[:=])[ \t]{0,8}"""
_VALUE: Final = (
    rb"""(?:\\"((?:[^"\\\n]|\\\\\\"|\\\\[^"\\\n])+)|\\{2,}"([^"\\\n]+)|"((?:[^"\\\n]|\\[^\n])+)"""
    rb"""|\\*'([^'\\\n]+)|([^\s"'\\,;&|<>(){}\[\]=][^\s"'\\]*))"""
)
"""A value behind its name: in JSON in JSON, in quotes, or bare."""

_PASSWORDS: Final = (
    rb"(?:passwords?|passwd|passphrase|pass[_-]?phrase|pwd?hash|rootpw|password[_-]?(?:hash|raw)|psk|pre[_-]?shared[_-]?key"
    rb"|wep[_-]?key[0-3]?|GOVC_PASSWORD|[a-z0-9]_pass|_pwd|db_pass)"
)
_TOKENS: Final = (
    rb"(?:token|pull[_-]?secret|(?:client|shared|app|webhook|consumer)[_-]?secret|secret[_-]?(?:access[_-]?)?key"
    rb"|api[_-]?key|access[_-]?key|signing[_-]?key|encryption[_-]?key|private[_-]?key|\btls\.key|client[_-]key[_-]data"
    rb"|ssh-privatekey|\.dockerconfigjson|\.dockercfg|account[_-]?key|shared[_-]?access[_-]?key"
    rb"|secret[_-]?token|auth[_-]?secret|sas[_-]?token|passcode|session[_-]?id)"
)


@dataclass(frozen=True, slots=True)
class Shape:
    """What a kind of secret looks like."""

    kind: str
    pattern: bytes
    check: Callable[[bytes], bool] = words.is_value
    """Whether what a group holds is a secret."""
    is_certain: bool = False
    """Never legitimate in what leaves a host: shipping is refused for it."""
    is_assigned: bool = False
    """A bare value behind a name: what follows a separator belongs to the next name."""
    trigger: bytes = b""
    """What to look for in a whole text when that is less than the pattern."""


def _cores(text: bytes) -> Iterator[bytes]:
    """Base64 of a text at its three alignments, without the characters it shares with its neighbours."""
    for before, hidden in enumerate((0, 2, 3)):
        yield base64.b64encode(bytes(before) + text)[hidden : 8 * (before + len(text)) // 6].replace(
            b"+", rb"\+"
        )


_ENCODED: Final = b"|".join(
    core
    for text in (b'"auths"', b'"auth":', b"PRIVATE KEY-----", b"client-key-data")
    for core in _cores(text)
)
_CRYPT: Final = (
    rb"\\?\$(?:(?:1|apr1)\\?\$[./A-Za-z0-9]{1,8}\\?\$[./A-Za-z0-9]{22}"
    rb"|(?:5|6|sha1|md5)\\?\$(?:rounds=\d+\\?\$)?[./A-Za-z0-9]{1,64}\\?\$[./A-Za-z0-9]{22,}"
    rb"|2[abxy]?\\?\$\d\d\\?\$[./A-Za-z0-9]{53}|(?:y|gy|7)\\?\$[./A-Za-z0-9]{2,}\\?\$[./A-Za-z0-9$\\]{20,}"
    rb"|(?:argon2(?:id|i|d)|scrypt|pbkdf2[a-z0-9-]*)\\?\$[A-Za-z0-9=,./+$\\]{20,})"
)
_SERVICE_TOKENS: Final = (
    rb"gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{22,}|gl(?:pat|dt|rt|ptt|cbt|ft|imt|agent|soat|oas)-[A-Za-z0-9_.-]{20,}"
    rb"|xox[abeoprs]-[A-Za-z0-9-]{10,}|xapp-[0-9]-[A-Za-z0-9-]{20,}|npm_[A-Za-z0-9]{36}|pypi-[A-Za-z0-9_-]{50,}"
    rb"|dckr_pat_[A-Za-z0-9_-]{20,}|hv[sbr]\.[A-Za-z0-9_-]{24,}|sk_(?:live|test)_[A-Za-z0-9]{20,}|SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"
    rb"|sha256~[A-Za-z0-9_-]{40,}|AGE-SECRET-KEY-1[0-9A-Z]{50,}|dop_v1_[0-9a-f]{64}|AIza[0-9A-Za-z_-]{35}"
    rb"|ya29\.[0-9A-Za-z_-]{20,}|GOCSPX-[0-9A-Za-z_-]{20,}|[A-Za-z0-9_~.-]{3}8Q~[A-Za-z0-9_~.-]{31,34}"
)

PEM_BEGIN: Final = rb"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"

SHAPES: Final[tuple[Shape, ...]] = (
    Shape(
        "private-key",
        PEM_BEGIN + rb"(?:\\+[rn])*(?:(?:Proc-Type|DEK-Info):[^\\\n]*(?:\\+[rn])+)*([A-Za-z0-9+/=\\ \t]+)",
        check=words.is_body,
        is_certain=True,
        trigger=PEM_BEGIN,
    ),
    Shape(
        "private-key",
        rb"(?:BEGIN|\bBEGIN)(?:%20|\+)[A-Z0-9%+]{0,60}PRIVATE(?:%20|\+)KEY-{5}([A-Za-z0-9+/=%]+)",
        check=words.is_body,
        is_certain=True,
    ),
    Shape(
        "encoded-secret",
        rb"([A-Za-z0-9+/_-]*(?:" + _ENCODED + rb")[A-Za-z0-9+/_=-]*)",
        words.is_anything,
        is_certain=True,
        trigger=_ENCODED,
    ),
    Shape(
        "pull-secret",
        rb"(?i:((?:%7B|\{)(?:%0D|%0A|%20|%09|\+)*%22auths%22[^\s\"'&]*))",
        words.is_anything,
        is_certain=True,
    ),
    Shape(
        "registry-auth",
        rb'"auth\\*"[ \t]*:[ \t]*\\*"([A-Za-z0-9+/=_-]{6,})',
        words.is_credential,
        is_certain=True,
    ),
    Shape(
        "jwt",
        rb"\b(eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?)",
        words.is_anything,
        is_certain=True,
    ),
    Shape(
        "jwt",
        rb"\b(eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*){2}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+)",
        words.is_anything,
    ),
    Shape("password-hash", rb"(" + _CRYPT + rb")", words.is_anything, is_certain=True),
    Shape(
        "password-hash", rb"\{(?:S|P)?(?:SHA|MD5|BKDF2)[A-Z0-9_-]*\}([A-Za-z0-9+/=$.]{20,})", is_certain=True
    ),
    Shape(
        "password-hash", rb"grub\.pbkdf2\.sha512\.\d+\.([0-9A-Fa-f]{64,}\.[0-9A-Fa-f]{64,})", is_certain=True
    ),
    Shape(
        "password-hash",
        rb"(?:^|\s|\")[a-z_][a-z0-9_-]{0,31}\$?:([^\s:!*\"]{10,}):\d{4,6}:\d*:\d*:\d*:\d*:\d*:",
    ),
    Shape("service-token", rb"\b(" + _SERVICE_TOKENS + rb")", words.is_anything, is_certain=True),
    Shape(
        "service-token", rb"hooks\.slack\.com/(?:services|workflows)/([A-Za-z0-9/_-]{20,})", is_certain=True
    ),
    Shape("cloud-key", rb"\b((?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16})\b", words.is_anything, is_certain=True),
    Shape(
        "cloud-key",
        rb"(?i:aws_?(?:secret_?(?:access_?)?key|session_?token))" + _IS + _VALUE,
        is_certain=True,
        is_assigned=True,
    ),
    Shape(
        "cloud-key",
        rb"(?:AccountKey|SharedAccessKey|SharedAccessSignature|sharedAccessKey)=([A-Za-z0-9+/=%&.-]{20,})",
        is_certain=True,
    ),
    Shape(
        "bootstrap-token",
        rb"(?:^|[^A-Za-z0-9._/-])([a-z0-9]{6}\.[a-z0-9]{16})(?:$|[^A-Za-z0-9._/-])",
        words.is_bootstrap_token,
    ),
    Shape("kubeadmin-password", rb"\b([A-Za-z0-9]{5}(?:-[A-Za-z0-9]{5}){3})\b", words.is_kubeadmin_password),
    Shape(
        "authorization",
        rb"(?i:authorization"
        + _IS
        + rb"\[?\\*[\"']?(?:(?:basic|bearer|token|negotiate|apikey|digest|aws4-hmac-sha256)[ \t]+)?([^\s\"'\\\]]{6,}))",
        words.is_token,
    ),
    Shape("authorization", rb"(?i:\bbearer[ \t]+([A-Za-z0-9._~+/=-]{12,}))", words.is_token),
    Shape("authorization", rb"(?i:\bbasic[ \t]+([A-Za-z0-9+/]{6,}={0,2}))", words.is_credential),
    Shape("authorization", rb"(?i:\bdigest[ \t][^\n]*?\bresponse=\"?([0-9a-f]{32,}))"),
    Shape("cookie", rb"(?i:cookie2?" + _IS + rb"\[?\\*[\"']?([A-Za-z0-9_.$-]+=[^\r\n\"'\\]+))"),
    Shape(
        "secret-header",
        rb"(?i:\bx-(?:secret-key|api-key|auth-key|auth-token|subject-token|vault-token|gitlab-token|amz-security-token|registry-auth|access-token|csrf-token)"
        + _IS
        + rb"\[?"
        + _VALUE
        + rb")",
    ),
    Shape("url-password", rb"(?i:[a-z0-9]://[^\s/:@\"'<>]*:([^\s/@\"'<>]+)@)"),
    Shape("url-password", rb"(?i:[a-z0-9]://[^\s/:@\"'<>]*:([^\s@\"'<>?#]+)@)"),
    Shape("url-password", rb"(?i:[a-z0-9]://([a-z0-9_-]{20,})@)", words.is_token),
    Shape("url-password", rb"(?i:[a-z0-9]%3A%2F%2F[a-z0-9._%-]*?%3A([a-z0-9._~!%*()-]+?)%40)"),
    Shape("url-password", rb"\biscsi:[^\s:@<]+:([^\s:@]+)[:@]"),
    Shape(
        "url-parameter",
        rb"(?i:[?&;][a-z0-9_.-]{0,40}(?:api[_-]?key|token|secret|password|passwd|signature)=([^\s&;\"'\\<>]+))",
    ),
    Shape("url-parameter", rb"(?i:[?&;](?:key|sig|auth|x-amz-credential)=([^\s&;\"'\\<>]+))", words.is_token),
    Shape("url-parameter", rb"(?i:/byapikey/([^\s/\"'\\<>]+))"),
    Shape(
        "command-password",
        rb"\b(?:ipmitool|ipmi[a-z-]+|racadm|ilorest|redfishtool|fence_[a-z]+)\b"
        + _OPTIONS
        + rb"-[pPkyY](?:"
        + _NEXT
        + rb")?"
        + _WORD,
    ),
    Shape("command-password", rb"\bsshpass\b" + _OPTIONS + rb"-p(?:" + _NEXT + rb")?" + _WORD),
    Shape(
        "command-password",
        rb"\bcurl\b"
        + _OPTIONS
        + rb"(?:-[a-zA-Z]*[uU]|--user|--proxy-user)(?:"
        + _NEXT
        + rb")?\\*[\"']?[^\s:\"'\\]*:([^\s\"'\\]+)",
    ),
    Shape("command-password", rb"--(?:src-|dest-)?creds" + _NEXT + rb"\\*[\"']?[^\s:\"'\\]+:([^\s\"'\\]+)"),
    Shape(
        "command-password",
        rb"\b(?:podman|docker|buildah|skopeo|oc|helm|nerdctl|crane|az)\b[^\n]*?\blogin\b"
        + _OPTIONS
        + rb"-p(?:"
        + _NEXT
        + rb")?"
        + _WORD,
    ),
    Shape("command-password", rb"\bldap[a-z]+\b" + _OPTIONS + rb"-w(?:" + _NEXT + rb")?" + _WORD),
    Shape(
        "command-password",
        rb"\bhtpasswd\b"
        + _OPTIONS
        + rb"-[a-zA-Z]*b[a-zA-Z]*[ \t]+(?:-\S+[ \t]+)*\S+[ \t]+(?:\S+[ \t]+)?"
        + _WORD
        + rb"[\"']?\s*$",
    ),
    Shape(
        "command-password",
        rb"\b(?:mysql|mysqldump|mariadb|sshpass|redis-cli)\b" + _OPTIONS + rb"-[pa]" + _WORD,
    ),
    Shape("command-password", rb"-pass(?:in|out)?" + _NEXT + rb"\\*[\"']?pass:([^\s\"'\\]+)"),
    Shape(
        "command-password",
        rb"\b(?:echo|printf)[ \t]+(?:-[neE]+[ \t]+|(?:'%s'|\"%s\"|%s)(?:\\n)?[ \t]+)?"
        + _WORD
        + rb"['\"]?[ \t]*\|[^\n]*?\b(?:cryptsetup|chpasswd|passwd|clevis|systemd-creds|sudo[ \t]+-S|kinit|[a-z-]*password-stdin|passwd-stdin|--stdin|key-file[= ]-)",
    ),
    Shape(
        "command-password",
        rb"\b(?:cryptsetup|chpasswd|passwd|clevis|password-stdin|kinit)\b[^\n]*?<<<[ \t]*" + _WORD,
    ),
    Shape(
        "command-password",
        rb"--[a-z0-9-]*(?:password|passwd|passphrase|api-key|secret-key|access-key|secret-access-key|client-secret|psk|token|credentials?)"
        + _NEXT
        + _WORD,
        words.is_password,
    ),
    Shape("password", rb"(?i:" + _PASSWORDS + rb")" + _IS + _VALUE, words.is_password, is_assigned=True),
    Shape(
        "password",
        rb"(?i:\b(?:password|passphrase)[ \t]+(?:is|was|of|set to)(?:[ \t]*:)?[ \t]+\\*[\"']([^\s\"'\\]+))",
        words.is_password,
    ),
    Shape(
        "password",
        rb"^\s*(?:-\s+)?(?i:[a-z0-9_.-]{0,60}" + _PASSWORDS + rb"):\s+([^\s\"'|>{\[][^\n]*?)\r?$",
    ),
    Shape(
        "password",
        rb"^[a-z0-9.-]{0,60}(?:password|passphrase|psk)[ \t]*=[ \t]*([^\s\"'|>{\[][^\n]*?)\r?$",
        words.is_phrase,
    ),
    Shape("psk", rb":?\s*PSK[ \t]+\"([^\"\n]+)\""),
    Shape("wireguard-key", rb"(?i:(?:private|preshared)[_-]?key" + _IS + rb"\\*[\"']?([A-Za-z0-9+/]{43}=))"),
    Shape("token", rb"(?i:" + _TOKENS + rb")" + _IS + _VALUE, words.is_token, is_assigned=True),
    Shape("encryption-key", rb"\bsecret" + _IS + rb"\\*[\"']?([A-Za-z0-9+/]{21,86}={1,2})", words.is_key),
    Shape("credential", rb"\bSetCredential(?:Encrypted)?=[^:\s<]+:\s*([^\n]+?)\r?$"),
    Shape(
        "data-url",
        rb"(?i:\bdata:[a-z0-9.+/=;-]{0,100};base64(?:,|%2C|\\u002c)([A-Za-z0-9+/=_%-]{16,}))",
        words.is_anything,
    ),
)
