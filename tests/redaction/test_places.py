"""Secrets are learnt from every place of a host, exactly as the program means them that keeps them there."""

import base64
import gzip
import html
import json
import random
import shlex
import string
from collections.abc import Callable
from pathlib import Path
from typing import Final
from urllib.parse import quote

import pytest

from service_record.redaction import known_secrets
from service_record.redaction.place_parsers import (
    Parser,
    columns,
    ini,
    is_secret_name,
    netrc,
    preseed,
    secrets_among,
    tree,
    urls,
    words,
    xml,
)
from tests.redaction.kinds import random_text


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def packed(text: str) -> str:
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


CANARIES: Final = {
    # installers
    "var/lib/cloud/instances/i-1/user-data.txt": "#cloud-config\npassword: @@\nchpasswd: {expire: false}\n",
    "var/lib/cloud/instance/user-data.txt.i": "#cloud-config\nchpasswd:\n  list: |\n    a:b\n    root:@@\n",
    "var/lib/cloud/instances/i-1/cloud-config.txt": "users:\n- name: core\n  plain_text_passwd: '@@'\n",
    "var/lib/cloud/instances/i-2/user-data.txt": "#!/bin/bash\nmysql -u root --password=@@\n",
    "var/lib/cloud/instances/i-1/vendor-data.txt": "#cloud-config\nchpasswd: {users: [{password: @@}]}\n",
    "var/lib/cloud/seed/nocloud/user-data": "#cloud-config\nluks-key: @@\n",
    "var/lib/cloud/seed/nocloud-net/user-data": "#cloud-config\nruncmd:\n- [app, --password, @@]\n",
    "run/cloud-init/instance-data-sensitive.json": '{"merged_cfg": {"users": [{"hashed_passwd": "@@"}]}}',
    "etc/cloud/cloud.cfg.d/99-x.cfg": "datasource:\n  MAAS:\n    token_secret: @@\n",
    "autoinstall.yaml": "autoinstall:\n  identity:\n    username: a\n    password: '@@'\n",
    "var/log/installer/autoinstall-user-data": "autoinstall:\n  storage:\n    layout: {password: @@}\n",
    "var/log/installer/cdebconf/questions.dat": "Name: passwd/root-password\nValue: @@\n",
    "var/cache/debconf/passwords.dat": "Name: mysql/root_password\nTemplate: x\nValue: @@\n",
    "preseed.cfg": "d-i passwd/root-password password @@\n",
    "root/anaconda-ks.cfg": "lang en_US\nrootpw --plaintext @@\n",
    "root/original-ks.cfg": "user --name=core --password=@@ --plaintext\n",
    "run/install/ks.cfg": "part / --fstype=xfs --encrypted --passphrase=@@\n",
    "run/install/ks-script.cfg": "bootloader --location=mbr --password=@@\n",
    "root/autoinst.xml": "<users><user><user_password>@@</user_password></user></users>",
    # clients
    "root/.netrc": "machine api.example.com login robot password @@\n",
    "home/core/.netrc": "machine api.example.com\n  login robot\n  password @@\n",
    "root/.my.cnf": "[client]\nuser=root\npassword=@@\n",
    "home/core/.my.cnf": "[client]\npassword = '@@'\n",
    "etc/mysql/debian.cnf": "[client]\nhost = localhost\npassword = @@\n",
    "root/.pgpass": "db.example.com:5432:app:app:@@\n",
    "root/.git-credentials": "https://robot:@@@git.example.com\n",
    "home/core/.config/git/credentials": "https://@@@git.example.com\n",
    "root/.npmrc": "//registry.npmjs.org/:_authToken=@@\n",
    "root/.pypirc": "[pypi]\nusername = me\npassword = @@\n",
    "root/.config/pip/pip.conf": "[global]\nindex-url = https://me:@@@pypi.example.com/simple\n",
    "root/.curlrc": 'user = "admin:@@"\n',
    "root/.wgetrc": "http_password=@@\n",
    "root/.aws/credentials": "[default]\naws_secret_access_key = @@\n",
    "root/.config/openstack/clouds.yaml": "clouds:\n  lab:\n    auth:\n      password: @@\n",
    "etc/openstack/secure.yaml": "clouds:\n  lab:\n    auth: {password: @@}\n",
    "root/keystonerc-openrc": "export OS_PASSWORD=@@\n",
    "root/.s3cfg": "[default]\nsecret_key = @@\n",
    "root/.config/gh/hosts.yml": "github.com:\n    oauth_token: @@\n",
    "root/.vault-token": "@@",
    "root/.smbcredentials": "username=app\npassword=@@\n",
    # repositories
    "etc/yum.repos.d/lab.repo": "[lab]\nbaseurl=https://repo/\nusername=me\npassword=@@\n",
    "etc/yum.repos.d/url.repo": "[lab]\nbaseurl=https://me:@@@repo.example.com/os\n",
    "etc/dnf/dnf.conf": "[main]\nproxy_password=@@\n",
    "etc/apt/auth.conf": "machine apt.example.com login me password @@\n",
    "etc/apt/auth.conf.d/90lab.conf": "machine apt.example.com\nlogin me\npassword @@\n",
    "etc/apt/sources.list": "deb https://me:@@@apt.example.com/ stable main\n",
    "etc/apt/sources.list.d/lab.sources": "Types: deb\nURIs: https://me:@@@apt.example.com/\n",
    "etc/zypp/credentials.d/SCC": "username=me\npassword=@@\n",
    "etc/rhsm/rhsm.conf": "[server]\nproxy_password = @@\n",
    # networks, storage, time
    "etc/NetworkManager/system-connections/lab.nmconnection": "[wifi-security]\nkey-mgmt=wpa-psk\npsk=@@\n",
    "run/NetworkManager/system-connections/vpn.nmconnection": "[vpn-secrets]\npassword=@@\n",
    "etc/NetworkManager/system-connections/wg.nmconnection": "[wireguard]\nprivate-key=@@\n",
    "etc/NetworkManager/system-connections/wep.nmconnection": "[wifi-security]\nwep-key0=@@\n",
    "etc/netplan/50-lab.yaml": "network:\n  wifis:\n    w:\n      access-points: {lab: {password: @@}}\n",
    "etc/wpa_supplicant/wpa_supplicant.conf": 'network={\n  ssid="lab"\n  psk="@@"\n}\n',
    "etc/hostapd/hostapd.conf": "ssid=lab\nwpa_passphrase=@@\n",
    "var/lib/iwd/lab.psk": "[Security]\nPassphrase=@@\n",
    "etc/wireguard/wg0.conf": "[Peer]\nPresharedKey = @@\n",
    "etc/ipsec.secrets": '10.0.0.1 10.0.0.2 : PSK "@@"\n',
    "etc/ipsec.d/lab.secrets": 'carol : EAP "@@"\n',
    "etc/swanctl/conf.d/lab.conf": 'secrets {\n  ike-1 {\n    secret = "@@"\n  }\n}\n',
    "etc/ppp/chap-secrets": "client server @@ *\n",
    "etc/chrony.keys": "1 SHA1 HEX:@@\n",
    "etc/chrony/chrony.keys": "25 @@\n",
    "etc/fstab": "//nas/share /mnt cifs username=app,password=@@,uid=0 0 0\n",
    "etc/cifs-credentials": "username=app\npassword=@@\n",
    "etc/cryptsetup-keys.d/root.key": "@@",
    "etc/luks/root": "@@",
    "etc/ceph/ceph.client.admin.keyring": "[client.admin]\n\tkey = @@\n",
    "etc/iscsi/iscsid.conf": "node.session.auth.password = @@\n",
    "boot/grub2/user.cfg": "GRUB2_PASSWORD=@@\n",
    "proc/cmdline": "BOOT_IMAGE=/vmlinuz ro luks.passphrase=@@ quiet\n",
    # services
    "etc/ironic/ironic.conf": "[DEFAULT]\ntransport_url = rabbit://nova:@@@10.0.0.4:5672/\n",
    "etc/ironic/inspector.conf": "[ironic]\nadmin_password = @@\n",
    "etc/ironic/htpasswd": "ironic:@@\n",
    "etc/keepalived/keepalived.conf": "authentication {\n  auth_type PASS\n  auth_pass @@\n}\n",
    "etc/haproxy/haproxy.cfg": "listen stats\n  stats auth admin:@@\n",
    "etc/redis/redis.conf": "requirepass @@\n",
    "etc/rndc.key": 'key "rndc-key" {\n  algorithm hmac-sha256;\n  secret "@@";\n};\n',
    "etc/sssd/sssd.conf": "[domain/lab]\nldap_default_authtok = @@\n",
    "etc/nslcd.conf": "bindpw @@\n",
    "etc/exim4/passwd.client": "mail.example.com:robot:@@\n",
    "etc/dovecot/users": "robot@example.com:@@\n",
    "etc/pam_radius_auth.conf": "10.0.0.9:1812 @@ 3\n",
    "etc/raddb/clients.conf": "client nas1 {\n  secret = @@\n}\n",
    "etc/freeradius/3.0/clients.conf": "client nas1 {\n  secret = @@\n}\n",
    "etc/tacacs+/tac_plus.conf": 'key = "@@"\n',
    "etc/racoon/psk.txt": "10.0.0.1 @@\n",
    "etc/xl2tpd/l2tp-secrets": "* * @@\n",
    "etc/davfs2/secrets": "https://dav.example.com robot @@\n",
    "etc/pgbouncer/userlist.txt": '"robot" "@@"\n',
    "etc/turnserver.conf": "static-auth-secret=@@\n",
    "etc/asterisk/pjsip.conf": "[6001]\npassword=@@\n",
    "etc/postfix/sasl_passwd": "smtp.example.com robot:@@\n",
    "etc/libvirt/qemu/vm.xml": "<graphics type='vnc' passwd='@@'/>\n<graphics/>",
    "etc/docker/daemon.json": '{"proxies": {"https-proxy": "http://u:@@@proxy:3128"}}',
    "etc/rancher/k3s/config.yaml": "token: @@\n",
    "etc/kubernetes/admin.conf": "users:\n- user:\n    token: @@\n",
    "etc/default/app": 'APP_PASSWORD="@@"\n',
    "etc/sysconfig/app": "APP_PASSWORD='@@'\n",
    "etc/systemd/system/app.service": '[Service]\nEnvironment="A=b" "APP_PASSWORD=@@"\n',
    "etc/environment": "APP_TOKEN=@@\n",
    "etc/assisted/auth.yaml": "agent:\n  token: @@\n",
}
ENCODED: Final = {
    "var/lib/cloud/instances/i-3/user-data.txt": lambda secret: (
        "#cloud-config\nwrite_files:\n- path: /etc/app.conf\n  encoding: b64\n"
        f"  content: {encoded(f'password={secret}')}\n"
    ),
    "var/lib/cloud/instances/i-4/user-data.txt": lambda secret: (
        "#cloud-config\nwrite_files:\n- path: /etc/app.conf\n  encoding: gz+b64\n"
        f"  content: {packed(f'password={secret}')}\n"
    ),
    "var/lib/cloud/instances/i-5/user-data.txt": lambda secret: (
        'Content-Type: multipart/mixed; boundary="=="\nMIME-Version: 1.0\n\n--==\n'
        'Content-Type: text/cloud-config; charset="us-ascii"\nContent-Transfer-Encoding: base64\n\n'
        f"{encoded(f'#cloud-config{chr(10)}password: {secret}{chr(10)}')}\n--==--\n"
    ),
    "opt/openshift/bootstrap.ign": lambda secret: json.dumps(
        {
            "storage": {
                "files": [
                    {
                        "path": "/etc/NetworkManager/system-connections/lab.nmconnection",
                        "contents": {
                            "source": f"data:;base64,{packed(f'[wifi-security]{chr(10)}psk={secret}')}"
                        },
                    }
                ]
            }
        }
    ),
}


def test_every_place_of_a_host_is_known(tmp_path: Path) -> None:
    chance = random.Random(20261128)
    draw = random_text(20, string.ascii_letters + string.digits)
    secrets = {path: draw(chance) for path in (*CANARIES, *ENCODED)}
    for path, secret in secrets.items():
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(ENCODED[path](secret) if path in ENCODED else CANARIES[path].replace("@@", secret))
    known = {secret.value.decode(errors="replace") for secret in known_secrets(tmp_path).secrets}
    assert {path for path, secret in secrets.items() if secret not in known} == set()


def test_variable_of_any_characters_is_known(tmp_path: Path) -> None:
    secret = "{|<[$'\"=;, Qw7rT2"
    known = known_secrets(tmp_path, {"DB_PASSWORD": secret, "HOME": "/home/somebody-else"}).secrets
    assert secret.encode() in {one.value for one in known}
    assert not any(b"somebody" in one.value for one in known)


def in_double_quotes(secret: str) -> str:
    return '"' + secret.replace("\\", "\\\\").replace('"', '\\"') + '"'


SYNTAXES: Final[dict[str, tuple[Parser, str, Callable[[str], str]]]] = {
    "INI": (ini, "[wifi]\nkey-mgmt=wpa-psk\npsk=@@\nid=a\n", str),
    "INI, blanks": (ini, "password = @@\n", str),
    "key file of GLib": (ini, "psk=@@\n", lambda secret: secret.replace("\\", "\\\\")),
    "environment file": (ini, "export APP_PASSWORD=@@\n", shlex.quote),
    "unit": (ini, "Environment=@@\n", lambda secret: in_double_quotes(f"APP_PASSWORD={secret}")),
    "wpa_supplicant": (ini, '  psk="@@"\n', str),
    "kickstart": (words, "rootpw --plaintext @@\n", shlex.quote),
    "kickstart, option": (words, "user --name=a --password=@@ --gecos=x\n", shlex.quote),
    "command line": (words, "app --password @@ --verbose\n", shlex.quote),
    "fstab": (words, "//n/s /mnt cifs username=a,password=@@,uid=0 0 0\n", lambda s: s.replace(",", "_")),
    "ipsec.secrets": (words, "10.0.0.1 : PSK @@\n", in_double_quotes),
    "preseed": (preseed, "d-i passwd/root-password password @@\n", str),
    "netrc": (netrc, "machine a login b password @@\n", str),
    "netrc, quotes": (netrc, "machine a login b password @@ account c\n", in_double_quotes),
    "pgpass": (columns(4, ":"), "h:5432:d:u:@@\n", lambda s: s.replace("\\", "\\\\").replace(":", "\\:")),
    "URL": (urls, "https://robot:@@@git.example.com/x.git\n", lambda secret: quote(secret, safe="")),
    "XML element": (xml, "<a><password>@@</password></a>", html.escape),
    "XML attribute": (xml, '<graphics passwd="@@"/><b>', html.escape),
    "XML property": (xml, '<property name="password" value="@@"/> ', html.escape),
    "JSON": (tree, '{"user": "a", "password": @@}', json.dumps),
    "YAML, single quotes": (
        tree,
        "a:\n  password: @@\n",
        lambda secret: "'" + secret.replace("'", "''") + "'",
    ),
    "YAML, double quotes": (tree, "a:\n- password: @@\n", in_double_quotes),
    "YAML, block": (tree, "a:\n  password: |-\n    @@\n  b: c\n", str),
    "YAML, arguments": (tree, "args:\n- --password\n- @@\n", in_double_quotes),
    "YAML, name and value": (tree, "env:\n- name: DB_PASSWORD\n  value: @@\n", in_double_quotes),
}


@pytest.mark.parametrize("syntax", SYNTAXES)
def test_value_of_any_character_is_learnt_exactly(syntax: str) -> None:
    parser, template, write = SYNTAXES[syntax]
    base = "Qw7rT2yU9iP4"
    missed = []
    for character in string.ascii_letters + string.digits + string.punctuation:
        for secret in (character + base, base[:6] + character + base[6:], base + character):
            if syntax == "fstab" and character == ",":
                continue  # mount(8) cannot have one there
            text = template.replace("@@", write(secret))
            if secret not in {value for _, value in secrets_among(parser(text))}:
                missed.append(secret)
    assert missed == []


@pytest.mark.parametrize(
    ("name", "is_secret"),
    [
        *(("password", True), ("OS_PASSWORD", True), ("psk", True), ("wep-key0", True), ("rootpw", True)),
        *(("aws_secret_access_key", True), ("oauth_token", True), ("node.session.auth.password", True)),
        *(("psk-flags", False), ("token_file", False), ("passwd_path", False), ("username", False)),
        *(("key-mgmt", False), ("token_url", False), ("secretName", False), ("description", False)),
    ],
)
def test_name_tells_whether_a_value_is_secret(name: str, *, is_secret: bool) -> None:
    assert is_secret_name(name) is is_secret


def test_paths_and_variables_behind_a_token_are_not_learnt(tmp_path: Path) -> None:
    file = tmp_path / "etc/sysconfig/app"
    file.parent.mkdir(parents=True)
    file.write_text(
        "API_TOKEN=/run/secrets/api-token\nAPI_KEY=${FROM_ELSEWHERE}\nSECRET_KEY=$(cat /run/key-file)\n"
    )
    assert known_secrets(tmp_path).secrets == ()


def test_values_of_similar_names_are_not_learnt(tmp_path: Path) -> None:
    file = tmp_path / "etc/sysconfig/proxy"
    file.parent.mkdir(parents=True)
    file.write_text("PROXY_BYPASS=localhost,127.0.0.1,.example.com\nsigning_key=release-signing-key\n")
    assert known_secrets(tmp_path).secrets == ()


@pytest.mark.parametrize(
    "text",
    ["[" * 20_000, "a: &a [*a]\n", "a: &a [x]\nb: &b [*a,*a]\nc: [*b,*b]\n", "\0\xff", "'", "<a" * 9999],
)
def test_damaged_or_hostile_files_raise_nothing(tmp_path: Path, text: str) -> None:
    for path in CANARIES:
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    known_secrets(tmp_path)
