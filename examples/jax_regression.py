"""JAX with several processes: each has its own data, and gradients are added up over all.

``jax.distributed.initialize()`` finds the coordinator and the process's number by
itself::

    ytf-submit --wait -r worker:2 --env ~/envs/jax -s jax_regression.py 'python $DTF_TASK_SCRIPT'

Every process ends with ``FINAL rank=<rank> size=<processes> slope=<x> offset=<x>``,
all with the same numbers: the slope comes to 3 and the offset to 2.
"""

import jax

jax.distributed.initialize()

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax.sharding import Mesh, NamedSharding, PartitionSpec  # noqa: E402

STEPS, POINTS, RATE = 100, 64, 0.3


def main():
    rank, size = jax.process_index(), jax.process_count()
    mesh = Mesh(np.array(jax.devices()), ("data",))
    split = NamedSharding(mesh, PartitionSpec("data"))
    own = np.random.default_rng(rank).uniform(-1, 1, POINTS).astype(np.float32)
    inputs = jax.make_array_from_process_local_data(split, own)
    targets = jax.make_array_from_process_local_data(split, 3 * own + 2)

    def loss(line, inputs, targets):
        # The mean is one over the data of all processes.
        return jnp.mean((line[0] * inputs + line[1] - targets) ** 2)

    @jax.jit
    def step(line, inputs, targets):
        return line - RATE * jax.grad(loss)(line, inputs, targets)

    line = jnp.zeros(2)
    for _ in range(STEPS):
        line = step(line, inputs, targets)
    slope, offset = np.asarray(line.addressable_data(0))
    print(f"FINAL rank={rank} size={size} slope={slope:.3f} offset={offset:.3f}", flush=True)


if __name__ == "__main__":
    main()
