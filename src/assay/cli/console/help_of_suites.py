r"""The help text of the verbs that write and validate files, as in `help.py`."""

SUITES = {
    "suite": """Show suites; write some from traces or attacks.

\b
    assay suite show suite.yaml
    assay suite attack suite.yaml --agent shop:answer -o adversarial.yaml
    assay suite from-traces traces.jsonl -o recorded.yaml

A suite has the tasks of an agent and the expected results. `assay init --agent module:function` writes a first one.
""",
    "validate": """Report every problem of files, with its line and column.

\b
    assay validate suite.yaml checks.yaml cases.jsonl assay.toml
    assay validate rules.yaml --as policy

It reads suites, checks, cases, requests, policies, packs and settings, says of each file what it is, and runs nothing.
A wrong name comes with the nearest valid one. --as says what a file is, if it does not look like it.

Exit codes: 0 all files are valid; 1 a file cannot be read; 2 one has a problem.
""",
    "skills": """Teach a coding agent to use assay.

\b
    assay skills install
    assay skills install --to .claude/skills

A skill is a SKILL.md file with the commands of one job, which agents such as Claude Code and Codex read when they need
it. There are four: write a suite, find why it fails, measure a judge, gate a change.
""",
    "skills list": "List the skills of this package.",
    "skills install": """Write SKILL.md files where a coding agent finds them.

A skill is a text with the commands of one job. A file that was changed is kept, unless --force is given.
""",
    "mcp": """Serve tools to a coding agent over standard input (MCP).

\b
    claude mcp add assay -- assay mcp
    assay mcp --read-only

A client starts it in the folder of a project. The tools are validate, run, failures, show_case, try_check, compare,
gate and list_checks, with the arguments of the commands. Paths lead into this folder, or into those of --allow. A
client that calls run or try_check runs code as you do: --read-only leaves them out. A run goes on when the client is
gone.
""",
    "suite show": "Show a suite: its modes, thresholds and tasks.",
    "suite attack": """Write a suite of attacks, from tasks or for an agent.

\b
    assay suite attack suite.yaml --agent shop:answer -o adversarial.yaml
    assay run adversarial.yaml --agent shop:answer

Every attack comes in plain text, encodings, languages and role play: in the input, in a document, in the answer of a
tool or in memory. A task keeps the expected result of its ordinary task. The same --seed gives the same file. No model
is called. Attacks of the kind jailbreak need --judge, because only a judge sees whether an agent followed them.
""",
    "suite from-traces": """Write a suite from recorded traces.

\b
    assay evaluate --traces traces.jsonl --checks checks.yaml --save
    assay suite from-traces traces.jsonl --run latest --only failing -o recorded.yaml
    assay run recorded.yaml --agent shop:answer

A task has the input of a trace and answers calls of tools as they were answered, by their arguments. The recorded
answer is a draft of the expected one, unless a correction in --run says that it is right. Secrets and personal data are
replaced, and listed. A trace that does not hold what a task needs is left out, with the reason.
""",
}
