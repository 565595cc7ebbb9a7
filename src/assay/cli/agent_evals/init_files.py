"""The texts of the files that `assay init` writes."""

WORKFLOW = ".github/workflows/evals.yml"
TABLE = """\
question,expected,model_a,model_b
Capital of France?,Paris,It is Paris.,It is Paris.
Capital of Italy?,Rome,It is Milan.,It is Rome.
Capital of Australia?,Canberra,It is Sydney.,It is Canberra.
Capital of Peru?,Lima,It is Lima.,It is Lima.
Capital of Canada?,Ottawa,It is Toronto.,It is Toronto.
Capital of Japan?,Tokyo,It is Tokyo.,It is Tokyo.
"""
CASES = """\
{"id": "france", "input": "Capital of France?", "expected": "Paris", "tags": ["europe"]}
{"id": "italy", "input": "Capital of Italy?", "expected": "Rome", "tags": ["europe"]}
{"id": "peru", "input": "Capital of Peru?", "expected": "Lima", "tags": ["americas"]}
{"id": "canada", "input": "Capital of Canada?", "expected": "Ottawa", "tags": ["americas"]}
"""
CHECKS = """\
# What every output must do. `$.test_case.expected` is the expected value of the case. docs/checks.md lists all checks.
- CHECK: $.test_case.expected
# - correctness:                       # a judge decides; it needs a model: `assay providers list`
# - threshold: {value: $.output.metadata.latency_ms, max_value: 5000}
"""
CHECKS_WITHOUT_EXPECTED = """\
# What every output must do. The table has no column with expected values, so the check asks for any text.
- regex: '\\S'
# - contains: [please]                 # docs/checks.md lists all checks
"""
POLICY = """\
# What `assay gate` requires of a run. docs/compare.md lists all rules.
min_mean: 0.8                          # the lowest mean that is good enough
require: not-regressed                 # against --baseline
"""
SETTINGS = """\
# Settings of assay in this folder. docs/settings.md lists them.
home = ".assay"                        # stored runs
# [models]                             # docs/judges.md: the model of judges; OPENAI_API_KEY is its key
# judge = "openai:gpt-4o-mini"
"""
FUNCTION = '''\
"""Replace this with your own function: it takes the input of a case and returns the output."""

CAPITALS = {"France": "Paris", "Italy": "Rome", "Peru": "Lima", "Canada": "Ottawa"}


def FUNCTION(question):
    return CAPITALS.get(question.removeprefix("Capital of ").removesuffix("?"), "I do not know.")
'''
ACTING = '''\
"""Replace this with your own agent: it takes a task and returns the result. `ctx.tool(…)` calls a tool."""


def FUNCTION(task, ctx):
    return f"Hello, {task['name']}!"
'''
GREETING = {"contains": "Ada", "exact": '"Hello, Ada!"'}
GITHUB = """\
# Measures every pull request, COMPARES, and fails if `assay gate` does not pass.
name: evals
on:
  pull_request:

permissions:
  contents: read

jobs:
  evals:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
        with:
          fetch-depth: 0
      - uses: actions/setup-python@v5
        with:
          python-version: "3.12"
      - name: Install # the wheel of assay, which is in no package registry yet: `make dist` in a clone builds it
        run: pip install "$(ls wheels/openassay-*.whl)[EXTRAS]"
      - name: Measure
        run: |
          goes_on() { case $? in 1 | 3) ;; *) exit 1 ;; esac }  # the gate decides about what was measured
MEASURE
DECIDE
      - uses: actions/upload-artifact@v4
        if: always()
        with:
          name: evals
          path: report.md
"""
BETWEEN_MODELS = """\
      - name: Decide
        run: GATE --policy gate.yaml --markdown report.md
"""
AGAINST_BASE = """\
      - name: Measure the base branch
        run: |
          git worktree add --detach base "origin/$GITHUB_BASE_REF"
          cd base
          if [ -e gate.yaml ]; then  # the pull request that adds this file has nothing to compare with
            MEASURE || echo "the gate decides"
          fi
      - name: Decide
        run: |
          if [ -s base-branch.jsonl ]; then
            set -- --baseline base-branch.jsonl --policy base/gate.yaml  # a change cannot relax its own rules
          else
            set -- --policy gate.yaml
            echo "::notice title=assay::the base branch has no results, so nothing is compared"
          fi
          GATE "$@" --markdown report.md
"""
