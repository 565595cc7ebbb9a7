r"""
The help text of every verb. Its first line is the summary that `assay --help` prints; `\b` keeps the lines of a
paragraph.
"""

from assay.cli.console.help_of_admin import ADMIN
from assay.cli.console.help_of_suites import SUITES

APP = "Is it good enough to ship? Run checks on outputs, and agents against suites."

HELP = {
    "evaluate": """Run checks on outputs.

\b
    assay evaluate eval.csv --checks checks.yaml
    assay evaluate --cases questions.jsonl --agent bot:answer --checks checks.yaml

FILE is a table, or JSON lines with {"test_case":…,"output":…}, or one document with the members
test_cases, outputs and checks. Columns such as question, expected and answer are found by their names; --map names
others. --contexts reads the same as a FILE with rows, also from standard input, which is '-'. --cases and --outputs are
read side by side. The extension says whether a file is JSON, JSONL, YAML, CSV or Parquet, also with .gz. `assay init
--table` writes checks for a table. --traces reads one case per trace or conversation. Given again, it is another window
of traces, such as this week after last week: each is compared with the first, as `assay compare` does.

\b
Exit codes:
  0  every check was measured; no pass rate is below its --min-pass-rate
  1  a check was not measured, or the run was empty or failed
  2  wrong usage
  3  every check was measured; a pass rate is below its --min-pass-rate
""",
    "merge": """Join the results of all shards of one run.

\b
    assay evaluate --contexts answers.jsonl --checks checks.yaml --shard 1/2 -o part-1.jsonl
    assay evaluate --contexts answers.jsonl --checks checks.yaml --shard 2/2 -o part-2.jsonl
    assay merge part-1.jsonl part-2.jsonl -o results.jsonl

A part is finished when the manifest stands beside it, which its shard writes last. Parts of other checks, of other
inputs, twice the same shard and a missing one are refused. The results, the table and the exit code are those of
`assay evaluate` over the whole input.

\b
Exit codes:
  0  every check was measured; no pass rate is below its --min-pass-rate
  1  a check was not measured, or the run was empty or failed
  2  wrong usage, such as parts that are not of one run
  3  every check was measured; a pass rate is below its --min-pass-rate
""",
    "run": """Run an agent against a suite and print a scorecard.

\b
    assay run suite.yaml --agent shop:answer

The agent is module:function, a URL, 'cmd:COMMAND', a manifest.json, recorded:FILE, or the id of an agent in assay.toml
or in an installed pack. The suite is a file, or of an installed pack: SUITE-ID, SUITE-ID@VERSION,
pack:NAME@VERSION/PATH or a path in the pack of the agent. Without SUITE, an agent of a pack runs on its own suite. The
run is stored: `assay show` shows it, --baseline compares with it, and --resume completes it.

\b
Exit codes:
  0  passed
  1  a task could not be measured
  2  wrong usage
  3  every task was measured, and the agent did not pass
""",
    "compare": """Compare runs: whether B is better than A, with an interval.

\b
    assay compare before.jsonl after.jsonl
    assay compare eval_4f2c latest --by tag --margin 0.02

A and B are stored runs, `previous` and `latest`, or result files that `assay evaluate -o` wrote. Cases
are paired by their id, and the trials of a case are averaged. If fewer than half of them are in both, as in two weeks
of traces, they are compared without pairs. With more than two runs, each is compared with the first. The verdict
(improved, regressed, equivalent, not enough data) follows from the interval in the first line.

Exit codes: 0 compared, whatever the verdict is; 1 a file could not be read to its end; 2 wrong usage. `assay gate` has
an exit code for the verdict.
""",
    "gate": """Decide whether a run passes, for CI.

\b
    assay gate results.jsonl --baseline main.jsonl --markdown report.md --junit report.xml

RUN is a stored run, `latest`, or a result file, as for `assay compare`. Without --min-mean, --baseline and --policy,
every case must pass; a run of `assay run` decides by its own scorecard. A run that is empty, partial or not measured
never passes. Against a baseline, a drop that may be chance is undecided if it is above 0.05, or if a case with at least
three trials passes in none any more. The line names the cases that got worse. In GitHub Actions it also writes
annotations and the summary of the job.

\b
Exit codes:
  0  passed
  1  undecided: the run is empty, partial or unmeasured, visibly worse, or has not enough data for the policy
  2  wrong usage
  3  failed: a regression was shown, or a rule of the policy is broken
""",
    "verify": """Let an agent work on a task until its critics accept it.

\b
    assay verify --task "A haiku" --actor poet:write --critic poet:review

\b
Exit codes:
  0  the goal was reached
  1  the run failed
  2  wrong usage
  3  the goal was not reached
""",
    "respond": """Answer a run that waits for a person, and continue it.

\b
    assay respond latest --accept

Exit codes as for `assay verify`.
""",
    "serve": """Serve evaluations over HTTP and gRPC.

\b
    assay serve
    curl -H "X-API-Key: $(cat .assay/local-key)" \\
         -H "Content-Type: application/json" \\
         -d @request.json http://127.0.0.1:8321/v1/evaluate

Only this machine can reach the server unless you set --host. Runs are stored in ASSAY_DATABASE_URL, or in assay.db in
ASSAY_HOME. A run that was interrupted continues at the next start. /v1/docs and /v1/openapi.json describe the routes.
Ctrl-C or SIGTERM stops the server: it waits some seconds for runs to end, and the others continue at the next start.
""",
    "worker": """Execute the runs of a server, together with other workers.

\b
    export ASSAY_DATABASE_URL=postgresql://assay@db/assay
    ASSAY_ENGINE=workers assay serve
    assay worker

Start any number of workers, on any machines, with the settings of the server. They share all runs in the database:
trials of agent evals, parts of evaluations and steps of workflows. When a worker dies, others take over its work after
10 seconds. On Ctrl-C or SIGTERM a worker gives its work ten seconds to end, and leaves the rest to the others.
""",
    "view": """Open the page with the runs in a browser.

\b
    assay view
    assay view latest
    assay view --server http://127.0.0.1:8321

The command starts a server on a free port of this machine and signs the browser in with a one-time code. Ctrl-C stops
the server. With --server it opens the page of a running server, and the key in ASSAY_API_KEY decides what the page
shows.
""",
    "try": """Run one check on one output, and say why it passes or not.

\b
    assay try 'contains: [Paris]' --output 'It is Lyon.'
    assay try exact_match --output Lyon --expected Paris
    assay try checks.yaml --case case.json
    echo '{"output": "It is Lyon."}' | assay try 'contains: [Paris]'

CHECK is written as in a file of checks: the name of the check, then what it needs. Nothing is stored. Without --output
and --case, the case is read from standard input.

Exit codes: 0 passed; 1 not measured; 2 wrong usage; 3 failed.
""",
    "report": """Write a run or a comparison as one HTML or Markdown file.

\b
    assay report latest -o report.html
    assay report eval_4f2c latest -o report.md

An HTML file has the views of `assay view`, needs no server and loads nothing from elsewhere. With two or more runs it
compares each with the first. It has the first --limit cases of each run, failures first, and slices by tag or by what
--by names. --redact leaves out the content of the cases: ids, inputs, outputs, reasons and tags, and slices by them.

Exit codes: 0 written, whatever the verdict is; 1 the file could not be written, or the page is not built here (Markdown
works without it); 2 wrong usage.
""",
    "list": "List stored runs, newest first.",
    "show": """Show the content, reasons and trajectories of a stored run.

\b
    assay show latest --failing
    assay show latest --case refund-17

Cases that did not pass come first, with input, output, expected value, and the reason of every check. A task of an
agent eval also has its steps. For a workflow it shows the turns and the verdicts.

--failing --json prints one document for a program, within --max-bytes: of each failing case the input, the expected
value, what came, the reasons, and the steps that matter. What came from the tested system stands under `data`.
""",
    "diff": """Show where two stored runs part ways, task by task.

\b
    assay diff run-4f2c latest

For each task it shows the first difference: another tool, other arguments, another result of a tool, or another answer.
What an agent says to itself, its usage and its times are not compared. Both runs must be agent evals, or both
evaluations.
""",
    "history": """Show the scores of a suite or an experiment over time.

\b
    assay history suite.yaml --agent local.shop.bot
    assay history my-experiment

Each line is a run: its score with the 95% interval, cost, latency, safety findings, and whether its version was
promoted.
""",
    "deploy": """Move versions of an agent to production and back.

\b
    assay deploy promote local.shop.bot@1.2.0 --to test
    assay deploy list local.shop.bot
""",
    "deploy promote": """Move an agent version to its next state.

\b
    assay deploy promote local.shop.bot@1.2.0 --to test
    assay deploy promote local.shop.bot@1.2.0 --to staged --eval latest
    assay deploy promote local.shop.bot@1.2.0 --to active --eval latest --channel stable --canary 10

The policy (ASSAY_PROMOTION_POLICY) says which eval run is good enough, and who must approve. An active version
may be paused and deprecated; --to active --canary P changes the percentage of an active version.

\b
Exit codes:
  0  done
  1  the evidence is missing: no eval run, or one that was not measured
  2  wrong usage, or a state that is not the next one
  3  the eval run does not meet the policy, or the transition waits for an approval
""",
    "deploy rollback": """Roll an active agent version back to the version before it.

\b
    assay deploy rollback local.shop.bot --reason "it refunds twice"

Exit codes as for `assay deploy promote`.
""",
    "deploy list": """List the deployments of agent versions.

\b
    assay deploy list local.shop.bot

Without AGENT it lists all versions that were promoted.
""",
    "export": """Write the results of a stored run, or send them.

\b
    assay export latest -o results.csv

The files are .jsonl, .json, .csv, .xlsx or .parquet. For a workflow they hold the verdicts: .jsonl, .json or .csv. With
--to and the name of another tool, they have its format: assay export latest -o log.eval --to inspect. With --to and a
backend of traces, the verdicts about cases of traces go there.
""",
    "watch": """Watch the windows of a project of traces, for cron or CI.

\b
    assay watch support --windows 7 --policy strict

NAME is a project whose traces `assay serve` receives. Each line is a window: its traces, those that were scored and
those that were not measured, and the pass rate with its interval. The newest complete window is compared with the
complete one before it, or with --baseline, by the rules of `assay gate`.

Exit codes: 0 passed; 1 undecided, or nothing was measured; 2 wrong usage, or no such project; 3 the window is worse.
""",
    "annotate": """Correct, rate, label or flag the result of a run.

\b
    assay annotate latest --task tone --score 1 --note "it is polite"
    assay annotate latest --case case-7 --failed

The recorded score does not change. `assay show` prints the corrected score of an eval run beside it, and `assay judge
check` compares the judge with the corrections.
""",
    "judge": """Compare the answers of a judge with the labels of people.

\b
    assay judge check results.jsonl --labels human_a --labels human_b
    assay judge sample results.jsonl -n 30 -o labels.csv
    assay judge check results.jsonl --labels labels.csv --seed 0

A judge is a check that asks a model. Draw cases at random, label them in a file or with `assay annotate`, and compare
the labels with the judge.
""",
    "judge sample": "Draw judged cases at random for people to label.",
    "judge check": "Compare a judge with the labels of people.",
    "schema": """Print the JSON Schema of a file, or of a --json document.

\b
    assay schema AgentEvalSuite              the file of a suite
    assay schema judge check                 what `assay judge check --json` prints
    assay schema "compare --regressed"       what an option changes, in quotes

Without a name it lists the names. A schema is JSON Schema, draft 2020-12, for an editor or a validator.
""",
    "init": """Write a folder that runs: cases, checks, a policy and CI.

\b
    assay init
    assay init --table eval.csv
    assay init --function bot:answer

It asks three questions: what you have, its name, and what it must do. With --table, --function, --agent or --endpoint
it asks nothing. A file that exists is not overwritten without --force. The last lines are the next commands.
""",
    **SUITES,
    **ADMIN,
    "conform": """Check whether a host keeps the protocols it offers.

\b
    assay conform http://127.0.0.1:8321 --other-key @other.key
    assay conform http://127.0.0.1:8321 --agent local.assay.conform
    assay conform http://127.0.0.1:8321 --grpc 127.0.0.1:8322
    assay conform --explain fep.rest.reads-back
    assay conform --shape suite.json --shape events.jsonl

Any FEP server and any OpenWOP host will do, in any language. The checks see it from outside: each has a rule with its
place in the text, and is passed, failed, not offered, or could not be tried. Requests go to these addresses alone,
redirects are not followed, and what the checks made is deleted at the end.

\b
Exit codes:
  0  no check failed
  1  the host does not answer
  2  wrong usage
  3  a check failed; with --strict, also if one could not be tried, or if none passed
""",
    "import": """Bring cases, checks and results of another tool.

\b
    assay import promptfoo-folder -o capitals
    assay import results.json --save
    assay import --list

It writes a folder with cases or recorded outputs, checks, and import.json, and prints the commands that go on from
there. What cannot be carried is named on standard error and in import.json, with its place and the reason. No code and
no template of a file is run, and no model is called. Scores of the other tool are kept beside those of assay, in
`output.metadata.recorded`.

Exit codes: 0 imported; 1 with --save, a check was not measured; 2 wrong usage, or a file that cannot be read; 3 with
--strict, something was not carried.
""",
}
