"""The SQL dialect for sqlglot: that of DuckDB, with the names that differ."""

import sqlglot.expressions as sge
from sqlglot.dialects import DuckDB
from sqlglot.dialects.dialect import rename_func


class Rowmill(DuckDB):
    """The dialect of DuckDB, which Rowmill reads, except for some names of functions and types."""

    # NULL is greater than all values, as in PostgreSQL.
    NULL_ORDERING = "nulls_are_large"

    class Generator(DuckDB.Generator):
        TRANSFORMS = DuckDB.Generator.TRANSFORMS | {
            # `regexp_matches` gives a row for each match, as in PostgreSQL.
            sge.RegexpLike: rename_func("REGEXP_LIKE"),
        }
        TYPE_MAPPING = DuckDB.Generator.TYPE_MAPPING | {
            sge.DataType.Type.TIMESTAMP_S: "TIMESTAMP(0)",
            sge.DataType.Type.TIMESTAMP_MS: "TIMESTAMP(3)",
            sge.DataType.Type.TIMESTAMP_NS: "TIMESTAMP(9)",
        }
