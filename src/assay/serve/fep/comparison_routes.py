"""The URLs of comparisons."""

from assay.comparison.page_view import FILTERS
from assay.serve.fep.comparison import MAX_CHANGES, compare_evaluation
from assay.serve.fep.comparison_view import MAX_PAGE, MAX_RUNS, list_compared_cases, show_comparison
from assay.serve.web.route import Parameter, ResponseSpec, RouteSpec

READ = "evaluations:read"
METRIC = Parameter("metric", {"type": "string"}, "What is compared, as for `assay compare`.")
BY = Parameter("by", {"type": "string"}, "Groupings, separated by commas: tag, check, criterion or a member.")
MARGIN = Parameter(
    "margin", {"type": "number", "exclusiveMinimum": 0}, "A difference below this does not matter."
)
RUNS = Parameter(
    "runs",
    {"type": "string"},
    f"The ids of 2 to {MAX_RUNS} runs, separated by commas. The first is the baseline.",
)

COMPARISONS = [
    RouteSpec(
        method="GET",
        path="/v1/evaluations/{evaluation_id}/comparison",
        endpoint=compare_evaluation,
        scope=READ,
        id="compareEvaluation",
        summary="Compare a run with a baseline, case by case, and get a verdict",
        responses={200: ResponseSpec("The comparison.", "RunComparison")},
        errors=(400, 404),
        parameters=(
            Parameter("baseline", {"type": "string"}, "The id of the run to compare with. It is required."),
            METRIC,
            BY,
            MARGIN,
            Parameter(
                "limit",
                {"type": "integer", "minimum": 0, "maximum": MAX_CHANGES},
                "How many changed cases are listed. Default: 10.",
            ),
        ),
    ),
    RouteSpec(
        method="GET",
        path="/v1/host/assay/comparison",
        endpoint=show_comparison,
        scope=READ,
        id="getComparison",
        summary="Compare several runs with the first: verdicts, sentences, slices and charts",
        responses={200: ResponseSpec("The comparison.", "ComparisonView")},
        errors=(400, 404),
        parameters=(RUNS, METRIC, BY, MARGIN),
    ),
    RouteSpec(
        method="GET",
        path="/v1/host/assay/comparison/cases",
        endpoint=list_compared_cases,
        scope=READ,
        id="listComparedCases",
        summary="List the cases of a comparison by their change, the worst first",
        responses={200: ResponseSpec("One page of cases.", "ComparedCases")},
        errors=(400, 404),
        parameters=(
            RUNS,
            Parameter(
                "of",
                {"type": "string"},
                "The run to compare with the baseline. Default: the second of `runs`.",
            ),
            METRIC,
            BY,
            Parameter(
                "change",
                {"type": "string", "enum": list(FILTERS), "default": "changed"},
                "The cases to list, by their change. `changed` lists worse and better.",
            ),
            Parameter("slice_by", {"type": "string"}, "One of the names in `by`: only the cases of `slice`."),
            Parameter("slice", {"type": "string"}, "The name of a slice."),
            Parameter(
                "first", {"type": "integer", "minimum": 0, "default": 0}, "The number of the first case."
            ),
            Parameter(
                "limit",
                {"type": "integer", "minimum": 1, "maximum": MAX_PAGE, "default": 50},
                "How many cases are listed.",
            ),
        ),
    ),
]
