#!/bin/sh
# The main job, from beginning to end, offline: make outputs, put them to checks, look at the table.
set -eu
cd "$(dirname "$0")/capitals"
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

echo '$ assay evaluate --contexts answers.jsonl --checks checks.yaml -o results.jsonl --min-pass-rate 0.7'
assay evaluate --contexts answers.jsonl --checks checks.yaml -o "$out/results.jsonl" --experiment capitals --min-pass-rate 0.7
echo
echo 'the first case that failed, with what the check saw:'
python - "$out/results.jsonl" <<'PY'
import json, sys
for line in open(sys.argv[1]):
    case = json.loads(line)
    for check in case["check_results"]:
        if check["results"].get("passed") is False:
            seen = {name: argument["value"] for name, argument in check["resolved_arguments"].items()}
            print(f"  {case['execution_context']['test_case']['id']}  {check['check_type']}  {seen}")
            raise SystemExit
PY
echo
echo '20,000 cases on all cores, and the same again from where it was cut off:'
python make_many.py 20000 > "$out/many.jsonl"
assay evaluate --contexts "$out/many.jsonl" --checks checks.yaml -o "$out/many-results.jsonl" --jobs 2 | head -1
head -c 5000000 "$out/many-results.jsonl" > "$out/cut" && cat "$out/cut" > "$out/many-results.jsonl"
assay evaluate --contexts "$out/many.jsonl" --checks checks.yaml -o "$out/many-results.jsonl" --resume | head -1
