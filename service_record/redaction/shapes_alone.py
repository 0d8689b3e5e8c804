"""Secrets that are known by themselves, wherever they stand: keys, hashes, and tokens of services. Pure."""

from typing import Final

from service_record.redaction import words
from service_record.redaction.shape import Shape, cores

PEM_BEGIN: Final = rb"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"

_ENCODED: Final = b"|".join(
    core for text in (b'"auths"', b'"auth":', b"PRIVATE KEY-----", b"client-key-data") for core in cores(text)
)
_CRYPT: Final = (
    rb"\\?\$(?:(?:1|apr1)\\?\$[./A-Za-z0-9]{1,8}\\?\$[./A-Za-z0-9]{22}"
    rb"|(?:5|6|sha1|md5)\\?\$(?:rounds=\d+\\?\$)?[./A-Za-z0-9]{1,64}\\?\$[./A-Za-z0-9]{22,}"
    rb"|2[abxy]?\\?\$\d\d\\?\$[./A-Za-z0-9]{53}|(?:y|gy|7)\\?\$[./A-Za-z0-9]{2,}\\?\$[./A-Za-z0-9$\\]{20,}"
    rb"|(?:argon2(?:id|i|d)|scrypt|pbkdf2[a-z0-9-]*)\\?\$[A-Za-z0-9=,./+$\\]{20,})"
)
"""As crypt(5) has them, and those of web servers; `$` may stand behind a backslash."""
_CRYPT_BEGIN: Final = (
    rb"\$(?:1|5|6|7|y|gy|apr1|sha1|md5|2[abxy]?|argon2(?:id|i|d)|scrypt|pbkdf2[a-z0-9-]*)\\?\$"
)
_SERVICES: Final = (
    rb"gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{22,}"
    rb"|gl(?:pat|dt|rt|ptt|cbt|ft|imt|agent|soat|oas)-[A-Za-z0-9_.-]{20,}"
    rb"|xox[abeoprs]-[A-Za-z0-9-]{10,}|xapp-[0-9]-[A-Za-z0-9-]{20,}|npm_[A-Za-z0-9]{36}|pypi-[A-Za-z0-9_-]{50,}"
    rb"|dckr_pat_[A-Za-z0-9_-]{20,}|hv[sbr]\.[A-Za-z0-9_-]{24,}|sk_(?:live|test)_[A-Za-z0-9]{20,}"
    rb"|SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}|sha256~[A-Za-z0-9_-]{40,}|AGE-SECRET-KEY-1[0-9A-Z]{50,}"
    rb"|dop_v1_[0-9a-f]{64}|AIza[0-9A-Za-z_-]{35}|ya29\.[0-9A-Za-z_-]{20,}|GOCSPX-[0-9A-Za-z_-]{20,}"
    rb"|[A-Za-z0-9_~.-]{3}8Q~[A-Za-z0-9_~.-]{31,34}"
)
_SERVICES_BEGIN: Final = (
    rb"\b(?:gh[pousr]_|github_pat_|gl(?:pat|dt|rt|ptt|cbt|ft|imt|agent|soat|oas)-|xox[abeoprs]-|xapp-|npm_|pypi-"
    rb"|dckr_pat_|hv[sbr]\.|sk_(?:live|test)_|SG\.|sha256~|AGE-SECRET-KEY-|dop_v1_|AIza|ya29\.|GOCSPX-)|8Q~"
)

KEYS: Final[tuple[Shape, ...]] = (
    Shape(
        "private-key",
        PEM_BEGIN + rb"(?:\\+[rn])*(?:(?:Proc-Type|DEK-Info):[^\\\n]*(?:\\+[rn])+)*([A-Za-z0-9+/=\\ \t]+)",
        words.is_body,
        trigger=PEM_BEGIN,
        is_certain=True,
    ),
    Shape(
        "private-key",
        rb"BEGIN(?:%20|\+)[A-Z0-9%+]{0,60}PRIVATE(?:%20|\+)KEY-{5}([A-Za-z0-9+/=%]+)",
        words.is_body,
        trigger=rb"PRIVATE(?:%20|\+)KEY-",
        is_certain=True,
    ),
    Shape(
        "encoded-secret",
        rb"([A-Za-z0-9+/_-]*(?:" + _ENCODED + rb")[A-Za-z0-9+/_=-]*)",
        words.is_anything,
        trigger=_ENCODED,
        is_certain=True,
    ),
    Shape(
        "pull-secret",
        rb"(?i:((?:%7B|\{)(?:%0D|%0A|%20|%09|\+)*%22auths%22[^\s\"'&]*))",
        words.is_anything,
        trigger=rb"(?i:%22auths%22)",
        is_certain=True,
    ),
    Shape(
        "registry-auth",
        rb'"auth\\*"[ \t]*:[ \t]*\\*"([A-Za-z0-9+/=_-]{6,})',
        words.is_credential,
        is_certain=True,
    ),
    Shape(
        "encryption-key",
        rb"\bsecret\\*[\"']?[ \t]{0,8}[:=][ \t]{0,8}\\*[\"']?([A-Za-z0-9+/]{21,86}={1,2})",
        words.is_key,
        trigger=rb"\bsecret\\*[\"']?[ \t]{0,8}[:=][ \t]{0,8}\\*[\"']?[A-Za-z0-9+/]{12}",
    ),
    Shape(
        "data-url",
        rb"(?i:\bdata:[a-z0-9.+/=;-]{0,100};base64(?:,|%2C|\\u002c)([A-Za-z0-9+/=_%-]{16,}))",
        words.is_anything,
        trigger=rb"(?i:;base64(?:,|%2C|\\u002c))",
    ),
)

HASHES: Final[tuple[Shape, ...]] = (
    Shape("password-hash", rb"(" + _CRYPT + rb")", words.is_anything, trigger=_CRYPT_BEGIN, is_certain=True),
    Shape(
        "password-hash",
        rb"\{(?:S|P)?(?:SHA|MD5|BKDF2)[A-Z0-9_-]*\}([A-Za-z0-9+/=$.]{20,})",
        trigger=rb"\{(?:S|P)?(?:SHA|MD5|BKDF2)[A-Z0-9_-]*\}[A-Za-z0-9]",
        is_certain=True,
    ),
    Shape(
        "password-hash",
        rb"grub\.pbkdf2\.sha512\.\d+\.([0-9A-Fa-f]{64,}\.[0-9A-Fa-f]{64,})",
        trigger=rb"grub\.pbkdf2\.",
        is_certain=True,
    ),
    Shape(
        "password-hash",
        rb"(?:^|\s|\")[a-z_][a-z0-9_-]{0,31}\$?:([^\s:!*\"]{10,}):\d{4,6}:\d*:\d*:\d*:\d*:\d*:",
        trigger=rb":\d{4,6}:\d*:\d*:\d*:\d*:\d*:",
    ),
)

TOKENS: Final[tuple[Shape, ...]] = (
    Shape(
        "jwt",
        rb"\b(eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?)",
        words.is_anything,
        trigger=rb"\beyJ[A-Za-z0-9_-]*\.",
        is_certain=True,
    ),
    Shape(
        "jwt",
        rb"\b(eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*){2}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+)",
        words.is_anything,
        trigger=rb"\beyJ[A-Za-z0-9_-]*\.",
    ),
    Shape(
        "service-token",
        rb"\b(" + _SERVICES + rb")",
        words.is_anything,
        trigger=_SERVICES_BEGIN,
        is_certain=True,
    ),
    Shape(
        "service-token",
        rb"hooks\.slack\.com/(?:services|workflows)/([A-Za-z0-9/_-]{20,})",
        trigger=rb"hooks\.slack\.com/",
        is_certain=True,
    ),
    Shape(
        "cloud-key",
        rb"\b((?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16})\b",
        words.is_anything,
        trigger=rb"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{4}",
        is_certain=True,
    ),
    Shape(
        "cloud-key",
        rb"(?:Account|[Ss]haredAccess)(?:Key|Signature)=([A-Za-z0-9+/=%&.-]{20,})",
        trigger=rb"(?:Account|[Ss]haredAccess)(?:Key|Signature)=",
        is_certain=True,
    ),
    Shape(
        "bootstrap-token",
        rb"(?:^|[^A-Za-z0-9._/-])([a-z0-9]{6}\.[a-z0-9]{16})(?:$|[^A-Za-z0-9._/-])",
        words.is_bootstrap_token,
    ),
    Shape(
        "kubeadmin-password",
        rb"\b([A-Za-z0-9]{5}(?:-[A-Za-z0-9]{5}){3})\b",
        words.is_kubeadmin_password,
    ),
)
