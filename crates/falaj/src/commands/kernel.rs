//! `falaj kernel`: reports the kernel that virtual time uses, and whether it is suitable.

use anyhow::Result;
use falaj_guest::boot;
use falaj_guest::kernel;
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `kernel`.
#[derive(clap::Args)]
#[command(after_help = "\
falaj looks for the kernel in this order: --kernel, the environment variable FALAJ_KERNEL,
$XDG_DATA_HOME/falaj/linux, ~/.local/share/falaj/linux, /usr/lib/falaj/linux. `make kernel` builds
and installs one.

Exit status: 0 virtual time is available; 2 it is not, with the reason.")]
pub(crate) struct Args {
    /// Check this kernel.
    #[arg(long, value_name = "FILE")]
    kernel: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    let kernel = kernel::find(args.kernel.as_deref())?;
    boot::check_ptrace()?;
    if args.json {
        let json = json!({
            "path": kernel.path.to_string_lossy(), "named_by": kernel.named_by.word(),
            "release": kernel.release, "fixed_chance": kernel.shares_libraries,
        });
        say!("{}", serde_json::to_string_pretty(&json)?);
        return Ok(ExitCode::SUCCESS);
    }
    say!(
        "{}: user-mode Linux {} with time travel ({})",
        kernel.path.display(),
        kernel.release,
        kernel.named_by.word()
    );
    if !kernel.shares_libraries {
        say!(
            "it uses no shared libraries, so the host's randomness gets into it, and runs differ; \
             `make kernel` builds one without that"
        );
    }
    Ok(ExitCode::SUCCESS)
}
