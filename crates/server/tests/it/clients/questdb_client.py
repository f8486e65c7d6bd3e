"""QuestDB's client beside a server: lines over HTTP, with answers, and over TCP, without."""
import json
import sys
import time
import urllib.request

from questdb.ingress import IngressError, Sender, TimestampMicros, TimestampNanos

http, tcp = sys.argv[1:3]


def rows(sql):
    """The rows of a query."""
    request = urllib.request.Request(f"http://127.0.0.1:{http}/query", data=sql.encode())
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)["rows"]


def send(conf, table):
    """Sends three rows with values of all types."""
    with Sender.from_conf(conf) as sender:
        for n in range(3):
            columns = {"n": n, "x": 1.5, "ok": True, "note": "two\nlines, \"q\" \\", "t": TimestampMicros(1_000_000)}
            at = TimestampNanos(1_700_000_000_000_000_000 + n * 1_000)
            sender.row(table, symbols={"host": "a b,c=d"}, columns=columns, at=at)


send(f"http::addr=127.0.0.1:{http};", "over_http")
send(f"tcp::addr=127.0.0.1:{tcp};", "over_tcp")
until = time.monotonic() + 20
while not any(name == "over_tcp" for (name,) in rows("SELECT table_name FROM information_schema.tables")):
    assert time.monotonic() < until
    time.sleep(0.02)
for table in ("over_http", "over_tcp"):
    columns = "host, n, x, ok, note, CAST(t AS TEXT), date_part('microsecond', timestamp)"
    found = rows(f"SELECT {columns} FROM {table} ORDER BY n")
    expected = ["a b,c=d", 0, 1.5, True, "two\nlines, \"q\" \\", "1970-01-01 00:00:01", 20_000_000]
    assert len(found) == 3 and found[0] == expected, found
try:
    with Sender.from_conf(f"http::addr=127.0.0.1:{http};retry_timeout=0;") as sender:
        sender.row("over_http", columns={"n": "no number"}, at=TimestampNanos.now())
    raise AssertionError("the row was taken")
except IngressError as error:
    assert "column \"n\"" in str(error), error
