"""Every check, in the order in which a run does them."""

from assay.conform.check import Check
from assay.conform.fep_checks import fep_checks
from assay.conform.grpc.checks import grpc_checks
from assay.conform.openwop.approval_checks import APPROVAL_CHECKS
from assay.conform.openwop.cancel_checks import CANCEL_CHECKS
from assay.conform.openwop.creation_checks import CREATION_CHECKS
from assay.conform.openwop.discovery_checks import DISCOVERY_CHECKS
from assay.conform.openwop.event_checks import EVENT_CHECKS
from assay.conform.openwop.pack_checks import PACK_CHECKS
from assay.conform.openwop.promotion_checks import PROMOTION_CHECKS
from assay.conform.openwop.replica_checks import REPLICA_CHECKS
from assay.conform.openwop.run_checks import RUN_CHECKS
from assay.conform.openwop.scorecard_checks import SCORECARD_CHECKS
from assay.conform.openwop.verify_checks import VERIFY_CHECKS
from assay.conform.openwop.workflow_checks import WORKFLOW_CHECKS

OPENWOP_CHECKS = [
    *DISCOVERY_CHECKS,
    *CREATION_CHECKS,
    *EVENT_CHECKS,
    *SCORECARD_CHECKS,
    *RUN_CHECKS,
    *CANCEL_CHECKS,
    *WORKFLOW_CHECKS,
    *VERIFY_CHECKS,
    *PROMOTION_CHECKS,
    *APPROVAL_CHECKS,
    *PACK_CHECKS,
    *REPLICA_CHECKS,
]


def all_checks() -> list[Check]:
    return [*fep_checks(), *grpc_checks(), *OPENWOP_CHECKS]
