#!/usr/bin/env python3
"""Every reason a steward can give for a condition has its entry in docs/runbook.md, and no other has; docs/deviations.md tells the metrics
that there are; links of the pages about backups lead somewhere."""
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/runbook.md"
# What states a reason: its second argument, words in it.
CALLS = re.compile(r"\b(?:condition|wait_for|give_up|report)\(|\bpublish\((?=\s*SnapshotterState::failing)|\{(?=\s*StartDo::(?:wait|fail),)")
WORD = re.compile(r'"([A-Z][A-Za-z]+)"')
HEADING = re.compile(r"^(#+) (.+)$", re.M)


def second_argument(text):
    depth, argument, arguments, quoted = 1, "", [], False
    for at, char in enumerate(text):
        if char == '"' and text[at - 1] != "\\":
            quoted = not quoted
        if not quoted:
            depth += {"(": 1, "{": 1, "[": 1, ")": -1, "}": -1, "]": -1}.get(char, 0)
            if depth == 0 or (depth == 1 and char == ","):
                arguments.append(argument)
                argument = ""
                if depth == 0 or len(arguments) == 2:
                    break
                continue
        argument += char
    return arguments[1] if len(arguments) > 1 else ""


def reasons_of_code():
    """reason -> a file that states it."""
    found = {}
    for path in sorted((ROOT / "plugins/steward-bridge").rglob("*.cpp")):
        if path.name.endswith("_test.cpp") or path.parent.name in ("commands", "store"):
            continue
        text = path.read_text()
        for call in CALLS.finditer(text):
            for reason in WORD.findall(second_argument(text[call.end():])):
                found[reason] = path.name
    return found


def anchors(text):
    return {re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-") for _, title in HEADING.findall(text)}


class Runbook(unittest.TestCase):
    def test_an_entry_for_every_reason(self):
        code = reasons_of_code()
        self.assertGreater(len(code), 25, "the search finds them")
        entries = [title for level, title in HEADING.findall(PAGE.read_text()) if level == "###"]
        self.assertEqual(len(entries), len(set(entries)))
        self.assertEqual({reason: name for reason, name in code.items() if reason not in entries}, {}, "without an entry")
        self.assertEqual(sorted(set(entries) - set(code)), [], "no longer stated by anybody")

    def test_reasons_of_the_plugins_page_are_in_it(self):
        table = (ROOT / "plugins/steward-bridge/README.md").read_text().split("| reason | what is awaited", 1)[1].split("\n\n", 1)[0]
        listed = {reason for row in table.splitlines()[2:] for reason in re.findall(r"`([A-Z][A-Za-z]+)`", row.split("|")[1])}
        self.assertGreater(len(listed), 20)
        self.assertEqual(sorted(listed - {title for _, title in HEADING.findall(PAGE.read_text())}), [])

    def test_metrics_of_the_other_sidecar(self):
        code = set()
        for path in (ROOT / "plugins/steward-bridge").rglob("*.cpp"):
            if not path.name.endswith("_test.cpp"):
                code |= set(re.findall(r'"(etcdbr_[a-z_]+)"', path.read_text()))
        table = (ROOT / "docs/deviations.md").read_text().split("## Metrics of etcdbrctl", 1)[1]
        said = {True: set(), False: set()}
        for row in table.splitlines():
            if row.startswith("| `"):
                _, names, here, _ = row.split("|")
                said[here.strip().startswith("yes")] |= set(re.findall(r"`(etcdbr_[a-z_]+)`", names))
        self.assertEqual(said[True], code)
        self.assertEqual(said[False] & code, set())

    def test_links(self):
        for name in ("runbook.md", "backup.md", "deviations.md"):
            page = (ROOT / "docs" / name).read_text()
            for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", page):
                path = (ROOT / "docs" / target) if target else ROOT / "docs" / name
                self.assertTrue(path.exists(), f"{name}: {target}")
                if anchor:
                    self.assertIn(anchor, anchors(path.read_text()), f"{name}: {target}#{anchor}")


if __name__ == "__main__":
    sys.exit(0 if unittest.main(verbosity=2, exit=False).result.wasSuccessful() else 1)
