#!/usr/bin/env python3
"""Asks a server on GPUs, under load, where its time goes; called by gpu_observe.sh, which starts it.

For requests of several sizes: that the stages add up to the request, and the answers to the four questions of
deploy/grafana/README.md, computed from two pages of metrics as Prometheus would compute them. Then a timeline, in which one lane must
have been sent data while another computed, and what NVML told. Exit status 1 when something is wrong.
"""

import argparse
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
MAY_BE_ZERO = ("utilization_ratio", "pcie_bytes_per_second")


class Server:
    def __init__(self, options):
        self.options = options
        self.failures = []

    def page(self):
        """The samples of the page of metrics now, {(name, labels): value}."""
        with urllib.request.urlopen(f"http://{self.options.http}/metrics", timeout=PATIENCE_S) as reply:
            text = reply.read().decode()
        samples = {}
        for line in text.splitlines():
            match = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line)
            if match:
                samples[match[1], frozenset(re.findall(r'(\w+)="([^"]*)"', match[2] or ""))] = float(match[3])
        return samples

    def load(self, rows, in_flight, seconds):
        connections = max(2, min(8, in_flight // 4))
        command = [self.options.widelane, "bench", "server", "--address", self.options.grpc, "--model", "text", "--profile", "text-54k",
                   "--rows", rows, "--concurrency", in_flight, "--connections", connections, "--threads", min(4, connections),
                   "--warm-up", 0, "--duration", seconds, "--json", "-"]
        try:
            done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, timeout=seconds + PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.fail(f"load of {rows} rows: it does not end")
            return None
        report = json.loads(done.stdout) if done.stdout else None
        if done.returncode != 0 or report is None or report["errors"]:
            self.fail(f"load of {rows} rows: {done.stderr.strip()} {report['errors'] if report else ''}")
            return None
        return report

    def wait_for_load(self):
        """Until rows are scored; the client first makes them."""
        before = total(self.page(), "widelane_rows_total")
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            if total(self.page(), "widelane_rows_total") > before:
                return
            time.sleep(0.05)
        self.fail("no load within a minute")

    def fail(self, what):
        self.failures.append(what)
        print(f"FAILED: {what}", flush=True)


def total(page, name, **labels):
    """Sum of the samples with these labels; a value may be a set of values."""
    wanted = {key: value if isinstance(value, set) else {value} for key, value in labels.items()}
    return sum(value for (sample, has), value in page.items()
               if sample == name and all(dict(has).get(key) in values for key, values in wanted.items()))


def there(page, name, device):
    return any(sample == name and dict(has).get("device") == device for sample, has in page)


def values(page, name, label):
    return sorted({dict(has)[label] for sample, has in page if sample == name and label in dict(has)})


def ratio(of, to):
    return of / to if to else 0.0


def answers(before, after, seconds):
    """The four of them, and the stages of a mean request in microseconds; `seconds` of load lie between the pages."""

    def grown(name, **labels):
        return total(after, name, **labels) - total(before, name, **labels)

    request = "widelane_request_stage_duration_seconds"
    batch = "widelane_stage_duration_seconds"
    devices = values(after, "widelane_device_busy_seconds_total", "device")
    requests = grown(f"{request}_count", stage="reply")
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
        "device_failures": grown("widelane_device_failures_total"),
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
        if report is None:
            continue
        answer = answers(before, after, report["calls"] / report["calls_per_s"])
        answer["in_flight"] = in_flight
        answer["rows_per_s"] = report["rows_per_s"]
        answer["gpu_utilization"] = {device: total(after, "widelane_gpu_utilization_ratio", device=device)
                                     for device in values(after, "widelane_gpu_utilization_ratio", "device")}
        found[rows] = answer
        if abs(answer["sum_of_stages"] - 1) > STAGES_ARE_THE_REQUEST:
            server.fail(f"{rows} rows: the stages add up to {answer['sum_of_stages']:.3f} of the requests' time")
        if answer["device_failures"] > 0 or not any(answer["bytes_in_per_s"][device] > 0 for device in answer["busy"] if device != "cpu"):
            server.fail(f"{rows} rows: no GPU, or a failing one, scored them")
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
    loading = threading.Thread(target=server.load, args=(*TRACED, 6))
    loading.start()
    server.wait_for_load()
    time.sleep(2.5)  # NVML is asked once a second, and tells what was in the second before
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
        told = {gauge: total(page, f"widelane_gpu_{gauge}", device=gpu) for gauge in GPU_GAUGES
                if there(page, f"widelane_gpu_{gauge}", gpu)}
        print(f"{gpu}: " + ", ".join(f"{gauge} {value:,.4g}" for gauge, value in told.items()))
        for gauge in GPU_GAUGES:
            # A GPU that is busy for less than a hundredth of the time has a utilization of 0.
            if told.get(gauge, 0) <= 0 and not (gauge in told and gauge in MAY_BE_ZERO):
                server.fail(f"widelane_gpu_{gauge} of {gpu}: {told.get(gauge, 'absent')}")


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
