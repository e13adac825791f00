"""Drives a real `capstan run` against the API server of a `capstan up` that has no objects, or against no server at all."""
import http.client
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

from local_cluster import CAPSTAN, Cluster, wait_for

HEAD = "apiVersion: config.capstan.dev/v1alpha1\nkind: OperatorConfig\n"
LISTENERS = "listeners: {ops: {address: 127.0.0.1, port: 0}}\n"


class ApiServer(Cluster):
    """A `capstan up` without manifests."""

    def __init__(self):
        super().__init__(manifest=None)

    def start(self, *arguments, wait=True):
        before = len(self.output())
        self.process = subprocess.Popen([CAPSTAN, "up", "--dir", str(self.dir), *arguments],
                                        stdout=self.log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        if wait:
            self.await_said("the API server is up", before)

    @property
    def kubeconfig(self):
        return self.dir / "kubeconfig"


class Directory:
    """A directory of a test with a configuration, a kubeconfig and the processes started from them."""

    def __init__(self):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="capstan-run-"))

    def close(self):
        shutil.rmtree(self.root, ignore_errors=True)

    def write(self, name, text):
        path = self.root / name
        path.write_text(text)
        return path

    def command(self, config, kubeconfig, *arguments):
        return [CAPSTAN, "run", "--config", str(config), "--kubeconfig", str(kubeconfig), *arguments]

    def environment(self):
        return {**os.environ, "XDG_CACHE_HOME": str(self.root / "cache")}

    def run(self, config, kubeconfig, *arguments, limit=60):
        return subprocess.run(self.command(config, kubeconfig, *arguments), capture_output=True, text=True, timeout=limit,
                              check=False, env=self.environment())


class Operator:
    """One `capstan run`; its log is JSON lines on stderr."""

    def __init__(self, directory, config, kubeconfig):
        self.log = directory.root / "operator.log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(directory.command(config, kubeconfig), stdout=log, stderr=log,
                                            stdin=subprocess.DEVNULL, env=directory.environment())

    def text(self):
        return self.log.read_text(errors="replace")

    def lines(self):
        found = []
        for line in self.text().splitlines():
            try:
                found.append(json.loads(line))
            except ValueError:
                pass  # half written
        return found

    def await_logged(self, message, limit=60):
        def logged():
            matching = [line for line in self.lines() if line.get("msg") == message]
            if not matching and self.process.poll() is not None:
                raise AssertionError(f"capstan run ended with {self.process.returncode}:\n{self.text()}")
            return matching
        return wait_for(repr(message), logged, limit)

    @property
    def port(self):
        return int(self.await_logged("serving health and metrics")[0]["port"])

    def ask(self, path, headers=None):
        """Status and body of the ops listener's answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request("GET", path, headers=headers or {})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def readyz(self):
        return self.ask("/readyz?verbose")

    def stop(self, limit=60):
        """SIGTERM; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(limit)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(10)
