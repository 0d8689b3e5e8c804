"""Secrets among the arguments of commands, as `set -x`, `ps`, audit and sudo show them. Pure."""

from typing import Final

from service_record.redaction import words
from service_record.redaction.shape import AT_ONCE, NEXT, OPTIONS, WORD, Shape

_BMC: Final = rb"\b(?:ipmitool|ipmi[a-z-]+|racadm|ilorest|redfishtool|fence_[a-z]+)\b"
_LDAP: Final = rb"\bldap(?:search|modify|add|delete|passwd|whoami|compare|modrdn|exop|vi)\b"
_DATABASES: Final = rb"\b(?:mysql|mysqladmin|mysqldump|mariadb|redis-cli)\b"
_REGISTRIES: Final = rb"\b(?:podman|docker|buildah|skopeo|oc|helm|nerdctl|crane|az)\b[^\n]*?\blogin\b"
_USER: Final = rb"\\*[\"']?[^\s:\"'\\]*:([^\s\"'\\]+)"
_READERS: Final = (
    rb"(?:cryptsetup|chpasswd|passwd|clevis|systemd-creds|sudo[ \t]+-S|kinit"
    rb"|password-stdin|--stdin|key-file[= ]-)"
)
_FLAGS: Final = (
    rb"--[a-z0-9-]*(?:password|passwd|passphrase|psk|token|credentials?"
    rb"|api-key|secret-key|access-key|client-secret)"
)

COMMANDS: Final[tuple[Shape, ...]] = (
    Shape("command-password", _BMC + OPTIONS + rb"-[pPkyY]" + AT_ONCE + WORD, trigger=_BMC),
    Shape("command-password", rb"\bsshpass\b" + OPTIONS + rb"-p" + AT_ONCE + WORD, trigger=rb"\bsshpass\b"),
    Shape(
        "command-password",
        rb"\bcurl\b" + OPTIONS + rb"(?:-[a-zA-Z]*[uU]|--user|--proxy-user)" + AT_ONCE + _USER,
        trigger=rb"\bcurl\b",
    ),
    Shape("command-password", rb"--(?:src-|dest-)?creds" + NEXT + _USER, trigger=rb"--(?:src-|dest-)?creds"),
    Shape("command-password", _REGISTRIES + OPTIONS + rb"-p" + AT_ONCE + WORD, trigger=rb"\blogin\b"),
    Shape("command-password", _LDAP + OPTIONS + rb"-w" + AT_ONCE + WORD, trigger=_LDAP),
    Shape("command-password", _DATABASES + OPTIONS + rb"-[pa]" + WORD, trigger=_DATABASES),
    Shape(
        "command-password",
        rb"\bhtpasswd\b"
        + OPTIONS
        + rb"-[a-zA-Z]*b[a-zA-Z]*[ \t]+(?:-\S+[ \t]+)*\S+[ \t]+(?:\S+[ \t]+)?"
        + WORD
        + rb"[\"']?\s*$",
        trigger=rb"\bhtpasswd\b",
    ),
    Shape(
        "command-password",
        rb"-pass(?:in|out)?" + NEXT + rb"\\*[\"']?pass:([^\s\"'\\]+)",
        trigger=rb"\bpass:",
    ),
    Shape(
        "command-password",
        rb"\b(?:echo|printf)[ \t]+(?:-[neE]+[ \t]+|(?:'%s'|\"%s\"|%s)(?:\\n)?[ \t]+)?"
        + WORD
        + rb"['\"]?[ \t]*\|[^\n]*?"
        + _READERS,
        trigger=rb"\b(?:echo|printf)[ \t]",
    ),
    Shape("command-password", _READERS + rb"\b[^\n]*?<<<[ \t]*" + WORD, trigger=rb"<<<"),
    Shape(
        "command-password",
        _FLAGS + NEXT + WORD,
        words.is_password,
        trigger=_FLAGS + rb"(?:\\*[\"'])?[ \t=,]",
    ),
)
