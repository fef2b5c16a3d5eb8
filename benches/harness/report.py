"""From samples to figures: medians, spread, ratios taken within one round, a table and a plot."""

from statistics import median

GIB = 1 << 30


def figures(sample, mode):
    """Speed (more is better) and cost (less is better) of one sample, in the units of its table."""
    if mode == "small":
        return sample["requests"] / sample["seconds"], sample["cpu_seconds"] / sample["requests"] * 1e6
    return sample["bytes"] / 1e9 / sample["seconds"], sample["cpu_seconds"] * GIB / sample["bytes"]


UNITS = {
    "small": ("requests/s", "CPU µs a request"),
    "large": ("GB/s", "CPU-seconds a GiB"),
    "device": ("GB/s", "CPU-seconds a GiB"),
}


def summarise(samples, mode):
    """For each client label of one case, in order: per-round speed and cost, median and spread, and the ratios.

    A round's figure is the median of its repetitions. A ratio compares two clients within one round, as the machine's
    mood changes between rounds, and is the median of those; the reference is the best client of its kind.
    """
    rounds = {}
    for sample in samples:
        per_round = rounds.setdefault(sample["label"], {"kind": sample["kind"], "rounds": {}})["rounds"]
        per_round.setdefault(sample["round"], []).append(figures(sample, mode))
    rows = []
    for label, entry in rounds.items():
        speed = {n: median(s for s, _ in reps) for n, reps in entry["rounds"].items()}
        cost = {n: median(c for _, c in reps) for n, reps in entry["rounds"].items()}
        rows.append({"label": label, "kind": entry["kind"], "speed": spread(speed), "cost": spread(cost)})
    for row in rows:
        for kind in ("raw", "kvikio"):
            same = [other for other in rows if other["kind"] == kind]
            fastest = max(same, key=lambda other: other["speed"]["median"], default=None)
            cheapest = min(same, key=lambda other: other["cost"]["median"], default=None)
            row[f"speed_of_{kind}"] = ratio(row["speed"], fastest and fastest["speed"])
            row[f"cost_of_{kind}"] = ratio(row["cost"], cheapest and cheapest["cost"])
    return rows


def spread(by_round):
    values = list(by_round.values())
    return {"median": median(values), "min": min(values), "max": max(values), "by_round": by_round}


def ratio(mine, reference):
    """The median of the per-round ratios; None without a reference or a round in common."""
    if reference is None:
        return None
    common = [mine["by_round"][n] / reference["by_round"][n] for n in mine["by_round"] if reference["by_round"].get(n)]
    return median(common) if common else None


def markdown(result):
    """The report as a page."""
    machine = result["machine"]
    about = (
        f"{machine['cpus']} CPUs ({machine['cpu']}), Linux {machine['kernel']}, {machine['nginx']} on loopback, "
        f"{result['settings']['rounds']} interleaved rounds, {machine['date']}, RaskIO {machine['commit']}. "
        "Client and server share the machine: compare ratios within one table, not figures across machines."
    )
    legend = (
        "Median (least–most) over the rounds. `× raw` and `× KvikIO`: against the best raw and the best KvikIO client "
        "of the same table in the same round; speed above 1 is faster, CPU below 1 is cheaper."
    )
    lines = ["# Benchmark", "", about, "", legend]
    loads = [sample["load"] for case in result["cases"] for sample in case["samples"]]
    if loads:
        lines += ["", f"Load of the machine (1 minute) before a run: {min(loads):.1f} to {max(loads):.1f}."]
    for kind, reason in result["missing"].items():
        lines += ["", f"Not measured: {kind}: {reason}"]
    for case in result["cases"]:
        speed, cost = UNITS[case["mode"]]
        lines += [
            "",
            f"## {case['title']}",
            "",
            f"| client | {speed} | {cost} | speed × raw | CPU × raw | speed × KvikIO | CPU × KvikIO |",
            "|---|---|---|---|---|---|---|",
        ]
        for row in case["rows"]:
            ratios = [row[f"{what}_of_{kind}"] for kind in ("raw", "kvikio") for what in ("speed", "cost")]
            cells = [row["label"], shown(row["speed"]), shown(row["cost"]), *map(shown_ratio, ratios)]
            lines.append(f"| {' | '.join(cells)} |")
        for failure in case["failures"]:
            lines += ["", f"Failed: {failure['label']}, round {failure['round']}: {failure['reason']}"]
    return "\n".join(lines) + "\n"


def shown(spread):
    return f"{number(spread['median'])} ({number(spread['min'])}–{number(spread['max'])})"


def shown_ratio(value):
    return "–" if value is None else f"{value:.2f}"


def number(value):
    for least, digits in ((1000, 0), (10, 1), (1, 2)):
        if value >= least:
            return f"{value:,.{digits}f}"
    return f"{value:.3f}"


COLOURS = {"raw": "#9a9a9a", "curl": "#6f8fb3", "kvikio": "#d2903c", "raskio": "#2f7d4f"}


def plot(result, path):
    """Bars with the spread as whiskers; whether matplotlib was there to draw them."""
    try:
        import matplotlib
    except ImportError:
        return False
    matplotlib.use("svg")
    from matplotlib import pyplot

    cases = [case for case in result["cases"] if case["rows"]]
    if not cases:
        return False
    heights = [len(case["rows"]) for case in cases]
    figure, axes = pyplot.subplots(
        len(cases),
        2,
        figsize=(12, 0.36 * sum(heights) + 1.1 * len(cases)),
        gridspec_kw={"height_ratios": heights},
        squeeze=False,
        layout="constrained",
    )
    for (left, right), case in zip(axes, cases, strict=True):
        labels = [row["label"] for row in case["rows"]]
        for axis, what, unit in zip((left, right), ("speed", "cost"), UNITS[case["mode"]], strict=True):
            spreads = [row[what] for row in case["rows"]]
            middle = [spread["median"] for spread in spreads]
            whiskers = [
                [spread["median"] - spread["min"] for spread in spreads],
                [spread["max"] - spread["median"] for spread in spreads],
            ]
            colours = [COLOURS[row["kind"]] for row in case["rows"]]
            axis.barh(labels, middle, xerr=whiskers, color=colours, error_kw={"linewidth": 1})
            axis.invert_yaxis()
            axis.set_xlabel(unit)
        right.set_yticklabels([])
        left.set_title(case["title"], loc="left", fontsize=10)
    figure.savefig(path)
    return True
