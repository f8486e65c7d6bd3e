"""Tables of pyarrow as frames of pandas and arrays of NumPy."""

import uuid

_NANOS_PER_DAY = 86_400_000_000_000


def _is_uuid(kind):
    import pyarrow as pa

    return pa.types.is_fixed_size_binary(kind) and kind.byte_width == 16


def _uuids(column):
    return [None if value is None else uuid.UUID(bytes=value) for value in column.to_pylist()]


def _durations(column):
    """An interval column as durations, unless a value has months, which have no fixed length."""
    import pyarrow as pa

    values = column.to_pylist()
    if any(value is not None and value.months for value in values):
        return column
    nanos = [None if value is None else value.days * _NANOS_PER_DAY + value.nanoseconds for value in values]
    return pa.array([None if value is None else value // 1000 for value in nanos], pa.duration("us"))


def _usual(table):
    """The table with types that pandas and NumPy compute with: floats for decimals, timestamps for dates."""
    import pyarrow as pa

    for place, field in enumerate(table.schema):
        column, kind = table.column(place), field.type
        if pa.types.is_decimal(kind):
            column = column.cast(pa.float64())
        elif pa.types.is_date(kind):
            column = column.cast(pa.timestamp("us"))
        elif pa.types.is_interval(kind):
            column = _durations(column)
        else:
            continue
        table = table.set_column(place, field.name, column)
    return table


def pandas_frame(table):
    """The table as a frame of pandas. UUIDs become those of Python."""
    frame = _usual(table).to_pandas()
    for place, field in enumerate(table.schema):
        if _is_uuid(field.type):
            import pandas

            frame.isetitem(place, pandas.Series(_uuids(table.column(place)), index=frame.index, dtype=object))
    return frame


def numpy_arrays(table):
    """The columns as arrays by name. An array with NULLs is masked."""
    table = _usual(table)
    return {name: _array(table.column(place)) for place, name in enumerate(table.column_names)}


def _array(column):
    import numpy
    import pyarrow as pa

    kind = column.type
    if _is_uuid(kind):
        values = numpy.array([None] * len(column), dtype=object)
        values[:] = _uuids(column)
    elif column.null_count and (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        values = column.fill_null(False if pa.types.is_boolean(kind) else 0).to_numpy()
    else:
        values = column.to_numpy()
    if not column.null_count:
        return values
    return numpy.ma.masked_array(values, mask=column.is_null().to_numpy())
