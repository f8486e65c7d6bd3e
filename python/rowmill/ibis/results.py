"""Results as tables of pyarrow and frames of pandas in the types that an expression of Ibis promises."""

import pyarrow as pa

from ..columns import _durations, _is_uuid, _uuids


def as_expected(table, schema):
    """The table with the types of a schema of Ibis. For example, the sum of integers is a DECIMAL, and Ibis wants int64."""
    columns = []
    for column, field in zip(table.columns, schema.to_pyarrow(), strict=True):
        if column.type != field.type:
            column = _converted(column, field.type)
        columns.append(column)
    return pa.table(columns, schema=schema.to_pyarrow())


def _converted(column, wanted):
    if pa.types.is_null(wanted):
        return pa.nulls(len(column))
    if pa.types.is_interval(column.type) and pa.types.is_duration(wanted):
        column = _durations(column)
        return column if pa.types.is_interval(column.type) else column.cast(wanted, safe=False)
    if _is_uuid(column.type) and pa.types.is_string(wanted):
        return pa.array([None if value is None else str(value) for value in _uuids(column)], wanted)
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), wanted)
    return column.cast(wanted)


def pandas_frame(table, schema):
    """The table as a frame of pandas, as Ibis converts values of a schema."""
    import pandas as pd
    from ibis.formats.pandas import PandasData

    columns = {}
    for name, column in zip(schema.names, as_expected(table, schema).columns):
        if pa.types.is_nested(column.type):
            columns[name] = pd.Series(column.to_pylist(), dtype="object")
        elif column.null_count:
            # Pandas chooses a type that has a missing value, as Ibis expects.
            columns[name] = column.to_pylist()
        else:
            columns[name] = column.to_pandas()
    return PandasData.convert_table(pd.DataFrame(columns, columns=list(schema.names)), schema)
