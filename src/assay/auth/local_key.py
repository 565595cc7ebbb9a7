"""The local key of an embedded server: created at its first start, in a file that only its owner can read."""

import os
import secrets
import stat
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from assay.auth.keys import DEFAULT, SERVER, authenticate, create, id_in, revoke
from assay.errors import EnvironmentFailure, Unauthenticated, UsageError
from assay.ports import LOCAL_TENANT, Principal, Secret, Store

FILE = "local-key"
MAX_BYTES = 4096
LOCAL = DEFAULT | SERVER  # scopes: who has this key also has the machine


class LocalKey(NamedTuple):
    path: Path
    text: Secret
    created: bool  # by this call: the command then explains it once


async def local_key(store: Store, directory: Path, now: datetime) -> LocalKey:
    """
    Return the key in the home folder if it has every scope for the tenant `local`; otherwise replace it with a new one.

    Two servers that start at once both get a valid key. A file that other users can read is refused, because they may
    have read it.
    """
    make_private(directory)
    path = directory / FILE
    text_in_file = _read(path)
    if text_in_file is not None and await _is_valid(store, text_in_file, now):
        return LocalKey(path, Secret(text_in_file), created=False)
    note = f"{FILE} of an embedded server"
    key, text = await create(store, tenant=LOCAL_TENANT, scopes=LOCAL, note=note, now=now)
    try:
        _write(path, text.reveal(), replace=text_in_file is not None)
    except FileExistsError:  # another server was first: use its key
        await revoke(store, key.id, now=now)
        return await local_key(store, directory, now)
    except OSError as wrong:
        await revoke(store, key.id, now=now)
        raise EnvironmentFailure(
            f"{path}: expected a file that can be written, got {wrong.strerror}"
        ) from wrong
    return LocalKey(path, text, created=True)


def make_private(directory: Path) -> None:
    """Create a folder that only its owner can enter. An existing one keeps its mode."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as wrong:
        raise EnvironmentFailure(
            f"{directory}: expected a folder that can be created, got {wrong.strerror}"
        ) from wrong


async def _is_valid(store: Store, text: str, now: datetime) -> bool:
    try:
        principal = await authenticate(store, text, now)
    except Unauthenticated:
        return False
    return principal.tenant == LOCAL_TENANT and all(principal.may(scope) for scope in LOCAL)


def _read(path: Path) -> str | None:
    """Return the file's text, or None if there is no file. It must be a regular file that other users cannot read."""
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            raise UsageError(f"{path}: expected a regular file; remove it, and the next start creates one")
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as wrong:
        raise EnvironmentFailure(f"{path}: expected a file that can be read, got {wrong.strerror}") from wrong
    try:
        mode = stat.S_IMODE(os.fstat(file).st_mode)
        text = os.read(file, MAX_BYTES).decode("utf-8", "replace").strip()
    finally:
        os.close(file)
    if mode & 0o077:
        raise UsageError(
            f"{path}: expected a file that only its owner reads, got mode {mode:03o}. If no other user can have "
            f"read the key: chmod 600 {path}. "
            f"Otherwise: assay admin key revoke {id_in(text) or 'ID'}, remove the file, and the next start "
            "creates another"
        )
    return text


def _write(path: Path, text: str, *, replace: bool) -> None:
    """Create the file, or replace it atomically. A partly written key is invalid, and the next start replaces it."""
    target = path.with_name(f".{path.name}.{secrets.token_hex(8)}") if replace else path
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    file = os.open(target, flags, 0o600)
    try:
        with os.fdopen(file, "w", encoding="ascii") as out:
            os.fchmod(file, 0o600)  # independent of the umask
            out.write(f"{text}\n")
            out.flush()
            os.fsync(file)
        if replace:
            os.replace(target, path)
    except OSError:
        os.unlink(target)
        raise


def default_database_url(home: Path) -> str:
    """The address of the embedded database, in a folder that only this user can read."""
    if "?" in str(home):
        raise UsageError(f"home: expected a path without '?', because it holds a database; got {str(home)!r}")
    make_private(home)
    return f"sqlite:///{home / 'assay.db'}"


# The principal of the command in the local store: the operator of this machine.

SCOPES = (
    "runs:create",
    "runs:read",
    "approvals:respond",
    "deploy:promote",
    "deploy:pause",
    "deploy:rollback",
)
PRINCIPAL = Principal(tenant=LOCAL_TENANT, id="command", scopes=frozenset(SCOPES))
