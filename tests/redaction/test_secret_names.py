"""Names of secrets: the table, and the search for its names in a text."""

import pytest

from service_record.redaction.first_pass import patterns
from service_record.redaction.ordinary_words import find_check
from service_record.redaction.secret_names import find_name, is_evidence, rows


@pytest.mark.parametrize(
    ("name", "check"),
    [
        ("password", "password"),
        ("bmcPassword2", "password"),
        ("DB_PASS", "password"),
        ("SSHPASS", "password"),
        ("password_sha256", "password"),
        ("Password.Cleartext", "password"),
        ("Admin Password", "password"),
        ("pass", "word"),
        ("bypass", "word"),
        ("PWD", "password"),
        ("sim-pin", "is_pin"),
        ("JSESSIONID", "is_session"),
        ("token", "named token"),
        ("x509Key", "named token"),
        ("http.proxyAuth", "named token"),
        ("passwordKey", "unusual"),
    ],
)
def test_last_words_of_name_decide(name: str, check: str) -> None:
    named = find_name(name.encode())
    assert named is not None
    assert named.check is find_check(check)


@pytest.mark.parametrize(
    "name",
    [
        *("publicKey", "ssh_host_key", "sshKey", "X_KEY_ID", "tokenID", "key", "value", "", "mapping"),
        *("password_file", "tokenCount", "PasswordPolicy", "secret_name", "token-expires"),
    ],
)
def test_name_is_not_secret(name: str) -> None:
    assert find_name(name.encode()) is None


@pytest.mark.parametrize(
    "name", ["image digest", "SHA256", "userIDs", "ssh-ed25519", "public key", "pod_uid"]
)
def test_random_value_of_name_is_evidence(name: str) -> None:
    assert is_evidence(name.encode(), is_assigned=False)


def test_name_of_thing_is_evidence_only_if_value_is_assigned() -> None:
    assert is_evidence(b"hostname", is_assigned=True)
    assert not is_evidence(b"hostname", is_assigned=False)
    assert not is_evidence(b"valid", is_assigned=True)


def test_scanner_finds_each_name_of_table() -> None:
    missed = []
    for row in rows():
        names = [
            *row.get("ends", ()),
            *(f"my {name}" for name in row.get("words", ())),
            *row.get("alone", ()),
        ]
        for name in names:
            first, *others = name.split()
            camel_case = first + "".join(word.title() for word in others)
            for form in (name.replace(" ", "_"), name.replace(" ", "-").upper(), camel_case):
                found = patterns().scanner.groups(f"{form}=x".encode())
                if found is None or found[1][1] != len(form) or find_name(form.encode()) is None:
                    missed.append(form)
    assert missed == []
