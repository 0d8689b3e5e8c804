"""Snippets send the last lines of a log to a real collector, with each shell and HTTP client."""

import time
from pathlib import Path

import pytest

from service_record.collector.serving_settings import CollectorSettings
from tests.collector.browsing import sign_in_visitor
from tests.collector.serving import run_collector
from tests.deploy.test_snippets import Installer, functions
from tests.waiting import wait_for


@pytest.mark.parametrize(
    ("shell", "client"),
    [("dash", "curl"), ("bash-posix", "curl"), ("bash", "wget"), ("busybox", "curl"), ("busybox", "busybox")],
)
def test_end_of_log_is_live_during_step(
    shell: str, client: str, tmp_path: Path, sqlite_settings: CollectorSettings
) -> None:
    host, log = Installer(tmp_path / "host", shell, client), tmp_path / "anaconda log"
    log.write_text("".join(f"package {number}\n" for number in range(60)) + "@/etc/hosts\nthe token is x1\n")
    with run_collector(sqlite_settings) as server:
        host.token.write_text(f"{server.client('host', 'web1').token}\n")
        given = ("--url", server.url, "--host", "web1", "--token-file", host.token, "--log", log)
        script = functions(*given)

        def words() -> list[tuple[str, str]]:
            found = server.client("reader").get("/api/v1/hosts/web1").json["last_words"]
            return [(one["stage"], one["text"]) for one in found]

        begun = time.monotonic()
        settings = "service_record_log_pause=1; service_record_log_stays=yes"
        done = host.run(f"{script}\n{settings}\nservice_record_step 'All packages' init", "-eu")
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        assert time.monotonic() - begun < 20
        wait_for(lambda: words() != [])
        ((stage, text),) = words()
        assert stage == "All packages"
        assert text.split("\n")[-3:] == ["package 59", "@/etc/hosts", "(a line that may have a secret)"]
        assert "package 41" not in text
        with log.open("a") as stream:
            stream.write("one more\n")
        wait_for(lambda: words()[0][1].endswith("one more"))
        assert "one more" in sign_in_visitor(server).get("/hosts/web1").body.decode()

        assert host.run(f"{script}\nservice_record_step 'All packages' \"done\"", "-eu").returncode == 0
        assert "one more" not in sign_in_visitor(server).get("/hosts/web1").body.decode()
