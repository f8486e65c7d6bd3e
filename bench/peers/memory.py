"""Peak resident memory of this process and of those it started, from /proc."""

import pathlib


def processes():
    """This process and its descendants."""
    wanted, found = ["self"], []
    while wanted:
        process = pathlib.Path("/proc") / wanted.pop()
        found.append(process)
        for children in process.glob("task/*/children"):
            wanted.extend(children.read_text().split())
    return found


def peak_mb():
    """Megabytes (10^6 bytes), summed over the processes' own peaks."""
    kib = 0
    for process in processes():
        for line in (process / "status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                kib += int(line.split()[1])
    return round(kib * 1024 / 1e6, 1)


def forget_peak():
    """Starts peaks anew from what is resident now."""
    for process in processes():
        try:
            (process / "clear_refs").write_text("5")
        except OSError:
            pass  # Not allowed on every machine; then the peak is that of the whole run.
