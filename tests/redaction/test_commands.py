from service_record.redaction.commands import find_passwords
from service_record.redaction.shapes import COMMANDS, rows


def test_all_usages_in_table_can_be_parsed() -> None:
    programs = [program for row in rows(COMMANDS, "command") for program in row["programs"]]
    for program in programs:
        assert list(find_passwords(f"{program.replace('*', 'x')} --help".encode())) == []
