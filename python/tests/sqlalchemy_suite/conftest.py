"""SQLAlchemy's own compliance suite for dialects. Run it with:

pytest python/tests/sqlalchemy_suite -c python/tests/sqlalchemy_suite/pytest.ini --dburi rowmill:////tmp/suite
"""

import pytest
from sqlalchemy.dialects import registry

for _name in ["rowmill", "rowmill.rowmill"]:
    registry.register(_name, "rowmill.sqlalchemy", "RowmillDialect")
pytest.register_assert_rewrite("sqlalchemy.testing.assertions")

from sqlalchemy.testing.plugin.pytestplugin import *  # noqa: E402, F403

from sqlalchemy.testing import provision  # noqa: E402


@provision.temp_table_keyword_args.for_db("rowmill")
def _temp_table_keyword_args(cfg, eng):
    return {"prefixes": ["TEMPORARY"]}


@provision.upsert.for_db("rowmill")
def _upsert(cfg, table, returning, *, set_lambda=None, sort_by_parameter_order=False, index_elements=None):
    from sqlalchemy.dialects.postgresql import insert

    statement = insert(table)
    columns = index_elements or [column.name for column in table.primary_key]
    if set_lambda:
        statement = statement.on_conflict_do_update(index_elements=columns, set_=set_lambda(statement.excluded))
    else:
        statement = statement.on_conflict_do_nothing()
    return statement.returning(*returning, sort_by_parameter_order=sort_by_parameter_order)


@provision.post_configure_engine.for_db("rowmill")
def _make_schemas(url, engine, follower_ident):
    with engine.begin() as connection:
        for name in ["test_schema", "test_schema_2"]:
            connection.exec_driver_sql(f"CREATE SCHEMA IF NOT EXISTS {name}")
