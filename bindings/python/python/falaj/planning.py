"""Plans: what a scenario promises, before anything runs."""

from __future__ import annotations

import json
from typing import Any, Dict, List

from . import _falaj
from .table import Table


class Plan:
    """What a scenario promises each flow: rate, delay, backlog, and by which formula."""

    def __init__(self, inner: _falaj.Scenario) -> None:
        self._bounds = Table(inner.bounds())
        self._details: Dict[str, Any] = json.loads(inner.plan_json())

    @property
    def bounds(self) -> Table:
        """A line for each flow of each direction.

        | columns | |
        |---|---|
        | `link`, `way`, `flow` | which; `way` is `up` or `down` |
        | `offered_rate` | bit/s that its sources offer in the long run |
        | `rate` | bit/s that it is promised while it is backlogged; missing: no promise |
        | `latency_ns` | the longest that it waits for that rate to begin |
        | `delay_ns` | the lowest bound on the delay, last bit in to last bit out; missing: none is known |
        | `formula`, `condition`, `limit` | where that is from, on what it rests, why it is no lower |
        | `backlog_bytes` | how much is queued at most |
        | `lossless` | does the queue hold that? |
        """
        return self._bounds

    @property
    def admitted(self) -> bool:
        """Is every flow promised what it needs?"""
        return bool(self._details["admitted"])

    @property
    def refusals(self) -> List[str]:
        """What is needed and not promised, and what would do; empty if `admitted`."""
        ways = self._details["directions"]
        return [f"{r['flow']}: {r['what']}; {r['help']}" for way in ways for r in way["refused"]]

    @property
    def details(self) -> Dict[str, Any]:
        """All of it, curves included, as `falaj plan --json` prints it."""
        return self._details

    def __repr__(self) -> str:
        return f"Plan({'admitted' if self.admitted else 'refused'}, {len(self.bounds)} flows)"
