"""The table of what must be reached: ours, theirs, how many times faster ours is, how many times it must be."""


class Table:
    def __init__(self):
        self.rows = []

    def add(self, what, ours, theirs, needed, unit="us"):
        """Times; theirs is None where the peer is not there."""
        ratio = theirs / ours if ours and theirs else None
        self.rows.append({"what": what, "unit": unit, "ours": ours, "theirs": theirs, "ratio": ratio, "needed": needed,
                          "reached": None if ratio is None else ratio >= needed})

    def add_bytes(self, what, ours, limit):
        self.rows.append({"what": what, "unit": "MiB", "ours": ours / 2**20, "theirs": limit / 2**20,
                          "ratio": limit / max(ours, 1), "needed": 1, "reached": ours <= limit})

    def text(self):
        """Markdown."""
        lines = ["| what; against what | ours | theirs | ratio | needed | reached |", "|---|---|---|---|---|---|"]
        for row in self.rows:
            cells = [row["what"], _number(row["ours"], row["unit"]), _number(row["theirs"], row["unit"]), _ratio(row["ratio"]),
                     _ratio(row["needed"]), {True: "yes", False: "**no**", None: "-"}[row["reached"]]]
            lines.append(f"| {' | '.join(cells)} |")
        return "\n".join(lines)


def _number(value, unit):
    if value is None:
        return "-"
    return f"{value:,.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"


def _ratio(value):
    return "-" if value is None else f"{value:.2f}"
