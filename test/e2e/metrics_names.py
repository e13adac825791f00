"""Compares the exposition of a running operator with test/data/metrics-names.txt."""
import pathlib
import re

LIST = pathlib.Path(__file__).resolve().parent.parent / "data" / "metrics-names.txt"
SAMPLE = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"(?:,|$)')
OWN = "capstan_"


class Known:
    """One line of the list."""

    def __init__(self, line, buckets):
        self.name, self.type, labels, bounds, self.when, self.meaning = [part.strip() for part in line.split("|")]
        self.labels = {label.split("=")[0]: label.split("=")[1].split(",") if "=" in label else []
                       for label in labels.split() if label != "-"}
        self.buckets = None if bounds == "-" else [float(bound) for bound in buckets[bounds]] + [float("inf")]


def known():
    buckets, found = {}, []
    for line in LIST.read_text().splitlines():
        if line.startswith("buckets "):
            name, bounds = line[len("buckets "):].split(" = ")
            buckets[name] = bounds.split()
        elif line and not line.startswith("#"):
            found.append(Known(line, buckets))
    return found


class Family:
    def __init__(self, kind):
        self.type, self.series, self.buckets = kind, [], {}


def parsed(text):
    """name -> Family; what is no sample, no comment or has no TYPE is a finding."""
    families, findings = {}, []
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            name, kind = line.split()[2:4]
            families[name] = Family(kind)
        if line.startswith("#") or not line:
            continue
        match = SAMPLE.match(line)
        if not match:
            findings.append(f"no sample: {line}")
            continue
        name, labels = match[1], dict(LABEL.findall(match[2] or ""))
        family = families.get(name)
        for suffix in ("_bucket", "_sum", "_count"):
            base = families.get(name.removesuffix(suffix))
            if family is None and name.endswith(suffix) and base is not None and base.type == "histogram":
                family = base
        if family is None:
            findings.append(f"{name}: no TYPE")
            continue
        if name.endswith("_bucket") and "le" in labels:
            bound = float(labels.pop("le"))
            family.buckets.setdefault(tuple(sorted(labels.items())), []).append(bound)
        family.series.append(labels)
    return families, findings


def differences(text, also=(), of_plugins=()):
    """What the exposition lacks or has too much: one sentence each. `also`: the parts of "when" that apply besides always;
    of those not named, a series may be there and must then be right. `of_plugins`: prefixes of the plugins' own series."""
    families, findings = parsed(text)
    listed = known()
    for entry in listed:
        family = families.get(entry.name)
        if entry.when.startswith("no:"):
            if family is not None:
                findings.append(f"{entry.name} is there, but: {entry.when}")
            continue
        if family is None:
            if entry.when == "always" or entry.when in also:
                findings.append(f"{entry.name} is missing")
            continue
        if family.type != entry.type:
            findings.append(f"{entry.name} is a {family.type}, not a {entry.type}")
        for labels in family.series:
            if set(labels) != set(entry.labels):
                findings.append(f"{entry.name} has labels {sorted(labels)}, not {sorted(entry.labels)}")
                break
        for bounds in family.buckets.values():
            if bounds != entry.buckets:
                findings.append(f"{entry.name} has buckets {bounds}, not {entry.buckets}")
                break
        for label, values in entry.labels.items():
            others = {tuple(sorted((k, v) for k, v in labels.items() if k != label)) for labels in family.series}
            for other in others if values else ():
                here = {labels[label] for labels in family.series if set(other) <= set(labels.items())}
                for value in set(values) - here:
                    findings.append(f"{entry.name}{dict(other)} lacks {label}={value!r} from the start")
    names = {entry.name for entry in listed}
    for name in families:
        if name not in names and not name.startswith(OWN) and not name.startswith(tuple(of_plugins)):
            findings.append(f"{name} is not in {LIST.name}")
    return findings
