#!/usr/bin/env python3
"""Asks a server on GPUs, under load, where its time goes; called by gpu_observe.sh, which starts it.

For requests of several sizes: that the stages add up to the request, and the answers to the four questions of
deploy/grafana/README.md, computed from two pages of metrics as Prometheus would compute them. Then a timeline, in which one lane must
have been sent data while another computed, and what NVML told. Exit status 1 when something is wrong.
"""

import argparse
import collections
import json
import pathlib
import re
import subprocess
import sys
import threading
import time
import urllib.request

PATIENCE_S = 60
STAGES_ARE_THE_REQUEST = 0.05  # of its time; there are moments between two stages
STAGES = ("queue", "pack", "launch", "transfer_in", "compute", "transfer_out", "reply")
# Rows of a call, calls in flight.
LOADS = ((1, 64), (1000, 32), (20000, 16), (100000, 8))
TRACED = (20000, 16)
GPU_GAUGES = ("utilization_ratio", "memory_used_bytes", "memory_bytes", "power_watts", "temperature_celsius", "clock_hertz",
              "pcie_bytes_per_second")

Page = collections.namedtuple("Page", "time samples")  # samples: {(name, labels): value}


class Server:
    def __init__(self, options):
        self.options = options
        self.failures = []

    def page(self):
        with urllib.request.urlopen(f"http://{self.options.http}/metrics", timeout=PATIENCE_S) as reply:
            text = reply.read().decode()
        samples = {}
        for line in text.splitlines():
            match = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line)
            if match:
                samples[match[1], frozenset(re.findall(r'(\w+)="([^"]*)"', match[2] or ""))] = float(match[3])
        return Page(time.monotonic(), samples)

    def load(self, rows, in_flight, seconds):
        connections = max(2, min(8, in_flight // 4))
        command = [self.options.widelane, "bench", "server", "--address", self.options.grpc, "--model", "text", "--profile", "text-54k",
                   "--rows", rows, "--concurrency", in_flight, "--connections", connections, "--threads", min(4, connections),
                   "--warm-up", 0, "--duration", seconds, "--json", "-"]
        done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, timeout=seconds + PATIENCE_S)
        if done.returncode != 0:
            self.fail(f"load of {rows} rows: {done.stderr.strip()}")
        return json.loads(done.stdout) if done.stdout else None

    def fail(self, what):
        self.failures.append(what)
        print(f"FAILED: {what}", flush=True)


def total(page, name, **labels):
    """Sum of the samples with these labels; a value may be a set of values."""
    wanted = {key: value if isinstance(value, set) else {value} for key, value in labels.items()}
    return sum(value for (sample, has), value in page.samples.items()
               if sample == name and all(dict(has).get(key) in values for key, values in wanted.items()))


def values(page, name, label):
    return sorted({dict(has)[label] for sample, has in page.samples if sample == name and label in dict(has)})


def ratio(of, to):
    return of / to if to else 0.0


def answers(before, after):
    """The four of them, and the stages of a mean request in microseconds."""

    def grown(name, **labels):
        return total(after, name, **labels) - total(before, name, **labels)

    request = "widelane_request_stage_duration_seconds"
    batch = "widelane_stage_duration_seconds"
    devices = values(after, "widelane_device_busy_seconds_total", "device")
    requests = grown(f"{request}_count", stage="reply")
    seconds = after.time - before.time
    return {
        "requests": requests,
        "stages_us": {stage: 1e6 * ratio(grown(f"{request}_sum", stage=stage), requests) for stage in STAGES},
        "sum_of_stages": ratio(grown(f"{request}_sum"), grown("widelane_request_duration_seconds_sum", method="Score")),
        "transfer_share": ratio(grown(f"{request}_sum", stage={"transfer_in", "transfer_out"}), grown(f"{request}_sum")),
        "overhead_us": 1e6 * ratio(grown(f"{request}_sum", stage={"pack", "launch", "reply"}), requests),
        "busy": {device: grown("widelane_device_busy_seconds_total", device=device) / seconds for device in devices},
        "launch_us": {device: 1e6 * ratio(grown(f"{batch}_sum", stage="launch", device=device),
                                          grown(f"{batch}_count", stage="launch", device=device)) for device in devices},
        "bytes_in_per_s": {device: grown("widelane_device_bytes_total", device=device, direction="in") / seconds for device in devices},
        "batch_rows": ratio(grown("widelane_batch_rows_sum"), grown("widelane_batch_rows_count")),
    }


def check_sizes(server, seconds):
    """A table of answers, a line for each size."""
    found = {}
    for rows, in_flight in LOADS:
        server.load(rows, in_flight, 1)  # warm-up
        before = server.page()
        report = server.load(rows, in_flight, seconds)
        after = server.page()
        answer = answers(before, after)
        answer["in_flight"] = in_flight
        answer["rows_per_s"] = report["rows_per_s"] if report else 0
        answer["gpu_utilization"] = {device: total(after, "widelane_gpu_utilization_ratio", device=device)
                                     for device in values(after, "widelane_gpu_utilization_ratio", "device")}
        found[rows] = answer
        if abs(answer["sum_of_stages"] - 1) > STAGES_ARE_THE_REQUEST:
            server.fail(f"{rows} rows: the stages add up to {answer['sum_of_stages']:.3f} of the requests' time")
    print("| rows a call | in flight | rows/s | " + " | ".join(STAGES) + " | sum | transfer | overhead us | GPU busy | NVML | launch us |")
    print("|---" * (len(STAGES) + 9) + "|")
    for rows, answer in found.items():
        gpus = [device for device in answer["busy"] if device != "cpu"]
        most = max(gpus, key=lambda device: answer["busy"][device], default=None)
        print(f"| {rows:,} | {answer['in_flight']} | {answer['rows_per_s']:,.0f} | "
              + " | ".join(f"{answer['stages_us'][stage]:,.1f}" for stage in STAGES)
              + f" | {answer['sum_of_stages']:.3f} | {answer['transfer_share']:.1%} | {answer['overhead_us']:,.1f} "
              f"| {answer['busy'].get(most, 0):.1%} | {answer['gpu_utilization'].get(most, 0):.0%} | {answer['launch_us'].get(most, 0):.1f} |")
    return found


def record(server, out):
    """A timeline of the traced load, and a page of metrics in the middle of it."""
    trace = out / "trace.json"
    loading = threading.Thread(target=server.load, args=(*TRACED, 5))
    loading.start()
    time.sleep(2.5)
    page = server.page()
    subprocess.run([server.options.widelane, "trace", "--http", server.options.http, "--seconds", "0.5", "--output", trace], check=False,
                   timeout=PATIENCE_S)
    loading.join()
    checker = pathlib.Path(__file__).parent / "check_trace.py"
    if subprocess.run([sys.executable, checker, trace, "--overlap"], check=False).returncode != 0:
        server.fail("the timeline")
    return page


def check_telemetry(server, page):
    """What NVML told of each GPU that serves, under load."""
    gpus = [device for device in values(page, "widelane_device_info", "device") if device != "cpu"]
    if not gpus:
        server.fail("there is no GPU")
    for gpu in gpus:
        if total(page, "widelane_gpu_telemetry_up", device=gpu) != 1:
            server.fail(f"no telemetry of {gpu}")
        told = {gauge: total(page, f"widelane_gpu_{gauge}", device=gpu) for gauge in GPU_GAUGES}
        print(f"{gpu}: " + ", ".join(f"{gauge} {value:,.4g}" for gauge, value in told.items()))
        for gauge, value in told.items():
            if value <= 0 and gauge != "pcie_bytes_per_second":
                server.fail(f"widelane_gpu_{gauge} of {gpu} is {value}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--widelane", required=True, help="the command")
    parser.add_argument("--grpc", required=True, help="the server's addresses; its model `text` is of text-54k")
    parser.add_argument("--http", required=True)
    parser.add_argument("--out", required=True, type=pathlib.Path, help="folder for observed.json and trace.json")
    parser.add_argument("--seconds", type=float, default=4, help="of each load")
    options = parser.parse_args()
    server = Server(options)
    observed = {"sizes": check_sizes(server, options.seconds)}
    page = record(server, options.out)
    check_telemetry(server, page)
    observed["failures"] = server.failures
    (options.out / "observed.json").write_text(json.dumps(observed, indent=2) + "\n")
    if not server.failures:
        print("observe ok")
    return 1 if server.failures else 0


if __name__ == "__main__":
    sys.exit(main())
