"""The backend for Ibis (https://ibis-project.org): `ibis.rowmill.connect("mydata")`.

    import ibis

    con = ibis.rowmill.connect("mydata")           # without a path, in memory
    visits = con.create_table("visits", frame)     # pandas, polars, pyarrow, or an expression
    visits.group_by("page").agg(ms=visits.ms.mean()).to_pandas()

Expressions become SQL by the compiler for DuckDB, with the differences of `rowmill.ibis.compiler`. Results come as
Arrow.
"""

from .backend import Backend

__all__ = ["Backend"]
