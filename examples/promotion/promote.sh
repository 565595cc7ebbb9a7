#!/bin/sh
# An eval-gated promotion, offline: two versions of an agent, a policy, an approval and a rollback. It writes to .assay in this folder.
set -e
cd "$(dirname "$0")"
agent=local.examples.sorter.default

assay pack install sorter-1.0.0
assay run --agent $agent
assay deploy promote $agent@1.0.0 --to test
assay deploy promote $agent@1.0.0 --to staged --eval latest
assay deploy promote $agent@1.0.0 --to active --eval latest --channel stable || test $? -eq 3   # it waits for an approval
assay respond latest --accept

assay pack install sorter-1.1.0
assay deploy promote $agent@1.1.0 --to test
assay deploy promote $agent@1.1.0 --to staged --eval latest || test $? -eq 3   # the evidence is of another version
assay run --agent $agent --baseline latest
assay deploy promote $agent@1.1.0 --to staged --eval latest
assay deploy promote $agent@1.1.0 --to active --eval latest --channel stable || test $? -eq 3
assay respond latest --accept

assay history local.examples.evals.sorter
assay deploy list $agent
assay deploy rollback $agent@1.1.0 --reason "a queue is too long"
assay deploy list $agent
