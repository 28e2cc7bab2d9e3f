#!/usr/bin/env python3
"""What the metrics cost: the same load on servers that differ only in what they count.

BIN_DIR holds widelane and widelane-server: build/release/bin, or bin/ of a bundle. What follows `--` goes to all servers
in place of `--route inline`, without which each might choose its own way. A server without metrics takes turns with each
variant (off on, on off, off on, ...); the figures are medians of the ratios of such neighbours. `off again` is a second
server without metrics: how far its ratio is from 1 is what this machine cannot tell apart. Exit status 0 whatever the
ratios are, 1 when a load failed.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

READY_TIMEOUT_S = 300
LOADS = {"calls": "unary, 1 row", "stream": "streams, 1 row", "rows": "unary, 1,000 rows"}
# Which server each is measured on.
VARIANTS = {"off again": "off again", "on": "on", "triton": "triton", "scraped": "on", "traced": "on"}
SERVERS = {"off": ["--metrics", "false"], "off again": ["--metrics", "false"], "on": [], "triton": ["--triton-metrics", "true"]}


class Server:
    def __init__(self, binary, arguments, log_path):
        self.log_path = log_path
        with open(log_path, "wb") as log:
            command = [binary, "--grpc-address", "127.0.0.1:0", "--http-address", "127.0.0.1:0", *arguments]
            self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + READY_TIMEOUT_S
        while self.after("ready:") is None:
            if self.process.poll() is not None or time.monotonic() > deadline:
                with open(log_path, encoding="utf-8") as log:
                    sys.exit(f"{log.read()}\nmetrics_cost.py: the server ended, or was not ready in time")
            time.sleep(0.1)
        self.grpc = self.after("serving gRPC on ")
        self.http = self.after("serving HTTP on ")

    def after(self, text):
        """What stands behind `text` in the log; None: it has not been written."""
        with open(self.log_path, encoding="utf-8") as log:
            return next((line.split(text, 1)[1].strip() for line in log if text in line), None)

    def cpu_ns(self):
        return time.clock_gettime_ns((~self.process.pid << 3) | 2)  # clock_getcpuclockid(3) of Linux

    def get(self, path):
        with urllib.request.urlopen(f"http://{self.http}{path}", timeout=60) as reply:
            reply.read()

    def stop(self):
        self.process.terminate()
        self.process.wait()


class Beside:
    """What goes on during the load of a variant: nothing, a scrape a second, or a timeline that is recorded."""

    def __init__(self, variant, server, seconds):
        self.stopped = threading.Event()
        what = {"scraped": self.scrape, "traced": self.trace}.get(variant)
        self.thread = threading.Thread(target=what, args=(server, seconds)) if what else None

    def scrape(self, server, _):
        while True:
            server.get("/metrics")
            if self.stopped.wait(1):
                return

    def trace(self, server, seconds):
        server.get(f"/trace?seconds={seconds}")

    def __enter__(self):
        if self.thread:
            self.thread.start()

    def __exit__(self, *_):
        self.stopped.set()
        if self.thread:
            self.thread.join()


class MetricsCost:
    def __init__(self, options, servers):
        self.options = options
        self.servers = servers
        cores = len(os.sched_getaffinity(0))
        connections = max(2, cores // 2)
        common = ["--connections", connections, "--threads", max(1, cores // 4)]
        many = [*common, "--rows", 1, "--concurrency", 128 if cores < 8 else 512]
        self.arguments = {"calls": many, "stream": [*many, "--stream", "--streams", connections],
                          "rows": [*common, "--rows", 1000, "--concurrency", 4 * cores]}
        self.result = {"cores": cores, "seconds": options.seconds, "rounds": options.rounds, "server_arguments": options.server,
                       "load_average_before": os.getloadavg(), "pairs": []}

    def measure(self, load, variant):
        """(calls a second, microseconds of the server's CPU time a call)"""
        server = self.servers[VARIANTS.get(variant, "off")]
        command = [os.path.join(self.options.bin, "widelane"), "bench", "server", "--address", server.grpc, "--model", "text-54k", "--profile",
                   "text-54k", "--duration", str(self.options.seconds), "--warm-up", "0", "--json", "-", *map(str, self.arguments[load])]
        with Beside(variant, server, self.options.seconds):
            before = server.cpu_ns()
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False,
                                  timeout=self.options.seconds * 2 + 120)
            cpu_ns = server.cpu_ns() - before
        if done.returncode != 0:
            sys.exit(f"metrics_cost.py: {' '.join(command[1:])}: {done.stderr.strip()}")
        report = json.loads(done.stdout)
        if report["errors"]:
            sys.exit(f"metrics_cost.py: {load}, {variant}: {report['errors']}, {report['first_error']}")
        return report["calls_per_s"], cpu_ns * 1e-3 / report["calls"]

    def compare(self, load, variant):
        pairs = []
        for turn in range(self.options.rounds):
            found = {name: self.measure(load, name) for name in (("off", variant) if turn % 2 == 0 else (variant, "off"))}
            pairs.append({"load": load, "variant": variant, "off": found["off"], "with": found[variant]})
            print(f"{load:7} {variant:10}" + "".join(f"  {name}: {rate:9,.0f} calls/s {cpu:8,.2f} us" for name, (rate, cpu) in found.items()),
                  file=sys.stderr, flush=True)
        self.result["pairs"] += pairs
        cells = [LOADS[load], variant]
        for figure, form in ((0, "{:,.0f}"), (1, "{:,.2f}")):
            ratios = [pair["with"][figure] / pair["off"][figure] for pair in pairs]
            cells += [form.format(statistics.median(pair[side][figure] for pair in pairs)) for side in ("off", "with")]
            low, _, high = statistics.quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else 3 * ratios
            cells += [f"{statistics.median(ratios):.3f}", f"{low:.3f} to {high:.3f}"]
        return f"| {' | '.join(cells)} |"

    def run(self):
        for load in self.options.loads:  # what the first calls of a server find cold
            for name in self.servers:
                self.measure(load, name)
        table = [self.compare(load, variant) for load in self.options.loads for variant in self.options.variants]
        self.result["load_average_after"] = os.getloadavg()
        print("| load | variant | calls/s off | with | ratio | middle half | CPU us a call off | with | ratio | middle half |")
        print("|---|---|---|---|---|---|---|---|---|---|")
        print("\n".join(table))


def list_of(names):
    def read(text):
        unknown = [name for name in text.split(",") if name not in names]
        if unknown:
            raise argparse.ArgumentTypeError(f"there is no '{unknown[0]}'; there are {', '.join(names)}")
        return text.split(",")
    return read


def read_options():
    own, server = sys.argv[1:], ["--route", "inline"]
    if "--" in own:
        at = own.index("--")
        own, server = own[:at], own[at + 1:]
    parser = argparse.ArgumentParser(usage="%(prog)s [OPTION...] BIN_DIR [-- SERVER_ARGUMENT...]", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", metavar="BIN_DIR")
    parser.add_argument("--json", help="file to write")
    parser.add_argument("--seconds", type=float, default=0.5, help="of each measurement (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=15, help="turns that a variant takes with the server without metrics (default %(default)s)")
    parser.add_argument("--loads", type=list_of(LOADS), default=list(LOADS), help="any of " + ",".join(LOADS))
    parser.add_argument("--variants", type=list_of(VARIANTS), default=list(VARIANTS), help="any of " + ",".join(VARIANTS))
    options = parser.parse_args(own)
    options.server = server
    return options


def main():
    options = read_options()
    servers = {}
    with tempfile.TemporaryDirectory(prefix="widelane-metrics-cost.") as work:
        model = os.path.join(work, "text-54k.safetensors")
        subprocess.run([os.path.join(options.bin, "widelane"), "bench", "model", "--profile", "text-54k", model], check=True,
                       stdout=subprocess.DEVNULL)
        try:
            for name, arguments in SERVERS.items():
                if name != "off" and name not in [VARIANTS[variant] for variant in options.variants]:
                    continue
                servers[name] = Server(os.path.join(options.bin, "widelane-server"),
                                       ["--model", f"text-54k={model}", *arguments, *options.server], os.path.join(work, name))
            cost = MetricsCost(options, servers)
            cost.run()
        finally:
            for server in servers.values():
                server.stop()
    if options.json:
        with open(options.json, "w", encoding="utf-8") as out:
            json.dump(cost.result, out, indent=2)
            out.write("\n")


if __name__ == "__main__":
    main()
