"""Run real programs from PyPI with and without the recorder, and compare what they print and how they end.

    python -m venv /tmp/programs
    /tmp/programs/bin/pip install . uvicorn flask gunicorn celery 'dask[distributed]' ansible-core ...
    /tmp/programs/bin/python -m tests.real_programs

Each program runs twice in its own interpreter, by `runpy`: plainly, and as a stage of a recorded service. A
server gets a request, and then SIGTERM. Numbers are removed from the output: times, ports and pids differ.
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from urllib.request import urlopen

PLAIN: Final = """
import runpy, sys
sys.argv = sys.argv[1:]
run = runpy.run_path if sys.argv[0].endswith(".py") else runpy.run_module
run(sys.argv[0], run_name="__main__")
"""
RECORDED: Final = """
import runpy, sys
from service_record import service, stage
sys.argv = sys.argv[1:]
run = runpy.run_path if sys.argv[0].endswith(".py") else runpy.run_module
with service("program"), stage("main"):
    run(sys.argv[0], run_name="__main__")
"""
FILES: Final = {
    "web.py": """
async def application(scope, receive, send):
    if scope["type"] == "lifespan":
        while True:
            kind = (await receive())["type"]
            await send({"type": kind + ".complete"})
            if kind == "lifespan.shutdown":
                return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"ok"})

def wsgi(environ, start_response):
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]
""",
    "site_of_flask.py": (
        "from flask import Flask\napp = Flask(__name__)\n@app.get('/')\ndef index(): return 'ok'\n"
    ),
    "tasks.py": (
        "from celery import Celery\napp = Celery('tasks', broker='memory://', backend='cache+memory://')\n"
        "@app.task\ndef add(x, y): return x + y\n"
    ),
    "run_dask.py": (
        "from dask.distributed import Client, LocalCluster\nfrom operator import neg\n"
        "if __name__ == '__main__':\n"
        "    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:\n"
        "        with Client(cluster) as client:\n"
        "            print(sorted(client.gather(client.map(neg, range(10)))))\n"
        "            client.submit(int, 'x').result()\n"
    ),
    "run_pool.py": (
        "from concurrent.futures import ProcessPoolExecutor\nfrom multiprocessing import get_context\n"
        "if __name__ == '__main__':\n"
        "    with ProcessPoolExecutor(2, mp_context=get_context('spawn')) as pool:\n"
        "        print(list(pool.map(abs, range(-5, 0))))\n"
        "        pool.submit(int, 'x').result()\n"
    ),
    "run_aiohttp.py": (
        "import sys\nfrom aiohttp import web\nasync def index(_): return web.Response(text='ok')\n"
        "app = web.Application()\napp.router.add_get('/', index)\n"
        "web.run_app(app, host='127.0.0.1', port=int(sys.argv[1]), print=None)\n"
    ),
    "run_tornado.py": (
        "import asyncio, signal, sys, tornado.web\n"
        "class Index(tornado.web.RequestHandler):\n    def get(self): self.write('ok')\n"
        "async def main():\n"
        "    stop = asyncio.Event()\n"
        "    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)\n"
        "    tornado.web.Application([('/', Index)]).listen(int(sys.argv[1]), '127.0.0.1')\n"
        "    await stop.wait()\nasyncio.run(main())\n"
    ),
    "run_scheduler.py": (
        "import sys, time\nfrom apscheduler.schedulers.background import BackgroundScheduler\n"
        "scheduler = BackgroundScheduler()\nscheduler.add_job(lambda: print('tick', flush=True))\n"
        "scheduler.start()\ntime.sleep(1)\nscheduler.shutdown()\nsys.exit(3)\n"
    ),
    "run_luigi.py": (
        "import luigi\nclass Fail(luigi.Task):\n    def run(self): raise OSError('no disk')\n"
        "luigi.run(['Fail', '--local-scheduler', '--no-lock'])\n"
    ),
    "test_one.py": "def test_good(): pass\ndef test_bad(): assert 1 == 2\n",
    "play.yaml": (
        "- hosts: localhost\n  gather_facts: false\n  tasks:\n  - command: 'true'\n  - command: 'false'\n"
    ),
    "supervisord.conf": (
        "[supervisord]\nnodaemon=true\n[program:sleep]\ncommand=sleep 60\nstartsecs=0\nautorestart=false\n"
    ),
}


@dataclass(frozen=True)
class Program:
    """A program to try: the package, its version, and the module or file with its arguments."""

    package: str
    arguments: Sequence[str]
    is_server: bool = False
    """True if it serves HTTP on PORT until SIGTERM."""
    ready: str = ""
    """The text in its output after which it gets SIGTERM."""


PROGRAMS: Final = (
    Program("python", ["json.tool", "missing.json"]),
    Program("python", ["unittest", "-v", "missing"]),
    Program("python", ["compileall", "-f", "web.py"]),
    Program("python", ["zipfile", "-c", "archive.zip", "web.py"]),
    Program("python", ["venv", "--without-pip", "environment"]),
    Program("python", ["timeit", "-n", "1", "-r", "1", "pass"]),
    Program("python", ["run_pool.py"]),
    Program("python", ["http.server", "PORT", "--bind", "127.0.0.1"], is_server=True),
    Program("pip", ["pip", "list", "--disable-pip-version-check"]),
    Program("pip", ["pip", "check"]),
    Program("pip", ["pip", "install", "--no-index", "no-such-package"]),
    Program("pytest", ["pytest", "-q", "-p", "no:cacheprovider", "test_one.py"]),
    Program("uvicorn", ["uvicorn", "web:application", "--port", "PORT"], is_server=True),
    Program("uvicorn", ["uvicorn", "web:missing", "--port", "PORT"]),
    Program("hypercorn", ["hypercorn", "--bind", "127.0.0.1:PORT", "web:application"], is_server=True),
    Program(
        "gunicorn", ["gunicorn", "--bind", "127.0.0.1:PORT", "--workers", "2", "web:wsgi"], is_server=True
    ),
    Program("gunicorn", ["gunicorn", "--bind", "127.0.0.1:PORT", "web:missing"]),
    Program("waitress", ["waitress", "--listen", "127.0.0.1:PORT", "web:wsgi"], is_server=True),
    Program("flask", ["flask", "--app", "site_of_flask", "run", "--port", "PORT"], is_server=True),
    Program("flask", ["flask", "--app", "site_of_flask", "routes"]),
    Program("aiohttp", ["run_aiohttp.py", "PORT"], is_server=True),
    Program("tornado", ["run_tornado.py", "PORT"], is_server=True),
    Program("celery", ["celery", "-A", "tasks", "report"]),
    Program("celery", ["celery", "-A", "tasks", "worker", "-c", "2", "-l", "info"], ready=" ready."),
    Program("celery", ["celery", "-A", "missing", "worker"]),
    Program("distributed", ["run_dask.py"]),
    Program("supervisor", ["supervisor.supervisord", "-c", "supervisord.conf"], ready="entered RUNNING"),
    Program("ansible-core", ["ansible.cli.adhoc", "localhost", "-m", "ping"]),
    Program("ansible-core", ["ansible.cli.playbook", "play.yaml"]),
    Program("apscheduler", ["run_scheduler.py"]),
    Program("luigi", ["run_luigi.py"]),
    Program("alembic", ["alembic.config", "upgrade", "head"]),
)


@dataclass(frozen=True)
class Ending:
    """Exit status and output of a program, with numbers removed."""

    status: int
    lines: tuple[str, ...]


def run_program(program: Program, source: str, directory: Path) -> Ending:
    for name, text in FILES.items():
        (directory / name).write_text(text)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    arguments = [part.replace("PORT", str(port)) for part in program.arguments]
    environment = os.environ | {
        "SERVICE_RECORDS_DIR": str(directory / "records"),
        "HOME": str(directory),
        "NO_COLOR": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    with tempfile.NamedTemporaryFile() as output:
        process = subprocess.Popen(
            [sys.executable, "-c", source, *arguments],
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        if program.is_server:
            wait_for_answer(port)
        if program.ready:
            wait_for_text(output.name, program.ready)
        if program.is_server or program.ready:
            time.sleep(0.5)
            process.send_signal(signal.SIGTERM)
        try:
            status = process.wait(timeout=120)
        except subprocess.TimeoutExpired:
            process.kill()
            status = process.wait()
        output.seek(0)
        text = output.read().decode(errors="replace")
    text = text.replace(str(directory), "DIRECTORY")
    lines = (re.sub(r"0x[0-9a-f]+|[\d.]+|[ \t]+", " ", line).strip() for line in text.splitlines())
    # Lines of several processes come in any order.
    return Ending(status, tuple(sorted(line for line in lines if not is_frame(line))))


def is_frame(line: str) -> bool:
    """Return True for a line of a traceback about how the program was started."""
    return "<string>" in line or "runpy" in line or not line.strip("^~")


def wait_for_answer(port: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            with urlopen(f"http://127.0.0.1:{port}/") as answer:
                answer.read()
        except OSError:
            time.sleep(0.2)
        else:
            return


def wait_for_text(path: str, text: str) -> None:
    deadline = time.monotonic() + 60
    while text not in Path(path).read_text(errors="replace") and time.monotonic() < deadline:
        time.sleep(0.2)


def find_version(package: str) -> str | None:
    if package == "python":
        return ".".join(map(str, sys.version_info[:3]))
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def count_entries(directory: Path) -> int:
    path = directory / "records" / "program.json"
    return len([json.loads(line) for line in path.read_text().splitlines() if line]) if path.exists() else 0


def main() -> int:
    """Print the table, and on standard error what differs. Return 1 if anything does."""
    print("| program | arguments | status | lines of output | entries | same |\n|---|---|---|---|---|---|")
    differences = 0
    wanted = sys.argv[1:]
    for program in PROGRAMS:
        number = find_version(program.package)
        if (
            (wanted and program.package not in wanted)
            or number is None
            or find_spec("service_record") is None
        ):
            continue
        with tempfile.TemporaryDirectory() as plainly, tempfile.TemporaryDirectory() as recorded:
            expected = run_program(program, PLAIN, Path(plainly))
            found = run_program(program, RECORDED, Path(recorded))
            entries = count_entries(Path(recorded))
        same = expected == found
        differences += not same
        row = (f"{program.package} {number}", f"`{' '.join(program.arguments)}`", expected.status)
        print(
            "|", " | ".join(map(str, (*row, len(expected.lines), entries, "yes" if same else "**no**"))), "|"
        )
        sys.stdout.flush()
        if not same:
            print(program, expected.status, found.status, file=sys.stderr)
            for line in sorted(set(expected.lines) ^ set(found.lines)):
                print("  ", "-" if line in expected.lines else "+", line, file=sys.stderr)
    return min(differences, 1)


if __name__ == "__main__":
    sys.exit(main())
