//! The target of `attach`: an interface, a process, or a container, found by the command of its
//! runtime.

use anyhow::{Context, Result, anyhow, bail};
use falaj_live::backend::InterfaceName;
use falaj_live::backend::nfqueue::attached::Target;
use falaj_live::host;
use std::process::{Command, Stdio};

/// A container runtime, queried by its command-line program.
struct Runtime {
    /// Prefix of a container's name on the command line.
    scheme: &'static str,
    program: &'static str,
    /// Arguments that make the program print the process ID of a process in the container of this
    /// name or ID.
    words: fn(&str) -> Vec<String>,
    /// Arguments that make the program print the ID of the container of this name, for programs
    /// whose other commands accept only an ID.
    id_words: Option<fn(&str) -> Vec<String>>,
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

const RUNTIMES: [Runtime; 3] = [
    Runtime {
        scheme: "docker:",
        program: "docker",
        words: |name| words(&["inspect", "--format", "{{.State.Pid}}", name]),
        id_words: None,
    },
    Runtime {
        scheme: "podman:",
        program: "podman",
        words: |name| words(&["inspect", "--format", "{{.State.Pid}}", name]),
        id_words: None,
    },
    Runtime {
        scheme: "cri:",
        program: "crictl",
        words: |id| {
            words(&["inspect", "--output", "go-template", "--template", "{{.info.pid}}", id])
        },
        id_words: Some(|name| words(&["ps", "--quiet", "--name", &format!("^{name}$")])),
    },
];

impl Runtime {
    /// Returns the process ID of a container's first process; `None` if the program is not
    /// installed.
    ///
    /// # Errors
    /// The program does not know the container, or the container is not running.
    fn process(&self, name: &str) -> Result<Option<u32>> {
        let id = match self.id_words {
            Some(ask) => {
                let Some(ids) = run(self.program, &ask(name))? else { return Ok(None) };
                ids.lines().next().unwrap_or(name).to_owned()
            }
            None => name.to_owned(),
        };
        let Some(said) = run(self.program, &(self.words)(&id))? else { return Ok(None) };
        match said.trim().parse() {
            Ok(0) => bail!("{name} is not running"),
            Ok(process) => Ok(Some(process)),
            Err(_) => bail!("{} says of {name}: {}", self.program, said.trim()),
        }
    }
}

/// Returns the output of a program; `None` if it is not installed.
fn run(program: &str, words: &[String]) -> Result<Option<String>> {
    let output = match Command::new(program).args(words).stdin(Stdio::null()).output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        output => output.with_context(|| program.to_owned())?,
    };
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{program}: {}", said.lines().next().unwrap_or("it gives no reason").trim());
    }
    Ok(Some(String::from_utf8_lossy(&output.stdout).into_owned()))
}

/// Returns the containers of a Compose project, as targets with their IDs.
pub(super) fn containers_of(project: &str) -> Result<Vec<String>> {
    let filter = format!("label=com.docker.compose.project={project}");
    let ask = words(&["ps", "--quiet", "--filter", &filter]);
    for runtime in RUNTIMES.iter().filter(|runtime| runtime.id_words.is_none()) {
        let Some(ids) = run(runtime.program, &ask)? else { continue };
        let ids: Vec<String> =
            ids.lines().map(|id| format!("{}{}", runtime.scheme, id.trim())).collect();
        if !ids.is_empty() {
            return Ok(ids);
        }
    }
    bail!("no container of a project `{project}` is running: `docker compose ls` lists projects")
}

fn all_of(process: u32) -> Target {
    Target { namespace: Some(process.to_string()), interface: None }
}

/// Finds the target of this name.
///
/// # Errors
/// No such interface, process or container exists; the error names the places searched.
pub(super) fn parse(text: &str) -> Result<Target> {
    if let Ok(process) = text.parse::<u32>() {
        return Ok(all_of(process));
    }
    let named =
        RUNTIMES.iter().find_map(|runtime| Some((runtime, text.strip_prefix(runtime.scheme)?)));
    if let Some((runtime, name)) = named {
        let process = runtime.process(name)?;
        return process
            .map(all_of)
            .with_context(|| format!("there is no `{}` here", runtime.program));
    }
    let interface = text.parse::<InterfaceName>();
    let is_there =
        |name: &InterfaceName| name.namespace.is_some() || host::has_interface(&name.interface);
    if let Some(InterfaceName { interface, namespace }) = interface.ok().filter(is_there) {
        return Ok(Target { namespace, interface: Some(interface) });
    }
    let mut asked = Vec::new();
    for runtime in &RUNTIMES {
        match runtime.process(text) {
            Ok(Some(process)) => return Ok(all_of(process)),
            Ok(None) => {}
            Err(error) => asked.push(error.to_string()),
        }
    }
    let mut places = vec!["no interface of that name".to_owned()];
    if asked.is_empty() {
        places.push("no docker, podman or crictl here".to_owned());
    }
    places.extend(asked);
    Err(anyhow!(
        "{text} was not found: {}; the process ID of a container's process works with any runtime",
        places.join("; ")
    ))
}
