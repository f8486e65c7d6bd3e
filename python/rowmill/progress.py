"""Shows the progress of long statements: a line of a terminal, or a bar of a notebook.

A connection tells its display about ten times a second how far a statement is. `connection.progress` is the display;
`None` shows nothing.
"""

import sys

#: Statements that end sooner show nothing.
QUIET_SECONDS = 2.0
_WIDTH = 40


def _line(share, seconds):
    if share is None:
        return f"{seconds:6.1f} s"
    share = min(max(share, 0.0), 1.0)
    done = int(share * _WIDTH)
    left = f", about {seconds / share - seconds:.0f} s left" if share >= 0.05 else ""
    return f"{'█' * done}{'░' * (_WIDTH - done)} {share:4.0%} {seconds:6.1f} s{left}"


class TerminalProgress:
    """Draws the progress on one line of a stream, and removes the line at the end."""

    def __init__(self, stream=None):
        self._stream = stream or sys.stderr
        self._is_drawn = False

    def update(self, share, seconds):
        if seconds < QUIET_SECONDS:
            return
        self._is_drawn = True
        self._stream.write(f"\r\x1b[K{_line(share, seconds)}")
        self._stream.flush()

    def finish(self):
        if self._is_drawn:
            self._is_drawn = False
            self._stream.write("\r\x1b[K")
            self._stream.flush()


class NotebookProgress:
    """Draws the progress in the output of a notebook's cell."""

    def __init__(self):
        self._handle = None

    def update(self, share, seconds):
        if seconds < QUIET_SECONDS:
            return
        from IPython.display import display

        shown = {"text/plain": _line(share, seconds), "text/html": self._html(share, seconds)}
        if self._handle is None:
            self._handle = display(shown, raw=True, display_id=True)
        else:
            self._handle.update(shown, raw=True)

    def finish(self):
        if self._handle is not None:
            self._handle.update({"text/plain": "", "text/html": ""}, raw=True)
            self._handle = None

    @staticmethod
    def _html(share, seconds):
        value = "" if share is None else f' value="{share:.3f}"'
        return f"<progress{value} max=1></progress> {seconds:.1f} s"


def default_display():
    """The display that fits the place where the program runs, or `None` for one without a terminal."""
    if "ipykernel" in sys.modules:
        return NotebookProgress()
    stream = sys.stderr
    return TerminalProgress(stream) if stream is not None and stream.isatty() else None
