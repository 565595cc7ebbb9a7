"""Reading packs: the manifest, references, signature and digest; the two published packs; builds."""

import json
import os
import subprocess

import pytest

from assay.errors import UsageError
from assay.packs.archive import (
    PackRefused,
    expected_digest,
    integrity_of,
    read_tarball,
    read_version_manifest,
    write_tarball,
)
from assay.packs.pack import trusted_keys
from assay.packs.signature import TrustedKey
from assay.ports.config import PackKeyConfig
from support.packs import (
    KEY,
    PRIVATE_PEM,
    PUBLIC_PEM,
    REAL,
    REAL_NAMES,
    TRUSTED,
    agent_of,
    build_pack,
    files_of,
    manifest_of,
    needs_real_packs,
    reader,
    suite_document,
    write_files,
)  # fmt: skip
from support.runner import forkserver

NAME = "local.acme.shop"


def refusal(files, *keys, expected=None):
    with pytest.raises(PackRefused) as refused:
        reader(*keys).read_archive(write_tarball(files), expected)
    return refused.value


def test_a_pack_is_read_with_everything_its_agents_need():
    pack = reader().read_archive(write_tarball(files_of()))
    (agent,), (suite,) = pack.agents, pack.suites
    assert (agent.pack, agent.version, agent.manifest.agent_id) == (NAME, "1.0.0", f"{NAME}.bot")
    assert agent.prompt == "You answer questions – briefly.\n"
    assert agent.task_schema["required"] == ["text"]
    assert (suite.key, suite.path) == (f"{NAME}.evals.bot@1.0.0", "evals/bot.json")
    assert suite.digest == pack.file_digests()["evals/bot.json"].digest
    assert (pack.signed_by, pack.digest_source, pack.source) == ("", "", "tarball")


@pytest.mark.parametrize(
    ("changes", "problems"),
    [
        ({"name": "acme", "agents": [agent_of(NAME)]}, ["pack.json: name"]),
        ({"name": None, "agents": [agent_of(NAME)]}, ["pack.json: name"]),
        ({"version": "1.0"}, ["pack.json: version"]),
        ({"version": "1.0.0\n"}, ["pack.json: version"]),  # it would end a header line
        ({"name": f"{NAME}\n"}, ["pack.json: name", "pack.json: agents[0].agentId"]),
        ({"agents": [agent_of(NAME, agentId=f"{NAME}.bot\n")]}, ["pack.json: agents[0].agentId"]),
        ({"engines": {}}, ["pack.json: engines"]),
        ({"runtime": {"language": "remote"}}, ["pack.json: runtime"]),
        ({"agents": []}, ["pack.json: agents"]),
        ({"agents": 7}, ["pack.json: agents"]),
        ({"agents": [7]}, ["pack.json: agents[0]"]),
        ({"surprise": 1, "keywords": "x"}, ["pack.json: surprise", "pack.json: keywords"]),  # all at once
        ({"agents": [agent_of("local.other.pack")]}, ["pack.json: agents[0].agentId"]),
        ({"agents": [agent_of(NAME), agent_of(NAME)]}, ["pack.json: agents[1].agentId"]),
        ({"agents": [agent_of(NAME, handoff=None)]}, ["pack.json: agents[0].handoff"]),  # a skill needs it
        ({"agents": [agent_of(NAME, memoryShape={"longTerm": True})]}, ["pack.json: agents[0].memoryShape.longTerm"]),
        ({"agents": [agent_of(NAME, role="boss")]}, ["pack.json: agents[0].role"]),
        ({"signing": {"by": "me"}}, ["pack.json: signing"]),
    ],
)  # fmt: skip
def test_all_problems_of_a_manifest_are_reported(changes, problems):
    refused = refusal(files_of() | {"pack.json": json.dumps(manifest_of(**changes)).encode()})
    assert refused.code == "invalid_manifest"
    assert [one.place for one in refused.problems] == problems


@pytest.mark.parametrize(
    ("files", "code", "words"),
    [
        ({"pack.json": None}, "tarball_manifest_missing", "no pack.json"),
        ({"pack.json": b"{"}, "tarball_manifest_not_json", "pack.json: not JSON"),
        ({"pack.json": b"\xff"}, "tarball_manifest_not_json", "not JSON"),
        ({"pack.json": b"[" * 100 + b"]" * 100}, "invalid_manifest", "64 levels"),
        ({"pack.json": b"[]"}, "invalid_manifest", "expected an object"),
        ({"pack.json": b'{"name":"a","name":"b"}'}, "invalid_manifest", "name: this member is there twice"),
        ({"prompts/bot.md": None}, "tarball_entry_missing", "systemPromptRef: there is no file prompts/bot.md"),
        ({"prompts/bot.md": b"\xff"}, "invalid_manifest", "prompts/bot.md: not UTF-8"),
        ({"prompts/bot.md": b" "}, "invalid_manifest", "prompts/bot.md: expected a prompt"),
        ({"evals/bot.json": None}, "tarball_entry_missing", "evals/bot.json"),
        ({"evals/bot.json": b"nonsense"}, "invalid_manifest", "evals/bot.json: not JSON"),
        ({"evals/bot.json": b'{"suiteId": "x"}'}, "invalid_manifest", "evals/bot.json: version: this is missing"),
        ({"evals/bot.json": b"[" * 501 + b"]" * 501}, "invalid_manifest", "500 levels"),
        ({"schemas/bot.task.schema.json": b"[]"}, "invalid_manifest", "which is an object"),
        ({"schemas/bot.task.schema.json": b'{"type": 5}'}, "invalid_manifest", "not a JSON Schema"),
        ({"schemas/bot.task.schema.json": b'{"$ref": "http://127.0.0.1:9/x"}'}, "invalid_manifest", "not fetched"),
        ({"schemas/bot.task.schema.json": b'{"$schema": "http://json-schema.org/draft-07/schema#"}'},
         "invalid_manifest", "expected a schema of 2020-12"),
        ({"keys/pack.json.sig": b"x" * 64}, "pack_integrity_failure", "no member signing"),
    ],
)  # fmt: skip
def test_a_file_that_is_missing_or_invalid_is_named(files, code, words):
    kept = {path: data for path, data in (files_of() | files).items() if data is not None}
    refused = refusal(kept)
    assert refused.code == code
    assert words in str(refused)


@pytest.mark.parametrize("path", ["../bot.md", "/etc/passwd", "prompts/../../x"])
def test_a_reference_cannot_leave_the_pack(path):
    refused = refusal(files_of(agents=[agent_of(NAME, systemPromptRef=path)]))
    assert refused.code == "tarball_path_traversal"
    assert "agents[0].systemPromptRef" in str(refused)


def test_missing_files_are_reported_together():
    files = files_of()
    del files["prompts/bot.md"], files["evals/bot.json"]
    assert len(refusal(files).problems) == 2


def test_two_files_cannot_have_the_same_suite():
    agents = [agent_of(NAME), agent_of(NAME, agentId=f"{NAME}.other", evalSuiteRef="evals/other.json")]
    files = files_of(agents=agents)
    assert "evals/bot.json has the same suite" in str(
        refusal(files | {"evals/other.json": files["evals/bot.json"]})
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"runtime": {"language": "python", "entry": "pack.json"}},
        {"nodes": [{"typeId": "x"}]},
        {"nodes": [{"typeId": "x"}], "agents": None},
    ],
)
def test_a_pack_with_code_is_refused(changes):
    assert refusal(files_of(**changes)).code == "unsupported_runtime"


# signature and digest


def signed(name="vendor.acme.shop", **changes):
    return build_pack(files_of(name, **changes), KEY)


def test_a_public_pack_needs_a_signature_and_a_digest():
    pack = signed()
    expected = read_version_manifest(pack.version_manifest, "m.json")
    read = reader(TRUSTED).read_archive(pack.tarball, expected)
    assert (read.signed_by, read.digest_source) == ("team", "manifest")
    by_hand = reader(TRUSTED).read_archive(pack.tarball, expected_digest(pack.integrity, "--integrity"))
    assert by_hand.digest_source == "integrity"
    with pytest.raises(PackRefused, match="needs the digest of the tarball"):
        reader(TRUSTED).read_archive(pack.tarball)
    unsigned = build_pack(files_of("vendor.acme.shop"))
    with pytest.raises(PackRefused, match="needs a signature"):
        reader(TRUSTED).read_archive(unsigned.tarball, expected_digest(unsigned.integrity, "--integrity"))
    with pytest.raises(PackRefused, match="got a directory"):
        reader(TRUSTED).read_files(read_tarball(pack.tarball))


@pytest.mark.parametrize("name", ["local.acme.shop", "private.acme.shop"])
def test_a_private_pack_needs_neither_but_a_signature_that_is_there_counts(name):
    assert reader().read_archive(build_pack(files_of(name)).tarball).signed_by == ""
    assert reader().read_files(files_of(name)).source == "directory"
    pack = signed(name)
    assert reader(TRUSTED).read_archive(pack.tarball).signed_by == "team"
    with pytest.raises(PackRefused, match="'team' is not configured here"):
        reader().read_archive(pack.tarball)


OTHER = TrustedKey(id="team", octets=bytes(range(32)))


@pytest.mark.parametrize(
    ("change", "keys", "words"),
    [
        ({"pack.json": lambda data: data.replace(b"Bot", b"Bob")}, [TRUSTED], "pack.json: keys/pack.json.sig is not a signature"),
        ({"keys/pack.json.sig": lambda data: data[::-1]}, [TRUSTED], "is not a signature of pack.json"),
        ({"keys/pack.json.sig": lambda data: data[:63]}, [TRUSTED], "keys/pack.json.sig: expected an Ed25519 signature of 64"),
        ({"keys/pack.json.sig": lambda _: b""}, [TRUSTED], "no file keys/pack.json.sig"),
        ({}, [OTHER], "by the key team"),
        ({}, [], "'team' is not configured"),
        ({}, [TrustedKey(id="team", octets=TRUSTED.octets, namespaces=("vendor.ac", "core"))], "may sign packs of vendor.ac, core"),
        ({}, [TrustedKey(id="another", octets=TRUSTED.octets)], "configured are another"),
    ],
)  # fmt: skip
def test_a_signature_that_does_not_verify_refuses_the_pack(change, keys, words):
    files = read_tarball(signed().tarball)
    changed = files | {path: edit(files[path]) for path, edit in change.items()}
    tarball = write_tarball({path: data for path, data in changed.items() if data})
    with pytest.raises(PackRefused) as refused:
        reader(*keys).read_archive(tarball, expected_digest(integrity_of(tarball), "--integrity"))
    assert words in str(refused.value)
    assert refused.value.code in ("pack_integrity_failure", "tarball_entry_missing")


def test_a_key_may_be_named_by_its_path_in_the_pack_but_must_be_configured():
    files = files_of() | {"keys/team.pub": PUBLIC_PEM}
    pack = build_pack(files, type(KEY)("keys/team.pub", KEY._key))
    assert reader(TrustedKey(id="x", octets=TRUSTED.octets)).read_archive(pack.tarball).signed_by == "x"
    with pytest.raises(PackRefused, match="not configured"):
        reader().read_archive(pack.tarball)
    with pytest.raises(PackRefused, match="not configured"):
        reader(OTHER).read_archive(pack.tarball)


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        ({"name": "vendor.acme.other"}, "manifest_name_mismatch", "m.json: name"),
        ({"version": "1.0.1"}, "manifest_version_mismatch", "expected '1.0.0', as in pack.json, got '1.0.1'"),
        ({"license": "MIT"}, "pack_integrity_failure", "m.json: license: expected the value of pack.json"),
        ({"agents": []}, "pack_integrity_failure", "m.json: agents: expected the value of pack.json"),
        ({"integrity": "sha256-" + "A" * 43 + "="}, "pack_integrity_failure", "the digest of the tarball is sha256-"),
        ({"integrity": "md5-x"}, "pack_integrity_failure", "expected sha256-"),
        ({"integrity": None}, "pack_integrity_failure", "the member integrity"),
        ({"yanked": True, "yankedReason": "it leaks"}, "pack_integrity_failure", "withdrew this: it leaks"),
    ],
)  # fmt: skip
def test_a_version_manifest_of_another_pack_is_refused(change, code, words):
    pack = signed()
    document = json.loads(pack.version_manifest) | change

    def read():
        return reader(TRUSTED).read_archive(
            pack.tarball, read_version_manifest(json.dumps(document).encode(), "m.json")
        )

    with pytest.raises(PackRefused) as refused:
        read()
    assert refused.value.code == code
    assert words in str(refused.value)


@needs_real_packs
@pytest.mark.parametrize("name", REAL_NAMES)
def test_a_published_pack_verifies_and_any_changed_byte_is_caught(name):
    key = trusted_keys({"openwop-team-1": PackKeyConfig(file=str(REAL / "openwop-team-1.pub"))})
    data = (REAL / f"{name}.tgz").read_bytes()
    expected = read_version_manifest((REAL / f"{name}.json").read_bytes(), "manifest")
    pack = reader(*key).read_archive(data, expected)
    assert (pack.signed_by, pack.digest_source) == ("openwop-team-1", "manifest")
    assert pack.manifest.key == name.replace("-1.0.0", "@1.0.0")
    for at in range(len(data)):
        altered = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        with pytest.raises(PackRefused, match="the digest of the tarball is"):
            reader(*key).read_archive(altered, expected)
    for path, content in pack.files.items():  # where the digest was computed anew
        files = {**pack.files, path: content[:-3] + bytes([content[-3] ^ 1]) + content[-2:]}
        tarball = write_tarball(files)
        with pytest.raises(PackRefused, match="digest"):
            reader(*key).read_archive(tarball, expected)
        if path in ("pack.json", "keys/pack.json.sig"):
            with pytest.raises(PackRefused, match=r"not JSON|not a signature|pack\.json"):
                reader(*key).read_archive(tarball, expected_digest(integrity_of(tarball), "given"))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "No such file"),
        (b"nonsense", "expected an Ed25519 public key"),
        (PRIVATE_PEM, "expected an Ed25519 public key"),
    ],
)
def test_a_key_that_cannot_be_read_names_the_setting(tmp_path, content, words):
    file = tmp_path / "k.pub"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(UsageError) as refused:
        trusted_keys({"k": PackKeyConfig(file=str(file))})
    assert 'settings: pack_keys."k"' in str(refused.value)
    assert words in str(refused.value)


# builds


def test_a_build_is_canonical_and_replaces_an_old_signature():
    stale = files_of(
        signing={"method": "manual", "publicKeyRef": "old", "signatureRef": "keys/pack.json.sig"}
    )
    pack = build_pack(stale | {"keys/pack.json.sig": b"old"}, KEY)
    assert pack.tarball == build_pack(files_of(), KEY).tarball
    unsigned = read_tarball(build_pack(stale | {"keys/pack.json.sig": b"old"}).tarball)
    assert "keys/pack.json.sig" not in unsigned
    assert b"signing" not in unsigned["pack.json"]
    document = json.loads(pack.version_manifest)
    assert document.pop("integrity") == pack.integrity == integrity_of(pack.tarball)
    assert document == json.loads(read_tarball(pack.tarball)["pack.json"])


def test_a_build_refuses_what_an_install_would_refuse():
    with pytest.raises(PackRefused, match=r"evals/bot\.json"):
        build_pack(files_of(suite=suite_document(modes=[])))


def run(*arguments, folder, **environ):
    return subprocess.run(
        [forkserver.python(), "-m", "assay", "pack", *arguments], cwd=folder, capture_output=True, text=True, check=False,
        env={**os.environ, **environ},
    )  # fmt: skip


def test_the_same_folder_gives_the_same_octets_on_another_day_and_under_another_user(tmp_path, command):
    """Another order of files, other times, modes, umask, locale and clock zone."""
    one, two = tmp_path / "one", tmp_path / "two"
    files = files_of("vendor.acme.shop")
    write_files(one / "src", files)
    write_files(two / "src", dict(reversed(files.items())))
    for path in files:
        os.utime(two / "src" / path, (1, 1))
        os.chmod(two / "src" / path, 0o600)
    (tmp_path / "team.pem").write_bytes(PRIVATE_PEM)
    (tmp_path / "team.pub").write_bytes(PUBLIC_PEM)
    first = command("pack", "build", "src", "--key", "../team.pem", folder=one)
    assert first.code == 0, first.err
    before = os.umask(0o077)
    try:
        second = run(
            "build",
            "src",
            "--key",
            "../team.pem",
            folder=two,
            TZ="Asia/Tokyo",
            LC_ALL="C",
            PYTHONHASHSEED="7",
        )
    finally:
        os.umask(before)
    assert second.returncode == 0, second.stderr
    names = [f"vendor.acme.shop-1.0.0.{ending}" for ending in ("tgz", "json", "sig")]
    for name in names:
        assert (one / name).read_bytes() == (two / name).read_bytes()
    verified = command("pack", "verify", names[0], "--manifest", names[1], "--public-key", "../team.pub", folder=one)  # fmt: skip
    assert verified.code == 0, verified.err
    assert "signature  verified, by the key team" in verified.out


REFUSED = [
    (["build", "none"], 2, "none: expected a folder"),
    (["build", "src", "-o", "none"], 2, "-o none: expected a folder"),
    (["build", "src", "-o", "src"], 2, "expected a folder outside src"),
    (
        ["build", "src", "--key", "none.pem"],
        2,
        "--key none.pem: expected a file that can be read, got No such file",
    ),
    (["build", "src", "--key", "src/pack.json"], 2, "expected an Ed25519 private key"),
    (["build", "src", "--key-id", "x"], 2, "--key-id: expected --key F"),
    (["verify", "none.tgz"], 2, "none.tgz: expected a file that can be read, got No such file"),
    (["verify", "src", "--integrity", "x"], 3, "expected sha256-"),
    (["verify", "src/pack.json"], 3, "tarball_gunzip_failed"),
    (["verify", "src", "--integrity", "x", "--manifest", "y"], 2, "got both"),
    (["verify", "src", "--public-key", "=x"], 2, "expected FILE or ID=FILE"),
    (["verify", "src"], 0, ""),
]


def test_the_command_refuses_clearly(tmp_path, command):
    write_files(tmp_path / "src", files_of())
    results = command.each([["pack", *arguments] for arguments, _, _ in REFUSED], folder=tmp_path)
    for (_, code, words), ended in zip(REFUSED, results, strict=True):
        assert ended.code == code, ended.err
        assert words in ended.err


def test_verify_prints_the_code_for_programs(tmp_path, command):
    (tmp_path / "a.tgz").write_bytes(b"x")
    document = json.loads(command("pack", "verify", "a.tgz", "--json", folder=tmp_path).out)
    assert (document["valid"], document["code"]) == (False, "tarball_gunzip_failed")
    write_files(tmp_path / "src", files_of())
    document = json.loads(command("pack", "verify", "src", "--json", folder=tmp_path).out)
    assert (document["valid"], document["agents"]) == (True, [f"{NAME}.bot"])
