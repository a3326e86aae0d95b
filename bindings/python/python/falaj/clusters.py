"""Sweeps on the machines of a Ray cluster."""

from __future__ import annotations

import platform

from . import _falaj
from .errors import SweepError

# Parts of a sweep per core. Several, so that faster cores do more parts, and a lost machine costs little work.
PARTS = 4


def _part(version: str, text: str, shard: str) -> str:
    """Runs a part of a sweep on one core of a machine of the cluster."""
    if version != _falaj.__version__:
        raise SweepError(f"falaj is {_falaj.__version__} on {platform.node()} and {version} here: install the same version on all machines")
    return _falaj.Sweep.read(text).run(shard, 1)


def run(sweep: _falaj.Sweep, shard: str) -> str:
    """Simulates a shard on the cluster and returns the lines that `sweep.run(shard)` would return; an exception, such as Ctrl-C, cancels the remaining parts.

    Raises:
        ImportError: Ray is not installed.
        SweepError: There is no cluster, or it has another version of falaj.
    """
    try:
        import ray
    except ImportError as error:
        raise ImportError("engine=\"ray\" needs Ray: pip install 'falaj[ray]'") from error
    if not ray.is_initialized():
        try:
            ray.init(address="auto", log_to_driver=False)
        except ConnectionError as error:
            raise SweepError(
                "there is no Ray cluster: start one with `ray start --head`, name one in RAY_ADDRESS, or call `ray.init()` before this call"
            ) from error
    shards = sweep.split(shard, PARTS * int(ray.cluster_resources().get("CPU", 1)))
    part = ray.remote(num_cpus=1)(_part)
    pending = [part.remote(_falaj.__version__, sweep.text, shard) for shard in shards]
    try:
        done = ray.get(pending)
    except BaseException:
        for one in pending:
            ray.cancel(one)
        raise
    return _falaj.merge(list(zip(shards, done)))
