#!/usr/bin/env python3
"""`capstan run` as a process: refused plugins beside good ones, wrong configurations, starts and stops.

CAPSTAN_E2E_STARTS says how many starts and stops (default 10; 100 is the figure of docs/testing.md).
"""
import json
import os
import pathlib
import select
import shutil
import signal
import socket
import subprocess
import sys
import unittest

from local_cluster import CAPSTAN, ROOT, Api, wait_for
from operator_process import HEAD, LISTENERS, ApiServer, Directory, Operator

STARTS = int(os.environ.get("CAPSTAN_E2E_STARTS", "10"))
TEST_PLUGINS = pathlib.Path(os.environ["CAPSTAN_TEST_PLUGINS"])


def kubeconfig_for(port):
    return json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    })


class WithServer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = ApiServer()
        cls.addClassCleanup(cls.server.close)
        cls.server.start()

    def setUp(self):
        self.directory = Directory()
        self.addCleanup(self.directory.close)

    def start(self, config):
        operator = Operator(self.directory, config, self.server.kubeconfig)
        self.addCleanup(operator.close)
        return operator


class StartsAndStops(WithServer):
    """Kind: order of destruction, thread-local state (boostorg/log#234)."""

    def test_every_stop_at_any_moment_ends_with_code_zero(self):
        config = self.directory.write("operator.yaml", HEAD + LISTENERS +
                                      "plugins: {etcd: {featureGates: {EtcdMember: true}}, custodian: {}, reference-cpp: {path: "
                                      f"{TEST_PLUGINS / 'reference-cpp.so'}" "}}\n")
        codes = []
        for number in range(STARTS):
            operator = self.start(config)
            if number % 3 == 0:
                operator.await_logged("loaded plugin")
            elif number % 3 == 1:
                operator.await_logged("starting")
            else:
                wait_for("running plugins", lambda o=operator: "[+]plugin/etcd.capstan.dev ok" in o.readyz()[1], 60)
            codes.append(operator.stop())
            self.assertEqual(codes[-1], 0, f"start {number}\n{operator.text()}")
            self.assertNotIn("not stopped in time", operator.text())
        print(f"{len(codes)} starts and stops", file=sys.stderr)
        self.assertEqual(len(codes), STARTS)


class RefusedPlugins(WithServer):
    """Kind: ABI, and one bad file against all others."""

    def bad_files(self):
        """name -> (path, what the reason must say)."""
        root = self.directory.root
        (root / "text.so").write_text("this is no library\n" * 20)
        (root / "loop.so").symlink_to("loop.so")
        shutil.copy(TEST_PLUGINS / "minimal.so", root / "open.so")
        (root / "open.so").chmod(0o666)
        return {
            "bad-not-elf": (root / "text.so", "is not an ELF file"),
            "bad-no-symbol": (TEST_PLUGINS / "no-entry.so", "does not export capstan_plugin_entry"),
            "bad-no-manifest": (TEST_PLUGINS / "no-note.so", "no CAPSTAN manifest note"),
            "bad-newer-abi": (TEST_PLUGINS / "future-major.so", "speaks ABI major 2, this host speaks 1.0"),
            "bad-dependency": (TEST_PLUGINS / "dependent.so", "depends on libcapstan-test-dependency.so"),
            "another": (TEST_PLUGINS / "constructor.so",
                        "is plugin minimal.capstan.dev; remedy: configure it as \"minimal.capstan.dev\", or name another path"),
            "bad-symlink-loop": (root / "loop.so", "is a symbolic link"),
            "bad-writable": (root / "open.so", "is writable by everyone"),
        }

    def test_each_is_refused_with_its_own_reason_and_the_others_run(self):
        bad = self.bad_files()
        plugins = {"etcd": {}, "custodian": {}, "minimal": {"path": str(TEST_PLUGINS / "minimal.so")},
                   "misbehaving": {"path": str(TEST_PLUGINS / "misbehaving.so"), "config": {"behaviour": "throw-in-create"}}}
        plugins |= {name: {"path": str(path)} for name, (path, _) in bad.items()}
        config = self.directory.write("operator.yaml", HEAD + LISTENERS + "plugins: " + json.dumps(plugins) + "\n")
        operator = self.start(config)
        good = ["etcd.capstan.dev", "custodian.capstan.dev"]

        def settled():
            text = operator.readyz()[1]
            return text if all(f"[+]plugin/{name} ok" in text for name in good) and "create failed" in text else None
        text = wait_for("the good plugins", settled, 60)
        self.assertEqual(operator.readyz()[0], 500)
        for name, (_, reason) in bad.items():
            line = next((l for l in text.splitlines() if l.startswith(f"[-]plugin-file/{name} failed")), "")
            self.assertIn(reason, line, text)
        self.assertIn("[-]plugin/misbehaving.capstan.dev failed: failed: create failed", text)
        logged = [line for line in operator.lines() if line.get("msg") == "plugin refused; the others run"]
        self.assertEqual(len(logged), len(bad))
        self.assertEqual(operator.stop(), 0, operator.text())

    def test_a_crash_names_the_call_it_was_in(self):
        crashing = {"misbehaving": {"path": str(TEST_PLUGINS / "misbehaving.so"), "config": {"behaviour": "crash"}}}
        config = self.directory.write("operator.yaml", HEAD + LISTENERS + "plugins: " + json.dumps(crashing) + "\n")
        operator = self.start(config)
        wait_for("the plugin", lambda: operator.readyz()[0] == 200, 60)
        path = "/api/v1/namespaces/default/configmaps"
        api = Api(self.server.kubeconfig)
        status, answer = api.request("POST", path, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "poison"}})
        self.assertEqual(status, 201, answer)
        self.addCleanup(api.request, "DELETE", path + "/poison")
        self.assertEqual(operator.process.wait(60), -signal.SIGSEGV)
        self.assertIn("capstan run: a segmentation fault (SIGSEGV) in misbehaving/misbehaving default/poison ends the process",
                      operator.text())

    def test_with_no_good_plugin_it_ends_with_code_three_and_every_reason(self):
        bad = self.bad_files()
        plugins = {name: {"path": str(path)} for name, (path, _) in bad.items()}
        config = self.directory.write("operator.yaml", HEAD + LISTENERS + "plugins: " + json.dumps(plugins) + "\n")
        done = self.directory.run(config, self.server.kubeconfig)
        self.assertEqual(done.returncode, 3, done.stderr)
        for name, (_, reason) in bad.items():
            self.assertTrue(any(f"plugin \"{name}\" is refused: " in line and reason in line for line in done.stderr.splitlines()),
                            f"{name}\n{done.stderr}")

    def test_what_only_loading_shows_is_refused_too(self):
        for name, reason in {"undefined-symbol": "capstan_test_nobody_defines_this",
                             "throwing-constructor": "thrown by a static object", "crashing-constructor": "signal 6"}.items():
            config = self.directory.write("operator.yaml", HEAD + LISTENERS +
                                          f"plugins: {{minimal: {{path: {TEST_PLUGINS / (name + '.so')}}}}}\n")
            done = self.directory.run(config, self.server.kubeconfig)
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertTrue(any("plugin \"minimal\" is refused: " in line and reason in line for line in done.stderr.splitlines()),
                            f"{name}\n{done.stderr}")


class WrongConfiguration(unittest.TestCase):
    """Kind: late failure (etcd-druid#970, #1226). Exit code, every error at once, and not one connection."""

    def setUp(self):
        self.directory = Directory()
        self.addCleanup(self.directory.close)
        self.listener = socket.socket()
        self.addCleanup(self.listener.close)
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen(64)
        self.kubeconfig = self.directory.write("kubeconfig", kubeconfig_for(self.listener.getsockname()[1]))

    def asked(self, limit=0.0):
        """A connection waits to be accepted."""
        return bool(select.select([self.listener], [], [], limit)[0])

    def refused(self, text, *parts, code=2, arguments=()):
        config = self.directory.write("operator.yaml", HEAD + text)
        for extra in (arguments, (*arguments, "--validate-only")):
            done = self.directory.run(config, self.kubeconfig, *extra)
            self.assertEqual(done.returncode, code, done.stdout + done.stderr)
            for part in parts:
                self.assertIn(part, done.stderr)
            self.assertFalse(self.asked(), "the API server was asked")
        checked = subprocess.run([CAPSTAN, "config", "check", str(config)], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(checked.returncode, code, checked.stderr)
        for part in parts:
            self.assertIn(part, checked.stderr)

    def test_values_of_the_file_all_at_once(self):
        self.refused("plugins: {etcd: {enabled: yes}}\ngracefulStop: 15\nloging: {}\n"
                     "leaderElection: {leaseDuration: 15s, renewDeadline: 15s}\nlisteners: {ops: {port: 70000}}\n",
                     "operator.yaml:3: /plugins/etcd/enabled", "operator.yaml:4: /gracefulStop", "operator.yaml:5: /loging",
                     "operator.yaml:6: /leaderElection/leaseDuration", "operator.yaml:7: /listeners/ops/port")

    def test_a_kubeconfig_that_is_wrong_is_wrong_before_the_start(self):
        config = self.directory.write("operator.yaml", HEAD)
        kubeconfig = json.loads(kubeconfig_for(1))
        kubeconfig["clusters"][0]["cluster"] = {"server": "https://127.0.0.1:1", "certificate-authority-data": "aGVsbG8="}
        path = self.directory.write("no-pem", json.dumps(kubeconfig))
        for extra in ((), ("--validate-only",)):
            done = self.directory.run(config, path, *extra)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("malformed PEM in the CA", done.stderr)
            self.assertIn("remedy: certificate-authority(-data)", done.stderr)
            done = self.directory.run(config, "/nonexistent", *extra)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("--kubeconfig: cannot open /nonexistent", done.stderr)

    def test_settings_that_a_plugin_does_not_have(self):
        self.refused("plugins:\n  etcd: {config: {imagez: {}, images: {etcd: 5}}}\n  custodian: {config: {etcdMember: {unknownTreshold: 1m}}}\n",
                     "operator.yaml: /plugins/etcd/config/imagez: unknown; there are images, ",
                     "/plugins/etcd/config/images/etcd: expected string, found integer",
                     "/plugins/custodian/config/etcdMember/unknownTreshold: unknown; there are notReadyThreshold, unknownThreshold")

    def test_what_only_the_plugins_know_all_at_once(self):
        self.refused("plugins:\n  etcd: {featureGates: {Nope: true}, controllers: {etdc: {maxConcurrent: 2}}}\n"
                     f"  gated: {{path: {TEST_PLUGINS / 'gated.so'}, featureGates: {{Sealed: false}}}}\n  nothing: {{}}\n",
                     "plugin etcd.capstan.dev: featureGates: unknown feature gate Nope; known are EtcdMember",
                     "plugin etcd.capstan.dev: controllers: unknown controller etdc; known are etcd",
                     "plugin gated.capstan.dev: featureGates: feature gate Sealed is locked to true",
                     "plugin \"nothing\": no nothing.so in")

    def test_gates_belong_to_one_plugin(self):
        self.refused(f"plugins:\n  etcd: {{featureGates: {{EtcdMember: true, Shared: true}}}}\n"
                     f"  gated: {{path: {TEST_PLUGINS / 'gated.so'}, featureGates: {{Shared: true, EtcdMember: true}}}}\n",
                     "plugin etcd.capstan.dev: featureGates: unknown feature gate Shared; known are EtcdMember",
                     "plugin gated.capstan.dev: featureGates: unknown feature gate EtcdMember; known are Sealed, Shared")

    def test_settings_this_version_does_not_obey(self):
        self.refused("plugins: {etcd: {}}\nlimits: {requestTimeout: 5s}\n",
                     "/limits/requestTimeout: this version cannot change it")

    def test_a_steward_is_never_elected(self):
        config = self.directory.write("steward.yaml", HEAD + "plugins: {steward-bridge: {}}\nleaderElection: {enabled: true}\n")
        done = self.directory.run(config, self.kubeconfig, "--profile", "steward", "--validate-only")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("/leaderElection/enabled: a steward works for its own pod", done.stderr)

    def test_a_file_that_is_another_plugin_is_refused(self):
        self.refused(f"plugins: {{etcd: {{path: {TEST_PLUGINS / 'gated.so'}}}}}\n",
                     "plugin \"etcd\" is refused: ", "gated.so: is plugin gated.capstan.dev; remedy: configure it as", code=3)

    def test_two_files_of_one_plugin(self):
        self.refused(f"plugins:\n  gated: {{path: {TEST_PLUGINS / 'gated.so'}}}\n"
                     f"  gated.capstan.dev: {{path: {TEST_PLUGINS / 'gated.so'}}}\n",
                     "/plugins: \"gated\" is configured twice, by id and by short name")

    def test_no_plugin(self):
        for text in ("", "plugins: {}\n", "plugins: {etcd: {enabled: false}}\n"):
            self.refused(text, "operator.yaml: /plugins: none is enabled; remedy: name at least one")

    def test_addresses_files_and_rights_all_at_once(self):
        missing = self.directory.root / "tls.crt"
        self.refused("plugins: {etcd: {permissions: [{groups: [apps], resources: [StatefulSet], verbs: [gett]}]}, nothing: {}}\n"
                     f"listeners:\n  ops: {{address: localhost}}\n  webhook: {{tls: {{certificateFile: {missing}, keyFile: {missing}}}}}\n"
                     "gracefulStop: 1s\ngracefulStop: 2s\nlimits: {requestsInFlight: 3}\n",
                     "operator.yaml:8: duplicate key \"gracefulStop\", first on line 7",
                     "operator.yaml:3: /plugins/etcd/permissions/0/verbs: \"gett\" is no verb, did you mean \"get\"?",
                     "operator.yaml:3: /plugins/etcd/permissions/0/resources: \"StatefulSet\" is no resource",
                     "operator.yaml:5: /listeners/ops/address: \"localhost\" is no IP address",
                     f"operator.yaml: /listeners/webhook/tls: cannot open {missing}: No such file or directory",
                     "/limits/requestsInFlight: this version cannot change it; 3 is given, its default 32 is all it takes",
                     "plugin \"nothing\": no nothing.so in")

    def test_a_broken_text_hides_nothing_before_it(self):
        self.refused("gracefulStop: 15\nplugins: {nothing: {}}\nlisteners: {ops: {port: 1}\n",
                     "operator.yaml:3: /gracefulStop: expected a duration", "plugin \"nothing\": no nothing.so in")

    def test_certificates_without_names_and_ended_ones(self):
        root = self.directory.root
        for name, extra in (("anonymous", []), ("good", ["-addext", "subjectAltName=DNS:capstan.test"])):
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
                            f"/CN={name}", "-days", "1", "-keyout", f"{root}/{name}.key", "-out", f"{root}/{name}.crt", *extra],
                           check=True, capture_output=True)
        listener = "plugins: {etcd: {}}\nlisteners: {%s: {port: 0, tls: {certificateFile: %s, keyFile: %s}}}\n"
        for name in ("ops", "webhook"):
            self.refused(listener % (name, root / "anonymous.crt", root / "anonymous.key"),
                         f"operator.yaml: /listeners/{name}/tls: {root}/anonymous.crt names no host: it has no subject alternative name")
            self.refused(listener % (name, root / "good.crt", root / "anonymous.key"),
                         f"{root}/good.crt: certificate and private key do not match")
            config = self.directory.write("operator.yaml", HEAD + listener % (name, root / "good.crt", root / "good.key"))
            done = self.directory.run(config, self.kubeconfig, "--validate-only")
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_tokens_in_clear_are_warned_of(self):
        config = self.directory.write("operator.yaml", HEAD + "plugins: {etcd: {}}\n"
                                      "listeners: {ops: {address: 0.0.0.0, port: 0, authentication: kubernetes}}\n")
        done = self.directory.run(config, self.kubeconfig, "--validate-only")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("warning: ", done.stderr)
        self.assertIn("/listeners/ops: authentication kubernetes on 0.0.0.0 without tls: whoever sees the traffic has the tokens",
                      done.stderr)

    def test_the_example_of_the_documentation_is_good_as_it_is(self):
        example = ROOT / "docs" / "config.example.yaml"
        environment = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}
        done = subprocess.run([CAPSTAN, "config", "check", str(example)], capture_output=True, text=True, timeout=60, check=False,
                              env=environment)
        self.assertEqual((done.returncode, done.stdout), (0, f"{example}: good, 2 plugins\n"), done.stderr)

    def test_a_plugin_without_a_file(self):
        self.refused("plugins: {nothing: {}, other: {path: /nonexistent/other.so}}\n", "plugin \"nothing\": no nothing.so in",
                     "plugin \"other\": /nonexistent/other.so does not exist", code=3)

    def test_a_good_one_is_valid_without_a_request_and_asks_when_run(self):
        config = self.directory.write("operator.yaml", HEAD + LISTENERS + "plugins: {etcd: {}, custodian: {}}\n")
        done = self.directory.run(config, self.kubeconfig, "--validate-only")
        self.assertEqual((done.returncode, done.stdout), (0, "good, 2 plugins\n"), done.stderr)
        self.assertFalse(self.asked())
        operator = Operator(self.directory, config, self.kubeconfig)
        self.addCleanup(operator.close)
        self.assertTrue(self.asked(60), operator.text())
        # The server never answers: not ready, and a stop in this moment is a stop in order too.
        status, text = operator.readyz()
        self.assertEqual(status, 500, text)
        self.assertIn("[-]api-server failed: has not answered yet", text)
        operator.process.send_signal(signal.SIGTERM)
        self.assertEqual(operator.process.wait(60), 0, operator.text())
        self.assertNotIn("plugin started", operator.text())

    def test_output_that_cannot_be_written_is_a_failure(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([CAPSTAN, "config", "print", str(self.directory.write("operator.yaml", HEAD))], stdout=full,
                                  stderr=subprocess.PIPE, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("the output could not be written: No space left on device", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
