//! The macros by which commands print. A crate imports all of them by
//! `#[macro_use] extern crate falaj_terminal;`, so that none uses the standard library's
//! `eprintln!` by mistake.

/// Writes a line to standard error.
///
/// The standard library's macro panics if the reader of standard error has gone
/// (`falaj bridge … 2>&1 | head -1`), and it blocks if the reader reads nothing. So a remark would
/// end or stop a link.
#[macro_export]
macro_rules! eprintln {
    ($($words:tt)*) => { $crate::standard_error::line(format_args!($($words)*)) };
}

/// Writes a remark to standard error. A remark is neither a result nor an error, and `--quiet`
/// suppresses it.
#[macro_export]
macro_rules! note {
    ($($words:tt)*) => {
        $crate::output::remark(format_args!($($words)*))
    };
}

/// Writes a line of the result to standard output.
///
/// If the reader has closed the pipe (`falaj plan … | head -1`), the program ends quietly, with the
/// exit status of a program killed by SIGPIPE.
#[macro_export]
macro_rules! say {
    ($($words:tt)*) => { $crate::output::line(format_args!($($words)*)) };
}
