//! Phase-type distributions, arrival processes, and queues, by matrices. Times are in a unit that
//! the caller chooses, rates are per that unit.

use falaj_queueing as queueing;
use falaj_queueing::Refused;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

fn refused(refused: Refused) -> PyErr {
    PyValueError::new_err(refused.to_string())
}

/// A phase-type distribution of order n: the lifetime of a Markov chain of n phases.
///
/// `start`: n probabilities, of beginning in each phase. `within`: n x n matrix of transition rates
/// between the phases, whose rows sum up to 0 or less. ValueError otherwise. Source: Neuts,
/// Matrix-Geometric Solutions in Stochastic Models (1981), chapter 2.
#[pyclass(frozen, module = "falaj.queueing")]
#[derive(Clone)]
pub(crate) struct PhaseType(queueing::PhaseType);

#[pymethods]
impl PhaseType {
    #[new]
    fn new(start: Vec<f64>, within: Vec<Vec<f64>>) -> PyResult<PhaseType> {
        queueing::PhaseType::new(start, &within).map(PhaseType).map_err(refused)
    }
    /// One exponential step of this rate.
    #[staticmethod]
    fn exponential(rate: f64) -> PyResult<PhaseType> {
        queueing::PhaseType::exponential(rate).map(PhaseType).map_err(refused)
    }
    /// A sum of `phases` exponential steps, each of this rate.
    #[staticmethod]
    fn erlang(phases: usize, rate: f64) -> PyResult<PhaseType> {
        queueing::PhaseType::erlang(phases, rate).map(PhaseType).map_err(refused)
    }
    /// One of several exponential steps: pairs of probability and rate.
    #[staticmethod]
    fn hyper_exponential(branches: Vec<(f64, f64)>) -> PyResult<PhaseType> {
        queueing::PhaseType::hyper_exponential(&branches).map(PhaseType).map_err(refused)
    }
    /// One of several distributions, chosen at random: pairs of probability and distribution.
    #[staticmethod]
    fn mixture(parts: Vec<(f64, PyRef<'_, PhaseType>)>) -> PyResult<PhaseType> {
        let parts: Vec<_> =
            parts.into_iter().map(|(share, part)| (share, part.0.clone())).collect();
        queueing::PhaseType::mixture(&parts).map(PhaseType).map_err(refused)
    }
    /// Number of phases.
    #[getter]
    fn order(&self) -> usize {
        self.0.order()
    }
    /// The mean.
    #[getter]
    fn mean(&self) -> f64 {
        self.0.mean()
    }
    /// Variance over the square of the mean.
    #[getter]
    fn squared_variation(&self) -> f64 {
        self.0.squared_variation()
    }
    /// The `n`-th moment.
    fn moment(&self, n: u32) -> f64 {
        self.0.moment(n)
    }
    /// The probability that the time exceeds `time`.
    fn tail(&self, time: f64) -> f64 {
        self.0.tail(time)
    }
    /// The Laplace transform at `s`: the mean of exp(-s X), where X is the time.
    fn transform(&self, s: f64) -> f64 {
        self.0.transform(s)
    }
    /// The distribution of the time multiplied by `factor`.
    fn scaled(&self, factor: f64) -> PyResult<PhaseType> {
        self.0.scaled(factor).map(PhaseType).map_err(refused)
    }
    /// The distribution of the remaining time at a random instant.
    fn residual(&self) -> PhaseType {
        PhaseType(self.0.residual())
    }
    /// The distribution of the minimum of two independent times.
    fn least(&self, other: &PhaseType) -> PhaseType {
        PhaseType(self.0.least(&other.0))
    }
    fn __repr__(&self) -> String {
        format!("PhaseType(order={}, mean={})", self.order(), self.mean())
    }
}

/// A Markovian arrival process of order n.
///
/// `silent` (D0) and `heard` (D1): n x n rates of transitions without and with an arrival; the rows
/// of both together sum up to 0. ValueError otherwise. Source: Lucantoni, Meier-Hellstern, Neuts, A
/// single-server queue with server vacations and a class of non-renewal arrival processes (1990).
#[pyclass(frozen, module = "falaj.queueing")]
pub(crate) struct Arrivals(queueing::Arrivals);

#[pymethods]
impl Arrivals {
    #[new]
    fn new(silent: Vec<Vec<f64>>, heard: Vec<Vec<f64>>) -> PyResult<Arrivals> {
        queueing::Arrivals::new(&silent, &heard).map(Arrivals).map_err(refused)
    }
    /// A renewal process: independent intervals of this distribution.
    #[staticmethod]
    fn renewal(interval: &PhaseType) -> Arrivals {
        Arrivals(queueing::Arrivals::renewal(&interval.0))
    }
    /// The superposition of `count` sources with Erlang intervals of `phases` steps of this rate.
    #[staticmethod]
    fn erlangs(count: usize, phases: usize, rate: f64) -> PyResult<Arrivals> {
        queueing::Arrivals::erlangs(count, phases, rate).map(Arrivals).map_err(refused)
    }
    /// The superposition of two independent processes; each has its own phase.
    fn superposed(&self, other: &Arrivals) -> Arrivals {
        Arrivals(self.0.with(&other.0))
    }
    /// Number of phases.
    #[getter]
    fn order(&self) -> usize {
        self.0.order()
    }
    /// Arrivals per unit of time.
    #[getter]
    fn rate(&self) -> f64 {
        self.0.rate()
    }
    /// The probability of each phase at a random instant.
    #[getter]
    fn phases(&self) -> Vec<f64> {
        self.0.phases()
    }
    /// The marginal distribution of the interval between two arrivals.
    #[getter]
    fn interval(&self) -> PhaseType {
        PhaseType(self.0.interval())
    }
    /// The distribution of the time from a random instant to the next arrival.
    #[getter]
    fn residual(&self) -> PhaseType {
        PhaseType(self.0.residual())
    }
    fn __repr__(&self) -> String {
        format!("Arrivals(order={}, rate={})", self.order(), self.rate())
    }
}

/// A quasi-birth-death process of order n away from its boundary: a level that moves by one at a
/// time, and a phase.
///
/// `up` (A0), `within` (A1), `down` (A2): n x n rates to the level above, within a level, and to
/// the level below; the rows of all three together sum up to 0. ValueError otherwise. Sources:
/// Latouche and Ramaswami (1993); Bini and Meini (1995).
#[pyclass(frozen, module = "falaj.queueing")]
pub(crate) struct Qbd(queueing::Qbd);

#[pymethods]
impl Qbd {
    #[new]
    fn new(up: Vec<Vec<f64>>, within: Vec<Vec<f64>>, down: Vec<Vec<f64>>) -> PyResult<Qbd> {
        queueing::Qbd::from_rows(&up, &within, &down).map(Qbd).map_err(refused)
    }
    /// The size n of its blocks: the number of phases.
    #[getter]
    fn order(&self) -> usize {
        self.0.order()
    }
    /// Mean change of the level per unit of time, far from the boundary; stable if below 0.
    #[getter]
    fn drift(&self) -> f64 {
        self.0.drift()
    }
    /// Computes G and R, by "cyclic" or "logarithmic" reduction. ValueError if it is not stable.
    #[pyo3(signature = (method="cyclic"))]
    fn solve(&self, py: Python<'_>, method: &str) -> PyResult<Solved> {
        let method = match method {
            "cyclic" => queueing::Method::CyclicReduction,
            "logarithmic" => queueing::Method::LogarithmicReduction,
            other => {
                let what = format!(
                    "there is no method {other:?}; there are \"cyclic\" and \"logarithmic\""
                );
                return Err(PyValueError::new_err(what));
            }
        };
        let drift = self.0.drift();
        if drift >= 0.0 {
            return Err(PyValueError::new_err(format!(
                "unstable: the level rises by {drift:.4} per unit of time"
            )));
        }
        py.detach(|| self.0.solve(method)).map(Solved).map_err(refused)
    }
}

/// The matrices G and R of a process of order n.
#[pyclass(frozen, module = "falaj.queueing")]
pub(crate) struct Solved(queueing::Solved);

#[pymethods]
impl Solved {
    /// G, n x n: probabilities of the phase in which the next lower level is first entered.
    #[getter]
    fn g(&self) -> Vec<Vec<f64>> {
        self.0.g_rows()
    }
    /// R, n x n: expected time in the phases of the next higher level per unit of time in the
    /// phases of this level.
    #[getter]
    fn r(&self) -> Vec<Vec<f64>> {
        self.0.r_rows()
    }
    /// The limit of the ratio between the probabilities of consecutive levels.
    #[getter]
    fn decay(&self) -> f64 {
        self.0.decay()
    }
    /// Number of steps of the reduction.
    #[getter]
    fn steps(&self) -> usize {
        self.0.steps
    }
    /// The largest entry of A0 + R A1 + R^2 A2, divided by the fastest rate; 0 if R is exact.
    #[getter]
    fn residual(&self) -> f64 {
        self.0.residual_r
    }
}

/// The steady state of a queue with one server, first come first served: MAP/PH/1.
///
/// ValueError if the load is not below 1.
#[pyclass(frozen, module = "falaj.queueing")]
pub(crate) struct Queue(queueing::Queue);

#[pymethods]
impl Queue {
    #[new]
    fn new(py: Python<'_>, arrivals: &Arrivals, service: &PhaseType) -> PyResult<Queue> {
        py.detach(|| queueing::Queue::new(&arrivals.0, &service.0)).map(Queue).map_err(refused)
    }
    /// The load: arriving work per unit of time, as a fraction of the server's capacity.
    #[getter]
    fn load(&self) -> f64 {
        self.0.load()
    }
    /// Mean number of customers, including the one in service.
    #[getter]
    fn mean_number(&self) -> f64 {
        self.0.mean_number()
    }
    /// Mean wait of an arrival.
    #[getter]
    fn mean_wait(&self) -> f64 {
        self.0.mean_wait()
    }
    /// Probability that an arrival finds the queue empty and does not wait.
    #[getter]
    fn no_wait(&self) -> f64 {
        self.0.no_wait()
    }
    /// Probabilities of a wait longer than each of these times.
    fn waits_longer(&self, times: Vec<f64>) -> Vec<f64> {
        self.0.waits_longer(&times)
    }
    /// The distribution of the wait, of phase type.
    fn wait(&self) -> PhaseType {
        PhaseType(self.0.wait())
    }
    fn __repr__(&self) -> String {
        format!("Queue(load={}, mean_wait={})", self.load(), self.mean_wait())
    }
}
