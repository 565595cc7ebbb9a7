"""Packs for tests: a folder of files, a key, and the two real packs where the checkout has them."""

import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from assay.agenteval.suites.suite import read_suite
from assay.packs.build import build
from assay.packs.pack import PackReader
from assay.packs.signature import SigningKey, TrustedKey
from assay.serve.openwop.features import OpenWopFeatures
from assay.serve.openwop.supplied import supplied

REAL = Path(__file__).parents[2].parent / "shared" / "openwop" / "packs"
REAL_NAMES = ("core.openwop.agents.classifier-1.0.0", "core.openwop.agents.support-resolver-1.0.0")
needs_real_packs = pytest.mark.skipif(
    not REAL.is_dir(), reason=f"{REAL} is absent: the published packs are not here"
)

PRIVATE = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
KEY = SigningKey("team", PRIVATE)
TRUSTED = TrustedKey(id="team", octets=PRIVATE.public_key().public_bytes_raw())
PRIVATE_PEM = PRIVATE.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
PUBLIC_PEM = PRIVATE.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
SCHEMA = {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "required": ["text"]}


def agent_of(name, **changes):
    agent = {
        "agentId": f"{name}.bot",
        "persona": "Bot",
        "modelClass": "general",
        "systemPromptRef": "prompts/bot.md",
        "evalSuiteRef": "evals/bot.json",
        "handoff": {"taskSchemaRef": "schemas/bot.task.schema.json"},
        "role": "skill",
    }
    return {key: value for key, value in (agent | changes).items() if value is not None}


def manifest_of(name="local.acme.shop", version="1.0.0", agents=None, **changes):
    document = {
        "name": name,
        "version": version,
        "engines": {"openwop": ">=1.1.0 <2.0.0"},
        "runtime": {"language": "remote", "entry": "pack.json"},
        "agents": [agent_of(name)] if agents is None else agents,
    }
    return {key: value for key, value in (document | changes).items() if value is not None}


def suite_document(name="local.acme.shop", version="1.0.0", value="Paris", **changes):
    task = {
        "taskId": "capital",
        "input": {"text": "The capital of France?"},
        "expected": {"kind": "golden", "match": {"strategy": "contains", "value": value}},
    }
    suite = {"suiteId": f"{name}.evals.bot", "version": version, "modes": ["golden"], "tasks": [task]}
    return suite | changes


def files_of(name="local.acme.shop", version="1.0.0", *, suite=None, **changes):
    """The files of a pack; `changes` are members of pack.json."""
    return {
        "README.md": b"# A bot\n",
        "evals/bot.json": json.dumps(suite or suite_document(name)).encode(),
        "pack.json": json.dumps(manifest_of(name, version, **changes), indent=2).encode(),
        "prompts/bot.md": "You answer questions – briefly.\n".encode(),
        "schemas/bot.task.schema.json": json.dumps(SCHEMA).encode(),
    }


def body_arguments(body):
    """The arguments of a request with this body: a tarball, JSON or nothing."""
    if isinstance(body, bytes):
        return {"content": body, "headers": {"content-type": "application/gzip"}}
    return {} if body is None else {"json": body}


def build_pack(files=None, key=None):
    return build(files_of() if files is None else files, read_suite, key)


def reader(*keys):
    return PackReader(keys, read_suite, supplied=supplied(OpenWopFeatures()))


def write_files(folder, files):
    for path, data in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    return folder
