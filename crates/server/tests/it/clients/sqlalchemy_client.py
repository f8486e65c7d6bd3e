"""SQLAlchemy 2 and pandas beside a server: reflection, objects, and frames, through psycopg."""
import datetime as d
import decimal
import sys

import pandas
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import DeclarativeBase, Session, mapped_column, relationship


class Base(DeclarativeBase):
    pass


class A(Base):
    __tablename__ = "a"
    __table_args__ = (
        sa.UniqueConstraint("name", "kind", name="uq_nk"),
        sa.Index("ix_kind", "kind"),
        sa.CheckConstraint("kind > 0", name="ck_kind"),
        {"comment": "of tables"},
    )
    id = mapped_column(sa.Integer, primary_key=True)
    name = mapped_column(sa.String(30), nullable=False, comment="of columns")
    kind = mapped_column(sa.Integer, server_default=sa.text("1"))
    amount = mapped_column(sa.Numeric(10, 2))
    at = mapped_column(sa.DateTime)
    bs = relationship("B", back_populates="a", cascade="all, delete-orphan")


class B(Base):
    __tablename__ = "b"
    id = mapped_column(sa.BigInteger, primary_key=True)
    a_id = mapped_column(sa.ForeignKey("a.id", ondelete="CASCADE"))
    marks = mapped_column(sa.ARRAY(sa.Integer))
    a = relationship(A, back_populates="bs")


class S(Base):
    __tablename__ = "s"
    id = mapped_column(sa.Integer, sa.Identity(start=5), primary_key=True)


numbers = sa.Sequence("numbers", metadata=Base.metadata, start=10)
engine = sa.create_engine(f"postgresql+psycopg://tester@127.0.0.1:{sys.argv[1]}/any")
Base.metadata.create_all(engine)
Base.metadata.create_all(engine)
with Session(engine) as session:
    one = A(name="n", kind=2, amount=decimal.Decimal("1.25"), at=d.datetime(2020, 1, 1), bs=[B(marks=[1, 2]), B()])
    session.add_all([one, *(A(name=f"k{n}") for n in range(20))])
    session.commit()
    assert (one.amount, one.at, len(one.bs), one.bs[0].marks) == (decimal.Decimal("1.25"), d.datetime(2020, 1, 1), 2, [1, 2])
    try:
        with session.begin_nested():
            session.execute(sa.insert(A).values(id=one.id, name="again"))
    except sa.exc.IntegrityError:
        pass
    upsert = insert(A).values(id=1000, name="u").on_conflict_do_update(index_elements=["id"], set_={"name": "v"})
    assert session.execute(upsert.returning(A.id, A.name)).all() == [(1000, "u")]
    assert session.scalar(sa.select(numbers.next_value())) == 10
    session.delete(one)
    session.commit()
    assert session.scalar(sa.select(sa.func.count()).select_from(B)) == 0

seen = sa.inspect(engine)
assert sorted(seen.get_table_names()) == ["a", "b", "s"] and "numbers" in seen.get_sequence_names()
columns = {column["name"]: column for column in seen.get_columns("a")}
assert str(columns["name"]["type"]) == "VARCHAR(30)" and columns["name"]["comment"] == "of columns"
assert columns["kind"]["default"] == "1" and not columns["name"]["nullable"]
assert seen.get_columns("s")[0]["identity"]["start"] == 5
assert seen.get_pk_constraint("a")["constrained_columns"] == ["id"]
[key] = seen.get_foreign_keys("b")
assert (key["referred_table"], key["referred_columns"], key["options"]) == ("a", ["id"], {"ondelete": "CASCADE"})
assert ["kind"] in [index["column_names"] for index in seen.get_indexes("a")]
assert seen.get_unique_constraints("a")[0]["column_names"] == ["name", "kind"]
assert [check["name"] for check in seen.get_check_constraints("a")] == ["ck_kind"]
assert seen.get_table_comment("a") == {"text": "of tables"}
reflected = sa.MetaData()
reflected.reflect(engine)
assert reflected.tables["a"].comment == "of tables" and len(reflected.tables["b"].foreign_keys) == 1

frame = pandas.DataFrame({"x": [1, 2], "y": ["a", None], "z": [1.5, float("nan")], "t": pandas.date_range("2020", periods=2)})
frame.to_sql("frame", engine)
frame.to_sql("frame", engine, if_exists="append", method="multi")
assert len(pandas.read_sql("SELECT * FROM frame", engine)) == 4
assert len(pandas.read_sql_table("frame", engine)) == 4
counted = pandas.read_sql_query(sa.text("SELECT count(*) AS n FROM frame WHERE x > :x"), engine, params={"x": 1})
assert counted.n[0] == 2
Base.metadata.drop_all(engine)
