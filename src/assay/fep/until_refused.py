"""The items of an input up to one that is refused: the cases before it count (FEP-34)."""

from collections.abc import AsyncIterator
from typing import Generic, TypeVar

from assay.errors import Refusal

T = TypeVar("T")


class UntilRefused(Generic[T]):
    """Iterates over an input. Its refusal ends the iteration; `raise_refusal` raises it after the cases in progress."""

    def __init__(self, items: AsyncIterator[T]) -> None:
        self._items = items
        self._refusal: Refusal | None = None

    async def __aiter__(self) -> AsyncIterator[T]:
        try:
            async for item in self._items:
                yield item
        except Refusal as refusal:
            self._refusal = refusal

    def raise_refusal(self) -> None:
        if self._refusal is not None:
            raise self._refusal
