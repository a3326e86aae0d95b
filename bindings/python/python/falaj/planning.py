"""Plans: the guarantees of a scenario, before anything runs."""

from __future__ import annotations

import json
from typing import Any, Dict, List

from . import _falaj
from .table import Table


class Plan:
    """The guarantees of a scenario for each flow: rate, delay, backlog, and the formula of each."""

    def __init__(self, inner: _falaj.Scenario) -> None:
        self._bounds = Table(inner.bounds())
        self._details: Dict[str, Any] = json.loads(inner.plan_json())

    @property
    def bounds(self) -> Table:
        """A row for each flow of each direction. The direction `down` is left out if it is configured like `up` and has no traffic source.

        | columns | |
        |---|---|
        | `link`, `way`, `flow` | names; `way` is `up` or `down` |
        | `offered_rate` | bit/s that the flow's sources offer in the long run |
        | `rate` | guaranteed bit/s while the flow is backlogged; missing: no guarantee |
        | `latency_ns` | latency of that guarantee: longest time until the rate begins |
        | `delay_ns` | smallest known upper bound of the delay, from last bit in to last bit out; missing: no bound is known |
        | `formula`, `condition`, `limit` | formula of the bound `delay_ns`, the condition under which it holds, and the reason why it is not lower |
        | `backlog_bytes` | maximum number of bytes queued |
        | `lossless` | true if the queue's limit is at least `backlog_bytes` |
        """
        return self._bounds

    @property
    def admitted(self) -> bool:
        """True if every flow's requirements are guaranteed."""
        return bool(self._details["admitted"])

    @property
    def refusals(self) -> List[str]:
        """The requirements that are not guaranteed, each with a change that helps; empty if `admitted`."""
        ways = self._details["directions"]
        return [f"{r['flow']}: {r['what']}; {r['help']}" for way in ways for r in way["refused"]]

    @property
    def details(self) -> Dict[str, Any]:
        """The whole plan, including curves, as `falaj plan --json` prints it."""
        return self._details

    def __repr__(self) -> str:
        return f"Plan({'admitted' if self.admitted else 'refused'}, {len(self.bounds)} flows)"
