#!/bin/sh
# A demonstration, offline: an agent runs on a suite and gets a scorecard; then a change makes it worse, and the comparison shows it.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
export ASSAY_HOME="$out/home"

say() { echo; echo "$1"; echo; }
run() { echo "\$ $*"; "$@" || echo "(exit $?)"; }

say 'A support agent with tools and a memory runs on five tasks. Its model and its judge are scripted, so that no key is needed:'
cd "$here/support"
run assay run suite.yaml --agent local.examples.support

say 'A classifier runs on a suite before and after a change, and the runs are compared.'
cp "$here"/classifier/* "$out"
cd "$out"
assay run suite.yaml --agent classifier:classify --mode golden > before
head -3 before
sed 's/"arrive", "tracking", "parcel", "delivery", "late"/"delivery",/' classifier.py > changed.py && mv changed.py classifier.py
echo
echo '(some words are removed from classifier.py)'
run assay run suite.yaml --agent classifier:classify --baseline latest

say 'Every run is stored:'
cd "$here/support"
run assay list

say 'Existing outputs are scored with checks, 20,000 of them on two cores:'
cd "$here/capitals"
python make_many.py 20000 > "$out/many.jsonl"
run assay evaluate --contexts "$out/many.jsonl" --checks checks.yaml -o "$out/many-results.jsonl" --jobs 2
