from collections.abc import Callable, Sequence
from typing import Any

from ._rowmill import Connection

def create_function(
    connection: Connection,
    name: str,
    function: Callable[..., Any],
    parameters: Sequence[str | type] | None = None,
    return_type: str | type | None = None,
    *,
    type: str = "native",
    null_handling: str = "default",
    side_effects: bool = False,
) -> None: ...
