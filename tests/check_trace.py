#!/usr/bin/env python3
"""Checks a timeline that /trace made: check_trace.py FILE [--overlap]

Events are well formed, slices and spans nest, stages lie within their requests, arrows are bound to slices. With
--overlap some lane must have been sent data while another of the same device computed. Prints one line of figures.
"""

import bisect
import collections
import json
import re
import sys

PHASES = set("MXbestfC")
OF_BATCHES = ("open", "queued", "running", "launch")


def fail(text, event=None):
    sys.exit(f"{sys.argv[1]}: {text}" + (f": {json.dumps(event)}" if event is not None else ""))


def nanoseconds(microseconds):
    return round(microseconds * 1000)


def check_event(event):
    phase = event.get("ph")
    if phase not in PHASES:
        fail("unknown phase", event)
    if not isinstance(event.get("name"), str) or not event["name"]:
        fail("no name", event)
    for key in ("pid", "tid"):
        if not isinstance(event.get(key), int) or event[key] < 0:
            fail(f"no {key}", event)
    for key in ("ts",) + (("dur",) if phase == "X" else ()):
        if not isinstance(event.get(key), (int, float)) or event[key] < 0:
            fail(f"no {key}", event)
    if phase in "be" and not isinstance(event.get("id2", {}).get("local"), str):
        fail("no id", event)
    if phase in "stf" and not re.fullmatch("0x[0-9a-f]+", event.get("id", "")):
        fail("no id that viewers read", event)
    if phase == "C" and not all(isinstance(value, (int, float)) for value in event["args"].values()):
        fail("a counter that is no number", event)


def check_slices(events):
    """Slices of a track lie one after the other or within one another. Returns them by track, as (begin, end, event)."""
    tracks = collections.defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            begin = nanoseconds(event["ts"])
            tracks[event["pid"], event["tid"]].append((begin, begin + nanoseconds(event["dur"]), event))
    for track in tracks.values():
        track.sort(key=lambda slice: (slice[0], -slice[1]))
        around = []
        for begin, end, event in track:
            while around and around[-1][0] <= begin:
                around.pop()
            if around and end > around[-1][0]:
                fail("a slice that ends after the one around it", event)
            if event["name"] in OF_BATCHES and not (around and around[-1][1].startswith("batch ")):
                fail("not within a batch", event)
            around.append((end, event["name"]))
    return tracks


def check_spans(events):
    """Spans of an id nest, and parts lie within their request. Returns the outermost spans by id, as (begin, end)."""
    by_id = collections.defaultdict(list)
    for event in events:
        if event["ph"] in "be":
            by_id[event["id2"]["local"]].append(event)
    spans = {}
    for identity, all_of_id in by_id.items():
        all_of_id.sort(key=lambda event: nanoseconds(event["ts"]))
        names = []
        for event in all_of_id:
            if event["ph"] == "b":
                names.append(event["name"])
            elif not names or names.pop() != event["name"]:
                fail("the end of another span", event)
            if not names and event is not all_of_id[-1]:
                fail("a stage outside its request", event)
        if names:
            fail("a span without an end", all_of_id[0])
        spans[identity] = (nanoseconds(all_of_id[0]["ts"]), nanoseconds(all_of_id[-1]["ts"]))
    for identity, (begin, end) in spans.items():
        request = identity.split(".")[0]
        if request not in spans:
            fail(f"{identity}: part of a request that is not there")
        if begin < spans[request][0] or end > spans[request][1]:
            fail(f"{identity}: a part that is not within its request")
    return spans


def covered(slices):
    """Where a track has slices: begins and ends, both rising."""
    begins, ends = [], []
    for begin, end, _ in slices:
        if not ends or begin > ends[-1]:
            begins.append(begin)
            ends.append(end)
        else:
            ends[-1] = max(ends[-1], end)
    return begins, ends


def check_flows(events, tracks):
    """Arrows have a start and an end, and all their points lie on slices. Returns them by name and id."""
    flows = collections.defaultdict(list)
    cover = {track: covered(slices) for track, slices in tracks.items()}
    for event in events:
        if event["ph"] in "stf":
            flows[event["name"], event["id"]].append(event)
            time = nanoseconds(event["ts"])
            begins, ends = cover.get((event["pid"], event["tid"]), ([], []))
            place = bisect.bisect_right(begins, time) - 1
            if place < 0 or time > ends[place]:
                fail("an arrow's point outside all slices", event)
    for points in flows.values():
        points.sort(key=lambda event: nanoseconds(event["ts"]))
        phases = "".join(event["ph"] for event in points)
        if not re.fullmatch("st*f", phases):
            fail(f"an arrow of points {phases}", points[0])
    return flows


def track_names(events, kind):
    return {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == kind}


def check_lanes(events, tracks):
    """Tracks of lanes have what their names say. Returns {device: {lane: {stage: [(begin, end)]}}}."""
    lanes = collections.defaultdict(lambda: collections.defaultdict(dict))
    for track, name in track_names(events, "thread_name").items():
        match = re.fullmatch(r"lane (\d+)(?: (\w+))?", name)
        if not match:
            continue
        stage = match.group(2)
        if stage is not None and any(event["name"] != stage for _, _, event in tracks[track]):
            fail(f"another stage on track {name}")
        if stage is not None:
            lanes[track[0]][match.group(1)][stage] = [(begin, end) for begin, end, _ in tracks[track]]
    return lanes


def count_overlaps(lanes):
    """How many transfers to one lane were under way while another of the same device computed."""
    count = 0
    for device in lanes.values():
        for lane, stages in device.items():
            others = [span for other, of_other in device.items() if other != lane for span in of_other["compute"]]
            for begin, end in stages["transfer_in"]:
                count += any(max(begin, b) < min(end, e) for b, e in others)
    return count


def main():
    arguments = [argument for argument in sys.argv[1:] if not argument.startswith("--")]
    options = set(sys.argv[1:]) - set(arguments)
    if len(arguments) != 1 or options - {"--overlap"}:
        sys.exit(__doc__)
    with open(arguments[0], encoding="utf-8") as file:
        trace = json.load(file)
    events = trace["traceEvents"]
    for event in events:
        check_event(event)
    named = {pid for pid, _ in track_names(events, "process_name")}
    for event in events:
        if event["pid"] not in named:
            fail("a process without a name", event)
    if len({tid for _, tid in track_names(events, "thread_name")}) != len(track_names(events, "thread_name")):
        fail("tracks of the same number")
    tracks = check_slices(events)
    spans = check_spans(events)
    flows = check_flows(events, tracks)
    lanes = check_lanes(events, tracks)
    overlaps = count_overlaps(lanes)
    if "--overlap" in options and overlaps == 0:
        fail("no lane was sent data while another computed")
    requests = sum("." not in identity for identity in spans)
    batches = {event["args"]["batch"] for track, slices in tracks.items() for _, _, event in slices
               if event["name"].startswith("batch ") and "requests" in event["args"]}
    print(f"trace ok: events={len(events)} requests={requests} batches={len(batches)} arrows={len(flows)} "
          f"lanes={sum(len(device) for device in lanes.values())} overlaps={overlaps} "
          f"dropped={trace['otherData']['dropped_records']}")


if __name__ == "__main__":
    main()
