"""The clients of InfluxDB 2 and 3 beside a server."""
import json
import sys
import urllib.request

import influxdb_client_3 as v3
from influxdb_client import InfluxDBClient, Point, WritePrecision
from influxdb_client.client.write_api import SYNCHRONOUS
from influxdb_client.rest import ApiException

http = sys.argv[1]
url = f"http://127.0.0.1:{http}"


def rows(sql):
    """The rows of a query."""
    with urllib.request.urlopen(urllib.request.Request(f"{url}/query", data=sql.encode())) as answer:
        return json.load(answer)["rows"]


with InfluxDBClient(url=url, token="none", org="any") as client:
    assert client.ping()
    api = client.write_api(write_options=SYNCHRONOUS)
    points = [
        Point("two").tag("host", "a b").field("n", n).field("x", 1.5).field("note", "q \"x\"").time(1_700_000_000 + n, "s")
        for n in range(3)
    ]
    api.write("bucket", "any", points, write_precision=WritePrecision.S)
    assert rows("SELECT host, sum(n), max(x), max(note) FROM two GROUP BY host") == [["a b", 3, 1.5, "q \"x\""]]
    try:
        api.write("bucket", "any", "two n=\"text\" 1", write_precision=WritePrecision.S)
        raise AssertionError("the line was taken")
    except ApiException as error:
        assert error.status == 400 and "column \\\"n\\\"" in str(error), error

options = v3.write_client_options(write_options=v3.SYNCHRONOUS)
client = v3.InfluxDBClient3(host=url, token="none", database="any", write_client_options=options)
client.write([v3.Point("three").tag("host", "a").field("n", n).time(1_700_000_000_000_000_000 + n) for n in range(3)])
assert rows("SELECT host, count(*), sum(n) FROM three GROUP BY host") == [["a", 3, 3]]
client.close()
