"""The types of SQL as types of Ibis, and back."""

import ibis.expr.datatypes as dt
import sqlglot.expressions as sge
from ibis.backends.sql import datatypes
from ibis.backends.sql.datatypes import DuckDBType
from ibis.common.collections import FrozenDict

from .dialect import Rowmill

_Code = sge.DataType.Type
#: The digits of the fractions of seconds for each type of a TIMESTAMP; the other one has microseconds.
_FRACTIONS = {0: _Code.TIMESTAMP_S, 3: _Code.TIMESTAMP_MS, 9: _Code.TIMESTAMP_NS}


class RowmillType(DuckDBType):
    """The types of DuckDB, with the digits of a TIMESTAMP in parentheses and a DECIMAL of up to 76 digits."""

    dialect = Rowmill
    default_decimal_precision = 38
    default_decimal_scale = 10
    unknown_type_strings = FrozenDict({"ipv4": dt.inet, "ipv6": dt.inet, "long256": dt.string})

    @classmethod
    def _from_sqlglot_TIMESTAMP(cls, scale=None, nullable=None):
        return dt.Timestamp(scale=6 if scale is None else int(scale.name), nullable=nullable)

    @classmethod
    def _from_sqlglot_ENUM(cls, *labels, nullable=None):
        return dt.String(nullable=nullable)

    @classmethod
    def _from_ibis_Timestamp(cls, dtype):
        if dtype.timezone is not None:
            return sge.DataType(this=_Code.TIMESTAMPTZ)
        return sge.DataType(this=_FRACTIONS.get(dtype.scale, _Code.TIMESTAMP))

    @classmethod
    def _from_ibis_Interval(cls, dtype):
        return sge.DataType(this=_Code.INTERVAL)

    @classmethod
    def _from_ibis_Array(cls, dtype):
        # A list has no fixed length.
        return super()._from_ibis_Array(dt.Array(dtype.value_type, nullable=dtype.nullable))


# Ibis looks up the types of columns in CREATE TABLE by the name of the dialect.
datatypes._TYPE_MAPPERS["rowmill"] = RowmillType
