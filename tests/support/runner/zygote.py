"""
One process that has loaded assay, and forks: a process of its own in milliseconds, real down to SIGKILL.

`python zygote.py SOCKET FILE`: whoever connects there sends a job and the descriptors it is to have, hears its process id and,
in the end, how it ended. The file has the CPU time of those that have ended. It goes when its standard input closes.
"""

import _socket
import array
import marshal
import os
import sys

OWNER = "ASSAY_TESTS_OWNER"  # the number of the process of tests for which a process runs
LOADED = ("scipy.special", "yaml", "dbos", "jsonschema_rs", "psycopg", "sqlalchemy.dialects.sqlite", "alembic.command",
          "encodings.utf_8_sig", "encodings.idna", "typer._adapters", "rich.console", "rich.table", "rich.align",
          "genai_prices", "mcp.server.fastmcp", "support.workflows", "support.workers.runs", "support.workers.stores")  # fmt: skip
# All of assay but what few processes need, and takes long to load.
SLOW = ("assay.__main__", "assay.backends.stores.sql.migrations", "assay.backends.otel",
        "assay.backends.tools.mcp", "assay.pytest_plugin", "assay.serve.grpc")  # fmt: skip

# Commands that a forked process need not be the first to run: they fill the caches of modules, and leave no other trace.
FILES = {
    "zygote_agent.py": "def answer(task):\n    return 'y'\n",
    "suite.yaml": "suiteId: local.zygote.evals.one\nversion: 1.0.0\nmodes: [golden]\n"
    "tasks: [{taskId: a, input: {x: y}, expected: {kind: golden, match: {strategy: exact, value: y}}}]\n",
    "cases.jsonl": '{"test_case": {"id": "a", "input": "x"}, "output": {"value": "y"}}\n',
    "checks.yaml": "- {type: contains, arguments: {text: $.output.value, phrases: [y]}}\n",
}
WARM = ("run suite.yaml --agent zygote_agent:answer", "list", "show latest",
        "evaluate --contexts cases.jsonl --checks checks.yaml -o out.jsonl")  # fmt: skip


def request_fork(path, job, descriptors):
    """The connection that carries the end of a job. `job["numbers"]` says which number each descriptor is to have."""
    line = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    line.connect(path)
    body = marshal.dumps(job)
    rights = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, array.array("i", descriptors))]
    line.sendmsg([len(body).to_bytes(4)], rights)
    while body:
        body = body[line.send(body) :]
    return line


def read_number(line):
    """The next number of a connection; None at its end."""
    text = b""
    while not text.endswith(b"\n"):
        part = line.recv(1)
        if not part:
            return None
        text += part
    return int(text)


def stand_in(path, target, arguments):
    """Be that job, for whoever starts processes: its descriptors are ours, and so is its end."""
    numbers = [int(name) for name in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{name}")]
    job = {"target": target, "arguments": arguments, "folder": os.getcwd(), "environ": dict(os.environ),
           "limits": {}, "numbers": numbers, "python": sys.executable,
           "owner": int(os.environ.get(OWNER, "0"))}  # fmt: skip
    line = request_fork(path, job, numbers)
    read_number(line)
    code = read_number(line)
    assert code is not None, "the zygote is gone"
    if code < 0:
        os.kill(os.getpid(), -code)
    os._exit(code)


def serve(path, add):
    """Fork for whoever asks, and tell how it ended. A job's process comes out of this, with the job."""
    import select
    import signal
    import socket

    listening = socket.socket(socket.AF_UNIX)
    listening.bind(path)
    listening.listen(64)
    woken, wakes = socket.socketpair()
    wakes.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes.fileno(), warn_on_full_buffer=False)
    print("ready", flush=True)  # noqa: T201
    lines = {}
    while True:
        ready, _, _ = select.select([listening, woken, 0], [], [])
        if 0 in ready:
            os._exit(0)
        if woken in ready:
            woken.recv(4096)
            reap(lines, add)
        if listening in ready:
            line, _ = listening.accept()
            size, descriptors, _, _ = socket.recv_fds(line, 4, 32)
            body = line.recv(int.from_bytes(size), socket.MSG_WAITALL)
            pid = (
                os.fork() if size and len(body) == int.from_bytes(size) else -1
            )  # who asked may have been killed
            if pid == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for one in (listening, woken, wakes, line, *(line for line, _ in lines.values())):
                    one.close()
                return marshal.loads(body), descriptors
            for one in descriptors:
                os.close(one)
            send_number(line, pid)
            if pid > 0:
                lines[pid] = line, marshal.loads(body)["owner"]
            else:
                line.close()


def reap(lines, add):
    while lines:
        pid, status, used = os.wait4(-1, os.WNOHANG)
        if not pid:
            return
        line, owner = lines.pop(pid)
        add(owner, used.ru_utime + used.ru_stime)
        with line:
            send_number(line, os.waitstatus_to_exitcode(status))


def send_number(line, number):
    try:
        line.send(f"{number}\n".encode())
    except OSError:
        return  # nobody waits for it any more


def become(job, descriptors):
    """Where, what and with what a process of its own would have begun."""
    import fcntl
    import importlib
    import resource

    from assay.runs import intake

    aside = [fcntl.fcntl(given, fcntl.F_DUPFD, 200) for given in descriptors]
    os.closerange(3, 200)
    for number, given in zip(job["numbers"], aside, strict=True):
        os.dup2(given, number)
        os.close(given)
    sys.executable = job["python"]
    os.chdir(job["folder"])
    os.environ.clear()
    os.environ.update(job["environ"])
    os.environ[OWNER] = str(job["owner"])
    for name, most in job["limits"].items():
        resource.setrlimit(getattr(resource, name), (most, most))
    sys.stdin = open(0, closefd=False)  # noqa: SIM115  # as long as we live
    for name, number in (("stdout", 1), ("stderr", 2)):
        prompt = number == 2 or os.isatty(number) or bool(os.environ.get("PYTHONUNBUFFERED"))
        stream = open(number, "w", closefd=False, encoding="utf-8")  # noqa: SIM115
        stream.reconfigure(line_buffering=prompt)
        setattr(sys, name, stream)
    intake._random.seed()  # ids of its own
    module, _, name = job["target"].partition(":")
    sys.argv = [module, *job["arguments"]]
    sys.path += filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    getattr(importlib.import_module(module), name)()


def load():
    """All that takes long, and leaves no thread behind: a store has been made once, and a page of help written."""
    import gc
    import importlib
    import tempfile

    gc.disable()  # all that is loaded stays
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # numpy would start a thread for each core
    from contextlib import redirect_stderr, redirect_stdout
    from io import StringIO

    for name in LOADED:
        importlib.import_module(name)
    import functools
    import pkgutil

    import typer.main

    import assay
    from assay.cli.main import app
    from assay.concurrency.threads import source
    from support.runner.memory import fill_holes, use_large_pages
    from support.waiting import wait_until

    for module in pkgutil.walk_packages(assay.__path__, "assay."):
        if not module.name.startswith(SLOW):
            importlib.import_module(module.name)
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        os.chdir(folder)
        for name, text in FILES.items():
            with open(name, "w") as file:
                file.write(text)
        typer.main.get_command = functools.cache(typer.main.get_command)  # the same commands for all forks
        for command in (*WARM, *commands_in(typer.main.get_command(app))):
            app(command.split(), standalone_mode=False)
        os.chdir(before)
    sys.path[:] = [place for place in sys.path if place != folder]
    sys.modules.pop("zygote_agent", None)
    source(os.getpid()).end_idle()
    wait_until(lambda: len(os.listdir("/proc/self/task")) == 1, lambda: "what has threads cannot fork")
    gc.collect()
    gc.freeze()
    gc.enable()
    fill_holes()
    use_large_pages()


def commands_in(group, before=""):
    """The command line for the help of each command, which makes the command."""
    for name, command in group.commands.items():
        yield f"{before}{name} --help"
        yield from commands_in(command, f"{before}{name} ") if hasattr(command, "commands") else ()


def leave(code):
    """As Python ends, but for taking everything apart: that would cost more than most jobs."""
    import atexit
    import threading

    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code or 0)


if __name__ == "__main__":
    sys.path[0] = __file__.rpartition("/support/")[0]  # tests/, for `support`
    load()
    from support.runner import cpu

    slots = cpu.open_slots(sys.argv[2])
    try:
        become(*serve(sys.argv[1], lambda owner, seconds: cpu.add(slots, owner, seconds)))
    except SystemExit as end:
        leave(end.code)
    leave(0)
