#!/usr/bin/env python3
"""A real Prometheus scrapes a server under load, and is asked what people would ask it.

    prometheus_test.py FOLDER-OF-PROGRAMS
"""

import contextlib
import math
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import live
import promql
import queries

MODEL = "text"
CALLERS = 2
LOAD_S = 3
MOST_ROWS = 200000  # of a request
# Of the request; there are moments between two stages.
STAGES_ARE_THE_REQUEST = 0.05


def load(*arguments, duration_s=LOAD_S):
    return live_server.bench(
        "--model", MODEL, "--concurrency", str(CALLERS), "--warm-up", "0", "--duration", str(duration_s), *arguments
    )


def counters():
    """What the server counted until now, as Prometheus has it."""
    prometheus.wait_for_scrape()
    return {
        "requests": prometheus.value('sum(widelane_requests_total{method="Score", code="OK"})'),
        "rows": prometheus.value("sum(widelane_rows_total)"),
        "observed": prometheus.value('sum(widelane_request_duration_seconds_count{method="Score"})'),
        "seconds": prometheus.value('sum(widelane_request_duration_seconds_sum{method="Score"})'),
        "replies": prometheus.value('sum(widelane_request_stage_duration_seconds_count{stage="reply"})'),
        "in stages": prometheus.value("sum(widelane_request_stage_duration_seconds_sum)"),
        "bytes in": prometheus.value('widelane_message_bytes_total{direction="in"}'),
    }


def may_be_empty(query):
    """There is no GPU in this test: its gauges are absent, and so are copies to it and launches of batches on it."""
    of_batches = "widelane_stage_duration_seconds" in query
    return "widelane_gpu_" in query or "transfer_" in query or (of_batches and 'stage="launch"' in query)


class Loads(unittest.TestCase):
    """First, while all requests are good ones of one size. In order of name: the sizes, then what was recorded of them."""

    def check(self, rows):
        before = counters()
        report = load("--rows", str(rows))
        after = counters()
        grown = {name: after[name] - before[name] for name in before}
        self.assertEqual(report["errors"], {})
        # Calls under way when the time is over are answered, and not counted by the caller.
        self.assertGreater(report["calls"], 0)
        self.assertGreaterEqual(grown["requests"], report["calls"])
        self.assertLessEqual(grown["requests"], report["calls"] + CALLERS)
        self.assertEqual(grown["rows"], grown["requests"] * rows)
        self.assertEqual(grown["observed"], grown["requests"])
        self.assertEqual(grown["replies"], grown["requests"])
        self.assertGreater(grown["bytes in"], grown["rows"] * report["profile"]["entries_per_row"])
        share = grown["in stages"] / grown["seconds"]
        self.assertAlmostEqual(share, 1, delta=STAGES_ARE_THE_REQUEST)

    def test_1_row(self):
        self.check(1)

    def test_1_thousand_rows(self):
        self.check(1000)

    def test_100_thousand_rows(self):
        self.check(100000)

    def test_the_first_picture_adds_up(self):
        """What the dashboard stacks is what a request takes."""
        prometheus.wait_for_scrape()
        (picture, *_) = queries.dashboard()["panels"]
        stages = [prometheus.query(promql.with_values(target["expr"])) for target in picture["targets"]]
        total = sum(values[0][1] for values in stages if values)
        scored = "rate(widelane_request_duration_seconds_{}{{method='Score'}}[5m])"
        mean = prometheus.value(f"{scored.format('sum')} / {scored.format('count')}")
        self.assertAlmostEqual(total / mean, 1, delta=STAGES_ARE_THE_REQUEST)

    def test_the_recorded_stages_add_up(self):
        prometheus.wait_for_scrape()
        shares = prometheus.value("sum(instance_stage:widelane_request_stage_duration_seconds:share_rate5m)")
        self.assertAlmostEqual(shares, 1, places=6)


class Questions(unittest.TestCase):
    """Then, when there has been something of everything."""

    @classmethod
    def setUpClass(cls):
        load("--stream", duration_s=1)
        load("--rows", str(MOST_ROWS + 1), duration_s=1)  # refused
        subprocess.run(
            [live_server.programs / "widelane", "models", "--address", live_server.address],
            check=True,
            stdout=subprocess.DEVNULL,
            timeout=live.PATIENCE_S,
        )
        for _ in range(2):  # a rate needs two
            prometheus.wait_for_scrape()

    def check(self, query):
        result = prometheus.query(promql.with_values(query.expr))
        if not may_be_empty(query.expr):
            self.assertTrue(any(not math.isnan(value) for _, value in result), f"{query.where}: {query.expr}: {result}")

    def test_every_panel(self):
        for query in queries.dashboard_queries():
            if query.where.startswith("panel"):
                with self.subTest(query.where):
                    self.check(query)

    def test_every_variable(self):
        for name, selector, label in queries.variable_queries():
            with self.subTest(name):
                values = prometheus.get(f"label/{label}/values", **{"match[]": promql.with_values(selector)})
                self.assertTrue(values)

    def test_every_record(self):
        for rule in queries.rules("rules.yml"):
            with self.subTest(rule["record"]):
                self.check(queries.Query("record", rule["record"]))

    def test_rules_are_well_and_nobody_is_called(self):
        groups = prometheus.get("rules")["groups"]
        rules = [rule for group in groups for rule in group["rules"]]
        self.assertEqual(len(rules), len(queries.rules("rules.yml")) + len(queries.rules("alerts.yml")))
        self.assertEqual([rule["name"] for rule in rules if rule["health"] != "ok"], [])
        firing = [alert["labels"] for alert in prometheus.get("alerts")["alerts"] if alert["state"] == "firing"]
        self.assertEqual(firing, [])

    def test_what_was_refused_is_counted_by_its_limit(self):
        refused = prometheus.query("widelane_refused_total > 0")
        self.assertEqual([labels["reason"] for labels, _ in refused], ["max-request-rows"])
        exhausted = prometheus.value('sum(widelane_requests_total{code="RESOURCE_EXHAUSTED"})')
        self.assertEqual(refused[0][1], exhausted)

    @unittest.skipUnless(shutil.which("promtool"), "promtool is not installed")
    def test_the_page_is_as_promtool_wants_it(self):
        page = live.get(live_server.http_address, "/metrics")
        done = subprocess.run(["promtool", "check", "metrics"], input=page, capture_output=True, timeout=live.PATIENCE_S)
        self.assertEqual(done.returncode, 0, done.stderr.decode())


def start(stack, programs):
    folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
    model = folder / f"{MODEL}.safetensors"
    command = [pathlib.Path(programs) / "widelane", "bench", "model", "--profile", "text-54k", model]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=live.PATIENCE_S)
    options = ["--model", f"{MODEL}={model}", "--devices", "cpu", "--max-request-rows", str(MOST_ROWS)]
    server = live.Server(stack, programs, folder, options)
    return server, live.Prometheus(stack, folder, server.http_address)


if __name__ == "__main__":
    if not shutil.which("prometheus"):
        print("SKIPPED: prometheus is not installed")
        sys.exit(queries.SKIPPED)
    with contextlib.ExitStack() as processes:
        live_server, prometheus = start(processes, sys.argv[1])
        tests = unittest.TestSuite(map(unittest.defaultTestLoader.loadTestsFromTestCase, (Loads, Questions)))
        passed = unittest.TextTestRunner(verbosity=2).run(tests).wasSuccessful()
    sys.exit(not passed)
