"""`service-record collector ...` as a person types it, in the process of the test: it loads once."""

from click.testing import CliRunner

from service_record.cli import main
from tests.command_line import Answer


def collector_command(*arguments: object) -> Answer:
    """Run the command; return its output and exit status."""
    done = CliRunner().invoke(main, ["collector", *map(str, arguments)], prog_name="service-record")
    return Answer(done.exit_code, done.stdout, done.stderr)
