"""Names that users give to runs. A name is the tag `name=…` of a run; the newest run of a name has it."""

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any

from assay.errors import InvalidRequest, Problem
from assay.ports import PutDocument, Run, Store

KIND = "run-name"  # of the documents that hold the id of the newest run of a name
TAG = "name="
WORDS = ("latest", "previous", "latest-promoted")  # references that are not names
MAX_LENGTH = 100
_FORM = re.compile(r"[^\W_][\w.+@ -]*")
_IDS = ("run-", "eval_")


def name_tag(name: str, option: str = "name") -> str:
    """The tag that gives a run this name. InvalidRequest: it cannot be a name; `option` says where it was given."""
    if (wrong := _problem(name)) is not None:
        raise InvalidRequest(Problem(option, wrong))
    return TAG + name


def title_of(run: Run) -> str:
    """The id of a run, and its name if it has one."""
    name = name_of(run.metadata)
    return f"{run.id}  {name}" if name else run.id


def name_of(metadata: Mapping[str, Any]) -> str:
    """The name in the metadata of a run; an empty text if it has none."""
    return next((tag[len(TAG) :] for tag in metadata.get("tags", ()) if tag.startswith(TAG)), "")


def other_tags(tags: Iterable[str]) -> list[str]:
    """The tags that are not a name."""
    return [tag for tag in tags if not tag.startswith(TAG)]


def name_documents(tenant: str, run: str, metadata: Mapping[str, Any]) -> list[PutDocument]:
    """What is written with a new run: from now on its name is of this run."""
    name = name_of(metadata)
    if not name or _problem(name) is not None:
        return []
    return [PutDocument(tenant=tenant, kind=KIND, key=_key(name), data=run.encode(), version=None)]


async def named_run(store: Store, tenant: str, name: str) -> Run | None:
    """The newest run of this name."""
    found = None if _problem(name) is not None else await store.document(tenant, KIND, _key(name))
    return None if found is None else await store.run(found.data.decode(), tenant=tenant)


def _key(name: str) -> str:
    """The key of the document. Names may be confidential and keys of documents are not encrypted."""
    return hashlib.sha256(name.encode()).hexdigest()


def _problem(name: str) -> str | None:
    if len(name) > MAX_LENGTH:
        return f"expected at most {MAX_LENGTH} characters, got {len(name)}"
    if _FORM.fullmatch(name) is None:
        return f"expected letters, digits and . + @ _ - or spaces, the first a letter or digit, got {name!r}"
    if name in WORDS or name.startswith(_IDS):
        return f"expected a word of your own, got {name!r}, which refers to a run already"
    return None
