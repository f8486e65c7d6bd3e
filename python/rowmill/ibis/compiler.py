"""Expressions of Ibis as SQL: as for DuckDB, except where the two differ."""

import math

import ibis.common.exceptions as com
import ibis.expr.datatypes as dt
import ibis.expr.operations as ops
import sqlglot as sg
import sqlglot.expressions as sge
from ibis.backends.sql.compilers.base import NULL, STAR
from ibis.backends.sql.compilers.duckdb import DuckDBCompiler
from ibis.backends.sql.rewrites import split_select_distinct_with_order_by
from ibis.expr.rewrites import lower_stringslice
from ibis.util import gen_name

from .dialect import Rowmill
from .types import RowmillType

_GEOSPATIAL = tuple(kind for name, kind in vars(ops).items() if name.startswith("Geo") and isinstance(kind, type))


class RowmillCompiler(DuckDBCompiler):
    __slots__ = ()

    dialect = Rowmill
    type_mapper = RowmillType

    UNSUPPORTED_OPS = (*_GEOSPATIAL, ops.RowID)
    LOWERED_OPS = {ops.StringSlice: lower_stringslice}
    post_rewrites = (split_select_distinct_with_order_by,)

    # Numbers. The quotient of integers is an integer, as in PostgreSQL.

    def _double(self, value, dtype):
        return self.cast(value, dt.float64) if dtype.is_integer() or dtype.is_boolean() else value

    def visit_Divide(self, op, *, left, right):
        return self.binop(sge.Div, self._double(left, op.left.dtype), right)

    def visit_FloorDivide(self, op, *, left, right):
        quotient = self.binop(sge.Div, self._double(left, op.left.dtype), right)
        return self.cast(self.f.floor(quotient), op.dtype)

    def visit_Hash(self, op, *, arg):
        # The hash has 64 bits without a sign, and Ibis wants a signed number.
        return self.cast(self.binop(sge.Div, self.f.anon.hash(arg), sge.convert(2)), dt.int64)

    # Literals

    def visit_NonNullLiteral(self, op, *, value, dtype):
        if dtype.is_struct():
            # A struct is read by the names of its fields.
            fields = [
                self.visit_Literal(ops.Literal(item, kind), value=item, dtype=kind)
                for kind, item in zip(dtype.types, value.values(), strict=True)
            ]
            return self.cast(self.visit_StructColumn(op, names=dtype.names, values=fields), dtype)
        if dtype.is_floating() and math.isfinite(value):
            # A number with a point is a DECIMAL.
            return self.cast(value, dtype)
        return super().visit_NonNullLiteral(op, value=value, dtype=dtype)

    # Texts

    def visit_HexDigest(self, op, *, arg, how):
        if how == "md5":
            return self.f.anon.md5(arg)
        if how in ("sha1", "sha256", "sha512"):
            # The hash is a BLOB, as in PostgreSQL.
            return self.f.anon.encode(self.f.anon[how](self.f.anon.encode(arg)), "hex")
        raise NotImplementedError(f"there is no hash function {how}")

    # Times

    def visit_Cast(self, op, *, arg, to):
        if op.arg.dtype.is_timestamp() and to.is_numeric():
            return self._epoch(arg, to)
        return super().visit_Cast(op, arg=arg, to=to)

    def visit_TryCast(self, op, *, arg, to):
        if op.arg.dtype.is_timestamp() and to.is_numeric():
            return self._epoch(arg, to)
        return super().visit_TryCast(op, arg=arg, to=to)

    def _epoch(self, arg, to):
        seconds = self.f.anon.epoch(arg)
        return self.cast(self.f.floor(seconds) if to.is_integer() else seconds, to)

    def visit_ExtractEpochSeconds(self, op, *, arg):
        return self._epoch(self.cast(arg, dt.timestamp), op.dtype)

    def visit_DateDiff(self, op, *, left, right):
        # The difference of two dates is a number of days.
        return self.f.anon.to_days(self.binop(sge.Sub, left, right))

    def visit_TimestampFromUNIX(self, op, *, arg, unit):
        if unit.short == "us":
            return self.f.anon.make_timestamp(arg)
        if unit.short == "ns":
            return self.f.anon.make_timestamp_ns(arg)
        return super().visit_TimestampFromUNIX(op, arg=arg, unit=unit)

    def visit_TimestampBucket(self, op, *, arg, interval, offset):
        origin = self.cast("1970-01-01 00:00:00", dt.timestamp)
        if offset is not None:
            origin = self.binop(sge.Add, origin, offset)
        return self.f.time_bucket(interval, arg, origin)

    # Lists

    def _array_distinct(self, arg):
        # The function leaves NULL out.
        x = sg.to_identifier("x")
        has_null = self.f.list_bool_or(self.f.list_apply(arg, sge.Lambda(this=x.is_(NULL), expressions=[x])))
        nulls = self.if_(has_null, self.f.array(NULL), self.f.array())
        return self.if_(arg.is_(NULL), NULL, self.f.list_concat(self.f.list_distinct(arg), nulls))

    def visit_ArrayStringJoin(self, op, *, arg, sep):
        # An empty list has no text in Ibis.
        return self.f.array_to_string(self.f.nullif(arg, self.cast(self.f.array(), op.arg.dtype)), sep)

    def visit_IntegerRange(self, op, *, start, stop, step):
        # A step of 0 is an error here, also where the other branch is taken, because literals are computed first.
        rows = self.f.range(start, stop, self.f.nullif(step, 0))
        return self.if_(step.eq(0), self.cast(self.f.array(), op.dtype), rows)

    def visit_TableUnnest(self, op, *, parent, column, column_name, offset, keep_empty):
        if offset is None:
            return super().visit_TableUnnest(
                op, parent=parent, column=column, column_name=column_name, offset=None, keep_empty=keep_empty
            )
        quoted = self.quoted
        item, place = (sg.to_identifier(gen_name(name), quoted=quoted) for name in ("item", "place"))
        table = sg.to_identifier(parent.alias_or_name, quoted=quoted)
        computed = item.as_(column_name, quoted=quoted)
        if column_name in op.parent.schema:
            outputs = [sge.Column(this=sge.Star(replace=[computed]), table=table)]
        else:
            outputs = [sge.Column(this=STAR, table=table), computed]
        alias = sge.TableAlias(this=sg.to_identifier(gen_name("items"), quoted=quoted), columns=[item])
        items = sge.Unnest(expressions=[column], alias=alias, offset=place)
        kind = "LEFT" if keep_empty else "CROSS"
        # Places count from 1.
        return (
            sg.select(*outputs, (place - 1).as_(offset, quoted=quoted))
            .from_(parent)
            .join(items, join_type=kind, on=sge.true() if keep_empty else None)
        )

    # Aggregates

    def _first_by(self, arg, key, where, desc):
        # A NULL would come first in a descending order.
        is_known = key.is_(sg.not_(NULL, copy=False))
        where = is_known if where is None else sge.And(this=is_known, expression=where)
        return self.agg.first(arg, where=where, order_by=[sge.Ordered(this=key, desc=desc)])

    def visit_ArgMin(self, op, *, arg, key, where):
        return self._first_by(arg, key, where, False)

    def visit_ArgMax(self, op, *, arg, key, where):
        return self._first_by(arg, key, where, True)

    def visit_CountDistinctStar(self, op, *, where, arg):
        row = self.f.anon.row(*(sg.column(name, quoted=self.quoted) for name in op.arg.schema.names))
        return self.agg.count(sge.Distinct(expressions=[row]), where=where)

    def visit_MultiQuantile(self, op, *, arg, quantile, where):
        if not isinstance(quantile, sge.Array):
            raise com.UnsupportedOperationError("several quantiles must be a list of literals")
        return self.f.array(
            *(self.visit_Quantile(op, arg=arg, quantile=share, where=where) for share in quantile.expressions)
        )

    visit_ApproxMultiQuantile = visit_MultiQuantile


compiler = RowmillCompiler()
