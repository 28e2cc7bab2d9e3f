#!/usr/bin/env python3
"""Puts the same load on a server and on bare gRPC servers in turn, and compares; called by front_end.sh, which starts them.

The servers take turns, --rounds times; medians of the rounds are compared. Of several bare servers, which differ in form, the one that
is best at a part counts for it. Exit status 0 whatever the ratios are, 1 when a load
failed altogether, or was answered wrongly.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys

PARTS = ("calls", "rows", "alone", "stream", "context", "half")
# Ratio, what must be reached, whether less is better.
AIMS = {"calls_ratio": (0.9, False), "rows_ratio_1000": (0.9, False), "rows_ratio_100000": (0.9, False), "p50_over_echo_us": (20, True),
        "stream_over_unary": (2, False), "context_speedup": (4, False), "p99_half_load_ratio": (1.5, True)}
WHAT = {"calls_ratio": "calls a second, 1 row x 40, many at once; echo", "rows_ratio_1000": "rows a second, 1,000 rows a call; echo",
        "rows_ratio_100000": "rows a second, 100,000 rows a call; echo",
        "p50_over_echo_us": "p50 in us, one call at a time; echo (the difference)",
        "stream_over_unary": "1 row, requests a second on streams; calls a second",
        "context_speedup": "rank, candidates a second with context; written out",
        "p99_half_load_ratio": "p99 in us at half of the lesser capacity; echo"}


class FrontEnd:
    def __init__(self, options):
        self.options = options
        self.cores = len(os.sched_getaffinity(0))
        self.threads = max(1, self.cores // 4)
        # Calls of one row at once; on few cores more would only wait.
        self.many = 128 if self.cores < 8 else 512
        # Several on each completion queue of the server.
        self.connections = max(2, self.cores // 2)
        self.result = {"cores": self.cores, "seconds": options.seconds, "rounds": options.rounds, "echo_forms": {}, "runs": []}
        self.table = []

    def load(self, address, name, *arguments, profile="text-54k"):
        """The report of one `widelane bench server`."""
        command = [self.options.widelane, "bench", "server", "--address", address, "--model", profile, "--profile", profile,
                   "--duration", str(self.options.seconds), "--warm-up", str(min(1.0, self.options.seconds / 3)), "--json", "-",
                   *map(str, arguments)]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False,
                              timeout=self.options.seconds * 2 + 120)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command[1:])}: {done.stderr.strip()}")
        report = json.loads(done.stdout)
        report["server"] = name
        self.result["runs"].append(report)
        if report["errors"]:
            print(f"{name}: {report['errors']}, {report['first_error']}", file=sys.stderr)
        print(f"{name:7} {' '.join(map(str, arguments)):70} {report['calls_per_s']:11,.0f} calls/s {report['rows_per_s']:13,.0f} rows/s"
              f"  p50 {report['latency_us']['p50']:9,.0f}  p99 {report['latency_us']['p99']:9,.0f} us", file=sys.stderr, flush=True)
        return report

    def turns(self, loads, figure):
        """Median of `figure` over the rounds for each of [(address, name, arguments, profile)]."""
        found = [[] for _ in loads]
        for turn in range(self.options.rounds):
            order = list(range(len(loads)))
            for i in order if turn % 2 == 0 else reversed(order):
                address, name, arguments, profile = loads[i]
                found[i].append(figure(self.load(address, name, *arguments, profile=profile)))
        return [statistics.median(values) for values in found]

    def against_echo(self, key, rows, arguments, figure, best=max):
        """(ours, the best of the echoes)"""
        arguments = ["--rows", rows, *arguments]
        names = [f"echo {form}" for form in range(1, len(self.options.echo) + 1)]
        loads = [(self.options.ours, "ours", arguments, "text-54k")]
        loads += [(echo[rows], name, arguments, "text-54k") for name, echo in zip(names, self.options.echo)]
        ours, *echoes = self.turns(loads, figure)
        echo = best(echoes)
        self.result[key] = {"ours": ours, "echo": echo}
        self.result["echo_forms"][key] = names[echoes.index(echo)]
        return ours, echo

    def note(self, key, value, ours, theirs):
        self.result[key] = value
        aim, less = AIMS[key]
        reached = value <= aim if less else value >= aim
        self.table.append(f"| {WHAT[key]} | {ours:,.0f} | {theirs:,.0f} | {value:.2f} | {aim} | {'yes' if reached else '**no**'} |")

    def many_at_once(self):
        return ["--concurrency", self.many, "--connections", self.connections, "--threads", self.threads]

    def calls(self):
        ours, echo = self.against_echo("calls_per_s", 1, self.many_at_once(), lambda report: report["calls_per_s"])
        self.note("calls_ratio", ours / echo, ours, echo)

    def rows(self):
        for rows, concurrency in ((1000, 4 * self.cores), (100000, max(4, self.cores))):
            arguments = ["--concurrency", concurrency, "--connections", self.connections, "--threads", self.threads]
            ours, echo = self.against_echo(f"rows_per_s_{rows}", rows, arguments, lambda report: report["rows_per_s"])
            self.note(f"rows_ratio_{rows}", ours / echo, ours, echo)

    def alone(self):
        arguments = ["--concurrency", 1, "--connections", 1, "--threads", 1]
        ours, echo = self.against_echo("p50_us", 1, arguments, lambda report: report["latency_us"]["p50"], min)
        self.note("p50_over_echo_us", ours - echo, ours, echo)

    def stream(self):
        unary = ["--rows", 1, *self.many_at_once()]
        streamed = [*unary, "--stream", "--streams", self.connections]
        loads = [(self.options.ours, "ours", streamed, "text-54k"), (self.options.ours, "ours", unary, "text-54k")]
        stream, calls = self.turns(loads, lambda report: report["calls_per_s"])
        self.result["requests_per_s"] = {"stream": stream, "calls": calls}
        self.note("stream_over_unary", stream / calls, stream, calls)

    def context(self):
        # What can be answered: with few calls at once threads wait for the next and are woken, which costs as much as a small call.
        written = ["--rows", 500, "--concurrency", 8 * self.cores, "--connections", self.connections, "--threads", self.threads]
        loads = [(self.options.ours, "ours", [*written, "--context"], "rank"), (self.options.ours, "ours", written, "rank")]
        shared, written_out = self.turns(loads, lambda report: report["rows_per_s"])
        self.result["candidates_per_s"] = {"context": shared, "written_out": written_out}
        self.note("context_speedup", shared / written_out, shared, written_out)

    def half(self):
        capacity = self.result.get("calls_per_s")
        if capacity is None:
            print("half: needs calls", file=sys.stderr)
            return
        arguments = ["--rate", round(min(capacity.values()) / 2), "--concurrency", 4 * self.many, "--connections", self.connections,
                     "--threads", self.threads]
        ours, echo = self.against_echo("p99_half_load_us", 1, arguments, lambda report: report["latency_us"]["p99"], min)
        self.note("p99_half_load_ratio", ours / echo, ours, echo)

    def run(self):
        for part in PARTS:
            if part not in self.options.only:
                continue
            try:
                getattr(self, part)()
            except RuntimeError as problem:
                self.result.setdefault("problems", []).append(f"{part}: {problem}")
                print(f"front_end.py: {part}: {problem}", file=sys.stderr)
        print("| what; against what | ours | theirs | ratio | aim | reached |\n|---|---|---|---|---|---|")
        print("\n".join(self.table))
        return 1 if "problems" in self.result else 0


def parts_of(text):
    parts = text.split(",")
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        raise argparse.ArgumentTypeError(f"there is no part '{unknown[0]}'; there are {' '.join(PARTS)}")
    return parts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--widelane", required=True, help="the command")
    parser.add_argument("--ours", required=True, help="address of the server")
    parser.add_argument("--echo", required=True, action="append",
                        help="addresses of bare servers for 1, 1,000 and 100,000 rows a call, with commas; once for each form")
    parser.add_argument("--json", help="file to write")
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", type=parts_of, default=PARTS)
    options = parser.parse_args()
    options.echo = [dict(zip((1, 1000, 100000), addresses.split(","))) for addresses in options.echo]
    front_end = FrontEnd(options)
    status = front_end.run()
    if options.json:
        with open(options.json, "w", encoding="utf-8") as out:
            json.dump(front_end.result, out, indent=2)
            out.write("\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
