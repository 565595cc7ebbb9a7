"""
Channels: which version a run gets (openwop-contract §9.3). The draw depends on the run alone, so that a retry draws the
same.
"""

from hashlib import blake2s

from assay.promotion.records import AgentRecords, shares, version_order
from assay.promotion.transitions import LATEST


def draw(run: str, agent_id: str, channel: str) -> int:
    """A number from 0 to 99 for one run, agent and channel."""
    text = "\0".join((run, agent_id, channel)).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2s(text, digest_size=8).digest()) % 100


def version_of(records: AgentRecords, channel: str, run: str) -> str | None:
    """The version that a channel means for a run; None: it has no active version."""
    if channel == LATEST:
        active = [version for version, record in records.versions.items() if record.state == "active"]
        return max(active, key=version_order, default=None)
    number, reached = draw(run, records.agent_id, channel), 0
    for version, percent in shares(records, channel).items():
        reached += percent
        if number < reached:
            return version
    return None
