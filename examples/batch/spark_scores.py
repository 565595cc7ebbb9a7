"""
Scores a table of answers on Spark: `python spark_scores.py answers results`, or `spark-submit` with the same arguments.

Both are folders of Parquet, on any file system that Spark knows. `answers` has id, question, answer and expected.
"""

import sys

from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from assay import batch

CHECKS = [{"contains": "$.test_case.expected"}, {"regex": "[.]$"}]


def main(answers: str, results: str) -> None:
    spark = SparkSession.builder.appName("scores").getOrCreate()
    score = batch.scorer(CHECKS, columns={"input": "question", "output": "answer"})
    scored = spark.read.parquet(answers).mapInArrow(
        lambda batches: map(score, batches), from_arrow_schema(score.schema)
    )
    scored.write.parquet(results)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
