"""Kinds of secrets: how programs, configuration files and command lines write them."""

import base64
import json
import random
import re
import shlex
import string
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final
from urllib.parse import quote

LETTERS: Final = string.ascii_letters
DIGITS: Final = string.digits
ALNUM: Final = LETTERS + DIGITS
LOWER: Final = string.ascii_lowercase + DIGITS
HEX: Final = "0123456789abcdef"
BASE64: Final = ALNUM + "+/"
URL: Final = ALNUM + "-_"
CRYPT: Final = ALNUM + "./"
BARE: Final = ALNUM + "!#$%&()*+,-./:;<=>?@[]^_{|}~"
"""No quotes, backslash or backtick: the characters that every syntax without quotes can hold."""
PRINTABLE: Final = BARE + "\"'\\`"

Values = Callable[[random.Random], str]


@dataclass(frozen=True, slots=True)
class Kind:
    """One way to write one kind of secret.

    `write` is called with the secret and returns the text around it. A command line returns a list of words.
    """

    name: str
    draw: Values
    write: Callable[[str], "str | list[str]"]

    def text(self, secret: str) -> str:
        """Return the text; a command line as a person types it."""
        written = self.write(secret)
        return written if isinstance(written, str) else shlex.join(written)

    def words(self, secret: str) -> list[str]:
        """Return the words of the command line, or of an `echo` of a text."""
        written = self.write(secret)
        return ["echo", written] if isinstance(written, str) else written


def random_text(size: int, alphabet: str = ALNUM) -> Values:
    return lambda chance: "".join(chance.choice(alphabet) for _ in range(size))


def _base64(size: int) -> Values:
    return lambda chance: base64.b64encode(chance.randbytes(size)).decode()


def _mixed(size: int, alphabet: str = ALNUM) -> Values:
    """Return values with a digit and letters of either case, as generators of tokens make nearly always."""

    def drawn(chance: random.Random) -> str:
        head = [chance.choice("ghkmpqrs"), chance.choice("BDFGHKMN"), chance.choice("23456789")]
        head += [chance.choice(alphabet) for _ in range(size - 3)]
        chance.shuffle(head)
        return "".join(head)

    return drawn


def _pem_body(lines: int, columns: int = 64) -> Values:
    def drawn(chance: random.Random) -> str:
        return "\n".join(random_text(columns, BASE64)(chance) for _ in range(lines))

    return drawn


def _jwt(chance: random.Random) -> str:
    claims = json.dumps({"iss": "kubernetes/serviceaccount", "sub": random_text(12)(chance)})
    parts = [b'{"alg":"RS256","typ":"JWT"}', claims.encode(), chance.randbytes(96)]
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts)


def _auths(secret: str) -> str:
    auth = base64.b64encode(f"openshift-release-dev+user:{secret}".encode()).decode()
    return json.dumps({"auths": {"quay.io": {"auth": auth, "email": "who@example.com"}}})


def _basic(secret: str) -> str:
    return "Authorization: Basic " + base64.b64encode(f"admin:{secret}".encode()).decode()


def _pem(label: str) -> Callable[[str], str]:
    return lambda body: f"-----BEGIN {label}-----\n{body}\n-----END {label}-----"


def _texts(draw: Values, **forms: str) -> Iterator[Kind]:
    """Yield kinds of which the secret stands in place of `@@`."""
    for name, form in forms.items():
        yield Kind(name.replace("_", " "), draw, partial(form.replace, "@@"))


PUNCTUATION: Final = tuple(
    _texts(
        random_text(16, BARE),
        YAML="        password: @@",
        INI="[client]\npassword=@@",
        JSON='{"password": "@@"}',
        JSON_and_more='{"user":"root","password":"@@","port":5432}',
        export="export DB_PASSWORD='@@'",
        bare_assignment="DB_PASSWORD=@@",
        systemd_Environment='Environment="DB_PASSWORD=@@"',
        YAML_in_quotes='        password: "@@"',
        tfvars='bmc_password = "@@"',
        record='{"errorMessage":"x\\n  password: @@\\n"}',
    )
)
"""Random passwords with punctuation in the forms whose limit is 0.1 %."""


def _written(write: Callable[[str], str], **forms: str) -> Iterator[Kind]:
    """Yield kinds with any printable character, of which the written secret stands in place of `@@`."""
    for name, form in forms.items():
        yield Kind(name.replace("_", " "), random_text(16, PRINTABLE), partial(_fill_in, form, write))


def _fill_in(form: str, write: Callable[[str], str], secret: str) -> str:
    return form.replace("@@", write(secret))


ANY_PUNCTUATION: Final = (
    *_written(
        str,
        chrony_key="25 SHA1 @@",
        chrony_ASCII="25 SHA256 ASCII:@@",
        rootpw_plaintext="rootpw --plaintext @@",
        SQL_bare="ALTER USER app IDENTIFIED BY @@",
        pwd_bare="pwd=@@",
        password_bare="password=@@",
        netrc_machine="machine git.example.com login me password @@",
        netrc_line="password @@",
        auth_pass="    auth_pass @@",
        stats_auth="stats auth admin:@@",
        grub_password="password root @@",
        wpa_psk="wpa-psk @@",
        switch="username admin password 0 @@",
    ),
    *_written(lambda s: re.sub(r"([\\:])", r"\\\1", s), pgpass="db.example.com:5432:app:app:@@"),
    *_written(
        lambda s: s.replace("'", "''"),
        YAML_single="password: '@@'",
        YAML_list="args:\n- --password\n- '@@'\n- --verbose",
        YAML_option="args:\n- '--password=@@'",
        SQL_string="ALTER ROLE app PASSWORD '@@';",
    ),
    *_written(
        lambda s: s.replace("\\", "\\\\").replace('"', '\\"'),
        YAML_double='password: "@@"',
        chap_secrets='bob * "@@" *',
    ),
)
"""The same with every printable character, as each syntax escapes it."""

_PASSWORDS: Final = (
    Kind(
        "JSON, any character", random_text(16, PRINTABLE), lambda s: json.dumps({"user": "a", "password": s})
    ),
    Kind(
        "name, then value",
        random_text(16, PRINTABLE),
        lambda s: json.dumps({"name": "DB_PASSWORD", "value": s}),
    ),
    Kind(
        "value, then name",
        random_text(16, PRINTABLE),
        lambda s: json.dumps({"value": s, "name": "DB_PASSWORD"}),
    ),
    Kind(
        "JSON arguments", random_text(16, PRINTABLE), lambda s: json.dumps({"args": ["--password", s, "-v"]})
    ),
    Kind("single quotes", random_text(16, PRINTABLE), lambda s: f"export DB_PASSWORD={shlex.quote(s)}"),
    Kind("--password X", random_text(16, PRINTABLE), lambda s: ["app", "--password", s, "--verbose"]),
    Kind("--password=X", random_text(16, PRINTABLE), lambda s: ["app", f"--password={s}", "--verbose"]),
    Kind(
        "ipmitool -P",
        random_text(12, PRINTABLE),
        lambda s: ["ipmitool", "-I", "lanplus", "-H", "10.0.0.7", "-U", "root", "-P", s, "power", "on"],
    ),
    Kind(
        "podman login -p",
        random_text(16, PRINTABLE),
        lambda s: ["podman", "login", "-u", "robot", "-p", s, "quay.io"],
    ),
    Kind("sshpass -p", random_text(12, BARE), lambda s: ["sshpass", "-p", s, "ssh", "core@10.0.0.5"]),
    Kind(
        "curl -u", random_text(12, BARE), lambda s: ["curl", "-sk", "-u", f"admin:{s}", "https://bmc/redfish"]
    ),
    Kind("mysql -pX", random_text(14), lambda s: ["mysql", "-u", "root", f"-p{s}", "-e", "select 1"]),
    Kind(
        "skopeo --creds",
        random_text(16),
        lambda s: ["skopeo", "inspect", "--creds", f"u:{s}", "docker://a/b"],
    ),
    Kind("useradd -p", random_text(14), lambda s: ["useradd", "-m", "-p", s, "core"]),
    Kind("oc login -p", random_text(14, BARE), lambda s: ["oc", "login", "-u", "kubeadmin", "-p", s]),
    Kind(
        "URL userinfo",
        random_text(14, BARE),
        lambda s: f"https://robot:{quote(s, safe='')}@git.example.com/a.git",
    ),
    Kind(
        "proxy", random_text(14, BARE), lambda s: f"https_proxy=http://u:{quote(s, safe='')}@proxy.lab:3128"
    ),
    Kind(
        "postgres URL", random_text(14, BARE), lambda s: f"postgresql://app:{quote(s, safe='')}@db:5432/app"
    ),
    Kind("AMQP URL", random_text(14), lambda s: f"transport_url = rabbit://nova:{s}@10.0.0.4:5672/"),
    Kind("JDBC", random_text(14), lambda s: f"jdbc:postgresql://db/app?user=app&password={s}&ssl=true"),
    Kind("basic header", random_text(14, BARE), _basic),
)

_FILES: Final = (
    *_texts(
        random_text(16, ALNUM + "!#%+,-./:=?@^_~"),
        Kubernetes_env="env:\n- name: DB_PASSWORD\n  value: @@\n- name: DB_USER\n  value: app",
        YAML_arguments="args:\n- --user\n- root\n- --password\n- @@\n- --verbose",
        echo_chpasswd="echo root:@@ | chpasswd",
        cloud_init_chpasswd="chpasswd:\n  list: |\n    root:@@\n  expire: false",
        cloud_init_users="users:\n- name: core\n  plain_text_passwd: @@\n  lock_passwd: false",
        kickstart_rootpw_plaintext="rootpw --plaintext @@",
        kickstart_rootpw="rootpw @@",
        kickstart_user="user --name=core --groups=wheel --password=@@ --plaintext",
        kickstart_passphrase="part / --fstype=xfs --encrypted --passphrase=@@",
        kickstart_bootloader="bootloader --location=mbr --password=@@",
        preseed="d-i passwd/root-password password @@",
        netrc="machine api.example.com login robot password @@",
        netrc_in_lines="machine api.example.com\n  login robot\n  password @@",
        MySQL_client="[client]\nuser = root\npassword = @@",
        libpq="host=db user=app password=@@ dbname=app",
        NetworkManager_psk="[wifi-security]\nkey-mgmt=wpa-psk\npsk=@@",
        wpa_supplicant='network={\n  ssid="lab"\n  psk="@@"\n}',
        hostapd="wpa_passphrase=@@",
        LUKS_cloud_init="luks-key: @@",
        LUKS_kernel="rd.luks.key=@@",
        haproxy_stats="stats auth admin:@@",
        IDENTIFIED_BY="CREATE USER 'a'@'%' IDENTIFIED BY '@@'",
        pwd="pwd=@@",
        ironic_conf="[deploy]\nipmi_password = @@",
        redfish="redfish_password: @@",
        clouds_yaml="clouds:\n  lab:\n    auth:\n      username: admin\n      password: @@",
        iscsi="node.session.auth.password = @@",
        repository="[rhel]\nbaseurl=https://repo/\nusername=me\npassword=@@",
        ansible="ansible_become_pass: @@",
        ipsec_secrets='10.0.0.1 10.0.0.2 : PSK "@@"',
        RADIUS='client lab { secret = "@@" }',
    ),
    *_texts(
        random_text(16),
        pgpass="db.example.com:5432:app:app:@@",
        SQL_without_quotes="IDENTIFIED BY @@",
        PASSWORD_of_PostgreSQL="ALTER USER app WITH PASSWORD '@@'",
        connection_string="Server=db;Database=app;User Id=sa;Pwd=@@;Encrypt=true",
        cifs="//nas/share /mnt cifs username=app,password=@@,uid=0 0 0",
        echo_cryptsetup="echo -n @@ | cryptsetup luksOpen /dev/vda4 root -",
        requirepass="requirepass @@",
        SNMP="snmp-server community @@ RO",
        BMC="bmc:\n  address: redfish://10.0.0.7/1\n  username: root\n  password: @@",
    ),
    *_texts(random_text(8), keepalived="auth_type PASS\nauth_pass @@"),
    *_texts(_mixed(40, HEX), chrony="1 SHA1 HEX:@@"),
    *_texts(random_text(20), chrony_text="25 MD5 @@"),
)

_TOKENS: Final = (
    *_texts(random_text(32, LETTERS), letters_only_key="API_KEY=@@", letters_only_JSON='{"apiKey":"@@"}'),
    *_texts(random_text(16, LETTERS), short_letters_only_key="API_KEY=@@", access_key='{"access_key":"@@"}'),
    *_texts(
        _mixed(40),
        bearer="Authorization: Bearer @@",
        API_token="API_TOKEN=@@",
        X_Auth_Token="X-Auth-Token: @@",
        query_token="GET /v1/images?arch=x86_64&access_token=@@ HTTP/1.1",
        client_secret='{"client_id":"app","client_secret":"@@"}',
        AWS_secret="aws_secret_access_key = @@",
        cookie="Cookie: session=@@; theme=dark",
    ),
    *_texts(
        _mixed(36),
        GitHub="using ghp_@@ for clone",
        npm="//registry.npmjs.org/:_authToken=npm_@@",
        Hugging_Face="login with hf_@@",
    ),
    *_texts(_mixed(20), GitLab="using glpat-@@ for clone"),
    *_texts(_mixed(24), Slack="token xoxb-210987654321-210987654321-@@", Stripe="key sk_live_@@"),
    *_texts(_mixed(35, URL), Google="key AIza@@"),
    *_texts(_mixed(90, URL), Vault="VAULT_TOKEN=hvs.@@"),
    *_texts(_mixed(43, URL), OpenShift="oc login --token=sha256~@@ --server=https://api:6443"),
    *_texts(random_text(16, LOWER), bootstrap_token="kubeadm join api:6443 --token x7k2p9.@@"),
    Kind("JWT", _jwt, lambda s: f"token: {s}"),
    Kind(
        "kubeadmin",
        lambda chance: "-".join(_mixed(5)(chance) for _ in range(4)),
        lambda s: f'Login to the console with user: "kubeadmin", and password: "{s}"',
    ),
)

_KEYS: Final = (
    Kind("RSA key", _pem_body(8), _pem("RSA PRIVATE KEY")),
    Kind("EC key", _pem_body(2), _pem("EC PRIVATE KEY")),
    Kind("OpenSSH key", _pem_body(6, 70), _pem("OPENSSH PRIVATE KEY")),
    Kind("encrypted key", _pem_body(6), _pem("ENCRYPTED PRIVATE KEY")),
    Kind("pull secret", _mixed(64), _auths),
    *_texts(
        _base64(32),
        WireGuard="[Interface]\nPrivateKey = @@",
        WireGuard_preshared="[Peer]\nPresharedKey = @@",
        etcd_encryption="aescbc:\n  keys:\n  - name: key1\n    secret: @@",
        TSIG='key "update" { algorithm hmac-sha256; secret "@@"; };',
    ),
    *_texts(_base64(16), ceph="[client.admin]\n\tkey = @@"),
    *_texts(random_text(86, CRYPT), crypt="root:$6$saltsalt$@@:19000:0:99999:7:::"),
    *_texts(random_text(43, CRYPT), yescrypt="core:$y$j9T$F5Jx5fExrKuPp53xLKQ..1$@@:20000::::::"),
    *_texts(random_text(53, CRYPT), bcrypt="admin:$2y$05$@@"),
    *_texts(
        random_text(128, "0123456789ABCDEF"),
        GRUB="password_pbkdf2 root grub.pbkdf2.sha512.10000.ABCDEF0123456789ABCDEF0123456789.@@",
    ),
)

KINDS: Final = (*PUNCTUATION, *_PASSWORDS, *_FILES, *_TOKENS, *_KEYS)
