"""Plots of a result. Run by the interpreter that has matplotlib: plots.py RESULT.json FOLDER NAME

Prints the paths of what it drew. A picture a group of cases: bars are medians, whiskers the least and the most.
"""

import json
import sys
from pathlib import Path

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot  # noqa: E402

COLOURS = {
    "raw": "#9a9a9a",
    "curl": "#6f8fb3",
    "easy": "#6f8fb3",
    "kvikio": "#d2903c",
    "raskio": "#2f7d4f",
    "awscrt": "#a9799c",
    "boto3": "#a9799c",
    "object_store": "#b5654a",
}
LEGEND = {
    "raskio": "RaskIO",
    "kvikio": "KvikIO",
    "raw": "raw recv loop",
    "curl": "bare libcurl",
    "object_store": "object_store (Rust)",
    "awscrt": "S3 clients",
}
# Picture, title, and which cases it shows.
PICTURES = (
    (
        "large",
        "Large reads, warm",
        lambda case: case["mode"] == "large" and case["shape"] == "one" and not case["cold"],
    ),
    ("small", "Small reads, warm", lambda case: case["mode"] == "small"),
    ("cold", "First read of a fresh process, and 100 objects", lambda case: case["cold"] or case["shape"] == "mix"),
    ("latency", "One 1-byte read after the other", lambda case: case["mode"] == "latency"),
)
# Figure and name of each panel, per mode.
PANELS = {
    "large": (("gb_s", "GB/s"), ("cpu_s_gib", "CPU-seconds a GiB"), ("peak_mib", "peak memory, MiB")),
    "small": (("requests_s", "requests/s"), ("cpu_us_request", "CPU µs a request"), ("peak_mib", "peak memory, MiB")),
    "latency": (("p50_us", "median, µs"), ("p99_us", "p99, µs"), ("cpu_us_request", "CPU µs a request")),
}


def draw(cases, title, path):
    heights = [len(case["rows"]) for case in cases]
    pyplot.rcParams.update(
        {
            "font.size": 9,
            "font.family": ["DejaVu Sans", "sans-serif"],
            "svg.fonttype": "none",  # text stays text: a quarter of the size, and it can be searched
            "svg.hashsalt": "raskio",
            "axes.spines.top": False,
            "axes.spines.right": False,
        }
    )
    figure, axes = pyplot.subplots(
        len(cases),
        3,
        figsize=(14, 0.27 * sum(heights) + 1.0 * len(cases) + 0.9),
        gridspec_kw={"height_ratios": heights, "width_ratios": (4, 3, 3)},
        squeeze=False,
        layout="constrained",
    )
    for panels, case in zip(axes, cases, strict=True):
        places = range(len(case["rows"]))
        colours = [COLOURS[row["kind"]] for row in case["rows"]]
        for axis, (figure_name, unit) in zip(panels, PANELS[case["mode"]], strict=True):
            spreads = [row[figure_name] or {"median": 0, "min": 0, "max": 0} for row in case["rows"]]
            middle = [spread["median"] for spread in spreads]
            whiskers = [
                [spread["median"] - spread["min"] for spread in spreads],
                [spread["max"] - spread["median"] for spread in spreads],
            ]
            style = {"linewidth": 1, "ecolor": "#333333"}
            axis.barh(places, middle, xerr=whiskers, color=colours, error_kw=style, height=0.75)
            axis.set_yticks(places, [row["label"] for row in case["rows"]] if axis is panels[0] else [])
            axis.tick_params(axis="y", length=0)
            axis.invert_yaxis()
            axis.margins(y=0.01)
            axis.set_xlim(left=0)
            axis.set_xlabel(unit)
            axis.grid(axis="x", linewidth=0.4, color="#cccccc")
            axis.set_axisbelow(True)
        panels[0].set_title(case["title"], loc="left", fontsize=10, fontweight="bold", x=0)
    present = {COLOURS[row["kind"]] for case in cases for row in case["rows"]}
    names = {COLOURS[kind]: name for kind, name in LEGEND.items() if COLOURS[kind] in present}
    handles = [pyplot.Rectangle((0, 0), 1, 1, color=colour) for colour in names]
    figure.legend(handles, names.values(), loc="outside upper right", ncols=len(names), frameon=False)
    figure.suptitle(title, x=0.01, ha="left", fontsize=13, fontweight="bold")
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def main(source, folder, name):
    with open(source) as file:
        result = json.load(file)
    for picture, title, shows in PICTURES:
        cases = [case for case in result["cases"] if case["rows"] and shows(case)]
        if cases:
            path = Path(folder) / f"{name}-{picture}.svg"
            draw(cases, title, path)
            print(path)


if __name__ == "__main__":
    main(*sys.argv[1:])
