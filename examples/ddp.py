"""PyTorch: DistributedDataParallel, with any number of tasks and processes.

Each process finds its rank and the others in its environment, so that no
argument is needed::

    ytf-submit --wait -r worker:2 -s ddp.py 'python3 $DTF_TASK_SCRIPT'
    ytf-submit --wait -r worker:2 --processes 2 -s ddp.py 'python3 $DTF_TASK_SCRIPT'
    ytf-submit --wait -r worker:2 --processes 2 -s ddp.py 'torchrun $DTF_TASK_SCRIPT'

Every process ends with ``FINAL rank=<rank> size=<processes> slope=<x> offset=<x>``,
all with the same numbers: the slope comes to 3 and the offset to 2.
"""

import torch
import torch.distributed as dist

STEPS, POINTS, RATE = 100, 50, 0.3


def main():
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()

    torch.manual_seed(rank)
    inputs = torch.rand(POINTS, 1) * 2 - 1
    targets = 3 * inputs + 2

    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    for _ in range(STEPS):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()

    slope, offset = model.module.weight.item(), model.module.bias.item()
    print(f"FINAL rank={rank} size={size} slope={slope:.3f} offset={offset:.3f}", flush=True)
    # Who leaves first takes the connections of the others with it.
    dist.barrier()


if __name__ == "__main__":
    main()
