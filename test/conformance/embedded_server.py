"""The embedded API server alone, in a directory of its own, for tests: no node, no operator."""
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
START_SECONDS = 60


class EmbeddedServer:
    """Use as a context manager. `kubeconfig` is the path of the admin's file."""

    def __init__(self):
        self.capstan = os.environ.get("CAPSTAN", str(ROOT / "build" / "capstan"))

    def __enter__(self):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="capstan-conformance-"))
        self.kubeconfig = str(self.root / "dir" / "kubeconfig")
        self.log = open(self.root / "log", "w+b")
        self.process = subprocess.Popen([self.capstan, "up", "--api-only", "--dir", str(self.root / "dir")],
                                        stdout=self.log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        try:
            self.await_started()
        except BaseException:
            self.__exit__()
            raise
        return self

    def await_started(self):
        end = time.monotonic() + START_SECONDS
        while b"the API server is up" not in (self.root / "log").read_bytes():
            if self.process.poll() is not None or time.monotonic() > end:
                raise AssertionError(f"capstan up --api-only did not start: {(self.root / 'log').read_text()}")
            time.sleep(0.05)

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(10)
        self.log.close()
        if not os.environ.get("CAPSTAN_KEEP"):
            shutil.rmtree(self.root, ignore_errors=True)
