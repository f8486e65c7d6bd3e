"""Measures the rows a second that a server takes as line protocol from the official clients of QuestDB and InfluxDB.

usage: python3 bench/timeseries/lines.py ROWMILL FOLDER [--rows N] [--batch N] [--connections N,N] [--only PART]

The rows are those of TSBS's cpu table: ten tags of hosts and ten numbers every ten seconds. Each connection is a process
with rows of its own. For each client the script prints three rates: against a socket that discards the lines, in the
order of time, and with 5 % of the rows up to ten minutes late. The first is what the client itself can reach. `plain`
sends bodies over a socket, without a client. A client that is not installed is skipped.
"""

import argparse
import http.client
import os
import pathlib
import random
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from multiprocessing import Barrier, Process
from threading import BrokenBarrierError, Thread

# The client of QuestDB is a module with the name of a file in this folder.
sys.path = [path for path in sys.path if pathlib.Path(path).resolve() != pathlib.Path(__file__).resolve().parent]

HOSTS = 1_000
STEP = 10_000_000_000
BEGIN = 1_735_689_600_000_000_000
LATE_MAX = 600_000_000_000
TAGS = ["hostname", "region", "datacenter", "rack", "os", "arch", "team", "service", "service_version",
        "service_environment"]
FIELDS = ["usage_user", "usage_system", "usage_idle", "usage_nice", "usage_iowait", "usage_irq", "usage_softirq",
          "usage_steal", "usage_guest", "usage_guest_nice"]


def host_tags(host):
    """The values of the tags of a host."""
    draw = random.Random(host)
    region = draw.choice(["us-east-1", "us-west-1", "us-west-2", "eu-west-1", "ap-southeast-1"])
    return [f"host_{host}", region, region + draw.choice("abc"), str(draw.randrange(100)),
            draw.choice(["Ubuntu16.10", "Ubuntu16.04LTS", "Ubuntu15.10"]), draw.choice(["x64", "x86"]),
            draw.choice(["SF", "NYC", "LON", "CHI"]), str(draw.randrange(20)), str(draw.randrange(2)),
            draw.choice(["production", "staging", "test"])]


def times(first, count, late, draw):
    """The times of `count` rows from the row `first` on."""
    steps = (BEGIN + row // HOSTS * STEP for row in range(first, first + count))
    return [at - draw.randrange(LATE_MAX) if draw.random() < late else at for at in steps]


def line_bodies(first, count, batch, late):
    """Rows as bodies of `batch` lines each."""
    draw = random.Random(first)
    heads = ["cpu," + ",".join(f"{tag}={value}" for tag, value in zip(TAGS, host_tags(host))) for host in range(HOSTS)]
    form = ",".join(f"{field}=%di" for field in FIELDS)
    bodies = []
    for start in range(first, first + count, batch):
        rows = min(batch, first + count - start)
        lines = [f"{heads[(start + row) % HOSTS]} {form % tuple(draw.choices(range(100), k=len(FIELDS)))} {at}\n"
                 for row, at in enumerate(times(start, rows, late, draw))]
        bodies.append("".join(lines).encode())
    return bodies


def frames(first, count, batch, late):
    """Rows as data frames of `batch` rows each."""
    import numpy
    import pandas
    draw, numbers = random.Random(first), numpy.random.default_rng(first)
    values = [host_tags(host) for host in range(HOSTS)]
    made = []
    for start in range(first, first + count, batch):
        rows = min(batch, first + count - start)
        hosts = [(start + row) % HOSTS for row in range(rows)]
        columns = {tag: pandas.Categorical([values[host][place] for host in hosts]) for place, tag in enumerate(TAGS)}
        columns |= {field: numbers.integers(0, 100, rows) for field in FIELDS}
        made.append(pandas.DataFrame(columns | {"timestamp": pandas.to_datetime(times(start, rows, late, draw))}))
    return made


def plain(port, make, start):
    bodies = make(line_bodies)
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.connect()
    connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    start.wait()
    for body in bodies:
        connection.request("POST", "/write", body)
        answer = connection.getresponse()
        answer.read()
        if answer.status != 204:
            raise RuntimeError(f"the server answered {answer.status}")


def questdb(port, make, start):
    from questdb.ingress import Protocol, Sender
    made = make(frames)
    with Sender(Protocol.Http, "127.0.0.1", port, auto_flush=False, protocol_version=1) as sender:
        start.wait()
        for frame in made:
            sender.dataframe(frame, table_name="cpu", symbols=TAGS, at="timestamp")
            sender.flush()


def influxdb2(port, make, start):
    from influxdb_client import InfluxDBClient
    from influxdb_client.client.write_api import SYNCHRONOUS
    bodies = make(line_bodies)
    with InfluxDBClient(url=f"http://127.0.0.1:{port}", token="", org="-") as client:
        writer = client.write_api(write_options=SYNCHRONOUS)
        start.wait()
        for body in bodies:
            writer.write(bucket="-", record=body)


def influxdb3(port, make, start):
    from influxdb_client_3 import InfluxDBClient3, SYNCHRONOUS, write_client_options
    bodies = make(line_bodies)
    options = write_client_options(write_options=SYNCHRONOUS)
    with InfluxDBClient3(host=f"http://127.0.0.1:{port}", token="", database="-", write_client_options=options) as client:
        start.wait()
        for body in bodies:
            client.write(record=body)


CLIENTS = [("plain", plain, None), ("questdb", questdb, "questdb"), ("influxdb-client", influxdb2, "influxdb_client"),
           ("influxdb3-python", influxdb3, "influxdb_client_3")]


def connect(client, port, first, count, batch, late, start):
    """The process of one connection: makes its rows, waits for the others, and sends."""
    try:
        client(port, lambda rows: rows(first, count, batch, late), start)
    except BaseException:
        # The others must not wait for this one.
        start.abort()
        raise


def rate(client, port, arguments, connections, late):
    """The rows a second of several connections together."""
    count = arguments.rows // connections
    start = Barrier(connections + 1)
    processes = [Process(target=connect, args=(client, port, place * count, count, arguments.batch, late, start))
                 for place in range(connections)]
    for process in processes:
        process.start()
    try:
        start.wait()
    except BrokenBarrierError:
        pass
    began = time.time()
    for process in processes:
        process.join()
    seconds = time.time() - began
    if any(process.exitcode != 0 for process in processes):
        raise RuntimeError("a connection has failed")
    return count * connections / seconds


def discard(listener):
    """Answers each request at once, and does nothing with its body."""
    def serve(stream):
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        part = bytearray(1 << 20)
        head = b""
        while True:
            while b"\r\n\r\n" not in head:
                read = stream.recv_into(part)
                if read == 0:
                    return
                head += part[:read]
            fields, rest = head.split(b"\r\n\r\n", 1)
            lengths = [line.split(b":")[1] for line in fields.lower().split(b"\r\n") if line.startswith(b"content-length")]
            missing = int(lengths[0]) - len(rest) if lengths else 0
            head = b""
            while missing > 0:
                missing -= stream.recv_into(part)
            answer = b"HTTP/1.1 204 No Content\r\n\r\n"
            if fields.startswith(b"GET /settings"):
                content = b'{"config":{"line.proto.support.versions":[1]}}'
                answer = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (
                    len(content), content)
            stream.sendall(answer)

    while True:
        stream, _ = listener.accept()
        Thread(target=serve, args=(stream,), daemon=True).start()


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def ask(port, sql):
    request = urllib.request.Request(f"http://127.0.0.1:{port}/query", sql.encode(), {"Accept": "text/csv"})
    return urllib.request.urlopen(request, timeout=60).read().decode()


def served(program, folder, client, arguments, connections, late):
    """The rate against a server with an empty database. The server must have all rows in the end."""
    database, port = os.path.join(folder, "db"), free_port()
    shutil.rmtree(database, ignore_errors=True)
    command = [program, "serve", database, "--pg", "off", "--http", f"127.0.0.1:{port}"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            for _ in range(1_200):
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.05)
            reached = rate(client, port, arguments, connections, late)
            stored = int(ask(port, "SELECT count(*) FROM cpu").split()[-1])
            if stored != arguments.rows // connections * connections:
                raise RuntimeError(f"the server has {stored} rows")
            return reached
        finally:
            server.terminate()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("rowmill")
    parser.add_argument("folder")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--batch", type=int, default=10_000)
    parser.add_argument("--connections", default="1,4")
    parser.add_argument("--only", default="", help="only clients whose names contain this text")
    arguments = parser.parse_args()
    program = str(pathlib.Path(arguments.rowmill).resolve())
    os.makedirs(arguments.folder, exist_ok=True)
    listener = socket.create_server(("127.0.0.1", 0))
    discarding = Process(target=discard, args=(listener,), daemon=True)
    discarding.start()
    print(f"{'client':18} {'connections':>11} {'discarded':>11} {'in order':>11} {'5 % late':>11}   rows/s")
    for name, client, module in CLIENTS:
        if arguments.only not in name:
            continue
        try:
            __import__(module or "http")
        except ImportError:
            print(f"{name:18} skipped: no Python module {module}")
            continue
        for connections in map(int, arguments.connections.split(",")):
            rates = [rate(client, listener.getsockname()[1], arguments, connections, 0)]
            rates += [served(program, arguments.folder, client, arguments, connections, late) for late in (0, 0.05)]
            print(f"{name:18} {connections:11} " + " ".join(f"{value:11,.0f}" for value in rates), flush=True)
    discarding.terminate()
    return 0


if __name__ == "__main__":
    sys.exit(main())
