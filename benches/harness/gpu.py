"""What a run on a GPU says: the figures that RaskIO has to reach there, and how the driver's calls cost."""

from . import report

# Label of a client in both tables of the h200 profile, without its product's name.
ONE = "MULTI_POLL, 1 reactor, 64 requests"
EIGHT = "MULTI_POLL, 8 reactors, 256 requests"


def targets(result):
    """The figures of benches/run.py's result beside what is wanted: (text, figure, wanted, reached), None if not measured."""
    cases = {case["name"]: {row["label"]: row for row in case["rows"]} for case in result["cases"]}
    device, host = cases.get("device", {}), cases.get("large", {})
    rows = []
    for name, label, speed, cost in (("1 reactor", ONE, 1.4, 0.75), ("8 reactors", EIGHT, 1.6, 0.65)):
        ours, theirs = device.get(f"RaskIO {label}"), device.get(f"KvikIO {label}")
        rows.append(at_least(f"device, {name}: speed of KvikIO's", ratio(ours, theirs, "speed"), speed))
        rows.append(at_most(f"device, {name}: CPU of KvikIO's", ratio(ours, theirs, "cost"), cost))
    best = {kind: fastest(device, kind) for kind in ("RaskIO", "KvikIO")}
    rows.append(at_least("device, best setting: speed of KvikIO's best", ratio(best["RaskIO"], best["KvikIO"], "speed"), 1.0))
    for label, row in device.items():
        if label.startswith("RaskIO"):
            same = host.get(label)
            rows.append(at_least(f"{label}: device speed of host speed", ratio(row, same, "speed"), 0.95))
    return rows


def ratio(mine, reference, what):
    return report.ratio(mine[what], reference[what]) if mine and reference else None


def fastest(rows, kind):
    same = [row for label, row in rows.items() if label.startswith(kind)]
    return max(same, key=lambda row: row["speed"]["median"], default=None)


def at_least(text, figure, wanted):
    return text, figure, f"≥ {wanted:g}", None if figure is None else figure >= wanted


def at_most(text, figure, wanted):
    return text, figure, f"≤ {wanted:g}", None if figure is None else figure <= wanted


def markdown(gpu, lines, result):
    """The page: tests, costs of calls, targets. The tables of speeds are run.py's own."""
    page = ["# Device reads on a GPU", "", gpu or "unknown GPU"]
    runs = [line for line in lines if "result" in line]
    if runs:
        failed = [line for line in runs if line["result"].startswith("FAILED")]
        skipped = [line for line in runs if line["result"] == "skipped"]
        page += ["", f"{len(runs) - len(failed) - len(skipped)} programs passed, {len(failed)} failed, {len(skipped)} skipped."]
        page += [f"- {line['what']} {line['name']}: {line['result']}" for line in failed]
    driver = {line["threads"]: line for line in lines if line["what"] == "driver events"}
    pool = {line["threads"]: line for line in lines if line["what"] == "event pool"}
    if driver:
        page += [
            "",
            "| threads | pool get + return, ns | cuEventCreate + cuEventDestroy, ns | record, ns | query, ns |",
            "|---|---|---|---|---|",
        ]
        for threads, line in sorted(driver.items()):
            get = pool[threads]["get_return_ns"] if threads in pool else "–"
            page.append(f"| {threads} | {get} | {line['create_destroy_ns']} | {line['record_ns']} | {line['query_ns']} |")
    recycled = [line for line in lines if line["what"] == "recycle"]
    if recycled:
        page += ["", "| copy | recycled by | GB/s | µs a copy | CPU µs a copy |", "|---|---|---|---|---|"]
        for line in recycled:
            way = {"event": "event", "host": "cuLaunchHostFunc"}[line["by"]]
            page.append(
                f"| {line['size'] >> 10} KiB | {way} | {line['gb_per_s']} | {line['us_per_copy']} | {line['cpu_us_per_copy']} |"
            )
    if result:
        page += ["", "| figure | measured | wanted | |", "|---|---|---|---|"]
        for text, figure, wanted, reached in targets(result):
            verdict = {None: "not measured", True: "reached", False: "MISSED"}[reached]
            page.append(f"| {text} | {report.shown_ratio(figure)} | {wanted} | {verdict} |")
    return "\n".join(page) + "\n"
