"""Rows like those of `widelane bench engine`, as numpy arrays: features drawn by a power law or uniformly, all values 1."""

import numpy


SCATTER = 2654435761


def draw_features(generator, count, features, zipf):
    """`count` features of 0 to `features` - 1, the i-th most frequent as often as i^-zipf, scattered over all; 0: uniform."""
    unit = generator.random(count)  # doubles: float32 would give 2^24 features at most
    if zipf == 0:
        rank = 1 + unit * features
    elif zipf == 1:
        rank = numpy.exp(unit * numpy.log(features + 1.0))
    else:
        rank = (1 + unit * ((features + 1.0) ** (1 - zipf) - 1)) ** (1 / (1 - zipf))
    drawn = numpy.minimum(rank.astype(numpy.int64), features) - 1
    return drawn * SCATTER % features  # below 2^63 for up to 3 billion features


def input_count(entries, index_bytes):
    """As many inputs as exceed the caches together, within some memory; the rule of `widelane bench engine`."""
    wanted = min(max(16, -(-(64 << 20) // max(1, entries * index_bytes))), 64)
    return max(3, min(wanted, (512 << 20) // max(1, entries * 8)))


def make_inputs(rows, entries_per_row, features, zipf=1, seed=1):
    """Several inputs of (indices, offsets), int64, offsets without the last."""
    generator = numpy.random.default_rng(seed)
    offsets = numpy.arange(rows, dtype=numpy.int64) * entries_per_row
    count = input_count(rows * entries_per_row, 4)
    return [(draw_features(generator, rows * entries_per_row, features, zipf), offsets) for _ in range(count)]
