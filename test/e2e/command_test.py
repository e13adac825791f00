#!/usr/bin/env python3
"""Commands of plugins as a shell sees them: arguments, streams, exit codes, signals, the help of the program."""
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

CAPSTAN = os.environ["CAPSTAN"]
PLUGINS = pathlib.Path(os.environ["CAPSTAN_TEST_PLUGINS"])
# Ignored where the tests were started in the background.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
LIMIT_SECONDS = 60


def run(*arguments, **options):
    return subprocess.run([CAPSTAN, *map(str, arguments)], capture_output=True, text=True, timeout=LIMIT_SECONDS, **options)


class CommandCase(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="capstan-command-"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.plugins = self.dir / "plugins"
        self.plugins.mkdir(mode=0o700)
        self.take("commands")

    def take(self, name):
        shutil.copy(PLUGINS / f"{name}.so", self.plugins)

    def run_command(self, *arguments, **options):
        return run("--plugin-dir", self.plugins, *arguments, **options)

    def start(self, *arguments, **options):
        started = subprocess.Popen([CAPSTAN, "--plugin-dir", self.plugins, *arguments], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, **options)
        self.addCleanup(started.stdout.close)
        self.addCleanup(started.stderr.close)
        self.addCleanup(started.kill)
        return started


class StreamsTest(CommandCase):
    def test_arguments_arrive_as_they_are(self):
        said = self.run_command("echo", "a b", "", "--help", "--plugin-dir=x", "-")
        self.assertEqual((said.returncode, said.stdout), (0, "a b\n\n--help\n--plugin-dir=x\n-\n"))

    def test_environment(self):
        said = self.run_command("variable", "CAPSTAN_SOMETHING", env={**os.environ, "CAPSTAN_SOMETHING": "a=b"})
        self.assertEqual(said.stdout, "a=b")
        self.assertEqual(self.run_command("variable", "CAPSTAN_NOTHING").stderr, "not set\n")

    def test_standard_input(self):
        self.assertEqual(self.run_command("count", input="x" * 300_000).stdout, "300000\n")
        self.assertEqual(self.run_command("count", stdin=subprocess.DEVNULL).stdout, "0\n")

    def test_a_full_disk_is_a_failure(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            said = subprocess.run([CAPSTAN, "--plugin-dir", self.plugins, "echo", "x"], stdout=full, stderr=subprocess.PIPE,
                                  text=True, timeout=LIMIT_SECONDS)
        self.assertEqual(said.returncode, 1)
        self.assertIn("the output could not be written: No space left on device", said.stderr)

    def test_a_reader_that_leaves_is_none(self):
        started = self.start("endless")
        started.stdout.readline()
        started.stdout.close()
        self.assertEqual(started.wait(LIMIT_SECONDS), 0)
        self.assertEqual(started.stderr.read(), "")

    def test_a_stream_that_does_not_wait_loses_nothing(self):
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        started = subprocess.Popen([CAPSTAN, "--plugin-dir", self.plugins, "echo", *(["x" * 10_000] * 50)], stdout=writer)
        self.addCleanup(started.kill)
        os.close(writer)
        with open(reader, encoding="utf-8") as out:
            self.assertEqual(len(out.read()), 50 * 10_001)
        self.assertEqual(started.wait(LIMIT_SECONDS), 0)


class EndTest(CommandCase):
    def test_exit_codes_are_the_commands(self):
        for code in (0, 1, 6, 125):
            self.assertEqual(self.run_command("code", code).returncode, code)

    def test_no_code_and_a_panic(self):
        none = self.run_command("code", 300)
        self.assertEqual(none.returncode, 1)
        self.assertIn("commands.capstan.dev", none.stderr)
        panic = self.run_command("code", -1)
        self.assertEqual(panic.returncode, 3)
        self.assertIn("panicked", panic.stderr)

    def test_signals_cancel(self):
        for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            started = self.start("endless")
            started.stdout.readline()
            started.send_signal(number)
            out, err = started.communicate(timeout=LIMIT_SECONDS)
            self.assertEqual((started.returncode, err), (code, "told to end\n"))

    def test_nohup_is_obeyed(self):
        for ignored, code in ((False, 129), (True, 130)):
            started = self.start("endless", preexec_fn=(lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)) if ignored else None)
            started.stdout.readline()
            started.send_signal(signal.SIGHUP)
            if ignored:
                started.stdout.readline()
                started.send_signal(signal.SIGINT)
            err = started.communicate(timeout=LIMIT_SECONDS)[1]
            self.assertEqual((started.returncode, err), (code, "told to end\n"))

    def test_a_signal_ends_a_wait_for_input(self):
        started = self.start("count", stdin=subprocess.PIPE)
        self.addCleanup(started.stdin.close)
        started.stdin.write("x")
        started.stdin.flush()
        self.wait_for_threads(started.pid, 2)  # the command's own is there: signals are watched by then
        started.send_signal(signal.SIGTERM)
        self.assertEqual(started.wait(LIMIT_SECONDS), 143)
        self.assertEqual(started.stderr.read(), "interrupted\n")

    def wait_for_threads(self, pid, count):
        watched = pathlib.Path(f"/proc/{pid}/task")
        while len(list(watched.iterdir())) < count:
            os.sched_yield()

    def test_a_second_signal_ends_at_once(self):
        # Nobody reads, so the command hangs in a write and cannot end by itself.
        started = self.start("endless")
        started.stdout.readline()
        for _ in range(LIMIT_SECONDS * 10):  # signals of one kind that come together are one
            started.send_signal(signal.SIGINT)
            try:
                started.wait(0.1)
                break
            except subprocess.TimeoutExpired:
                pass
        self.assertEqual(started.poll(), 130)


class ProgramTest(CommandCase):
    def test_help_shows_them(self):
        said = self.run_command("--help")
        self.assertEqual(said.returncode, 0)
        self.assertIn("Commands of plugins:", said.stdout)
        self.assertRegex(said.stdout, r"echo +Print the arguments, one a line")
        self.assertRegex(said.stdout, r"backup +Look at, prove, restore")
        self.assertNotIn("Commands of plugins", run("run", "--help").stdout)

    def test_an_unknown_one_gets_a_suggestion(self):
        for wrong, right in (("ehco", "echo"), ("bakup", "backup"), ("aply", "apply")):
            said = self.run_command(wrong)
            self.assertEqual(said.returncode, 2)
            self.assertIn(f'unknown command "{wrong}"; did you mean "{right}"?', said.stderr)
        self.assertIn("`capstan --help` lists them", self.run_command("frobnicate").stderr)

    def test_a_refused_plugin_is_told(self):
        (self.plugins / "commands.so").unlink()
        (self.plugins / "broken.so").write_bytes(b"no plugin")
        said = self.run_command("echo")
        self.assertEqual(said.returncode, 2)
        self.assertIn("broken.so", said.stderr)

    def test_one_without_code_is_a_plugin_error(self):
        self.take("commandless")
        said = self.run_command("nothing")
        self.assertEqual(said.returncode, 3)
        self.assertIn("its code has no capstan.cli/1", said.stderr)

    def test_a_directory_before_a_command_of_the_program(self):
        said = self.run_command("version")
        self.assertEqual((said.returncode, said.stdout.split()[0]), (0, "capstan"))
        self.assertEqual(run("--plugin-dir").returncode, 2)


if __name__ == "__main__":
    sys.exit(0 if unittest.main(verbosity=2, exit=False).result.wasSuccessful() else 1)
