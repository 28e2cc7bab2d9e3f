#!/usr/bin/env python3
"""Draws the time of a call against its rows from compare.py's JSON, as an SVG that people can read in both senses.

    plot.py compare.json crossover.svg

Needs nothing but Python. Both axes are logarithmic. Colours follow the reader's light or dark scheme.
"""

import json
import math
import sys

WIDTH, HEIGHT = 780, 460
LEFT, RIGHT, TOP, BOTTOM = 70, 170, 50, 50
# Name in the JSON: what the reader sees, colour on light, colour on dark, dashes.
SERIES = {
    "auto": ("Widelane auto", "#0b6e4f", "#4ade9f", ""),
    "cpu": ("Widelane CPU", "#1f5fbf", "#7fb0ff", ""),
    "gpu": ("Widelane GPU", "#b3261e", "#ff8a80", ""),
    "gpus": ("Widelane GPUs", "#7a3e9d", "#cf9bf0", ""),
    "torch_cpu": ("PyTorch CPU", "#1f5fbf", "#7fb0ff", "6 4"),
    "torch_gpu_pinned": ("PyTorch GPU, pinned", "#b3261e", "#ff8a80", "6 4"),
    "torch_gpu_pageable": ("PyTorch GPU, pageable", "#b3261e", "#ff8a80", "2 3"),
}
LABEL_HEIGHT = 15


class Axis:
    """Whole decades around `values`, from pixel `begin` to pixel `end`."""

    def __init__(self, values, begin, end):
        self.low = math.floor(math.log10(min(values)))
        self.high = max(self.low + 1, math.ceil(math.log10(max(values)) - 1e-9))
        self.begin, self.end = begin, end

    def at(self, value):
        share = (math.log10(value) - self.low) / (self.high - self.low)
        return self.begin + share * (self.end - self.begin)

    def decades(self):
        return [10.0**power for power in range(self.low, self.high + 1)]


def style():
    light, dark = [], []
    for name, (_, on_light, on_dark, dashes) in SERIES.items():
        dash = f" stroke-dasharray: {dashes};" if dashes else ""
        light.append(f"    .{name} {{ stroke: {on_light}; fill: {on_light};{dash} }}")
        dark.append(f"      .{name} {{ stroke: {on_dark}; fill: {on_dark}; }}")
    return "\n".join([
        "  <style>",
        "    text { font: 13px sans-serif; fill: #222; stroke: none; }",
        "    .title { font-size: 15px; font-weight: bold; }",
        "    .grid { stroke: #d5d5d5; stroke-width: 1; }",
        "    .line { fill: none; stroke-width: 2; stroke-linejoin: round; }",
        *light,
        "    polyline.line { fill: none; }",
        "    .label { stroke: none; }",
        "    @media (prefers-color-scheme: dark) {",
        "      text { fill: #ddd; }",
        "      .grid { stroke: #444; }",
        *dark,
        "      polyline.line { fill: none; }",
        "      .label { stroke: none; }",
        "    }",
        "  </style>"])


def grid(x_axis, y_axis):
    lines = []
    for rows in x_axis.decades():
        x = x_axis.at(rows)
        lines.append(f'  <line class="grid" x1="{x:.0f}" y1="{TOP}" x2="{x:.0f}" y2="{HEIGHT - BOTTOM}"/>')
        lines.append(f'  <text x="{x:.0f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{rows:,.0f}</text>')
    for time_us in y_axis.decades():
        y = y_axis.at(time_us)
        lines.append(f'  <line class="grid" x1="{LEFT}" y1="{y:.0f}" x2="{WIDTH - RIGHT}" y2="{y:.0f}"/>')
        lines.append(f'  <text x="{LEFT - 8}" y="{y + 4:.0f}" text-anchor="end">{duration(time_us)}</text>')
    lines.append(f'  <text x="{(LEFT + WIDTH - RIGHT) / 2:.0f}" y="{HEIGHT - 10}" text-anchor="middle">rows a call</text>')
    return "\n".join(lines)


def duration(time_us):
    for unit, size in (("s", 1e6), ("ms", 1e3)):
        if time_us >= size:
            return f"{time_us / size:g} {unit}"
    return f"{time_us:g} us"


def spread(ends):
    """Moves labels down where they would overlap: [(y, name)] in, {name: y} out."""
    placed, last = {}, -math.inf
    for y, name in sorted(ends):
        last = max(y, last + LABEL_HEIGHT)
        placed[name] = last
    return placed


def draw(crossover, title):
    names = [name for name in SERIES if crossover.get(name)]
    points = [point for name in names for point in crossover[name]]
    x_axis = Axis([rows for rows, _ in points], LEFT, WIDTH - RIGHT)
    y_axis = Axis([time_us for _, time_us in points], HEIGHT - BOTTOM, TOP)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img">',
             f"  <title>{title}</title>", style(), f'  <text class="title" x="{LEFT}" y="24">{title}</text>', grid(x_axis, y_axis)]
    labels = spread([(y_axis.at(crossover[name][-1][1]), name) for name in names])
    # What matters most is drawn last, and so on top.
    for name in reversed(names):
        line = " ".join(f"{x_axis.at(rows):.1f},{y_axis.at(time_us):.1f}" for rows, time_us in crossover[name])
        end = x_axis.at(crossover[name][-1][0])
        parts.append(f'  <polyline class="line {name}" points="{line}"/>')
        parts.append(f'  <text class="label {name}" x="{end + 8:.0f}" y="{labels[name] + 4:.0f}">{SERIES[name][0]}</text>')
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


def title_of(result):
    gpus = sorted(set(result.get("versions", {}).get("gpus", [])))
    where = ", ".join([*gpus, f"{result['machine']['cores']} cores"])
    return f"Time of a call: 54,000 features, 40 a row ({escape(where)}, {result['date'][:10]})"


def escape(text):
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: plot.py compare.json crossover.svg")
    with open(sys.argv[1], encoding="utf-8") as file:
        result = json.load(file)
    if not any(result["crossover"].get(name) for name in SERIES):
        sys.exit(f"plot.py: {sys.argv[1]} has no crossover")
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write(draw(result["crossover"], title_of(result)))


if __name__ == "__main__":
    main()
