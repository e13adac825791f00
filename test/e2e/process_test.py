#!/usr/bin/env python3
"""`capstan` as a process among others: readers that leave, credential plugins that hang or fail, servers that are none."""
import http.client
import http.server
import json
import os
import pathlib
import signal
import ssl
import subprocess
import threading
import time
import unittest

from local_cluster import CAPSTAN, wait_for
from operator_process import HEAD, LISTENERS, ApiServer, Directory, Operator

PLUGINS = "plugins: {custodian: {}}\n"
TEST_PLUGINS = pathlib.Path(os.environ["CAPSTAN_TEST_PLUGINS"])

# Ignored where the tests were started in the background.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


def kubeconfig(server, user, **cluster):
    return json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": server, **cluster}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    })


def plugin_user(path):
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(path), "interactiveMode": "Never"}}


def answer_of(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def runs(pid):
    """A process that is there and no zombie."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


class WithDirectory(unittest.TestCase):
    def setUp(self):
        self.directory = Directory()
        self.addCleanup(self.directory.close)

    def script(self, name, text):
        path = self.directory.write(name, "#!/bin/sh\n" + text)
        path.chmod(0o755)
        return path

    def config(self, more=""):
        return self.directory.write("operator.yaml", HEAD + LISTENERS + PLUGINS + more)

    def operator(self, kubeconfig_path):
        operator = Operator(self.directory, self.config(), kubeconfig_path)
        self.addCleanup(operator.close)
        return operator


class WithServer(WithDirectory):
    """One API server for all tests of the class."""

    @classmethod
    def setUpClass(cls):
        cls.server = ApiServer()
        cls.addClassCleanup(cls.server.close)
        cls.server.start()


class Pipes(WithServer):
    """Kind: a reader that leaves."""

    def test_a_command_whose_reader_left_ends_quietly(self):
        for arguments in (["get", "-A", "-o", "json", "clusterroles"], ["config", "reference"], ["--help"]):
            end, pipe = os.pipe()
            os.close(end)  # before it writes
            command = [CAPSTAN, *arguments]
            if arguments[0] == "get":
                command += ["--kubeconfig", str(self.server.kubeconfig)]
            with os.fdopen(pipe, "wb") as output:
                done = subprocess.run(command, stdout=output, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""), arguments)

    def test_an_operator_whose_log_reader_left_goes_on(self):
        command = self.directory.command(self.config(), self.server.kubeconfig)
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
                              env=self.directory.environment()) as process:
            try:
                lines = iter(process.stderr.readline, b"")
                port = next(json.loads(line)["port"] for line in lines if b"serving health and metrics" in line)
                process.stderr.close()
                wait_for("readiness without a log", lambda: answer_of(port, "/readyz")[0] == 200, 60)
                process.send_signal(signal.SIGTERM)
                self.assertEqual(process.wait(60), 0)
            finally:
                if process.poll() is None:
                    process.kill()


class CredentialPlugins(WithDirectory):
    """Kind: helpers left behind; failures found late."""

    def hanging(self):
        pids = self.directory.root / "pids"
        script = self.script("hang", f"sleep 300 &\necho $$ $! >{pids}.new\nmv {pids}.new {pids}\nwait\n")
        path = self.directory.write("kubeconfig", kubeconfig("https://127.0.0.1:1", plugin_user(script)))
        return path, pids

    def assert_ended(self, pids):
        for pid in pids.read_text().split():
            wait_for(f"the end of {pid}", lambda p=pid: not runs(p))

    def test_one_that_hangs_ends_with_the_operator(self):
        path, pids = self.hanging()
        operator = self.operator(path)
        wait_for("the plugin", pids.exists, 60)
        self.assertEqual(operator.stop(), 0, operator.text())
        self.assert_ended(pids)

    def test_one_that_hangs_ends_with_a_killed_operator(self):
        path, pids = self.hanging()
        operator = self.operator(path)
        wait_for("the plugin", pids.exists, 60)
        operator.process.kill()
        plugin, helper = pids.read_text().split()
        wait_for(f"the end of {plugin}", lambda: not runs(plugin), 20)
        os.kill(int(helper), signal.SIGKILL)  # what a plugin has started itself goes on

    def test_one_that_hangs_ends_with_a_command(self):
        path, pids = self.hanging()
        for number in (signal.SIGINT, signal.SIGTERM):
            pids.unlink(missing_ok=True)
            with subprocess.Popen([CAPSTAN, "get", "--kubeconfig", str(path), "pods"], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE) as command:
                wait_for("the plugin", pids.exists, 60)
                command.send_signal(number)
                self.assertEqual(command.wait(60), -number)
            self.assert_ended(pids)

    def test_one_that_fails_is_named_at_once(self):
        script = self.script("login", "echo looking >&2; echo 'session has ended, run login' >&2; exit 7\n")
        path = self.directory.write("kubeconfig", kubeconfig("https://127.0.0.1:1", plugin_user(script)))
        said = f"credential plugin {script}: exit code 7: \"session has ended, run login\""
        since = time.monotonic()
        done = self.directory.run(self.config(), path)
        self.assertLess(time.monotonic() - since, 20, "far from the 30 s a silent server gets")
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("capstan run: " + said, done.stderr)
        self.assertNotIn("does not answer", done.stderr)
        got = subprocess.run([CAPSTAN, "get", "--kubeconfig", str(path), "pods"], capture_output=True, text=True, timeout=60,
                             check=False)
        self.assertEqual((got.returncode, got.stderr), (4, f"capstan: {said}\n"))


class TokenFiles(WithServer):
    """Kind: files that are not there."""

    def test_one_that_is_missing_at_start_is_a_wrong_configuration(self):
        path = self.directory.write("kubeconfig", kubeconfig("https://127.0.0.1:1", {"tokenFile": "token"}))
        said = f"{path}: kubeconfig user \"u\": tokenFile: cannot open {self.directory.root / 'token'}: No such file or directory"
        for arguments in ((), ("--validate-only",)):
            done = self.directory.run(self.config(), path, *arguments)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(said, done.stderr)
        config = self.config(f"kubeconfig: {path}\n")
        checked = subprocess.run([CAPSTAN, "config", "check", str(config)], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(checked.returncode, 2, checked.stderr)
        self.assertIn(said, checked.stderr)

    def test_one_nobody_knows_is_named_in_log_and_readiness(self):
        token = self.directory.write("token", "nobody-knows-this-token")
        known = json.loads(self.server.kubeconfig.read_text())
        known["users"][0]["user"] = {"tokenFile": str(token)}
        path = self.directory.write("kubeconfig", json.dumps(known))
        operator = self.operator(path)
        said = f"the API server does not accept the token in {token}"
        wait_for("the reason", lambda: said in operator.readyz()[1], 60)
        self.assertIn("unauthenticated: ", operator.readyz()[1])
        self.assertNotIn("forbidden", operator.text())
        self.assertIn(said, operator.text())
        self.assertEqual(operator.stop(), 0, operator.text())


class Standby(WithServer):
    """Kind: what only the leader does. The API server asks any replica of a webhook."""

    def start(self):
        directory = Directory()
        self.addCleanup(directory.close)
        root = self.directory.root
        operator = Operator(directory, directory.write("operator.yaml", HEAD + (
            f"plugins: {{guard: {{path: {TEST_PLUGINS / 'guard.so'}, config: {{maxKeys: 2}}}}}}\n"
            "leaderElection: {enabled: true}\nlisteners:\n  ops: {port: 0}\n"
            f"  webhook: {{address: 127.0.0.1, port: 0, tls: {{certificateFile: {root}/tls.crt, keyFile: {root}/tls.key}}}}\n")),
            self.server.kubeconfig)
        self.addCleanup(operator.close)
        return operator

    def judge(self, port, data):
        """The answer of the validating webhook about a new ConfigMap."""
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
            "uid": "u-1", "operation": "CREATE", "namespace": "default", "name": "x",
            "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
            "resource": {"group": "", "version": "v1", "resource": "configmaps"}, "userInfo": {"username": "me"},
            "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "default"}, "data": data}}}
        context = ssl.create_default_context(cafile=self.directory.root / "tls.crt")
        connection = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=30)
        try:
            connection.request("POST", "/validate--v1-configmap", json.dumps(review), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read().decode()
            if answer.status != 200:
                raise ValueError(f"{answer.status} {text}")  # the plugin starts
            return json.loads(text)["response"]
        finally:
            connection.close()

    def test_a_standby_answers_webhooks(self):
        root = self.directory.root
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=w",
                        "-days", "1", "-keyout", f"{root}/tls.key", "-out", f"{root}/tls.crt", "-addext",
                        "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
        leader = self.start()
        leader.await_logged("serving webhooks")
        wait_for("a leader", lambda: "standby" not in leader.readyz()[1] and leader.readyz()[0] == 200, 60)
        standby = self.start()
        standby.await_logged("standing by: another process holds the lease")
        for operator in (standby, leader):
            port = int(operator.await_logged("serving webhooks")[0]["port"])
            good = wait_for("an answer", lambda p=port: self.judge(p, {"a": "1"}), 60)
            self.assertEqual((good["uid"], good["allowed"]), ("u-1", True))
            bad = self.judge(port, {"a": "1", "b": "2", "c": "3"})
            self.assertEqual(bad["allowed"], False)
            self.assertIn("it has 3 keys; at most 2 are allowed here", bad["status"]["message"])
        self.assertIn("leader-election ok (standby", standby.readyz()[1])


class Gates(WithServer):
    """Kind: a plugin that does less than one thinks, in silence."""

    def test_a_gate_that_is_off_says_what_is_not_done(self):
        said = "gate EtcdMember is off: no Etcd gets children and existing ones stay as they are"
        for gates, quiet in (("{}", False), ("{EtcdMember: true}", True)):
            config = self.directory.write("operator.yaml", HEAD + LISTENERS + f"plugins: {{etcd: {{featureGates: {gates}}}}}\n")
            operator = Operator(self.directory, config, self.server.kubeconfig)
            self.addCleanup(operator.close)
            wait_for("readiness", lambda o=operator: o.ask("/readyz")[0] == 200, 60)
            logged = [line for line in operator.lines() if said in line.get("message", "")]
            self.assertEqual(len(logged), 0 if quiet else 1, operator.text())
            self.assertEqual(f"[+]plugin/etcd.capstan.dev ok ({said}" in operator.readyz()[1], not quiet, operator.readyz()[1])
            self.assertEqual(operator.stop(), 0, operator.text())
            checked = subprocess.run([CAPSTAN, "config", "check", str(config)], capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(checked.returncode, 0, checked.stderr)
            self.assertEqual(f"warning: plugin etcd.capstan.dev: {said}" in checked.stderr, not quiet, checked.stderr)


class LoginPages(WithDirectory):
    """Kind: something else answers."""

    def test_what_answers_in_html_is_no_api_server(self):
        class Page(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                body = b"<html>log in</html>"
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments):
                pass
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        path = self.directory.write("kubeconfig", kubeconfig(f"http://127.0.0.1:{server.server_address[1]}", {}))
        said = "answered text/html, not the Kubernetes API: check server and proxy"
        got = subprocess.run([CAPSTAN, "get", "--kubeconfig", str(path), "pods"], capture_output=True, text=True, timeout=60,
                             check=False)
        self.assertEqual((got.returncode, got.stderr), (4, f"capstan: {said}\n"))
        operator = self.operator(path)
        line = operator.await_logged("the API server does not answer yet; it is asked again")[0]
        self.assertIn(said, line["error"])
        self.assertEqual(operator.stop(), 0, operator.text())


if __name__ == "__main__":
    unittest.main(verbosity=2)
