"""Where engines understand the same SQL differently: small rewrites, all in one table.

A rewrite may change how something is asked, not what is asked for.
"""

import re

# engine: [(pattern, replacement, why)]
REWRITES = {
    "chdb": [
        (r"\blength\(", "lengthUTF8(", "length counts bytes there and characters everywhere else"),
    ],
}


def rewrite(engine, statement):
    """Returns the statement in the dialect of `engine`."""
    for pattern, replacement, _ in REWRITES.get(engine, []):
        statement = re.sub(pattern, replacement, statement, flags=re.IGNORECASE)
    return statement
