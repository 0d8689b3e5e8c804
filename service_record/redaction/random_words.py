"""Find random words in the places of credentials. Pure.

No name says that these words are secret, only their letters and the text around them.
"""

import re
from collections.abc import Iterator
from typing import Final

from service_record.redaction import ordinary_words, types
from service_record.redaction.syntax import prefix_end
from service_record.redaction.types import MASK_BEGIN, Found, blank_out, is_in_mask

PUBLIC_NAME: Final = re.compile(
    rb"(?i:(?:(?:public|pub|host|known|authorized|verification|verify"
    rb"|cache|partition|primary|foreign|sort|group|object|row|record|lock|map|index|dedup|routing|registry|idempotency)"
    rb"[ _.-]?keys?|(?:token|key)[_.-]?id)"
    rb"""(?:["'`>\]\s:=?,({-]|string|base64)*$)"""
)
"""Matches names whose values are not secret although they end in `key` or `id`: `public_key`, `token_id`."""
ADDRESS: Final = re.compile(rb"[A-Za-z0-9_.+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+")
_MAX_NAME_BYTES: Final = 64
CREDENTIAL: Final = "credential"
"""The kind of a random word near a word about credentials."""
_MIX: Final = (
    rb"(?:[a-z][0-9]{1,4}[A-Z]|[A-Z][0-9]{1,4}[a-z]|[0-9][a-z]{1,4}[A-Z]|[0-9][A-Z]{1,4}[a-z]"
    rb"|[a-z][A-Z]{1,4}[0-9]|[A-Z][a-z]{1,4}[0-9])"
)
SCRAMBLED: Final = _MIX + rb"[A-Za-z0-9]{4}|[A-Za-z0-9]{4}" + _MIX
"""Matches in 99 % of all random words of 12 letters and digits, and in one of a hundred lines of logs."""
SIGNED: Final = rb"[0-9][!#$^*?]+(?:[\s\"'`,;)\\<&%]|$)|[a-z][!#$^*?][0-9]"
"""Matches in passwords that people make up of a word, a number and a sign, and seldom in logs."""
_SIGNED_WORD: Final = re.compile(
    rb"""(?:^|(?<=[\s"'`=:,(%]))[A-Za-z0-9!#$^*?+~_.@-]{8,}(?=[\s"'`,;)\\<&]|\Z)"""
)
_HAS_SIGNED: Final = types.Finder(b"(?m)" + SIGNED)
_ABOUT: Final = (
    rb"(?i:pass|pwd|phrase|secret|token|cred|log[io]n|auth|cookie|psk|unseal|salt|crypt(?:[^o]|$)|private|user"
    rb"|account|enrol|ticket|license|community|radius|tacacs|chap|vpn|wpa|wifi|cifs|ldap|ftp|imap|pop3|smtp|vnc"
    rb"|ipmi|drac|key(?:[^bfmw]|$)|sudo|kinit|connection[ _-]?string|obscur|proxy"
    rb"|(?:^|[^a-z])(?:pw|otp|smb|rdp|bmc|bind|join)"
    rb"|(?:^|[^a-z])(?:admin|attach|connect|connecting|inline_string)(?:[^a-z0-9-]|$)|(?:^|[^a-z])eap[^a-z]|getconnection|sign\(|[a-z]:(?:host|server|dbname)="
    rb"|-api[\"']?:)|Exec[A-Z][A-Za-z]+=|COMMAND=|\bCMD \(|\bRUN "
    rb"|(?:^|[\s\"'])(?:--?[A-Za-z]|/(?:p|w|k|a|u|rp|pw|P|W|K|A|U)(?:[\s:=]|$))"
)
_ABOUT_CREDENTIALS: Final = types.Finder(_ABOUT)
_SCRAMBLED_WORD: Final = re.compile(
    rb"""(?:^|(?<=[\0-\x20"'`=:,%>(\[{|@;/]))[A-Za-z0-9!#$%^*+~?][A-Za-z0-9!#$%^*+~?_./-]{6,}[A-Za-z0-9!#$%^*+~?]={0,2}"""
    rb"""(?=[\0-\x20"'`,;)\]}<&@|\\]|/>|[.]?(?:\s|\Z))"""
)
_LOOK_AHEAD_BYTES: Final = 4
"""At most `==` and `. ` follow a word."""
_EVIDENCE_NAME: Final = re.compile(
    rb"(?:(?<![A-Za-z])(?i:hash|digest|fingerprint|thumbprint|sha[0-9]*|md[0-9]|(?:check)?sum|u?u?id|etag|commit|rev"
    rb"|revision|serial|model|version|build|trace|span|request|message|image|cipher|algorithm)"
    rb"|(?<=[a-z])(?:Hash|Digest|Fingerprint|Thumbprint|Sha[0-9]*|Sum|I[dD]|Revision|Version))"
    rb"s?[\"'`)\]]*(?:[ \t]*[=:][ \t]*|[ \t]+)[\"'`]?\Z"
)
"""Matches the name of a random value that is evidence, such as a digest."""
_ENDS_OF_WORDS: Final = re.compile(rb"""[\0-\x20"'`=,(\[{|;<>]""")
_BEFORE: Final = (
    rb"""(?:[\s"']\*[\"']?[ \t]+[\"']?"""  # chap-secrets: CLIENT * SECRET
    rb"""|(?:=["']?[a-z][a-z0-9_.-]*:|[\s"'=][a-z][a-z0-9_.-]{2,}/)"""  # NAME=USER:PASSWORD, USER/PASSWORD
    rb"""|^[\s\"']*\"[a-z][a-z0-9_.-]*\"[ \t]+\""""  # userlist.txt: "USER" "PASSWORD"
    rb"""|\b(?:echo|printf)[ \t]+(?:-[neE]+[ \t]+)?["']?"""  # echo PASSWORD | COMMAND
    # HOST USER PASSWORD
    rb"""|(?:(?:[0-9]{1,3}\.){3}[0-9]{1,3}(?::[0-9]+)?|[a-z]+://[^\s/"']+/?)[ \t]+"""
    rb"""(?:[^\s="':]+[ \t]+){0,2})"""
)
_BEFORE_CREDENTIAL: Final = re.compile(_BEFORE + rb"\Z")
TRACE: Final = b"+ "
"""The end of the prefix of a command that a shell traces."""
_PLACE: Final = (
    _ABOUT + rb"|" + _BEFORE + rb"|[A-Za-z0-9_.-][\"']?(?:[ \t]*[:=][ \t]*|[ \t])[^\s]+[ \t\r]*$|>[^\s<>]+</"
    rb"|(?:^|[ \t=])\++ |\"[ \t]+\"|[:/%][A-Za-z0-9!#$%^*+~?_/=-]+@|" + MASK_BEGIN
)
"""Matches in each line in which `find_scrambled_words` finds something.

It removes masks, and what remains may speak of credentials. Two words in quotes may follow a logger's prefix.
"""
_PARTS: Final = (
    rb"[\\%\x1b]|\"'\"|&(?:#|[a-z]{2,5};)|#(?:0[0-3][0-7]|177)|\^[\[IMJ]"
    rb"|[?&][A-Za-z0-9_.\[\]-]+=[^\s&\"'<>#]*\+|[\[{][ \t]*[\"'{\[]|EXECVE"
)
"""Matches in each line with escapes, JSON or texts that `quoted_parts` finds."""
_HAS_PARTS: Final = types.Finder(_PARTS)
HAS_SIGN: Final = types.Finder(rb"(?m)" + _PLACE + rb"|" + _PARTS + rb"|(?:^|[ \t])[\"}\]]")
"""Matches in each line that `may_have_credential` accepts. The rest of JSON may follow a logger's prefix."""
_REST_OF_JSON: Final = (b'"', b"}", b"]")
"""The first character of a line that continues the JSON of the lines above."""
_ANY_MASK: Final = re.compile(MASK_BEGIN + rb"[a-z0-9-]*>")
_USER: Final = re.compile(rb"[a-z][a-z0-9_.-]{2,31}/(?![^/]*[/+=])")
_AFTER_CREDENTIAL: Final = re.compile(rb"""["']?(?:[ \t]+[0-9*]{1,4})?[ \t]*['"]?(?:[|<\\"'\s;)]|>|\Z)""")


_MIN_BASE64_BYTES: Final = 24
"""A word of this size after a slash is base64 that begins with it. A shorter one is a path."""


def may_have_credential(line: bytes) -> bool:
    """Return False if a line certainly has no random word in the place of a credential.

    Escapes and JSON contain texts of their own, which only reading the line finds.
    """
    if not ordinary_words.possible_scrambled_words(line) and _HAS_SIGNED.find(line) is None:
        return False
    start = prefix_end(line)
    text = line[start:]
    if _HAS_PARTS.find(line) is not None or text.lstrip(b" \t").startswith(_REST_OF_JSON):
        return True
    return next(find_scrambled_words(text, is_command=line.endswith(TRACE, 0, start)), None) is not None


def find_scrambled_words(text: bytes, *, is_command: bool) -> Iterator[Found]:
    """Yield the random words of a command or of a line that speaks of credentials, and those in the place of
    a password.

    Programs without number take passwords, and most of their options and files are in no list. But words of
    random letters are rare in logs, except digests and the like, whose names say so.
    """
    words = [
        span
        for first, last in ordinary_words.possible_scrambled_words(text)
        # Not the rest of the line, but as much of it as the pattern looks ahead.
        for word in _SCRAMBLED_WORD.finditer(text, first, last + _LOOK_AHEAD_BYTES)
        for span in _without_user(word)
    ]
    if _HAS_SIGNED.find(text) is not None:
        signed = (word for word in _SIGNED_WORD.finditer(text) if ordinary_words.is_password_like(word[0]))
        words += [word.span() for word in signed if ADDRESS.fullmatch(word[0]) is None]
        words.sort()
    if not words:
        return
    # Neither a random word nor the kind in a mask speaks of credentials.
    is_about = is_command or _ABOUT_CREDENTIALS.find(_ANY_MASK.sub(b"", blank_out(text, words))) is not None
    for start, end in words:
        before = text[max(0, start - _MAX_NAME_BYTES) : start]
        # `user:Ab1cD2eF@host`, but not the id of a message, `1234.Ab1cD2eF@host`.
        is_userinfo = (
            before.endswith((b":", b"/", b"%"))
            and text.startswith(b"@", end)
            and text.find(b".", start, end) < 0
        )
        if not (
            is_about
            or is_userinfo
            or _is_sole_value(text, start, end)
            or (_BEFORE_CREDENTIAL.search(before) and _AFTER_CREDENTIAL.match(text, end))
        ):
            continue
        head = _ENDS_OF_WORDS.split(before)[-1]
        is_path = not head.endswith(b":") and (
            (head.startswith((b"/", b".", b"~")) and (len(head) > 1 or end - start < _MIN_BASE64_BYTES))
            or head.count(b"/") > 1
        )
        is_evidence = _EVIDENCE_NAME.search(before) or PUBLIC_NAME.search(before)
        if not (is_path or is_in_mask(text, start) or is_evidence):
            yield start, end, CREDENTIAL


def _is_sole_value(text: bytes, start: int, end: int) -> bool:
    """Return True if a line is only a name and this value, as in YAML, INI and the headers of mail.

    Random words in such places are credentials much more often than in messages.
    """
    return (
        start <= _MAX_NAME_BYTES
        and end - start <= _MAX_SOLE_BYTES
        and _END_OF_SETTING.match(text, end) is not None
        and (not text[end - 1 : end].isalnum() or ordinary_words.is_scrambled(text[start:end]))
        and (before := _BEFORE_SETTING.fullmatch(text, 0, start)) is not None
        and _NAMED_THING.search(before[before.lastindex or 0]) is None
    )


_MAX_SOLE_BYTES: Final = 128
"""A longer value is a signature, a certificate or an encoded file rather than a key."""
_BEFORE_SETTING: Final = re.compile(
    rb"[ \t#;>-]*(?:<([A-Za-z_][A-Za-z0-9_.:-]*)>"
    rb"|[\"']?([A-Za-z_][A-Za-z0-9_.-]*)[\"']?(?:[ \t]*[:=][ \t]*|[ \t]+)[\"']?(?:[a-z][a-z0-9_.-]*:)?)"
)
_END_OF_SETTING: Final = re.compile(rb"(?:[\"',;]{0,2}|</[^<>]*>)[ \t\r]*\Z")
_NAMED_THING: Final = re.compile(
    rb"(?i:name|host|file|path|dir|type|class|title|label|ref|public|pub|peer|(?:cipher|digest|signature)value)\Z"
)
"""Matches names of settings whose values are names, public keys, digests or encrypted."""


def _without_user(word: re.Match[bytes]) -> list[tuple[int, int]]:
    """Return the span of a random word, without the user in `USER/PASSWORD`; no span for other words."""
    user = _USER.match(word[0])
    if user is not None and ordinary_words.is_scrambled(word[0][user.end() :]):
        return [(word.start() + user.end(), word.end())]
    return [word.span()] if ordinary_words.is_scrambled(word[0]) else []


LEAVES_OF_SETTING: Final = 2
"""A key and its value, alone in a line as in a file of settings. Messages mostly have several."""


def is_credential(name: bytes, value: bytes, *, is_setting: bool) -> bool:
    """Return True if a value in JSON is a random word, and its name speaks of credentials or is a setting."""
    return (
        _SCRAMBLED_WORD.fullmatch(value) is not None
        and ordinary_words.is_scrambled(value)
        and (
            _ABOUT_CREDENTIALS.find(name) is not None
            or (is_setting and len(value) <= _MAX_SOLE_BYTES and _NAMED_THING.search(name) is None)
        )
        and _EVIDENCE_NAME.search(name + b"=") is None
        and PUBLIC_NAME.search(name) is None
    )
