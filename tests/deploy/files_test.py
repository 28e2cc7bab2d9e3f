#!/usr/bin/env python3
"""The files of deploy/ agree with the server's metrics and with one another. Starts nothing but promtool."""

import re
import shutil
import subprocess
import unittest

import promql
import queries


def in_legend(text):
    """Labels that a legend or an annotation shows."""
    return set(re.findall(r"\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}", text))


class Names(unittest.TestCase):
    """Queries speak of nothing that is not there: such a query is no error, it is empty for ever."""

    def setUp(self):
        self.known = queries.metrics()
        for rule in queries.rules("rules.yml"):
            expression = promql.parse(rule["expr"])
            self.known[rule["record"]] = set().union(*(self.known.get(name, set()) for name in expression.metrics))

    def check(self, query):
        expression = promql.parse(query.expr)
        self.assertTrue(expression.metrics, f"{query.where}: no metric in {query.expr}")
        everything = set()
        for name, labels in expression.metrics.items():
            self.assertIn(name, self.known, f"{query.where}: {query.expr}")
            self.assertLessEqual(labels, self.known[name], f"{query.where}: {name} has no such label")
            everything |= self.known[name]
        shown = expression.grouping | in_legend(query.legend)
        self.assertLessEqual(shown, everything, f"{query.where}: no metric of it has such a label")

    def test_dashboard(self):
        for query in queries.dashboard_queries():
            with self.subTest(query.where):
                self.check(query)

    def test_variables(self):
        for name, selector, label in queries.variable_queries():
            with self.subTest(name):
                self.check(queries.Query(name, f"count by ({label}) ({selector})"))

    def test_rules(self):
        for query in queries.rule_queries():
            with self.subTest(query.where):
                self.check(query)

    def test_the_checker_finds_what_is_wrong(self):
        for wrong in (
            "rate(widelane_request_total[5m])",
            'widelane_ready{stage="queue"}',
            "sum by (stage) (widelane_ready)",
            "widelane_request_duration_seconds",
        ):
            with self.subTest(wrong), self.assertRaises(AssertionError):
                self.check(queries.Query("wrong", wrong))

    def test_every_metric_has_a_place(self):
        """In the dashboard or in a rule."""
        used = set()
        for query in [*queries.dashboard_queries(), *queries.rule_queries()]:
            used |= {re.sub("_(bucket|sum|count)$", "", name) for name in promql.parse(query.expr).metrics}
        used |= {promql.parse(selector).metrics.popitem()[0] for _, selector, _ in queries.variable_queries()}
        names = {re.sub("_(bucket|sum|count)$", "", name) for name in queries.metrics()}
        unused = {name for name in names - used if not name.startswith("nv_")}
        unused.discard("process_virtual_memory_bytes")  # says little: CUDA and threads reserve much and use none of it
        self.assertEqual(unused, set())


class Dashboard(unittest.TestCase):
    def test_every_panel_can_be_found_and_explains_itself(self):
        panels = queries.dashboard()["panels"]
        self.assertEqual(len({panel["id"] for panel in panels}), len(panels))
        self.assertEqual(len({panel["title"] for panel in panels}), len(panels))
        for panel in panels:
            if panel["type"] != "row":
                self.assertTrue(panel["description"], panel["title"])
                self.assertEqual(panel["datasource"]["uid"], "${datasource}", panel["title"])

    def test_panels_do_not_overlap(self):
        taken = set()
        for panel in queries.dashboard()["panels"]:
            at = panel["gridPos"]
            cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
            self.assertLessEqual(at["x"] + at["w"], 24, panel["title"])
            self.assertFalse(cells & taken, panel["title"])
            taken |= cells

    def test_its_readme_names_panels_that_exist(self):
        titles = {panel["title"] for panel in queries.dashboard()["panels"]}
        readme = (queries.ROOT / "deploy/grafana/README.md").read_text()
        for panel in re.findall(r"^\|[^|]*\| \*([^*]+)\*", readme, re.MULTILINE):
            self.assertIn(panel, titles)


class Alerts(unittest.TestCase):
    def test_each_has_a_runbook_and_is_tested(self):
        readme = (queries.PROMETHEUS / "README.md").read_text()
        tested = (queries.PROMETHEUS / "rules_test.yml").read_text()
        for rule in queries.rules("alerts.yml"):
            name = rule["alert"]
            with self.subTest(name):
                self.assertIn(f"\n### {name}\n", readme)
                self.assertEqual(rule["annotations"]["runbook"], f"deploy/prometheus/README.md, {name}")
                self.assertIn(rule["labels"]["severity"], ("critical", "warning"))
                self.assertRegex(tested, rf"{{alertname: {name}, eval_time: \w+, exp_alerts: \[\]}}")
                self.assertRegex(tested, rf"- alertname: {name}\n +eval_time: \w+\n +exp_alerts:\n +- exp_labels")

    def test_each_record_is_in_the_readme(self):
        readme = (queries.PROMETHEUS / "README.md").read_text()
        for rule in queries.rules("rules.yml"):
            # Percentiles share a line there.
            self.assertIn(rule["record"].replace(":p99_rate5m", ":p50_rate5m"), readme)


class Compose(unittest.TestCase):
    def setUp(self):
        self.folder = queries.ROOT / "deploy"
        self.services = queries.load("deploy/compose.yaml")["services"]

    def test_what_it_mounts_is_there(self):
        for service in self.services.values():
            for volume in service["volumes"]:
                if volume.startswith("./"):
                    self.assertTrue((self.folder / volume.split(":")[0]).exists(), volume)

    def test_services_find_one_another(self):
        for name, file in (
            ("widelane:8601", "prometheus/prometheus.yml"),
            ("prometheus:9090", "grafana/provisioning/datasources/prometheus.yml"),
        ):
            self.assertIn(name, (self.folder / file).read_text())
            self.assertIn(name.split(":")[0], self.services)

    def test_grafana_finds_its_dashboard(self):
        folder = "/etc/widelane/dashboards"
        grafana = self.services["grafana"]
        self.assertIn(f"./grafana/dashboards:{folder}:ro", grafana["volumes"])
        self.assertIn(f"path: {folder}\n", (self.folder / "grafana/provisioning/dashboards/widelane.yml").read_text())
        home = grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
        self.assertEqual(home, f"{folder}/{queries.DASHBOARD.name}")

    def test_gpus_are_given_to_a_service_that_exists(self):
        gpus = queries.load("deploy/compose.gpus.yaml")["services"]
        self.assertLessEqual(set(gpus), set(self.services))


@unittest.skipUnless(shutil.which("promtool"), "promtool is not installed")
class Promtool(unittest.TestCase):
    def run_promtool(self, *arguments):
        done = subprocess.run(["promtool", *arguments], cwd=queries.PROMETHEUS, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_config(self):
        self.run_promtool("check", "config", "prometheus.yml")

    def test_rules(self):
        self.run_promtool("test", "rules", "rules_test.yml")


if __name__ == "__main__":
    unittest.main(verbosity=2)
