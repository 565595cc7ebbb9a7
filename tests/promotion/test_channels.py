"""Channels: the draw and the shares of versions."""

from collections import Counter

import pytest

from assay.errors import InvalidRequest
from assay.promotion.records import AgentRecords, VersionRecord, shares
from assay.promotion.transitions import plan_transition, version_of
from assay.protocol.deployments import TransitionRequest


def bound(serial, canary=100, state="active", channel="stable"):
    return VersionRecord(state=state, canary=canary, channels={channel: serial})


@pytest.mark.parametrize(
    ("versions", "expected"),
    [
        ({}, {}),
        ({"1.0.0": bound(1)}, {"1.0.0": 100}),
        ({"1.0.0": bound(1, 10)}, {"1.0.0": 100}),  # the oldest takes the rest
        ({"1.0.0": bound(1), "1.1.0": bound(2)}, {"1.1.0": 100, "1.0.0": 0}),
        ({"1.0.0": bound(1), "1.1.0": bound(2, 10)}, {"1.1.0": 10, "1.0.0": 90}),
        ({"1.0.0": bound(3, 10), "1.1.0": bound(2)}, {"1.0.0": 10, "1.1.0": 90}),  # bound again later
        ({"1.0.0": bound(1), "1.1.0": bound(2, 60), "1.2.0": bound(3, 60)}, {"1.2.0": 60, "1.1.0": 40, "1.0.0": 0}),
        ({"1.0.0": bound(1), "1.1.0": bound(2, 10, "paused")}, {"1.0.0": 100}),
        ({"1.0.0": bound(1, state="rolled-back")}, {}),
        ({"1.0.0": bound(1, channel="canary")}, {}),
    ],
)  # fmt: skip
def test_each_version_has_its_share(versions, expected):
    assert shares(AgentRecords(agent_id="test.a", versions=versions), "stable") == expected


def test_a_canary_gets_about_its_share_and_a_run_always_the_same():
    records = AgentRecords(agent_id="test.a", versions={"1.0.0": bound(1), "1.1.0": bound(2, 10)})
    runs = [f"run-{at}" for at in range(2000)]
    drawn = Counter(version_of(records, "stable", run) for run in runs)
    assert 140 < drawn["1.1.0"] < 260  # ten percent, four standard deviations
    assert all(version_of(records, "stable", run) == version_of(records, "stable", run) for run in runs[:50])


def test_latest_is_the_highest_active_version():
    states = {"1.9.0": "active", "1.10.0": "active", "2.0.0": "paused", "nightly": "active"}
    records = AgentRecords(
        agent_id="test.a", versions={name: VersionRecord(state=state) for name, state in states.items()}
    )
    assert version_of(records, "latest", "run-1") == "1.10.0"
    assert version_of(AgentRecords(agent_id="test.a"), "latest", "run-1") is None


def test_a_rollback_to_a_version_that_is_not_installed_says_why():
    """An agent of assay.toml has one version: the one before it is gone."""
    versions = {
        "1.0.0": bound(1),
        "1.1.0": VersionRecord(state="active", channels={"stable": 2}, replaces="1.0.0"),
    }
    records = AgentRecords(agent_id="local.mine", versions=versions)
    request = TransitionRequest(version="1.1.0", transition="rollback")
    with pytest.raises(
        InvalidRequest, match=r"got 1\.0\.0, which is not; an agent of assay\.toml has one version"
    ):
        plan_transition(records, request, ["1.1.0"])
    assert plan_transition(records, request, ["1.0.0", "1.1.0"]).follows == "1.0.0"
