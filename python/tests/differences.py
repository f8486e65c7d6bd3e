"""Where a query gives other Python values than DuckDB's module, and why. `test_duckdb.py` checks that each is real."""

#: Reasons by the name of a case.
REASONS = {
    "interval of months": "a month has no fixed length, so such an interval is a text; DuckDB takes 30 days for a month",
    "interval of years": "as months: DuckDB takes 360 days for a year",
    "sum of integers": "the sum of integers is a DECIMAL; DuckDB has HUGEINT, whose values are of the type int",
    "division": "/ of integers is a division of integers, as in PostgreSQL",
    "parameter int beyond BIGINT": "there is no HUGEINT, so a larger int is a DECIMAL without digits after the point",
    "blobs of a frame": "a value of a BLOB is bytes everywhere; a frame of DuckDB has a bytearray",
    "statement as a relation": "a statement without rows gives None; DuckDB gives a relation that counts rows",
}
