"""Batches of a worker's leases, through torch's DataLoader."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator
from typing import Any

import torch.utils.data
from torch.utils.data import DataLoader, IterableDataset, default_collate

from troupe.errors import Error
from troupe.leases import Lease, LeaseBook

#: What the run decides: which samples come, in which order, and how many.
_OF_THE_RUN = ("batch_size", "shuffle", "sampler", "batch_sampler", "drop_last", "in_order")


class _Collate:
    """Puts samples together; returns None for an empty list."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __call__(self, samples: list) -> Any:
        return self._inner(samples) if samples else None


class _Samples(torch.utils.data.Dataset):
    """The user's data set. It is not called for an empty list of indices."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __len__(self) -> int:
        return len(self._inner)

    def __getitem__(self, index: int) -> Any:
        return self._inner[index]

    def __getitems__(self, indices: list[int]) -> list:
        several = getattr(self._inner, "__getitems__", None)
        if several is None or not indices:
            return [self._inner[i] for i in indices]
        return several(indices)


class _Sampler:
    """Gives the DataLoader the samples of leases, as far ahead as it asks.

    A DataLoader with processes also asks while it still has batches. If no lease has
    come then, it gets an empty batch, so that it goes on with these and does not wait.
    """

    def __init__(self, book: LeaseBook) -> None:
        self._book = book
        self.given: deque[Lease | None] = deque()  # Batches in the DataLoader; None: an empty one.

    def __iter__(self) -> Iterator[list[int]]:
        while True:
            ahead = self._book.in_loader > 0
            lease = self._book.next_lease(wait=not ahead)
            if lease is None and not ahead:
                return  # The run has ended.
            self.given.append(lease)
            self._book.in_loader += lease is not None
            yield list(lease.indices) if lease is not None else []


class Loader:
    """Iterates over batches until the run ends. The loop calls the worker's `step` or
    `skip` for them; a loop that is left gives all batches back."""

    def __init__(
        self, book: LeaseBook, size: int, dataset: Any, options: dict[str, Any]
    ) -> None:
        for key in _OF_THE_RUN:
            if key in options:
                raise Error(
                    f"loader({key}=...): the run decides which samples come in a batch; "
                    "give batch_size to the parameter server"
                )
        has_index = hasattr(dataset, "__len__") and (
            hasattr(dataset, "__getitem__") or hasattr(dataset, "__getitems__")
        )
        if isinstance(dataset, IterableDataset) or not has_index:
            kind = type(dataset).__name__
            raise Error(
                "loader(): needs a data set with a length and an index (__len__ and "
                f"__getitem__), and a {kind} has not both: the run decides which samples come"
            )
        if len(dataset) != size:
            raise Error(f"the data set has {len(dataset)} samples, and dataset_size is {size}")
        self._book = book
        self._dataset = _Samples(dataset)
        collate = options.pop("collate_fn", None) or default_collate
        self._options = {**options, "collate_fn": _Collate(collate)}
        #: The lease of the last batch.
        self.lease: Lease | None = None

    def __iter__(self) -> Iterator[Any]:
        return self._book.only(self._each_batch())

    def _each_batch(self) -> Generator[Any, None, None]:
        book = self._book
        sampler = _Sampler(book)
        batches = iter(DataLoader(self._dataset, batch_sampler=sampler, **self._options))
        try:
            for batch in batches:
                lease = sampler.given.popleft()
                if lease is None:
                    continue
                book.in_loader -= 1
                if book.begin(lease):
                    self.lease = lease
                    yield batch
        except BaseException:
            book.leave()
            raise
        finally:
            book.in_loader = 0
        book.finish()
