#!/usr/bin/env python3
"""Draws what the lanes of GPUs did for some milliseconds of a timeline (widelane trace), as an SVG.

    draw_trace.py trace.json lanes.svg [MILLISECONDS]

Needs nothing but Python. Colours follow the reader's light or dark scheme.
"""

import json
import re
import sys

WIDTH, LEFT, RIGHT, TOP, BOTTOM = 860, 150, 30, 56, 30
TRACK, SLICE, GAP = 26, 18, 14  # pixels: a track's height, a slice's, between two lanes
STAGES = ("transfer_in", "compute", "transfer_out")
COLOURS = {"transfer_in": ("#1f5fbf", "#7fb0ff"), "compute": ("#0b6e4f", "#4ade9f"), "transfer_out": ("#7a3e9d", "#cf9bf0")}
TICKS = 5


def lanes_of(trace):
    """[(device, lane, {stage: [(begin, end)]})] in microseconds, of those that were sent something."""
    names, devices, found = {}, {}, {}
    for event in trace["traceEvents"]:
        if event["ph"] == "M" and event["name"] == "thread_name":
            names[event["pid"], event["tid"]] = event["args"]["name"]
        elif event["ph"] == "M" and event["name"] == "process_name":
            devices[event["pid"]] = event["args"]["name"]
    for event in trace["traceEvents"]:
        if event["ph"] != "X":
            continue
        match = re.fullmatch(r"lane (\d+) (\w+)", names.get((event["pid"], event["tid"]), ""))
        if match and match[2] in STAGES:
            stages = found.setdefault((devices[event["pid"]], int(match[1])), {stage: [] for stage in STAGES})
            stages[match[2]].append((event["ts"], event["ts"] + event["dur"]))
    return [(*lane, stages) for lane, stages in sorted(found.items())]


def style():
    def rules(scheme):
        return "\n".join(f"    .{stage} {{ fill: {colours[scheme]}; }}" for stage, colours in COLOURS.items())

    return f"""  <style>
    text {{ font: 13px sans-serif; fill: #222; }}
    .title {{ font-size: 15px; font-weight: bold; }}
    .grid {{ stroke: #d5d5d5; }}
{rules(0)}
    @media (prefers-color-scheme: dark) {{
      text {{ fill: #ddd; }}
      .grid {{ stroke: #444; }}
{rules(1)}
    }}
  </style>"""


def draw(lanes, begin, length):
    """An SVG of `length` microseconds from `begin`."""
    parts, y = [], TOP
    to_x = (WIDTH - LEFT - RIGHT) / length
    for device, lane, stages in lanes:
        for stage in STAGES:
            slices = [(max(b, begin), min(e, begin + length)) for b, e in stages[stage] if e > begin and b < begin + length]
            if stage == "transfer_out" and not stages[stage]:
                continue  # results that kernels write themselves
            parts.append(f'  <text x="{LEFT - 10}" y="{y + SLICE - 4}" text-anchor="end">lane {lane} {stage}</text>')
            for b, e in slices:
                parts.append(f'  <rect class="{stage}" x="{LEFT + (b - begin) * to_x:.2f}" y="{y}" '
                             f'width="{max((e - b) * to_x, 0.5):.2f}" height="{SLICE}"><title>{stage}, {e - b:.1f} us</title></rect>')
            y += TRACK
        y += GAP
    grid = []
    for tick in range(TICKS + 1):
        x = LEFT + (WIDTH - LEFT - RIGHT) * tick / TICKS
        grid.append(f'  <line class="grid" x1="{x:.1f}" y1="{TOP - 6}" x2="{x:.1f}" y2="{y}"/>')
        grid.append(f'  <text x="{x:.1f}" y="{y + 18}" text-anchor="middle">{length * tick / TICKS / 1000:g} ms</text>')
    names = ", ".join(sorted({device for device, _, _ in lanes}))
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + BOTTOM}" role="img">',
                      f"  <title>What the lanes of {names} did</title>", style(),
                      f'  <text class="title" x="{LEFT}" y="28">{names}</text>', *grid, *parts, "</svg>", ""])


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as file:
        lanes = lanes_of(json.load(file))
    copies = sorted(begin for _, _, stages in lanes for begin, _ in stages["transfer_in"])
    if not copies:
        sys.exit(f"{sys.argv[1]}: no lane was sent anything")
    length = 1000 * float(sys.argv[3]) if len(sys.argv) == 4 else 5000.0
    with open(sys.argv[2], "w", encoding="utf-8") as out:
        out.write(draw(lanes, copies[len(copies) // 2], length))


if __name__ == "__main__":
    main()
