"""Functions of Python as functions of SQL: `con.create_function("add_tax", lambda price: price * 1.19, ["DOUBLE"], "DOUBLE")`."""

import datetime
import decimal
import inspect
import uuid

#: The SQL type of a type of Python in an annotation.
_KINDS = {
    bool: "BOOLEAN",
    int: "BIGINT",
    float: "DOUBLE",
    str: "TEXT",
    bytes: "BLOB",
    decimal.Decimal: "DECIMAL(38, 9)",
    datetime.date: "DATE",
    datetime.time: "TIME",
    datetime.datetime: "TIMESTAMP",
    datetime.timedelta: "INTERVAL",
    uuid.UUID: "UUID",
}


def create_function(
    connection,
    name,
    function,
    parameters=None,
    return_type=None,
    *,
    type="native",
    null_handling="default",
    side_effects=False,
):
    """Adds a function of Python to the functions of SQL of a connection.

    `parameters` and `return_type` are types of SQL, or of Python as in annotations; without them the annotations of the
    function count. A function of the type "arrow" gets arrays of pyarrow and gives one with as many values; a "native"
    one is called for each row. With `null_handling="special"` it is called for rows with NULL, too; otherwise their
    result is NULL. `side_effects=True` says that equal arguments may give different results. A function must not run
    statements on its own connection.
    """
    if type not in ("native", "arrow"):
        raise ValueError(f'the type of a function is "native" or "arrow", not {type!r}')
    if null_handling not in ("default", "special"):
        raise ValueError(f'null_handling is "default" or "special", not {null_handling!r}')
    is_arrow = type == "arrow"
    if is_arrow and side_effects:
        raise ValueError('a function with side effects is of the type "native", because it is called for each row')
    if parameters is None or return_type is None:
        found, result = _annotated(function, parameters is None, return_type is None)
        parameters = found if parameters is None else parameters
        return_type = result if return_type is None else return_type
    kinds = [_kind(kind) for kind in parameters]
    takes_null = null_handling == "special"
    called = _of_arrow(function, takes_null) if is_arrow else function
    connection._add_function(name, called, kinds, _kind(return_type), is_arrow, takes_null, side_effects)


def _kind(kind):
    if kind in _KINDS:
        return _KINDS[kind]
    return str(kind)


def _annotated(function, needs_parameters, needs_result):
    """The types of the annotations of a function."""
    signature = inspect.signature(function, eval_str=True)
    parameters = [parameter.annotation for parameter in signature.parameters.values()] if needs_parameters else []
    result = signature.return_annotation
    for annotation in [*parameters, *([result] if needs_result else [])]:
        if annotation is inspect.Signature.empty:
            raise TypeError("name the types of the arguments and of the result, or annotate all of them")
    return parameters, result


def _of_arrow(function, takes_null):
    """The function for columns that come as a stream of Arrow."""
    import pyarrow as pa

    def called(batches, rows):
        columns = [column.combine_chunks() for column in pa.table(batches).columns]
        result = function(*columns)
        if not isinstance(result, (pa.Array, pa.ChunkedArray)):
            result = pa.array(result)
        if len(result) != rows:
            raise ValueError(f"the function gave {len(result)} values for {rows} rows")
        if not takes_null and any(column.null_count for column in columns):
            is_null = columns[0].is_null()
            for column in columns[1:]:
                is_null = pa.compute.or_(is_null, column.is_null())
            result = pa.compute.if_else(is_null, None, result)
        return pa.table([result], names=["result"])

    import pyarrow.compute  # noqa: F401

    return called
