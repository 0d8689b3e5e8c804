"""Secrets known by what stands before them: a header, a part of a URL, a name and `=` or `:`. Pure."""

from typing import Final

from service_record.redaction import words
from service_record.redaction.shape import IS, VALUE, Shape

_PASSWORDS: Final = (
    rb"(?:passwords?|passwd|passphrase|pass[_-]phrase|pwd?hash|rootpw|password[_-]?(?:hash|raw)|psk"
    rb"|pre[_-]?shared[_-]?key|wep[_-]?key[0-3]?|[a-z0-9]_pass|_pwd)"
)
_TOKENS: Final = (
    rb"(?:token|pull[_-]?secret|(?:client|shared|app|webhook|consumer|auth)[_-]?secret|secret[_-]?token|passcode"
    rb"|(?:secret|api|access|signing|encryption|private|account|secret[_-]?access|shared[_-]?access)[_-]?key"
    rb"|\btls\.key|client[_-]key[_-]data|ssh-privatekey|\.dockerconfigjson|\.dockercfg|session[_-]?id)"
)
_SCHEMES: Final = rb"(?:(?:basic|bearer|token|negotiate|apikey|digest|aws4-hmac-sha256)[ \t]+)?"
_HEADERS: Final = (
    rb"(?:secret-key|api-key|auth-key|registry-auth"
    rb"|(?:auth|subject|vault|gitlab|amz-security|access|csrf)-token)"
)
_PARAMETERS: Final = rb"(?:api[_-]?key|token|secret|password|passwd|signature)"
_SHORT_PARAMETERS: Final = rb"(?:key|sig|auth|x-amz-credential)"

HEADERS: Final[tuple[Shape, ...]] = (
    Shape(
        "authorization",
        rb"(?i:authorization" + IS + rb"\[?\\*[\"']?" + _SCHEMES + rb"([^\s\"'\\\]]{6,}))",
        words.is_token,
        trigger=rb"(?i:authorization" + IS + rb"\S)",
    ),
    Shape("authorization", rb"(?i:\bbearer[ \t]+([A-Za-z0-9._~+/=-]{12,}))", words.is_token),
    Shape("authorization", rb"(?i:\bbasic[ \t]+([A-Za-z0-9+/]{6,}={0,2}))", words.is_credential),
    Shape(
        "authorization",
        rb"(?i:\bdigest[ \t][^\n]*?\bresponse=\"?([0-9a-f]{32,}))",
        trigger=rb"(?i:\bresponse=)",
    ),
    Shape(
        "cookie",
        rb"(?i:cookie2?" + IS + rb"\[?\\*[\"']?([A-Za-z0-9_.$-]+=[^\r\n\"'\\]+))",
        trigger=rb"(?i:cookie2?" + IS + rb"\[?\\*[\"']?[A-Za-z0-9_.$-]+=)",
    ),
    Shape(
        "secret-header",
        rb"(?i:\bx-" + _HEADERS + IS + rb"\[?" + VALUE + rb")",
        trigger=rb"(?i:\bx-" + _HEADERS + IS + rb")",
    ),
)

URLS: Final[tuple[Shape, ...]] = (
    Shape("url-password", rb"(?i:[a-z0-9]://[^\s/:@\"'<>]*:([^\s/@\"'<>]+)@)"),
    Shape("url-password", rb"(?i:[a-z0-9]://[^\s/:@\"'<>]*:([^\s@\"'<>?#]+)@)"),
    Shape(
        "url-password",
        rb"(?i:[a-z0-9]://([a-z0-9_-]{20,})@)",
        words.is_token,
        trigger=rb"://[A-Za-z0-9_-]+@",
    ),
    Shape(
        "url-password",
        rb"(?i:[a-z0-9]%3A%2F%2F[a-z0-9._%-]*?%3A([a-z0-9._~!%*()-]+?)%40)",
        trigger=rb"(?i:%3A%2F%2F)",
    ),
    Shape("url-password", rb"\biscsi:[^\s:@<]+:([^\s:@]+)[:@]"),
    Shape(
        "url-parameter",
        rb"(?i:[?&;][a-z0-9_.-]{0,40}" + _PARAMETERS + rb"=([^\s&;\"'\\<>]+))",
        trigger=rb"[?&;](?i:[a-z0-9_.-]*" + _PARAMETERS + rb"=)",
    ),
    Shape("url-parameter", rb"(?i:[?&;]" + _SHORT_PARAMETERS + rb"=([^\s&;\"'\\<>]+))", words.is_token),
    Shape("url-parameter", rb"(?i:/byapikey/([^\s/\"'\\<>]+))"),
)

_PASSWORD_IS: Final = rb"(?i:" + _PASSWORDS + rb")" + IS + rb"\S"

NAMES: Final[tuple[Shape, ...]] = (
    Shape(
        "password",
        rb"(?i:" + _PASSWORDS + rb")" + IS + VALUE,
        words.is_password,
        trigger=_PASSWORD_IS,
        is_assigned=True,
    ),
    Shape(
        "password",
        rb"(?i:\b(?:password|passphrase)[ \t]+(?:is|was|of|set to)(?:[ \t]*:)?[ \t]+\\*[\"']([^\s\"'\\]+))",
        words.is_password,
    ),
    Shape(
        "password",
        rb"^\s*(?:-\s+)?(?i:[a-z0-9_.-]{0,60}" + _PASSWORDS + rb"):\s+([^\s\"'|>{\[][^\n]*?)\r?$",
        words.is_password,
        trigger=rb"(?i:" + _PASSWORDS + rb"):\s",
    ),
    Shape(
        "password",
        rb"^[a-z0-9.-]{0,60}(?:password|passphrase|psk)[ \t]*=[ \t]*([^\s\"'|>{\[][^\n]*?)\r?$",
        words.is_phrase,
        trigger=rb"(?:password|passphrase|psk)[ \t]*=",
    ),
    Shape("psk", rb"\bPSK[ \t]+\"([^\"\n]+)\""),
    Shape(
        "wireguard-key",
        rb"(?i:(?:private|preshared)[_-]?key" + IS + rb"\\*[\"']?([A-Za-z0-9+/]{43}=))",
        trigger=rb"(?i:(?:private|preshared)[_-]?key" + IS + rb")",
    ),
    Shape(
        "cloud-key",
        rb"(?i:aws_?(?:secret_?(?:access_?)?key|session_?token))" + IS + VALUE,
        trigger=rb"(?i:aws_?(?:secret|session)_?(?:access_?)?(?:key|token))",
        is_certain=True,
        is_assigned=True,
    ),
    Shape(
        "token",
        rb"(?i:" + _TOKENS + rb")" + IS + VALUE,
        words.is_token,
        trigger=rb"(?i:" + _TOKENS + rb")" + IS + rb"[^\s,;&|<>()\[\]=]",
        is_assigned=True,
    ),
    Shape(
        "credential", rb"\bSetCredential(?:Encrypted)?=[^:\s<]+:\s*([^\n]+?)\r?$", trigger=rb"\bSetCredential"
    ),
)
