#!/usr/bin/env python3
"""tools/build-image: what the image holds, that it runs from nothing else, and that it is the same each time. No container engine."""
import gzip
import hashlib
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

from local_cluster import CAPSTAN, ROOT

BUILDER = ROOT / "tools/build-image"
BUILD = pathlib.Path(CAPSTAN).parent
USER = "65532"


def build_image(*arguments):
    return subprocess.run([sys.executable, BUILDER, "--build", BUILD, *map(str, arguments)], capture_output=True, text=True,
                          timeout=120, check=False)


class Image(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = pathlib.Path(tempfile.mkdtemp(prefix="capstan-image-test-"))
        cls.addClassCleanup(shutil.rmtree, cls.directory)
        cls.done = build_image("-o", cls.directory / "one.tar", "--sbom", cls.directory / "one.spdx.json")
        if cls.done.returncode != 0:
            raise AssertionError(cls.done.stderr)
        with tarfile.open(cls.directory / "one.tar") as whole:
            cls.files = {info.name: whole.extractfile(info).read() for info in whole.getmembers()}
        cls.layers = []
        for path in json.loads(cls.files["manifest.json"])[0]["Layers"]:
            with tarfile.open(fileobj=io.BytesIO(gzip.decompress(cls.files[path]))) as layer:
                cls.layers.append([(info, layer.extractfile(info).read() if info.isfile() else None) for info in layer.getmembers()])
        cls.root = cls.directory / "root"
        cls.unpack()

    @classmethod
    def unpack(cls):
        for info, data in (entry for layer in cls.layers for entry in layer):
            path = cls.root / info.name
            if info.isdir():
                path.mkdir(parents=True, exist_ok=True)
            elif info.issym():
                path.symlink_to(info.linkname)
            else:
                path.write_bytes(data)
            if not info.issym():
                path.chmod(info.mode)
        # What a container engine would mount, as far as these commands look at it.
        (cls.root / "proc/self").mkdir(parents=True)
        (cls.root / "proc/self/exe").symlink_to("/usr/local/bin/capstan")

    def inside(self, *command):
        """What the command says with the image as its whole file system, as the image's user where that can be done."""
        enter = ["chroot", f"--userspec={USER}:{USER}"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "chroot"]
        done = subprocess.run([*enter, self.root, "/usr/local/bin/capstan", *command], capture_output=True, text=True, timeout=60,
                              env={"PATH": "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, check=False)
        return done.returncode, done.stdout, done.stderr

    def test_it_is_the_same_each_time_and_says_its_digest(self):
        again = build_image("-o", self.directory / "two.tar")
        self.assertEqual((self.directory / "one.tar").read_bytes(), (self.directory / "two.tar").read_bytes())
        manifest = json.loads(self.files["index.json"])["manifests"][0]
        self.assertIn("@" + manifest["digest"], again.stdout)
        self.assertEqual(manifest["annotations"]["io.containerd.image.name"].split(":")[0], "docker.io/library/capstan")

    def test_each_blob_has_the_digest_it_is_called_by(self):
        for path, data in self.files.items():
            if path.startswith("blobs/"):
                self.assertEqual(path, "blobs/sha256/" + hashlib.sha256(data).hexdigest())
        manifest = json.loads(self.files["index.json"])["manifests"][0]

        def blob(descriptor):
            data = self.files["blobs/" + descriptor["digest"].replace(":", "/")]
            self.assertEqual(len(data), descriptor["size"])
            return data
        parts = json.loads(blob(manifest))
        config = json.loads(blob(parts["config"]))
        self.assertEqual(config["rootfs"]["diff_ids"],
                         ["sha256:" + hashlib.sha256(gzip.decompress(blob(layer))).hexdigest() for layer in parts["layers"]])
        self.assertEqual(config["config"]["User"], f"{USER}:{USER}")
        self.assertEqual(config["config"]["Entrypoint"], ["/usr/local/bin/capstan"])

    def test_nothing_in_it_is_of_this_machine_or_can_be_changed(self):
        for info, _ in (entry for layer in self.layers for entry in layer):
            self.assertEqual((info.uid, info.gid, info.uname, info.gname, info.mtime), (0, 0, "", "", 0), info.name)
            if info.name == "tmp":
                self.assertEqual(info.mode, 0o1777)
            elif not info.issym():
                self.assertEqual(info.mode & 0o7022, 0, info.name)
            self.assertNotIn(pathlib.PurePosixPath(info.name).name, ("sh", "bash", "dash", "apt", "dpkg"))

    def test_it_runs_from_what_it_holds(self):
        code, out, error = self.inside("--version")
        self.assertEqual((code, error), (0, ""))
        self.assertRegex(out, r"^capstan \d+\.\d+\.\d+\n$")
        for name in ("etcd", "custodian", "steward-bridge"):
            code, out, error = self.inside("inspect", f"/usr/local/lib/capstan/plugins/{name}.so")
            self.assertEqual(code, 0, error)
            self.assertIn(name, out)
        code, out, error = self.inside("config", "check", "/etc/capstan/steward.yaml")
        self.assertEqual((code, out), (0, "/etc/capstan/steward.yaml: good, 1 plugin\n"), error)
        code, out, error = self.inside("backup", "list", "--provider", "Local", "--container", "/tmp", "--prefix", "none")
        self.assertNotIn("No such file", error)
        self.assertNotIn("plugin", error, "the command's plugin is found and loaded")

    def test_the_launcher_needs_no_library(self):
        launcher = (self.root / "usr/local/bin/capstan-launcher").read_bytes()
        self.assertNotIn(b"/lib64/ld-linux", launcher)
        self.assertLess(len(launcher), 4 << 20)

    def test_the_bill_of_materials_names_each_file_and_each_package(self):
        bill = json.loads((self.directory / "one.spdx.json").read_text())
        sums = {one["fileName"]: one["checksums"][1]["checksumValue"] for one in bill["files"]}
        held = {"./" + info.name: hashlib.sha256(data).hexdigest() for layer in self.layers for info, data in layer
                if data is not None}
        self.assertEqual(sums, held)
        names = {one["name"] for one in bill["packages"]}
        self.assertLessEqual({"capstan", "libc6", "libssl3", "libstdc++6", "ca-certificates", "rapidjson-dev"}, names)
        identifiers = [one["SPDXID"] for one in bill["packages"] + bill["files"]]
        self.assertEqual(len(identifiers), len(set(identifiers)))
        for identifier in identifiers:
            self.assertRegex(identifier, re.compile(r"^SPDXRef-[A-Za-z0-9.-]+$"))

    def test_only_the_plugins_asked_for(self):
        done = build_image("-o", self.directory / "few.tar", "--plugin", "custodian", "--name", "registry.example.com:5000/a/capstan:x")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("registry.example.com:5000/a/capstan:x@sha256:", done.stdout)
        with tarfile.open(self.directory / "few.tar") as whole:
            layer = json.load(whole.extractfile("manifest.json"))[0]["Layers"][1]
            with tarfile.open(fileobj=io.BytesIO(gzip.decompress(whole.extractfile(layer).read()))) as own:
                plugins = [name for name in own.getnames() if name.endswith(".so")]
        self.assertEqual(plugins, ["usr/local/lib/capstan/plugins/custodian.so"])

    def test_what_cannot_be_built_is_said_and_leaves_nothing(self):
        target = self.directory / "none.tar"
        for arguments, said in ((["--plugin", "custodiam"], "plugins/custodiam.so is not there; build it"),
                                (["--name", "Capstan"], '--name "Capstan" is no image name'),
                                (["--build", "/nowhere"], "/nowhere/capstan is not there; build it: meson setup /nowhere")):
            done = build_image("-o", target, *arguments)
            self.assertEqual(done.returncode, 1, arguments)
            self.assertIn(said, done.stderr)
            self.assertNotIn("Traceback", done.stderr)
        self.assertEqual([path.name for path in self.directory.glob("none*")], [])


if __name__ == "__main__":
    unittest.main()
