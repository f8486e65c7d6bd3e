"""Memory and processor time of this process and of the processes it started, from /proc."""

import os
import pathlib


def processes():
    """Returns this process and its descendants."""
    wanted, found = ["self"], []
    while wanted:
        process = pathlib.Path("/proc") / wanted.pop()
        found.append(process)
        for children in process.glob("task/*/children"):
            wanted.extend(children.read_text().split())
    return found


def peak_mb():
    """Returns megabytes (10^6 bytes): the sum of the processes' own peaks."""
    kib = 0
    for process in processes():
        for line in (process / "status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                kib += int(line.split()[1])
    return round(kib * 1024 / 1e6, 1)


def forget_peak():
    """Resets the peaks to the memory that is resident now."""
    for process in processes():
        try:
            (process / "clear_refs").write_text("5")
        except OSError:
            pass  # Some machines do not allow it. The peak then covers the whole run.


def cpu_s():
    """Returns the processor time so far in seconds. Unlike the clock, it hardly depends on other work."""
    ticks = 0
    for process in processes():
        # The name in parentheses may contain anything. After it come the numbers of proc(5) from the fourth on.
        fields = (process / "stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")
