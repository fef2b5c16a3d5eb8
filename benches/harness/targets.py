"""The project's targets, and whether a result meets them: computed from the result, never written by hand."""

from dataclasses import dataclass

from . import report

KIB, MIB = 1 << 10, 1 << 20
MULTI = "MULTI_POLL"

# What RaskIO states about its memory, beyond the destination (benches/README.md has it in words). A TLS connection is
# mostly OpenSSL's: 150 KiB for a bare libcurl loop too.
RECEIVE_BUFFER = 256 * KIB
MEMORY_PER_CONNECTION = {"http": 16 * KIB, "https": 192 * KIB}
MEMORY_PER_READ = 640
MEMORY_CONSTANT = 5 * MIB
# A thread that has nothing to do looks around four times a minute.
IDLE_WAKEUPS_A_MINUTE = 4
IDLE_CPU_MS_A_MINUTE = 1

# What is compared: figures as in report.FIGURES, and the word for it.
SPEED, REQUESTS, CPU = ("gb_s", "throughput"), ("requests_s", "requests/s"), ("cpu_s_gib", "CPU a GiB")


@dataclass
class Row:
    """One line of the table. `measured`: a spread, or None where this result cannot say."""

    case: str
    target: str
    measured: dict | None
    met: bool | None
    bare: str = ""  # what clients without checks, retries or limits reach of the same figure, where that says what bounds it

    def cells(self):
        bare = self.bare or "–"
        if self.measured is None:
            return [self.case, self.target, "not measured", bare, "–"]
        value, least, most = (self.measured[key] for key in ("median", "min", "max"))
        shown = f"{report.number(value)}"
        if (least, most) != (value, value):
            shown += f" ({report.number(least)}–{report.number(most)})"
        return [self.case, self.target, shown, bare, "yes" if self.met else "**no**"]


def at_least(case, target, limit, measured, bare=""):
    return Row(case, target, measured, None if measured is None else measured["median"] >= limit, bare)


def at_most(case, target, limit, measured, bare=""):
    return Row(case, target, measured, None if measured is None else measured["median"] <= limit, bare)


def find(result, case, **settings):
    """The row of a case whose client has these settings; None if it was not measured."""
    for found in result["cases"]:
        if found["name"] == case:
            for row in found["rows"]:
                if all(row["client"][key] == value for key, value in settings.items()):
                    return row
    return None


def budget_row(result, case, kind, width, threads=1):
    """KvikIO's or RaskIO's reactors with a budget, RaskIO as it is by default."""
    settings = {"backend": MULTI, "threads": threads, "width": width, "submit": "all"}
    if kind == "raskio":
        settings["concurrency"] = "adaptive"
    return find(result, case, kind=kind, **settings)


def bare(result, case, other, figure, width):
    """The raw loop and libcurl's own loops with so many connections (else as many as were measured) against `other`."""
    found = next((found for found in result["cases"] if found["name"] == case), None)
    said = []
    for kind, name in (("raw", "raw loop"), ("curl", "bare libcurl")):
        rows = [row for row in found["rows"] if row["client"]["kind"] == kind] if found else []
        rows = [row for row in rows if row["client"]["width"] == width] or rows
        ratios = [ratio for row in rows if (ratio := report.ratio(row, other, figure))]
        if ratios:
            best = (min if figure == CPU[0] else max)(ratios, key=lambda ratio: ratio["median"])
            said.append(f"{name} {report.number(best['median'])}")
    return ", ".join(said)


def bounds(result, case, mine, other, figure, width):
    """What stands beside a target that may be out of reach: bare clients, and the server where speed is what counts."""
    said = [text for text in [bare(result, case, other, figure, width)] if text]
    if mine and figure != CPU[0] and mine["server_busy"]:
        said.append(f"server busy {mine['server_busy']['median']:.2f}")
    return "; ".join(said)


def rows(result):
    """Every target, as a Row."""

    def against(case, width, figure):
        """RaskIO's figure against that of KvikIO with the same budget, and that of the bare clients."""
        mine, other = budget_row(result, case, "raskio", width), kvikio(case, width)
        return report.ratio(mine, other, figure[0]), bounds(result, case, mine, other, figure[0], width)

    def of(case, width, figure, other):
        return report.ratio(budget_row(result, case, "raskio", width), other, figure[0])

    def kvikio(case, width):
        return budget_row(result, case, "kvikio", width)

    def loop(case, width, how):
        return find(result, case, kind="curl", width=width, backend=how)

    raw = find(result, "large", kind="raw", width=16)
    name = "large, plain, 16 requests"
    yield at_most(name, "CPU a GiB ≤ 1.25 × raw loop", 1.25, of("large", 16, CPU, raw))
    yield at_most(name, "CPU a GiB ≤ 0.5 × KvikIO MULTI_POLL", 0.5, *against("large", 16, CPU))
    yield at_least(name, "throughput ≥ libcurl multi, epoll", 1, of("large", 16, SPEED, loop("large", 16, "epoll")))
    name = "large, plain, 256 requests"
    yield at_most(name, "CPU a GiB ≤ 0.4 × KvikIO MULTI_POLL", 0.4, *against("large", 256, CPU))
    yield at_least(name, "throughput ≥ 1.5 × KvikIO MULTI_POLL", 1.5, *against("large", 256, SPEED))
    for width, faster in ((256, 1.8), (64, 1.3)):
        name = f"object-store-like, {width} against {width}"
        yield at_least(name, f"throughput ≥ {faster} × KvikIO MULTI_POLL", faster, *against("store", width, SPEED))
        yield at_most(name, "CPU a GiB ≤ 0.4 × KvikIO MULTI_POLL", 0.4, *against("store", width, CPU))
    small = against("4k", 16, REQUESTS)
    yield at_least("4 KiB, 16 requests", "requests/s ≥ 1.6 × KvikIO MULTI_POLL", 1.6, *small)
    for how in ("perform", "epoll"):
        measured = of("4k", 16, REQUESTS, loop("4k", 16, how))
        yield at_least("4 KiB, 16 requests", f"requests/s ≥ 0.88 × libcurl multi, {how}", 0.88, measured)
    yield at_least("TLS, 16 requests", "throughput ≥ KvikIO MULTI_POLL", 1, *against("tls", 16, SPEED))
    yield at_most("TLS, 16 requests", "CPU a GiB ≤ 0.7 × KvikIO MULTI_POLL", 0.7, *against("tls", 16, CPU))
    easy = find(result, "latency", kind="easy")
    for submit, limit, what in (("one", 1.4, "raskio_read"), ("sync", 1.2, "raskio_read_sync")):
        mine = find(result, "latency", kind="raskio", backend=MULTI, submit=submit)
        measured = report.ratio(mine, easy, "p50_us")
        yield at_most("single 1-byte read, warm", f"{what}: median ≤ {limit} × easy handle", limit, measured)
    # A profile of its own, so that what it says is not missing elsewhere.
    if any(case["name"] == "batch" for case in result["cases"]):
        yield from batch_rows(result)
    yield from idle_rows(result)
    yield from memory_rows(result)
    yield from best_rows(result)


def batch_rows(result):
    """One call for many ranges, each by a request of its own."""
    for width in (16, 64):
        settings = {"case": "batch", "width": width}
        mine = find(result, **settings, kind="raskio", submit="batch", gap="never")
        name = f"batch of 20,000 reads of 4 KiB, {width} requests"
        other = budget_row(result, "batch", "kvikio", width)
        measured, without = report.ratio(mine, other, "requests_s"), bare(result, "batch", other, "requests_s", width)
        yield at_least(name, "requests/s ≥ 1.6 × KvikIO MULTI_POLL", 1.6, measured, without)
        for how in ("perform", "epoll"):
            measured = report.ratio(mine, find(result, **settings, kind="curl", backend=how), "requests_s")
            yield at_least(name, f"requests/s ≥ 0.9 × libcurl multi, {how}", 0.9, measured)


def alone(value):
    return {"median": value, "min": value, "max": value}


def idle_rows(result):
    for row in result["idle"]:
        client = row["client"]
        if client["kind"] != "raskio":
            continue
        # Of looks 15 s apart, as many fit into the time of the watch, and one at its edge.
        limit = (IDLE_WAKEUPS_A_MINUTE + 60 / result["settings"]["idle_seconds"]) * client["threads"]
        name = f"idle client, {client['backend']}, {client['threads']} thread" + ("s" if client["threads"] > 1 else "")
        yield at_most(name, f"wake-ups a minute ≤ {limit:g}", limit, alone(row["wakeups_a_minute"]))
        limit = IDLE_CPU_MS_A_MINUTE * client["threads"]
        yield at_most(name, f"CPU ms a minute ≤ {limit}", limit, alone(row["cpu_ms_a_minute"]))


def memory_rows(result):
    """Per case, the reactors' setting that comes closest to what is stated, or exceeds it most."""
    for case in result["cases"]:
        if case["device"]:
            continue
        per_connection = MEMORY_PER_CONNECTION["https" if "TLS" in case["title"] else "http"]
        shares = []
        for row in case["rows"]:
            client = row["client"]
            if (
                client["kind"] != "raskio"
                or client["backend"] != MULTI
                or not (row["grown_mib"] and row["connections"])
            ):
                continue
            stated = client["threads"] * RECEIVE_BUFFER + row["connections"]["max"] * per_connection + MEMORY_CONSTANT
            # Of one read or a mix of a few objects there are too few to be felt.
            if case["shape"] == "many" and client["submit"] in ("all", "batch"):
                stated += case["total"] // case["request"] * MEMORY_PER_READ
            shares.append({key: row["grown_mib"][key] * MIB / stated for key in ("median", "min", "max")})
        if shares:
            target = (
                f"grown ≤ reactors × {RECEIVE_BUFFER // KIB} KiB + connections × {per_connection // KIB} KiB "
                f"+ reads × {MEMORY_PER_READ} bytes + {MEMORY_CONSTANT // MIB} MiB (as a share of it)"
            )
            worst = max(shares, key=lambda share: share["median"])
            yield at_most(f"peak memory, {case['name']}", target, 1, worst)


def best_rows(result):
    """Any backend, any number of threads or reactors, any budget: the best RaskIO against the best KvikIO."""
    for case in result["cases"]:
        figure = report.MAIN[case["mode"]][0]
        mine, theirs = (report.best(case["rows"], kind, figure) for kind in ("raskio", "kvikio"))
        if not (mine and theirs):
            continue
        measured, name = report.ratio(mine, theirs, figure), f"best setting of each, {case['name']}"
        if figure in report.LESS_IS_BETTER:
            yield at_most(name, "median latency ≤ KvikIO's", 1, measured)
        else:
            without = bounds(result, case["name"], mine, theirs, figure, None)
            yield at_least(name, f"{report.FIGURES[figure][0]} ≥ KvikIO's", 1, measured, without)


def gap_rows(result):
    """What merging gains, by how far apart the reads of a batch lie: speed and CPU, each a ratio within a round."""
    for case in result["cases"]:
        kind, _, gap = case["name"].partition("-gap-")
        if not gap:
            continue
        apart = find(result, case["name"], gap="never")
        merged = next((row for row in case["rows"] if row["client"]["gap"] != "never"), None)
        ratios = [report.ratio(merged, apart, figure) for figure in report.MAIN[case["mode"]]]
        yield [kind, gap.replace("k", " KiB"), *map(report.shown, ratios)]


def adaptive_rows(result):
    """Adaptive against fixed, same ceiling: speed and CPU, each a ratio within a round."""
    for case in result["cases"]:
        speed, cost = report.MAIN[case["mode"]]
        for row in case["rows"]:
            client = row["client"]
            if client["kind"] != "raskio" or client["concurrency"] != "fixed":
                continue
            like = {key: client[key] for key in ("kind", "threads", "width", "backend", "submit")}
            adaptive = find(result, case["name"], **like, concurrency="adaptive")
            if not adaptive:
                continue
            ratios = [report.ratio(adaptive, row, figure) for figure in (speed, cost)]
            connections = [f"{report.shown_median(found['connections'])}" for found in (adaptive, row)]
            setting = f"{client['threads']} reactor{'s' if client['threads'] > 1 else ''}, {client['width']} in flight"
            yield [case["name"], setting, *map(report.shown, ratios), " / ".join(connections)]


def markdown(result):
    """The lines of the page that say how the result stands."""
    all_rows = list(rows(result))
    known = [row for row in all_rows if row.met is not None]
    if result["settings"].get("profile") != "small":
        all_rows = known  # most of them are about a machine with two cores
    lines = [
        "## Targets",
        "",
        f"{sum(row.met for row in known)} of {len(known)} met. RaskIO as it is by default (adaptive). Bare: the same ratio of "
        "clients that check, retry and limit nothing; where they miss it too, the machine or libcurl is the bound. Server busy: "
        "the share of RaskIO's time in which nginx's workers were on a CPU; near 1 the server is the bound.",
    ]
    lines += ["", "| case | target of the project | measured | bare | met? |", "|---|---|---|---|---|"]
    lines += [f"| {' | '.join(row.cells())} |" for row in all_rows]
    gaps = list(gap_rows(result))
    if gaps:
        lines += ["", "## What merging gains", "", "Above 1: merged is faster, or costs more CPU.", ""]
        lines += ["| server | 4 KiB reads that lie apart by | speed | CPU |", "|---|---:|---|---|"]
        lines += [f"| {' | '.join(cells)} |" for cells in gaps]
    adaptive = list(adaptive_rows(result))
    if adaptive:
        lines += ["", "## Adaptive against fixed", "", "Above 1: adaptive is faster, or costs more CPU.", ""]
        lines += ["| case | setting | speed | CPU | connections, adaptive / fixed |", "|---|---|---|---|---:|"]
        lines += [f"| {' | '.join(cells)} |" for cells in adaptive]
    return lines
