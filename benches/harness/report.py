"""From samples to figures: medians, spread, ratios taken within one round, and the page."""

from statistics import median

GIB, MIB = 1 << 30, 1 << 20

# Of each figure: what the page calls it, and how it follows from a sample.
FIGURES = {
    "gb_s": ("GB/s", lambda s: s["bytes"] / 1e9 / s["seconds"]),
    "requests_s": ("requests/s", lambda s: s["requests"] / s["seconds"]),
    "cpu_s_gib": ("CPU-seconds a GiB", lambda s: s["cpu_seconds"] * GIB / s["bytes"]),
    "cpu_us_request": ("CPU µs a request", lambda s: s["cpu_seconds"] / s["requests"] * 1e6),
    "p50_us": ("p50 µs", lambda s: s.get("latency_p50_us")),
    "p99_us": ("p99 µs", lambda s: s.get("latency_p99_us")),
    "server_cpu_s_gib": ("server CPU-s a GiB", lambda s: per_gib(s, "server_cpu_seconds")),
    "server_busy": ("server busy", lambda s: s.get("server_busy")),
    "connections": ("connections", lambda s: s.get("connections")),
    "peak_mib": ("peak MiB", lambda s: s["peak_memory"] / MIB),
    "grown_mib": ("grown MiB", lambda s: s["grown_memory"] / MIB),
}
# The two figures that a case is about. More is better of the first, unless it is a latency; less of the second.
MAIN = {
    "large": ("gb_s", "cpu_s_gib"),
    "small": ("requests_s", "cpu_us_request"),
    "latency": ("p50_us", "cpu_us_request"),
}
REST = {
    "large": ("server_cpu_s_gib", "server_busy", "requests_s", "cpu_us_request", "p50_us", "p99_us", "connections", "peak_mib", "grown_mib"),
    "small": ("server_busy", "gb_s", "cpu_s_gib", "p50_us", "p99_us", "connections", "peak_mib", "grown_mib"),
    "latency": ("p99_us", "requests_s", "connections", "peak_mib", "grown_mib"),
}
# Who a client is set against: the best of this kind in the same case.
REFERENCES = {"large": ("raw", "kvikio"), "small": ("raw", "kvikio"), "latency": ("easy", "kvikio")}
NAMES = {"raw": "raw", "kvikio": "KvikIO", "easy": "easy handle"}
LESS_IS_BETTER = ("p50_us", "p99_us", "cpu_s_gib", "cpu_us_request", "connections", "peak_mib", "grown_mib")


def per_gib(sample, what):
    return sample[what] * GIB / sample["bytes"] if what in sample else None


def summarise(samples, clients):
    """For each client of one case, in order: every figure, by round, with median and spread.

    A round's figure is the median of its repetitions. `clients` is a map from label to the client's settings.
    """
    rounds = {}
    for sample in samples:
        rounds.setdefault(sample["label"], {}).setdefault(sample["round"], []).append(sample)
    rows = []
    for label, by_round in rounds.items():
        row = {"label": label, "kind": clients[label]["kind"], "client": clients[label]}
        for figure, (_, of) in FIGURES.items():
            values = {number: [of(sample) for sample in reps] for number, reps in by_round.items()}
            known = {number: median(reps) for number, reps in values.items() if None not in reps}
            row[figure] = spread(known) if known else None
        rows.append(row)
    return rows


def spread(by_round):
    values = list(by_round.values())
    return {"median": median(values), "min": min(values), "max": max(values), "by_round": by_round}


def best(rows, kind, figure):
    """The row of this kind with the best median; None if there is none."""
    known = [row for row in rows if row["kind"] == kind and row[figure]]
    choose = min if figure in LESS_IS_BETTER else max
    return choose(known, key=lambda row: row[figure]["median"], default=None)


def ratio(mine, other, figure):
    """How many times `other`'s figure `mine` is: a spread of the ratios within one round, as the machine's mood changes
    between rounds. None without a round in common."""
    if not (mine and other and mine[figure] and other[figure]):
        return None
    theirs = other[figure]["by_round"]
    common = {n: value / theirs[n] for n, value in mine[figure]["by_round"].items() if theirs.get(n)}
    return spread(common) if common else None


def brief(sample, mode):
    """One sample in a few words."""
    values = [(FIGURES[figure][1](sample), FIGURES[figure][0]) for figure in MAIN[mode]]
    return ", ".join(f"{number(value)} {unit}" for value, unit in values if value is not None)


def markdown(result, summary):
    """The report as a page, the targets first."""
    machine, settings = result["machine"], result["settings"]
    versions = ", ".join(sorted(set(result["versions"].values())))
    about = (
        f"{machine['cpus']} CPUs ({machine['cpu']}), Linux {machine['kernel']}, {machine['nginx']} on loopback, "
        f"{settings['rounds']} interleaved rounds in {settings['minutes_taken']:.1f} minutes, {machine['date']}, "
        f"RaskIO at commit {machine['commit']}. {versions}."
    )
    legend = (
        "Client and server share the machine: compare ratios within one table, not figures across machines. Figures "
        "are medians, with (least–most) over the rounds. `×` is a ratio within one round, its median over the rounds, "
        "against the best client of that kind in the table: speed above 1 is faster, CPU and latency below 1 are "
        "better. A latency is that of a request from being sent to its last byte; for RaskIO and KvikIO it is known "
        "only where reads are submitted one by one or as others end. Connections are nginx's count for a whole "
        "process, warm-up included. Server busy is the share of the time that nginx's workers were on a CPU: near 1 the server is "
        "the bound. Peak is the most resident memory without the destination, program and interpreter "
        "included; grown is what came after the first read began."
    )
    loads = [sample["load"] for case in result["cases"] for sample in case["samples"]]
    lines = ["# Benchmark", "", about, "", legend]
    if loads:
        lines += ["", f"Load of the machine (1 minute) before a run: {min(loads):.1f} to {max(loads):.1f}."]
    for kind, reason in result["missing"].items():
        lines += ["", f"Not measured: {kind}: {reason}"]
    lines += ["", *summary]
    for case in result["cases"]:
        lines += ["", f"## {case['name']}: {case['title']}", "", *table(case)]
        for failure in case["failures"]:
            lines += ["", f"Failed: {failure['label']}, round {failure['round']}: {failure['reason']}"]
    if result["idle"]:
        lines += ["", f"## idle: open after a read, no work, {settings['idle_seconds']} s", ""]
        lines += ["| client | wake-ups a minute | CPU ms a minute |", "|---|---:|---:|"]
        lines += [
            f"| {row['label']} | {row['wakeups_a_minute']:.0f} | {row['cpu_ms_a_minute']:.2f} |"
            for row in result["idle"]
        ]
    return "\n".join(lines) + "\n"


def table(case):
    main, rest, references = MAIN[case["mode"]], REST[case["mode"]], REFERENCES[case["mode"]]
    heads = ["client", *(FIGURES[figure][0] for figure in (*main, *rest))]
    compared = [(kind, figure) for kind in references for figure in main if best(case["rows"], kind, figure)]
    words = ("speed" if case["mode"] != "latency" else "p50", "CPU")
    heads += [f"{words[main.index(figure)]} × {NAMES[kind]}" for kind, figure in compared]
    yield f"| {' | '.join(heads)} |"
    yield "|---|" + "---:|" * (len(heads) - 1)
    for row in case["rows"]:
        cells = [row["label"], *(shown(row[figure]) for figure in main)]
        cells += [shown_median(row[figure]) for figure in rest]
        cells += [shown_median(ratio(row, best(case["rows"], kind, figure), figure), 2) for kind, figure in compared]
        yield f"| {' | '.join(cells)} |"


def shown(spread):
    if spread is None:
        return "–"
    return f"{number(spread['median'])} ({number(spread['min'])}–{number(spread['max'])})"


def shown_median(spread, digits=None):
    if spread is None:
        return "–"
    return number(spread["median"]) if digits is None else f"{spread['median']:.{digits}f}"


def number(value):
    if value >= 1 and float(value).is_integer():
        return f"{value:,.0f}"
    for least, digits in ((100, 0), (10, 1), (1, 2)):
        if value >= least:
            return f"{value:,.{digits}f}"
    return "0" if value == 0 else f"{value:.3f}"
