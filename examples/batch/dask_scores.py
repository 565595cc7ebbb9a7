"""
Scores a table of answers on Dask: `python dask_scores.py answers results [SCHEDULER]`.

Both are folders of Parquet, on any file system that fsspec knows. `answers` has id, question, answer and expected.
Without the address of a scheduler, two worker processes run on this machine.
"""

import sys

from dask import dataframe
from distributed import Client

from assay import batch

CHECKS = [{"contains": "$.test_case.expected"}, {"regex": "[.]$"}]


def main(answers: str, results: str, scheduler: str | None = None) -> None:
    cluster = {"address": scheduler} if scheduler else {"n_workers": 2, "threads_per_worker": 1}
    with Client(**cluster, dashboard_address=None):
        score = batch.scorer(CHECKS, columns={"input": "question", "output": "answer"})
        frame = dataframe.read_parquet(answers)
        frame.map_partitions(score, meta=score.to_pandas()).to_parquet(results)


if __name__ == "__main__":
    main(*sys.argv[1:])
