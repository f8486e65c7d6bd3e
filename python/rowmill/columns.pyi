from typing import Any

import numpy
import pandas
import pyarrow

def pandas_frame(table: pyarrow.Table) -> pandas.DataFrame: ...
def numpy_arrays(table: pyarrow.Table) -> dict[str, numpy.ndarray[Any, Any]]: ...
