#!/usr/bin/env python3
"""Measures the engine beside its peers in one run, and says which of the project's aims are reached.

    compare.py --bin build/release/bin [--out compare.json] [--only crossover,plain] [--rounds 2] [--seconds 400] [--quick]

Runs `widelane bench engine` and `cpu_bench` from --bin, and PyTorch and scipy where they are installed; needs numpy. Ours and theirs
take turns, --rounds times; of the rounds the quickest median counts, on both sides. Prints the table of tests/bench/README.md and writes
everything measured as JSON, from which plot.py draws. A part that would begin after --seconds is left out. Exit status 0 whatever the
ratios are; 1 when something could not be run.
"""

import argparse
import datetime
import json
import os
import platform
import signal
import subprocess
import sys
import time

try:
    import made_rows
    import peers
except ModuleNotFoundError as missing:
    sys.exit(f"compare.py: needs Python's {missing.name} (on Debian python3-{missing.name})")
from table import Table

CROSSOVER_ROWS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000, 200000]
SMALL_ROWS = [1, 8, 64, 512, 4096]
GIB = 1 << 30


def log(text):
    print(f"{time.strftime('%H:%M:%S')}  {text}", file=sys.stderr, flush=True)


class Comparison:
    def __init__(self, options):
        self.options = options
        self.rounds = 1 if options.quick else options.rounds
        self.table = Table()
        self.result = {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
                       "machine": {"cpu": cpu_name(), "cores": len(os.sched_getaffinity(0)), "system": platform.platform()},
                       "runs": [], "crossover": {}, "problems": []}
        self.gpus = count_gpus()
        self.result["machine"]["gpus"] = self.gpus

    # Ours

    def bench(self, backends, rows, *arguments, profile="text-54k"):
        """{backend: {rows: result}} of one run; a backend that is left out is missing."""
        if self.gpus == 0:
            backends = [name for name in backends if name in ("cpu", "auto")]
        if not backends:
            return {}
        command = [os.path.join(self.options.bin, "widelane"), "bench", "engine", "--profile", profile,
                   "--rows", ",".join(map(str, rows)), "--backend", ",".join(backends), "--json", "-", *arguments]
        log(" ".join(command[1:]))
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=240, check=False)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip() or f"widelane ended with {done.returncode}")
        run = json.loads(done.stdout)
        run["arguments"] = command[1:]
        self.result["runs"].append(run)
        found = {}
        for backend in run["backends"]:
            if "left_out" in backend:
                log(f"{backend['name']}: left out, {backend['left_out']}")
            else:
                if backend["device_failures"]:
                    self.result["problems"].append(f"{' '.join(command[1:])}: a GPU failed, the CPU scored in its place")
                found[backend["name"]] = {result["rows"]: result for result in backend["results"]}
                found[backend["name"]]["memory"] = backend["memory"]
        return found

    def rounds_of(self, ours, theirs):
        """The quickest median of both over all rounds: ({backend: {rows: result}}, {name: us})."""
        best, peer_times = {}, {}
        for _ in range(self.rounds):
            for backend, results in ours().items():
                for rows, result in results.items():
                    kept = best.setdefault(backend, {}).get(rows)
                    if kept is None or (rows != "memory" and result["median_us"] < kept["median_us"]):
                        best[backend][rows] = result
            for name, time_us in theirs().items():
                peer_times[name] = min(time_us, peer_times.get(name, time_us))
        return best, peer_times

    # Theirs

    def torch_times(self, rows, entries_per_row, features, outputs=1, best=0, dtype="float32", which=("cpu", "pinned", "pageable")):
        """{"cpu": us, ...}, without what is not there."""
        if not peers.has_torch():
            return {}
        log(f"PyTorch: {rows} rows x {entries_per_row}, {features} x {outputs} {dtype}, {', '.join(which)}")
        inputs = made_rows.make_inputs(rows, entries_per_row, features)
        times = {}
        if "cpu" in which:
            times["cpu"] = peers.torch_cpu(inputs, peers.make_weights(features, outputs), best)
        if peers.has_gpu():
            weights = peers.make_weights(features, outputs, dtype, "cuda")
            for kind in ("pinned", "pageable"):
                if kind in which:
                    times[kind] = peers.torch_gpu(inputs, weights, best, kind == "pinned")
        return times

    # The parts

    def crossover(self):
        backends = ["cpu", "gpu", "auto"] + (["gpus"] if self.gpus > 1 else [])
        all_rows = CROSSOVER_ROWS[::4] if self.options.quick else CROSSOVER_ROWS

        def theirs():
            return {(kind, rows): us for rows in all_rows for kind, us in self.torch_times(rows, 40, 54000).items()}

        ours, torch = self.rounds_of(lambda: self.bench(backends, all_rows), theirs)
        for backend in backends:
            if backend in ours:
                self.result["crossover"][backend] = [[rows, ours[backend][rows]["median_us"]] for rows in all_rows]
        for kind, name in (("cpu", "torch_cpu"), ("pinned", "torch_gpu_pinned"), ("pageable", "torch_gpu_pageable")):
            if (kind, all_rows[0]) in torch:
                self.result["crossover"][name] = [[rows, torch[kind, rows]] for rows in all_rows]
        if peers.has_scipy():
            self.result["scipy_200000_us"] = peers.scipy_cpu(made_rows.make_inputs(200000, 40, 54000)[:3], zeros(54000))
        if "gpu" in ours:
            largest = ours["gpu"][200000]
            if "bus" in largest:
                self.table.add("200,000 rows, packed slab to scores, GPU; the bus alone", largest["median_us"],
                               largest["bus"]["in_us"], 0.9)
            self.table.add("200,000 rows, packed slab to scores, GPU; PyTorch pinned", largest["median_us"],
                           torch.get(("pinned", 200000)), 3.4)
        for rows, needed in ((10, 5), (100, 5), (1000, 3), (10000, 3)):
            if rows in ours["auto"]:
                of_torch = [torch[kind, rows] for kind in ("cpu", "pinned", "pageable") if (kind, rows) in torch]
                self.table.add(f"{rows:,} rows, auto; the best of PyTorch", ours["auto"][rows]["median_us"],
                               min(of_torch, default=None), needed)
        self.add_auto(ours, all_rows, "40", 0.95)

    def add_auto(self, ours, all_rows, entries, needed):
        if "gpu" not in ours:
            return
        for rows in all_rows:
            better = min(ours["cpu"][rows]["median_us"], ours["gpu"][rows]["median_us"])
            self.table.add(f"{rows:,} rows x {entries}, auto; the better of CPU and GPU", ours["auto"][rows]["median_us"], better, needed)

    def small(self):
        """CASES: the default must not lose to either at any of these sizes."""
        ours, _ = self.rounds_of(lambda: self.bench(["cpu", "gpu", "auto"], SMALL_ROWS, "--entries-per-row", "20"), dict)
        self.add_auto(ours, SMALL_ROWS, "20", 1 / 1.2)

    def plain(self):
        ours, torch = self.rounds_of(lambda: self.bench(["auto"], [200000], "--plain"),
                                     lambda: self.torch_times(200000, 40, 54000, which=("pageable",)))
        self.table.add("200,000 rows, plain CSR arrays, auto; PyTorch pageable", ours["auto"][200000]["median_us"],
                       torch.get("pageable"), 3)

    def kernel(self):
        """Kernels alone, results in device memory: ours from kernel_bench, cuSPARSE's from the compute stage."""
        if self.gpus == 0:
            return
        for what, name, features, needed in (("54k features", "54k zipf 200k x 40", 54000, 1.5),
                                             ("100M features", "100M zipf 200k x 40", 100000000, 1)):
            theirs, ours = self.rounds_of(
                lambda f=features: self.bench(["cusparse"], [200000], "--features", str(f), "--route", "copied"),
                lambda n=name: self.kernel_times(n))
            if "cusparse" in theirs:
                self.table.add(f"kernel, {what}, 200,000 rows; cuSPARSE SpMV", ours[name],
                               theirs["cusparse"][200000]["stages_us"].get("compute"), needed)

    def kernel_times(self, name):
        """{name: median in us} of one case of kernel_bench."""
        done = subprocess.run([os.path.join(self.options.bin, "kernel_bench"), "time", name], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=120, check=False)
        for line in done.stdout.splitlines():
            if line.startswith(name + "  "):
                return {name: float(line[len(name):].split()[0])}
        raise RuntimeError(f"kernel_bench says nothing of '{name}': {done.stdout[-300:]}")

    def add_kernel(self, what, ours, rows, needed):
        if "gpu" in ours:
            theirs = ours["cusparse"][rows]["stages_us"].get("compute") if "cusparse" in ours else None
            self.table.add(what, ours["gpu"][rows]["stages_us"].get("compute"), theirs, needed)

    def labels_1k(self):
        def theirs():
            times = self.torch_times(10000, 40, 54000, 1000, 10, which=("pinned", "pageable"))
            times.update(self.torch_times(10000, 40, 54000, 1000, 0, which=("cpu",)))
            return times

        ours, torch = self.rounds_of(lambda: self.bench(["gpu"], [10000], profile="labels-1k"), theirs)
        if "gpu" in ours:
            time_us = ours["gpu"][10000]["median_us"]
            self.table.add("labels-1k, 10,000 rows, top 10, GPU; PyTorch's bag + topk, pinned", time_us, torch.get("pinned"), 3)
            self.table.add("labels-1k, 10,000 rows, top 10, GPU; PyTorch's bag on all cores, no topk", time_us, torch.get("cpu"), 25)

    def labels_10k(self):
        ours, torch = self.rounds_of(
            lambda: self.bench(["gpu"], [1024], profile="labels-10k"),
            lambda: self.torch_times(1024, 64, 100000, 10000, 10, "float16", ("pinned",)))
        if "gpu" in ours:
            self.table.add("labels-10k, 1,024 rows, top 10, float16, GPU; PyTorch's bag + topk, pinned",
                           ours["gpu"][1024]["median_us"], torch.get("pinned"), 4)
        ours, _ = self.rounds_of(lambda: self.bench(["gpu", "cusparse"], [1024], "--route", "copied", "--lane-bytes", str(GIB),
                                                    profile="labels-10k"), dict)
        self.add_kernel("labels-10k, kernel with top 10; cuSPARSE SpMM without", ours, 1024, 1.5)

    def two_gpus(self):
        if self.gpus < 2:
            log("two GPUs: left out, there are none")
            return
        for profile, rows in (("text-54k", 1000000), ("labels-1k", 100000)):
            ours, _ = self.rounds_of(lambda p=profile, r=rows: self.bench(["gpu", "gpus"], [r], profile=p), dict)
            if "gpus" in ours:
                self.table.add(f"{profile}, {rows:,} rows, {self.gpus} GPUs; one GPU", ours["gpus"][rows]["median_us"],
                               ours["gpu"][rows]["median_us"], 1.9)

    def core(self):
        """One core against a plain float loop; cpu_bench measures both, in turns."""
        command = [os.path.join(self.options.bin, "cpu_bench"), str(self.result["machine"]["cores"]), "54000"]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=180, check=False)
        self.result["cpu_bench"] = done.stdout.splitlines()
        if done.returncode != 0:
            raise RuntimeError(f"cpu_bench ended with {done.returncode}: {done.stdout[-500:]}")
        for line in self.result["cpu_bench"]:
            if line.startswith("one_core"):
                _, features, draw, link, exact, plain, _ = line.split()
                self.table.add(f"one core, {features} features, {draw}, {link}, an entry; a plain float loop", float(exact), float(plain),
                               0.8, "ns")

    def billion(self):
        for draw, arguments in (("Zipf", ()), ("even draws", ("--zipf", "uniform"))):
            ours = self.bench(["cpu", "gpu"], [10000], *arguments, profile="1B")
            if "gpu" in ours:
                self.table.add(f"1B features, 10,000 rows x 100, {draw}, GPU; all cores", ours["gpu"][10000]["median_us"],
                               ours["cpu"][10000]["median_us"], 8)

    def memory(self):
        """With small slabs, and before PyTorch takes its share of the GPU. What is left of the host's memory still holds slabs, lanes and
        the driver's part; of the device's the driver's own and its context."""
        for backend in ("gpu", "cpu"):
            found = self.bench([backend], [1000]).get(backend)
            if found is None:
                continue
            memory = found["memory"]
            self.table.add_bytes(f"{backend}: host memory beyond weights", memory["host_peak"] - memory["host_before"], GIB)
            if memory["gpus"]:
                kept = memory["gpus"] * (memory["weights"] + memory["lanes_on_gpu"] * memory["lane_bytes"])
                self.table.add_bytes(f"{backend}: device memory beyond weights and lanes", memory["device_loaded"] - kept, GIB)
            return

    def run(self):
        begin = time.monotonic()
        for name in PARTS:
            if self.options.only and name not in self.options.only:
                continue
            start = time.monotonic()
            if start - begin > self.options.seconds:
                self.result["problems"].append(f"{name}: left out, no time was left")
                continue
            try:
                PARTS[name](self)
            except (RuntimeError, OSError, subprocess.TimeoutExpired, json.JSONDecodeError, KeyError) as error:
                self.result["problems"].append(f"{name}: {error!r}")
                log(f"{name}: FAILED: {error!r}")
            log(f"{name}: {time.monotonic() - start:.0f} s")
            self.save()

    def save(self):
        """After each part: what is measured is kept if a later part is killed."""
        self.result["versions"] = peers.versions()
        self.result["table"] = self.table.rows
        if self.options.out:
            with open(self.options.out, "w", encoding="utf-8") as file:
                json.dump(self.result, file, indent=1)


# In this order.
PARTS = {"memory": Comparison.memory, "crossover": Comparison.crossover, "small": Comparison.small, "plain": Comparison.plain, "kernel": Comparison.kernel,
         "labels-1k": Comparison.labels_1k, "labels-10k": Comparison.labels_10k, "two-gpus": Comparison.two_gpus,
         "core": Comparison.core, "1B": Comparison.billion}


def zeros(features):
    import numpy
    return numpy.zeros(features, numpy.float32)


def cpu_name():
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as info:
            return next((line.split(":", 1)[1].strip() for line in info if line.startswith("model name")), "")
    except OSError:
        return ""


def count_gpus():
    try:
        done = subprocess.run(["nvidia-smi", "-L"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=60, check=False)
        return sum(line.startswith("GPU ") for line in done.stdout.splitlines())
    except (OSError, subprocess.TimeoutExpired):
        return 0


def parse(arguments):
    parser = argparse.ArgumentParser(description="Measures the engine beside its peers in one run.")
    parser.add_argument("--bin", required=True, help="folder of widelane and cpu_bench")
    parser.add_argument("--out", help="file for the JSON")
    parser.add_argument("--only", type=lambda text: text.split(","), help=f"some of: {', '.join(PARTS)}")
    parser.add_argument("--rounds", type=int, default=2, help="turns of ours and theirs (default 2)")
    parser.add_argument("--seconds", type=float, default=3600, help="no part begins later (default 3600)")
    parser.add_argument("--quick", action="store_true", help="one round, fewer sizes")
    options = parser.parse_args(arguments)
    for name in options.only or ():
        if name not in PARTS:
            parser.error(f"there is no part '{name}'; there are {', '.join(PARTS)}")
    return options


def main():
    options = parse(sys.argv[1:])
    comparison = Comparison(options)
    # Whoever stops it early still gets the table so far.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        comparison.run()
    finally:
        print(comparison.table.text())
        for problem in comparison.result["problems"]:
            print(f"FAILED: {problem}")
        comparison.save()
    return 1 if comparison.result["problems"] else 0


if __name__ == "__main__":
    sys.exit(main())
