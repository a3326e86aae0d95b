import math

import pytest

from falaj.queueing import Arrivals, PhaseType, Qbd, Queue


def test_a_queue_of_exponentials_is_as_the_textbook_has_it():
    queue = Queue(Arrivals.renewal(PhaseType.exponential(0.8)), PhaseType.exponential(1.0))
    # M/M/1: the mean wait is rho / (mu - lambda), and P(W > t) = rho exp(-(mu - lambda) t).
    assert queue.load == pytest.approx(0.8) and queue.mean_wait == pytest.approx(4)
    assert queue.waits_longer([0.0, 2.0]) == pytest.approx([0.8, 0.8 * math.exp(-0.4)])
    assert queue.wait().mean == pytest.approx(4) and queue.no_wait == pytest.approx(0.2)


def test_phase_types_have_their_moments():
    erlang = PhaseType.erlang(4, 2.0)
    assert (erlang.order, erlang.mean) == (4, pytest.approx(2)) and erlang.squared_variation == pytest.approx(1 / 4)
    same = PhaseType([1, 0], [[-3, 3], [0, -3]])
    assert same.mean == pytest.approx(2 / 3) and same.tail(0) == pytest.approx(1)
    assert PhaseType.mixture([(0.5, erlang), (0.5, same)]).mean == pytest.approx(4 / 3)
    assert erlang.residual().mean == pytest.approx(erlang.moment(2) / (2 * erlang.mean))


def test_a_process_is_solved_by_both_methods():
    # M/M/1 as a process of one phase: G = 1, R = rho.
    one = Qbd([[0.8]], [[-1.8]], [[1.0]])
    for method in ("cyclic", "logarithmic"):
        solved = one.solve(method)
        assert solved.g == [[pytest.approx(1)]] and solved.r == [[pytest.approx(0.8)]] and solved.decay == pytest.approx(0.8)
    arrivals = Arrivals([[-3, 1], [0, -2]], [[2, 0], [1, 1]])
    assert sum(arrivals.phases) == pytest.approx(1) and arrivals.superposed(arrivals).rate == pytest.approx(2 * arrivals.rate)


def test_what_is_no_answer_is_an_error():
    for wrong in [
        lambda: PhaseType([1.5], [[-1]]),
        lambda: PhaseType.exponential(float("nan")),
        lambda: Arrivals([[-1]], [[2]]),
        lambda: Qbd([[1]], [[-1]], [[1]]),
        lambda: Qbd([[1, 0]], [[-1]], [[1]]),
        lambda: Qbd([[1]], [[-1.5]], [[0.5]]).solve(),
        lambda: Qbd([[1]], [[-3]], [[2]]).solve("guess"),
        lambda: Queue(Arrivals.renewal(PhaseType.exponential(2)), PhaseType.exponential(1)),
    ]:
        with pytest.raises(ValueError):
            wrong()
