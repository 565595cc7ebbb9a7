"""The key of whoever runs an embedded server: made at its first start, kept in a file that only they can read."""

import os
import secrets
import stat
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from assay.auth.keys import authenticate, create, id_in, revoke
from assay.auth.scopes import DEFAULT
from assay.errors import EnvironmentFailure, Unauthenticated, UsageError
from assay.ports import Secret, Store

TENANT = "local"
FILE = "local-key"
MAX_BYTES = 4096


class LocalKey(NamedTuple):
    path: Path
    text: Secret
    created: bool  # just now: say once how to use it


async def local_key(store: Store, home: Path, now: datetime) -> LocalKey:
    """
    The key in the home folder, if it opens everything for the tenant `local`; else a new one in its place.

    Two servers that start at once both end with a good key. A file that others may read is refused: they may have read it.
    """
    make_private(home)
    path = home / FILE
    held = _read(path)
    if held is not None and await _fits(store, held, now):
        return LocalKey(path, Secret(held), created=False)
    key, text = await create(store, tenant=TENANT, note=f"{FILE} of an embedded server", now=now)
    try:
        _write(path, text.reveal(), over=held is not None)
    except FileExistsError:  # another server was first: its key is as good
        await revoke(store, key.id, now=now)
        return await local_key(store, home, now)
    except OSError as wrong:
        await revoke(store, key.id, now=now)
        raise EnvironmentFailure(f"{path}: cannot be written: {wrong.strerror}") from wrong
    return LocalKey(path, text, created=True)


def make_private(folder: Path) -> None:
    """A folder for us alone, unless there is one: that is its owner's business."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as wrong:
        raise EnvironmentFailure(f"{folder}: cannot be made a folder: {wrong.strerror}") from wrong


async def _fits(store: Store, text: str, now: datetime) -> bool:
    try:
        who = await authenticate(store, text, now)
    except Unauthenticated:
        return False
    return who.tenant == TENANT and all(who.may(scope) for scope in DEFAULT)


def _read(path: Path) -> str | None:
    """What is in the file; None where there is none. It must be a file, and nobody else's to read."""
    try:
        there = os.lstat(path)
        if not stat.S_ISREG(there.st_mode):
            raise UsageError(f"{path} is no plain file; remove it, and the next start makes one")
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as wrong:
        raise EnvironmentFailure(f"{path}: cannot be read: {wrong.strerror}") from wrong
    try:
        mode = stat.S_IMODE(os.fstat(file).st_mode)
        text = os.read(file, MAX_BYTES).decode("utf-8", "replace").strip()
    finally:
        os.close(file)
    if mode & 0o077:
        raise UsageError(
            f"{path} is open to others (mode {mode:03o}). If nobody can have read the key in it: chmod 600 {path}. "
            f"Else: assay key revoke {id_in(text) or 'ID'}, remove the file, and the next start makes another"
        )
    return text


def _write(path: Path, text: str, *, over: bool) -> None:
    """Where there is none, or in one step over the one there. A half of one is no key, and is replaced next time."""
    target = path.with_name(f".{path.name}.{secrets.token_hex(8)}") if over else path
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    file = os.open(target, flags, 0o600)
    try:
        with os.fdopen(file, "w", encoding="ascii") as out:
            os.fchmod(file, 0o600)  # whatever the umask says
            out.write(f"{text}\n")
            out.flush()
            os.fsync(file)
        if over:
            os.replace(target, path)
    except OSError:
        os.unlink(target)
        raise
