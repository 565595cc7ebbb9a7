"""What several files of tests share."""

import contextlib
import gc
import os
import signal
import sys
import zlib
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.commands.command import Command
from support.runner import forkserver, processes
from support.runner.forkserver import Zygote

# A run in the background ignores the interrupts that some tests send, and its children would too.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The processes that tests start execute another program at once: gRPC need not stop its threads for each of them, which can fail.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
# No test calls a server elsewhere, and a client takes 30 ms to read the authorities that the machine trusts.
os.environ["SSL_CERT_FILE"] = str(Path(__file__).parent / "support" / "authority.pem")
# httpcore looks for it at each request, and to find nothing takes half of the time of a request.
if find_spec("sniffio") is None:
    sys.modules["sniffio"] = None
os.environ.pop("PYTHONUNBUFFERED", None)  # what a user's processes hold back, ours do too

# A change is judged by the same examples every time; others are looked for in `make soak`.
BUSY = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}  # a busy machine is not a fault
settings.register_profile("same", derandomize=True, max_examples=25, **BUSY)
settings.register_profile("search", derandomize=False, max_examples=150, **BUSY)
settings.load_profile("same")


SERIES = "series"  # the fixture of tests that have a long form
HERE = Path(__file__).parent
DATABASES = ["sqlite", "postgres"]
BOTH_DATABASES = ("auth", "backends", "runs")


def pytest_addoption(parser):
    processes.add_options(parser)
    parser.addoption(
        "--soak", action="store_true", help="run only the tests that have a long series or a sample, in full"
    )
    parser.addoption(
        "--screenshots",
        action="store_true",
        help="tests of the page write pictures of its screens into docs/screenshots",
    )
    parser.addoption("--record", action="store_true", help="tests/golden writes its golden files again")


def pytest_configure(config):
    gc.disable()  # until the tests are collected: what makes them stays, and looking through it takes a third of the time
    processes.configure(config)
    config.addinivalue_line("markers", "together(name): all tests of that name run in one process")
    config.addinivalue_line("markers", "new_tab: a test of the page that changes its tab has one of its own")
    config.addinivalue_line(
        "markers",
        "sample(n): `make test` runs one of n cases, so that every value of every parameter is in one; `make soak` runs all",
    )


def pytest_collection_modifyitems(config, items):
    selected = long_items(items) if config.getoption("--soak") else sampled_items(items)
    chosen = {id(item) for item in selected}
    others = [item for item in items if id(item) not in chosen]
    items[:] = selected
    if others:
        config.hook.pytest_deselected(items=others)


def pytest_collection_finish(session):
    """A collection of garbage need not look at thousands of tests: every server that starts here collects."""
    if session.config.getoption("--processes"):
        an_example()
    gc.collect()
    gc.freeze()
    gc.enable()
    gc.set_threshold(10_000)  # of 700, looking for garbage takes a twentieth of the time of the tests


@settings(max_examples=1, database=None)
@given(st.text() | st.integers() | st.floats())
def an_example(value):
    """Before its first example, Hypothesis reads the constants of each module: once, and not in each process."""


def long_items(items):
    return [
        item
        for item in items
        if SERIES in item.fixturenames or item.get_closest_marker("sample") or database_of(item) is not None
    ]


def database_of(item):
    """The database of a test that could run on another, or None. Tests of the store itself, and of what rests on it, run on each."""
    if item.path.relative_to(HERE).parts[0] in BOTH_DATABASES or not hasattr(item, "callspec"):
        return None
    return next((one for one in item.callspec.params.values() if one in DATABASES), None)


def is_sampled_database(item):
    """`make test` runs a test above the store on one of both databases: on SQLite or on PostgreSQL, by its name."""
    database = database_of(item)
    return database is None or database == DATABASES[zlib.crc32(item.originalname.encode()) % 2]


def sampled_items(items):
    """Of a table the diagonals: of 2 x 4 cases every second one, and none of the 2 or of the 4 values is missing."""
    selected, values = [], {}
    for item in items:
        marker, diagonal = item.get_closest_marker("sample"), 0
        for name, value in item.callspec.params.items() if marker else ():
            known = values.setdefault((item.function, name), {})
            diagonal += known.setdefault(repr(value), len(known))
        if (marker is None or diagonal % marker.args[0] == 0) and is_sampled_database(item):
            selected.append(item)
    return selected


@pytest.fixture(scope="session")
def series(request):
    """`series(10, 50)` is 10 in `make test` and 50 in `make soak`."""
    return lambda short, full: full if request.config.getoption("--soak") else short


@pytest.fixture(scope="session")
def zygote():
    """Forks a process of its own in milliseconds: `zygote.start("evaluate", …, folder=tmp_path)`."""
    if forkserver.shared is not None:
        yield forkserver.shared
        return
    running = Zygote().ready()
    yield running
    running.close()


@pytest.fixture(scope="session")
def command(zygote):
    """`command("evaluate", …, folder=tmp_path)` runs assay there."""
    return Command(zygote)


@pytest.fixture(scope="module")
def _servers(zygote, tmp_path_factory):
    from support.servers.two_tenants import Servers

    servers = Servers(zygote, tmp_path_factory)
    yield servers
    servers.close()


@pytest.fixture
def two_tenants(_servers):
    """A real server for `under_attack(two_tenants, attack)`; the tests of a file share it."""
    return _servers.one()


@pytest.fixture
def anyio_backend():
    return "asyncio"


@contextlib.contextmanager
def empty_store(kind, folder):
    """Its address."""
    if kind == "postgres":
        from support.stores.postgres import server  # half a second that most tests do not need

        with server().store_database() as address:
            yield address
    else:
        yield {"memory": "memory:", "sqlite": f"sqlite:///{folder}/runs.db"}[kind]


@pytest.fixture(params=["memory", *DATABASES])
def address(request, tmp_path):
    """Of each kind of store an empty one. A new backend adds a word here."""
    with empty_store(request.param, tmp_path) as address:
        yield address


@pytest.fixture(params=DATABASES)
def disk(request, tmp_path):
    """Of each database an empty one."""
    with empty_store(request.param, tmp_path) as address:
        yield address


@pytest.fixture(scope="module", params=DATABASES)
def database(request, tmp_path_factory):
    """Of each database an empty one, for all tests of a file."""
    with empty_store(request.param, tmp_path_factory.mktemp("database")) as address:
        yield address


@pytest.fixture(scope="module")
def client(host):
    """Of the server that a file of tests has for all of them."""
    with host.client() as client:
        yield client


@pytest.fixture
async def store(address):
    from assay.backends.stores.open import open_store

    store = await open_store(address)
    yield store
    await store.close()
