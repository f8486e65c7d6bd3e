import datetime

from ._rowmill import Appender as Appender
from ._rowmill import Connection as Connection
from ._rowmill import Cursor as Cursor
from ._rowmill import DatabaseError as DatabaseError
from ._rowmill import DataError as DataError
from ._rowmill import Error as Error
from ._rowmill import IntegrityError as IntegrityError
from ._rowmill import InterfaceError as InterfaceError
from ._rowmill import InternalError as InternalError
from ._rowmill import NotSupportedError as NotSupportedError
from ._rowmill import OperationalError as OperationalError
from ._rowmill import ProgrammingError as ProgrammingError
from ._rowmill import Warning as Warning
from ._rowmill import __version__ as __version__
from ._rowmill import connect as connect
from .relation import Relation as Relation

apilevel: str
threadsafety: int
paramstyle: str

class DBAPIType:
    def __init__(self, *names: str) -> None: ...
    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...

STRING: DBAPIType
BINARY: DBAPIType
NUMBER: DBAPIType
DATETIME: DBAPIType
ROWID: DBAPIType
Date = datetime.date
Time = datetime.time
Timestamp = datetime.datetime
Binary = bytes

def DateFromTicks(ticks: float) -> datetime.date: ...
def TimeFromTicks(ticks: float) -> datetime.time: ...
def TimestampFromTicks(ticks: float) -> datetime.datetime: ...
