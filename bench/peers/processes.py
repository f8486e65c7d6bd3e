"""Memory and processor time of this process and of those it started, from /proc."""

import os
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


def cpu_s():
    """Seconds of processor time so far: unlike the clock, it hardly minds what else the machine does."""
    ticks = 0
    for process in processes():
        # Behind the name, which may hold anything, come the state and the numbers of proc(5) from the fourth on.
        fields = (process / "stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")
