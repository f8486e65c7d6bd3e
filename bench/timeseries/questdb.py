"""Starts QuestDB from Maven Central, and asks it over HTTP.

Nothing is installed: the archives go into a folder of the user's cache. Without Java, Maven or the archive, `start`
returns None and says why.
"""

import json
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

VERSIONS = ["9.3.5", "9.3.4"]
# Seconds that the download of one version may take.
DOWNLOAD_MAX = 120


def _archives():
    """The paths of QuestDB's archives, or the reason why there are none."""
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            return None, f"no {program}"
    repository = pathlib.Path.home() / ".m2" / "repository" / "org" / "questdb"
    archives = {version: repository / "questdb" / version / f"questdb-{version}.jar" for version in VERSIONS}
    version = next((version for version in VERSIONS if archives[version].exists()), None)
    if version is None:
        version = next(filter(_download, VERSIONS), None)
    if version is None:
        return None, "Maven gives none of the versions " + ", ".join(VERSIONS)
    others = [path for path in repository.rglob("*.jar") if path.parent.parent.name != "questdb"]
    return [archives[version], *others], version


def _download(version):
    """Whether Maven has put a version into its repository."""
    command = ["mvn", "-q", "dependency:get", f"-Dartifact=org.questdb:questdb:{version}"]
    try:
        return subprocess.run(command, capture_output=True, check=False, timeout=DOWNLOAD_MAX).returncode == 0
    except subprocess.TimeoutExpired:
        return False


class QuestDb:
    """A server with an empty database of its own."""

    def __init__(self, process, folder, version, port):
        self.process, self.folder, self.version, self.port = process, folder, version, port

    def ask(self, sql, timeout=900, limit=None):
        """The answer as a dictionary: `dataset`, or `error`."""
        parameters = {"query": sql}
        if limit is not None:
            parameters["limit"] = limit
        url = f"http://127.0.0.1:{self.port}/exec?" + urllib.parse.urlencode(parameters)
        try:
            return json.load(urllib.request.urlopen(url, timeout=timeout))
        except urllib.error.HTTPError as error:
            return json.loads(error.read())

    def run(self, sql):
        """Runs a statement that must succeed."""
        answer = self.ask(sql)
        if "error" in answer:
            raise RuntimeError(f"QuestDB: {answer['error']}: {sql[:200]}")

    def stop(self):
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def start(memory="3g"):
    """Starts a server. Returns it, or None and the reason."""
    archives, version = _archives()
    if archives is None:
        return None, version
    folder = tempfile.mkdtemp(prefix="questdb-")
    classes = os.pathsep.join(str(path) for path in archives)
    command = ["java", f"-Xmx{memory}", "-cp", classes, "io.questdb.ServerMain", "-d", folder, "-f"]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # Only HTTP is served, on a port of its own, so that several servers can run on one machine.
    others_off = {f"QDB_{name}_ENABLED": "false" for name in ("PG", "LINE_TCP", "HTTP_MIN", "TELEMETRY")}
    settings = {**os.environ, "QDB_HTTP_BIND_TO": f"127.0.0.1:{port}", **others_off}
    with open(os.path.join(folder, "server.log"), "w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=settings)
    server = QuestDb(process, folder, version, port)
    # A machine with busy cores takes its time.
    for _ in range(240):
        time.sleep(0.5)
        try:
            if "dataset" in server.ask("SELECT 1", timeout=2):
                return server, version
        except (urllib.error.URLError, OSError):
            if process.poll() is not None:
                break
    server.stop()
    return None, f"QuestDB {version} does not start"
