"""`assay admin key`: on the store itself, and the clear key on standard output once."""

import asyncio
import contextlib
import json
import sqlite3
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from assay import settings
from assay.auth.keys import DEFAULT, LIFE, SCOPES, authenticate
from assay.errors import Unauthenticated
from assay.host import parts
from support.runner import forkserver


@pytest.fixture(params=["embedded", "postgres"])
def folder(request, tmp_path):
    """Where a command finds its store: in ASSAY_HOME, or at an address in assay.toml."""
    if request.param == "postgres":
        from support.stores.postgres import server

        with server().store_database() as address:
            (tmp_path / "assay.toml").write_text(f"database_url = {json.dumps(address)}\n")
            yield tmp_path
    else:
        yield tmp_path


@pytest.fixture
def opens(folder, monkeypatch):
    """Who a text is to a server that uses the same store."""
    monkeypatch.chdir(folder)

    async def ask(text):
        async with parts.store(settings.load({})) as store:
            return await authenticate(store, text, datetime.now(UTC))

    return lambda text: asyncio.run(ask(text))


def made(command, folder, *options):
    done = command("admin", "key", "create", *options, folder=folder)
    assert done.code == 0, done.err
    return done


def test_a_key_from_the_first_day_to_the_last(command, folder, opens):
    done = made(command, folder, "--tenant", "acme", "--scope", "runs:read", "--scope", "suites:read",
                "--expires", "90d", "--note", "for CI")  # fmt: skip
    (text,) = done.out.splitlines()
    id = text.split("_")[1]
    assert text not in done.err
    assert f"key {id} of tenant acme, scopes runs:read,suites:read, expires 20" in done.err
    assert "not shown again" in done.err
    who = opens(text)
    assert (who.tenant, who.id, who.scopes) == ("acme", id, {"runs:read", "suites:read"})

    (key,) = json.loads(command("admin", "key", "list", "--json", folder=folder).out)
    assert (key["id"], key["prefix"], key["tenant"], key["note"]) == (id, f"assay_{id}", "acme", "for CI")
    assert (key["state"], key["scopes"], key["revoked"]) == ("active", ["runs:read", "suites:read"], None)
    assert set(key) == {"id", "prefix", "state", "tenant", "scopes", "created", "expires", "revoked", "note"}

    done = command("admin", "key", "revoke", id, folder=folder)
    assert (done.code, done.out) == (0, f"key {id} of tenant acme is revoked\n")
    with pytest.raises(Unauthenticated) as refused:
        opens(text)
    assert refused.value.code == "key_revoked"
    done = command("admin", "key", "revoke", id, folder=folder)
    assert done.code == 0
    assert done.out.startswith(f"key {id} of tenant acme is revoked since 20")


def test_without_a_scope_a_key_is_for_everything(command, folder, opens):
    (text,) = made(command, folder, "--tenant", "acme").out.splitlines()
    assert opens(text).scopes == DEFAULT


def test_the_same_for_a_program(command, folder, opens):
    done = made(command, folder, "--tenant", "acme", "--json")
    key = json.loads(done.out)
    assert done.err == ""
    assert done.out.count(key["key"]) == 1
    assert opens(key["key"]).id == key["id"]
    assert key["scopes"] == sorted(DEFAULT)
    created, expires = (datetime.fromisoformat(key[name]) for name in ("created", "expires"))
    assert expires - created == LIFE


def test_key_list_shows_no_secret(command, folder):
    texts = [made(command, folder, "--tenant", tenant).out.strip() for tenant in ("acme", "other", "acme")]
    ids = [text.split("_")[1] for text in texts]
    command("admin", "key", "revoke", ids[0], folder=folder)

    done = command("admin", "key", "list", folder=folder)
    rows = [line.split()[:3] for line in done.out.splitlines()]
    assert [row for row in rows if row[-1] in ("state", "revoked", "active")] == [
        ["id", "tenant", "state"],
        [ids[0], "acme", "revoked"],
        [ids[1], "other", "active"],
        [ids[2], "acme", "active"],
    ]
    for options in ((), ("--json",)):
        done = command("admin", "key", "list", "--tenant", "acme", *options, folder=folder)
        assert [id in done.out for id in ids] == [True, False, True]
        assert not [text for text in texts if text[15:] in done.out + done.err]


def test_a_list_without_keys_is_empty_and_its_folder_is_private(command, tmp_path):
    done = command("admin", "key", "list", folder=tmp_path)
    assert (done.code, done.out, done.err) == (0, "", "assay: there are no keys\n")
    assert json.loads(command("admin", "key", "list", "--json", folder=tmp_path).out) == []
    assert (tmp_path / ".assay").stat().st_mode & 0o777 == 0o700


WRONG_USAGE = [
    (["create"], "--tenant: expected a value, got none"),
    (["create", "--tenant", "a/b"], "tenant: expected a name"),
    (["create", "--tenant", "a", "--scope", "x", "--scope", "runs:read"], "scope: there is no scope 'x'; there are everything, evaluations:create, "),
    (["create", "--tenant", "a", "--expires", "soon"], "expires: expected a span such as 90d"),
    (["create", "--tenant", "a", "--expires", "2020-01-01"], "expires: expected a time in the future, got '2020-01-01'"),
    (["create", "--tenant", "a", "--note", "\x1b[31m"], "note: expected one line"),
    (["revoke"], "ID: expected a value, got none"),
    (["revoke", "aaaaaaaa"], "there is no key 'aaaaaaaa'"),
    (["revoke", f"assay_aaaaaaaa_{'x' * 43}"], "expected the id of a key"),
    (["vibes"], "there is no command 'vibes'"),
]  # fmt: skip


def test_wrong_usage_is_one_line_and_exit_2(command, tmp_path):
    results = command.each([["admin", "key", *arguments] for arguments, _ in WRONG_USAGE], folder=tmp_path)
    for (_, message), done in zip(WRONG_USAGE, results, strict=True):
        assert (done.code, done.out) == (2, "")
        assert message in done.err
        assert "x" * 43 not in done.err


@pytest.mark.parametrize(
    ("setting", "code", "message"),
    [
        ('database_url = "memory:"', 2, "would lose the key"),
        ('database_url = "mysql://me:hunter2@host/db"', 2, "no store for 'mysql'"),
        ('database_url = "postgresql://me:hunter2@host:port/db"', 2, "database_url: expected a URL"),
        ('database_url = "hunter2"', 2, "database_url: expected a URL"),
        ('home = "what?"', 2, "home: expected a path without '?'"),
        ('home = "assay.toml"', 1, "expected a folder that can be created"),
    ],
)
def test_an_impossible_store_is_refused_without_its_password(command, tmp_path, setting, code, message):
    (tmp_path / "assay.toml").write_text(setting)
    done = command("admin", "key", "create", "--tenant", "a", folder=tmp_path)
    assert (done.code, done.out) == (code, "")
    assert message in done.err
    assert "hunter2" not in done.err


def text(path):
    path.write_text("some notes, and no database at all\n" * 10)


def tables(*statements):
    def make(path):
        database = sqlite3.connect(path)
        database.executescript(";".join(statements))
        database.close()

    return make


VERSIONS = "CREATE TABLE alembic_version (version_num VARCHAR(32))"


@pytest.mark.parametrize(
    ("make", "code", "message"),
    [
        pytest.param(text, 1, "notes.db: the database refused: file is not a database", id="text"),
        pytest.param(tables("CREATE TABLE runs (id INT)"), 1, "notes.db: the database refused: table runs already", id="names"),
        pytest.param(tables(VERSIONS, "INSERT INTO alembic_version VALUES ('0000')"), 2, "another program: its schema version is '0000'", id="older"),
        pytest.param(tables(VERSIONS, "INSERT INTO alembic_version VALUES ('0001')"), 1, "the database refused: no such table", id="the same"),
        pytest.param(tables(VERSIONS, "INSERT INTO alembic_version VALUES ('ae1027a6acf')"), 2, "another program: ", id="newer"),
    ],
)  # fmt: skip
def test_a_file_of_another_program_is_refused_and_not_changed(command, tmp_path, make, code, message):
    make(tmp_path / "notes.db")
    before = contents(tmp_path / "notes.db")
    (tmp_path / "assay.toml").write_text(f'database_url = "sqlite:///{tmp_path}/notes.db"')
    done = command("admin", "key", "list", folder=tmp_path)
    assert (done.code, done.out) == (code, "")
    assert message in done.err
    assert contents(tmp_path / "notes.db") == before


def contents(path):
    """What is in it; of what is no database, its bytes."""
    try:
        with contextlib.closing(sqlite3.connect(path)) as database:
            return list(database.iterdump())
    except sqlite3.DatabaseError:
        return path.read_bytes()


def test_the_page_of_the_command_has_every_scope():
    page = (Path(__file__).parents[3] / "docs" / "command.md").read_text("utf-8")
    rows = page.split("| scope | good for |")[1].split("\n\n")[0].splitlines()[2:]
    assert rows == [f"| `{scope}` | {meaning} |" for scope, meaning in SCOPES.items()]


def test_the_environment_names_the_store(tmp_path):
    address = f"sqlite:///{tmp_path}/elsewhere.db"
    done = subprocess.run(
        [forkserver.python(), "-W", "error", "-m", "assay", "admin", "key", "create", "--tenant", "acme"],
        env={"ASSAY_DATABASE_URL": address},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.count("assay_") == 1
    assert (tmp_path / "elsewhere.db").exists()
    assert not (tmp_path / ".assay").exists()
    assert done.stdout.strip()[15:].encode() not in (tmp_path / "elsewhere.db").read_bytes()
