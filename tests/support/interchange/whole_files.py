"""A file of each format with every member that its tool writes, and a law: each member is carried, or it is named."""

import copy
import json
import re

from assay.interchange.formats import format_named
from assay.interchange.imported import ImportReport
from assay.ports import Limits
from support.interchange.promptfoo_samples import result_row, results_document

USAGE = {
    "total": 9,
    "prompt": 7,
    "completion": 2,
    "cached": 5,
    "numRequests": 1,
    "completionDetails": {"reasoning": 3},
}
PROMPTFOO = {
    "$schema": "https://promptfoo.dev/config-schema.json",
    "description": "About capitals",
    "metadata": {"owner": "team"},
    "tags": {"stage": "nightly"},
    "prompts": ["Capital of {{country}}?", {"id": "short", "raw": "{{country}}?", "label": "brief", "config": {"temperature": 0.5}}],
    "providers": ["openai:gpt-4o-mini", {"id": "echo", "config": {"x": "xx"}}],
    "defaultTest": {
        "vars": {"tone": "polite"}, "options": {"suffix": "!!!", "provider": "openai:gpt-4o"}, "metadata": {"level": "easy"},
        "assert": [{"type": "not-contains", "value": "sorry", "metric": "no excuse"}], "threshold": 0.5, "description": "every test",
    },
    "assertionTemplates": {"short": {"type": "word-count", "value": {"max": 5}}},
    "tests": [
        {
            "description": "first test", "vars": {"country": "France"}, "metadata": {"topic": "europe"}, "threshold": 0.7,
            "options": {"prefix": ">>> ", "transform": "output.trim()", "rubricPrompt": "Judge it"}, "providerOutput": "Paris it is",
            "assertScoringFunction": "file://score.js", "provider": "openai:gpt-5", "repeat": 3,
            "assert": [
                {"$ref": "#/assertionTemplates/short"},
                {"type": "icontains", "value": "paris", "weight": 2, "config": {"y": "yy"}, "threshold": 0.25, "provider": "openai:gpt-6"},
                {"type": "llm-rubric", "value": "is kind", "provider": "openai:gpt-7", "rubricPrompt": "Be strict", "threshold": 0.35},
                {"type": "assert-set", "metric": "both", "config": {"z": "zz"}, "assert": [{"type": "contains", "value": "Par"}]},
                {"type": "javascript", "value": "output.length", "transform": "x => x"},
                {"type": "python", "value": "len(output) > 4"},
            ],
        },
        {"vars": {"country": "Peru"}, "assert": [{"type": "assert-set", "metric": "second", "assert": [{"type": "contains", "value": "ima"}]}]},
    ],
    "scenarios": [
        {
            "description": "southern", "config": [{"vars": {"country": "Chile"}, "metadata": {"row": "config row"}, "assert": [{"type": "contains", "value": "tiago"}]}],
            "tests": [{"description": "of a scenario", "assert": [{"type": "regex", "value": "^San"}]}],
        }
    ],
    "evaluateOptions": {"maxConcurrency": 4}, "outputPath": "somewhere.json", "sharing": True, "env": {"NAME": "value"},
    "derivedMetrics": [{"name": "both of", "value": "a + b"}], "extensions": ["file://hook.js:run"], "nunjucksFilters": {"up": "./up.js"},
}  # fmt: skip
PROMPTFOO_RESULTS = results_document(
    [
        result_row(
            0, 0, id="row-id", promptId="prompt-id", metadata={"trace": "trace-id"}, namedScores={"polite": 0.5}, tokenUsage=USAGE, description="described",
            error="Expected it", persisted=True,
            response={"output": "Paris", "cached": True, "finishReason": "stop", "raw": {"long": "raw text"}, "logProbs": [-0.5], "tokenUsage": USAGE,
                      "metadata": {"http": "status"}, "guardrails": {"flagged": True}},
            testCase={"vars": {"country": "France"}, "description": "described", "options": {"transform": "x => x", "prefix": ">> "}, "metadata": {"topic": "geo"},
                      "provider": "other-provider", "prompts": ["only this"],
                      "assert": [{"type": "contains", "value": "{{country}}", "weight": 1, "config": {"more": "mm"}}]},
            gradingResult={"pass": True, "score": 0.9, "reason": "because", "namedScores": {"polite": 0.5}, "namedScoreWeights": {"polite": 2},
                           "tokensUsed": USAGE, "comment": "a person said",
                           "componentResults": [{"pass": True, "score": 0.9, "reason": "part", "assertion": {"type": "contains", "metric": "polite"},
                                                 "metadata": {"rendered": "value"}, "suggestions": [{"action": "note"}], "comment": "inner"}]},
        )
        | {"prompt": {"raw": "Capital of France?", "label": "Capital of {{country}}?", "id": "id-of-prompt", "config": {"temperature": 0.25}}}
    ]
) | {"shareableUrl": "https://share", "vars": ["country"], "runtimeOptions": {"repeat": 2}, "config": {"description": "whole config"}}  # fmt: skip
PROMPTFOO_RESULTS["results"]["stats"] = {"successes": 11}
PROMPTFOO_RESULTS["results"]["prompts"] = [{"raw": "Capital", "metrics": {"cost": 0.125}}]
GRADER = {
    "name": "same",
    "type": "string_check",
    "input": "{{ sample.output_text }}",
    "reference": "{{ item.label }}",
}
OPENAI_EVAL = {
    "object": "eval", "id": "eval_abc", "name": "capitals", "created_at": 1747000000, "metadata": {"owner": "team"}, "shared_with_openai": True,
    "data_source_config": {"type": "custom", "schema": {"type": "object"}},
    "testing_criteria": [
        GRADER | {"operation": "eq", "note": "grader note"},
        {"type": "score_model", "name": "score", "model": "gpt-4o", "input": [{"role": "user", "content": "Rate {{ sample.output_text }}"}],
         "range": [0, 10], "pass_threshold": 7, "sampling_params": {"temperature": 0.125}},
        {"type": "multi", "name": "both", "calculate_output": "a", "remark": "multi remark", "graders": {"a": GRADER | {"operation": "like"}}},
        {"type": "python", "name": "code", "source": "def grade(sample, item): return 1", "image_tag": "2025-05-08"},
    ],
}  # fmt: skip
OPENAI_ITEM = {
    "object": "eval.run.output_item", "id": "outputitem_abc", "run_id": "run_abc", "eval_id": "eval_abc", "created_at": 1747000001, "status": "pass",
    "datasource_item_id": 5, "datasource_item": {"question": "Capital?", "label": "Paris", "extra": {"deep": "deeper"}},
    "results": [{"name": "same", "type": "string_check", "passed": True, "score": 0.75, "reason": "because", "sample": {"output": "judged"}}],
    "sample": {
        "input": [{"role": "user", "content": "Capital of France?"}],
        "output": [{"role": "assistant", "content": "draft"}, {"role": "assistant", "content": "Paris", "tool_calls": [{"id": "call_1", "function": {"name": "look"}}]}],
        "model": "gpt-4o-mini", "finish_reason": "stop", "error": None, "temperature": 0.3, "top_p": 0.95, "seed": 42, "max_completion_tokens": 2048,
        "usage": {"total_tokens": 9, "prompt_tokens": 7, "completion_tokens": 2, "cached_tokens": 33},
    },
}  # fmt: skip
INSPECT = {
    "version": 2, "status": "success", "location": "logs/it.json", "etag": "tag", "invalidated": True, "log_updates": [{"why": "edited"}], "tags": ["nightly"], "metadata": {"a": "head"},
    "eval": {
        "eval_id": "eval-x", "run_id": "run-x", "created": "2026-11-18T00:00:00Z", "task": "sums", "task_id": "task-x", "task_version": 3, "task_file": "sums.py",
        "task_args": {"level": "hard"}, "solver": "chain", "dataset": {"name": "ds", "location": "ds.jsonl", "samples": 17, "sample_ids": ["id-one"]},
        "model": "mockllm/model", "model_generate_config": {"temperature": 0.3}, "model_args": {"m": "mm"}, "config": {"epochs": 13},
        "revision": {"type": "git", "commit": "c0ffee"}, "packages": {"inspect_ai": "0.3.285"}, "metadata": {"b": "evals"},
        "scorers": [{"name": "includes", "options": {"ignore_case": True}, "metrics": [{"name": "accuracy"}]}, {"name": "own"}],
    },
    "plan": {"name": "plan name", "steps": [{"solver": "generate", "params": {"p": "pp"}}], "config": {"c": "cc"}, "finish": {"solver": "end"}},
    "results": {"total_samples": 19, "scores": [{"name": "includes"}]}, "stats": {"started_at": "then", "model_usage": {}}, "reductions": [{"scorer": "includes"}],
    "samples": [
        {
            "id": "one", "epoch": 1, "uuid": "uuid-x", "input": "1+1?", "choices": ["two", "three"], "target": "2", "sandbox": {"type": "docker"}, "files": ["f.txt"], "setup": "make it",
            "messages": [
                {"id": "m0", "role": "system", "content": "Be exact."}, {"id": "m1", "role": "user", "content": "1+1?", "metadata": {"of": "message"}},
                {"id": "m2", "role": "assistant", "content": [{"type": "reasoning", "reasoning": "I think"}, {"type": "text", "text": "Let me see"}, {"type": "image", "image": "data:x"}],
                 "tool_calls": [{"id": "c1", "function": "add", "arguments": {"x": 1}, "type": "function", "parse_error": "no error"}]},
                {"id": "m3", "role": "tool", "content": "two it is", "tool_call_id": "c1", "function": "add"},
                {"id": "m4", "role": "user", "content": "Go on"}, {"id": "m5", "role": "assistant", "content": "It is 2", "model": "mm"},
            ],
            "output": {"model": "mockllm", "completion": "It is 2", "time": 0.125, "metadata": {"of": "output"}, "usage": {"total_tokens": 5},
                       "choices": [{"stop_reason": "stop", "message": {"role": "assistant", "content": "It is 2"}, "logprobs": {"content": [-0.5]}}, {"message": {"content": "second"}}]},
            "scores": {"includes": {"value": "C", "answer": "It is 2", "explanation": "why", "metadata": {"of": "score"}, "history": [{"h": "hh"}]}},
            "metadata": {"topic": "math"}, "store": {"state": "kept"}, "events": [{"event": "model"}], "attachments": {},
            "model_usage": {"m": {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7, "reasoning_tokens": 29, "total_cost": 0.0625}},
            "role_usage": {"grader": {"total_tokens": 31}}, "started_at": "2026-11-18T00:00:01Z", "completed_at": "2026-11-18T00:00:02Z", "total_time": 1.5, "working_time": 1.25,
            "limit": {"type": "token", "limit": 1000}, "error_retries": [{"message": "again"}], "timelines": [{"name": "line"}],
        }
    ],
}  # fmt: skip
LM_EVAL = {
    "doc_id": 2, "doc": {"q": "2+2"}, "target": "four", "arguments": {"gen_args_0": {"arg_0": "Q: 2+2", "arg_1": {"until": ["stop here"]}}},
    "resps": [["It is four"]], "filtered_resps": ["four"], "filter": "strict", "metrics": ["exact_match", "pair"], "exact_match": 0.5, "pair": ["ref", "pred"],
    "doc_hash": "hash-d", "prompt_hash": "hash-p", "target_hash": "hash-t",
}  # fmt: skip
LM_RESULTS = {
    "results": {"math": {"exact_match,strict": 0.5}}, "group_subtasks": {"math": []}, "configs": {"math": {"task": "math"}}, "versions": {"math": 1.5}, "n-shot": {"math": 5},
    "higher_is_better": {"math": {"exact_match": True}}, "n-samples": {"math": {"original": 111}}, "config": {"model": "dummy", "batch_size": 16}, "git_hash": "abc123",
    "date": 1747000000.5, "model_name": "tiny", "lm_eval_version": "0.4.13", "total_evaluation_time_seconds": "1.75", "pretty_env_info": "env " * 200,
}  # fmt: skip
EEE = {
    "schema_version": "0.3.0", "evaluation_id": "run/1", "model_id": "openai/gpt", "evaluation_name": "gsm8k", "evaluation_result_id": "result#1", "sample_id": "s1",
    "sample_hash": "hash-s", "interaction_type": "single_turn", "input": {"raw": "2+2?", "formatted": "Q: 2+2?", "reference": ["4"], "choices": ["4", "5"]},
    "output": {"raw": ["four"], "reasoning_trace": ["thought"]}, "messages": None,
    "answer_attribution": [{"turn_idx": 0, "source": "output.raw", "extracted_value": "4", "extraction_method": "match", "is_terminal": True}],
    "evaluation": {"score": 0.5, "is_correct": True, "num_turns": 17, "tool_calls_count": 19}, "token_usage": {"input_tokens": 11, "output_tokens": 12, "total_tokens": 23, "reasoning_tokens": 37},
    "performance": {"latency_ms": 125.0, "time_to_first_token_ms": 41.0}, "error": None, "metadata": {"level": "easy"},
}  # fmt: skip
EEE_AGGREGATE = {
    "schema_version": "0.3.0", "evaluation_id": "run/1", "retrieved_timestamp": "1747000000", "source_metadata": {"source_type": "evaluation_run", "list": ["inner"]},
    "model_info": {"name": "gpt", "id": "openai/gpt"}, "eval_library": {"name": "lib", "version": "9.9"}, "evaluation_results": [{"evaluation_name": "gsm8k", "score_details": {"score": 0.5}}],
}  # fmt: skip
DATASETS = {
    "flex-evals": {"name": "a set", "experiment_metadata": {"seed": 77, "list": ["inner"]}, "test_cases": [{"id": "a", "input": "Quest", "expected": "Answ", "metadata": {"k": "vv"}}],
                   "outputs": [{"value": "Answ", "metadata": {"model": "gpt"}}], "checks": [{"type": "contains", "name": "own name", "version": "1.0.0", "arguments": {"text": "$.output.value", "phrases": ["Ans"]}}, "not a check"]},
    "pydantic-evals": {"name": "a set", "cases": [{"name": "a", "inputs": "Quest", "expected_output": "Answ", "metadata": {"k": "vv"}, "evaluators": ["EqualsExpected", {"LLMJudge": {"rubric": "is kind", "model": "openai:gpt-8", "score": {"s": "ss"}}}, {"Own": {"o": "oo"}}]}],
                       "evaluators": [{"MaxDuration": {"seconds": 2.5}}], "report_evaluators": ["Confusion"], "$schema": "schema.json"},
    "deepeval": [{"input": "Quest", "actual_output": "Outp", "expected_output": "Answ", "context": ["ctx"], "retrieval_context": ["rctx"], "tools_called": [{"name": "tool"}], "name": "nn", "id": "idid", "comments": "cc", "source_file": "src", "additional_metadata": {"x": "xx"}}],
    "ragas": [{"user_input": "Quest", "question": "other quest", "response": "Outp", "reference": "Answ", "retrieved_contexts": ["ctx"], "rubrics": {"score1": "bad"}, "synthesizer_name": "synth"}],
    "langsmith": [{"id": "x", "inputs": {"q": "Quest"}, "outputs": {"a": "Answ"}, "metadata": {"dataset_split": ["base"]}, "created_at": "then", "dataset_id": "ds", "source_run_id": "src", "checks": "own column", "attachments": {"f": "ff"}}],
}  # fmt: skip
FILES = {  # a case: the format, and its files
    "promptfoo": ("promptfoo", {"promptfooconfig.json": PROMPTFOO}),
    "promptfoo results": ("promptfoo", {"out.json": PROMPTFOO_RESULTS}),
    "promptfoo result lines": ("promptfoo", {"out.jsonl": PROMPTFOO_RESULTS["results"]["results"]}),
    "openai-evals": ("openai-evals", {"eval.json": OPENAI_EVAL, "items.jsonl": [OPENAI_ITEM]}),
    "inspect": ("inspect", {"log.json": INSPECT}),
    "lm-evaluation-harness": ("lm-evaluation-harness", {"results_x.json": LM_RESULTS, "samples_math_2026.jsonl": [LM_EVAL]}),
    "every-eval-ever": ("every-eval-ever", {"a.jsonl": [EEE], "a.json": EEE_AGGREGATE}),
    **{name: (name, {"d.json": document}) for name, document in DATASETS.items()},
}  # fmt: skip


def planted(document, count):
    """The document with members in every object of it that no tool has: a text, a number and a list."""
    if isinstance(document, dict):
        made = {name: planted(one, count) for name, one in document.items()}
        for kind in ("text", "number", "list"):
            count[0] += 1
            mark = f"mark-{count[0]:05}"
            made[f"planted{count[0]:05}"] = {"text": mark, "number": 9_000_000 + count[0], "list": [mark]}[
                kind
            ]
        return made
    return [planted(one, count) for one in document] if isinstance(document, list) else document


def leaves(document, path):
    """The numbers and texts of a document with their places, as the report writes them."""
    if isinstance(document, dict):
        for name, one in document.items():
            yield from leaves(one, f"{path}{'' if path.endswith(' ') else '.'}{name}")
    elif isinstance(document, list):
        for at, one in enumerate(document):
            yield from leaves(one, f"{path}[{at}]")
    elif document is not None and not isinstance(document, bool):
        yield path, document


def leaves_of(path, document):
    for at, one in enumerate(document if isinstance(document, list) else [document]):
        is_item = isinstance(document, list)
        place = f"{path}:{at + 1}" if path.suffix == ".jsonl" else f"{path}[{at}]" if is_item else f"{path}: "
        yield from leaves(one, place)


REMARKS = "weights", "score of a test"  # of a whole test
TRANSLATED = re.compile(  # ends of places whose values have another form here
    r"assert\[\d\]\.type|\$ref|tool_calls\[0\]\.type"  # a check with a name of its own, a step
    r"|testCase\.options\.prefix"  # it is in the prompt
    r"|testing_criteria\[\d\](\.graders\.a)?\.(type|operation)"  # a check
    r"|total_time|MaxDuration(\.seconds)?"  # milliseconds
    r"|messages\[\d\]\.(role|source)|choices\[0\]\.message\.(id|source)"  # an input, a step
    r"|output\.usage\.(input|output|total)_tokens"  # usage of the last call, which is in the sum
    r"|jsonl:\d+\.filter"  # in the name of a system, but for none
    r"|componentResults\[\d\]\.assertion\.value"  # the assertion of the test
)
TEMPLATE = "assertionTemplates.short", "tests[0].assert[0]"  # an assertion is noted where a test names it


def dropped(name, documents):
    """The members of files that an import neither carries nor names. `documents` has what each file holds."""
    report = ImportReport()
    cases = list(format_named(name).read([str(one) for one in documents], report, Limits()))
    assert cases
    carried = json.dumps(
        [[one.case, one.output, one.checks, one.judges, one.variant] for one in cases]
        + [report.document()["about"], report.functions],
        ensure_ascii=False,
    )
    assert len(report.not_carried) == report.counts.total()
    places = tuple(one.place for one in report.not_carried if one.what not in REMARKS)
    named = {f"{place}{end}" for place in places for end in ("", ".", "[")}
    leaves = [
        (place.replace(*TEMPLATE), value)
        for path, document in documents.items()
        for place, value in leaves_of(path, document)
        if "{{" not in str(value)  # it is filled in
    ]
    return [
        (place, value)
        for place, value in leaves
        if not any(one.end() == len(place) for one in TRANSLATED.finditer(place))
        and json.dumps(value, ensure_ascii=False).strip('"') not in carried
        and not any(place[: len(one)] == one for one in named if one[-1] in ".[")
        and place not in named
    ]


def read(path):
    lines = path.suffix == ".jsonl"
    return (
        [json.loads(line) for line in path.read_text().splitlines()]
        if lines
        else json.loads(path.read_text())
    )


def write(folder, files, change=copy.deepcopy):
    """Write the files of a case, and return what each of them holds."""
    documents = {name: change(one) for name, one in files.items()}
    for name, one in documents.items():
        lines = name.endswith(".jsonl")
        (folder / name).write_text("\n".join(map(json.dumps, one)) if lines else json.dumps(one))
    return {folder / name: one for name, one in documents.items()}
