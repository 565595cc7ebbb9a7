#!/bin/sh
# The main job, from beginning to end, offline: an agent against a suite, a scorecard; then a change for the worse, and it is seen.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
export ASSAY_HOME="$out/home"

say() { echo; echo "$1"; echo; }
run() { echo "\$ $*"; "$@" || echo "(exit $?)"; }

say 'A support agent with tools and a memory, against five tasks. Its model and its judge are scripts here, so this needs no key:'
cd "$here/support"
run assay run suite.yaml --agent local.examples.support

say 'A classifier, and what a change does to it: the same suite before and after, compared.'
cp "$here"/classifier/* "$out"
cd "$out"
assay run suite.yaml --agent classifier:classify --mode golden > before
head -3 before
sed 's/"arrive", "tracking", "parcel", "delivery", "late"/"delivery",/' classifier.py > changed.py && mv changed.py classifier.py
echo
echo '(some words are taken out of classifier.py)'
run assay run suite.yaml --agent classifier:classify --baseline latest

say 'Every run is kept:'
cd "$here/support"
run assay list

say 'And outputs that exist already are put to checks, 20,000 of them on two cores:'
cd "$here/capitals"
python make_many.py 20000 > "$out/many.jsonl"
run assay evaluate --contexts "$out/many.jsonl" --checks checks.yaml -o "$out/many-results.jsonl" --jobs 2
