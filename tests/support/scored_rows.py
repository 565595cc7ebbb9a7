"""Rows of `assay.batch.scorer`, and those that `evaluate` answers for the same table, in one form."""

import assay

COLUMNS = ("status", "passed", "score", "reason", "error_type", "error_message")


def rows_of(results):
    """Each check of each row of a table of results, in order."""
    return [
        (row["id"], row["status"], *(check[name] for name in COLUMNS))
        for row in results.to_pylist()
        for check in row["checks"].values()
    ]


def expected_rows(table, checks, columns):
    result = assay.evaluate_sync(table, checks=checks, map=columns)
    statuses = {one.execution_context.test_case["id"]: one.status for one in result.results}
    frame = result.to_pandas().astype(object)
    frame = frame.where(frame.notna(), None)
    return [
        (row["test_case_id"], statuses[row["test_case_id"]], *(row[name] for name in COLUMNS))
        for _, row in frame.iterrows()
    ]
