"""A run in which nothing was measured has no score: not 0."""

import asyncio

import pytest

import assay
from assay.agenteval.results.scorecard import verdict
from assay.protocol.agent_evals import Thresholds
from support.evals import golden, suite_of


def away(question):
    raise assay.NotMeasured("away")


def test_the_report_of_an_unmeasured_run_has_no_score():
    run = asyncio.run(assay.run_suite(suite_of(golden("a", "Paris", "?")), away))
    assert (run.report.score, run.report.low, run.report.high, run.summary) == (None, None, None, None)
    assert "score not measured, 0 of 1 tasks passed" in repr(run)


@pytest.mark.parametrize("pass_score", [0.0, 0.7])
def test_a_verdict_without_a_score_is_not_passed(pass_score):
    assert verdict(None, 0.0, None, Thresholds(), pass_score).failed == ("passScore",)
