import os

from adbc_driver_manager import AdbcDatabase
from adbc_driver_manager.dbapi import Connection

ENTRYPOINT: str

def driver_path() -> str: ...
def database(path: str | os.PathLike[str] | None = None, **settings: object) -> AdbcDatabase: ...
def connect(
    path: str | os.PathLike[str] | None = None, *, autocommit: bool = False, **settings: object
) -> Connection: ...
