"""semantic_similarity, offline and against a real local provider (FEP 2.3.6; FEP-19, FEP-23, FEP-24, FEP-26, FEP-31)."""

import json
import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import assay
from assay import InvalidRequest
from assay.checks.standard.semantic_similarity import similarity
from support.models.judges import CANARY, configure, evaluate, near
from support.models.provider_server import ProviderServer


@pytest.fixture(autouse=True)
def offline(tmp_path, monkeypatch):
    """No key and no settings: what anybody has."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def server(offline):
    with ProviderServer() as server:
        configure(offline, server, {"embedding": "local:ok"})
        yield server


def score(text, reference, **more):
    (result,) = evaluate(near(text, reference, **more))
    assert result.status == "completed", result.error
    return result.results["response"]["score"]


@pytest.mark.parametrize(
    ("one", "other", "metric", "expected"),
    [
        ([1, 0], [2, 0], "cosine", 1.0),  # only the direction counts
        ([1, 0], [0, 1], "cosine", 0.0),
        ([1, 0], [-1, 0], "cosine", 0.0),  # clamped
        ([3, 4], [4, 3], "cosine", 0.96),
        ([3, 4], [4, 3], "dot", 0.96),  # on vectors of length 1 it is the cosine
        ([30, 40], [4, 3], "dot", 0.96),
        ([1, 0], [0, 1], "euclidean", 1 / (1 + math.sqrt(2))),
        ([2, 0], [1, 0], "euclidean", 1.0),
        ([1, 0], [-1, 0], "euclidean", 1 / 3),
        ([0, 0], [1, 0], "cosine", 0.0),  # a text without words is near nothing,
        ([0, 0], [0, 0], "cosine", 0.0),  # not even another one
        ([0, 0], [0, 0], "dot", 0.0),
        ([0, 0], [1, 0], "euclidean", 0.0),
        ([0, 0], [0, 0], "euclidean", 0.0),
    ],
)
def test_each_metric_of_similarity_has_its_value(one, other, metric, expected):
    assert similarity(one, other, metric) == pytest.approx(expected)


numbers = st.floats(-1e3, 1e3, allow_nan=False)


@given(
    pair=st.integers(1, 8).flatmap(lambda n: st.tuples(*[st.lists(numbers, min_size=n, max_size=n)] * 2)),
    metric=st.sampled_from(["cosine", "dot", "euclidean"]),
)
def test_a_score_is_from_0_to_1_and_symmetric(pair, metric):
    one, other = pair
    assert 0 <= similarity(one, other, metric) <= 1
    assert similarity(one, other, metric) == pytest.approx(similarity(other, one, metric))
    if any(one):
        assert similarity(one, one, metric) == 1.0


# offline, as anybody has it


def test_without_a_key_it_works_and_costs_nothing():
    (result,) = evaluate(near("The cat sat on the mat.", "A cat was sitting on a mat."))
    assert 0.5 < result.results["response"]["score"] < 1
    assert "passed" not in result.results["response"]
    metadata = result.results["metadata"]
    assert (metadata["provider"], metadata["cost_usd"], metadata["dimensions_used"]) == (
        "wordllama",
        0.0,
        256,
    )
    assert metadata["tokens_processed"] > 5
    assert result.metadata["execution_time_ms"] > 0


def test_related_texts_score_above_unrelated_ones():
    capital = "Paris is the capital of France."
    assert (
        score(capital, "The French capital is Paris.")
        > score(capital, "Bananas are rich in potassium.") + 0.3
    )
    assert score(capital, capital) == 1.0


def test_embeddings_do_not_tell_a_claim_from_its_negation():
    """Documented in docs/judges.md: a claim and its negation are near each other, nearer than a paraphrase."""
    claim = "The medicine is safe for children."
    negation = score(claim, "The medicine is not safe for children.")
    assert negation > 0.9
    assert negation > score(claim, "Children can take this drug without any danger.")


@pytest.mark.parametrize(
    ("value", "text"),
    [({"b": 1, "a": [True]}, '{"a":[true],"b":1}'), (12.0, "12"), (False, "false"), ("", "")],
)
def test_anything_but_null_is_compared_as_text(value, text):
    (result,) = evaluate(near(reference=text), value=value)
    assert result.results["response"]["score"] == (1.0 if text else 0.0)


def test_null_is_no_text():
    (result,) = evaluate(near(), value=None)
    assert (result.status, result.error.type) == ("error", "validation_error")


@pytest.mark.parametrize(
    ("threshold", "passed"),
    [
        ({"min_value": 0.5}, True),
        ({"min_value": 1.0}, True),
        ({"min_value": 1, "min_inclusive": False}, False),
        ({"max_value": 0.5}, False),
        ({"max_value": 0.5, "negate": True}, True),
        ({"min_value": 0.2, "max_value": 1}, True),
    ],
)
def test_a_threshold_decides(threshold, passed):
    (result,) = evaluate(near("same", "same", threshold=threshold))
    assert result.results["response"] == {"score": 1.0, "passed": passed}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"threshold": {}}, "expected min_value, max_value or both"),
        ({"threshold": {"min_value": 0.8, "max_value": 0.2}}, "above max_value"),
        ({"threshold": {"min_value": "0.5"}}, "arguments.threshold.min_value: expected"),
        ({"threshold": {"min_value": True}}, "arguments.threshold.min_value: expected"),
        ({"threshold": {"min_value": 1.5}}, "arguments.threshold.min_value: expected"),
        ({"threshold": {"least": 0.5}}, "arguments.threshold.least: no such member; there are min_value"),
        ({"threshold": 0.5}, "arguments.threshold: expected"),
        ({"similarity_metric": "manhattan"}, "arguments.similarity_metric: "),
        ({"model_config": {"model": "ada"}}, "there is no provider for that model: set OPENAI_API_KEY"),
        ({"model_config": {"dimensions": 100}}, "vectors of 64, 128, 256 numbers"),
        ({"model_config": {"dimensions": 0}}, "model_config.dimensions: expected a whole number above 0"),
        ({"model_config": {"encoding_format": "base64"}}, "expected 'float'"),
        ({"model_config": {"temperature": 1}}, "embeddings take model, dimensions and encoding_format"),
        ({"model_config": {"model": 5}}, "model_config.model: expected a name"),
        (
            {"provider_config": {"provider_name": "wordllama"}, "model_config": {"model": "x"}},
            "has no model 'x'",
        ),
    ],
)
def test_impossible_arguments_are_refused_before_anything_runs(arguments, message):
    with pytest.raises(InvalidRequest) as refusal:
        evaluate(near(**arguments))
    assert message in str(refusal.value)
    assert "checks[0].arguments" in str(refusal.value)


def test_vectors_can_be_cut():
    (result,) = evaluate(near(model_config={"dimensions": 64}))
    assert result.results["metadata"]["dimensions_used"] == 64


def test_several_processes_share_what_is_offline(offline, command):
    lines = [
        {
            "test_case": {"id": f"t{at}", "input": "?", "expected": "A cat."},
            "output": {"value": "x " * 5_000},
        }
        for at in range(20)
    ]
    (offline / "answers.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (offline / "checks.json").write_text(json.dumps([near()]))
    run = ("evaluate", "--contexts", "answers.jsonl", "--checks", "checks.json", "--json")
    done = command(*run, "--jobs", "2", folder=offline)
    assert (done.code, done.err) == (0, "")
    document = json.loads(done.out)
    assert document["summary"]["completed_checks"] == 20
    assert document["spending"]["calls"] == 20
    assert document["spending"]["cost_usd"] == 0.0


# at a provider


def test_calls_of_many_checks_go_together(server):
    cases = [{"id": f"t{at}", "input": "?", "expected": f"word {at}"} for at in range(40)]
    outputs = [{"value": f"another word {at}"} for at in range(40)]
    done = assay.evaluate_sync(cases, outputs, [near()], concurrency=40)
    assert done.status == "completed"
    assert len(server.seen) < 10
    assert done.metadata["calls"] == 40
    tokens = sum(len(text.split()) for seen in server.seen for text in seen.body["input"])
    assert done.metadata["tokens"] == tokens  # shared out, and none is lost
    assert done.metadata["cost_usd"] == pytest.approx(tokens / 1_000_000)


def test_a_request_names_the_model_and_its_dimensions(server):
    (result,) = evaluate(
        near(model_config={"model": "local:reversed", "dimensions": 8, "encoding_format": "float"})
    )
    assert result.results["metadata"]["dimensions_used"] == 8
    assert server.seen[0].body["model"] == "reversed"
    assert server.seen[0].body["dimensions"] == 8


@pytest.mark.parametrize(
    ("script", "kind", "recoverable", "words"),
    [
        ("429", "unknown_error", True, "answered 429"),
        ("500", "unknown_error", True, "answered 500"),
        ("drop", "unknown_error", True, "could not be reached"),
        ("hang", "timeout_error", True, "gave no answer"),
        ("drip", "timeout_error", True, "gave no answer"),
        ("page", "unknown_error", False, "without embeddings"),
        ("short", "unknown_error", False, "sent 1 vectors for 2 texts"),
        ("ragged", "unknown_error", False, "vectors of different lengths"),
        ("leak:401", "unknown_error", False, "check its api_key"),
        ("leak:400", "unknown_error", False, "answered 400"),
    ],
)
def test_a_failure_is_no_score_and_does_not_tell_the_key(server, script, kind, recoverable, words):
    (result,) = evaluate(near(model_config={"model": script}))
    assert (result.status, result.results) == ("error", {})
    assert (result.error.type, result.error.recoverable) == (kind, recoverable)
    assert words in result.error.message
    assert CANARY[:12] not in msgspec.json.encode(result).decode()


def test_a_cached_embedding_is_not_requested_again(server):
    for cached in (False, True):
        (result,) = evaluate(near(), cache=True)
        assert result.results["metadata"]["cached"] is cached
    assert len(server.seen) == 1
    assert result.results["metadata"]["saved_usd"] > 0
