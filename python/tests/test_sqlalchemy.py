"""The dialect of SQLAlchemy: reflection, objects, types, transactions."""

import datetime as dt
import decimal
import uuid

import pytest

sa = pytest.importorskip("sqlalchemy")

from sqlalchemy.dialects.postgresql import insert  # noqa: E402
from sqlalchemy.orm import DeclarativeBase, Session, mapped_column, relationship  # noqa: E402


class Base(DeclarativeBase):
    pass


class Owner(Base):
    __tablename__ = "owner"
    __table_args__ = (
        sa.UniqueConstraint("name", "kind", name="uq_name_kind"),
        sa.Index("ix_kind", "kind"),
        sa.CheckConstraint("kind > 0", name="ck_kind"),
        {"comment": "of tables"},
    )
    id = mapped_column(sa.Integer, primary_key=True)
    name = mapped_column(sa.String(30), nullable=False, comment="of columns")
    kind = mapped_column(sa.Integer, server_default=sa.text("1"))
    amount = mapped_column(sa.Numeric(10, 2))
    things = relationship("Thing", back_populates="owner", cascade="all, delete-orphan")


class Thing(Base):
    __tablename__ = "thing"
    id = mapped_column(sa.BigInteger, primary_key=True)
    owner_id = mapped_column(sa.ForeignKey("owner.id", ondelete="CASCADE"))
    owner = relationship(Owner, back_populates="things")


class Typed(Base):
    __tablename__ = "typed"
    id = mapped_column(sa.Integer, sa.Identity(start=5), primary_key=True)
    flag = mapped_column(sa.Boolean)
    real = mapped_column(sa.Float)
    exact = mapped_column(sa.Numeric(20, 5))
    day = mapped_column(sa.Date)
    time = mapped_column(sa.Time)
    moment = mapped_column(sa.DateTime)
    instant = mapped_column(sa.DateTime(timezone=True))
    span = mapped_column(sa.Interval)
    bytes = mapped_column(sa.LargeBinary)
    key = mapped_column(sa.Uuid)
    doc = mapped_column(sa.JSON)
    word = mapped_column(sa.Enum("one", "two", name="word"))
    marks = mapped_column(sa.ARRAY(sa.Integer))


VALUES = {
    "flag": True, "real": 0.25, "exact": decimal.Decimal("1.50000"), "day": dt.date(2024, 2, 29),
    "time": dt.time(1, 2, 3, 4), "moment": dt.datetime(1969, 1, 1, 2, 3, 4, 5),
    "instant": dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc), "span": dt.timedelta(days=2, seconds=5),
    "bytes": b"\x00\xff", "key": uuid.UUID(int=7), "doc": {"a": [1, None, "x"]}, "word": "two", "marks": [1, 2],
}  # fmt: skip


@pytest.fixture(params=["memory", "directory"])
def engine(request, tmp_path):
    url = "rowmill://" if request.param == "memory" else f"rowmill:///{tmp_path}/db?memory_limit=256MB"
    made = sa.create_engine(url)
    Base.metadata.create_all(made)
    Base.metadata.create_all(made)
    yield made
    Base.metadata.drop_all(made)
    made.dispose()


def test_objects_make_a_round_trip(engine):
    with Session(engine) as session:
        one = Owner(name="n", kind=2, amount=decimal.Decimal("1.25"), things=[Thing(), Thing()])
        session.add_all([one, *(Owner(name=f"k{n}") for n in range(50))])
        session.commit()
        assert (one.id, one.amount, len(one.things)) == (1, decimal.Decimal("1.25"), 2)
        with pytest.raises(sa.exc.IntegrityError), session.begin_nested():
            session.execute(sa.insert(Owner).values(id=one.id, name="again"))
        added = insert(Owner).values(id=1000, name="u").on_conflict_do_update(index_elements=["id"], set_={"name": "v"})
        assert session.execute(added.returning(Owner.id, Owner.name)).all() == [(1000, "u")]
        assert session.execute(added.returning(Owner.name)).all() == [("v",)]
        changed = session.execute(sa.update(Owner).where(Owner.name.like("k1%")).values(kind=9))
        assert changed.rowcount == 11
        session.delete(one)
        session.commit()
        assert session.scalar(sa.select(sa.func.count()).select_from(Thing)) == 0
        assert session.scalars(sa.select(Owner.name).order_by(Owner.id).limit(2).offset(1)).all() == ["k1", "k2"]
    with engine.connect() as one, engine.connect() as two:
        one.execute(sa.insert(Owner).values(name="unseen"))
        assert two.scalar(sa.select(sa.func.count()).where(Owner.name == "unseen")) == 0
        one.rollback()


def test_every_type_comes_back(engine):
    with Session(engine) as session:
        session.add_all([Typed(**VALUES), Typed(doc=sa.null())])
        session.commit()
        row, empty = session.scalars(sa.select(Typed).order_by(Typed.id)).all()
        assert (row.id, empty.id) == (5, 6)
        for name, value in VALUES.items():
            assert getattr(row, name) == value and type(getattr(row, name)) is type(value), name
            assert getattr(empty, name) is None, name
        assert session.scalar(sa.select(Typed.id).where(Typed.doc["a"][0].as_integer() == 1)) == 5
        assert session.scalar(sa.select(Typed.id).where(Typed.span > dt.timedelta(days=1))) == 5


def test_tables_are_reflected(engine):
    seen = sa.inspect(engine)
    assert sorted(seen.get_table_names()) == ["owner", "thing", "typed"]
    columns = {column["name"]: column for column in seen.get_columns("owner")}
    assert str(columns["name"]["type"]) == "VARCHAR(30)" and columns["name"]["comment"] == "of columns"
    assert columns["kind"]["default"] == "1" and not columns["name"]["nullable"]
    assert seen.get_columns("typed")[0]["identity"]["start"] == 5
    assert seen.get_pk_constraint("owner")["constrained_columns"] == ["id"]
    [key] = seen.get_foreign_keys("thing")
    assert (key["referred_table"], key["referred_columns"], key["options"]) == ("owner", ["id"], {"ondelete": "CASCADE"})
    assert ["kind"] in [index["column_names"] for index in seen.get_indexes("owner")]
    assert seen.get_unique_constraints("owner")[0]["column_names"] == ["name", "kind"]
    assert [check["name"] for check in seen.get_check_constraints("owner")] == ["ck_kind"]
    reflected = sa.MetaData()
    reflected.reflect(engine)
    assert reflected.tables["owner"].comment == "of tables" and len(reflected.tables["thing"].foreign_keys) == 1


def test_isolation_and_autocommit(engine):
    with engine.connect() as connection:
        assert connection.get_isolation_level() == "REPEATABLE READ"
        connection.execution_options(isolation_level="AUTOCOMMIT")
        connection.execute(sa.insert(Owner).values(name="kept"))
        connection.rollback()
        assert connection.scalar(sa.select(sa.func.count()).select_from(Owner)) == 1
    with engine.connect().execution_options(isolation_level="SERIALIZABLE") as connection:
        assert connection.get_isolation_level() == "SERIALIZABLE"
    with engine.connect() as connection:
        assert connection.get_isolation_level() == "REPEATABLE READ"


def test_frames_of_pandas_are_stored_and_read(engine):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"x": [1, 2], "y": ["a", None], "t": pandas.date_range("2020", periods=2)})
    frame.to_sql("frame", engine)
    frame.to_sql("frame", engine, if_exists="append", method="multi")
    assert len(pandas.read_sql("SELECT * FROM frame", engine)) == 4
    counted = pandas.read_sql_query(sa.text("SELECT count(*) AS n FROM frame WHERE x > :x"), engine, params={"x": 1})
    assert counted.n[0] == 2
    with engine.begin() as connection:
        connection.execute(sa.text("DROP TABLE frame"))
