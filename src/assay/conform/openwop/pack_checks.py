"""Packs that must be refused, and the inventory of agents. Packs are verified, and not installed."""

import base64
import gzip
import hashlib
import io
import tarfile
from typing import Any

import msgspec

from assay.conform.check import (
    ABSENT,
    Host,
    NotOffered,
    NotTried,
    document_of,
    expect,
    expect_status,
    refused_as,
)
from assay.conform.http_client import Answer
from assay.conform.json_values import Document, objects_in, shown
from assay.conform.openwop.surface import capability, discovery, row

PACKS = "/v1/host/assay/packs"  # of a host that takes packs over HTTP as assay does
NAME = "local.conform.pack"
ENTRY = {
    "agentId",
    "persona",
    "label",
    "modelClass",
    "packName",
    "packVersion",
    "toolAllowlist",
    "hasHandoffSchemas",
}
MORE = {
    "description", "memoryShape", "confidenceThreshold", "degraded", "memoryDegraded", "degradedMemoryDimensions", "roster",
}  # fmt: skip
PROMPT = "conform: answer briefly"


def _agent(**changes: Any) -> Document:
    return {
        "agentId": f"{NAME}.bot",
        "persona": "Bot",
        "modelClass": "general",
        "systemPromptRef": "prompts/bot.md",
        **changes,
    }


def _manifest(**changes: Any) -> Document:
    return {
        "name": NAME,
        "version": "1.0.0",
        "engines": {"openwop": ">=1.1.0 <2.0.0"},
        "runtime": {"language": "remote", "entry": "pack.json"},
        "agents": [_agent()],
        **changes,
    }


def _tarball(manifest: Document | bytes, files: dict[str, bytes] | None = None, kind: bytes = b"0") -> bytes:
    content = manifest if isinstance(manifest, bytes) else msgspec.json.encode(manifest)
    parts = {"pack.json": content, "prompts/bot.md": PROMPT.encode()} | (files or {})
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in sorted(parts.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.type = len(data), kind if name == "link" else tarfile.REGTYPE
            archive.addfile(entry, io.BytesIO(data) if entry.isreg() else None)
    return gzip.compress(buffer.getvalue(), mtime=0)


def _digest(tarball: bytes) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(tarball).digest()).decode()}"


def _verify(host: Host, tarball: bytes, integrity: str | None = None) -> Answer:
    discovery(host)
    headers = {"Content-Type": "application/gzip"} | (
        {} if integrity is None else {"Pack-Integrity": integrity}
    )
    answer = host.send("POST", f"{PACKS}:verify", tarball, headers=headers)
    if answer.status in ABSENT:
        raise NotOffered(f"POST {PACKS}:verify is {answer.status}")
    if answer.status in (401, 403):
        raise NotTried(f"POST {PACKS}:verify: the key is refused with {answer.status}")
    return answer


def _good(host: Host) -> None:
    tarball = _tarball(_manifest())
    for integrity in (None, _digest(tarball)):
        answer = _verify(host, tarball, integrity)
        expect_status(answer, 200, "a good private pack")
        found = document_of(answer, "a good private pack")
        expect(found.get("integrity") == _digest(tarball), "a good private pack: integrity is not its digest")
    listed = document_of(host.send("GET", PACKS), f"GET {PACKS}")
    names = [one.get("name") for one in objects_in(listed, "packs")]
    expect(NAME not in names, "a pack that was only verified is installed")


def _each_refused(host: Host, packs: dict[str, bytes]) -> None:
    for what, tarball in packs.items():
        answer = _verify(host, tarball)
        refused_as(answer, (400, 413), f"a pack {what}")


def _archives(host: Host) -> None:
    good = _tarball(_manifest())
    prompt = {"prompts/../../bot.md": PROMPT.encode()}
    _each_refused(host, {
        "that is no archive": b"not gzip",
        "that is cut": good[: len(good) // 2],
        "without a manifest": gzip.compress(bytes(1024)),
        "with a path that leaves it": _tarball(_manifest(), prompt),
        "with an absolute path": _tarball(_manifest(), {"/etc/passwd": b"x"}),
        "with a link": _tarball(_manifest(), {"link": b""}, tarfile.SYMTYPE),
    })  # fmt: skip


def _manifests(host: Host) -> None:
    suite, schema = _agent(evalSuiteRef="evals/x.json"), _agent(handoff={"taskSchemaRef": "s.json"})
    _each_refused(host, {
        "whose manifest is no JSON": _tarball(b"{"),
        "with an unknown member": _tarball(_manifest(what=1)),
        "without agents": _tarball(_manifest(agents=[])),
        "with another version than SemVer": _tarball(_manifest(version="one")),
        "with two prompts of an agent": _tarball(_manifest(agents=[_agent(systemPrompt="x")])),
        "with a prompt that is not there": _tarball(_manifest(agents=[_agent(systemPromptRef="none.md")])),
        "with a prompt outside of it": _tarball(_manifest(agents=[_agent(systemPromptRef="../bot.md")])),
        "with an agent of another namespace": _tarball(_manifest(agents=[_agent(agentId="local.other.bot")])),
        "with a skill without a hand-off": _tarball(_manifest(agents=[_agent(role="skill")])),
        "whose suite is no suite": _tarball(_manifest(agents=[suite]), {"evals/x.json": b"{}"}),
        "whose schema is no schema": _tarball(_manifest(agents=[schema]), {"s.json": b'{"type": 7}'}),
    })  # fmt: skip


def _requirements(host: Host) -> None:
    _each_refused(host, {
        "for another version of the protocol": _tarball(_manifest(engines={"openwop": ">=9.0.0"})),
        "without a version of the protocol": _tarball(_manifest(engines={})),
        "with a peer that no host has": _tarball(_manifest(peerDependencies={"host.conform.nothing": "supported"})),
        "with a dependency that is not there": _tarball(_manifest(dependencies={"local.conform.nothing": "^1.0.0"})),
    })  # fmt: skip
    optional = _manifest(
        peerDependencies={"host.conform.nothing": "supported"},
        peerDependenciesMeta={"host.conform.nothing": {"optional": True}},
    )
    expect_status(_verify(host, _tarball(optional)), 200, "a pack with an optional peer that no host has")


def _signatures(host: Host) -> None:
    """A public pack needs a digest and a signature of a key that the host knows."""
    public = _manifest(name="vendor.conform.pack", agents=[_agent(agentId="vendor.conform.pack.bot")])
    signing = {"method": "manual", "publicKeyRef": "nobody", "signatureRef": "keys/pack.json.sig"}
    unsigned, signed = (
        _tarball(public),
        _tarball(public | {"signing": signing}, {"keys/pack.json.sig": bytes(64)}),
    )
    own = {"signing": signing | {"publicKeyRef": "keys/own.pub"}}
    own_key = _tarball(public | own, {"keys/pack.json.sig": bytes(64), "keys/own.pub": b"x"})
    private = _tarball(_manifest())
    for what, tarball, integrity in (
        ("a public pack without a signature", unsigned, _digest(unsigned)),
        ("a public pack without a digest", signed, None),
        ("a public pack with a signature of nobody", signed, _digest(signed)),
        ("a public pack with a key of its own", own_key, _digest(own_key)),
        ("a pack with the digest of another", private, _digest(b"another")),
        ("a pack with a digest that is none", private, "sha256-x"),
    ):
        refused_as(_verify(host, tarball, integrity), 400, what)


def _inventory(host: Host) -> None:
    capability(host, "agents.manifestRuntime")
    found = document_of(host.send("GET", "/v1/agents"), "GET /v1/agents")
    agents = objects_in(found, "agents")
    expect(found.get("total") == len(agents), "GET /v1/agents: total: expected the number of agents")
    ids = [str(one.get("agentId")) for one in agents]
    expect(ids == sorted(ids), "GET /v1/agents: expected the order of the ids")
    for one in agents:
        expect({*ENTRY} <= one.keys() <= ENTRY | MORE, f"an agent has the members {shown(sorted(one))}")
    if host.agent in ids:
        entry = document_of(host.send("GET", f"/v1/agents/{host.agent}"), "GET of an agent")
        expect(entry == agents[ids.index(host.agent)], "GET of an agent: another entry than in the list")
    refused_as(host.send("GET", "/v1/agents/local.conform.nobody"), 404, "GET of an unknown agent")


PACK_CHECKS = [
    row("packs.good", "7.2", "A private pack needs no signature. Verifying installs nothing.", f"POST {PACKS}:verify with a pack, with and without its digest.", "200; the list of packs as before.", _good),
    row("packs.archives", "7.3", "An archive has plain files and safe paths.", "Six archives that are cut, or have a link or a path that leaves them.", "400 or 413.", _archives),
    row("packs.manifests", "7.2", "A manifest has known members, and every reference is a file of the pack.", "Eleven packs with wrong manifests.", "400.", _manifests),
    row("packs.requirements", "7.2", "Unmet engines, peers and dependencies refuse a pack; an optional peer does not.", "Four packs with unmet requirements, and one whose peer is optional.", "400; 200.", _requirements),
    row("packs.signatures", "7.5", "A public pack needs its digest and the signature of a known key.", "Six packs with wrong signatures and digests.", "400.", _signatures),
    row("agents.inventory", "7.7", "An entry of the inventory has no prompt, no schema and no secret.", "GET /v1/agents and one of its agents.", "Known members alone, in the order of the ids; 404 for an unknown one.", _inventory),
]  # fmt: skip
