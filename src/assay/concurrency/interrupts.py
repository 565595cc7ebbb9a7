"""
Ctrl-C and SIGTERM of a command that counts results while it writes them: a case counts when its line is kept.

A signal raises KeyboardInterrupt at once, so that nothing has to wait for the end of a read from a pipe. In a section
that scores, counts and writes one case it raises at the end of the section.
"""

from collections.abc import Collection
from types import CodeType, FrameType


class Interrupts:
    """
    The interrupts of one run. `held`: the main thread is in a section.

    `foreign`: functions that may take long, in which nothing is counted; a section does not delay an interrupt there.
    """

    __slots__ = ("_foreign", "_is_pending", "held")

    def __init__(self, foreign: Collection[CodeType] = ()) -> None:
        self.held = self._is_pending = False
        self._foreign = frozenset(foreign)

    def on_signal(self, _number: int, frame: FrameType | None) -> None:
        """The handler of a signal. The second one does not wait for the end of the section."""
        if self.held and not self._is_pending and not self._is_foreign(frame):
            self._is_pending = True
            return
        raise KeyboardInterrupt

    def release(self) -> None:
        """End the section. Raises the KeyboardInterrupt that came in it."""
        self.held = False
        if self._is_pending:
            self._is_pending = False
            raise KeyboardInterrupt

    def __enter__(self) -> None:
        self.held = True

    def __exit__(self, kind: object, *_: object) -> None:
        self.held = False
        if kind is None:
            self.release()

    def _is_foreign(self, frame: FrameType | None) -> bool:
        while frame is not None:
            if frame.f_code in self._foreign:
                return True
            frame = frame.f_back
        return False
