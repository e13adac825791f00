#!/usr/bin/python3
"""Tests the repository itself: format, lengths, include direction, banned words, files no build names.

Usage: tidy.py [ROOT]. Prints one line per finding (path:line: what) and "N findings"; exit 1 when there are any.
A line, or the one before it, may carry `tidy: allow <rule>` with its reason; a file longer than the limit may say why in its
first lines with `tidy: long because …`. The format is checked when CLANG_FORMAT is installed; without it, that is said.
"""
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent)

FILE_LINES_MAX, TEST_LINES_MAX, FUNCTION_LINES_MAX, LINE_COLUMNS_MAX = 400, 600, 70, 100
MESON_ROOT_LINES_MAX, MESON_PLUGIN_LINES_MAX = 150, 40
CLANG_FORMAT = "clang-format-16"  # the pinned version; tools/packages --checks

# folder -> folders its files may include (besides itself and the SDK).
RUNTIME = {
    "obs": [], "config": ["obs"], "queue": ["obs"],
    "net": ["obs", "config"],
    "kube": ["net", "obs", "config"],
    "cache": ["kube", "net", "obs", "config"],
    "lease": ["kube", "net", "obs", "config"],
    "plugin": ["obs", "config"],
    "control": ["plugin", "cache", "queue", "kube", "net", "obs", "config"],
    "webhook": ["kube", "net", "obs", "config"],
    "local": ["kube", "net", "obs", "config"],
    "offline": ["control", "net"],
    "cli": ["offline", "local", "webhook", "control", "lease", "plugin", "cache", "queue", "kube", "net", "obs", "config"],
}
BANNED = [
    ("detached", re.compile(r"\bdetached\b"), "swallows exceptions: give co_spawn a completion handler"),
    ("capture", re.compile(r"\[=\]"), "name what a lambda captures"),
    ("cout", re.compile(r"std::cout"), "logs go through obs, output through the command's writer"),
    ("new", re.compile(r"(?<![\w_])new [A-Z]\w*[({]"), "use make_unique"),
    ("todo", re.compile(r"TODO\(now\)"), "cannot merge"),
    ("throw", re.compile(r"^\s*throw\b"), "return Result"),
]
INCLUDE = re.compile(r'^\s*#include [<"]([^>"]+)[>"]')
AWAIT = re.compile(r"co_await .*(?:\[[^\]]*\]\s*(?:\(|\{)|\?.*:|\{\s*\.)")
RAW_STRING = re.compile(r'(?<=R")([^()\\\s]{0,16})\(.*?\)\1(?=")', re.S)
TOKEN = re.compile(r"""R"([^()\\\s]{0,16})\(.*?\)\1"|"(?:[^"\\\n]|\\.)*"|(?<![0-9A-Fa-f])'(?:[^'\\\n]|\\.)+'"""
                   r"""|//[^\n]*|/\*.*?\*/|\n[ \t]*\#(?:[^\n\\]|\\.|\\\n)*|[{};\n]|[^\S\n]+|[^\s{};"'/R]+|.""", re.S)
SCOPE = re.compile(r"^(template\s*<.*>\s*)?(inline\s+)?(namespace|class|struct|enum|union|extern)\b")

findings = []


def report(path, line, text):
    findings.append(f"{path.relative_to(ROOT)}:{line}: {text}")


def check_includes(path, number, included):
    parts = path.relative_to(ROOT).parts
    top = parts[0]
    asio = included.startswith(("boost/asio", "boost/beast"))
    if asio and parts[:2] != ("runtime", "net"):
        report(path, number, f"only runtime/net includes {included}")
    if included.startswith("rapidjson/") and top != "sdk":
        report(path, number, "only capstan/json.hpp touches RapidJSON")
    if top == "test" or path.stem.endswith("_test") or path.stem.startswith("testing_"):
        return
    if top == "runtime":
        folder = parts[1]
        if included.startswith(("plugins/", "api/")):
            report(path, number, f"the host knows no custom kind: {included}")
        if included.startswith("runtime/"):
            target = included.split("/")[1]
            if target != folder and target not in RUNTIME.get(folder, []):
                report(path, number, f"runtime/{folder} may not include runtime/{target}")
    elif top in ("sdk", "api", "launcher", "plugins"):
        allowed = {"sdk": (), "api": ("api/",), "launcher": ("launcher/",),
                   "plugins": ("api/", "/".join(parts[:2]) + "/", "plugins/common/")}[top]
        own = included.startswith(("runtime/", "plugins/", "api/", "launcher/", "test/"))
        if own and not included.startswith(allowed):
            report(path, number, f"{top} may not include {included}")


def bodies(text):
    """(first line, lines) of each function outside of functions, from its opening to its closing brace."""
    line, head, stack = 0, "", []
    for token in TOKEN.finditer("\n" + text):
        token = token.group(0)
        if token == "{":
            scope = SCOPE.match(head)
            is_function = ")" in head and not scope and all(kind == "scope" for kind, _ in stack)
            stack.append(("function" if is_function else "scope" if scope else "other", line))
            head = ""
        elif token == "}":
            kind, start = stack.pop() if stack else ("other", line)
            if kind == "function":
                yield start, line - start
            head = ""
        elif token == ";":
            head = ""
        elif not token.isspace() and not token.startswith(("//", "/*", "\n")):
            head += " " + token if head else token
        line += token.count("\n")


def without_raw_strings(text):
    """The lines of `text` with what raw strings hold left out: it is data, not code."""
    return RAW_STRING.sub(lambda raw: "\n" * raw.group(0).count("\n"), text).splitlines()


def check_source(path):
    text = path.read_text(errors="replace")
    lines = text.splitlines()
    is_test = path.stem.endswith("_test") or path.relative_to(ROOT).parts[0] == "test"
    limit = TEST_LINES_MAX if is_test else FILE_LINES_MAX
    head = "\n".join(lines[:12])
    is_generated = "Generated by" in head
    if len(lines) > limit and "tidy: long because" not in head and not is_generated:
        report(path, 1, f"{len(lines)} lines, limit {limit}")
    before = ""
    for number, line in enumerate(without_raw_strings(text), 1):
        def allowed(rule, here=line, above=before):
            return f"tidy: allow {rule}" in here or (
                f"tidy: allow {rule}" in above and above.lstrip().startswith("//"))
        if len(line) > LINE_COLUMNS_MAX and not is_generated and not allowed("columns"):
            if not re.search(r'"[^"]{60,}"', line):
                report(path, number, f"{len(line)} columns, limit {LINE_COLUMNS_MAX}")
        included = INCLUDE.match(line)
        if included:
            check_includes(path, number, included.group(1))
        code = re.sub(r'//.*|"(?:[^"\\]|\\.)*"', "", line)
        for rule, pattern, why in BANNED:
            if pattern.search(code) and not allowed(rule):
                report(path, number, f"{rule}: {why}")
        if is_test and re.search(r"sleep_for|usleep\(|::sleep\(", code) and not allowed("sleep"):
            report(path, number, "tests do not sleep")
        if AWAIT.search(code):
            report(path, number, "co_await beside a lambda, ?: or aggregate: name it first (g++ 12)")
        before = line
    if not is_test and not is_generated:
        for number, count in bodies(text):
            if count > FUNCTION_LINES_MAX:
                report(path, number, f"function of {count} lines, limit {FUNCTION_LINES_MAX}")


def check_format(sources):
    if not shutil.which(CLANG_FORMAT):
        print(f"{CLANG_FORMAT} is not installed: the format is NOT checked (tools/packages --install --checks)")
        return
    run = subprocess.run([CLANG_FORMAT, "--dry-run", *sources], cwd=ROOT, capture_output=True, text=True, check=False)
    unformatted = sorted(set(re.findall(r"^(.+?):\d+:\d+: (?:warning|error): ", run.stderr, re.M)))
    for path in unformatted:
        report(pathlib.Path(path), 1, f"not as {CLANG_FORMAT} writes it: run {CLANG_FORMAT} -i")
    if run.returncode != 0 and not unformatted:
        report(ROOT / ".clang-format", 1, f"{CLANG_FORMAT}: {run.stderr.strip()[:200]}")


def check_named(sources, builds):
    text = "\n".join(build.read_text() for build in builds)
    for path in sources:
        if path.suffix in (".cpp", ".c") and path.name not in text and "fuzz/corpus" not in str(path):
            report(path, 1, "no meson.build names this file")


def check_meson(builds):
    for build in builds:
        count = len(build.read_text().splitlines())
        parts = build.relative_to(ROOT).parts
        if parts == ("meson.build",) and count > MESON_ROOT_LINES_MAX:
            report(build, 1, f"{count} lines, limit {MESON_ROOT_LINES_MAX}")
        if parts[0] == "plugins" and len(parts) == 3 and count > MESON_PLUGIN_LINES_MAX:
            report(build, 1, f"{count} lines, limit {MESON_PLUGIN_LINES_MAX}")


def main():
    folders = ["sdk", "api", "runtime", "launcher", "plugins", "test", "examples"]
    files = [p for folder in folders for p in sorted((ROOT / folder).rglob("*")) if p.is_file()]
    sources = [p for p in files if p.suffix in (".cpp", ".hpp", ".c", ".h") and "/data/" not in str(p)]
    builds = [ROOT / "meson.build"] + [p for p in files if p.name == "meson.build"]
    for path in sources:
        check_source(path)
    check_named(sources, builds)
    check_meson(builds)
    check_format(sources)
    if findings:
        print("\n".join(findings))
    print(f"{len(findings)} findings in {len(sources)} files")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
