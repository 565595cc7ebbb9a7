"""What a pack requires of its host: ranges of versions, the protocol, other packs, and capabilities."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.packs.archive import PackRefused, write_tarball
from assay.packs.requirements import unmet
from assay.protocol.versions import VersionRange
from assay.serve.openwop.discovery import document
from assay.serve.openwop.features import OpenWopFeatures
from assay.serve.openwop.supplied import supplied
from support.packs import files_of, reader
from support.servers.rest_client import Server

RANGES = [  # range, versions in it, versions outside
    (">=1.1.0 <2.0.0", "1.1.0 1.1.1 1.99.0", "1.0.9 2.0.0 2.0.0-rc.1 1.2.0-rc.1"),
    (">= 1.1.0  < 2.0.0", "1.1.0", "2.0.0"),
    ("^1.2.3", "1.2.3 1.9.0", "1.2.2 2.0.0 2.0.0-alpha"),
    ("^0.2.3", "0.2.3 0.2.9", "0.3.0 0.2.2"),
    ("^0.0.3", "0.0.3", "0.0.4"),
    ("^1", "1.0.0 1.5.0", "2.0.0 0.9.0"),
    ("^0.0", "0.0.0 0.0.9", "0.1.0"),
    ("~1.2.3", "1.2.3 1.2.9", "1.3.0 1.2.2"),
    ("~1.2", "1.2.0 1.2.9", "1.3.0"),
    ("~1", "1.0.0 1.9.9", "2.0.0"),
    ("1.x", "1.0.0 1.9.9", "2.0.0 0.9.9"),
    ("1.2", "1.2.0 1.2.7", "1.3.0"),
    ("1.2.*", "1.2.0", "1.3.0"),
    ("=1.2.3", "1.2.3 1.2.3+build", "1.2.4"),
    ("v1.2.3", "1.2.3", "1.2.4"),
    ("*", "0.0.0 9.9.9", "1.0.0-rc.1"),
    ("", "1.0.0", "1.0.0-rc.1"),
    (">1.2", "1.3.0", "1.2.9"),
    ("<=1.2", "1.2.9 0.1.0", "1.3.0"),
    ("<1.2", "1.1.9", "1.2.0 1.2.0-rc.1"),
    ("1.0 - 1.4", "1.0.0 1.4.9", "1.5.0 0.9.0"),
    ("1.0.0 - 1.4.2", "1.4.2", "1.4.3"),
    ("1.0.0 || ^3.0", "1.0.0 3.4.0", "1.0.1 2.0.0"),
    (">=1.2.3-rc.1", "1.2.3-rc.1 1.2.3-rc.2 1.2.3 2.0.0", "1.2.3-beta 1.2.4-rc.1"),
    (">*", "", "1.0.0 0.0.0"),
]


@pytest.mark.parametrize(("text", "inside", "outside"), RANGES)
def test_a_range_admits_the_versions_that_node_semver_admits(text, inside, outside):
    admits = VersionRange(text).admits
    assert [one for one in inside.split() if not admits(one)] == []
    assert [one for one in outside.split() if admits(one)] == []


MALFORMED = [
    "one",
    ">=",
    ">=1.1.0 <",
    "1.2.3.4",
    ">>1.0",
    "1..2",
    "^^1",
    "01.2.3",
    "latest",
    "1.0.0,2.0.0",
    "1" * 300,
    "~>1.2",
    "-1.0.0",
]


@pytest.mark.parametrize("text", MALFORMED)
def test_a_malformed_range_is_refused(text):
    with pytest.raises(ValueError, match=r"expected|version"):
        VersionRange(text)


number = st.integers(0, 30)
version = st.tuples(number, number, number).map(lambda parts: ".".join(map(str, parts)))


@given(version, version, version)
def test_a_version_is_between_its_bounds(low, high, one):
    key = lambda text: tuple(map(int, text.split(".")))  # noqa: E731
    assert VersionRange(f">={low} <{high}").admits(one) is (key(low) <= key(one) < key(high))
    assert VersionRange(f"<{low} || >={high}").admits(one) is (key(one) < key(low) or key(one) >= key(high))


@given(st.text(alphabet="0123456789.xX*<>=^~|- vab+", max_size=40))
def test_any_text_is_a_range_or_a_value_error(text):
    try:
        VersionRange(text)
    except ValueError:
        with pytest.raises(ValueError, match=r"expected|version"):
            VersionRange(f"{text} || *")
    else:
        assert VersionRange(f"{text} || *").admits("1.2.3")


REFUSED = {  # members of pack.json: the code, and words of the message
    "protocol": ({"engines": {"openwop": ">=2.0.0"}}, "pack_engine_unsupported", "1.1.0"),
    "protocol before": ({"engines": {"openwop": "^0.9"}}, "pack_engine_unsupported", "1.1.0"),
    "malformed engines": ({"engines": {"openwop": "latest"}}, "invalid_manifest", "engines.openwop"),
    "malformed dependency": (
        {"dependencies": {"local.acme.base": ">=one"}}, "invalid_manifest", "dependencies.local.acme.base",
    ),
    "dependency without a name": ({"dependencies": {"base": "1.x"}}, "invalid_manifest", "name of another pack"),
    "dependency on itself": ({"dependencies": {"local.acme.shop": "1.x"}}, "invalid_manifest", "another pack"),
    "too many dependencies": (
        {"dependencies": {f"local.acme.p{at}": "*" for at in range(101)}}, "invalid_manifest", "at most 100",
    ),
    "capability": ({"peerDependencies": {"host.canvas": "supported"}}, "pack_peer_dependency_missing", "host.canvas"),
    "capability of a version": (
        {"peerDependencies": {"protocolVersion": ">=2.0"}}, "pack_peer_dependency_missing", "protocolVersion",
    ),
    "backend": (
        {"peerDependencies": {"openwop.agents.memoryBackends": ">=vector"}}, "pack_peer_dependency_missing", "vector",
    ),
    "one of two is optional": (
        {
            "peerDependencies": {"host.canvas": "supported", "vectorStore": "supported"},
            "peerDependenciesMeta": {"vectorStore": {"optional": True}, "host.canvas": {"optional": False}},
        },
        "pack_peer_dependency_missing",
        "host.canvas",
    ),
}  # fmt: skip


@pytest.mark.parametrize("row", REFUSED)
def test_a_pack_whose_requirements_this_host_does_not_meet_is_refused(row):
    members, code, words = REFUSED[row]
    with pytest.raises(PackRefused) as refused:
        reader().read_archive(write_tarball(files_of(**members)))
    assert refused.value.code == code
    assert any(words in str(problem) for problem in refused.value.problems)
    if row == "one of two is optional":
        assert len(refused.value.problems) == 1


def test_peers_that_this_host_has_are_met():
    peers = {
        "aiProviders": "supported", "host.agentRuntime": "supported", "openwop.agents.memoryBackends": ">=longTerm",
        "protocolVersion": ">=1.1 <2", "agents.evalSuite": "*", "memory": "supported",
    }  # fmt: skip
    assert reader().read_archive(write_tarball(files_of(peerDependencies=peers))).agents
    off = supplied(OpenWopFeatures(offer_evals=False, offer_workflows=False))
    assert set(unmet(peers, off)) == {"openwop.agents.memoryBackends", "agents.evalSuite", "memory"}


SWITCHES = [field.name for field in msgspec.structs.fields(OpenWopFeatures)]


def test_a_host_supplies_what_it_advertises():
    """With each feature off in turn: of what discovery and the table both name, both say the same."""
    for off in ("", *SWITCHES):
        features = OpenWopFeatures(**({off: False} if off else {}))
        with Server("memory:", offer=features) as host:
            advertised = document(host.openwop.capabilities())
        for name, has in supplied(features).items():
            found = advertised
            for part in name.split("."):
                found = found.get(part) if isinstance(found, dict) else None
            if name in ("aiProviders", "host.agentRuntime", "agents.memoryBackends"):
                assert found is None
            elif name == "protocolVersion":
                assert has.startswith(found)
            elif name == "agents":
                continue  # discovery has it for every part of it
            else:
                assert bool(found) is bool(has), (off, name)
