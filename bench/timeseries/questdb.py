"""Starts QuestDB from Maven Central, and asks it over HTTP.

Nothing is installed: the archives go into a folder of the user's cache. Without Java, Maven or the archive, `start`
returns None and says why.
"""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

VERSIONS = ["9.3.5", "9.3.4"]
PORT = 9000


def _archives():
    """The paths of QuestDB's archives, or the reason why there are none."""
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            return None, f"no {program}"
    repository = pathlib.Path.home() / ".m2" / "repository" / "org" / "questdb"
    for version in VERSIONS:
        archive = repository / "questdb" / version / f"questdb-{version}.jar"
        if not archive.exists():
            command = ["mvn", "-q", "dependency:get", f"-Dartifact=org.questdb:questdb:{version}"]
            subprocess.run(command, capture_output=True, check=False)
        if archive.exists():
            others = [path for path in repository.rglob("*.jar") if path.parent.parent.name != "questdb"]
            return [archive, *others], version
    return None, "Maven Central has none of the versions " + ", ".join(VERSIONS)


class QuestDb:
    """A server with an empty database of its own."""

    def __init__(self, process, folder, version):
        self.process, self.folder, self.version = process, folder, version

    def ask(self, sql, timeout=900, limit=None):
        """The answer as a dictionary: `dataset`, or `error`."""
        parameters = {"query": sql}
        if limit is not None:
            parameters["limit"] = limit
        url = f"http://localhost:{PORT}/exec?" + urllib.parse.urlencode(parameters)
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
    with open(os.path.join(folder, "server.log"), "w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    server = QuestDb(process, folder, version)
    for _ in range(60):
        time.sleep(0.5)
        try:
            if "dataset" in server.ask("SELECT 1", timeout=2):
                return server, version
        except (urllib.error.URLError, OSError):
            if process.poll() is not None:
                break
    server.stop()
    return None, f"QuestDB {version} does not start"
