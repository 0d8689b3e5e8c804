"""After a name, uncommon words of letters are values, and common ones are not."""

from typing import Final

import pytest

from service_record.redaction import Rules
from service_record.redaction.common_words import is_uncommon_word
from tests.redaction.measure import redact

RULES: Final = Rules()


@pytest.mark.parametrize("word", [b"winterplanet", b"Falcondragon", b"KPWNZQVB", b"brbfyqhu."])
def test_a_joined_or_random_word_is_uncommon(word: bytes) -> None:
    assert is_uncommon_word(word)


@pytest.mark.parametrize(
    "word", [b"authentication", b"Certificate", b"HOSTNAME,", b"winter", b"dbPasswordRef", b"a1b2c3d4"]
)
def test_a_common_short_or_mixed_word_is_not(word: bytes) -> None:
    assert not is_uncommon_word(word)


@pytest.mark.parametrize(
    ("line", "value"),
    [
        (b"radius secret=winterplanet", b"winterplanet"),
        (b"token: falcondragon", b"falcondragon"),
        (b"the shared secret is falcondragon", b"falcondragon"),
        (b"CREATE USER bob IDENTIFIED BY copperbasket", b"copperbasket"),
    ],
)
def test_an_uncommon_word_after_a_name_is_masked(line: bytes, value: bytes) -> None:
    assert value not in redact(line, RULES)


@pytest.mark.parametrize(
    "line",
    [
        b"secret=authentication",
        b"token: unauthorized",
        b"the password is required",
        b"secret: hyperkube invoked oom-killer: gfp_mask=0x100cca",
    ],
)
def test_words_of_messages_stay(line: bytes) -> None:
    assert redact(line, RULES) == line
