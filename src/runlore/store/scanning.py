"""Tests the bodies of segments in threads, for searches that no index helps."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import zstandard

from .values import PackedSegment

_MAX_THREADS = 4
_MAX_WAITING = 8
"""Maximum number of batches that wait for a thread."""
_BATCH_BYTES = 1 << 20
"""Bytes of decompressed bodies that a thread is given at a time."""


def scan(segments: Iterable[PackedSegment], test: Callable[[bytes], bool]) -> Iterator[int]:
    """Yield the ids of the segments whose bodies pass the test, in order.

    Threads decompress and test ahead of the caller.
    """
    # Threads help, because decompression and RE2 release the interpreter's lock.
    with ThreadPoolExecutor(min(_MAX_THREADS, os.cpu_count() or 1)) as pool:
        jobs: deque[Future[list[int]]] = deque()
        try:
            for batch in _batches(segments):
                jobs.append(pool.submit(_find_matching, batch, test))
                if len(jobs) > _MAX_WAITING:
                    yield from jobs.popleft().result()
            while jobs:
                yield from jobs.popleft().result()
        finally:
            for job in jobs:
                job.cancel()


def _batches(segments: Iterable[PackedSegment]) -> Iterator[list[PackedSegment]]:
    batch: list[PackedSegment] = []
    size = 0
    for segment in segments:
        batch.append(segment)
        size += segment[1]
        if size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    yield batch


def _find_matching(segments: list[PackedSegment], test: Callable[[bytes], bool]) -> list[int]:
    # Each thread needs its own decompressor. Hashes are checked by the doctor, not here.
    decompress = zstandard.ZstdDecompressor().decompress
    ids = []
    for id_, length, body in segments:
        try:
            is_match = test(decompress(body, max_output_size=length))
        except zstandard.ZstdError:
            is_match = True  # Reading the segment later reports the damage.
        if is_match:
            ids.append(id_)
    return ids
