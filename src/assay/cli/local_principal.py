"""The principal of the command in the local store: the operator of this machine."""

from assay.auth.local_key import TENANT
from assay.ports import Principal

SCOPES = (
    "runs:create",
    "runs:read",
    "approvals:respond",
    "deploy:promote",
    "deploy:pause",
    "deploy:rollback",
)
PRINCIPAL = Principal(tenant=TENANT, id="command", scopes=frozenset(SCOPES))
