"""Times of several engines side by side, as a Markdown table.

The time of a query is the best of its runs after the first, which warms up. The first engine is ours; its ratio to a
peer is (ours + 1 ms) / (theirs + 1 ms), so that very short queries do not decide. Means of ratios are geometric.
"""

import math


def print_table(results):
    ours, peers = results[0], results[1:]
    names = [result["engine"] for result in results]
    count = max(len(result.get("times", [])) for result in results)
    header = ["query", *names] + (["best peer", "ratio"] if peers else [])
    print_row(header)
    print_row(["---"] + ["---:"] * (len(header) - 1))
    ratios = {name: [] for name in [*names[1:], "best"]}
    sums = [0.0] * len(results)
    for number in range(count):
        times = [hot(result, number) for result in results]
        sums = [total + (time or 0.0) for total, time in zip(sums, times)]
        row = [str(number + 1), *map(show, times)]
        if peers:
            row += compare(times, names, ratios)
        print_row(row)
    print_row(["sum", *[f"{total:.3f}" for total in sums]] + ([""] * 2 if peers else []))
    print()
    for name, values in ratios.items():
        if values:
            print(f"geometric mean of ({names[0]} + 1 ms) / ({name} + 1 ms) over {len(values)} queries: {mean(values):.3f}")
    print_rest(results)


def compare(times, names, ratios):
    """Returns the cells about the peers, and adds the ratios to `ratios`."""
    ours, theirs = times[0], {name: time for name, time in zip(names[1:], times[1:]) if time is not None}
    if ours is None or not theirs:
        return ["", ""]
    for name, time in theirs.items():
        ratios[name].append(ratio(ours, time))
    best = min(theirs, key=theirs.get)
    ratios["best"].append(ratio(ours, theirs[best]))
    return [best, f"{ratio(ours, theirs[best]):.2f}"]


def ratio(ours, theirs):
    return (ours + 0.001) / (theirs + 0.001)


def mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def hot(result, number):
    times = result.get("times", [])
    if number >= len(times) or not isinstance(times[number], list):
        return None
    return min(times[number][1:] or times[number])


def show(time):
    return "failed" if time is None else f"{time:.4f}"


def print_rest(results):
    """Prints the facts of each engine: the load, the size, the memory, failures."""
    print()
    print_row(["engine", "version", "load s", "load CPU s", "GB on disk", "peak MB", "peak MB loading", "failed queries"])
    print_row(["---", "---"] + ["---:"] * 6)
    for result in results:
        failed = [str(at) for at, times in enumerate(result.get("times", []), 1) if not isinstance(times, list)]
        print_row(
            [
                result["engine"],
                result.get("version", ""),
                number(result.get("load_s"), 1, 1),
                number(result.get("load_cpu_s"), 1, 1),
                number(result.get("bytes"), 1e9, 3),
                number(result.get("peak_rss_mb"), 1, 0),
                number(result.get("load_peak_rss_mb"), 1, 0),
                " ".join(failed),
            ]
        )


def number(value, unit, digits):
    return "" if value is None else f"{value / unit:.{digits}f}"


def print_row(cells):
    print("| " + " | ".join(cells) + " |")
