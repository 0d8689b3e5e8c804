"""Run `service-record collector ...` in the process of the test, so that modules are imported only once."""

from click.testing import CliRunner

from service_record.cli import main
from tests.command_line import Answer


def collector_command(*arguments: object) -> Answer:
    """Run the command. Return its output and exit status."""
    done = CliRunner().invoke(main, ["collector", *map(str, arguments)], prog_name="service-record")
    return Answer(done.exit_code, done.stdout, done.stderr)
