"""Where a value ends: each syntax says so itself, and the text around the value stays."""

import re

import pytest

from service_record.redaction import Rules
from tests.redaction.measure import redact

RULES = Rules()


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
        "mount -o username=x,password=«a;b|c»,uid=0",
        "Server=db;Pwd=«a,b&c»;Database=x",
        "GET /?user=x&password=«a;b,c»&v=1 HTTP/1.1",
        "{Username:admin Password:«a,b;c» Port:9440}",
        "+ app --password='«a b;c»' --verbose",
        "a0='' ipmitool -H 10.0.0.7 -P '«a;b c»' power on",
    ],
)
def test_value_ends_where_its_syntax_says(text: str) -> None:
    wanted = re.sub("«.*?»", "<redacted>", text)
    after = redact(re.sub("[«»]", "", text).encode(), RULES).decode()
    assert re.sub("<redacted:[a-z-]*>", "<redacted>", after) == wanted


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
