"""Child processes of a recorded service: which run they record in, and who ends it."""

from pathlib import Path

import pytest

from service_record import Records
from tests.programs import read_entries, run_program, summarize_entries
from tests.waiting import wait_for

WORKER = """
def work(number):
    with service_record.stage(f"work {number}"):
        pass
"""


@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_children_of_multiprocessing_join_the_run(tmp_path: Path, method: str) -> None:
    done = run_program(
        tmp_path,
        f"""
        import multiprocessing
        {WORKER.replace(chr(10), chr(10) + " " * 8)}
        if __name__ == "__main__":
            with service_record.service("installer"):
                with multiprocessing.get_context({method!r}).Pool(1) as pool:
                    pool.map(work, range(2))
        """,
        SERVICE_NAME="",
    )
    entries = read_entries(tmp_path, "installer")

    assert (done.returncode, done.stderr) == (0, "")
    assert Records(tmp_path / "records").services() == ["installer"]
    assert summarize_entries(entries) == [
        *("service start", "stage start work 0", "stage end work 0 success"),
        *("stage start work 1", "stage end work 1 success", "service end success"),
    ]
    assert len({entry.pid for entry in entries}) == 1
    assert all(entry.stage_id for entry in entries[1:-1])


def test_executor_of_processes_joins_the_run(tmp_path: Path) -> None:
    done = run_program(
        tmp_path,
        f"""
        import concurrent.futures, multiprocessing
        {WORKER.replace(chr(10), chr(10) + " " * 8)}
        if __name__ == "__main__":
            with service_record.service("installer", directory="elsewhere"):
                context = multiprocessing.get_context("spawn")
                with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as executor:
                    list(executor.map(work, range(2)))
        """,
        SERVICE_NAME="",
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert not (tmp_path / "records").exists()


CHILD = "import service_record\nwith service_record.stage('child'): pass\n"


def run_with_child(directory: Path, before: str = "", environment: str = "") -> None:
    """Run a service, whose child program records a stage."""
    (directory / "child.py").write_text(CHILD)
    done = run_program(
        directory,
        f"""
        import subprocess
        {before}
        with service_record.service("parent"):
            environment = {{**os.environ, {environment}}}
            subprocess.run([sys.executable, "{directory}/child.py"], check=True, env=environment)
        """,
        SERVICE_NAME="unit",
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_child_program_joins_the_run(tmp_path: Path) -> None:
    run_with_child(tmp_path)

    assert summarize_entries(read_entries(tmp_path, "parent")) == [
        *("service start", "stage start child", "stage end child success", "service end success")
    ]


def test_child_with_own_service_name_records_itself(tmp_path: Path) -> None:
    run_with_child(tmp_path, environment="'SERVICE_NAME': 'child'")

    assert summarize_entries(read_entries(tmp_path, "parent")) == ["service start", "service end success"]
    assert summarize_entries(read_entries(tmp_path, "child")) == [
        "stage start child",
        "stage end child success",
    ]


def test_child_of_another_systemd_unit_records_itself(tmp_path: Path) -> None:
    run_with_child(tmp_path, environment=f"'INVOCATION_ID': {'cd' * 16!r}")

    assert summarize_entries(read_entries(tmp_path, "parent")) == ["service start", "service end success"]
    assert summarize_entries(read_entries(tmp_path, "unit")) == [
        "stage start child",
        "stage end child success",
    ]


@pytest.mark.parametrize(
    "run",
    [
        "1:job::other:",
        "4194304@1.0:job::other:",
        "x",
        ":::",
        "1@a:job::other:",
        "4194304@1.0,4194303@2:job::other:",
    ],
)
def test_stale_or_damaged_run_in_the_environment_is_ignored(tmp_path: Path, run: str) -> None:
    done = run_program(tmp_path, f"\n{CHILD}", SERVICE_RECORD_RUN=run)

    assert done.stderr == ""
    assert summarize_entries(read_entries(tmp_path)) == ["stage start child", "stage end child success"]


def test_environment_is_as_before_after_the_service(tmp_path: Path) -> None:
    done = run_program(
        tmp_path,
        """
        before = dict(os.environ)
        with service_record.service("one:with 100%", directory="."):
            print(os.environ["SERVICE_RECORD_RUN"].count(":"))
            with service_record.service("two"):
                pass
        print(before == dict(os.environ))
        """,
    )

    assert done.stdout == "4\nTrue\n"


def test_daemon_ends_the_run_of_its_parent(tmp_path: Path) -> None:
    run_program(
        tmp_path,
        """
        import time
        with service_record.service():
            parent = os.getpid()
            if os.fork():
                os._exit(0)
            os.setsid()
            while os.getppid() == parent:  # a busy machine may run it last
                time.sleep(0.01)
            child = os.getpid()
            if os.fork():
                os._exit(0)
            while os.getppid() == child:
                time.sleep(0.01)
            with service_record.stage("daemon"):
                pass
        """,
    )
    wait_for(lambda: len(read_entries(tmp_path)) > 3)

    assert summarize_entries(read_entries(tmp_path)) == [
        *("service start", "stage start daemon", "stage end daemon success", "service end success")
    ]


def test_spawned_child_of_a_daemon_joins_the_run(tmp_path: Path) -> None:
    (tmp_path / "child.py").write_text(CHILD)
    source = f"""
        import subprocess, time
        with service_record.service("parent"):
            parent = os.getpid()
            if os.fork():
                os._exit(0)
            os.setsid()
            while os.getppid() == parent:
                time.sleep(0.01)
            subprocess.run([sys.executable, {str(tmp_path / "child.py")!r}])
        """
    run_program(tmp_path, source)
    wait_for(lambda: len(read_entries(tmp_path, "parent")) > 3)

    assert summarize_entries(read_entries(tmp_path, "parent"))[1:] == [
        *("stage start child", "stage end child success", "service end success")
    ]


def test_forked_child_whose_parent_lives_ends_nothing(tmp_path: Path) -> None:
    run_program(
        tmp_path,
        """
        with service_record.service():
            child = os.fork()
            if child == 0:
                os.setsid()
            else:
                os.waitpid(child, 0)
        """,
    )

    assert summarize_entries(read_entries(tmp_path)) == ["service start", "service end success"]


def test_records_work_after_chroot(tmp_path: Path) -> None:
    """What recording needs has been imported by then."""
    jail = tmp_path / "jail"
    jail.mkdir()
    done = run_program(
        tmp_path,
        f"""
        try:
            os.chroot({str(jail)!r})
        except PermissionError:
            sys.exit(77)
        os.chdir("/")
        def fail():
            raise ValueError("no disk")
        with service_record.service("job", directory="/records"):
            with service_record.stage("first"):
                pass
            service_record.stage("second")(print)()
            fail()
        """,
    )
    if done.returncode == 77:
        pytest.skip("needs root")
    entries = read_entries(jail)

    assert "calls of <built-in function print> are not recorded" in done.stderr
    assert summarize_entries(entries)[1:] == [
        "stage start first",
        "stage end first success",
        "service end failure",
    ]
    assert entries[-1].error_line == f"8 fail {tmp_path / 'job.py'}"
    assert len({(entry.boot_id, entry.pid) for entry in entries}) == 1
