"""What others do with the same rows: PyTorch's EmbeddingBag on CPU and GPU, scipy's sparse matrices.

Every function returns the median time of a call in microseconds, or raises. Calls go over several inputs in turn. What favours the
peer is chosen where there is a choice: 32- or 64-bit indices, whichever is faster; buffers on the device made beforehand; CSR matrices
built beforehand; no link after the sum.
"""

import os
import statistics
import time

import numpy

try:
    import torch
    import torch.nn.functional
    torch.set_num_threads(len(os.sched_getaffinity(0)))
except ImportError:
    torch = None
try:
    import scipy.sparse
except ImportError:
    scipy = None

WARM_S, MEASURE_S, LEAST_CALLS, MOST_CALLS = 0.05, 0.2, 20, 20000


def has_torch():
    return torch is not None


def has_scipy():
    return scipy is not None


def has_gpu():
    return torch is not None and torch.cuda.is_available()


def versions():
    found = {"numpy": numpy.__version__}
    if torch is not None:
        found.update(torch=torch.__version__, torch_threads=torch.get_num_threads())
        if torch.cuda.is_available():
            found.update(cuda=torch.version.cuda, gpus=[torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())])
    if scipy is not None:
        found["scipy"] = scipy.__version__
    return found


def median_us(call, inputs, seconds=MEASURE_S):
    """Median time of call(input), over `inputs` in turn."""
    start, warm = time.perf_counter(), 0
    while warm < 3 or time.perf_counter() - start < WARM_S:
        call(inputs[warm % len(inputs)])
        warm += 1
    times, begin = [], time.perf_counter()
    while len(times) < LEAST_CALLS or (time.perf_counter() - begin < seconds and len(times) < MOST_CALLS):
        item = inputs[len(times) % len(inputs)]
        before = time.perf_counter_ns()
        call(item)
        times.append(time.perf_counter_ns() - before)
    return statistics.median(times) * 1e-3


def make_weights(features, outputs, dtype="float32", device="cpu"):
    """[features, outputs], between -1/8 and 1/8."""
    generator = torch.Generator(device=device).manual_seed(1)
    weights = torch.rand((features, outputs), generator=generator, device=device) * 0.25 - 0.125
    return weights.to(getattr(torch, dtype))


def _bag(indices, offsets, weights):
    return torch.nn.functional.embedding_bag(indices, weights, offsets, mode="sum")


def _fastest(inputs, measure):
    """The better of 32- and 64-bit indices; `measure` gets a list of pairs of tensors."""
    times = []
    for dtype in (torch.int32, torch.int64):
        tensors = [(torch.from_numpy(i).to(dtype), torch.from_numpy(o).to(dtype)) for i, o in inputs]
        times.append(measure(tensors))
    return min(times)


def torch_cpu(inputs, weights, best=0):
    """All cores; the best `best` outputs of each row if that is not 0."""

    def call(pair):
        out = _bag(*pair, weights)
        if best:
            torch.topk(out, best)

    with torch.inference_mode():
        return _fastest(inputs, lambda tensors: median_us(call, tensors))


class _GpuCall:
    """Copies in, sums, picks the best, copies out, waits."""

    def __init__(self, weights, pair, best, pinned):
        self.weights, self.best = weights, best
        self.device = [torch.empty_like(part, device="cuda") for part in pair]
        rows = pair[1].numel()
        if best:
            self.host = [torch.empty((rows, best), dtype=weights.dtype, pin_memory=pinned),
                         torch.empty((rows, best), dtype=torch.int64, pin_memory=pinned)]
        else:
            self.host = [torch.empty((rows, weights.shape[1]), dtype=weights.dtype, pin_memory=pinned)]

    def __call__(self, pair):
        for device, host in zip(self.device, pair):
            device.copy_(host, non_blocking=True)
        out = _bag(*self.device, self.weights)
        for host, result in zip(self.host, torch.topk(out, self.best) if self.best else (out,)):
            host.copy_(result, non_blocking=True)
        torch.cuda.synchronize()


def torch_gpu(inputs, weights, best=0, pinned=True):
    """From host arrays to results on the host. `weights` are on the GPU."""

    def measure(tensors):
        if pinned:
            tensors = [tuple(part.pin_memory() for part in pair) for pair in tensors]
        return median_us(_GpuCall(weights, tensors[0], best, pinned), tensors)

    with torch.inference_mode():
        return _fastest(inputs, measure)


def scipy_cpu(inputs, weights):
    """One core, as scipy does it. `weights` is a numpy array."""
    matrices = []
    for indices, offsets in inputs:
        indptr = numpy.append(offsets, len(indices)).astype(numpy.int32)
        ones = numpy.ones(len(indices), numpy.float32)
        matrices.append(scipy.sparse.csr_matrix((ones, indices.astype(numpy.int32), indptr),
                                                shape=(len(offsets), len(weights))))
    return median_us(lambda matrix: matrix @ weights, matrices)
