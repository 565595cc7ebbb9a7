"""What the tests of judges, similarity and providers share: a folder with settings for the local provider."""

import json
from pathlib import Path
from typing import Any

import assay
from support.checks.results_schemas import fits

CANARY = "sk-canary-7d1f9b3e5a"
PASSED = {
    "type": "object",
    "required": ["passed"],
    "properties": {"passed": {"type": "boolean"}},
    "additionalProperties": False,
}
LOCAL = {"timeout": 2.5, "deadline": 60.0, "max_retries": 1, "prices": {"input": 1.0, "output": 2.0}}


def configure(folder: Path, server: Any, more: dict[str, str] | None = None, **local: Any) -> None:
    """`[providers.local]` is the server, with the canary for a key; its models fail as their names say."""
    provider = {"base_url": server.base_url, "api_key": CANARY, **LOCAL, **local}
    models = {"judge": "local:ok", **(more or {})}
    lines = [
        "[providers.local]",
        *(f"{name} = {toml(value)}" for name, value in provider.items() if value is not None),
    ]
    lines += ["[models]", *(f"{name} = {toml(model)}" for name, model in models.items())]
    (folder / "assay.toml").write_text("\n".join(lines))


def enter(folder: Path, server: Any, monkeypatch: Any) -> Path:
    """The folder, configured, as the working directory. The caller's own provider is not used."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(folder)
    configure(folder, server)
    return folder


def toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {toml(one)}" for name, one in value.items()) + "}"
    return json.dumps(value)


def judge(prompt: str = "Is `{{$.output.value}}` polite?", schema: Any = None, **more: Any) -> dict[str, Any]:
    """A check; `model` is the script of the local provider."""
    arguments: dict[str, Any] = {"prompt": prompt, "response_format": PASSED if schema is None else schema}
    if "model" in more:
        arguments["model_config"] = {"model": more.pop("model"), **more.pop("parameters", {})}
    return {"type": "llm_judge", "arguments": {**arguments, **more}}


def near(
    text: str = "$.output.value", reference: str = "$.test_case.expected", **more: Any
) -> dict[str, Any]:
    return {"type": "semantic_similarity", "arguments": {"text": text, "reference": reference, **more}}


def evaluate(*checks: dict[str, Any], value: Any = "Paris, please.", **how: Any) -> list[assay.CheckResult]:
    """The results of the checks on one case."""
    case = {"id": "t", "input": "Capital of France?", "expected": "Paris"}
    done = assay.evaluate_sync([case], [{"value": value}], list(checks), **{"concurrency": 64, **how})
    return [fits(result) for result in done.results[0].check_results]
