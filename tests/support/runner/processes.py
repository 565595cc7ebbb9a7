"""
Runs the tests in processes that are forked after collection: modules are imported and tests are collected once.

`pytest --processes 4`. Each process gets neighbouring files, because the tests of a file share its fixtures; one that has none
left takes about half of the longest rest, and of one file only if it has many tests left or few processes still work. Tests with
the mark `together` are one piece: they run in one process, and first. The parent has no tests: it hands them out, and reports what
comes back.

A test that failed is run once more at the end, alone. If it passes then, it is reported as unsteady, by name and with its failure;
with `--steady` it has failed. The CPU time of each file is measured, and reported where it is above its budget.
"""

import atexit
import gc
import marshal
import os
import selectors
import signal
import socket
import sys
import threading
import traceback
from collections import Counter, deque
from itertools import cycle, pairwise
from types import SimpleNamespace

import pytest

from support.runner import cpu, forkserver
from support.runner.zygote import OWNER
from support.waiting import wait_until

AHEAD = 2  # a process must know its next test to decide which fixtures end
WHOLE = 40  # tests of a file that are not divided: a second process would make its fixtures again
FEW = 3  # processes that still work: they divide any file, so that none is the last for long
MOST_AGAIN = 20  # tests; of more failures the product is the cause
SPENT, CRASHED, UNSTEADY = "spent", "crashed", "unsteady"
PLAIN = ("when", "outcome", "duration", "start", "stop")


def add_options(parser):
    parser.addoption("--processes", type=int, default=0, help="run the tests in this many forked processes")
    parser.addoption(
        "--steady",
        action="store_true",
        help="with --processes: a test that fails, and passes when it is run again alone, has failed",
    )
    parser.addoption(
        "--cpu", type=int, default=0, help="with --processes: list so many of the dearest files and tests"
    )


def configure(config, zygote=forkserver.Zygote):
    config.pluginmanager.register(LeftProcesses())
    if number := config.getoption("--processes"):
        config.pluginmanager.register(ForkedTests(config, number, zygote))


class LeftProcesses:
    """A test that fails in its middle may leave processes. Each ends with the last reference to it, and fails no later test."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item):
        before = set(cpu.forked)
        try:
            return (yield)
        except BaseException:
            for process in set(cpu.forked) - before:
                process.is_left = True
            raise


class Lost(Exception):
    """A process has ended without its tests."""


class Channel:
    """Messages over a socket, each a marshalled value."""

    def __init__(self, end):
        self.end = end

    def send(self, value):
        body = marshal.dumps(value)
        self.end.sendall(len(body).to_bytes(4) + body)

    def receive(self):
        return marshal.loads(self._exactly(int.from_bytes(self._exactly(4))))

    def _exactly(self, size):
        parts = []
        while size:
            part = self.end.recv(size)
            if not part:
                raise Lost
            parts.append(part)
            size -= len(part)
        return b"".join(parts)


class Child:
    """What the parent knows of one process."""

    def __init__(self, number, pid, channel, rest, files):
        self.pid, self.channel, self.rest, self.files = pid, channel, rest, files
        self.running = deque()
        self.is_ended, self.trouble = False, ""
        # what the terminal reads of a process elsewhere; it then prints letters only
        self.node = SimpleNamespace(gateway=SimpleNamespace(id=f"process {number}"), _workerinfocache="")

    def feed(self, others):
        """Keep it `AHEAD` of what it runs. Tests are taken from the longest rest that can be divided when it has none of its own."""
        while len(self.running) < AHEAD and not self.is_ended:
            whole = WHOLE if sum(not other.is_ended for other in others) > FEW else 0
            for other in sorted(others, key=lambda child: -len(child.rest)) if not self.rest else ():
                for _ in range(len(other.rest) - other.cut(whole)):
                    self.rest.appendleft(other.rest.pop())
                if self.rest:
                    break
            if not self.rest:
                self.end()
                return
            for index in self.rest.popleft():
                self.running.append(index)
                self.channel.send(index)

    def cut(self, whole):
        """How many pieces of its rest it keeps; none if its process has ended."""
        if self.is_ended:
            return 0
        places = [self.files[piece[0]] if len(piece) == 1 else piece for piece in self.rest]
        return cut(places, self.files[self.running[-1]] if self.running else None, whole)

    def end(self):
        if not self.is_ended:
            self.is_ended = True
            self.channel.send(None)


def cut(places, before, whole):
    """Where to divide pieces with these places, while one at `before` is run: near the middle between two places, if there are two."""
    middle = len(places) // 2
    between = [at for at, (one, other) in enumerate(pairwise([before, *places])) if one != other]
    if between:
        return min(between, key=lambda at: abs(at - middle))
    return middle if len(places) > whole else len(places)


def shares(items, number):
    """For each process its pieces of work, each a tuple of indexes."""
    pieces, single = {}, []
    for index, item in enumerate(items):
        if mark := item.get_closest_marker("together"):
            pieces.setdefault(mark.args, []).append(index)
        else:
            single.append((index,))
    files = [items[index].path for (index,) in single]
    starts = [at for at, (one, other) in enumerate(pairwise([None, *files])) if one != other] + [len(files)]
    ideals = [len(single) * part / number for part in range(number + 1)]
    cuts = [min(starts, key=lambda at, ideal=ideal: abs(at - ideal)) for ideal in ideals]
    parts = [deque(single[start:end]) for start, end in pairwise(cuts)]
    for part, piece in zip(cycle(parts), pieces.values(), strict=False):
        part.appendleft(tuple(piece))
    return parts


class ForkedTests:
    """The plugin behind `--processes`."""

    def __init__(self, config, number, zygote):
        self.config, self.number = config, number
        self.zygote = None if config.option.collectonly else zygote()  # it loads while tests are collected
        self.spent = Counter()  # CPU seconds by file
        self.dearest = Counter()  # CPU seconds by test, where they are asked for
        self.held = {}  # reports of a test that failed, by its index, until it has been run again
        self.unsteady = {}  # the failure of each, by its name
        self.started, self.again = 0, False

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session):
        if self.config.option.collectonly or session.testsfailed or len(session.items) < self.number:
            return None  # as without this plugin
        session.config._tmp_path_factory.getbasetemp()
        forkserver.shared = self.zygote.ready()
        wait_until(
            lambda: threading.active_count() == 1,
            lambda: f"a process that has threads cannot fork: {threading.enumerate()}",
        )
        gc.collect()
        gc.freeze()
        sys.stdout.flush()
        rest = self._run(session, shares(session.items, self.number))
        while rest:  # each process has ended, and a new one fails at least one test more
            rest = self._run(session, [rest])
        self._run_again(session)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        return True

    def pytest_unconfigure(self):
        if self.zygote is not None:
            self.zygote.close()

    def _run(self, session, parts):
        """Run the pieces of each part in a process of its own. Returns the pieces that were not run."""
        children = []
        for share in parts:
            number, self.started = self.started, self.started + 1
            children.append(self._fork(session, number, share, children))
        try:
            self._report(session, children)
        except BaseException:
            for child in children:
                if child.pid is not None:
                    os.kill(child.pid, signal.SIGTERM)
            raise
        finally:
            for child in children:
                child.channel.end.close()
            for child in children:
                if child.pid is not None:
                    os.waitpid(child.pid, 0)
        return deque(piece for child in children for piece in child.rest)

    def _run_again(self, session):
        """Each test that failed, alone in a new process."""
        held, self.held, self.again = self.held, {}, True
        for index, reports in held.items():
            if len(held) <= MOST_AGAIN:
                self._run(session, [deque([(index,)])])
            if len(held) <= MOST_AGAIN and index not in self.held:
                self.unsteady[reports[0].nodeid] = reports[0].longreprtext
                if not self.config.getoption("--steady"):
                    del reports[1:]
                    reports[0].outcome = UNSTEADY
            for report in reports:
                self.config.hook.pytest_runtest_logreport(report=report)

    def _fork(self, session, number, share, before):
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if pid:
            theirs.close()
            return Child(number, pid, Channel(ours), share, [item.path for item in session.items])
        for end in (ours, *(child.channel.end for child in before)):
            end.close()  # the parent's alone: when it ends, each process reads the end of its channel
        code = 1
        try:
            run(session, Channel(theirs), number)
            code = 0
        except Lost:
            pass  # the parent has ended
        except BaseException:  # noqa: BLE001  # such as an interrupt that a test sent
            Channel(theirs).send((CRASHED, traceback.format_exc()))
        finally:
            leave(code)

    def _report(self, session, children):
        waiting = selectors.DefaultSelector()
        for child in children:
            waiting.register(child.channel.end, selectors.EVENT_READ, child)
            child.feed(children)
        while waiting.get_map():
            for key, _ in waiting.select():
                child = key.data
                try:
                    message = child.channel.receive()
                except (Lost, ConnectionError):
                    waiting.unregister(child.channel.end)
                    self._give_back(session, child)
                    continue
                if message is None:
                    child.running.popleft()
                    if session.shouldfail or session.shouldstop:
                        child.rest.clear()
                        child.end()
                    else:
                        child.feed(children)
                elif message[0] == SPENT:
                    self._count(*message[1:])
                elif message[0] == CRASHED:
                    child.trouble = message[1]
                else:
                    self._forward(child, message[0], self._decode(session, *message))

    def _count(self, name, seconds):
        self.spent[name.partition("::")[0]] += seconds
        if "::" in name:
            self.dearest[name] += seconds

    def _forward(self, child, index, report):
        report.node = child.node
        if report.failed and not self.config.getoption("maxfail"):
            self.held.setdefault(index, []).append(report)
        elif not self.again:  # a test that is run again has been counted
            self.config.hook.pytest_runtest_logreport(report=report)

    def _decode(self, session, index, *values):
        if len(values) == 1:
            return self.config.hook.pytest_report_from_serializable(config=self.config, data=values[0])
        item = session.items[index]
        return pytest.TestReport(
            item.nodeid, item.location, {}, longrepr=None, **dict(zip(PLAIN, values, strict=True))
        )

    def _give_back(self, session, child):
        """A process that ended in the middle of a test has failed it. The others take its rest."""
        if not child.running:
            return
        index = child.running.popleft()
        item = session.items[index]
        child.rest.extendleft((index,) for index in reversed(child.running))
        child.is_ended = True
        _, status = os.waitpid(child.pid, 0)
        child.pid = None
        how = os.waitstatus_to_exitcode(status)  # below 0: a signal
        text = (
            f"{child.node.gateway.id} ended in the middle of this test with the code {how}\n{child.trouble}"
        )
        self._forward(child, index, pytest.TestReport(item.nodeid, item.location, {}, "failed", text, "call"))

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report):
        return (UNSTEADY, "U", ("UNSTEADY", {"yellow": True})) if report.outcome == UNSTEADY else None

    def pytest_terminal_summary(self, terminalreporter):
        for name, text in self.unsteady.items():
            terminalreporter.section(f"unsteady: {name} failed, and passed when it was run again alone", "=")
            if not self.config.getoption("--steady"):
                terminalreporter.write_line(text)
        for line in cpu.summary(self.spent, self.dearest, self.config.getoption("--cpu")):
            terminalreporter.write_line(line)


class Reports:
    """Sends what a test reports to the parent. A test that passed without output is six values."""

    def __init__(self, config, channel):
        self.config, self.channel, self.index = config, channel, 0

    def pytest_runtest_logreport(self, report):
        if report.passed and not report.sections and not report.user_properties:
            self.channel.send((self.index, *(getattr(report, name) for name in PLAIN)))
            return
        data = self.config.hook.pytest_report_to_serializable(config=self.config, report=report)
        self.channel.send((self.index, data))


def run(session, channel, number):
    """The tests that the parent names, until it names none."""
    atexit._clear()  # what the parent does when it ends
    config, plugins = session.config, session.config.pluginmanager
    capture = plugins.getplugin("capturemanager")
    capture.stop_global_capturing()  # its files are the parent's
    capture.start_global_capturing()
    base = config._tmp_path_factory.getbasetemp() / f"process-{number}"
    base.mkdir()
    config._tmp_path_factory._basetemp = base
    for plugin in ("terminalreporter", "junitxml", "lfplugin", "nfplugin", "stepwiseplugin"):
        if plugins.hasplugin(plugin):
            plugins.unregister(name=plugin)
    reports = Reports(config, channel)
    plugins.register(reports)
    owner = number % cpu.SLOTS
    os.environ[OWNER] = str(owner)
    meter, of_each = cpu.Meter(forkserver.shared.slots, owner), config.getoption("--cpu")
    waiting = deque([channel.receive()])
    while waiting[0] is not None:
        waiting.append(channel.receive())
        reports.index, follower = waiting.popleft(), waiting[0]
        item, following = session.items[reports.index], None if follower is None else session.items[follower]
        config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        file, _, _ = item.nodeid.partition("::")
        if of_each or following is None or following.nodeid.partition("::")[0] != file:
            channel.send((SPENT, item.nodeid if of_each else file, meter.since_last()))
        channel.send(None)


def leave(code):
    """As Python ends, without taking thousands of tests apart."""
    threading._shutdown()
    atexit._run_exitfuncs()
    os._exit(code)
