#!/usr/bin/python3
"""Runs the test program given as argument against versitygw with TLS, from tools/build-versitygw.

Exit code 77 (skipped) says in words what is not there.
"""
import os
import pathlib
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time

VERSION = "1.8.0"
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "capstan"
START_SECONDS_MAX = 30


def make_certificate(folder):
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
         "-subj", "/CN=store", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", folder / "key.pem", "-out", folder / "cert.pem"],
        check=True, capture_output=True)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(server, port, folder):
    context = ssl.create_default_context(cafile=folder / "cert.pem")
    until = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < until and server.poll() is None:
        try:
            with socket.create_connection(("127.0.0.1", port), 1) as plain, context.wrap_socket(plain, server_hostname="127.0.0.1"):
                return
        except OSError:
            time.sleep(0.05)
    raise SystemExit("versitygw did not start: " + (folder / "log").read_text()[-2000:])


def main():
    gateway = CACHE / f"versitygw-{VERSION}" / "bin" / "versitygw"
    if not gateway.exists():
        print(f"SKIPPED: no versitygw {VERSION} in the cache; tools/build-versitygw {VERSION} builds one (it needs Go 1.24 or newer)")
        return 77
    if not shutil.which("openssl"):
        print("SKIPPED: no openssl to make a certificate with; install the package openssl")
        return 77
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        make_certificate(folder)
        for part in ("data", "versions", "iam"):
            (folder / part).mkdir()
        port = free_port()
        with open(folder / "log", "w", encoding="utf-8") as log:
            server = subprocess.Popen(
                [gateway, "--access", "capstan", "--secret", "capstan-secret", "--port", f"127.0.0.1:{port}", "--region", "us-east-1",
                 "--cert", folder / "cert.pem", "--key", folder / "key.pem", "--iam-dir", folder / "iam", "--quiet",
                 "posix", "--versioning-dir", folder / "versions", folder / "data"],
                stdout=log, stderr=log)
        try:
            wait_for(server, port, folder)
            environment = dict(os.environ, CAPSTAN_S3_ENDPOINT=f"https://127.0.0.1:{port}", CAPSTAN_S3_CA=str(folder / "cert.pem"))
            return subprocess.run(sys.argv[1:], env=environment, check=False).returncode
        finally:
            server.terminate()
            server.wait(10)


if __name__ == "__main__":
    sys.exit(main())
