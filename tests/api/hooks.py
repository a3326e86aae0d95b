"""Adds to the requests that schemathesis derives from the API's description: likely names of adapters, and keys of flows."""

import atexit
import os

import schemathesis
from hypothesis import strategies as st

# No call concerns `calm`: its guarantee must hold meanwhile.
NAMES = st.sampled_from(["greedy", "wild", "greedy/part", "GREEDY", "calm2", ".", "..", "a b", "%2F", "\x00", "é" * 70])
WORDS = st.sampled_from(["1", "-1", "0", "20p", "9kB", "1mbit", "1e400", "unlimited", "5ms", "namespace", "tap:none",
                         "any", "src", "codel", "", " ", "\n", "\"", "{", "drr", "🦀"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8) | WORDS,
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["rate", "delay", "burst", "kind", "limit", "policy"]) | st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)
KEYS = st.sampled_from(["weight", "queue", "requires", "envelope", "match", "mask", "max-flows", "scheduler", "flow", "adapter",
                        "need.rate", "weight.", ".", ""])
calls = 0


@schemathesis.serializer("application/toml")
def toml(context, value):
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "replace")


@schemathesis.hook
def before_generate_path_parameters(context, strategy):
    return strategy | st.fixed_dictionaries({"name": NAMES}) if "{name}" in context.operation.path else strategy


@schemathesis.hook
def before_generate_body(context, strategy):
    if context.operation.path == "/v1/adapters/{name}":
        return strategy | st.dictionaries(KEYS, VALUES, min_size=1, max_size=4)
    return strategy


@schemathesis.hook
def before_call(context, case, kwargs):
    # Names come from answers too. The adapter whose guarantee is monitored is never changed, and the others stay.
    name = (case.path_parameters or {}).get("name")
    if case.method != "GET" and name == "calm":
        case.path_parameters["name"] = "wild"
    if case.method == "DELETE":
        case.query = {**(case.query or {}), "check": "true"}


@schemathesis.hook
def after_call(context, case, response):
    global calls
    calls += 1


@atexit.register
def tell():
    with open(os.environ["CALLS"], "w") as file:
        print(calls, file=file)
