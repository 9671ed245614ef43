"""Two gloo processes on this machine that work through a list of cases and hand back what each rank found.

One pair of processes serves all cases of a test module: starting them takes longer than the cases. They meet in a file, so
there is no port to be taken, and are killed when they are late: nothing hangs.
"""

import datetime
import os
import socket
import time
from collections.abc import Callable, Sequence

import torch

WORLD = 2
SECONDS = 180


def run(work: Callable, cases: Sequence, folder) -> list[dict]:
    """For each rank `{case: work(rank, case)}`, or `{case: {"error": ...}}` where that raised.

    `work` is a function of a module, its results are plain data and tensors. TimeoutError after `SECONDS`.
    """
    context = torch.multiprocessing.get_context("spawn")
    processes = [context.Process(target=_worker, args=(rank, work, list(cases), str(folder))) for rank in range(WORLD)]
    for process in processes:
        process.start()
    try:
        _wait(processes, time.monotonic() + SECONDS)
    finally:
        for process in processes:
            if process.is_alive():
                process.kill()
            process.join()
    return [torch.load(os.path.join(folder, f"{rank}.pt"), weights_only=False) for rank in range(WORLD)]


def _wait(processes, until: float) -> None:
    for process in processes:
        process.join(max(until - time.monotonic(), 0))
        if process.is_alive():
            raise TimeoutError(f"rank {processes.index(process)} was not done after {SECONDS} s")
        if process.exitcode != 0:
            raise RuntimeError(f"rank {processes.index(process)} ended with exit code {process.exitcode}")


def _worker(rank: int, work: Callable, cases: list, folder: str) -> None:
    torch.set_num_threads(1)
    if "lo" in (name for _, name in socket.if_nameindex()):
        # The loopback device: a machine's name may have no address.
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.distributed.init_process_group(
        "gloo",
        init_method=f"file://{folder}/meeting",
        rank=rank,
        world_size=WORLD,
        timeout=datetime.timedelta(seconds=SECONDS // 3),
    )
    found = {}
    for case in cases:
        torch.manual_seed(0)
        try:
            found[case] = work(rank, case)
        except Exception as error:
            found[case] = {"error": f"{type(error).__name__}: {error}"}
    torch.save(found, os.path.join(folder, f"{rank}.pt"))
    torch.distributed.barrier()
    # Without the interpreter's end: gloo's threads may still hold the other's connection.
    os._exit(0)
