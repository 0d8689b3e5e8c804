"""Lines with made-up secrets in every shape that docs/redaction.md names, and what of each must not be left.

Secrets are put together here, so that nothing in this file looks like one to a scanner.
"""

# ruff: noqa: E501, UP031, PLR0915 - a line of a log is as long as it is, and there are many

import base64
import json
import string
import urllib.parse
from dataclasses import dataclass
from typing import Final

from testing.made_up import BASE64, CRYPT, HEX, LOWER, RANDOM, URL, draw, in_base64, pem, pull_secret


@dataclass(frozen=True, slots=True)
class Example:
    """A text with secrets in it."""

    name: str
    text: str
    secrets: tuple[str, ...]
    kept: str = ""
    """Of the text, what has to stay."""


def _jwt() -> str:
    parts = ('{"alg":"RS256","kid":"%s"}' % draw(12), '{"iss":"assisted","sub":"%s"}' % draw(20))
    head, body = (base64.urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in parts)
    return f"{head}.{body}.{draw(86, URL)}"


def _examples() -> list[Example]:
    rows: list[Example] = []

    def add(name: str, text: str, *secrets: str, kept: str = "") -> None:
        assert all(secret in text for secret in secrets), name
        rows.append(Example(name, text, secrets, kept))

    word = draw(14)
    add(
        "basic-auth header",
        f"> Authorization: Basic {(auth := in_base64(f'admin:{word}'))}",
        auth,
        kept="Authorization: Basic",
    )
    add(
        "basic-auth header, in Go's map",
        f"map[Accept:[*/*] Authorization:[Basic {(auth := in_base64(f'root:{draw(9)}'))}]]",
        auth,
        kept="Accept:[*/*]",
    )
    add(
        "bearer header",
        f'curl -H "Authorization: Bearer {(token := draw(40))}" https://api:6443/',
        token,
        kept="https://api:6443/",
    )
    add(
        "bearer, bare",
        f"using bearer {(token := draw(44, URL + '9'))} for request",
        token,
        kept="for request",
    )
    add("proxy authorization", f"Proxy-Authorization: Basic {(auth := in_base64(f'proxy:{draw(10)}'))}", auth)
    add(
        "digest response",
        f'Authorization: Digest username="root", uri="/redfish", response="{(digest := draw(32, HEX))}"',
        digest,
    )
    add(
        "kubeadm token",
        f"kubeadm join api:6443 --token {(token := draw(6, LOWER) + '.' + '1a2b' + draw(12, LOWER))}",
        token,
        kept="api:6443",
    )
    add(
        "bootstrap token, bare",
        f'secret "bootstrap-token" holds {(token := draw(6, LOWER) + "." + "9z8y" + draw(12, LOWER))}',
        token,
    )
    add(
        "cookie",
        f"Cookie: session={(value := draw(32))}; csrftoken={(other := draw(24))}",
        value,
        other,
        kept="Cookie: ",
    )
    add("set-cookie", f"< Set-Cookie: QSESSIONID={(value := draw(30))}; Path=/; HttpOnly", value)
    add("bcrypt htpasswd", f"admin:$2y$05${(hashed := draw(53, CRYPT))}", hashed, kept="admin:")
    add("apr1 htpasswd", f"admin:$apr1$Zx7yk2aB${(hashed := draw(22, CRYPT))}", hashed)
    add("ldap hash", f"userPassword: {{SSHA}}{(hashed := draw(38, BASE64) + 'k=')}", hashed)
    add(
        "sha512 passwordHash",
        f'"passwordHash": "$6$rounds=4096${(salt := draw(16, CRYPT))}${(hashed := draw(86, CRYPT))}"',
        salt,
        hashed,
        kept='"passwordHash": "',
    )
    add(
        "yescrypt",
        f"core:$y$j9T${(salt := draw(22, CRYPT))}${(hashed := draw(43, CRYPT))}:20000",
        salt,
        hashed,
    )
    add(
        "shadow line",
        f"root:$6${(salt := draw(8, CRYPT))}${(hashed := draw(86, CRYPT))}:19000:0:99999:7:::",
        hashed,
        salt,
        kept=":19000:0:99999:7:::",
    )
    add("shadow line, DES", f"old:{(hashed := draw(13, CRYPT))}:19000:0:99999:7:::", hashed, kept="old:")
    add(
        "grub password",
        f"password_pbkdf2 root grub.pbkdf2.sha512.10000.{(hashed := draw(128, 'ABCDEF0123456789'))}.{(salt := draw(128, 'ABCDEF0123456789'))}",
        hashed,
        salt,
    )
    add(
        "ipmitool -P",
        f"+ ipmitool -I lanplus -H 10.0.0.7 -U admin -P {(word := draw(9))} chassis power status",
        word,
        kept="chassis power status",
    )
    add(
        "ipmitool -P, quoted",
        f"+ ipmitool -H 10.0.0.7 -U admin -P 'a {(word := draw(9))} b' power on",
        word,
        kept="power on",
    )
    add(
        "ipmitool argv",
        f'["ipmitool","-I","lanplus","-U","admin","-P","{(word := draw(11))}","power","on"]',
        word,
        kept='"power","on"',
    )
    add(
        "ironic's agent",
        f"Running cmd: ipmitool -H bmc -L ADMINISTRATOR -U root -P{(word := draw(11))} raw 0x06",
        word,
    )
    add("sshpass -p", f"sshpass -p {(word := draw(8))} ssh core@10.0.0.5", word, kept="ssh core@10.0.0.5")
    add("sshpass -p, quoted", f"sshpass -p'{(word := draw(8))}' scp a b", word)
    add(
        "curl -u",
        f"+ curl -sSk -u admin:{(word := draw(10))} https://10.0.0.7/redfish/v1",
        word,
        kept="https://10.0.0.7/redfish/v1",
    )
    add(
        "curl --user, quoted",
        f'curl --user "admin:{(word := draw(10))}" https://bmc',
        word,
        kept="https://bmc",
    )
    add("curl --proxy-user", f"curl --proxy-user=who:{(word := draw(10))} https://x", word)
    add(
        "skopeo --creds",
        f"skopeo inspect --creds user:{(word := draw(16))} docker://quay.io/a/b",
        word,
        kept="docker://quay.io/a/b",
    )
    add(
        "skopeo --src-creds", f"skopeo copy --src-creds=user:{(word := draw(16))} docker://a docker://b", word
    )
    add("podman login -p", f"podman login -u robot -p {(word := draw(16))} quay.io", word, kept="quay.io")
    add("podman pull --creds", f"podman pull --creds='robot:{(word := draw(16))}' quay.io/a", word)
    add(
        "oc login",
        f"oc login --token=sha256~{(token := draw(43, URL))} --server=https://api:6443",
        token,
        kept="--server=https://api:6443",
    )
    add(
        "kubeadmin password line",
        'level=info msg="Login to the console with user: \\"kubeadmin\\", and password: \\"'
        + (word := "-".join(draw(5) for _ in range(4)))
        + '\\""',
        word,
        kept="Login to the console",
    )
    groups = [draw(5) for _ in range(4)]
    add("kubeadmin-password file", "-".join(groups), *groups)
    add(
        "LUKS passphrase echo",
        f'+ echo -n "{(word := draw(15))}" | cryptsetup luksFormat /dev/vda4 -',
        word,
        kept="cryptsetup luksFormat /dev/vda4",
    )
    add("LUKS passphrase, herestring", f"cryptsetup luksOpen /dev/vda4 root <<< '{(word := draw(15))}'", word)
    add(
        "LUKS passphrase prompt",
        f"Enter passphrase for /dev/vda4: {(word := draw(15))}\npassphrase: {word}",
        kept="/dev/vda4",
    )
    add("passwd --stdin", f"echo {(word := draw(12))} | passwd --stdin core", word)
    add("chpasswd", f"echo 'core:{(word := draw(12))}' | chpasswd", word)
    secret, parts_ = pull_secret()
    add("pull secret", secret, *parts_, kept='"auths"')
    add("pull secret, in a unit", f"Environment=PULL_SECRET_TOKEN={(token := draw(120, BASE64))}", token)
    add(
        "pull secret, JSON in JSON",
        json.dumps({"pullSecret": secret, "name": "ocp"}),
        *parts_,
        kept='"name": "ocp"',
    )
    add("base64 of pull secret", f"wrote {(encoded := in_base64(secret))} to disk", encoded, kept="to disk")
    wrapped = base64.encodebytes(secret.encode()).decode().strip()
    add(
        "base64 of pull secret, wrapped",
        f"pull-secret: |\n  {wrapped.replace(chr(10), chr(10) + '  ')}\nnext: line",
        *wrapped.splitlines(),
        kept="next: line",
    )
    add(
        "URL-encoded pull secret",
        f"POST /v2?pull_secret={(quoted := urllib.parse.quote(secret, safe=''))} 201",
        quoted,
        kept="201",
    )
    add(
        "?api_key=",
        f"GET /api/v1/pull?id=7&api_key={(token := draw(24))}&arch=x86_64 HTTP/1.1",
        token,
        kept="&arch=x86_64 HTTP/1.1",
    )
    add(
        "image-service URL",
        f"GET https://images/byapikey/{(token := _jwt())}/4.16/x86_64/full.iso",
        token,
        kept="/4.16/x86_64/full.iso",
    )
    add(
        "?image_token=",
        f"GET /images/7/pxe-initrd?image_token={(token := draw(60))}&arch=arm64",
        token,
        kept="&arch=arm64",
    )
    add(
        "presigned URL",
        f"https://b.s3.amazonaws.com/x?X-Amz-Credential={(key := 'AKIA' + draw(16, 'ABCDEFGHIJ234567'))}%2Fus&X-Amz-Signature={(sign := draw(64, HEX))}",
        key,
        sign,
    )
    add(
        "Azure SAS",
        f"https://a.blob.core.windows.net/x?sv=2024&sig={(sign := draw(43) + '%3D')}&se=2026",
        sign,
        kept="&se=2026",
    )
    add(
        "NM psk",
        f"[wifi-security]\nkey-mgmt=wpa-psk\npsk={(word := draw(12))}",
        word,
        kept="key-mgmt=wpa-psk",
    )
    add("NM wep key", f"wep-key0={(word := draw(10))}", word)
    add("NM 802.1x", f"[802-1x]\npassword={(word := draw(12))} with {(more := draw(6))}", word, more)
    add("wpa_supplicant", f'\tpsk="{(word := draw(12))}"', word)
    add(
        "WireGuard",
        f"PrivateKey = {(key := draw(43, BASE64) + '=')}\nPresharedKey = {(other := draw(43, BASE64) + '=')}",
        key,
        other,
    )
    add("IPsec PSK", f': PSK "{(word := draw(14))}"', word)
    for label in (
        "RSA PRIVATE KEY",
        "PRIVATE KEY",
        "EC PRIVATE KEY",
        "OPENSSH PRIVATE KEY",
        "ENCRYPTED PRIVATE KEY",
    ):
        block, lines = pem(label)
        add(f"PEM: {label}", f"before\n{block}\nafter", *lines, kept=f"-----BEGIN {label}-----")
    block, lines = pem()
    add("PEM, JSON-escaped", json.dumps({"tls.key": block, "a": 1}), *lines, kept='"a": 1')
    add("PEM, JSON in JSON", json.dumps({"x": json.dumps({"key": block})}), *lines)
    add(
        "PEM, indented",
        "key: |\n" + "\n".join(f"    {line}" for line in block.splitlines()) + "\ncert: x",
        *lines,
        kept="cert: x",
    )
    prefix = "Nov 21 01:05:10 master-0 bootkube.sh[2117]: "
    add(
        "PEM, in a journal",
        "\n".join(prefix + line for line in block.splitlines()) + f"\n{prefix}done",
        *lines,
        kept=f"{prefix}done",
    )
    add("PEM, base64", f"client-key: {(encoded := in_base64(block))}", encoded)
    add(
        "PEM, URL-encoded",
        f"key={(quoted := urllib.parse.quote(block))}",
        *(urllib.parse.quote(line) for line in lines),
    )
    add(
        "kubeconfig",
        f"users:\n- name: admin\n  user:\n    client-key-data: {(encoded := in_base64(block))}\n    token: {(token := draw(40))}",
        encoded,
        token,
    )
    add("JWT", f"token review of {(token := _jwt())}: ok", token, kept=": ok")
    add("service account", f'"private_key": "{block.replace(chr(10), chr(92) + "n")}"', *lines)
    add(
        "AWS",
        f"aws_access_key_id = {(key := 'AKIA' + draw(16, 'ABCDEFGHIJ234567'))}\naws_secret_access_key = {(word := draw(40, BASE64))}",
        key,
        word,
    )
    add("GCP API key", f"key {(key := 'AIza' + draw(35, URL))} used", key)
    add("GCP OAuth", f"ya29.{(key := draw(60, URL))}", key)
    add(
        "Azure storage",
        f"DefaultEndpointsProtocol=https;AccountName=a;AccountKey={(key := draw(86, BASE64) + '==')};EndpointSuffix=core",
        key,
    )
    add("Azure client secret", f'"clientSecret": "{(word := draw(3) + "8Q~" + draw(34))}"', word)
    for prefix_, size in (
        ("ghp_", 36),
        ("gho_", 36),
        ("github_pat_", 82),
        ("glpat-", 20),
        ("npm_", 36),
        ("hvs.", 30),
    ):
        add(f"token {prefix_}", f"remote: {(token := prefix_ + draw(size))} is wrong", token, kept="is wrong")
    add("Slack", f"xoxb-{(token := draw(12, string.digits) + '-' + draw(24))}", token)
    add(
        "Slack webhook",
        f"POST https://hooks.slack.com/services/T{(path := draw(8) + '/B' + draw(8) + '/' + draw(24))}",
        path,
    )
    add("OpenShift OAuth token", f"sha256~{(token := draw(43, URL))}", token)
    add(
        "URL userinfo",
        f"https_proxy=http://proxyuser:{(word := draw(9))}@proxy.example.com:3128",
        word,
        kept="@proxy.example.com:3128",
    )
    add(
        "URL userinfo, in a clone",
        f"Cloning https://{(token := draw(32))}@git.example.com/a.git",
        token,
        kept="git.example.com/a.git",
    )
    add(
        "URL userinfo, a slash in it", f"http://u:ab/{(word := draw(9))}@proxy:3128", word, kept="@proxy:3128"
    )
    add("X-Secret-Key", f"X-Secret-Key: {(token := draw(60, BASE64))}", token, kept="X-Secret-Key: ")
    add(
        "X-Secret-Key, curl",
        f"curl -H 'X-Secret-Key: {(token := draw(60, BASE64))}' -F upfile=@x",
        token,
        kept="-F upfile=@x",
    )
    add("X-Auth-Token", f'"X-Auth-Token": ["{(token := draw(32))}"]', token)
    add(
        "BMC, install-config",
        f"      bmc:\n        address: redfish://10.0.0.7\n        username: root\n        password: {(word := 'calvin')}",
        word,
        kept="username: root",
    )
    add(
        "Redfish session",
        f'{{"UserName": "root", "Password": "{(word := draw(8))}"}}',
        word,
        kept='{"UserName": "root", "Password": "',
    )
    add(
        "BareMetalHost",
        f"bmcPassword={(word := draw(8))} bmcAddress=10.0.0.7",
        word,
        kept="bmcAddress=10.0.0.7",
    )
    add("vSphere", f'vcenter.password = "{(word := draw(8))}!"', word)
    add("GOVC", f"GOVC_PASSWORD={(word := draw(8))} govc about", word, kept="govc about")
    add(
        "Nutanix, Go struct",
        f"PrismCentral{{Username:admin Password:{(word := draw(8))} Port:9440}}",
        word,
        kept="Port:9440",
    )
    add(
        "etcd encryption key",
        f"  - aescbc:\n      keys:\n      - name: key1\n        secret: {(key := base64.b64encode(RANDOM.randbytes(32)).decode())}",
        key,
        kept="name: key1",
    )
    add(
        "etcd encryption key, JSON",
        f'{{"name":"1","secret":"{(key := base64.b64encode(RANDOM.randbytes(32)).decode())}"}}',
        key,
        kept='"name":"1"',
    )
    add(
        "data URL",
        f'"source": "data:text/plain;charset=utf-8;base64,{(data := in_base64(draw(60)))}"',
        data,
        kept='"source": "data:text/plain;charset=utf-8;base64,',
    )
    add("systemd credential", f"SetCredential=token:{(word := draw(18))}", word, kept="SetCredential=token:")
    add(
        "rootpw",
        f"kernel: Command line: BOOT_IMAGE=x inst.rootpw={(word := draw(10))} ip=dhcp",
        word,
        kept="ip=dhcp",
    )
    add("iSCSI", f"netroot=iscsi:user:{(word := draw(10))}@10.0.0.1::3260", word)
    add("ldapsearch -w", f"ldapsearch -x -D cn=admin -w {(word := draw(10))} -b dc=x", word, kept="-b dc=x")
    add("ldap bindPassword", f"bindPassword: '{(word := draw(10))}'", word)
    add(
        "openssl -passin",
        f"openssl rsa -passin pass:{(word := draw(10))} -in key.pem",
        word,
        kept="-in key.pem",
    )
    add("htpasswd -b", f"htpasswd -Bbn admin {(word := draw(10))}", word, kept="htpasswd")
    add("S3 secret", f'"secretKey":"{(word := draw(40))}"', word)
    add(
        "JSON number",
        f'{{"password": {(word := draw(12, string.digits))}, "port": 22}}',
        word,
        kept='"port": 22}',
    )
    add("YAML with spaces", f"adminPassword: {(word := draw(8))} {(more := draw(8))}", word, more)
    return rows


EXAMPLES: Final = _examples()
