"""Packs over HTTP: publish, list, show, remove; every refusal; and runs of their agents and suites."""

import gzip
import json

import httpx
import pytest

from assay.auth.keys import DEFAULT, DEPLOY
from assay.packs.archive import integrity_of, write_tarball
from assay.ports import Limits
from assay.ports.config import PackKeyConfig
from assay.seams.sample_workflows import samples
from assay.serve.openwop.features import OpenWopFeatures
from assay.workflow.state.definition import document_of, read
from support.packs import (
    KEY,
    PUBLIC_PEM,
    REAL,
    REAL_NAMES,
    agent_of,
    body_arguments,
    build_pack,
    files_of,
    needs_real_packs,
    suite_document,
)  # fmt: skip
from support.servers.openwop_client import run_request, wait_for_run
from support.servers.rest_client import Server, sqlite
from support.spec_files import fits

PATH = "/v1/host/assay/packs"
SMALL = 60_000  # bytes of a tarball here


@pytest.fixture(scope="module")
def host(database, tmp_path_factory):
    keys = {}
    team = tmp_path_factory.mktemp("keys") / "team.pub"
    team.write_bytes(PUBLIC_PEM)
    keys["team"] = PackKeyConfig(file=str(team), namespaces=("vendor.acme",))
    if REAL.is_dir():
        keys["openwop-team-1"] = PackKeyConfig(file=str(REAL / "openwop-team-1.pub"))
    limits = Limits(max_pack_bytes=SMALL)
    with Server(database, pack_model=["Paris"] * 20, pack_keys=keys, limits=limits) as server:
        yield server


def publish(client, tarball, integrity=None, media="application/gzip"):
    headers = {"content-type": media} | ({} if integrity is None else {"pack-integrity": integrity})
    return client.post(PATH, content=tarball, headers=headers)


def pack(name, **changes):
    """A pack of its own, so that tests share a server."""
    return build_pack(files_of(f"local.acme.{name}", **changes))


def test_a_pack_is_published_listed_shown_run_and_removed(host):
    one = pack(
        "whole",
        agents=[agent_of("local.acme.whole", requiresCapabilities=["host.canvas", "agents.evalSuite"])],
    )
    bot, key = "local.acme.whole.bot", "local.acme.whole@1.0.0"
    with host.client(tenant="whole") as client, host.client(tenant="other") as other:
        assert client.get("/v1/agents").json()["total"] == 1
        checked = client.post(f"{PATH}:verify", **body_arguments(one.tarball))
        assert (checked.status_code, checked.json()["integrity"]) == (200, one.integrity)
        assert client.get(PATH).json() == {"packs": []}  # nothing is written
        created = publish(client, one.tarball)
        assert (created.status_code, created.headers["location"]) == (201, f"{PATH}/{key}")
        again = publish(client, one.tarball, one.integrity, "application/octet-stream")
        assert (again.status_code, again.json()) == (200, created.json())
        assert created.json()["integrity"] == one.integrity
        assert client.get(PATH).json() == {"packs": [created.json()]}
        assert client.get(PATH, params={"after": key}).json() == {"packs": []}
        for ref in (key, "local.acme.whole"):
            assert client.get(f"{PATH}/{ref}").json() == created.json()
        inventory = client.get("/v1/agents").json()
        fits("agent-inventory-response", inventory)
        entry = client.get(f"/v1/agents/{bot}").json()
        assert entry in inventory["agents"]
        assert (entry["packName"], entry["packVersion"], entry["degraded"]) == (
            "local.acme.whole",
            "1.0.0",
            ["host.canvas"],
        )
        assert "briefly" not in json.dumps(inventory)  # the prompt
        assert other.get(PATH).json() == {"packs": []}  # another tenant sees nothing of it
        assert bot not in other.get("/v1/agents").text
        assert other.get(f"{PATH}/{key}").status_code == other.get(f"/v1/agents/{bot}").status_code == 404
        assert other.delete(f"{PATH}/{key}").status_code == 404
        suite = created.json()["suites"][0]
        runs = []
        for ref in (
            suite["suiteId"],
            f"{suite['suiteId']}@1.0.0",
            f"pack:{key}/evals/bot.json",
            "evals/bot.json",
        ):
            started = client.post("/v1/runs", json=run_request(ref, bot))
            assert started.status_code == 201, started.text
            runs.append(started.json()["runId"])
            shown = wait_for_run(client, runs[-1])
            assert shown["outputs"]["passed"] is True
            assert shown["agent"] == {"agentId": bot, "version": "1.0.0", "sourceManifestId": bot}
            fits("run-snapshot", shown)
            report = client.get(f"/v1/host/assay/runs/{runs[-1]}/eval-report").json()
            assert (report["suiteSource"], report["suiteFileDigest"]) == (
                f"pack:{key}/evals/bot.json",
                suite["digest"],
            )
            assert report["agentPack"] == key
        assert other.post("/v1/runs", json=run_request(f"pack:{key}/evals/bot.json", bot)).status_code == 400
        removed = client.delete(f"{PATH}/{key}")
        assert removed.status_code == 200
        assert removed.json()["removedAt"]
        for gone in (
            client.get(f"{PATH}/{key}"),
            client.delete(f"{PATH}/{key}"),
            client.get(f"/v1/agents/{bot}"),
        ):
            assert gone.status_code == 404
        assert (
            client.post("/v1/runs", json=run_request("evals/bot.json", bot)).json()["details"]["field"]
            == "agentId"
        )
        assert client.get(f"/v1/runs/{runs[0]}/eval-summary").status_code == 200  # the runs stay whole
        forked = client.post(f"/v1/runs/{runs[0]}:fork", json={"mode": "replay"})
        assert forked.status_code == 201, forked.text
        changed = publish(client, pack("whole", description="other").tarball)
        assert (changed.status_code, changed.json()["error"]) == (409, "conflict")
        assert "was installed and removed" in changed.json()["message"]


def test_a_deployment_of_an_agent_from_a_pack_names_its_manifest(host):
    """Its management run, and a run that a channel leads to it."""
    bot = "local.acme.deployed.bot"
    bound = document_of(samples()["conformance-agent-channel-dispatch"])
    nodes = [node | {"agent": {"agentId": bot, "channel": "stable"}} for node in bound["nodes"]]
    host.workflows.library.add(read(bound | {"id": "deployed", "nodes": nodes}))
    loop = {"workflowId": "deployed", "inputs": {"task": {"text": "The capital of France?"}}}
    with host.client(tenant="deployed", scopes=DEFAULT | DEPLOY) as client:
        assert publish(client, pack("deployed").tarball).status_code == 201
        evidence = client.post(
            "/v1/runs", json=run_request("evals/bot.json", bot, agentVersion="1.0.0")
        ).json()["runId"]
        assert wait_for_run(client, evidence)["outputs"]["passed"] is True
        for state in ("test", "staged", "active"):
            body = {"version": "1.0.0", "transition": "promote", "toState": state}
            body |= {
                "test": {},
                "staged": {"evalRunId": evidence},
                "active": {"evalRunId": evidence, "channel": "stable"},
            }[state]
            answer = client.post(f"/v1/agents/{bot}/deployments", json=body)
            assert answer.status_code == 200, answer.text
        shown = client.get(answer.headers["location"]).json()
        assert shown["agent"] == {"agentId": bot, "version": "1.0.0", "sourceManifestId": bot}
        fits("run-snapshot", shown)
        run = client.post("/v1/runs", json=loop)
        assert run.status_code == 201, run.text
        shown = wait_for_run(client, run.json()["runId"])
        assert shown["agent"] == {"agentId": bot, "channel": "stable", "sourceManifestId": bot}
        fits("run-snapshot", shown)


def test_a_pack_is_verified_with_its_dependencies(host):
    needy = pack("needy", dependencies={"local.acme.needed": "^1.0.0"})
    with host.client(tenant="needy") as client:
        refused = client.post(f"{PATH}:verify", **body_arguments(needy.tarball))
        assert (refused.status_code, refused.json()["error"]) == (400, "pack_version_not_found")
        assert publish(client, pack("needed").tarball).status_code == 201
        assert client.post(f"{PATH}:verify", **body_arguments(needy.tarball)).status_code == 200


SIGNED = build_pack(files_of("vendor.acme.shop"), KEY)
FOREIGN = build_pack(files_of("vendor.other.shop"), KEY)
HUGE = gzip.compress(bytes(5 * SMALL))


@pytest.mark.parametrize(
    ("tarball", "integrity", "status", "code", "words"),
    [
        (b"not gzip", None, 400, "tarball_gunzip_failed", "not gzip"),
        (b"", None, 400, "tarball_gunzip_failed", "cut off"),
        (gzip.compress(b"x" * 600), None, 400, "tarball_tar_parse_failed", "USTAR"),
        (bytes(SMALL + 1), None, 413, "payload_too_large", "ASSAY_MAX_PACK_BYTES"),
        (HUGE, None, 413, "tarball_too_large", "unpacked"),
        (write_tarball({"README.md": b""}), None, 400, "tarball_manifest_missing", "pack.json"),
        (write_tarball({"pack.json": b"{"}), None, 400, "tarball_manifest_not_json", "pack.json"),
        (write_tarball({"pack.json": b"{}"}), None, 400, "invalid_manifest", "pack.json: name: is required"),
        (write_tarball(files_of(agents=[agent_of("local.acme.shop", systemPromptRef="p.md")])), None, 400, "tarball_entry_missing", "p.md"),
        (write_tarball(files_of(agents=[agent_of("local.acme.shop", systemPromptRef="../p.md")])), None, 400, "tarball_path_traversal", "'..'"),
        (write_tarball(files_of(nodes=[{"typeId": "x"}])), None, 400, "unsupported_runtime", "no nodes"),
        (SIGNED.tarball, None, 400, "pack_integrity_failure", "Pack-Integrity"),
        (SIGNED.tarball, "sha256-x", 400, "pack_integrity_failure", "Pack-Integrity: expected sha256-"),
        (SIGNED.tarball, FOREIGN.integrity, 400, "pack_integrity_failure", "Pack-Integrity: the digest of the tarball is"),
        (FOREIGN.tarball, FOREIGN.integrity, 400, "pack_integrity_failure", "may sign packs of vendor.acme"),
        (SIGNED.tarball, SIGNED.integrity, 201, "", ""),
    ],
    ids=lambda value: "" if isinstance(value, bytes) else None,
)  # fmt: skip
def test_a_refused_pack_has_a_published_code_and_leaves_nothing(
    host, tarball, integrity, status, code, words
):
    with host.client(tenant="refused") as client:
        answer = publish(client, tarball, integrity)
        assert answer.status_code == status, answer.text
        if status != 201:
            assert answer.json()["error"] == code
            assert words in answer.json()["message"]
            assert client.get(PATH).json() == {"packs": []}
            again = client.post(f"{PATH}:verify", content=tarball, headers=answer.request.headers)
            assert (again.status_code, again.json()["error"]) == (status, code)


def test_the_requests_themselves_are_checked(host):
    with host.client(tenant="requests") as client:
        for media in ("application/json", "text/plain"):
            refused = publish(client, b"{}", media=media)
            assert (refused.status_code, refused.json()["error"]) == (415, "unsupported_media_type")
        for limit in ("0", "x", "1001", "0010000000"):
            for path in (PATH, "/v1/host/assay/suites"):
                assert client.get(path, params={"limit": limit}).status_code == 400
        assert client.get(PATH, params={"surprise": "1"}).status_code == 400
        assert client.get(f"{PATH}/local.acme.none@1.0.0").status_code == 404
        assert client.put(PATH).status_code == 405


def test_a_conflict_names_the_files(host):
    with host.client(tenant="conflict") as client:
        assert publish(client, pack("two").tarball).status_code == 201
        suite = suite_document("local.acme.two", value="Rome")
        changed = publish(client, pack("two", suite=suite).tarball)
        assert changed.status_code == 409
        assert "other content of evals/bot.json" in changed.json()["message"]
        upload = client.post("/v1/host/assay/suites", json=suite)
        assert upload.status_code == 409


def test_an_agent_whose_model_the_host_does_not_have_is_refused_before_anything_runs(host):
    with host.client(tenant="class") as client:
        agents = [agent_of("local.acme.coder", modelClass="coding")]
        assert publish(client, pack("coder", agents=agents).tarball).status_code == 201
        agent = client.get("/v1/agents/local.acme.coder.bot").json()
        assert agent["modelClass"] == "coding"
        started = client.post("/v1/runs", json=run_request("evals/bot.json", "local.acme.coder.bot"))
        assert started.status_code == 201  # `general` is the default


def test_the_allow_list_of_a_pack_opens_no_live_tool_of_the_host(host):
    """A tenant writes it; the tools are the operator's, for other agents."""
    with host.client(tenant="tools") as client:
        agents = [agent_of("local.acme.tools", toolAllowlist=["shop:orders"])]
        suite = suite_document("local.acme.tools", modes=["golden", "live-shadow"])
        assert publish(client, pack("tools", agents=agents, suite=suite).tarball).status_code == 201
        bot = "local.acme.tools.bot"
        refused = client.post("/v1/runs", json=run_request("evals/bot.json", bot, evalModes=["live-shadow"]))
        assert (refused.status_code, refused.json()["details"]["field"]) == (400, "configurable.evalModes")
        assert "may not call the tools of this host" in refused.json()["message"]
        started = client.post("/v1/runs", json=run_request("evals/bot.json", bot, evalModes=["golden"]))
        assert wait_for_run(client, started.json()["runId"])["status"] == "completed"


@needs_real_packs
@pytest.mark.parametrize("name", REAL_NAMES)
def test_the_published_packs_are_installed(host, name):
    data = (REAL / f"{name}.tgz").read_bytes()
    with host.client(tenant="real") as client:
        created = publish(client, data, integrity_of(data))
        assert created.status_code == 201, created.text
        (agent,) = created.json()["agents"]
        entry = client.get(f"/v1/agents/{agent}").json()
        assert (entry["packName"], entry["packVersion"]) == (created.json()["name"], "1.0.0")


def test_without_packs_none_is_published_or_read(tmp_path):
    offer = OpenWopFeatures(offer_packs=False)
    with Server(sqlite(tmp_path), offer=offer) as host, host.client() as client:
        key = "local.acme.shop@1.0.0"
        refused: list[httpx.Response] = [
            client.post(PATH, **body_arguments(build_pack().tarball)),
            client.delete(f"{PATH}/{key}"),
        ]
        assert {(one.status_code, one.json()["error"]) for one in refused} == {
            (501, "capability_not_provided")
        }
        assert client.get(PATH).status_code == client.get(f"{PATH}/{key}").status_code == 404


def test_a_pack_needs_the_packs_it_depends_on(host):
    """In a version within the range; and they stay while it needs them."""
    base, newer = (
        pack("base", version="1.4.0"),
        pack("base", version="1.6.0", suite=suite_document("local.acme.base", "1.6.0")),
    )
    above = pack("above", dependencies={"local.acme.base": "^1.5"})
    with host.client(tenant="dependent") as client:
        for installed, words in ((None, "no version of it is installed"), (base, "installed: 1.4.0")):
            if installed is not None:
                assert publish(client, installed.tarball).status_code == 201
            refused = publish(client, above.tarball)
            assert (refused.status_code, refused.json()["error"]) == (400, "pack_version_not_found"), (
                refused.text
            )
            assert words in refused.json()["message"]
        assert [one["version"] for one in client.get(PATH).json()["packs"]] == ["1.4.0"]
        assert publish(client, newer.tarball).status_code == 201
        made = publish(client, above.tarball)
        assert (made.status_code, made.json()["dependencies"]) == (201, {"local.acme.base": "^1.5"})
        held = client.delete(f"{PATH}/local.acme.base@1.6.0")
        assert (held.status_code, "local.acme.above@1.0.0 depends on it" in held.json()["message"]) == (
            409,
            True,
        )
        assert client.delete(f"{PATH}/local.acme.base@1.4.0").status_code == 200
        assert client.delete(f"{PATH}/local.acme.above@1.0.0").status_code == 200
        assert client.delete(f"{PATH}/local.acme.base@1.6.0").status_code == 200


def test_an_optional_capability_that_is_missing_is_listed_as_degraded(host):
    peers = {"aiProviders": "supported", "vectorStore": "supported", "host.canvas": "supported"}
    optional = {
        "vectorStore": {"optional": True},
        "host.canvas": {"optional": True},
        "aiProviders": {"optional": True},
    }
    with host.client(tenant="degraded") as client:
        needy = pack("needy", peerDependencies=peers)
        refused = publish(client, needy.tarball)
        assert (refused.status_code, refused.json()["error"]) == (400, "pack_peer_dependency_missing")
        named = [problem["place"] for problem in refused.json()["details"]["problems"]]
        assert named == ["pack.json: peerDependencies.host.canvas", "pack.json: peerDependencies.vectorStore"]
        assert client.get(PATH).json() == {"packs": []}
        one = pack("needy", peerDependencies=peers, peerDependenciesMeta=optional)
        assert publish(client, one.tarball).status_code == 201
        entry = client.get("/v1/agents/local.acme.needy.bot").json()
        assert entry["degraded"] == ["host.canvas", "vectorStore"]
        fits("agent-inventory-response", client.get("/v1/agents").json())
