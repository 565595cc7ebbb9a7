"""Other tools, each installed once in the cache folder of the user, and the files that they write."""

import fcntl
import json
import os
import platform
import shutil
import subprocess

from support.agents.frameworks.environments import CACHE, SECONDS, NotMade, python_with

PROMPTFOO = "0.121.20"
REQUIREMENTS = {
    "inspect": ["inspect-ai>=0.3.200"],
    "pydantic-evals": ["pydantic-evals>=1"],
    "deepeval": ["deepeval>=3"],
    "lm-eval": ["lm-eval>=0.4.9"],
    "rouge-score": ["rouge-score==0.1.2"],
    "ragas": ["ragas>=0.3", "langchain-community<0.4"],  # it imports a module that later releases do not have
    "langsmith": ["langsmith>=0.4"],
}
INSPECT = '''
import tiktoken


class Words:
    """In place of an encoding that would be fetched."""

    def encode(self, text, **options):
        return text.split()

    encode_ordinary = encode


tiktoken.get_encoding = tiktoken.encoding_for_model = lambda name: Words()

from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, get_model
from inspect_ai.scorer import includes, match
from inspect_ai.solver import generate, use_tools
from inspect_ai.tool import tool


@tool
def add():
    async def execute(x: int, y: int):
        """Add two numbers.

        Args:
            x: first
            y: second
        """
        return x + y

    return execute


name = "mockllm/model"
answers = []
for last in ("It is 2", "It is 3"):
    answers.append(ModelOutput.for_tool_call(name, "add", {"x": 1, "y": 1}))
    answers.append(ModelOutput.from_content(name, last))
dataset = [Sample(input="1+1?", target="2", id="sum", metadata={"topic": "math"})]
for form in ("eval", "json"):
    task = Task(dataset=dataset, solver=[use_tools(add()), generate()], scorer=[includes(), match()], epochs=2, name="demo")
    model = get_model(name, custom_outputs=list(answers))
    log = eval(task, model=model, log_dir=f"logs-{form}", log_format=form, display="none", max_samples=1)[0]
    assert log.status == "success", log.error
'''
PYDANTIC = """
from pydantic_evals import Case, Dataset
from pydantic_evals.evaluators import Contains, EqualsExpected, MaxDuration

dataset = Dataset(
    name="capitals",
    cases=[Case(name="fr", inputs="France?", expected_output="Paris", metadata={"x": 1}, evaluators=(Contains(value="Par"),))],
    evaluators=[EqualsExpected(), MaxDuration(seconds=2.0)],
)
dataset.to_file("capitals.yaml", schema_path=None)
dataset.to_file("capitals.json", schema_path=None)
"""
DEEPEVAL = """
import os

os.environ["DEEPEVAL_TELEMETRY_OPT_OUT"] = "YES"
from deepeval.dataset import EvaluationDataset, Golden

about = {"context": ["France"], "retrieval_context": ["r"], "additional_metadata": {"x": 1}}
goldens = [
    Golden(input="France?", expected_output="Paris", actual_output="It is Paris", **about),
    Golden(input="Peru?", expected_output="Lima"),
]
for form in ("json", "csv", "jsonl"):
    EvaluationDataset(goldens=goldens).save_as(file_type=form, directory=".", file_name="goldens")
"""
LM_EVAL = """
import os

os.environ |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
import json
from pathlib import Path

Path("docs.jsonl").write_text(
    "".join(json.dumps({"question": f"{n}+{n}?", "answer": str(2 * n), "choices": ["2", "4"], "label": n - 1}) + chr(10) for n in (1, 2))
)
common = {
    "dataset_path": "json", "dataset_kwargs": {"data_files": {"test": "docs.jsonl"}}, "test_split": "test",
    "doc_to_text": "{{question}}",
}
tasks = [
    common | {"task": "sums", "output_type": "generate_until", "doc_to_target": "{{answer}}",
              "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}]},
    common | {"task": "picks", "output_type": "multiple_choice", "doc_to_choice": "choices", "doc_to_target": "label",
              "metric_list": [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}]},
]
for task in tasks:
    Path(task["task"] + ".yaml").write_text(json.dumps(task))
import sys

from lm_eval.__main__ import cli_evaluate

sys.argv = ["lm_eval", "--model", "dummy", "--tasks", "sums,picks", "--include_path", ".", "--output_path", "out", "--log_samples"]
cli_evaluate()
"""
RAGAS = """
from ragas import EvaluationDataset, MultiTurnSample, SingleTurnSample
from ragas.messages import AIMessage, HumanMessage, ToolCall, ToolMessage

about = {"retrieved_contexts": ["France"], "rubrics": {"score1": "bad"}}
samples = [
    SingleTurnSample(user_input="France?", response="It is Paris", reference="Paris", **about),
    SingleTurnSample(user_input="Peru?", reference="Lima"),
]
EvaluationDataset(samples=samples).to_jsonl("single.jsonl")
EvaluationDataset(samples=samples).to_csv("single.csv")
call = ToolCall(name="find", args={"x": 1})
messages = [
    HumanMessage(content="Peru?"), AIMessage(content="", tool_calls=[call]), ToolMessage(content="Lima"),
    AIMessage(content="It is Lima"),
]
sample = MultiTurnSample(user_input=messages, reference="Lima", reference_tool_calls=[call])
EvaluationDataset(samples=[sample]).to_jsonl("turns.jsonl")
"""
LANGSMITH = """
import json
from datetime import datetime
from uuid import UUID

from langsmith.schemas import Example

one = Example(
    id=UUID(int=1), dataset_id=UUID(int=2), inputs={"question": "France?"}, outputs={"answer": "Paris"},
    metadata={"topic": "europe"}, created_at=datetime(2026, 1, 1),
)
two = Example(id=UUID(int=3), dataset_id=UUID(int=2), inputs={"question": "Peru?"}, created_at=datetime(2026, 1, 1))
lines = [one.json() if not hasattr(one, "model_dump_json") else one.model_dump_json() for one in (one, two)]
with open("examples.jsonl", "w") as file:
    file.write(chr(10).join(lines))
with open("examples.json", "w") as file:
    json.dump([json.loads(line) for line in lines], file)
"""
ROUGE = """
import json
from rouge_score.rouge_scorer import RougeScorer

scorer = RougeScorer(["rouge1", "rouge2", "rouge3", "rougeL"], use_stemmer=False)
with open("pairs.json") as pairs, open("scores.json", "w") as scores:
    found = [scorer.score(reference, text) for text, reference in json.load(pairs)]
    json.dump([{name: list(one) for name, one in row.items()} for row in found], scores)
"""
F1 = """
import json
from inspect_ai.scorer._classification import compute_f1

with open("pairs.json") as pairs, open("scores.json", "w") as scores:
    json.dump([compute_f1(text, reference) for text, reference in json.load(pairs)], scores)
"""


def run_python(tool, program, folder):
    """Run a program in the environment of a tool."""
    python = python_with(tool, REQUIREMENTS[tool])
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    ended = subprocess.run(
        [python, "-W", "ignore", "-"],
        input=program,
        cwd=folder,
        env=kept,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-2000:]


def promptfoo_folder():
    """The folder where promptfoo is installed."""
    home = CACHE / f"promptfoo-{PROMPTFOO}"
    machine = {"aarch64": "arm64", "arm64": "arm64"}.get(platform.machine(), "x64")
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "promptfoo.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (home / "made").exists():
            shutil.rmtree(home, ignore_errors=True)
            home.mkdir()
            quiet = ["--no-audit", "--no-fund", "--ignore-scripts", "--omit=optional"]
            native = f"@libsql/linux-{machine}-gnu"  # of its database, which is optional
            for names in ([f"promptfoo@{PROMPTFOO}"], [native]):
                try:
                    ended = subprocess.run(
                        ["npm", "install", *names, *quiet],
                        cwd=home,
                        capture_output=True,
                        text=True,
                        timeout=SECONDS,
                        check=False,
                    )
                except (OSError, subprocess.TimeoutExpired) as failure:
                    raise NotMade(f"{failure}") from failure
                if ended.returncode:
                    raise NotMade(ended.stderr.strip()[-500:])
            (home / "made").touch()
    return home / "node_modules" / "promptfoo"


def promptfoo(folder, *words):
    """Run promptfoo in a folder, with a database of its own."""
    program = promptfoo_folder() / "dist" / "src" / "entrypoint.js"
    quiet = {
        "PROMPTFOO_DISABLE_TELEMETRY": "1",
        "PROMPTFOO_DISABLE_UPDATE": "1",
        "PROMPTFOO_CONFIG_DIR": str(folder / "state"),
    }
    return subprocess.run(
        ["node", program, *words],
        cwd=folder,
        env=os.environ | quiet,
        capture_output=True,
        text=True,
        check=False,
    )


def run_promptfoo(folder):
    """`promptfoo eval` of the configuration in a folder, with results in out.json."""
    ended = promptfoo(folder, "eval", "--no-cache", "--no-table", "-o", "out.json")
    assert (folder / "out.json").exists(), ended.stderr[-2000:]


GRADE = """
import fs from "fs";
const { default: promptfoo } = await import(process.argv[2]);
const grades = [];
for (const row of JSON.parse(fs.readFileSync(process.argv[3], "utf8"))) {
  try {
    grades.push(await promptfoo.assertions.runAssertion({
      assertion: row.assertion, test: {}, provider: { id: () => "none" }, providerResponse: { output: row.output },
    }));
  } catch (error) {
    grades.push({ error: error.message });
  }
}
fs.writeFileSync(process.argv[4], JSON.stringify(grades));
process.exit(0);
"""


def grades_of_promptfoo(folder, rows):
    """What promptfoo says of each assertion and output: `pass`, `score`, `reason`, or `error`."""
    (folder / "grade.mjs").write_text(GRADE)
    (folder / "rows.json").write_text(json.dumps(rows))
    module = promptfoo_folder() / "dist" / "src" / "index.js"
    quiet = {"PROMPTFOO_DISABLE_TELEMETRY": "1", "PROMPTFOO_CONFIG_DIR": str(folder / "state")}
    words = ["node", "grade.mjs", str(module), "rows.json", "grades.json"]
    ended = subprocess.run(
        words, cwd=folder, env=os.environ | quiet, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    return json.loads((folder / "grades.json").read_text())
