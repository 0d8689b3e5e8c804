"""Where a value ends: each syntax says so itself, and the text around the value stays."""

import base64
import json
import random
import re
from collections.abc import Callable

import pytest

from service_record.redaction import Redactor, Rules
from service_record.redaction.redactor import BLOCK_BYTES
from service_record.redaction.types import Finder, compile_pattern
from tests.redaction.measure import SEED, redact

RULES = Rules()
PREFIX = "Nov 29 00:00:01 node7 app[1]: "


@pytest.mark.parametrize(
    "text",
    [
        '{"password":"«a;b,c&d|e»","user":"x"}',
        '{"args":["app","--password","«a b,c»","-v"]}',
        '{"value":"«[x]{y}9»","name":"DB_PASSWORD"}',
        '{"msg":"password: «x;y=z7» \\n","pid":1}',
        'level=info body={"password":"«a,b;c»","n":1} user=x',
        'time=1 level=error msg="  password: \\"«a&b)c9»\\"" id=7',
        'Environment="DB_PASSWORD=«p w;x|y»"',
        "DB_PASSWORD='«a'\\''b c»' cmd",
        "GOVC_PASSWORD=«a;b|c» govc about",
        "password: «[a] {b} #c» ",
        "Nov 21 00:54:19 boot0 app[2213]:   password: «;a&b|c,9»",
        "password=«a&b;c|d»",
        "curl -b sid=«Qw7rT2yU9» -s -b tok=«Zx8vB3nM1» -b c=«Kl4jH6gF2» https://h/",
        "curl -u a:«Qw7rT2yU9iP» -x http://p -U b:«Zx8vB3nM1oL» https://h/",
        "mount -o username=x,password=«a;b|c»,uid=0",
        "Server=db;Pwd=«a,b&c»;Database=x",
        "Driver={SQL Server};Pwd={«a;b}}c=d»};Database=x",
        "Driver={SQL Server};Pwd={PASSWORD};Uid={USER};",
        "GET /?user=x&password=«a;b,c»&v=1 HTTP/1.1",
        "{Username:admin Password:«a,b;c» Port:9440}",
        "+ app --password='«a b;c»' --verbose",
        'secret = b"«Qw7rT2yU9iP4xZ»"',
        "api_key = rb'«Qw7rT2yU9iP4xZ01»'",
        'if password == "«a;b x9»":',
        'assert headers["x-secret-key"] == "«Qw7rT2yU9iP4xZ01»"',
        '{"source":"data:,pwd%3D«a%3Bb%2CcX9»%0Auser%3Dx%0A"}',
        "GET /?a=1&token={{ TOKEN }}&b=2",
        "assert some.token == {",
        "    password: null,",
        "a0='' ipmitool -H 10.0.0.7 -P '«a;b c»' power on",
        "app --password '«-Kt,n],qp2)A6l»' --verbose",
        "app --password '«'\"'\"'9yQ821x[1;cg»' --verbose",
        "app '--password=«K.7*r;Iqsa=r{4T9»' --verbose",
        "DB_PASSWORD=«a;user=omJ=x9»",
        "the NAME_TOKEN: «aB3dE9fG5iJkaB3»: more words",
        "failed to read token: aB3dE9fG5iJkaB3: more words",
        'MESSAGE=$\'{"value": "«wKS*\\\\"kK9»", "name": "DB_PASSWORD"}\'',
        'type=EXECVE msg=audit(1.2:3): argc=4 a0="ipmitool" a1="-P" a2="«hunter2x»" a3="power"',
        'type=EXECVE msg=audit(1.2:3): argc=3 a0="sh" a1=«70617373776F72643D68756E7465723278» a2="x"',
        r"app --password=«\npV7xq2rT9wz»",
        r'{"msg":"app --password=«\\tpV7xq2rT9wz» -v"}',
        r"msg=\"password:\nuser: root\"",
        "got the password: «hunter2x»: failed",
        "/run/secrets/db-password: checkisomd5: The media check is complete",
        "mysql -p«Qw7rT2yU9» -p«Zx8vB3nM1» -e 'select 1'",
        "ipmitool -P «Qw7rT2yU9» -P «Zx8vB3nM1» -p 623 power on",
        "sshpass -p «Qw7rT2yU9» ssh -p 22 core@10.0.0.5",
        "podman login -p «Qw7rT2yU9» quay.io && podman run -p 8080 x",
        "ENV DB_PASSWORD «Qw7#r=T2;yU9»",
        "set -gx DB_PASSWORD '«Qw7#r\\'=T2;yU9»'",
        'conn.setPassword("«Qw7;r,T2)yU9»");',
        "os.environ.setdefault('DB_PASSWORD', \"«a'B;c,1#9d»\")",
        "[('user', 'root'), ('password', 'a;B'), ('password', '«a;B#cd,E9»')]",
        '{password,<<"«a;B#cd,E9»">>}',
        '  password "«a;B#cd,E9»"',
        "CREATE LOGIN a WITH PASSWORD = N'«a;B#c''d,E9»'",
        "define('DB_PASSWORD', '«a;B\\'#c9dE»');",
        "Error: {'cmd': 'PGPASSWORD=\\'«\"5W;KF,Y5j&t»\\' psql -h db'}",
        "password: &pw «aB3dE9fG5iJ»",
        "<property value='«a;B,c#1»' name='password'/>",
        '<property name="password" value="«a;B,c#1»"/>',
        "<property><name>db.password</name><value>«a;B,c#1»</value></property>",
        '<property name="password"><value>«a;B,c#1»</value><string>unrelated</string></property>',
        '<item name="password"/><value>unrelated</value>',
        "<password><![CDATA[«a;B<c#1»]]></password>",
        '<secret name="x"><uuid>7c1f</uuid></secret><key>label</key><string>database</string>',
        "<key>password</key><string>«correct horse»</string>",
        '{"password": {"value": "«a;B,c#1»", "version": 2}}',
        '[{"ParameterKey": "DbPassword", "ParameterValue": "«a;B,c#1»"}]',
        '{"tokens": ["«9fk2l0dl2kq8»", "kfow"], "passwords": ["«a;B,c#1»", {"value": "«a;B,c#2»"}]}',
        '{"secrets": ["backup20x1", {"name": "pull-secret"}], "authorized_keys": ["ecdsa AAAA0123456789ab"]}',
        '{"password": ["This field is required.", "Input/output error"]}',
        'tokens = ["«9fk2l0dl2kq8»", "«kfow02kd9s1x»"]',
        'passwords: ["«a;B,c#1»"]',
        "api_keys: ['«9fk2l0dl2kq8»', \"«kfow02kd9s1x»\", «zz9fk2l0dl2k», plain]",
        "tokens: ['«a1b2 c3d4e5 f6»', «9fk2l0dl2kq8»] # [node7x8y9]",
        "imagePullSecrets: [registry20x1]",
        "password: [changed]",
        "password: !vault |",
        "passwords = [",
        '{"name": "DB_PASSWORD", "displayName": "x", "value": "«a;B,c#1»", "defaultValue": "y"}',
        '{"filename": "/etc/passwd", "maxValue": "4096 bytes"}',
        '- {name: DB_PASSWORD, value: "«a;B\\",c#1»"}',
        "2026-11-21 00:54:19,123 INFO password: «Mi$NBonR$</j;=>^»",
        "password\t[success=1 default=ignore]\tpam_unix.so obscure yescrypt",
        "* `password` {string|ArrayBuffer|Buffer}, see man5/passwd.5 man5/proc.5",
        '<a href="#keys" id="pre-shared-key">#</a> <passphrase>empty if not used</passphrase>',
        "INSERT INTO users (id, `password`, name) VALUES (7, MD5('«a;B#''c9dE»'), 'correct-horse');",
        "insert into t(user, db_password) values ('correct horse', '«correct horse»') ;",
        "<13>1 2026-11-21T00:54:19.1Z boot0 app 2213 - - password: «[a] {b} #c9»",
        "failed:         password: «]f$i|5^A}LJ-/rM»:",
        "INSERT INTO u (id, password) VALUES (7, '«a;B#c9dE»'), (8, MD5('«a;B#c8dE»')),(9,N'«a;B#c7dE»')",
        'INSERT INTO columns VALUES ("username", "password", "created_at")',
        'getPassword("user", "service") failed for password "root"',
        "adminPasswordKey: postgres-password1",
        "Command ['mysqladmin', '-u', 'root', 'password', '«ribbon Pen9cil»'] returned 1",
        '{"args": ["ipmitool", "-P", "«ribbonpencil»", "-v"], "cmd": ["sh", "-c", "curl -u bob:«pencil7x»"]}',
        '["password", "created_at"]',
        "| vnc_password | «ribbon pencil» |",
        "| note_on_password | The password is required |",
        "INSERT INTO config (name, value) VALUES ('DB_PASSWORD', '«ribbonpencil»'), ('hue', 'redorange')",
        '  shared-secret "«ribbonpencil»";',
        "bindpw «ribbonpencil»",
        "MESSAGE=requirepass «ribbonpencil»",
        "auth_pass is not set",
        "neighbor 10.0.0.2 password «lantern-copper-nectar»",
        "│ username │ password │          host          │",
        "secret = «rtslenptgeftdu»",
        "secret: MyAppSecretName",
        "app.default.pass=«ribbonpencil»",
        "SSHPASS=«ribbonpencil» AuthPass=«ribbonpencil» BYPASS=partly",
        "X-Default-Pass: «ribbonpencil»",
        "app --bindpw «ribbonpencil» --ssl.keystore.password «ribbonpencil» --port 1",
        "<property><name>DD_API_KEY</name><value>«0c7ad706a6b994b48315f8e7eda168c7»</value></property>",
        '{"passwordKey":"redis-password","tokenKey":"token1abc","secretKey":"«9fk2l0dl2kq8Zs»"}',
        "passwordKey=«Qw7rT2yU9iP4xZ»",
        "apiKey: «9fk2l0dl2kq8Zs»",
        "useradd --password '!!' bob; usermod --password ! eve; usermod --password '«!a;B#c9»' cy",
        "bob:{PLAIN}pw:1000:1000::/home/bob",
        "bob:{PLAIN}«hunter2x»:1000:1000::/home/bob",
        "helm install x --set auth.password=«xQ7pV2rT9w»,auth.user=y --set db.password=«a;B#c1»",
        "passwords: [see below]",
        "passwords: [none, changed]",
        '<state name="auth_token" value="running"/><state name="auth_token" value="«9fk2l0dl2kq8Zs»"/>',
        "auth_token = «['9fk2l0dl2kq8Zs']»",
        'user.set_password("bob", "«a;B#c9dE»")',
        "auth.login('bob', '«a;B#c9dE»')",
        "password=«<Qw7rT2yU9>»",
        "password=<your password>",
        "password=<PASSWORD1> password: <yourPassword1>",
        "    password root «Qw7rT2yU9»",
        " area-password md5 «Winter24!x»",
        " key 7 «7A3463D9D50D»",
        "pin-code = «61973972», pin=17",
        "&lt;?php define(&#x27;DB_PASSWORD&#x27;, &#x27;«Pm^J4~$!a0aqZ»&#x27;);",
        "users=admin:«$$apr1$$GDDMDFYs$$WBtn/pRzcjZuWlSAoQCAAJ»",
        "Splunk_Token  «df9ce56b-89f5-4515-a5c0-1fa5dcb27f4a»",
        "password   required   pam_pwquality.so",
        "password include system-auth-ac9",
        "password for user12345",
        "chap_secret user * «Qw7rT2yU9» *",
        "DEBUG HikariConfig - password........................«ribbon-pencil»",
        "git fetch https://«045fd23675f0f26927ce6833dee7962aaf37d003»:«x-oauth-basic»@git.example.com/r.git",
        "java -jar agent.jar -auth admin:«Ribbon2014»",
        "secret = «0x45a30759df97dc26a15b88ff»",
    ],
)
def test_value_ends_where_its_syntax_says(text: str) -> None:
    wanted = re.sub("«.*?»", "<redacted>", text)
    after = redact(re.sub("[«»]", "", text).encode(), RULES).decode()
    assert re.sub("<redacted:[a-z-]*>", "<redacted>", after) == wanted


@pytest.mark.parametrize("prefix", ["", PREFIX])
@pytest.mark.parametrize(
    "lines",
    [
        [
            "passwords:",
            "  - «a;B#c,1»",
            '  - "«correct h0rse»"',
            "  - changed",
            "  - Log in first",
            "name: x1y2z3w4",
        ],
        ["tokens:", "- «9fk2l0dl2kq8» # of node7", "- registry-node-2", "node: kfow02kd9s1x"],
        ["secrets:", "  - backup20x1", "  - pull-secret"],
        ["  api_keys:", "    - name: node7", "      password: «a;B#c,1»"],
        [
            '  "tokens": [',
            '    "«9fk2l0dl2kq8»",',
            '    "«kfow02kd9s1x»"',
            "  ],",
            '  "node": "kfow02kd9s1y"',
        ],
        ["passwords = [", "  '«a;B#c,1»',", "]"],
        ["<key>SharedSecret</key>", "<data>«9fk2l0dl2kq8==»</data>"],
        ['variable "lab_token" {', '  default = "«9fk2l0dl2kq8»"', "}"],
        [
            "env:",
            "- name: DB_PASSWORD",
            "  value:",
            "    «Qw7rT2yU9iP4»",
            "- name: API_TOKEN",
            "  value: |",
            "    «a b c d»",
            "  other: qw7rt2yu9ip4",
        ],
        ["   - name: DB_PASSWORD", '-    value: "«ribbonpencil»"', '+    value: "changed"'],
    ],
)
def test_items_of_lists_are_masked(lines: list[str], prefix: str) -> None:
    text = "".join(f"{prefix}{line}\n" for line in lines)
    wanted = re.sub("«.*?»", "<redacted>", text)
    after = redact(re.sub("[«»]", "", text).encode(), RULES).decode()
    assert re.sub("<redacted:[a-z-]*>", "<redacted>", after) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO u (id, password) VALUES\n  (7, '«a;B#c9dE»'),\n(8,MD5('«a;B#c8dE»'));\n(9, 'a;B#c7dE');",
        "insert into u (token, x) values ('«9fk2l0dl2kq8»', 'a'),\n('«kfow02kd9s1x»', 'x9fk2l0dl2kq8');\n",
        "INSERT INTO u (id, password) VALUES\n-- none\n('x', 'a;B#c9dE')",
        f"{PREFIX}INSERT INTO u (id, token) VALUES\n{PREFIX}('x', '«9fk2l0dl2kq8»');",
        "insert into users values (1,'bob','«Winter24!x»','Bob1@lab.example','2026-01-01T00:00:00Z');",
        "insert into events values (1,'bob','Winter24!x');",
    ],
)
def test_rows_below_an_insert_are_masked(text: str) -> None:
    wanted = re.sub("«.*?»", "<redacted>", text)
    after = redact(re.sub("[«»]", "", text).encode(), RULES).decode()
    assert re.sub("<redacted:[a-z-]*>", "<redacted>", after) == wanted


@pytest.mark.parametrize("head", ["", "one line\\n"])
def test_key_bytes_in_an_array_are_masked(head: str) -> None:
    key = list(b"-----BEGIN PRIVATE KEY-----MIIEvQ")
    after = redact(f"{head}{json.dumps({'MESSAGE': key, 'PRIORITY': 6})}".encode(), RULES).decode()
    read = json.loads(after.removeprefix(head))
    assert read["PRIORITY"] == 6
    assert set(read["MESSAGE"]) == {"<redacted:encoded-secret>"}


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize(
    "lines",
    [
        [
            "user,password,email",
            "bob,«a;B#c1»,bob@lab",
            '"eve","«a,B""c1»","x@lab"',
            "cy,,c@lab",
            "bob, b1c2d3e4",
        ],
        ["id;api_key", "x1y2z3w4;«9fk2l0dl2kq8»", "7;plain", "x9fk2l0dl2kq8"],
        ["node\tdb_token", "node7x8y9\t«9fk2l0dl2kq8»"],
        ["select name,password from users", "node7, node7x8y9z"],
        ["host,ansible_become_pass", "node7,«ribbonpencil»"],
        ["password", "node7x8y9z"],
        ["# user:password", "bob:«a;B:#c1»", "# eve", "eve:«ribbonpencil»", "node7: x8y9z"],
        ["; format: bucket:access:secret", "eu:AK7Z:«9fk2l0dl2kq8»"],
        ["# mount point / user / password", '/mnt  "bob"  "«a;B#c1»"', "a line of many other words"],
        ["# server[:port]\tshared_secret\ttimeout (s)", "lab.example:1812  «9fk2l0dl2kq8»  3"],
        ["#  Reads  the password  file", "node7x8y9z a1b2c3d4e5"],
        [f"{PREFIX}host,password", f"{PREFIX}node7,«ribbonpencil»"],
        [
            " id | login | password",
            "----+-------+---------",
            "  1 | bob   | «Ribbon.2014»",
            "(1 row)",
            " 2 | x | Ribbon.2015",
        ],
        ["| Login | Password |", "|---|---|", "| bob | «Ribbon.2014» |", "", "Ribbon.2015"],
        ["HOST    USER    PASSWORD", "bmc1    root    «Ribbon.2014»"],
        ["old_passwords\tOFF", "optimizer_switch\ton"],
        ["| old_passwords | OFF |", "| open_files | 12 |"],
    ],
)
def test_columns_of_csv_are_masked(lines: list[str], end: str) -> None:
    text = "".join(f"{line}{end}" for line in lines)
    wanted = re.sub("«.*?»", "<redacted>", text)
    after = redact(re.sub("[«»]", "", text).encode(), RULES).decode()
    assert re.sub("<redacted:[a-z-]*>", "<redacted>", after) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "<redacted:foo password=«hunter2Xy9Q»",
        "<redacted:tok «ghp_abcdefghijklmnopqrstuvwxyz0123456789»",
        "<redacted:Foo> password=«hunter2Xy9Q»",
        "see <redacted:foo curl -u admin:«hunter2Xy9Q» https://x",
        "curl -u <redacted:passw",
        "curl -u <redacted:password> x",
        "password=<redacted:passw",
        "password=<redacted:password> x",
        "password=«<redactedXq7pV2»",
        "password=«<redacted:pV7xq2rT9wz»",
        'password: "«<redacted-pV7xq2rT9wz»"',
        '{"password":"<redacted:passw"}',
    ],
)
def test_only_a_mask_or_its_cut_end_stays(text: str) -> None:
    """A mask is lower-case letters, digits and hyphens up to `>`. A cut one ends the text."""
    wanted = re.sub("«.*?»", "<redacted>", text)
    after = redact(re.sub("[«»]", "", text).encode(), RULES).decode()
    masks = "<redacted:[a-z-]+>"
    assert re.sub(masks, "<redacted>", after) == re.sub(masks, "<redacted>", wanted)


@pytest.mark.parametrize("width", [32, 64, 120, 1000])
@pytest.mark.parametrize("case", [str.lower, str.upper])
def test_digests_stay(width: int, case: Callable[[str], str]) -> None:
    """Also those that begin like a token, and lines that are decoded together."""
    chance = random.Random(SEED)
    digests = [f"eaa{chance.randbytes(width // 2).hex()[3:]}" for _ in range(500)]
    digests += [chance.randbytes(width // 2).hex() for _ in range(2000)]
    text = case("\n".join(digests)).encode()
    assert redact(text, RULES) == text


def test_random_bytes_in_base64_stay() -> None:
    """A certificate is one: words stand in it by chance."""
    text = base64.encodebytes(random.Random(SEED).randbytes(1 << 20))
    assert redact(text, RULES) == text


@pytest.mark.parametrize(
    "text",
    [
        'type=EXECVE msg=audit(1.2:3): argc=3 a0="sshpass" a1="-p" a2="hunter2x"',
        "type=PROCTITLE msg=audit(1.2:3): proctitle=" + b"sshpass\0-p\0hunter2x\0ssh".hex().upper(),
    ],
)
def test_arguments_in_audit_records_are_masked(text: str) -> None:
    after = redact(text.encode(), RULES).decode()
    assert "hunter2x" not in after
    assert b"hunter2x".hex().upper() not in after
    assert after.startswith(text[:38])


@pytest.mark.parametrize(
    ("before", "secret", "after"),
    [
        ('client core-sw { secret = "', "pZx!kQwvBtr%", '" }'),
        ("<AdministratorPassword><Value>", "Qw7rT2yU9iP4", "</Value></AdministratorPassword>"),
        ('{"msg":"rootpw\\t', "Qw7rT2yU9iP4", '"}'),
        ("sqlcmd -S db -U sa -P ", "Qw7rT2yU9iP4", " -Q 'select 1'"),
        ("+ '[smtp.lab]:587' bob@lab:", "Qw7rT2yU9iP4", ""),
        ("Setting db_password to ", "ribbonpencil", ""),
        ('changed option "requirepass" to "', "ribbon pencil", '"'),
        ("The password was changed from x to ", "ribbonpencil", "."),
        ("Nov 21 10:00:00 host app[1]: Setting API_KEY to ", "5d8d360b-020e-4b46-bb15-23683df6e483", ""),
        ("MONGO_PASSWORD ", "ribbonpencil", ""),
        ("+ echo 'requirepass ", "ribbonpencil", "'"),
        ("+bindpw ", "ribbonpencil", ""),
        ("7z x -p", "ribbonpencil", " a.7z"),
        ("neighbor 10.0.0.2 password ", "lantern-copper", ""),
        ("Use the following password to proceed:\n\n", "0a1b2c3d4e5f60718293a4b5c6d7e8f9", ""),
        (f"{PREFIX}The token is:\n{PREFIX}\n{PREFIX}", "0a1b2c3d4e5f607182", ""),
        ("Nov 21 10:00:00 h a[1]: The token is:\nNov 21 10:00:00 h a[1]: ", "0a1b2c3d4e5f607182", ""),
        ("Private-Lines: 1\n", "IoWSERcCpDuwz8zdJSbzMvHF5i8+CIGYXo2gbhJY", "\nPrivate-MAC: 0f"),
        ('{"a":"Private-Lines: 1\\n', "IoWSERcCpDuwz8zdJSbzMvHF5i8+CIGYXo2gbhJY", '\\nPrivate-MAC: 0f"}'),
        ("-----BEGIN OpenVPN Static key V1-----\n", "2ab3f00112233445566778899aabbccd", "\n-----END"),
        ("+ echo -n '", "ribbon-pencil", "'\n+ cryptsetup luksOpen /dev/sda2 root -"),
        ("curl \\\n" + "  --header a=b \\\n" * 100 + "  --user \\\n  core:", "ribbonpencil", ""),
        (
            "Nov 21 10:00:00 h a[1]: ++ x.sh:1: echo ",
            "ribbonpencil",
            "\nNov 21 10:00:02 h a[1]: ++ x.sh:1: kinit bob",
        ),
        ("Command ['7z', 'x', '-p", "ribbonpencil", "', 'a.7z'] failed"),
        ("cmd: ['mc', 'alias', 'set', 's3', 'http://s3', 'admin', '", "ribbonpencil", "']"),
        ('expect "*assword:*"\nsend -- "', "ribbon pencil", '\\r"'),
        ('expect "assword:"; send "', "ribbon pencil", '\\r"'),
        ('{"a":"expect \\"*assword:*\\"\\nsend \\"', "ribbonpencil", '\\\\r\\""}'),
        ("+ echo 'chpasswd:\n  list: |\n    root:", "ribbonpencil", "'"),
        ("<a>chpasswd:\n  list: |\n    root:", "ribbonpencil", "</a>"),
        ("chpasswd:\n  list: |\n    root:", "\"ab;C9!x'yz", ""),
        ("rootpw ", "|l=t4Fq]*}59i?<", ""),
        ('val password: String = "', "ribbon2x", '"'),
        ('{"kty":"EC","d":"', "-slaQqyHQPudOpq2mbDskum8rOu9IMkLGjINAFWwfqr_", '"}'),
        ("got ", "_slaQqyHQPudOpq2mbDskum8rOu9IMkLGjINAFWwfqr-", " from it"),
        ("_auth = ", "YWRtaW46aHVudGVyMng=", ""),
        ("smtp://bob@example.com:", "ribbon498", "@mail.example.com:587"),
        ("args:\n- --password\n- ", "]3?uU#9YKB/>G5Wc", "\n- --verbose"),
        ("args:\n- --password\n- ", "\"1n/f;;LHO&]vb'?", "\n- --verbose"),
        ("https://bob@example.com:", "ribbon!#@498", "@git.example.com"),
        ("- name: DB_PASSWORD\n  value: ", "{@D:8B)QS(k<qy=q", ""),
        ('{"a":"mosquitto\\u005fpub \\u002du bob \\u002dP ', "ribbonpencil", ' \\u002dt x"}'),
        ("vpn.secrets.password:", "ribbonpencil", ""),
        ("esxcli -s esx1 -u root -p ", "ribbon-pencil-anchor", " system version get"),
        ("+ xe -s xs1 -u root -pw ", "ribbonpencil", " vm-list"),
        ("echo ", "Ribbon2014!", " | zfs load-key tank/enc"),
        ("(echo ", "Ribbon2014!", "; cat x) | smbpasswd -s -a bob"),
        ("Xauth password ", "glxqjmmxammtyw", ""),
        ("[smtp.lab]:587 relay@lab:", "ribbonpencil", ""),
        ("mail.example.com:bob:", "Ribbon2014!", ""),
        ("10.0.0.9:1812 ", "ribbon-pencil-anchor", " 3"),
        ("bob * ", "ribbonpencil", " *"),
        ("d-i partman-crypto/passphrase password ", "ribbon pencil", ""),
        ("userPassword:: ", "cmliYm9ucGVuY2lsMTIz", ""),
        ('db.auth("bob", "', "Ribbon2014!", '")'),
        ("expdp system/", "Ribbon2014!", "@orcl full=y"),
        ("su - bob <<< ", "Ribbon2014!", ""),
        ('key = "', "hgKvBnqpLmZx", '"'),
        ("login=bob:", "Ribbon2014!", " proxy"),
        ("client x {\n  secret = ", "ribbonpencil", "\n}"),
        ("api_token = ", "ribbonpencil", ""),
        ('component_secret = "', "ribbon-pencil", '"'),
        ("    client_secret: ", "ribbon-pencil", ""),
        ('"accessToken": "', "ribbonpencil", '"'),
        ("CI_TOKEN=", "ribbonpencil", " make"),
        ('modparam("auth", "db_password", "', "ribbonpencil", '")'),
        ('    Password "', "ribbon-pencil", '"'),
        ("Changing the account password to '", "ribbonpencil", "' (as before)"),
        ("curl -H 'Authorization: Bearer ", "ribbonpencilcase", "' https://x"),
        ("bob Password.Cleartext := '", "ribbon-pencil", "'"),
        ("run 'shared-secret \"", "ribbonpencil", "\";' x"),
        ('~ password = "" -> "', "ribbonpencil", '"'),
        ("Using password from /etc/app.yaml: ", "0a1b2c3d4e5f60718293a4b5", ""),
        ("mysqladmin -u root password ", "hgKvBnqpLmZxWr", ""),
        ("samba-tool user create bob ", "Ribbon2014#", " --given-name=Bob"),
        ("ctr images pull --user robot:", "Ribbon_2014", " quay.io/a/b"),
        ("pkcs11-tool --login --pin ", "89567437", " -O"),
        ("app -pass ", "ribbonpencil", " -v"),
        ("app --signing-key ", "ribbonpencil", " -v"),
        ("signtool.exe sign /f a.pfx /p ", "ribbonpencil", " x.exe"),
        ("wpa_passphrase home ", "ribbonpencil", ""),
        ('System.setProperty("A_TOKEN", "', "q7x2mz9k4t1v8w3p6r5y", '")'),
        ("Authorization: GenieKey ", "0a1b2c3d4e5f60718293a4b5c6d7e8f9", ""),
        ('algorithm hmac-sha256; secret "', "hQ7wZ2kR9mT4oT7wZ2kR9mT4oT7wZ2kR9mT4oT7wZ2k=", '";'),
        ("[smtp.example.com]:587 user@example.com:", "Ribbon2014", ""),
        ("SECRET_KEY = '", "django-insecure-q7x2mz9k4t1v8w3p6r5yq7x2mz9k4t", "'"),
        ('nohup sh -c "echo \\"', "ribbonpencil", '\\" | sudo -H -S true"'),
        ("K3S_TOKEN=", "Ribbon@2014", " sh -"),
        ("$Conf{RsyncdPasswd} = '", "Ribbon_2014", "';"),
        ('SessionCryptoPassphrase "', "amber-canyon-kettle-river", '"'),
        ("npm config set //npm.lab/:_authToken ", "b8feea4e-82ec-49aa-b2a7-f69c3c06e67e", ""),
        ("Enter password for private key: ", "Ribbon_2014", ""),
        ("openfortivpn vpn:443 -u bob -p ", "Ribbon.2014", " --trusted-cert 0a1b"),
        ("ssh: auth_password(bob, ", "Ribbon@2014", ") failed"),
        ("Set the following 'random' passwords\n\ncore:", "Ribbon2014", ""),
        ('<USER><PASSWORD value="', "ribbonpencil", '"/></USER>'),
        ("vault login ", "9c0cbbce-54e5-4a93-b9f1-418a16d755c6", ""),
        ("command:\n- ipmitool\n- -P\n- ", "ribbonpencil", "\n- power"),
        ('"Args": [\n  "ipmitool",\n  "-P",\n  "', "ribbonpencil", '",\n  "power"\n]'),
        ("    Args:\n      ipmitool\n      -P\n      ", "ribbonpencil", "\n    State:  Running"),
        ("ipmitool \\\n  -P ", "ribbonpencil", " \\\n  power"),
        ("a[1]: ipmitool -H x \\\na[1]:   -P ", "ribbonpencil", ""),
        ('{"a":"args:\\n- --token\\n- ', "ribbonpencil", '\\n"}'),
    ],
)
def test_value_is_masked_by_its_place(before: str, secret: str, after: str) -> None:
    text = redact(f"{before}{secret}{after}\n".encode(), RULES).decode()
    assert (text[: len(before)], "<redacted:" in text, secret in text) == (before, True, False)
    assert text.endswith(f"{after}\n")


@pytest.mark.parametrize(
    "text",
    [
        'secret = "openshift-etcd/etcd-peer"',
        'token: "Refreshed!"',
        'secret: "Hello+World"',
        "sudo -u app -p prompt ls",
        "docker run -u root -p 8080:80 image",
        "db_password varchar(20)",
        "db_password missing",
        "api_token expired",
        "The string is the username and password separated by a colon.",
        "requires password to be set",
        "please change your password to continue",
        "Setting token to null",
        "Setting secret to openshift-etcd/etcd-client",
        "Enter the password for user bob:\nSorry, try again.",
        "+ echo done1\n+ tee log",
        "+ echo 'Unlocking the disk'\n+ cryptsetup luksOpen /dev/sda2 root -",
        "use_auth = required",
        "http_auth = kerberos",
        'key = "openshift-etcd-peer"',
        "pam_password:failed",
        "mysql -u root -p wordpress",
        "echo 5.14.0-284.el9.x86_64 | cut -d- -f1",
        'echo -e "$CMT_MSG\\n$HEADERS" | sed p',
        "mailto:jsmithxzq@lab.example.org and 2014-08-22:BF7CEF794F9.000003F0a@lab.example.org",
        "user: docker:latest",
        "quay.io:app:latest",
        "manual startup with pg_ctlcluster/postgresql@.service only",
        "the Kerberos principals HTTP/webserver@LAB and nfs/node1.example.com@LAB",
        "10.0.0.9:1812 established 3",
        "void * const * p",
        "Pass completed",
        'secret = "pull-secret"',
        "secret: builder-dockercfg",
        "client_secret: oauth-config",
        "accessToken = getAccessToken()",
        "CI_TOKEN=undefined make",
        '["password", "username"]',
        'the password "does not match"',
        "bearer authentication",
        "secret = kubernetes-ca-bundle",
        "    token = next_token",
        "['app', 'alias', 'set', 'password', 'required']",
        'expect "*assword:*"\nsend "$password\\r"',
        "docker run --user www-data:www-data x; mysql -u root -p my_db",
        "error reading password for bob: timeout",
        "The following users changed their passwords:\n\nname: bob",
        "rsync -a root@host:/srv . && install -u root:root x && run --user 1000:1000",
        "app --x-auth basic --token-id ribbonpencil --tls-key server.key --oidc-auth=off",
        "args:\n- --token-file\n- /run/token\nname: api-server",
        "ipmitool \\\n  -H host\n-P is an option",
        "proxy_pass http://big_server_com;",
        "fastcgi_pass   127.0.0.1:1025;",
        "sig_key:        81:7C:CB:07:72:4E:7F:B8:15:24:10:F9:27:2D:AA:CF:80:3E:CE:59",
        "metadata_proxy_shared_secret =*********",
        "pwhash=%{hashed_password} remote=%{rip}",
        "allowed=0 showDynPwd=0",
        "mysql --user=root --password= -s",
        "mysql --user=root --password= mysql",
        "socat -u openssl-listen:4444,reuseaddr,cert=/etc/a.pem,key=/etc/b.pem stdio",
    ],
)
def test_evidence_in_the_place_of_a_value_stays(text: str) -> None:
    assert redact(text.encode(), RULES) == text.encode()


@pytest.mark.parametrize("before", [0, BLOCK_BYTES - 3_000], ids=["one block", "two blocks"])
@pytest.mark.parametrize(
    ("head", "argument"), [("args:\n", "- {}\n"), ("ipmitool \\\n", "  {} \\\n")], ids=["list", "backslashes"]
)
def test_long_command_is_masked_to_its_end(before: int, head: str, argument: str) -> None:
    """A long command is read in parts, and its next lines may be in another block."""
    arguments = ["--password", "ribbonpencil", "--host", "a-name-of-a-host-that-is-long-" + "x" * 90] * 40
    text = (
        "a line\n" * (before // len("a line\n")) + head + "".join(argument.format(each) for each in arguments)
    )
    redactor = Redactor(RULES)
    masked = (redactor.feed(text.encode()) + redactor.finish()).decode()
    assert masked.count("<redacted:") == 40
    assert "ribbonpencil" not in masked
    assert masked.count("\n") == text.count("\n")


@pytest.mark.parametrize("text", [b"", b"a password=x", b"\xff token: \0y", b"key=1 key=2 " * 3])
def test_finder_finds_what_the_public_interface_of_re2_finds(text: bytes) -> None:
    pattern = rb"(password|token|key)([:=]) ?(z)?"
    for start in range(len(text) + 1):
        match = compile_pattern(pattern).search(text, start)
        assert Finder(pattern).find(text, start) == (match.span() if match else None)
        groups = [match.span(at) for at in range(4)] if match else None
        assert Finder(pattern, groups=True).groups(text, start) == groups
