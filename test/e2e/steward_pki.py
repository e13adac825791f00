"""Certificates of a backup CA for tests: good ones, of another CA, and ended ones. Needs openssl."""
import pathlib
import subprocess

CONFIG = """
[ca]
default_ca = it
[it]
database = index.txt
serial = serial
new_certs_dir = .
default_md = sha256
policy = any
copy_extensions = copy
unique_subject = no
[any]
commonName = supplied
[names]
subjectAltName = IP:127.0.0.1,IP:{address},DNS:localhost
"""


class Pki:
    """One CA in a directory of its own; `address` is what server certificates are for, beside 127.0.0.1."""

    def __init__(self, directory, name, address):
        self.dir = pathlib.Path(directory) / name
        self.dir.mkdir()
        (self.dir / "ca.cnf").write_text(CONFIG.format(address=address))
        (self.dir / "index.txt").write_text("")
        (self.dir / "serial").write_text("1000\n")
        self.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "ca.key",
                     "-out", "ca.crt", "-days", "30", "-subj", f"/CN={name}")

    def openssl(self, *arguments):
        done = subprocess.run(["openssl", *arguments], cwd=self.dir, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"openssl {arguments[0]}: {done.stderr}")

    def issue(self, name, start=None, end=None):
        """(certificate, key) paths; `start`, `end` as YYMMDDHHMMSSZ."""
        self.openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{name}.key", "-out",
                     f"{name}.csr", "-subj", f"/CN={name}")
        dates = ["-startdate", start, "-enddate", end] if start else ["-days", "2"]
        self.openssl("ca", "-batch", "-config", "ca.cnf", "-cert", "ca.crt", "-keyfile", "ca.key", "-extensions", "names",
                     "-notext", "-in", f"{name}.csr", "-out", f"{name}.crt", *dates)
        return self.dir / f"{name}.crt", self.dir / f"{name}.key"

    @property
    def ca(self):
        return self.dir / "ca.crt"
