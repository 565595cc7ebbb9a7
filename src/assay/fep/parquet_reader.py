"""Reads the rows of a Parquet file, batch by batch. It needs the extra `tables`."""

from collections.abc import Iterator
from importlib import import_module
from typing import IO, Any

from assay.errors import EnvironmentFailure
from assay.extras import require

BATCH = 1_024  # rows in memory


def parquet_rows(file: IO[bytes], name: str) -> Iterator[tuple[dict[str, Any], tuple[str, ...]]]:
    """Yield rows with the columns of the file. A null, or a number that is missing (NaN), is absent."""
    require(name, "tables", package="pyarrow")
    arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    try:
        table = parquet.ParquetFile(file)
        columns = tuple(table.schema_arrow.names)
        for batch in table.iter_batches(batch_size=BATCH):
            for row in batch.to_pylist():
                yield (
                    {column: value for column, value in row.items() if value is not None and value == value},
                    columns,
                )
    except arrow.ArrowException as wrong:
        raise EnvironmentFailure(f"{name}: cannot be read as Parquet: {wrong}") from None
