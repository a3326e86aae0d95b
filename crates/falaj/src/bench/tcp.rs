//! x
use anyhow::Result;
use std::process::ExitCode;
#[derive(clap::Args)]
pub(crate) struct Args {}
pub(crate) fn main(_: &Args) -> Result<ExitCode> {
    Ok(ExitCode::SUCCESS)
}
