"""Write the built-in rules in the form that `analyze` reads at each start, into diagnosis/rules/parsed.json.

Builds of wheels, editable installs, tests and benchmarks run this. The file is not in git.
"""

from pathlib import Path

from service_record.diagnosis import causes


def write_rules() -> None:
    """Write the file, unless it is up to date: another build may be reading it."""
    if causes.read_parsed_rules() is None:
        (Path(causes.__file__).parent / causes.PARSED).write_bytes(causes.parse_rules())


if __name__ == "__main__":
    write_rules()
