"""ADBC: results and data as Arrow through `adbc_driver_manager` (https://arrow.apache.org/adbc/).

    import rowmill.adbc

    with rowmill.adbc.connect("mydata") as con, con.cursor() as cursor:
        cursor.adbc_ingest("visits", table, mode="create_append")
        cursor.execute("SELECT count(*) FROM visits")
        cursor.fetch_arrow_table()
        con.commit()
"""

import adbc_driver_manager as _manager
import adbc_driver_manager.dbapi as _dbapi

from . import _rowmill

#: The function of the library that fills the table of the driver's functions.
ENTRYPOINT = "AdbcRowmillInit"


def driver_path():
    """The path of the library with the driver, for other managers of drivers in this process."""
    return _rowmill.__file__


def _options(path, settings):
    values = {f"rowmill.{name}": str(value).lower() if value in (True, False) else str(value) for name, value in settings.items()}
    return {"uri": "" if path is None else str(path), **values}


def database(path=None, **settings):
    """Opens a database for the low-level interface of `adbc_driver_manager`."""
    return _manager.AdbcDatabase(driver=driver_path(), entrypoint=ENTRYPOINT, **_options(path, settings))


def connect(path=None, *, autocommit=False, **settings):
    """Connects to a directory, or to a new database in memory, with the interface of DB-API and of ADBC."""
    options = _options(path, settings)
    return _dbapi.connect(driver=driver_path(), entrypoint=ENTRYPOINT, db_kwargs=options, autocommit=autocommit)
