"""What a run on a GPU says: the figures that RaskIO has to reach there, and how the driver's calls cost."""

from . import report
from .targets import budget_row

# Reactors and requests in flight of the settings that the figures are about.
SETTINGS = (("1 reactor", 1, 64, 1.4, 0.75), ("8 reactors", 8, 256, 1.6, 0.65))
SPEED, COST = "gb_s", "cpu_s_gib"


def targets(result):
    """The figures of a result beside what is wanted: (text, figure, wanted, reached), None where not measured."""
    rows = []
    for name, threads, width, speed, cost in SETTINGS:
        ours, theirs = (budget_row(result, "device", kind, width, threads) for kind in ("raskio", "kvikio"))
        rows.append(at_least(f"device, {name}: speed of KvikIO's", ratio(ours, theirs, SPEED), speed))
        rows.append(at_most(f"device, {name}: CPU of KvikIO's", ratio(ours, theirs, COST), cost))
    device, host = (rows_of(result, name) for name in ("device", "large"))
    ours, theirs = (report.best(list(device.values()), kind, SPEED) for kind in ("raskio", "kvikio"))
    rows.append(at_least("device, best setting: speed of KvikIO's best", ratio(ours, theirs, SPEED), 1.0))
    for label, row in device.items():
        if row["kind"] == "raskio":
            rows.append(at_least(f"{label}: device speed of host speed", ratio(row, host.get(label), SPEED), 0.95))
    return rows


def rows_of(result, name):
    """The rows of a case by label; none if it was not measured."""
    return {row["label"]: row for case in result["cases"] if case["name"] == name for row in case["rows"]}


def ratio(mine, reference, figure):
    found = report.ratio(mine, reference, figure)
    return found and found["median"]


def at_least(text, figure, wanted):
    return text, figure, f"≥ {wanted:g}", None if figure is None else figure >= wanted


def at_most(text, figure, wanted):
    return text, figure, f"≤ {wanted:g}", None if figure is None else figure <= wanted


def files_table(files):
    """The rows of benches/files_device.py."""
    if not files:
        return []
    page = [
        "",
        "| file and GPU memory, 32 in flight | client | blocks/s | GB/s | CPU µs a block | past the cache | by io_uring | of KvikIO's | CPU of KvikIO's "
        "| of pinned copies |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for line in files:
        size = f"{line['block'] >> 20} MiB" if line["block"] >= 1 << 20 else f"{line['block'] >> 10} KiB"
        case = f"{line['way']} {size}, {'O_DIRECT' if line['how'] == 'direct' else 'from the cache' if line['way'] == 'read' else 'cached'}"
        figures = [line[name] for name in ("past_the_cache", "by_uring", "of_kvikio", "cpu_of_kvikio", "of_copies")]
        shown = " | ".join("–" if figure is None else f"{figure:.2f}" for figure in figures)
        page.append(f"| {case} | {line['client']} | {line['iops']:,} | {line['gb_per_s']} | {line['cpu_us']} | {shown} |")
    return page


def markdown(gpu, lines, result):
    """The page: tests, costs of calls, targets. The tables of speeds are run.py's own."""
    page = ["# Device reads on a GPU", "", gpu or "unknown GPU"]
    runs = [line for line in lines if "result" in line]
    if runs:
        failed = [line for line in runs if line["result"].startswith("FAILED")]
        skipped = [line for line in runs if line["result"] == "skipped"]
        page += [
            "",
            f"{len(runs) - len(failed) - len(skipped)} programs passed, {len(failed)} failed, {len(skipped)} skipped.",
        ]
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
            page.append(
                f"| {threads} | {get} | {line['create_destroy_ns']} | {line['record_ns']} | {line['query_ns']} |"
            )
    recycled = [line for line in lines if line["what"] == "recycle"]
    if recycled:
        page += ["", "| copy | recycled by | GB/s | µs a copy | CPU µs a copy |", "|---|---|---|---|---|"]
        for line in recycled:
            way = {"event": "event", "host": "cuLaunchHostFunc"}[line["by"]]
            page.append(
                f"| {line['size'] >> 10} KiB | {way} | {line['gb_per_s']} | {line['us_per_copy']} | {line['cpu_us_per_copy']} |"
            )
    page += files_table([line for line in lines if line["what"] == "files"])
    if result:
        page += ["", "| figure | measured | wanted | |", "|---|---|---|---|"]
        for text, figure, wanted, reached in targets(result):
            verdict = {None: "not measured", True: "reached", False: "MISSED"}[reached]
            measured = "–" if figure is None else f"{figure:.2f}"
            page.append(f"| {text} | {measured} | {wanted} | {verdict} |")
    return "\n".join(page) + "\n"
