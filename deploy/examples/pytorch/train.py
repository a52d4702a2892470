"""Trains a small classifier on several workers that share their gradients through gloo.

All that a worker must know about the others comes from the variables that Muster gives every
task: PAI_HOST_IP_<role>_<index>, PAI_PORT_LIST_<role>_<index>_<label> and so on.
"""

import os

import psutil
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

ARMS = 3
POINTS = 6000
EPOCHS = 10
BATCH = 100


def join():
    """Meets the other workers at worker 0's address; returns this one's rank and their number."""
    rank = int(os.environ["PAI_TASK_INDEX"])
    world = int(os.environ["PAI_TASK_ROLE_TASK_COUNT_worker"])
    address = os.environ["PAI_HOST_IP_worker_0"]
    port = os.environ["PAI_PORT_LIST_worker_0_rendezvous"]

    # Left alone, gloo listens on whatever address the host name resolves to, which is often
    # one that other machines cannot reach.
    own = os.environ[f"PAI_HOST_IP_worker_{rank}"]
    for interface, addresses in psutil.net_if_addrs().items():
        if any(each.address == own for each in addresses):
            os.environ["GLOO_SOCKET_IFNAME"] = interface

    dist.init_process_group("gloo", f"tcp://{address}:{port}", rank=rank, world_size=world)
    print(f"worker {rank} of {world} met the others at {address}:{port}", flush=True)
    return rank, world


def share(rank, world):
    """A worker's share of the points on a spiral's arms, and the arm that each is on."""
    random = torch.Generator().manual_seed(1)
    arm = torch.randint(ARMS, (POINTS,), generator=random)
    radius = torch.rand(POINTS, generator=random)
    noise = 0.2 * torch.randn(POINTS, generator=random)
    angle = 4 * radius + 2 * torch.pi * arm / ARMS + noise
    points = torch.stack([radius * angle.cos(), radius * angle.sin()], dim=1)
    # As many for every worker: each step waits for all of them.
    mine = slice(rank, POINTS // world * world, world)
    return points[mine], arm[mine]


def mean(value, world):
    """The mean of a number over all workers."""
    total = value.detach().clone()
    dist.all_reduce(total)
    return total.item() / world


def agree(model, world):
    """Whether all workers hold the same parameters, bit for bit."""
    mine = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    everyones = [torch.empty_like(mine) for _ in range(world)]
    dist.all_gather(everyones, mine)
    return all(torch.equal(mine, each) for each in everyones)


def train_epoch(model, optimizer, points, arm):
    """Takes one step per batch; returns this worker's mean loss."""
    losses = []
    for batch in torch.randperm(len(points)).split(BATCH):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(points[batch]), arm[batch])
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses).mean()


def train(rank, world):
    """Trains one model on all workers; returns each epoch's loss, and whether they agree."""
    points, arm = share(rank, world)
    # A seed per worker: DistributedDataParallel sees to it that all start from worker 0's model.
    torch.manual_seed(rank)
    hidden = [nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU()]
    model = DistributedDataParallel(nn.Sequential(*hidden, nn.Linear(64, ARMS)))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    losses = []
    for epoch in range(1, EPOCHS + 1):
        losses.append(mean(train_epoch(model, optimizer, points, arm), world))
        if rank == 0:
            print(f"epoch {epoch:2} of {EPOCHS}: loss {losses[-1]:.4f}", flush=True)
    return losses, agree(model, world)


def main():
    torch.set_num_threads(1)
    rank, world = join()
    losses, agreed = train(rank, world)
    # The model is freed by now, and must be: it holds the process group too. Were it the last to
    # let go, it would wait for the group's threads while it holds the interpreter lock that they
    # may need, and hang now and then.
    dist.destroy_process_group()

    if not losses[-1] < losses[0] / 2:
        raise SystemExit(f"worker {rank}: the loss did not halve in {EPOCHS} epochs")
    if not agreed:
        raise SystemExit(f"worker {rank}: the workers' parameters differ")
    print(f"worker {rank}: the loss went down and all {world} workers hold the same parameters")


if __name__ == "__main__":
    main()
