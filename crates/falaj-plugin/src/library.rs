//! A library, from its file to its first instance.

use crate::instance::{Functions, LibraryInstance};
use crate::{SYMBOL, Unloadable};
use falaj_plugin_api::abi;
use falaj_sched::contract::library::{Instance, Library, Traits};
use falaj_sched::contract::params::{ConfigError, Given, Setup, Unit};
use falaj_sched::queues::queue::Limit;
use std::ffi::{CStr, CString, c_char};
use std::path::Path;
use std::{fmt, mem, ptr};

/// A library whose discipline can be used.
pub(crate) struct Shared {
    name: String,
    functions: Functions,
    create: abi::Create,
    flags: u32,
    /// Address of its `create` function, which identifies the library.
    code: usize,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Shared").field(&self.name).finish()
    }
}

impl Shared {
    pub(crate) fn open(path: &Path, name: &str) -> Result<Shared, Unloadable> {
        let unloadable = |what: String, help: &str| Unloadable {
            what: format!("`{name}` {what}"),
            help: help.into(),
        };
        let build = "build it as a shared library for this system: docs/how-to/plugin.md";
        // SAFETY: this runs its initialisers, which the user who names a library asks for.
        let library = unsafe { libloading::Library::new(path) };
        let library = library
            .map_err(|error| unloadable(format!("cannot be loaded: {}", because(&error)), build))?;
        // SAFETY: nothing is called or read through the symbol before its first word has been
        // checked.
        let symbol = unsafe { library.get::<*const abi::Discipline>(SYMBOL.as_bytes()) };
        let table: *const abi::Discipline = match symbol {
            Ok(symbol) => *symbol,
            Err(_) => {
                let help = "export the constant of that name that `falaj_discipline.h` declares";
                return Err(unloadable(
                    format!("is not a discipline: there is no `{SYMBOL}` in it"),
                    help,
                ));
            }
        };
        if table.is_null() || !table.is_aligned() {
            return Err(unloadable(
                format!(
                    "is not a discipline: `{SYMBOL}` is at an address that a table cannot have"
                ),
                build,
            ));
        }
        // SAFETY: a symbol that is aligned for a table has at least four bytes, whatever it is.
        let version = unsafe { table.cast::<u32>().read() };
        if version >> 16 != abi::ABI >> 16 {
            let help = "its first member `abi` has to be FALAJ_ABI";
            return Err(unloadable(
                format!("is not a discipline: `{SYMBOL}` begins with {version:#010x}"),
                help,
            ));
        }
        if version != abi::ABI {
            let what = format!(
                "is of version {} of the plug-ins' interface, and this is version {}",
                version & 0xffff,
                abi::ABI & 0xffff
            );
            return Err(unloadable(what, "build it again with the header of this version"));
        }
        // SAFETY: the symbol declares itself a table of this version, and is never written to.
        let table = unsafe { table.read() };
        if table.name.is_null() {
            return Err(unloadable(
                "is not a discipline: its `name` is NULL".into(),
                "name it, in one line",
            ));
        }
        let lacks = |what: &str| {
            let help = "only those after `take` may be NULL";
            unloadable(format!("is not a discipline: its `{what}` is NULL"), help)
        };
        let create = table.create.ok_or_else(|| lacks("create"))?;
        let functions = Functions {
            destroy: table.destroy.ok_or_else(|| lacks("destroy"))?,
            ready: table.ready.ok_or_else(|| lacks("ready"))?,
            next: table.next.ok_or_else(|| lacks("next"))?,
            take: table.take.ok_or_else(|| lacks("take"))?,
            arrived: table.arrived,
            changed: table.changed,
            migrate_from: table.migrate_from,
            is_reusable: table.is_reusable,
            guarantee: table.guarantee,
        };
        // A thread may be executing the library at any time, so it is never unloaded.
        mem::forget(library);
        Ok(Shared {
            name: name.into(),
            functions,
            create,
            flags: table.flags,
            code: create as usize,
        })
    }
}

/// The system's message, without the message of the library crate.
fn because(error: &libloading::Error) -> String {
    use std::error::Error;
    error.source().map_or_else(|| error.to_string(), |source| source.to_string())
}

impl Library for Shared {
    fn name(&self) -> &str {
        &self.name
    }

    fn code(&self) -> usize {
        self.code
    }

    fn traits(&self) -> Traits {
        Traits {
            work_conserving: self.flags & abi::WORK_CONSERVING != 0,
            sees_arrivals: self.functions.arrived.is_some(),
            can_migrate: self.functions.migrate_from.is_some(),
        }
    }

    fn make(&self, setup: &Setup) -> Result<Box<dyn Instance>, ConfigError> {
        let scheduler = Texts::of(setup.scheduler.given());
        let of_flows: Vec<Texts> =
            setup.flows.iter().map(|flow| Texts::of(flow.values.given())).collect();
        let (scheduler_params, of_flows_params) =
            (scheduler.params(), of_flows.iter().map(Texts::params));
        let of_flows_params: Vec<Vec<abi::Param>> = of_flows_params.collect();
        let flow =
            |(flow, params): (&falaj_sched::contract::params::FlowSetup, &Vec<abi::Param>)| {
                let (max_packets, max_bytes) = match flow.limit {
                    Limit::Packets(packets) => (packets, u64::MAX),
                    Limit::Bytes(bytes) => (abi::UNBOUNDED, bytes),
                };
                abi::Flow {
                    params: params.as_ptr(),
                    max_bytes,
                    max_packets,
                    param_count: params.len() as u32,
                }
            };
        let flows: Vec<abi::Flow> = setup.flows.iter().zip(&of_flows_params).map(flow).collect();
        let given = abi::Setup {
            flows: flows.as_ptr(),
            params: scheduler_params.as_ptr(),
            rate: setup.rate.0,
            flow_count: flows.len() as u32,
            param_count: scheduler_params.len() as u32,
            largest: setup.largest,
            reserved: 0,
        };
        let mut refusal = abi::Refusal {
            flow: abi::NO_FLOW,
            what: [0; abi::TEXT_BYTES],
            help: [0; abi::TEXT_BYTES],
        };
        // SAFETY: arrays and texts are as the header requires, and are valid until the call
        // returns.
        let made = unsafe { (self.create)(&raw const given, &raw mut refusal) };
        match ptr::NonNull::new(made) {
            Some(own) => Ok(Box::new(LibraryInstance::new(self.functions, own, setup.flows.len()))),
            None => {
                let what = Some(read(&refusal.what)).filter(|what| !what.is_empty());
                let flow = Some(refusal.flow as usize).filter(|&flow| flow < setup.flows.len());
                Err(ConfigError {
                    flow,
                    param: "with",
                    what: what
                        .unwrap_or_else(|| "there is no instance, and no reason is given".into()),
                    help: read(&refusal.help),
                })
            }
        }
    }
}

/// A text up to its terminating zero, or to the end of the array.
fn read(text: &[c_char]) -> String {
    let bytes: Vec<u8> = text.iter().map(|&c| c as u8).collect();
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// Texts of parameters in C form.
struct Texts(Vec<(CString, CString, u64, u32)>);

impl Texts {
    fn of(given: &[Given]) -> Texts {
        let text = |text: &str| CString::new(text.replace('\0', " ")).unwrap_or_default();
        let unit = |unit: Unit| match unit {
            Unit::Text => abi::TEXT,
            Unit::Number => abi::NUMBER,
            Unit::Rate => abi::RATE,
            Unit::Span => abi::SPAN,
            Unit::Bytes => abi::BYTES,
            Unit::Packets => abi::PACKETS,
        };
        Texts(
            given.iter().map(|g| (text(&g.name), text(&g.text), g.number, unit(g.unit))).collect(),
        )
    }

    /// The parameters; they are valid as long as the texts.
    fn params(&self) -> Vec<abi::Param> {
        let pointer = |text: &CStr| text.as_ptr();
        let param = |(name, text, number, unit): &(CString, CString, u64, u32)| abi::Param {
            name: pointer(name),
            text: pointer(text),
            number: *number,
            unit: *unit,
            reserved: 0,
        };
        self.0.iter().map(param).collect()
    }
}
