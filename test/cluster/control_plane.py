"""A real control plane for tests: etcd, kube-apiserver and, if asked for, kube-controller-manager.

    control_plane.py [--version 1.34.4] [--controllers] -- COMMAND [ARGUMENT...]

runs COMMAND with KUBECONFIG set to an admin's kubeconfig and ends everything after it; the exit code is the
command's. Without a COMMAND it prints the kubeconfig's path and runs until SIGINT or SIGTERM. The programs come
from tools/build-kube and tools/build-etcd; exit code 77 (skipped) says that they are not there.

Only the standard library and openssl. All listeners are on free loopback ports; every process is ended by its id.
"""
import argparse
import base64
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import unittest

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "capstan"
ETCD = "3.5.33"
SKIPPED = 77
NAMES = "DNS:localhost,DNS:kubernetes.default.svc,IP:127.0.0.1"


def available():
    """Versions of Kubernetes in the cache, oldest first."""
    found = [path.parent.name.removeprefix("kube-") for path in CACHE.glob("kube-*/bin")]
    return sorted(found, key=lambda version: [int(part) for part in version.split(".")])


def run_cases(name, cases, wanted=("1.34.4", "1.37.2")):
    """Runs the mixin `cases` as NAME_<version> on every version in the cache; the exit code. Words of the command line choose tests."""
    versions = available()
    print("run: " + (", ".join("Kubernetes " + version for version in versions) or "none"), file=sys.stderr)
    for version in wanted:
        if version not in versions:
            print(f"not run: Kubernetes {version}: not in {CACHE}; tools/build-kube {version} builds it", file=sys.stderr)
    if versions and not (CACHE / f"etcd-{ETCD}" / "bin" / "etcd").exists():
        print(f"not run: no etcd {ETCD}; tools/build-etcd {ETCD} builds it", file=sys.stderr)
        versions = []
    if not versions:
        return SKIPPED
    suite = unittest.TestSuite()
    unittest.defaultTestLoader.testNamePatterns = [f"*{part}*" for part in sys.argv[1:]] or None
    for version in versions:
        made = type(f"{name}_" + version.replace(".", "_"), (cases, unittest.TestCase), {"version": version})
        suite.addTests(unittest.defaultTestLoader.loadTestsFromTestCase(made))
    return 0 if unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful() else 1


def free_ports(count):
    """Ports free a moment ago. All are held until all are chosen, so they differ."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for held in sockets:
            held.bind(("127.0.0.1", 0))
        return [held.getsockname()[1] for held in sockets]
    finally:
        for held in sockets:
            held.close()


class Pki:
    """One CA and what it signs, as PEM files in a directory."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.directory.mkdir()
        self.make_ca("ca", "/CN=test-ca")
        self.openssl("genrsa", "-out", "sa.key", "2048")
        self.openssl("rsa", "-in", "sa.key", "-pubout", "-out", "sa.pub")

    def openssl(self, *arguments):
        done = subprocess.run(["openssl", *arguments], cwd=self.directory, capture_output=True, text=True, timeout=60)
        if done.returncode != 0:
            raise RuntimeError(f"openssl {arguments[0]}: {done.stderr}")

    def make_ca(self, name, subject):
        self.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{name}.key",
                     "-out", f"{name}.crt", "-subj", subject, "-days", "2")

    def issue(self, name, subject, extensions, days=2, ca="ca"):
        """name.crt and name.key, replaced if they exist."""
        (self.directory / f"{name}.ext").write_text(extensions)
        self.openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{name}.key", "-out",
                     f"{name}.csr", "-subj", subject)
        self.openssl("x509", "-req", "-in", f"{name}.csr", "-CA", f"{ca}.crt", "-CAkey", f"{ca}.key", "-CAcreateserial", "-out",
                     f"{name}.crt", "-days", str(days), "-extfile", f"{name}.ext")

    def path(self, name):
        return str(self.directory / name)

    def data(self, name):
        return base64.b64encode((self.directory / name).read_bytes()).decode()


class ControlPlane:
    """Use as a context manager. `kubeconfig` is the path of the admin's file, `server` the URL."""

    def __init__(self, version=None, controllers=False, flags=()):
        self.version = version or (available() or [None])[0]
        if self.version not in available():
            raise FileNotFoundError(f"no kube-apiserver {self.version or ''} in {CACHE}; "
                                    f"build it with tools/build-kube {self.version or '1.34.4'}")
        self.kube = CACHE / f"kube-{self.version}" / "bin"
        self.etcd_bin = CACHE / f"etcd-{ETCD}" / "bin" / "etcd"
        if not self.etcd_bin.exists():
            raise FileNotFoundError(f"no etcd {ETCD} in {CACHE}; build it with tools/build-etcd {ETCD}")
        self.controllers = controllers
        self.flags = list(flags)
        self.processes = {}
        self.root = None

    def __enter__(self):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="capstan-cluster-"))
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self):
        self.pki = Pki(self.root / "pki")
        self.pki.issue("apiserver", "/CN=kube-apiserver", f"subjectAltName={NAMES}")
        self.pki.issue("admin", "/O=system:masters/CN=admin", "extendedKeyUsage=clientAuth")
        self.etcd_port, self.etcd_peer_port, self.port = free_ports(3)
        self.server = f"https://127.0.0.1:{self.port}"
        self.kubeconfig = str(self.root / "admin.kubeconfig")
        pathlib.Path(self.kubeconfig).write_text(json.dumps(self.kubeconfig_of({
            "client-certificate-data": self.pki.data("admin.crt"), "client-key-data": self.pki.data("admin.key")})))
        self.context = ssl.create_default_context(cafile=self.pki.path("ca.crt"))
        self.context.load_cert_chain(self.pki.path("admin.crt"), self.pki.path("admin.key"))
        self.start_etcd()
        self.start_apiserver()
        if self.controllers:
            self.start_controllers()

    def start_controllers(self):
        self.run("kcm", str(self.kube / "kube-controller-manager"), f"--kubeconfig={self.kubeconfig}",
                 f"--service-account-private-key-file={self.pki.path('sa.key')}", f"--root-ca-file={self.pki.path('ca.crt')}",
                 "--leader-elect=false", "--bind-address=127.0.0.1", "--secure-port=0", "--use-service-account-credentials",
                 "--controllers=*,-nodeipam", "--kube-api-qps=200", "--kube-api-burst=200")

    def start_etcd(self):
        client, peer = f"http://127.0.0.1:{self.etcd_port}", f"http://127.0.0.1:{self.etcd_peer_port}"
        self.run("etcd", str(self.etcd_bin), "--data-dir", str(self.root / "etcd"), "--listen-client-urls", client,
                 "--advertise-client-urls", client, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
                 "--initial-cluster", f"default={peer}", "--unsafe-no-fsync", "--quota-backend-bytes", str(8 << 30))

    def start_apiserver(self):
        pki = self.pki.path
        self.run("apiserver", str(self.kube / "kube-apiserver"), f"--etcd-servers=http://127.0.0.1:{self.etcd_port}",
                 f"--secure-port={self.port}", "--bind-address=127.0.0.1", f"--client-ca-file={pki('ca.crt')}",
                 f"--tls-cert-file={pki('apiserver.crt')}", f"--tls-private-key-file={pki('apiserver.key')}",
                 f"--service-account-key-file={pki('sa.pub')}", f"--service-account-signing-key-file={pki('sa.key')}",
                 "--service-account-issuer=https://kubernetes.default.svc", "--authorization-mode=RBAC",
                 "--service-cluster-ip-range=10.96.0.0/16",
                 # as on some distributions: who sets blockOwnerDeletion must be allowed to write the owner's finalizers
                 "--enable-admission-plugins=OwnerReferencesPermissionEnforcement", *self.flags)
        self.await_ready()

    def await_ready(self, limit=120):
        end = time.monotonic() + limit
        problem = "no answer"
        while time.monotonic() < end:
            self.check_alive()
            try:
                status, text = self.request("GET", "/readyz")
                if status == 200:
                    return
                problem = f"{status} {text[-300:]}"
            except OSError as error:
                problem = str(error)
            time.sleep(0.1)
        raise TimeoutError(f"kube-apiserver {self.version} not ready after {limit} s: {problem}\n{self.tail('apiserver')}")

    def check_alive(self):
        for name, process in self.processes.items():
            if process.poll() is not None:
                raise RuntimeError(f"{name} ended with {process.returncode}:\n{self.tail(name)}")

    def kubeconfig_of(self, user):
        return {"apiVersion": "v1", "kind": "Config", "current-context": "test",
                "clusters": [{"name": "test", "cluster": {"server": self.server,
                                                          "certificate-authority-data": self.pki.data("ca.crt")}}],
                "users": [{"name": "test", "user": user}],
                "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}]}

    def request(self, method, path, body=None, content_type="application/json"):
        """(status, text) of one request as admin. `body`: a value, or text as it is."""
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=self.context, timeout=30)
        try:
            text = body if body is None or isinstance(body, str) else json.dumps(body)
            connection.request(method, path, text and text.encode(), {"Content-Type": content_type})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def run(self, name, *arguments):
        with open(self.root / f"{name}.log", "ab") as log:
            self.processes[name] = subprocess.Popen(arguments, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                                    cwd=self.root, start_new_session=True)

    def end(self, name, how=signal.SIGTERM, limit=20):
        process = self.processes.pop(name)
        process.send_signal(how)
        try:
            process.wait(limit)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(limit)

    def stop(self):
        for name in reversed(list(self.processes)):
            self.end(name, signal.SIGKILL if name == "apiserver" else signal.SIGTERM)
        if self.root and not os.environ.get("CAPSTAN_KEEP"):
            shutil.rmtree(self.root, ignore_errors=True)

    def tail(self, name, lines=30):
        return "\n".join((self.root / f"{name}.log").read_text(errors="replace").splitlines()[-lines:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", help="version of Kubernetes; default: the oldest in the cache")
    parser.add_argument("--controllers", action="store_true", help="also run kube-controller-manager")
    parser.add_argument("command", nargs="*", help="what to run with KUBECONFIG set")
    arguments = parser.parse_args()
    try:
        plane = ControlPlane(arguments.version, arguments.controllers)
    except FileNotFoundError as error:
        print(f"SKIPPED: {error}", file=sys.stderr)
        return SKIPPED
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with plane:
        if arguments.command:
            return subprocess.run(arguments.command, env={**os.environ, "KUBECONFIG": plane.kubeconfig}).returncode
        print(plane.kubeconfig, flush=True)
        try:
            signal.pause()
        except KeyboardInterrupt:
            pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
