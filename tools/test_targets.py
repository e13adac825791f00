#!/usr/bin/env python3
"""Prints the ninja targets that the tests of some suites need: test_targets.py BUILD SUITE…"""
import json
import os
import subprocess
import sys


def introspect(build, what):
    return json.loads(subprocess.check_output(["meson", "introspect", build, what]))


def main():
    build, suites = sys.argv[1], {"capstan:" + suite for suite in sys.argv[2:]}
    needed = {target for test in introspect(build, "--tests") if suites & set(test["suite"]) for target in test["depends"]}
    root = os.path.realpath(build)
    for target in introspect(build, "--targets"):
        if target["id"] in needed:
            print(*(os.path.relpath(name, root) for name in target["filename"]))


if __name__ == "__main__":
    main()
