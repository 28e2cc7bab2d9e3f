"""Every query of deploy/, and the metrics there are."""

import json
import pathlib
import re
import sys
from typing import NamedTuple

SKIPPED = 77  # the exit code that tells tests/run.sh so
try:
    import yaml
except ImportError:
    print("SKIPPED: python3-yaml is not installed")
    sys.exit(SKIPPED)

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROMETHEUS = ROOT / "deploy/prometheus"
DASHBOARD = ROOT / "deploy/grafana/dashboards/widelane.json"


class Query(NamedTuple):
    where: str
    expr: str
    legend: str = ""


def load(path):
    return yaml.safe_load((ROOT / path).read_text())


def dashboard():
    return json.loads(DASHBOARD.read_text())


def dashboard_queries():
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", []):
            yield Query(f"panel '{panel['title']}'", target["expr"], target["legendFormat"])
    for annotation in dashboard()["annotations"]["list"]:
        yield Query(f"annotation '{annotation['name']}'", annotation["expr"], annotation["titleFormat"])


def variable_queries():
    """The dashboard's variables that ask Prometheus: (name, metric or selector, label)."""
    for variable in dashboard()["templating"]["list"]:
        if variable["type"] == "query":
            selector, label = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]["query"]).groups()
            yield variable["name"], selector, label


def rules(file):
    return [rule for group in load(PROMETHEUS / file)["groups"] for rule in group["rules"]]


def rule_queries():
    for rule in rules("rules.yml") + rules("alerts.yml"):
        legend = " ".join(rule.get("annotations", {}).values())
        yield Query(rule.get("record") or rule["alert"], rule["expr"], legend)


def metrics():
    """Name -> labels, as a Prometheus has them that scrapes the server."""
    known = {"up": set()}
    for line in (ROOT / "tests/server/metrics.golden").read_text().splitlines():
        if line.startswith("#"):
            continue
        name, kind, *labels = line.split()
        labels = set(labels[0].split(",")) if labels else set()
        if kind == "histogram":
            known.update({name + "_bucket": labels | {"le"}, name + "_sum": labels, name + "_count": labels})
        else:
            known[name] = labels
    return {name: labels | {"job", "instance"} for name, labels in known.items()}
