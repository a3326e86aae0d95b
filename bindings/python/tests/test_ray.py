"""A sweep on a Ray cluster of two workers on this machine. It runs in a session of its own, so that all processes
that Ray starts are ended with it."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap

import pytest

import falaj
from falaj import clusters

AXES = {"link.uplink.rate": ["10mbit", "20mbit"], "scheduler": ["drr", "fifo"]}


def run(script, *args):
    """Runs a script that uses Ray, and returns its output. The temporary directory has a short name because Ray's sockets are in it, and the path of a socket is limited in length."""
    pytest.importorskip("ray", reason="there is no Ray for this Python")
    place = tempfile.mkdtemp(prefix="ray", dir="/tmp")
    quiet = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS": "0", "RAY_TMPDIR": place, "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0"}
    env = {**os.environ, **quiet}
    env.pop("RAY_ADDRESS", None)
    command = [sys.executable, "-c", textwrap.dedent(script), place, *map(str, args)]
    process = subprocess.Popen(
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        out, err = process.communicate(timeout=180)
        assert process.returncode == 0, err
        return out
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
        shutil.rmtree(place, ignore_errors=True)


def test_two_workers_give_the_bytes_of_one_machine(file, tmp_path):
    out = run(
        f"""
        import os, sys
        import falaj, ray

        place, file, lines = sys.argv[1:]
        ray.init(num_cpus=2, include_dashboard=False, _temp_dir=place, _node_ip_address="127.0.0.1",
                 object_store_memory=80 << 20, logging_level="error")

        @ray.remote(num_cpus=1)
        class Other:
            def process(self):
                return os.getpid()

        both = [Other.remote() for _ in range(2)]
        assert len(set(ray.get([one.process.remote() for one in both])) | {{os.getpid()}}) == 3
        del both
        sweep = falaj.Sweep(file, {AXES!r}, replications=3, duration="50ms")
        with open(lines, "w") as out:
            out.write(sweep.run(engine="ray"))
        assert sweep.run("2/3", engine="ray") == sweep.run("2/3")
        table = falaj.sweep(file, {AXES!r}, replications=3, duration="50ms", engine="ray")
        print(len(table), *sorted(set(table["link.uplink.rate"])))
        # Errors on the workers are raised here.
        from falaj import clusters
        broken = ray.remote(num_cpus=1)(clusters._part).remote("0.0.0", sweep.text, "1/1")
        try:
            ray.get(broken)
        except falaj.SweepError as error:
            print("install the same version on all machines" in str(error))
        ray.shutdown()
        """,
        file,
        tmp_path / "lines",
    )
    assert out.splitlines() == ["8 10mbit 20mbit", "True"]
    local = falaj.Sweep(file, AXES, replications=3, duration="50ms").run(engine="local")
    assert (tmp_path / "lines").read_text() == local


def test_without_a_cluster_that_is_said(file):
    out = run(
        """
        import sys
        import falaj

        try:
            falaj.sweep(sys.argv[2], {"uplink.rate": ["1mbit"]}, engine="ray")
        except falaj.SweepError as error:
            print(error)
        """,
        file,
    )
    assert out.startswith("there is no Ray cluster: start one with `ray start --head`"), out


def test_without_ray_that_is_said(scenario, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r"pip install 'falaj\[ray\]'"):
        falaj.Sweep(scenario, AXES).run(engine="ray")


def test_engines_are_known_and_versions_alike(scenario):
    with pytest.raises(ValueError, match="there is no engine 'spark'; there are 'local' and 'ray'"):
        falaj.sweep(scenario, AXES, engine="spark")
    sweep = falaj.Sweep(scenario, AXES, replications=1, duration="50ms")
    assert clusters._part(falaj.__version__, sweep.text, "1/1") == sweep.run()
    with pytest.raises(falaj.SweepError, match="install the same version on all machines"):
        clusters._part("0.0.0", sweep.text, "1/1")
