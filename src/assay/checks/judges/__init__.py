"""
Ready judges: named and versioned prompts, by type. To add one, write its file and a line of the table.

The table holds names: a registry imports a class when a request first uses it.
"""

READY_JUDGES: dict[str, str] = {
    "answer_relevance": "assay.checks.judges.answer_relevance:AnswerRelevance",
    "faithfulness": "assay.checks.judges.faithfulness:Faithfulness",
    "correctness": "assay.checks.judges.correctness:Correctness",
    "summary_quality": "assay.checks.judges.summary_quality:SummaryQuality",
    "tone": "assay.checks.judges.tone:Tone",
    "pairwise": "assay.checks.judges.pairwise:Pairwise",
    "instruction_following": "assay.checks.judges.instruction_following:InstructionFollowing",
    "tool_use": "assay.checks.judges.tool_use:ToolUse",
    "rubric": "assay.checks.judges.rubric:Rubric",
}
