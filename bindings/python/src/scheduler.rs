//! A discipline implemented by a Python class: an [`Instance`] with the same checks of the contract
//! as a discipline from a shared library.

use crate::errors;
use falaj_scenario::{Scenario, Towards};
use falaj_sched::contract::library::{
    Declared, Instance, Library, LibraryDecision, Loaded, QueueView, Traits,
};
use falaj_sched::contract::params::{ConfigError, POLICY, Setup, Value, Values};
use falaj_sched::contract::transmission::Sent;
use falaj_sched::queues::queue::FlowId;
use falaj_sched::registry;
use falaj_sched::units::time::Time;
use falaj_sim::Run;
use pyo3::exceptions::{PyIndexError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The first exception of Python code during a simulation; it ends the simulation.
#[derive(Clone)]
pub(crate) struct Failure {
    first: Arc<Mutex<Option<PyErr>>>,
    stop: Arc<AtomicBool>,
}

impl Failure {
    pub(crate) fn new(stop: Arc<AtomicBool>) -> Failure {
        Failure { first: Arc::default(), stop }
    }

    pub(crate) fn set(&self, error: PyErr) {
        self.first.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.stop.store(true, Ordering::Relaxed);
    }

    pub(crate) fn take(&self) -> Option<PyErr> {
        self.first.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// A scheduler's view of its queues, valid during the call only.
#[pyclass(frozen, module = "falaj._falaj")]
pub(crate) struct Queues(Mutex<Vec<QueueView>>);

impl Queues {
    fn of(&self, flow: usize) -> PyResult<QueueView> {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let missing = || {
            PyIndexError::new_err(format!(
                "there is no flow {flow}: there are {}, from 0 on",
                seen.len()
            ))
        };
        seen.get(flow).copied().ok_or_else(missing)
    }
}

#[pymethods]
impl Queues {
    fn __len__(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Length in bytes of the head-of-line packet of a flow; 0 if its queue is empty.
    fn head(&self, flow: usize) -> PyResult<u32> {
        Ok(self.of(flow)?.head)
    }

    /// Number of queued packets, including the packet in transmission.
    fn packets(&self, flow: usize) -> PyResult<u32> {
        Ok(self.of(flow)?.packets)
    }

    /// Number of queued bytes, including those of the packet in transmission.
    fn bytes(&self, flow: usize) -> PyResult<u64> {
        Ok(self.of(flow)?.bytes)
    }

    /// The flows that have a packet to send, in ascending order.
    fn backlogged(&self) -> Vec<usize> {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.iter().enumerate().filter(|(_, seen)| seen.head > 0).map(|(flow, _)| flow).collect()
    }
}

/// Replaces one direction's discipline by a class.
pub(crate) fn put(
    py: Python<'_>,
    scenario: &mut Scenario,
    link: &str,
    up: bool,
    class: Py<PyAny>,
    failure: &Failure,
) -> PyResult<()> {
    let towards = if up { Towards::Up } else { Towards::Down };
    let Some(n) = scenario.link(link) else {
        let names: Vec<&str> = scenario.links.iter().map(|link| link.name.as_str()).collect();
        return Err(errors::unknown_key(
            py,
            &format!("there is no link `{link}`; there is `{}`", names.join("`, `")),
        ));
    };
    let link = &mut scenario.links[n];
    let direction = if towards == Towards::Up { &mut link.up } else { &mut link.down };
    if direction.pipe.setup.flows.iter().any(|flow| flow.inner.is_some()) {
        return Err(PyValueError::new_err(format!(
            "flows of {} are divided, and a Python class can only serve undivided flows",
            link.name
        )));
    }
    let bound = class.bind(py);
    let name = bound
        .getattr("__name__")
        .and_then(|name| name.extract())
        .unwrap_or_else(|_| bound.to_string());
    let work_conserving = match bound.getattr("work_conserving") {
        Ok(value) => value.is_truthy()?,
        Err(_) => false,
    };
    let library = Class {
        name,
        work_conserving,
        rate: direction.pipe.setup.rate.0,
        flows: direction.flows.iter().map(|flow| flow.name.clone()).collect(),
        limits: direction.pipe.setup.flows.iter().map(|flow| flow.limit.to_string()).collect(),
        class,
        failure: failure.clone(),
    };
    direction.pipe.kind = registry::PLUGIN.kind;
    direction.pipe.setup.scheduler = Values::default();
    direction.pipe.setup.scheduler.set_library(Loaded::new(library));
    for flow in &mut direction.pipe.setup.flows {
        // Parameters of the replaced discipline do not apply to this one.
        let policy = flow.values.policy();
        flow.values = Values::default();
        if let Some(policy) = policy {
            flow.values.set(POLICY, Value::Policy(policy));
        }
    }
    Ok(())
}

/// Returns an error if a class broke the contract.
pub(crate) fn judge(py: Python<'_>, runs: &[Run]) -> PyResult<()> {
    let broken = runs.iter().flat_map(|run| run.breaches.iter().flatten()).next();
    broken.map_or(Ok(()), |breach| {
        let text = format!(
            "{} broke the contract at {}: {}",
            breach.library,
            breach.at.since(Time::ZERO),
            breach.what
        );
        Err(errors::scheduler(py, &text))
    })
}

/// A class, and the direction that it schedules.
struct Class {
    name: String,
    work_conserving: bool,
    rate: u64,
    flows: Vec<String>,
    limits: Vec<String>,
    class: Py<PyAny>,
    failure: Failure,
}

impl fmt::Debug for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Class").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Library for Class {
    fn name(&self) -> &str {
        &self.name
    }

    fn code(&self) -> usize {
        self.class.as_ptr() as usize
    }

    fn traits(&self) -> Traits {
        Traits { work_conserving: self.work_conserving, sees_arrivals: true, can_migrate: false }
    }

    fn make(&self, setup: &Setup) -> Result<Box<dyn Instance>, ConfigError> {
        Python::attach(|py| {
            let made = || -> PyResult<Box<dyn Instance>> {
                let fields = PyDict::new(py);
                fields.set_item("flows", &self.flows)?;
                fields.set_item("limits", &self.limits)?;
                fields.set_item("rate", self.rate)?;
                fields.set_item("largest", setup.largest)?;
                let link =
                    py.import("falaj.scheduler")?.getattr("Link")?.call((), Some(&fields))?;
                let own = self.class.bind(py).call1((link,))?;
                let method =
                    |name: &str| own.getattr_opt(name).map(|found| found.map(Bound::unbind));
                let next = method("next")?
                    .ok_or_else(|| PyTypeError::new_err(format!("{} has no `next`", self.name)))?;
                Ok(Box::new(ClassInstance {
                    queues: Py::new(
                        py,
                        Queues(Mutex::new(vec![QueueView::default(); setup.flows.len()])),
                    )?,
                    arrive: method("arrive")?,
                    next,
                    served: method("served")?,
                    wait: py.import("falaj.scheduler")?.getattr("Wait")?.unbind(),
                    name: self.name.clone(),
                    failure: self.failure.clone(),
                    failed: None,
                }))
            };
            made().map_err(|error| {
                let what = error.to_string();
                self.failure.set(error);
                ConfigError { flow: None, param: "library", what, help: "correct the class".into() }
            })
        })
    }
}

/// An instance of the class, for one pipe of one replication.
struct ClassInstance {
    queues: Py<Queues>,
    arrive: Option<Py<PyAny>>,
    next: Py<PyAny>,
    served: Option<Py<PyAny>>,
    wait: Py<PyAny>,
    name: String,
    failure: Failure,
    failed: Option<String>,
}

impl ClassInstance {
    fn fail(&mut self, error: PyErr) {
        self.failed.get_or_insert_with(|| error.to_string());
        self.failure.set(error);
    }

    fn show(&self, queues: &[QueueView]) {
        self.queues.get().0.lock().unwrap_or_else(PoisonError::into_inner).copy_from_slice(queues);
    }

    fn asked(&self, py: Python<'_>, now: Time) -> PyResult<LibraryDecision> {
        let said = self.next.bind(py).call1((&self.queues, now.0))?;
        if said.is_none() {
            return Ok(LibraryDecision::Idle);
        }
        if said.is_instance(self.wait.bind(py))? {
            return Ok(LibraryDecision::Wait(Time(said.getattr("until")?.extract()?)));
        }
        let wrong = || {
            let what = format!(
                "`next` of {} returned {said}; it must return a flow's number, None, or \
                 falaj.Wait(until)",
                self.name
            );
            PyTypeError::new_err(what)
        };
        Ok(LibraryDecision::Serve(said.extract().map_err(|_| wrong())?))
    }
}

impl Instance for ClassInstance {
    fn arrived(&mut self, _: &[QueueView], f: FlowId, bytes: u32, now: Time) -> u64 {
        if let (Some(arrive), None) = (&self.arrive, &self.failed)
            && let Err(error) = Python::attach(|py| arrive.call1(py, (f.0, bytes, now.0)))
        {
            self.fail(error);
        }
        0
    }

    fn ready(&mut self, _: &[QueueView], _: FlowId, _: Time) {}

    fn changed(&mut self, _: &[QueueView], _: FlowId, _: Time) {}

    fn next(&mut self, queues: &[QueueView], now: Time) -> LibraryDecision {
        if self.failed.is_some() {
            return LibraryDecision::Failed;
        }
        self.show(queues);
        match Python::attach(|py| self.asked(py, now)) {
            Ok(said) => said,
            Err(error) => {
                self.fail(error);
                LibraryDecision::Failed
            }
        }
    }

    fn why(&self) -> String {
        self.failed.clone().unwrap_or_default()
    }

    fn on_transmit(&mut self, _: &[QueueView], f: FlowId, sent: Sent) {
        if let (Some(served), None) = (&self.served, &self.failed)
            && let Err(error) =
                Python::attach(|py| served.call1(py, (f.0, sent.bytes, sent.start.0, sent.end.0)))
        {
            self.fail(error);
        }
    }

    /// Never called, since the class does not declare that it can take over state.
    fn migrate_from(&mut self, _: Box<dyn Instance>, _: &[QueueView], _: Time) {}

    /// Returns false, since the state that the class keeps for a flow is unknown.
    fn is_reusable(&self, _: FlowId, _: Time) -> bool {
        false
    }

    fn guarantee(&self, _: FlowId) -> Option<Declared> {
        None
    }
}
