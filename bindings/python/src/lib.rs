//! The native part of the Python package `falaj`: scenarios, simulation, plans, sweeps and queues,
//! as in the program.
//!
//! Users see the modules in `python/falaj`, which have the documentation and the types, and which
//! call this module; only the classes of `queueing` and `Queues` are documented here. Tables are
//! passed to Python through the Arrow C data interface, and simulation does not hold the
//! interpreter's lock.
//!
//! | module | contents |
//! |---|---|
//! | `scenario` | reading, changing, planning and simulating a scenario |
//! | `results` | results of a simulation, as tables |
//! | `table` | columns that Python takes over without a copy |
//! | `scheduler` | a discipline implemented by a Python class |
//! | `sweep` | a scenario with each combination of values |
//! | `queueing` | phase types, arrivals, queues by matrices |
//! | `toml` | Python values as TOML |
//! | `errors` | errors as exceptions |
//! | `interrupt` | work that Ctrl-C interrupts |
#![forbid(unsafe_code)]
#![warn(clippy::unwrap_used)]

mod errors;
mod interrupt;
mod queueing;
mod results;
mod scenario;
mod scheduler;
mod sweep;
mod table;
mod toml;

use pyo3::prelude::*;

/// The native part of `falaj`, for its Python modules only.
#[pymodule(gil_used = true)]
fn _falaj(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<scenario::Scenario>()?;
    module.add_class::<results::Results>()?;
    module.add_class::<table::Columns>()?;
    module.add_class::<table::Column>()?;
    module.add_class::<scheduler::Queues>()?;
    module.add_class::<sweep::Sweep>()?;
    module.add_class::<queueing::PhaseType>()?;
    module.add_class::<queueing::Arrivals>()?;
    module.add_class::<queueing::Qbd>()?;
    module.add_class::<queueing::Solved>()?;
    module.add_class::<queueing::Queue>()?;
    module.add_function(wrap_pyfunction!(toml::document, module)?)?;
    module.add_function(wrap_pyfunction!(sweep::merge, module)?)?;
    module.add_function(wrap_pyfunction!(sweep::table, module)?)?;
    Ok(())
}
