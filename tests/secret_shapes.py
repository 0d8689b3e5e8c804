"""Texts with made-up secrets in every shape of docs/project/redaction.md.

Each line of `secret_shapes.txt` has the name of a shape and a text, which marks «secrets» and ⟦text to keep⟧.
`{14}` stands for 14 random letters and digits, `{40:URL}` for 40 characters of an alphabet below. Encoded
secrets are generated here. So no file of this repository looks like a secret to a scanner.
"""

# ruff: noqa: UP031 - the texts are full of braces

import base64
import json
import re
import string
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from testing.made_up import (
    ALPHANUMERIC,
    BASE64,
    CRYPT,
    HEX,
    LOWER,
    RANDOM,
    URL,
    draw,
    in_base64,
    pem,
    pull_secret,
)

ALPHABETS: Final = {
    "": ALPHANUMERIC, "BASE64": BASE64, "CRYPT": CRYPT, "HEX": HEX, "LOWER": LOWER, "URL": URL,
    "DIGITS": string.digits, "UPPER_HEX": "ABCDEF0123456789", "BASE32": "ABCDEFGHIJ234567",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Example:
    """A text with secrets in it."""

    name: str
    text: str
    secrets: tuple[str, ...]
    kept: str = ""
    """The part of the text that redaction must keep."""

    def __post_init__(self) -> None:
        assert all(secret in self.text for secret in self.secrets), self.name


def _make_jwt() -> str:
    parts = ('{"alg":"RS256","kid":"%s"}' % draw(12), '{"iss":"assisted","sub":"%s"}' % draw(20))
    head, body = (base64.urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in parts)
    return f"{head}.{body}.{draw(86, URL)}"


def _read_examples() -> Iterator[Example]:
    """Yield the examples of `secret_shapes.txt`."""
    for line in Path(__file__).with_suffix(".txt").read_text().splitlines():
        name, _, text = line.partition(" | ")
        text = re.sub(
            r"\{(\d+):?(\w*)\}",
            lambda word: draw(int(word[1]), ALPHABETS[word[2]]),
            text.replace("{JWT}", _make_jwt()),
        )
        text = text.replace("\\n", "\n").replace("\\t", "\t")
        kept = "".join(re.findall("⟦(.*?)⟧", text))
        yield Example(name, re.sub("[«»⟦⟧]", "", text), tuple(re.findall("«(.*?)»", text)), kept)


def _make_encoded_secrets() -> Iterator[Example]:
    """Yield examples with encoded or long secrets."""
    basic, root, proxy = (in_base64(f"{user}:{draw(12)}") for user in ("admin", "root", "proxy"))
    yield Example("basic-auth header", f"> Authorization: Basic {basic}", (basic,), "Authorization: Basic")
    go = f"map[Accept:[*/*] Authorization:[Basic {root}]]"
    yield Example("basic-auth header, in Go's map", go, (root,), "Accept:[*/*]")
    yield Example("proxy authorization", f"Proxy-Authorization: Basic {proxy}", (proxy,))
    word = draw(15)
    prompt = f"Enter passphrase for /dev/vda4: {word}\npassphrase: {word}"
    yield Example("LUKS passphrase prompt", prompt, (), "/dev/vda4")
    calvin = (
        "      bmc:\n        address: redfish://10.0.0.7\n        username: root\n        password: calvin"
    )
    yield Example("BMC, install-config", calvin, ("calvin",), "username: root")
    keys = [base64.b64encode(RANDOM.randbytes(32)).decode() for _ in range(2)]
    etcd = f"  - aescbc:\n      keys:\n      - name: key1\n        secret: {keys[0]}"
    yield Example("etcd encryption key", etcd, (keys[0],), "name: key1")
    yield Example(
        "etcd encryption key, JSON", f'{{"name":"1","secret":"{keys[1]}"}}', (keys[1],), '"name":"1"'
    )
    head, data = '"source": "data:text/plain;charset=utf-8;base64,', in_base64(draw(60))
    yield Example("data URL", f'{head}{data}"', (data,), head)


def _make_pull_secrets() -> Iterator[Example]:
    secret, auths = pull_secret()
    yield Example("pull secret", secret, auths, '"auths"')
    nested = json.dumps({"pullSecret": secret, "name": "ocp"})
    yield Example("pull secret, JSON in JSON", nested, auths, '"name": "ocp"')
    encoded, quoted = in_base64(secret), urllib.parse.quote(secret, safe="")
    yield Example("base64 of pull secret", f"wrote {encoded} to disk", (encoded,), "to disk")
    lines = base64.encodebytes(secret.encode()).decode().split()
    wrapped = "\n  ".join(["pull-secret: |", *lines])
    yield Example("base64 of pull secret, wrapped", f"{wrapped}\nnext: line", (*lines,), "next: line")
    yield Example("URL-encoded pull secret", f"POST /v2?pull_secret={quoted} 201", (quoted,), "201")


def _make_private_keys() -> Iterator[Example]:
    for kind in ("RSA ", "", "EC ", "OPENSSH ", "ENCRYPTED "):
        block, lines = pem(f"{kind}PRIVATE KEY")
        yield Example(f"PEM: {kind}", f"before\n{block}\nafter", lines, f"-----BEGIN {kind}PRIVATE KEY-----")
    block, lines = pem()
    yield Example("PEM, JSON-escaped", json.dumps({"tls.key": block, "a": 1}), lines, '"a": 1')
    yield Example("PEM, JSON in JSON", json.dumps({"x": json.dumps({"key": block})}), lines)
    indented = "\n".join(f"    {line}" for line in block.splitlines())
    yield Example("PEM, indented", f"key: |\n{indented}\ncert: x", lines, "cert: x")
    prefix = "Nov 21 01:05:10 master-0 bootkube.sh[2117]: "
    journal = "\n".join(prefix + line for line in [*block.splitlines(), "done"])
    yield Example("PEM, in a journal", journal, lines, f"{prefix}done")
    encoded, token = in_base64(block), draw(40)
    yield Example("PEM, base64", f"client-key: {encoded}", (encoded,))
    quoted = tuple(urllib.parse.quote(line) for line in lines)
    yield Example("PEM, URL-encoded", f"key={urllib.parse.quote(block)}", quoted)
    user = f"users:\n- name: admin\n  user:\n    client-key-data: {encoded}\n    token: {token}"
    yield Example("kubeconfig", user, (encoded, token))
    escaped = block.replace("\n", "\\n")
    yield Example("service account", f'"private_key": "{escaped}"', lines)


EXAMPLES: Final = [*_read_examples(), *_make_encoded_secrets(), *_make_pull_secrets(), *_make_private_keys()]
"""An example for every shape, the same in every run."""
